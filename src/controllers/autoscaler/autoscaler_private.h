// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "autoscaler/autoscaler.h"
#include "base/hmap.h"
#include "base/timer.h"
#include "kube/event.h"
#include "nodes/choice.h"
#include "nodes/scheduling.h"

#define AUTOSCALER_SOFT_TAINT "DeletionCandidateOfClusterAutoscaler"
#define AUTOSCALER_HARD_TAINT "ToBeDeletedByClusterAutoscaler"
#define AUTOSCALER_ANN        "cluster-autoscaler.kubernetes.io/"

#define AUTOSCALER_PDBS ((struct kube_gvr){"policy", "v1", "poddisruptionbudgets"})

// --- pools ---

struct autoscaler_instance {
    char *id;
    int64_t first_seen_ms;
    enum nodes_instance_state state;
    bool listed;        // in this run
    bool failed;        // its creation failed
    const json_t *node; // borrowed from the cache, in this run; NULL: not registered
    char *error_code, *error_message;
};

enum autoscaler_readiness {
    AUTOSCALER_READY,
    AUTOSCALER_NOT_STARTED, // expected to become ready
    AUTOSCALER_UNREADY,
    AUTOSCALER_BEING_DELETED,
};

// A condition of the status with the time of its last change.
struct autoscaler_condition {
    const char *status; // constant text
    int64_t since_ms;
};

struct autoscaler_pool {
    const struct nodes_pool *pool;
    struct gs_hmap *instances; // provider id to struct autoscaler_instance
    json_t *template;          // of a new node, without what DaemonSets use; per run
    // Of this run.
    size_t target, registered, ready, not_started, unready, resource_unready, being_deleted;
    size_t unregistered, long_unregistered, failed, existing, upcoming, unneeded;
    bool healthy;
    // The scale-up in progress.
    bool scaling;
    int64_t scaling_since_ms, scaling_until_ms;
    size_t increase;
    int64_t wrong_size_since_ms; // 0: the target equals the number of machines
    struct nodes_backoff backoff;
    char *error_code, *error_message; // of the last failure
    struct autoscaler_condition health, scale_up, scale_down;
};

// --- nodes and pods ---

struct autoscaler_node {
    char *name;
    bool listed;
    const json_t *object; // borrowed from the cache, in this run
    struct autoscaler_pool *pool;
    enum autoscaler_readiness readiness;
    int64_t unneeded_since_ms; // 0: it is needed
    bool needs_drain;
    bool consolidate;             // its pods fit elsewhere, however many GPUs they use
    int64_t replaceable_since_ms; // a smaller node would do; 0: no
    int64_t replaced_until_ms;    // a replacement was ordered
    char *unremovable;            // why it cannot be removed; NULL: it can
    double utilization;
    const char *utilization_of; // resource
    struct autoscaler_deletion *deletion;
    struct kube_request *taint_request;
    struct autoscaler *owner;
};

struct autoscaler_pod {
    char *uid, *ns, *name;
    bool listed;
    int64_t pending_since_ms;
    struct autoscaler_pool *coming; // NULL: none
    int64_t coming_since_ms, expected_ms;
    char *text;          // of the last event
    int64_t recorded_ms; // when it was recorded
};

// --- the loop ---

#define AUTOSCALER_DECISIONS 50

struct autoscaler_decision {
    int64_t time_ms;
    char *text;
};

struct autoscaler_counters {
    double scaled_up, scaled_up_gpu, failed_scale_ups, failed_capacity, failed_timeout;
    double scaled_down_empty, scaled_down_underutilized, scaled_down_unready, evicted;
    double old_unregistered;
};

struct autoscaler {
    uv_loop_t *loop;
    struct kube_client *client;
    struct autoscaler_config cfg;
    struct nodes_provider provider;
    enum nodes_policy policy;
    struct kube_recorder *recorder;
    struct kube_cache *pdbs;
    struct gs_timer *timer, *steps;
    bool started, stopped, wanted, cleaned;
    int64_t start_unix_ms, start_mono_ms;
    int64_t last_run_ms, run_duration_us;
    uint64_t runs;

