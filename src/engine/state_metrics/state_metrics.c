// SPDX-License-Identifier: Apache-2.0
// Writes the families of all watched objects as one exposition, when an object has changed since
// the last time. Names of metrics and labels are those of kube-state-metrics.
#include "engine/state_metrics/state_metrics.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/state_metrics/state_metrics_private.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "kube/trim.h"
#include "metrics/write.h"
#include "nodes/inspect/inspect.h"

// The view of the nodes takes at most one part of these of the time.
#define NODES_SHARE  100
#define NODES_MIN_NS GS_NS_PER_SEC

static const struct {
    const char *name;
    struct kube_gvr gvr;
    const struct state_metrics_family *families[2];
} resources[STATE_METRICS_N_RESOURCES] = {
    [STATE_METRICS_PODS] = {"pods",
                            {"", "v1", "pods"},
                            {state_metrics_pod_families, state_metrics_container_families}},
    [STATE_METRICS_NODES] = {"nodes", {"", "v1", "nodes"}, {state_metrics_node_families}},
    [STATE_METRICS_DEPLOYMENTS] = {"deployments",
                                   {"apps", "v1", "deployments"},
                                   {state_metrics_workload_families}},
    [STATE_METRICS_REPLICASETS] = {"replicasets",
                                   {"apps", "v1", "replicasets"},
                                   {state_metrics_replicaset_families}},
    [STATE_METRICS_NAMESPACES] = {"namespaces",
                                  {"", "v1", "namespaces"},
                                  {state_metrics_namespace_families}},
    [STATE_METRICS_HPAS] = {"horizontalpodautoscalers",
                            {"autoscaling", "v2", "horizontalpodautoscalers"},
                            {state_metrics_hpa_families}},
    [STATE_METRICS_DAEMONSETS] = {"daemonsets",
                                  {"apps", "v1", "daemonsets"},
                                  {state_metrics_daemonset_families}},
    [STATE_METRICS_STATEFULSETS] = {"statefulsets",
                                    {"apps", "v1", "statefulsets"},
                                    {state_metrics_statefulset_families}},
    [STATE_METRICS_JOBS] = {"jobs", {"batch", "v1", "jobs"}, {state_metrics_job_families}},
    [STATE_METRICS_CRONJOBS] = {"cronjobs",
                                {"batch", "v1", "cronjobs"},
                                {state_metrics_cronjob_families}},
    [STATE_METRICS_BUDGETS] = {"poddisruptionbudgets",
                               {"policy", "v1", "poddisruptionbudgets"},
                               {state_metrics_budget_families}},
    [STATE_METRICS_QUOTAS] = {"resourcequotas",
                              {"", "v1", "resourcequotas"},
                              {state_metrics_quota_families}},
    [STATE_METRICS_LIMIT_RANGES] = {"limitranges",
                                    {"", "v1", "limitranges"},
                                    {state_metrics_limit_range_families}},
};

struct state_metrics {
    struct kube_cache *caches[STATE_METRICS_N_RESOURCES]; // NULL: not watched
    struct kube_watch_errors *errors[STATE_METRICS_N_RESOURCES];
    struct state_metrics_allow allow[STATE_METRICS_N_RESOURCES];
    uint64_t version, written;
    struct gs_buf text;
    // The text that is being written; in large clusters in several turns.
    struct gs_buf next;
    size_t resource, set, family; // of the next family
    uint64_t next_version;        // of the objects when it was begun; 0: it was not
    bool inspection_current;
    struct state_metrics_incomplete *incomplete;
    // Pools, GPUs and starts, if pods and nodes are watched.
    struct inspect_metrics *inspection;
    uint64_t inspected;   // the version of inspection_text
    int64_t next_inspect; // not before, monotonic nanoseconds
    struct gs_buf inspection_text;
};

