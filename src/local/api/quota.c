// SPDX-License-Identifier: Apache-2.0
// ResourceQuotas: the admission of new objects, and the status. The usage is counted again each
// time, from the objects of the namespace. Source: Kubernetes 1.36, pkg/quota.
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/api/admission.h"
#include "local/api/table.h"
#include "local/pod.h"

static size_t quota_bucket(void)
{
    return local_api_resource_bucket(local_api_resource_find("", "v1", "resourcequotas"));
}

// --- scopes ---

static bool scope_matches(const char *scope, const char *op, const json_t *values,
                          const json_t *pod)
{
    bool terminating = json_is_integer(codec_json_get(pod, "spec", "activeDeadlineSeconds", NULL));
    bool best_effort = gs_streq(codec_json_str(pod, "status", "qosClass", NULL), "BestEffort");
    const char *class = codec_json_str(pod, "spec", "priorityClassName", NULL);

    if (gs_streq(scope, "Terminating"))
        return terminating;
    if (gs_streq(scope, "NotTerminating"))
        return !terminating;
    if (gs_streq(scope, "BestEffort"))
        return best_effort;
    if (gs_streq(scope, "NotBestEffort"))
        return !best_effort;
    if (!gs_streq(scope, "PriorityClass"))
        return false;
    if (gs_streq(op, "In"))
        return class && codec_json_has_string(values, class);
    if (gs_streq(op, "NotIn"))
        return !class || !codec_json_has_string(values, class);
    return gs_streq(op, "DoesNotExist") ? !class || !*class : class && *class;
}

// Whether all scopes of the quota select the pod.
static bool selects(const json_t *quota, const json_t *pod)
{
    size_t i;
    json_t *scope;

    json_array_foreach (codec_json_get(quota, "spec", "scopes", NULL), i, scope)
        if (!scope_matches(json_string_value(scope), "Exists", NULL, pod))
            return false;
    json_array_foreach (codec_json_get(quota, "spec", "scopeSelector", "matchExpressions", NULL), i,
                        scope)
        if (!scope_matches(codec_json_str(scope, "scopeName", NULL),
                           codec_json_str(scope, "operator", NULL),
                           json_object_get(scope, "values"), pod))
            return false;
    return true;
}

static bool has_scopes(const json_t *quota)
{
    return json_array_size(codec_json_get(quota, "spec", "scopes", NULL)) > 0 ||
           codec_json_get(quota, "spec", "scopeSelector", NULL);
}

// --- usage of one object ---

// The resource of "requests.NAME", "limits.NAME", "cpu" or "memory". NULL: another name.
static const char *compute_resource(const char *name, const char **ret_kind)
{
    *ret_kind = gs_starts(name, "limits.") ? "limits" : "requests";
    if (gs_starts(name, "requests."))
        return name + strlen("requests.");
    if (gs_starts(name, "limits."))
        return name + strlen("limits.");
    return strcmp(name, "cpu") == 0 || strcmp(name, "memory") == 0 ||
                   strcmp(name, "ephemeral-storage") == 0
               ? name
               : NULL;
}

static int64_t usage_of_pod(const char *name, const json_t *pod)
{
    const char *kind, *resource = compute_resource(name, &kind);
    int64_t milli = 0;

    if (kube_pod_has_ended(pod))
        return 0;
    if (strcmp(name, "pods") == 0)
        return 1000;
    if (!resource || strcmp(resource, "storage") == 0)
        return 0;
    return local_api_pod_amount(pod, kind, resource, &milli) ? milli : 0;
}

static int64_t usage_of_service(const char *name, const json_t *service)
{
    const char *type = codec_json_str(service, "spec", "type", NULL);
    int64_t ports = (int64_t)json_array_size(codec_json_get(service, "spec", "ports", NULL));
    bool balancer = gs_streq(type, "LoadBalancer");

    if (strcmp(name, "services.loadbalancers") == 0)
        return balancer ? 1000 : 0;
    if (strcmp(name, "services.nodeports") == 0)
        return gs_streq(type, "NodePort") ||
                       (balancer && codec_json_bool(service, true, "spec",
                                                    "allocateLoadBalancerNodePorts", NULL))
                   ? ports * 1000
                   : 0;
    return 0;
}

// How much an object counts for a name of spec.hard, in thousandths.
static int64_t usage_of(const struct local_api_resource *res, const char *name, const json_t *obj)
{
    GS_AUTO_BUF struct gs_buf full = {0};
    bool core = *res->group == '\0';
    int64_t milli = 0;

    gs_buf_add_str(&full, "count/");
    local_api_resource_name(res, &full);
    if (strcmp(name, full.data) == 0)
        return 1000;
    if (core && strcmp(res->plural, "pods") == 0)
        return usage_of_pod(name, obj);
    if (core && strcmp(name, res->plural) == 0)
        return 1000;
    if (core && strcmp(res->plural, "services") == 0)
        return usage_of_service(name, obj);
    if (core && strcmp(res->plural, "persistentvolumeclaims") == 0 &&
        strcmp(name, "requests.storage") == 0 &&
        local_api_container_amount(json_object_get(obj, "spec"), "requests", "storage", &milli))
        return milli;
    return 0;
}

