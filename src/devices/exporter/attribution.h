// SPDX-License-Identifier: Apache-2.0
// What the exporter reads from the kubelet and the API server to add pods to GPUs' series, and why
// it may be missing. All functions belong to the thread of the loop.
#pragma once

#include "exporter/device_map.h"
#include "exporter/exporter.h"
#include "exporter/sampler.h"
#include "kube/client.h"

#include <uv.h>

// --- attribution ---

// Keeps the device-to-container map current. It calls List of the kubelet's PodResources API: v1,
// or v1alpha1 for kubelets before 1.20. While the kubelet is unavailable, the last map stays in use
// and calls are retried with exponential backoff. The kubelet allows 100 List calls per second for
// all clients together. Calls are made at the interval, and sooner (at most once a second) if a
// process appears that the map may not contain yet.
// All functions of this header are for the loop's thread.

struct exporter_attribution_config {
    const char *socket; // path
    int64_t interval_ns;
    unsigned call_timeout_ms; // 0: 10 s
    const char *const *extra_resources;
    size_t n_extra_resources;
    struct exporter_device_sources sources; // data from the API server
    void (*on_change)(void *arg);           // the map or the replica counts have changed
    void *arg;
};

struct exporter_attribution_status {
    bool up;             // the last call succeeded
    const char *problem; // cause; "" if up, or before the first call ends
    uint64_t ok, failed; // List calls
    int64_t last_ok_ns;  // gs_mono_ns, 0: never
};

struct exporter_attribution;

// Strings are borrowed.
struct gs_error *exporter_attribution_new(uv_loop_t *loop,
                                          const struct exporter_attribution_config *cfg,
                                          struct exporter_attribution **ret);
void exporter_attribution_free(struct exporter_attribution *a);
const struct exporter_device_map *
exporter_attribution_map(const struct exporter_attribution *a); // NULL: none yet
const struct exporter_device_replicas *
exporter_attribution_replicas(const struct exporter_attribution *a); // NULL: unknown
// When the kubelet was called for the current map, gs_mono_ns. The map need not contain pods that
// started later. 0: never.
int64_t exporter_attribution_requested_ns(const struct exporter_attribution *a);
struct exporter_attribution_status
exporter_attribution_status(const struct exporter_attribution *a);
void exporter_attribution_request_soon(struct exporter_attribution *a); // calls the kubelet soon
// Calls the kubelet soon, and builds a new map even if the reply is the same, because a source has
// changed.
void exporter_attribution_refresh(struct exporter_attribution *a);

// --- cluster ---

// What the API server knows about this node: pods (labels, UIDs, annotations of schedulers that
// share GPUs) and ResourceSlices (devices of claims). Lists and watches start when they are first
// required, so that an exporter that does not need them needs no permission. Permissions: list and
// watch of pods, and of resourceslices.resource.k8s.io.

struct exporter_cluster_config {
    // Creates the client. It is borrowed and must outlive the cluster.
    struct gs_error *(*connect)(void *arg, struct kube_client **ret);
    void *connect_arg;
    const char *node_name;        // only objects of this node; NULL: of all nodes
    bool labels, uid;             // which of these the pages contain
    const char *allowlist;        // see exporter_pods_config
    void (*on_change)(void *arg); // data that the device map may depend on has changed
    void *arg;
};

struct exporter_cluster;

// Strings are borrowed.
struct exporter_cluster *exporter_cluster_new(uv_loop_t *loop,
                                              const struct exporter_cluster_config *cfg);
void exporter_cluster_free(struct exporter_cluster *c); // NULL is allowed
// Starts the lists and watches that have not started yet. Repeated calls are cheap.
void exporter_cluster_require(struct exporter_cluster *c, bool pods, bool slices);
struct exporter_device_sources exporter_cluster_sources(struct exporter_cluster *c);
// An exporter_render_pod_fn; arg: the cluster.
bool exporter_cluster_pod(void *cluster, const char *ns, const char *pod,
                          struct exporter_render_pod *ret);
uint64_t exporter_cluster_pod_version(void *cluster); // an exporter_render_version_fn
// Finds the namespace, pod and container by the UID of the pod and the ID of the container, as in
// cgroup paths. False: not found. *ret_container may be "".
bool exporter_cluster_name(struct exporter_cluster *c, const char *uid, const char *container_id,
                           const char **ret_ns, const char **ret_pod, const char **ret_container);

// Why required data is unavailable. text NULL: it is available.
struct exporter_cluster_problem {
    const char *text;
    bool denied;
};
struct exporter_cluster_problem exporter_cluster_problem(const struct exporter_cluster *c);

// --- pods ---

