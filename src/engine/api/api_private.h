// SPDX-License-Identifier: Apache-2.0
// Internals of this module.
#pragma once

#include "base/buf.h"
#include "base/mem.h"
#include "codec/json.h"
#include "engine/api/api.h"
#include "engine/remote/receiver.h"
#include "net/http/routes.h"
#include "web/web.h"

#include <stdint.h>

// --- JSON writers ---
// Write JSON directly into a buffer, for responses with many series. codec/json.h has the strings.

// Unix milliseconds as seconds, with three decimals unless it is a whole second. Returns the end;
// no NUL is appended.
char *engine_api_json_put_time(char *at, int64_t ms);
char *engine_api_json_put_value(char *at, double v); // unquoted
// A sample value, quoted and in Prometheus' format ("0.00001", "1e-07", "+Inf").
void engine_api_json_add_value(struct gs_buf *out, double v);
// [time,"value"]
void engine_api_json_add_point(struct gs_buf *out, int64_t t_ms, double v);
// Seconds as a number.
void engine_api_json_add_seconds(struct gs_buf *out, double seconds);

enum { ENGINE_API_JSON_VALUE_SIZE = 40 }; // holds the longest text of a value or time

// --- requests and responses ---
// A request to the API.

// The version of Prometheus whose API is implemented.
#define ENGINE_API_PROMETHEUS_VERSION "3.16.0"

enum engine_api_error {
    ENGINE_API_BAD_DATA,
    ENGINE_API_EXECUTION,
    ENGINE_API_TIMEOUT,
    ENGINE_API_CANCELED,
    ENGINE_API_INTERNAL,
    ENGINE_API_NOT_FOUND,
    ENGINE_API_UNAVAILABLE,
    ENGINE_API_BUSY,
};

enum { ENGINE_API_N_ROUTES_MAX = 64, ENGINE_API_N_CODES = 12 };

struct engine_api_queue;

struct engine_api {
    struct engine_api_config cfg;
    const struct engine_config *config; // NULL: none loaded yet
    struct tsdb_regex *cors;            // NULL: every origin
    struct engine_api_queue *queue;
    struct engine_api_queue *writes;  // of remote writes
    struct remote_receiver *receiver; // NULL: disabled
    struct web *web;
    struct http_bytes *spare; // the last body; its memory is reused once it is sent
    size_t n_body_bytes;      // of the bodies that are being written
    bool reload_ok, stopping;
    int64_t started_ms, reload_ms; // reload_ms: of the last successful reload
    uint64_t n_queries;
    double query_seconds;
    struct {
        uint64_t codes[ENGINE_API_N_CODES];
        double seconds;
        uint64_t bytes;
    } counts[ENGINE_API_N_ROUTES_MAX];
};

struct engine_api_request {
    struct engine_api *api;
    struct http_exchange *x; // NULL: the client has disconnected
    struct gs_slice path;    // without the route prefix
    size_t route;
    int64_t now_ms;
    int64_t begun_ns;
    bool truncated;          // results truncated due to limit
    bool encoded;            // the body has a Content-Encoding
    struct http_bytes *body; // that is being written; NULL: none
    size_t n_body_bytes;     // of it, as counted in the API
    int64_t turn_ns;         // begin of the time slice in which it is written
    // Warnings and infos of the query; borrowed until the response is sent.
    const char *const *warnings, *const *infos;
    size_t n_warnings, n_infos;
};

// --- request.c: parameters. On a wrong one the error reply is sent and false returned. ---

const char *engine_api_param(const struct engine_api_request *r,
                             const char *name); // "" when absent
bool engine_api_int(struct engine_api_request *r, const char *name, const char *error,
                    int64_t fallback, int64_t *ret);
bool engine_api_limit(struct engine_api_request *r, size_t *ret); // 0: none
bool engine_api_required_time(struct engine_api_request *r, const char *name, int64_t *ret_ms);
bool engine_api_time(struct engine_api_request *r, const char *name, int64_t fallback,
                     int64_t *ret_ms);
// Optional start and end. Absent: everything.
bool engine_api_range(struct engine_api_request *r, int64_t *ret_start, int64_t *ret_end);
// *ret_ns stays as it is when the parameter is absent.
bool engine_api_duration(struct engine_api_request *r, const char *name, int64_t *ret_ns);
struct gs_error *engine_api_parse_duration(const char *text, int64_t *ret_ns);

// The parsed match[] parameters.
struct engine_api_matches {
    struct promql_expr **items;
    size_t len, cap;
};
void engine_api_matches_finish(struct engine_api_matches *m);
struct gs_error *engine_api_parse_matches(const struct engine_api_request *r,
                                          struct engine_api_matches *ret);
// For series, labels and values: each selector needs a matcher that does not match "".
struct gs_error *engine_api_parse_strict_matches(const struct engine_api_request *r,
                                                 struct engine_api_matches *ret);
