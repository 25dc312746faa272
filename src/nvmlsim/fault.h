// SPDX-License-Identifier: Apache-2.0
// Rules that make calls of the simulated NVML fail or hang.
#pragma once

#include "nvmlsim/shm.h"

struct nvmlsim_fault_hit {
    int code; // nvmlReturn_t, 0: none
    uint32_t hang_ms;
    uint32_t generation; // of the rules, when the hit was found
};

// Whether rules match a call on that GPU (-1: a call without a device): the first that hangs and
// the first that fails, for a call may do both. Uses up one of their counts.
bool nvmlsim_fault_match(struct nvmlsim_shm_segment *seg, const char *call, int gpu,
                         struct nvmlsim_fault_hit *ret);

// Whether the rules are still those of the hit: a hang ends when its rule is cleared.
static inline bool nvmlsim_fault_unchanged(const struct nvmlsim_shm_segment *seg,
                                           const struct nvmlsim_fault_hit *hit)
{
    return __atomic_load_n(&seg->fault_generation, __ATOMIC_ACQUIRE) == hit->generation;
}