// --- usage of a namespace ---

static int64_t usage_of_bucket(const struct local_api *api, const json_t *quota,
                               const struct local_api_resource *res, const char *name)
{
    size_t bucket = local_api_resource_bucket(res);
    const char *quota_ns = kube_namespace(quota), *ns;
    const struct local_api_store_version *v;
    bool pods = !*res->group && strcmp(res->plural, "pods") == 0;
    int64_t sum = 0;

    for (size_t i = local_api_store_seek(api->store, bucket, quota_ns, "");
         (v = local_api_store_at(api->store, bucket, i, &ns, NULL)) && strcmp(ns, quota_ns) == 0;
         i++)
        if (!has_scopes(quota) || (pods && selects(quota, v->tree)))
            sum = gs_add_clamped(sum, usage_of(res, name, v->tree));
    return sum;
}

// True if objects of the resource can count for this name.
static bool concerns(const struct local_api_resource *res, const char *name)
{
    GS_AUTO_BUF struct gs_buf full = {0};
    const char *kind, *resource = compute_resource(name, &kind);

    gs_buf_add_str(&full, "count/");
    local_api_resource_name(res, &full);
    if (strcmp(name, full.data) == 0)
        return true;
    if (*res->group)
        return false;
    if (strcmp(name, "requests.storage") == 0)
        return strcmp(res->plural, "persistentvolumeclaims") == 0;
    if (resource)
        return strcmp(res->plural, "pods") == 0;
    if (gs_starts(name, "services."))
        return strcmp(res->plural, "services") == 0;
    return strcmp(name, res->plural) == 0;
}

static int64_t usage_of_namespace(const struct local_api *api, const json_t *quota,
                                  const char *name)
{
    int64_t sum = 0;

    for (size_t i = 0; i < local_api_n_resources; i++) {
        const struct local_api_resource *res = &local_api_resources[i];
        if (res->namespaced && !res->view_of && concerns(res, name))
            sum = gs_add_clamped(sum, usage_of_bucket(api, quota, res, name));
    }
    return sum;
}

// --- admission ---

struct excess { // the names of spec.hard that a new object would exceed
    struct gs_buf requested, used, limited;
};

static void add_amount(struct gs_buf *out, const char *name, int64_t milli)
{
    char text[KUBE_QUANTITY_SIZE];

    local_api_amount_text(name, milli, text);
    gs_buf_addf(out, "%s%s=%s", out->len ? "," : "", name, text);
}

// Sorted. Caller frees the array.
static const char **names_of(const json_t *hard, size_t *ret_n)
{
    const char **names = gs_alloc_array(json_object_size(hard) + 1, sizeof(*names));
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach ((json_t *)hard, name, value)
        names[n++] = name;
    if (n)
        qsort(names, n, sizeof(*names), gs_compare_texts);
    *ret_n = n;
    return names;
}

// Pods must state what a quota of cpu and memory limits.
static char *missing_amounts(const json_t *hard, const json_t *pod)
{
    static const char *const required[] = {"cpu",    "limits.cpu",   "limits.memory",
                                           "memory", "requests.cpu", "requests.memory"};
    struct gs_buf text = {0};
    size_t k;
    json_t *container;
    int64_t unused;

    for (size_t i = 0; i < GS_ARRAY_LEN(required); i++) {
        const char *kind, *resource = compute_resource(required[i], &kind);
        GS_AUTO_BUF struct gs_buf names = {0};
        if (!json_object_get(hard, required[i]))
            continue;
        json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), k, container)
            if (!local_api_container_amount(container, kind, resource, &unused))
                gs_buf_addf(&names, "%s%s", names.len ? "," : "",
                            codec_json_str(container, "name", NULL));
        if (names.len)
            gs_buf_addf(&text, "%s%s for: %s", text.len ? "; " : "must specify ", required[i],
                        names.data);
    }
    return text.len ? gs_buf_take(&text) : NULL;
}

static json_t *check_excess(const struct local_api_request *r, const json_t *obj,
                            const json_t *quota)
{
    const json_t *hard = codec_json_get(quota, "spec", "hard", NULL);
    GS_AUTO_BUF struct gs_buf requested = {0}, used = {0}, limited = {0};
    size_t n;
    GS_AUTO_FREE const char **names = names_of(hard, &n);

    for (size_t i = 0; i < n; i++) {
        int64_t limit = 0, more = usage_of(r->res, names[i], obj);
        if (more <= 0 || !local_api_amount(json_object_get(hard, names[i]), &limit))
            continue;
        int64_t now = usage_of_namespace(r->api, quota, names[i]);
        if (gs_add_clamped(now, more) <= limit)
            continue;
        add_amount(&requested, names[i], more);
        add_amount(&used, names[i], now);
        add_amount(&limited, names[i], limit);
    }
    if (!requested.len)
        return NULL;
    GS_AUTO_FREE char *why = gs_format("exceeded quota: %s, requested: %s, used: %s, limited: %s",
                                       kube_name(quota), requested.data, used.data, limited.data);
    return local_api_forbidden(r, obj, why);
}

