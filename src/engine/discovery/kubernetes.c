// SPDX-License-Identifier: Apache-2.0
// One kubernetes_sd_config: watches the objects of its role. Soon after a change, the groups of the
// changed objects are built again, and those that differ are reported. Changes within the delay are
// handled together. A change of a related object, such as the node of a pod, builds all groups
// again.
#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/discovery/discovery_private.h"
#include "kube/object.h"

#define FIRST_DELAY_MS UINT64_C(50)  // changes within this time are handled together
#define NEXT_DELAY_MS  UINT64_C(500) // minimum time between two updates under constant change
#define FULL_SHARE     20 // building all groups takes at most one part of these of the time
#define IN_CLUSTER_NS  "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

enum { WATCH_ROLE = -1 };

struct watch {
    int what;       // enum discovery_kube_related, or the objects of the role
    const char *ns; // NULL: all namespaces; borrowed from the provider
    struct discovery_informer *cache;
    struct discovery_kubernetes *owner;
};

struct sent { // a group that was reported
    uint64_t fingerprint;
    uint64_t pass;
};

struct discovery_kubernetes {
    struct discovery_informer_cluster *cluster;
    enum engine_config_sd_role role;
    struct engine_config_attach attach;
    char **namespaces;
    size_t n_namespaces;
    struct watch *watches;
    size_t n_watches, watches_cap;
    discovery_update_fn fn;
    void *arg;
    uv_loop_t *loop;
    struct gs_timer *timer;
    uint64_t last_pass_ms; // time of the last update, by the clock of the loop
    uint64_t full_pass_ms; // how long the last update of all groups took
    uint64_t pass;
    struct gs_hmap *sent; // source -> struct sent
    // What the next update builds again.
    bool all;
    struct gs_hmap *changed; // "ns/name" -> the newest object of the role, as json_t
};

// --- looking up ---

static const json_t *find_watched(const struct discovery_kubernetes *s, int what, const char *ns,
                                  const char *name)
{
    for (size_t i = 0; i < s->n_watches; i++) {
        const struct watch *w = &s->watches[i];
        if (w->what != what || (w->ns && !gs_streq(w->ns, ns)))
            continue;
        const json_t *obj = kube_cache_get(discovery_informer_cache(w->cache), ns, name);
        if (obj)
            return obj;
    }
    return NULL;
}

static const json_t *find_object(void *arg, enum discovery_kube_related kind, const char *ns,
                                 const char *name)
{
    return find_watched(arg, (int)kind, ns, name);
}

// --- updates ---

static uint64_t hash_labels(uint64_t seed, const struct metrics_label *l, size_t n)
{
    uint64_t mix[3] = {seed, n, 0};
    seed = gs_hash(mix, sizeof(mix));
    for (size_t i = 0; i < n; i++) {
        uint64_t parts[3] = {seed, gs_hash(l[i].name.data, l[i].name.len),
                             gs_hash(l[i].value.data, l[i].value.len)};
        seed = gs_hash(parts, sizeof(parts));
    }
    return seed;
}

static uint64_t fingerprint(const struct discovery_group *g)
{
    uint64_t h = hash_labels(0, g->labels, g->n_labels);
    for (size_t i = 0; i < g->n_targets; i++)
        h = hash_labels(h, g->targets[i], g->n_target_labels[i]);
    return h;
}

struct group_list {
    struct discovery_group *items;
    size_t len, cap;
};

static void add_object_group(struct group_list *l, struct discovery_group g)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = g;
}

// As in Prometheus, with attach_metadata pods on nodes that the selectors omit are no targets.
static bool is_on_other_node(struct discovery_kubernetes *s, const json_t *obj)
{
    if (s->role != ENGINE_CONFIG_SD_POD || !s->attach.node)
        return false;
    const char *node = kube_pod_node(obj);
    return !node || !find_object(s, DISCOVERY_KUBE_NODE, NULL, node);
}

static void build_object(struct discovery_kubernetes *s, const json_t *obj, struct gs_arena *arena,
                         struct group_list *changed)
{
    const struct discovery_kube_lookup lookup = {find_object, s, s->attach};
    struct discovery_group g;
    discovery_kube_build(s->role, obj, &lookup, arena, &g);
    if (is_on_other_node(s, obj))
        g.n_targets = 0;
    uint64_t print = fingerprint(&g);
    struct sent *sent = gs_hmap_get_str(s->sent, g.source);
    if (!sent) {
        sent = gs_alloc(sizeof(*sent));
        sent->fingerprint = ~print;
        gs_hmap_put_str(s->sent, g.source, sent);
    }
    sent->pass = s->pass;
    if (sent->fingerprint != print)
        add_object_group(changed, g);
    sent->fingerprint = print;
}

static void add_gone(struct discovery_kubernetes *s, struct gs_arena *arena,
                     struct group_list *changed)
{
    size_t pos = 0, first = changed->len;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(s->sent, &pos, &key, &value)) {
        if (((struct sent *)value)->pass != s->pass) {
            char *source = gs_arena_strndup(arena, key.data, key.len);
            add_object_group(changed, (struct discovery_group){.source = source});
        }
    }
    for (size_t i = first; i < changed->len; i++)
        free(gs_hmap_remove_str(s->sent, changed->items[i].source));
}

