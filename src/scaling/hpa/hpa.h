// SPDX-License-Identifier: Apache-2.0
// The HorizontalPodAutoscaler decision as a pure function: (spec, observation, history, now) in,
// decision with explanation out. Controller, replay, what-if and tests all call hpa_decide().
// Follows kube-controller-manager's algorithm: doubles for ratios, int64 milli-units for values.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "codec/json.h"
#include "startup/startup.h"

#include <stdbool.h>
#include <stdint.h>

enum hpa_metric_type {
    HPA_METRIC_RESOURCE,
    HPA_METRIC_CONTAINER_RESOURCE,
    HPA_METRIC_PODS,
    HPA_METRIC_OBJECT,
    HPA_METRIC_EXTERNAL,
    HPA_METRIC_UNKNOWN,
};

enum hpa_target_type { HPA_TARGET_VALUE, HPA_TARGET_AVERAGE_VALUE, HPA_TARGET_UTILIZATION };

// What an External metric proposes while it cannot be read.
struct hpa_fallback {
    int32_t replicas; // 0: no fallback
    int64_t after_ms; // of failures without a success
};

struct hpa_metric_spec {
    enum hpa_metric_type type;
    const char *type_text;  // as written
    const char *name;       // metric or resource name
    const char *container;  // ContainerResource
    const json_t *selector; // metric.selector (LabelSelector) or NULL
    const char *object_kind, *object_name, *object_api_version; // Object
    enum hpa_target_type target; // by the fields that are set, as the controller derives it
    bool has_value, has_average_value, has_utilization;
    int64_t value, average_value; // milli
    int32_t utilization;          // percent
    struct hpa_fallback fallback; // External
};

enum hpa_select { HPA_SELECT_MAX, HPA_SELECT_MIN, HPA_SELECT_DISABLED };
struct hpa_policy {
    bool percent; // else pods
    int32_t value;
    int32_t period_seconds;
};
struct hpa_rules {
    int32_t window_seconds; // -1: not set (controller default)
    enum hpa_select select;
    struct hpa_policy *policies;
    size_t n_policies;
    bool has_tolerance;
    double tolerance;
};

// Parsed autoscaling/v2 spec. Strings point into `object`, of which it holds a reference.
struct hpa_spec {
    json_t *object;
    const char *ns, *name, *uid;
    const char *target_api_version, *target_kind, *target_name;
    bool has_min;
    int32_t min_replicas, max_replicas;
    struct hpa_metric_spec *metrics;
    size_t n_metrics;
    bool has_behavior;
    struct hpa_rules up, down;
    bool credit, down_check; // annotations of the object
    int64_t zero_after_ms;   // of hpa/zero.h; 0: absent or wrong
    bool zero_after_wrong;   // the last replica remains
    bool has_fallback;       // of a metric
    // Loads of the down check: metrics of the type Pods, after the n_metrics in `metrics`. Their
    // average value is the most that one pod may have.
    size_t n_loads;
    char *load_names; // owned
};
// Annotations of an object, "true" or "false" (the default). Credit: pods that are coming count
// before metrics of waiting work order more. Down check: scales down only if the load of each
// metric, on the remaining pods, stays below its target by the tolerance. "METRIC=LIMIT,…" instead
// of "true" adds metrics of the pods that are no metrics of the spec.
#define HPA_CREDIT_ANNOTATION     "gpuscale.dev/credit"
#define HPA_DOWN_CHECK_ANNOTATION "gpuscale.dev/down-check"
#define HPA_MAX_LOADS             4
// GS_EINVAL: one of them has another value, which counts as "false".
struct gs_error *hpa_check_protection(const json_t *object);

// Annotation of an object: {METRIC: {failureDurationSeconds: SECONDS, replicas: N}}, with the
// fields of KEP-5679, as YAML or JSON. An External metric of that name that has failed for this
// time (180, at least 180) proposes these replicas.
#define HPA_FALLBACK_ANNOTATION "gpuscale.dev/fallback"
// GS_EINVAL: it is wrong, and without effect.
struct gs_error *hpa_check_fallback(const json_t *object);

struct gs_error *hpa_spec_parse(json_t *v2_object, struct hpa_spec *ret); // defaulted, valid object
void hpa_spec_finish(struct hpa_spec *s);
// Index of the k-th metric in the order in which the controller of a release (hpa_config.release)
// evaluates them. The order decides which of two equal counts, or of two errors, is reported.
size_t hpa_metric_at(const struct hpa_spec *s, int release, size_t k);

