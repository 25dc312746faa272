// SPDX-License-Identifier: Apache-2.0
// The start of nodes in a run with pools: how long it takes, whether it fails, and when the cloud
// takes a spot node back.
#include "replay/fleet_run.h"

#include <math.h>

#define STREAM_STARTUP UINT64_C(1000003)
#define STREAM_FAILURE UINT64_C(2000003)
#define STREAM_PREEMPT UINT64_C(3000017)

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
    if (p->simulation->failure == NODES_FAILURE_NONE)
        return NODES_FAILURE_NONE;
    bool fails = p->simulation->fail_share > 0
                     ? replay_random(run->f->seed, STREAM_FAILURE + pool, attempt) <
                           p->simulation->fail_share
                     : !p->simulation->fail_count || attempt < p->simulation->fail_count;
    return fails ? p->simulation->failure : NODES_FAILURE_NONE;
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
    } else if (n->failure != NODES_FAILURE_NONE || ms > run->f->plan.max_provision_ms) {
        n->failure = n->failure != NODES_FAILURE_NONE ? n->failure : NODES_FAILURE_NEVER_READY;
        ms = run->f->plan.max_provision_ms;
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
