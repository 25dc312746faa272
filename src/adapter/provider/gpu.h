// SPDX-License-Identifier: Apache-2.0
// GPU metrics without rules of the user's: the exporters' series for pods, namespaces and nodes;
// for what owns pods (Deployments, Services …) the average of their pods, or by suffix _MAX, _MIN.
#pragma once

#include "base/slice.h"

#include <stddef.h>

const char *provider_gpu_rules(void); // YAML of a configuration

enum provider_gpu_fold { PROVIDER_GPU_AVERAGE, PROVIDER_GPU_MAX, PROVIDER_GPU_MIN };
// "X_MAX" is X folded by the maximum; without a known suffix the whole, by the average.
struct gs_slice provider_gpu_metric(const char *name, enum provider_gpu_fold *ret_fold);
double provider_gpu_fold_values(enum provider_gpu_fold fold, double so_far, double v, size_t n);

// Resources whose spec.selector picks pods: "deployments" of "apps". NULL behind the last.
struct provider_gpu_owner {
    const char *group, *resource;
    const char *kind;
    int match_labels; // 1: spec.selector is a LabelSelector; 0: a map
    int controls;     // 1: its pods name it, or what it owns, as their controller
};
const struct provider_gpu_owner *provider_gpu_owner_nth(size_t i);
