// SPDX-License-Identifier: Apache-2.0
// Pods, nodes and the load that is served, in steps of one second, and a workload: such a cluster
// with its autoscaler.
#pragma once

#include "hpa/hpa.h"
#include "replay/replay.h"
#include "replay/wait_times.h"

struct replay_pod {
    char name[24];
    int64_t created_ms, started_ms, ready_ms; // started: INT64_MAX while it waits for a node
    size_t node;                              // with a placer: the ticket
};

struct replay_drain { // a pod that is terminating
    int64_t until_ms;
    size_t node;
};

struct replay_node {
    int64_t ready_ms, idle_since_ms; // idle: INT64_MAX while a pod is on it
    size_t used;                     // GPUs
    bool removed;
};

// The state at one second; the controller sees it `delay` later.
struct replay_moment {
    double load, utilization, queue;
    int32_t ready;
};

// Seconds in which all work was served at once: load and utilization are calculated from the load's
// curve when they are read.
struct replay_calm {
    int64_t first, last; // seconds
    int32_t ready;
};

// Counts that only change with the pods and nodes; cached until then.
struct replay_counts {
    int64_t until_ms; // when the next of them is ready
    bool stale;
    bool rest; // no pod waits and no node may be removed
    int32_t ready, running, draining;
    size_t nodes, nodes_ready;
};

// Places the pods of a workload that shares its nodes with others. A ticket is the placer's number
// of a pod, from add() until remove().
struct replay_cluster;
struct replay_placer {
    void *ctx;
    size_t (*add)(void *ctx, struct replay_cluster *cluster); // a pod that waits
    void (*remove)(void *ctx, size_t ticket);                 // its resources are free
    void (*schedule)(void *ctx); // calls replay_cluster_placed() for the pods that have a node now
};

struct replay_cluster {
    const struct replay_scenario *s;
    const struct replay_placer *placer; // NULL: the nodes of the scenario
    int64_t t_ms;
    struct replay_pod *pods; // the oldest first
    size_t n_pods, pods_cap;
    struct replay_drain *drains;
    size_t n_drains, drains_cap;
    struct replay_node *nodes;
    size_t n_nodes, nodes_cap;
    size_t next_name;
    double queue; // work that waits, in units of load * seconds
    struct replay_waits waits;
    struct replay_moment *past; // of the last seconds, by second modulo n_past, a power of two
    size_t n_past, history_steps;
    struct replay_calm calm;        // the last seconds, which are not in `past`
    struct replay_moment now, seen; // results of the getters
    struct replay_curve_piece load,
        load_before; // of the load now, and of the load that the controller sees
    struct replay_counts counts;
    size_t version; // changes when pods or nodes change
    struct replay_summary sum;
    double replica_seconds, queue_seconds;
};

void replay_cluster_start(struct replay_cluster *cluster, const struct replay_scenario *s,
                          const struct replay_placer *placer);
void replay_cluster_scale(struct replay_cluster *cluster, int32_t replicas); // takes effect at once
void replay_cluster_lose(struct replay_cluster *cluster,
                         size_t n); // the oldest pods end, new ones start
void replay_cluster_run(struct replay_cluster *cluster, int64_t until_ms); // in steps of a second
// The pod of the ticket has a node now.
void replay_cluster_placed(struct replay_cluster *cluster, size_t ticket);
// The pod of the ticket ends, and a new one replaces it.
void replay_cluster_evict(struct replay_cluster *cluster, size_t ticket);
// The counts now; `version` changes when pods or nodes may have changed.
const struct replay_counts *replay_cluster_count(struct replay_cluster *cluster);
const struct replay_moment *replay_cluster_now(struct replay_cluster *cluster);
// What the controller sees now.
const struct replay_moment *replay_cluster_observed(struct replay_cluster *cluster);
void replay_cluster_finish(struct replay_cluster *cluster);

// --- evaluations ---

// Why an evaluation changed the replicas; the caller frees it.
char *replay_decision_reason(const struct hpa_decision *d);
bool replay_metrics_are_away(const struct replay_scenario *s, int64_t t_ms);
// Whether a metric is above its target by more than the tolerance.
bool replay_is_over_target(const struct replay_scenario *s, const struct hpa_decision *d);

// --- a workload with its autoscaler ---

struct replay_view; // the observation of an evaluation

struct replay_workload_run {
    struct replay_cluster cluster;
    struct hpa_history *history;
    struct replay_view *view;
    int32_t replicas;
    int64_t next_sync_ms;
    size_t next_event;
    struct replay_result result; // rows: NULL, or with space for one per evaluation
};

// rows: record them.
void replay_workload_start(struct replay_workload_run *w, const struct replay_scenario *s,
                           const struct replay_placer *placer, bool rows);
// The events and the evaluation that are due now. Returns the time of the next ones.
int64_t replay_workload_act(struct replay_workload_run *w);
// Completes w->result, which then belongs to the caller.
void replay_workload_finish(struct replay_workload_run *w);
