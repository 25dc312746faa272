// SPDX-License-Identifier: Apache-2.0
// GPU nodes in advance, for a service with a latency target: how many placeholders hold the place
// of replicas that the next minutes may need. A node takes longer to come than a replica to start
// on a node that is there. Pure functions: the decision about the replicas and its forecast in, the
// number of placeholders with the reason out. One thread at a time uses a state.
#pragma once

#include "slo/slo.h"

// Annotations of an autoscaler. The first opts in: "buffer" (a CapacityBuffer, for which the node
// autoscaler keeps room) or "pods" (pods of low priority that do nothing). The second is the
// maximum number of placeholders, 1 to SLO_CAPACITY_MOST; default 1.
#define SLO_CAPACITY_ANNOTATION     "gpuscale.dev/capacity"
#define SLO_CAPACITY_MAX_ANNOTATION "gpuscale.dev/capacity-max"

enum slo_capacity_kind { SLO_CAPACITY_NONE, SLO_CAPACITY_BUFFER, SLO_CAPACITY_PODS };
enum { SLO_CAPACITY_MOST = 100 };

struct slo_capacity_policy {
    enum slo_capacity_kind kind;
    int32_t max;
};
// Of an autoscaler. GS_EINVAL: an annotation is wrong, or the object has no latency target; the
// kind is SLO_CAPACITY_NONE then.
struct gs_error *slo_capacity_policy_of(const json_t *hpa, struct slo_capacity_policy *ret);

struct slo_capacity_input {
    const struct slo_decision *decision;
    double growth;      // of the forecast, as in struct forecast_result
    double rise;        // as of slo_memory_rise(); NAN: unknown
    int64_t horizon_ms; // of both
    int32_t replicas;   // that are ordered: spec.replicas of the target
    int32_t max;        // of the autoscaler
    bool limited;       // something else than `max` keeps the replicas below what is needed
};

// Between two decisions. Empty if zero.
struct slo_capacity_state {
    int32_t placeholders; // as decided last
    int64_t raised_ms;    // the last increase; 0: none
};

struct slo_capacity {
    int32_t placeholders;
    int32_t forecast; // replicas at the end of the horizon, at most `max`; -1: unknown
    int32_t present;  // replicas that are ready, start, or are ordered
    char text[SLO_LINE_SIZE];
};
// placeholders is at most forecast - present, or the last number if the forecast is unknown. It
// falls at once, and rises at most once in ten minutes.
void slo_capacity_decide(const struct slo_capacity_policy *policy,
                         const struct slo_capacity_input *in, struct slo_capacity_state *state,
                         int64_t now_ms, struct slo_capacity *ret);
// For a workload without replicas, which is paused or not in use: no placeholders.
void slo_capacity_stop(struct slo_capacity_state *state, struct slo_capacity *ret);
