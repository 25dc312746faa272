// SPDX-License-Identifier: Apache-2.0
// The admission plug-ins of kube-apiserver that change a new object: LimitRanger,
// ServiceAccount, Priority,
// DefaultTolerationSeconds and ExtendedResourceToleration.
#include "local/api/admission.h"
#include "base/mem.h"
#include "kube/object.h"

json_t *local_api_forbidden(const struct local_api_request *r, const json_t *obj, const char *why)
{
    GS_AUTO_BUF struct gs_buf resource = {0};
    const char *name = kube_name(obj);

    local_api_resource_name(r->res, &resource);
    GS_AUTO_FREE char *text =
        gs_format("%s \"%s\" is forbidden: %s", resource.data, name ? name : "", why);
    return kube_status_failure(403, "Forbidden", text, NULL);
}

const json_t *local_api_stored(const struct local_api *api, const char *group, const char *plural,
                               const char *ns, const char *name)
{
    const struct local_api_resource *res = local_api_resource_find(group, "v1", plural);
    const struct local_api_store_version *v =
        local_api_store_get(api->store, local_api_resource_bucket(res), ns, name);
    return v ? v->tree : NULL;
}

bool local_api_is_extended_resource(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash && !gs_starts(name, "requests.") &&
           !gs_slice_ends(gs_slice_make(name, (size_t)(slash - name)), "kubernetes.io");
}

// --- Priority ---

// Of the classes with globalDefault, the one with the lowest value; NULL: none.
static const json_t *default_class(const struct local_api *api)
{
    size_t bucket = local_api_resource_bucket(
        local_api_resource_find("scheduling.k8s.io", "v1", "priorityclasses"));
    const json_t *found = NULL;
    const char *ns, *name;

    for (size_t i = 0; i < local_api_store_len(api->store, bucket); i++) {
        const json_t *c = local_api_store_at(api->store, bucket, i, &ns, &name)->tree;
        if (codec_json_bool(c, false, "globalDefault", NULL) &&
            (!found ||
             codec_json_int(c, 0, "value", NULL) < codec_json_int(found, 0, "value", NULL)))
            found = c;
    }
    return found;
}

static json_t *check_priority(const struct local_api_request *r, const json_t *pod,
                              int64_t priority, const char *policy)
{
    const json_t *given = codec_json_get(pod, "spec", "priority", NULL);
    const char *given_policy = codec_json_str(pod, "spec", "preemptionPolicy", NULL);

    if (given && json_integer_value(given) != priority) {
        GS_AUTO_FREE char *why =
            gs_format("the integer value of priority (%lld) must not be provided in pod spec; "
                      "priority admission controller computed %lld from the given PriorityClass "
                      "name",
                      (long long)json_integer_value(given), (long long)priority);
        return local_api_forbidden(r, pod, why);
    }
    if (given_policy && strcmp(given_policy, policy) != 0) {
        GS_AUTO_FREE char *why =
            gs_format("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "
                      "priority admission controller computed %s from the given PriorityClass name",
                      given_policy, policy);
        return local_api_forbidden(r, pod, why);
    }
    return NULL;
}

static json_t *admit_priority(const struct local_api_request *r, json_t *pod)
{
    json_t *spec = json_object_get(pod, "spec");
    const char *name = codec_json_str(spec, "priorityClassName", NULL);
    const json_t *found =
        name && *name ? local_api_stored(r->api, "scheduling.k8s.io", "priorityclasses", "", name)
                      : default_class(r->api);

    if (name && *name && !found) {
        GS_AUTO_FREE char *why = gs_format("no PriorityClass with name %s was found", name);
        return local_api_forbidden(r, pod, why);
    }
    int64_t priority = codec_json_int(found, 0, "value", NULL);
    const char *policy = codec_json_str(found, "preemptionPolicy", NULL);
    if (!policy)
        policy = "PreemptLowerPriority";
    json_t *status = check_priority(r, pod, priority, policy);
    if (status)
        return status;
    if (found)
        codec_json_set_str(spec, "priorityClassName", kube_name(found));
    codec_json_set_int(spec, "priority", priority);
    codec_json_set_str(spec, "preemptionPolicy", policy);
    return NULL;
}

// --- tolerations ---

static json_t *tolerations_of(json_t *spec)
{
    json_t *list = json_object_get(spec, "tolerations");

    if (!list) {
        list = json_array();
        json_object_set_new(spec, "tolerations", list);
    }
    return list;
}

static bool is_empty(const char *text)
{
    return !text || !*text;
}

static bool tolerates_no_execute(const json_t *tolerations, const char *key)
{
    size_t i;
    json_t *t;

    json_array_foreach ((json_t *)tolerations, i, t) {
        const char *t_key = codec_json_str(t, "key", NULL);
        const char *effect = codec_json_str(t, "effect", NULL);
        if ((is_empty(t_key) || strcmp(t_key, key) == 0) &&
            (is_empty(effect) || strcmp(effect, "NoExecute") == 0))
            return true;
    }
    return false;
}

// kube-apiserver's --default-not-ready-toleration-seconds and
// --default-unreachable-toleration-seconds.
#define TOLERATION_SECONDS 300

static void admit_default_tolerations(json_t *spec)
{
    static const char *const keys[] = {"node.kubernetes.io/not-ready",
                                       "node.kubernetes.io/unreachable"};

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (!tolerates_no_execute(json_object_get(spec, "tolerations"), keys[i]))
            json_array_append_new(tolerations_of(spec),
                                  json_pack("{s:s, s:s, s:s, s:i}", "key", keys[i], "operator",
                                            "Exists", "effect", "NoExecute", "tolerationSeconds",
                                            TOLERATION_SECONDS));
}

// Adds the toleration of all taints with this key, unless it is present.
static void tolerate_resource(json_t *spec, const char *key)
{
    json_t *list = tolerations_of(spec), *t;
    size_t i;

    json_array_foreach (list, i, t)
        if (gs_streq(codec_json_str(t, "key", NULL), key) &&
            gs_streq(codec_json_str(t, "operator", NULL), "Exists") &&
            is_empty(codec_json_str(t, "effect", NULL)))
            return;
    json_array_append_new(list, json_pack("{s:s, s:s}", "key", key, "operator", "Exists"));
}

static void admit_extended_resources(json_t *spec)
{
    static const char *const lists[] = {"containers", "initContainers"};
    size_t i;
    json_t *container, *quantity;
    const char *key;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(spec, lists[l]), i, container)
            json_object_foreach (codec_json_get(container, "resources", "requests", NULL), key,
                                 quantity)
                if (local_api_is_extended_resource(key))
                    tolerate_resource(spec, key);
}

// --- all plug-ins ---

static json_t *admit_pod(const struct local_api_request *r, json_t *pod)
{
    json_t *spec = json_object_get(pod, "spec");

    if (!json_is_object(spec))
        return NULL; // validation reports it
    json_t *status = local_api_admit_limits(r, pod);
    if (!status)
        status = local_api_admit_account(r, pod);
    if (!status)
        status = admit_priority(r, pod);
    if (status)
        return status;
    admit_default_tolerations(spec);
    admit_extended_resources(spec);
    return NULL;
}

json_t *local_api_admit(const struct local_api_request *r, json_t *obj)
{
    if (strcmp(r->res->plural, "pods") == 0)
        return admit_pod(r, obj);
    if (strcmp(r->res->plural, "ingresses") == 0)
        local_api_admit_ingress(r, obj);
    return NULL;
}
