// SPDX-License-Identifier: Apache-2.0
// One reconciliation of a service allocates its missing addresses, writes its Endpoints, opens its
// listeners, connects them with the ready endpoints, and reports the actual addresses.
#include "local/services.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/ports.h"
#include "local/services/services_private.h"

#include <stdio.h>

struct local_services {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue;
    struct services_balancer *balancer;
    struct services_addresses *addresses;
    struct kube_cache *slices;
    struct services_ingress *ingress;
    struct services_ingress_calls *forwarded; // requests of the API's proxy
    struct gs_hmap *services;                 // "ns/name" -> struct services_listeners
};

static void free_listeners(void *listeners)
{
    services_listeners_free(listeners);
}

static struct services_listeners *listeners_of(struct local_services *l, const char *key)
{
    struct services_listeners *s = gs_hmap_get_str(l->services, key);
    if (s)
        return s;
    s = services_listeners_new(l->cluster, l->balancer, l->recorder);
    gs_hmap_put_str(l->services, key, s);
    return s;
}

// --- the spec of a service ---

static bool has_type(const json_t *svc, const char *type)
{
    const char *t = codec_json_str(svc, "spec", "type", NULL);
    return gs_streq(t && *t ? t : "ClusterIP", type);
}

static bool is_headless(const json_t *svc)
{
    return gs_streq(codec_json_str(svc, "spec", "clusterIP", NULL), "None");
}

static bool is_balanced(const json_t *svc)
{
    return !has_type(svc, "ExternalName") && !is_headless(svc);
}

static bool wants_node_ports(const json_t *svc)
{
    if (has_type(svc, "LoadBalancer"))
        return codec_json_bool(svc, true, "spec", "allocateLoadBalancerNodePorts", NULL);
    return has_type(svc, "NodePort");
}

static const char *ingress_ip(const json_t *svc)
{
    const json_t *list = codec_json_get(svc, "status", "loadBalancer", "ingress", NULL);
    return codec_json_str(json_array_get(list, 0), "ip", NULL);
}

// --- addresses ---

static bool lacks_node_port(const json_t *svc)
{
    size_t i;
    const json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port)
        if (codec_json_int(port, 0, "nodePort", NULL) <= 0)
            return true;
    return false;
}

static void allocate_node_ports(struct local_services *l, const char *key, json_t *changed)
{
    size_t i;
    json_t *port;
    struct services_node_ports ports; // those in use, of all Services
    if (!lacks_node_port(changed))
        return;
    services_addresses_node_ports(l->addresses, &ports);
    json_array_foreach (codec_json_get(changed, "spec", "ports", NULL), i, port) {
        if (codec_json_int(port, 0, "nodePort", NULL) > 0)
            continue;
        int asked = (int)codec_json_int(port, 0, "port", NULL);
        int given = services_addresses_lease_port(l->addresses, &ports, key, asked);
        if (given > 0)
            codec_json_set_int(port, "nodePort", given);
    }
}

// True: the service was written, and is reconciled again with its addresses.
static bool allocate(struct local_services *l, struct local_reconcile *w, const char *key,
                     const json_t *svc)
{
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(svc);
    const char *ip = codec_json_str(svc, "spec", "clusterIP", NULL);
    if (!ip || !*ip) {
        ip = services_addresses_lease_ip(l->addresses, key, SERVICES_ADDRESS_CLUSTER);
        if (!ip) {
            local_reconcile_fail(w,
                                 gs_error_new(GS_ELIMIT, "no free address in 127.96.0.0/16: delete "
                                                         "services that are not needed"));
            return true;
        }
        codec_json_set(changed, json_string(ip), "spec", "clusterIP", NULL);
        codec_json_set(changed, json_pack("[s]", ip), "spec", "clusterIPs", NULL);
    }
    if (wants_node_ports(svc))
        allocate_node_ports(l, key, changed);
    if (json_equal(changed, svc))
        return false;
    local_reconcile_update(w, KUBE_SERVICES, changed, NULL, NULL, NULL);
    return true;
}

// True if the address is in our ranges and no other service has it. The check is necessary because
// any client may write the status, and 127.0.0.1 belongs to the machine.
static bool may_have(const struct local_services *l, const char *key, const char *ip)
{
    return local_is_balancer_ip(ip) && !services_addresses_taken(l->addresses, ip, key);
}

