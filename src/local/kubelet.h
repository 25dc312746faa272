// SPDX-License-Identifier: Apache-2.0
// The kubelet of a node. Runs each container of its pods as a process under a supervisor
// process (`gpuscale pod-shim`), which ends with gpuscale. Restarts containers with backoff, probes
// them, writes logs, reports status, serves PodResources v1, registers the Node and renews its
// Lease. Only the thread of the loop may use it.
#pragma once

#include "local/api.h"
#include "local/cluster.h"

struct kubelet;

struct local_image {
    const char *image;   // exact image name, or a prefix ending in '*'
    const char *command; // split into words like by a shell
};

struct local_kubelet_config {
    // The first kubelet of this program: `first` NULL; its node is that of the cluster. The others
    // share its images, pod addresses and volume claims, and must be freed before it.
    struct kubelet *first;
    const char *node_name, *address, *data_dir; // only with `first`
    const char *self_exe;                       // this program, for the supervisor processes
    const struct local_image *images;
    size_t n_images;
    const char *const *device_ids; // those of the scheduler (pod.h)
    size_t n_devices;
    bool slices_renamed; // time slices are LOCAL_GPU_SHARED
    bool slices_single;  // a container with more than one time slice is rejected
    // Added to the node at each start: an object of labels, which replace default labels with the
    // same key, and an array of taints. NULL: none. Copied.
    const json_t *node_labels, *node_taints;
    const char *podresources_socket; // path to serve on
    bool simulated_gpus;             // for texts
    int64_t max_pods;                // maximum of the node; 0: 110
    const char *const *extra_env;    // "NAME=value" for every container, NULL-terminated; or NULL
    const char *work_dir;            // of the commands of `images`; NULL: the current directory
    // The port of the API on 127.0.0.1, for KUBERNETES_SERVICE_PORT of the containers; 0: none. Not
    // with `first`.
    uint16_t api_port;
    // Of the Node object: capacities that replace those of this machine, such as {"cpu": "4"}
    // (copied), and spec.providerID. NULL: none.
    const json_t *capacity;
    const char *provider_id;
    // The node is not Ready until kubelet_set_ready(). The text is the message of its condition.
    const char *not_ready;
};

struct gs_error *kubelet_new(struct local_cluster *c, struct local_api *api,
                             const struct local_kubelet_config *cfg, struct kubelet **ret);
// Replaces the devices: the capacity of the node and PodResources follow.
void kubelet_set_devices(struct kubelet *k, const char *const *ids, size_t n);
// message: why the node is not Ready; NULL: it is.
void kubelet_set_ready(struct kubelet *k, const char *message);
// A pod that shows a part of this program, which has no processes of its own: the pod and its
// containers are Running and Ready at the address of the node, so that Services, port-forward and
// logs work. Like the mirror pod of a static pod, it is created again after its deletion, and
// `kubectl drain` leaves it alone. A mirror pod that nobody adds, such as one of the last run, is
// deleted. Call it before the loop runs.
// pod: name, namespace, labels and spec (copied; nodeName and annotations are added). log_path: the
// file with the log of its containers (copied), see kubelet_log_open().
void kubelet_add_static_pod(struct kubelet *k, const json_t *pod, const char *log_path);
// The log of a static pod. The file is rotated at 10 MiB. Writing is allowed to one thread at a
// time.
struct kubelet_log;
struct gs_error *kubelet_log_open(const char *path, struct kubelet_log **ret);
void kubelet_log_add(struct kubelet_log *l, struct gs_slice lines); // each ends with a newline
void kubelet_log_close(struct kubelet_log *l);                      // NULL is fine
// Adds labels to those of the configuration and to the Node object.
void kubelet_add_labels(struct kubelet *k, const json_t *labels);
// Ends all containers (SIGTERM, then SIGKILL after timeout_ms), then calls done.
void kubelet_stop(struct kubelet *k, unsigned timeout_ms, void (*done)(void *arg), void *arg);
void kubelet_free(struct kubelet *k);

// Writes CPU time and memory of the running containers and nodes of all kubelets of this program
// in Prometheus' text format, with the names of a kubelet's /metrics/resource and of cAdvisor. The
// series of other nodes than the first have the labels instance and node. Memory is the sum of the
// resident memory of a container's processes; shared pages count for each process.
void kubelet_write_metrics(struct kubelet *first, struct gs_buf *out);

// The kubelet's own HTTP API (/healthz, /metrics, /metrics/cadvisor, /metrics/resource, /pods,
// /stats/summary): an http_handler. Callers must be authenticated.
void kubelet_handle(void *kubelet, struct http_exchange *x);
// Where a server listens for that API: the daemon endpoint of the node. 0: nowhere.
void kubelet_set_port(struct kubelet *k, uint16_t port);

// The main function of the supervisor process. Runs argv as its child, forwards SIGTERM, and exits
// with the child's status. Kills all descendants when the child or the parent ends.
int kubelet_pod_shim_main(int argc, char **argv);
