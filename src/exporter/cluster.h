// SPDX-License-Identifier: Apache-2.0
// What the API server tells the exporter about its node: pods (labels, UIDs, annotations of
// schedulers that share GPUs) and ResourceSlices (devices of claims). It is not asked before
// something needs it, so that an exporter that needs nothing of it needs no right either: list and
// watch of pods, and of resourceslices.resource.k8s.io.
#pragma once

#include "exporter/device_map.h"
#include "kube/client.h"

#include <uv.h>

struct exporter_render_pod;

struct exporter_cluster_config {
    // Makes the client, which is borrowed and must outlive the cluster.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    void *connect_arg;
    const char *node_name;        // only what is of this node; NULL: all
    bool labels, uid;             // which of a pod's are given to the pages
    const char *allowlist;        // see pods.h
    void (*on_change)(void *arg); // something that the device map may rest on is different
    void *arg;
};

struct exporter_cluster;

// Strings are borrowed.
struct exporter_cluster *exporter_cluster_new(uv_loop_t *loop,
                                              const struct exporter_cluster_config *cfg);
void exporter_cluster_free(struct exporter_cluster *c); // NULL is fine
// From now on; cheap to say again.
void exporter_cluster_need(struct exporter_cluster *c, bool pods, bool slices);
struct exporter_device_sources exporter_cluster_sources(struct exporter_cluster *c);
// A exporter_render_pod_fn; arg: the cluster.
bool exporter_cluster_pod(void *cluster, const char *ns, const char *pod,
                          struct exporter_render_pod *ret);
uint64_t exporter_cluster_pod_version(void *cluster); // a exporter_render_version_fn
// Namespace, pod and container by the pod's UID and the container's id, as cgroups have them.
// False: not known. *ret_container may be "".
bool exporter_cluster_name(struct exporter_cluster *c, const char *uid, const char *container_id,
                           const char **ret_ns, const char **ret_pod, const char **ret_container);

// Why what is needed is not there; text NULL: it is.
struct exporter_cluster_problem {
    const char *text;
    bool denied;
};
struct exporter_cluster_problem exporter_cluster_problem(const struct exporter_cluster *c);
