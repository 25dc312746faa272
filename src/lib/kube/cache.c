// SPDX-License-Identifier: Apache-2.0
// The cache is always in one of these states:
//
//     idle ──start──▶ listing ──ok──▶ watching ──stream ends──▶ watching (from the last version)
//                        ▲  │            │ │
//                        │ fails      410│ │fails
//                        │  ▼            │ ▼
//                     backing off ◀──────┴─┘   (then lists when `relist`, else watches on)
//
// A handler may free the cache: check `closed` after every dispatch.
#include "kube/cache.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/timer.h"
#include "base/trim.h"
#include "kube/kube_private.h"
#include "kube/object.h"
#include "kube/selector.h"

#define FRAME_MAX         (16u * 1024 * 1024) // one watch event
#define BACKOFF_FIRST_MS  200
#define BACKOFF_LAST_MS   30000
#define WATCH_MIN_SECONDS 300 // requested from the server; twice as long at most
#define LARGE_LIST        1000
#define WATCH_HEALTHY_NS  GS_NS_PER_SEC

struct kube_cache {
    struct gs_thread_owner owner;
    struct kube_client *client;
    char *path;  // of the collection
    char *query; // extra parameters or NULL
    char *resource_version;

    struct gs_hmap *objects;  // key -> json_t
    struct kube_index *index; // of these
    struct gs_hmap *newest;   // UID of an owner, or "" -> its newest object, as json_t
    struct kube_cache_handlers *handlers;
    size_t n_handlers, handlers_cap;
    unsigned dispatching;
    bool handlers_dropped; // some were removed during a dispatch

    struct kube_request *list;
    struct http_op *watch;
    struct gs_buf frame; // the received part of an incomplete event
    int64_t watch_started_ns;
    bool watch_fruitful; // this watch has received an event
    bool frame_bad;      // the watch has failed; further data is ignored

    struct gs_timer *timer;
    unsigned failures;
    bool relist; // the next attempt lists
    bool synced, started, closed;
    char *error;
    bool denied;
    size_t n_listed; // objects of the list in progress
    void (*trim)(json_t *obj);
};

static void free_json(void *j)
{
    json_decref(j);
}

static char *object_key(const json_t *obj)
{
    const char *name = kube_name(obj);
    return name && *name ? kube_key(obj) : NULL;
}

struct kube_cache *kube_cache_new(uv_loop_t *loop, struct kube_client *client, struct kube_gvr r,
                                  const char *ns, const char *query)
{
    struct kube_cache *c = gs_alloc(sizeof(*c));
    GS_AUTO_BUF struct gs_buf path = {0};
    kube_path(&path, r, ns, NULL, NULL);
    gs_thread_owner_bind(&c->owner);
    c->client = client;
    c->path = gs_buf_take(&path);
    c->query = query && *query ? gs_strdup(query) : NULL;
    c->objects = gs_hmap_new(free_json);
    c->index = kube_index_new();
    c->newest = gs_hmap_new(free_json);
    c->frame.limit = FRAME_MAX;
    c->timer = gs_timer_new(loop, c);
    return c;
}

void kube_cache_free(struct kube_cache *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    kube_request_cancel(c->list);
    http_op_cancel(c->watch);
    kube_index_free(c->index);
    gs_hmap_free(c->newest);
    gs_hmap_free(c->objects);
    free(c->handlers);
    free(c->path);
    free(c->query);
    free(c->resource_version);
    free(c->error);
    gs_buf_finish(&c->frame);
    c->handlers = NULL;
    c->n_handlers = 0;
    gs_timer_close(c->timer, free);
}

// --- handlers ---

static void drop_dead_handlers(struct kube_cache *c)
{
    if (c->closed || c->dispatching || !c->handlers_dropped)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < c->n_handlers; i++)
        if (c->handlers[i].on_change || c->handlers[i].on_synced)
            c->handlers[kept++] = c->handlers[i];
    c->n_handlers = kept;
    c->handlers_dropped = false;
}

static void dispatch_change(struct kube_cache *c, const json_t *old_obj, const json_t *new_obj)
{
    size_t n = c->n_handlers; // handlers that are added meanwhile get their own replay
    c->dispatching++;
    for (size_t i = 0; i < n && !c->closed; i++) {
        struct kube_cache_handlers h = c->handlers[i];
        if (h.on_change)
            h.on_change(h.arg, old_obj, new_obj);
    }
    c->dispatching--;
    drop_dead_handlers(c);
}

