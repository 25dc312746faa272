// SPDX-License-Identifier: Apache-2.0
// Whether a pod fits a node, and which GPU devices it gets; private to the scheduler. Amounts are
// JSON objects of resource name to int64 milli-units.
#pragma once

#include "codec/json.h"

struct fit_node {
    const json_t *node;
    json_t *free; // amounts; may be negative
    int64_t free_pods;
};

// The larger of the sum over containers and each init container; new reference.
json_t *fit_requests(const json_t *pod);
void fit_node_init(struct fit_node *n, const json_t *node);
void fit_node_finish(struct fit_node *n);
void fit_node_use(struct fit_node *n, const json_t *requests); // one more pod
// Counts why not, by the scheduler's texts, in `reasons` (text -> count).
bool fit_check(const struct fit_node *n, const json_t *pod, const json_t *requests,
               json_t *reasons);
// "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."; caller frees.
char *fit_message(size_t n_nodes, const json_t *reasons);

#define FIT_GPU "nvidia.com/gpu"

struct fit_device {
    char *id;
    size_t gpu; // which physical one
    bool taken;
};
struct fit_devices {
    struct fit_device *items;
    size_t len;
    size_t *used; // devices taken, by physical GPU
};
void fit_devices_init(struct fit_devices *d, const char *const *ids, size_t n);
void fit_devices_finish(struct fit_devices *d);
void fit_devices_release_all(struct fit_devices *d);
// assignment: {"container": ["id", …]}; unknown ids are passed over.
void fit_devices_take(struct fit_devices *d, const json_t *assignment);
int64_t fit_gpus_wanted(const json_t *container);
// *ret_assignment is NULL when the pod wants none. False when there are not enough free ones;
// what was taken stays taken only on success.
bool fit_devices_assign(struct fit_devices *d, const json_t *pod, json_t **ret_assignment);
