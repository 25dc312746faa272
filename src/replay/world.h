// SPDX-License-Identifier: Apache-2.0
// The cluster of a replay: pods, nodes, the load that is served. Steps of a second. Private to the
// room.
#pragma once

#include "replay/replay.h"

struct world_pod {
    char name[24];
    int64_t created_ms, started_ms, ready_ms; // started: INT64_MAX while it waits for a node
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

struct world {
    const struct replay_scenario *s;
    int64_t t_ms;
    struct world_pod *pods; // the oldest first
    size_t n_pods, pods_cap;
    struct world_node *nodes;
    size_t n_nodes, nodes_cap;
    size_t next_name;
    double queue; // work that waits, in units of load * seconds
    struct world_past
        *past; // of the last seconds, by second modulo n_past: as far as is looked back
    size_t n_past;
    struct replay_summary sum;
    double replica_seconds, queue_seconds;
};

void world_start(struct world *w, const struct replay_scenario *s);
void world_scale(struct world *w, int32_t replicas); // the workload's controller acts at once
void world_lose(struct world *w, size_t n);          // the oldest end, others start
void world_run(struct world *w, int64_t until_ms);   // in steps of a second
int32_t world_ready(const struct world *w);
int32_t world_running(const struct world *w);
size_t world_nodes(const struct world *w); // ready ones
const struct world_past *world_now(const struct world *w);
// What the controller sees now.
const struct world_past *world_seen(const struct world *w);
void world_finish(struct world *w);
