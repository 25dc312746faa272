// SPDX-License-Identifier: Apache-2.0
// Whether a pod fits a node, and which GPU devices it gets; private to the scheduler. Amounts are
// JSON objects of resource name to int64 milli-units.
#pragma once

#include "codec/json.h"

struct controllers_fit_node {
    const json_t *node;
    json_t *free; // amounts; may be negative
    int64_t free_pods;
};

// The larger of the sum over containers and each init container; new reference.
json_t *controllers_fit_requests(const json_t *pod);
void controllers_fit_node_init(struct controllers_fit_node *n, const json_t *node);
void controllers_fit_node_finish(struct controllers_fit_node *n);
void controllers_fit_node_use(struct controllers_fit_node *n,
                              const json_t *requests); // one more pod
// Counts why not, by the scheduler's texts, in `reasons` (text -> count).
bool controllers_fit_check(const struct controllers_fit_node *n, const json_t *pod,
                           const json_t *requests, json_t *reasons);
// "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."; caller frees.
char *controllers_fit_message(size_t n_nodes, const json_t *reasons);

#define CONTROLLERS_FIT_GPU "nvidia.com/gpu"

struct controllers_fit_device {
    char *id;
    size_t gpu; // which physical one
    bool taken;
};
struct controllers_fit_devices {
    struct controllers_fit_device *items;
    size_t len;
    size_t *used; // devices taken, by physical GPU
};
void controllers_fit_devices_init(struct controllers_fit_devices *d, const char *const *ids,
                                  size_t n);
void controllers_fit_devices_finish(struct controllers_fit_devices *d);
void controllers_fit_devices_release_all(struct controllers_fit_devices *d);
// assignment: {"container": ["id", …]}; unknown ids are passed over.
void controllers_fit_devices_take(struct controllers_fit_devices *d, const json_t *assignment);
int64_t controllers_fit_gpus_wanted(const json_t *container);
// *ret_assignment is NULL when the pod wants none. False when there are not enough free ones;
// what was taken stays taken only on success.
bool controllers_fit_devices_assign(struct controllers_fit_devices *d, const json_t *pod,
                                    json_t **ret_assignment);
