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
    const char
        *allowlist; // PCRE, separated by commas, matched anywhere in a label's name; NULL: all
};

// Regular expressions that are wrong are told and left out.
struct gs_error *pods_new(uv_loop_t *loop, struct kube_client *kube, const struct pods_config *cfg,
                          struct pods **ret);
void pods_free(struct pods *p); // NULL is fine
// A render_pod_fn; arg: the pods.
bool pods_find(void *arg, const char *ns, const char *pod, struct render_pod *ret);
// A render_version_fn.
uint64_t pods_version(void *arg);
