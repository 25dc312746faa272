// SPDX-License-Identifier: Apache-2.0
// Shared by the files behind hpa_decide(): one pass, its calculators, and what they tell the
// explanation.
#pragma once

#include "hpa/release.h"

#include "base/mem.h"

// Allowed distance of the ratio from 1, downwards and upwards.
struct hpa_tolerance {
    double down, up;
    bool distance; // |1 - ratio| is compared, as before 1.33: 1.1 is outside of 0.1 then
};

// How a calculator came to its number, for the explanation.
enum hpa_step {
    HPA_STEP_WITHIN,        // inside the tolerance
    HPA_STEP_RATIO,         // ratio x multiplier
    HPA_STEP_FILLED_WITHIN, // inside after assuming values for pods without one
    HPA_STEP_TURNED,        // the assumption would have turned the direction
    HPA_STEP_FILLED,        // ratio after the assumption x pods
    HPA_STEP_DIVIDED,       // value / target per replica
};
struct hpa_calculation {
    enum hpa_step step;
    double filled_ratio;
    size_t multiplier; // pods or replicas that the ratio was multiplied with
};

#define HPA_KEPT_CALCULATIONS 4 // of a terse pass, for an explanation that is wanted later

struct hpa_pass {
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
int64_t hpa_add_sat(int64_t a, int64_t b);
int32_t hpa_sat32(int64_t v);
bool hpa_within(struct hpa_tolerance t, double ratio);

// --- pods in groups ---
// Of a metric that has one sample for each pod, in the pods' order, and every pod counts. That is
// how it is nearly always; nothing needs to be grouped then.
struct hpa_totals {
    size_t n;
    int64_t usage; // saturated
    __int128 exact_usage, requests;
};
bool hpa_all_pods_count(const struct hpa_pass *p, size_t metric, bool with_requests,
                        struct hpa_totals *ret);

struct hpa_entry {
    const char *pod;
    int64_t value, timestamp_ms, window_ms;
    int64_t request; // of the matched pod; -1: no such pod, or not asked for
    size_t order;    // of the sample as given
    bool dropped;    // belongs to an ignored or unready pod
};
// Samples by pod and the pods that have none. Entries of missing and unready pods can be added.
struct hpa_groups {
    struct hpa_entry *entries;
    size_t n_entries, cap_entries;
    const struct hpa_pod **missing, **unready; // in one block
    size_t n_missing, n_unready, n_ignored, n_ready;
};
// A finished pod, whichever way, has nothing left to measure.
bool hpa_pod_is_over(const struct hpa_config *cfg, const struct hpa_pod *pod);
void hpa_groups_init(const struct hpa_pass *p, size_t metric, struct hpa_groups *ret);
void hpa_groups_finish(struct hpa_groups *g);
void hpa_groups_add(struct hpa_groups *g, const char *pod, int64_t value, int64_t request);
size_t hpa_groups_live(const struct hpa_groups *g);
// Running and Ready, nothing else looked at: the multiplier of plain values.
struct gs_error *hpa_ready_pods(const struct hpa_observation *obs, size_t *ret);

// --- one metric ---
// Errors are worded as kube-controller-manager's replica calculator words them.
struct gs_error *hpa_replicas_plain(const struct hpa_pass *p, size_t metric,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
struct gs_error *hpa_replicas_utilization(const struct hpa_pass *p, size_t metric,
                                          struct hpa_metric_result *res,
                                          struct hpa_calculation *calc);
struct gs_error *hpa_replicas_value(const struct hpa_pass *p, size_t metric, int64_t usage,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
void hpa_replicas_per_replica(const struct hpa_pass *p, size_t metric, int64_t usage,
                              struct hpa_metric_result *res, struct hpa_calculation *calc);

// --- several metrics ---
// Proposal and the description of the metric that won. False: nothing scales; conditions and
// events are set. ret_name is borrowed from the decision's metric results.
void hpa_explain_kept(struct hpa_pass *p); // what a terse pass left out
bool hpa_compute_metrics(struct hpa_pass *p, int32_t *ret_proposal, const char **ret_name);

// --- history ---
struct hpa_rates { // limits of the moment
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
int32_t hpa_normalize(struct hpa_pass *p, int32_t proposal);
int32_t hpa_normalize_behavior(struct hpa_pass *p, int32_t proposal);

// --- what is told ---
enum hpa_condition_type {
    HPA_ABLE_TO_SCALE,
    HPA_SCALING_ACTIVE,
    HPA_SCALING_LIMITED,
    HPA_SCALED_TO_ZERO
};
// Condition of that type in place, or a further one. status and reason are constants.
void hpa_set_fixed_condition(struct hpa_decision *d, enum hpa_condition_type type,
                             const char *status, const char *reason, const char *message);
void hpa_set_decision_condition(struct hpa_decision *d, enum hpa_condition_type type,
                                const char *status, const char *reason, const char *fmt, ...)
    GS_PRINTF(5, 6);
void hpa_add_event(struct hpa_decision *d, bool warning, const char *reason, const char *message);
// Go's rendering of a LabelSelector pointer: "nil" or "&LabelSelector{…}".
void hpa_format_selector(const json_t *selector, struct gs_buf *out);
// Adds to the one line that says what held the result; parts are separated by "; ".
void hpa_explain(struct hpa_pass *p, const char *fmt, ...) GS_PRINTF(2, 3);
char *hpa_explain_metric(const struct hpa_pass *p, size_t metric,
                         const struct hpa_metric_result *res, const struct hpa_calculation *calc);
