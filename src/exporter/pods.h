// SPDX-License-Identifier: Apache-2.0
// UIDs and labels of the node's pods, by list and watch of the API server: get, list and watch of
// pods is all that it asks for.
#pragma once

#include "exporter/render.h"
#include "kube/client.h"

#include <uv.h>

struct exporter_pods;

struct exporter_pods_config {
    const char *node_name; // only its pods; "" or NULL: all
    bool labels, uid;      // which are given
    // PCRE, separated by commas, matched anywhere in a label's name; NULL: all
    const char *allowlist;
    // A pod came, went, ended, or its annotations are others; NULL is fine.
    void (*on_change)(void *arg);
    void *arg;
};

// Regular expressions that are wrong are told and left out.
struct exporter_pods *exporter_pods_new(uv_loop_t *loop, struct kube_client *kube,
                                        const struct exporter_pods_config *cfg);
void exporter_pods_free(struct exporter_pods *p); // NULL is fine
// A exporter_render_pod_fn; arg: the pods.
bool exporter_pods_find(void *arg, const char *ns, const char *pod,
                        struct exporter_render_pod *ret);
// A exporter_render_version_fn.
uint64_t exporter_pods_version(void *arg);
// Metadata, names of containers and phase of a pod; NULL: not known.
const json_t *exporter_pods_object(const struct exporter_pods *p, const char *ns, const char *pod);
// See exporter_cluster_name().
bool exporter_pods_name(const struct exporter_pods *p, const char *uid, const char *container_id,
                        const char **ret_ns, const char **ret_pod, const char **ret_container);
const char *exporter_pods_problem(const struct exporter_pods *p); // NULL: none
bool exporter_pods_denied(const struct exporter_pods *p);         // it is a refusal