    struct autoscaler_pool *pools;
    struct gs_hmap *nodes; // name to struct autoscaler_node
    struct gs_hmap *pods;  // uid to struct autoscaler_pod
    struct autoscaler_deletion **deletions;
    size_t n_deletions, deletions_cap;

    int64_t last_add_ms, last_delete_ms, last_failure_ms; // 0: never
    bool healthy, in_cooldown;
    size_t n_unschedulable, n_unneeded, n_unremovable;
    struct autoscaler_condition health, scale_up, scale_down;

    struct autoscaler_decision decisions[AUTOSCALER_DECISIONS];
    size_t n_decisions; // ever
    struct autoscaler_counters counters;

    json_t *config_map;     // as the API returned it; NULL: not written yet
    json_t *status_pending; // the ConfigMap to create if it does not exist
    struct kube_request *status_request;
};

// One run: the snapshot and what the indexes of its nodes mean.
struct autoscaler_run {
    struct nodes_snapshot *snapshot;
    int64_t now_ms;
    struct autoscaler_pool **upcoming; // by node: the pool; NULL: the node exists and can be used
    struct autoscaler_node **nodes;    // by node: its state; NULL: of no pool, or upcoming
    size_t n_nodes, nodes_cap, upcoming_cap;
    bool uncordoned; // nodes were made schedulable in this run, or will be for a pod that waits
    size_t *pending; // pods
    size_t n_pending, pending_cap;
    // Pods by node, after the pending pods have been placed.
    size_t *first_pod, *pods_by_node;
};

int64_t autoscaler_now(const struct autoscaler *a);
// Records a line in the decisions and in the log.
void autoscaler_decided(struct autoscaler *a, const char *fmt, ...) GS_PRINTF(2, 3);
// An event about the ConfigMap with the status.
void autoscaler_event(struct autoscaler *a, const char *type, const char *reason, const char *fmt,
                      ...) GS_PRINTF(4, 5);
void autoscaler_want_run(struct autoscaler *a); // soon

// pools.c
void autoscaler_pools_init(struct autoscaler *a);
void autoscaler_pools_finish(struct autoscaler *a);
// Reads the provider and the nodes; reports failures and gives up what takes too long.
void autoscaler_pools_update(struct autoscaler *a, int64_t now_ms);
struct autoscaler_node *autoscaler_node_of(const struct autoscaler *a, const char *name);
void autoscaler_node_free(void *node);
// Removes entries of a map that were not listed in this run.
void autoscaler_drop_unlisted(struct gs_hmap *map, bool (*listed)(const void *value),
                              void (*free_value)(void *value));
bool autoscaler_has_taint(const json_t *node, const char *key);
int64_t autoscaler_created_ms(const json_t *obj, int64_t fallback);
size_t autoscaler_total_nodes(const struct autoscaler *a); // with upcoming ones

// growth.c
void autoscaler_failed_scale_up(struct autoscaler *a, struct autoscaler_pool *p, const char *code,
                                const char *message, int64_t now_ms);
void autoscaler_scaled_up(struct autoscaler *a, struct autoscaler_pool *p, size_t n,
                          int64_t now_ms);
// Steps of autoscaler_pools_update(); the machines are counted again after each.
void autoscaler_handle_failures(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms);
void autoscaler_follow_scale_up(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms);
void autoscaler_correct_size(struct autoscaler *a, struct autoscaler_pool *p, int64_t now_ms);
void autoscaler_replace_text(char **text, const char *with);

// snapshot.c
void autoscaler_run_init(struct autoscaler *a, struct autoscaler_run *r, int64_t now_ms);
void autoscaler_run_finish(struct autoscaler_run *r);
// Adds a node that replaces the view of an existing one.
void autoscaler_run_add_template(struct autoscaler_run *r, const json_t *node, const char *name);
// Nodes that others have added to the snapshot.
void autoscaler_run_note_nodes(struct autoscaler_run *r);
void autoscaler_run_index_pods(struct autoscaler_run *r);
bool autoscaler_is_daemonset_pod(const json_t *pod);
bool autoscaler_is_mirror_pod(const json_t *pod);
// The scheduler has found no node for it, and a new one may help.
bool autoscaler_is_unschedulable(const json_t *pod);

