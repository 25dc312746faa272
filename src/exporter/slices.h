// SPDX-License-Identifier: Apache-2.0
// The node's ResourceSlices of NVIDIA's DRA driver: which GPU or MIG device is meant by a pool and
// the name of a device in it. Takes resource.k8s.io/v1, v1beta2 or v1beta1, what the API server
// has.
#pragma once

#include "exporter/device_map.h"
#include "kube/client.h"

#include <uv.h>

struct exporter_slices;

// node_name NULL: those of all nodes. on_change: other devices than before.
struct exporter_slices *exporter_slices_new(uv_loop_t *loop, struct kube_client *kube,
                                            const char *node_name, void (*on_change)(void *arg),
                                            void *arg);
void exporter_slices_free(struct exporter_slices *s); // NULL is fine
// Of the newest generation of its pool.
bool exporter_slices_find(struct exporter_slices *s, const char *pool, const char *device,
                          struct exporter_device_slice *ret);
const char *exporter_slices_problem(const struct exporter_slices *s); // NULL: none
bool exporter_slices_denied(const struct exporter_slices *s);         // it is a refusal
