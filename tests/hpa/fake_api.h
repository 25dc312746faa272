// SPDX-License-Identifier: Apache-2.0
// A scripted Kubernetes API: HPAs and pods with list and watch, scale subresources, recorded
// events, and metrics APIs with responses that the test sets. It is the handler of a loopback
// client. Functions are static because one test program includes it.
#pragma once

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/object.h"
#include "kube/patch.h"
#include "kube/status.h"
#include "patience.h"

#include <stdio.h>
#include <string.h>

#define FAKE_MAX_HELD 128

struct fake_api {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *kube;
    json_t *hpas, *pods; // "ns/name" to object
    json_t *scales;      // path of the scale subresource to Scale
    json_t *answers;     // path with query to {status, body}: what GET answers
    json_t *objects;     // of fake_serve(): path to object
    json_t *served;      // paths of collections
    json_t *events;      // as created
    json_t *log;         // "METHOD path"
    struct http_stream *hpa_watch, *pod_watch;
    struct http_stream *changes; // of metrics; NULL: not open
    bool serves_changes;
    int version;             // of the last change
    int scale_conflicts;     // number of scale writes that fail with 409
    int scale_refusals;      // number of scale writes that fail with 403
    int status_conflicts;    // number of status writes that fail with 409
    int status_refusals;     // number of status writes that fail with 403
    const char *hold_prefix; // requests with this prefix get no response
    struct http_exchange *held[FAKE_MAX_HELD];
};

// --- objects ---
static inline void fake_tell(struct fake_api *f, struct http_stream *watch, const char *type,
                             const json_t *obj)
{
    if (!watch)
        return;
    CODEC_AUTO_JSON json_t *event = json_pack("{s:s, s:O}", "type", type, "object", obj);
    GS_AUTO_BUF struct gs_buf line = {0};
    codec_json_dump(event, &line);
    gs_buf_add_char(&line, '\n');
    http_stream_write(watch, gs_buf_slice(&line));
}

static inline struct http_stream *fake_watch_of(struct fake_api *f, const json_t *set)
{
    return set == f->hpas ? f->hpa_watch : f->pod_watch;
}

// Adds or replaces; steals obj.
static inline void fake_put(struct fake_api *f, json_t *set, json_t *obj)
{
    char version[24];
    snprintf(version, sizeof(version), "%d", ++f->version);
    codec_json_set(obj, json_string(version), "metadata", "resourceVersion", NULL);
    GS_AUTO_FREE char *key = kube_key(obj);
    const char *type = json_object_get(set, key) ? "MODIFIED" : "ADDED";
    // The copy of the watch must not change when the stored object changes.
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(obj);
    json_object_set_new(set, key, obj);
    fake_tell(f, fake_watch_of(f, set), type, copy);
}

static inline void fake_delete(struct fake_api *f, json_t *set, const char *key)
{
    CODEC_AUTO_JSON json_t *obj = json_incref(json_object_get(set, key));
    json_object_del(set, key);
    fake_tell(f, fake_watch_of(f, set), "DELETED", obj);
}

static inline void fake_scale(struct fake_api *f, const char *path, int replicas,
                              const char *selector)
{
    json_object_set_new(f->scales, path,
                        json_pack("{s:s, s:s, s:{s:s}, s:{s:i}, s:{s:i, s:s}}", "apiVersion",
                                  "autoscaling/v1", "kind", "Scale", "metadata", "name", "web",
                                  "spec", "replicas", replicas, "status", "replicas", replicas,
                                  "selector", selector));
}

static inline int fake_replicas(const struct fake_api *f, const char *path)
{
    return (int)codec_json_int(json_object_get(f->scales, path), -1, "spec", "replicas", NULL);
}

static inline void fake_answer(struct fake_api *f, const char *path, int status, json_t *body)
{
    json_object_set_new(f->answers, path, json_pack("{s:i, s:o}", "status", status, "body", body));
}

// Running, ready pods APP-0 … APP-(n-1) with label app=APP.
static inline void fake_pods(struct fake_api *f, const char *app, int n)
{
    for (int i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_format("%s-%d", app, i);
        fake_put(f, f->pods,
                 json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:{s:[{s:s, s:{s:{s:s}}}]}, s:{s:s, "
                           "s:s, s:[{s:s, s:s, s:s}]}}",
                           "apiVersion", "v1", "kind", "Pod", "metadata", "name", name, "namespace",
                           "shop", "labels", "app", app, "spec", "containers", "name", "app",
                           "resources", "requests", "cpu", "1", "status", "phase", "Running",
                           "startTime", "2024-01-01T00:00:00Z", "conditions", "type", "Ready",
                           "status", "True", "lastTransitionTime", "2024-01-01T00:00:10Z"));
    }
}

