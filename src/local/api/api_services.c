// SPDX-License-Identifier: Apache-2.0
// Addresses of a Service against those of all others: each belongs to one.
#include "local/api/api_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "local/api/registry.h"

#include <inttypes.h>

static bool has_node_port(const json_t *service, int64_t n)
{
    size_t i;
    json_t *port;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port)
        if (codec_json_int(port, 0, "nodePort", NULL) == n)
            return true;
    return false;
}

static void check_node_ports(const json_t *obj, const json_t *old, const json_t *other,
                             struct kube_field_errors *errors)
{
    size_t i;
    json_t *port;

    json_array_foreach (codec_json_get(obj, "spec", "ports", NULL), i, port) {
        int64_t n = codec_json_int(port, 0, "nodePort", NULL);
        if (n == 0 || has_node_port(old, n) || !has_node_port(other, n))
            continue;
        GS_AUTO_FREE char *field = gs_format("spec.ports[%zu].nodePort", i);
        GS_AUTO_FREE char *shown = gs_format("%" PRId64, n);
        kube_field_error(errors, "FieldValueInvalid", field, shown,
                         "provided port is already allocated");
    }
}

void local_api_check_service(const struct local_api_request *r, const json_t *obj,
                             const json_t *old, struct kube_field_errors *errors)
{
    const char *ip = codec_json_str(obj, "spec", "clusterIP", NULL);
    bool new_ip = ip && *ip && !gs_streq(ip, "None") &&
                  !gs_streq(ip, codec_json_str(old, "spec", "clusterIP", NULL));
    size_t bucket = local_api_resource_bucket(r->res), i = 0;
    const struct local_api_store_version *v;

    if (!new_ip && codec_json_same(codec_json_get(obj, "spec", "ports", NULL),
                                   codec_json_get(old, "spec", "ports", NULL)))
        return;
    for (const char *ns, *name; (v = local_api_store_at(r->api->store, bucket, i++, &ns, &name));) {
        if (gs_streq(ns, kube_namespace(obj)) && gs_streq(name, kube_name(obj)))
            continue;
        if (new_ip && gs_streq(codec_json_str(v->tree, "spec", "clusterIP", NULL), ip))
            local_api_bad_cluster_ip(ip, "provided IP is already allocated", errors);
        check_node_ports(obj, old, v->tree, errors);
    }
}
