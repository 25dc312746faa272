// SPDX-License-Identifier: Apache-2.0
// Scale-down: a node is unneeded if its utilization is low and its pods fit on other existing
// nodes. It is removed after it was unneeded for long enough and the delays since the last change
// have passed.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

struct sweep {
    struct autoscaler *a;
    struct autoscaler_run *r;
    struct autoscaler_budgets *budgets;
    struct candidate *candidates;
    size_t n, cap;
    bool *receives; // by node: pods of a node that can be removed are placed there
};

struct candidate {
    struct autoscaler_node *node;
    size_t index; // in the snapshot
};

static void set_unremovable(struct autoscaler_node *n, char *why) // takes why
{
    free(n->unremovable);
    n->unremovable = why;
}

static void set_needed(struct autoscaler_node *n, char *why)
{
    set_unremovable(n, why);
    n->unneeded_since_ms = 0;
}

// --- utilization ---

static double utilization_of(const struct sweep *w, size_t node, const char *resource)
{
    const struct autoscaler_run *r = w->r;
    int64_t offered = nodes_allocatable(r->snapshot, node, resource), used = 0;
    for (size_t i = r->first_pod[node]; i < r->first_pod[node + 1]; i++) {
        size_t pod = r->pods_by_node[i];
        int64_t amount = nodes_request(r->snapshot, pod, resource);
        if (w->a->cfg.settings.ignore_daemonset_utilization &&
            autoscaler_is_daemonset_pod(nodes_pod(r->snapshot, pod)))
            offered -= amount;
        else
            used += amount;
    }
    return offered > 0 ? (double)used / (double)offered : 0;
}

// For a node with GPUs only the GPUs count.
static void measure(const struct sweep *w, const struct candidate *c)
{
    struct autoscaler_node *n = c->node;
    if (n->pool->pool->gpus > 0) {
        n->utilization_of = n->pool->pool->gpu_resource;
        n->utilization = utilization_of(w, c->index, n->utilization_of);
        return;
    }
    double cpu = utilization_of(w, c->index, "cpu"), memory = utilization_of(w, c->index, "memory");
    n->utilization_of = cpu > memory ? "cpu" : "memory";
    n->utilization = cpu > memory ? cpu : memory;
}

static bool is_eligible(const struct sweep *w, const struct candidate *c)
{
    const struct autoscaler_settings *s = &w->a->cfg.settings;
    struct autoscaler_node *n = c->node;
    measure(w, c);
    if (gs_streq(kube_annotation(n->object, AUTOSCALER_ANN "scale-down-disabled"), "true")) {
        set_needed(n, gs_strdup("annotation " AUTOSCALER_ANN "scale-down-disabled"));
        return false;
    }
    double limit =
        n->pool->pool->gpus > 0 ? s->gpu_utilization_threshold : s->utilization_threshold;
    if (n->utilization > limit && !n->consolidate) {
        set_needed(n, gs_format("%s requested (%.4g%% of allocatable) is above the scale-down "
                                "utilization threshold",
                                n->utilization_of, n->utilization * 100));
        return false;
    }
    return true;
}

// --- simulation ---

struct destinations {
    size_t *items, len, cap;
};

static bool place_elsewhere(const struct sweep *w, size_t pod, size_t node,
                            struct destinations *to_nodes, char **ret_why)
{
    struct nodes_snapshot *s = w->r->snapshot;
    nodes_unplace(s, pod, node);
    size_t to = nodes_best(s, pod, NODES_FIRST, NULL);
    if (to == NODES_NONE) {
        *ret_why = gs_format("%s/%s fits on no other node", kube_namespace(nodes_pod(s, pod)),
                             kube_name(nodes_pod(s, pod)));
        return false;
    }
    nodes_place(s, pod, to);
    gs_grow(&to_nodes->items, &to_nodes->cap, to_nodes->len, sizeof(*to_nodes->items));
    to_nodes->items[to_nodes->len++] = to;
    return true;
}

// Pods that were only placed in the snapshot have to fit elsewhere, too, but nobody evicts them.
static bool is_bound(const json_t *pod)
{
    const char *node = codec_json_str(pod, "spec", "nodeName", NULL);
    return node && *node;
}