// A MetricValueList for pods APP-0 …, one value each.
static inline json_t *fake_values(const char *app, const char *const *values, size_t n)
{
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339(gs_unix_ms(), now);
    json_t *items = json_array();
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name = gs_format("%s-%zu", app, i);
        json_array_append_new(items,
                              json_pack("{s:{s:s, s:s}, s:s, s:s}", "describedObject", "kind",
                                        "Pod", "name", name, "timestamp", now, "value", values[i]));
    }
    return json_pack("{s:s, s:s, s:o}", "kind", "MetricValueList", "apiVersion",
                     "custom.metrics.k8s.io/v1beta2", "items", items);
}

// --- requests ---
// Without the size of a page: lists are answered whole.
static inline char *fake_full_path(const struct http_exchange *x)
{
    struct gs_buf out = {0};
    gs_buf_add_str(&out, http_path(x));
    const char *name, *value;
    char separator = '?';
    for (size_t i = 0; (value = http_query_nth(x, i, &name)); i++) {
        if (strcmp(name, "limit") == 0)
            continue;
        gs_buf_addf(&out, "%c%s=%s", separator, name, value);
        separator = '&';
    }
    return gs_buf_take(&out);
}

static inline void fake_watch_closed(void *arg)
{
    *(struct http_stream **)arg = NULL;
}

static inline void fake_collection(struct fake_api *f, struct http_exchange *x, json_t *set,
                                   const char *kind, struct http_stream **watch)
{
    if (http_query(x, "watch")) {
        *watch = http_reply_stream(x, 200, "application/json", fake_watch_closed, watch);
        return;
    }
    char version[24];
    snprintf(version, sizeof(version), "%d", f->version);
    CODEC_AUTO_JSON json_t *items = json_array();
    const char *key;
    json_t *obj;
    json_object_foreach (set, key, obj)
        json_array_append_new(items, json_deep_copy(obj));
    CODEC_AUTO_JSON json_t *list =
        json_pack("{s:s, s:s, s:{s:s}, s:O}", "kind", kind, "apiVersion", "v1", "metadata",
                  "resourceVersion", version, "items", items);
    kube_reply_json(x, 200, list);
}

static inline json_t *fake_body(const struct http_exchange *x)
{
    json_t *body = NULL;
    gs_error_free(codec_json_parse(http_body(x), false, &body));
    return body;
}

static inline void fake_scale_request(struct fake_api *f, struct http_exchange *x)
{
    json_t *scale = json_object_get(f->scales, http_path(x));
    if (!scale) {
        kube_reply_failure(x, 404, "NotFound", "deployments.apps \"web\" not found");
    } else if (strcmp(http_method(x), "PUT") == 0) {
        CODEC_AUTO_JSON json_t *body = fake_body(x);
        if (f->scale_refusals > 0) {
            f->scale_refusals--;
            kube_reply_failure(x, 403, "Forbidden", "no such luck");
            return;
        }
        if (f->scale_conflicts > 0) {
            f->scale_conflicts--;
            kube_reply_failure(x, 409, "Conflict", "the object has been modified");
            return;
        }
        codec_json_set(scale, json_integer(codec_json_int(body, -1, "spec", "replicas", NULL)),
                       "spec", "replicas", NULL);
        kube_reply_json(x, 200, scale);
    } else {
        kube_reply_json(x, 200, scale);
    }
}

