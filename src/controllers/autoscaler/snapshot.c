// SPDX-License-Identifier: Apache-2.0
// The snapshot of one run: nodes and pods as they are, and as they will be. A node that is expected
// to become ready counts as ready, so that no second one is added for the same pods, and pods that
// fit somewhere are placed there.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"

bool autoscaler_is_daemonset_pod(const json_t *pod)
{
    return gs_streq(codec_json_str(kube_controller_ref(pod), "kind", NULL), "DaemonSet") ||
           gs_streq(kube_annotation(pod, AUTOSCALER_ANN "daemonset-pod"), "true");
}

bool autoscaler_is_mirror_pod(const json_t *pod)
{
    return kube_annotation(pod, "kubernetes.io/config.mirror") != NULL;
}

// --- templates ---

static void reserve_for_daemonset(json_t *node, const json_t *set)
{
    CODEC_AUTO_JSON json_t *pod =
        json_pack("{s:{s:s}, s:O}", "metadata", "name", kube_name(set), "spec",
                  codec_json_get(set, "spec", "template", "spec", NULL));
    if (pod)
        nodes_reserve_daemon(node, pod);
}

static void build_templates(struct autoscaler *a, struct autoscaler_pool *p)
{
    json_decref(p->template);
    GS_AUTO_FREE char *name = gs_format("template-node-for-%s", p->pool->name);
    p->template = nodes_pool_template(p->pool, name);
    size_t pos = 0;
    const json_t *set;
    while ((set = kube_cache_next(a->cfg.daemonsets, &pos)))
        reserve_for_daemonset(p->template, set);
}

// --- nodes ---

static void note_index(struct autoscaler_run *r, size_t index, struct autoscaler_pool *upcoming,
                       struct autoscaler_node *node)
{
    gs_grow(&r->upcoming, &r->upcoming_cap, index, sizeof(*r->upcoming));
    gs_grow(&r->nodes, &r->nodes_cap, index, sizeof(*r->nodes));
    r->upcoming[index] = upcoming;
    r->nodes[index] = node;
    r->n_nodes = index + 1;
}

void autoscaler_run_add_template(struct autoscaler_run *r, const json_t *node, const char *name)
{
    note_index(r, nodes_snapshot_add_template(r->snapshot, node, name), NULL, NULL);
}

void autoscaler_run_note_nodes(struct autoscaler_run *r)
{
    while (r->n_nodes < nodes_count(r->snapshot))
        note_index(r, r->n_nodes, NULL, NULL);
}

static void add_upcoming(struct autoscaler_run *r, struct autoscaler_pool *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_format("upcoming-%zu-of-%s", i, p->pool->name);
        note_index(r, nodes_snapshot_add_template(r->snapshot, p->template, name), p, NULL);
    }
}

static void add_nodes(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t pos = 0;
    const json_t *object;
    while ((object = kube_cache_next(a->cfg.nodes, &pos))) {
        struct autoscaler_node *n = autoscaler_node_of(a, kube_name(object));
        if (n && n->readiness == AUTOSCALER_NOT_STARTED)
            note_index(
                r, nodes_snapshot_add_template(r->snapshot, n->pool->template, kube_name(object)),
                n->pool, NULL);
        else
            note_index(r, nodes_snapshot_add_node(r->snapshot, object), NULL, n);
        if (n && n->readiness == AUTOSCALER_BEING_DELETED)
            nodes_exclude(r->snapshot, r->n_nodes - 1, true);
    }
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        add_upcoming(r, &a->pools[i], a->pools[i].upcoming - a->pools[i].not_started);
}

// --- pods ---

static bool is_finished(const json_t *pod)
{
    const char *phase = codec_json_str(pod, "status", "phase", NULL);
    return gs_streq(phase, "Succeeded") || gs_streq(phase, "Failed");
}

static int64_t delay_ms(const struct autoscaler *a, const json_t *pod)
{
    int64_t ns = 0;
    const char *text = kube_annotation(pod, AUTOSCALER_ANN "pod-scale-up-delay");
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_duration(gs_slice_of(text), &ns) : NULL;
    if (err || ns < a->cfg.settings.new_pod_scale_up_delay)
        ns = a->cfg.settings.new_pod_scale_up_delay;
    return ns / GS_NS_PER_MS;
}

bool autoscaler_is_unschedulable(const json_t *pod)
{
    const json_t *scheduled = kube_condition(pod, "PodScheduled");
    // No machine here has devices for resource claims.
    return gs_streq(codec_json_str(scheduled, "status", NULL), "False") &&
           gs_streq(codec_json_str(scheduled, "reason", NULL), "Unschedulable") &&
           !json_array_size(codec_json_get(pod, "spec", "resourceClaims", NULL));
}

