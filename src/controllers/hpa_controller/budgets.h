// SPDX-License-Identifier: Apache-2.0
// GPU budgets of the ConfigMap gpuscale-budgets, applied to the decisions of the controller. It
// knows the GPUs of all pods and of all workloads that the controller evaluates. All functions are
// called on the thread of the loop.
#pragma once

#include "base/buf.h"
#include "hpa/hpa.h"
#include "hpa_controller/starts.h"
#include "kube/cache.h"

struct hpa_budgets;
struct hpa_resources;

// Borrowed. All outlive the budgets.
struct hpa_budgets_config {
    uv_loop_t *loop;
    struct kube_client *client;
    struct kube_cache *pods; // of all namespaces
    struct kube_cache *hpas; // of all namespaces
    struct hpa_resources *resources;
    struct hpa_starts *starts;
    const char *ns; // of the ConfigMap
    bool shadow;    // nothing is written, so nothing is limited
    // An autoscaler ("ns/name") must be evaluated soon, because GPUs are free for it or wanted from
    // it.
    void (*wake)(void *arg, const char *key);
    void (*ready)(void *arg); // hpa_budgets_ready() has become true
    // Whether this controller evaluates the autoscaler. Others are limited by their maxReplicas.
    bool (*is_own)(void *arg, const char *key);
    // The HTTP API of an engine or a Prometheus, as in struct hpa_controller_config; NULL: none.
    struct http_client *(*engine)(void *arg, const char **ret_why);
    void *engine_arg;
    int64_t period_ms; // between visits of the others
    void *arg;
};

struct hpa_budgets *hpa_budgets_new(const struct hpa_budgets_config *cfg);
void hpa_budgets_start(struct hpa_budgets *b);
void hpa_budgets_free(struct hpa_budgets *b); // NULL is fine
// Whether the ConfigMap was read, or cannot be read: it is denied, or fails for a minute. Before,
// nothing may grow.
bool hpa_budgets_ready(const struct hpa_budgets *b);

// Gives the autoscalers of other controllers the maxReplicas back that they had, and then calls
// done, once. Decisions of this controller stay limited.
void hpa_budgets_release(struct hpa_budgets *b, void (*done)(void *arg), void *arg);

// Lowers the decision if a budget needs it. The caller writes the result next. obs has the scale.
void hpa_budgets_decide(struct hpa_budgets *b, const struct hpa_spec *spec,
                        const struct hpa_observation *obs, struct hpa_decision *d);
// The result of the last decision for the autoscaler was written.
void hpa_budgets_written(struct hpa_budgets *b, const struct hpa_decision *d, const char *key);
// The autoscaler or its target does not exist any more. Its pods count as pods without an
// autoscaler.
void hpa_budgets_forget(struct hpa_budgets *b, const char *key);

// {"mode": "enforce" or "dryRun", "applied", "replicas", "text", "budgets": [budget_result_json(),
// …]}, or {"error"}; new reference. NULL: no budget has the workload. "enforcedBy": another process
// does, and this one does not apply them.
json_t *hpa_budgets_json(const struct hpa_budgets *b, const char *key, int64_t now_ms);
// The budgets and the members as metrics.
void hpa_budgets_write_metrics(const struct hpa_budgets *b, struct gs_buf *out);
