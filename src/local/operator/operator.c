// SPDX-License-Identifier: Apache-2.0
// The controller: writes the objects and the status of Prometheus and Alertmanager objects, and
// keeps the settings of the engine. Changes are collected for a moment, because a release creates
// many objects at once.
#include "local/operator/operator.h"

#include "base/log.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "codec/yaml.h"
#include "kube/object.h"
#include "local/operator/operator_private.h"

#define COLLECT_MS   100
#define RELOADER     "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1"
#define RELOADER_ARG "--prometheus-config-reloader="

struct operator_controller {
    struct operator_config cfg;
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct operator_watches *watches;
    struct kube_cache *secrets;
    struct local_workqueue *prometheuses, *alertmanagers;
    struct gs_hmap *followed;         // "ns/name" -> struct operator_followed
    struct operator_followed **order; // those with settings, the oldest first
    size_t n_order;
    bool known;    // the objects were listed
    unsigned pass; // of reading the objects
    json_t *sections;
    struct gs_timer *timer; // collects changes
    struct operator_account *account;
    struct operator_kubelets *kubelets;
    struct operator_unselected *unselected;
};

// --- objects ---

// The image of the config-reloader that a Deployment of the operator names.
static const char *reloader_of(const struct local_cluster *c)
{
    size_t pos = 0, i, k;
    json_t *container, *arg;
    for (const json_t *d; (d = kube_cache_next(c->deployments, &pos));)
        json_array_foreach (codec_json_get(d, "spec", "template", "spec", "containers", NULL), i,
                            container)
            json_array_foreach (json_object_get(container, "args"), k, arg)
                if (json_is_string(arg) && gs_starts(json_string_value(arg), RELOADER_ARG))
                    return json_string_value(arg) + strlen(RELOADER_ARG);
    return RELOADER;
}

static const json_t *set_named(const struct operator_controller *o, const json_t *obj,
                               const char *name)
{
    const json_t *set = kube_cache_get(o->cluster->statefulsets, kube_namespace(obj), name);
    const char *owner = codec_json_str(kube_controller_ref(set), "uid", NULL);
    return owner && gs_streq(owner, kube_uid(obj)) ? set : NULL;
}

static void write_status(const struct operator_controller *o, struct local_reconcile *w,
                         enum operator_resource r, const json_t *obj, const json_t *const *sets,
                         size_t n, int64_t shards, const char *failure)
{
    if (!operator_watches_has_status(o->watches, r))
        return;
    json_t *status = operator_status(obj, sets, n, shards, failure);
    const json_t *before = json_object_get(obj, "status");
    if (json_equal(before, status)) {
        json_decref(status);
        return;
    }
    CODEC_AUTO_JSON json_t *changed = json_copy((json_t *)(uintptr_t)obj);
    json_object_set_new(changed, "status", status);
    local_reconcile_update(w, operator_watches_gvr(o->watches, r), changed, "status", NULL, NULL);
}

// With the kind, which items of a list lack. New reference; NULL: it does not exist or ends.
static json_t *object_of(const struct operator_controller *o, enum operator_resource r,
                         const char *kind, const char *ns, const char *name)
{
    const struct kube_cache *cache = operator_watches_cache(o->watches, r);
    const json_t *obj = cache ? kube_cache_get(cache, ns, name) : NULL;
    if (!obj || kube_is_deleting(obj))
        return NULL;
    json_t *copy = json_copy((json_t *)(uintptr_t)obj);
    json_object_set_new(
        copy, "apiVersion",
        codec_json_strf("%s/%s", OPERATOR_GROUP, operator_watches_gvr(o->watches, r).version));
    codec_json_set_str(copy, "kind", kind);
    return copy;
}

static bool is_paused(const json_t *obj)
{
    return codec_json_bool(obj, false, "spec", "paused", NULL);
}

static void put_secret(const struct operator_controller *o, struct local_reconcile *w,
                       json_t *secret)
{
    operator_ensure(w, KUBE_SECRETS,
                    kube_cache_get(o->secrets, kube_namespace(secret), kube_name(secret)), secret);
    json_decref(secret);
}