// choose.c
struct nodes_group *autoscaler_groups(const struct autoscaler *a); // the caller frees the array
struct autoscaler_choice {
    struct nodes_group *groups;
    struct nodes_decision decision;
    const struct nodes_option *option;
    struct autoscaler_pool *pool;
};
// False: no pool can take a pending pod. room: the maximum number of new nodes.
bool autoscaler_choose(struct autoscaler *a, struct autoscaler_run *r, size_t room,
                       struct autoscaler_choice *ret);
void autoscaler_choice_finish(struct autoscaler_choice *c);
// The text of the event NotTriggerScaleUp; the caller frees it.
char *autoscaler_rejection(struct autoscaler *a, struct autoscaler_run *r, size_t pod);

// balance.c
struct autoscaler_share { // of a scale-up
    struct autoscaler_pool *pool;
    size_t count; // nodes to add
};
// Divides the new nodes of the choice among similar pools, if this is enabled. At least one share;
// the caller frees the array.
struct autoscaler_share *autoscaler_balance(struct autoscaler *a, struct autoscaler_run *r,
                                            const struct autoscaler_choice *c, size_t *ret_n);

// scale_up.c
void autoscaler_pod_free(void *pod);
// True: machines were added, or adding them failed.
bool autoscaler_scale_up(struct autoscaler *a, struct autoscaler_run *r);

// The provider's increase, with its events. False: it failed, and the pool is in back-off.
bool autoscaler_increase(struct autoscaler *a, struct autoscaler_pool *p, size_t n, int64_t now_ms);

// scale_down.c
void autoscaler_scale_down(struct autoscaler *a, struct autoscaler_run *r);

// removal.c: rules for moving pods
enum autoscaler_move {
    AUTOSCALER_IGNORE, // it needs no move: DaemonSet pods, mirror pods, finished pods
    AUTOSCALER_MOVE,
    AUTOSCALER_BLOCK,
};
struct autoscaler_budgets; // what PodDisruptionBudgets still allow
struct autoscaler_budgets *autoscaler_budgets_new(const struct autoscaler *a);
void autoscaler_budgets_free(struct autoscaler_budgets *b);
void autoscaler_budgets_use(struct autoscaler_budgets *b, const json_t *pod);
// ret_why: set for AUTOSCALER_BLOCK; the caller frees it.
enum autoscaler_move autoscaler_may_move(const struct autoscaler *a, struct autoscaler_budgets *b,
                                         const json_t *pod, int64_t now_ms, char **ret_why);

// packing.c
// Before the scale-up, because a pod that needs a cordoned node needs no new one.
void autoscaler_early_cordon(struct autoscaler *a, struct autoscaler_run *r);
void autoscaler_plan_consolidation(struct autoscaler *a, struct autoscaler_run *r,
                                   struct autoscaler_budgets *budgets);
// Orders a smaller node for the pods of a large one.
void autoscaler_replace(struct autoscaler *a, struct autoscaler_run *r,
                        struct autoscaler_budgets *budgets);

// taint.c
// Sets or removes (value NULL) a taint in a copy of the node's taints and writes it. False: a
// write is still in progress. done(arg, ok) may be NULL.
// Steals patch's members: a merge patch of the node that was read.
void autoscaler_patch_node(struct autoscaler_node *n, json_t *patch);
bool autoscaler_taint(struct autoscaler *a, struct autoscaler_node *n, const char *key,
                      const char *value, const char *effect);

// deletion.c: taint, evict, wait, delete
void autoscaler_delete(struct autoscaler *a, struct autoscaler_node *n, bool drain);
void autoscaler_deletions_step(struct autoscaler *a);
void autoscaler_deletions_finish(struct autoscaler *a);
bool autoscaler_deletion_is_drain(const struct autoscaler_deletion *d);
// Whether the target of the pool still includes the node.
bool autoscaler_deletion_counts(const struct autoscaler_deletion *d,
                                const struct autoscaler_pool *p);

// status.c
void autoscaler_write_status(struct autoscaler *a);
void autoscaler_condition_set(struct autoscaler_condition *c, const char *status, int64_t now_ms);
