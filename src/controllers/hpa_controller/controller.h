// SPDX-License-Identifier: Apache-2.0
// The controller around hpa_decide(): watches HPAs and pods, reads scales and metrics APIs, writes
// scales, status and events. Works on any Kubernetes API through kube_client.
#pragma once

#include "hpa/hpa.h"
#include "kube/cache.h"
#include "net/http/server.h"

struct hpa_controller;

// Annotations of an object: how often it is evaluated, from 1 s to 1 h, instead of the sync period.
// As the field of KEP-6003 ("5"), or as a duration ("5s").
#define HPA_SYNC_SECONDS_ANNOTATION "gpuscale.dev/syncPeriodSeconds"
#define HPA_SYNC_PERIOD_ANNOTATION  "gpuscale.dev/sync-period"
// *ret_ms is unchanged without them. GS_EINVAL: they are wrong, and without effect.
struct gs_error *hpa_sync_period(const json_t *object, int64_t *ret_ms);

// GS_EINVAL: the name of an annotation is misspelled.
struct gs_error *hpa_check_annotations(const json_t *object);
// GS_EINVAL: the annotation of the priority is wrong, and without effect.
struct gs_error *hpa_check_priority(const json_t *object);

struct hpa_controller_config {
    int64_t sync_period_ms; // 15000
    struct hpa_config decide;
    // Shadow mode: decides, but writes no scale, status or event.
    bool shadow;
    // Whether to evaluate an object; called for each change of it. NULL: all objects.
    bool (*wanted)(void *arg, const json_t *hpa);
    void (*on_deleted)(void *arg, const json_t *hpa); // deleted; may be NULL
    void *arg;
    const char *ns; // only its objects are read; NULL: all namespaces
    // The HTTP API of an engine or a Prometheus, for latency targets (slo/slo.h). Called in each
    // evaluation of one. Both results are borrowed until the next call. NULL: there is no engine,
    // for the reason in *ret_why.
    struct http_client *(*engine)(void *arg, const char **ret_why);
    void *engine_arg;
    // Of the ConfigMap with GPU budgets. NULL: there are none. They need all namespaces.
    const char *budgets_ns;
};

// Called after each sync of an HPA. The arguments are borrowed.
typedef void (*hpa_observer)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d);

struct hpa_controller *hpa_controller_new(uv_loop_t *loop, struct kube_client *client,
                                          struct kube_cache *pods,
                                          const struct hpa_controller_config *cfg);
void hpa_controller_set_observer(struct hpa_controller *c, hpa_observer fn, void *arg);
// What the controller of another process has learned (a document of hpa_controller_learned()),
// before hpa_controller_start(). GS_EINVAL: it is no such document.
struct gs_error *hpa_controller_restore(struct hpa_controller *c, const json_t *document);
json_t *hpa_controller_learned(const struct hpa_controller *c); // new reference
void hpa_controller_start(struct hpa_controller *c);
// Calls wanted() for the object again, because its result may have changed.
void hpa_controller_requeue(struct hpa_controller *c, const char *ns, const char *name);
// Gives autoscalers of other controllers the maxReplicas back that GPU budgets have lowered, and
// calls done, once.
void hpa_controller_release(struct hpa_controller *c, void (*done)(void *arg), void *arg);
void hpa_controller_free(struct hpa_controller *c);
// The history of an HPA as hpa_history_json() formats it; new reference. NULL: the controller does
// not evaluate such an HPA.
// With "slo", the last decision of its latency target, "budget", what GPU budgets allow, and
// "zero", what is known of zero replicas, if it has them.
json_t *hpa_controller_history(const struct hpa_controller *c, const char *ns, const char *name);
// The decisions of latency targets as metrics.
void hpa_controller_write_metrics(const struct hpa_controller *c, struct gs_buf *out);

// --- history over HTTP ---

// The history of one autoscaler, for a client that explains a decision:
//   GET /apis/hpa.gpuscale.dev/v1/namespaces/NS/histories/NAME
#define HPA_HISTORY_GROUP "hpa.gpuscale.dev"

char *hpa_history_path(const char *ns, const char *name); // the caller frees it
// The APIGroup; new reference.
json_t *hpa_history_group(const void *controller, const char *group);
void hpa_history_handle(void *controller, struct http_exchange *x);
