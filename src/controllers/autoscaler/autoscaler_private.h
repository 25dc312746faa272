// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the node autoscaler: its pools with their instances, what it knows about
// nodes and pods across runs, and the loop. Taints and annotations have the names of the
// Kubernetes Cluster Autoscaler, so that pods and tools written for it work.
#pragma once

#include "autoscaler/autoscaler.h"
#include "base/hmap.h"
#include "base/timer.h"
#include "kube/event.h"
#include "nodes/plan.h"

#define AUTOSCALER_SOFT_TAINT "DeletionCandidateOfClusterAutoscaler"
#define AUTOSCALER_HARD_TAINT "ToBeDeletedByClusterAutoscaler"

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
    int64_t unneeded_since_ms;    // 0: it is needed
    int64_t replaceable_since_ms; // a smaller node would do; 0: no
    int64_t replaced_until_ms;    // a replacement was ordered
    char *reason;                 // what the last plan decided about it; NULL: there was none
    enum nodes_verdict verdict;
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
    char *reason;        // what the last plan decided about it
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
    int64_t last_run_ms;
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

// One run: a plan with its input.
struct autoscaler_run {
    struct nodes_plan_input in;
    struct nodes_plan plan;
    struct autoscaler_node **nodes; // by node: its state; NULL: of no pool, or without an object
    struct nodes_plan_node *states;
    size_t nodes_cap, states_cap;
    struct nodes_group *groups; // of the pools
    size_t *leaving;
    bool *growing;
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
struct nodes_plan_settings autoscaler_plan_settings(const struct autoscaler *a);
void autoscaler_run_init(struct autoscaler *a, struct autoscaler_run *r, int64_t now_ms);
void autoscaler_run_finish(struct autoscaler_run *r);
struct nodes_budgets *autoscaler_budgets(const struct autoscaler *a); // the caller frees them

// scale_up.c: orders, and events about pods
void autoscaler_pod_free(void *pod);
void autoscaler_scale_up(struct autoscaler *a, const struct autoscaler_run *r);

// scale_down.c
void autoscaler_take_states(struct autoscaler *a, const struct autoscaler_run *r);
void autoscaler_remove(struct autoscaler *a, const struct autoscaler_run *r);

// cordon.c
void autoscaler_cordon(struct autoscaler *a, const struct autoscaler_run *r);

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

// status_config_map.c
void autoscaler_write_status(struct autoscaler *a);
void autoscaler_condition_set(struct autoscaler_condition *c, const char *status, int64_t now_ms);
