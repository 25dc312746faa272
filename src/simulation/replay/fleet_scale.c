// SPDX-License-Identifier: Apache-2.0
// The node autoscaler of a run with pools: it scans as the Cluster Autoscaler does, adds nodes for
// waiting pods and removes nodes that are not needed.
#include "replay/replay_private.h"

#include "base/mem.h"

#include <math.h>

#define MAX_EMPTY      10                   // empty nodes that one scan removes
#define DECISIONS      UINT64_C(1000000007) // so that seeds of decisions differ
#define STREAM_STARTUP UINT64_C(1000003)
#define STREAM_FAILURE UINT64_C(2000003)
#define STREAM_PREEMPT UINT64_C(3000017)

static void set_earlier(int64_t *t_ms, int64_t other_ms)
{
    if (other_ms < *t_ms)
        *t_ms = other_ms;
}

// --- the start of a node ---

static bool is_outage(const struct nodes_pool *pool, int64_t t_ms)
{
    const struct replay_pool_extra *x = pool->extra;
    for (size_t i = 0; x && i < x->n_outages; i++)
        if (t_ms >= x->outages[i].from_ms && t_ms < x->outages[i].until_ms)
            return true;
    return false;
}

static enum nodes_failure failure_of(const struct replay_fleet_run *run, size_t pool,
                                     unsigned attempt)
{
    const struct nodes_pool *p = run->pools[pool].pool;
    if (is_outage(p, run->t_ms))
        return NODES_FAILURE_CAPACITY;
    if (p->failure == NODES_FAILURE_NONE)
        return NODES_FAILURE_NONE;
    bool fails = p->fail_share > 0
                     ? replay_random(run->f->seed, STREAM_FAILURE + pool, attempt) < p->fail_share
                     : !p->fail_count || attempt < p->fail_count;
    return fails ? p->failure : NODES_FAILURE_NONE;
}

// Exponentially distributed: a node is not more likely to be taken because it is old.
void replay_fleet_expect_preemption(struct replay_fleet_run *run, struct replay_fleet_node *n)
{
    const struct replay_pool_extra *x = run->pools[n->pool].pool->extra;
    if (!x || !x->preemption_ms)
        return;
    double u = replay_random(run->f->seed, STREAM_PREEMPT + n->pool, n->number);
    double ms = -log(u) * (double)x->preemption_ms;
    n->preempt_ms = run->t_ms + ((int64_t)fmin(ms, 1e15) / 1000 + 1) * 1000;
}

void replay_fleet_start_node(struct replay_fleet_run *run, struct replay_fleet_node *n)
{
    const struct nodes_pool *p = run->pools[n->pool].pool;
    struct replay_spread startup = {p->startup_ms, p->startup_p90_ms};
    int64_t ms = replay_random_time(&startup, run->f->seed, STREAM_STARTUP + n->pool, n->number);
    n->failure = failure_of(run, n->pool, n->number);
    if (n->failure == NODES_FAILURE_CAPACITY) {
        ms = run->f->times.scan_ms;
    } else if (n->failure != NODES_FAILURE_NONE || ms > run->f->times.max_provision_ms) {
        n->failure = n->failure != NODES_FAILURE_NONE ? n->failure : NODES_FAILURE_NEVER_READY;
        ms = run->f->times.max_provision_ms;
    }
    n->next_ms = run->t_ms + ms;
}

void replay_fleet_end_start(struct replay_fleet_run *run, size_t node)
{
    static const char *const why[] = {
        [NODES_FAILURE_CAPACITY] = "no capacity",
        [NODES_FAILURE_NEVER_REGISTERS] = "it did not register within max-node-provision-time",
        [NODES_FAILURE_NEVER_READY] = "it was not ready within max-node-provision-time"};
    struct replay_fleet_node *n = &run->nodes[node];
    struct replay_fleet_pool *p = &run->pools[n->pool];
    bool no_capacity = n->failure == NODES_FAILURE_CAPACITY;
    if (n->failure == NODES_FAILURE_NONE) {
        n->state = REPLAY_NODE_READY;
        replay_fleet_expect_preemption(run, n);
        p->creating--;
        nodes_backoff_succeed(&p->backoff);
        nodes_exclude(run->snapshot, node, false);
        replay_fleet_log(run, "node %s-%u ready after %lld s", p->pool->name, n->number + 1,
                         (long long)((run->t_ms - n->created_ms) / 1000));
        run->changed = true;
        return;
    }
    run->result->summary.capacity_failures += no_capacity;
    run->result->summary.start_failures += !no_capacity;
    run->result->pools[n->pool].failures++;
    nodes_backoff_fail(&p->backoff, run->t_ms, &run->f->times.backoff);
    replay_fleet_log(run, "node %s-%u failed: %s; back-off of the pool for %lld s", p->pool->name,
                     n->number + 1, why[n->failure],
                     (long long)((p->backoff.until_ms - run->t_ms) / 1000));
    replay_fleet_remove_node(run, node);
}

