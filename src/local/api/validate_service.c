// SPDX-License-Identifier: Apache-2.0
// Services: ports, and addresses that are the Services' own.
#include "local/api/registry.h"

#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/cluster.h"

#include <arpa/inet.h>
#include <inttypes.h>

static void check_port_name(const json_t *ports, size_t i, const char *path,
                            struct kube_field_errors *errors)
{
    const char *name = codec_json_str(json_array_get(ports, i), "name", NULL);
    GS_AUTO_FREE char *field = gs_format("%s.name", path);
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!name || !*name) {
        if (json_array_size(ports) > 1)
            local_api_required(errors, field, "");
        return;
    }
    if (!kube_check_dns_label(gs_slice_of(name), &why))
        local_api_invalid(errors, field, name, "%s", why.data);
    for (size_t k = 0; k < i; k++)
        if (gs_streq(codec_json_str(json_array_get(ports, k), "name", NULL), name))
            local_api_duplicate(errors, field, name);
}

static void check_port_unique(const json_t *ports, size_t i, const char *path,
                              struct kube_field_errors *errors)
{
    const json_t *port = json_array_get(ports, i);

    for (size_t k = 0; k < i; k++) {
        const json_t *other = json_array_get(ports, k);
        if (!json_equal(json_object_get(other, "port"), json_object_get(port, "port")) ||
            !json_equal(json_object_get(other, "protocol"), json_object_get(port, "protocol")))
            continue;
        GS_AUTO_BUF struct gs_buf shown = {0};
        codec_json_dump(port, &shown);
        kube_field_error(errors, "FieldValueDuplicate", path, shown.data, "%s", "");
    }
}

static void check_node_port(const json_t *ports, size_t i, const char *path,
                            struct kube_field_errors *errors)
{
    const json_t *port = json_array_get(ports, i);
    int64_t n = codec_json_int(port, 0, "nodePort", NULL);
    GS_AUTO_FREE char *field = gs_format("%s.nodePort", path);
    char shown[24];

    if (n == 0)
        return;
    snprintf(shown, sizeof shown, "%" PRId64, n);
    if (n < LOCAL_NODE_PORT_FIRST || n > LOCAL_NODE_PORT_LAST)
        kube_field_error(errors, "FieldValueInvalid", field, shown,
                         "provided port is not in the valid range. The range of valid ports is "
                         "%d-%d",
                         LOCAL_NODE_PORT_FIRST, LOCAL_NODE_PORT_LAST);
    for (size_t k = 0; k < i; k++) {
        const json_t *other = json_array_get(ports, k);
        if (codec_json_int(other, 0, "nodePort", NULL) == n &&
            codec_json_same(json_object_get(other, "protocol"), json_object_get(port, "protocol")))
            kube_field_error(errors, "FieldValueDuplicate", field, shown, "%s", "");
    }
}

// Each port is a listener on several addresses, and ports are compared with each other.
enum { MAX_PORTS = 1000 };

static void check_service_ports(const json_t *spec, struct kube_field_errors *errors)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP"};
    const json_t *ports = json_object_get(spec, "ports");

    if (json_array_size(ports) > MAX_PORTS) {
        GS_AUTO_FREE char *count = gs_format("%zu", json_array_size(ports));
        kube_field_error(errors, "FieldValueTooMany", "spec.ports", count,
                         "must have at most %d items", MAX_PORTS);
        return;
    }
    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        GS_AUTO_FREE char *path = gs_format("spec.ports[%zu]", i);
        GS_AUTO_FREE char *target = gs_format("%s.targetPort", path);
        GS_AUTO_FREE char *protocol_field = gs_format("%s.protocol", path);
        GS_AUTO_FREE char *port_field = gs_format("%s.port", path);
        const char *protocol = codec_json_str(port, "protocol", NULL);
        check_port_name(ports, i, path, errors);
        if (!json_object_get(port, "port"))
            kube_field_error(errors, "FieldValueInvalid", port_field, "0", LOCAL_API_PORT_RANGE);
        local_api_validate_range(port, "port", 1, 65535, path, LOCAL_API_PORT_RANGE, errors);
        if (protocol && !gs_is_one_of(protocol, protocols, GS_ARRAY_LEN(protocols)))
            local_api_unsupported(errors, protocol_field, protocol, "\"SCTP\", \"TCP\", \"UDP\"");
        if (json_object_get(port, "port"))
            local_api_validate_port_ref(json_object_get(port, "targetPort"), target, errors);
        check_node_port(ports, i, path, errors);
        check_port_unique(ports, i, path, errors);
    }
}

static void bad_address(struct kube_field_errors *errors, const char *field, const char *ip)
{
    local_api_invalid(errors, field, ip, "must be a valid IP address, (e.g. 10.9.8.7)");
}

void local_api_bad_cluster_ip(const char *ip, const char *why, struct kube_field_errors *errors)
{
    GS_AUTO_BUF struct gs_buf shown = {0};

    gs_buf_add_char(&shown, '[');
    kube_quote(gs_slice_of(ip), &shown);
    gs_buf_add_char(&shown, ']');
    kube_field_error(errors, "FieldValueInvalid", "spec.clusterIPs", shown.data,
                     "failed to allocate IP %s: %s", ip, why);
}