struct gs_error *engine_api_parse_strict(const char *text, struct promql_expr **ret); // of one
const struct tsdb_matcher *engine_api_matchers(const struct promql_expr *e, size_t *ret_n);
// Prepares the search for the series of a match[], with pauses. Callers with several of them
// isolate their reads, so that the series that they have found stay.
struct gs_error *engine_api_prepare_search(const struct engine_api *api,
                                           const struct promql_expr *e, struct tsdb_answers *ret);

// --- alias_matches.c: GPU metrics that match[] selects under their other name ---

struct engine_api_alias {
    struct promql_expr *selector;
    const char *shown; // the name that the series have in the response; constant or of the match[]
};
struct engine_api_aliases {
    struct engine_api_alias *items;
    size_t len, cap;
};
void engine_api_aliases_finish(struct engine_api_aliases *a);
// Nothing if the aliases are disabled. m must outlive the result.
void engine_api_find_aliases(const struct engine_api *api, const struct engine_api_matches *m,
                             struct engine_api_aliases *ret);
// Finds the series of one of them.
struct gs_error *engine_api_find_aliased(struct engine_api_request *r,
                                         const struct engine_api_alias *a, int64_t start,
                                         int64_t end, struct tsdb_refs *ret);

// --- body.c: a body that is written in turns, with limits ---

// The empty buffer of the next response, which engine_api_reply_buffer() sends.
struct gs_buf *engine_api_buffer(struct engine_api_request *r);
// For calls between the parts of a body: lets others run when the time slice is over. False: the
// client has disconnected, or a limit is exceeded. Further parts are useless then, and
// engine_api_reply_buffer() replies with the error. request: a struct engine_api_request.
bool engine_api_go_on(void *request);
// Ends the body. NULL: there is no client, or the reply was an error. Otherwise the caller owns the
// body, whose memory is used again when it is the only owner.
struct http_bytes *engine_api_take_body(struct engine_api_request *r);
void engine_api_drop_body(struct engine_api_request *r); // if there is one
// qsort_r() that calls go_on (may be NULL) regularly, which may pause the fiber.
void engine_api_sort(void *items, size_t n, size_t size,
                     int (*compare)(const void *a, const void *b, void *arg), void *arg,
                     bool (*go_on)(void *arg), void *go_on_arg);

// --- reply.c ---

void engine_api_reply_buffer(struct engine_api_request *r, const char *type);
// Writes {"status":"success","data": to that buffer. The caller appends the data.
struct gs_buf *engine_api_begin(struct engine_api_request *r);
void engine_api_end(struct engine_api_request *r);                      // adds warnings and sends
void engine_api_reply_json(struct engine_api_request *r, json_t *data); // takes data
void engine_api_make_utf8(struct gs_buf *text); // invalid bytes become U+FFFD
void engine_api_fail(struct engine_api_request *r, enum engine_api_error type, const char *fmt, ...)
    GS_PRINTF(3, 4);
// Responds with 400, invalid parameter "NAME": …. Takes err.
void engine_api_fail_param(struct engine_api_request *r, const char *name, struct gs_error *err);
// Responds by the code of the error: execution, timeout … Takes err.
void engine_api_fail_query(struct engine_api_request *r, struct gs_error *err);
void engine_api_reply_text(struct engine_api_request *r, int status, const char *fmt, ...)
    GS_PRINTF(3, 4);
void engine_api_reply_body(struct engine_api_request *r, int status, const char *type,
                           struct gs_slice body);

// --- result.c ---

// go_on (may be NULL) is called between series and may pause the fiber; after false, the rest is
// left out. limit: of the series; 0: none. *ret_truncated is set if there are more.
void engine_api_write_result(struct gs_buf *out, const struct promql_result *res, size_t limit,
                             bool (*go_on)(void *arg), void *arg, bool *ret_truncated);

// --- the endpoints ---

