// SPDX-License-Identifier: Apache-2.0
// Audit events (audit.k8s.io/v1) of requests, as kube-apiserver's audit package writes them. Each
// event is a line of JSON. Lines are written at once or, in batch mode, once a second or when 256
// KiB have collected. A request has one event for each stage that the policy includes.
#include "adapter/api/audit.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/json.h"

enum {
    FLUSH_MS = 1000,
    FLUSH_BYTES = 256 * 1024,
    MAX_AGENT = 1024,
    MAX_STATUS = 64 * 1024, // bytes; larger Status bodies are not parsed
    MAX_ADDRESSES = 32,
};
#define MAX_OBJECT ((size_t)1024 * 1024)

struct adapter_api_audit {
    struct adapter_api_audit_policy *policy;
    struct adapter_api_audit_log *log;
    struct gs_buf pending;
    struct gs_timer *timer; // NULL: each event is written at once
    bool failing;
    struct adapter_api_audit_stats stats;
};

struct adapter_api_audit_event {
    struct adapter_api_audit *a;
    char *id, *uri, *agent;
    json_t *addresses;
    int64_t received_us;
    // Set by the authorization decision:
    enum adapter_api_audit_level level;
    unsigned omitted;
    char *user_name, *user_uid, *verb, *reason;
    json_t *groups, *extra, *object;
    bool decided, allowed;
    // Set by the response:
    int status;
    json_t *status_body; // a Status
    json_t *body;
};

// --- lines ---

static void flush(struct adapter_api_audit *a)
{
    if (!a->pending.len)
        return;
    struct gs_error *err = adapter_api_audit_log_write(a->log, gs_buf_slice(&a->pending));
    gs_buf_clear(&a->pending);
    if (err && !a->failing)
        gs_err("adapter", "writing the audit log: %s", gs_error_message(err));
    a->failing = err != NULL;
    a->stats.failures += err != NULL;
    gs_error_free(err);
}

static void on_flush_timer(void *arg)
{
    flush(arg);
}

static void add_line(struct adapter_api_audit *a, const json_t *event)
{
    codec_json_dump(event, &a->pending);
    gs_buf_add_char(&a->pending, '\n');
    a->stats.events++;
    if (!a->timer || a->pending.len >= FLUSH_BYTES)
        flush(a);
}

// --- events ---

static json_t *user_of(const struct adapter_api_audit_event *e)
{
    json_t *u = json_object();
    codec_json_set_str(u, "username", e->user_name);
    codec_json_set_str(u, "uid", e->user_uid);
    if (json_array_size(e->groups))
        json_object_set(u, "groups", e->groups);
    if (json_object_size(e->extra))
        json_object_set(u, "extra", e->extra);
    return u;
}

static json_t *response_status(const struct adapter_api_audit_event *e)
{
    static const char *const copied[] = {"status", "message", "reason", "details"};
    json_t *s = json_pack("{s:{}}", "metadata");
    for (size_t i = 0; i < GS_ARRAY_LEN(copied); i++) {
        json_t *value = json_object_get(e->status_body, copied[i]);
        if (value)
            json_object_set(s, copied[i], value);
    }
    codec_json_set_int(s, "code", e->status);
    return s;
}

static void set_time(json_t *event, const char *key, int64_t us)
{
    char text[GS_RFC3339_SIZE];
    codec_json_set_str(event, key, gs_format_rfc3339_micro(us, text));
}

static void emit(const struct adapter_api_audit_event *e, enum adapter_api_audit_stage stage,
                 const char *name)
{
    if (!e->decided || e->level == ADAPTER_API_AUDIT_NONE || (e->omitted & stage))
        return;
    bool over = stage == ADAPTER_API_AUDIT_COMPLETE;
    CODEC_AUTO_JSON json_t *v =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "kind", "Event", "apiVersion",
                  "audit.k8s.io/v1", "level", adapter_api_audit_level_name(e->level), "auditID",
                  e->id, "stage", name, "requestURI", e->uri, "verb", e->verb, "user", user_of(e));
    json_object_set(v, "sourceIPs", e->addresses);
    codec_json_set_str(v, "userAgent", e->agent);
    if (e->object)
        json_object_set(v, "objectRef", e->object);
    if (over)
        json_object_set_new(v, "responseStatus", response_status(e));
    if (over && e->body && e->level == ADAPTER_API_AUDIT_REQUEST_RESPONSE)
        json_object_set(v, "responseObject", e->body);
    set_time(v, "requestReceivedTimestamp", e->received_us);
    set_time(v, "stageTimestamp", over ? gs_unix_us() : e->received_us);
    if (over && e->user_name)
        json_object_set_new(v, "annotations",
                            json_pack("{s:s, s:s}", "authorization.k8s.io/decision",
                                      e->allowed ? "allow" : "forbid",
                                      "authorization.k8s.io/reason", e->reason ? e->reason : ""));
    add_line(e->a, v);
}

// --- the request ---

static void add_address(json_t *list, struct gs_slice address)
{
    size_t i;
    json_t *old;
    address = gs_slice_trim(address);
    json_array_foreach (list, i, old)
        if (gs_slice_eq_str(address, json_string_value(old)))
            return;
    if (address.len && json_array_size(list) < MAX_ADDRESSES)
        json_array_append_new(list, json_stringn(address.data, address.len));
}

