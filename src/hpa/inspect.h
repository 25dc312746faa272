// SPDX-License-Identifier: Apache-2.0
// Explains the decision about one autoscaler.
#pragma once

#include "hpa/hpa.h"
#include "kube/client.h"

#include <uv.h>

// --- what-if ---
//
// The contribution of each pod to a decision, and the values that would change it: hpa_decide() is
// called again with other values.

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

// --- inspection ---
//
// Reads the object, the scale of its target, the pods and all metrics from the API, as the
// controller would now. Nothing is written.

struct hpa_inspection;

// The result; borrowed from the inspection.
struct hpa_inspection_result {
    const struct hpa_spec *spec;
    const struct hpa_observation *obs;
    const json_t *const *pods; // the objects of obs->pods, in the same order
    int64_t now_ms;            // when it was complete
    // The history of the controller. NULL: unavailable, for the reason in history_error.
    const struct hpa_history *history;
    const char *history_error; // NULL: the history is available or was not requested
};

// Called once, later. err NULL: success. The callee owns err.
typedef void (*hpa_inspect_done)(void *arg, const struct hpa_inspection_result *seen,
                                 struct gs_error *err);

struct hpa_inspection *hpa_inspect_start(uv_loop_t *loop, struct kube_client *client,
                                         const char *ns, const char *name, int release,
                                         hpa_inspect_done cb, void *arg);
// Also requests the history of a gpuscale controller. Call it right after the start. A failure is
// reported in history_error.
void hpa_inspect_fetch_history(struct hpa_inspection *l, struct kube_client *controller);
// Cancels. Not from the callback, whose result is borrowed. NULL is fine.
void hpa_inspection_free(struct hpa_inspection *l);

// --- explanation ---
//
// The decision with its inputs, as JSON (new reference) and as a short text. docs/autoscaler.md
// describes both.
json_t *hpa_explanation_json(const struct hpa_inspection_result *seen,
                             const struct hpa_config *cfg);
void hpa_explanation_text(const json_t *reading, struct gs_buf *out);

// --- one autoscaler of a cluster ---

// The options of `gpuscale explain hpa`. Strings are borrowed; NULL: not given.
struct hpa_explain_options {
    const char *ns, *kubeconfig, *context, *compat, *controller;
    int64_t downscale_window, cpu_init_period, readiness_delay; // ns
    double tolerance;
    const struct hpa_setting *settings; // "what if"
    size_t n_settings;
};

// The controller that the options describe. GS_EINVAL: unknown release.
struct gs_error *hpa_explain_config(const struct hpa_explain_options *o, struct hpa_config *ret);

// Runs its own loop until all responses have arrived. *ret: new reference. Errors: no cluster, no
// such object, no response within 30 s, no history although `controller` is set.
struct gs_error *hpa_explain_object(const struct hpa_explain_options *o, const char *name,
                                    json_t **ret);
