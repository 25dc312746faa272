// SPDX-License-Identifier: Apache-2.0
// Routes, CORS, lifecycle.
#include "engine/api/api_private.h"

#include "base/clock.h"

enum { DEFAULT_QUERIES = 20 }; // the value of Prometheus
// Time of queries and of remote writes in one iteration of the loop (base/turn.h).
#define QUERIES_TURNS     4
#define WRITES_TURNS      1
#define MAX_WRITES        4 // in progress
#define DEFAULT_MAX_REPLY ((size_t)128 * 1024 * 1024)
enum { GET = 1, POST = 2, PUT = 4, GET_POST = GET | POST, POST_PUT = POST | PUT };

static void lifecycle_reload(struct engine_api_request *r);
static void lifecycle_quit(struct engine_api_request *r);
static void handle_healthy(struct engine_api_request *r);
static void handle_ready(struct engine_api_request *r);
static void handle_problems(struct engine_api_request *r);

struct route {
    const char *path; // '*' matches one path segment
    unsigned methods;
    void (*handle)(struct engine_api_request *r);
    bool queued; // for requests that can take long
    bool write;  // has its own queue
};

static const struct route routes[] = {
    {"/api/v1/query", GET_POST, engine_api_query, true},
    {"/api/v1/query_range", GET_POST, engine_api_query_range, true},
    {"/api/v1/query_exemplars", GET_POST, engine_api_query_exemplars, true},
    {"/api/v1/format_query", GET_POST, engine_api_format_query},
    {"/api/v1/parse_query", GET_POST, engine_api_parse_query},
    {"/api/v1/series", GET_POST, engine_api_series, true},
    {"/api/v1/labels", GET_POST, engine_api_labels, true},
    {"/api/v1/label/*/values", GET, engine_api_label_values, true},
    {"/api/v1/scrape_pools", GET, engine_api_scrape_pools},
    {"/api/v1/scrape_pools/config", GET, engine_api_scrape_pool_config},
    {"/api/v1/targets", GET, engine_api_targets, true},
    {"/api/v1/targets/relabel_steps", GET, engine_api_relabel_steps},
    {"/api/v1/targets/metadata", GET, engine_api_targets_metadata, true},
    {"/api/v1/metadata", GET, engine_api_metadata, true},
    {"/api/v1/rules", GET, engine_api_rules, true},
    {"/api/v1/alerts", GET, engine_api_alerts, true},
    {"/api/v1/alertmanagers", GET, engine_api_alertmanagers},
    {"/api/v1/status/config", GET, engine_api_status_config},
    {"/api/v1/status/flags", GET, engine_api_status_flags},
    {"/api/v1/status/buildinfo", GET, engine_api_status_buildinfo},
    {"/api/v1/status/runtimeinfo", GET, engine_api_status_runtimeinfo},
    {"/api/v1/status/tsdb", GET, engine_api_status_tsdb, true},
    {"/api/v1/status/walreplay", GET, engine_api_status_walreplay},
    {"/api/v1/status/tsdb/blocks", GET, engine_api_status_blocks},
    {"/api/v1/status/self_metrics", GET, engine_api_self_metrics},
    {"/api/v1/notifications", GET, engine_api_notifications},
    {"/api/v1/notifications/live", GET, engine_api_notifications_live},
    {"/api/v1/search/metric_names", GET_POST, engine_api_search},
    {"/api/v1/search/label_names", GET_POST, engine_api_search},
    {"/api/v1/search/label_values", GET_POST, engine_api_search},
    {"/api/v1/admin/tsdb/delete_series", POST_PUT, engine_api_admin},
    {"/api/v1/admin/tsdb/clean_tombstones", POST_PUT, engine_api_admin},
    {"/api/v1/admin/tsdb/snapshot", POST_PUT, engine_api_admin},
    {"/api/v1/read", POST, engine_api_remote_read, true},
    {"/federate", GET, engine_api_federate, true},
    {"/metrics", GET, engine_api_own_metrics},
    {"/version", GET, engine_api_version},
    {"/-/healthy", GET, handle_healthy},
    {"/-/ready", GET, handle_ready},
    {"/-/reload", POST_PUT, lifecycle_reload},
    {"/-/quit", POST_PUT, lifecycle_quit},
    {"/api/v1/features", GET, engine_api_features},
    {"/api/v1/openapi.yaml", GET, engine_api_openapi},
    {"/api/v1/gpuscale/report", GET, engine_api_report, true},
    {"/api/v1/gpuscale/problems", GET, handle_problems},
    {"/api/v1/write", POST, engine_api_write, .write = true},
    {"/api/v1/otlp/v1/metrics", POST, engine_api_otlp, .write = true},
};

enum { NO_ROUTE = GS_ARRAY_LEN(routes) }; // the number for requests without a route
_Static_assert((int)NO_ROUTE < (int)ENGINE_API_N_ROUTES_MAX, "counters for each route");

