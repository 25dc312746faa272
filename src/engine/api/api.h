// SPDX-License-Identifier: Apache-2.0
// Prometheus' HTTP API over the parts of an engine:
// https://prometheus.io/docs/prometheus/latest/querying/api/, /federate, /metrics, /-/….
// Queries run on the loop's thread, in turns; see queue.c.
#pragma once

#include "engine/config/config.h"
#include "engine/rules/rules.h"
#include "engine/scrape/scrape.h"
#include "net/http/http.h"
#include "promql/promql.h"

#include <uv.h>

struct engine_api;

// What the API stands on; borrowed, alive longer than the API.
struct engine_api_config {
    uv_loop_t *loop;
    struct tsdb *db;
    struct promql_engine *promql;
    struct scrape_manager *scrapes; // NULL: no targets
    struct rules_manager *rules;    // NULL: no rules
    const char *storage_path;       // as told by runtimeinfo; NULL: memory only
    int64_t retention_ms, lookback_ms, timeout_ms;
    size_t max_queries;              // at a time; 0: 20
    const char *external_url;        // NULL: none
    const char *route_prefix;        // "/prometheus"; NULL or "/": none
    const char *cors_origin;         // regular expression; NULL: ".*"
    bool lifecycle;                  // /-/reload and /-/quit
    const struct http_header *flags; // for status/flags, ends with NULL; NULL: none
    struct gs_error *(*reload)(void *arg);
    void (*quit)(void *arg);                              // after the reply is on its way
    void (*write_metrics)(void *arg, struct gs_buf *out); // more of /metrics; NULL: none
    void *arg;
};

// GS_EINVAL when cors_origin is no regular expression.
struct gs_error *engine_api_new(const struct engine_api_config *cfg, struct engine_api **ret);
// Servers and loopback clients that it handles are stopped before.
void engine_api_free(struct engine_api *a);
void engine_api_handle(void *a, struct http_exchange *x); // an http_handler
// What is loaded now (alive until the next call), and how the last attempt went.
void engine_api_set_config(struct engine_api *a, const struct engine_config *cfg);
void engine_api_set_reload(struct engine_api *a, bool ok, int64_t now_ms);
void engine_api_set_stopping(struct engine_api *a); // /-/ready answers 503

// --- questions from this process: the API's answers without HTTP and JSON ---

// Of a query the result, of a list of series their references.
struct engine_api_local_result {
    const struct tsdb *db;
    const struct promql_result *result;
    const struct tsdb_refs *refs;
};
// Once, maybe from inside the asking, on a stack of the query's own: it takes what it needs and
// calls nothing of the engine. t is borrowed, NULL with an error (owned by the callee): GS_EINVAL
// the query is wrong, GS_ETIMEOUT, else its evaluation failed.
typedef void (*engine_api_local_fn)(void *arg, const struct engine_api_local_result *t,
                                    struct gs_error *err);

// They run in turns with the requests of the HTTP API, within the same limits. NULL: told already.
struct engine_api_local_query;
struct engine_api_local_query *engine_api_local_instant(struct engine_api *a, const char *query,
                                                        int64_t t_ms, int64_t timeout_ms,
                                                        engine_api_local_fn fn, void *arg);
struct engine_api_local_query *engine_api_local_series(struct engine_api *a, const char *selector,
                                                       int64_t start_ms, engine_api_local_fn fn,
                                                       void *arg);
void engine_api_local_query_cancel(struct engine_api_local_query *ask); // it is not told any more
