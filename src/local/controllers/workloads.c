// SPDX-License-Identifier: Apache-2.0
// Starts and ends the controllers of workloads together.
#include "local/workloads.h"

#include "base/mem.h"
#include "local/controllers/controllers_private.h"

struct local_workloads {
    struct controllers_deployments *deployments;
    struct controllers_replicasets *replicasets, *replication_controllers;
    struct controllers_daemonsets *daemonsets;
    struct controllers_statefulsets *statefulsets;
    struct controllers_jobs *jobs;
    struct controllers_cronjobs *cronjobs;
    struct controllers_disruption *disruption;
    struct controllers_garbage_collector *collector;
    struct controllers_namespaces *namespaces;
};

struct local_workloads *controllers_workloads_new(struct local_cluster *c)
{
    struct local_workloads *w = gs_alloc(sizeof(*w));
    w->deployments = controllers_deployments_new(c);
    w->replicasets = controllers_replicasets_new(c);
    w->replication_controllers = controllers_replication_controllers_new(c);
    w->daemonsets = controllers_daemonsets_new(c);
    w->statefulsets = controllers_statefulsets_new(c);
    w->jobs = controllers_jobs_new(c);
    w->cronjobs = controllers_cronjobs_new(c);
    w->disruption = controllers_disruption_new(c);
    w->collector = controllers_garbage_collector_new(c);
    w->namespaces = controllers_namespaces_new(c);
    return w;
}

void controllers_workloads_free(struct local_workloads *w)
{
    if (!w)
        return;
    controllers_deployments_free(w->deployments);
    controllers_replicasets_free(w->replicasets);
    controllers_replicasets_free(w->replication_controllers);
    controllers_daemonsets_free(w->daemonsets);
    controllers_statefulsets_free(w->statefulsets);
    controllers_jobs_free(w->jobs);
    controllers_cronjobs_free(w->cronjobs);
    controllers_disruption_free(w->disruption);
    controllers_garbage_collector_free(w->collector);
    controllers_namespaces_free(w->namespaces);
    free(w);
}