// Returns the addresses from proxy headers, then the peer's.
static json_t *addresses_of(const struct http_exchange *x)
{
    json_t *list = json_array();
    const char *forwarded = http_header(x, "X-Forwarded-For");
    const char *real = http_header(x, "X-Real-Ip"), *peer = http_peer(x);
    struct gs_slice rest = gs_slice_of(forwarded ? forwarded : "");
    while (rest.data && forwarded)
        add_address(list, gs_slice_cut(&rest, ','));
    if (real)
        add_address(list, gs_slice_of(real));
    const char *colon = strrchr(peer, ':');
    size_t n = colon ? (size_t)(colon - peer) : strlen(peer);
    bool bracketed = n > 2 && peer[0] == '[' && peer[n - 1] == ']';
    add_address(list, gs_slice_make(peer + bracketed, n - (bracketed ? 2 : 0)));
    return list;
}

static void on_audited_response(void *arg, int status, const char *content_type,
                                struct gs_slice body)
{
    struct adapter_api_audit_event *e = arg;
    e->status = status;
    if (!gs_starts(content_type, "application/json") || !body.len)
        return;
    bool wanted =
        e->decided && e->level == ADAPTER_API_AUDIT_REQUEST_RESPONSE && body.len <= MAX_OBJECT;
    if (!wanted && (status < 400 || body.len > MAX_STATUS))
        return;
    gs_error_free(codec_json_parse(body, false, &e->body));
    if (gs_streq(codec_json_str(e->body, "kind", NULL), "Status"))
        e->status_body = json_incref(e->body);
}

struct adapter_api_audit_event *adapter_api_audit_begin(struct adapter_api_audit *a,
                                                        struct http_exchange *x, const char *id)
{
    struct adapter_api_audit_event *e = gs_alloc(sizeof(*e));
    const char *agent = http_header(x, "User-Agent");
    e->a = a;
    e->received_us = gs_unix_us();
    e->id = gs_strdup(id);
    e->uri = gs_strdup(http_target(x));
    e->agent = agent ? gs_strndup(agent, strnlen(agent, MAX_AGENT)) : NULL;
    e->addresses = addresses_of(x);
    http_on_response(x, on_audited_response, e);
    return e;
}

static json_t *object_of(const struct adapter_api_auth_attributes *attributes)
{
    if (!attributes->is_resource)
        return NULL;
    json_t *o = json_object();
    codec_json_set_str(o, "resource", attributes->resource);
    codec_json_set_str(o, "namespace", attributes->ns);
    codec_json_set_str(o, "name", attributes->name);
    codec_json_set_str(o, "apiGroup", attributes->group);
    codec_json_set_str(o, "apiVersion", attributes->version);
    codec_json_set_str(o, "subresource", attributes->subresource);
    return o;
}

void adapter_api_audit_decided(struct adapter_api_audit_event *e,
                               const struct adapter_api_auth_decision *d)
{
    e->level = adapter_api_audit_policy_level(e->a->policy, d->user, d->attributes, &e->omitted);
    e->decided = true;
    e->allowed = d->allowed;
    e->verb = gs_strdup(d->attributes->verb);
    if (e->level == ADAPTER_API_AUDIT_NONE)
        return;
    e->user_name = gs_strdup(d->user->name);
    e->user_uid = gs_strdup(d->user->uid);
    e->reason = gs_strdup(d->reason);
    e->groups = json_incref(d->user->groups);
    e->extra = json_incref(d->user->extra);
    e->object = object_of(d->attributes);
    emit(e, ADAPTER_API_AUDIT_RECEIVED, "RequestReceived");
}

void adapter_api_audit_end(struct adapter_api_audit_event *e)
{
    if (!e)
        return;
    if (e->status)
        emit(e, ADAPTER_API_AUDIT_COMPLETE, "ResponseComplete");
    char *texts[] = {e->id, e->uri, e->agent, e->user_name, e->user_uid, e->verb, e->reason};
    json_t *values[] = {e->addresses, e->groups, e->extra, e->object, e->status_body, e->body};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++)
        json_decref(values[i]);
    free(e);
}

// --- setup ---

struct gs_error *adapter_api_audit_new(const struct adapter_api_audit_options *o,
                                       struct adapter_api_audit **ret)
{
    struct adapter_api_audit *a = gs_alloc(sizeof(*a));
    struct gs_error *err = adapter_api_audit_policy_load(o->policy_file, &a->policy);
    if (err)
        err = gs_error_wrap(err, "--audit-policy-file");
    if (!err)
        err = adapter_api_audit_log_new(&o->log, &a->log);
    if (err) {
        adapter_api_audit_free(a);
        return err;
    }
    if (o->batch) {
        a->timer = gs_timer_new(o->loop, a);
        gs_timer_repeat(a->timer, on_flush_timer, FLUSH_MS, FLUSH_MS);
    }
    *ret = a;
    return NULL;
}

void adapter_api_audit_free(struct adapter_api_audit *a)
{
    if (!a)
        return;
    flush(a);
    gs_timer_free(a->timer);
    adapter_api_audit_policy_free(a->policy);
    adapter_api_audit_log_free(a->log);
    gs_buf_finish(&a->pending);
    free(a);
}

void adapter_api_audit_stats(const struct adapter_api_audit *a, struct adapter_api_audit_stats *ret)
{
    *ret = a->stats;
}
