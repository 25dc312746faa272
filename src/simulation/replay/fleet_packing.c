// SPDX-License-Identifier: Apache-2.0
// The packing of a run with pools: early cordon of idle large nodes, and consolidation.
#include "replay/replay_private.h"

#include "base/mem.h"
#include "kube/object.h"

static const char *pool_name(const struct replay_fleet_run *run, size_t node)
{
    return run->pools[run->nodes[node].pool].pool->name;
}

void replay_fleet_plan_cordons(struct replay_fleet_run *run)
{
    struct nodes_choice_settings settings = {.policy = run->f->policy, .now_ms = run->t_ms};
    struct nodes_cordons plan = {0};
    struct nodes_mix mix = {0};
    if (!run->f->times.early_cordon)
        return;
    GS_AUTO_FREE struct nodes_group *groups = replay_fleet_groups(run);
    nodes_mix_of(run->snapshot, &mix);
    nodes_mix_add_groups(&mix, groups, run->f->pools.len);
    nodes_plan_cordons(run->snapshot, groups, run->f->pools.len, &mix, &settings, &plan);
    for (size_t i = 0; i < plan.len; i++) {
        const struct nodes_cordon *c = &plan.items[i];
        if (run->nodes[c->node].n_pods) // pods without GPUs: the node is busy for them
            continue;
        replay_fleet_log(run, "node %s-%u %s: %s", pool_name(run, c->node),
                         run->nodes[c->node].number + 1, c->cordon ? "cordoned" : "uncordoned",
                         c->why);
        replay_fleet_cordon_node(run, c->node, c->cordon);
    }
    nodes_cordons_finish(&plan);
    nodes_mix_finish(&mix);
}

static enum nodes_movability may_move(void *arg, const json_t *pod)
{
    (void)arg;
    const char *safe = kube_annotation(pod, REPLAY_ANN_SAFE_TO_EVICT);
    return gs_streq(safe, "false") ? NODES_BLOCK : NODES_MOVE;
}

// At most one node per scan, and none shortly after new nodes.
void replay_fleet_consolidate(struct replay_fleet_run *run)
{
    struct nodes_consolidation plan = {0};
    if (!run->f->times.consolidation || run->waiting.len ||
        run->t_ms - run->last_add_ms < run->f->times.delay_after_add_ms)
        return;
    nodes_plan_consolidation(run->snapshot, may_move, NULL, 1, &plan);
    for (size_t i = 0; i < plan.n_nodes; i++) {
        size_t node = plan.nodes[i].node;
        const struct replay_fleet_pool *p = &run->pools[run->nodes[node].pool];
        if (run->nodes[node].state == REPLAY_NODE_READY && p->size > p->pool->min)
            replay_fleet_drain_node(run, node, plan.nodes[i].why);
    }
    nodes_consolidation_finish(&plan);
}
