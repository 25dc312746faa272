// SPDX-License-Identifier: Apache-2.0
// What the autoscaler of a simulated service observes.
#pragma once

#include "hpa/hpa.h"
#include "replay/service.h"

// Times between latencies, by buckets. counts: not cumulative, n + 1.
struct replay_service_counts {
    const double *bounds; // of the fleet
    double *counts;
    size_t n;
};
// Linear within a bucket. NAN: empty.
double replay_service_quantile(const struct replay_service_counts *c, double q);

struct replay_service_view;

struct replay_service_view *replay_service_view_new(const struct replay_scenario *s);
void replay_service_view_free(struct replay_service_view *v); // accepts NULL
// Reads the signals of the pods now: the samples of the next observation.
void replay_service_sample(struct replay_service_view *v, const struct inference_fleet *f);
// What the autoscaler observes now, with the proposal of its latency target. Valid until the next
// call. decided: of the target; NULL: not needed.
const struct hpa_observation *replay_service_observe(struct replay_service_view *v,
                                                     const struct inference_fleet *f,
                                                     bool no_metrics);
double replay_service_utilization(const struct replay_service_view *v); // of all, percent
double replay_service_rate(const struct replay_service_view *v);        // requests per second
// Since the beginning: INFERENCE_TTFT or INFERENCE_ITL.
const struct replay_service_counts *replay_service_latencies(const struct replay_service_view *v,
                                                             enum inference_histogram h);
