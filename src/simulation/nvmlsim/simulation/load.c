// SPDX-License-Identifier: Apache-2.0
// A load for a simulated GPU, for `gpuscale sim load`: kernels that keep it busy for a share of
// each 100 ms, or of the duration if that is shorter.
#include "nvmlsim/simulation/simulation.h"

#include "base/clock.h"
#include "base/mem.h"
#include "nvmlsim/client.h"

#include <time.h>

#define LOAD_PERIOD_NS (100 * GS_NS_PER_MS)

static void sleep_until(int64_t mono_ns)
{
    struct timespec at = {.tv_sec = mono_ns / GS_NS_PER_SEC, .tv_nsec = mono_ns % GS_NS_PER_SEC};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static struct gs_error *run_kernels(const struct simulation_load *l, struct nvmlsim_ctx *c,
                                    int64_t *ret_ran_ns)
{
    int64_t start = gs_mono_ns(), next = start, ran = 0;
    while (!l->duration_ns || next - start < l->duration_ns) {
        int64_t left = start + l->duration_ns - next;
        int64_t period = l->duration_ns && left < LOAD_PERIOD_NS ? left : LOAD_PERIOD_NS;
        uint64_t kernel_us = (uint64_t)(l->util / 100 * (double)period / 1000);
        struct gs_error *err = kernel_us ? nvmlsim_kernel_run(c, kernel_us, l->sm_share) : NULL;
        if (err)
            return err;
        ran += (int64_t)kernel_us * 1000;
        next += period;
        int64_t now = gs_mono_ns();
        if (next < now) // other processes use the device, too: lost time is skipped
            next = now;
        sleep_until(next);
    }
    *ret_ran_ns = ran;
    return NULL;
}

static struct gs_error *check_load(const struct nvmlsim *s, const struct simulation_load *l)
{
    if (!(l->util >= 0 && l->util <= 100))
        return gs_error_new(GS_EINVAL, "--util=%g: want a percentage from 0 to 100", l->util);
    if (!(l->sm_share > 0 && l->sm_share <= 1))
        return gs_error_new(GS_EINVAL, "--sm-share=%g: want a number above 0 and at most 1",
                            l->sm_share);
    if (l->gpu >= (int)nvmlsim_gpu_count(s))
        return gs_error_new(GS_EINVAL, "%s has no GPU %d: it has %u, numbered from 0",
                            nvmlsim_name(s), l->gpu, nvmlsim_gpu_count(s));
    return NULL;
}

struct gs_error *simulation_run_load(struct nvmlsim *s, const struct simulation_load *l,
                                     int64_t *ret_ran_ns, unsigned *ret_gpu)
{
    struct gs_error *err = check_load(s, l);
    if (err)
        return err;
    setenv(NVMLSIM_ENV, nvmlsim_name(s), 1);
    if (l->gpu >= 0) {
        char index[16];
        snprintf(index, sizeof(index), "%d", l->gpu);
        setenv("CUDA_VISIBLE_DEVICES", index, 1);
    }
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    int64_t ran = 0;
    err = nvmlsim_ctx_open(0, &c);
    if (!err && l->memory)
        err = nvmlsim_mem_alloc(c, l->memory, &a);
    if (!err)
        err = run_kernels(l, c, &ran);
    if (!err) {
        *ret_ran_ns = ran;
        *ret_gpu = nvmlsim_ctx_gpu(c);
    }
    nvmlsim_ctx_close(c);
    return err;
}
