// SPDX-License-Identifier: Apache-2.0
// Feeds the learner of start-up times from the cache of pods, and from watches of their events and
// of the nodes, which are opened for the first autoscaler that needs them. Events that say nothing
// about a start are left out by the API server. Without permission for nodes, GPU models are those
// that pods select.
#include "hpa_controller/starts.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/timer.h"
#include "hpa/hpa.h"
#include "hpa_controller/placeholder.h"
#include "kube/object.h"

#define EVENTS_QUERY                                                                               \
    "fieldSelector=involvedObject.kind%3DPod%2Creason%21%3DScheduled%2Creason%21%3DCreated"        \
    "%2Creason%21%3DStarted%2Creason%21%3DKilling%2Creason%21%3DUnhealthy%2Creason%21%3DBackOff"   \
    "%2Creason%21%3DFailedScheduling"

#define NODES_WAIT_MS 2000

struct hpa_starts {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_cache *pods, *events, *nodes; // nodes NULL: only one namespace is read
    struct kube_watch_errors *errors, *node_errors;
    struct gs_timer *timer; // until pods are observed without nodes
    bool observes;
    struct startup_learner *learner; // NULL: not wanted yet
    json_t *restored;                // for the learner; NULL: nothing
    char *ns;
};

struct hpa_starts *hpa_starts_new(uv_loop_t *loop, struct kube_client *client,
                                  struct kube_cache *pods, const char *ns)
{
    struct hpa_starts *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->client = client;
    s->pods = pods;
    s->ns = gs_strdup(ns);
    return s;
}

void hpa_starts_free(struct hpa_starts *s)
{
    if (!s)
        return;
    if (s->observes)
        kube_cache_remove_handlers(s->pods, s);
    gs_timer_free(s->timer);
    kube_watch_errors_free(s->errors);
    kube_watch_errors_free(s->node_errors);
    kube_cache_free(s->events);
    kube_cache_free(s->nodes);
    startup_learner_free(s->learner);
    json_decref(s->restored);
    free(s->ns);
    free(s);
}

// --- learning ---

static void on_pod(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_starts *s = arg;
    const char *name = new_obj ? kube_pod_node(new_obj) : NULL;
    const json_t *node = s->nodes && name ? kube_cache_get(s->nodes, NULL, name) : NULL;
    if (new_obj && hpa_is_placeholder_pod(new_obj))
        return; // it loads nothing, so its start is no example
    if (new_obj)
        startup_observe_pod(s->learner, new_obj, node, gs_unix_ms());
    else
        startup_forget_pod(s->learner, old_obj, gs_unix_ms());
}

static void on_event(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_starts *s = arg;
    (void)old_obj;
    if (new_obj)
        startup_observe_event(s->learner, new_obj, gs_unix_ms());
}

static void trim_event(json_t *event)
{
    codec_json_del(event, "metadata", "managedFields", NULL);
    codec_json_del(event, "source", NULL);
}

// Only metadata is read.
static void trim_node(json_t *node)
{
    json_object_del(node, "spec");
    json_object_del(node, "status");
    codec_json_del(node, "metadata", "managedFields", NULL);
    codec_json_del(node, "metadata", "annotations", NULL);
}

static void observe_pods(void *arg)
{
    struct hpa_starts *s = arg;
    const struct kube_cache_handlers on_pods = {.on_change = on_pod, .arg = s};
    gs_timer_stop(s->timer);
    if (!s->observes)
        kube_cache_add_handlers(s->pods, &on_pods);
    s->observes = true;
}

// Pods are observed when the nodes are there, and without them if they cannot be read.
static void read_nodes(struct hpa_starts *s)
{
    const struct kube_cache_handlers on_nodes = {.on_synced = observe_pods, .arg = s};
    s->nodes = kube_cache_new(s->loop, s->client, KUBE_NODES, NULL, NULL);
    kube_cache_set_trim(s->nodes, trim_node);
    kube_cache_add_handlers(s->nodes, &on_nodes);
    s->node_errors = kube_watch_errors_new(s->loop, s->nodes, "hpa", "nodes");
    kube_cache_start(s->nodes);
    gs_timer_start(s->timer, observe_pods, NODES_WAIT_MS);
}

static void read_events(struct hpa_starts *s)
{
    const struct kube_cache_handlers on_events = {.on_change = on_event, .arg = s};
    s->events = kube_cache_new(s->loop, s->client, KUBE_EVENTS, s->ns, EVENTS_QUERY);
    kube_cache_set_trim(s->events, trim_event);
    kube_cache_add_handlers(s->events, &on_events);
    s->errors = kube_watch_errors_new(s->loop, s->events, "hpa", "events of pods");
    kube_cache_start(s->events);
}

