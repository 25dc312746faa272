// SPDX-License-Identifier: Apache-2.0
// APIServices with a Service: each has a client of its own, so that a slow server delays nobody
// else, and is checked when a Service or its endpoints change and every few seconds. Source:
// kube-aggregator's availability controller.
#include "local/api/aggregate.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/encoding.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/cluster.h"
#include "net/tls/tls.h"

#include <inttypes.h>

#define CHECK_EVERY_MS   10000
#define CHECK_TIMEOUT_MS 5000
#define MAX_CHECK_REPLY  ((size_t)4 << 20)
#define MAX_APISERVICES  100
#define DEFAULT_PORT     443

struct server {
    struct local_api_aggregation *owner;
    char *name, *group, *version; // of the APIService
    char *url;                    // NULL: no address
    json_t *spec;
    struct local_api_proxy proxy;
    struct http_op *check;
    bool available, seen;
};

struct local_api_aggregation {
    struct local_api *api;
    struct server **items;
    size_t len, cap;
    struct gs_timer *soon, *often;
    struct local_api_front_proxy *front;
};

static size_t bucket_named(const char *group, const char *plural)
{
    return local_api_resource_bucket(local_api_resource_find(group, "v1", plural));
}

static size_t apiservices_bucket(void)
{
    return bucket_named("apiregistration.k8s.io", "apiservices");
}

static const json_t *stored(const struct local_api *api, size_t bucket, const char *ns,
                            const char *name)
{
    const struct local_api_store_version *v = local_api_store_get(api->store, bucket, ns, name);
    return v ? v->tree : NULL;
}

// --- conditions ---

static void set_available(json_t *obj, bool available, const char *reason, const char *message)
{
    json_t *conditions = codec_json_get(obj, "status", "conditions", NULL);

    if (!json_is_array(conditions)) {
        conditions = json_array();
        codec_json_set(obj, conditions, "status", "conditions", NULL);
    }
    kube_set_condition(conditions, "Available", available ? "True" : "False", reason, message,
                       gs_unix_ms());
}

static void store_condition(struct server *s, bool available, const char *reason,
                            const char *message)
{
    struct local_api *api = s->owner->api;
    const json_t *obj = stored(api, apiservices_bucket(), "", s->name);

    s->available = available;
    if (!obj)
        return;
    json_t *next = json_deep_copy(obj);
    set_available(next, available, reason, message);
    if (json_equal(next, obj)) {
        json_decref(next);
        return;
    }
    GS_AUTO_ERROR struct gs_error *err =
        local_api_store_put(api->store, apiservices_bucket(), next, NULL);
    if (err)
        gs_warn("api", "APIService %s: %s", s->name, gs_error_message(err));
}

static void unavailable(struct server *s, const char *reason, const char *fmt, ...) GS_PRINTF(3, 4);
static void unavailable(struct server *s, const char *reason, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);
    store_condition(s, false, reason, message);
}

// --- the address of a server ---

static const json_t *service_port(const json_t *service, int64_t number)
{
    size_t i;
    json_t *port;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port)
        if (codec_json_int(port, 0, "port", NULL) == number)
            return port;
    return NULL;
}

static bool has_addresses(const json_t *endpoints)
{
    size_t i;
    json_t *subset;

    json_array_foreach (json_object_get(endpoints, "subsets"), i, subset)
        if (json_array_size(json_object_get(subset, "addresses")) > 0)
            return true;
    return false;
}

