// SPDX-License-Identifier: Apache-2.0
// What the nodes of a cluster do, and why a pod waits: pools, their nodes and GPUs, machines that
// are coming, back-off, candidates for removal, and how long starts take. Everything is read from
// the Kubernetes API, so the Cluster Autoscaler, Karpenter and the autoscaler of `gpuscale up` are
// explained alike. docs/nodes.md describes the output.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "diagnosis/diagnosis.h"

#include <stdint.h>

// Objects of the API. Arrays of objects, borrowed; NULL: they do not exist or cannot be read.
struct inspect_input {
    const json_t *nodes, *pods;
    const json_t *events;          // of pods, from kube-scheduler, cluster-autoscaler and karpenter
    const json_t *claims;          // NodeClaims of Karpenter
    const json_t *status;          // the ConfigMap kube-system/cluster-autoscaler-status
    const json_t *autoscaler;      // the state of gpuscale's autoscaler
    diagnosis_last_line last_line; // of ended containers; NULL: none is known
    void *arg;                     // of last_line
    int64_t now_ms;
};

// {"pools": […], "nodes": […], "pending": […], "gpus": {…}}; new reference.
json_t *inspect_nodes(const struct inspect_input *in);
// The same as tables. wide: with further columns.
void inspect_nodes_text(const json_t *view, bool wide, struct gs_buf *out);

// Why the pod waits or where it runs, with the diagnosis if it does not run: {"stage", "cause",
// "reason", "message", "remedy", …}; new reference. NULL: the pod does not exist.
json_t *inspect_pod(const struct inspect_input *in, const char *ns, const char *name);
void inspect_pod_text(const json_t *explanation, struct gs_buf *out);

// How long starts of these pods took, without pods that were restarted: {"samples", "p50Seconds",
// "p90Seconds", "phases": {"pending", "image", "ready"}}, each phase with the same members; new
// reference. NULL: no pod has started yet.
json_t *inspect_startup(const json_t *const *pods, size_t n);
// "p90 44s (pending 40s, image 5s, ready 5s), from 2 pods".
void inspect_startup_text(const json_t *startup, struct gs_buf *out);
// How long nodes took from their order until they were ready: {pool: {"samples", "p50Seconds",
// "p90Seconds", "phases": {"provision", "ready"}}}; new reference.
json_t *inspect_pool_startup(const struct inspect_input *in);
// "p90 40s (provision 36s, ready 4s), from 3 nodes" of a member of it.
void inspect_pool_startup_text(const json_t *startup, struct gs_buf *out);

// --- what the Cluster Autoscaler publishes ---

// The node groups of the ConfigMap with its status: {name: {"min", "max", "target", "ready",
// "registered", "unregistered", "scaleUp", "since", "error"}}; new reference, empty if there are
// none.
json_t *inspect_status_groups(const json_t *config_map);
// Whether a node group is the pool: it has its name, or it contains it between dashes
// ("gke-main-POOL-1a2b3c-grp").
bool inspect_group_is(const char *group, const char *pool);

// --- metrics ---
// Series of the same, and of the time that starts took, also of nodes and pods that no longer
// exist. docs/nodes.md lists them.

struct inspect_metrics;

struct inspect_metrics *inspect_metrics_new(void);
void inspect_metrics_free(struct inspect_metrics *m);
// Learns from a change of an object, as watch caches report it: old NULL: it is new, next NULL: it
// was deleted.
void inspect_metrics_pod(struct inspect_metrics *m, const json_t *old, const json_t *next);
// waiting_ms: since when the first pod waits for a node; 0: none does.
void inspect_metrics_node(struct inspect_metrics *m, const json_t *old, const json_t *next,
                          int64_t waiting_ms);
// Since when a pod that no node can take waits; 0: it does not wait.
int64_t inspect_waiting_since(const json_t *pod);
// Appends the exposition (text 0.0.4).
void inspect_metrics_write(const struct inspect_metrics *m, const struct inspect_input *in,
                           struct gs_buf *out);
