// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "codec/json.h"
#include "hpa/controller.h"
#include "hpa/observe.h"
#include "kube/cache.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/selector.h"

#include <uv.h>

// --- evaluation ---
//
// Shared by the files behind hpa_decide(): one pass, its calculators, and what they tell the
// explanation.

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
bool hpa_all_pods_count(const struct hpa_evaluation *p, size_t metric, bool with_requests,
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
void hpa_groups_init(const struct hpa_evaluation *p, size_t metric, struct hpa_groups *ret);
void hpa_groups_finish(struct hpa_groups *g);
void hpa_groups_add(struct hpa_groups *g, const char *pod, int64_t value, int64_t request);
size_t hpa_groups_live(const struct hpa_groups *g);
// Running and Ready, nothing else looked at: the multiplier of plain values.
struct gs_error *hpa_ready_pods(const struct hpa_observation *obs, size_t *ret);

// --- one metric ---
// Errors are worded as kube-controller-manager's replica calculator words them.
struct gs_error *hpa_replicas_plain(const struct hpa_evaluation *p, size_t metric,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
struct gs_error *hpa_replicas_utilization(const struct hpa_evaluation *p, size_t metric,
                                          struct hpa_metric_result *res,
                                          struct hpa_calculation *calc);
struct gs_error *hpa_replicas_value(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                                    struct hpa_metric_result *res, struct hpa_calculation *calc);
void hpa_replicas_per_replica(const struct hpa_evaluation *p, size_t metric, int64_t usage,
                              struct hpa_metric_result *res, struct hpa_calculation *calc);

// --- several metrics ---
// Proposal and the description of the metric that won. False: nothing scales; conditions and
// events are set. ret_name is borrowed from the decision's metric results.
void hpa_explain_kept(struct hpa_evaluation *p); // what a terse pass left out
bool hpa_compute_metrics(struct hpa_evaluation *p, int32_t *ret_proposal, const char **ret_name);

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
int32_t hpa_normalize(struct hpa_evaluation *p, int32_t proposal);
int32_t hpa_normalize_behavior(struct hpa_evaluation *p, int32_t proposal);

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
void hpa_explain(struct hpa_evaluation *p, const char *fmt, ...) GS_PRINTF(2, 3);
char *hpa_explain_metric(const struct hpa_evaluation *p, size_t metric,
                         const struct hpa_metric_result *res, const struct hpa_calculation *calc);

// --- conversion ---
//
// Shared by the conversion files of this room.

// Where hpa objects keep what an older API version has no field for.
#define HPA_ANNOTATION_METRICS         "autoscaling.alpha.kubernetes.io/metrics"
#define HPA_ANNOTATION_CURRENT_METRICS "autoscaling.alpha.kubernetes.io/current-metrics"
#define HPA_ANNOTATION_CONDITIONS      "autoscaling.alpha.kubernetes.io/conditions"
#define HPA_ANNOTATION_BEHAVIOR        "autoscaling.alpha.kubernetes.io/behavior"

// The five metric sources, in the order that validation looks at them.
struct hpa_source {
    const char *type;   // "ContainerResource"
    const char *member; // "containerResource"
};
#define HPA_N_SOURCES 5
extern const struct hpa_source hpa_sources[HPA_N_SOURCES];

// Lists of metric specs and statuses between the v2beta1 form (also used inside the v1 annotations)
// and the v2 form. All return new references.
json_t *hpa_specs_from_beta1(const json_t *metrics);
json_t *hpa_specs_to_beta1(const json_t *metrics);
json_t *hpa_statuses_from_beta1(const json_t *metrics);
json_t *hpa_statuses_to_beta1(const json_t *metrics);

// The behavior annotation: capitalised field names, null for what is not set. NULL: not usable.
json_t *hpa_behavior_from_annotation(const char *text);
char *hpa_behavior_to_annotation(const json_t *behavior); // caller frees

// Quantities given as numbers or in another spelling become canonical strings. `where` names the
// list in errors ("spec.metrics"); part is "target" or "current".
struct gs_error *hpa_canonical_metrics(json_t *metrics, const char *where, const char *part);
struct gs_error *hpa_canonical_behavior(json_t *behavior);

// --- resources of kinds ---
//
// Which resource serves a kind ("Deployment" of "apps/v1" is deployments): the usual ones from a
// table, others by asking the API once. As in Kubernetes the group decides: where the version named
// does not have the kind, another one may. Strings of what was found stay valid as long as the
// object.

struct hpa_resources;
struct hpa_lookup;

struct hpa_resources *hpa_resources_new(struct kube_client *client);
void hpa_resources_free(struct hpa_resources *r); // cancels look-ups

// *ret_known false: hpa_resources_discover() has to ask. Fails on a malformed engine_api_version.
struct gs_error *hpa_resources_get(const struct hpa_resources *r, const char *api_version,
                                   const char *kind, bool *ret_known, struct kube_gvr *ret);
// cb is called later, once: err NULL when hpa_resources_get() knows the kind now (err is owned by
// the callee).
struct hpa_lookup *hpa_resources_discover(struct hpa_resources *r, const char *api_version,
                                          const char *kind,
                                          void (*cb)(void *arg, struct gs_error *err), void *arg);
// It is looked up again when it is asked for next: the API does not have it there any more.
void hpa_resources_forget(struct hpa_resources *r, const char *api_version, const char *kind);
void hpa_lookup_cancel(struct hpa_lookup *l); // NULL is fine

// --- metrics ---
//
// Asks the metrics APIs (custom.metrics.k8s.io, external.metrics.k8s.io, metrics.k8s.io) for all
// the metrics of one HPA at once. A metric that cannot be had carries its error; the others do not
// wait longer for it than its request's time limit.

struct hpa_metrics_source;
struct hpa_fetch;

// refresh_ms: how old the knowledge of the custom API's version may get. release: whose reading of
// the answers is followed, as hpa_config.release.
struct hpa_metrics_source *hpa_metrics_source_new(struct kube_client *client,
                                                  struct hpa_resources *resources,
                                                  int64_t refresh_ms, int release);
void hpa_metrics_source_free(struct hpa_metrics_source *s); // after its fetches

// spec is borrowed until the fetch is freed; selector is that of the target's scale. When
// hpa_fetch_finished() is true on return, cb will not be called; else it is, once, later.
struct hpa_fetch *hpa_fetch_start(struct hpa_metrics_source *s, const struct hpa_spec *spec,
                                  const char *selector, void (*cb)(void *arg), void *arg);
bool hpa_fetch_finished(const struct hpa_fetch *f);
const struct hpa_metric_observation *hpa_fetch_observations(const struct hpa_fetch *f);
void hpa_fetch_free(struct hpa_fetch *f); // cancels what is under way; NULL is fine; also from cb

// --- scale subresource ---
//
// The scale subresource of an HPA's target: found by the target's kind, read, and written with
// retries when somebody else changed it meanwhile.

struct hpa_scale;

// What the callbacks get: err NULL means done (err is owned by the callee).
typedef void (*hpa_scale_done)(void *arg, struct gs_error *err);

// The object of one pass. spec is borrowed.
struct hpa_scale *hpa_scale_new(uv_loop_t *loop, struct kube_client *client,
                                struct hpa_resources *resources, const struct hpa_spec *spec);
void hpa_scale_free(struct hpa_scale *s); // cancels; NULL is fine; also from a callback

// Calls back later. Afterwards the getters tell what was read.
void hpa_scale_read(struct hpa_scale *s, hpa_scale_done cb, void *arg);
int32_t hpa_scale_spec_replicas(const struct hpa_scale *s);
int32_t hpa_scale_status_replicas(const struct hpa_scale *s);
const char *hpa_scale_selector(const struct hpa_scale *s); // "" when there is none
void hpa_scale_write(struct hpa_scale *s, int32_t replicas, hpa_scale_done cb, void *arg);

// --- selectors ---
//
// The pod selectors of all HPAs as last seen in their targets' scales: pods that two of them govern
// are a mistake that must not scale anything.

struct hpa_selectors;

struct hpa_selectors *hpa_selectors_new(void);
void hpa_selectors_free(struct hpa_selectors *s);
// key "ns/name" of the HPA. Fails when the text is not a selector, which then is forgotten.
struct gs_error *hpa_selectors_put(struct hpa_selectors *s, const char *key, const char *text);
void hpa_selectors_remove(struct hpa_selectors *s, const char *key);
// NULL when the key has none. Valid until the next put or remove of the key.
const struct kube_selector *hpa_selectors_get(const struct hpa_selectors *s, const char *key);
// The HPAs of the namespace that select any of the pods which `key` selects, as "[ns/a ns/b]"; NULL
// when it is alone. Caller frees.
char *hpa_selectors_conflict(const struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods);

// --- status ---
//
// What a pass leaves in a HorizontalPodAutoscaler's status.

// The status after the decision (and its scale write, see hpa_decision_written), as autoscaling/v2
// JSON: the old one of spec->object changed. New reference.
json_t *hpa_status_build(const struct hpa_spec *spec, const struct hpa_decision *d);
// Whether writing `fresh` over `old` (NULL: none) would change anything.
bool hpa_status_differs(const json_t *old, const json_t *fresh);

// --- reconciliation ---
//
// One pass over one HPA, from reading the scale to writing the status; asynchronous.

// What passes share. All borrowed.
struct hpa_reconcile_env {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_cache *pods;
    struct kube_recorder *recorder;
    struct hpa_resources *resources;
    struct hpa_metrics_source *metrics;
    struct hpa_selectors *selectors;
    struct hpa_config decide;
    bool shadow; // nothing is written
};

struct hpa_reconcile;

// object is an autoscaling/v2 HPA; history is borrowed. done is called later, once, and may free
// the run; what it gets is borrowed. NULL when the object cannot be used: an event says so.
struct hpa_reconcile *hpa_reconcile_start(
    const struct hpa_reconcile_env *env, json_t *object, struct hpa_history *history,
    void (*done)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d), void *arg);
void hpa_reconcile_free(struct hpa_reconcile *r); // cancels what is under way; NULL is fine

// --- ownership ---
//
// Whose an autoscaler is: two controllers must not scale one object. Who controls one writes its
// status, and the API server keeps who wrote what last (metadata.managedFields).
//
// An object whose status we wrote last is ours. Of others we wait whether somebody writes it: a
// controller does so with a new object in its first pass. One that was written before and rests
// is asked: a message in its status is changed, which its controller puts right in its next pass.
// An object that somebody else writes is left alone, and asked again later.

struct hpa_ownership;

struct hpa_ownership_config {
    const char *manager; // our name in managedFields: the user agent up to its slash
    int64_t wait_ms;     // longer than another controller's period
    int64_t again_ms;    // until one that is another's is asked again
    bool trusted;        // nobody else is there: an object is ours until somebody writes it
    // An object became ours or was lost.
    void (*changed)(void *arg, const char *ns, const char *name);
    void *arg;
};

struct hpa_ownership *hpa_ownership_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct hpa_ownership_config *cfg);
void hpa_ownership_free(struct hpa_ownership *c); // NULL is fine
// To be told of each change of an object. True: it is ours now.
bool hpa_ownership_update(struct hpa_ownership *c, const json_t *hpa);
void hpa_ownership_forget(struct hpa_ownership *c, const json_t *hpa); // deleted, or not wanted

// --- log of decisions ---
//
// What `gpuscale hpa` tells of its decisions: lines on standard output and metrics, both beside
// what the cluster's own controller wants.

struct hpa_decision_log;

struct hpa_decision_log *hpa_decision_log_new(bool json, bool shadow);
void hpa_decision_log_free(struct hpa_decision_log *w);
// The decision; spec->object has the cluster's status. Prints what is new.
void hpa_decision_log_add(struct hpa_decision_log *w, const struct hpa_spec *spec,
                          const struct hpa_decision *d);
void hpa_decision_log_remove(struct hpa_decision_log *w, const char *ns, const char *name);
void hpa_decision_log_metrics(const struct hpa_decision_log *w, struct gs_buf *out);
