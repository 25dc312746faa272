// SPDX-License-Identifier: Apache-2.0
// Ingresses: the default class, which exists from the start, and validation.
#include "base/log.h"
#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/admission.h"

#include <arpa/inet.h>

#define GROUP       "networking.k8s.io"
#define ANN_CLASS   "kubernetes.io/ingress.class"
#define ANN_DEFAULT "ingressclass.kubernetes.io/is-default-class"
#define CONTROLLER  "gpuscale.dev/ingress"

// --- classes ---

// Earlier versions wrote classes that charts create, and Helm refuses to replace an object. One
// that a client has written has managed fields.
static void remove_class_of_charts(struct local_api *api, const char *name)
{
    size_t bucket =
        local_api_resource_bucket(local_api_resource_find(GROUP, "v1", "ingressclasses"));
    const json_t *obj = local_api_stored(api, GROUP, "ingressclasses", "", name);

    if (!gs_streq(codec_json_str(obj, "spec", "controller", NULL), CONTROLLER) ||
        codec_json_get(obj, "metadata", "managedFields", NULL))
        return;
    GS_AUTO_ERROR struct gs_error *err = local_api_store_delete(api->store, bucket, "", name);
    if (err)
        gs_warn("api", "IngressClass %s: %s", name, gs_error_message(err));
}

void local_api_make_ingress_classes(struct local_api *api)
{
    remove_class_of_charts(api, "alb");
    remove_class_of_charts(api, "nginx");
    if (local_api_stored(api, GROUP, "ingressclasses", "", "gpuscale"))
        return;
    json_t *obj = local_api_base_object("IngressClass", GROUP "/v1", NULL, "gpuscale");
    codec_json_set(obj, json_integer(1), "metadata", "generation", NULL);
    codec_json_set(obj, json_string(CONTROLLER), "spec", "controller", NULL);
    codec_json_set(obj, json_string("true"), "metadata", "annotations", ANN_DEFAULT, NULL);
    local_api_put_base_object(api, GROUP, "ingressclasses", obj);
}

// The newest of the default classes; by name if several are equally old.
static const json_t *default_class(const struct local_api *api)
{
    size_t bucket =
        local_api_resource_bucket(local_api_resource_find(GROUP, "v1", "ingressclasses"));
    const json_t *found = NULL;
    const char *ns, *name;

    for (size_t i = 0; i < local_api_store_len(api->store, bucket); i++) {
        const json_t *c = local_api_store_at(api->store, bucket, i, &ns, &name)->tree;
        const char *when = kube_created(c);
        const char *best = kube_created(found);
        if (gs_streq(kube_annotation(c, ANN_DEFAULT), "true") &&
            (!found || strcmp(when ? when : "", best ? best : "") > 0))
            found = c;
    }
    return found;
}

void local_api_admit_ingress(const struct local_api_request *r, json_t *ingress)
{
    const json_t *found = default_class(r->api);

    if (found && json_is_object(json_object_get(ingress, "spec")) &&
        !codec_json_get(ingress, "spec", "ingressClassName", NULL) &&
        !kube_annotation(ingress, ANN_CLASS))
        codec_json_set(ingress, json_string(kube_name(found)), "spec", "ingressClassName", NULL);
}

// --- validation ---

static void check_backend(const json_t *backend, const char *field,
                          struct kube_field_errors *errors)
{
    const json_t *service = json_object_get(backend, "service");
    const char *name = codec_json_str(service, "name", NULL);
    const char *port_name = codec_json_str(service, "port", "name", NULL);
    int64_t port = codec_json_int(service, 0, "port", "number", NULL);
    bool has_resource = json_is_object(json_object_get(backend, "resource"));
    GS_AUTO_FREE char *at = gs_format("%s.service.name", field);
    GS_AUTO_FREE char *at_port = gs_format("%s.service.port", field);

    if (!service && !has_resource)
        local_api_required(errors, field, "must specify a service or resource backend");
    else if (service && has_resource)
        local_api_invalid(errors, field, "", "cannot set both resource and service backends");
    else if (service && (!name || !*name))
        local_api_required(errors, at, "");
    else if (service && !(port_name && *port_name) && port == 0)
        local_api_required(errors, at_port, "port name or number is required");
    else if (service && port_name && *port_name && port != 0)
        local_api_invalid(errors, at_port, "", "cannot set both port name & port number");
    else if (service && (port < 0 || port > 65535))
        local_api_invalid(errors, at_port, "", "must be between 1 and 65535, inclusive");
}

static void check_host(const char *host, const char *field, struct kube_field_errors *errors)
{
    GS_AUTO_BUF struct gs_buf why = {0};
    struct in_addr v4;
    struct in6_addr v6;

    if (!host || !*host)
        return;
    if (inet_pton(AF_INET, host, &v4) == 1 || inet_pton(AF_INET6, host, &v6) == 1)
        local_api_invalid(errors, field, host, "must be a DNS name, not an IP address");
    else if (!kube_check_dns_subdomain(gs_slice_of(gs_starts(host, "*.") ? host + 2 : host), &why))
        local_api_invalid(errors, field, host, "%s", why.data);
}

static void check_path(const json_t *path, const char *field, struct kube_field_errors *errors)
{
    const char *text = codec_json_str(path, "path", NULL);
    const char *type = codec_json_str(path, "pathType", NULL);
    bool specific = gs_streq(type, "ImplementationSpecific");
    GS_AUTO_FREE char *at = gs_format("%s.path", field);
    GS_AUTO_FREE char *at_type = gs_format("%s.pathType", field);
    GS_AUTO_FREE char *at_backend = gs_format("%s.backend", field);

    if (!type)
        local_api_required(errors, at_type, "pathType must be specified");
    else if (!specific && strcmp(type, "Exact") != 0 && strcmp(type, "Prefix") != 0)
        local_api_unsupported(errors, at_type, type,
                              "\"Exact\", \"ImplementationSpecific\", \"Prefix\"");
    else if ((!specific || (text && *text)) && (!text || *text != '/'))
        local_api_invalid(errors, at, text ? text : "", "must be an absolute path");
    check_backend(json_object_get(path, "backend"), at_backend, errors);
}

void local_api_validate_ingress(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors)
{
    const json_t *fallback = codec_json_get(obj, "spec", "defaultBackend", NULL);
    const json_t *rules = codec_json_get(obj, "spec", "rules", NULL);
    size_t i, k;
    json_t *rule, *path;

    if (!old && kube_annotation(obj, ANN_CLASS) &&
        codec_json_get(obj, "spec", "ingressClassName", NULL))
        local_api_invalid(errors, "annotations." ANN_CLASS, kube_annotation(obj, ANN_CLASS),
                          "can not be set when the class field is also set");
    if (!fallback && json_array_size(rules) == 0)
        local_api_invalid(errors, "spec", "",
                          "either `defaultBackend` or `rules` must be specified");
    if (fallback)
        check_backend(fallback, "spec.defaultBackend", errors);
    json_array_foreach ((json_t *)rules, i, rule) {
        GS_AUTO_FREE char *at = gs_format("spec.rules[%zu].host", i);
        check_host(codec_json_str(rule, "host", NULL), at, errors);
        json_array_foreach (codec_json_get(rule, "http", "paths", NULL), k, path) {
            GS_AUTO_FREE char *field = gs_format("spec.rules[%zu].http.paths[%zu]", i, k);
            check_path(path, field, errors);
        }
    }
}
