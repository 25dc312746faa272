// SPDX-License-Identifier: Apache-2.0
// Endpoints of services with selectors, as Kubernetes' endpoints controller writes them, and
// reading them for the load balancer. Endpoints of other clients are not touched.
#include "local/services/services_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/pod.h"
#include "local/ports.h"

#include <stdio.h>

#define LABEL_MANAGED_BY "endpoints.kubernetes.io/managed-by"
#define MANAGER          "endpoint-controller"
#define LABEL_HEADLESS   "service.kubernetes.io/headless"

// --- making ---

static int64_t named_port(const json_t *pod, const char *name, const char *protocol)
{
    size_t i, k;
    json_t *container, *port;
    json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), i, container) {
        json_array_foreach (json_object_get(container, "ports"), k, port) {
            const char *p = codec_json_str(port, "protocol", NULL);
            if (gs_streq(codec_json_str(port, "name", NULL), name) &&
                gs_streq(p ? p : "TCP", protocol))
                return codec_json_int(port, 0, "containerPort", NULL);
        }
    }
    return 0;
}

static const char *protocol_of(const json_t *service_port)
{
    const char *p = codec_json_str(service_port, "protocol", NULL);
    return p && *p ? p : "TCP";
}

// The ports of an Endpoints subset for this pod; a named port that it lacks is left out.
static json_t *resolve_ports(const json_t *service, const json_t *pod)
{
    json_t *ports = json_array();
    size_t i;
    json_t *sp;
    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, sp) {
        const json_t *target = json_object_get(sp, "targetPort");
        int64_t number = json_is_integer(target) ? json_integer_value(target) : 0;
        if (json_is_string(target))
            number = named_port(pod, json_string_value(target), protocol_of(sp));
        else if (number == 0)
            number = codec_json_int(sp, 0, "port", NULL);
        if (number <= 0 || number > 65535)
            continue;
        json_t *port = json_object();
        codec_json_set_str(port, "name", codec_json_str(sp, "name", NULL));
        codec_json_set_int(port, "port", local_pod_port(pod, (int)number));
        codec_json_set_str(port, "protocol", protocol_of(sp));
        json_array_append_new(ports, port);
    }
    return ports;
}

static json_t *subset_with(json_t *subsets, const json_t *ports)
{
    size_t i;
    json_t *subset;
    json_array_foreach (subsets, i, subset) {
        if (json_equal(json_object_get(subset, "ports"), ports))
            return subset;
    }
    subset = json_object();
    json_array_append_new(subsets, subset);
    return subset;
}

static json_t *address_of(const json_t *pod)
{
    json_t *a = json_object(), *ref = json_object();
    codec_json_set_str(a, "ip", codec_json_str(pod, "status", "podIP", NULL));
    codec_json_set_str(a, "nodeName", kube_pod_node(pod));
    codec_json_set_str(ref, "kind", "Pod");
    codec_json_set_str(ref, "namespace", kube_namespace(pod));
    codec_json_set_str(ref, "name", kube_name(pod));
    codec_json_set_str(ref, "uid", kube_uid(pod));
    json_object_set_new(a, "targetRef", ref);
    return a;
}

static void add_pod(json_t *subsets, const json_t *service, const json_t *pod)
{
    bool any = codec_json_bool(service, false, "spec", "publishNotReadyAddresses", NULL);
    const char *ip = codec_json_str(pod, "status", "podIP", NULL);
    if (!ip || !*ip || kube_pod_has_ended(pod) || (kube_is_deleting(pod) && !any))
        return;
    const char *list = any || local_pod_ready(pod) ? "addresses" : "notReadyAddresses";
    CODEC_AUTO_JSON json_t *ports = resolve_ports(service, pod);
    if (json_array_size(ports) == 0 &&
        json_array_size(codec_json_get(service, "spec", "ports", NULL)) > 0)
        return;
    json_t *subset = subset_with(subsets, ports);
    if (!json_object_get(subset, list))
        json_object_set_new(subset, list, json_array());
    json_array_append_new(json_object_get(subset, list), address_of(pod));
    if (json_array_size(ports) > 0)
        json_object_set(subset, "ports", ports);
}

static int compare_pods(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    return strcmp(kube_name(a), kube_name(b));
}

// In the order of pod names, so that nothing is written because a map was walked differently.
static json_t *make_subsets(const struct local_cluster *c, const json_t *service)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    kube_selector_from_map(codec_json_get(service, "spec", "selector", NULL), &selector);
    GS_AUTO_FREE const json_t **pods = NULL;
    size_t n = 0, cap = 0, pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(c->pods, &pos))) {
        if (!gs_streq(kube_namespace(pod), kube_namespace(service)) ||
            !kube_selector_matches(&selector, codec_json_get(pod, "metadata", "labels", NULL)))
            continue;
        gs_grow(&pods, &cap, n, sizeof(*pods));
        pods[n++] = pod;
    }
    if (n)
        qsort(pods, n, sizeof(*pods), compare_pods);
    json_t *subsets = json_array();
    for (size_t i = 0; i < n; i++)
        add_pod(subsets, service, pods[i]);
    return subsets;
}