// /apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/NAME[/status]
static inline void fake_hpa_request(struct fake_api *f, struct http_exchange *x, const char *rest)
{
    const char *slash = strchr(rest, '/');
    GS_AUTO_FREE char *key =
        gs_format("shop/%.*s", slash ? (int)(slash - rest) : (int)strlen(rest), rest);
    json_t *stored = json_object_get(f->hpas, key);
    if (!stored) {
        kube_reply_failure(x, 404, "NotFound", "no such HPA");
    } else if (strcmp(http_method(x), "GET") == 0) {
        kube_reply_json(x, 200, stored);
    } else if (strcmp(http_method(x), "PATCH") == 0) {
        CODEC_AUTO_JSON json_t *body = fake_body(x);
        const char *version = kube_resource_version(body);
        json_t *fresh = NULL;
        if (version && !gs_streq(version, kube_resource_version(stored))) {
            kube_reply_failure(x, 409, "Conflict", "the object has been modified");
            return;
        }
        gs_error_free(kube_patch_merge(stored, body, &fresh));
        fake_put(f, f->hpas, fresh);
        kube_reply_json(x, 200, fresh);
    } else if (f->status_conflicts > 0) {
        f->status_conflicts--;
        kube_reply_failure(x, 409, "Conflict", "the object has been modified");
    } else if (f->status_refusals > 0) {
        f->status_refusals--;
        kube_reply_failure(x, 403, "Forbidden", "status is not yours");
    } else {
        CODEC_AUTO_JSON json_t *body = fake_body(x);
        json_t *fresh = json_deep_copy(stored);
        json_object_set(fresh, "status", json_object_get(body, "status"));
        fake_put(f, f->hpas, fresh);
        kube_reply_json(x, 200, fresh);
    }
}

static inline void fake_held_gone(void *arg)
{
    *(struct http_exchange **)arg = NULL;
}

static inline bool fake_hold(struct fake_api *f, struct http_exchange *x)
{
    if (!f->hold_prefix || !gs_starts(http_path(x), f->hold_prefix))
        return false;
    for (size_t i = 0; i < FAKE_MAX_HELD; i++) {
        if (!f->held[i]) {
            f->held[i] = x;
            http_on_abort(x, fake_held_gone, &f->held[i]);
            return true;
        }
    }
    return false;
}

static inline size_t fake_n_held(const struct fake_api *f)
{
    size_t n = 0;
    for (size_t i = 0; i < FAKE_MAX_HELD; i++)
        n += f->held[i] != NULL;
    return n;
}

// Serves the objects of a collection: its path with the namespace.
static inline void fake_serve(struct fake_api *f, const char *collection)
{
    json_object_set_new(f->served, collection, json_true());
}

static inline void fake_store(struct fake_api *f, struct http_exchange *x, const char *path,
                              json_t *object, int status)
{
    char version[24];
    snprintf(version, sizeof(version), "%d", ++f->version);
    codec_json_set(object, json_string(version), "metadata", "resourceVersion", NULL);
    json_object_set_new(f->objects, path, object);
    kube_reply_json(x, status, object);
}

// False: the collection of the path is not served.
static inline bool fake_object_request(struct fake_api *f, struct http_exchange *x)
{
    const char *path = http_path(x), *method = http_method(x), *slash = strrchr(path, '/');
    GS_AUTO_FREE char *collection = gs_format("%.*s", (int)(slash - path), path);
    json_t *stored = json_object_get(f->objects, path);
    if (strcmp(method, "POST") == 0 && json_object_get(f->served, path)) {
        json_t *object = fake_body(x);
        GS_AUTO_FREE char *at = gs_format("%s/%s", path, kube_name(object));
        fake_store(f, x, at, object, 201);
        return true;
    }
    if (!json_object_get(f->served, collection) || !stored)
        return false;
    if (strcmp(method, "PUT") == 0) {
        json_t *object = fake_body(x);
        if (gs_streq(kube_resource_version(object), kube_resource_version(stored))) {
            fake_store(f, x, path, object, 200);
        } else {
            kube_reply_failure(x, 409, "Conflict", "the object has been modified");
            json_decref(object);
        }
    } else if (strcmp(method, "DELETE") == 0) {
        kube_reply_json(x, 200, stored);
        json_object_del(f->objects, path);
    } else {
        kube_reply_json(x, 200, stored);
    }
    return true;
}

