// SPDX-License-Identifier: Apache-2.0
// Use of simulated GPUs as a workload: open a device, allocate memory, run kernels. A call returns
// when the device has executed the kernel. Kernels of all processes share the device's time: a
// kernel that needs all SMs runs alone, and time slices alternate between processes. The resources
// of a process that dies are released.
#pragma once

#include "base/error.h"

#include <stdint.h>

struct nvmlsim_ctx;
struct nvmlsim_alloc;

// Opens device number `ordinal` among those that CUDA_VISIBLE_DEVICES allows (UUIDs, MIG UUIDs or
// indices; "::n" suffixes are ignored), in the segment that GPUSCALE_SIM names. Several threads may
// use the context.
struct gs_error *nvmlsim_ctx_open(unsigned ordinal, struct nvmlsim_ctx **ret);
void nvmlsim_ctx_close(struct nvmlsim_ctx *c);
unsigned nvmlsim_ctx_gpu(const struct nvmlsim_ctx *c);      // index of its GPU in the set
const char *nvmlsim_ctx_model(const struct nvmlsim_ctx *c); // "A100-SXM4-80GB", of the GPU
uint64_t nvmlsim_ctx_memory(const struct nvmlsim_ctx *c);   // bytes that processes can allocate

// GS_ELIMIT "out of memory" if the device (or MIG instance) has too little free memory.
struct gs_error *nvmlsim_mem_alloc(struct nvmlsim_ctx *c, uint64_t bytes,
                                   struct nvmlsim_alloc **ret);
void nvmlsim_mem_free(struct nvmlsim_ctx *c, struct nvmlsim_alloc *a);

// Runs a kernel that takes `duration_us`. sm_share in (0, 1]: the part of the SMs that it occupies.
// Kernels whose shares add up to at most 1 overlap. GS_EUNAVAIL if the device is lost.
struct gs_error *nvmlsim_kernel_run(struct nvmlsim_ctx *c, uint64_t duration_us, double sm_share);
