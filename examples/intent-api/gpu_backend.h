// SPDX-License-Identifier: Apache-2.0
// What a kind of device provides to gpu.c.
#pragma once

#include "gpu.h"

struct gpu_ops {
    // GS_ENOTFOUND: this device does not exist, the next kind is tried.
    struct gs_error *(*open)(const struct gpu_model *model, void **ret_self);
    void (*close)(void *self);
    const char *(*name)(const void *self);
    struct gs_error *(*scores)(void *self, const float *features, float *ret_scores);
};

extern const struct gpu_ops gpu_cuda_ops;
extern const struct gpu_ops gpu_sim_ops;
