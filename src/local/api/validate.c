// SPDX-License-Identifier: Apache-2.0
// Services, ConfigMaps, Secrets, Events, HorizontalPodAutoscalers.
#include "local/api/validate.h"

#include "base/mem.h"
#include "codec/base64.h"
#include "hpa/convert.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/names.h"

#include <inttypes.h>

#define NODE_PORT_FIRST 30000
#define NODE_PORT_LAST  32767

bool local_same(const json_t *a, const json_t *b)
{
    return a || b ? json_equal(a, b) : true;
}

// --- services ---

static bool is_one_of(const char *text, const char *const *choices, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(choices[i], text) == 0)
            return true;
    return false;
}

static void check_port_name(const json_t *ports, size_t i, const char *path,
                            struct kube_field_errors *errors)
{
    const char *name = gs_json_str(json_array_get(ports, i), "name", NULL);
    GS_AUTO_FREE char *field = gs_format("%s.name", path);
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!name || !*name) {
        if (json_array_size(ports) > 1)
            local_required(errors, field, "");
        return;
    }
    if (!kube_check_dns_label(gs_slice_of(name), &why))
        local_invalid(errors, field, name, "%s", why.data);
    for (size_t k = 0; k < i; k++)
        if (gs_streq(gs_json_str(json_array_get(ports, k), "name", NULL), name))
            local_duplicate(errors, field, name);
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
        gs_json_dump(port, &shown);
        kube_field_error(errors, "FieldValueDuplicate", path, shown.data, "%s", "");
    }
}

static void check_node_port(const json_t *port, const char *path, struct kube_field_errors *errors)
{
    int64_t n = gs_json_int(port, 0, "nodePort", NULL);
    GS_AUTO_FREE char *field = gs_format("%s.nodePort", path);
    char shown[24];

    if (n == 0 || (n >= NODE_PORT_FIRST && n <= NODE_PORT_LAST))
        return;
    snprintf(shown, sizeof shown, "%" PRId64, n);
    kube_field_error(errors, "FieldValueInvalid", field, shown,
                     "provided port is not in the valid range. The range of valid ports is %d-%d",
                     NODE_PORT_FIRST, NODE_PORT_LAST);
}

static void check_service_ports(const json_t *spec, struct kube_field_errors *errors)
{
    static const char *const protocols[] = {"SCTP", "TCP", "UDP"};
    const json_t *ports = json_object_get(spec, "ports");

    for (size_t i = 0; i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        GS_AUTO_FREE char *path = gs_format("spec.ports[%zu]", i);
        GS_AUTO_FREE char *target = gs_format("%s.targetPort", path);
        GS_AUTO_FREE char *protocol_field = gs_format("%s.protocol", path);
        GS_AUTO_FREE char *port_field = gs_format("%s.port", path);
        const char *protocol = gs_json_str(port, "protocol", NULL);
        check_port_name(ports, i, path, errors);
        if (!json_object_get(port, "port"))
            kube_field_error(errors, "FieldValueInvalid", port_field, "0", LOCAL_PORT_RANGE);
        local_validate_range(port, "port", 1, 65535, path, LOCAL_PORT_RANGE, errors);
        if (protocol && !is_one_of(protocol, protocols, GS_ARRAY_LEN(protocols)))
            local_unsupported(errors, protocol_field, protocol, "\"SCTP\", \"TCP\", \"UDP\"");
        if (json_object_get(port, "port"))
            local_validate_port_ref(json_object_get(port, "targetPort"), target, errors);
        check_node_port(port, path, errors);
        check_port_unique(ports, i, path, errors);
    }
}

static void check_cluster_ip(const json_t *spec, const json_t *old,
                             struct kube_field_errors *errors)
{
    const char *before = gs_json_str(old, "spec", "clusterIP", NULL);
    const char *now = gs_json_str(spec, "clusterIP", NULL);
    GS_AUTO_BUF struct gs_buf shown = {0};

    if (!before || !*before || gs_streq(before, now) ||
        gs_streq(gs_json_str(spec, "type", NULL), "ExternalName") ||
        gs_streq(gs_json_str(old, "spec", "type", NULL), "ExternalName"))
        return;
    gs_buf_add_char(&shown, '[');
    kube_quote(gs_slice_of(now ? now : ""), &shown);
    gs_buf_add_char(&shown, ']');
    kube_field_error(errors, "FieldValueInvalid", "spec.clusterIPs[0]", shown.data,
                     "may not change once set");
}

