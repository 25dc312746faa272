// SPDX-License-Identifier: Apache-2.0
// The plan of a node autoscaler: which machines to order, which nodes to remove and to cordon, and
// why each node and each waiting pod is treated so. nodes_plan() is a pure function: equal input
// gives an equal plan. The autoscaler of `gpuscale up` carries the plan out in a cluster,
// `gpuscale replay` in a simulation, and `gpuscale test nodes` compares it with expectations.
//
// The rules, names and defaults are those of the Cluster Autoscaler. Times are Unix milliseconds,
// 0: never; durations are milliseconds. Groups and nodes are indexes. Not thread-safe, because the
// snapshot is changed meanwhile.
#pragma once

#include "nodes/choice.h"
#include "nodes/packing.h"

#define NODES_ANN "cluster-autoscaler.kubernetes.io/" // prefix of annotations of nodes and pods

// --- settings ---

struct nodes_plan_settings {
    // Scale-up.
    enum nodes_policy policy;
    uint64_t seed;               // see nodes_choice_settings
    size_t max_nodes_total;      // 0: no limit
    size_t max_nodes_per_choice; // of one order
    int64_t expendable_priority; // pods with a lower priority neither order nor keep nodes
    int64_t new_pod_delay_ms;    // before a new pod orders nodes
    bool balance_similar;        // among pools that differ only in name and zone
    bool enforce_min_size;
    // Scale-down.
    bool scale_down;
    int64_t unneeded_ms, unready_ms; // how long before a node that is ready, or is not, is removed
    int64_t delay_after_add_ms, delay_after_delete_ms, delay_after_failure_ms;
    double threshold, gpu_threshold; // of the utilization, from 0 to 1
    size_t max_parallelism;          // removals at a time
    size_t max_drain_parallelism;    // of these, of nodes with pods
    bool ignore_daemonset_utilization, skip_local_storage, skip_system_pods;
    int64_t system_pod_timeout_ms; // a kube-system pod of this age may move
    // Packing; not of the Cluster Autoscaler.
    bool early_cordon, consolidation;
    int64_t max_provision_ms; // a replacement that was ordered is awaited this long
};

void nodes_plan_settings_init(struct nodes_plan_settings *ret); // the defaults

// --- input ---

enum nodes_condition {
    NODES_ABSENT, // a free place of the snapshot
    NODES_READY,
    NODES_UNREADY,  // for longer than its start-up may take
    NODES_UPCOMING, // ordered or starting: the snapshot has what it will be
    NODES_LEAVING,  // it is being removed
};

// What is known of a node of the snapshot beyond its object.
struct nodes_plan_node {
    enum nodes_condition condition;
    size_t group;                                    // NODES_NONE: of no pool
    int64_t unneeded_since_ms;                       // 0: it was needed
    int64_t replaceable_since_ms, replaced_until_ms; // as the last plan returned them
};

// What PodDisruptionBudgets still allow.
struct nodes_budgets;
struct nodes_budgets *nodes_budgets_new(void);
void nodes_budgets_free(struct nodes_budgets *b);
// A v1 PodDisruptionBudget, which is borrowed. One with a wrong selector covers no pod.
void nodes_budgets_add(struct nodes_budgets *b, const json_t *budget);
void nodes_budgets_set_unknown(struct nodes_budgets *b); // they could not be read: no pod may move

struct nodes_plan_input {
    int64_t now_ms;
    struct nodes_plan_settings settings;
    // Nodes and pods. Pods without a node wait for one and may order nodes: see nodes_pod_waits().
    // It is unchanged after the plan.
    struct nodes_snapshot *snapshot;
    const struct nodes_plan_node *nodes; // of the snapshot
    size_t n_nodes;
    const struct nodes_group *groups; // size: with nodes that are upcoming; upcoming: 0
    size_t n_groups;
    const size_t *leaving;         // by group: nodes being removed that its size still includes
    const bool *growing;           // by group: a scale-up is in progress
    size_t n_total;                // nodes of the cluster, with upcoming ones
    size_t n_removing, n_draining; // removals in progress; of these, of nodes with pods
    struct nodes_budgets *budgets; // NULL: none
    int64_t last_add_ms, last_delete_ms, last_failure_ms; // of the cluster; failure: of a removal
};

// The scheduler has found no node for the pod, and a new one may help.
bool nodes_pod_is_unschedulable(const json_t *pod);
// Whether the pod, which has no node, orders nodes: it is unschedulable, and old and important
// enough.
bool nodes_pod_waits(const json_t *pod, const struct nodes_plan_settings *s, int64_t now_ms);

// --- pods that keep their node ---

enum nodes_keeper { // why a pod must not be evicted
    NODES_KEEPER_NONE,
    NODES_KEEPER_NOT_REPLICATED,
    NODES_KEEPER_SYSTEM,
    NODES_KEEPER_NOT_SAFE,
    NODES_KEEPER_LOCAL_STORAGE,
    NODES_KEEPER_BUDGET,
    NODES_KEEPER_BUDGET_UNKNOWN,
};

bool nodes_is_daemonset_pod(const json_t *pod);
// Whether a pod may move when its node is removed, by the rules of the Cluster Autoscaler. The
// first rule that applies decides. budgets may be NULL. *ret_keeper: set for NODES_BLOCK.
enum nodes_movability nodes_may_move(const json_t *pod, const struct nodes_plan_settings *s,
                                     const struct nodes_budgets *budgets, int64_t now_ms,
                                     enum nodes_keeper *ret_keeper);
