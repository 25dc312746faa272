// SPDX-License-Identifier: Apache-2.0
// Which GPUs there are: the machine's own through their driver, or simulated ones made here.
#pragma once

#include "nvmlsim/sim.h"

struct up_devices {
    char **ids; // as the scheduler and PodResources name them: "GPU-…", "GPU-…::1", "MIG-…"
    size_t n, cap;
    size_t n_gpus;
    char *product; // of the first GPU, as the node label nvidia.com/gpu.product writes it
    bool simulated;
    char *sim_name;    // shared memory; NULL for real GPUs
    char *sim_library; // path of the simulated libnvidia-ml
    struct nvmlsim *sim;
};

// spec NULL: the real ones, or simulated ones where there is no driver.
struct gs_error *up_devices_open(const char *spec, const char *data_dir, struct up_devices *ret);
void up_devices_finish(struct up_devices *d); // removes the simulated ones
