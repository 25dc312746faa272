// SPDX-License-Identifier: Apache-2.0
// What the server writes of its own accord: the first namespaces, the event that says that nothing
// acts on a kind, and the removal of old events.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#include <inttypes.h>

#define EVENT_TTL_MS      ((int64_t)3600 * 1000) // kube-apiserver's --event-ttl
#define MAX_EVENTS        5000
#define KEPT_EVENTS       4500 // when there were too many
#define MAX_EVENTS_MEMORY ((size_t)48 << 20)
#define NOTICE_PAUSE_MS   60000

static size_t bucket_of(const char *plural)
{
    return local_api_resource_bucket(local_api_resource_find("", "v1", plural));
}

json_t *local_api_base_object(const char *kind, const char *api_version, const char *ns,
                              const char *name)
{
    json_t *obj = json_object();
    GS_AUTO_FREE char *uid = local_api_new_uid();

    codec_json_set_str(obj, "kind", kind);
    codec_json_set_str(obj, "apiVersion", api_version);
    codec_json_set(obj, json_string(name), "metadata", "name", NULL);
    json_t *meta = json_object_get(obj, "metadata");
    codec_json_set_str(meta, "namespace", ns);
    codec_json_set_str(meta, "uid", uid);
    local_api_now(meta, "creationTimestamp");
    return obj;
}

void local_api_put_base_object(struct local_api *api, const char *group, const char *plural,
                               json_t *obj)
{
    size_t bucket = local_api_resource_bucket(local_api_resource_find(group, "v1", plural));
    GS_AUTO_ERROR struct gs_error *err = local_api_store_put(api->store, bucket, obj, NULL);
    if (err)
        gs_warn("api", "%s: %s", plural, gs_error_message(err));
}

void local_api_make_base_objects(struct local_api *api)
{
    static const char *const names[] = {"default", "kube-node-lease", "kube-public", "kube-system"};
    const struct local_api_resource *namespaces = local_api_resource_find("", "v1", "namespaces");

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        if (local_api_store_get(api->store, local_api_resource_bucket(namespaces), "", names[i]))
            continue;
        json_t *ns = local_api_base_object("Namespace", "v1", NULL, names[i]);
        namespaces->set_defaults(ns, NULL);
        local_api_put_base_object(api, "", "namespaces", ns);
    }
    local_api_make_priority_classes(api);
    local_api_make_ingress_classes(api);
    local_api_make_stand_ins(api);
    const char *name;
    for (size_t i = 0; i < local_api_store_len(api->store, bucket_of("namespaces")); i++) {
        local_api_store_at(api->store, bucket_of("namespaces"), i, NULL, &name);
        local_api_make_account(api, name);
    }
}

// --- nothing acts on it ---

static json_t *reference_to(const json_t *obj)
{
    json_t *ref = json_object();

    codec_json_set_str(ref, "kind", kube_kind(obj));
    codec_json_set_str(ref, "namespace", kube_namespace(obj));
    codec_json_set_str(ref, "name", kube_name(obj));
    codec_json_set_str(ref, "uid", kube_uid(obj));
    codec_json_set_str(ref, "apiVersion", kube_api_version(obj));
    codec_json_set_str(ref, "resourceVersion", kube_resource_version(obj));
    return ref;
}

static json_t *make_warning(struct local_api *api, const json_t *about, const char *reason,
                            const char *message)
{
    const char *ns = kube_namespace(about) ? kube_namespace(about) : "default";
    GS_AUTO_FREE char *name =
        gs_format("%.200s.%" PRIx64, kube_name(about), (uint64_t)gs_unix_us() + api->event_seq++);
    json_t *event = local_api_base_object("Event", "v1", ns, name);

    json_object_set_new(event, "involvedObject", reference_to(about));
    codec_json_set_str(event, "reason", reason);
    codec_json_set_str(event, "message", message);
    codec_json_set(event, json_string("gpuscale-api"), "source", "component", NULL);
    codec_json_set(event, json_string(api->node_name), "source", "host", NULL);
    local_api_now(event, "firstTimestamp");
    local_api_now(event, "lastTimestamp");
    codec_json_set_int(event, "count", 1);
    codec_json_set_str(event, "type", "Warning");
    codec_json_set_str(event, "reportingComponent", "gpuscale-api");
    codec_json_set_str(event, "reportingInstance", api->node_name);
    return event;
}

