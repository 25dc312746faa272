// SPDX-License-Identifier: Apache-2.0
// Whether the pods of a target were used within a time: requests of their inference engines and of
// activators, and processes on their GPUs, in one query of an engine or a Prometheus.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "net/http/client.h"

#include <stdbool.h>
#include <stdint.h>

enum { HPA_ZERO_MAX_PODS = 64, HPA_ZERO_MAX_SERVICES = 8 };

struct hpa_zero_query {
    const char *ns;
    const char *const *pods; // names; at most HPA_ZERO_MAX_PODS
    size_t n_pods;
    const char *const *services; // that the metrics of the autoscaler name; at most 8
    size_t n_services;
    int64_t after_ms; // the time
};

// The PromQL query.
void hpa_zero_expression(const struct hpa_zero_query *q, struct gs_buf *out);
// Reads its response. Returns why the pods were used, or why that is unknown (*ret_held true), or
// for how long they were not. The caller frees it.
char *hpa_zero_verdict(const struct hpa_zero_query *q, const json_t *response, bool *ret_held);

struct hpa_zero_fetch;

// cb is called once, later, at the latest after five seconds. The query is copied.
struct hpa_zero_fetch *hpa_zero_fetch_start(struct http_client *engine,
                                            const struct hpa_zero_query *q, void (*cb)(void *arg),
                                            void *arg);
bool hpa_zero_fetch_finished(const struct hpa_zero_fetch *f);
// After cb; valid as long as the fetch.
const char *hpa_zero_fetch_text(const struct hpa_zero_fetch *f, bool *ret_held);
void hpa_zero_fetch_free(struct hpa_zero_fetch *f); // cancels; NULL is fine; also from cb
