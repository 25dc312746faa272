// SPDX-License-Identifier: Apache-2.0
#include "nvmlsim/fault.h"

#include "base/slice.h"

static bool matches(const struct shm_fault *f, const char *call, int gpu)
{
    return f->call[0] && (f->gpu < 0 || f->gpu == gpu) &&
           (gs_streq(f->call, "*") || strncmp(f->call, call, sizeof(f->call)) == 0);
}

bool fault_match(struct shm_segment *seg, const char *call, int gpu, struct fault_hit *ret)
{
    if (__atomic_load_n(&seg->n_faults, __ATOMIC_ACQUIRE) == 0)
        return false;
    SHM_HOLD(held, &seg->lock);
    for (unsigned i = 0; i < SHM_FAULTS; i++) {
        struct shm_fault *f = &seg->faults[i];
        if (!matches(f, call, gpu))
            continue;
        *ret = (struct fault_hit){
            .code = f->code, .hang_ms = f->hang_ms, .generation = seg->fault_generation};
        if (f->left > 0 && --f->left == 0) {
            f->call[0] = 0;
            __atomic_sub_fetch(&seg->n_faults, 1, __ATOMIC_RELEASE);
        }
        return true;
    }
    return false;
}
