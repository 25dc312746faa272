// SPDX-License-Identifier: Apache-2.0
// Early cordon beside the real Cluster Autoscaler. It never sees a small pod that an idle large
// node takes at once, so such nodes are cordoned beforehand. One of several replicas acts. Writes
// carry the resourceVersion of the node that was read; after a conflict the next run decides again.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "expander/expander_private.h"
#include "kube/cache.h"
#include "kube/election.h"
#include "kube/event.h"
#include "kube/object.h"
#include "metrics/write.h"
#include "nodes/packing.h"

#define SCAN_MS      10000
#define SOON_MS      100
#define MAX_LOAD     10 // a run is followed by a pause of this many times its duration
#define STATUS_NS    "kube-system"
#define STATUS_NAME  "cluster-autoscaler-status"
#define STATUS_QUERY "fieldSelector=metadata.name%3D" STATUS_NAME

struct expander_cordons {
    uv_loop_t *loop;
    struct kube_client *client;
    struct expander_cordons_config cfg;
    struct kube_cache *nodes;         // of the struct expander_cluster
    struct kube_cache *pods, *status; // NULL: not enabled
    struct kube_watch_errors *pod_errors;
    struct kube_election *election; // NULL: not enabled
    struct kube_recorder *recorder;
    struct gs_timer *timer;
    struct gs_hmap *writes;        // name of a node → struct write
    int64_t not_before_ns;         // the next run
    char *logged;                  // the failure that was logged last
    uint64_t begun, ended, failed; // writes
};

// A write, until the cache has its result.
struct write {
    struct expander_cordons *owner;
    struct kube_request *request; // NULL: done
    json_t *node;                 // as it was read
    bool cordon;
    char *why;
};

static void free_write(void *arg)
{
    struct write *w = arg;
    kube_request_cancel(w->request);
    json_decref(w->node);
    free(w->why);
    free(w);
}

// --- writes ---

static void log_failure(struct expander_cordons *c, const char *node, const char *failure)
{
    if (!gs_streq(c->logged, failure))
        gs_warn("expander", "node %s cannot be changed for early cordon: %s", node, failure);
    free(c->logged);
    c->logged = gs_strdup(failure);
}

static void on_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct write *w = arg;
    struct expander_cordons *c = w->owner;
    (void)body;
    w->request = NULL;
    if (err) {
        c->failed++;
        if (status != 409 && status != 404)
            log_failure(c, kube_name(w->node), gs_error_message(err));
        gs_error_free(err);
        free_write(gs_hmap_remove_str(c->writes, kube_name(w->node)));
        return;
    }
    *(w->cordon ? &c->begun : &c->ended) += 1;
    kube_event(c->recorder, w->node, "Normal", nodes_cordon_event(w->cordon), "%s", w->why);
    gs_info("expander", "%s node %s: %s", w->cordon ? "cordoned" : "uncordoned", kube_name(w->node),
            w->why);
}

// Whether a write of the node is in progress, or the cache does not have its result yet.
static bool is_changing(struct expander_cordons *c, const json_t *node)
{
    struct write *w = gs_hmap_get_str(c->writes, kube_name(node));
    if (w && !w->request &&
        !gs_streq(kube_resource_version(w->node), kube_resource_version(node))) {
        free_write(gs_hmap_remove_str(c->writes, kube_name(node)));
        w = NULL;
    }
    return w != NULL;
}

static void write_cordon(struct expander_cordons *c, const json_t *node, bool cordon,
                         const char *why)
{
    if (is_changing(c, node))
        return;
    CODEC_AUTO_JSON json_t *patch = nodes_cordon_patch(node, cordon, why);
    struct write *w = gs_alloc(sizeof(*w));
    *w = (struct write){
        .owner = c, .node = json_incref((json_t *)node), .cordon = cordon, .why = gs_strdup(why)};
    gs_hmap_put_str(c->writes, kube_name(node), w);
    w->request = kube_patch(c->client, KUBE_NODES, NULL, kube_name(node), NULL, KUBE_MERGE_PATCH,
                            patch, on_written, w);
}

// --- the snapshot ---

static bool has_gpus_in(const json_t *containers)
{
    size_t i;
    const json_t *container;
    json_array_foreach (containers, i, container)
        if (codec_json_get(container, "resources", "requests", NODES_GPU, NULL) ||
            codec_json_get(container, "resources", "limits", NODES_GPU, NULL))
            return true;
    return false;
}

static bool requests_gpus(const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec");
    return has_gpus_in(json_object_get(spec, "containers")) ||
           has_gpus_in(json_object_get(spec, "initContainers"));
}

// Pods on nodes of the snapshot, and those that wait for GPUs.
static bool belongs(const struct nodes_snapshot *s, const json_t *pod)
{
    const char *node = kube_pod_node(pod);
    if (kube_pod_has_ended(pod))
        return false;
    if (node)
        return nodes_find(s, node) != NODES_NONE;
    return requests_gpus(pod) && !kube_is_deleting(pod) &&
           !json_array_size(codec_json_get(pod, "spec", "schedulingGates", NULL));
}

