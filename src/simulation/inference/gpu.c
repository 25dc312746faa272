// SPDX-License-Identifier: Apache-2.0
// Threads that run the kernels of steps. The loop gives all of them the same step under the mutex;
// the last one that ends it wakes the loop.
#include "inference/gpu.h"

#include "base/clock.h"
#include "base/mem.h"
#include "nvmlsim/client.h"
#include "nvmlsim/sim.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { MAX_ALLOCATIONS = 4 };

struct device {
    struct inference_gpu *owner;
    struct nvmlsim_ctx *ctx; // NULL: none
    struct nvmlsim_alloc *allocations[MAX_ALLOCATIONS];
    unsigned n_allocations;
    uint64_t step; // that it has ended
    pthread_t thread;
    bool runs;
};

struct inference_gpu {
    uv_async_t wake;
    void (*done)(void *arg);
    void *arg;
    unsigned n;
    struct device *devices;
    bool busy; // of the loop

    pthread_mutex_t lock;
    pthread_cond_t changed;
    // Protected by the lock.
    bool stops;
    uint64_t step; // number of the current one
    unsigned left; // devices that have not ended it
    int64_t busy_ns, end_ns;
    double sm_share;
    struct gs_error *err;
};

// --- the threads ---

static void sleep_until(int64_t mono_ns)
{
    struct timespec at = {.tv_sec = mono_ns / GS_NS_PER_SEC, .tv_nsec = mono_ns % GS_NS_PER_SEC};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

// Waits for the next step. False: the thread ends.
static bool next_step(struct device *d, int64_t *ret_busy, int64_t *ret_end, double *ret_share)
{
    struct inference_gpu *g = d->owner;
    pthread_mutex_lock(&g->lock);
    while (!g->stops && g->step == d->step)
        pthread_cond_wait(&g->changed, &g->lock);
    bool goes_on = !g->stops;
    d->step = g->step;
    *ret_busy = g->busy_ns;
    *ret_end = g->end_ns;
    *ret_share = g->sm_share;
    pthread_mutex_unlock(&g->lock);
    return goes_on;
}

static void end_step(struct device *d, struct gs_error *err)
{
    struct inference_gpu *g = d->owner;
    pthread_mutex_lock(&g->lock);
    if (g->err)
        gs_error_free(err);
    else
        g->err = err;
    bool last = --g->left == 0;
    pthread_mutex_unlock(&g->lock);
    if (last)
        uv_async_send(&g->wake);
}

static void *run_device(void *arg)
{
    struct device *d = arg;
    int64_t busy_ns, end_ns;
    double share;
    while (next_step(d, &busy_ns, &end_ns, &share)) {
        struct gs_error *err = NULL;
        if (d->ctx && busy_ns >= 1000)
            err = nvmlsim_kernel_run(d->ctx, (uint64_t)busy_ns / 1000, share);
        sleep_until(end_ns);
        end_step(d, err);
    }
    return NULL;
}

// --- the loop ---

static void on_wake(uv_async_t *wake)
{
    struct inference_gpu *g = wake->data;
    pthread_mutex_lock(&g->lock);
    bool ended = g->left == 0;
    pthread_mutex_unlock(&g->lock);
    if (!g->busy || !ended)
        return;
    g->busy = false;
    g->done(g->arg);
}

void inference_gpu_begin(struct inference_gpu *g, int64_t busy_ns, double sm_share, int64_t end_ns)
{
    pthread_mutex_lock(&g->lock);
    g->step++;
    g->left = g->n;
    g->busy_ns = busy_ns;
    g->sm_share = sm_share;
    g->end_ns = end_ns;
    g->busy = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

bool inference_gpu_is_busy(const struct inference_gpu *g)
{
    return g->busy;
}

struct gs_error *inference_gpu_take_error(struct inference_gpu *g)
{
    pthread_mutex_lock(&g->lock);
    struct gs_error *err = g->err;
    g->err = NULL;
    pthread_mutex_unlock(&g->lock);
    return err;
}

bool inference_gpu_is_present(const struct inference_gpu *g)
{
    return g->devices[0].ctx != NULL;
}

const char *inference_gpu_model(const struct inference_gpu *g)
{
    return nvmlsim_ctx_model(g->devices[0].ctx);
}

uint64_t inference_gpu_memory(const struct inference_gpu *g)
{
    return nvmlsim_ctx_memory(g->devices[0].ctx);
}

// --- memory ---

struct gs_error *inference_gpu_allocate(struct inference_gpu *g, uint64_t bytes)
{
    for (unsigned i = 0; i < g->n; i++) {
        struct device *d = &g->devices[i];
        if (!d->ctx || d->n_allocations == MAX_ALLOCATIONS)
            continue;
        struct gs_error *err = nvmlsim_mem_alloc(d->ctx, bytes, &d->allocations[d->n_allocations]);
        if (err)
            return err;
        d->n_allocations++;
    }
    return NULL;
}

void inference_gpu_release(struct inference_gpu *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        struct device *d = &g->devices[i];
        while (d->n_allocations)
            nvmlsim_mem_free(d->ctx, d->allocations[--d->n_allocations]);
    }
}

// --- begin and end ---

static struct gs_error *open_devices(struct inference_gpu *g)
{
    const char *set = getenv(NVMLSIM_ENV);
    struct gs_error *err = NULL;
    for (unsigned i = 0; !err && set && *set && i < g->n; i++)
        err = nvmlsim_ctx_open(i, &g->devices[i].ctx);
    if (!set || !*set)
        g->n = 1;
    return err;
}

static struct gs_error *start_threads(struct inference_gpu *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        struct device *d = &g->devices[i];
        int failed = pthread_create(&d->thread, NULL, run_device, d);
        if (failed)
            return gs_error_errno(failed, "starting a thread");
        d->runs = true;
    }
    return NULL;
}

struct gs_error *inference_gpu_open(uv_loop_t *loop, unsigned n, void (*done)(void *arg), void *arg,
                                    struct inference_gpu **ret)
{
    struct inference_gpu *g = gs_alloc(sizeof(*g));
    g->n = n ? n : 1;
    g->devices = gs_alloc_array(g->n, sizeof(*g->devices));
    for (unsigned i = 0; i < g->n; i++)
        g->devices[i].owner = g;
    g->done = done;
    g->arg = arg;
    g->wake.data = g;
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    uv_async_init(loop, &g->wake, on_wake);
    struct gs_error *err = open_devices(g);
    if (!err)
        err = start_threads(g);
    if (err) {
        inference_gpu_free(g);
        return err;
    }
    *ret = g;
    return NULL;
}

static void on_closed(uv_handle_t *handle)
{
    struct inference_gpu *g = handle->data;
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    gs_error_free(g->err);
    free(g->devices);
    free(g);
}

void inference_gpu_free(struct inference_gpu *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->stops = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    for (unsigned i = 0; i < g->n; i++) {
        if (g->devices[i].runs)
            pthread_join(g->devices[i].thread, NULL);
        nvmlsim_ctx_close(g->devices[i].ctx);
    }
    uv_close((uv_handle_t *)&g->wake, on_closed);
}
