// SPDX-License-Identifier: Apache-2.0
// Keeps the Node object of this machine and its Lease: made at the start, heartbeat every 10
// seconds.
#pragma once

#include "local/cluster.h"

struct kubelet_node;

struct kubelet_node_config {
    const char *gpu_product; // NULL: none
    size_t n_gpus;           // capacity of nvidia.com/gpu
    int64_t max_pods;        // capacity of pods; 0: the kubelet's default
    const char *data_dir;    // its file system is the node's disk
};

struct kubelet_node *kubelet_node_new(struct local_cluster *c,
                                      const struct kubelet_node_config *cfg);
void kubelet_node_free(struct kubelet_node *n);
