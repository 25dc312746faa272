// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module: the parts of hpa_decide(), and of the conversion of objects.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "codec/json.h"
#include "hpa/hpa.h"
#include "hpa/release.h"
#include "startup/credit.h"

// --- evaluation ---
//
// The state of one call of hpa_decide(), its calculators, and what they record for the explanation.

// Allowed distance of the ratio from 1, downwards and upwards.
struct hpa_tolerance {
    double down, up;
    bool distance; // |1 - ratio| is compared, as before 1.33; 1.1 is then outside of 0.1
};

// How a calculator derived its number, for the explanation.
enum hpa_step {
    HPA_STEP_WITHIN,        // inside the tolerance
    HPA_STEP_RATIO,         // ratio x multiplier
    HPA_STEP_FILLED_WITHIN, // inside after values were assumed for pods without one
    HPA_STEP_TURNED,        // the assumed values would have reversed the direction
    HPA_STEP_FILLED,        // ratio after the assumption x pods
    HPA_STEP_DIVIDED,       // value / target per replica
};
struct hpa_calculation {
    enum hpa_step step;
    double filled_ratio;
    size_t multiplier; // pods or replicas that the ratio was multiplied with
    int64_t total;     // milli: what is divided by the replicas, of Object and External metrics
};

#define HPA_KEPT_CALCULATIONS 4 // of a terse evaluation, for an explanation that is made later

struct hpa_evaluation {
    const struct hpa_spec *spec;
    const struct hpa_observation *obs;
    const struct hpa_config *cfg;
    struct hpa_history *history;
    int64_t now_ms;
    int32_t min_replicas;
    struct hpa_tolerance tolerance;
    struct hpa_decision *out;
    struct gs_buf explanation;
    struct hpa_calculation kept[HPA_KEPT_CALCULATIONS];
};

// --- numbers ---
// Go leaves a conversion out of range undefined; here it saturates, and NaN is 0.
int32_t hpa_ceil32(double v);
int32_t hpa_trunc32(double v);
int64_t hpa_ceil64(double v);
int32_t hpa_sat32(int64_t v);
bool hpa_within(struct hpa_tolerance t, double ratio);

// --- pods in groups ---
// The fast path: the metric has one sample for each pod, in the order of the pods, and every pod
// counts. No grouping is needed.
struct hpa_totals {
    size_t n;
    int64_t usage; // saturated
    __int128 exact_usage, requests;
};
bool hpa_all_pods_count(const struct hpa_evaluation *p, size_t metric, bool with_requests,
                        struct hpa_totals *ret);

struct hpa_entry {
    const char *pod;
    int64_t value, timestamp_ms, window_ms;
    int64_t request; // of the matched pod; -1: no such pod, or not needed
    size_t order;    // of the sample as given
    bool dropped;    // belongs to an ignored or unready pod
};
// Samples by pod, and the pods without samples. Entries of missing and unready pods can be added.
struct hpa_groups {
    struct hpa_entry *entries;
    size_t n_entries, cap_entries;
    const struct hpa_pod **missing, **unready; // in one block
    size_t n_missing, n_unready, n_ignored, n_ready;
};
// Finished pods (succeeded or failed) are not measured.
bool hpa_pod_is_over(const struct hpa_config *cfg, const struct hpa_pod *pod);
void hpa_groups_init(const struct hpa_evaluation *p, size_t metric, struct hpa_groups *ret);
void hpa_groups_finish(struct hpa_groups *g);
void hpa_groups_add(struct hpa_groups *g, const char *pod, int64_t value, int64_t request);
size_t hpa_groups_live(const struct hpa_groups *g);
// The number of pods that are Running and Ready: the multiplier of values.
struct gs_error *hpa_ready_pods(const struct hpa_observation *obs, size_t *ret);

