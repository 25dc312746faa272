// SPDX-License-Identifier: Apache-2.0
// EndpointSlices of services, from the Endpoints that services_endpoints_write makes: one slice
// for each set of ports.
#include "local/services/services_private.h"

#include "base/mem.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "local/pod.h"
#include "local/ports.h"

#include <stdio.h>

#define SLICES           KUBE_GVR(KUBE_RESOURCE_ENDPOINTSLICES)
#define LABEL_SERVICE    "kubernetes.io/service-name"
#define LABEL_MANAGED_BY "endpointslice.kubernetes.io/managed-by"
#define MANAGER          "endpointslice-controller.k8s.io"
#define SUBSETS_MAX      16 // different sets of ports among the pods of one service

struct kube_cache *services_slices_cache_new(uv_loop_t *loop, struct kube_client *client)
{
    return kube_cache_new(loop, client, SLICES, NULL,
                          "labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3D" MANAGER);
}

// --- writing ---

static void add_endpoints(json_t *list, const json_t *addresses, bool ready)
{
    size_t i;
    json_t *a;
    json_array_foreach ((json_t *)addresses, i, a) {
        json_t *e = json_pack("{s:[O], s:{s:b, s:b, s:b}}", "addresses", json_object_get(a, "ip"),
                              "conditions", "ready", ready, "serving", ready, "terminating", 0);
        if (!e)
            continue;
        static const char *const same[] = {"nodeName", "targetRef"};
        for (size_t k = 0; k < GS_ARRAY_LEN(same); k++)
            if (json_object_get(a, same[k]))
                json_object_set(e, same[k], json_object_get(a, same[k]));
        json_array_append_new(list, e);
    }
}

static void fill(json_t *slice, const json_t *service, const json_t *subset)
{
    json_t *endpoints = json_array(), *ports = json_array();
    add_endpoints(endpoints, json_object_get(subset, "addresses"), true);
    add_endpoints(endpoints, json_object_get(subset, "notReadyAddresses"), false);
    size_t i;
    json_t *p;
    json_array_foreach (json_object_get(subset, "ports"), i, p) {
        json_t *port = json_copy(p);
        if (!json_object_get(port, "name"))
            codec_json_set_str(port, "name", "");
        json_array_append_new(ports, port);
    }
    json_t *labels = json_deep_copy(codec_json_get(service, "metadata", "labels", NULL));
    if (!labels)
        labels = json_object();
    codec_json_set_str(labels, LABEL_SERVICE, kube_name(service));
    codec_json_set_str(labels, LABEL_MANAGED_BY, MANAGER);
    codec_json_set(slice, labels, "metadata", "labels", NULL);
    json_object_set_new(slice, "endpoints", endpoints);
    json_object_set_new(slice, "ports", ports);
}

static char *slice_name(const char *service, size_t i)
{
    return gs_format("%s-%zu", service, i);
}

static void write_one(const struct kube_cache *slices, struct local_reconcile *w,
                      const json_t *service, const json_t *subset, size_t i)
{
    const char *ns = kube_namespace(service);
    GS_AUTO_FREE char *name = slice_name(kube_name(service), i);
    const json_t *have = kube_cache_get(slices, ns, name);
    CODEC_AUTO_JSON json_t *want = have ? json_deep_copy(have) : json_object();
    fill(want, service, subset);
    if (have) {
        if (!json_equal(have, want))
            local_reconcile_update(w, SLICES, want, NULL, NULL, NULL);
        return;
    }
    codec_json_set_str(want, "apiVersion", "discovery.k8s.io/v1");
    codec_json_set_str(want, "kind", "EndpointSlice");
    codec_json_set_str(want, "addressType", "IPv4");
    codec_json_set(want, json_string(name), "metadata", "name", NULL);
    codec_json_set(want, json_string(ns), "metadata", "namespace", NULL);
    codec_json_set(want, json_pack("[o]", kube_make_controller_ref(service)), "metadata",
                   "ownerReferences", NULL);
    local_reconcile_create(w, SLICES, ns, want, NULL, NULL);
}

static void delete_from(const struct kube_cache *slices, struct local_reconcile *w, const char *ns,
                        const char *service, size_t first)
{
    for (size_t i = first; i < SUBSETS_MAX; i++) {
        GS_AUTO_FREE char *name = slice_name(service, i);
        const json_t *have = kube_cache_get(slices, ns, name);
        if (have && gs_streq(kube_label(have, LABEL_SERVICE), service))
            local_reconcile_delete(w, SLICES, ns, name, NULL, NULL);
    }
}

void services_slices_write(const struct kube_cache *slices, struct local_reconcile *w,
                           const json_t *service, const json_t *endpoints)
{
    const json_t *subsets = json_object_get(endpoints, "subsets");
    size_t n = json_array_size(subsets);
    if (!kube_cache_synced(slices)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    if (n > SUBSETS_MAX)
        n = SUBSETS_MAX;
    for (size_t i = 0; i < n; i++)
        write_one(slices, w, service, json_array_get(subsets, i), i);
    delete_from(slices, w, kube_namespace(service), kube_name(service), n);
}

void services_slices_delete(const struct kube_cache *slices, struct local_reconcile *w,
                            const char *ns, const char *service)
{
    delete_from(slices, w, ns, service, 0);
}

// --- reading ---

static void add_address(struct services_endpoints_list *out, const json_t *endpoint, int64_t port,
                        bool standby)
{
    const char *ip = json_string_value(json_array_get(json_object_get(endpoint, "addresses"), 0));
    bool ready = codec_json_bool(endpoint, true, "conditions", "ready", NULL);
    bool serving = codec_json_bool(endpoint, ready, "conditions", "serving", NULL);
    bool ends = codec_json_bool(endpoint, false, "conditions", "terminating", NULL);
    struct services_balancer_address to = {.standby = standby};
    if (!ip || strlen(ip) >= sizeof(to.ip) || (standby ? ready || !serving || !ends : !ready))
        return;
    snprintf(to.ip, sizeof(to.ip), "%s", ip);
    // In EndpointSlices of other clients, the port of a pod may be its declared port.
    to.port = (uint16_t)(local_is_pod_ip(ip) ? local_host_port((int)port) : port);
    gs_grow(&out->items, &out->cap, out->len, sizeof(*out->items));
    out->items[out->len++] = to;
}

static void add_slice(struct services_endpoints_list *out, const json_t *slice, const char *name,
                      bool standby)
{
    size_t i, k;
    const json_t *p, *e;
    json_array_foreach (json_object_get(slice, "ports"), i, p) {
        const char *p_name = codec_json_str(p, "name", NULL);
        const char *protocol = codec_json_str(p, "protocol", NULL);
        int64_t number = codec_json_int(p, 0, "port", NULL);
        if (!gs_streq(p_name ? p_name : "", name) || number <= 0 || number > UINT16_MAX ||
            !gs_streq(protocol ? protocol : "TCP", "TCP"))
            continue;
        json_array_foreach (json_object_get(slice, "endpoints"), k, e)
            add_address(out, e, number, standby);
    }
}

void services_slices_of_port(const struct local_cluster *c, const json_t *service,
                             const json_t *port, bool standby, struct services_endpoints_list *ret)
{
    const char *name = codec_json_str(port, "name", NULL), *of = NULL;
    size_t pos = 0;
    for (const json_t *slice; (slice = kube_cache_next(c->slices, &pos));) {
        of = kube_label(slice, LABEL_SERVICE);
        if (of && gs_streq(of, kube_name(service)) &&
            gs_streq(kube_namespace(slice), kube_namespace(service)))
            add_slice(ret, slice, name ? name : "", standby);
    }
}
