// SPDX-License-Identifier: Apache-2.0
// The run of a fleet: its state, and the steps that change it.
#pragma once

#include "nodes/choice.h"
#include "nodes/simulation.h"
#include "replay/fleet_private.h"
#include "replay/simulated_cluster.h"

#define REPLAY_NONE SIZE_MAX

struct replay_fleet_list {
    size_t *items;
    size_t len, cap;
};

enum replay_fleet_state {
    REPLAY_NODE_ABSENT, // its place in the snapshot is free
    REPLAY_NODE_CREATING,
    REPLAY_NODE_READY,
    REPLAY_NODE_DRAINING, // is removed when its last pod has ended
};

struct replay_fleet_node { // by its number in the snapshot
    enum replay_fleet_state state;
    size_t pool, gpus, used; // GPUs; used: requested by its pods
    size_t n_pods;
    unsigned number;             // of the pool
    int64_t created_ms, next_ms; // next: ready, or the end of the attempt
    enum nodes_failure failure;  // why it will not become ready
    bool cordoned;
    int64_t preempt_ms; // when the cloud takes it; INT64_MAX: never
    int64_t unneeded_since_ms, replaceable_since_ms, replaced_until_ms; // of plans: Unix time
};

struct replay_fleet_pod { // by its ticket
    bool live;
    size_t workload, shape;
    size_t index;                 // in the snapshot
    size_t node;                  // REPLAY_NONE while it waits
    const struct replay_job *job; // NULL: a replica
    int64_t created_ms, end_ms;   // end: of a job that runs
};

// Pods with equal requirements.
struct replay_fleet_shape {
    size_t workload, gpus;
    json_t *pod;
    struct replay_fleet_list spare; // numbers in the snapshot without a pod
};

struct replay_fleet_pool {
    const struct nodes_pool *pool;
    size_t size;       // nodes that exist or are being created, without draining ones
    size_t creating;   // of these: not ready
    unsigned attempts; // nodes that were ordered, for names and random numbers
    // Places of removed nodes in the snapshot, and nodes as they are in it; [1]: cordoned.
    struct replay_fleet_list spare[2];
    json_t *template[2];
    struct nodes_backoff backoff;
};

struct replay_fleet_waits { // of pods, in seconds
    double *items;
    size_t len, cap, created;
};

struct replay_fleet_job_list { // of a workload
    struct replay_job *jobs;
    size_t n, next;
};

struct replay_fleet_run {
    const struct replay_fleet *f;
    int64_t t_ms;
    struct nodes_snapshot *snapshot;
    size_t parking; // a node in the snapshot for pods that do not exist
    struct replay_placer placer;
    struct replay_workload_run *workloads;
    struct replay_fleet_job_list *jobs; // of the workloads
    struct replay_fleet_pool *pools;
    struct replay_fleet_node *nodes;
    size_t n_nodes, nodes_cap;
    struct replay_fleet_pod *pods;
    size_t n_pods, pods_cap;
    struct replay_fleet_list spare_tickets, waiting, running_jobs; // tickets; waiting: oldest first
    struct replay_fleet_shape *shapes;
    size_t n_shapes, shapes_cap;
    bool changed; // since the last scan of the node autoscaler
    int64_t next_scan_ms;
    int64_t last_add_ms; // Unix time; 0: never
    uint64_t decisions;  // of the node autoscaler
    struct replay_fleet_result *result;
    struct replay_fleet_waits *waits; // of the workloads
    double *larger;                   // by GPUs: the share of the pods with GPUs that request more
};

void replay_fleet_list_add(struct replay_fleet_list *l, size_t v);
void replay_fleet_list_drop(struct replay_fleet_list *l, size_t v); // keeps the order

// A run step by step (fleet_run.c). End it after an error, too; the result belongs to the caller.
struct gs_error *replay_fleet_begin(struct replay_fleet_run *run, const struct replay_fleet *f,
                                    struct replay_fleet_result *result);
void replay_fleet_step(struct replay_fleet_run *run); // until the next time of an event
void replay_fleet_end(struct replay_fleet_run *run);

// --- pods and nodes (fleet_nodes.c) ---

void replay_fleet_start_nodes(struct replay_fleet_run *run);
// A pod that waits; returns its ticket. job: NULL for a replica.
size_t replay_fleet_add_pod(struct replay_fleet_run *run, size_t workload, size_t gpus,
                            const struct replay_job *job);
void replay_fleet_remove_pod(struct replay_fleet_run *run, size_t ticket);
// Places the waiting pods, the oldest first.
void replay_fleet_schedule(struct replay_fleet_run *run);
// Orders a node. at once: it is ready now, as the nodes that exist at the start.
void replay_fleet_add_node(struct replay_fleet_run *run, size_t pool, bool at_once);
void replay_fleet_remove_node(struct replay_fleet_run *run, size_t node); // without pods
// Removes the node, or ends its pods; then it is removed after the last one.
void replay_fleet_drain_node(struct replay_fleet_run *run, size_t node, const char *why);
// The same on behalf of the cloud, which takes a spot node back.
void replay_fleet_preempt_node(struct replay_fleet_run *run, size_t node);
// The node gets another place in the snapshot.
void replay_fleet_cordon_node(struct replay_fleet_run *run, size_t node, bool cordon);
// Nodes that are ready, failed or preempted by now. Returns when the next one is.
int64_t replay_fleet_advance_nodes(struct replay_fleet_run *run);

// --- the start of nodes (fleet_start.c) ---

// Decides when a ready node is preempted.
void replay_fleet_expect_preemption(struct replay_fleet_run *run, struct replay_fleet_node *n);
// Decides when the node becomes ready, or why it does not.
void replay_fleet_start_node(struct replay_fleet_run *run, struct replay_fleet_node *n);
void replay_fleet_end_start(struct replay_fleet_run *run, size_t node);

// --- the node autoscaler (fleet_plan.c) ---

struct replay_fleet_input { // of a plan
    struct nodes_plan_input in;
    struct nodes_plan_node *nodes;
    struct nodes_group *groups;
    size_t *leaving;
    bool *growing;
};
// Valid until the run changes.
void replay_fleet_input_init(struct replay_fleet_run *run, struct replay_fleet_input *ret);
void replay_fleet_input_finish(struct replay_fleet_input *r);

// Scans if a scan is due. Returns when the next one is; INT64_MAX: after the next change.
int64_t replay_fleet_scan(struct replay_fleet_run *run);
// Why no pool grows for the pod of the snapshot.
void replay_fleet_add_reasons(struct replay_fleet_run *run, size_t pod, struct gs_buf *out);

#define REPLAY_ANN_SAFE_TO_EVICT NODES_ANN "safe-to-evict"

// --- results (fleet_result.c) ---

void replay_fleet_start_result(struct replay_fleet_run *run);
void replay_fleet_find_typical(struct replay_fleet_run *run); // needs the jobs

void replay_fleet_log(struct replay_fleet_run *run, const char *fmt, ...) GS_PRINTF(2, 3);
void replay_fleet_add_wait(struct replay_fleet_run *run, size_t workload, int64_t ms);
// Adds the state from now until the time to the sums, and a row if something changed.
void replay_fleet_account(struct replay_fleet_run *run, int64_t until_ms);
void replay_fleet_finish_result(struct replay_fleet_run *run);
