// SPDX-License-Identifier: Apache-2.0
// status, scale, ephemeralcontainers, log, exec, binding, eviction, finalize.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

static json_t *stored_object(const struct local_api_request *r)
{
    const struct local_api_store_version *v =
        local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns, r->name);
    return v ? json_incref(v->tree) : NULL;
}

static bool is_method(const struct local_api_request *r, const char *method)
{
    return strcmp(http_method(r->x), method) == 0;
}

static bool is_pods(const struct local_api_request *r)
{
    return *r->res->group == '\0' && strcmp(r->res->plural, "pods") == 0;
}

static void reply_success(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *status = json_object();

    codec_json_set_str(status, "kind", "Status");
    codec_json_set_str(status, "apiVersion", "v1");
    json_object_set_new(status, "metadata", json_object());
    codec_json_set_str(status, "status", "Success");
    codec_json_set_int(status, "code", 201);
    kube_reply_json(r->x, 201, status);
}

// --- status, finalize ---

static json_t *serve_part(const struct local_api_request *r)
{
    if (is_method(r, "GET"))
        return local_api_get(r);
    if (is_method(r, "PUT"))
        return local_api_update(r);
    return is_method(r, "PATCH") ? local_api_patch(r) : local_api_method_not_allowed();
}

// --- scale ---

// Paths of a custom resource are those of its definition.
static json_t *at_path(const struct local_api_request *r, const json_t *obj, const char *key,
                       const char *first, const char *second)
{
    if (!r->res->custom)
        return codec_json_get(obj, first, second, NULL);
    const char *path = codec_json_str(local_api_custom_scale(r->res->custom), key, NULL);
    return path ? local_api_json_path(obj, path) : NULL;
}

static int64_t count_at(const json_t *value, int64_t fallback)
{
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : fallback;
}

// Sets the member at a path of dotted names.
static void set_at_path(json_t *obj, const char *path, json_t *value)
{
    struct gs_slice rest = gs_slice_of(path);

    gs_slice_cut(&rest, '.'); // the path starts with a dot
    while (rest.data) {
        GS_AUTO_FREE char *key = gs_slice_dup(gs_slice_cut(&rest, '.'));
        json_t *next = json_object_get(obj, key);
        if (!rest.data) {
            json_object_set(obj, key, value);
        } else if (!json_is_object(next)) {
            next = json_object();
            json_object_set_new(obj, key, next);
        }
        obj = next;
    }
    json_decref(value);
}

static void set_replicas(const struct local_api_request *r, json_t *obj, int64_t n)
{
    const char *path = r->res->custom ? codec_json_str(local_api_custom_scale(r->res->custom),
                                                       "specReplicasPath", NULL)
                                      : ".spec.replicas";
    set_at_path(obj, path, json_integer(n));
}

static json_t *scale_of(const struct local_api_request *r, const json_t *obj)
{
    static const char *const from_meta[] = {"name", "namespace", "uid", "resourceVersion",
                                            "creationTimestamp"};
    json_t *scale = json_object();
    json_t *meta = json_object();
    struct kube_selector selector = {0};
    GS_AUTO_BUF struct gs_buf text = {0};

    codec_json_set_str(scale, "kind", "Scale");
    codec_json_set_str(scale, "apiVersion", "autoscaling/v1");
    for (size_t i = 0; i < GS_ARRAY_LEN(from_meta); i++)
        codec_json_set_str(meta, from_meta[i], codec_json_str(obj, "metadata", from_meta[i], NULL));
    json_object_set_new(scale, "metadata", meta);
    int64_t wanted =
        count_at(at_path(r, obj, "specReplicasPath", "spec", "replicas"), r->res->custom ? 0 : 1);
    int64_t actual = count_at(at_path(r, obj, "statusReplicasPath", "status", "replicas"), 0);
    codec_json_set(scale, json_integer(wanted), "spec", "replicas", NULL);
    codec_json_set(scale, json_integer(actual), "status", "replicas", NULL);
    if (r->res->custom) {
        const char *selected =
            json_string_value(at_path(r, obj, "labelSelectorPath", "status", "selector"));
        if (selected && *selected)
            codec_json_set(scale, json_string(selected), "status", "selector", NULL);
        return scale;
    }
    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(obj, &selector);
    if (!err) {
        kube_selector_format(&selector, &text);
        kube_selector_finish(&selector);
        codec_json_set(scale, json_string(text.data ? text.data : ""), "status", "selector", NULL);
    }
    return scale;
}