static inline void fake_route(struct fake_api *f, struct http_exchange *x, const char *full)
{
    static const char hpas[] = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/";
    const char *path = http_path(x);
    const json_t *answer = json_object_get(f->answers, full);
    if (f->serves_changes && gs_ends(path, "/changes"))
        f->changes = http_reply_stream(x, 200, "application/json", fake_watch_closed, &f->changes);
    else if (answer)
        kube_reply_json(x, (int)codec_json_int(answer, 200, "status", NULL),
                        json_object_get(answer, "body"));
    else if (strcmp(path, "/apis/autoscaling/v2/horizontalpodautoscalers") == 0)
        fake_collection(f, x, f->hpas, "HorizontalPodAutoscalerList", &f->hpa_watch);
    else if (strcmp(path, "/api/v1/pods") == 0 || strcmp(path, "/api/v1/namespaces/shop/pods") == 0)
        fake_collection(f, x, f->pods, "PodList", &f->pod_watch);
    else if (fake_object_request(f, x))
        return;
    else if (gs_starts(path, hpas))
        fake_hpa_request(f, x, path + strlen(hpas));
    else if (gs_ends(path, "/scale"))
        fake_scale_request(f, x);
    else
        kube_reply_failure(x, 404, "NotFound", "the server could not find the requested resource");
}

static inline void fake_handle(void *ctx, struct http_exchange *x)
{
    struct fake_api *f = ctx;
    GS_AUTO_FREE char *full = fake_full_path(x);
    GS_AUTO_FREE char *line = gs_format("%s %s", http_method(x), full);
    json_array_append_new(f->log, json_string(line));
    if (fake_hold(f, x))
        return;
    if (strstr(http_path(x), "/events") && strcmp(http_method(x), "GET") == 0) {
        CODEC_AUTO_JSON json_t *list =
            json_pack("{s:s, s:O}", "kind", "EventList", "items", f->events);
        kube_reply_json(x, 200, list);
        return;
    }
    if (strstr(http_path(x), "/events")) {
        json_t *event = fake_body(x);
        if (strcmp(http_method(x), "POST") == 0)
            json_array_append(f->events, event);
        kube_reply_json(x, 201, event);
        json_decref(event);
        return;
    }
    fake_route(f, x, full);
}

// Responds to the held requests as if they had just arrived. hold_prefix must be NULL.
static inline void fake_release(struct fake_api *f)
{
    for (size_t i = 0; i < FAKE_MAX_HELD; i++) {
        struct http_exchange *x = f->held[i];
        f->held[i] = NULL;
        if (x) {
            http_on_abort(x, NULL, NULL);
            GS_AUTO_FREE char *full = fake_full_path(x);
            fake_route(f, x, full);
        }
    }
}

// --- inspection ---
static inline bool fake_has_event(const struct fake_api *f, const char *reason, const char *part)
{
    for (size_t i = 0; i < json_array_size(f->events); i++) {
        const json_t *e = json_array_get(f->events, i);
        if (gs_streq(codec_json_str(e, "reason", NULL), reason) &&
            strstr(codec_json_str(e, "message", NULL), part))
            return true;
    }
    return false;
}

static inline size_t fake_count_log(const struct fake_api *f, const char *prefix)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(f->log); i++)
        n += gs_starts(json_string_value(json_array_get(f->log, i)), prefix);
    return n;
}

static inline void fake_tick(uv_timer_t *t)
{
}

// Runs the loop until cond() is true or a timeout. Returns the last result of cond().
static inline bool fake_wait(struct fake_api *f, bool (*cond)(void *arg), void *arg)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    uv_timer_t tick; // so that the loop iterates without other events
    uv_timer_init(&f->loop, &tick);
    uv_timer_start(&tick, fake_tick, 2, 2);
    while (!cond(arg) && gs_mono_ns() < deadline)
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    return cond(arg);
}

static inline void fake_init(struct fake_api *f)
{
    memset(f, 0, sizeof(*f));
    uv_loop_init(&f->loop);
    f->hpas = json_object();
    f->pods = json_object();
    f->scales = json_object();
    f->answers = json_object();
    f->objects = json_object();
    f->served = json_object();
    f->events = json_array();
    f->log = json_array();
    f->http = http_client_new_loopback(&f->loop, fake_handle, f, NULL);
    f->kube = kube_client_new(f->http);
}

// Call it after freeing the tested objects: runs the loop until all handles are closed. Returns 0
// if nothing remains.
static inline int fake_finish(struct fake_api *f)
{
    kube_client_free(f->kube);
    http_client_free(f->http);
    for (int64_t end = gs_mono_ns() + WAIT_NS; uv_loop_alive(&f->loop) && gs_mono_ns() < end;)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    int rc = uv_loop_close(&f->loop);
    json_decref(f->hpas);
    json_decref(f->pods);
    json_decref(f->scales);
    json_decref(f->answers);
    json_decref(f->objects);
    json_decref(f->served);
    json_decref(f->events);
    json_decref(f->log);
    return rc;
}
