// SPDX-License-Identifier: Apache-2.0
// The view of all pools, nodes and waiting pods.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/inspect/inspect_private.h"
#include "nodes/packing.h"
#include "nodes/pool.h"

#include <stdlib.h>

static void add_to(json_t *obj, const char *key, int64_t n)
{
    codec_json_set_int(obj, key, codec_json_int(obj, 0, key, NULL) + n);
}

static json_t *no_gpus(void)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "total", 0, "used", 0, "free", 0, "stranded", 0);
}

// --- how well the GPUs can be used ---

// Sets the stranded GPUs of each node: free ones if none of the cluster's workloads with GPUs fits,
// for example for lack of CPU. New reference: the members of the whole cluster.
static json_t *add_usability(const struct inspect_input *in, json_t *entries)
{
    GS_CLEANUP(nodes_mix_finish) struct nodes_mix mix = {0};
    struct nodes_snapshot *s = nodes_snapshot_new();
    struct nodes_fragmentation f;
    size_t i;
    json_t *obj, *entry;

    json_array_foreach ((json_t *)in->nodes, i, obj)
        nodes_snapshot_add_node(s, obj);
    json_array_foreach ((json_t *)in->pods, i, obj)
        if (!kube_pod_has_ended(obj))
            nodes_snapshot_add_pod(s, obj);
    nodes_mix_of(s, &mix);
    nodes_measure(s, &mix, &f);
    json_array_foreach (entries, i, entry) {
        size_t node = nodes_find(s, codec_json_str(entry, "name", NULL));
        double unused = node == NODES_NONE ? 0 : (double)nodes_free_gpus(s, node);
        if (unused > 0 && mix.len && nodes_fragmentation_of(s, node, &mix) >= unused - 1e-6)
            codec_json_set_int(json_object_get(entry, "gpus"), "stranded", (int64_t)unused);
    }
    json_t *out = json_pack("{s:I, s:I, s:f, s:I, s:I}", "total", (json_int_t)f.gpus, "free",
                            (json_int_t)f.free_gpus, "fragmented", f.fragmented_gpus, "stranded",
                            (json_int_t)f.stranded_gpus, "largestPod", (json_int_t)f.largest_gpus);
    if (f.largest_node != NODES_NONE && f.largest_gpus)
        codec_json_set_str(out, "largestPodNode", nodes_name(s, f.largest_node));
    nodes_snapshot_free(s);
    return out;
}

// --- nodes ---

// Since when the node is a candidate for removal, and by whom.
static json_t *removal_of(const struct inspect_input *in, const json_t *node)
{
    const json_t *taint = inspect_taint(node, "DeletionCandidateOfClusterAutoscaler");
    const json_t *claim = inspect_claim_of(in, kube_name(node));
    const char *seconds = codec_json_str(taint, "value", NULL);
    const char *by = taint ? "Cluster Autoscaler" : "Karpenter";
    int64_t since = seconds ? strtoll(seconds, NULL, 10) : 0;
    char text[GS_RFC3339_SIZE];

    since = since > 0 && since < INT32_MAX * 4LL ? since * 1000 : 0;
    if (!taint && kube_condition_true(claim, "Consolidatable"))
        since = inspect_condition_since(claim, "Consolidatable");
    else if (!taint)
        return NULL;
    json_t *out = json_pack("{s:s}", "by", by);
    if (since > 0)
        codec_json_set_str(out, "since", gs_format_rfc3339(since, text));
    return out;
}

