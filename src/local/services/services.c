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

#define RETRY_MS 5000

struct pool { // of one port of a service
    int port;
    struct services_balancer_pool *pool;
};

struct listening {
    char *ip;
    int asked, port;  // what the service says, where it listens
    int service_port; // port of its pool
    struct services_balancer_listener *listener;
    bool wanted;
};

struct service {
    struct local_services *owner;
    struct pool *pools;
    size_t n_pools, pools_cap;
    struct listening *listening;
    size_t n_listening, listening_cap;
};

struct local_services {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue;
    struct services_balancer *balancer;
    struct services_addresses *addresses;
    struct kube_cache *slices;
    struct services_ingress *ingress;
    struct gs_hmap *services; // "ns/name" -> service
};

static void service_free(void *p)
{
    struct service *s = p;
    for (size_t i = 0; i < s->n_listening; i++) {
        services_balancer_listener_close(s->listening[i].listener);
        free(s->listening[i].ip);
    }
    for (size_t i = 0; i < s->n_pools; i++)
        services_balancer_pool_free(s->pools[i].pool);
    free(s->listening);
    free(s->pools);
    free(s);
}

static struct service *service_of(struct local_services *l, const char *key)
{
    struct service *s = gs_hmap_get_str(l->services, key);
    if (s)
        return s;
    s = gs_alloc(sizeof(*s));
    s->owner = l;
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

static bool is_tcp(const json_t *port)
{
    const char *p = codec_json_str(port, "protocol", NULL);
    return !p || !*p || gs_streq(p, "TCP");
}

static const char *ingress_ip(const json_t *svc)
{
    const json_t *list = codec_json_get(svc, "status", "loadBalancer", "ingress", NULL);
    return codec_json_str(json_array_get(list, 0), "ip", NULL);
}

// --- addresses ---

static void allocate_node_ports(struct local_services *l, const char *key, json_t *changed)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(changed, "spec", "ports", NULL), i, port) {
        if (codec_json_int(port, 0, "nodePort", NULL) > 0)
            continue;
        int asked = (int)codec_json_int(port, 0, "port", NULL);
        int given = services_addresses_lease_port(l->addresses, key, asked);
        if (given > 0)
            codec_json_set_int(port, "nodePort", given);
    }
}

// True: the service was written, and comes back with its addresses.
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

// NULL: none is to be had now.
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

// --- listening ---

static struct services_balancer_pool *pool_of(struct service *s, int port)
{
    for (size_t i = 0; i < s->n_pools; i++)
        if (s->pools[i].port == port)
            return s->pools[i].pool;
    gs_grow(&s->pools, &s->pools_cap, s->n_pools, sizeof(*s->pools));
    s->pools[s->n_pools] = (struct pool){port, services_balancer_pool_new(s->owner->balancer)};
    return s->pools[s->n_pools++].pool;
}

static struct gs_error *listen_at(struct service *s, const char *ip, int asked, int port,
                                  int service_port)
{
    struct services_balancer_listener *listener = NULL;
    struct gs_error *err =
        services_balancer_listen(pool_of(s, service_port), ip, (uint16_t)port, &listener);
    if (err)
        return err;
    gs_grow(&s->listening, &s->listening_cap, s->n_listening, sizeof(*s->listening));
    s->listening[s->n_listening++] =
        (struct listening){gs_strdup(ip), asked, port, service_port, listener, true};
    return NULL;
}

// A port that another program has, or that we may not bind, is replaced by a higher one on the
// service's own addresses; a node port is what was promised and is waited for.
static void listen_somewhere(struct service *s, struct local_reconcile *w, const json_t *svc,
                             const char *ip, int asked, int service_port, bool node)
{
    struct kube_recorder *recorder = s->owner->recorder;
    int port = node ? asked : local_service_port(svc, asked);
    bool taken = false;
    struct gs_error *err = listen_at(s, ip, asked, port, service_port);
    while (err && gs_error_code(err) == GS_EEXIST && !node && local_service_port_after(svc, port)) {
        taken = true;
        port = local_service_port_after(svc, port);
        gs_error_free(err);
        err = listen_at(s, ip, asked, port, service_port);
    }
    if (err) {
        kube_event(recorder, svc, "Warning", "PortBusy",
                   "Cannot listen on %s; trying again until it is free", gs_error_message(err));
        gs_error_free(err);
        local_reconcile_requeue(w, RETRY_MS);
    } else if (port != asked) {
        GS_AUTO_FREE char *why =
            taken ? gs_strdup("another program of this machine has it") : local_ports_remedy(asked);
        kube_event(recorder, svc, "Normal", "PortMoved",
                   "Listening on %s:%d instead of port %d: %s", ip, port, asked, why);
    }
}

