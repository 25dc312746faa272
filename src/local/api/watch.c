// SPDX-License-Identifier: Apache-2.0
// Watches: a stream of changes of one resource, filtered, from a resourceVersion on. What the
// selector no longer matches is DELETED for the watcher, what it newly matches is ADDED.
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/timer.h"
#include "codec/encoding.h"
#include "kube/object.h"
#include "local/api/api_private.h"

#include <inttypes.h>

#define MAX_WATCHES       1024
#define BOOKMARK_EVERY_MS 60000
// Existing objects are sent as the client takes them: a collection may be larger than the queue of
// a stream.
#define MAX_PENDING         ((size_t)1 << 20)
#define PACE_MS             20
#define ANN_END             "k8s.io/initial-events-end"
#define ANN_LIST            "k8s.io/initial-events-list-blueprint"
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
    uint64_t rv;                      // of the last change that was checked
    bool header_sent, retired;
    // The objects that existed at the start, and how many of them were sent. Changes since are sent
    // after them. NULL: all were sent.
    struct local_api_store_version **initial;
    size_t n_initial, n_sent;
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

// Clients of a list in the form of a watch get an empty list of this kind, as base64.
static void add_list_blueprint(const struct local_api_request *r, json_t *annotations)
{
    bool partial = r->form == LOCAL_API_FORM_PARTIAL;
    GS_AUTO_BUF struct gs_buf version = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_BUF struct gs_buf encoded = {0};

    local_api_version(partial ? "meta.k8s.io" : r->res->group,
                      partial ? r->form_version : r->version, &version);
    gs_buf_addf(&text, "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{},\"items\":[]}\n",
                partial ? "PartialObjectMetadata" : r->res->kind, version.data);
    codec_base64_encode(gs_buf_slice(&text), &encoded);
    codec_json_set_str(annotations, ANN_LIST, encoded.data);
}

static void send_bookmark(struct local_api_watch *w, bool ends_initial)
{
    const struct local_api_request *r = &w->request;
    GS_AUTO_BUF struct gs_buf version = {0};
    json_t *object = json_object();

    local_api_version(r->res->group, r->version, &version);
    codec_json_set_str(object, "kind", r->res->kind);
    codec_json_set_str(object, "apiVersion", version.data);
    codec_json_set(object, codec_json_strf("%" PRIu64, w->rv), "metadata", "resourceVersion", NULL);
    codec_json_set(object, json_null(), "metadata", "creationTimestamp", NULL);
    if (ends_initial) {
        json_t *annotations = json_object();
        codec_json_set_str(annotations, ANN_END, "true");
        add_list_blueprint(r, annotations);
        codec_json_set(object, annotations, "metadata", "annotations", NULL);
    }
    CODEC_AUTO_JSON json_t *shown =
        local_api_render_served(r, object, json_incref(object), !w->header_sent);
    w->header_sent = true;
    write_json(w, "BOOKMARK", shown);
    json_decref(object);
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

static void drop_initial(struct local_api_watch *w)
{
    for (size_t i = w->n_sent; i < w->n_initial; i++)
        local_api_store_version_unref(w->initial[i]);
    free(GS_TAKE(w->initial));
}

static void watch_unref(struct local_api_watch *w)
{
    if (--w->refs > 0)
        return;
    drop_initial(w);
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
static void send_initial(struct local_api_watch *w);

static void on_watch_timer(void *arg)
{
    struct local_api_watch *w = arg;
    int64_t now = (int64_t)uv_now(w->api->loop);

    if (now >= w->end_ms) {
        http_stream_end(w->stream); // the watch is retired when the stream has closed
        return;
    }
    w->api->dispatching = true;
    if (w->initial) {
        send_initial(w);
    } else if (w->next_bookmark_ms && now >= w->next_bookmark_ms) {
        w->next_bookmark_ms = now + BOOKMARK_EVERY_MS;
        w->rv = local_api_store_rv(w->api->store);
        send_bookmark(w, false);
    }
    w->api->dispatching = false;
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
    if (w->initial && now + PACE_MS < next)
        next = now + PACE_MS;
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
        if (!w->initial)
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

static int64_t default_timeout_s(void)
{
    uint16_t random;

    gs_random_bytes(&random, sizeof random);
    return DEFAULT_TIMEOUT_MIN * 60 + random % (DEFAULT_TIMEOUT_MIN * 60);
}

static struct local_api_watch *watch_new(const struct local_api_request *r,
                                         const struct local_api_watch_options *start)
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

static void take_initial(struct local_api_watch *w)
{
    struct local_api_store *store = w->api->store;
    size_t bucket = local_api_resource_bucket(w->request.res), cap = 0;
    const char *ns = NULL;
    const struct local_api_store_version *v;

    gs_grow(&w->initial, &cap, 0, sizeof *w->initial); // not NULL, even without objects
    for (size_t i = local_api_store_seek(store, bucket, w->ns, "");
         (v = local_api_store_at(store, bucket, i, &ns, NULL)); i++) {
        if (*w->ns && strcmp(ns, w->ns) != 0)
            break;
        if (!local_api_filter_matches(&w->filter, &w->request, v->tree))
            continue;
        gs_grow(&w->initial, &cap, w->n_initial, sizeof *w->initial);
        w->initial[w->n_initial++] = local_api_store_version_ref(v);
    }
    w->rv = local_api_store_rv(store);
}

// Called with the API marked as dispatching, so that a stream cut meanwhile is not freed.
static void send_initial(struct local_api_watch *w)
{
    struct local_api_store *store = w->api->store;

    while (w->n_sent < w->n_initial) {
        if (!w->stream || http_stream_pending(w->stream) > MAX_PENDING)
            return;
        struct local_api_store_version *v = w->initial[w->n_sent++];
        CODEC_AUTO_JSON json_t *tree = local_api_store_version_tree(v);
        write_object(w, "ADDED", v, tree);
        local_api_store_version_unref(v);
    }
    drop_initial(w);
    if (w->next_bookmark_ms)
        send_bookmark(w, true);
    if (!local_api_store_replay(store, w->rv, send_change, w) && w->stream)
        send_gone(w->stream, w->rv, local_api_store_oldest_rv(store));
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
    struct local_api_watch_options start = {0};
    struct local_api_filter filter;

    json_t *status = local_api_read_watch_options(r, &start);
    if (status)
        return status;
    if (r->api->n_watches >= MAX_WATCHES)
        return kube_status_failure(429, "TooManyRequests",
                                   "too many watches are open, please try again later", NULL);
    status = local_api_filter_init(r, &filter);
    if (status)
        return status;
    uint64_t oldest = local_api_store_oldest_rv(r->api->store);
    if (!start.initial && start.rv < oldest) {
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
    if (start.initial) {
        take_initial(w);
        send_initial(w);
    } else {
        local_api_store_replay(w->api->store, w->rv, send_change, w);
    }
    r->api->dispatching = false;
    if (w->stream)
        arm(w);
    else
        retire(w);
    return NULL;
}
