// SPDX-License-Identifier: Apache-2.0
// What the performance counters of a simulated GPU count: the time that its timelines were active.
// GPM of the simulated NVML and the profiling of the simulated DCGM use the same numbers.
#include "nvmlsim/nvmlsim_private.h"

#include "base/clock.h"

static void add_timeline(const struct nvmlsim_shm_timeline *t, int64_t now, bool of_whole,
                         struct nvmlsim_activity_counters *ret)
{
    struct nvmlsim_activity_sum sum;
    nvmlsim_activity_totals(t, now, &sum);
    double part = (double)nvmlsim_shm_sm_ppm(t) / NVMLSIM_SHM_PPM;
    double scale = of_whole || part <= 0 ? 1 : 1 / part; // an instance counts only its own SMs
    ret->busy += of_whole ? (double)sum.busy_ns * part : (double)sum.busy_ns;
    ret->sm += (double)sum.sm_ns * scale;
    ret->mem += (double)sum.mem_ns * scale;
}

// The activity of a GPU instance is that of its compute instances, weighted by their SMs.
void nvmlsim_activity_count_instance(struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                                     uint32_t gi_id, struct nvmlsim_activity_counters *ret)
{
    double all = 0;
    NVMLSIM_SHM_HOLD(held, &g->lock);
    *ret = (struct nvmlsim_activity_counters){.at = gs_mono_ns()};
    for (unsigned i = 0; i < b->n_mig; i++)
        if (b->mig[i].gi_id == gi_id)
            all += nvmlsim_shm_sm_ppm(&g->timelines[1 + i]);
    for (unsigned i = 0; i < b->n_mig && all > 0; i++) {
        struct nvmlsim_activity_counters own = {0};
        const struct nvmlsim_shm_timeline *t = &g->timelines[1 + i];
        if (b->mig[i].gi_id != gi_id)
            continue;
        add_timeline(t, ret->at, false, &own);
        double part = nvmlsim_shm_sm_ppm(t) / all;
        ret->busy += own.busy * part;
        ret->sm += own.sm * part;
        ret->mem += own.mem * part;
    }
}

void nvmlsim_activity_count_gpu(struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                                struct nvmlsim_activity_counters *ret)
{
    NVMLSIM_SHM_HOLD(held, &g->lock);
    *ret = (struct nvmlsim_activity_counters){.at = gs_mono_ns()};
    for (unsigned t = 0; t <= b->n_mig; t++)
        add_timeline(&g->timelines[t], ret->at, true, ret);
}