char *nodes_keeper_text(enum nodes_keeper keeper, const json_t *pod) GS_MUST_USE;

// --- the plan ---

enum nodes_cause { NODES_CAUSE_PODS, NODES_CAUSE_MINIMUM, NODES_CAUSE_REPLACEMENT };

struct nodes_order { // of machines
    enum nodes_cause cause;
    size_t group, count;
    size_t *pods; // NODES_CAUSE_PODS: indexes of the snapshot, ascending
    size_t n_pods;
    size_t node; // NODES_CAUSE_REPLACEMENT: the node that it replaces
};

struct nodes_removal {
    size_t node;
    bool drain; // it has pods that move
};

enum nodes_verdict {           // about a node
    NODES_NOT_CONSIDERED,      // ABSENT
    NODES_OF_NO_POOL,          // nobody removes it
    NODES_STARTS,              // UPCOMING
    NODES_LEAVES,              // LEAVING
    NODES_SCALE_DOWN_OFF,      // the setting
    NODES_SCALE_DOWN_DISABLED, // the annotation
    NODES_UTILIZED,            // above the threshold
    NODES_RECEIVES,    // pods of nodes that are removed fit on it, and nowhere else with its own
    NODES_KEPT_BY_POD, // which must not be evicted
    NODES_NO_PLACE,    // its pod fits on no other node
    NODES_AWAITED,     // a pod waits for the end of a cordon: no removals now
    // Unneeded nodes. They stay:
    NODES_NOT_LONG_ENOUGH, // until the time is over
    NODES_COOLDOWN,        // until the delay after a change is over
    NODES_AT_MINIMUM,      // of its pool
    NODES_PARALLELISM,     // until other removals have ended
    NODES_REMOVED,         // it is among the removals
};
bool nodes_verdict_is_unneeded(enum nodes_verdict v);
bool nodes_verdict_keeps(enum nodes_verdict v); // the node stays, and not only for a time
// The reason without numbers that change all the time; NULL: it depends on the node.
const char *nodes_verdict_text(enum nodes_verdict v);

struct nodes_node_plan {
    enum nodes_verdict verdict;
    enum nodes_keeper keeper;  // KEPT_BY_POD
    size_t pod;                // KEPT_BY_POD, NO_PLACE
    const char *resource;      // of the utilization; NULL: not measured
    double utilization;        // from 0
    int64_t unneeded_since_ms; // 0: it is needed
    int64_t until_ms;          // NOT_LONG_ENOUGH, COOLDOWN
    int64_t replaceable_since_ms, replaced_until_ms;
};

enum nodes_wait {              // of a pod without a node
    NODES_WAITS_FOR_SCHEDULER, // it fits on a node
    NODES_WAITS_FOR_CORDON,    // for the end of a cordon
    NODES_WAITS_FOR_UPCOMING,  // it fits on a node that is upcoming
    NODES_WAITS_FOR_ORDER,     // of this plan
    NODES_WAITS_FOR_TURN,      // another order comes first
    NODES_WAITS_FOR_POOL,      // no pool can grow for it
    NODES_WAITS_FOR_LIMIT,     // the cluster has as many nodes as it may have
};

struct nodes_pod_plan {
    size_t pod;
    enum nodes_wait wait;
    size_t group; // FOR_UPCOMING, FOR_ORDER; else NODES_NONE
};

enum nodes_delay { NODES_DELAY_NONE, NODES_AFTER_ADD, NODES_AFTER_DELETE, NODES_AFTER_FAILURE };

struct nodes_plan {
    struct nodes_cordons cordons;
    struct nodes_order *orders; // a minimum, then for pods, then a replacement
    size_t n_orders, orders_cap;
    struct nodes_removal *removals; // empty nodes first
    size_t n_removals, removals_cap;
    struct nodes_node_plan *nodes; // as the input's
    struct nodes_pod_plan *pods;   // the pods that wait, in the order in which they get nodes
    size_t n_pods;
    struct nodes_decision decision; // about the order for pods
    bool decided;
    struct nodes_group *groups; // as decided for
    bool awaited;               // a pod waits for the end of a cordon: nothing is removed
    enum nodes_delay delay;     // that is not over: nothing is removed
    int64_t delay_until_ms;
    size_t n_unschedulable; // pods that fit on no node, neither existing nor upcoming
    size_t n_unneeded, n_unremovable;
    // When the plan may differ although nothing else changes; INT64_MAX: never.
    int64_t again_ms;
};

void nodes_plan(struct nodes_plan_input *in, struct nodes_plan *ret);
void nodes_plan_finish(struct nodes_plan *p);

// The reason of a node or of a waiting pod in a sentence without a full stop. The input is that of
// the plan.
char *nodes_plan_node_text(const struct nodes_plan_input *in, const struct nodes_plan *p,
                           size_t node) GS_MUST_USE;
char *nodes_plan_pod_text(const struct nodes_plan_input *in, const struct nodes_plan *p,
                          size_t i) GS_MUST_USE;
// "its pods fit on a new node of pool small with 1 GPU"
char *nodes_plan_replacement_text(const struct nodes_plan_input *in,
                                  const struct nodes_order *o) GS_MUST_USE;