static void dispatch_synced(struct kube_cache *c)
{
    size_t n = c->n_handlers;
    c->dispatching++;
    for (size_t i = 0; i < n && !c->closed; i++) {
        struct kube_cache_handlers h = c->handlers[i];
        if (h.on_synced)
            h.on_synced(h.arg);
    }
    c->dispatching--;
    drop_dead_handlers(c);
}

void kube_cache_add_handlers(struct kube_cache *c, const struct kube_cache_handlers *h)
{
    gs_grow(&c->handlers, &c->handlers_cap, c->n_handlers, sizeof(*c->handlers));
    c->handlers[c->n_handlers++] = *h;
    if (!c->synced)
        return;
    struct kube_cache_handlers mine = *h;
    size_t pos = 0;
    const json_t *obj;
    c->dispatching++;
    while (mine.on_change && !c->closed && (obj = kube_cache_next(c, &pos)))
        mine.on_change(mine.arg, NULL, obj);
    if (mine.on_synced && !c->closed)
        mine.on_synced(mine.arg);
    c->dispatching--;
    drop_dead_handlers(c);
}

void kube_cache_remove_handlers(struct kube_cache *c, const void *arg)
{
    for (size_t i = 0; i < c->n_handlers; i++) {
        if (c->handlers[i].arg != arg)
            continue;
        c->handlers[i] = (struct kube_cache_handlers){0};
        c->handlers_dropped = true;
    }
    drop_dead_handlers(c);
}

// --- objects ---

// Objects of one owner are nearly equal, and so are an object and its change.
static void share_members(struct kube_cache *c, const json_t *old, json_t *fresh)
{
    const char *owner = kube_uid(kube_controller_ref(fresh));
    owner = owner ? owner : "";
    const json_t *newest = gs_hmap_get_str(c->newest, owner);
    if (newest == fresh) // its page was the last one of the list
        return;
    if (old)
        codec_json_share(fresh, old);
    if (newest && newest != old)
        codec_json_share(fresh, newest);
    if (gs_hmap_len(c->newest) > gs_hmap_len(c->objects) + c->n_listed) // owners that are gone
        gs_hmap_clear(c->newest);
    gs_hmap_put_str(c->newest, owner, json_incref(fresh));
}

// Both return false if a handler freed the cache.
static bool put_object(struct kube_cache *c, json_t *obj)
{
    GS_AUTO_FREE char *key = object_key(obj);
    if (!key)
        return true;
    CODEC_AUTO_JSON json_t *fresh = json_incref(obj);
    CODEC_AUTO_JSON json_t *old = json_incref(gs_hmap_get_str(c->objects, key));
    if (old && !gs_streq(kube_uid(old), kube_uid(fresh))) {
        kube_index_replace(c->index, old, NULL);
        json_decref(gs_hmap_remove_str(c->objects, key));
        dispatch_change(c, old, NULL);
        if (c->closed)
            return false;
        json_decref(old);
        old = NULL;
    }
    if (old && gs_streq(kube_resource_version(old), kube_resource_version(fresh)))
        return true;
    share_members(c, old, fresh);
    kube_index_replace(c->index, old, fresh);
    gs_hmap_put_str(c->objects, key, json_incref(fresh));
    dispatch_change(c, old, fresh);
    return !c->closed;
}

static bool drop_object(struct kube_cache *c, const char *key, json_t *last)
{
    CODEC_AUTO_JSON json_t *old = gs_hmap_remove_str(c->objects, key);
    if (!old)
        return true;
    kube_index_replace(c->index, old, NULL);
    CODEC_AUTO_JSON json_t *shown = json_incref(last ? last : old);
    dispatch_change(c, shown, NULL);
    return !c->closed;
}

static void set_version(struct kube_cache *c, const char *version)
{
    if (!version || !*version)
        return;
    free(c->resource_version);
    c->resource_version = gs_strdup(version);
}

// --- attempts and failures ---

static void send_list(struct kube_cache *c);
static void send_watch(struct kube_cache *c);

static void start_attempt(struct kube_cache *c)
{
    if (c->relist || !c->resource_version)
        send_list(c);
    else
        send_watch(c);
}

static void timer_fired(void *arg)
{
    struct kube_cache *c = arg;
    http_op_cancel(c->watch);
    c->watch = NULL;
    start_attempt(c);
}

