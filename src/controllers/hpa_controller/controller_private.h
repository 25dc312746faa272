// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the module: the parts of one sync, and whose object it is.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "codec/json.h"
#include "hpa/observe.h"
#include "hpa/release.h"
#include "hpa/status.h"
#include "hpa_controller/budgets.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/latency.h"
#include "hpa_controller/starts.h"
#include "hpa_controller/zero.h"
#include "kube/cache.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/selector.h"

#include <uv.h>

// --- the wall clock ---

struct hpa_clock {
    int64_t unix_ms, mono_ms; // at the last call; 0: none yet
};
// By how much the wall clock was set since the last call; 0: it was not. unix_ms: now.
int64_t hpa_clock_step(struct hpa_clock *c, int64_t unix_ms);

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

// Also of the loads of the spec, after its metrics. spec is borrowed until the fetch is freed;
// selector: of the target's scale. without_desired: the metrics of hpa_is_desired_metric() are not
// requested and have no observation. If hpa_fetch_finished() is true on return, cb is not called;
// otherwise it is called once, later.
struct hpa_fetch *hpa_fetch_start(struct hpa_metrics_source *s, const struct hpa_spec *spec,
                                  const char *selector, bool without_desired, void (*cb)(void *arg),
                                  void *arg);
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
char *hpa_selectors_conflict(struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods);

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
    struct hpa_starts *starts;
    struct hpa_budgets *budgets; // NULL: none are read
    // As in struct hpa_controller_config.
    struct http_client *(*engine)(void *arg, const char **ret_why);
    void *engine_arg;
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

// object: an autoscaling/v2 HPA. history, target, latency and zero are borrowed. done is called
// once, later, and may free the reconciliation; its arguments are borrowed. NULL: the object is
// invalid, and an event says so.
struct hpa_reconcile *hpa_reconcile_start(
    const struct hpa_reconcile_env *env, json_t *object, struct hpa_history *history,
    struct hpa_target_status *target, struct hpa_latency *latency, struct hpa_zero *zero,
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