// Caller frees. NULL: the server is unavailable, which the condition then says.
static char *find_address(struct server *s)
{
    const struct local_api *api = s->owner->api;
    const char *ns = codec_json_str(s->spec, "service", "namespace", NULL);
    const char *name = codec_json_str(s->spec, "service", "name", NULL);
    int64_t number = codec_json_int(s->spec, DEFAULT_PORT, "service", "port", NULL);
    const json_t *service = stored(api, bucket_named("", "services"), ns, name);

    if (!service) {
        unavailable(s, "ServiceNotFound", "service/%s in \"%s\" is not present", name, ns);
        return NULL;
    }
    const json_t *port = service_port(service, number);
    const char *ip = codec_json_str(service, "spec", "clusterIP", NULL);
    if (!port || !ip || !local_is_cluster_ip(ip)) {
        unavailable(s, "ServicePortError", "service/%s in \"%s\" is not listening on port %" PRId64,
                    name, ns, number);
        return NULL;
    }
    const json_t *endpoints = stored(api, bucket_named("", "endpoints"), ns, name);
    if (!endpoints) {
        unavailable(s, "EndpointsNotFound", "cannot find endpoints for service/%s in \"%s\"", name,
                    ns);
        return NULL;
    }
    if (!has_addresses(endpoints)) {
        const char *port_name = codec_json_str(port, "name", NULL);
        unavailable(s, "MissingEndpoints",
                    "endpoints for service/%s in \"%s\" have no addresses with port name \"%s\"",
                    name, ns, port_name ? port_name : "");
        return NULL;
    }
    return gs_format("https://%s:%d", ip, kube_port(service, (int)number));
}

// --- clients ---

static struct gs_error *make_client(struct server *s)
{
    const char *bundle = codec_json_str(s->spec, "caBundle", NULL);
    GS_AUTO_FREE char *host =
        gs_format("%s.%s.svc", codec_json_str(s->spec, "service", "name", NULL),
                  codec_json_str(s->spec, "service", "namespace", NULL));
    GS_AUTO_BUF struct gs_buf ca = {0};
    struct gs_error *err = NULL;

    if (bundle && *bundle)
        err = codec_base64_decode(gs_slice_of(bundle), &ca);
    if (err)
        return err;
    const struct http_client_config cfg = {
        .base_url = s->url,
        .ca_pem = ca.data,
        .cert_pem = local_api_front_proxy_identity(s->owner->front)->cert_pem,
        .key_pem = local_api_front_proxy_identity(s->owner->front)->key_pem,
        .insecure = codec_json_bool(s->spec, false, "insecureSkipTLSVerify", NULL),
        .server_name = host,
        .proxy = "",
        .user_agent = "gpuscale-aggregator",
    };
    return http_client_new_curl(s->owner->api->loop, &cfg, &s->proxy.client);
}

static void drop_client(struct server *s)
{
    http_op_cancel(s->check);
    s->check = NULL;
    s->available = false;
    local_api_proxy_finish(&s->proxy);
    free(s->url);
    s->url = NULL;
}

// --- checks ---

static void on_checked(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct server *s = arg;
    GS_AUTO_ERROR struct gs_error *owned = err;

    s->check = NULL;
    if (err)
        unavailable(s, "FailedDiscoveryCheck", "failing or missing response from %s/apis/%s/%s: %s",
                    s->url, s->group, s->version, gs_error_message(err));
    else if (response->status < 200 || response->status > 299)
        unavailable(s, "FailedDiscoveryCheck",
                    "failing or missing response from %s/apis/%s/%s: bad status from "
                    "%s/apis/%s/%s: %d",
                    s->url, s->group, s->version, s->url, s->group, s->version, response->status);
    else
        store_condition(s, true, "Passed", "all checks passed");
}

static void start_check(struct server *s)
{
    // Who checks, for servers that serve nothing to anonymous users.
    static const struct http_header headers[] = {
        {"X-Remote-User", "system:kube-aggregator"}, {"X-Remote-Group", "system:masters"}, {0}};
    GS_AUTO_FREE char *path = gs_format("/apis/%s/%s", s->group, s->version);

    if (s->check)
        return;
    s->check = http_send(s->proxy.client,
                         &(struct http_request){.path = path,
                                                .headers = headers,
                                                .timeout_ms = CHECK_TIMEOUT_MS,
                                                .max_reply = MAX_CHECK_REPLY},
                         &(struct http_callbacks){.on_done = on_checked}, s);
}

