// SPDX-License-Identifier: Apache-2.0
// The choice of the group of nodes that grows for pods that fit nowhere. Each group is an option;
// an option is judged by the pods that it places, the GPUs that it leaves unused, its price, the
// time until its nodes are usable, and recent failures. Every option has a text that says why it
// was chosen or not. The functions are pure: equal input gives an equal decision.
//
// Times are Unix milliseconds, durations milliseconds, prices per hour.
#pragma once

#include "nodes/pool.h"
#include "nodes/scheduling.h"

// --- policies ---

enum nodes_policy {
    // Ours. Nodes of an option that other groups serve better are left out of it.
    NODES_POLICY_COST,    // the lowest price for what the pods need
    NODES_POLICY_SPEED,   // the shortest mean wait of the pods
    NODES_POLICY_PACKING, // the fewest unused GPUs for what the pods need
    // Models of the Cluster Autoscaler's expanders.
    NODES_POLICY_LEAST_WASTE, // CPU and memory only: GPUs are ignored
    NODES_POLICY_LEAST_NODES,
    NODES_POLICY_MOST_PODS,
    NODES_POLICY_PRICE,    // the lowest price for what the pods need, of whole options
    NODES_POLICY_PRIORITY, // nodes_group.priority
    NODES_POLICY_RANDOM,
};
#define NODES_POLICIES 9

const char *nodes_policy_name(enum nodes_policy p); // "least-waste"
// "cost", …; "waste" is least-waste. The error suggests a name.
struct gs_error *nodes_policy_parse(const char *name, enum nodes_policy *ret);

// --- back-off of groups after failures, with the Cluster Autoscaler's times ---

#define NODES_BACKOFF_INITIAL_MS (INT64_C(5) * 60 * 1000)
#define NODES_BACKOFF_MAX_MS     (INT64_C(30) * 60 * 1000)
#define NODES_BACKOFF_RESET_MS   (INT64_C(3) * 3600 * 1000)

struct nodes_backoff_limits { // all 0: the defaults above
    int64_t initial_ms, max_ms, reset_ms;
};

// Zeros: no failure.
struct nodes_backoff {
    int64_t until_ms, duration_ms, last_failure_ms;
    size_t failures; // since the last reset
};

// A scale-up failed. The back-off doubles if the last one is over; failures during a back-off
// prolong it without doubling.
void nodes_backoff_fail(struct nodes_backoff *b, int64_t now_ms,
                        const struct nodes_backoff_limits *limits);
void nodes_backoff_succeed(struct nodes_backoff *b); // a node became ready: no back-off any more
// Forgets failures that are too old. Call it before reading the other fields.
void nodes_backoff_expire(struct nodes_backoff *b, int64_t now_ms,
                          const struct nodes_backoff_limits *limits);
bool nodes_backoff_active(const struct nodes_backoff *b, int64_t now_ms);

// --- groups ---

struct nodes_group {
    const char *name;
    const struct nodes_pool *pool; // price, start-up; NULL: not known
    const json_t *node;            // the v1 Node of a new node; NULL: nodes_pool_template(pool)
    size_t size, max;              // target size and limit
    // Nodes that were requested and do not exist yet. Pods that fit on them wait for them.
    size_t upcoming;
    struct nodes_backoff backoff;
    int64_t startup_ms;  // learned; 0: the pool's
    int64_t priority;    // 0: the pool's
    const char *blocked; // why the group cannot grow now, in a few words; NULL: it can
};

// --- decisions ---

enum nodes_option_state {
    NODES_OPTION_USABLE,
    NODES_OPTION_FITS_NO_POD,
    NODES_OPTION_FULL, // max, or the limit of the cluster
    NODES_OPTION_BACKOFF,
    NODES_OPTION_BLOCKED,
};

struct nodes_option {
    const struct nodes_group *group;
    enum nodes_option_state state;
    size_t count; // nodes to add
    size_t *pods; // that it places: indexes of the snapshot (or of the offer's pods), ascending
    size_t n_pods;
    size_t gpus, unused_gpus; // of the added nodes
    bool has_price;
    double price;     // of the added nodes
    int64_t ready_ms; // expected time until usable; 0: not known
    double score;     // lower is better; the unit depends on the policy
    char *text;       // what it is and why it was chosen or not
};

struct nodes_decision {
    enum nodes_policy policy;
    struct nodes_option *options; // in the order of the groups
    size_t n_options;
    size_t chosen;     // NODES_NONE: no option is usable
    size_t n_pending;  // pods without a node
    size_t n_waiting;  // of these: fit on existing or upcoming nodes
    size_t n_helpless; // of these: fit on no group that can grow
    char *text;        // one paragraph
};
void nodes_decision_finish(struct nodes_decision *d);
json_t *nodes_decision_json(const struct nodes_decision *d); // new reference

struct nodes_choice_settings {
    enum nodes_policy policy;
    int64_t now_ms;
    size_t max_nodes_total;      // 0: no limit
    size_t max_nodes_per_choice; // 0: 1000, the Cluster Autoscaler's --max-nodes-per-scaleup
    uint64_t seed;               // of NODES_POLICY_RANDOM and of ties in the models
    // Pods of DaemonSets. Each new node runs those that select it.
    const json_t *const *daemons;
    size_t n_daemons;
};

// Chooses for the pods of the snapshot that have no node. The caller leaves out pods that shall not
// trigger a scale-up. The snapshot is unchanged afterwards. Call it again after the new nodes are
// upcoming: one decision grows one group.
void nodes_decide(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                  const struct nodes_choice_settings *settings, struct nodes_decision *ret);

// Why a group does not help a pod, in the Cluster Autoscaler's words for its event
// NotTriggerScaleUp
// ("max node group size reached", "in backoff after failed scale-up", "Insufficient
// nvidia.com/gpu"). No reason: the group can help.
void nodes_group_reasons(struct nodes_snapshot *s, size_t pod, const struct nodes_group *group,
                         const struct nodes_choice_settings *settings,
                         struct nodes_reasons *reasons);

// --- options of another autoscaler ---

struct nodes_offer {
    struct nodes_group group;  // name; node; pool and back-off if they are known
    size_t count;              // nodes
    const json_t *const *pods; // that they would place
    size_t n_pods;
};

// Chooses among offers. Offers should share pod objects: each is compiled once. The groups of the
// options are those of the offers, which must live as long as the decision.
void nodes_rate(const struct nodes_offer *offers, size_t n_offers,
                const struct nodes_choice_settings *settings, struct nodes_decision *ret);