// --- observation ---
enum hpa_pod_phase {
    HPA_POD_PENDING,
    HPA_POD_RUNNING,
    HPA_POD_SUCCEEDED,
    HPA_POD_FAILED,
    HPA_POD_UNKNOWN
};
enum hpa_condition_status {
    HPA_CONDITION_ABSENT,
    HPA_CONDITION_TRUE,
    HPA_CONDITION_FALSE,
    HPA_CONDITION_UNKNOWN
};
struct hpa_pod {
    const char *name;
    enum hpa_pod_phase phase;
    bool deleting, has_start_time;
    enum hpa_condition_status ready; // the Ready condition
    int64_t ready_transition_ms;     // its lastTransitionTime
    int64_t start_time_ms;
    // Requests of the resource of each Resource metric, by metric index; -1: absent.
    const int64_t *requests_milli; // n_metrics entries or NULL
    // Why one is absent ("missing request for cpu in container app of Pod web-1"); may be NULL.
    const char *const *request_errors; // n_metrics entries or NULL
};
struct hpa_sample {
    const char *pod; // Pods and Resource metrics: described object's name; else NULL
    int64_t value;   // milli
    int64_t timestamp_ms;
    int64_t window_ms; // 0: 60 s; negative: none at all
};
struct hpa_metric_observation {
    const struct hpa_sample *samples;
    size_t n_samples;
    // Non-NULL: the metric is unavailable. The innermost error text of the metrics client.
    const char *error;
};
// A proposal that is not from the metrics API: of an annotation of the object. It competes with the
// metrics, and the highest wins. A metric of the spec with its name (External or Object) has its
// value, without tolerance.
#define HPA_DESIRED_METRIC     "gpuscale_desired_replicas"
#define HPA_LATENCY_ANNOTATION "gpuscale.dev/slo"
#define HPA_LATENCY_NAME       "latency target " HPA_LATENCY_ANNOTATION
struct hpa_extra {
    int32_t replicas;        // -1: no proposal
    bool applied;            // false: only a metric of the spec may apply it
    bool held;               // nothing scales down
    const char *name;        // in conditions and reasons: "latency target"
    const char *explanation; // one line: the proposal, or why it is missing
};
// Whether the last replica was used, of the annotation of hpa/zero.h.
struct hpa_zero_check {
    bool held;        // it was, or that is unknown: it remains
    const char *text; // why
};
struct hpa_observation {
    bool scale_found;
    const char *scale_error; // when !scale_found
    int32_t spec_replicas, status_replicas;
    const char *selector;       // scale.status.selector
    const char *selector_error; // not parsable
    const char *ambiguous_with; // "[NS/A NS/B]" or NULL
    const struct hpa_pod *pods; // all pods that match the selector
    size_t n_pods;
    const struct hpa_metric_observation *metrics; // n_metrics entries
    bool scaled_to_zero;                          // status condition ScaledToZero is True
    bool has_scaled_to_zero;                      // the status condition exists
    const struct startup_coming *coming;          // NULL: unknown, and no credit is given
    // Of the loads of the spec, n_loads entries; NULL: not read. Then nothing scales down.
    const struct hpa_metric_observation *loads;
    const struct hpa_extra *extra;     // NULL: the object has no such annotation
    const struct hpa_zero_check *zero; // NULL: the object has no such annotation
};

// --- configuration and history ---
// Minor versions of Kubernetes 1.x whose controller can be followed. release.h lists the changes.
#define HPA_RELEASE_OLDEST 20
#define HPA_RELEASE_NEWEST 38

struct hpa_config {
    int64_t downscale_window_ms; // 300000
    double tolerance;            // 0.1
    int64_t cpu_init_period_ms;  // 300000
    int64_t readiness_delay_ms;  // 30000
    bool scale_to_zero;          // gate HPAScaleToZero
    int release;                 // minor version; 0: the newest
    // No conditions; explanations and descriptions only for decisions that rescale. For
    // simulations, which make millions of decisions.
    bool terse;
};
struct hpa_config hpa_config_default(void);
// "1.29" or "29": sets the behaviour and gates of that release. Other settings are unchanged.
// GS_EINVAL: unknown release.
struct gs_error *hpa_config_follow(struct hpa_config *cfg, const char *release);

// Recommendations and scale events of one HPA. A new history is empty. hpa_decide() adds
// recommendations, hpa_history_scaled() adds the event of a successful write.
struct hpa_history;
struct hpa_history *hpa_history_new(void);
void hpa_history_free(struct hpa_history *h);
// Shifts all times after the wall clock was set by this amount.
void hpa_history_shift(struct hpa_history *h, int64_t ms);
struct hpa_history *hpa_history_copy(const struct hpa_history *h);
// {recommendations: [{replicas, ageMs}], scaleUps: [{by, ageMs}], scaleDowns: […]}, and with credit
// trends: […]; new reference.
json_t *hpa_history_json(const struct hpa_history *h, int64_t now_ms);
struct gs_error *hpa_history_from_json(const json_t *in, int64_t now_ms, struct hpa_history **ret);
// For shadow mode: a count that differs from the previous one is recorded as a scale event.
void hpa_history_observe_replicas(struct hpa_history *h, const struct hpa_spec *spec,
                                  int32_t replicas, int64_t now_ms);
