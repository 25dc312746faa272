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

// --- several metrics ---
// The highest proposal and the description of its metric. False: no scaling; conditions and events
// are set. ret_name is borrowed from the decision's metric results.
void hpa_explain_kept(struct hpa_evaluation *p); // the explanations that a terse evaluation omitted
bool hpa_compute_metrics(struct hpa_evaluation *p, int32_t *ret_proposal, const char **ret_name);

// --- history ---
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
    HPA_SCALED_TO_ZERO
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

// --- resources of kinds ---
//
// Maps a kind to its resource ("Deployment" of "apps/v1" to deployments). Common kinds are in a
// table; others are discovered with one request. As in Kubernetes, the group decides: if the given
// version lacks the kind, another version of the group may have it. Returned strings stay valid as
// long as the object.

struct hpa_resources;
struct hpa_lookup;

struct hpa_resources *hpa_resources_new(struct kube_client *client);
void hpa_resources_free(struct hpa_resources *r); // cancels lookups

// *ret_known false: hpa_resources_discover() is needed. Fails on a malformed api_version.
struct gs_error *hpa_resources_get(const struct hpa_resources *r, const char *api_version,
                                   const char *kind, bool *ret_known, struct kube_gvr *ret);
// cb is called once, later. err NULL: hpa_resources_get() now finds the kind. The callee owns err.
struct hpa_lookup *hpa_resources_discover(struct hpa_resources *r, const char *api_version,
                                          const char *kind,
                                          void (*cb)(void *arg, struct gs_error *err), void *arg);
// Drops a cached kind that the API no longer serves there; the next use discovers it again.
void hpa_resources_forget(struct hpa_resources *r, const char *api_version, const char *kind);
void hpa_lookup_cancel(struct hpa_lookup *l); // NULL is fine

// --- metrics ---
//
// Requests all metrics of one HPA from custom.metrics.k8s.io, external.metrics.k8s.io and
// metrics.k8s.io in parallel. A metric that fails has its error; the fetch ends at the latest with
// the time limit of a request.

struct hpa_metrics_source;
struct hpa_fetch;

// refresh_ms: maximum age of the discovered version of the custom metrics API. release: as
// hpa_config.release; decides how responses are interpreted.
struct hpa_metrics_source *hpa_metrics_source_new(struct kube_client *client,
                                                  struct hpa_resources *resources,
                                                  int64_t refresh_ms, int release);
void hpa_metrics_source_free(struct hpa_metrics_source *s); // after its fetches

// spec is borrowed until the fetch is freed; selector: of the target's scale. If
// hpa_fetch_finished() is true on return, cb is not called; otherwise it is called once, later.
struct hpa_fetch *hpa_fetch_start(struct hpa_metrics_source *s, const struct hpa_spec *spec,
                                  const char *selector, void (*cb)(void *arg), void *arg);
bool hpa_fetch_finished(const struct hpa_fetch *f);
const struct hpa_metric_observation *hpa_fetch_observations(const struct hpa_fetch *f);
void hpa_fetch_free(struct hpa_fetch *f); // cancels requests; NULL is fine; also from cb

// --- scale subresource ---
//
// The scale subresource of an HPA's target: found by the target's kind, read, and written with
// retries after conflicts.

struct hpa_scale;

// err NULL: success. The callee owns err.
typedef void (*hpa_scale_done)(void *arg, struct gs_error *err);

// For one reconciliation. spec is borrowed.
struct hpa_scale *hpa_scale_new(uv_loop_t *loop, struct kube_client *client,
                                struct hpa_resources *resources, const struct hpa_spec *spec);
void hpa_scale_free(struct hpa_scale *s); // cancels; NULL is fine; also from a callback

// Calls back later. After that, the getters return what was read.
void hpa_scale_read(struct hpa_scale *s, hpa_scale_done cb, void *arg);
int32_t hpa_scale_spec_replicas(const struct hpa_scale *s);
int32_t hpa_scale_status_replicas(const struct hpa_scale *s);
const char *hpa_scale_selector(const struct hpa_scale *s); // "": no selector
void hpa_scale_write(struct hpa_scale *s, int32_t replicas, hpa_scale_done cb, void *arg);

// --- selectors ---
//
// The pod selectors of all HPAs, from the last read of their targets' scales. An HPA whose pods
// another HPA also selects must not scale.

struct hpa_selectors;