// --- one metric ---
// Errors have the texts of kube-controller-manager's replica calculator.
struct gs_error *hpa_replicas_plain(const struct hpa_evaluation *p, size_t metric,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
struct gs_error *hpa_replicas_utilization(const struct hpa_evaluation *p, size_t metric,
                                          struct hpa_metric_result *res,
                                          struct hpa_calculation *calc);
struct gs_error *hpa_replicas_value(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
// Whether a metric is averaged over the replicas of the target, and there are none. Then it has no
// average, although the status of Kubernetes 1.38 shows 0.
bool hpa_lacks_replicas(const struct hpa_metric_spec *m, const struct hpa_observation *obs);
void hpa_replicas_per_replica(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                              struct hpa_metric_result *res, struct hpa_calculation *calc);

// For a metric whose value is a count of replicas, without tolerance.
void hpa_replicas_given(const struct hpa_evaluation *p, size_t metric, int32_t replicas,
                        struct hpa_metric_result *res, struct hpa_calculation *calc);

// --- struct hpa_extra ---
bool hpa_has_extra_value(const struct hpa_observation *obs, const struct hpa_metric_spec *m);
struct gs_error *hpa_compute_extra(const struct hpa_evaluation *p, size_t metric,
                                   struct hpa_metric_result *res, struct hpa_calculation *calc);
char *hpa_explain_extra(const struct hpa_evaluation *p, const struct hpa_metric_result *res);
// Whether it is applied and has a count.
bool hpa_extra_proposes(const struct hpa_observation *obs);
// Replaces the highest proposal of the metrics (0: none) and its name.
void hpa_consider_extra(struct hpa_evaluation *p, int32_t *highest, const char **name);

// --- fallback of External metrics ---
struct hpa_failure {
    uint64_t key;     // of the metric
    int64_t since_ms; // 0: it does not fail
    bool active;      // the fallback
};
void hpa_read_fallback(const json_t *object, struct hpa_spec *ret);
// Takes the error of a metric. NULL: it has a proposal, perhaps that of its fallback.
struct gs_error *hpa_apply_fallback(struct hpa_evaluation *p, size_t metric, struct gs_error *err,
                                    struct hpa_metric_result *res);
void hpa_note_fallback(struct hpa_evaluation *p); // after all metrics: the condition
// {"active": BOOL, "metrics": […]}; new reference. NULL: no metric has a fallback.
json_t *hpa_fallback_json(const struct hpa_spec *spec, const struct hpa_decision *d);

// --- several metrics ---
// The highest proposal and the description of its metric. False: no scaling; conditions and events
// are set. ret_name is borrowed from the decision's metric results.
void hpa_explain_kept(struct hpa_evaluation *p); // the explanations that a terse evaluation omitted
bool hpa_compute_metrics(struct hpa_evaluation *p, int32_t *ret_proposal, const char **ret_name);

// --- protections that annotations switch on ---
void hpa_read_protection(const json_t *object, struct hpa_spec *ret);
// Reduces the proposal of a metric by credit for pods that are coming.
void hpa_apply_credit(struct hpa_evaluation *p, size_t metric, struct hpa_metric_result *res,
                      const struct hpa_calculation *calc);
// Raises a proposal below the current count to what the remaining pods can take.
int32_t hpa_check_down(struct hpa_evaluation *p, int32_t proposal);

// Keeps one replica while hpa_observation.zero holds it. The recommendations of the history are not
// changed: zero follows at once when it is released.
int32_t hpa_hold_zero(struct hpa_evaluation *p, int32_t desired);

// --- history ---
// The trend of a metric, for credit. Valid until the history or the number of metrics changes.
struct startup_trend *hpa_history_trend(struct hpa_history *h, size_t n_metrics, size_t metric);
// The failure of the metric with that key; a new one if another metric was there. Valid as above.
struct hpa_failure *hpa_history_failure(struct hpa_history *h, size_t n_metrics, size_t metric,
                                        uint64_t key);
// Whether the metrics have been read since the history began.
bool hpa_history_has_read(const struct hpa_history *h);
void hpa_history_set_read(struct hpa_history *h);
struct hpa_rates { // current limits
    int64_t added, removed;
};
void hpa_history_seed(struct hpa_history *h, int32_t current, int64_t now_ms);
// Highest recommendation not older than the window; stores the proposal.
int32_t hpa_history_stabilize(struct hpa_history *h, int32_t proposal, int64_t window_ms,
                              int64_t now_ms);
// Lowest of the up window and highest of the down window; stores the proposal.
void hpa_history_bounds(struct hpa_history *h, int32_t proposal, int64_t up_window_ms,
                        int64_t down_window_ms, int64_t now_ms, int32_t *ret_lowest,
                        int32_t *ret_highest);
struct hpa_rates hpa_history_rates(const struct hpa_history *h, int32_t period_seconds,
                                   int64_t now_ms);

// --- from proposal to count ---
int32_t hpa_normalize(struct hpa_evaluation *p, int32_t proposal);
int32_t hpa_normalize_behavior(struct hpa_evaluation *p, int32_t proposal);

// --- conditions, events and explanation ---
enum hpa_condition_type {
    HPA_ABLE_TO_SCALE,
    HPA_SCALING_ACTIVE,
    HPA_SCALING_LIMITED,
    HPA_SCALED_TO_ZERO,
    HPA_FALLBACK_ACTIVE
};
// Sets or adds the condition of that type. status and reason are constants.
void hpa_set_fixed_condition(struct hpa_decision *d, enum hpa_condition_type type,
                             const char *status, const char *reason, const char *message);
void hpa_set_decision_condition(struct hpa_decision *d, enum hpa_condition_type type,
                                const char *status, const char *reason, const char *fmt, ...)
    GS_PRINTF(5, 6);
void hpa_add_event(struct hpa_decision *d, bool warning, const char *reason, const char *message);
// A LabelSelector pointer as Go prints it: "nil" or "&LabelSelector{…}".
void hpa_format_selector(const json_t *selector, struct gs_buf *out);
// Adds to the line that explains what limited the result. Parts are separated by "; ".
void hpa_explain(struct hpa_evaluation *p, const char *fmt, ...) GS_PRINTF(2, 3);
char *hpa_explain_metric(const struct hpa_evaluation *p, size_t metric,
                         const struct hpa_metric_result *res, const struct hpa_calculation *calc);

// --- conversion ---
//
// Shared by the conversion files.

// Annotations for fields that an older API version lacks.
#define HPA_ANNOTATION_METRICS         "autoscaling.alpha.kubernetes.io/metrics"
#define HPA_ANNOTATION_CURRENT_METRICS "autoscaling.alpha.kubernetes.io/current-metrics"
#define HPA_ANNOTATION_CONDITIONS      "autoscaling.alpha.kubernetes.io/conditions"
#define HPA_ANNOTATION_BEHAVIOR        "autoscaling.alpha.kubernetes.io/behavior"

// The five metric sources, in the order of validation.
struct hpa_source {
    const char *type;   // "ContainerResource"
    const char *member; // "containerResource"
};
#define HPA_N_SOURCES 5
extern const struct hpa_source hpa_sources[HPA_N_SOURCES];

// Convert lists of metric specs and statuses between the v2beta1 form (also used in the v1
// annotations) and the v2 form. All return new references.
json_t *hpa_specs_from_beta1(const json_t *metrics);
json_t *hpa_specs_to_beta1(const json_t *metrics);
json_t *hpa_statuses_from_beta1(const json_t *metrics);
json_t *hpa_statuses_to_beta1(const json_t *metrics);

// The behavior annotation: capitalised field names, null for unset fields. NULL: invalid.
json_t *hpa_behavior_from_annotation(const char *text);
char *hpa_behavior_to_annotation(const json_t *behavior); // caller frees

// Converts quantities (numbers, other spellings) to canonical strings. `where` names the
// list in errors ("spec.metrics"); part is "target" or "current".
struct gs_error *hpa_canonical_metrics(json_t *metrics, const char *where, const char *part);
struct gs_error *hpa_canonical_behavior(json_t *behavior);