static void set_labels(json_t *endpoints, const json_t *service)
{
    json_t *labels = json_deep_copy(codec_json_get(service, "metadata", "labels", NULL));
    if (!labels)
        labels = json_object();
    codec_json_set_str(labels, LABEL_MANAGED_BY, MANAGER);
    if (gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None"))
        codec_json_set_str(labels, LABEL_HEADLESS, "");
    codec_json_set(endpoints, labels, "metadata", "labels", NULL);
}

void services_endpoints_write(struct local_cluster *c, struct local_reconcile *w,
                              const json_t *service)
{
    if (json_object_size(codec_json_get(service, "spec", "selector", NULL)) == 0 ||
        gs_streq(codec_json_str(service, "spec", "type", NULL), "ExternalName"))
        return; // another client writes its Endpoints
    const char *ns = kube_namespace(service), *name = kube_name(service);
    const json_t *have = kube_cache_get(c->endpoints, ns, name);
    CODEC_AUTO_JSON json_t *subsets = make_subsets(c, service);
    CODEC_AUTO_JSON json_t *want = have ? json_deep_copy(have) : json_object();
    set_labels(want, service);
    if (json_array_size(subsets) > 0)
        json_object_set(want, "subsets", subsets);
    else
        json_object_del(want, "subsets");
    if (have && json_array_size(json_object_get(have, "subsets")) == 0 &&
        json_array_size(subsets) == 0)
        return;
    if (have && json_equal(have, want))
        return;
    if (have) {
        local_reconcile_update(w, KUBE_ENDPOINTS, want, NULL, NULL, NULL);
        return;
    }
    codec_json_set_str(want, "apiVersion", "v1");
    codec_json_set_str(want, "kind", "Endpoints");
    codec_json_set(want, json_string(name), "metadata", "name", NULL);
    codec_json_set(want, json_string(ns), "metadata", "namespace", NULL);
    local_reconcile_create(w, KUBE_ENDPOINTS, ns, want, NULL, NULL);
}

void services_endpoints_delete(struct local_cluster *c, struct local_reconcile *w, const char *ns,
                               const char *name)
{
    const json_t *have = kube_cache_get(c->endpoints, ns, name);
    if (have && gs_streq(kube_label(have, LABEL_MANAGED_BY), MANAGER))
        local_reconcile_delete(w, KUBE_ENDPOINTS, ns, name, NULL, NULL);
}

// --- reading ---

static void add_addresses(struct services_endpoints_list *out, const json_t *addresses,
                          int64_t port)
{
    size_t i;
    json_t *a;
    json_array_foreach ((json_t *)addresses, i, a) {
        const char *ip = codec_json_str(a, "ip", NULL);
        struct services_balancer_address to = {0};
        if (!ip || strlen(ip) >= sizeof(to.ip))
            continue;
        snprintf(to.ip, sizeof(to.ip), "%s", ip);
        // In Endpoints of other clients, the port of a pod may be its declared port.
        to.port = (uint16_t)(local_is_pod_ip(ip) ? local_host_port((int)port) : port);
        gs_grow(&out->items, &out->cap, out->len, sizeof(*out->items));
        out->items[out->len++] = to;
    }
}

void services_endpoints_of_port(const struct local_cluster *c, const json_t *service,
                                const json_t *port, struct services_endpoints_list *ret)
{
    const json_t *e = kube_cache_get(c->endpoints, kube_namespace(service), kube_name(service));
    const char *name = codec_json_str(port, "name", NULL);
    size_t i, k;
    json_t *subset, *p;
    json_array_foreach (json_object_get(e, "subsets"), i, subset) {
        json_array_foreach (json_object_get(subset, "ports"), k, p) {
            const char *p_name = codec_json_str(p, "name", NULL);
            const char *protocol = codec_json_str(p, "protocol", NULL);
            int64_t number = codec_json_int(p, 0, "port", NULL);
            if (gs_streq(p_name ? p_name : "", name ? name : "") &&
                gs_streq(protocol ? protocol : "TCP", "TCP") && number > 0 && number <= 65535)
                add_addresses(ret, json_object_get(subset, "addresses"), number);
        }
    }
    services_slices_of_port(c, service, port, false, ret);
    services_slices_of_port(c, service, port, true, ret);
}