static void want(struct service *s, struct local_reconcile *w, const json_t *svc, const char *ip,
                 int asked, int service_port, bool node)
{
    if (!ip || asked <= 0 || asked > 65535)
        return;
    for (size_t i = 0; i < s->n_listening; i++) {
        struct listening *l = &s->listening[i];
        if (l->asked == asked && l->service_port == service_port && gs_streq(l->ip, ip)) {
            l->wanted = true;
            return;
        }
    }
    listen_somewhere(s, w, svc, ip, asked, service_port, node);
}

static void drop_unwanted(struct service *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n_listening; i++) {
        if (s->listening[i].wanted) {
            s->listening[kept++] = s->listening[i];
            continue;
        }
        services_balancer_listener_close(s->listening[i].listener);
        free(s->listening[i].ip);
    }
    s->n_listening = kept;
}

static void drop_pools(struct service *s, const json_t *svc)
{
    size_t kept = 0;
    for (size_t k = 0; k < s->n_pools; k++) {
        size_t i;
        json_t *port;
        bool used = false;
        json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
            used = used || codec_json_int(port, 0, "port", NULL) == s->pools[k].port;
        }
        if (used)
            s->pools[kept++] = s->pools[k];
        else
            services_balancer_pool_free(s->pools[k].pool);
    }
    s->n_pools = kept;
}

static void mark_kept(struct service *s, const char *ip, int asked, int service_port)
{
    for (size_t i = 0; i < s->n_listening; i++) {
        struct listening *l = &s->listening[i];
        if (l->asked == asked && l->service_port == service_port && gs_streq(l->ip, ip))
            l->wanted = true;
    }
}

typedef void (*address_fn)(struct service *s, struct local_reconcile *w, const json_t *svc,
                           const char *ip, int asked, int service_port, bool node);

static void keep(struct service *s, struct local_reconcile *w, const json_t *svc, const char *ip,
                 int asked, int service_port, bool node)
{
    if (ip)
        mark_kept(s, ip, asked, service_port);
}

static void each_node(struct service *s, struct local_reconcile *w, const json_t *svc, int asked,
                      int service_port, address_fn fn)
{
    size_t pos = 0;
    fn(s, w, svc, LOCAL_NODE_IP, asked, service_port, true);
    for (const json_t *node; (node = kube_cache_next(s->owner->cluster->nodes, &pos));) {
        const char *ip = local_node_ip(node);
        if (ip && !gs_streq(ip, LOCAL_NODE_IP))
            fn(s, w, svc, ip, asked, service_port, true);
    }
}

static void each_address(struct service *s, struct local_reconcile *w, const json_t *svc,
                         const char *cluster_ip, const char *lb_ip, address_fn fn)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int number = (int)codec_json_int(port, 0, "port", NULL);
        if (!is_tcp(port))
            continue;
        fn(s, w, svc, cluster_ip, number, number, false);
        fn(s, w, svc, lb_ip, number, number, false);
        if (wants_node_ports(svc))
            each_node(s, w, svc, (int)codec_json_int(port, 0, "nodePort", NULL), number, fn);
    }
}

static void update_listeners(struct service *s, struct local_reconcile *w, const json_t *svc,
                             const char *cluster_ip, const char *lb_ip)
{
    for (size_t i = 0; i < s->n_listening; i++)
        s->listening[i].wanted = false;
    // Close removed listeners first: new ones may need their ports.
    each_address(s, w, svc, cluster_ip, lb_ip, keep);
    drop_unwanted(s);
    drop_pools(s, svc);
    each_address(s, w, svc, cluster_ip, lb_ip, want);
}

static void point_pools(struct service *s, const json_t *svc)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        if (!is_tcp(port))
            continue;
        struct services_endpoints_list list = {0};
        services_endpoints_of_port(s->owner->cluster, svc, port, &list);
        services_balancer_pool_set(pool_of(s, (int)codec_json_int(port, 0, "port", NULL)),
                                   list.items, list.len);
        free(list.items);
    }
}

