// SPDX-License-Identifier: Apache-2.0
#include "local/workloads.h"

#include "base/mem.h"
#include "local/loops/parts.h"

struct local_workloads {
    struct local_deployments *deployments;
    struct local_replicasets *replicasets;
    struct local_collector *collector;
    struct local_namespaces *namespaces;
};

struct local_workloads *local_workloads_new(struct local_cluster *c)
{
    struct local_workloads *w = gs_alloc(sizeof(*w));
    w->deployments = local_deployments_new(c);
    w->replicasets = local_replicasets_new(c);
    w->collector = local_collector_new(c);
    w->namespaces = local_namespaces_new(c);
    return w;
}

void local_workloads_free(struct local_workloads *w)
{
    if (!w)
        return;
    local_deployments_free(w->deployments);
    local_replicasets_free(w->replicasets);
    local_collector_free(w->collector);
    local_namespaces_free(w->namespaces);
    free(w);
}
