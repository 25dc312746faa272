// SPDX-License-Identifier: Apache-2.0
// Watches: a stream of changes of one resource, filtered, from a resourceVersion on. What the
// selector no longer matches is DELETED for the watcher, what it newly matches is ADDED.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "kube/object.h"
#include "local/api/api_private.h"

#include <inttypes.h>
#include <sys/random.h>

#define MAX_WATCHES         1024
#define BOOKMARK_EVERY_MS   60000
#define DEFAULT_TIMEOUT_MIN 30 // to twice as much, so that watchers do not come back all at once

struct local_api_watch {
    struct local_api_watch *prev, *next;
    struct local_api *api; // NULL when it has gone before the stream
    // A request without an exchange, for rendering after the handler has returned.
    struct local_api_request request;
    struct local_api_filter filter;
    char *ns, *name, *include_object;
    struct http_stream *stream; // NULL once closed
    struct gs_timer *timer;
    unsigned refs;                    // one for the stream until it is closed, one for the timer
    int64_t end_ms, next_bookmark_ms; // on the loop's clock; bookmark 0: not wanted
    uint64_t rv;                      // of the last change looked at
    bool header_sent, retired;
};

// --- writing ---

static void write_event(struct local_api_watch *w, const char *type, struct gs_slice object)
{
    GS_AUTO_BUF struct gs_buf line = {0};

    if (!w->stream)
        return;
    gs_buf_addf(&line, "{\"type\":\"%s\",\"object\":", type);
    gs_buf_add_slice(&line, object);
    gs_buf_add_str(&line, "}\n");
    http_stream_write(w->stream, gs_buf_slice(&line));
}

static void write_json(struct local_api_watch *w, const char *type, const json_t *object)
{
    GS_AUTO_BUF struct gs_buf text = {0};

    codec_json_dump(object, &text);
    write_event(w, type, gs_buf_slice(&text));
}

static void write_object(struct local_api_watch *w, const char *type,
                         const struct local_api_store_version *v, const json_t *tree)
{
    const struct local_api_request *r = &w->request;

    if (r->form == LOCAL_API_FORM_OBJECT && !r->res->from_stored) {
        write_event(w, type, gs_slice_make(v->text, v->text_len));
        return;
    }
    CODEC_AUTO_JSON json_t *shown = local_api_render(r, tree, !w->header_sent);
    w->header_sent = true;
    write_json(w, type, shown);
}

static void send_bookmark(struct local_api_watch *w)
{
    const struct local_api_resource *res = w->request.res;
    GS_AUTO_BUF struct gs_buf version = {0};
    CODEC_AUTO_JSON json_t *object = json_object();

    local_api_version(res->group, w->request.version, &version);
    codec_json_set_str(object, "kind", res->kind);
    codec_json_set_str(object, "apiVersion", version.data);
    codec_json_set(object, codec_json_strf("%" PRIu64, w->rv), "metadata", "resourceVersion", NULL);
    codec_json_set(object, json_null(), "metadata", "creationTimestamp", NULL);
    write_json(w, "BOOKMARK", object);
}

static void send_change(void *arg, const struct local_api_store_change *c)
{
    struct local_api_watch *w = arg;

    w->rv = c->rv;
    if (c->bucket != local_api_resource_bucket(w->request.res))
        return;
    CODEC_AUTO_JSON json_t *before = c->before ? local_api_store_version_tree(c->before) : NULL;
    CODEC_AUTO_JSON json_t *after = local_api_store_version_tree(c->after);
    bool was = before && local_api_filter_matches(&w->filter, &w->request, before);
    bool is = c->type != LOCAL_API_STORE_DELETED &&
              local_api_filter_matches(&w->filter, &w->request, after);
    if (was || is)
        write_object(w, !was ? "ADDED" : is ? "MODIFIED" : "DELETED", c->after, after);
}

// --- life ---

static void watch_unref(struct local_api_watch *w)
{
    if (--w->refs > 0)
        return;
    local_api_filter_finish(&w->filter);
    free(w->ns);
    free(w->name);
    free(w->include_object);
    free(w);
}

static void on_watch_timer_closed(void *arg)
{
    watch_unref(arg);
}

