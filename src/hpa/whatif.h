// SPDX-License-Identifier: Apache-2.0
// What a decision comes from, pod by pod, and what would change it: hpa_decide() asked again with
// other values.
#pragma once

#include "hpa/hpa.h"

// How a pod counts for a metric.
enum hpa_pod_state {
    HPA_POD_COUNTED,
    HPA_POD_OVER,        // being deleted, failed or finished
    HPA_POD_NOT_RUNNING, // Pending
    HPA_POD_NO_SAMPLE,
    HPA_POD_NOT_READY, // CPU: not ready yet, or its sample is from before it was
};
const char *hpa_pod_state_text(enum hpa_pod_state state);

// Of each pod of the observation; ret has room for n_pods.
void hpa_pod_states(const struct hpa_spec *spec, const struct hpa_observation *obs,
                    const struct hpa_config *cfg, size_t metric, int64_t now_ms,
                    enum hpa_pod_state *ret);

// With what the controller remembers, which is left as it is; NULL: as if nothing had been
// recommended or scaled before.
void hpa_decide_with(const struct hpa_history *memory, const struct hpa_spec *spec,
                     const struct hpa_observation *obs, const struct hpa_config *cfg,
                     int64_t now_ms, struct hpa_decision *ret);

// The nearest value of one metric, all others as they are, at which the result differs.
struct hpa_turn {
    bool found;
    struct hpa_metric_result at; // value, average_value or utilization; texts are not set
    int32_t desired;
};
void hpa_find_turns(const struct hpa_history *memory, const struct hpa_spec *spec,
                    const struct hpa_observation *obs, const struct hpa_config *cfg, size_t metric,
                    int64_t now_ms, struct hpa_turn *ret_below, struct hpa_turn *ret_above);