static bool simulate_pod(const struct sweep *w, const struct candidate *c, size_t pod,
                         struct destinations *to_nodes, bool *ret_moves, char **ret_why)
{
    const json_t *object = nodes_pod(w->r->snapshot, pod);
    *ret_moves = false;
    if (is_bound(object)) {
        enum autoscaler_move move =
            autoscaler_may_move(w->a, w->budgets, object, w->r->now_ms, ret_why);
        if (move != AUTOSCALER_MOVE)
            return move == AUTOSCALER_IGNORE;
        *ret_moves = true;
    }
    // Pods below the cutoff do not keep a node.
    if (codec_json_int(object, 0, "spec", "priority", NULL) <
        w->a->cfg.settings.expendable_priority)
        return true;
    return place_elsewhere(w, pod, c->index, to_nodes, ret_why);
}

// Keeps the moves in the snapshot if the node can be removed, so that a later node does not count
// on the same space.
static bool simulate(const struct sweep *w, const struct candidate *c)
{
    struct autoscaler_run *r = w->r;
    size_t checkpoint = nodes_checkpoint(r->snapshot), n_moves = 0;
    struct destinations to_nodes = {0};
    char *why = NULL;
    bool ok = true;
    if (w->receives[c->index]) {
        set_needed(c->node, gs_strdup("it takes the pods of nodes that are removed"));
        return false;
    }
    nodes_exclude(r->snapshot, c->index, true);
    for (size_t i = r->first_pod[c->index]; ok && i < r->first_pod[c->index + 1]; i++) {
        size_t pod = r->pods_by_node[i];
        bool moves;
        ok = simulate_pod(w, c, pod, &to_nodes, &moves, &why);
        n_moves += moves;
    }
    for (size_t i = 0; ok && i < to_nodes.len; i++)
        w->receives[to_nodes.items[i]] = true;
    free(to_nodes.items);
    if (!ok) {
        nodes_restore(r->snapshot, checkpoint);
        set_needed(c->node, why);
        return false;
    }
    for (size_t i = r->first_pod[c->index]; i < r->first_pod[c->index + 1]; i++) {
        const json_t *pod = nodes_pod(r->snapshot, r->pods_by_node[i]);
        if (is_bound(pod) && !autoscaler_is_daemonset_pod(pod))
            autoscaler_budgets_use(w->budgets, pod);
    }
    c->node->needs_drain = n_moves > 0;
    return true;
}

// --- candidates ---

static bool is_candidate(const struct autoscaler_node *n)
{
    return n && n->object && !n->deletion &&
           (n->readiness == AUTOSCALER_READY || n->readiness == AUTOSCALER_UNREADY);
}

// Nodes that have been unneeded for long come first, then those with few pods.
static const struct autoscaler_run *sorted_run;

static int compare_candidates(const void *x, const void *y)
{
    const struct candidate *p = x, *q = y;
    int64_t s = p->node->unneeded_since_ms, t = q->node->unneeded_since_ms;
    bool a = p->node->replaced_until_ms != 0, b = q->node->replaced_until_ms != 0;
    if (a != b)
        return a ? -1 : 1; // before the node that was ordered for its pods
    if (s != t)
        return !s ? 1 : !t ? -1 : s < t ? -1 : 1;
    size_t n = sorted_run->first_pod[p->index + 1] - sorted_run->first_pod[p->index];
    size_t m = sorted_run->first_pod[q->index + 1] - sorted_run->first_pod[q->index];
    if (n != m)
        return n < m ? -1 : 1;
    return strcmp(p->node->name, q->node->name);
}

static void collect_candidates(struct sweep *w)
{
    for (size_t i = 0; i < w->r->n_nodes; i++) {
        // Upcoming nodes take no pods of removed nodes.
        if (w->r->upcoming[i])
            nodes_exclude(w->r->snapshot, i, true);
        if (!is_candidate(w->r->nodes[i]))
            continue;
        gs_grow(&w->candidates, &w->cap, w->n, sizeof(*w->candidates));
        w->candidates[w->n++] = (struct candidate){w->r->nodes[i], i};
    }
    sorted_run = w->r;
    if (w->n)
        qsort(w->candidates, w->n, sizeof(*w->candidates), compare_candidates);
    sorted_run = NULL;
}

static void find_unneeded(struct sweep *w)
{
    struct autoscaler *a = w->a;
    a->n_unneeded = a->n_unremovable = 0;
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        a->pools[i].unneeded = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct autoscaler_node *n = w->candidates[i].node;
        if (!is_eligible(w, &w->candidates[i]) || !simulate(w, &w->candidates[i])) {
            a->n_unremovable++;
            continue;
        }
        if (!n->unneeded_since_ms) {
            n->unneeded_since_ms = w->r->now_ms;
            gs_debug("autoscaler", "node %s is unneeded from now on", n->name);
        }
        set_unremovable(n, NULL);
        n->pool->unneeded++;
        a->n_unneeded++;
    }
}

