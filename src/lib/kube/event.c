// SPDX-License-Identifier: Apache-2.0
// Each distinct event (object, type, reason, message; combined events without the message) has an
// entry in a least-recently-used list. An entry has at most one request in progress. Repeats that
// occur meanwhile are combined into the next request.
#include "kube/event.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/kube_private.h"
#include "kube/object.h"

#define ENTRIES_MAX  512
#define LOG_PAUSE_NS (60 * GS_NS_PER_SEC)
#define MESSAGE_MAX  1024 // bytes; the API server's limit

struct entry {
    struct kube_recorder *recorder;
    struct entry *newer, *older;
    char *key;
    json_t *event; // as created, with the latest count and time
    bool created;  // the API server has it
    bool dirty;    // it has changed since the request in progress was sent
    struct kube_request *request;
};

struct kube_recorder {
    struct kube_client *client;
    char *component, *host;
    struct kube_event_limit *limit;
    struct gs_hmap *entries;
    struct entry *newest, *oldest;
    int64_t last_name_ns; // names are unique
    int logged_status;    // of the failure that was logged last; 0: no response
    int64_t logged_ns;    // when; 0: none was
};

struct kube_recorder *kube_recorder_new(struct kube_client *c, const char *component,
                                        const char *host)
{
    struct kube_recorder *r = gs_alloc(sizeof(*r));
    r->client = c;
    r->component = gs_strdup(component);
    r->host = gs_strdup(host);
    r->limit = kube_event_limit_new();
    r->entries = gs_hmap_new(NULL);
    return r;
}

static void entry_unlink(struct entry *e)
{
    struct kube_recorder *r = e->recorder;
    if (e->newer)
        e->newer->older = e->older;
    else
        r->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        r->oldest = e->newer;
    e->newer = e->older = NULL;
}

static void entry_link(struct entry *e)
{
    struct kube_recorder *r = e->recorder;
    e->older = r->newest;
    if (e->older)
        e->older->newer = e;
    else
        r->oldest = e;
    r->newest = e;
}

static void event_entry_free(struct entry *e)
{
    entry_unlink(e);
    gs_hmap_remove_str(e->recorder->entries, e->key);
    kube_request_cancel(e->request);
    json_decref(e->event);
    free(e->key);
    free(e);
}

void kube_recorder_free(struct kube_recorder *r)
{
    if (!r)
        return;
    for (struct entry *e = r->newest, *older; e; e = older) {
        older = e->older;
        event_entry_free(e);
    }
    gs_hmap_free(r->entries);
    kube_event_limit_free(r->limit);
    free(r->component);
    free(r->host);
    free(r);
}

// --- sending ---

static void entry_send(struct entry *e);

// Logs failures with one status once a minute: texts differ in the URL, and an API server that is
// away fails the events of all objects.
static void log_failure(struct kube_recorder *r, int status, const struct gs_error *err)
{
    int64_t now_ns = gs_mono_ns();
    if (r->logged_ns && r->logged_status == status && now_ns - r->logged_ns < LOG_PAUSE_NS)
        return;
    gs_warn("events", "events cannot be written: %s", gs_error_message(err));
    r->logged_status = status;
    r->logged_ns = now_ns;
}

static void entry_sent(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct entry *e = arg;
    bool failed = err != NULL;
    if (failed && status != 404)
        log_failure(e->recorder, status, err);
    gs_error_free(err);
    e->request = NULL;
    if (failed && e->created && status == 404) { // expired or deleted meanwhile: create it again
        e->created = false;
        e->dirty = true;
        codec_json_del(e->event, "metadata", "resourceVersion", NULL);
    } else if (failed) {
        event_entry_free(e); // events are best effort; the next one is another attempt
        return;
    } else {
        e->created = true;
    }
    if (e->dirty)
        entry_send(e);
}

static void entry_send(struct entry *e)
{
    struct kube_client *c = e->recorder->client;
    const char *ns = kube_namespace(e->event);
    e->dirty = false;
    if (!e->created) {
        e->request = kube_create(c, KUBE_EVENTS, ns, e->event, entry_sent, e);
        return;
    }
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_object_set(patch, "count", json_object_get(e->event, "count"));
    json_object_set(patch, "lastTimestamp", json_object_get(e->event, "lastTimestamp"));
    json_object_set(patch, "message", json_object_get(e->event, "message"));
    e->request = kube_patch(c, KUBE_EVENTS, ns, kube_name(e->event), NULL, KUBE_MERGE_PATCH, patch,
                            entry_sent, e);
}

// --- recording ---

