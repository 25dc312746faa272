// SPDX-License-Identifier: Apache-2.0
// The Service "kubernetes" in the namespace default. Clients find the API by its name, and monitors
// by its Endpoints. Its address is assigned as that of other Services. Source: the controller
// kubernetesservice of kube-apiserver.
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/admission.h"
#include "local/cluster.h"

#define NAME      "kubernetes"
#define NAMESPACE "default"
#define PORT      443

bool local_api_is_own_service(const struct local_api_resource *res, const json_t *obj)
{
    return !*res->group &&
           (strcmp(res->plural, "services") == 0 || strcmp(res->plural, "endpoints") == 0) &&
           gs_streq(kube_name(obj), NAME) && gs_streq(kube_namespace(obj), NAMESPACE);
}

// The stored object to change, or a new one. *ret_old: the stored one, borrowed; NULL: none.
static json_t *object_of(struct local_api *api, const char *kind, const char *plural,
                         const json_t **ret_old)
{
    *ret_old = local_api_stored(api, "", plural, NAMESPACE, NAME);
    return *ret_old ? json_deep_copy(*ret_old) : local_api_base_object(kind, "v1", NAMESPACE, NAME);
}

static void put(struct local_api *api, const char *plural, const json_t *old, json_t *obj)
{
    const struct local_api_resource *res = local_api_resource_find("", "v1", plural);

    res->set_defaults(obj, old);
    if (old && json_equal(old, obj))
        json_decref(obj);
    else
        local_api_put_base_object(api, "", plural, obj);
}

static void make_service(struct local_api *api)
{
    const json_t *old;
    json_t *obj = object_of(api, "Service", "services", &old);
    json_t *ports = json_pack("[{s:s, s:i, s:s, s:i}]", "name", "https", "port", PORT, "protocol",
                              "TCP", "targetPort", api->port);

    codec_json_set(obj, json_string("apiserver"), "metadata", "labels", "component", NULL);
    codec_json_set(obj, json_string(NAME), "metadata", "labels", "provider", NULL);
    codec_json_set(obj, ports, "spec", "ports", NULL);
    put(api, "services", old, obj);
}

static void make_endpoints(struct local_api *api)
{
    const json_t *old;
    json_t *obj = object_of(api, "Endpoints", "endpoints", &old);
    json_t *subsets =
        json_pack("[{s:[{s:s}], s:[{s:s, s:i, s:s}]}]", "addresses", "ip", LOCAL_NODE_IP, "ports",
                  "name", "https", "port", api->port, "protocol", "TCP");

    json_object_set_new(obj, "subsets", subsets);
    put(api, "endpoints", old, obj);
}

void local_api_make_own_service(struct local_api *api)
{
    if (!api->port)
        return;
    make_service(api);
    make_endpoints(api);
}