// NULL: none is free.
static const char *balancer_ip(struct local_services *l, const char *key, const json_t *svc)
{
    const char *wanted = codec_json_str(svc, "spec", "loadBalancerIP", NULL);
    const char *have = ingress_ip(svc);
    if (wanted && *wanted && may_have(l, key, wanted)) {
        services_addresses_keep_ip(l->addresses, key, SERVICES_ADDRESS_BALANCER, wanted);
        return wanted;
    }
    if (wanted && *wanted && !have)
        kube_event(l->recorder, svc, "Warning", "LoadBalancerIPIgnored",
                   "loadBalancerIP %s is not a free address of " LOCAL_BALANCER_IPS
                   ": another one is used",
                   wanted);
    if (have && may_have(l, key, have))
        return have;
    return services_addresses_lease_ip(l->addresses, key, SERVICES_ADDRESS_BALANCER);
}

// Objects of older versions may have any.
static const char *cluster_address(struct local_services *l, const char *key, const json_t *svc)
{
    const char *ip = codec_json_str(svc, "spec", "clusterIP", NULL);
    if (local_is_cluster_ip(ip) && !services_addresses_taken(l->addresses, ip, key))
        return ip;
    kube_event(l->recorder, svc, "Warning", "ClusterIPNotServed",
               "ClusterIP %s is not an address of " LOCAL_CLUSTER_IPS
               " that this Service alone has: create the Service again",
               ip ? ip : "");
    return NULL;
}

// --- showing ---

// "127.97.0.1:8080", several with commas; "" when it listens nowhere.
static char *address_text(const struct services_listeners *s, const json_t *svc, const char *ip)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int real = services_listeners_port(s, ip, (int)codec_json_int(port, 0, "port", NULL));
        if (real > 0 && services_is_tcp(port))
            gs_buf_addf(&out, "%s%s:%d", out.len ? "," : "", ip, real);
    }
    return gs_buf_take(&out);
}

// "80=8080" for KUBE_ANN_PORTS; "" when all listen where the service says.
static char *ports_text(const struct services_listeners *s, const json_t *svc, const char *ip)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int asked = (int)codec_json_int(port, 0, "port", NULL),
            real = services_listeners_port(s, ip, asked);
        if (real > 0 && real != asked && services_is_tcp(port))
            gs_buf_addf(&out, "%s%d=%d", out.len ? "," : "", asked, real);
    }
    return gs_buf_take(&out);
}

// Adds what the annotation should be to the patch, unless it is so.
static void annotate(json_t *patch, const json_t *svc, const char *name, const char *text)
{
    const char *have = kube_annotation(svc, name);
    if (!gs_streq(have ? have : "", text))
        codec_json_set(patch, *text ? json_string(text) : json_null(), "metadata", "annotations",
                       name, NULL);
}

// True: the annotations were written. s NULL: it listens nowhere.
static bool show_address(const struct services_listeners *s, struct local_reconcile *w,
                         const json_t *svc, const char *ip)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    GS_AUTO_FREE char *address = s ? address_text(s, svc, ip) : gs_strdup("");
    GS_AUTO_FREE char *ports = s ? ports_text(s, svc, ip) : gs_strdup("");
    annotate(patch, svc, LOCAL_ANN_ADDRESS, address);
    annotate(patch, svc, KUBE_ANN_PORTS, ports);
    if (json_object_size(patch) == 0)
        return false;
    local_reconcile_patch(w, KUBE_SERVICES, kube_namespace(svc), kube_name(svc), NULL, patch, NULL,
                          NULL);
    return true;
}

static json_t *load_balancer_status(const struct services_listeners *s, const json_t *svc,
                                    const char *lb_ip)
{
    json_t *status = json_object();
    if (!lb_ip)
        return status;
    json_t *ports = json_array(), *ingress = json_object();
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int real = services_listeners_port(s, lb_ip, (int)codec_json_int(port, 0, "port", NULL));
        if (real > 0 && services_is_tcp(port))
            json_array_append_new(ports, json_pack("{s:i, s:s}", "port", real, "protocol", "TCP"));
    }
    codec_json_set_str(ingress, "ip", lb_ip);
    codec_json_set_str(ingress, "ipMode", "VIP");
    json_object_set_new(ingress, "ports", ports);
    json_object_set_new(status, "ingress", json_pack("[o]", ingress));
    return status;
}

static void show_status(const struct services_listeners *s, struct local_reconcile *w,
                        const json_t *svc, const char *lb_ip)
{
    CODEC_AUTO_JSON json_t *want_status = load_balancer_status(s, svc, lb_ip);
    const json_t *have = codec_json_get(svc, "status", "loadBalancer", NULL);
    bool both_empty = json_object_size(want_status) == 0 && json_object_size(have) == 0;
    if (both_empty || json_equal(want_status, have))
        return;
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(svc);
    codec_json_set(changed, json_incref(want_status), "status", "loadBalancer", NULL);
    local_reconcile_update(w, KUBE_SERVICES, changed, "status", NULL, NULL);
}

