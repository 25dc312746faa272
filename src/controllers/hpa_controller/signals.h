// SPDX-License-Identifier: Apache-2.0
// The newest samples of the pods of a service, for the decision of a latency target: one query of
// the HTTP API of an engine or a Prometheus. All functions are called on the thread of the loop.
#pragma once

#include "base/arena.h"
#include "net/http/client.h"
#include "slo/slo.h"

struct hpa_signals_query {
    const struct slo_policy *policy;
    const char *ns;
    const char *const *pods; // names
    size_t n_pods;
    int64_t interval_ms; // of the scrapes, as read last; 0: unknown
};

struct hpa_signal {
    const char *name, *pod, *le, *role; // labels; NULL: absent
    double value;
    int64_t t_ms; // Unix time of the sample
};
struct hpa_signals {
    struct hpa_signal *items;
    size_t n, cap;
    int64_t interval_ms;   // between two samples, the longest of the series; 0: unknown
    char *error;           // NULL: they were read
    struct gs_arena arena; // of the texts
};

// Reads a response. False: it is not one of Prometheus with a matrix, or over a limit. all: zeroed.
bool hpa_signals_read(struct gs_slice body, struct hpa_signals *all);
void hpa_signals_finish(struct hpa_signals *all);

struct hpa_signals_fetch;

// cb is called once, later. Fails at the latest after five seconds. The query is not kept.
struct hpa_signals_fetch *hpa_signals_start(struct http_client *engine,
                                            const struct hpa_signals_query *q,
                                            void (*cb)(void *arg), void *arg);
bool hpa_signals_finished(const struct hpa_signals_fetch *f);
const struct hpa_signals *hpa_signals_of(const struct hpa_signals_fetch *f); // after cb
void hpa_signals_free(struct hpa_signals_fetch *f); // cancels; NULL is fine; also from cb
