// SPDX-License-Identifier: Apache-2.0
// Faults for calls of NVML and DCGM: the first rules that match a call give its error and its
// delay. Without rules, a call costs one atomic read.
#include "nvmlsim/nvmlsim_private.h"

#include "base/slice.h"

static bool rule_matches(const struct nvmlsim_shm_fault *f, const char *call, int gpu)
{
    if (!f->call[0] || (f->gpu >= 0 && f->gpu != gpu))
        return false;
    if (strncmp(f->call, call, sizeof(f->call)) == 0)
        return true;
    return gs_streq(f->call, gs_starts(call, "dcgm") ? "dcgm*" : "*");
}

static void use_up(struct nvmlsim_shm_segment *seg, struct nvmlsim_shm_fault *f)
{
    if (f->left > 0 && --f->left == 0) {
        f->call[0] = 0;
        __atomic_sub_fetch(&seg->n_faults, 1, __ATOMIC_RELEASE);
    }
}

bool nvmlsim_fault_match(struct nvmlsim_shm_segment *seg, const char *call, int gpu,
                         struct nvmlsim_fault_hit *ret)
{
    if (__atomic_load_n(&seg->n_faults, __ATOMIC_ACQUIRE) == 0)
        return false;
    NVMLSIM_SHM_HOLD(held, &seg->lock);
    bool hit = false;
    *ret = (struct nvmlsim_fault_hit){.generation = seg->fault_generation};
    for (unsigned i = 0; i < NVMLSIM_SHM_FAULTS; i++) {
        struct nvmlsim_shm_fault *f = &seg->faults[i];
        bool fails = f->code && !ret->code, hangs = f->hang_ms && !ret->hang_ms;
        if (!rule_matches(f, call, gpu) || (!fails && !hangs))
            continue;
        ret->code = fails ? f->code : ret->code;
        ret->hang_ms = hangs ? f->hang_ms : ret->hang_ms;
        use_up(seg, f);
        hit = true;
    }
    return hit;
}