static json_t *involved_object(const json_t *about)
{
    json_t *o = json_object();
    codec_json_set_str(o, "kind", kube_kind(about));
    codec_json_set_str(o, "namespace", kube_namespace(about));
    codec_json_set_str(o, "name", kube_name(about));
    codec_json_set_str(o, "uid", kube_uid(about));
    codec_json_set_str(o, "apiVersion", kube_api_version(about));
    codec_json_set_str(o, "resourceVersion", kube_resource_version(about));
    return o;
}

static char *event_name(struct kube_recorder *r, const json_t *about)
{
    int64_t now = gs_unix_us() * 1000;
    if (now <= r->last_name_ns)
        now = r->last_name_ns + 1;
    r->last_name_ns = now;
    const char *name = kube_name(about);
    return gs_format("%s.%llx", name ? name : "unknown", (unsigned long long)now);
}

static json_t *event_new(struct kube_recorder *r, const json_t *about, const char *type,
                         const char *reason, const char *message)
{
    char now[GS_RFC3339_SIZE];
    gs_format_rfc3339(gs_unix_ms(), now);
    const char *ns = kube_namespace(about);
    GS_AUTO_FREE char *name = event_name(r, about);
    json_t *e = json_object();
    codec_json_set_str(e, "kind", "Event");
    codec_json_set_str(e, "apiVersion", "v1");
    codec_json_set(e, json_string(name), "metadata", "name", NULL);
    codec_json_set(e, json_string(ns ? ns : "default"), "metadata", "namespace", NULL);
    json_object_set_new(e, "involvedObject", involved_object(about));
    codec_json_set_str(e, "type", type);
    codec_json_set_str(e, "reason", reason);
    codec_json_set_str(e, "message", message);
    codec_json_set_str(e, "firstTimestamp", now);
    codec_json_set_str(e, "lastTimestamp", now);
    codec_json_set_int(e, "count", 1);
    codec_json_set(e, json_string(r->component), "source", "component", NULL);
    if (r->host)
        codec_json_set(e, json_string(r->host), "source", "host", NULL);
    codec_json_set_str(e, "reportingComponent", r->component);
    codec_json_set_str(e, "reportingInstance", r->host ? r->host : "");
    return e;
}

static void entry_repeat(struct entry *e, const char *message)
{
    char now[GS_RFC3339_SIZE];
    codec_json_set_str(e->event, "lastTimestamp", gs_format_rfc3339(gs_unix_ms(), now));
    codec_json_set_int(e->event, "count", codec_json_int(e->event, 1, "count", NULL) + 1);
    codec_json_set_str(e->event, "message", message);
    entry_unlink(e);
    entry_link(e);
}

static struct entry *entry_new(struct kube_recorder *r, const char *key, json_t *event)
{
    if (gs_hmap_len(r->entries) >= ENTRIES_MAX)
        event_entry_free(r->oldest);
    struct entry *e = gs_alloc(sizeof(*e));
    e->recorder = r;
    e->event = event;
    e->key = gs_strdup(key);
    gs_hmap_put_str(r->entries, e->key, e);
    entry_link(e);
    return e;
}

// Truncates at the start of a character, so that the text stays valid UTF-8.
static void cut_message(char *message)
{
    size_t n = strlen(message);
    if (n <= MESSAGE_MAX)
        return;
    n = MESSAGE_MAX;
    while (n > 0 && ((unsigned char)message[n] & 0xc0) == 0x80)
        n--;
    message[n] = '\0';
}

void kube_event(struct kube_recorder *r, const json_t *about, const char *type, const char *reason,
                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);
    int64_t now_ms = gs_mono_ns() / GS_NS_PER_MS;
    const char *uid = kube_uid(about), *ns = kube_namespace(about), *name = kube_name(about);
    GS_AUTO_FREE char *object = gs_format("%s/%s/%s/%s/%s", kube_kind(about), ns ? ns : "",
                                          name ? name : "", uid ? uid : "", type);
    GS_AUTO_FREE char *key = gs_format("%s/%s", object, reason);
    if (kube_event_limit_combine(r->limit, key, message, now_ms)) {
        char *combined = gs_format("(combined from similar events): %s", message);
        free(message);
        message = combined;
    } else {
        char *own = gs_format("%s/%s", key, message);
        free(key);
        key = own;
    }
    cut_message(message);

    struct entry *e = gs_hmap_get_str(r->entries, key);
    if (e)
        entry_repeat(e, message);
    else
        e = entry_new(r, key, event_new(r, about, type, reason, message));
    // The count of the next write includes repeats that are not written now.
    if (!kube_event_limit_allow(r->limit, object, now_ms))
        return;
    e->dirty = true;
    if (!e->request)
        entry_send(e);
}
