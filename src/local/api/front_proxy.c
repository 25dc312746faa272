// SPDX-License-Identifier: Apache-2.0
// The identity with which requests reach aggregated API servers, that of an authenticating proxy,
// and the objects in which they find its authority. Source: the cluster authentication trust
// controller of kube-apiserver.
#include "local/api/aggregate.h"

#include "base/mem.h"
#include "local/api/admission.h"
#include "local/api/api_private.h"
#include "net/tls/tls.h"

#define CERT_DAYS    3650
#define PROXY_NAME   "front-proxy-client"
#define PROXY_NS     "kube-system"
#define PROXY_MAP    "extension-apiserver-authentication"
#define PROXY_READER PROXY_MAP "-reader"
#define RBAC         "rbac.authorization.k8s.io"

struct local_api_front_proxy {
    struct local_api *api;
    struct tls_pair ca, client;
    uint64_t map_rv; // of the ConfigMap with the authority, as it was written
};

static void set_data(json_t *map, const char *key, const char *value)
{
    if (value)
        codec_json_set(map, json_string(value), "data", key, NULL);
}

static uint64_t map_version(const struct local_api_front_proxy *f)
{
    size_t bucket = local_api_resource_bucket(local_api_resource_find("", "v1", "configmaps"));
    const struct local_api_store_version *v =
        local_api_store_get(f->api->store, bucket, PROXY_NS, PROXY_MAP);
    return v ? v->rv : 0;
}

// Where servers read how the proxy proves its identity. Written again when somebody changes it.
void local_api_front_proxy_publish(struct local_api_front_proxy *f)
{
    const json_t *old = local_api_stored(f->api, "", "configmaps", PROXY_NS, PROXY_MAP);
    CODEC_AUTO_JSON json_t *map =
        old ? json_deep_copy(old) : local_api_base_object("ConfigMap", "v1", PROXY_NS, PROXY_MAP);

    set_data(map, "client-ca-file", f->api->ca_pem);
    set_data(map, "requestheader-allowed-names", "[\"" PROXY_NAME "\"]");
    set_data(map, "requestheader-client-ca-file", f->ca.cert_pem);
    set_data(map, "requestheader-extra-headers-prefix", "[\"X-Remote-Extra-\"]");
    set_data(map, "requestheader-group-headers", "[\"X-Remote-Group\"]");
    set_data(map, "requestheader-username-headers", "[\"X-Remote-User\"]");
    if (!old || !json_equal(old, map))
        local_api_put_base_object(f->api, "", "configmaps", json_incref(map));
    f->map_rv = map_version(f);
}

// The Role of clients of that ConfigMap, which manifests of such servers name. Roles are not
// evaluated here.
static void make_reader_role(struct local_api *api)
{
    if (local_api_stored(api, RBAC, "roles", PROXY_NS, PROXY_READER))
        return;
    json_t *role = local_api_base_object("Role", RBAC "/v1", PROXY_NS, PROXY_READER);
    json_object_set_new(role, "rules",
                        json_pack("[{s:[s], s:[s], s:[s], s:[s, s, s]}]", "apiGroups", "",
                                  "resources", "configmaps", "resourceNames", PROXY_MAP, "verbs",
                                  "get", "list", "watch"));
    local_api_put_base_object(api, RBAC, "roles", role);
}

struct gs_error *local_api_front_proxy_make(struct local_api_front_proxy *f)
{
    const struct tls_leaf leaf = {.common_name = PROXY_NAME, .days = CERT_DAYS};

    struct gs_error *err = tls_make_ca("gpuscale front proxy CA", CERT_DAYS, &f->ca);
    if (!err)
        err = tls_make_leaf(&f->ca, &leaf, &f->client);
    if (err)
        return gs_error_wrap(err, "the certificate for aggregated API servers");
    make_reader_role(f->api);
    return NULL;
}

bool local_api_front_proxy_is_changed(const struct local_api_front_proxy *f)
{
    return f->ca.cert_pem && map_version(f) != f->map_rv;
}

const struct tls_pair *local_api_front_proxy_identity(const struct local_api_front_proxy *f)
{
    return &f->client;
}

const char *local_api_front_proxy_ca(const struct local_api_front_proxy *f)
{
    return f->ca.cert_pem;
}

struct local_api_front_proxy *local_api_front_proxy_new(struct local_api *api)
{
    struct local_api_front_proxy *f = gs_alloc(sizeof *f);

    f->api = api;
    return f;
}

void local_api_front_proxy_free(struct local_api_front_proxy *f)
{
    if (!f)
        return;
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->client);
    free(f);
}