static json_t *node_entry(const struct inspect_input *in, const json_t *node)
{
    static const char disabled[] = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
    const char *pool = nodes_pool_label(node);
    const char *type = kube_label(node, "node.kubernetes.io/instance-type");
    const char *price = kube_label(node, NODES_PRICE_LABEL);
    int64_t gpus = inspect_gpus(codec_json_get(node, "status", "allocatable", NULL));
    json_t *out = inspect_node_state(node, in->now_ms);
    json_t *removal = removal_of(in, node);

    codec_json_set_str(out, "name", kube_name(node));
    codec_json_set_str(out, "pool", pool);
    codec_json_set_str(out, "machine", type);
    codec_json_set_str(out, "price", price);
    codec_json_set_str(out, "created", kube_created(node));
    json_object_set_new(out, "gpus", no_gpus());
    codec_json_set(out, json_integer(gpus), "gpus", "total", NULL);
    json_object_set_new(out, "runs", json_object());
    if (removal)
        json_object_set_new(out, "removal", removal);
    if (gs_streq(kube_annotation(node, disabled), "true"))
        codec_json_set_bool(out, "scaleDownDisabled", true);
    return out;
}

static bool is_background(const json_t *pod)
{
    return kube_is_controlled_by(pod, "DaemonSet") || kube_is_controlled_by(pod, "Node");
}

static void add_pods(const struct inspect_input *in, const json_t *by_name)
{
    size_t i;
    json_t *pod;

    json_array_foreach ((json_t *)in->pods, i, pod) {
        const char *node = kube_pod_node(pod);
        json_t *entry = node ? json_object_get(by_name, node) : NULL;
        if (!entry || kube_pod_has_ended(pod))
            continue;
        add_to(json_object_get(entry, "gpus"), "used", inspect_pod_gpus(pod));
        if (is_background(pod))
            continue;
        GS_AUTO_FREE char *workload = kube_workload(pod);
        GS_AUTO_FREE char *key =
            gs_format("%s/%s", kube_namespace(pod) ? kube_namespace(pod) : "", workload);
        add_to(json_object_get(entry, "runs"), key, 1);
    }
}

// Since when the autoscaler of gpuscale does not need a node, and what keeps it.
static void add_autoscaler_nodes(const struct inspect_input *in, const json_t *by_name)
{
    size_t i;
    json_t *from;

    json_array_foreach (json_object_get(in->autoscaler, "nodes"), i, from) {
        const char *name = codec_json_str(from, "name", NULL);
        const char *since = codec_json_str(from, "unneededSince", NULL);
        json_t *entry = name ? json_object_get(by_name, name) : NULL;
        if (!entry)
            continue;
        if (since)
            json_object_set_new(entry, "removal",
                                json_pack("{s:s, s:s}", "by", "gpuscale", "since", since));
        codec_json_set_str(entry, "kept", codec_json_str(from, "unremovable", NULL));
    }
}

// NodeClaims whose node does not exist yet.
static void add_claims(const struct inspect_input *in, const json_t *by_name, json_t *entries)
{
    static const char *const steps[] = {"Initialized", "Registered", "Launched"};
    size_t i;
    json_t *claim;

    json_array_foreach ((json_t *)in->claims, i, claim) {
        const char *node = codec_json_str(claim, "status", "nodeName", NULL);
        if ((node && json_object_get(by_name, node)) || kube_is_deleting(claim))
            continue;
        json_t *entry = json_object();
        const char *why = NULL;
        for (size_t k = 0; k < GS_ARRAY_LEN(steps); k++) {
            const json_t *c = kube_condition(claim, steps[k]);
            if (c && !gs_streq(codec_json_str(c, "status", NULL), "True"))
                why = codec_json_str(c, "message", NULL);
        }
        codec_json_set_str(entry, "state", "Provisioning");
        codec_json_set_str(entry, "reason", why);
        codec_json_set_str(entry, "name", kube_name(claim));
        codec_json_set_str(entry, "pool", kube_label(claim, "karpenter.sh/nodepool"));
        codec_json_set_str(entry, "since", kube_created(claim));
        json_object_set_new(entry, "gpus", no_gpus());
        json_object_set_new(entry, "runs", json_object());
        json_array_append_new(entries, entry);
    }
}

static int compare_nodes(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    const char *px = codec_json_str(x, "pool", NULL), *py = codec_json_str(y, "pool", NULL);
    int c = strcmp(px ? px : "", py ? py : "");
    const char *nx = codec_json_str(x, "name", NULL), *ny = codec_json_str(y, "name", NULL);
    return c ? c : strcmp(nx ? nx : "", ny ? ny : "");
}