bool local_api_is_from_helm(const struct local_api_request *r)
{
    const char *agent = r->x ? http_header(r->x, "User-Agent") : NULL;

    return agent && gs_starts(agent, "Helm/");
}

void local_api_notice(const struct local_api_request *r, const char *topic, const char *text)
{
    struct local_api *api = r->api;
    int64_t now_ms = gs_mono_ns() / GS_NS_PER_MS;
    int64_t said_ms = codec_json_int(api->noticed, INT64_MIN, topic, NULL);

    if (said_ms != INT64_MIN && now_ms - said_ms < NOTICE_PAUSE_MS)
        return;
    local_api_warning(r, "%s", text);
    if (!api->noticed)
        api->noticed = json_object();
    codec_json_set_int(api->noticed, topic, now_ms);
}

// Objects of charts that need them elsewhere: who installs a chart cannot leave them out, and does
// not miss their effect.
static bool belongs_to_charts(const struct local_api_resource *r)
{
    return strcmp(r->group, "rbac.authorization.k8s.io") == 0 ||
           strcmp(r->group, "admissionregistration.k8s.io") == 0;
}

void local_api_notice_inert(const struct local_api_request *r, const json_t *obj)
{
    GS_AUTO_BUF struct gs_buf kind = {0};

    local_api_resource_kind_name(r->res, &kind);
    GS_AUTO_FREE char *message =
        gs_format("%s \"%s\" is stored, but nothing acts on it here", kind.data, kube_name(obj));
    if (!local_api_is_from_helm(r) || !belongs_to_charts(r->res))
        local_api_notice(r, kind.data, message);
    if (!r->dry_run)
        local_api_put_base_object(r->api, "", "events",
                                  make_warning(r->api, obj, "NothingActsOnKind", message));
}

// --- old events ---

static int64_t event_time_ms(const json_t *event)
{
    static const char *const keys[] = {"lastTimestamp", "eventTime", "firstTimestamp"};
    const char *series = codec_json_str(event, "series", "lastObservedTime", NULL);
    const char *text = series;
    int64_t ms = 0;

    for (size_t i = 0; !text && i < GS_ARRAY_LEN(keys); i++)
        text = codec_json_str(event, keys[i], NULL);
    if (!text)
        text = kube_created(event);
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(text), &ms);
    return err ? 0 : ms;
}

struct aged {
    int64_t ms;
    char *ns, *name;
};

static int by_age(const void *a, const void *b)
{
    const struct aged *x = a, *y = b;
    return x->ms < y->ms ? -1 : x->ms > y->ms;
}

static void drop_event(struct local_api *api, const struct aged *e)
{
    GS_AUTO_ERROR struct gs_error *err =
        local_api_store_delete(api->store, bucket_of("events"), e->ns, e->name);
    if (err)
        gs_warn("api", "removing an old event: %s", gs_error_message(err));
}

void local_api_sweep_events(struct local_api *api)
{
    size_t bucket = bucket_of("events");
    size_t n = local_api_store_len(api->store, bucket);
    size_t surplus = n > MAX_EVENTS ? n - KEPT_EVENTS : 0;
    bool too_large = local_api_store_memory(api->store, bucket) > MAX_EVENTS_MEMORY;
    int64_t limit = gs_unix_ms() - EVENT_TTL_MS;
    struct aged *events = gs_alloc_array(n + 1, sizeof *events);

    for (size_t i = 0; i < n; i++) {
        const char *ns, *name;
        const struct local_api_store_version *v =
            local_api_store_at(api->store, bucket, i, &ns, &name);
        events[i] = (struct aged){event_time_ms(v->tree), gs_strdup(ns), gs_strdup(name)};
    }
    qsort(events, n, sizeof *events, by_age);
    for (size_t i = 0; i < n; i++) {
        bool large = local_api_store_memory(api->store, bucket) > MAX_EVENTS_MEMORY / 2;
        if (i < surplus || events[i].ms < limit || (too_large && large))
            drop_event(api, &events[i]);
        free(events[i].ns);
        free(events[i].name);
    }
    free(events);
}

void local_api_bound_events(const struct local_api_request *r)
{
    size_t bucket = bucket_of("events");

    if (local_api_resource_bucket(r->res) == bucket &&
        (local_api_store_len(r->api->store, bucket) > MAX_EVENTS ||
         local_api_store_memory(r->api->store, bucket) > MAX_EVENTS_MEMORY))
        local_api_sweep_events(r->api);
}