// The StatefulSet of before must be gone before one with its name is made for another object.
static void put_set(const struct operator_controller *o, struct local_reconcile *w, json_t *set)
{
    const json_t *existing =
        kube_cache_get(o->cluster->statefulsets, kube_namespace(set), kube_name(set));
    if (!operator_ensure(w, KUBE_STATEFULSETS, existing, set))
        local_reconcile_requeue(w, 1000);
    json_decref(set);
}

static json_t *configuration_secret(const json_t *obj, const struct operator_followed *f)
{
    GS_AUTO_FREE char *name = gs_format("prometheus-%s", kube_name(obj));
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_BUF struct gs_buf packed = {0};
    gs_buf_add_str(&text,
                   "# What this Prometheus object adds to the metrics engine of gpuscale up, "
                   "without its monitors.\n");
    if (f && f->sections)
        codec_yaml_dump(f->sections, &text);
    GS_AUTO_ERROR struct gs_error *err = codec_gzip(gs_buf_slice(&text), NULL, NULL, &packed);
    CODEC_AUTO_JSON json_t *none = json_object();
    json_t *secret = operator_secret(obj, name, none);
    GS_AUTO_BUF struct gs_buf base64 = {0};
    if (!err)
        codec_base64_encode(gs_buf_slice(&packed), &base64);
    codec_json_set(secret, json_string(base64.data ? base64.data : ""), "data",
                   "prometheus.yaml.gz", NULL);
    return secret;
}

// Shards that the object no longer has.
static void delete_shards(const struct operator_controller *o, struct local_reconcile *w,
                          const json_t *obj, int64_t from)
{
    for (int64_t i = from;; i++) {
        GS_AUTO_FREE char *name = operator_prometheus_set_name(obj, i);
        if (!set_named(o, obj, name))
            return;
        local_reconcile_delete(w, KUBE_STATEFULSETS, kube_namespace(obj), name, NULL, NULL);
    }
}

static const struct operator_followed *followed_of(const struct operator_controller *o,
                                                   const json_t *obj)
{
    GS_AUTO_FREE char *key = kube_key(obj);
    return gs_hmap_get_str(o->followed, key);
}

static void sync_prometheus(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    const struct operator_controller *o = arg;
    const json_t *sets[32];
    size_t n = 0;
    CODEC_AUTO_JSON json_t *obj = object_of(o, OPERATOR_PROMETHEUSES, "Prometheus", ns, name);
    if (!obj)
        return;
    const struct operator_followed *f = followed_of(o, obj);
    int64_t shards = operator_prometheus_shards(obj);
    if (!is_paused(obj)) {
        CODEC_AUTO_JSON json_t *service = operator_prometheus_service(obj);
        put_secret(o, w, configuration_secret(obj, f));
        operator_ensure_service(w, kube_cache_get(o->cluster->services, ns, kube_name(service)),
                                obj, service);
        const char *reloader = reloader_of(o->cluster);
        for (int64_t i = 0; i < shards; i++)
            put_set(o, w, operator_prometheus_set(obj, i, reloader));
        delete_shards(o, w, obj, shards);
    }
    for (int64_t i = 0; i < shards && n < GS_ARRAY_LEN(sets); i++) {
        GS_AUTO_FREE char *set = operator_prometheus_set_name(obj, i);
        const json_t *found = set_named(o, obj, set);
        if (found)
            sets[n++] = found;
    }
    write_status(o, w, OPERATOR_PROMETHEUSES, obj, sets, n, shards, f ? f->error : NULL);
}

static void sync_alertmanager(void *arg, struct local_reconcile *w, const char *ns,
                              const char *name)
{
    const struct operator_controller *o = arg;
    CODEC_AUTO_JSON json_t *obj = object_of(o, OPERATOR_ALERTMANAGERS, "Alertmanager", ns, name);
    if (!obj)
        return;
    if (!is_paused(obj)) {
        CODEC_AUTO_JSON json_t *service = operator_alertmanager_service(obj);
        put_secret(o, w, operator_alertmanager_secret(obj, o->secrets));
        operator_ensure_service(w, kube_cache_get(o->cluster->services, ns, kube_name(service)),
                                obj, service);
        put_set(o, w, operator_alertmanager_set(obj, reloader_of(o->cluster)));
    }
    GS_AUTO_FREE char *set = gs_format("alertmanager-%s", name);
    const json_t *found = set_named(o, obj, set);
    write_status(o, w, OPERATOR_ALERTMANAGERS, obj, &found, found ? 1 : 0, 1, NULL);
}