// UIDs and labels of the node's pods, by list and watch. Requires get, list and watch of pods,
// nothing else.

struct exporter_pods;

struct exporter_pods_config {
    const char *node_name; // only pods of this node; "" or NULL: all
    bool labels, uid;      // which of these are returned
    // PCRE patterns, separated by commas, searched in label names; NULL: all labels
    const char *allowlist;
    // A pod was added, removed or ended, or its annotations have changed. May be NULL.
    void (*on_change)(void *arg);
    void *arg;
};

// Invalid patterns are logged and ignored.
struct exporter_pods *exporter_pods_new(uv_loop_t *loop, struct kube_client *kube,
                                        const struct exporter_pods_config *cfg);
void exporter_pods_free(struct exporter_pods *p); // NULL is allowed
// An exporter_render_pod_fn; arg: the pods.
bool exporter_pods_find(void *arg, const char *ns, const char *pod,
                        struct exporter_render_pod *ret);
// An exporter_render_version_fn.
uint64_t exporter_pods_version(void *arg);
// Metadata, container names and phase of a pod. NULL: not found.
const json_t *exporter_pods_object(const struct exporter_pods *p, const char *ns, const char *pod);
// See exporter_cluster_name().
bool exporter_pods_name(const struct exporter_pods *p, const char *uid, const char *container_id,
                        const char **ret_ns, const char **ret_pod, const char **ret_container);
const char *exporter_pods_problem(const struct exporter_pods *p); // NULL: none
bool exporter_pods_denied(const struct exporter_pods *p);         // permission is denied

// --- slices ---

// The node's ResourceSlices of NVIDIA's DRA driver. They map a pool and a device name to a GPU or
// MIG device. Reads the newest version that the API server offers: resource.k8s.io/v1, v1beta2 or
// v1beta1.

struct exporter_resource_slices;

// node_name NULL: slices of all nodes. on_change: the devices have changed.
struct exporter_resource_slices *
exporter_resource_slices_new(uv_loop_t *loop, struct kube_client *kube, const char *node_name,
                             void (*on_change)(void *arg), void *arg);
void exporter_resource_slices_free(struct exporter_resource_slices *s); // NULL is allowed
// Searches the newest generation of the pool.
bool exporter_resource_slices_find(struct exporter_resource_slices *s, const char *pool,
                                   const char *device, struct exporter_device_slice *ret);
const char *
exporter_resource_slices_problem(const struct exporter_resource_slices *s); // NULL: none
// permission is denied
bool exporter_resource_slices_denied(const struct exporter_resource_slices *s);

// --- attribution problems ---

// Why series have no pod labels although pods use the GPUs. No other question of users is as
// frequent.

enum exporter_attribution_problem {
    EXPORTER_PROBLEM_FLAG,   // --kubernetes is not set, but processes of pods use the GPUs
    EXPORTER_PROBLEM_SOCKET, // the kubelet's socket does not exist: not mounted, or another path
    EXPORTER_PROBLEM_PERMISSION, // no permission to connect to the socket
    EXPORTER_PROBLEM_RESPONSE,   // the kubelet does not respond, or responds with an error
    EXPORTER_PROBLEM_RESOURCE,  // pods have GPUs under a resource name that does not count as a GPU
    EXPORTER_PROBLEM_IDS,       // pods have device IDs that match no GPU of this machine
    EXPORTER_PROBLEM_PROCESSES, // the driver's PIDs do not exist here: no hostPID
    EXPORTER_PROBLEM_NAMES,     // a process's pod UID is found, but not the pod's name
    EXPORTER_PROBLEM_ANNOTATION,    // a pod has a share of a GPU, but no annotation names the GPU
    EXPORTER_PROBLEM_CLAIM,         // the device of a claim matches no GPU of this machine
    EXPORTER_PROBLEM_API_FORBIDDEN, // the API server denies access to data that is needed
    EXPORTER_PROBLEM_API,           // the API server is unavailable
    EXPORTER_PROBLEM_COUNT
};

struct exporter_attribution_facts {
    const struct exporter_sample *sample;
    const struct exporter_attribution *attribution; // NULL: no attribution is configured
    const struct exporter_cluster *cluster;         // NULL: no cluster is configured
    const char *socket;
};

// Returns a bit 1u << problem for each problem that exists.
unsigned exporter_attribution_problems(const struct exporter_attribution_facts *f);
// Writes the cause and what to do, for the log.
void exporter_attribution_problem_text(const struct exporter_attribution_facts *f,
                                       enum exporter_attribution_problem r, char *ret, size_t size);
const char *
exporter_attribution_problem_name(enum exporter_attribution_problem r); // "flag_not_set", …