// Nodes without GPUs have no part in this.
static struct nodes_snapshot *make_snapshot(struct expander_cordons *c)
{
    struct nodes_snapshot *s = nodes_snapshot_new();
    size_t pos = 0;
    const json_t *object;
    while ((object = kube_cache_next(c->nodes, &pos))) {
        if (!codec_json_get(object, "status", "allocatable", NODES_GPU, NULL))
            continue;
        size_t node = nodes_snapshot_add_node(s, object);
        nodes_exclude(s, node, expander_is_leaving(object));
    }
    pos = 0;
    while ((object = kube_cache_next(c->pods, &pos)))
        if (belongs(s, object))
            nodes_snapshot_add_pod(s, object);
    return s;
}

// --- runs ---

static void end_all(struct expander_cordons *c)
{
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(c->nodes, &pos)))
        if (kube_annotation(node, NODES_ANN_EARLY_CORDON))
            write_cordon(c, node, false, NODES_CORDON_DISABLED);
}

static void plan(struct expander_cordons *c)
{
    const struct nodes_choice_settings settings = {.policy = c->cfg.policy, .now_ms = gs_unix_ms()};
    GS_CLEANUP(expander_groups_finish) struct expander_groups groups;
    struct nodes_snapshot *s = make_snapshot(c);
    struct nodes_cordons actions = {0};
    expander_groups_init(&groups, c->cfg.pools, c->cfg.cluster,
                         kube_cache_get(c->status, STATUS_NS, STATUS_NAME));
    nodes_find_cordons(s, groups.items, groups.len, &settings, &actions);
    for (size_t i = 0; i < actions.len; i++)
        write_cordon(c, nodes_node(s, actions.items[i].node), actions.items[i].cordon,
                     actions.items[i].why);
    nodes_cordons_finish(&actions);
    nodes_snapshot_free(s);
}

static bool is_settled(const struct kube_cache *cache)
{
    return kube_cache_synced(cache) || kube_cache_error(cache);
}

static void on_timer(void *arg);

static void schedule(struct expander_cordons *c, int64_t ms)
{
    int64_t pause_ms = (c->not_before_ns - gs_mono_ns()) / GS_NS_PER_MS;
    gs_timer_start(c->timer, on_timer, (uint64_t)(ms > pause_ms ? ms : pause_ms));
}

static void on_timer(void *arg)
{
    struct expander_cordons *c = arg;
    int64_t started = gs_mono_ns();
    if (kube_cache_synced(c->nodes) && !c->cfg.enabled)
        end_all(c);
    else if (kube_cache_synced(c->nodes) && kube_cache_synced(c->pods) && is_settled(c->status) &&
             kube_election_leading(c->election))
        plan(c);
    int64_t ended = gs_mono_ns();
    c->not_before_ns = ended + (ended - started) * MAX_LOAD;
    schedule(c, SCAN_MS);
}

static void run_soon(struct expander_cordons *c)
{
    if (gs_timer_due_in(c->timer) > SOON_MS)
        schedule(c, SOON_MS);
}

// --- metrics ---

static size_t count_cordoned(const struct expander_cordons *c)
{
    size_t pos = 0, n = 0;
    const json_t *node;
    while ((node = kube_cache_next(c->nodes, &pos)))
        n += kube_annotation(node, NODES_ANN_EARLY_CORDON) != NULL;
    return n;
}

