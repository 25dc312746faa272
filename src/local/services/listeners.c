// SPDX-License-Identifier: Apache-2.0
// The listeners of one service on its addresses and on the nodes, and the pools of endpoints that
// they serve.
#include "base/mem.h"
#include "kube/object.h"
#include "local/ports.h"
#include "local/services/services_private.h"

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

struct services_listeners {
    struct local_cluster *cluster;
    struct services_balancer *balancer;
    struct kube_recorder *recorder;
    struct pool *pools;
    size_t n_pools, pools_cap;
    struct listening *listening;
    size_t n_listening, listening_cap;
};

struct services_listeners *services_listeners_new(struct local_cluster *cluster,
                                                  struct services_balancer *balancer,
                                                  struct kube_recorder *recorder)
{
    struct services_listeners *s = gs_alloc(sizeof(*s));
    s->cluster = cluster;
    s->balancer = balancer;
    s->recorder = recorder;
    return s;
}

void services_listeners_free(struct services_listeners *s)
{
    if (!s)
        return;
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

bool services_is_tcp(const json_t *port)
{
    const char *p = codec_json_str(port, "protocol", NULL);
    return !p || !*p || gs_streq(p, "TCP");
}

static struct services_balancer_pool *pool_of(struct services_listeners *s, int port)
{
    for (size_t i = 0; i < s->n_pools; i++)
        if (s->pools[i].port == port)
            return s->pools[i].pool;
    gs_grow(&s->pools, &s->pools_cap, s->n_pools, sizeof(*s->pools));
    s->pools[s->n_pools] = (struct pool){port, services_balancer_pool_new(s->balancer)};
    return s->pools[s->n_pools++].pool;
}

static struct gs_error *listen_at(struct services_listeners *s, const char *ip, int asked, int port,
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

// A port that another program has, or that this process may not bind, is replaced by a higher one
// on the service's own addresses. A node port is part of the spec: it is tried again until it is
// free.
static void listen_somewhere(struct services_listeners *s, struct local_reconcile *w,
                             const json_t *svc, const char *ip, int asked, int service_port,
                             bool node)
{
    struct kube_recorder *recorder = s->recorder;
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

static void want(struct services_listeners *s, struct local_reconcile *w, const json_t *svc,
                 const char *ip, int asked, int service_port, bool node)
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

static void drop_unwanted(struct services_listeners *s)
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

static void drop_pools(struct services_listeners *s, const json_t *svc)
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

static void mark_kept(struct services_listeners *s, const char *ip, int asked, int service_port)
{
    for (size_t i = 0; i < s->n_listening; i++) {
        struct listening *l = &s->listening[i];
        if (l->asked == asked && l->service_port == service_port && gs_streq(l->ip, ip))
            l->wanted = true;
    }
}

typedef void (*address_fn)(struct services_listeners *s, struct local_reconcile *w,
                           const json_t *svc, const char *ip, int asked, int service_port,
                           bool node);

static void keep(struct services_listeners *s, struct local_reconcile *w, const json_t *svc,
                 const char *ip, int asked, int service_port, bool node)
{
    if (ip)
        mark_kept(s, ip, asked, service_port);
}

static void each_node(struct services_listeners *s, struct local_reconcile *w, const json_t *svc,
                      int asked, int service_port, address_fn fn)
{
    size_t pos = 0;
    fn(s, w, svc, LOCAL_NODE_IP, asked, service_port, true);
    for (const json_t *node; (node = kube_cache_next(s->cluster->nodes, &pos));) {
        const char *ip = local_node_ip(node);
        if (ip && !gs_streq(ip, LOCAL_NODE_IP))
            fn(s, w, svc, ip, asked, service_port, true);
    }
}

static void each_address(struct services_listeners *s, struct local_reconcile *w, const json_t *svc,
                         const char *cluster_ip, const char *lb_ip, bool node_ports, address_fn fn)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        int number = (int)codec_json_int(port, 0, "port", NULL);
        if (!services_is_tcp(port))
            continue;
        fn(s, w, svc, cluster_ip, number, number, false);
        fn(s, w, svc, lb_ip, number, number, false);
        if (node_ports)
            each_node(s, w, svc, (int)codec_json_int(port, 0, "nodePort", NULL), number, fn);
    }
}

void services_listeners_update(struct services_listeners *s, struct local_reconcile *w,
                               const json_t *svc, const char *cluster_ip, const char *lb_ip,
                               bool node_ports)
{
    for (size_t i = 0; i < s->n_listening; i++)
        s->listening[i].wanted = false;
    // Close removed listeners first: new ones may need their ports.
    each_address(s, w, svc, cluster_ip, lb_ip, node_ports, keep);
    drop_unwanted(s);
    drop_pools(s, svc);
    each_address(s, w, svc, cluster_ip, lb_ip, node_ports, want);
}

void services_listeners_point(struct services_listeners *s, const json_t *svc)
{
    size_t i;
    json_t *port;
    json_array_foreach (codec_json_get(svc, "spec", "ports", NULL), i, port) {
        if (!services_is_tcp(port))
            continue;
        struct services_endpoints_list list = {0};
        services_endpoints_of_port(s->cluster, svc, port, &list);
        services_balancer_pool_set(pool_of(s, (int)codec_json_int(port, 0, "port", NULL)),
                                   list.items, list.len);
        free(list.items);
    }
}

int services_listeners_port(const struct services_listeners *s, const char *ip, int asked)
{
    for (size_t i = 0; i < s->n_listening; i++)
        if (s->listening[i].asked == asked && gs_streq(s->listening[i].ip, ip))
            return s->listening[i].port;
    return 0;
}
