// SPDX-License-Identifier: Apache-2.0
// What the parts of nodes_plan() share.
#pragma once

#include "nodes/nodes_private.h"
#include "nodes/plan.h"

struct nodes_candidate { // for removal
    size_t node, n_pods;
    bool drain; // pods have to move
};

struct nodes_pods {
    size_t *items, len, cap; // indexes of the snapshot
};

// A plan while it is made. The snapshot is changed and restored at the end.
struct nodes_planner {
    const struct nodes_plan_input *in;
    struct nodes_snapshot *s;
    struct nodes_plan *plan;
    struct nodes_group *groups; // the plan's; their sizes include the orders
    size_t *waiting;            // by pod: its number in plan->pods; NODES_NONE: it has a node
    bool ordered;               // for pods or a minimum
    size_t *added;              // by node after those of the input: the group of an upcoming node
    size_t n_added, added_cap;
    // Scale-down.
    size_t *first_pod, *pods_by_node; // pods of node i: [first_pod[i], first_pod[i + 1])
    struct nodes_candidate *candidates;
    size_t n_candidates, candidates_cap;
    bool *receives;          // by node: pods of a node that can be removed were placed there
    struct nodes_pods moved; // those pods
    bool *consolidate;       // by node: its pods fit elsewhere, however many GPUs they use
};

// movable.c
void nodes_budgets_use(struct nodes_budgets *b, const json_t *pod);
void nodes_budgets_reset(struct nodes_budgets *b); // forgets the uses
bool nodes_is_long_terminating(const json_t *pod, int64_t now_ms);

// plan.c
struct nodes_order *nodes_plan_add_order(struct nodes_planner *p, enum nodes_cause cause,
                                         size_t group, size_t count);
void nodes_plan_again_at(struct nodes_planner *p, int64_t ms);
// The group of an upcoming node; NODES_NONE: the node exists.
size_t nodes_plan_upcoming(const struct nodes_planner *p, size_t node);
enum nodes_movability nodes_plan_movable(void *planner, const json_t *pod); // nodes_movable_fn

// plan_pods.c
void nodes_plan_list_pods(struct nodes_planner *p);
void nodes_plan_minimum(struct nodes_planner *p);
void nodes_plan_early_cordons(struct nodes_planner *p);
void nodes_plan_pods(struct nodes_planner *p);
struct nodes_choice_settings nodes_plan_choice(const struct nodes_plan_input *in, size_t room);

// balance.c
struct nodes_part { // of an order
    size_t group, count;
};
// Divides the new nodes of an option among groups that are similar to the chosen one. Returns the
// number of parts; the caller frees the array.
size_t nodes_balance(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                     const struct nodes_decision *d, const struct nodes_choice_settings *settings,
                     struct nodes_part **ret);

// plan_removals.c
void nodes_plan_removals(struct nodes_planner *p);
// Whether the pool needs all its nodes but those that are being removed. removed: by this plan.
bool nodes_plan_at_minimum(const struct nodes_planner *p, size_t group, size_t removed);
// plan_replacement.c: orders a smaller node for the pods of a large one.
void nodes_plan_replacement(struct nodes_planner *p);