void hpa_history_scaled(struct hpa_history *h, const struct hpa_spec *spec, int32_t from,
                        int32_t to, int64_t now_ms);

// --- the decision ---
#define HPA_CONDITIONS  5 // number of types
#define HPA_FEW_METRICS 2
struct hpa_condition {
    const char *type, *status, *reason;
    char *message;
};
struct hpa_event {
    bool warning;
    const char *reason;
    char *message;
};
struct hpa_metric_result {
    bool ok;
    bool has_value, has_average_value, has_utilization; // what status.currentMetrics shows
    int64_t value, average_value;                       // in thousandths
    int32_t utilization;                                // percent of the requests
    int32_t proposal;
    bool fallback;            // the proposal is that of the fallback, and there is no value
    int64_t failing_since_ms; // of a metric with a fallback; 0: it does not fail
    double ratio;
    bool keeps_existing; // the proposal is the number of replicas that exist, not of those that are
                         // set
    size_t n_ready, n_unready, n_missing, n_ignored;
    char *description; // "pods metric X"
    char *explanation; // one line: samples, average, target, ratio, tolerance, proposal
};
enum hpa_outcome {
    HPA_OUTCOME_NO_SCALE,      // the scale could not be read
    HPA_OUTCOME_DISABLED,      // paused at zero replicas
    HPA_OUTCOME_OUT_OF_LIMITS, // below min or above max: corrected without metrics
    HPA_OUTCOME_NO_COUNT, // selector or metrics failed: nothing scales, status keeps its desired
    HPA_OUTCOME_COMPUTED,
};
struct hpa_decision {
    enum hpa_outcome outcome;
    bool rescale; // desired differs from current: write the scale
    int32_t current, desired;
    int32_t proposal;    // raw result of the metrics, before windows and limits; -1: none
    bool keeps_existing; // of the metric that decided; the proposal then differs from `current`
    char *extra; // the explanation of struct hpa_extra, if the proposal is its; NULL: it is not
    const char *reason; // "pods metric X above target", "All metrics below target", …
    char *own_reason;   // the memory of reason if it is not a constant; NULL otherwise
    struct hpa_condition conditions[HPA_CONDITIONS]; // those set in this evaluation, in order
    size_t n_conditions;
    struct hpa_event *events; // events of this evaluation
    size_t n_events;
    // n_metrics entries when metrics were computed, else NULL. It may be `few`, so a decision is
    // not copied.
    struct hpa_metric_result *metrics;
    size_t n_metrics;
    enum { HPA_WRITE_NONE, HPA_WRITE_DONE, HPA_WRITE_FAILED } write; // of the scale, so far
    bool drop_scaled_to_zero; // remove that condition: the gate is off
    char *explanation;        // what limited the result, in one line; "": nothing (NULL if terse)
    int64_t decided_ms;
    int release; // of the configuration
    bool terse;
    struct hpa_metric_result few[HPA_FEW_METRICS]; // storage for most objects
};
void hpa_decision_finish(struct hpa_decision *d);

// Whether hpa_decide() needs the metrics: not at zero replicas, outside of the limits, or without a
// usable selector. Does not read obs->metrics.
bool hpa_wants_metrics(const struct hpa_spec *spec, const struct hpa_observation *obs,
                       const struct hpa_config *cfg);

void hpa_decide(const struct hpa_spec *spec, const struct hpa_observation *obs,
                const struct hpa_config *cfg, struct hpa_history *history, int64_t now_ms,
                struct hpa_decision *ret);

// Whether a metric of the spec has the value of struct hpa_extra if the object has one. It is not
// read from the metrics API then.
bool hpa_is_desired_metric(const struct hpa_metric_spec *m);

// Lowers the result to this number of replicas, which may be below minReplicas, with the reason
// GPUBudget and this text. No effect on a lower result, and on one without a count.
void hpa_decision_cap(struct hpa_decision *d, int32_t replicas, const char *text);

// Whether a metric of the spec, or one that decided, is full at 100 %: a Utilization target, or a
// metric whose name has "util", "usage" or "DCGM_FI_PROF_".
bool hpa_spec_has_utilization(const struct hpa_spec *spec);
bool hpa_decision_by_utilization(const struct hpa_spec *spec, const struct hpa_decision *d);

// The condition of that type which this evaluation set; NULL: not set. Borrowed from the decision.
const struct hpa_condition *hpa_decision_condition(const struct hpa_decision *d, const char *type);
// Records the result of the scale write in the decision: condition, event, ScaledToZero. error
// NULL: success. The caller also calls hpa_history_scaled().
void hpa_decision_written(const struct hpa_spec *spec, const struct hpa_config *cfg,
                          const char *error, struct hpa_decision *d);
