// SPDX-License-Identifier: Apache-2.0
#include "exporter/cluster.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exporter/pods.h"
#include "exporter/render.h"
#include "exporter/slices.h"

#define RECONNECT_NS (60 * GS_NS_PER_SEC)

struct cluster {
    uv_loop_t *loop;
    struct cluster_config cfg;
    struct kube_client *kube;  // NULL: not connected
    int64_t connect_failed_ns; // 0: never
    char *problem;             // why not connected
    struct pods *pods;         // each NULL until needed
    struct slices *slices;
};

struct cluster *cluster_new(uv_loop_t *loop, const struct cluster_config *cfg)
{
    struct cluster *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->cfg = *cfg;
    return c;
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    pods_free(c->pods);
    slices_free(c->slices);
    free(c->problem);
    free(c);
}

// A service account's token may be mounted later than we start.
static bool connected(struct cluster *c)
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

void cluster_need(struct cluster *c, bool pods, bool slices)
{
    if ((!pods || c->pods) && (!slices || c->slices))
        return;
    if (!connected(c))
        return;
    if (pods && !c->pods) {
        struct pods_config cfg = {
            .node_name = c->cfg.node_name,
            .labels = c->cfg.labels,
            .uid = c->cfg.uid,
            .allowlist = c->cfg.allowlist,
            .on_change = c->cfg.on_change,
            .arg = c->cfg.arg,
        };
        c->pods = pods_new(c->loop, c->kube, &cfg);
    }
    if (slices && !c->slices)
        c->slices = slices_new(c->loop, c->kube, c->cfg.node_name, c->cfg.on_change, c->cfg.arg);
}

// --- sources ---

static const json_t *source_pod(void *arg, const char *ns, const char *name)
{
    struct cluster *c = arg;
    return c->pods ? pods_object(c->pods, ns, name) : NULL;
}

static bool source_slice(void *arg, const char *pool, const char *device, struct device_slice *ret)
{
    struct cluster *c = arg;
    return c->slices && slices_find(c->slices, pool, device, ret);
}

struct device_sources cluster_sources(struct cluster *c)
{
    return (struct device_sources){source_pod, source_slice, c};
}

bool cluster_pod(void *cluster, const char *ns, const char *pod, struct render_pod *ret)
{
    struct cluster *c = cluster;
    return c->pods && (c->cfg.labels || c->cfg.uid) && pods_find(c->pods, ns, pod, ret);
}

uint64_t cluster_pod_version(void *cluster)
{
    struct cluster *c = cluster;
    return c->pods ? pods_version(c->pods) : 0;
}

bool cluster_name(struct cluster *c, const char *uid, const char *container_id, const char **ret_ns,
                  const char **ret_pod, const char **ret_container)
{
    return c->pods && pods_name(c->pods, uid, container_id, ret_ns, ret_pod, ret_container);
}

struct cluster_problem cluster_problem(const struct cluster *c)
{
    struct cluster_problem p = {.text = c->problem};
    if (!p.text && c->pods)
        p = (struct cluster_problem){pods_problem(c->pods), pods_denied(c->pods)};
    if (!p.text && c->slices)
        p = (struct cluster_problem){slices_problem(c->slices), slices_denied(c->slices)};
    return p;
}
