// SPDX-License-Identifier: Apache-2.0
// The explanation of an autoscaler over HTTP, for the web interface, and the decision with other
// settings:
//   GET /api/v1/gpuscale/explain?namespace=NS&name=NAME[&target=V|&target.METRIC=V][&min=N][&max=N]
//       [&tolerance=V]
// The answer has the form of Prometheus' API. Its data are hpa_explanation_json() with "text", the
// output of `gpuscale explain hpa`. docs/autoscaler.md describes it. Nothing is written.
//
// A caller cannot slow the loop down: requests for the same object within a second share one
// inspection, at most 8 objects are inspected at a time, at most 32 requests wait, and decisions
// take at most a fifth of the time of the loop. Further requests are answered with 429.
//
// All functions are called on the thread of the loop.
#pragma once

#include "hpa_controller/controller.h"
#include "net/http/http.h"

#define HPA_EXPLAIN_PATH "/api/v1/gpuscale/explain"

struct hpa_explain_api;

// client: NULL: there is no cluster, and requests are answered with 404. controller: in this
// process, for its history. NULL: the history is requested from the cluster. Borrowed.
struct hpa_explain_api *hpa_explain_api_new(uv_loop_t *loop, struct kube_client *client,
                                            const struct hpa_controller *controller,
                                            const struct hpa_config *cfg);
// Stop the servers that use it first. Accepts NULL.
void hpa_explain_api_free(struct hpa_explain_api *api);
// Answers the exchange, now or later.
void hpa_explain_api_handle(struct hpa_explain_api *api, struct http_exchange *x);
