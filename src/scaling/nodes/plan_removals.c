// SPDX-License-Identifier: Apache-2.0
// The removals of a plan: a node is unneeded if its utilization is at most the threshold and its
// pods fit on other existing nodes. It is removed after it was unneeded for long enough and the
// delays since the last change are over.
//
// The rules are those of kubernetes-sigs/cluster-autoscaler (read at 33c3f97, August 2026):
// pkg/core/scaledown/eligibility (a node above the threshold stays, one at the threshold does not),
// pkg/simulator (where the pods go), pkg/core/scaledown/unneeded (time and minimum size) and
// pkg/core/scaledown/budgets (empty nodes first, and how many at a time).
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/plan_private.h"

static void keep(const struct nodes_planner *p, size_t node, enum nodes_verdict why)
{
    struct nodes_node_plan *n = &p->plan->nodes[node];
    n->verdict = why;
    n->unneeded_since_ms = 0;
    p->plan->n_unremovable++;
}

// --- utilization ---

// Pods that should have ended do not count. What DaemonSets request is taken off both sides, if
// the setting says so.
static double utilization_of(const struct nodes_planner *p, size_t node, const char *resource)
{
    int64_t offered = nodes_allocatable(p->s, node, resource), used = 0;
    for (size_t i = p->first_pod[node]; i < p->first_pod[node + 1]; i++) {
        size_t pod = p->pods_by_node[i];
        int64_t amount = nodes_request(p->s, pod, resource);
        const json_t *object = p->s->pods[pod].object;
        if (p->in->settings.ignore_daemonset_utilization && nodes_is_daemonset_pod(object))
            offered -= amount;
        else if (!nodes_is_long_terminating(object, p->in->now_ms))
            used += amount;
    }
    return offered > 0 ? (double)used / (double)offered : 0;
}

// NULL: the node has no GPUs.
static const char *gpu_resource(const struct nodes_planner *p, size_t node)
{
    const struct nodes_pool *pool = p->groups[p->in->nodes[node].group].pool;
    if (pool)
        return pool->gpus > 0 ? pool->gpu_resource : NULL;
    return nodes_gpus(p->s, node) > 0 ? NODES_GPU : NULL;
}

// For a node with GPUs only the GPUs count. GPUs that are not allocatable count as unused.
static void measure(const struct nodes_planner *p, size_t node)
{
    struct nodes_node_plan *n = &p->plan->nodes[node];
    const char *gpu = gpu_resource(p, node);
    if (gpu) {
        n->resource = gpu;
        n->utilization = utilization_of(p, node, gpu);
        return;
    }
    double cpu = utilization_of(p, node, "cpu"), memory = utilization_of(p, node, "memory");
    n->resource = cpu > memory ? "cpu" : "memory";
    n->utilization = cpu > memory ? cpu : memory;
}

static bool is_eligible(const struct nodes_planner *p, size_t node)
{
    const struct nodes_plan_settings *s = &p->in->settings;
    const struct nodes_node_plan *n = &p->plan->nodes[node];
    measure(p, node);
    if (gs_streq(kube_annotation(p->s->nodes[node].object, NODES_ANN "scale-down-disabled"),
                 "true")) {
        keep(p, node, NODES_SCALE_DOWN_DISABLED);
        return false;
    }
    // At the threshold, a node is unneeded.
    double limit = gpu_resource(p, node) ? s->gpu_threshold : s->threshold;
    if (n->utilization > limit && !p->consolidate[node]) {
        keep(p, node, NODES_UTILIZED);
        return false;
    }
    return true;
}

// --- simulation ---

// Pods that the plan has placed on the node have to fit elsewhere, too, but nobody evicts them.
static bool is_bound(const struct nodes_planner *p, size_t pod)
{
    return p->waiting[pod] == NODES_NONE;
}

static void add_pod(struct nodes_pods *pods, size_t pod)
{
    gs_grow(&pods->items, &pods->cap, pods->len, sizeof(*pods->items));
    pods->items[pods->len++] = pod;
}

// The pods of a node, and those of removed nodes that were placed there meanwhile.
static void collect_pods(const struct nodes_planner *p, size_t node, struct nodes_pods *ret)
{
    for (size_t i = p->first_pod[node]; i < p->first_pod[node + 1]; i++)
        add_pod(ret, p->pods_by_node[i]);
    for (size_t i = 0; p->receives[node] && i < p->moved.len; i++)
        if (nodes_of_pod(p->s, p->moved.items[i]) == node)
            add_pod(ret, p->moved.items[i]);
}

static bool place_elsewhere(const struct nodes_planner *p, size_t pod, size_t node)
{
    nodes_unplace(p->s, pod, node);
    size_t to = nodes_best(p->s, pod, NODES_FIRST, NULL);
    if (to == NODES_NONE) {
        p->plan->nodes[node].pod = pod;
        keep(p, node, p->receives[node] ? NODES_RECEIVES : NODES_NO_PLACE);
        return false;
    }
    nodes_place(p->s, pod, to);
    return true;
}

