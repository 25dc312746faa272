// SPDX-License-Identifier: Apache-2.0
// The Node object of one kubelet and its Lease.
#pragma once

#include "local/cluster.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- node.c: the Node object of this machine and its Lease ---
// The node is created at the start and sends a heartbeat every 10 seconds.

struct kubelet_node_config {
    const char *name, *address;
    const char *provider_id;       // may be NULL
    const char *not_ready;         // the message of the condition Ready; NULL: it is True
    const json_t *capacity;        // replaces that of the machine; may be NULL
    const json_t *labels, *taints; // besides the kubelet's own; may be NULL
    size_t n_gpus, n_shared;       // capacity of LOCAL_GPU and LOCAL_GPU_SHARED
    int64_t max_pods;              // capacity of pods; 0: the kubelet's default
    const char *data_dir;          // its file system is the node's disk
    bool control_plane;            // the label of its role
};

struct kubelet_node *kubelet_node_new(struct local_cluster *c,
                                      const struct kubelet_node_config *cfg);
void kubelet_node_free(struct kubelet_node *n);
// Each change is sent at once, in a request after the one that is under way.
void kubelet_node_set_gpus(struct kubelet_node *n, size_t n_gpus, size_t n_shared);
void kubelet_node_set_ready(struct kubelet_node *n, const char *not_ready);
void kubelet_node_set_port(struct kubelet_node *n, uint16_t port); // of the kubelet's API
void kubelet_node_add_labels(struct kubelet_node *n, const json_t *labels);