// --- removal ---

static bool passed(int64_t since_ms, int64_t delay_ns, int64_t now_ms)
{
    return !since_ms || now_ms - since_ms >= delay_ns / GS_NS_PER_MS;
}

static bool in_cooldown(const struct autoscaler *a, int64_t now_ms)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    return !passed(a->last_add_ms, s->delay_after_add, now_ms) ||
           !passed(a->last_delete_ms, s->delay_after_delete, now_ms) ||
           !passed(a->last_failure_ms, s->delay_after_failure, now_ms);
}

static bool removable_now(struct autoscaler *a, struct autoscaler_node *n, int64_t now_ms)
{
    const struct autoscaler_settings *s = &a->cfg.settings;
    int64_t time = n->readiness == AUTOSCALER_UNREADY ? s->unready_time : s->unneeded_time;
    if (!n->unneeded_since_ms || !passed(n->unneeded_since_ms, time, now_ms))
        return false;
    size_t leaving = 0;
    for (size_t i = 0; i < a->n_deletions; i++)
        leaving += autoscaler_deletion_counts(a->deletions[i], n->pool);
    // A deletion that ended during this run has changed the target.
    const struct nodes_provider *provider = a->cfg.provider;
    size_t target = provider->target(provider->ctx, n->pool->pool->name);
    if (target <= leaving || target - leaving <= n->pool->pool->min) {
        set_unremovable(n,
                        gs_format("the pool has its minimum size %zu", (size_t)n->pool->pool->min));
        return false;
    }
    return true;
}

static size_t drains_in_progress(const struct autoscaler *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->n_deletions; i++)
        n += autoscaler_deletion_is_drain(a->deletions[i]);
    return n;
}

static bool start_removals(struct sweep *w)
{
    struct autoscaler *a = w->a;
    const struct autoscaler_settings *s = &a->cfg.settings;
    bool any = false;
    for (size_t pass = 0; pass < 2; pass++) { // empty nodes first
        for (size_t i = 0; i < w->n; i++) {
            struct autoscaler_node *n = w->candidates[i].node;
            if (n->deletion || n->needs_drain != (pass == 1) || !removable_now(a, n, w->r->now_ms))
                continue;
            if (a->n_deletions >= (size_t)s->max_parallelism ||
                (pass == 1 && drains_in_progress(a) >= (size_t)s->max_drain_parallelism))
                return any;
            autoscaler_delete(a, n, pass == 1);
            any = true;
        }
    }
    return any;
}

// --- soft taints ---

static void update_soft_taints(struct sweep *w)
{
    struct autoscaler *a = w->a;
    int64_t budget = a->cfg.settings.max_soft_taints;
    for (size_t i = 0; i < w->n && budget > 0; i++) {
        struct autoscaler_node *n = w->candidates[i].node;
        bool has = autoscaler_has_taint(n->object, AUTOSCALER_SOFT_TAINT);
        if (has == (n->unneeded_since_ms != 0) || n->deletion)
            continue;
        GS_AUTO_FREE char *value = gs_format("%lld", (long long)(w->r->now_ms / 1000));
        autoscaler_taint(a, n, AUTOSCALER_SOFT_TAINT, has ? NULL : value, "PreferNoSchedule");
        budget--;
    }
}

void autoscaler_scale_down(struct autoscaler *a, struct autoscaler_run *r)
{
    struct sweep w = {.a = a,
                      .r = r,
                      .budgets = autoscaler_budgets_new(a),
                      .receives = gs_alloc_array(r->n_nodes + 1, sizeof(bool))};
    autoscaler_run_index_pods(r);
    autoscaler_plan_consolidation(a, r, w.budgets);
    collect_candidates(&w);
    find_unneeded(&w);
    a->in_cooldown = in_cooldown(a, r->now_ms);
    if (!a->in_cooldown && !start_removals(&w))
        update_soft_taints(&w);
    autoscaler_replace(a, r, w.budgets);
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        autoscaler_condition_set(&a->pools[i].scale_down,
                                 a->pools[i].unneeded ? "CandidatesPresent" : "NoCandidates",
                                 r->now_ms);
    autoscaler_budgets_free(w.budgets);
    free(w.candidates);
    free(w.receives);
}