static bool simulate_pod(const struct nodes_planner *p, struct nodes_candidate *c, size_t pod)
{
    const json_t *object = p->s->pods[pod].object;
    struct nodes_node_plan *n = &p->plan->nodes[c->node];
    if (is_bound(p, pod)) {
        enum nodes_movability m =
            nodes_may_move(object, &p->in->settings, p->in->budgets, p->in->now_ms, &n->keeper);
        if (m == NODES_STAY)
            return true;
        if (m == NODES_BLOCK) {
            n->pod = pod;
            keep(p, c->node, NODES_KEPT_BY_POD);
            return false;
        }
        c->drain = true;
    }
    // Pods below the cutoff do not keep a node.
    if (codec_json_int(object, 0, "spec", "priority", NULL) < p->in->settings.expendable_priority)
        return true;
    return place_elsewhere(p, pod, c->node);
}

static void accept_moves(struct nodes_planner *p, size_t node, const struct nodes_pods *pods)
{
    size_t n_own = p->first_pod[node + 1] - p->first_pod[node];
    nodes_keep(p->s);
    for (size_t i = 0; i < pods->len; i++) {
        size_t pod = pods->items[i], to = nodes_of_pod(p->s, pod);
        if (is_bound(p, pod) && !nodes_is_daemonset_pod(p->s->pods[pod].object))
            nodes_budgets_use(p->in->budgets, p->s->pods[pod].object);
        if (to == node)
            continue;
        p->receives[to] = true;
        if (i < n_own)
            add_pod(&p->moved, pod);
    }
}

// Keeps the moves in the snapshot if the node can be removed: a later node does not count on the
// same space, and has to find another place for the pods that moved there.
static bool simulate(struct nodes_planner *p, struct nodes_candidate *c)
{
    size_t checkpoint = nodes_checkpoint(p->s);
    struct nodes_pods pods = {0};
    bool ok = true;
    collect_pods(p, c->node, &pods);
    nodes_exclude(p->s, c->node, true);
    for (size_t i = 0; ok && i < pods.len; i++)
        ok = simulate_pod(p, c, pods.items[i]);
    if (ok)
        accept_moves(p, c->node, &pods);
    else
        nodes_restore(p->s, checkpoint);
    free(pods.items);
    return ok;
}

// --- candidates ---

// Nodes for whose pods another node was ordered come first, then those that have been unneeded for
// long, then those with few pods.
static int compare_candidates(const void *x, const void *y, void *planner)
{
    const struct nodes_candidate *a = x, *b = y;
    const struct nodes_planner *p = planner;
    const struct nodes_node_plan *m = &p->plan->nodes[a->node], *n = &p->plan->nodes[b->node];
    int64_t s = m->unneeded_since_ms, t = n->unneeded_since_ms;
    bool replaced = m->replaced_until_ms != 0;
    if (replaced != (n->replaced_until_ms != 0))
        return replaced ? -1 : 1;
    if (s != t)
        return !s ? 1 : !t ? -1 : s < t ? -1 : 1;
    if (a->n_pods != b->n_pods)
        return a->n_pods < b->n_pods ? -1 : 1;
    return strcmp(p->s->nodes[a->node].name, p->s->nodes[b->node].name);
}

static void collect_candidates(struct nodes_planner *p)
{
    for (size_t i = 0; i < p->s->n_nodes; i++) {
        // Upcoming nodes take no pods of removed nodes.
        if (nodes_plan_upcoming(p, i) != NODES_NONE)
            nodes_exclude(p->s, i, true);
        if (i >= p->in->n_nodes || p->in->nodes[i].group == NODES_NONE ||
            (p->in->nodes[i].condition != NODES_READY &&
             p->in->nodes[i].condition != NODES_UNREADY))
            continue;
        gs_grow(&p->candidates, &p->candidates_cap, p->n_candidates, sizeof(*p->candidates));
        p->candidates[p->n_candidates++] =
            (struct nodes_candidate){.node = i, .n_pods = p->first_pod[i + 1] - p->first_pod[i]};
    }
    if (p->n_candidates)
        qsort_r(p->candidates, p->n_candidates, sizeof(*p->candidates), compare_candidates, p);
}

static bool is_unneeded(struct nodes_planner *p, struct nodes_candidate *c)
{
    return is_eligible(p, c->node) && simulate(p, c);
}

// The unneeded nodes remain among the candidates.
static void find_unneeded(struct nodes_planner *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n_candidates; i++) {
        struct nodes_candidate c = p->candidates[i];
        if (!is_unneeded(p, &c))
            continue;
        struct nodes_node_plan *n = &p->plan->nodes[c.node];
        if (!n->unneeded_since_ms)
            n->unneeded_since_ms = p->in->now_ms;
        p->candidates[kept++] = c;
    }
    p->n_candidates = p->plan->n_unneeded = kept;
}

// --- removals ---