static bool find_resource(struct gs_slice name, size_t *ret)
{
    for (size_t i = 0; i < STATE_METRICS_N_RESOURCES; i++) {
        if (gs_slice_eq_str(name, resources[i].name)) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static struct gs_error *unknown_resource(struct gs_slice name)
{
    return gs_error_new(GS_EINVAL, "unknown resource \"" GS_SLICE_FMT "\": known are %s",
                        GS_SLICE_ARG(name), STATE_METRICS_DEFAULT_RESOURCES);
}

static void allow_names(struct state_metrics_allow *a, struct gs_slice names)
{
    size_t cap = a->n;
    while (names.data) {
        struct gs_slice name = gs_slice_trim(gs_slice_cut(&names, ','));
        if (gs_slice_eq_str(name, "*")) {
            a->all = true;
        } else if (name.len) {
            gs_grow(&a->names, &cap, a->n, sizeof(*a->names));
            a->names[a->n++] = gs_slice_dup(name);
        }
    }
}

// "pods=[a,b],nodes=[*]"
static struct gs_error *parse_allowlist(struct state_metrics *s, const char *text)
{
    struct gs_slice rest = gs_slice_trim(gs_slice_of(text));
    while (rest.len) {
        const char *open = memchr(rest.data, '[', rest.len);
        const char *close = open ? memchr(open, ']', rest.len - (size_t)(open - rest.data)) : NULL;
        if (!close || open == rest.data || open[-1] != '=')
            return gs_error_new(GS_EINVAL,
                                "labels allow-list \"%s\": expected resource=[label,…] at byte %zu",
                                text, (size_t)(rest.data - text) + 1);
        struct gs_slice name = gs_slice_make(rest.data, (size_t)(open - 1 - rest.data));
        size_t i;
        if (!find_resource(gs_slice_trim(name), &i))
            return unknown_resource(name);
        allow_names(&s->allow[i], gs_slice_make(open + 1, (size_t)(close - open - 1)));
        const char *next = close + 1, *end = rest.data + rest.len;
        while (next < end && (*next == ',' || *next == ' '))
            next++;
        rest = gs_slice_make(next, (size_t)(end - next));
    }
    return NULL;
}

static void on_state_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    (void)old_obj, (void)new_obj;
    struct state_metrics *s = arg;
    s->version++;
}

static void on_state_synced(void *arg)
{
    struct state_metrics *s = arg;
    s->version++;
}

static bool watches_nodes(const struct state_metrics *s)
{
    return s->caches[STATE_METRICS_PODS] && s->caches[STATE_METRICS_NODES];
}

static void on_pod_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct state_metrics *s = arg;
    inspect_metrics_pod(s->inspection, old_obj, new_obj);
}

static void on_node_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct state_metrics *s = arg;
    int64_t first = 0;
    const json_t *pod;
    // Nodes that appear ready did not appear because of a pod.
    bool appears = !old_obj && !kube_condition_true(new_obj, "Ready");
    for (size_t pos = 0; appears && (pod = kube_cache_next(s->caches[STATE_METRICS_PODS], &pos));) {
        int64_t since = inspect_waiting_since(pod);
        if (since && (!first || since < first))
            first = since;
    }
    inspect_metrics_node(s->inspection, old_obj, new_obj, first);
}

static void inspect_changes(struct state_metrics *s)
{
    if (!watches_nodes(s))
        return;
    s->inspection = inspect_metrics_new();
    kube_cache_add_handlers(s->caches[STATE_METRICS_PODS],
                            &(struct kube_cache_handlers){.on_change = on_pod_changed, .arg = s});
    kube_cache_add_handlers(s->caches[STATE_METRICS_NODES],
                            &(struct kube_cache_handlers){.on_change = on_node_changed, .arg = s});
}

static struct gs_error *watch_resource(struct state_metrics *s, uv_loop_t *loop,
                                       struct kube_client *client, const char *list)
{
    struct gs_slice rest = gs_slice_of(list);
    const struct kube_cache_handlers handlers = {on_state_changed, on_state_synced, s};
    while (rest.data) {
        struct gs_slice name = gs_slice_trim(gs_slice_cut(&rest, ','));
        size_t i;
        if (!find_resource(name, &i))
            return unknown_resource(name);
        if (s->caches[i])
            continue;
        s->caches[i] = kube_cache_new(loop, client, resources[i].gvr, NULL, NULL);
        kube_cache_set_trim(s->caches[i], i == STATE_METRICS_PODS    ? kube_trim_pod
                                          : i == STATE_METRICS_NODES ? kube_trim_node
                                                                     : kube_trim_object);
        kube_cache_add_handlers(s->caches[i], &handlers);
        s->errors[i] = kube_watch_errors_new(loop, s->caches[i], "kube-state", resources[i].name);
        kube_cache_start(s->caches[i]);
    }
    return NULL;
}

struct gs_error *state_metrics_new(uv_loop_t *loop, struct kube_client *client,
                                   const struct state_metrics_config *cfg,
                                   struct state_metrics **ret)
{
    const char *allow =
        cfg && cfg->labels_allowlist ? cfg->labels_allowlist : STATE_METRICS_DEFAULT_ALLOWLIST;
    const char *list = cfg && cfg->resources ? cfg->resources : STATE_METRICS_DEFAULT_RESOURCES;
    struct state_metrics *s = gs_alloc(sizeof(*s));
    s->version = 1;
    s->incomplete = state_metrics_incomplete_new();
    struct gs_error *err = parse_allowlist(s, allow);
    if (!err)
        err = watch_resource(s, loop, client, list);
    if (!err)
        inspect_changes(s);
    if (err) {
        state_metrics_free(s);
        return gs_error_wrap(err, "state of Kubernetes objects");
    }
    *ret = s;
    return NULL;
}