static json_t *read_scale(const struct local_api_request *r, const json_t *obj, json_t **ret)
{
    CODEC_AUTO_JSON json_t *current = scale_of(r, obj);
    const struct kube_type *type = kube_schema_find("autoscaling/v1", "Scale");
    json_t *status = is_method(r, "PATCH") ? local_api_apply_patch(r, type, current, ret)
                                           : local_api_read_body(r, ret);

    return status ? status : local_api_check_kind(*ret, "Scale");
}

static json_t *check_replicas(const struct local_api_request *r, const json_t *scale, int64_t *ret)
{
    const json_t *replicas = codec_json_get(scale, "spec", "replicas", NULL);
    struct kube_field_errors errors = {0};
    json_t *status = NULL;
    char value[24];

    if (replicas && !json_is_integer(replicas))
        return kube_status_failure(400, "BadRequest",
                                   "Scale in version \"v1\" cannot be handled as a Scale: json: "
                                   "cannot unmarshal spec.replicas: it must be a whole number",
                                   NULL);
    int64_t n = replicas ? json_integer_value(replicas) : 0;
    if (n < 0 || n > INT32_MAX) {
        snprintf(value, sizeof value, "%lld", (long long)n);
        kube_field_error(&errors, "FieldValueInvalid", "spec.replicas", value,
                         n < 0 ? "must be greater than or equal to 0"
                               : "must be less than or equal to 2147483647");
        status = kube_status_invalid("Scale.autoscaling", r->name, &errors);
        kube_field_errors_finish(&errors);
    } else {
        *ret = n;
    }
    return status;
}

static json_t *write_scale(const struct local_api_request *r, const json_t *obj)
{
    CODEC_AUTO_JSON json_t *scale = NULL;
    CODEC_AUTO_JSON json_t *stored = NULL;
    int64_t replicas = 0;

    json_t *status = read_scale(r, obj, &scale);
    if (!status)
        status = check_replicas(r, scale, &replicas);
    if (status)
        return status;
    json_t *next = json_deep_copy(obj);
    const char *rv = codec_json_str(scale, "metadata", "resourceVersion", NULL);
    const char *uid = codec_json_str(scale, "metadata", "uid", NULL);
    codec_json_set_str(json_object_get(next, "metadata"), "resourceVersion", rv);
    if (uid)
        codec_json_set_str(json_object_get(next, "metadata"), "uid", uid);
    set_replicas(r, next, replicas);
    status = local_api_replace(r, obj, next, &stored);
    if (status)
        return status;
    CODEC_AUTO_JSON json_t *reply = scale_of(r, stored);
    kube_reply_json(r->x, 200, reply);
    return NULL;
}

static json_t *serve_scale(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *obj = stored_object(r);

    if (!obj)
        return local_api_not_found(r);
    if (is_method(r, "PUT") || is_method(r, "PATCH"))
        return write_scale(r, obj);
    if (!is_method(r, "GET"))
        return local_api_method_not_allowed();
    CODEC_AUTO_JSON json_t *scale = scale_of(r, obj);
    kube_reply_json(r->x, 200, scale);
    return NULL;
}

// --- pods: log, binding, eviction ---

static const struct local_api_kubelet *find_kubelet(const struct local_api *api, const json_t *pod)
{
    const char *node = kube_pod_node(pod);
    for (size_t i = 0; i < api->n_nodes; i++)
        if (!node || gs_streq(api->nodes[i].name, node))
            return &api->nodes[i].kubelet;
    return NULL;
}

static json_t *no_kubelet(const struct local_api *api, const json_t *pod)
{
    const char *node = kube_pod_node(pod);
    GS_AUTO_FREE char *why = api->n_nodes && node
                                 ? gs_format("no kubelet runs the node \"%s\"", node)
                                 : gs_strdup("no kubelet is running here");
    return kube_status_failure(503, "ServiceUnavailable", why, NULL);
}

static json_t *serve_log(const struct local_api_request *r)
{
    if (!is_method(r, "GET"))
        return local_api_method_not_allowed();
    CODEC_AUTO_JSON json_t *pod = stored_object(r);
    if (!pod)
        return local_api_not_found(r);
    const struct local_api_kubelet *k = find_kubelet(r->api, pod);
    if (!k)
        return no_kubelet(r->api, pod);
    k->logs(k->ctx, pod, r->x);
    return NULL;
}

