// SPDX-License-Identifier: Apache-2.0
// The order in which a plan is made: minimum sizes, early cordons, waiting pods, then removals.
// Each step sees what the steps before it have changed in the snapshot.
#include "nodes/plan.h"

#include "base/mem.h"
#include "nodes/plan_private.h"

#define MINUTE_MS INT64_C(60000)

void nodes_plan_settings_init(struct nodes_plan_settings *ret)
{
    *ret = (struct nodes_plan_settings){
        .policy = NODES_POLICY_COST,
        .max_nodes_per_choice = 1000,
        .expendable_priority = -10,
        .scale_down = true,
        .unneeded_ms = 10 * MINUTE_MS,
        .unready_ms = 20 * MINUTE_MS,
        .delay_after_add_ms = 10 * MINUTE_MS,
        .delay_after_failure_ms = 3 * MINUTE_MS,
        .threshold = 0.5,
        .gpu_threshold = 0.5,
        .max_parallelism = 10,
        .max_drain_parallelism = 1,
        .skip_local_storage = true,
        .skip_system_pods = true,
        .system_pod_timeout_ms = 60 * MINUTE_MS, // --bsp-disruption-timeout
        .max_provision_ms = 15 * MINUTE_MS,
    };
}

// --- what the steps share ---

struct nodes_order *nodes_plan_add_order(struct nodes_planner *p, enum nodes_cause cause,
                                         size_t group, size_t count)
{
    struct nodes_plan *plan = p->plan;
    gs_grow(&plan->orders, &plan->orders_cap, plan->n_orders, sizeof(*plan->orders));
    struct nodes_order *o = &plan->orders[plan->n_orders++];
    *o = (struct nodes_order){.cause = cause, .group = group, .count = count, .node = NODES_NONE};
    p->groups[group].size += count;
    p->ordered |= cause != NODES_CAUSE_REPLACEMENT;
    return o;
}

void nodes_plan_again_at(struct nodes_planner *p, int64_t ms)
{
    if (ms < p->plan->again_ms)
        p->plan->again_ms = ms;
}

size_t nodes_plan_upcoming(const struct nodes_planner *p, size_t node)
{
    if (node < p->in->n_nodes)
        return p->in->nodes[node].condition == NODES_UPCOMING ? p->in->nodes[node].group
                                                              : NODES_NONE;
    return node - p->in->n_nodes < p->n_added ? p->added[node - p->in->n_nodes] : NODES_NONE;
}

enum nodes_movability nodes_plan_movable(void *planner, const json_t *pod)
{
    const struct nodes_planner *p = planner;
    enum nodes_keeper keeper = NODES_KEEPER_NONE;
    return nodes_may_move(pod, &p->in->settings, p->in->budgets, p->in->now_ms, &keeper);
}

// --- begin and end ---

static void set_verdict(const struct nodes_planner *p, size_t node)
{
    static const enum nodes_verdict verdicts[] = {
        [NODES_ABSENT] = NODES_NOT_CONSIDERED, [NODES_READY] = NODES_OF_NO_POOL,
        [NODES_UNREADY] = NODES_OF_NO_POOL,    [NODES_UPCOMING] = NODES_STARTS,
        [NODES_LEAVING] = NODES_LEAVES,
    };
    const struct nodes_plan_node *from = &p->in->nodes[node];
    enum nodes_verdict v = verdicts[from->condition];
    if (v == NODES_OF_NO_POOL && from->group != NODES_NONE)
        v = !p->in->settings.scale_down ? NODES_SCALE_DOWN_OFF : NODES_AWAITED;
    p->plan->nodes[node] = (struct nodes_node_plan){
        .verdict = v,
        .pod = NODES_NONE,
        .unneeded_since_ms = from->unneeded_since_ms,
        .replaceable_since_ms = from->replaceable_since_ms,
        .replaced_until_ms = from->replaced_until_ms,
    };
}

static void begin(struct nodes_planner *p)
{
    const struct nodes_plan_input *in = p->in;
    struct nodes_plan *plan = p->plan;
    plan->nodes = gs_alloc_array(in->n_nodes + 1, sizeof(*plan->nodes));
    plan->groups = p->groups = gs_alloc_array(in->n_groups + 1, sizeof(*p->groups));
    if (in->n_groups)
        memcpy(p->groups, in->groups, in->n_groups * sizeof(*p->groups));
    for (size_t i = 0; i < in->n_nodes; i++) {
        enum nodes_condition c = in->nodes[i].condition;
        nodes_exclude(p->s, i, c == NODES_ABSENT || c == NODES_LEAVING);
        set_verdict(p, i);
    }
    nodes_budgets_reset(in->budgets);
    nodes_plan_list_pods(p);
}

// A node that is removed needs no cordon.
static void drop_cordons(struct nodes_plan *plan)
{
    size_t kept = 0;
    for (size_t i = 0; i < plan->cordons.len; i++) {
        struct nodes_cordon c = plan->cordons.items[i];
        if (plan->nodes[c.node].verdict == NODES_REMOVED)
            free(c.why);
        else
            plan->cordons.items[kept++] = c;
    }
    plan->cordons.len = kept;
}

static void end(struct nodes_planner *p)
{
    drop_cordons(p->plan);
    free(p->waiting);
    free(p->added);
    free(p->first_pod);
    free(p->pods_by_node);
    free(p->candidates);
    free(p->receives);
    free(p->moved.items);
    free(p->consolidate);
}

void nodes_plan(struct nodes_plan_input *in, struct nodes_plan *ret)
{
    struct nodes_planner p = {.in = in, .s = in->snapshot, .plan = ret};
    *ret = (struct nodes_plan){.again_ms = INT64_MAX};
    size_t checkpoint = nodes_checkpoint(in->snapshot);
    begin(&p);
    nodes_plan_minimum(&p);
    nodes_plan_early_cordons(&p);
    nodes_plan_pods(&p);
    // A pod that will have a node soon may need those that look unneeded now.
    if (ret->awaited)
        nodes_plan_again_at(&p, in->now_ms + 1);
    else if (in->settings.scale_down) {
        nodes_plan_removals(&p);
        nodes_plan_replacement(&p);
    }
    nodes_restore(in->snapshot, checkpoint);
    end(&p);
}

void nodes_plan_finish(struct nodes_plan *p)
{
    for (size_t i = 0; i < p->n_orders; i++)
        free(p->orders[i].pods);
    nodes_cordons_finish(&p->cordons);
    if (p->decided)
        nodes_decision_finish(&p->decision);
    free(p->orders);
    free(p->removals);
    free(p->nodes);
    free(p->pods);
    free(p->groups);
    *p = (struct nodes_plan){0};
}

bool nodes_verdict_is_unneeded(enum nodes_verdict v)
{
    return v >= NODES_NOT_LONG_ENOUGH;
}