void engine_api_query(struct engine_api_request *r);
void engine_api_query_range(struct engine_api_request *r);
void engine_api_query_exemplars(struct engine_api_request *r);
void engine_api_format_query(struct engine_api_request *r);
void engine_api_parse_query(struct engine_api_request *r);
void engine_api_series(struct engine_api_request *r);
void engine_api_labels(struct engine_api_request *r);
void engine_api_label_values(struct engine_api_request *r);
void engine_api_federate(struct engine_api_request *r);
void engine_api_targets(struct engine_api_request *r);
void engine_api_targets_metadata(struct engine_api_request *r);
void engine_api_metadata(struct engine_api_request *r);
void engine_api_scrape_pools(struct engine_api_request *r);
void engine_api_scrape_pool_config(struct engine_api_request *r);
void engine_api_relabel_steps(struct engine_api_request *r);
void engine_api_self_metrics(struct engine_api_request *r);
void engine_api_notifications_live(struct engine_api_request *r);
void engine_api_search(struct engine_api_request *r);
void engine_api_admin(struct engine_api_request *r);
void engine_api_remote_read(struct engine_api_request *r);
void engine_api_rules(struct engine_api_request *r);
void engine_api_alerts(struct engine_api_request *r);
void engine_api_alertmanagers(struct engine_api_request *r);
void engine_api_status_config(struct engine_api_request *r);
void engine_api_status_flags(struct engine_api_request *r);
void engine_api_status_buildinfo(struct engine_api_request *r);
void engine_api_status_runtimeinfo(struct engine_api_request *r);
void engine_api_status_tsdb(struct engine_api_request *r);
void engine_api_status_walreplay(struct engine_api_request *r);
void engine_api_status_blocks(struct engine_api_request *r);
void engine_api_notifications(struct engine_api_request *r);
void engine_api_own_metrics(struct engine_api_request *r);
void engine_api_features(struct engine_api_request *r);
void engine_api_openapi(struct engine_api_request *r);
void engine_api_version(struct engine_api_request *r);
void engine_api_report(struct engine_api_request *r);
void engine_api_inference(struct engine_api_request *r);
void engine_api_healthy(struct engine_api_request *r);
void engine_api_ready(struct engine_api_request *r);
void engine_api_problems(struct engine_api_request *r);
void engine_api_dashboards(struct engine_api_request *r);
void engine_api_lifecycle_reload(struct engine_api_request *r);
void engine_api_lifecycle_quit(struct engine_api_request *r);
void engine_api_write(struct engine_api_request *r);
void engine_api_otlp(struct engine_api_request *r);

// --- queue.c ---

struct engine_api_queue_options {
    size_t max_begun; // maximum number of requests in progress
    int turns;        // time of requests in one iteration of the loop, base/turn.h
    // Replies to a request that cannot begin.
    void (*refuse)(struct engine_api_request *r, enum engine_api_error type, const char *why);
};
struct engine_api_queue *engine_api_queue_new(uv_loop_t *loop,
                                              const struct engine_api_queue_options *o);
void engine_api_queue_free(
    struct engine_api_queue *q); // ends requests in progress, drops queued ones
// Runs the request now or queues it. The request is copied.
void engine_api_queue_run(struct engine_api_queue *q, struct engine_api_request *r);
size_t engine_api_queue_len(const struct engine_api_queue *q);
size_t engine_api_queue_bytes(const struct engine_api_queue *q); // of the bodies
// Queues a query of this process. Takes ownership of query.
void engine_api_queue_run_local(struct engine_api_queue *q, struct engine_api *api,
                                struct engine_api_local_query *query);
void engine_api_queue_cancel(struct engine_api_queue *q, struct engine_api_local_query *query);
// Lets others run. Only within a request of the queue. false: its client has disconnected. queue: a
// struct engine_api_queue.
bool engine_api_queue_pause(void *queue);
// The same for frequent calls: pauses when the time slice of the request is over.
struct engine_api_slice {
    struct engine_api_queue *queue;
    int64_t begun_ns;
};
struct engine_api_slice engine_api_slice_begin(const struct engine_api *api);
bool engine_api_slice_go_on(void *slice);          // a struct engine_api_slice
void engine_api_run(struct engine_api_request *r); // calls the route's handler

// --- local_query.c ---

// calls its callback and frees it
void engine_api_local_query_run(struct engine_api_local_query *query);
void engine_api_local_query_refuse(struct engine_api_local_query *query,
                                   // calls its callback and frees it
                                   struct gs_error *err);
// without calling its callback
void engine_api_local_query_free(struct engine_api_local_query *query);
int64_t engine_api_local_query_begun_ns(const struct engine_api_local_query *query);

// --- write.c ---

// Runs the handler of a pushed request in the queue of remote writes, or refuses it.
void engine_api_queue_write(struct engine_api_request *r);
void engine_api_refuse_write(struct engine_api_request *r, enum engine_api_error type,
                             const char *why);

// Appends the text of /metrics.
void engine_api_write_own_metrics(const struct engine_api *a, struct gs_buf *out);

// --- routes.c ---

// The body of a response, in the OpenAPI document.
enum engine_api_body {
    ENGINE_API_OBJECT, // the member data of a response
    ENGINE_API_LIST,
    ENGINE_API_STRING,
    ENGINE_API_JSON, // without data
    ENGINE_API_TEXT,
    ENGINE_API_YAML,
    ENGINE_API_PROTOBUF,
    ENGINE_API_EMPTY, // status 204
};

struct engine_api_route {
    struct http_route http; // path and methods
    void (*handle)(struct engine_api_request *r);
    const char *summary; // NULL: the document does not have the path
    enum engine_api_body body;
    const char *parameters; // with blanks; "!" is before those that are required
    const char *pushed[2];  // types of the body of a POST that is not a form
    bool queued;            // for requests that can take long
    bool write;             // has its own queue
};
extern const struct engine_api_route engine_api_routes[]; // the last has no path

size_t engine_api_find_route(struct gs_slice path); // the index of the last: none
// Names of routes and codes, for /metrics; NULL after the last.
const char *engine_api_route_path(size_t i);
bool engine_api_route_takes(size_t i, const char *method);
const char *engine_api_code_text(size_t i);
