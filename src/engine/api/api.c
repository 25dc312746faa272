// SPDX-License-Identifier: Apache-2.0
// Requests: CORS, dispatch by the table of routes, lifecycle.
#include "engine/api/api_private.h"

#include "base/clock.h"

enum { DEFAULT_QUERIES = 20 }; // the value of Prometheus
// Time of queries and of remote writes in one iteration of the loop (base/turn.h).
#define QUERIES_TURNS     4
#define WRITES_TURNS      1
#define MAX_WRITES        4 // in progress
#define DEFAULT_MAX_REPLY ((size_t)128 * 1024 * 1024)
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
    const struct engine_api_route *route = &engine_api_routes[r->route];
    if (gs_streq(method, "OPTIONS") && (is_api || engine_api_route_takes(r->route, method))) {
        engine_api_reply_body(r, 204, NULL, GS_SLICE(""));
        return;
    }
    if (!route->http.path) {
        engine_api_reply_text(r, 404, "404 page not found\n");
        return;
    }
    if (!engine_api_route_takes(r->route, method)) {
        bool lifecycle = route->http.methods == (HTTP_POST | HTTP_PUT);
        http_route_add_allow(&route->http, x);
        engine_api_reply_text(
            r, 405, lifecycle ? "Only POST or PUT requests allowed" : "Method Not Allowed\n");
        return;
    }
    if (route->write) {
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
    if (route->queued)
        engine_api_queue_run(r->api->queue, r);
    else
        engine_api_run(r);
}

void engine_api_run(struct engine_api_request *r)
{
    engine_api_routes[r->route].handle(r);
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
    if (r.path.data && http_routes_try(a->cfg.extension, x, r.path))
        return;
    r.route = engine_api_find_route(r.path);
    if (!engine_api_routes[r.route].http.path && web_handle_unknown(x, r.path))
        return;
    dispatch_request(&r, x);
}

// --- lifecycle ---

void engine_api_healthy(struct engine_api_request *r)
{
    engine_api_reply_text(r, 200, "gpuscale engine is Healthy.\n");
}

// An engine alone knows of none; gpuscale up answers this path itself.
void engine_api_problems(struct engine_api_request *r)
{
    engine_api_reply_json(r, json_array());
}

// The same: an engine reads no ConfigMaps for its pages.
void engine_api_dashboards(struct engine_api_request *r)
{
    engine_api_reply_json(r,
                          json_pack("{s:[], s:i, s:b}", "dashboards", "omitted", 0, "stored", 0));
}

void engine_api_ready(struct engine_api_request *r)
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

void engine_api_lifecycle_reload(struct engine_api_request *r)
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

void engine_api_lifecycle_quit(struct engine_api_request *r)
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
