// SPDX-License-Identifier: Apache-2.0
// Watches ServiceMonitors and PodMonitors, and the Secrets and ConfigMaps that they name, and
// keeps one set of jobs for each object. An object with a mistake loses only its own jobs; one
// that waits for a Secret keeps its previous jobs.
#include "engine/monitors/monitors.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/monitors/monitors_private.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "kube/selector.h"

#define GROUP "monitoring.coreos.com"

// A Secret or ConfigMap that a monitor refers to. Each is watched individually, because permission
// to read all Secrets is too broad.
struct asset {
    struct monitors *owner;
    enum monitors_asset kind;
    char *ns, *name;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    unsigned users;
    struct asset *next;
};

struct monitor {
    struct monitors *owner;
    enum monitors_kind kind;
    char *name; // "serviceMonitor/NS/NAME"; also the name of its set of jobs
    json_t *obj;
    json_t *global;            // defaults that differ from those of all monitors; NULL: none
    struct engine_config *cfg; // the configuration of its jobs; NULL: none
    char *error, *warning;
    char *left_out; // why an endpoint has no job, although others have; NULL: all have
    bool waiting;
    struct asset **assets; // the assets that it referred to when it was last read
    size_t n_assets, assets_cap;
};

struct watched { // ServiceMonitors or PodMonitors
    struct monitors *owner;
    enum monitors_kind kind;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    const char *selector_text; // borrowed; NULL: all objects
    struct kube_selector selector;
};

struct monitors {
    uv_loop_t *loop;
    struct kube_client *client;
    struct scrape_manager *scrapes;
    struct watched watched[MONITORS_KINDS];
    struct gs_hmap *by_name; // name -> struct monitor
    struct asset *assets;
    json_t *global; // the defaults, in the form of the configuration
    const struct engine_config_selection *selection; // borrowed; NULL: by labels
    const char *account_dir;                         // borrowed; NULL: none
};

// --- Secrets and ConfigMaps ---

static void read_monitor(struct monitor *m);

static bool uses(const struct monitor *m, const struct asset *a)
{
    for (size_t i = 0; i < m->n_assets; i++)
        if (m->assets[i] == a)
            return true;
    return false;
}

static void asset_release(struct asset *a);

static void asset_changed(struct asset *a)
{
    size_t pos = 0;
    void *m;
    struct gs_hmap *all = a->owner->by_name;
    a->users++; // keep it while the monitors that use it are read
    while (gs_hmap_next(all, &pos, NULL, &m))
        if (uses(m, a))
            read_monitor(m);
    asset_release(a);
}

static void on_asset(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct asset *a = arg;
    if (kube_cache_synced(a->cache) &&
        !json_equal(codec_json_get(old_obj, "data", NULL), codec_json_get(new_obj, "data", NULL)))
        asset_changed(a);
}

static void on_asset_synced(void *arg)
{
    asset_changed(arg);
}

static struct asset *asset_open(struct monitors *o, enum monitors_asset kind, const char *ns,
                                const char *name)
{
    static const struct kube_gvr resources[] = {
        [MONITORS_SECRET] = KUBE_SECRETS, [MONITORS_CONFIGMAP] = KUBE_CONFIGMAPS};
    for (struct asset *a = o->assets; a; a = a->next)
        if (a->kind == kind && gs_streq(a->ns, ns) && gs_streq(a->name, name))
            return a;
    struct asset *a = gs_alloc(sizeof(*a));
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_FREE char *selector = gs_format("metadata.name=%s", name);
    gs_buf_add_str(&query, "fieldSelector=");
    http_encode(gs_slice_of(selector), &query);
    a->owner = o;
    a->kind = kind;
    a->ns = gs_strdup(ns);
    a->name = gs_strdup(name);
    a->cache = kube_cache_new(o->loop, o->client, resources[kind], ns, query.data);
    const struct kube_cache_handlers handlers = {on_asset, on_asset_synced, a};
    kube_cache_add_handlers(a->cache, &handlers);
    kube_cache_start(a->cache);
    GS_AUTO_FREE char *what =
        gs_format("%s %s/%s", kind == MONITORS_SECRET ? "Secret" : "ConfigMap", ns, name);
    a->errors = kube_watch_errors_new(o->loop, a->cache, "monitors", what);
    a->next = o->assets;
    o->assets = a;
    return a;
}

static void asset_free(struct asset *a)
{
    kube_watch_errors_free(a->errors);
    kube_cache_free(a->cache);
    free(a->ns);
    free(a->name);
    free(a);
}

static void asset_release(struct asset *a)
{
    struct asset **link = &a->owner->assets;
    if (--a->users)
        return;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    asset_free(a);
}

static void assets_release(struct asset **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        asset_release(list[i]);
    free(list);
}

