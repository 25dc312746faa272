// SPDX-License-Identifier: Apache-2.0
// Binds Pending pods to a node if their requests fit its allocatable CPU, memory and GPUs, to the
// first node if they fit there. Selects the GPU devices of each container (least loaded first) and
// records them in LOCAL_ANN_GPUS. Other pods stay Pending with Kubernetes' message ("0/1 nodes are
// available: 1 Insufficient nvidia.com/gpu."). If waiting does not help, their event says why and
// what to do. Pods for another scheduler get such an event if none takes them.
#pragma once

#include "local/cluster.h"

struct local_scheduler;

// device_ids: those of the first node: "GPU-<uuid>" or "GPU-<uuid>::<n>" time slices or
// "MIG-<uuid>", of resource nvidia.com/gpu. Copied.
struct local_scheduler *controllers_scheduler_new(struct local_cluster *c,
                                                  const char *const *device_ids, size_t n_devices);
// nodes_pools_json(), for the texts of events: what a pool offers is not missing. Borrowed.
void controllers_scheduler_set_pools(struct local_scheduler *s, const json_t *pools);
void controllers_scheduler_free(struct local_scheduler *s);
// The devices of another node; n 0: the node has gone. Nodes without devices here get pods without
// a selection of devices.
void controllers_scheduler_set_devices(struct local_scheduler *s, const char *node,
                                       const char *const *device_ids, size_t n);
