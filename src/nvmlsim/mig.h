// SPDX-License-Identifier: Apache-2.0
// MIG: the instance profiles of each board and where they fit. A board has 8 memory slices (A30: 4)
// and 7 compute slices (A30: 4); a profile takes some of both and may start only at certain memory
// slices, as in NVIDIA's MIG user guide.
#pragma once

#include "base/error.h"
#include "nvmlsim/model.h"
#include "nvmlsim/sim.h"

struct nvmlsim_mig_profile {
    const char *name;
    uint32_t nvml_profile; // NVML_GPU_INSTANCE_PROFILE_*
    uint32_t slices;       // compute slices
    uint32_t mem_slices;   // also the distance between possible starts
    uint32_t max_count;
    uint32_t sms;
    uint32_t memory_mib;
};

// The profiles of a board, *ret_n of them; none when it has no MIG.
const struct nvmlsim_mig_profile *nvmlsim_mig_profiles(const char *model, unsigned *ret_n);

struct nvmlsim_mig_placed {
    const struct nvmlsim_mig_profile *profile;
    uint32_t gi_id, start; // start: first memory slice
    // The compute instance: its slices of the profile's, from ci_start on.
    uint32_t ci_id, ci_start, ci_slices;
};

// Finds a place for each wanted profile (names), or says why there is none. ret has room for n. A
// name such as "1c.3g.40gb" is a compute instance with 1 of the 3 slices; those of the same GPU
// instance profile fill a GPU instance one after the other.
struct gs_error *nvmlsim_mig_place(const struct nvmlsim_model *model, const char *const *names,
                                   unsigned n, struct nvmlsim_mig_placed *ret);

// The same for a GPU spec, and its model with the memory size that was asked for.
struct gs_error *nvmlsim_mig_place_spec(const struct nvmlsim_gpu_spec *g,
                                        const struct nvmlsim_model *model,
                                        struct nvmlsim_mig_placed *ret);
struct gs_error *nvmlsim_model_resolve(const struct nvmlsim_gpu_spec *g, struct nvmlsim_model *ret);
