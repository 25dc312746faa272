// SPDX-License-Identifier: Apache-2.0
// Keeps the Node object of this machine and its Lease: made at the start, heartbeat every 10
// seconds.
#pragma once

#include "local/cluster.h"

struct local_node;

struct local_node_config {
    const char *gpu_product; // NULL: none
    size_t n_gpus;           // capacity of nvidia.com/gpu
    int64_t max_pods;        // capacity of pods; 0: the kubelet's default
    const char *data_dir;    // its file system is the node's disk
};

struct local_node *local_node_new(struct local_cluster *c, const struct local_node_config *cfg);
void local_node_free(struct local_node *n);