static const json_t *look_up(void *arg, enum monitors_asset kind, const char *name,
                             bool *ret_pending)
{
    struct monitor *m = arg;
    const char *ns = kube_namespace(m->obj);
    struct asset *a = asset_open(m->owner, kind, ns, name);
    if (!uses(m, a)) {
        gs_grow(&m->assets, &m->assets_cap, m->n_assets, sizeof(struct asset *));
        m->assets[m->n_assets++] = a;
        a->users++;
    }
    *ret_pending = !kube_cache_synced(a->cache);
    return *ret_pending ? NULL : kube_cache_get(a->cache, ns, name);
}

// --- one monitor ---

static void report_left_out(struct monitor *m, const struct gs_error *err)
{
    const char *text = err ? gs_error_message(err) : NULL;
    if (text && !gs_streq(text, m->left_out))
        gs_warn("monitors", "%s: has no job for an endpoint: %s", m->name, text);
    free(m->left_out);
    m->left_out = gs_strdup(text);
}

// The defaults of its jobs. New reference; NULL: none.
static json_t *defaults_of(const struct monitor *m)
{
    json_t *global = json_copy(m->owner->global);
    if (!m->global)
        return global;
    if (!global)
        global = json_object();
    // The timeout belongs to the interval.
    if (json_object_get(m->global, "scrape_interval"))
        json_object_del(global, "scrape_timeout");
    json_object_update(global, m->global);
    return global;
}

static struct gs_error *make_config(struct monitor *m, struct engine_config **ret)
{
    CODEC_AUTO_JSON json_t *global = defaults_of(m);
    struct monitors_build b = {.kind = m->kind,
                               .obj = m->obj,
                               .lookup = look_up,
                               .arg = m,
                               .global = global,
                               .account_dir = m->owner->account_dir,
                               .keep_valid = true};
    CODEC_AUTO_JSON json_t *jobs = NULL;
    struct gs_error *err = monitors_jobs(&b, &jobs);
    m->waiting = !err && b.pending;
    if (!err && jobs)
        err = monitors_config(&b, jobs, ret);
    if (!m->waiting)
        report_left_out(m, b.left_out);
    gs_error_free(b.left_out);
    return err;
}

// The configuration must outlive the jobs that use it.
static void apply_monitor(struct monitor *m, struct engine_config *cfg)
{
    struct engine_config *old = m->cfg;
    scrape_manager_apply_extra(m->owner->scrapes, m->name, cfg ? cfg->scrapes : NULL,
                               cfg ? cfg->n_scrapes : 0);
    m->cfg = cfg;
    engine_config_free(old);
}

static void report_monitor_error(struct monitor *m, struct gs_error *err)
{
    const char *text = err ? gs_error_message(err) : NULL;
    if (text && !gs_streq(text, m->error))
        gs_warn("monitors", "%s: no jobs: %s", m->name, text);
    else if (!text && m->error && !m->waiting)
        gs_info("monitors", "%s: fixed, its jobs are scraped", m->name);
    if (text || !m->waiting) {
        free(m->error);
        m->error = gs_strdup(text);
    }
    for (size_t i = 0; m->cfg && i < m->cfg->n_ignored; i++)
        gs_warn("monitors", "%s: %s", m->name, m->cfg->ignored[i]);
}

static void report_doubles(struct monitor *m)
{
    char *text = monitors_doubles(m->kind, json_object_get(m->obj, "spec"));
    if (text && !gs_streq(text, m->warning))
        gs_warn("monitors", "%s: %s", m->name, text);
    free(m->warning);
    m->warning = text;
}

// Until all Secrets are cached, the existing jobs continue.
static void read_monitor(struct monitor *m)
{
    struct asset **before = m->assets;
    size_t n_before = m->n_assets;
    struct engine_config *cfg = NULL;
    m->assets = NULL;
    m->n_assets = m->assets_cap = 0;
    GS_AUTO_ERROR struct gs_error *err = make_config(m, &cfg);
    assets_release(before, n_before);
    if (!m->waiting)
        apply_monitor(m, cfg);
    report_monitor_error(m, err);
    report_doubles(m);
}

static void monitor_free(void *arg)
{
    struct monitor *m = arg;
    assets_release(m->assets, m->n_assets);
    engine_config_free(m->cfg);
    json_decref(m->obj);
    json_decref(m->global);
    free(m->error);
    free(m->warning);
    free(m->left_out);
    free(m->name);
    free(m);
}

// --- all of them ---

// Objects that are not selected are named, because their authors expect jobs.
static bool has_labels(const struct watched *w, const json_t *old_obj, const json_t *obj)
{
    const json_t *before = codec_json_get(old_obj, "metadata", "labels", NULL),
                 *labels = codec_json_get(obj, "metadata", "labels", NULL);
    if (!w->selector_text || kube_selector_matches(&w->selector, labels))
        return true;
    GS_AUTO_FREE char *name = monitors_name(w->kind, obj);
    if (!old_obj || kube_selector_matches(&w->selector, before))
        gs_warn("monitors", "%s: not selected: its labels do not match the selector %s", name,
                w->selector_text);
    return false;
}