static void warn_unserved(struct local_services *l, const json_t *svc)
{
    size_t i;
    json_t *port;
    if (json_array_size(codec_json_get(svc, "spec", "externalIPs", NULL)) > 0)
        kube_event(l->recorder, svc, "Warning", "ExternalIPsNotServed",
                   "externalIPs are not served here: the Service is reached at its other "
                   "addresses");
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        if (!services_is_tcp(port))
            kube_event(l->recorder, svc, "Warning", "ProtocolNotBalanced",
                       "Port %lld: %s is not balanced here, only TCP is",
                       (long long)codec_json_int(port, 0, "port", NULL),
                       codec_json_str(port, "protocol", NULL));
    }
}

// --- one service ---

static void serve(struct local_services *l, struct local_reconcile *w, const char *key,
                  const json_t *svc)
{
    if (allocate(l, w, key, svc))
        return;
    struct services_listeners *s = listeners_of(l, key);
    bool balancer = has_type(svc, "LoadBalancer");
    const char *cluster_ip = cluster_address(l, key, svc);
    const char *lb_ip = balancer ? balancer_ip(l, key, svc) : NULL;
    services_listeners_update(s, w, svc, cluster_ip, lb_ip, wants_node_ports(svc));
    services_listeners_point(s, svc);
    if (!show_address(s, w, svc, lb_ip ? lb_ip : cluster_ip))
        show_status(s, w, svc, lb_ip);
}

static void drop_service(struct local_services *l, const char *key)
{
    struct services_listeners *s = gs_hmap_remove_str(l->services, key);
    services_listeners_free(s);
}

static void sync_service(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct local_services *l = arg;
    if (!local_cluster_synced(l->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    const json_t *svc = kube_cache_get(l->cluster->services, ns, name);
    if (!svc) {
        drop_service(l, key);
        services_addresses_drop(l->addresses, key);
        services_endpoints_delete(l->cluster, w, ns, name);
        services_slices_delete(l->slices, w, ns, name);
        return;
    }
    if (kube_is_deleting(svc)) {
        drop_service(l, key);
        return;
    }
    if (!local_namespace_goes(l->cluster, ns)) {
        services_endpoints_write(l->cluster, w, svc);
        services_slices_write(l->slices, w, svc, kube_cache_get(l->cluster->endpoints, ns, name));
    }
    if (is_balanced(svc)) {
        if (!gs_hmap_get_str(l->services, key))
            warn_unserved(l, svc);
        serve(l, w, key, svc);
    } else {
        drop_service(l, key);
        if (!show_address(NULL, w, svc, NULL))
            show_status(NULL, w, svc, NULL);
    }
}

// --- changes that reconcile a service ---

static void service_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct local_services *l = arg;
    local_workqueue_add_object(l->queue, new_obj ? new_obj : old_obj);
}

static void add_selecting(struct local_services *l, const json_t *pod)
{
    size_t pos = 0;
    const json_t *svc;
    const json_t *labels = codec_json_get(pod, "metadata", "labels", NULL);
    while ((svc = kube_cache_next(l->cluster->services, &pos))) {
        const json_t *map = codec_json_get(svc, "spec", "selector", NULL);
        if (json_object_size(map) == 0 || !gs_streq(kube_namespace(svc), kube_namespace(pod)))
            continue;
        GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
        kube_selector_from_map(map, &s);
        if (kube_selector_matches(&s, labels))
            local_workqueue_add_object(l->queue, svc);
    }
}

static void slice_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct local_services *l = arg;
    const json_t *slice = new_obj ? new_obj : old_obj;
    const char *name = kube_label(slice, "kubernetes.io/service-name");
    const json_t *svc =
        name ? kube_cache_get(l->cluster->services, kube_namespace(slice), name) : NULL;
    if (svc)
        local_workqueue_add_object(l->queue, svc);
}

static void pod_changed(void *arg, const json_t *old_pod, const json_t *new_pod)
{
    struct local_services *l = arg;
    if (old_pod)
        add_selecting(l, old_pod);
    if (new_pod && (!old_pod || !json_equal(codec_json_get(old_pod, "metadata", "labels", NULL),
                                            codec_json_get(new_pod, "metadata", "labels", NULL))))
        add_selecting(l, new_pod);
}

