// SPDX-License-Identifier: Apache-2.0
// Events of the Cluster Autoscaler about its status ConfigMap name node groups: ScaledUpGroup is
// the order of nodes, others are failures. The time from an order to the Ready condition of a node
// that was created after it is a sample of the group's start-up time; with GPUs, the time until
// they are allocatable, which no condition states, so that the node must have been watched then.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "expander/expander_private.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "nodes/packing.h"

#include <stdlib.h>

#define EVENTS_QUERY                                                                               \
    "fieldSelector=involvedObject.kind%3DConfigMap%2CinvolvedObject.name%3D"                       \
    "cluster-autoscaler-status"
#define MAX_STARTUP_MS (INT64_C(3600) * 1000)

enum {
    SAMPLES = 31,
    MAX_GROUPS = 10000,
    LEARN_DELAY_MS = 1000,
    MAX_ORDERS = 64,
    MAX_TEMPLATES = 1000,
    MAX_TEMPLATE = 64 * 1024, // bytes of JSON
};

struct known_group {
    char *pool;       // of the nodes' labels; NULL: not known yet
    json_t *template; // of the Cluster Autoscaler's template node: what groups.c needs; NULL: none
    int64_t samples[SAMPLES];
    size_t n_samples, next;
    int64_t orders[MAX_ORDERS]; // times, in no order
    size_t n_orders, next_order;
    bool has_gpus; // of the template node
    struct nodes_backoff backoff;
};

struct expander_cluster {
    struct kube_cache *nodes, *events;
    struct kube_watch_errors *node_errors, *event_errors;
    struct gs_hmap *groups;  // ID → struct known_group
    struct gs_hmap *learned; // names of nodes whose start-up is a sample
    struct gs_hmap *gpus;    // names of nodes → int64_t: when their GPUs became allocatable
    struct gs_timer *timer;
    bool keep_templates;
    size_t n_templates;
};

static void free_group(void *arg)
{
    struct known_group *g = arg;
    free(g->pool);
    json_decref(g->template);
    free(g);
}

static struct known_group *group_of(struct expander_cluster *c, struct gs_slice id)
{
    struct known_group *g = gs_hmap_get(c->groups, id);
    if (g || gs_hmap_len(c->groups) >= MAX_GROUPS)
        return g;
    g = gs_alloc(sizeof(*g));
    gs_hmap_put(c->groups, id, g);
    return g;
}

static void learn_soon(struct expander_cluster *c);

// --- events ---

static int64_t event_time(const json_t *event)
{
    int64_t ms = kube_time_ms(json_object_get(event, "lastTimestamp"), 0);
    if (!ms)
        ms = kube_time_ms(json_object_get(event, "eventTime"), 0);
    return ms ? ms : kube_created_ms(event, 0);
}

// "Scale-up: setting group ID size to …", "Scale-up failed for group ID: …"
static struct gs_slice group_in(const char *message)
{
    static const char word[] = "group ";
    const char *start = message ? strstr(message, word) : NULL;
    if (!start)
        return (struct gs_slice){0};
    start += strlen(word);
    size_t len = strcspn(start, " ");
    while (len && start[len - 1] == ':')
        len--;
    return gs_slice_make(start, len);
}

static bool is_failure(const char *reason)
{
    return gs_streq(reason, "FailedToScaleUpGroup") || gs_streq(reason, "ScaleUpFailed") ||
           gs_streq(reason, "ScaleUpTimedOut");
}

static void fail_group(struct known_group *g, int64_t when)
{
    if (when > g->backoff.last_failure_ms)
        nodes_backoff_fail(&g->backoff, when, NULL);
}

static void add_order(struct expander_cluster *c, struct known_group *g, int64_t when)
{
    g->orders[g->next_order] = when;
    g->next_order = (g->next_order + 1) % MAX_ORDERS;
    if (g->n_orders < MAX_ORDERS)
        g->n_orders++;
    learn_soon(c);
}

// The newest order until a time. Timestamps of the API are whole seconds.
static int64_t order_before(const struct known_group *g, int64_t ms)
{
    int64_t found = 0;
    for (size_t i = 0; i < g->n_orders; i++)
        if (g->orders[i] <= ms + 1000 && g->orders[i] > found)
            found = g->orders[i];
    return found;
}

// Whether no node has appeared since the last order.
static bool is_waiting(const struct expander_cluster *c, const struct known_group *g, int64_t when)
{
    size_t pos = 0;
    const json_t *node;
    int64_t order = order_before(g, when);
    if (!order || when - order > MAX_STARTUP_MS)
        return false;
    while (g->pool && (node = kube_cache_next(c->nodes, &pos)))
        if (gs_streq(nodes_pool_label(node), g->pool) && kube_created_ms(node, 0) + 1000 >= order)
            return false;
    return true;
}

