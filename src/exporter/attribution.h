// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "exporter/device_map.h"
#include "exporter/exporter.h"
#include "exporter/sampler.h"
#include "kube/client.h"

#include <uv.h>

// --- attribution ---

// Keeps the device-to-container map of the kubelet's PodResources socket fresh, by v1 or, of
// kubelets before 1.20, by v1alpha1. The last good map stays in use when the kubelet is away; it is
// asked again with back-off. The kubelet allows 100 List calls a second for all its clients
// together: ours come at the interval, and sooner, but at most once a second, when a process has
// turned up that the map may not know yet.

struct exporter_attribution_config {
    const char *socket; // path
    int64_t interval_ns;
    unsigned call_timeout_ms; // 0: 10 s
    const char *const *extra_resources;
    size_t n_extra_resources;
    struct exporter_device_sources sources; // what the API server tells
    void (*on_change)(void *arg);           // the map or the replica counts are others now
    void *arg;
};

struct exporter_attribution_status {
    bool up;             // the last call was answered
    const char *problem; // why not; "" when up or not yet asked
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
// When the map was asked for, gs_mono_ns: what came later it need not know. 0: never.
int64_t exporter_attribution_requested_ns(const struct exporter_attribution *a);
struct exporter_attribution_status
exporter_attribution_status(const struct exporter_attribution *a);
void exporter_attribution_request_soon(struct exporter_attribution *a); // ask again soon
// Ask again soon and make the map anew even if the kubelet says the same: a source has changed.
void exporter_attribution_refresh(struct exporter_attribution *a);

// --- cluster ---

// What the API server tells the exporter about its node: pods (labels, UIDs, annotations of
// schedulers that share GPUs) and ResourceSlices (devices of claims). It is not asked before
// something needs it, so that an exporter that needs nothing of it needs no right either: list and
// watch of pods, and of resourceslices.resource.k8s.io.

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
void exporter_cluster_require(struct exporter_cluster *c, bool pods, bool slices);
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

// --- pods ---

// UIDs and labels of the node's pods, by list and watch of the API server: get, list and watch of
// pods is all that it asks for.

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

// --- slices ---

// The node's ResourceSlices of NVIDIA's DRA driver: which GPU or MIG device is meant by a pool and
// the name of a device in it. Takes resource.k8s.io/v1, v1beta2 or v1beta1, what the API server
// has.

struct exporter_resource_slices;

// node_name NULL: those of all nodes. on_change: other devices than before.
struct exporter_resource_slices *
exporter_resource_slices_new(uv_loop_t *loop, struct kube_client *kube, const char *node_name,
                             void (*on_change)(void *arg), void *arg);
void exporter_resource_slices_free(struct exporter_resource_slices *s); // NULL is fine
// Of the newest generation of its pool.
bool exporter_resource_slices_find(struct exporter_resource_slices *s, const char *pool,
                                   const char *device, struct exporter_device_slice *ret);
const char *
exporter_resource_slices_problem(const struct exporter_resource_slices *s);     // NULL: none
bool exporter_resource_slices_denied(const struct exporter_resource_slices *s); // it is a refusal

// --- missing ---

// Why lines have no pod labels although pods use the GPUs: the one question that users ask most.

enum exporter_attribution_problem {
    EXPORTER_PROBLEM_FLAG,       // --kubernetes is not set, and processes of pods are on the GPUs
    EXPORTER_PROBLEM_SOCKET,     // the kubelet's socket is not there: not mounted, or another path
    EXPORTER_PROBLEM_PERMISSION, // it may not be connected to
    EXPORTER_PROBLEM_RESPONSE,   // the kubelet does not answer, or with an error
    EXPORTER_PROBLEM_RESOURCE,   // pods have GPUs by a resource name that is not counted
    EXPORTER_PROBLEM_IDS,        // pods have device ids that no GPU here has
    EXPORTER_PROBLEM_PROCESSES,  // pids of the driver are not seen here: no hostPID
    EXPORTER_PROBLEM_NAMES,      // the UID of a process's pod is known and not its name
    EXPORTER_PROBLEM_ANNOTATION, // a pod has a share of a GPU, and no annotation that names the GPU
    EXPORTER_PROBLEM_CLAIM,      // a claim's device is no GPU that is known here
    EXPORTER_PROBLEM_API_FORBIDDEN, // the API server refuses what would tell more
    EXPORTER_PROBLEM_API,           // it cannot be asked
    EXPORTER_PROBLEM_COUNT
};

struct exporter_attribution_facts {
    const struct exporter_sample *sample;
    const struct exporter_attribution *attribution; // NULL: pods are not asked for
    const struct exporter_cluster *cluster;         // NULL likewise
    const char *socket;
};

// A bit 1u << reason for each that holds.
unsigned exporter_attribution_problems(const struct exporter_attribution_facts *f);
// What to do about it, for the log.
void exporter_attribution_problem_text(const struct exporter_attribution_facts *f,
                                       enum exporter_attribution_problem r, char *ret, size_t size);
const char *
exporter_attribution_problem_name(enum exporter_attribution_problem r); // "flag_not_set", …