// Off the list, and no more timers.
static void retire(struct local_api_watch *w)
{
    if (w->retired)
        return;
    w->retired = true;
    if (w->prev)
        w->prev->next = w->next;
    else
        w->api->watches = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->api->n_watches--;
    gs_timer_stop(w->timer);
    gs_timer_close(w->timer, on_watch_timer_closed);
}

static void on_stream_closed(void *arg)
{
    struct local_api_watch *w = arg;

    w->stream = NULL;
    // In the middle of a dispatch the list is being walked: the walk retires the closed ones.
    if (w->api && !w->api->dispatching)
        retire(w);
    watch_unref(w);
}

static void arm(struct local_api_watch *w);

static void on_watch_timer(void *arg)
{
    struct local_api_watch *w = arg;
    int64_t now = (int64_t)uv_now(w->api->loop);

    if (now >= w->end_ms) {
        http_stream_end(w->stream); // the watch is retired when the stream has closed
        return;
    }
    if (w->next_bookmark_ms && now >= w->next_bookmark_ms) {
        w->next_bookmark_ms = now + BOOKMARK_EVERY_MS;
        w->api->dispatching = true;
        w->rv = local_api_store_rv(w->api->store);
        send_bookmark(w);
        w->api->dispatching = false;
    }
    if (w->stream)
        arm(w);
    else
        retire(w);
}

static void arm(struct local_api_watch *w)
{
    int64_t now = (int64_t)uv_now(w->api->loop);
    int64_t next = w->end_ms;

    if (w->next_bookmark_ms && w->next_bookmark_ms < next)
        next = w->next_bookmark_ms;
    gs_timer_start(w->timer, on_watch_timer, next > now ? (uint64_t)(next - now) : 0);
}

void local_api_watch_dispatch(void *arg, const struct local_api_store_change *change)
{
    struct local_api *api = arg;

    if (api->dispatching) // a stream's end does not write to the store
        return;
    api->dispatching = true;
    for (struct local_api_watch *w = api->watches, *next; w; w = next) {
        next = w->next;
        send_change(w, change);
    }
    api->dispatching = false;
    for (struct local_api_watch *w = api->watches, *next; w; w = next) {
        next = w->next;
        if (!w->stream)
            retire(w);
    }
}

void local_api_watch_end_all(struct local_api *api)
{
    api->dispatching = true;
    for (struct local_api_watch *w = api->watches, *next; w; w = next) {
        next = w->next;
        retire(w);
        w->api = NULL;
        if (w->stream)
            http_stream_end(w->stream);
    }
}

void local_api_watch_end_resource(struct local_api *api, const struct local_api_resource *res)
{
    bool nested = api->dispatching;

    api->dispatching = true;
    for (struct local_api_watch *w = api->watches, *next; w; w = next) {
        next = w->next;
        if (w->request.res != res)
            continue;
        retire(w);
        if (w->stream)
            http_stream_end(w->stream);
    }
    api->dispatching = nested;
}

// --- opening ---

struct watch_start {
    bool from_now; // all existing objects first
    uint64_t rv;
    int64_t timeout_s; // 0: default
    bool bookmarks;
};

static bool query_true(const struct local_api_request *r, const char *name)
{
    const char *v = http_query(r->x, name);
    return v && (strcmp(v, "true") == 0 || strcmp(v, "1") == 0);
}

static json_t *read_start(const struct local_api_request *r, struct watch_start *ret)
{
    const char *rv = http_query(r->x, "resourceVersion");
    const char *timeout = http_query(r->x, "timeoutSeconds");
    struct gs_error *err = NULL;
    uint64_t seconds = 0;

    if (query_true(r, "sendInitialEvents"))
        return kube_status_failure(422, "Invalid",
                                   "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: "
                                   "Forbidden: sendInitialEvents is forbidden for watch unless "
                                   "the WatchList feature gate is enabled",
                                   NULL);
    if (rv && *rv)
        err = gs_parse_u64(gs_slice_of(rv), INT64_MAX, &ret->rv);
    if (!err && timeout && *timeout)
        err = gs_parse_u64(gs_slice_of(timeout), INT32_MAX, &seconds);
    if (err) {
        GS_AUTO_ERROR struct gs_error *owned = err;
        GS_AUTO_FREE char *text = gs_format(
            "resourceVersion and timeoutSeconds must be numbers: %s", gs_error_message(owned));
        return kube_status_failure(400, "BadRequest", text, NULL);
    }
    ret->from_now = ret->rv == 0;
    ret->timeout_s = (int64_t)seconds;
    ret->bookmarks = query_true(r, "allowWatchBookmarks");
    return NULL;
}