// "Removed unregistered node gpuscale://gpu-1/NAME": a machine that did not register in time. The
// group is a part of the provider ID, or the only one that waits for nodes.
static void on_unregistered(struct expander_cluster *c, const char *message, int64_t when)
{
    size_t pos = 0, waiting = 0;
    void *value;
    struct gs_slice id;
    struct known_group *last = NULL;
    while (gs_hmap_next(c->groups, &pos, &id, &value)) {
        GS_AUTO_FREE char *part = gs_format("/%.*s/", GS_SLICE_ARG(id));
        struct known_group *g = value;
        if (strstr(message, part)) {
            fail_group(g, when);
            return;
        }
        if (is_waiting(c, g, when)) {
            waiting++;
            last = g;
        }
    }
    if (waiting == 1)
        fail_group(last, when);
}

static void on_event(void *arg, const json_t *old_obj, const json_t *event)
{
    struct expander_cluster *c = arg;
    const char *reason = event ? codec_json_str(event, "reason", NULL) : NULL;
    const char *message = event ? codec_json_str(event, "message", NULL) : NULL;
    int64_t when = event ? event_time(event) : 0;
    struct gs_slice id = group_in(message);
    bool order = gs_streq(reason, "ScaledUpGroup");
    if (!when || !message)
        return;
    if (gs_streq(reason, "DeleteUnregistered")) {
        on_unregistered(c, message, when);
        return;
    }
    if (!id.len || id.len > EXPANDER_MAX_GROUP || !(order || is_failure(reason)))
        return;
    struct known_group *g = group_of(c, id);
    if (g && order)
        add_order(c, g, when);
    else if (g)
        fail_group(g, when);
}

// --- nodes ---

static int64_t ready_since(const json_t *node)
{
    size_t i;
    const json_t *condition;
    json_array_foreach (codec_json_get(node, "status", "conditions", NULL), i, condition)
        if (gs_streq(codec_json_str(condition, "type", NULL), "Ready") &&
            gs_streq(codec_json_str(condition, "status", NULL), "True"))
            return kube_time_ms(json_object_get(condition, "lastTransitionTime"), 0);
    return 0;
}

static bool has_gpus(const json_t *node)
{
    const char *n = codec_json_str(node, "status", "allocatable", NODES_GPU, NULL);
    return n && !gs_streq(n, "0");
}

// 0: it is not yet. gpus_ms: when its GPUs became allocatable; 0: unknown.
static int64_t usable_since(const struct known_group *g, const json_t *node, int64_t gpus_ms)
{
    int64_t ready = ready_since(node);
    if (!ready || (g->has_gpus && !has_gpus(node)))
        return 0;
    return gpus_ms > ready ? gpus_ms : ready;
}

// True: the node is a sample.
static bool learn_from(struct known_group *g, const json_t *node, int64_t gpus_ms)
{
    int64_t ready = usable_since(g, node, gpus_ms);
    int64_t order = order_before(g, kube_created_ms(node, 0));
    if (!ready || !order || ready <= order || ready - order > MAX_STARTUP_MS)
        return false;
    g->samples[g->next] = ready - order;
    g->next = (g->next + 1) % SAMPLES;
    if (g->n_samples < SAMPLES)
        g->n_samples++;
    if (ready > g->backoff.last_failure_ms)
        nodes_backoff_succeed(&g->backoff);
    return true;
}

static void learn_node(struct expander_cluster *c, const json_t *node)
{
    size_t pos = 0;
    void *value;
    struct gs_slice id;
    const char *pool = nodes_pool_label(node), *name = kube_name(node);
    const int64_t *gpus = gs_hmap_get_str(c->gpus, name);
    if (!pool || gs_hmap_get_str(c->learned, name))
        return;
    while (gs_hmap_next(c->groups, &pos, &id, &value)) {
        struct known_group *g = value;
        if (g->pool && gs_streq(g->pool, pool) && learn_from(g, node, gpus ? *gpus : 0)) {
            gs_hmap_put_str(c->learned, name, c);
            return;
        }
    }
}

static void on_timer(void *arg)
{
    struct expander_cluster *c = arg;
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(c->nodes, &pos)))
        learn_node(c, node);
}

static void learn_soon(struct expander_cluster *c)
{
    if (!gs_timer_is_active(c->timer))
        gs_timer_start(c->timer, on_timer, LEARN_DELAY_MS);
}

static void keep_gpu_time(struct expander_cluster *c, const json_t *node)
{
    int64_t *now = gs_alloc(sizeof(*now));
    *now = gs_unix_ms();
    gs_hmap_put_str(c->gpus, kube_name(node), now);
}

static void on_node(void *arg, const json_t *old_obj, const json_t *node)
{
    struct expander_cluster *c = arg;
    if (!node) {
        gs_hmap_remove_str(c->learned, kube_name(old_obj));
        free(gs_hmap_remove_str(c->gpus, kube_name(old_obj)));
        return;
    }
    bool gpus_came = old_obj && !has_gpus(old_obj) && has_gpus(node);
    if (gpus_came)
        keep_gpu_time(c, node);
    if (!old_obj || !ready_since(old_obj) || gpus_came)
        learn_soon(c);
}

