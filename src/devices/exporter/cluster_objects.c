// SPDX-License-Identifier: Apache-2.0
// What the exporter needs of the API server: pods and ResourceSlices of its node. Each is watched
// only when it is needed for the first time, so that a cluster without sharing and claims has no
// load by it.
#include "exporter/attribution.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exporter/render.h"

#define RECONNECT_NS (60 * GS_NS_PER_SEC)

struct exporter_cluster {
    uv_loop_t *loop;
    struct exporter_cluster_config cfg;
    struct kube_client *kube;   // NULL: not connected
    int64_t connect_failed_ns;  // gs_mono_ns; 0: never
    char *problem;              // why the connection failed
    struct exporter_pods *pods; // each NULL until needed
    struct exporter_resource_slices *slices;
};

struct exporter_cluster *exporter_cluster_new(uv_loop_t *loop,
                                              const struct exporter_cluster_config *cfg)
{
    struct exporter_cluster *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->cfg = *cfg;
    return c;
}

void exporter_cluster_free(struct exporter_cluster *c)
{
    if (!c)
        return;
    exporter_pods_free(c->pods);
    exporter_resource_slices_free(c->slices);
    free(c->problem);
    free(c);
}

// The token of the service account may be mounted after the exporter starts.
static bool connected(struct exporter_cluster *c)
{
    int64_t now = gs_mono_ns();
    if (c->kube)
        return true;
    if (!c->cfg.connect || (c->connect_failed_ns && now - c->connect_failed_ns < RECONNECT_NS))
        return false;
    struct gs_error *err = c->cfg.connect(c->cfg.connect_arg, &c->kube);
    free(c->problem);
    c->problem = err ? gs_strdup(gs_error_message(err)) : NULL;
    c->connect_failed_ns = err ? now : 0;
    gs_error_free(err);
    return c->kube != NULL;
}

void exporter_cluster_require(struct exporter_cluster *c, bool pods, bool slices)
{
    if ((!pods || c->pods) && (!slices || c->slices))
        return;
    if (!connected(c))
        return;
    if (pods && !c->pods) {
        struct exporter_pods_config cfg = {
            .node_name = c->cfg.node_name,
            .labels = c->cfg.labels,
            .uid = c->cfg.uid,
            .allowlist = c->cfg.allowlist,
            .on_change = c->cfg.on_change,
            .arg = c->cfg.arg,
        };
        c->pods = exporter_pods_new(c->loop, c->kube, &cfg);
    }
    if (slices && !c->slices)
        c->slices = exporter_resource_slices_new(c->loop, c->kube, c->cfg.node_name,
                                                 c->cfg.on_change, c->cfg.arg);
}

// --- sources ---

static const json_t *source_pod(void *arg, const char *ns, const char *name)
{
    struct exporter_cluster *c = arg;
    return c->pods ? exporter_pods_object(c->pods, ns, name) : NULL;
}

static bool source_slice(void *arg, const char *pool, const char *device,
                         struct exporter_device_slice *ret)
{
    struct exporter_cluster *c = arg;
    return c->slices && exporter_resource_slices_find(c->slices, pool, device, ret);
}

struct exporter_device_sources exporter_cluster_sources(struct exporter_cluster *c)
{
    return (struct exporter_device_sources){source_pod, source_slice, c};
}

bool exporter_cluster_pod(void *cluster, const char *ns, const char *pod,
                          struct exporter_render_pod *ret)
{
    struct exporter_cluster *c = cluster;
    return c->pods && (c->cfg.labels || c->cfg.uid) && exporter_pods_find(c->pods, ns, pod, ret);
}

uint64_t exporter_cluster_pod_version(void *cluster)
{
    struct exporter_cluster *c = cluster;
    return c->pods ? exporter_pods_version(c->pods) : 0;
}

bool exporter_cluster_name(struct exporter_cluster *c, const char *uid, const char *container_id,
                           const char **ret_ns, const char **ret_pod, const char **ret_container)
{
    return c->pods &&
           exporter_pods_name(c->pods, uid, container_id, ret_ns, ret_pod, ret_container);
}

struct exporter_cluster_problem exporter_cluster_problem(const struct exporter_cluster *c)
{
    struct exporter_cluster_problem p = {.text = c->problem};
    if (!p.text && c->pods)
        p = (struct exporter_cluster_problem){exporter_pods_problem(c->pods),
                                              exporter_pods_denied(c->pods)};
    if (!p.text && c->slices)
        p = (struct exporter_cluster_problem){exporter_resource_slices_problem(c->slices),
                                              exporter_resource_slices_denied(c->slices)};
    return p;
}