// *ret_global: see struct engine_config_selection.
static bool is_selected(const struct watched *w, const json_t *old_obj, const json_t *obj,
                        const json_t **ret_global)
{
    static const enum engine_config_kind kinds[] = {[MONITORS_SERVICE] =
                                                        ENGINE_CONFIG_SERVICE_MONITOR,
                                                    [MONITORS_POD] = ENGINE_CONFIG_POD_MONITOR};
    const struct engine_config_selection *s = w->owner->selection;
    enum engine_config_choice choice =
        s ? s->of(s->arg, kinds[w->kind], obj, ret_global) : ENGINE_CONFIG_BY_LABELS;
    return choice == ENGINE_CONFIG_BY_LABELS ? has_labels(w, old_obj, obj)
                                             : choice == ENGINE_CONFIG_USED;
}

// obj NULL: its jobs end.
static void set_monitor(struct monitors *o, enum monitors_kind kind, char *name, const json_t *obj,
                        const json_t *global)
{
    struct monitor *m = gs_hmap_get_str(o->by_name, name);
    if (!obj && m) {
        apply_monitor(m, NULL);
        gs_hmap_remove_str(o->by_name, name);
        monitor_free(m);
    }
    if (!obj ||
        (m && codec_json_same(codec_json_get(m->obj, "spec", NULL), json_object_get(obj, "spec")) &&
         codec_json_same(m->global, global)))
        return;
    if (!m) {
        m = gs_alloc(sizeof(*m));
        m->owner = o;
        m->kind = kind;
        m->name = gs_strdup(name);
        gs_hmap_put_str(o->by_name, m->name, m);
    }
    json_decref(m->obj);
    m->obj = json_incref((json_t *)(uintptr_t)obj);
    json_decref(m->global);
    m->global = json_incref((json_t *)(uintptr_t)global);
    read_monitor(m);
}

static void on_monitor_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct watched *w = arg;
    const json_t *global = NULL;
    GS_AUTO_FREE char *name = monitors_name(w->kind, new_obj ? new_obj : old_obj);
    bool selected = new_obj && is_selected(w, old_obj, new_obj, &global);
    set_monitor(w->owner, w->kind, name, selected ? new_obj : NULL, global);
}

void monitors_select_again(struct monitors *o)
{
    for (size_t i = 0; i < MONITORS_KINDS; i++) {
        size_t pos = 0;
        for (const json_t *obj; (obj = kube_cache_next(o->watched[i].cache, &pos));)
            on_monitor_changed(&o->watched[i], obj, obj);
    }
}

static void watch_kind(struct monitors *o, enum monitors_kind kind, const char *resource,
                       const char *selector)
{
    struct watched *w = &o->watched[kind];
    struct gs_error *err = kube_selector_parse(selector, &w->selector);
    if (err)
        gs_warn("monitors", "all objects are selected: %s", gs_error_message(err));
    else
        w->selector_text = selector;
    gs_error_free(err);
    w->owner = o;
    w->kind = kind;
    w->cache =
        kube_cache_new(o->loop, o->client, (struct kube_gvr){GROUP, "v1", resource}, NULL, NULL);
    const struct kube_cache_handlers handlers = {.on_change = on_monitor_changed, .arg = w};
    kube_cache_add_handlers(w->cache, &handlers);
    kube_cache_start(w->cache);
    w->errors = kube_watch_errors_new(o->loop, w->cache, "monitors",
                                      kind == MONITORS_SERVICE ? "ServiceMonitor objects"
                                                               : "PodMonitor objects");
}

struct monitors *monitors_new(uv_loop_t *loop, struct kube_client *client,
                              struct scrape_manager *scrapes,
                              const struct monitors_selectors *selectors)
{
    struct monitors *o = gs_alloc(sizeof(*o));
    o->loop = loop;
    o->client = client;
    o->scrapes = scrapes;
    o->by_name = gs_hmap_new(monitor_free);
    o->selection = selectors ? selectors->selection : NULL;
    o->account_dir = selectors ? selectors->account_dir : NULL;
    watch_kind(o, MONITORS_SERVICE, "servicemonitors", selectors ? selectors->services : NULL);
    watch_kind(o, MONITORS_POD, "podmonitors", selectors ? selectors->pods : NULL);
    return o;
}

// Protocols in the form of scrape_protocols. NULL: none.
static json_t *texts(const char *const *items, size_t n)
{
    json_t *list = items ? json_array() : NULL;
    for (size_t i = 0; items && i < n; i++)
        json_array_append_new(list, json_string(items[i]));
    return list;
}