static void keep_only(json_t *object, const char *const *keys)
{
    const char *key;
    void *next;
    json_t *value;
    json_object_foreach_safe (object, next, key, value) {
        size_t i = 0;
        while (keys[i] && !gs_streq(keys[i], key))
            i++;
        if (!keys[i])
            json_object_del(object, key);
    }
}

// What this module reads of a node.
static void trim_node(json_t *node)
{
    static const char *const annotations[] = {NODES_ANN_EARLY_CORDON, NULL};
    static const char *const spec[] = {"unschedulable", "taints", NULL};
    static const char *const status[] = {"conditions", "allocatable", "capacity", NULL};
    codec_json_del(node, "metadata", "managedFields", NULL);
    keep_only(codec_json_get(node, "metadata", "annotations", NULL), annotations);
    keep_only(json_object_get(node, "spec"), spec);
    keep_only(json_object_get(node, "status"), status);
}

// --- life ---

struct expander_cluster *expander_cluster_new(uv_loop_t *loop, struct kube_client *client,
                                              bool keep_templates)
{
    struct expander_cluster *c = gs_alloc(sizeof(*c));
    const struct kube_cache_handlers node_handlers = {.on_change = on_node, .arg = c};
    const struct kube_cache_handlers event_handlers = {.on_change = on_event, .arg = c};
    c->keep_templates = keep_templates;
    c->groups = gs_hmap_new(free_group);
    c->learned = gs_hmap_new(NULL);
    c->gpus = gs_hmap_new(free);
    c->timer = gs_timer_new(loop, c);
    c->nodes = kube_cache_new(loop, client, KUBE_NODES, NULL, NULL);
    c->events = kube_cache_new(loop, client, KUBE_EVENTS, NULL, EVENTS_QUERY);
    c->node_errors = kube_watch_errors_new(loop, c->nodes, "expander", "nodes");
    c->event_errors = kube_watch_errors_new(loop, c->events, "expander", "events");
    kube_cache_set_trim(c->nodes, trim_node);
    kube_cache_add_handlers(c->nodes, &node_handlers);
    kube_cache_add_handlers(c->events, &event_handlers);
    kube_cache_start(c->nodes);
    kube_cache_start(c->events);
    return c;
}

void expander_cluster_free(struct expander_cluster *c)
{
    if (!c)
        return;
    kube_watch_errors_free(c->node_errors);
    kube_watch_errors_free(c->event_errors);
    kube_cache_free(c->nodes);
    kube_cache_free(c->events);
    gs_timer_free(c->timer);
    gs_hmap_free(c->groups);
    gs_hmap_free(c->learned);
    gs_hmap_free(c->gpus);
    free(c);
}

// --- answers ---

static int64_t median(const struct known_group *g)
{
    int64_t sorted[SAMPLES];
    if (!g->n_samples)
        return 0;
    memcpy(sorted, g->samples, g->n_samples * sizeof(*sorted));
    qsort(sorted, g->n_samples, sizeof(*sorted), gs_compare_int64s);
    return sorted[g->n_samples / 2];
}

// Labels, taints and amounts of a template node.
static json_t *template_of(const json_t *node)
{
    static const char *const metadata[] = {"labels", NULL};
    json_t *copy = json_deep_copy(node);
    keep_only(json_object_get(copy, "metadata"), metadata);
    trim_node(copy);
    return copy;
}

static void keep_template(struct expander_cluster *c, struct known_group *g, const json_t *node)
{
    CODEC_AUTO_JSON json_t *copy = template_of(node);
    if ((!g->template && c->n_templates >= MAX_TEMPLATES) ||
        json_dumpb(copy, NULL, 0, JSON_COMPACT) > MAX_TEMPLATE)
        return;
    c->n_templates += !g->template;
    json_decref(g->template);
    g->template = json_incref(copy);
}

struct kube_cache *expander_cluster_nodes(struct expander_cluster *c)
{
    return c->nodes;
}

bool expander_cluster_next(struct expander_cluster *c, size_t *pos,
                           struct expander_known_group *ret)
{
    void *value;
    if (!gs_hmap_next(c->groups, pos, &ret->id, &value))
        return false;
    struct known_group *g = value;
    nodes_backoff_expire(&g->backoff, gs_unix_ms(), NULL);
    ret->pool = g->pool;
    ret->template = g->template;
    ret->backoff = g->backoff;
    return true;
}

void expander_cluster_describe(struct expander_cluster *c, struct nodes_group *group)
{
    struct known_group *g = group_of(c, gs_slice_of(group->name));
    const char *pool = nodes_pool_label(group->node);
    if (!g)
        return;
    if (!g->pool && pool) {
        g->pool = gs_strdup(pool);
        learn_soon(c);
    }
    if (group->node)
        g->has_gpus = has_gpus(group->node);
    if (c->keep_templates && group->node)
        keep_template(c, g, group->node);
    nodes_backoff_expire(&g->backoff, gs_unix_ms(), NULL);
    group->startup_ms = median(g);
    group->backoff = g->backoff;
}
