// SPDX-License-Identifier: Apache-2.0
// Shared by the controllers of the one-node cluster: the client, the watch caches and settings.
// Each controller reads the caches and writes through the client. No controller calls another
// directly.
#pragma once

#include "kube/cache.h"
#include "kube/event.h"

#include <uv.h>

struct local_cluster {
    uv_loop_t *loop;
    struct kube_client *client;
    const char *node_name; // of the first node
    const char *data_dir;
    struct kube_cache *pods, *services, *endpoints, *nodes, *namespaces;
    struct kube_cache *deployments, *replicasets, *replicationcontrollers, *daemonsets,
        *statefulsets, *revisions, *jobs, *cronjobs;
    struct kube_cache *slices;  // EndpointSlices that the service controller does not write
    struct kube_cache *claims;  // PersistentVolumeClaims
    struct kube_cache *budgets; // PodDisruptionBudgets
};

// Creates and starts the caches. client and strings are borrowed.
struct local_cluster *local_cluster_new(uv_loop_t *loop, struct kube_client *client,
                                        const char *node_name, const char *data_dir);
void local_cluster_free(struct local_cluster *c);
bool local_cluster_synced(const struct local_cluster *c);
// True while the namespace is deleted: nothing can be created in it.
bool local_namespace_goes(const struct local_cluster *c, const char *ns);

// Annotations and environment variables.
#define LOCAL_ANN_ADDRESS "gpuscale.dev/address" // Service: "127.97.0.1:8080", where it listens
// A text for people who read the object by its name: the API returns it as a warning.
#define LOCAL_ANN_NOTICE    "gpuscale.dev/notice"
#define LOCAL_ANN_GPUS      "gpuscale.dev/gpus" // Pod: {"container":["GPU-…::0"]}, by the scheduler
#define LOCAL_ENV_POD_UID   "GPUSCALE_POD_UID"
#define LOCAL_ENV_POD_NAME  "GPUSCALE_POD_NAME"
#define LOCAL_ENV_POD_NS    "GPUSCALE_POD_NAMESPACE"
#define LOCAL_ENV_CONTAINER "GPUSCALE_CONTAINER_NAME"
#define LOCAL_ENV_POD_IP    "GPUSCALE_POD_IP" // the address that a container must bind

// Of containers whose image has a stand-in (standin/standin.h).
#define LOCAL_ENV_STANDIN_SOCKET "GPUSCALE_STANDIN_SOCKET"
#define LOCAL_ENV_STANDIN_IMAGE  "GPUSCALE_STANDIN_IMAGE"
#define LOCAL_ENV_STANDIN_TEXT   "GPUSCALE_STANDIN_TEXT" // what runs in place of the image
#define LOCAL_STANDIN_SOCKET     "standin.sock"          // in the data directory

// The volume with the token of the service account: the prefix of its name and its mount path.
#define LOCAL_ACCESS_VOLUME "kube-api-access-"
#define LOCAL_ACCESS_PATH   "/var/run/secrets/kubernetes.io/serviceaccount"

// Address plan (all of 127.0.0.0/8 is this machine): first node 127.0.0.1; pods 127.64.0.1 to
// 127.95.255.254; ClusterIPs 127.96.x.y; LoadBalancer addresses 127.97.x.y; other nodes 127.98.x.y.
#define LOCAL_NODE_IP         "127.0.0.1"
#define LOCAL_CLUSTER_IPS     "127.96.0.0/16"
#define LOCAL_BALANCER_IPS    "127.97.0.0/16"
#define LOCAL_NODE_IPS        "127.98.0.0/16"
#define LOCAL_NODE_PORT_FIRST 30000
#define LOCAL_NODE_PORT_LAST  32767
bool local_is_pod_ip(const char *ip); // 127.64.0.0/11; ip may be NULL
// True for an address of the range, except its first and last. ip may be NULL.
bool local_is_cluster_ip(const char *ip);
bool local_is_balancer_ip(const char *ip);
// True for the address of the first node, too.
bool local_is_node_ip(const char *ip);
// The InternalIP of a Node object if it is an address of this plan, else NULL. Borrowed.
const char *local_node_ip(const json_t *node);