static json_t *sorted(json_t *list, int (*compare)(const void *, const void *))
{
    size_t n = json_array_size(list), i;
    json_t **items = gs_alloc_array(n + 1, sizeof(json_t *)), *item, *out = json_array();

    json_array_foreach (list, i, item)
        items[i] = item;
    qsort(items, n, sizeof(json_t *), compare);
    for (i = 0; i < n; i++)
        json_array_append(out, items[i]);
    free(items);
    json_decref(list);
    return out;
}

static json_t *all_nodes(const struct inspect_input *in, json_t **ret_gpus)
{
    CODEC_AUTO_JSON json_t *by_name = json_object();
    json_t *out = json_array();
    size_t i;
    json_t *node, *entry;

    json_array_foreach ((json_t *)in->nodes, i, node) {
        entry = node_entry(in, node);
        json_array_append_new(out, entry);
        if (kube_name(node))
            json_object_set(by_name, kube_name(node), entry);
    }
    add_pods(in, by_name);
    json_array_foreach (out, i, entry) {
        json_t *gpus = json_object_get(entry, "gpus");
        int64_t unused =
            codec_json_int(gpus, 0, "total", NULL) - codec_json_int(gpus, 0, "used", NULL);
        codec_json_set_int(gpus, "free", unused > 0 ? unused : 0);
    }
    add_autoscaler_nodes(in, by_name);
    *ret_gpus = add_usability(in, out);
    add_claims(in, by_name, out);
    return sorted(out, compare_nodes);
}

// --- pools ---

static json_t *pool_entry(json_t *pools, const char *name)
{
    json_t *p = json_object_get(pools, name);

    if (!p) {
        p = json_pack("{s:s, s:i, s:i, s:i}", "name", name, "nodes", 0, "ready", 0, "coming", 0);
        json_object_set_new(p, "gpus", no_gpus());
        json_object_set_new(pools, name, p);
    }
    return p;
}

static void count_nodes(const json_t *nodes, json_t *pools)
{
    static const char *const gpus[] = {"total", "used", "free", "stranded"};
    size_t i;
    json_t *node;

    json_array_foreach ((json_t *)nodes, i, node) {
        const char *name = codec_json_str(node, "pool", NULL);
        const char *state = codec_json_str(node, "state", NULL);
        if (!name)
            continue;
        json_t *p = pool_entry(pools, name);
        if (gs_streq(state, "Provisioning")) {
            add_to(p, "coming", 1);
            continue;
        }
        add_to(p, "nodes", 1);
        add_to(p, "ready", gs_streq(state, "Ready"));
        for (size_t k = 0; k < GS_ARRAY_LEN(gpus); k++)
            add_to(json_object_get(p, "gpus"), gpus[k],
                   codec_json_int(node, 0, "gpus", gpus[k], NULL));
    }
}

static void copy_int(json_t *to, const char *key, const json_t *from, const char *from_key)
{
    const json_t *value = json_object_get(from, from_key);

    if (json_is_integer(value))
        codec_json_set_int(to, key, json_integer_value(value));
}

static void set_coming(json_t *p, int64_t target)
{
    int64_t missing = target - codec_json_int(p, 0, "nodes", NULL);

    if (missing > codec_json_int(p, 0, "coming", NULL))
        codec_json_set_int(p, "coming", missing);
}

static void add_group(json_t *p, const json_t *group)
{
    const char *up = codec_json_str(group, "scaleUp", NULL);

    copy_int(p, "min", group, "min");
    copy_int(p, "max", group, "max");
    copy_int(p, "target", group, "target");
    set_coming(p, codec_json_int(group, 0, "target", NULL));
    if (!gs_streq(up, "Backoff"))
        return;
    json_t *backoff = json_object();
    codec_json_set_str(backoff, "since", codec_json_str(group, "since", NULL));
    codec_json_set_str(backoff, "error", codec_json_str(group, "error", NULL));
    json_object_set_new(p, "backoff", backoff);
}

