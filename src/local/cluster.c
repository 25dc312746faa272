// SPDX-License-Identifier: Apache-2.0
#include "local/cluster.h"

#include "base/mem.h"
#include "kube/object.h"

#include <arpa/inet.h>

struct local_cluster *local_cluster_new(uv_loop_t *loop, struct kube_client *client,
                                        const char *node_name, const char *data_dir)
{
    struct local_cluster *c = gs_alloc(sizeof(*c));
    *c = (struct local_cluster){
        .loop = loop,
        .client = client,
        .node_name = node_name,
        .data_dir = data_dir,
        .pods = kube_cache_new(loop, client, KUBE_PODS, NULL, NULL),
        .services = kube_cache_new(loop, client, KUBE_SERVICES, NULL, NULL),
        .endpoints = kube_cache_new(loop, client, KUBE_ENDPOINTS, NULL, NULL),
        .nodes = kube_cache_new(loop, client, KUBE_NODES, NULL, NULL),
        .namespaces = kube_cache_new(loop, client, KUBE_NAMESPACES, NULL, NULL),
        .deployments = kube_cache_new(loop, client, KUBE_DEPLOYMENTS, NULL, NULL),
        .replicasets = kube_cache_new(loop, client, KUBE_REPLICASETS, NULL, NULL),
    };
    struct kube_cache *all[] = {c->pods,       c->services,    c->endpoints,  c->nodes,
                                c->namespaces, c->deployments, c->replicasets};
    for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
        kube_cache_start(all[i]);
    return c;
}

void local_cluster_free(struct local_cluster *c)
{
    if (!c)
        return;
    kube_cache_free(c->pods);
    kube_cache_free(c->services);
    kube_cache_free(c->endpoints);
    kube_cache_free(c->nodes);
    kube_cache_free(c->namespaces);
    kube_cache_free(c->deployments);
    kube_cache_free(c->replicasets);
    free(c);
}

bool local_cluster_synced(const struct local_cluster *c)
{
    return kube_cache_synced(c->pods) && kube_cache_synced(c->services) &&
           kube_cache_synced(c->endpoints) && kube_cache_synced(c->nodes) &&
           kube_cache_synced(c->namespaces) && kube_cache_synced(c->deployments) &&
           kube_cache_synced(c->replicasets);
}

bool local_namespace_goes(const struct local_cluster *c, const char *ns)
{
    const json_t *obj = kube_cache_get(c->namespaces, NULL, ns);
    return obj && kube_is_deleting(obj);
}

// --- addresses ---

static bool is_in(const char *ip, uint32_t net)
{
    struct in_addr addr;
    if (!ip || inet_pton(AF_INET, ip, &addr) != 1)
        return false;
    uint32_t a = ntohl(addr.s_addr);
    return a >> 16 == net && (a & 0xffff) != 0 && (a & 0xffff) != 0xffff;
}

bool local_is_cluster_ip(const char *ip)
{
    return is_in(ip, 127u << 8 | 96);
}

bool local_is_balancer_ip(const char *ip)
{
    return is_in(ip, 127u << 8 | 97);
}
