// SPDX-License-Identifier: Apache-2.0
// The state of one kubelet, shared by its files, and its parts that concern no single pod. One
// program may run several, whose first one has what they share. All functions belong to the thread
// of the loop.
#pragma once

#include "base/buf.h"
#include "base/hmap.h"
#include "base/timer.h"
#include "kube/event.h"
#include "local/api.h"
#include "local/cluster.h"
#include "local/kubelet.h"
#include "local/kubelet/env.h"
#include "net/http/http.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- the state of the kubelet ---

struct kubelet_claims;
struct kubelet_guard;
struct kubelet_images;
struct kubelet_log_stream;
struct kubelet_node;
struct kubelet_pod_ips;
struct kubelet_podresources;
struct kubelet_static;
struct kubelet_stream;
struct kubelet_worker;

struct kubelet {
    struct local_cluster *cluster;
    struct kubelet *first; // of this program: itself, or the one whose parts it uses
    struct kubelet *next;  // the others, if it is the first
    char *node_name, *address;
    struct local_api *api;
    struct kube_recorder *recorder;
    char *self_exe;
    char *data_dir; // absolute
    char *work_dir; // where the commands of images run; NULL: the current one was removed
    char *podnet; // of the first kubelet: path of the bind() library for LD_PRELOAD, NULL if it was
                  // not found
    char *podnet_dir;       // contains a link to the library, if LD_PRELOAD cannot contain its path
    char *podresources_dir; // NULL: the service is off
    char *tools_dir;        // see kubelet_images_link_tools
    bool simulated_gpus;
    json_t *reported_images;       // set of the images whose substitution was logged
    char *mount_problem;           // why containers cannot have mounts; NULL: they can
    bool mounts_tokens;            // the token of the service account can be mounted at its path
    uint16_t api_port;             // 0: unknown
    struct kubelet_images *images; // of the first kubelet
    struct kubelet_words extra_env, device_ids;
    bool slices_renamed, slices_single; // as in struct local_kubelet_config
    struct gs_hmap *workers;            // pod UID -> struct kubelet_worker
    struct kubelet_pod_ips *ips;        // of the first kubelet
    struct kubelet_hosts *hosts;        // of the first kubelet
    struct kubelet_claims *claims;      // NULL: only the first kubelet binds claims
    struct kubelet_node *node;
    struct kubelet_podresources *podresources;
    struct kubelet_static *statics; // static_pods.c
    struct kubelet_guard *guard;
    struct kubelet_log_stream *log_streams;
    struct kubelet_stream *streams; // streaming.h
    uint64_t usage_ticks;           // of usage.c: the CPU time of all its containers, their memory
    double usage_bytes;
    int lock_fd;
    bool synced; // the cache has its first list, so all used addresses are reserved
    bool stopping;
    struct gs_timer *stop_timer;
    void (*stop_done)(void *arg);
    void *stop_arg;
};

// --- kubelet.c ---
void kubelet_forget(struct kubelet *k, struct kubelet_worker *w); // frees w
void kubelet_maybe_stopped(struct kubelet *k);

// --- static_pods.c: pods that show parts of this program (kubelet_add_static_pod) ---
// The log file of the pod. NULL: it is not a static pod of this kubelet.
const char *kubelet_static_log_path(const struct kubelet *k, const json_t *pod);
// True if the pod is a mirror pod that is not one of ours any more. Its deletion has begun then.
bool kubelet_static_is_leftover(struct kubelet *k, const json_t *pod);
// Creates and replaces them as needed; now false: in a second.
void kubelet_statics_sync(struct kubelet *k, bool now);
void kubelet_statics_free(struct kubelet *k);

// --- podresources.c: the kubelet's PodResources v1 service ---
// Exporters query it for the GPUs of each container.

struct gs_error *kubelet_podresources_new(struct kubelet *k, const char *socket_path,
                                          struct kubelet_podresources **ret);
void kubelet_podresources_free(struct kubelet_podresources *r);

// --- http_api.c: the kubelet's own HTTP API ---
void kubelet_serve_path(void *kubelet, const char *path, struct http_exchange *x);

// --- usage.c ---
// As kubelet_write_metrics() for one node, without labels of the node.
void kubelet_write_node_metrics(struct kubelet *k, struct gs_buf *out);
// Those of its containers alone, with the labels of cAdvisor.
void kubelet_write_cadvisor_metrics(struct kubelet *k, struct gs_buf *out);
json_t *kubelet_stats_summary(struct kubelet *k); // of /stats/summary; new reference
