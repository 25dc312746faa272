// SPDX-License-Identifier: Apache-2.0
// UIDs and labels of the node's pods, by list and watch of the API server: get, list and watch of
// pods is all that it asks for.
#pragma once

#include "exporter/render.h"
#include "kube/client.h"

#include <uv.h>

struct pods;

struct pods_config {
    const char *node_name; // only its pods; "" or NULL: all
    bool labels, uid;      // which are given
    // PCRE, separated by commas, matched anywhere in a label's name; NULL: all
    const char *allowlist;
    // A pod came, went, ended, or its annotations are others; NULL is fine.
    void (*on_change)(void *arg);
    void *arg;
};

// Regular expressions that are wrong are told and left out.
struct pods *pods_new(uv_loop_t *loop, struct kube_client *kube, const struct pods_config *cfg);
void pods_free(struct pods *p); // NULL is fine
// A render_pod_fn; arg: the pods.
bool pods_find(void *arg, const char *ns, const char *pod, struct render_pod *ret);
// A render_version_fn.
uint64_t pods_version(void *arg);
// Metadata, names of containers and phase of a pod; NULL: not known.
const json_t *pods_object(const struct pods *p, const char *ns, const char *pod);
// See cluster_name().
bool pods_name(const struct pods *p, const char *uid, const char *container_id, const char **ret_ns,
               const char **ret_pod, const char **ret_container);
const char *pods_problem(const struct pods *p); // NULL: none
bool pods_denied(const struct pods *p);         // it is a refusal