static void find_delay(struct nodes_planner *p)
{
    const struct nodes_plan_settings *s = &p->in->settings;
    const struct {
        enum nodes_delay delay;
        int64_t since_ms, ms;
    } delays[] = {
        {NODES_AFTER_ADD, p->ordered ? p->in->now_ms : p->in->last_add_ms, s->delay_after_add_ms},
        {NODES_AFTER_DELETE, p->in->last_delete_ms, s->delay_after_delete_ms},
        {NODES_AFTER_FAILURE, p->in->last_failure_ms, s->delay_after_failure_ms},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(delays); i++) {
        int64_t until_ms = delays[i].since_ms + delays[i].ms;
        if (!delays[i].since_ms || until_ms <= p->in->now_ms || until_ms <= p->plan->delay_until_ms)
            continue;
        p->plan->delay = delays[i].delay;
        p->plan->delay_until_ms = until_ms;
    }
}

bool nodes_plan_at_minimum(const struct nodes_planner *p, size_t group, size_t removed)
{
    const struct nodes_group *g = &p->groups[group];
    size_t leaving = p->in->leaving[group] + removed, min = g->pool ? g->pool->min : 0;
    return g->size <= leaving || g->size - leaving <= min;
}

// The Cluster Autoscaler wants more than the time. Its scans are never exactly as far apart as the
// interval, so this is the first scan after the time, as here.
static bool is_long_enough(const struct nodes_planner *p, size_t node)
{
    struct nodes_node_plan *n = &p->plan->nodes[node];
    const struct nodes_plan_settings *s = &p->in->settings;
    n->until_ms = n->unneeded_since_ms +
                  (p->in->nodes[node].condition == NODES_UNREADY ? s->unready_ms : s->unneeded_ms);
    return n->until_ms <= p->in->now_ms;
}

static enum nodes_verdict verdict_of(const struct nodes_planner *p, const struct nodes_candidate *c,
                                     const size_t *removed)
{
    const struct nodes_plan_settings *s = &p->in->settings;
    const struct nodes_plan *plan = p->plan;
    size_t drains = p->in->n_draining, group = p->in->nodes[c->node].group;
    if (!is_long_enough(p, c->node))
        return NODES_NOT_LONG_ENOUGH;
    if (plan->delay != NODES_DELAY_NONE)
        return NODES_COOLDOWN;
    if (nodes_plan_at_minimum(p, group, removed[group]))
        return NODES_AT_MINIMUM;
    for (size_t i = 0; i < plan->n_removals; i++)
        drains += plan->removals[i].drain;
    if (p->in->n_removing + plan->n_removals >= s->max_parallelism ||
        (c->drain && drains >= s->max_drain_parallelism))
        return NODES_PARALLELISM;
    return NODES_REMOVED;
}

static void decide(struct nodes_planner *p, const struct nodes_candidate *c, size_t *removed)
{
    struct nodes_plan *plan = p->plan;
    struct nodes_node_plan *n = &plan->nodes[c->node];
    n->verdict = verdict_of(p, c, removed);
    if (n->verdict == NODES_COOLDOWN)
        n->until_ms = plan->delay_until_ms;
    if (n->verdict == NODES_COOLDOWN || n->verdict == NODES_NOT_LONG_ENOUGH)
        nodes_plan_again_at(p, n->until_ms);
    if (n->verdict != NODES_REMOVED)
        return;
    gs_grow(&plan->removals, &plan->removals_cap, plan->n_removals, sizeof(*plan->removals));
    plan->removals[plan->n_removals++] = (struct nodes_removal){c->node, c->drain};
    removed[p->in->nodes[c->node].group]++;
}

static void choose_removals(struct nodes_planner *p)
{
    GS_AUTO_FREE size_t *removed = gs_alloc_array(p->in->n_groups + 1, sizeof(*removed));
    find_delay(p);
    for (int drain = 0; drain < 2; drain++) // empty nodes first
        for (size_t i = 0; i < p->n_candidates; i++)
            if (p->candidates[i].drain == (drain == 1))
                decide(p, &p->candidates[i], removed);
}

static void find_consolidation(struct nodes_planner *p)
{
    struct nodes_consolidation found = {0};
    if (!p->in->settings.consolidation)
        return;
    nodes_plan_consolidation(p->s, nodes_plan_movable, p, p->in->settings.max_parallelism, &found);
    for (size_t i = 0; i < found.n_nodes; i++)
        p->consolidate[found.nodes[i].node] = true;
    nodes_consolidation_finish(&found);
}

void nodes_plan_removals(struct nodes_planner *p)
{
    p->receives = gs_alloc_array(p->s->n_nodes + 1, sizeof(bool));
    p->consolidate = gs_alloc_array(p->s->n_nodes + 1, sizeof(bool));
    nodes_pods_by_node(p->s, &p->first_pod, &p->pods_by_node);
    collect_candidates(p);
    find_consolidation(p);
    find_unneeded(p);
    choose_removals(p);
}