static void sync_server(struct server *s)
{
    char *url = find_address(s);

    if (!gs_streq(url, s->url))
        drop_client(s);
    free(s->url);
    s->url = url;
    if (!url)
        return;
    GS_AUTO_ERROR struct gs_error *err = s->proxy.client ? NULL : make_client(s);
    if (err)
        unavailable(s, "FailedDiscoveryCheck", "%s", gs_error_message(err));
    else
        start_check(s);
}

// --- the set ---

static bool has_service(const json_t *obj)
{
    return codec_json_str(obj, "spec", "service", "name", NULL) &&
           codec_json_str(obj, "spec", "service", "namespace", NULL) &&
           codec_json_str(obj, "spec", "group", NULL) &&
           codec_json_str(obj, "spec", "version", NULL);
}

static void server_free(struct server *s)
{
    drop_client(s);
    json_decref(s->spec);
    free(s->name);
    free(s->group);
    free(s->version);
    free(s);
}

static struct server *find_server(const struct local_api_aggregation *a, const char *name)
{
    for (size_t i = 0; i < a->len; i++)
        if (strcmp(a->items[i]->name, name) == 0)
            return a->items[i];
    return NULL;
}

static void see_apiservice(struct local_api_aggregation *a, const json_t *obj)
{
    json_t *spec = json_object_get(obj, "spec");
    struct server *s = find_server(a, kube_name(obj));

    if (!has_service(obj) || (!s && a->len == MAX_APISERVICES))
        return;
    if (!s) {
        s = gs_alloc(sizeof *s);
        s->owner = a;
        s->name = gs_strdup(kube_name(obj));
        gs_grow(&a->items, &a->cap, a->len, sizeof *a->items);
        a->items[a->len++] = s;
    }
    s->seen = true;
    if (codec_json_same(s->spec, spec))
        return;
    drop_client(s);
    json_decref(s->spec);
    s->spec = json_incref(spec);
    free(s->group);
    free(s->version);
    s->group = gs_strdup(codec_json_str(spec, "group", NULL));
    s->version = gs_strdup(codec_json_str(spec, "version", NULL));
}

static void read_apiservices(struct local_api_aggregation *a)
{
    const struct local_api_store_version *v;
    size_t kept = 0;

    for (size_t i = 0; i < a->len; i++)
        a->items[i]->seen = false;
    for (size_t i = 0; (v = local_api_store_at(a->api->store, apiservices_bucket(), i, NULL, NULL));
         i++)
        see_apiservice(a, v->tree);
    for (size_t i = 0; i < a->len; i++)
        if (a->items[i]->seen)
            a->items[kept++] = a->items[i];
        else
            server_free(a->items[i]);
    a->len = kept;
}

static void on_sync(void *arg)
{
    struct local_api_aggregation *a = arg;

    local_api_front_proxy_publish(a->front);
    local_api_sync_apiservices(a->api);
    read_apiservices(a);
    for (size_t i = 0; i < a->len; i++)
        sync_server(a->items[i]);
    if (a->len > 0 || a->api->n_mounts > 0)
        gs_timer_start(a->often, on_sync, CHECK_EVERY_MS);
    else
        gs_timer_stop(a->often);
}

struct local_api_aggregation *local_api_aggregation_new(struct local_api *api)
{
    struct local_api_aggregation *a = gs_alloc(sizeof *a);

    a->api = api;
    a->front = local_api_front_proxy_new(api);
    a->soon = gs_timer_new(api->loop, a);
    a->often = gs_timer_new(api->loop, a);
    gs_timer_unref(a->often);
    gs_timer_start(a->soon, on_sync, 0); // after the store was opened
    return a;
}

void local_api_aggregation_free(struct local_api_aggregation *a)
{
    if (!a)
        return;
    gs_timer_free(a->soon);
    gs_timer_free(a->often);
    for (size_t i = 0; i < a->len; i++)
        server_free(a->items[i]);
    free(a->items);
    local_api_front_proxy_free(a->front);
    free(a);
}

