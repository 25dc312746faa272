// SPDX-License-Identifier: Apache-2.0
// What an autoscaler with other settings would have done on recorded history. The same simulated
// cluster runs twice, with the present and with the other settings, so that the difference is that
// of the settings. docs/replay.md describes the model and its assumptions.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "hpa/whatif.h"
#include "net/http/http.h"

#include <uv.h>

// --- the calculation ---

struct replay_history;

// Whether it is a setting of the latency target, which only recorded history has: "slo",
// "slo.ttft". The others are those of hpa_setting_exists().
bool replay_history_has_setting(const char *name);

// question: {namespace, name, spec (autoscaling/v2), settings {NAME: "VALUE"}, metrics [[[seconds,
// "value"], …], …] in the order of the spec, replicas [[seconds, "count"], …], gpusPerReplica,
// startupSeconds, slo (the annotation gpuscale.dev/slo), inference}. inference: {model, gpu,
// requests, promptTokens, generationTokens (of all pods, per second), running, itl (mean, s)}, the
// last two optional; simulated engines then serve the load, and metrics that they have may be null.
// At most 10^8 generated tokens. Values of metrics are those of the autoscaler's status: averages
// for average values and utilization. Limits: 11000 samples of a series, 31 days, 20000000
// evaluations times replicas. GS_EINVAL: it is wrong, or contains too few samples. GS_ELIMIT: over
// a limit.
struct gs_error *replay_history_new(const json_t *question, const struct hpa_config *cfg,
                                    int64_t sync_ms, struct replay_history **ret);
void replay_history_run(struct replay_history *h); // any thread
// After the run: {from, to, coverage, model, assumptions, recorded, present, changed, settings,
// summary}; new reference.
json_t *replay_history_answer(const struct replay_history *h);
void replay_history_text(const json_t *answer, struct gs_buf *out);
void replay_history_free(struct replay_history *h); // accepts NULL

// --- over HTTP, for the web interface ---
//
// POST /api/v1/gpuscale/replay with a question as JSON. It is calculated in a thread of libuv's
// pool, one at a time; at most 8 wait, and further ones are answered with 429.

#define REPLAY_HISTORY_PATH "/api/v1/gpuscale/replay"

struct replay_history_api;
struct replay_history_api *replay_history_api_new(uv_loop_t *loop, const struct hpa_config *cfg,
                                                  int64_t sync_ms);
// Stop the servers that use it first, and run the loop afterwards. Accepts NULL.
void replay_history_api_free(struct replay_history_api *api);
void replay_history_api_handle(struct replay_history_api *api, struct http_exchange *x);

// --- from a Prometheus ---

struct endpoint_settings;
// Strings are borrowed.
struct replay_history_source {
    const char *url, *http_config_file;              // http_config_file NULL: none
    const struct endpoint_settings *settings_of_url; // as of struct query_peer; NULL: none
    int64_t range_ms, sync_ms;
    const struct hpa_setting *settings;
    size_t n_settings;
};
// Reads the series kube_horizontalpodautoscaler_status_target_metric and the replicas of the
// autoscaler of an explanation (hpa_explanation_json), and calculates. *ret: the answer; new
// reference. Blocks. GS_ENOTFOUND: the series do not exist.
struct gs_error *replay_history_fetch(const struct replay_history_source *source,
                                      const json_t *explanation, const struct hpa_config *cfg,
                                      json_t **ret);
