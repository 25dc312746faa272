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
    "pods,nodes,deployments,replicasets,namespaces,horizontalpodautoscalers,"                      \
    "daemonsets,statefulsets,jobs,cronjobs,poddisruptionbudgets,resourcequotas,limitranges"

// GS_EINVAL for an unknown resource or a malformed allow-list. client is borrowed.
struct gs_error *state_metrics_new(uv_loop_t *loop, struct kube_client *client,
                                   const struct state_metrics_config *cfg,
                                   struct state_metrics **ret);
void state_metrics_free(struct state_metrics *s);
// True if every watched resource has been listed. Resources that the API rejects (no permission, no
// such API) are skipped and left out of the exposition.
bool state_metrics_ready(const struct state_metrics *s);
// Returns the exposition (text 0.0.4). It is regenerated only after a change. Valid until the next
// call.
struct gs_slice state_metrics_text(struct state_metrics *s);
// Writes the text again if an object has changed, for about turn_ns. False: call it again to go on;
// objects may change meanwhile. state_metrics_written(): the last complete text; valid until the
// next call of another function.
bool state_metrics_write(struct state_metrics *s, int64_t turn_ns);
struct gs_slice state_metrics_written(const struct state_metrics *s);
// The number of objects in the last text whose series a limit of one object has shortened.
size_t state_metrics_incomplete_objects(const struct state_metrics *s);

// --- feed ---
// Stores the state of Kubernetes objects like scrapes of kube-state-metrics: job
// "kube-state-metrics", with honor_labels.

struct state_metrics_feed;

#define STATE_METRICS_INSTANCE "gpuscale" // the label instance of its series

struct state_metrics_feed_config {
    struct state_metrics_config state;
    int64_t interval_ms; // 0: 1 s
};

struct gs_error *state_metrics_feed_new(uv_loop_t *loop, struct tsdb *db,
                                        struct kube_client *client,
                                        const struct state_metrics_feed_config *cfg,
                                        struct state_metrics_feed **ret);
// Ends the stored series, or begins to store them again.
void state_metrics_feed_hide(struct state_metrics_feed *f, bool hidden);
// Appends the metrics about the feed in the text format.
void state_metrics_feed_write_metrics(const struct state_metrics_feed *f, struct gs_buf *out);
// What the feed stores, as state_metrics_text(). Empty: not every resource was listed yet.
struct gs_slice state_metrics_feed_text(struct state_metrics_feed *f);
void state_metrics_feed_free(struct state_metrics_feed *f); // free it before db
