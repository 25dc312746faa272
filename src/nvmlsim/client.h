// SPDX-License-Identifier: Apache-2.0
// Using the simulated GPUs as a workload does: open a device, allocate memory, run kernels. The
// call returns when the device has executed the kernel: kernels of one process and of others share
// the device's time (a full kernel has it alone; time slices alternate between processes). A
// process that dies leaves nothing behind.
#pragma once

#include "base/error.h"

#include <stdint.h>

struct nvmlsim_ctx;
struct nvmlsim_alloc;

// Opens the device number `ordinal` among those that CUDA_VISIBLE_DEVICES allows (UUIDs, MIG UUIDs
// or indices; "::n" suffixes are ignored), of the segment named by GPUSCALE_SIM. Thread-safe
// afterwards.
struct gs_error *nvmlsim_ctx_open(unsigned ordinal, struct nvmlsim_ctx **ret);
void nvmlsim_ctx_close(struct nvmlsim_ctx *c);
unsigned nvmlsim_ctx_gpu(const struct nvmlsim_ctx *c); // the number of its GPU in the whole set

// GS_ELIMIT "out of memory" when the device (or MIG instance) has not enough left.
struct gs_error *nvmlsim_mem_alloc(struct nvmlsim_ctx *c, uint64_t bytes,
                                   struct nvmlsim_alloc **ret);
void nvmlsim_mem_free(struct nvmlsim_ctx *c, struct nvmlsim_alloc *a);

// Runs a kernel that needs `duration_us` of the device at share 1.0. sm_share in (0, 1]: the part
// of the SMs that it occupies; kernels whose shares add up to at most 1 overlap. GS_EUNAVAIL when
// the device is lost.
struct gs_error *nvmlsim_kernel_run(struct nvmlsim_ctx *c, uint64_t duration_us, double sm_share);
