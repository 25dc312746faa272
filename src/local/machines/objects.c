// SPDX-License-Identifier: Apache-2.0
// Deletes objects of machines that are gone: nodes, leases and pods, as the node controllers and
// the pod garbage collector of Kubernetes do. A pod without a node is deleted when two sweeps have
// found it, since caches may lag.
#include "local/machines/machines_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"

enum { SWEEP_MS = 10000 };

static void delete_pod(struct local_cluster *c, const json_t *pod)
{
    kube_delete(c->client, KUBE_PODS, kube_namespace(pod), kube_name(pod), 0, NULL, NULL);
}

void machines_delete_node(struct local_cluster *c, const char *node)
{
    size_t pos = 0;
    kube_delete(c->client, KUBE_NODES, NULL, node, 0, NULL, NULL);
    kube_delete(c->client, KUBE_LEASES, "kube-node-lease", node, 0, NULL, NULL);
    for (const json_t *pod; (pod = kube_cache_next(c->pods, &pos));)
        if (gs_streq(kube_pod_node(pod), node))
            delete_pod(c, pod);
}

void machines_delete_former(struct local_cluster *c)
{
    size_t pos = 0;
    for (const json_t *node; (node = kube_cache_next(c->nodes, &pos));) {
        const char *id = codec_json_str(node, "spec", "providerID", NULL);
        if (id && gs_starts(id, "gpuscale://")) {
            gs_info("machines", "removing the node %s of the last run", kube_name(node));
            machines_delete_node(c, kube_name(node));
        }
    }
}

// --- pods without a node ---

struct machines_orphans {
    struct local_cluster *cluster;
    struct gs_timer *timer;
    struct gs_hmap *seen; // UIDs found by the last sweep
};

static void sweep(void *arg)
{
    struct machines_orphans *o = arg;
    struct gs_hmap *found = gs_hmap_new(NULL);
    size_t pos = 0;
    if (!local_cluster_synced(o->cluster)) {
        gs_hmap_free(found);
        return;
    }
    for (const json_t *pod; (pod = kube_cache_next(o->cluster->pods, &pos));) {
        const char *node = kube_pod_node(pod), *uid = kube_uid(pod);
        if (!node || !uid || gs_streq(node, o->cluster->node_name) ||
            kube_cache_get(o->cluster->nodes, NULL, node))
            continue;
        if (gs_hmap_get_str(o->seen, uid))
            delete_pod(o->cluster, pod);
        gs_hmap_put_str(found, uid, o);
    }
    gs_hmap_free(o->seen);
    o->seen = found;
}

struct machines_orphans *machines_orphans_new(struct local_cluster *c)
{
    struct machines_orphans *o = gs_alloc(sizeof(*o));
    o->cluster = c;
    o->seen = gs_hmap_new(NULL);
    o->timer = gs_timer_new(c->loop, o);
    gs_timer_repeat(o->timer, sweep, SWEEP_MS, SWEEP_MS);
    return o;
}

void machines_orphans_free(struct machines_orphans *o)
{
    if (!o)
        return;
    gs_timer_free(o->timer);
    gs_hmap_free(o->seen);
    free(o);
}