static uint64_t add_jitter(uint64_t bound)
{
    uint32_t r;
    gs_random_bytes(&r, sizeof(r));
    return bound ? r % bound : 0;
}

static void back_off(struct kube_cache *c)
{
    uint64_t ms = (uint64_t)gs_backoff_after(++c->failures, BACKOFF_FIRST_MS, BACKOFF_LAST_MS);
    ms += add_jitter(ms / 2);
    gs_timer_start(c->timer, timer_fired, ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS);
}

static void watch_failed(struct kube_cache *c, struct gs_error *err)
{
    free(c->error);
    c->error = gs_strdup(err ? gs_error_message(err) : "the watch ended early");
    c->denied = err && gs_error_code(err) == GS_EPERM;
    gs_error_free(err);
    back_off(c);
}

static void clear_error(struct kube_cache *c)
{
    free(c->error);
    c->error = NULL;
}

static void note_healthy(struct kube_cache *c)
{
    c->failures = 0;
    clear_error(c);
}

static void watch_stands(void *arg)
{
    note_healthy(arg);
}

// --- list ---

// A list contains kind and apiVersion once; a single object contains its own.
static void complete_items(json_t *list)
{
    const char *kind = kube_kind(list), *version = kube_api_version(list);
    if (!kind || !gs_ends(kind, "List") || !version)
        return;
    GS_AUTO_FREE char *item_kind = gs_strndup(kind, strlen(kind) - strlen("List"));
    size_t i;
    json_t *item;
    json_array_foreach (codec_json_get(list, "items", NULL), i, item) {
        if (!kube_kind(item))
            codec_json_set_str(item, "kind", item_kind);
        if (!kube_api_version(item))
            codec_json_set_str(item, "apiVersion", version);
    }
}

static bool drop_absent(struct kube_cache *c, struct gs_hmap *present)
{
    CODEC_AUTO_JSON json_t *gone = json_array(); // the map must not change in an iteration
    size_t pos = 0;
    struct gs_slice key;
    while (gs_hmap_next(c->objects, &pos, &key, NULL))
        if (!gs_hmap_get(present, key))
            json_array_append_new(gone, json_stringn(key.data, key.len));
    size_t i;
    json_t *name;
    json_array_foreach (gone, i, name) {
        if (!drop_object(c, json_string_value(name), NULL))
            return false;
    }
    return true;
}

static void apply_list(struct kube_cache *c, json_t *list)
{
    json_t *items = codec_json_get(list, "items", NULL);
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *present = gs_hmap_new(NULL);
    size_t i;
    json_t *item;

    gs_thread_owner_assert(&c->owner);
    complete_items(list);
    json_array_foreach (items, i, item) {
        GS_AUTO_FREE char *key = object_key(item);
        if (key)
            gs_hmap_put_str(present, key, item);
    }
    set_version(c, codec_json_str(list, "metadata", "resourceVersion", NULL));
    if (!drop_absent(c, present))
        return;
    json_array_foreach (items, i, item) {
        if (!put_object(c, item))
            return;
    }
    c->relist = false;
    c->n_listed = 0;
    clear_error(c);
    if (json_array_size(items) > LARGE_LIST)
        gs_trim_heap(); // of what the pages had before they were trimmed
    if (!c->synced) {
        c->synced = true;
        dispatch_synced(c);
    }
    if (!c->closed)
        send_watch(c);
}

static void list_done(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct kube_cache *c = arg;
    c->list = NULL;
    if (!err && !json_is_array(codec_json_get(body, "items", NULL)))
        err = gs_error_new(GS_EPROTO, "the API server's response to %s is not a list", c->path);
    if (err) {
        watch_failed(c, gs_error_wrap(err, "listing %s", c->path));
        return;
    }
    CODEC_AUTO_JSON json_t *list = json_incref(body);
    apply_list(c, list);
}

// Shared at once, so that a list takes as little memory as the objects that the cache has of it.
static void take_item(void *arg, json_t *object)
{
    struct kube_cache *c = arg;
    GS_AUTO_FREE char *key = object_key(object);
    c->trim(object);
    c->n_listed++;
    if (key)
        share_members(c, gs_hmap_get_str(c->objects, key), object);
}