// --- settings ---

static int compare_age(const void *a, const void *b)
{
    const struct operator_followed *x = *(struct operator_followed *const *)a,
                                   *y = *(struct operator_followed *const *)b;
    int64_t ms = kube_created_ms(x->obj, 0) - kube_created_ms(y->obj, 0);
    GS_AUTO_FREE char *of_x = kube_key(x->obj), *of_y = kube_key(y->obj);
    if (ms)
        return ms > 0 ? 1 : -1;
    return x->pass != y->pass ? (x->pass > y->pass) - (x->pass < y->pass) : strcmp(of_x, of_y);
}

// Once for each object.
static void report_once(const struct operator_controller *o, struct operator_followed *f)
{
    if (!f->reported)
        operator_report(o->recorder, f->obj, o->order[0]->obj);
    f->reported = true;
}

static void on_merge_problem(void *arg, const json_t *obj, const char *text)
{
    const struct operator_controller *o = arg;
    kube_event(o->recorder, obj, "Warning", "JobNotScraped", "%s", text);
}

static void sort_followed(struct operator_controller *o)
{
    size_t pos = 0;
    void *f;
    free(o->order);
    o->n_order = 0;
    o->order = gs_alloc_array(gs_hmap_len(o->followed) + 1, sizeof(*o->order));
    while (gs_hmap_next(o->followed, &pos, NULL, &f))
        o->order[o->n_order++] = f;
    qsort(o->order, o->n_order, sizeof(*o->order), compare_age);
}

static void set_account(const struct operator_controller *o)
{
    const json_t *obj = o->n_order ? o->order[0]->obj : NULL;
    if (o->account)
        operator_account_set(
            o->account, obj ? kube_namespace(obj) : "default",
            operator_text(json_object_get(obj, "spec"), "serviceAccountName", "default"));
}

static void read_object(struct operator_controller *o, const json_t *item)
{
    GS_AUTO_FREE char *key = kube_key(item);
    CODEC_AUTO_JSON json_t *obj =
        object_of(o, OPERATOR_PROMETHEUSES, "Prometheus", kube_namespace(item), kube_name(item));
    struct operator_followed *f = gs_hmap_get_str(o->followed, key);
    if (!obj)
        return;
    if (!f) {
        gs_hmap_put_str(o->followed, key, f = operator_followed_new());
        f->pass = o->pass;
    }
    GS_AUTO_FREE char *before = gs_strdup(f->error);
    operator_followed_read(f, obj, o->secrets);
    if (f->error && !gs_streq(f->error, before)) {
        gs_warn("up", "Prometheus %s: its previous settings stay: %s", key, f->error);
        kube_event(o->recorder, obj, "Warning", "InvalidConfiguration", "%s", f->error);
    }
}

static bool exists(const struct operator_controller *o, const struct operator_followed *f)
{
    const struct kube_cache *all = operator_watches_cache(o->watches, OPERATOR_PROMETHEUSES);
    const json_t *obj = all ? kube_cache_get(all, kube_namespace(f->obj), kube_name(f->obj)) : NULL;
    return obj && !kube_is_deleting(obj) && gs_streq(kube_uid(obj), kube_uid(f->obj));
}

// Also an object whose name another one has now. The order is not valid any more.
static void drop_deleted(struct operator_controller *o)
{
    for (size_t i = 0; i < o->n_order; i++) {
        GS_AUTO_FREE char *key = kube_key(o->order[i]->obj);
        if (!exists(o, o->order[i]))
            operator_followed_free(gs_hmap_remove_str(o->followed, key));
    }
}

// The engine gets the configuration even if only a selector has changed.
static void read_settings(void *arg)
{
    struct operator_controller *o = arg;
    const struct kube_cache *all = operator_watches_cache(o->watches, OPERATOR_PROMETHEUSES);
    size_t pos = 0;
    if (!operator_watches_synced(o->watches) || !kube_cache_synced(o->secrets) ||
        !kube_cache_synced(o->cluster->namespaces))
        return;
    o->known = true;
    o->pass++;
    drop_deleted(o);
    for (const json_t *item; all && (item = kube_cache_next(all, &pos));)
        read_object(o, item);
    sort_followed(o);
    set_account(o);
    json_t *sections =
        o->n_order ? operator_merge(o->order, o->n_order, on_merge_problem, o) : NULL;
    for (size_t i = 0; i < o->n_order; i++) {
        report_once(o, o->order[i]);
        local_workqueue_add_object(o->prometheuses, o->order[i]->obj); // its Secret
    }
    json_decref(o->sections);
    o->sections = sections;
    o->cfg.on_change(o->cfg.arg);
}