void local_validate_service(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    static const char *const types[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"};
    static const char *const affinities[] = {"ClientIP", "None"};
    const json_t *spec = json_object_get(obj, "spec");
    const char *type = gs_json_str(spec, "type", NULL);
    const char *affinity = gs_json_str(spec, "sessionAffinity", NULL);
    const char *external = gs_json_str(spec, "externalName", NULL);
    bool no_ports_needed =
        gs_streq(type, "ExternalName") || gs_streq(gs_json_str(spec, "clusterIP", NULL), "None");

    if (json_array_size(json_object_get(spec, "ports")) == 0 && !no_ports_needed)
        local_required(errors, "spec.ports", "");
    check_service_ports(spec, errors);
    local_validate_labels(json_object_get(spec, "selector"), "spec.selector", errors);
    if (type && !is_one_of(type, types, GS_ARRAY_LEN(types)))
        local_unsupported(errors, "spec.type", type,
                          "\"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"");
    if (affinity && !is_one_of(affinity, affinities, GS_ARRAY_LEN(affinities)))
        local_unsupported(errors, "spec.sessionAffinity", affinity, "\"ClientIP\", \"None\"");
    if (gs_streq(type, "ExternalName") && (!external || !*external))
        local_required(errors, "spec.externalName", "");
    check_cluster_ip(spec, old, errors);
}

// --- ConfigMaps and Secrets ---

static void check_keys(const json_t *data, const char *member, struct kube_field_errors *errors)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)data, key, value) {
        const char *problem = local_config_key_problem(key);
        if (!problem)
            continue;
        GS_AUTO_FREE char *field = gs_format("%s[%s]", member, key);
        local_invalid(errors, field, key, "%s", problem);
    }
}

static void check_immutable(const json_t *obj, const json_t *old, const char *const *members,
                            size_t n, struct kube_field_errors *errors)
{
    if (!gs_json_bool(old, false, "immutable", NULL))
        return;
    if (!gs_json_bool(obj, false, "immutable", NULL))
        kube_field_error(errors, "FieldValueForbidden", "immutable", NULL,
                         "field is immutable when `immutable` is set");
    for (size_t i = 0; i < n; i++)
        if (!local_same(json_object_get(obj, members[i]), json_object_get(old, members[i])))
            kube_field_error(errors, "FieldValueForbidden", members[i], NULL,
                             "field is immutable when `immutable` is set");
}

void local_validate_configmap(const json_t *obj, const json_t *old,
                              struct kube_field_errors *errors)
{
    static const char *const members[] = {"data", "binaryData"};

    check_keys(json_object_get(obj, "data"), "data", errors);
    check_keys(json_object_get(obj, "binaryData"), "binaryData", errors);
    check_immutable(obj, old, members, GS_ARRAY_LEN(members), errors);
}

void local_validate_secret(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    static const char *const members[] = {"data"};
    const char *key;
    json_t *value;

    check_keys(json_object_get(obj, "data"), "data", errors);
    json_object_foreach (json_object_get(obj, "data"), key, value) {
        GS_AUTO_BUF struct gs_buf plain = {0};
        GS_AUTO_ERROR struct gs_error *err = gs_base64_decode(
            gs_slice_make(json_string_value(value), json_string_length(value)), &plain);
        if (!err)
            continue;
        GS_AUTO_FREE char *field = gs_format("data[%s]", key);
        kube_field_error(errors, "FieldValueInvalid", field, "<secret contents redacted>",
                         "illegal base64 data: %s", gs_error_message(err));
    }
    if (old && !local_same(json_object_get(obj, "type"), json_object_get(old, "type")))
        local_invalid(errors, "type", gs_json_str(obj, "type", NULL), "field is immutable");
    check_immutable(obj, old, members, GS_ARRAY_LEN(members), errors);
}

// --- the rest ---

void local_validate_event(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    const char *about = gs_json_str(obj, "involvedObject", "namespace", NULL);
    const char *ns = kube_namespace(obj);
    bool cluster_scoped = !about || !*about;

    if (cluster_scoped ? !gs_streq(ns, "default") && !gs_streq(ns, "kube-system")
                       : !gs_streq(ns, about))
        local_invalid(errors, "involvedObject.namespace", about ? about : "",
                      "does not match event.namespace");
}

void local_validate_hpa(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    hpa_validate(obj, errors);
}