// --- scale up ---

static struct nodes_group group_of(const struct replay_fleet_pool *p)
{
    return (struct nodes_group){.name = p->pool->name,
                                .pool = p->pool,
                                .node = p->template[0],
                                .size = p->size,
                                .max = p->pool->max,
                                .upcoming = p->creating,
                                .backoff = p->backoff};
}

struct nodes_group *replay_fleet_groups(struct replay_fleet_run *run)
{
    struct nodes_group *groups = gs_alloc_array(run->f->pools.len + 1, sizeof(*groups));
    for (size_t i = 0; i < run->f->pools.len; i++) {
        nodes_backoff_expire(&run->pools[i].backoff, run->t_ms, &run->f->times.backoff);
        groups[i] = group_of(&run->pools[i]);
    }
    return groups;
}

void replay_fleet_add_reasons(struct replay_fleet_run *run, size_t pool, size_t pod,
                              struct gs_buf *out)
{
    struct nodes_choice_settings settings = {.policy = run->f->policy, .now_ms = run->t_ms};
    struct nodes_group group = group_of(&run->pools[pool]);
    struct nodes_reasons reasons = {0};
    gs_buf_addf(out, "; pool %s: ", group.name);
    nodes_group_reasons(run->snapshot, pod, &group, &settings, &reasons);
    for (size_t i = 0; i < reasons.len; i++)
        gs_buf_addf(out, "%s%s", i ? ", " : "", reasons.items[i].text);
    nodes_reasons_finish(&reasons);
}

// Orders nodes of one pool, as one loop of the Cluster Autoscaler.
static void order_nodes(struct replay_fleet_run *run, const struct nodes_option *o, size_t pool)
{
    struct replay_fleet_pool *p = &run->pools[pool];
    replay_fleet_log(run, "%s %zu->%zu (max: %zu) for %zu waiting pod%s: %s", p->pool->name,
                     p->size, p->size + o->count, p->pool->max, o->n_pods,
                     o->n_pods == 1 ? "" : "s", o->text);
    for (size_t i = 0; i < o->count; i++)
        replay_fleet_add_node(run, pool, false);
    run->result->summary.nodes_added += o->count;
    run->result->pools[pool].added += o->count;
    run->last_add_ms = run->t_ms;
}

// False: pods wait, and nothing helps them until something changes or a back-off ends.
static bool scale_up(struct replay_fleet_run *run)
{
    struct nodes_choice_settings settings = {.policy = run->f->policy,
                                             .now_ms = run->t_ms,
                                             .seed = run->f->seed * DECISIONS + run->decisions++};
    struct nodes_decision d;
    run->reserved = false;
    if (!run->waiting.len)
        return true;
    GS_AUTO_FREE struct nodes_group *groups = replay_fleet_groups(run);
    size_t checkpoint = nodes_checkpoint(run->snapshot);
    run->reserved = run->f->times.early_cordon &&
                    nodes_reserve_cordoned(run->snapshot, groups, run->f->pools.len, &settings) > 0;
    nodes_decide(run->snapshot, groups, run->f->pools.len, &settings, &d);
    bool helped = d.chosen != NODES_NONE || d.n_waiting == d.n_pending;
    nodes_restore(run->snapshot, checkpoint);
    if (d.chosen != NODES_NONE)
        order_nodes(run, &d.options[d.chosen], d.chosen);
    nodes_decision_finish(&d);
    return helped;
}

// --- scale down ---

static double share(const struct replay_fleet_run *run, size_t node, const char *resource)
{
    int64_t all = nodes_allocatable(run->snapshot, node, resource);
    int64_t free = nodes_free(run->snapshot, node, resource);
    return all > 0 ? (double)(all - free) / (double)all : 0;
}

static bool is_below_threshold(const struct replay_fleet_run *run, size_t node)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    if (n->gpus)
        return (double)n->used < run->f->times.gpu_threshold * (double)n->gpus;
    double cpu = share(run, node, "cpu"), memory = share(run, node, "memory");
    return (cpu > memory ? cpu : memory) < run->f->times.threshold;
}