static void collect(struct operator_controller *o)
{
    if (!gs_timer_is_active(o->timer))
        gs_timer_start(o->timer, read_settings, COLLECT_MS);
}

const json_t *operator_sections(const struct operator_controller *o)
{
    return o->sections;
}

// --- selection ---

static const json_t *namespace_of(const struct operator_controller *o, const json_t *obj)
{
    const char *ns = kube_namespace(obj);
    return ns ? kube_cache_get(o->cluster->namespaces, NULL, ns) : NULL;
}

// The oldest object that selects it; NULL: none.
static const struct operator_followed *selecting(const struct operator_controller *o,
                                                 enum engine_config_kind kind, const json_t *obj)
{
    const json_t *ns = namespace_of(o, obj);
    for (size_t i = 0; i < o->n_order; i++)
        if (operator_followed_selects(o->order[i], kind, obj, ns))
            return o->order[i];
    return NULL;
}

enum engine_config_choice operator_choose(void *arg, enum engine_config_kind kind,
                                          const json_t *obj, const json_t **ret_global)
{
    struct operator_controller *o = arg;
    if (!o->known)
        return ENGINE_CONFIG_UNUSED;
    if (!o->n_order)
        return ENGINE_CONFIG_BY_LABELS;
    const struct operator_followed *f = selecting(o, kind, obj);
    if (f) {
        *ret_global = f->global;
        return ENGINE_CONFIG_USED;
    }
    operator_unselected_add(o->unselected, kind, obj);
    return ENGINE_CONFIG_UNUSED;
}

static char *why_not(void *arg, enum engine_config_kind kind, const json_t *obj)
{
    const struct operator_controller *o = arg;
    if (!o->n_order || selecting(o, kind, obj))
        return NULL;
    return operator_followed_why_not(o->order[0], kind, obj, namespace_of(o, obj));
}

// --- changes ---

static void report_unread(const struct operator_controller *o, enum operator_resource r,
                          const json_t *obj)
{
    static const char *const kinds[] = {"Probe", "ScrapeConfig", "AlertmanagerConfig",
                                        "PrometheusAgent", "ThanosRuler"};
    CODEC_AUTO_JSON json_t *copy =
        object_of(o, r, kinds[r - OPERATOR_UNREAD], kube_namespace(obj), kube_name(obj));
    if (copy)
        operator_report_unread(o->recorder, copy);
}

static void on_object(void *arg, enum operator_resource r, const json_t *old_obj,
                      const json_t *new_obj)
{
    struct operator_controller *o = arg;
    const json_t *obj = new_obj ? new_obj : old_obj;
    if (r >= OPERATOR_UNREAD) {
        if (!old_obj)
            report_unread(o, r, new_obj);
        return;
    }
    local_workqueue_add_object(r == OPERATOR_PROMETHEUSES ? o->prometheuses : o->alertmanagers,
                               obj);
    bool same_spec = old_obj && new_obj &&
                     json_equal(json_object_get(old_obj, "spec"), json_object_get(new_obj, "spec"));
    if (r == OPERATOR_PROMETHEUSES && !(same_spec && !kube_is_deleting(obj)))
        collect(o);
}

static void on_synced(void *arg)
{
    collect(arg);
}

// Made objects that change or disappear are written again.
static void enqueue_owner(const struct operator_controller *o, const json_t *made)
{
    const json_t *ref = kube_controller_ref(made);
    const char *kind = codec_json_str(ref, "kind", NULL), *name = codec_json_str(ref, "name", NULL);
    struct local_workqueue *queue = gs_streq(kind, "Prometheus")     ? o->prometheuses
                                    : gs_streq(kind, "Alertmanager") ? o->alertmanagers
                                                                     : NULL;
    if (queue && name)
        local_workqueue_add(queue, kube_namespace(made), name);
}

