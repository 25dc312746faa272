// SPDX-License-Identifier: Apache-2.0
// EndpointSlices as JSON: the own one of a Service, and the endpoints of others.
#include "activator/activator_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"

#include <stdio.h>

const char *activator_address_type(const char *ip)
{
    return strchr(ip, ':') ? "IPv6" : "IPv4";
}

char *activator_slice_name(const char *service, const char *identity, const char *address)
{
    uint32_t hash = (uint32_t)gs_hash(identity, strlen(identity));
    return gs_format("%.200s-activator-%08x%s", service, hash, strchr(address, ':') ? "-v6" : "");
}

static json_t *make_ports(const struct activator_port *ports, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        if (ports[i].listening)
            json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "name", ports[i].name, "port",
                                                  (int)ports[i].listening, "protocol", "TCP"));
    return list;
}

static json_t *make_owner(const json_t *service)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "apiVersion", "v1", "kind", "Service", "name",
                     kube_name(service), "uid", kube_uid(service) ? kube_uid(service) : "");
}

json_t *activator_slice_make(const json_t *service, const struct activator_config *cfg,
                             const char *address, const struct activator_port *ports, size_t n,
                             bool standby)
{
    GS_AUTO_FREE char *name = activator_slice_name(kube_name(service), cfg->identity, address);
    json_t *meta =
        json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:s}, s:[o]}", "name", name, "namespace",
                  kube_namespace(service), "labels", ACTIVATOR_LABEL_SERVICE, kube_name(service),
                  ACTIVATOR_LABEL_MANAGED_BY, ACTIVATOR_MANAGER, "annotations",
                  ACTIVATOR_ANN_IDENTITY, cfg->identity, "ownerReferences", make_owner(service));
    json_t *endpoint = json_pack("{s:[s], s:{s:b, s:b, s:b}}", "addresses", address, "conditions",
                                 "ready", !standby, "serving", 1, "terminating", standby);
    if (cfg->node) // kube-proxy compares it for traffic policies
        codec_json_set_str(endpoint, "nodeName", cfg->node);
    if (cfg->pod_ns)
        json_object_set_new(endpoint, "targetRef",
                            json_pack("{s:s, s:s, s:s}", "kind", "Pod", "namespace", cfg->pod_ns,
                                      "name", cfg->identity));
    return json_pack("{s:s, s:s, s:s, s:o, s:[o], s:o}", "apiVersion", "discovery.k8s.io/v1",
                     "kind", "EndpointSlice", "addressType", activator_address_type(address),
                     "metadata", meta, "endpoints", endpoint, "ports", make_ports(ports, n));
}

bool activator_slice_is(const json_t *have, const json_t *want)
{
    const char *managed = kube_label(have, ACTIVATOR_LABEL_MANAGED_BY);
    return have &&
           json_equal(json_object_get(have, "endpoints"), json_object_get(want, "endpoints")) &&
           json_equal(json_object_get(have, "ports"), json_object_get(want, "ports")) &&
           gs_streq(managed ? managed : "", ACTIVATOR_MANAGER) &&
           gs_streq(kube_label(have, ACTIVATOR_LABEL_SERVICE),
                    kube_label(want, ACTIVATOR_LABEL_SERVICE));
}

bool activator_slice_is_own(const json_t *slice)
{
    return kube_annotation(slice, ACTIVATOR_ANN_IDENTITY) ||
           gs_streq(kube_label(slice, ACTIVATOR_LABEL_MANAGED_BY), ACTIVATOR_MANAGER);
}

// NULL: the slice has none of this name.
static const json_t *find_port(const json_t *slice, const char *name)
{
    size_t i;
    const json_t *p;
    json_array_foreach (json_object_get(slice, "ports"), i, p) {
        const char *have = codec_json_str(p, "name", NULL);
        const char *protocol = codec_json_str(p, "protocol", NULL);
        int64_t number = codec_json_int(p, 0, "port", NULL);
        if (gs_streq(have ? have : "", name) && gs_streq(protocol ? protocol : "TCP", "TCP") &&
            number > 0 && number <= UINT16_MAX)
            return p;
    }
    return NULL;
}

uint16_t activator_slice_port(const json_t *slice, const char *port_name)
{
    return (uint16_t)codec_json_int(find_port(slice, port_name), 0, "port", NULL);
}

void activator_slice_endpoints(const json_t *slice, const char *port_name, const char *type,
                               struct activator_address **items, size_t *n, size_t *cap)
{
    uint16_t number = activator_slice_port(slice, port_name);
    size_t i;
    const json_t *e;
    if (!number || activator_slice_is_own(slice) ||
        (type && !gs_streq(codec_json_str(slice, "addressType", NULL), type)))
        return;
    json_array_foreach (json_object_get(slice, "endpoints"), i, e) {
        const char *ip = json_string_value(json_array_get(json_object_get(e, "addresses"), 0));
        struct activator_address a = {.port = number};
        if (!ip || strlen(ip) >= sizeof(a.ip) ||
            !codec_json_bool(e, true, "conditions", "ready", NULL) ||
            codec_json_bool(e, false, "conditions", "terminating", NULL))
            continue;
        snprintf(a.ip, sizeof(a.ip), "%s", ip);
        gs_grow(items, cap, *n, sizeof(**items));
        (*items)[(*n)++] = a;
    }
}
