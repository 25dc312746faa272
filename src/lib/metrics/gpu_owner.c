// SPDX-License-Identifier: Apache-2.0
// The pod and the node that a GPU's series is about. Exporters name the holder in different
// labels, and Prometheus may have replaced them by those of the exporter's own pod, so `up` and
// kube_pod_info show which labels are the exporter's own.
#include "metrics/gpu_owner.h"

#include "base/mem.h"

enum { MAX_TARGETS = 100000 }; // and pods

static struct gs_slice label_of(const struct metrics_gpu_series *s, const char *name)
{
    return s->label(s->series, name);
}

// --- the rules ---

// Pairs of labels that name the holder whatever the target is.
static const char *const holders[][2] = {
    {"NamespaceName", "PodName"},
    {"exported_namespace", "exported_pod"},
    {"pod_namespace", "pod_name"},
};

static bool is_own_pod(struct gs_slice pod, struct gs_slice ns,
                       const struct metrics_gpu_target *target)
{
    return target && gs_slice_eq_str(pod, target->pod) &&
           (!*target->ns || !ns.len || gs_slice_eq_str(ns, target->ns));
}

// Whether a name of a host is that of the exporter's own pod.
static bool is_own_host(const struct metrics_gpu_series *s, struct gs_slice host,
                        const struct metrics_gpu_target *target)
{
    return is_own_pod(host, (struct gs_slice){0}, target) ||
           gs_slice_eq(host, label_of(s, "pod")); // no machine has the name of a pod
}

struct metrics_gpu_pod metrics_gpu_owner(const struct metrics_gpu_series *s,
                                         const struct metrics_gpu_target *target)
{
    static const char *const hosts[] = {"hostname", "Hostname"};
    for (size_t i = 0; i < GS_ARRAY_LEN(holders); i++) {
        struct gs_slice pod = label_of(s, holders[i][1]), ns = label_of(s, holders[i][0]);
        if (pod.len)
            return (struct metrics_gpu_pod){ns.len ? ns : label_of(s, "namespace"), pod};
    }
    struct gs_slice pod = label_of(s, "pod"), ns = label_of(s, "namespace");
    bool own = label_of(s, "exported_namespace").len || is_own_pod(pod, ns, target);
    for (size_t i = 0; pod.len && i < GS_ARRAY_LEN(hosts); i++)
        own = own || gs_slice_eq(pod, label_of(s, hosts[i]));
    if (!pod.len || own)
        return (struct metrics_gpu_pod){0};
    return (struct metrics_gpu_pod){ns, pod};
}

struct gs_slice metrics_gpu_node(const struct metrics_gpu_series *s,
                                 const struct metrics_gpu_target *target)
{
    // The first two come from relabeling: the cluster knows the node, the exporter may not.
    static const char *const names[] = {"node", "kubernetes_node", "NodeName", "hostname",
                                        "Hostname"};
    struct gs_slice host = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        struct gs_slice v = label_of(s, names[i]);
        if (v.len && !is_own_host(s, v, target))
            return v;
        host = host.len ? host : v;
    }
    if (target && *target->node)
        return gs_slice_of(target->node);
    return host.len ? host : label_of(s, "instance");
}

// --- targets ---

struct metrics_gpu_targets {
    struct gs_hmap *targets; // job and instance -> struct metrics_gpu_target
    struct gs_hmap *nodes;   // namespace and pod -> name of the node
};

static void target_free(void *value)
{
    struct metrics_gpu_target *target = value;
    free((void *)(uintptr_t)target->ns);
    free((void *)(uintptr_t)target->pod);
    free(target);
}

struct metrics_gpu_targets *metrics_gpu_targets_new(void)
{
    struct metrics_gpu_targets *t = gs_alloc(sizeof(*t));
    t->targets = gs_hmap_new(target_free);
    t->nodes = gs_hmap_new(free);
    return t;
}

void metrics_gpu_targets_free(struct metrics_gpu_targets *t)
{
    if (!t)
        return;
    gs_hmap_free(t->targets);
    gs_hmap_free(t->nodes);
    free(t);
}

static char *key_of(struct gs_slice a, struct gs_slice b)
{
    return gs_format(GS_SLICE_FMT "\n" GS_SLICE_FMT, GS_SLICE_ARG(a), GS_SLICE_ARG(b));
}

static struct gs_slice first_of(const struct metrics_gpu_series *s, const char *a, const char *b)
{
    struct gs_slice v = label_of(s, a);
    return v.len ? v : label_of(s, b);
}

void metrics_gpu_targets_add(struct metrics_gpu_targets *t, const struct metrics_gpu_series *up)
{
    struct gs_slice pod = label_of(up, "pod");
    if (!pod.len || gs_hmap_len(t->targets) >= MAX_TARGETS)
        return;
    GS_AUTO_FREE char *key = key_of(label_of(up, "job"), label_of(up, "instance"));
    struct metrics_gpu_target *target = gs_alloc(sizeof(*target));
    target->ns = gs_slice_dup(label_of(up, "namespace"));
    target->pod = gs_slice_dup(pod);
    target->node = "";
    gs_hmap_put_str(t->targets, key, target);
}

void metrics_gpu_targets_add_pod(struct metrics_gpu_targets *t,
                                 const struct metrics_gpu_series *pod_info)
{
    struct gs_slice node = first_of(pod_info, "exported_node", "node");
    if (!node.len || gs_hmap_len(t->nodes) >= MAX_TARGETS)
        return;
    GS_AUTO_FREE char *key = key_of(first_of(pod_info, "exported_namespace", "namespace"),
                                    first_of(pod_info, "exported_pod", "pod"));
    gs_hmap_put_str(t->nodes, key, gs_slice_dup(node));
}

const struct metrics_gpu_target *metrics_gpu_target_of(const struct metrics_gpu_targets *t,
                                                       const struct metrics_gpu_series *s)
{
    if (!t)
        return NULL;
    GS_AUTO_FREE char *key = key_of(label_of(s, "job"), label_of(s, "instance"));
    struct metrics_gpu_target *target = gs_hmap_get_str(t->targets, key);
    if (!target)
        return NULL;
    GS_AUTO_FREE char *pod = key_of(gs_slice_of(target->ns), gs_slice_of(target->pod));
    const char *node = gs_hmap_get_str(t->nodes, pod);
    target->node = node ? node : "";
    return target;
}
