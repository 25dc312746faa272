// SPDX-License-Identifier: Apache-2.0
// Private to the module: the controllers of local_workloads, functions shared by the files of the
// Deployment controller, and the filters of the scheduler.
#pragma once

#include "codec/json.h"
#include "local/cluster.h"
#include "local/workqueue.h"

// --- controllers, each with its own work queue ---

struct controllers_deployments;
struct controllers_deployments *controllers_deployments_new(struct local_cluster *c);
void controllers_deployments_free(struct controllers_deployments *d);

struct controllers_replicasets;
struct controllers_replicasets *controllers_replicasets_new(struct local_cluster *c);
void controllers_replicasets_free(struct controllers_replicasets *r);

// Deletes objects without owners, and executes cascading deletion "Orphan" and "Foreground".
struct controllers_garbage_collector;
struct controllers_garbage_collector *controllers_garbage_collector_new(struct local_cluster *c);
void controllers_garbage_collector_free(struct controllers_garbage_collector *g);

// Deletes the objects of deleted namespaces, then finalizes the namespaces.
struct controllers_namespaces;
struct controllers_namespaces *controllers_namespaces_new(struct local_cluster *c);
void controllers_namespaces_free(struct controllers_namespaces *n);

// --- rollouts of Deployments ---
// The state of a Deployment and its ReplicaSets in one sync: the rollout arithmetic, the status and
// the writes share it. Arithmetic and texts follow Kubernetes' deployment controller.

#define CONTROLLERS_ROLLOUT_HASH_LABEL   "pod-template-hash"
#define CONTROLLERS_ROLLOUT_ANN_REVISION "deployment.kubernetes.io/revision"
#define CONTROLLERS_ROLLOUT_ANN_HISTORY  "deployment.kubernetes.io/revision-history"
#define CONTROLLERS_ROLLOUT_ANN_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define CONTROLLERS_ROLLOUT_ANN_MAX      "deployment.kubernetes.io/max-replicas"

struct controllers_rollout_rs {
    const json_t *obj;
    int64_t spec;                       // desired replicas
    int64_t replicas, ready, available; // of its status
};

struct controllers_rollout {
    struct local_reconcile *work;
    struct kube_recorder *recorder;
    const json_t *deployment;
    struct controllers_rollout_rs *all; // owned, oldest first
    size_t len, cap;
    struct controllers_rollout_rs *current; // of the current template; NULL: none yet
    int64_t replicas, max_surge, max_unavailable;
    bool recreate;
    json_t *status; // under construction: starts as a copy
};

// Fills replicas, max_surge, max_unavailable, recreate from the spec.
void controllers_rollout_read_spec(struct controllers_rollout *r);
int64_t controllers_rollout_max_replicas(
    const struct controllers_rollout *r); // with surge; 0 when replicas is 0
int64_t controllers_rollout_spec_sum(const struct controllers_rollout *r);

// Writes spec.replicas with the size annotations and the event. False if nothing changes.
bool controllers_rollout_scale(struct controllers_rollout *r, struct controllers_rollout_rs *rs,
                               int64_t replicas);
// The desired replicas of the ReplicaSet of the current template, given the existing ones.
int64_t controllers_rollout_current_target(const struct controllers_rollout *r, int64_t now_spec);

// Each does at most one step of a rollout. True: a ReplicaSet was scaled.
bool controllers_rollout_rolling_step(struct controllers_rollout *r);
bool controllers_rollout_recreate_down(struct controllers_rollout *r);
bool controllers_rollout_is_scaling(
    const struct controllers_rollout *r); // spec.replicas has changed since the last scaling
void controllers_rollout_scale_proportionally(struct controllers_rollout *r);

// Status: counts and conditions.
void controllers_rollout_set_condition(struct controllers_rollout *r, const char *type,
                                       const char *status, const char *reason, const char *message);
void controllers_rollout_count(
    struct controllers_rollout *r); // counts, observedGeneration, Available, ReplicaFailure
void controllers_rollout_progress(
    struct controllers_rollout *r); // Progressing; after controllers_rollout_count
void controllers_rollout_check_paused(struct controllers_rollout *r);
bool controllers_rollout_complete(
    const struct controllers_rollout *r); // after controllers_rollout_count
void controllers_rollout_write_status(struct controllers_rollout *r);

// --- the scheduler's filters ---
// Whether a pod fits a node, and which GPU devices it gets. Amounts are JSON objects of resource
// name to int64 milli-units.

struct controllers_filter_node {
    const json_t *node;
    json_t *free; // amounts; may be negative
    int64_t free_pods;
};

// The larger of the sum over containers and each init container; new reference.
json_t *controllers_filter_requests(const json_t *pod);
void controllers_filter_node_init(struct controllers_filter_node *n, const json_t *node);
void controllers_filter_node_finish(struct controllers_filter_node *n);
void controllers_filter_node_use(struct controllers_filter_node *n,
                                 const json_t *requests); // one more pod
// Counts the reasons of a failure in `reasons` (the scheduler's text -> count).
bool controllers_filter_check(const struct controllers_filter_node *n, const json_t *pod,
                              const json_t *requests, json_t *reasons);
// "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."; caller frees.
char *controllers_filter_message(size_t n_nodes, const json_t *reasons);

#define CONTROLLERS_FILTER_GPU "nvidia.com/gpu"

struct controllers_filter_device {
    char *id;
    size_t gpu; // which physical one
    bool taken;
};
struct controllers_filter_devices {
    struct controllers_filter_device *items;
    size_t len;
    size_t *used; // devices taken, by physical GPU
};
void controllers_filter_devices_init(struct controllers_filter_devices *d, const char *const *ids,
                                     size_t n);
void controllers_filter_devices_finish(struct controllers_filter_devices *d);
void controllers_filter_devices_release_all(struct controllers_filter_devices *d);
// assignment: {"container": ["id", …]}; unknown ids are ignored.
void controllers_filter_devices_take(struct controllers_filter_devices *d,
                                     const json_t *assignment);
int64_t controllers_filter_gpus_wanted(const json_t *container);
// *ret_assignment is NULL if the pod requests none. False, without an assignment, if too few are
// free.
bool controllers_filter_devices_assign(struct controllers_filter_devices *d, const json_t *pod,
                                       json_t **ret_assignment);