static bool all_synced(const struct discovery_kubernetes *s)
{
    for (size_t i = 0; i < s->n_watches; i++)
        if (!kube_cache_synced(discovery_informer_cache(s->watches[i].cache)))
            return false;
    return true;
}

static void build_all(struct discovery_kubernetes *s, struct gs_arena *arena,
                      struct group_list *changed)
{
    s->pass++;
    for (size_t i = 0; i < s->n_watches; i++) {
        const struct watch *w = &s->watches[i];
        const json_t *obj;
        for (size_t pos = 0; w->what == WATCH_ROLE &&
                             (obj = kube_cache_next(discovery_informer_cache(w->cache), &pos));)
            build_object(s, obj, arena, changed);
    }
    add_gone(s, arena, changed);
}

static void remove_object(struct discovery_kubernetes *s, const json_t *obj, struct gs_arena *arena,
                          struct group_list *changed)
{
    const struct discovery_kube_lookup lookup = {find_object, s, s->attach};
    struct discovery_group g;
    discovery_kube_build(s->role, obj, &lookup, arena, &g);
    struct sent *sent = gs_hmap_remove_str(s->sent, g.source);
    if (sent)
        add_object_group(changed, (struct discovery_group){.source = g.source});
    free(sent);
}

static void build_changed(struct discovery_kubernetes *s, struct gs_arena *arena,
                          struct group_list *changed)
{
    size_t pos = 0;
    struct gs_slice key;
    void *obj;
    while (gs_hmap_next(s->changed, &pos, &key, &obj)) {
        const json_t *now = find_watched(s, WATCH_ROLE, kube_namespace(obj), kube_name(obj));
        if (now)
            build_object(s, now, arena, changed);
        else
            remove_object(s, obj, arena, changed);
    }
}

static void on_kubernetes_update(void *arg)
{
    struct discovery_kubernetes *s = arg;
    uint64_t begun_ms = (uint64_t)(gs_mono_ns() / GS_NS_PER_MS);
    s->last_pass_ms = uv_now(s->loop);
    if (!all_synced(s))
        return; // on_synced calls this function again
    bool all = s->all || s->pass == 0;
    struct gs_arena arena = {0};
    struct group_list changed = {0};
    if (all)
        build_all(s, &arena, &changed);
    else
        build_changed(s, &arena, &changed);
    gs_hmap_clear(s->changed);
    s->all = false;
    if (changed.len || (all && s->pass == 1))
        s->fn(s->arg, changed.items, changed.len);
    free(changed.items);
    gs_arena_finish(&arena);
    if (all)
        s->full_pass_ms = (uint64_t)(gs_mono_ns() / GS_NS_PER_MS) - begun_ms;
}

static void schedule_update(struct discovery_kubernetes *s)
{
    uint64_t pause = s->all && s->full_pass_ms * FULL_SHARE > NEXT_DELAY_MS
                         ? s->full_pass_ms * FULL_SHARE
                         : NEXT_DELAY_MS;
    if (gs_timer_is_active(s->timer))
        return;
    uint64_t now = uv_now(s->loop), earliest = s->last_pass_ms + pause;
    uint64_t delay =
        s->last_pass_ms && earliest > now + FIRST_DELAY_MS ? earliest - now : FIRST_DELAY_MS;
    gs_timer_start(s->timer, on_kubernetes_update, delay);
}

static void on_object_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    const struct watch *w = arg;
    struct discovery_kubernetes *s = w->owner;
    const json_t *obj = new_obj ? new_obj : old_obj;
    s->all = s->all || w->what != WATCH_ROLE;
    if (!s->all && s->pass > 0) {
        GS_AUTO_FREE char *key = kube_key(obj);
        gs_hmap_put_str(s->changed, key, json_incref((json_t *)obj));
    }
    schedule_update(s);
}

static void on_objects_synced(void *arg)
{
    const struct watch *w = arg;
    schedule_update(w->owner);
}

// --- the provider ---

static void free_object(void *obj)
{
    json_decref(obj);
}

static char *selectors_query(const struct engine_config_selector *s)
{
    struct gs_buf query = {0};
    if (s->label) {
        gs_buf_add_str(&query, "labelSelector=");
        http_encode(gs_slice_of(s->label), &query);
    }
    if (s->field) {
        gs_buf_add_str(&query, query.len ? "&fieldSelector=" : "fieldSelector=");
        http_encode(gs_slice_of(s->field), &query);
    }
    if (query.len)
        return gs_buf_take(&query);
    gs_buf_finish(&query);
    return NULL;
}

static void add_watch(struct discovery_kubernetes *s, int what, struct kube_gvr r, const char *ns,
                      const char *query)
{
    gs_grow(&s->watches, &s->watches_cap, s->n_watches, sizeof(*s->watches));
    struct watch *w = &s->watches[s->n_watches++];
    w->what = what;
    w->ns = ns;
    w->owner = s;
    w->cache = discovery_informer_open(s->cluster, r, ns, query);
}

