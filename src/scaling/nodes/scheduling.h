// SPDX-License-Identifier: Apache-2.0
// A snapshot of nodes and pods, and kube-scheduler's filters on it: resources (extended ones, too)
// and pods per node, unschedulable nodes, taints, node selector and required node affinity, host
// ports, topology spread (DoNotSchedule), required inter-pod affinity and anti-affinity. Volumes
// and resource claims are not considered.
//
// Amounts are int64 milli-units, memory in thousandths of bytes, as kube/quantity.h. Nodes and pods
// are indexes. A node that is not ready counts as tainted with node.kubernetes.io/not-ready, as the
// node controller of Kubernetes taints it. ephemeral-storage is checked only on nodes that list it.
//
// The snapshot shares what pods with equal requirements have in common, so nodes_fits() is cheap
// for many pods of few owners. Objects are retained and must not be changed while it exists. Not
// thread-safe.
#pragma once

#include "codec/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODES_GPU        "nvidia.com/gpu"
#define NODES_GPU_SHARED "nvidia.com/gpu.shared" // renamed time slices; they count as GPUs
#define NODES_NONE       SIZE_MAX                // no such node or pod

// Limits. Further resources and further domains are treated as absent.
#define NODES_MAX_RESOURCES     256 // kinds of resources that the nodes of a snapshot have
#define NODES_MAX_OWN_RESOURCES 64  // of them, those that one node adds

struct nodes_snapshot;

struct nodes_snapshot *nodes_snapshot_new(void);
void nodes_snapshot_free(struct nodes_snapshot *s);
GS_DEFINE_CLEANUP(struct nodes_snapshot *, nodes_snapshot_free)

// --- contents ---

// Add all nodes before the pods: a pod with spec.nodeName uses resources of the node only if the
// node is there.
size_t nodes_snapshot_add_node(struct nodes_snapshot *s, const json_t *node);
// A node that does not exist yet. It counts as ready and gets this name and hostname label; NULL:
// those of the object.
size_t nodes_snapshot_add_template(struct nodes_snapshot *s, const json_t *node, const char *name);
// A place for pods that do not exist now. It is excluded, and its pods count nowhere.
size_t nodes_snapshot_add_parking(struct nodes_snapshot *s);
// The caller leaves out pods that ended (Succeeded, Failed).
size_t nodes_snapshot_add_pod(struct nodes_snapshot *s, const json_t *pod);

size_t nodes_count(const struct nodes_snapshot *s);
size_t nodes_pod_count(const struct nodes_snapshot *s);
const json_t *nodes_node(const struct nodes_snapshot *s, size_t node);
const json_t *nodes_pod(const struct nodes_snapshot *s, size_t pod);
const char *nodes_name(const struct nodes_snapshot *s, size_t node);
size_t nodes_find(const struct nodes_snapshot *s, const char *name); // NODES_NONE: absent
size_t nodes_of_pod(const struct nodes_snapshot *s, size_t pod);     // NODES_NONE: not placed
// An excluded node fits no pod and does not count in texts. Its pods stay placed.
void nodes_exclude(struct nodes_snapshot *s, size_t node, bool excluded);
bool nodes_is_excluded(const struct nodes_snapshot *s, size_t node);
// A number that pods with equal requirements share. It is below nodes_pod_count().
size_t nodes_pod_form(const struct nodes_snapshot *s, size_t pod);

// Undo of placements, added nodes and exclusions. Checkpoints are nested: restore the last one
// first. Pods must not be added in between.
size_t nodes_checkpoint(struct nodes_snapshot *s);
void nodes_restore(struct nodes_snapshot *s, size_t checkpoint);
void nodes_keep(struct nodes_snapshot *s); // forgets the last checkpoint and keeps the changes

// --- amounts ---

int64_t nodes_request(const struct nodes_snapshot *s, size_t pod, const char *resource);
int64_t nodes_allocatable(const struct nodes_snapshot *s, size_t node, const char *resource);
int64_t nodes_free(const struct nodes_snapshot *s, size_t node, const char *resource); // may be < 0
size_t nodes_gpus(const struct nodes_snapshot *s, size_t node);                        // whole GPUs
size_t nodes_free_gpus(const struct nodes_snapshot *s, size_t node);                   // whole GPUs
size_t nodes_pods_on(const struct nodes_snapshot *s, size_t node);
size_t nodes_gpu_request(const struct nodes_snapshot *s, size_t pod); // whole GPUs, rounded up

// --- filters ---

// Why nodes do not fit, in kube-scheduler's words, with the number of nodes.
struct nodes_reason {
    char *text;
    size_t nodes;
};
struct nodes_reasons {
    struct nodes_reason *items;
    size_t len, cap;
};

void nodes_reasons_add(struct nodes_reasons *r, const char *text, size_t nodes);
void nodes_reasons_finish(struct nodes_reasons *r);
// "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable."; caller
// frees.
char *nodes_reasons_text(size_t n_nodes, const struct nodes_reasons *r) GS_MUST_USE;

// Whether the pod fits on the node now. reasons: gets the reasons of a failure; NULL: not needed.
bool nodes_fits(struct nodes_snapshot *s, size_t pod, size_t node, struct nodes_reasons *reasons);
// Whether the pod would fit on the node if no other pod ran there and nowhere: its selectors,
// tolerations and requests against the node alone.
bool nodes_fits_empty(struct nodes_snapshot *s, size_t pod, size_t node,
                      struct nodes_reasons *reasons);
// Places a pod without a node, also where it does not fit.
void nodes_place(struct nodes_snapshot *s, size_t pod, size_t node);
void nodes_unplace(struct nodes_snapshot *s, size_t pod, size_t node);

// The choice among nodes that fit, as kube-scheduler's scoring strategies. Equal scores: the node
// that was added first.
enum nodes_scoring {
    NODES_FIRST,           // the first that fits
    NODES_LEAST_ALLOCATED, // kube-scheduler's default: spreads
    NODES_MOST_ALLOCATED,  // packs CPU and memory
    NODES_PACK_GPUS,       // the fewest GPUs left free, then the fewest GPUs of the node
};
// NODES_NONE: the pod fits nowhere; reasons (may be NULL) then gets all reasons.
size_t nodes_best(struct nodes_snapshot *s, size_t pod, enum nodes_scoring scoring,
                  struct nodes_reasons *reasons);

// --- single objects ---

#define NODES_NOT_SELECTED "node(s) didn't match Pod's node affinity/selector"

// Whether the pod's node selector and required node affinity select the node.
bool nodes_selects(const json_t *pod, const json_t *node);
// kube-scheduler's text for the first taint that the pod does not tolerate. NULL: it tolerates all.
// no_execute: considers only taints that also evict pods. Caller frees.
char *nodes_untolerated_taint(const json_t *pod, const json_t *node, bool no_execute) GS_MUST_USE;
int64_t nodes_milli_of(const json_t *quantity); // 0: not a quantity; saturates
// The requests of a pod as kube-scheduler computes them: name -> milli-units; new reference.
json_t *nodes_pod_requests(const json_t *pod);
// Lowers what a future node offers by the requests of a DaemonSet's pod, if it would run there.
void nodes_reserve_daemon(json_t *node, const json_t *pod);
