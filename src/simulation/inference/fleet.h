// SPDX-License-Identifier: Apache-2.0
// A service of many inference engines (model.h) behind a router, in virtual time: pods start,
// serve, fail and drain. It reads no clock and has no I/O; equal settings and calls give equal
// results. The caller moves the time, reads the pods, and sets the number of replicas.
#pragma once

#include "inference/arrivals.h"
#include "inference/model.h"
#include "inference/stats.h"

#include <stdbool.h>

enum inference_router {
    INFERENCE_LEAST_REQUESTS, // running and waiting ones of an engine
    INFERENCE_RANDOM,
};

struct inference_fleet_setup {
    struct inference_parameters engine; // output_mean, failure_ratio and seed are not used
    enum inference_router router;
    uint32_t replicas;     // at the beginning, all ready
    uint32_t gpus;         // pods that have room; others are unschedulable. 0: no limit
    double start_s;        // from the creation of a pod until it serves
    double node_s;         // part of start_s until the node is there, which a placeholder saves
    double start_spread;   // deviation of the logarithm of start_s; 0: always the same
    double failed_starts;  // part of the starts that crash at their end and begin again, 0 to 1
    double leak_per_hour;  // 0.5: after an hour, steps of an engine take 1.5 times as long
    double ttft_s, tpot_s; // target of a request; tpot: mean time between its tokens. 0: none
    uint64_t seed;         // of starts and of the random router
};

struct inference_fleet;

// The arrivals are borrowed until it is freed.
struct inference_fleet *inference_fleet_new(const struct inference_fleet_setup *s,
                                            const struct inference_arrival *arrivals, size_t n);
void inference_fleet_free(struct inference_fleet *f); // accepts NULL
GS_DEFINE_CLEANUP(struct inference_fleet *, inference_fleet_free)

// Runs everything that happens up to this time. Times only grow.
void inference_fleet_advance(struct inference_fleet *f, int64_t until_ns);
int64_t inference_fleet_now(const struct inference_fleet *f);
// The number of replicas that are set. Fewer: pods that do not serve yet are removed first, then
// those that became ready last. A removed pod gets no requests and keeps its GPU until its own have
// ended.
void inference_fleet_scale(struct inference_fleet *f, uint32_t replicas);
// The number of placeholders that are set, each of which holds a GPU for the next pod. A pod that
// takes the place of one waits for what is left of node_s since the placeholder was set. Fewer: the
// newest are removed.
void inference_fleet_hold(struct inference_fleet *f, uint32_t placeholders);
uint32_t inference_fleet_replicas(const struct inference_fleet *f);

// Faults of the n-th pod that serves, counted from the oldest one. Nothing happens if there is no
// such pod.
void inference_fleet_crash(struct inference_fleet *f, uint32_t nth); // it starts again
void inference_fleet_slow(struct inference_fleet *f, uint32_t nth, double factor); // of its steps

enum inference_pod_phase {
    INFERENCE_POD_UNSCHEDULABLE,
    INFERENCE_POD_STARTING,
    INFERENCE_POD_READY,
    INFERENCE_POD_DRAINING, // was removed
};

struct inference_pod {
    uint32_t id;      // unique in the fleet
    const char *name; // "llm-7"
    enum inference_pod_phase phase;
    int64_t created_ns, since_ns; // since: of the phase
    uint32_t starts;              // of its engine, from 1 on
    struct inference_state state;
    struct inference_step last_step;     // the newest one that has ended; end 0: none
    uint64_t queued_tokens;              // of the prompts that wait
    const struct inference_stats *stats; // since the last start; buckets of vLLM. NULL: not ready
};
// Pods in the order of their creation. Valid until the fleet changes.
size_t inference_fleet_pods(const struct inference_fleet *f, struct inference_pod *ret, size_t max);

// --- what it gave ---

struct inference_fleet_figures {
    uint64_t arrived, finished, within; // within: finished, and on target
    uint64_t retried;                   // requests that a crash returned to the router
    double pod_hours; // from creation to the end, of pods that had room and of placeholders
    uint32_t peak;    // replicas that were set
    uint32_t ups, downs, reversals; // changes of the replicas; reversals: of their direction
};
// Requests that have not ended and can no longer meet the target do not count as within.
struct inference_fleet_figures inference_fleet_figures(const struct inference_fleet *f);

// Of the requests that ended since the last call, for pictures of a run.
struct inference_fleet_moment {
    uint32_t replicas, ready, starting, unschedulable, draining;
    uint32_t waiting, running; // of all engines; waiting: in the router, too
    uint64_t arrived, finished, within;
    double ttft_p50_s, ttft_p90_s, ttft_p99_s; // NAN: no request got its first token
};
void inference_fleet_take_moment(struct inference_fleet *f, struct inference_fleet_moment *ret);