// Node ports are served at the address of each node.
static void node_changed(void *arg, const json_t *old_node, const json_t *new_node)
{
    struct local_services *l = arg;
    const char *old_ip = old_node ? local_node_ip(old_node) : NULL;
    const char *new_ip = new_node ? local_node_ip(new_node) : NULL;
    size_t pos = 0;
    if (gs_streq(old_ip ? old_ip : "", new_ip ? new_ip : ""))
        return;
    for (const json_t *svc; (svc = kube_cache_next(l->cluster->services, &pos));)
        if (wants_node_ports(svc))
            local_workqueue_add_object(l->queue, svc);
}

struct local_services *services_new(struct local_cluster *c)
{
    struct local_services *l = gs_alloc(sizeof(*l));
    l->cluster = c;
    l->recorder = kube_recorder_new(c->client, "service-controller", NULL);
    l->balancer = services_balancer_new(c->loop, NULL);
    l->addresses = services_addresses_new(c->services, c->data_dir ? c->data_dir : "");
    l->services = gs_hmap_new(free_listeners);
    l->slices = services_slices_cache_new(c->loop, c->client);
    kube_cache_start(l->slices);
    l->queue = local_workqueue_new(c->loop, c->client, "services", sync_service, l);
    struct kube_cache_handlers own = {.on_change = service_changed, .arg = l};
    struct kube_cache_handlers of_slices = {.on_change = slice_changed, .arg = l};
    struct kube_cache_handlers of_pods = {.on_change = pod_changed, .arg = l};
    struct kube_cache_handlers of_nodes = {.on_change = node_changed, .arg = l};
    kube_cache_add_handlers(c->services, &own);
    kube_cache_add_handlers(c->endpoints, &own); // of the same name as the service
    kube_cache_add_handlers(c->slices, &of_slices);
    kube_cache_add_handlers(c->pods, &of_pods);
    kube_cache_add_handlers(c->nodes, &of_nodes);
    l->ingress = services_ingress_new(c, l->addresses);
    l->forwarded = services_ingress_calls_new(c->loop);
    return l;
}

void services_forward(void *services, struct http_exchange *x, const struct local_api_forward *to)
{
    struct local_services *l = services;
    services_ingress_forward(l->forwarded, x, services_forward_new(to));
}

void services_ingress_request(struct local_services *l, const char *class, bool tls,
                              struct http_exchange *x)
{
    services_ingress_route(l->ingress, class, tls, x);
}

void services_pass_on(struct local_services *l, const char *ip, uint16_t port, bool tls,
                      struct http_exchange *x)
{
    struct services_balancer_address to = {.port = port};
    GS_AUTO_FREE char *backend = gs_format("%s:%u", ip, port);
    snprintf(to.ip, sizeof(to.ip), "%s", ip);
    services_ingress_proxy(l->forwarded, x, backend, &to, 1, tls);
}

// --- tunnels ---

struct services_tunnel {
    struct services_balancer_pool *pool;
    struct services_balancer_listener *listener;
};

struct gs_error *services_tunnel_open(struct local_services *l, const char *ip, uint16_t port,
                                      uint16_t to_port, struct services_tunnel **ret)
{
    const struct services_balancer_address to = {.ip = LOCAL_NODE_IP, .port = to_port};
    struct services_tunnel *t = gs_alloc(sizeof(*t));
    t->pool = services_balancer_pool_new(l->balancer);
    services_balancer_pool_set(t->pool, &to, 1);
    struct gs_error *err = services_balancer_listen(t->pool, ip, port, &t->listener);
    if (err) {
        services_tunnel_close(t);
        return err;
    }
    *ret = t;
    return NULL;
}

void services_tunnel_close(struct services_tunnel *t)
{
    if (!t)
        return;
    services_balancer_listener_close(t->listener);
    services_balancer_pool_free(t->pool);
    free(t);
}

void services_free(struct local_services *l)
{
    if (!l)
        return;
    kube_cache_remove_handlers(l->cluster->services, l);
    kube_cache_remove_handlers(l->cluster->endpoints, l);
    kube_cache_remove_handlers(l->cluster->slices, l);
    kube_cache_remove_handlers(l->cluster->pods, l);
    kube_cache_remove_handlers(l->cluster->nodes, l);
    services_ingress_free(l->ingress);
    services_ingress_calls_free(l->forwarded);
    local_workqueue_free(l->queue);
    kube_recorder_free(l->recorder);
    gs_hmap_free(l->services);
    kube_cache_free(l->slices);
    services_balancer_free(l->balancer);
    services_addresses_free(l->addresses);
    free(l);
}