static void on_secret(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct operator_controller *o = arg;
    const json_t *secret = new_obj ? new_obj : old_obj, *item;
    const struct kube_cache *prometheuses =
                                operator_watches_cache(o->watches, OPERATOR_PROMETHEUSES),
                            *alertmanagers =
                                operator_watches_cache(o->watches, OPERATOR_ALERTMANAGERS);
    size_t pos = 0;
    if (!kube_cache_synced(o->secrets))
        return;
    if (!new_obj)
        enqueue_owner(o, secret);
    while (prometheuses && (item = kube_cache_next(prometheuses, &pos)))
        if (gs_streq(kube_namespace(item), kube_namespace(secret)) &&
            operator_followed_names(item, kube_name(secret)))
            collect(o);
    pos = 0;
    while (alertmanagers && (item = kube_cache_next(alertmanagers, &pos)))
        if (gs_streq(kube_namespace(item), kube_namespace(secret)))
            local_workqueue_add_object(o->alertmanagers, item);
}

static void on_set(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    enqueue_owner(arg, new_obj ? new_obj : old_obj);
}

static void on_namespace(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct operator_controller *o = arg;
    const json_t *before = codec_json_get(old_obj, "metadata", "labels", NULL),
                 *now = codec_json_get(new_obj, "metadata", "labels", NULL);
    if (o->n_order && new_obj && !json_equal(before, now))
        collect(o);
}

// Releases of Helm are large, and nothing here reads them.
static void drop_releases(json_t *secret)
{
    if (gs_streq(codec_json_str(secret, "type", NULL), "helm.sh/release.v1"))
        json_object_del(secret, "data");
}

// --- life ---

static void watch_cluster(struct operator_controller *o)
{
    struct local_cluster *c = o->cluster;
    const struct operator_watches_handlers h = {on_object, on_synced, o};
    const struct kube_cache_handlers secrets = {on_secret, on_synced, o},
                                     sets = {.on_change = on_set, .arg = o},
                                     namespaces = {on_namespace, on_synced, o};
    o->secrets = kube_cache_new(c->loop, c->client, KUBE_SECRETS, NULL, NULL);
    kube_cache_set_trim(o->secrets, drop_releases);
    o->watches = operator_watches_new(c, &h);
    kube_cache_add_handlers(o->secrets, &secrets);
    kube_cache_start(o->secrets);
    kube_cache_add_handlers(c->statefulsets, &sets);
    kube_cache_add_handlers(c->namespaces, &namespaces);
}

struct operator_controller *operator_new(const struct operator_config *cfg)
{
    struct local_cluster *c = cfg->cluster;
    struct operator_controller *o = gs_alloc(sizeof(*o));
    o->cfg = *cfg;
    o->cluster = c;
    o->recorder = kube_recorder_new(c->client, "prometheus-operator", NULL);
    o->followed = gs_hmap_new(operator_followed_free);
    o->timer = gs_timer_new(c->loop, o);
    o->prometheuses = local_workqueue_new(c->loop, c->client, "operator", sync_prometheus, o);
    o->alertmanagers = local_workqueue_new(c->loop, c->client, "operator", sync_alertmanager, o);
    o->unselected = operator_unselected_new(c, o->recorder, why_not, o);
    watch_cluster(o);
    o->kubelets = operator_kubelets_new(c);
    if (cfg->account_dir)
        o->account = operator_account_new(c, cfg->account_dir, cfg->ca_pem);
    return o;
}

void operator_free(struct operator_controller *o)
{
    if (!o)
        return;
    kube_cache_remove_handlers(o->cluster->statefulsets, o);
    kube_cache_remove_handlers(o->cluster->namespaces, o);
    operator_account_free(o->account);
    operator_kubelets_free(o->kubelets);
    operator_unselected_free(o->unselected);
    operator_watches_free(o->watches);
    kube_cache_free(o->secrets);
    local_workqueue_free(o->prometheuses);
    local_workqueue_free(o->alertmanagers);
    gs_timer_free(o->timer);
    kube_recorder_free(o->recorder);
    gs_hmap_free(o->followed);
    free(o->order);
    json_decref(o->sections);
    free(o);
}