static void send_list(struct kube_cache *c)
{
    c->relist = true;
    c->n_listed = 0;
    GS_AUTO_BUF struct gs_buf path = {0};
    gs_buf_addf(&path, "%s%s%s", c->path, c->query ? "?" : "", c->query ? c->query : "");
    c->list = kube_list_pages(c->client, path.data, c->trim ? take_item : NULL, list_done, c);
}

// --- watch ---

// Ends the watch, even if the server does not.
static void watch_broken(struct kube_cache *c, bool relist, struct gs_error *err)
{
    c->frame_bad = true;
    c->relist = c->relist || relist;
    // After events, "Gone" is normal and the cache lists immediately. Without events this could
    // loop without a pause.
    bool at_once = relist && c->watch_fruitful && c->failures == 0;
    watch_failed(c, err);
    if (at_once)
        gs_timer_start(c->timer, timer_fired, 0);
}

static void watch_error(struct kube_cache *c, const json_t *status)
{
    int64_t code = codec_json_int(status, 0, "code", NULL);
    const char *reason = codec_json_str(status, "reason", NULL);
    const char *message = codec_json_str(status, "message", NULL);
    bool gone = code == 410 || gs_streq(reason, "Expired") || gs_streq(reason, "Gone");
    watch_broken(c, gone,
                 gs_error_new(GS_EUNAVAIL, "watching %s: %s", c->path,
                              message ? message : "the API server reported an error"));
}

// The object of an event that cannot be parsed is left out of the cache: a later event may fix it.
// False: the cache was freed.
static bool take_broken_event(struct kube_cache *c, struct gs_slice line, struct gs_error *why)
{
    GS_AUTO_FREE char *type = NULL;
    struct gs_slice object;
    if (!kube_salvage_event(line, &type, &object)) {
        watch_broken(c, true, gs_error_wrap(why, "watching %s", c->path));
        return true;
    }
    kube_log_left_out(c->path, object, why);
    gs_error_free(why);
    GS_AUTO_FREE char *key = kube_raw_key(object);
    return !key || drop_object(c, key, NULL);
}

// False: the cache was freed.
static bool take_event(struct kube_cache *c, struct gs_slice line)
{
    CODEC_AUTO_JSON json_t *event = NULL;
    line = gs_slice_trim(line);
    if (line.len == 0)
        return true;
    GS_AUTO_BUF struct gs_buf cut = {0};
    if (c->trim && kube_cut_managed_fields(line, &cut))
        line = gs_buf_slice(&cut);
    struct gs_error *err = codec_json_parse_accepted(line, &event);
    if (err)
        return take_broken_event(c, line, err);
    const char *type = codec_json_str(event, "type", NULL);
    json_t *obj = codec_json_get(event, "object", NULL);
    if (!type || !json_is_object(obj)) {
        err = gs_error_new(GS_EPROTO, "not a watch event");
        watch_broken(c, true, gs_error_wrap(err, "watching %s", c->path));
        return true;
    }
    if (gs_streq(type, "ERROR")) {
        watch_error(c, obj);
        return true;
    }
    c->watch_fruitful = true;
    note_healthy(c);
    set_version(c, kube_resource_version(obj));
    if (c->trim)
        c->trim(obj);
    if (gs_streq(type, "ADDED") || gs_streq(type, "MODIFIED"))
        return put_object(c, obj);
    if (gs_streq(type, "DELETED")) {
        GS_AUTO_FREE char *key = object_key(obj);
        return !key || drop_object(c, key, obj);
    }
    return true; // BOOKMARK and unknown types
}

static void watch_data(void *arg, struct gs_slice bytes)
{
    struct kube_cache *c = arg;
    while (bytes.len > 0 && !c->frame_bad) {
        const char *end = memchr(bytes.data, '\n', bytes.len);
        size_t n = end ? (size_t)(end - bytes.data) : bytes.len;
        struct gs_slice line = {bytes.data, n};
        if (!end || c->frame.len > 0) {
            gs_buf_add_slice(&c->frame, line);
            line = gs_buf_slice(&c->frame);
        }
        if (c->frame.overflow) {
            watch_broken(c, true,
                         gs_error_new(GS_ELIMIT, "watching %s: an event is larger than %u bytes",
                                      c->path, FRAME_MAX));
            return;
        }
        if (!end)
            return;
        bytes = gs_slice_make(end + 1, bytes.len - n - 1);
        GS_AUTO_BUF GS_UNUSED struct gs_buf whole = c->frame; // a handler may free the cache
        c->frame = (struct gs_buf){.limit = FRAME_MAX};
        if (!take_event(c, line))
            return;
    }
}

