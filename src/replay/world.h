// SPDX-License-Identifier: Apache-2.0
// The cluster of a replay: pods, nodes, the load that is served. Steps of a second. Private to the
// room.
#pragma once

#include "replay/replay.h"
#include "replay/waits.h"

struct world_pod {
    char name[24];
    int64_t created_ms, started_ms, ready_ms; // started: INT64_MAX while it waits for a node
    size_t node;
};

struct world_drain { // a pod that ends
    int64_t until_ms;
    size_t node;
};

struct world_node {
    int64_t ready_ms, idle_since_ms; // idle: INT64_MAX while a pod is on it
    size_t used;                     // GPUs
    bool gone;
};

// What was at a second; the controller sees it `delay` later.
struct world_past {
    double load, utilization, queue;
    int32_t ready;
};

// Seconds in which everything was served: load and utilization follow from the load's curve, when
// they are asked for.
struct world_calm {
    int64_t first, last; // seconds
    int32_t ready;
};

// What only changes with the pods and nodes, counted once until then.
struct world_counts {
    int64_t until_ms; // when the next of them is ready
    bool stale;
    bool rest; // nothing waits or may go
    int32_t ready, running, draining;
    size_t nodes, nodes_ready;
};

struct world {
    const struct replay_scenario *s;
    int64_t t_ms;
    struct world_pod *pods; // the oldest first
    size_t n_pods, pods_cap;
    struct world_drain *drains;
    size_t n_drains, drains_cap;
    struct world_node *nodes;
    size_t n_nodes, nodes_cap;
    size_t next_name;
    double queue; // work that waits, in units of load * seconds
    struct waits waits;
    struct world_past *past; // of the last seconds, by second modulo n_past, a power of two
    size_t n_past, looked_back;
    struct world_calm calm;               // the last seconds, which are not in `past`
    struct world_past now, seen;          // what was asked for
    struct curve_piece load, load_before; // where the load is now, and was when it was seen
    struct world_counts counts;
    size_t version; // of what was counted
    struct replay_summary sum;
    double replica_seconds, queue_seconds;
};

void world_start(struct world *w, const struct replay_scenario *s);
void world_scale(struct world *w, int32_t replicas); // the workload's controller acts at once
void world_lose(struct world *w, size_t n);          // the oldest end, others start
void world_run(struct world *w, int64_t until_ms);   // in steps of a second
// The counts of this moment; `version` is another one when pods or nodes may have changed.
const struct world_counts *world_count(struct world *w);
const struct world_past *world_now(struct world *w);
// What the controller sees now.
const struct world_past *world_seen(struct world *w);
void world_finish(struct world *w);