// Groups of the Cluster Autoscaler whose pool has no node are pools, too.
static void add_groups(const struct inspect_input *in, json_t *pools)
{
    CODEC_AUTO_JSON json_t *groups = inspect_status_groups(in->status);
    const char *name, *group_name;
    json_t *p, *group;

    json_object_foreach (groups, group_name, group) {
        bool found = false;
        json_object_foreach (pools, name, p)
            if (inspect_group_is(group_name, name)) {
                add_group(p, group);
                found = true;
            }
        if (!found)
            add_group(pool_entry(pools, group_name), group);
    }
}

static void add_autoscaler_pools(const struct inspect_input *in, json_t *pools)
{
    size_t i;
    json_t *from;

    json_array_foreach (json_object_get(in->autoscaler, "pools"), i, from) {
        const char *name = codec_json_str(from, "name", NULL);
        const char *until = codec_json_str(from, "backoffUntil", NULL);
        if (!name)
            continue;
        json_t *p = pool_entry(pools, name);
        copy_int(p, "min", from, "min");
        copy_int(p, "max", from, "max");
        copy_int(p, "target", from, "target");
        set_coming(p, codec_json_int(from, 0, "target", NULL));
        const char *code = codec_json_str(from, "errorCode", NULL);
        const char *message = codec_json_str(from, "errorMessage", NULL);
        if (until)
            codec_json_set(p, json_string(until), "backoff", "until", NULL);
        if (until && (code || message))
            codec_json_set(p,
                           codec_json_strf("%s%s%s", code ? code : "", code && message ? ": " : "",
                                           message ? message : ""),
                           "backoff", "error", NULL);
    }
}

static int compare_names(const void *a, const void *b)
{
    const char *x = codec_json_str(*(json_t *const *)a, "name", NULL);
    const char *y = codec_json_str(*(json_t *const *)b, "name", NULL);
    return strcmp(x ? x : "", y ? y : "");
}

static json_t *all_pools(const struct inspect_input *in, const json_t *nodes)
{
    CODEC_AUTO_JSON json_t *pools = json_object();
    CODEC_AUTO_JSON json_t *startup = inspect_pool_startup(in);
    json_t *out = json_array();
    const char *name;
    json_t *p;

    count_nodes(nodes, pools);
    add_groups(in, pools);
    add_autoscaler_pools(in, pools);
    json_object_foreach (pools, name, p) {
        const json_t *s = json_object_get(startup, name);
        if (codec_json_int(s, 0, "samples", NULL) > 0)
            json_object_set(p, "startup", (json_t *)s);
        json_array_append(out, p);
    }
    return sorted(out, compare_names);
}

// --- waiting pods ---

static json_t *all_pending(const struct inspect_input *in)
{
    json_t *out = json_array();
    size_t i;
    json_t *pod;

    json_array_foreach ((json_t *)in->pods, i, pod) {
        const json_t *scheduled = kube_condition(pod, "PodScheduled");
        const char *reason = codec_json_str(scheduled, "reason", NULL);
        if (kube_pod_node(pod) || kube_pod_has_ended(pod) || kube_is_deleting(pod))
            continue;
        json_t *entry = json_object();
        codec_json_set_str(entry, "namespace", kube_namespace(pod));
        codec_json_set_str(entry, "name", kube_name(pod));
        codec_json_set_int(entry, "gpus", inspect_pod_gpus(pod));
        codec_json_set_str(entry, "reason", reason ? reason : "NotScheduledYet");
        codec_json_set_str(entry, "message", codec_json_str(scheduled, "message", NULL));
        codec_json_set_str(entry, "since", kube_created(pod));
        json_array_append_new(out, entry);
    }
    return out;
}

json_t *inspect_nodes(const struct inspect_input *in)
{
    json_t *gpus = NULL, *out = json_object(), *nodes = all_nodes(in, &gpus);

    json_object_set_new(out, "pools", all_pools(in, nodes));
    json_object_set_new(out, "nodes", nodes);
    json_object_set_new(out, "pending", all_pending(in));
    json_object_set_new(out, "gpus", gpus);
    return out;
}
