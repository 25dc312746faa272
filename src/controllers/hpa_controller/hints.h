// SPDX-License-Identifier: Apache-2.0
// Hints that a metric has changed: the stream of an adapter that reports changes, and which of them
// can change a decision. An evaluation reads the values itself, in the same way as in each period.
// Without such an adapter there are no hints, and the period remains. Private to the module.
#pragma once

#include "hpa/hpa.h"
#include "kube/client.h"
#include "kube/selector.h"

#include <uv.h>

// --- the stream ---

// Borrowed for the call.
struct hpa_hint {
    const char *ns, *metric;
    bool external;
    bool pods;            // of all pods that `selector` selects, else of one object
    const char *selector; // of objects
    double sum;           // of the values
    int64_t items;        // values
};

struct hpa_hints;

// Opens the stream through the API server, and again with growing pauses when it ends. ns: only its
// metrics; NULL: all.
struct hpa_hints *hpa_hints_new(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                void (*fn)(void *arg, const struct hpa_hint *hint), void *arg);
void hpa_hints_free(struct hpa_hints *h); // accepts NULL

// Reads one line of the stream. False: it reports no change.
bool hpa_hint_read(json_t *event, struct hpa_hint *ret);

// --- what an autoscaler has seen ---

// The metrics of the last evaluation of an autoscaler.
struct hpa_seen;

// selector: of the target's pods, as text.
struct hpa_seen *hpa_seen_new(const struct hpa_spec *spec, const struct hpa_decision *d,
                              const char *selector, double tolerance);
void hpa_seen_free(struct hpa_seen *s); // accepts NULL
// Whether an evaluation with the changed value can decide something else: the value crosses the
// tolerance, or rises above it while there may be more replicas.
bool hpa_seen_matters(const struct hpa_seen *s, const struct hpa_hint *hint);

// --- the queue of inference engines ---

// Autoscalers with a latency target read the samples of inference engines from the engine. The
// adapter follows the queue of their pods after a request for it.
#define HPA_QUEUE_METRIC "gpuscale_inference_waiting"

// Requests the queue of these pods: with the status 200, it is followed from now on. selector NULL:
// returns NULL.
struct kube_request *hpa_queue_follow(struct kube_client *client, const char *ns,
                                      const struct kube_selector *selector, kube_done cb,
                                      void *arg);
// Whether the queue of these pods has grown. *queue: requests at the last hint.
bool hpa_queue_grows(const struct hpa_hint *hint, const struct kube_selector *selector,
                     double *queue);

// --- the number of evaluations ---

// Evaluations by hints that an autoscaler may have in addition to those of its period: a few after
// each change of the replicas, and in the long run one for each period.
struct hpa_hint_budget {
    double tokens;
    int64_t since_ns; // 0: not used yet
};
// False: none is left. now_ns: monotonic.
bool hpa_hint_budget_take(struct hpa_hint_budget *b, int64_t period_ms, int64_t now_ns);
void hpa_hint_budget_fill(struct hpa_hint_budget *b); // the replicas have changed