void local_api_aggregation_changed(struct local_api_aggregation *a,
                                   const struct local_api_store_change *change)
{
    bool of_servers = a->len > 0 && (change->bucket == bucket_named("", "services") ||
                                     change->bucket == bucket_named("", "endpoints"));
    bool of_proxy = change->bucket == bucket_named("", "configmaps") &&
                    local_api_front_proxy_is_changed(a->front);

    if (of_servers || of_proxy || change->bucket == apiservices_bucket())
        gs_timer_start(a->soon, on_sync, 0);
}

void local_api_aggregation_mounted(struct local_api_aggregation *a)
{
    gs_timer_start(a->soon, on_sync, 0);
}

struct gs_error *local_api_aggregation_publish(struct local_api_aggregation *a)
{
    struct gs_error *err = local_api_front_proxy_make(a->front);

    if (!err)
        local_api_front_proxy_publish(a->front);
    return err;
}

const char *local_api_front_proxy_authority(const struct local_api *api)
{
    return local_api_front_proxy_ca(api->aggregation->front);
}

bool local_api_aggregate(struct local_api_aggregation *a, struct http_exchange *x,
                         const char *group, const char *version)
{
    for (size_t i = 0; i < a->len; i++) {
        struct server *s = a->items[i];
        if (strcmp(s->group, group) != 0 || strcmp(s->version, version) != 0)
            continue;
        if (s->available && s->proxy.client)
            local_api_proxy_forward(&s->proxy, x, NULL);
        else
            http_reply_text(x, 503, "service unavailable\n");
        return true;
    }
    return false;
}

bool local_api_nth_aggregated(const struct local_api_aggregation *a, size_t i,
                              const char **ret_group, const char **ret_version)
{
    if (i >= a->len)
        return false;
    *ret_group = a->items[i]->group;
    *ret_version = a->items[i]->version;
    return true;
}

// --- the objects ---

void local_api_default_apiservice(json_t *obj, const json_t *old)
{
    json_t *service = codec_json_get(obj, "spec", "service", NULL);

    if (json_is_object(service))
        local_api_default_int(service, "port", DEFAULT_PORT);
}

static void check_number(const json_t *obj, const char *key, int64_t limit,
                         struct kube_field_errors *errors)
{
    int64_t n = codec_json_int(obj, 0, "spec", key, NULL);
    GS_AUTO_FREE char *field = gs_format("spec.%s", key);
    GS_AUTO_FREE char *value = gs_format("%" PRId64, n);

    if (n <= 0 || n > limit)
        kube_field_error(errors, "FieldValueInvalid", field, value,
                         "must be positive and less than %" PRId64, limit);
}

void local_api_validate_apiservice(const json_t *obj, const json_t *old,
                                   struct kube_field_errors *errors)
{
    const char *group = codec_json_str(obj, "spec", "group", NULL);
    const char *version = codec_json_str(obj, "spec", "version", NULL);
    const char *bundle = codec_json_str(obj, "spec", "caBundle", NULL);
    GS_AUTO_FREE char *name = gs_format("%s.%s", version ? version : "", group ? group : "");

    if (!gs_streq(kube_name(obj), name))
        local_api_invalid(errors, "metadata.name", kube_name(obj) ? kube_name(obj) : "",
                          "must be `spec.version+\".\"+spec.group`: \"%s\"", name);
    check_number(obj, "groupPriorityMinimum", 20000, errors);
    check_number(obj, "versionPriority", 1000, errors);
    if (bundle && *bundle && codec_json_bool(obj, false, "spec", "insecureSkipTLSVerify", NULL))
        kube_field_error(errors, "FieldValueInvalid", "spec.insecureSkipTLSVerify", "true",
                         "may not be true if caBundle is present");
}

void local_api_complete_apiservice(const struct local_api_request *r, json_t *obj,
                                   const json_t *old)
{
    if (!has_service(obj))
        set_available(obj, true, "Local", "Local APIServices are always available");
}