static bool triggers_scale_up(const struct autoscaler *a, const json_t *pod, int64_t now_ms)
{
    return autoscaler_is_unschedulable(pod) && !kube_is_deleting(pod) &&
           !autoscaler_is_daemonset_pod(pod) &&
           codec_json_int(pod, 0, "spec", "priority", NULL) >=
               a->cfg.settings.expendable_priority &&
           now_ms - autoscaler_created_ms(pod, 0) >= delay_ms(a, pod);
}

static void note_pending(struct autoscaler *a, struct autoscaler_run *r, const json_t *pod)
{
    struct autoscaler_pod *p = gs_hmap_get_str(a->pods, kube_uid(pod));
    if (!p) {
        p = gs_alloc(sizeof(*p));
        p->uid = gs_strdup(kube_uid(pod));
        p->ns = gs_strdup(kube_namespace(pod));
        p->name = gs_strdup(kube_name(pod));
        p->pending_since_ms = autoscaler_created_ms(pod, r->now_ms);
        gs_hmap_put_str(a->pods, p->uid, p);
    }
    p->listed = true;
    gs_grow(&r->pending, &r->pending_cap, r->n_pending, sizeof(*r->pending));
    r->pending[r->n_pending++] = nodes_snapshot_add_pod(r->snapshot, pod);
}

// What DaemonSets use on an upcoming node is part of its template.
static bool counts_twice(const struct autoscaler *a, const json_t *pod, const char *node)
{
    const struct autoscaler_node *n = autoscaler_node_of(a, node);
    return n && n->readiness == AUTOSCALER_NOT_STARTED && autoscaler_is_daemonset_pod(pod);
}

static void add_pods(struct autoscaler *a, struct autoscaler_run *r)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(a->cfg.pods, &pos))) {
        const char *node = codec_json_str(pod, "spec", "nodeName", NULL);
        if (is_finished(pod) || !kube_uid(pod) || (node && counts_twice(a, pod, node)))
            continue;
        if (node && *node)
            nodes_snapshot_add_pod(r->snapshot, pod);
        else if (triggers_scale_up(a, pod, r->now_ms))
            note_pending(a, r, pod);
    }
}

// Pods with a higher priority first, then those that ask for more GPUs, then the older ones.
static struct nodes_snapshot *sorted_snapshot; // qsort has no argument

static int compare_pending(const void *x, const void *y)
{
    size_t i = *(const size_t *)x, k = *(const size_t *)y;
    const json_t *p = nodes_pod(sorted_snapshot, i), *q = nodes_pod(sorted_snapshot, k);
    int64_t a = codec_json_int(p, 0, "spec", "priority", NULL);
    int64_t b = codec_json_int(q, 0, "spec", "priority", NULL);
    if (a != b)
        return a > b ? -1 : 1;
    size_t g = nodes_gpu_request(sorted_snapshot, i), h = nodes_gpu_request(sorted_snapshot, k);
    if (g != h)
        return g > h ? -1 : 1;
    int64_t s = autoscaler_created_ms(p, 0), t = autoscaler_created_ms(q, 0);
    if (s != t)
        return s < t ? -1 : 1;
    return strcmp(kube_uid(p), kube_uid(q));
}

void autoscaler_run_init(struct autoscaler *a, struct autoscaler_run *r, int64_t now_ms)
{
    *r = (struct autoscaler_run){.snapshot = nodes_snapshot_new(), .now_ms = now_ms};
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        build_templates(a, &a->pools[i]);
    add_nodes(a, r);
    add_pods(a, r);
    sorted_snapshot = r->snapshot;
    if (r->n_pending)
        qsort(r->pending, r->n_pending, sizeof(*r->pending), compare_pending);
    sorted_snapshot = NULL;
}

void autoscaler_run_index_pods(struct autoscaler_run *r)
{
    size_t n_pods = nodes_pod_count(r->snapshot);
    r->first_pod = gs_alloc_array(r->n_nodes + 2, sizeof(*r->first_pod));
    r->pods_by_node = gs_alloc_array(n_pods + 1, sizeof(*r->pods_by_node));
    for (size_t i = 0; i < n_pods; i++) {
        size_t node = nodes_of_pod(r->snapshot, i);
        if (node < r->n_nodes)
            r->first_pod[node + 2]++;
    }
    for (size_t i = 2; i < r->n_nodes + 2; i++)
        r->first_pod[i] += r->first_pod[i - 1];
    for (size_t i = 0; i < n_pods; i++) {
        size_t node = nodes_of_pod(r->snapshot, i);
        if (node < r->n_nodes)
            r->pods_by_node[r->first_pod[node + 1]++] = i;
    }
}

void autoscaler_run_finish(struct autoscaler_run *r)
{
    nodes_snapshot_free(r->snapshot);
    free(r->upcoming);
    free(r->nodes);
    free(r->pending);
    free(r->first_pod);
    free(r->pods_by_node);
}