static void watch_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct kube_cache *c = arg;
    c->watch = NULL;
    if (c->frame_bad) { // the timer is running
        gs_error_free(err);
        return;
    }
    if (!err && response->status != 200) {
        c->relist = true;
        if (response->status == 410 && c->failures == 0) {
            c->failures = 1;
            send_list(c);
            return;
        }
        err = gs_error_new(response->status == 401 || response->status == 403 ? GS_EPERM
                                                                              : GS_EUNAVAIL,
                           "the API server answered HTTP %d", response->status);
    }
    bool served = c->watch_fruitful || gs_mono_ns() - c->watch_started_ns > WATCH_HEALTHY_NS;
    if (served)
        note_healthy(c);
    if (!err && served) {
        send_watch(c);
        return;
    }
    // The time limit for a stream without data is not a failure of the server.
    if (err && served && gs_error_code(err) == GS_ETIMEOUT) {
        gs_error_free(err);
        send_watch(c);
        return;
    }
    watch_failed(c, err ? gs_error_wrap(err, "watching %s", c->path) : NULL);
}

static void send_watch(struct kube_cache *c)
{
    unsigned seconds = WATCH_MIN_SECONDS + (unsigned)add_jitter(WATCH_MIN_SECONDS);
    GS_AUTO_BUF struct gs_buf path = {0};
    gs_buf_addf(&path,
                "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=", c->path,
                seconds);
    http_encode(gs_slice_of(c->resource_version ? c->resource_version : ""), &path);
    if (c->query)
        gs_buf_addf(&path, "&%s", c->query);

    static const struct http_header headers[] = {{"Accept", "application/json"}, {NULL, NULL}};
    static const struct http_callbacks callbacks = {.on_data = watch_data, .on_done = watch_done};
    struct http_request request = {
        .path = path.data,
        .headers = headers,
        .timeout_ms = (seconds + 30) * 1000, // detects a peer that disappeared
    };
    gs_buf_clear(&c->frame);
    c->frame.overflow = false;
    c->frame_bad = false;
    c->watch_fruitful = false;
    c->watch_started_ns = gs_mono_ns();
    if (c->failures > 0 || c->error)
        gs_timer_start(c->timer, watch_stands, WATCH_HEALTHY_NS / GS_NS_PER_MS);
    c->watch = http_send(kube_client_http(c->client), &request, &callbacks, c);
}

// --- reading ---

void kube_cache_start(struct kube_cache *c)
{
    if (c->started)
        return;
    c->started = true;
    send_list(c);
}

bool kube_cache_synced(const struct kube_cache *c)
{
    return c->synced;
}

const json_t *kube_cache_get(const struct kube_cache *c, const char *ns, const char *name)
{
    gs_thread_owner_assert(&c->owner);
    if (!name)
        return NULL;
    if (!ns)
        return gs_hmap_get_str(c->objects, name);
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    return gs_hmap_get_str(c->objects, key);
}

size_t kube_cache_len(const struct kube_cache *c)
{
    return gs_hmap_len(c->objects);
}

const json_t *kube_cache_next(const struct kube_cache *c, size_t *pos)
{
    void *obj = NULL;
    struct gs_slice key;
    return gs_hmap_next(c->objects, pos, &key, &obj) ? obj : NULL;
}

const json_t *kube_cache_select(const struct kube_cache *c, const char *ns,
                                const struct kube_selector *s, size_t *pos)
{
    size_t n;
    const json_t *const *found = kube_index_find(c->index, c->objects, ns, s, &n);
    while (*pos < n) {
        const json_t *obj = found[(*pos)++];
        if (kube_selector_matches(s, codec_json_get(obj, "metadata", "labels", NULL)))
            return obj;
    }
    return NULL;
}

json_t *kube_cache_objects(const struct kube_cache *c)
{
    json_t *out = json_array();
    size_t pos = 0;
    for (const json_t *object; (object = kube_cache_next(c, &pos));)
        json_array_append(out, (json_t *)object);
    return out;
}

const char *kube_cache_error(const struct kube_cache *c)
{
    return c->error;
}

bool kube_cache_denied(const struct kube_cache *c)
{
    return c->error && c->denied;
}

void kube_cache_set_trim(struct kube_cache *c, void (*trim)(json_t *obj))
{
    c->trim = trim;
}