static bool is_external_name(const json_t *spec)
{
    return gs_streq(codec_json_str(spec, "type", NULL), "ExternalName");
}

static void check_change(const char *before, const char *now, struct kube_field_errors *errors)
{
    GS_AUTO_BUF struct gs_buf shown = {0};

    if (gs_streq(before, now))
        return;
    gs_buf_add_char(&shown, '[');
    kube_quote(gs_slice_of(now ? now : ""), &shown);
    gs_buf_add_char(&shown, ']');
    kube_field_error(errors, "FieldValueInvalid", "spec.clusterIPs[0]", shown.data,
                     "may not change once set");
}

static void check_range(const char *ip, struct kube_field_errors *errors)
{
    struct in_addr addr;
    GS_AUTO_FREE char *why = gs_format("the provided IP (%s) is not in the valid range. The range "
                                       "of valid IPs is " LOCAL_CLUSTER_IPS,
                                       ip);

    if (inet_pton(AF_INET, ip, &addr) != 1)
        bad_address(errors, "spec.clusterIPs[0]", ip);
    else if (!local_is_cluster_ip(ip))
        local_api_bad_cluster_ip(ip, why, errors);
}

// Otherwise a Service could take a port of any program of this machine: 127.0.0.1 and port 22.
static void check_cluster_ip(const json_t *spec, const json_t *old,
                             struct kube_field_errors *errors)
{
    const json_t *old_spec = json_object_get(old, "spec");
    const char *before = codec_json_str(old_spec, "clusterIP", NULL);
    const char *now = codec_json_str(spec, "clusterIP", NULL);
    const json_t *all = json_object_get(spec, "clusterIPs");
    const char *first = json_string_value(json_array_get(all, 0));

    if (is_external_name(spec))
        return;
    if (before && *before && !is_external_name(old_spec)) {
        check_change(before, now, errors);
        return;
    }
    if (first && !(now && *now))
        local_api_invalid(errors, "spec.clusterIPs", first,
                          "must be empty when `clusterIP` is not specified");
    else if (first && !gs_streq(first, now))
        local_api_invalid(errors, "spec.clusterIPs[0]", first, "must match `clusterIP`");
    if (json_array_size(all) > 1)
        local_api_invalid(errors, "spec.clusterIPs", now ? now : "",
                          "may only hold one address here: IPv4 alone is served");
    if (now && *now && !gs_streq(now, "None"))
        check_range(now, errors);
}

static const char *special_range(const char *ip)
{
    struct in_addr addr;
    struct in6_addr addr6;
    uint32_t a;

    if (inet_pton(AF_INET6, ip, &addr6) == 1)
        return IN6_IS_ADDR_UNSPECIFIED(&addr6) ? "may not be unspecified (0.0.0.0 or ::)"
               : IN6_IS_ADDR_LOOPBACK(&addr6)
                   ? "may not be in the loopback range (127.0.0.0/8, ::1/128)"
                   : NULL;
    if (inet_pton(AF_INET, ip, &addr) != 1)
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    a = ntohl(addr.s_addr);
    if (a == 0)
        return "may not be unspecified (0.0.0.0 or ::)";
    if (a >> 24 == 127)
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)";
    if (a >> 16 == 0xa9fe)
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
    if (a >> 8 == 0xe00000)
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
    return NULL;
}

static void check_external_ips(const json_t *spec, struct kube_field_errors *errors)
{
    size_t i;
    json_t *entry;

    json_array_foreach (json_object_get(spec, "externalIPs"), i, entry) {
        const char *ip = json_string_value(entry), *problem = special_range(ip ? ip : "");
        GS_AUTO_FREE char *field = gs_format("spec.externalIPs[%zu]", i);
        if (problem)
            local_api_invalid(errors, field, ip ? ip : "", "%s", problem);
    }
}

void local_api_validate_service(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors)
{
    static const char *const types[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"};
    static const char *const affinities[] = {"ClientIP", "None"};
    const json_t *spec = json_object_get(obj, "spec");
    const char *type = codec_json_str(spec, "type", NULL);
    const char *affinity = codec_json_str(spec, "sessionAffinity", NULL);
    const char *external = codec_json_str(spec, "externalName", NULL);
    bool no_ports_needed =
        gs_streq(type, "ExternalName") || gs_streq(codec_json_str(spec, "clusterIP", NULL), "None");

    if (json_array_size(json_object_get(spec, "ports")) == 0 && !no_ports_needed)
        local_api_required(errors, "spec.ports", "");
    check_service_ports(spec, errors);
    local_api_validate_labels(json_object_get(spec, "selector"), "spec.selector", errors);
    if (type && !gs_is_one_of(type, types, GS_ARRAY_LEN(types)))
        local_api_unsupported(errors, "spec.type", type,
                              "\"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"");
    if (affinity && !gs_is_one_of(affinity, affinities, GS_ARRAY_LEN(affinities)))
        local_api_unsupported(errors, "spec.sessionAffinity", affinity, "\"ClientIP\", \"None\"");
    if (gs_streq(type, "ExternalName") && (!external || !*external))
        local_api_required(errors, "spec.externalName", "");
    check_cluster_ip(spec, old, errors);
    check_external_ips(spec, errors);
}
