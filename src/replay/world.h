// SPDX-License-Identifier: Apache-2.0
// The cluster of a replay: pods, nodes, the load that is served. Steps of a second. Private to the
// room.
#pragma once

#include "replay/replay.h"
#include "replay/waits.h"

struct replay_world_pod {
    char name[24];
    int64_t created_ms, started_ms, ready_ms; // started: INT64_MAX while it waits for a node
    size_t node;
};

struct replay_world_drain { // a pod that ends
    int64_t until_ms;
    size_t node;
};

struct replay_world_node {
    int64_t ready_ms, idle_since_ms; // idle: INT64_MAX while a pod is on it
    size_t used;                     // GPUs
    bool gone;
};

// What was at a second; the controller sees it `delay` later.
struct replay_world_past {
    double load, utilization, queue;
    int32_t ready;
};

// Seconds in which everything was served: load and utilization follow from the load's curve, when
// they are asked for.
struct replay_world_calm {
    int64_t first, last; // seconds
    int32_t ready;
};

// What only changes with the pods and nodes, counted once until then.
struct replay_world_counts {
    int64_t until_ms; // when the next of them is ready
    bool stale;
    bool rest; // nothing waits or may go
    int32_t ready, running, draining;
    size_t nodes, nodes_ready;
};

struct replay_world {
    const struct replay_scenario *s;
    int64_t t_ms;
    struct replay_world_pod *pods; // the oldest first
    size_t n_pods, pods_cap;
    struct replay_world_drain *drains;
    size_t n_drains, drains_cap;
    struct replay_world_node *nodes;
    size_t n_nodes, nodes_cap;
    size_t next_name;
    double queue; // work that waits, in units of load * seconds
    struct replay_waits waits;
    struct replay_world_past *past; // of the last seconds, by second modulo n_past, a power of two
    size_t n_past, looked_back;
    struct replay_world_calm calm;               // the last seconds, which are not in `past`
    struct replay_world_past now, seen;          // what was asked for
    struct replay_curve_piece load, load_before; // where the load is now, and was when it was seen
    struct replay_world_counts counts;
    size_t version; // of what was counted
    struct replay_summary sum;
    double replica_seconds, queue_seconds;
};

void replay_world_start(struct replay_world *w, const struct replay_scenario *s);
void replay_world_scale(struct replay_world *w,
                        int32_t replicas);                // the workload's controller acts at once
void replay_world_lose(struct replay_world *w, size_t n); // the oldest end, others start
void replay_world_run(struct replay_world *w, int64_t until_ms); // in steps of a second
// The counts of this moment; `version` is another one when pods or nodes may have changed.
const struct replay_world_counts *replay_world_count(struct replay_world *w);
const struct replay_world_past *replay_world_now(struct replay_world *w);
// What the controller sees now.
const struct replay_world_past *replay_world_seen(struct replay_world *w);
void replay_world_finish(struct replay_world *w);
