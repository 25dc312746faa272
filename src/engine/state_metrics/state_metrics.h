// SPDX-License-Identifier: Apache-2.0
// The state of Kubernetes objects as series, from watch caches: a subset of kube-state-metrics with
// its names, labels and values (https://github.com/kubernetes/kube-state-metrics/tree/main/docs),
// so that rules which join GPU metrics with kube_pod_labels need no other component.
#pragma once

#include "base/buf.h"
#include "kube/client.h"
#include "tsdb/tsdb.h"

#include <uv.h>

struct state_metrics;

struct state_metrics_config {
    // Which labels become label_* of kube_<resource>_labels, in the form of kube-state-metrics'
    // --metric-labels-allowlist: "pods=[*],nodes=[zone,pool]". NULL:
    // STATE_METRICS_DEFAULT_ALLOWLIST.
    const char *labels_allowlist;
    // Resources to watch, comma-separated; NULL: STATE_METRICS_DEFAULT_RESOURCES.
    const char *resources;
};

#define STATE_METRICS_DEFAULT_ALLOWLIST                                                            \
    "pods=[*],nodes=[*],deployments=[*],namespaces=[*],horizontalpodautoscalers=[*]"
#define STATE_METRICS_DEFAULT_RESOURCES                                                            \
    "pods,nodes,deployments,replicasets,namespaces,horizontalpodautoscalers"

// GS_EINVAL for an unknown resource or a malformed allow-list. client is borrowed.
struct gs_error *state_metrics_new(uv_loop_t *loop, struct kube_client *client,
                                   const struct state_metrics_config *cfg,
                                   struct state_metrics **ret);
void state_metrics_free(struct state_metrics *s);
// Every watched resource has been listed. A resource that the API refuses (rights, no such API)
// does not count; it is left out of the exposition.
bool state_metrics_ready(const struct state_metrics *s);
// The exposition (text 0.0.4), made anew only after a change. Valid until the next call.
struct gs_slice state_metrics_text(struct state_metrics *s);
// Grows with every change of an object.
uint64_t state_metrics_version(const struct state_metrics *s);

// --- feed ---
//
// The state of Kubernetes objects into the store, as if kube-state-metrics were a target: job
// "kube-state-metrics", the series' own labels kept.

struct state_metrics_feed;

struct state_metrics_feed_config {
    struct state_metrics_config state;
    int64_t interval_ms; // 0: 1 s
};

struct gs_error *state_metrics_feed_new(uv_loop_t *loop, struct tsdb *db,
                                        struct kube_client *client,
                                        const struct state_metrics_feed_config *cfg,
                                        struct state_metrics_feed **ret);
void state_metrics_feed_free(struct state_metrics_feed *f); // before db