// queries: of objects, by their role.
static void add_watches(struct discovery_kubernetes *s, char *const *queries)
{
    bool endpoints =
        s->role == ENGINE_CONFIG_SD_ENDPOINTS || s->role == ENGINE_CONFIG_SD_ENDPOINTSLICE;
    bool pods = s->role == ENGINE_CONFIG_SD_POD;
    bool cluster_wide = s->role == ENGINE_CONFIG_SD_NODE;
    size_t n = s->n_namespaces && !cluster_wide ? s->n_namespaces : 1;
    for (size_t i = 0; i < n; i++) {
        const char *ns = s->n_namespaces && !cluster_wide ? s->namespaces[i] : NULL;
        add_watch(s, WATCH_ROLE, discovery_kube_resource(s->role), ns, queries[s->role]);
        if (endpoints) {
            add_watch(s, DISCOVERY_KUBE_POD, KUBE_PODS, ns, queries[ENGINE_CONFIG_SD_POD]);
            add_watch(s, DISCOVERY_KUBE_SERVICE, KUBE_SERVICES, ns,
                      queries[ENGINE_CONFIG_SD_SERVICE]);
        }
        if ((endpoints || pods) && s->attach.deployment)
            add_watch(s, DISCOVERY_KUBE_REPLICASET, KUBE_REPLICASETS, ns, NULL);
        if ((endpoints || pods) && s->attach.cronjob)
            add_watch(s, DISCOVERY_KUBE_JOB, KUBE_JOBS, ns, NULL);
    }
    if (s->attach.node)
        add_watch(s, DISCOVERY_KUBE_NODE, KUBE_NODES, NULL, queries[ENGINE_CONFIG_SD_NODE]);
    if (s->attach.namespace_ && !cluster_wide)
        add_watch(s, DISCOVERY_KUBE_NAMESPACE, KUBE_NAMESPACES, NULL, NULL);
}

static void add_namespace(struct discovery_kubernetes *s, size_t *cap, const char *ns)
{
    gs_grow(&s->namespaces, cap, s->n_namespaces, sizeof(*s->namespaces));
    s->namespaces[s->n_namespaces++] = gs_strdup(ns);
}

static void take_namespaces(struct discovery_kubernetes *s,
                            const struct engine_config_kubernetes_sd *cfg)
{
    size_t cap = 0;
    for (size_t i = 0; i < cfg->n_namespaces; i++)
        add_namespace(s, &cap, cfg->namespaces[i]);
    if (!cfg->own_namespace)
        return;
    GS_AUTO_BUF struct gs_buf own = {0};
    struct gs_error *err = gs_file_read(IN_CLUSTER_NS, 256, &own);
    add_namespace(s, &cap, err || !own.len ? "default" : own.data);
    gs_error_free(err);
}

struct gs_error *discovery_kubernetes_new(struct discovery_informers *informers,
                                          const struct engine_config_kubernetes_sd *cfg,
                                          discovery_update_fn fn, void *arg,
                                          struct discovery_kubernetes **ret)
{
    struct discovery_informer_cluster *cluster;
    struct gs_error *err = discovery_informer_cluster_open(informers, cfg, &cluster);
    if (err)
        return err;
    struct discovery_kubernetes *s = gs_alloc(sizeof(*s));
    s->cluster = cluster;
    s->role = cfg->role;
    s->attach = cfg->attach;
    s->fn = fn;
    s->arg = arg;
    s->sent = gs_hmap_new(free);
    s->changed = gs_hmap_new(free_object);
    s->loop = discovery_informers_loop(informers);
    s->timer = gs_timer_new(s->loop, s);
    take_namespaces(s, cfg);
    char *queries[ENGINE_CONFIG_SD_N_ROLES];
    for (size_t i = 0; i < ENGINE_CONFIG_SD_N_ROLES; i++)
        queries[i] = selectors_query(&cfg->selectors[i]);
    add_watches(s, queries);
    for (size_t i = 0; i < ENGINE_CONFIG_SD_N_ROLES; i++)
        free(queries[i]);
    // Shared caches that are synced already replay their objects here. This only starts the timer.
    for (size_t i = 0; i < s->n_watches; i++) {
        const struct kube_cache_handlers handlers = {on_object_changed, on_objects_synced,
                                                     &s->watches[i]};
        kube_cache_add_handlers(discovery_informer_cache(s->watches[i].cache), &handlers);
    }
    *ret = s;
    return NULL;
}

void discovery_kubernetes_free(struct discovery_kubernetes *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_watches; i++) {
        kube_cache_remove_handlers(discovery_informer_cache(s->watches[i].cache), &s->watches[i]);
        discovery_informer_close(s->watches[i].cache);
    }
    discovery_informer_cluster_close(s->cluster);
    gs_timer_free(s->timer);
    gs_hmap_free(s->sent);
    gs_hmap_free(s->changed);
    for (size_t i = 0; i < s->n_namespaces; i++)
        free(s->namespaces[i]);
    free(s->namespaces);
    free(s->watches);
    free(s);
}
