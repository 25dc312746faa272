// SPDX-License-Identifier: Apache-2.0
// What a plan says about nodes: removals, taints of candidates, and the state that the next plan
// needs.
#include "autoscaler/autoscaler_private.h"

#include "base/log.h"
#include "base/mem.h"

static void take_state(const struct autoscaler_run *r, size_t node)
{
    struct autoscaler_node *n = r->nodes[node];
    const struct nodes_node_plan *p = &r->plan.nodes[node];
    if (!n->unneeded_since_ms && p->unneeded_since_ms)
        gs_debug("autoscaler", "node %s is unneeded from now on", n->name);
    n->unneeded_since_ms = p->unneeded_since_ms;
    n->replaceable_since_ms = p->replaceable_since_ms;
    n->replaced_until_ms = p->replaced_until_ms;
    n->utilization = p->utilization;
    n->utilization_of = p->resource;
    free(n->reason);
    n->reason = nodes_plan_node_text(&r->in, &r->plan, node);
    n->verdict = p->verdict;
    n->pool->unneeded += nodes_verdict_is_unneeded(p->verdict);
}

void autoscaler_take_states(struct autoscaler *a, const struct autoscaler_run *r)
{
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        a->pools[i].unneeded = 0;
    for (size_t i = 0; i < r->in.n_nodes; i++)
        if (r->nodes[i])
            take_state(r, i);
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        autoscaler_condition_set(&a->pools[i].scale_down,
                                 a->pools[i].unneeded ? "CandidatesPresent" : "NoCandidates",
                                 r->in.now_ms);
    a->n_unneeded = r->plan.n_unneeded;
    a->n_unremovable = r->plan.n_unremovable;
    a->in_cooldown = r->plan.delay != NODES_DELAY_NONE;
}

static void update_soft_taints(struct autoscaler *a, const struct autoscaler_run *r)
{
    int64_t budget = a->cfg.settings.max_soft_taints;
    for (size_t i = 0; i < r->in.n_nodes && budget > 0; i++) {
        struct autoscaler_node *n = r->nodes[i];
        if (!n || !n->object || n->deletion || n->readiness == AUTOSCALER_NOT_STARTED ||
            n->readiness == AUTOSCALER_BEING_DELETED)
            continue;
        bool has = autoscaler_has_taint(n->object, AUTOSCALER_SOFT_TAINT);
        if (has == (n->unneeded_since_ms != 0))
            continue;
        GS_AUTO_FREE char *value = gs_format("%lld", (long long)(r->in.now_ms / 1000));
        autoscaler_taint(a, n, AUTOSCALER_SOFT_TAINT, has ? NULL : value, "PreferNoSchedule");
        budget--;
    }
}

void autoscaler_remove(struct autoscaler *a, const struct autoscaler_run *r)
{
    if (r->plan.awaited || !r->in.settings.scale_down)
        return;
    for (size_t i = 0; i < r->plan.n_removals; i++)
        autoscaler_delete(a, r->nodes[r->plan.removals[i].node], r->plan.removals[i].drain);
    if (!a->in_cooldown && !r->plan.n_removals)
        update_soft_taints(a, r);
}
