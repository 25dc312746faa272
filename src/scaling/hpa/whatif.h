// SPDX-License-Identifier: Apache-2.0
// What if: the contribution of each pod to a decision, the values that would change it, and the
// decision with other settings. hpa_decide() is called again with other values.
#pragma once

#include "hpa/hpa.h"

// Whether a pod counts for a metric, and why not.
enum hpa_pod_state {
    HPA_POD_COUNTED,
    HPA_POD_OVER,        // being deleted, failed or finished
    HPA_POD_NOT_RUNNING, // Pending
    HPA_POD_NO_SAMPLE,
    HPA_POD_NOT_READY, // CPU: not ready yet, or its sample is from before it was
};
const char *hpa_pod_state_text(enum hpa_pod_state state);

// The state of each pod of the observation; ret has n_pods elements.
void hpa_pod_states(const struct hpa_spec *spec, const struct hpa_observation *obs,
                    const struct hpa_config *cfg, size_t metric, int64_t now_ms,
                    enum hpa_pod_state *ret);

// hpa_decide() with a history that is not changed. NULL: no earlier recommendations or scale
// events.
void hpa_decide_with(const struct hpa_history *history, const struct hpa_spec *spec,
                     const struct hpa_observation *obs, const struct hpa_config *cfg,
                     int64_t now_ms, struct hpa_decision *ret);

// The nearest value of one metric at which the result changes, if the others stay the same.
struct hpa_threshold {
    bool found;
    struct hpa_metric_result at; // value, average_value or utilization; texts are not set
    int32_t desired;
};
void hpa_find_thresholds(const struct hpa_history *history, const struct hpa_spec *spec,
                         const struct hpa_observation *obs, const struct hpa_config *cfg,
                         size_t metric, int64_t now_ms, struct hpa_threshold *ret_below,
                         struct hpa_threshold *ret_above);

// --- settings ---
//
// The same autoscaler with other settings.

// target (of the only metric), target.METRIC (its name, or its position from 1), min, max,
// tolerance (0.1 is 10 %; replaces that of the object, too). Borrowed.
struct hpa_setting {
    const char *name, *value;
};
#define HPA_MAX_SETTINGS 16                // of one question
bool hpa_setting_exists(const char *name); // whether such a setting may exist
// A spec with its own object. GS_EINVAL: a value is not one, or the API would reject the object.
// GS_ENOTFOUND: no such metric.
struct gs_error *hpa_spec_with(const struct hpa_spec *spec, const struct hpa_setting *settings,
                               size_t n, const struct hpa_config *cfg, struct hpa_spec *ret,
                               struct hpa_config *ret_cfg);

// How far one sync may change the replicas now, by the policies and the history. The windows and
// minReplicas and maxReplicas may limit it further.
struct hpa_reach {
    int32_t most, least;
};
struct hpa_reach hpa_reach_now(const struct hpa_history *history, const struct hpa_spec *spec,
                               const struct hpa_observation *obs, const struct hpa_config *cfg,
                               int64_t now_ms);