static json_t *check_quota(const struct local_api_request *r, const json_t *obj,
                           const json_t *quota)
{
    bool pod = !*r->res->group && strcmp(r->res->plural, "pods") == 0;

    if (has_scopes(quota) && (!pod || !selects(quota, obj)))
        return NULL;
    GS_AUTO_FREE char *missing =
        pod ? missing_amounts(codec_json_get(quota, "spec", "hard", NULL), obj) : NULL;
    if (!missing)
        return check_excess(r, obj, quota);
    GS_AUTO_FREE char *why = gs_format("failed quota: %s: %s", kube_name(quota), missing);
    return local_api_forbidden(r, obj, why);
}

json_t *local_api_admit_quota(const struct local_api_request *r, const json_t *obj)
{
    const struct local_api_store_version *v;
    const char *ns;
    json_t *status = NULL;

    if (!*r->ns)
        return NULL;
    for (size_t i = local_api_store_seek(r->api->store, quota_bucket(), r->ns, "");
         !status && (v = local_api_store_at(r->api->store, quota_bucket(), i, &ns, NULL)) &&
         strcmp(ns, r->ns) == 0;
         i++)
        status = check_quota(r, obj, v->tree);
    return status;
}

// --- status ---

static json_t *status_of(const struct local_api *api, const json_t *quota)
{
    const json_t *hard = codec_json_get(quota, "spec", "hard", NULL);
    json_t *status = json_object(), *used = json_object(), *value;
    const char *name;

    json_object_foreach ((json_t *)hard, name, value) {
        char text[KUBE_QUANTITY_SIZE];
        local_api_amount_text(name, usage_of_namespace(api, quota, name), text);
        codec_json_set_str(used, name, text);
    }
    json_object_set_new(status, "hard", hard ? json_deep_copy(hard) : json_object());
    json_object_set_new(status, "used", used);
    return status;
}

static void update_all(void *arg)
{
    struct local_api *api = arg;
    const struct local_api_store_version *v;

    for (size_t i = 0; (v = local_api_store_at(api->store, quota_bucket(), i, NULL, NULL)); i++) {
        json_t *status = status_of(api, v->tree);
        if (json_equal(status, json_object_get(v->tree, "status"))) {
            json_decref(status);
            continue;
        }
        json_t *next = json_deep_copy(v->tree);
        json_object_set_new(next, "status", status);
        GS_AUTO_ERROR struct gs_error *err =
            local_api_store_put(api->store, quota_bucket(), next, NULL);
        if (err)
            gs_warn("api", "status of a ResourceQuota: %s", gs_error_message(err));
    }
}

void local_api_quota_changed(struct local_api *api, const struct local_api_store_change *change)
{
    static const char *const frequent[][2] = {{"", "events"}, {"coordination.k8s.io", "leases"}};

    if (!api->quota_timer || local_api_store_len(api->store, quota_bucket()) == 0)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(frequent); i++)
        if (change->bucket == local_api_resource_bucket(
                                  local_api_resource_find(frequent[i][0], "v1", frequent[i][1])))
            return;
    if (!gs_timer_is_active(api->quota_timer))
        gs_timer_start(api->quota_timer, update_all, 0);
}

// --- table ---

static const struct local_api_column columns[] = {
    LOCAL_API_COLUMN_NAME,
    {"Request", "string", 0,
     "Request represents a minimum amount of cpu/memory that a container "
     "may consume."},
    {"Limit", "string", 0,
     "Limits control the maximum amount of cpu/memory that a container may "
     "use."},
    LOCAL_API_COLUMN_AGE,
    {0},
};

static void add_cells(const json_t *obj, json_t *cells, int64_t now_ms)
{
    const json_t *hard = codec_json_get(obj, "status", "hard", NULL);
    struct gs_buf requests = {0}, limits = {0};
    size_t n;
    GS_AUTO_FREE const char **names = names_of(hard, &n);

    for (size_t i = 0; i < n; i++) {
        struct gs_buf *out = gs_starts(names[i], "limits.") ? &limits : &requests;
        const char *used = codec_json_str(obj, "status", "used", names[i], NULL);
        const char *most = codec_json_str(hard, names[i], NULL);
        gs_buf_addf(out, "%s%s: %s/%s", out->len ? ", " : "", names[i], used ? used : "0",
                    most ? most : "");
    }
    local_api_cell_name(cells, obj);
    local_api_cell_buf(cells, &requests, "");
    local_api_cell_buf(cells, &limits, "");
    local_api_cell_age(cells, obj, now_ms);
}

const struct local_api_table local_api_table_quotas = {columns, add_cells};
