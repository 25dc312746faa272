// SPDX-License-Identifier: Apache-2.0
// A request on its way through the API. Private to the folder.
#pragma once

#include "engine/api/api.h"
#include "engine/api/json_write.h"

#include "base/mem.h"
#include "codec/json.h"

// The Prometheus whose API this is.
#define API_PROMETHEUS_VERSION "3.5.0"

enum api_error {
    API_BAD_DATA,
    API_EXECUTION,
    API_TIMEOUT,
    API_CANCELED,
    API_INTERNAL,
    API_NOT_FOUND,
    API_UNAVAILABLE,
};

enum { API_N_ROUTES_MAX = 64, API_N_CODES = 10 };

struct api_queue;

struct engine_api {
    struct engine_api_config cfg;
    const struct engine_config *config; // NULL: none loaded yet
    struct tsdb_regex *cors;            // NULL: every origin
    struct api_queue *queue;
    struct gs_buf out; // the reply's body; its memory is used again
    bool reload_ok, stopping;
    int64_t started_ms, reload_ms; // reload_ms: of the last good one
    uint64_t n_queries;
    double query_seconds;
    struct {
        uint64_t codes[API_N_CODES];
        double seconds;
        uint64_t bytes;
    } counts[API_N_ROUTES_MAX];
};

struct api_request {
    struct engine_api *api;
    struct http_exchange *x; // NULL: the peer has left
    struct gs_slice path;    // without the route prefix
    size_t route;
    int64_t now_ms;
    int64_t begun_ns;
    bool truncated; // results truncated due to limit
    // Warnings and infos of the query behind the reply; borrowed until it is sent.
    const char *const *warnings, *const *infos;
    size_t n_warnings, n_infos;
};

// --- request.c: parameters. On a wrong one the error reply is sent and false returned. ---

const char *api_param(const struct api_request *r, const char *name); // "" when absent
bool api_int(struct api_request *r, const char *name, const char *error, int64_t fallback,
             int64_t *ret);
bool api_limit(struct api_request *r, size_t *ret); // 0: none
bool api_required_time(struct api_request *r, const char *name, int64_t *ret_ms);
bool api_time(struct api_request *r, const char *name, int64_t fallback, int64_t *ret_ms);
// Optional start and end. Absent: everything.
bool api_range(struct api_request *r, int64_t *ret_start, int64_t *ret_end);
// *ret_ns stays as it is when the parameter is absent.
bool api_duration(struct api_request *r, const char *name, int64_t *ret_ns);
struct gs_error *api_parse_duration(const char *text, int64_t *ret_ns);

// The match[] parameters, parsed.
struct api_matches {
    struct promql_expr **items;
    size_t len, cap;
};
void api_matches_finish(struct api_matches *m);
struct gs_error *api_parse_matches(const struct api_request *r, struct api_matches *ret);
// As series, labels and values want them: each with a matcher that does not match "".
struct gs_error *api_parse_strict_matches(const struct api_request *r, struct api_matches *ret);
struct gs_error *api_parse_strict(const char *text, struct promql_expr **ret); // of one
const struct tsdb_matcher *api_matchers(const struct promql_expr *e, size_t *ret_n);

// --- reply.c ---

// Starts {"status":"success","data": in the API's buffer; the caller writes the data there.
struct gs_buf *api_begin(struct api_request *r);
void api_end(struct api_request *r);                      // adds warnings and sends
void api_reply_json(struct api_request *r, json_t *data); // takes data
void api_make_utf8(struct gs_buf *text);                  // bytes that are none become U+FFFD
void api_fail(struct api_request *r, enum api_error type, const char *fmt, ...) GS_PRINTF(3, 4);
// invalid parameter "NAME": …, 400. Takes err.
void api_fail_param(struct api_request *r, const char *name, struct gs_error *err);
// By the error's code: execution, timeout, … . Takes err.
void api_fail_query(struct api_request *r, struct gs_error *err);
void api_reply_text(struct api_request *r, int status, const char *fmt, ...) GS_PRINTF(3, 4);
void api_reply_body(struct api_request *r, int status, const char *type, struct gs_slice body);

// --- result.c ---

void api_write_result(struct gs_buf *out, const struct promql_result *res, size_t limit,
                      bool *ret_truncated);

// --- the endpoints ---

void api_query(struct api_request *r);
void api_query_range(struct api_request *r);
void api_query_exemplars(struct api_request *r);
void api_format_query(struct api_request *r);
void api_parse_query(struct api_request *r);
void api_series(struct api_request *r);
void api_labels(struct api_request *r);
void api_label_values(struct api_request *r);
void api_federate(struct api_request *r);
void api_targets(struct api_request *r);
void api_targets_metadata(struct api_request *r);
void api_metadata(struct api_request *r);
void api_scrape_pools(struct api_request *r);
void api_rules(struct api_request *r);
void api_alerts(struct api_request *r);
void api_alertmanagers(struct api_request *r);
void api_status_config(struct api_request *r);
void api_status_flags(struct api_request *r);
void api_status_buildinfo(struct api_request *r);
void api_status_runtimeinfo(struct api_request *r);
void api_status_tsdb(struct api_request *r);
void api_status_walreplay(struct api_request *r);
void api_notifications(struct api_request *r);
void api_own_metrics(struct api_request *r);
void api_home(struct api_request *r);
void api_version(struct api_request *r);

// --- queue.c ---

// max_begun: requests that have begun and not ended, at a time.
struct api_queue *api_queue_new(uv_loop_t *loop, struct promql_engine *promql, size_t max_begun);
void api_queue_free(struct api_queue *q); // ends those that have begun, forgets those that wait
// Runs the request now, or when its turn comes. It is copied.
void api_queue_run(struct api_queue *q, struct api_request *r);
size_t api_queue_len(const struct api_queue *q);
// A question of this process; it is taken.
void api_queue_ask(struct api_queue *q, struct engine_api *api, struct api_ask *ask);
void api_queue_cancel(struct api_queue *q, struct api_ask *ask);
void api_run(struct api_request *r); // calls the route's handler

// --- ask.c ---

void api_ask_run(struct api_ask *ask);                          // tells and frees it
void api_ask_refuse(struct api_ask *ask, struct gs_error *err); // tells and frees it
void api_ask_free(struct api_ask *ask);                         // tells nobody
int64_t api_ask_begun_ns(const struct api_ask *ask);

// Names of routes and codes, for /metrics; NULL behind the last.
const char *api_route_path(size_t i);
const char *api_code_text(size_t i);
