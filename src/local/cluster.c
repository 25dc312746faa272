// SPDX-License-Identifier: Apache-2.0
// The caches that the controllers, the scheduler and the kubelet share: one watch for each
// resource. Also the ranges of addresses in 127.0.0.0/8: services, load balancers and nodes have
// one each.
#include "local/cluster.h"

#include "base/mem.h"
#include "kube/object.h"

#include <arpa/inet.h>

// Every cache of a cluster and its resource.
static const struct {
    size_t cache; // offset in struct local_cluster
    struct kube_gvr gvr;
    const char *query;
} caches[] = {
    {offsetof(struct local_cluster, pods), {"", "v1", "pods"}},
    {offsetof(struct local_cluster, services), {"", "v1", "services"}},
    {offsetof(struct local_cluster, endpoints), {"", "v1", "endpoints"}},
    {offsetof(struct local_cluster, slices),
     {"discovery.k8s.io", "v1", "endpointslices"},
     "labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%21%3Dendpointslice-controller.k8s.io"},
    {offsetof(struct local_cluster, nodes), {"", "v1", "nodes"}},
    {offsetof(struct local_cluster, namespaces), {"", "v1", "namespaces"}},
    {offsetof(struct local_cluster, claims), {"", "v1", "persistentvolumeclaims"}},
    {offsetof(struct local_cluster, replicationcontrollers), {"", "v1", "replicationcontrollers"}},
    {offsetof(struct local_cluster, deployments), {"apps", "v1", "deployments"}},
    {offsetof(struct local_cluster, replicasets), {"apps", "v1", "replicasets"}},
    {offsetof(struct local_cluster, daemonsets), {"apps", "v1", "daemonsets"}},
    {offsetof(struct local_cluster, statefulsets), {"apps", "v1", "statefulsets"}},
    {offsetof(struct local_cluster, revisions), {"apps", "v1", "controllerrevisions"}},
    {offsetof(struct local_cluster, jobs), {"batch", "v1", "jobs"}},
    {offsetof(struct local_cluster, cronjobs), {"batch", "v1", "cronjobs"}},
    {offsetof(struct local_cluster, budgets), {"policy", "v1", "poddisruptionbudgets"}},
};

static struct kube_cache **cache_at(const struct local_cluster *c, size_t i)
{
    return (struct kube_cache **)((char *)c + caches[i].cache);
}

struct local_cluster *local_cluster_new(uv_loop_t *loop, struct kube_client *client,
                                        const char *node_name, const char *data_dir)
{
    struct local_cluster *c = gs_alloc(sizeof(*c));
    *c = (struct local_cluster){
        .loop = loop,
        .client = client,
        .node_name = node_name,
        .data_dir = data_dir,
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        *cache_at(c, i) = kube_cache_new(loop, client, caches[i].gvr, NULL, caches[i].query);
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        kube_cache_start(*cache_at(c, i));
    return c;
}

void local_cluster_free(struct local_cluster *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        kube_cache_free(*cache_at(c, i));
    free(c);
}

bool local_cluster_synced(const struct local_cluster *c)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        if (!kube_cache_synced(*cache_at(c, i)))
            return false;
    return true;
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

bool local_is_pod_ip(const char *ip)
{
    struct in_addr addr;
    return ip && inet_pton(AF_INET, ip, &addr) == 1 &&
           (ntohl(addr.s_addr) & 0xffe00000u) == 0x7f400000u;
}

bool local_is_cluster_ip(const char *ip)
{
    return is_in(ip, 127u << 8 | 96);
}

bool local_is_balancer_ip(const char *ip)
{
    return is_in(ip, 127u << 8 | 97);
}

bool local_is_node_ip(const char *ip)
{
    return gs_streq(ip, LOCAL_NODE_IP) || is_in(ip, 127u << 8 | 98);
}

const char *local_node_ip(const json_t *node)
{
    size_t i;
    json_t *a;
    json_array_foreach (codec_json_get(node, "status", "addresses", NULL), i, a) {
        const char *ip = codec_json_str(a, "address", NULL);
        if (gs_streq(codec_json_str(a, "type", NULL), "InternalIP") && local_is_node_ip(ip))
            return ip;
    }
    return NULL;
}