static void add_metric(struct gs_buf *out, const char *name, enum metrics_type type,
                       const char *help, double value)
{
    metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

void expander_cordons_metrics(const struct expander_cordons *c, struct gs_buf *out)
{
    if (!c || !c->cfg.enabled)
        return;
    add_metric(out, "gpuscale_expander_early_cordoned_nodes", METRICS_GAUGE,
               "Nodes that are cordoned early now.", (double)count_cordoned(c));
    add_metric(out, "gpuscale_expander_early_cordon_leader", METRICS_GAUGE,
               "Whether this replica holds the Lease and cordons nodes.",
               kube_election_leading(c->election));
    add_metric(out, "gpuscale_expander_early_cordons_total", METRICS_COUNTER,
               "Early cordons that this replica began.", (double)c->begun);
    add_metric(out, "gpuscale_expander_early_cordons_ended_total", METRICS_COUNTER,
               "Early cordons that this replica ended.", (double)c->ended);
    add_metric(out, "gpuscale_expander_early_cordon_failures_total", METRICS_COUNTER,
               "Writes of nodes for early cordon that failed or were in conflict with a change.",
               (double)c->failed);
}

// --- changes ---

static void on_leading(void *arg)
{
    struct expander_cordons *c = arg;
    gs_info("expander", "early cordon: this replica acts");
    run_soon(c);
}

static void on_lost(void *arg)
{
    (void)arg;
    gs_warn("expander", "early cordon: another replica acts, or the Lease cannot be renewed");
}

static void on_pod(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    const json_t *pod = new_pod ? new_pod : old_pod;
    if (requests_gpus(pod))
        run_soon(arg);
}

static bool is_same(const json_t *a, const json_t *b, const char *part, const char *key)
{
    return codec_json_same(codec_json_get(a, part, key, NULL), codec_json_get(b, part, key, NULL));
}

static void on_node(void *arg, const json_t *old_node, const json_t *node)
{
    struct expander_cordons *c = arg;
    const struct write *w = node ? NULL : gs_hmap_get_str(c->writes, kube_name(old_node));
    if (w && !w->request)
        free_write(gs_hmap_remove_str(c->writes, kube_name(old_node)));
    if (!old_node || !node || !is_same(old_node, node, "status", "allocatable") ||
        !is_same(old_node, node, "spec", "unschedulable") ||
        !is_same(old_node, node, "spec", "taints") ||
        !is_same(old_node, node, "metadata", "annotations") ||
        kube_condition_true(old_node, "Ready") != kube_condition_true(node, "Ready"))
        run_soon(c);
}

static void on_status(void *arg, const json_t *old_map, const json_t *map)
{
    (void)old_map, (void)map;
    run_soon(arg);
}

static void on_synced(void *arg)
{
    run_soon(arg);
}

// --- what is kept of pods ---

static void trim_containers(json_t *containers)
{
    static const char *const keys[] = {
        "args",           "command",         "env",
        "envFrom",        "image",           "lifecycle",
        "livenessProbe",  "readinessProbe",  "startupProbe",
        "volumeMounts",   "securityContext", "terminationMessagePath",
        "imagePullPolicy"};
    size_t i;
    json_t *container;
    json_array_foreach (containers, i, container)
        for (size_t k = 0; k < GS_ARRAY_LEN(keys); k++)
            json_object_del(container, keys[k]);
}

static void trim_pod(json_t *pod)
{
    CODEC_AUTO_JSON json_t *phase = json_incref(codec_json_get(pod, "status", "phase", NULL));
    json_t *metadata = json_object_get(pod, "metadata"), *spec = json_object_get(pod, "spec");
    json_object_del(metadata, "managedFields");
    json_object_del(metadata, "annotations");
    json_object_del(spec, "volumes");
    trim_containers(json_object_get(spec, "containers"));
    trim_containers(json_object_get(spec, "initContainers"));
    json_object_del(pod, "status");
    if (phase)
        codec_json_set(pod, json_incref(phase), "status", "phase", NULL);
}

// --- life ---

static void watch(struct expander_cordons *c)
{
    const struct kube_cache_handlers pods = {.on_change = on_pod, .on_synced = on_synced, .arg = c};
    const struct kube_cache_handlers status = {.on_change = on_status, .arg = c};
    c->pods = kube_cache_new(c->loop, c->client, KUBE_PODS, NULL, NULL);
    c->status = kube_cache_new(c->loop, c->client, KUBE_CONFIGMAPS, STATUS_NS, STATUS_QUERY);
    c->pod_errors = kube_watch_errors_new(c->loop, c->pods, "expander", "pods");
    kube_cache_set_trim(c->pods, trim_pod);
    kube_cache_add_handlers(c->pods, &pods);
    kube_cache_add_handlers(c->status, &status);
    kube_cache_start(c->pods);
    kube_cache_start(c->status);
}

static void elect(struct expander_cordons *c)
{
    const struct kube_election_config cfg = {.ns = c->cfg.lease_ns,
                                             .name = c->cfg.lease_name,
                                             .on_leading = on_leading,
                                             .on_lost = on_lost,
                                             .arg = c};
    c->election = kube_election_new(c->loop, c->client, &cfg);
}

struct expander_cordons *expander_cordons_new(uv_loop_t *loop, struct kube_client *client,
                                              const struct expander_cordons_config *cfg)
{
    struct expander_cordons *c = gs_alloc(sizeof(*c));
    const struct kube_cache_handlers nodes = {
        .on_change = on_node, .on_synced = on_synced, .arg = c};
    c->loop = loop;
    c->client = client;
    c->cfg = *cfg;
    c->nodes = expander_cluster_nodes(cfg->cluster);
    c->writes = gs_hmap_new(free_write);
    c->recorder = kube_recorder_new(client, "gpuscale-expander", NULL);
    c->timer = gs_timer_new(loop, c);
    schedule(c, SCAN_MS);
    if (cfg->enabled) {
        watch(c);
        elect(c);
    }
    kube_cache_add_handlers(c->nodes, &nodes);
    return c;
}

void expander_cordons_free(struct expander_cordons *c)
{
    if (!c)
        return;
    kube_cache_remove_handlers(c->nodes, c);
    kube_election_free(c->election);
    kube_watch_errors_free(c->pod_errors);
    kube_cache_free(c->pods);
    kube_cache_free(c->status);
    gs_hmap_free(c->writes);
    kube_recorder_free(c->recorder);
    gs_timer_free(c->timer);
    free(c->logged);
    free(c);
}
