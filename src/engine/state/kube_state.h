// SPDX-License-Identifier: Apache-2.0
// The state of Kubernetes objects as series, from watch caches: a subset of kube-state-metrics with
// its names, labels and values (https://github.com/kubernetes/kube-state-metrics/tree/main/docs),
// so that rules which join GPU metrics with kube_pod_labels need no other component.
#pragma once

#include "base/buf.h"
#include "kube/client.h"

#include <uv.h>

struct kube_state;

struct kube_state_config {
    // Which labels become label_* of kube_<resource>_labels, in the form of kube-state-metrics'
    // --metric-labels-allowlist: "pods=[*],nodes=[zone,pool]". NULL: KUBE_STATE_DEFAULT_ALLOWLIST.
    const char *labels_allowlist;
    // Resources to watch, comma-separated; NULL: KUBE_STATE_DEFAULT_RESOURCES.
    const char *resources;
};

#define KUBE_STATE_DEFAULT_ALLOWLIST                                                               \
    "pods=[*],nodes=[*],deployments=[*],namespaces=[*],horizontalpodautoscalers=[*]"
#define KUBE_STATE_DEFAULT_RESOURCES                                                               \
    "pods,nodes,deployments,replicasets,namespaces,horizontalpodautoscalers"

// GS_EINVAL for an unknown resource or a malformed allow-list. client is borrowed.
struct gs_error *kube_state_new(uv_loop_t *loop, struct kube_client *client,
                                const struct kube_state_config *cfg, struct kube_state **ret);
void kube_state_free(struct kube_state *s);
// Every watched resource has been listed. A resource that the API refuses (rights, no such API)
// does not count; it is left out of the exposition.
bool kube_state_ready(const struct kube_state *s);
// The exposition (text 0.0.4), made anew only after a change. Valid until the next call.
struct gs_slice kube_state_text(struct kube_state *s);
// Grows with every change of an object.
uint64_t kube_state_version(const struct kube_state *s);