static void set_limit(json_t *global, const char *key, size_t limit, const char *unit)
{
    if (limit)
        json_object_set_new(global, key, codec_json_strf("%zu%s", limit, unit));
}

void monitors_set_defaults(struct monitors *o, const struct engine_config *cfg)
{
    json_t *global = json_object();
    const struct engine_config_scrape_config *d = &cfg->defaults;
    json_object_set_new(global, "scrape_interval",
                        codec_json_strf("%lldms", (long long)cfg->scrape_interval_ms));
    json_object_set_new(global, "scrape_timeout",
                        codec_json_strf("%lldms", (long long)cfg->scrape_timeout_ms));
    set_limit(global, "sample_limit", d->sample_limit, "");
    set_limit(global, "target_limit", d->target_limit, "");
    set_limit(global, "label_limit", d->label_limit, "");
    set_limit(global, "label_name_length_limit", d->label_name_length_limit, "");
    set_limit(global, "label_value_length_limit", d->label_value_length_limit, "");
    set_limit(global, "body_size_limit", d->body_size_limit, "B");
    json_object_set_new(global, "scrape_protocols", texts(d->protocols, d->n_protocols));
    codec_json_set_str(global, "metric_name_validation_scheme", d->validation_scheme);
    codec_json_set_str(global, "metric_name_escaping_scheme", d->escaping_scheme);
    bool same = json_equal(global, o->global);
    json_decref(o->global);
    o->global = global;
    size_t pos = 0;
    void *m;
    while (!same && gs_hmap_next(o->by_name, &pos, NULL, &m))
        read_monitor(m);
}

void monitors_free(struct monitors *o)
{
    if (!o)
        return;
    for (size_t i = 0; i < MONITORS_KINDS; i++) {
        kube_watch_errors_free(o->watched[i].errors);
        kube_cache_free(o->watched[i].cache);
        kube_selector_finish(&o->watched[i].selector);
    }
    gs_hmap_free(o->by_name);
    json_decref(o->global);
    free(o);
}

struct monitors_count monitors_count(const struct monitors *o)
{
    struct monitors_count n = {0};
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(o->by_name, &pos, NULL, &value)) {
        const struct monitor *m = value;
        n.waiting += m->waiting;
        n.rejected += !m->waiting && (m->error || m->left_out);
        n.selected += m->cfg != NULL;
    }
    return n;
}

const char *monitors_error(const struct monitors *o, const char *name)
{
    const struct monitor *m = gs_hmap_get_str(o->by_name, name);
    if (!m)
        return NULL;
    return m->error ? m->error : m->left_out;
}

const char *monitors_warning(const struct monitors *o, size_t *pos, const char **ret_name)
{
    void *value;
    while (gs_hmap_next(o->by_name, pos, NULL, &value)) {
        const struct monitor *m = value;
        if (!m->warning)
            continue;
        *ret_name = m->name;
        return m->warning;
    }
    return NULL;
}

// Without a cluster, all Secrets and ConfigMaps are unknown.
static const json_t *nothing_known(void *arg, enum monitors_asset kind, const char *name,
                                   bool *ret_pending)
{
    (void)arg, (void)kind, (void)name;
    *ret_pending = true;
    return NULL;
}

static void add_warnings(const struct engine_config *cfg, char *doubles, json_t *warnings)
{
    for (size_t i = 0; i < cfg->n_ignored; i++)
        json_array_append_new(warnings, json_string(cfg->ignored[i]));
    if (doubles)
        json_array_append_new(warnings, json_string(doubles));
    free(doubles);
}

struct gs_error *monitors_check(const json_t *obj, const char *file,
                                const struct codec_yaml_marks *marks, json_t *warnings)
{
    static const char *const of_kind[] = {
        [MONITORS_SERVICE] = "ServiceMonitor", [MONITORS_POD] = "PodMonitor"};
    for (size_t i = 0; i < MONITORS_KINDS; i++) {
        if (!gs_streq(kube_kind(obj), of_kind[i]))
            continue;
        GS_CLEANUP(engine_config_freep) struct engine_config *cfg = NULL;
        struct monitors_build b = {
            .kind = (enum monitors_kind)i, .obj = obj, .lookup = nothing_known};
        CODEC_AUTO_JSON json_t *jobs = NULL;
        struct gs_error *err = monitors_jobs(&b, &jobs);
        if (err || !jobs)
            return err;
        CODEC_AUTO_JSON json_t *doc = json_pack("{s:O}", "scrape_configs", jobs);
        err = engine_config_from_document(doc, file, NULL, marks, &cfg);
        if (!err)
            add_warnings(cfg, monitors_doubles(b.kind, json_object_get(obj, "spec")), warnings);
        return err;
    }
    return NULL;
}
