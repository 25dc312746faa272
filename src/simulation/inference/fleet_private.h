// SPDX-License-Identifier: Apache-2.0
// The state of a fleet, which the sources of its time, its pods and its figures share.
#pragma once

#include "inference/fleet.h"

#include <sys/queue.h>

// A request from its arrival to its end.
struct inference_fleet_request {
    TAILQ_ENTRY(inference_fleet_request) link; // of its pod, or of those without a pod
    const struct inference_arrival *arrival;
    int64_t first_ns; // its first token; 0: none yet
    bool broken;      // its engine failed after the first token
};
TAILQ_HEAD(inference_fleet_requests, inference_fleet_request);

struct inference_fleet_pod {
    uint32_t id;
    char name[16];
    enum inference_pod_phase phase;
    int64_t created_ns, placed_ns, since_ns;
    int64_t begun_ns; // its engine serves since then
    uint32_t starts;
    double saved_s; // of its start, by a placeholder
    double slow;    // by inference_fleet_slow()
    struct inference_fleet *fleet;
    struct inference_model *model; // NULL: it does not serve
    struct inference_stats stats;
    struct inference_step last_step;
    struct inference_fleet_requests requests;
    uint32_t n_requests;
    int64_t next_ns; // of the end of a step, or of a start; INT64_MAX: nothing happens
    size_t heap;     // position; valid while something happens
};

struct inference_fleet {
    struct inference_fleet_setup setup;
    const struct inference_arrival *arrivals;
    size_t n_arrivals, next_arrival;
    int64_t now;
    uint64_t random;
    uint32_t replicas, next_id, turn;
    struct inference_fleet_pod **pods; // in the order of their creation
    size_t n_pods, cap_pods;
    struct inference_fleet_pod **heap; // by next_ns
    size_t n_heap, cap_heap;
    struct inference_fleet_requests held; // without a pod that serves
    uint32_t n_held;
    struct inference_fleet_figures figures;
    double ended_hours; // of pods and placeholders that are gone
    int64_t *places;    // of placeholders: since when they are set, in this order
    size_t n_places, cap_places;
    int direction; // of the last change of the replicas
    // Since the last moment.
    struct inference_fleet_figures before;
    double *ttfts;
    size_t n_ttfts, cap_ttfts;
};

// --- fleet_pods.c ---
void inference_fleet_pod_starts(struct inference_fleet_pod *p); // its start begins now
void inference_fleet_pod_serves(struct inference_fleet_pod *p); // its engine serves from now on
// Stops the engine without an answer to its requests, which go to *ret.
void inference_fleet_pod_stops(struct inference_fleet_pod *p, struct inference_fleet_requests *ret);
void inference_fleet_pod_add(struct inference_fleet_pod *p, struct inference_fleet_request *r);
void inference_fleet_pod_plans(struct inference_fleet_pod *p); // sets the time of the next event
void inference_fleet_pod_goes(
    struct inference_fleet_pod *p); // is gone: frees it, and gives its GPU to another one
void inference_fleet_pod_free(struct inference_fleet_pod *p);
void inference_fleet_pods_grow(struct inference_fleet *f);
void inference_fleet_pods_shrink(struct inference_fleet *f);

// --- fleet.c ---
void inference_fleet_route(struct inference_fleet *f, struct inference_fleet_request *r);
void inference_fleet_route_held(struct inference_fleet *f);

// --- fleet_figures.c ---
void inference_fleet_figures_token(struct inference_fleet_pod *p, struct inference_fleet_request *r,
                                   int64_t at_ns);
void inference_fleet_figures_finish(struct inference_fleet_pod *p,
                                    const struct inference_fleet_request *r,
                                    const struct inference_finished *end);
void inference_fleet_figures_scale(struct inference_fleet *f, uint32_t replicas);