struct hpa_selectors *hpa_selectors_new(void);
void hpa_selectors_free(struct hpa_selectors *s);
// key: "ns/name" of the HPA. Fails if the text is not a selector; the key then has none.
struct gs_error *hpa_selectors_put(struct hpa_selectors *s, const char *key, const char *text);
void hpa_selectors_remove(struct hpa_selectors *s, const char *key);
// NULL: the key has none. Valid until the next put or remove of the key.
const struct kube_selector *hpa_selectors_get(const struct hpa_selectors *s, const char *key);
// The HPAs of the namespace that select any pod of `key`, as "[ns/a ns/b]"; NULL: only `key` does.
// The caller frees it.
char *hpa_selectors_conflict(const struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods);

// --- status ---
//
// The status of a HorizontalPodAutoscaler.

// The status after the decision (and its scale write, see hpa_decision_written), as autoscaling/v2
// JSON, based on the status of spec->object. New reference.
json_t *hpa_status_build(const struct hpa_spec *spec, const struct hpa_decision *d);
// Whether `fresh` differs from `old` (NULL: none).
bool hpa_status_differs(const json_t *old, const json_t *fresh);

// --- reconciliation ---
//
// One sync of one HPA: reads the scale and the metrics, decides, writes the scale and the status.
// Asynchronous.

// Shared by all reconciliations. All borrowed.
struct hpa_reconcile_env {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_cache *pods;
    struct kube_recorder *recorder;
    struct hpa_resources *resources;
    struct hpa_metrics_source *metrics;
    struct hpa_selectors *selectors;
    struct hpa_config decide;
    bool shadow;            // nothing is written
    int64_t status_wait_ms; // how long an evaluation waits for the first status of a new target
};

// Whether the target of an autoscaler has a status yet. A workload that was just created has 0
// replicas in its status, although nothing has counted them: an average over them would be wrong.
// kube-controller-manager evaluates a new autoscaler after one sync period, which hides this.
struct hpa_target_status {
    bool seen;
    int64_t since_ns; // when its scale was read first; 0: not yet
};

struct hpa_reconcile;

// object: an autoscaling/v2 HPA. history and target are borrowed. done is called once, later, and
// may free the reconciliation; its arguments are borrowed. NULL: the object is invalid, and an
// event says so.
struct hpa_reconcile *hpa_reconcile_start(
    const struct hpa_reconcile_env *env, json_t *object, struct hpa_history *history,
    struct hpa_target_status *target,
    void (*done)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d), void *arg);
// After done: it decided nothing, because the target has no status yet.
bool hpa_reconcile_waits(const struct hpa_reconcile *r);
void hpa_reconcile_free(struct hpa_reconcile *r); // cancels what is under way; NULL is fine

// --- ownership ---
//
// Which controller scales an object: only one may. The controller that scales an object writes its
// status, and the API server records the last writer (metadata.managedFields).
//
// An object whose status we wrote last is ours. A new object is ours if nobody writes its status
// within wait_ms. If another controller wrote the status before, we change a message in it: an
// active controller corrects that in its next sync, and then the object is theirs. Otherwise it
// becomes ours. Objects of others are probed again after again_ms.

struct hpa_ownership;

struct hpa_ownership_config {
    const char *manager; // our name in managedFields: the user agent up to its slash
    int64_t wait_ms;     // longer than the sync period of another controller
    int64_t again_ms;    // until an object of another controller is probed again
    bool trusted; // no other controller is expected: objects are ours until another one writes them
    // An object became ours.
    void (*changed)(void *arg, const char *ns, const char *name);
    void *arg;
};

struct hpa_ownership *hpa_ownership_new(uv_loop_t *loop, struct kube_client *client,
                                        const struct hpa_ownership_config *cfg);
void hpa_ownership_free(struct hpa_ownership *c); // NULL is fine
// Call it for each change of an object. True: it is ours.
bool hpa_ownership_update(struct hpa_ownership *c, const json_t *hpa);
void hpa_ownership_forget(struct hpa_ownership *c, const json_t *hpa); // deleted, or not wanted

// --- log of decisions ---
//
// The decisions of `gpuscale hpa` as lines on standard output and as metrics, with those of the
// cluster's own controller.

struct hpa_decision_log;

struct hpa_decision_log *hpa_decision_log_new(bool json, bool shadow);
void hpa_decision_log_free(struct hpa_decision_log *w);
// spec->object has the cluster's status. Prints a line if it differs from the last one.
void hpa_decision_log_add(struct hpa_decision_log *w, const struct hpa_spec *spec,
                          const struct hpa_decision *d);
void hpa_decision_log_remove(struct hpa_decision_log *w, const char *ns, const char *name);
void hpa_decision_log_metrics(const struct hpa_decision_log *w, struct gs_buf *out);
