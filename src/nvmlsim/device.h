// SPDX-License-Identifier: Apache-2.0
// How a device spends its time. A kernel runs in slices of 2 ms; a slice is a reservation on the
// timeline of the GPU or MIG instance, made under the GPU's mutex, first come first served, so that
// the kernels of several processes alternate. Slices whose parts of the SMs add up to at most 1
// overlap. Nobody executes anything: the client sleeps until its slice is over.
#pragma once

#include "nvmlsim/shm.h"

#define NVMLSIM_DEVICE_SLICE_NS (2 * GS_NS_PER_MS)

struct nvmlsim_device_slice {
    int64_t start, end;
};

// Reserves `length` ns with `share_ppm` of the timeline's SMs for the process in that place, from
// `earliest` on (for the next slice of a running kernel: the end of the last one, which may be past
// by the time that its client took to wake up). False: as many slices as can be are waiting; ask
// again a moment later. Needs the GPU's mutex.
bool nvmlsim_device_reserve(struct nvmlsim_shm_gpu *g, unsigned process, int64_t earliest,
                            int64_t now, int64_t length, uint32_t share_ppm,
                            struct nvmlsim_device_slice *ret);