void state_metrics_free(struct state_metrics *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < STATE_METRICS_N_RESOURCES; i++) {
        kube_watch_errors_free(s->errors[i]);
        if (s->caches[i])
            kube_cache_free(s->caches[i]);
        for (size_t k = 0; k < s->allow[i].n; k++)
            free(s->allow[i].names[k]);
        free(s->allow[i].names);
    }
    inspect_metrics_free(s->inspection);
    state_metrics_incomplete_free(s->incomplete);
    gs_buf_finish(&s->inspection_text);
    gs_buf_finish(&s->next);
    gs_buf_finish(&s->text);
    free(s);
}

bool state_metrics_ready(const struct state_metrics *s)
{
    for (size_t i = 0; i < STATE_METRICS_N_RESOURCES; i++)
        if (s->caches[i] && !kube_cache_synced(s->caches[i]) && !kube_cache_error(s->caches[i]))
            return false;
    return true;
}

static void write_family(struct state_metrics *s, size_t resource,
                         const struct state_metrics_family *f)
{
    struct state_metrics_writer w = {
        .out = &s->next, .family = f->name, .field = &f->field, .allow = &s->allow[resource]};
    metrics_write_family(&s->next, f->name, f->type, f->help);
    const json_t *obj;
    for (size_t pos = 0; (obj = kube_cache_next(s->caches[resource], &pos));) {
        state_metrics_next_object(&w);
        f->write(&w, obj);
        if (w.cut)
            state_metrics_incomplete_add(s->incomplete, resources[resource].name, obj, f->name,
                                         w.cut);
    }
}

// Writes the next family. False: there are no more.
static bool write_next_family(struct state_metrics *s)
{
    while (s->resource < STATE_METRICS_N_RESOURCES) {
        const struct kube_cache *cache = s->caches[s->resource];
        const struct state_metrics_family *families =
            cache && kube_cache_synced(cache) && s->set < GS_ARRAY_LEN(resources[0].families)
                ? resources[s->resource].families[s->set]
                : NULL;
        if (families && families[s->family].name) {
            write_family(s, s->resource, &families[s->family++]);
            return true;
        }
        s->family = 0;
        if (!families || ++s->set == GS_ARRAY_LEN(resources[0].families)) {
            s->set = 0;
            s->resource++;
        }
    }
    return false;
}

// In large clusters the view costs too much for each change: it is then older than the rest. True:
// it is of the current version.
static bool inspect_state(struct state_metrics *s)
{
    int64_t now = gs_mono_ns();
    if (!s->inspection || s->inspected == s->version ||
        !kube_cache_synced(s->caches[STATE_METRICS_PODS]) ||
        !kube_cache_synced(s->caches[STATE_METRICS_NODES]))
        return true;
    if (now < s->next_inspect)
        return false;
    CODEC_AUTO_JSON json_t *nodes = kube_cache_objects(s->caches[STATE_METRICS_NODES]);
    CODEC_AUTO_JSON json_t *pods = kube_cache_objects(s->caches[STATE_METRICS_PODS]);
    const struct inspect_input in = {.nodes = nodes, .pods = pods, .now_ms = gs_unix_ms()};
    gs_buf_clear(&s->inspection_text);
    inspect_metrics_write(s->inspection, &in, &s->inspection_text);
    int64_t pause = (gs_mono_ns() - now) * NODES_SHARE;
    s->next_inspect = now + (pause > NODES_MIN_NS ? pause : NODES_MIN_NS);
    s->inspected = s->version;
    return true;
}

static void begin_text(struct state_metrics *s)
{
    s->inspection_current = inspect_state(s);
    s->next_version = s->version;
    s->resource = s->set = s->family = 0;
    gs_buf_clear(&s->next);
    state_metrics_incomplete_begin(s->incomplete);
}

static void end_text(struct state_metrics *s)
{
    gs_buf_add(&s->next, s->inspection_text.data, s->inspection_text.len);
    struct gs_buf old = s->text;
    s->text = s->next;
    s->next = old;
    if (s->inspection_current)
        s->written = s->next_version;
    s->next_version = 0;
}

bool state_metrics_write(struct state_metrics *s, int64_t turn_ns)
{
    int64_t begun = gs_mono_ns();
    if (s->written == s->version && !s->next_version)
        return true;
    if (!s->next_version)
        begin_text(s);
    while (write_next_family(s))
        if (gs_mono_ns() - begun > turn_ns)
            return false;
    end_text(s);
    return true;
}

struct gs_slice state_metrics_text(struct state_metrics *s)
{
    s->next_version = 0; // a text that was begun may be older than the objects
    state_metrics_write(s, INT64_MAX);
    return gs_buf_slice(&s->text);
}

struct gs_slice state_metrics_written(const struct state_metrics *s)
{
    return gs_buf_slice(&s->text);
}

size_t state_metrics_incomplete_objects(const struct state_metrics *s)
{
    return state_metrics_incomplete_count(s->incomplete);
}