// --- showing ---

static int real_port(const struct service *s, const char *ip, int asked)
{
    for (size_t i = 0; i < s->n_listening; i++)
        if (s->listening[i].asked == asked && gs_streq(s->listening[i].ip, ip))
            return s->listening[i].port;
    return 0;
}

// "127.97.0.1:8080", several with commas; "" when it listens nowhere.
static char *address_text(const struct service *s, const json_t *svc, const char *ip)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int real = real_port(s, ip, (int)codec_json_int(port, 0, "port", NULL));
        if (real > 0 && is_tcp(port))
            gs_buf_addf(&out, "%s%s:%d", out.len ? "," : "", ip, real);
    }
    return gs_buf_take(&out);
}

// "80=8080" for KUBE_ANN_PORTS; "" when all listen where the service says.
static char *ports_text(const struct service *s, const json_t *svc, const char *ip)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int asked = (int)codec_json_int(port, 0, "port", NULL), real = real_port(s, ip, asked);
        if (real > 0 && real != asked && is_tcp(port))
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
static bool show_address(const struct service *s, struct local_reconcile *w, const json_t *svc,
                         const char *ip)
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

static json_t *load_balancer_status(const struct service *s, const json_t *svc, const char *lb_ip)
{
    json_t *status = json_object();
    if (!lb_ip)
        return status;
    json_t *ports = json_array(), *ingress = json_object();
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int real = real_port(s, lb_ip, (int)codec_json_int(port, 0, "port", NULL));
        if (real > 0 && is_tcp(port))
            json_array_append_new(ports, json_pack("{s:i, s:s}", "port", real, "protocol", "TCP"));
    }
    codec_json_set_str(ingress, "ip", lb_ip);
    codec_json_set_str(ingress, "ipMode", "VIP");
    json_object_set_new(ingress, "ports", ports);
    json_object_set_new(status, "ingress", json_pack("[o]", ingress));
    return status;
}

static void show_status(const struct service *s, struct local_reconcile *w, const json_t *svc,
                        const char *lb_ip)
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
        if (!is_tcp(port))
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
    struct service *s = service_of(l, key);
    bool balancer = has_type(svc, "LoadBalancer");
    const char *cluster_ip = cluster_address(l, key, svc);
    const char *lb_ip = balancer ? balancer_ip(l, key, svc) : NULL;
    update_listeners(s, w, svc, cluster_ip, lb_ip);
    point_pools(s, svc);
    if (!show_address(s, w, svc, lb_ip ? lb_ip : cluster_ip))
        show_status(s, w, svc, lb_ip);
}

static void drop_service(struct local_services *l, const char *key)
{
    struct service *s = gs_hmap_remove_str(l->services, key);
    if (s)
        service_free(s);
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

// --- what brings a service up ---

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
    l->services = gs_hmap_new(service_free);
    l->slices = services_slices_cache_new(c->loop, c->client);
    kube_cache_start(l->slices);
    l->queue = local_workqueue_new(c->loop, c->client, "services", sync_service, l);
    struct kube_cache_handlers own = {.on_change = service_changed, .arg = l};
    struct kube_cache_handlers of_pods = {.on_change = pod_changed, .arg = l};
    struct kube_cache_handlers of_nodes = {.on_change = node_changed, .arg = l};
    kube_cache_add_handlers(c->services, &own);
    kube_cache_add_handlers(c->endpoints, &own); // of the same name as the service
    kube_cache_add_handlers(c->pods, &of_pods);
    kube_cache_add_handlers(c->nodes, &of_nodes);
    l->ingress = services_ingress_new(c, l->addresses);
    return l;
}

void services_free(struct local_services *l)
{
    if (!l)
        return;
    kube_cache_remove_handlers(l->cluster->services, l);
    kube_cache_remove_handlers(l->cluster->endpoints, l);
    kube_cache_remove_handlers(l->cluster->pods, l);
    kube_cache_remove_handlers(l->cluster->nodes, l);
    services_ingress_free(l->ingress);
    local_workqueue_free(l->queue);
    kube_recorder_free(l->recorder);
    gs_hmap_free(l->services);
    kube_cache_free(l->slices);
    services_balancer_free(l->balancer);
    services_addresses_free(l->addresses);
    free(l);
}
