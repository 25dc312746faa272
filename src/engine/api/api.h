// SPDX-License-Identifier: Apache-2.0
// Prometheus' HTTP API of an engine: https://prometheus.io/docs/prometheus/latest/querying/api/,
// /federate, /metrics, /-/…. Queries run on the thread of the loop, in time slices; see queue.c.
#pragma once

#include "engine/config/config.h"
#include "engine/rules/rules.h"
#include "engine/scrape/scrape.h"
#include "ledger/ledger.h"
#include "net/http/routes.h"
#include "promql/promql.h"

#include <uv.h>

struct engine_api;

// The parts that the API uses. They are borrowed and must outlive the API.
struct engine_api_config {
    uv_loop_t *loop;
    struct tsdb *db;
    struct promql_engine *promql;
    struct scrape_manager *scrapes; // NULL: no targets
    struct rules_manager *rules;    // NULL: no rules
    const char *storage_path;       // for runtimeinfo; NULL: memory only
    int64_t retention_ms, lookback_ms, timeout_ms;
    size_t max_queries;              // concurrent queries; 0: 20
    size_t max_reply;                // bytes of a response before compression; 0: 128 MiB
    const char *external_url;        // NULL: none
    const char *route_prefix;        // "/prometheus"; NULL or "/": none
    const char *cors_origin;         // regular expression; NULL: ".*"
    bool lifecycle;                  // /-/reload and /-/quit
    bool dcgm_aliases;               // match[] also selects the other names of GPU metrics
    unsigned write_messages;         // that /api/v1/write and the OTLP endpoint accept
                                     // (remote/receiver.h); 0: they are disabled
    const struct http_header *flags; // for status/flags, ends with NULL; NULL: none
    struct gs_error *(*reload)(void *arg);
    void (*quit)(void *arg);                              // called after the response is queued
    void (*write_metrics)(void *arg, struct gs_buf *out); // appends to /metrics; NULL: nothing
    // Reports on the ledger, for /api/v1/gpuscale/report; NULL: there is no ledger. Calls pause
    // regularly, which lets others use the engine; if it returns false, the report ends.
    struct gs_error *(*report)(void *arg, const struct ledger_report_options *o,
                               bool (*pause)(void *arg), void *pause_arg, json_t **ret);
    json_t *(*inference)(void *arg); // for /api/v1/gpuscale/inference; NULL: there are no engines
    void *arg;
    const struct http_routes *extension; // further paths, without the route prefix; NULL: none
};

// GS_EINVAL: cors_origin is not a valid regular expression.
struct gs_error *engine_api_new(const struct engine_api_config *cfg, struct engine_api **ret);
// Stop the servers and local queries that use it first.
void engine_api_free(struct engine_api *a);
void engine_api_handle(void *a, struct http_exchange *x); // an http_handler
// Set the loaded configuration (borrowed until the next call) and the result of the last reload.
void engine_api_set_config(struct engine_api *a, const struct engine_config *cfg);
void engine_api_set_reload(struct engine_api *a, bool ok, int64_t now_ms);
void engine_api_set_stopping(struct engine_api *a); // /-/ready answers 503

// --- queries of this process: the API's results without HTTP and JSON ---

// result is set for a query, refs for a list of series.
struct engine_api_local_result {
    const struct tsdb *db;
    const struct promql_result *result;
    const struct tsdb_refs *refs;
};
// Called once, possibly before the query function returns, on the stack of the query. Copy what you
// need and call no function of the engine. t is borrowed; it is NULL with an error, which the
// callee owns. GS_EINVAL: the query is wrong. GS_ETIMEOUT: timeout. Other codes: the evaluation
// failed.
typedef void (*engine_api_local_fn)(void *arg, const struct engine_api_local_result *t,
                                    struct gs_error *err);

// Local queries share the queue and limits of the HTTP API. NULL: fn was already called.
struct engine_api_local_query;
struct engine_api_local_query *engine_api_local_instant(struct engine_api *a, const char *query,
                                                        int64_t t_ms, int64_t timeout_ms,
                                                        engine_api_local_fn fn, void *arg);
struct engine_api_local_query *engine_api_local_series(struct engine_api *a, const char *selector,
                                                       int64_t start_ms, engine_api_local_fn fn,
                                                       void *arg);
void engine_api_local_query_cancel(struct engine_api_local_query *ask); // fn is not called any more