static json_t *serve_connect(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *pod = stored_object(r);
    if (!pod)
        return local_api_not_found(r);
    const struct local_api_kubelet *k = find_kubelet(r->api, pod);
    if (!k || !k->connect)
        return no_kubelet(r->api, pod);
    k->connect(k->ctx, r->sub, pod, r->x);
    return NULL;
}

static json_t *already_bound(const struct local_api_request *r, const json_t *pod)
{
    GS_AUTO_FREE char *why =
        gs_format("pod %s is already assigned to node \"%s\"", r->name, kube_pod_node(pod));
    return kube_status_conflict("pods/binding", r->name, why);
}

static void add_annotations(json_t *pod, const json_t *binding)
{
    json_t *from = codec_json_get(binding, "metadata", "annotations", NULL);

    if (json_object_size(from) == 0)
        return;
    if (!codec_json_get(pod, "metadata", "annotations", NULL))
        codec_json_set(pod, json_object(), "metadata", "annotations", NULL);
    json_object_update(codec_json_get(pod, "metadata", "annotations", NULL), from);
}

static void mark_scheduled(json_t *pod)
{
    json_t *conditions = codec_json_get(pod, "status", "conditions", NULL);

    if (!conditions) {
        conditions = json_array();
        codec_json_set(pod, conditions, "status", "conditions", NULL);
    }
    kube_set_condition(conditions, "PodScheduled", "True", NULL, NULL, gs_unix_ms());
}

static json_t *serve_binding(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *binding = NULL;

    if (!is_method(r, "POST"))
        return local_api_method_not_allowed();
    json_t *status = local_api_read_body(r, &binding);
    if (!status)
        status = local_api_check_kind(binding, "Binding");
    if (status)
        return status;
    const char *node = codec_json_str(binding, "target", "name", NULL);
    if (!node || !*node)
        return kube_status_failure(400, "BadRequest", "target.name: Required value", NULL);
    CODEC_AUTO_JSON json_t *pod = stored_object(r);
    if (!pod)
        return local_api_not_found(r);
    const char *bound = kube_pod_node(pod);
    if (bound && *bound)
        return already_bound(r, pod);
    json_t *next = json_deep_copy(pod);
    codec_json_set(next, json_string(node), "spec", "nodeName", NULL);
    add_annotations(next, binding);
    mark_scheduled(next);
    status = local_api_store(r, next, NULL);
    if (!status)
        reply_success(r);
    return status;
}

static json_t *serve_eviction(const struct local_api_request *r)
{
    if (!is_method(r, "POST"))
        return local_api_method_not_allowed();
    json_t *status = local_api_evict(r);
    if (!status)
        reply_success(r);
    return status;
}

static json_t *not_here(const struct local_api_request *r)
{
    GS_AUTO_FREE char *text =
        gs_format("pods/%s is not served here: containers are plain processes of this machine, "
                  "reach them with its own tools (their address is the pod's IP)",
                  r->sub);
    return kube_status_failure(501, "NotImplemented", text, NULL);
}

static json_t *serve_pod_part(const struct local_api_request *r)
{
    static const char *const known[] = {"resize"};

    if (strcmp(r->sub, LOCAL_API_EPHEMERAL) == 0)
        return serve_part(r);
    if (strcmp(r->sub, "log") == 0)
        return serve_log(r);
    if (strcmp(r->sub, "binding") == 0)
        return serve_binding(r);
    if (strcmp(r->sub, "eviction") == 0)
        return serve_eviction(r);
    if (strcmp(r->sub, "attach") == 0 || strcmp(r->sub, "exec") == 0 ||
        strcmp(r->sub, "portforward") == 0)
        return serve_connect(r);
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        if (strcmp(r->sub, known[i]) == 0)
            return not_here(r);
    return kube_status_failure(404, "NotFound", "the server could not find the requested resource",
                               NULL);
}

json_t *local_api_subresource(const struct local_api_request *r)
{
    if (strcmp(r->sub, "status") == 0 && local_api_resource_has(r->res, LOCAL_API_R_STATUS))
        return serve_part(r);
    if (strcmp(r->sub, "finalize") == 0 && strcmp(r->res->plural, "namespaces") == 0)
        return serve_part(r);
    if (strcmp(r->sub, "scale") == 0 && local_api_resource_has(r->res, LOCAL_API_R_SCALE))
        return serve_scale(r);
    if (is_pods(r))
        return serve_pod_part(r);
    if (strcmp(r->sub, "token") == 0 && strcmp(r->res->plural, "serviceaccounts") == 0)
        return local_api_serve_token(r);
    return kube_status_failure(404, "NotFound", "the server could not find the requested resource",
                               NULL);
}