// Whether the pods of the node fit on other ready nodes. Keeps them there: the caller restores.
static bool pods_fit_elsewhere(struct replay_fleet_run *run, size_t node)
{
    size_t left = run->nodes[node].n_pods;
    nodes_exclude(run->snapshot, node, true);
    for (size_t i = 0; i < run->n_pods && left; i++) {
        const struct replay_fleet_pod *p = &run->pods[i];
        if (!p->live || p->node != node)
            continue;
        left--;
        if (!run->f->workloads[p->workload].safe_to_evict)
            return false;
        nodes_unplace(run->snapshot, p->index, node);
        size_t other = nodes_best(run->snapshot, p->index, NODES_PACK_GPUS, NULL);
        if (other == NODES_NONE)
            return false;
        nodes_place(run->snapshot, p->index, other);
    }
    return true;
}

static bool is_unneeded(struct replay_fleet_run *run, size_t node)
{
    if (run->nodes[node].state != REPLAY_NODE_READY || !is_below_threshold(run, node))
        return false;
    if (!run->nodes[node].n_pods)
        return true;
    size_t checkpoint = nodes_checkpoint(run->snapshot);
    bool fit = pods_fit_elsewhere(run, node);
    nodes_restore(run->snapshot, checkpoint);
    return fit;
}

static void find_unneeded(struct replay_fleet_run *run)
{
    for (size_t i = 0; i < run->n_nodes; i++) {
        struct replay_fleet_node *n = &run->nodes[i];
        if (!is_unneeded(run, i))
            n->unneeded_ms = INT64_MAX;
        else if (n->unneeded_ms == INT64_MAX)
            n->unneeded_ms = run->t_ms;
    }
}

static int64_t removable_at(const struct replay_fleet_run *run, size_t node)
{
    const struct replay_fleet_node *n = &run->nodes[node];
    int64_t after_add_ms = run->last_add_ms + run->f->times.delay_after_add_ms;
    if (n->state != REPLAY_NODE_READY || n->unneeded_ms == INT64_MAX ||
        run->pools[n->pool].size <= run->pools[n->pool].pool->min)
        return INT64_MAX;
    int64_t unneeded_ms = n->unneeded_ms + run->f->times.unneeded_ms;
    return unneeded_ms > after_add_ms ? unneeded_ms : after_add_ms;
}

// Empty nodes are removed together, others one by one. Returns when the next node can be removed.
static int64_t scale_down(struct replay_fleet_run *run)
{
    int64_t next_ms = INT64_MAX;
    size_t empty = 0, drained = 0;
    find_unneeded(run);
    if (run->reserved) // for the pod that waits for the end of a cordon
        return run->t_ms + run->f->times.scan_ms;
    for (size_t i = 0; i < run->n_nodes; i++) {
        int64_t at_ms = removable_at(run, i);
        bool is_empty = !run->nodes[i].n_pods;
        if (at_ms > run->t_ms || (is_empty ? empty == MAX_EMPTY : drained == 1)) {
            set_earlier(&next_ms, at_ms);
            continue;
        }
        empty += is_empty;
        drained += !is_empty;
        GS_AUTO_FREE char *why = gs_format(
            "unneeded for %lld s", (long long)((run->t_ms - run->nodes[i].unneeded_ms) / 1000));
        replay_fleet_drain_node(run, i, why);
    }
    return next_ms;
}

// --- scans ---

static int64_t next_grid_time(const struct replay_fleet_run *run, int64_t t_ms)
{
    int64_t scan = run->f->times.scan_ms;
    return t_ms == INT64_MAX ? t_ms : (t_ms + scan - 1) / scan * scan;
}

int64_t replay_fleet_scan(struct replay_fleet_run *run)
{
    int64_t scan = run->f->times.scan_ms;
    if (run->t_ms % scan == 0 && (run->changed || run->t_ms >= run->next_scan_ms)) {
        int64_t next_ms = INT64_MAX;
        run->changed = false;
        replay_fleet_plan_cordons(run);
        replay_fleet_schedule(run);
        if (!scale_up(run))
            for (size_t i = 0; i < run->f->pools.len; i++)
                if (nodes_backoff_active(&run->pools[i].backoff, run->t_ms))
                    set_earlier(&next_ms, run->pools[i].backoff.until_ms);
        set_earlier(&next_ms, scale_down(run));
        replay_fleet_consolidate(run);
        // A pod of a drained node may have another node at once.
        replay_fleet_schedule(run);
        run->next_scan_ms = next_grid_time(run, next_ms > run->t_ms ? next_ms : run->t_ms + 1);
    }
    if (run->changed)
        set_earlier(&run->next_scan_ms, next_grid_time(run, run->t_ms + 1));
    return run->next_scan_ms;
}
