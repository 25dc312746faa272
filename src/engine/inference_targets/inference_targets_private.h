// SPDX-License-Identifier: Apache-2.0
// Internals of this module: which addresses of a pod can have the page of an engine.
#pragma once

#include "engine/inference_targets/inference_targets.h"

enum { INFERENCE_TARGETS_MAX_ADDRESSES = 24 };

struct inference_targets_addresses {
    char *items[INFERENCE_TARGETS_MAX_ADDRESSES]; // "8000/metrics", in the order of the attempts
    size_t n;
};
void inference_targets_addresses_finish(struct inference_targets_addresses *a);

// Whether the pod has a GPU of its own, by its limits, requests or claims.
bool inference_targets_has_gpu(const json_t *pod);
// None: the pod cannot have an engine, or its annotation is wrong; then *ret_wrong says why
// (static).
void inference_targets_addresses_of(const json_t *pod, const struct signals_table *table,
                                    struct inference_targets_addresses *ret,
                                    const char **ret_wrong);