static void use_restored(struct hpa_starts *s)
{
    GS_AUTO_ERROR struct gs_error *err =
        s->restored ? startup_learner_restore(s->learner, s->restored, gs_unix_ms()) : NULL;
    if (err)
        gs_warn("hpa", "%s", gs_error_message(err));
    json_decref(GS_TAKE(s->restored));
}

void hpa_starts_restore(struct hpa_starts *s, const json_t *learned)
{
    json_decref(s->restored);
    s->restored = json_incref((json_t *)learned);
    if (s->learner)
        use_restored(s);
}

static void begin(struct hpa_starts *s)
{
    s->learner = startup_learner_new();
    use_restored(s);
    s->timer = gs_timer_new(s->loop, s);
    read_events(s);
    if (s->ns)
        observe_pods(s);
    else
        read_nodes(s);
}

void hpa_starts_want(struct hpa_starts *s, const json_t *hpa)
{
    bool to_zero = codec_json_int(hpa, 1, "spec", "minReplicas", NULL) == 0;
    if (!s->learner && (to_zero || gs_streq(kube_annotation(hpa, HPA_CREDIT_ANNOTATION), "true") ||
                        kube_annotation(hpa, HPA_LATENCY_ANNOTATION)))
        begin(s);
}

void hpa_starts_need(struct hpa_starts *s)
{
    if (!s->learner)
        begin(s);
}

struct kube_cache *hpa_starts_nodes(const struct hpa_starts *s)
{
    return s->nodes;
}

int64_t hpa_starts_expected_ms(const struct hpa_starts *s, const char *ns, const char *workload)
{
    struct startup_expected e;
    if (!s->learner)
        return STARTUP_DEFAULT_MS;
    startup_expected_of_workload(s->learner, ns, workload, &e);
    return e.total.p90_ms;
}

struct startup_learner *hpa_starts_learner(const struct hpa_starts *s)
{
    return s->learner;
}

// --- the pods of an autoscaler ---

static const json_t *next_pod(const struct hpa_starts *s, const char *ns,
                              const struct kube_selector *selector, size_t *pos)
{
    return selector ? kube_cache_select(s->pods, ns, selector, pos) : NULL;
}

const struct hpa_start *hpa_starts_pods(const struct hpa_starts *s, const char *ns,
                                        const struct kube_selector *selector, int64_t now_ms,
                                        struct gs_arena *arena, size_t *ret_n)
{
    size_t n = 0, all = 0, pos = 0;
    const json_t *pod;
    if (!s->learner || !selector)
        return NULL;
    while (next_pod(s, ns, selector, &pos))
        all++;
    struct hpa_start *out = gs_arena_alloc(arena, (all + 1) * sizeof(*out));
    pos = 0;
    while ((pod = next_pod(s, ns, selector, &pos))) {
        out[n].pod = pod;
        startup_progress_of(s->learner, pod, now_ms, &out[n].progress);
        n += out[n].progress.state != STARTUP_ENDED;
    }
    *ret_n = n;
    return out;
}

// Returns the workload of the pods, which the caller frees. NULL: nothing is learned, or no pod
// matches.
static char *read_coming(const struct hpa_starts *s, const char *ns,
                         const struct kube_selector *selector, int64_t now_ms,
                         struct startup_coming *ret, struct startup_expected *ret_expected)
{
    struct startup_progress p;
    char *workload = NULL;
    const json_t *pod;
    size_t pos = 0;
    *ret = (struct startup_coming){0};
    while (s->learner && (pod = next_pod(s, ns, selector, &pos))) {
        startup_progress_of(s->learner, pod, now_ms, &p);
        startup_coming_add(ret, &p, now_ms);
        if (!workload)
            workload = kube_workload(pod);
    }
    if (workload) {
        startup_expected_of_workload(s->learner, ns, workload, ret_expected);
        ret->start_ms = ret_expected->total.p90_ms;
    }
    return workload;
}

bool hpa_starts_coming(const struct hpa_starts *s, const char *ns,
                       const struct kube_selector *selector, int64_t now_ms,
                       struct startup_coming *ret)
{
    struct startup_expected e;
    struct startup_coming coming;
    GS_AUTO_FREE char *workload = read_coming(s, ns, selector, now_ms, &coming, &e);
    if (workload)
        *ret = coming;
    return workload != NULL;
}

json_t *hpa_starts_json(const struct hpa_starts *s, const char *ns,
                        const struct kube_selector *selector, int64_t now_ms)
{
    struct startup_expected e;
    struct startup_coming coming;
    GS_AUTO_FREE char *workload = read_coming(s, ns, selector, now_ms, &coming, &e);
    if (!workload)
        return NULL;
    json_t *out = startup_expected_json(&e);
    json_object_set_new(out, "coming", startup_coming_json(&coming, now_ms));
    json_object_set_new(out, "paths", startup_workload_json(s->learner, ns, workload));
    return out;
}