static int64_t default_timeout_s(void)
{
    uint16_t random = 0;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = 0;
    return DEFAULT_TIMEOUT_MIN * 60 + random % (DEFAULT_TIMEOUT_MIN * 60);
}

static struct local_api_watch *watch_new(const struct local_api_request *r,
                                         const struct watch_start *start)
{
    struct local_api_watch *w = gs_alloc(sizeof *w);
    int64_t now = (int64_t)uv_now(r->api->loop);

    w->api = r->api;
    w->refs = 2;
    w->request = *r;
    w->ns = gs_strdup(r->ns);
    w->name = gs_strdup(r->name);
    w->include_object = gs_strdup(http_query(r->x, "includeObject"));
    w->request.ns = w->ns;
    w->request.name = w->name;
    w->request.sub = NULL;
    w->request.include_object = w->include_object;
    w->request.version = local_api_resource_version(r->res, r->version);
    w->end_ms = now + (start->timeout_s ? start->timeout_s : default_timeout_s()) * 1000;
    w->next_bookmark_ms = start->bookmarks ? now + BOOKMARK_EVERY_MS : 0;
    w->rv = start->rv;
    return w;
}

// Called with the API marked as dispatching, so that a stream cut meanwhile is not freed.
static void send_first(struct local_api_watch *w, bool from_now)
{
    struct local_api_store *store = w->api->store;
    size_t bucket = local_api_resource_bucket(w->request.res);
    const char *ns = NULL;
    const struct local_api_store_version *v;

    if (!from_now) {
        local_api_store_replay(store, w->rv, send_change, w);
        return;
    }
    for (size_t i = local_api_store_seek(store, bucket, w->ns, "");
         (v = local_api_store_at(store, bucket, i, &ns, NULL)); i++) {
        if (*w->ns && strcmp(ns, w->ns) != 0)
            break;
        if (local_api_filter_matches(&w->filter, &w->request, v->tree))
            write_object(w, "ADDED", v, v->tree);
    }
    w->rv = local_api_store_rv(store);
}

static void send_gone(struct http_stream *stream, uint64_t rv, uint64_t oldest)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    GS_AUTO_FREE char *text =
        gs_format("too old resource version: %" PRIu64 " (%" PRIu64 ")", rv, oldest);
    CODEC_AUTO_JSON json_t *status = kube_status_gone(text);

    gs_buf_add_str(&line, "{\"type\":\"ERROR\",\"object\":");
    codec_json_dump(status, &line);
    gs_buf_add_str(&line, "}\n");
    http_stream_write(stream, gs_buf_slice(&line));
    http_stream_end(stream);
}

static void link_watch(struct local_api_watch *w)
{
    struct local_api *api = w->api;

    w->next = api->watches;
    if (w->next)
        w->next->prev = w;
    api->watches = w;
    api->n_watches++;
}

static void ignore_close(void *arg)
{
    (void)arg;
}

json_t *local_api_open_watch(const struct local_api_request *r)
{
    struct watch_start start = {0};
    struct local_api_filter filter;

    json_t *status = read_start(r, &start);
    if (status)
        return status;
    if (r->api->n_watches >= MAX_WATCHES)
        return kube_status_failure(429, "TooManyRequests",
                                   "too many watches are open, please try again later", NULL);
    status = local_api_filter_init(r, &filter);
    if (status)
        return status;
    uint64_t oldest = local_api_store_oldest_rv(r->api->store);
    if (!start.from_now && start.rv < oldest) {
        local_api_filter_finish(&filter);
        send_gone(http_reply_stream(r->x, 200, "application/json", ignore_close, NULL), start.rv,
                  oldest);
        return NULL;
    }
    struct local_api_watch *w = watch_new(r, &start);
    w->filter = filter;
    w->filter.ns = w->ns;
    w->filter.name = w->name;
    w->timer = gs_timer_new(r->api->loop, w);
    w->stream = http_reply_stream(r->x, 200, "application/json", on_stream_closed, w);
    w->request.x = NULL;
    link_watch(w);
    r->api->dispatching = true;
    send_first(w, start.from_now);
    r->api->dispatching = false;
    if (w->stream)
        arm(w);
    else
        retire(w);
    return NULL;
}