const char *engine_api_route_path(size_t i)
{
    return i < NO_ROUTE ? routes[i].path : i == NO_ROUTE ? "/*" : NULL;
}

static unsigned method_bit(const char *method)
{
    return gs_streq(method, "GET")    ? GET
           : gs_streq(method, "POST") ? POST
           : gs_streq(method, "PUT")  ? PUT
                                      : 0;
}

bool engine_api_route_takes(size_t i, const char *method)
{
    return i < NO_ROUTE && routes[i].methods & method_bit(method);
}

// --- matching ---

static bool path_matches(const char *pattern, struct gs_slice path)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return gs_slice_eq_str(path, pattern);
    size_t head = (size_t)(star - pattern), tail = strlen(star + 1);
    return path.len > head + tail && memcmp(path.data, pattern, head) == 0 &&
           gs_slice_ends(path, star + 1) && !memchr(path.data + head, '/', path.len - head - tail);
}

static size_t find_route(struct gs_slice path)
{
    size_t i = 0;
    while (i < NO_ROUTE && !path_matches(routes[i].path, path))
        i++;
    return i;
}

// The path without the route prefix. An empty slice if the path does not begin with the prefix.
static struct gs_slice cut_prefix(const struct engine_api *a, const char *path)
{
    struct gs_slice s = gs_slice_of(path);
    const char *prefix = a->cfg.route_prefix;
    size_t n = prefix ? strlen(prefix) : 0;
    while (n && prefix[n - 1] == '/')
        n--;
    if (n == 0)
        return s;
    if (s.len < n || memcmp(s.data, prefix, n) != 0 || (s.len > n && s.data[n] != '/'))
        return (struct gs_slice){0};
    return s.len == n ? GS_SLICE("/") : gs_slice_make(s.data + n, s.len - n);
}

// --- CORS, as Prometheus sends it ---

