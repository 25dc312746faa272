// SPDX-License-Identifier: Apache-2.0
// Several workloads on pools of nodes: a fleet. fleet_scenario.c and fleet_settings.c read and
// change it; fleet_run.c runs it with fleet_nodes.c (machines, scheduling), fleet_start.c (their
// start) and fleet_plan.c (the node autoscaler).
#pragma once

#include "base/arena.h"
#include "codec/yaml_reader.h"
#include "nodes/plan.h"
#include "nodes/pool.h"
#include "nodes/scheduling.h"
#include "replay/replay.h"

#define REPLAY_MAX_WORKLOADS ((size_t)500)
#define REPLAY_MAX_POOLS     ((size_t)100)
#define REPLAY_MAX_NODES     ((size_t)10000) // of a fleet
#define REPLAY_MAX_JOBS      ((size_t)200000)
#define REPLAY_MAX_GPUS      ((size_t)1024) // of a pod
#define REPLAY_MAX_JOB_SIZES ((size_t)32)   // kinds of jobs of a workload, by GPUs

// A time that is distributed log-normally. p90 == p50: constant.
struct replay_spread {
    int64_t p50_ms, p90_ms;
};

// Seeded random numbers: the n-th number of a stream does not depend on other streams.
double replay_random(uint64_t seed, uint64_t stream, uint64_t n); // above 0 and below 1
int64_t replay_random_time(const struct replay_spread *d, uint64_t seed, uint64_t stream,
                           uint64_t n); // whole seconds, at least 1

struct replay_job {
    int64_t at_ms, run_ms; // run: from ready to the end
    size_t gpus;
};

// Jobs that arrive at random: exponential times between them.
struct replay_arrivals {
    int64_t every_ms, from_ms, until_ms; // every: mean; 0: no random jobs
    struct replay_spread run;
    size_t gpus[REPLAY_MAX_JOB_SIZES];
    double weights[REPLAY_MAX_JOB_SIZES];
    size_t n_sizes;
};

struct replay_fleet_workload {
    struct replay_scenario *s; // the replicas: load, autoscaler, events
    struct replay_job *jobs;   // written down, in time order
    size_t n_jobs;
    struct replay_arrivals arrivals;
    json_t *pod; // fields of the pods' spec; NULL: none
    bool safe_to_evict;
};

// Times of the node autoscaler beside those of its plans.
struct replay_fleet_times {
    int64_t scan_ms;
    struct nodes_backoff_limits backoff;
};

struct replay_fleet {
    const char *name;
    int64_t duration_ms;
    uint64_t seed;
    struct replay_fleet_workload *workloads;
    size_t n_workloads;
    struct nodes_pools pools;
    struct replay_fleet_times times;
    struct nodes_plan_settings plan;
    enum nodes_scoring scoring; // of the scheduler
    json_t *prices;             // the table, or NULL
    struct gs_arena arena;
};

// Times without capacity.
struct replay_outage {
    int64_t from_ms, until_ms;
};
// The additional fields of a pool in a scenario.
struct replay_pool_extra {
    struct replay_outage *outages;
    size_t n_outages;
    int64_t preemption_ms; // mean time from ready until the cloud takes a spot node; 0: never
};

// The jobs of a workload in time order; caller frees. GS_EINVAL: too many.
struct gs_error *replay_fleet_jobs(const struct replay_fleet *f, size_t workload,
                                   struct replay_job **ret, size_t *ret_n);
// The jobs of a CSV file (fleet_trace.c); caller frees. gpus: if the file has no such column.
struct gs_error *replay_fleet_read_trace(const char *path, size_t gpus, struct replay_job **ret,
                                         size_t *ret_n);
// Reads the list of pools, or the file that it names.
void replay_fleet_read_pools(struct codec_reader *r, const json_t *list, struct replay_fleet *f);
struct gs_error *replay_fleet_check(const struct replay_fleet *f);
// Replaces the prices of the pools that are in the table, by machine type or name.
void replay_fleet_apply_prices(struct replay_fleet *f);
