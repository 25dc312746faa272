// SPDX-License-Identifier: Apache-2.0
// Where the classifier's arithmetic runs: on a CUDA device through the driver API, or on a
// simulated GPU, whose time and memory it uses while the CPU does the sums. Thread-safe.
#pragma once

#include "base/error.h"

#include <stdint.h>

struct gpu;

struct gpu_model {
    const float *weights; // rows x columns, row-major; copied to the device
    size_t rows, columns;
    uint64_t memory;    // bytes to hold on the device, weights included
    uint64_t kernel_us; // device time of one inference
    double sm_share;    // part of the SMs that an inference occupies (simulated devices)
};

// CUDA if the driver library and a device exist, otherwise the simulated device of GPUSCALE_SIM,
// otherwise an error.
struct gs_error *gpu_open(const struct gpu_model *model, struct gpu **ret);
void gpu_close(struct gpu *g);
const char *gpu_name(const struct gpu *g); // "NVIDIA H200", "simulated GPU"
struct gs_error *gpu_scores(struct gpu *g, const float *features, float *ret_scores);