static void add_cors(const struct engine_api *a, struct http_exchange *x)
{
    const char *origin = http_header(x, "Origin");
    http_add_header(x, "Vary", "Origin");
    if (!origin || !*origin)
        return;
    http_add_header(x, "Access-Control-Allow-Headers",
                    "Accept, Authorization, Content-Type, Origin");
    http_add_header(x, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    http_add_header(x, "Access-Control-Expose-Headers", "Date");
    if (!a->cors)
        http_add_header(x, "Access-Control-Allow-Origin", "*");
    else if (tsdb_regex_matches(a->cors, gs_slice_of(origin)))
        http_add_header(x, "Access-Control-Allow-Origin", origin);
}

// --- requests ---

static void dispatch_request(struct engine_api_request *r, struct http_exchange *x)
{
    const char *method = http_method(x);
    bool is_api = gs_slice_starts(r->path, "/api/v1/");
    if (is_api)
        add_cors(r->api, x);
    if (is_api && gs_streq(method, "OPTIONS")) {
        engine_api_reply_body(r, 204, NULL, GS_SLICE(""));
        return;
    }
    if (r->route == NO_ROUTE) {
        engine_api_reply_text(r, 404, "404 page not found\n");
        return;
    }
    if (!engine_api_route_takes(r->route, method)) {
        bool lifecycle = gs_slice_starts(r->path, "/-/") && routes[r->route].methods == POST_PUT;
        http_add_header(x, "Allow",
                        lifecycle                          ? "POST, PUT"
                        : routes[r->route].methods == POST ? "OPTIONS, POST"
                        : routes[r->route].methods & POST  ? "GET, OPTIONS, POST"
                                                           : "GET, OPTIONS");
        engine_api_reply_text(
            r, 405, lifecycle ? "Only POST or PUT requests allowed" : "Method Not Allowed\n");
        return;
    }
    if (routes[r->route].write) {
        engine_api_queue_write(r);
        return;
    }
    struct gs_error *err = http_read_form(x);
    if (err) {
        engine_api_fail(r, ENGINE_API_BAD_DATA, "error parsing form values: %s",
                        gs_error_message(err));
        gs_error_free(err);
        return;
    }
    if (routes[r->route].queued)
        engine_api_queue_run(r->api->queue, r);
    else
        engine_api_run(r);
}

void engine_api_run(struct engine_api_request *r)
{
    routes[r->route].handle(r);
    engine_api_drop_body(r); // of a client that has disconnected
}

static void redirect_to_prefix(const struct engine_api *a, struct http_exchange *x)
{
    const char *prefix = a->cfg.route_prefix;
    GS_AUTO_FREE char *to = gs_format("%s%s", prefix, gs_ends(prefix, "/") ? "" : "/");
    http_add_header(x, "Location", to);
    http_reply_text(x, 302, "%s\n", to);
}

static uint64_t newest_ms(void *arg)
{
    const struct engine_api *a = arg;
    return (uint64_t)tsdb_newest_ms(a->cfg.db);
}

void engine_api_handle(void *arg, struct http_exchange *x)
{
    struct engine_api *a = arg;
    struct engine_api_request r = {
        .api = a, .x = x, .now_ms = gs_unix_ms(), .begun_ns = gs_mono_ns()};
    r.path = cut_prefix(a, http_path(x));
    if (!r.path.data && gs_streq(http_path(x), "/")) { // as in Prometheus
        redirect_to_prefix(a, x);
        return;
    }
    if (r.path.data && web_handle(a->web, x, r.path))
        return;
    if (r.path.data && a->cfg.extension && a->cfg.extension(a->cfg.extension_arg, x, r.path))
        return;
    r.route = r.path.data ? find_route(r.path) : NO_ROUTE;
    dispatch_request(&r, x);
}

// --- lifecycle ---

static void handle_healthy(struct engine_api_request *r)
{
    engine_api_reply_text(r, 200, "gpuscale engine is Healthy.\n");
}

// An engine alone finds none; gpuscale up serves this path itself.
static void handle_problems(struct engine_api_request *r)
{
    engine_api_reply_json(r, json_array());
}

static void handle_ready(struct engine_api_request *r)
{
    if (!r->api->stopping) {
        engine_api_reply_text(r, 200, "gpuscale engine is Ready.\n");
        return;
    }
    http_add_header(r->x, "X-Prometheus-Stopping", "true");
    engine_api_reply_text(r, 503, "Service Unavailable");
}

static bool lifecycle_on(struct engine_api_request *r)
{
    if (!r->api->cfg.lifecycle)
        engine_api_reply_text(r, 403, "Lifecycle API is not enabled.");
    return r->api->cfg.lifecycle;
}

static void lifecycle_reload(struct engine_api_request *r)
{
    if (!lifecycle_on(r))
        return;
    struct gs_error *err = r->api->cfg.reload ? r->api->cfg.reload(r->api->cfg.arg) : NULL;
    if (err)
        engine_api_reply_text(r, 500, "failed to reload config: %s\n", gs_error_message(err));
    else
        engine_api_reply_body(r, 200, "text/plain; charset=utf-8", GS_SLICE(""));
    gs_error_free(err);
}

static void lifecycle_quit(struct engine_api_request *r)
{
    if (!lifecycle_on(r))
        return;
    engine_api_reply_text(r, 200, "Requesting termination... Goodbye!");
    if (r->api->cfg.quit)
        r->api->cfg.quit(r->api->cfg.arg);
}

// --- life ---

static void refuse_query(struct engine_api_request *r, enum engine_api_error type, const char *why)
{
    engine_api_fail(r, type, "%s", why);
}

struct gs_error *engine_api_new(const struct engine_api_config *cfg, struct engine_api **ret)
{
    struct tsdb_regex *cors = NULL;
    if (cfg->cors_origin && !gs_streq(cfg->cors_origin, ".*")) {
        struct gs_error *err = tsdb_regex_new(gs_slice_of(cfg->cors_origin), &cors);
        if (err)
            return gs_error_wrap(err, "web.cors.origin");
    }
    struct engine_api *a = gs_alloc(sizeof(*a));
    a->cfg = *cfg;
    a->cors = cors;
    a->cfg.max_reply = cfg->max_reply ? cfg->max_reply : DEFAULT_MAX_REPLY;
    const struct engine_api_queue_options queries = {
        cfg->max_queries ? cfg->max_queries : DEFAULT_QUERIES, QUERIES_TURNS, refuse_query};
    const struct engine_api_queue_options writes = {MAX_WRITES, WRITES_TURNS,
                                                    engine_api_refuse_write};
    a->queue = engine_api_queue_new(cfg->loop, &queries);
    promql_engine_set_pause(cfg->promql, engine_api_queue_pause, a->queue);
    if (cfg->write_messages) {
        a->receiver =
            remote_receiver_new(cfg->db, cfg->write_messages, cfg->retention_ms, cfg->lookback_ms);
        a->writes = engine_api_queue_new(cfg->loop, &writes);
    }
    a->web = web_new(&(struct web_options){.loop = cfg->loop, .version = newest_ms, .arg = a});
    a->started_ms = gs_unix_ms();
    *ret = a;
    return NULL;
}

void engine_api_free(struct engine_api *a)
{
    if (!a)
        return;
    web_free(a->web);
    engine_api_queue_free(a->queue);
    engine_api_queue_free(a->writes);
    remote_receiver_free(a->receiver);
    promql_engine_set_pause(a->cfg.promql, NULL, NULL);
    if (a->cors)
        tsdb_regex_free(a->cors);
    http_bytes_unref(a->spare);
    free(a);
}

void engine_api_set_config(struct engine_api *a, const struct engine_config *cfg)
{
    a->config = cfg;
    if (a->receiver)
        remote_receiver_set_otlp(a->receiver, &cfg->otlp);
}

void engine_api_set_reload(struct engine_api *a, bool ok, int64_t now_ms)
{
    a->reload_ok = ok;
    if (ok)
        a->reload_ms = now_ms;
}

void engine_api_set_stopping(struct engine_api *a)
{
    a->stopping = true;
}
