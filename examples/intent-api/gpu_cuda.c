// SPDX-License-Identifier: Apache-2.0
// The CUDA driver API by dlopen, so that the program starts without it. The kernel is PTX
// text: each thread sums one row, and repeats it `rounds` times so that an inference takes the
// device time that was configured (measured once at start-up).
#include "base/clock.h"
#include "base/mem.h"
#include "gpu_backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

typedef int cu_result;
typedef uint64_t cu_ptr;

// Resolved by name from libcuda.so.1; signatures of the CUDA driver API.
struct driver {
    void *library;
    cu_result (*init)(unsigned flags);
    cu_result (*device_get)(int *device, int ordinal);
    cu_result (*device_name)(char *name, int len, int device);
    cu_result (*ctx_retain)(void **ctx, int device);
    cu_result (*ctx_release)(int device);
    cu_result (*ctx_set)(void *ctx);
    cu_result (*ctx_sync)(void);
    cu_result (*module_load)(void **module, const void *image);
    cu_result (*get_function)(void **function, void *module, const char *name);
    cu_result (*mem_alloc)(cu_ptr *p, size_t bytes);
    cu_result (*mem_free)(cu_ptr p);
    cu_result (*to_device)(cu_ptr to, const void *from, size_t bytes);
    cu_result (*to_host)(void *to, cu_ptr from, size_t bytes);
    cu_result (*launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **params, void **extra);
    cu_result (*error_name)(cu_result result, const char **name);
};

struct cuda_gpu {
    struct driver d;
    struct gpu_model model;
    int device;
    void *ctx, *module, *function;
    cu_ptr weights, features, scores, rest;
    uint32_t rounds;
    char name[128];
    pthread_mutex_t lock; // one inference at a time on the one set of buffers
};

static const char ptx[] =
    ".version 6.4\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry scores(.param .u64 w, .param .u64 x, .param .u64 y,\n"
    "                       .param .u32 rows, .param .u32 columns, .param .u32 rounds)\n"
    "{\n"
    "  .reg .pred %p<4>;\n"
    "  .reg .b32 %r<12>;\n"
    "  .reg .f32 %f<4>;\n"
    "  .reg .b64 %d<12>;\n"
    "  ld.param.u64 %d1, [w];\n"
    "  ld.param.u64 %d2, [x];\n"
    "  ld.param.u64 %d3, [y];\n"
    "  ld.param.u32 %r1, [rows];\n"
    "  ld.param.u32 %r2, [columns];\n"
    "  ld.param.u32 %r3, [rounds];\n"
    "  mov.u32 %r4, %ctaid.x;\n"
    "  mov.u32 %r5, %ntid.x;\n"
    "  mov.u32 %r6, %tid.x;\n"
    "  mad.lo.u32 %r7, %r4, %r5, %r6;\n"
    "  setp.ge.u32 %p1, %r7, %r1;\n"
    "  @%p1 bra DONE;\n"
    "  cvta.to.global.u64 %d1, %d1;\n"
    "  cvta.to.global.u64 %d2, %d2;\n"
    "  cvta.to.global.u64 %d3, %d3;\n"
    "  mul.wide.u32 %d4, %r7, %r2;\n"
    "  shl.b64 %d4, %d4, 2;\n"
    "  add.u64 %d5, %d1, %d4;\n"
    "ROUND:\n"
    "  mov.f32 %f1, 0f00000000;\n"
    "  mov.u32 %r8, 0;\n"
    "  mov.u64 %d6, %d5;\n"
    "  mov.u64 %d7, %d2;\n"
    "COLUMN:\n"
    "  ld.global.f32 %f2, [%d6];\n"
    "  ld.global.f32 %f3, [%d7];\n"
    "  fma.rn.f32 %f1, %f2, %f3, %f1;\n"
    "  add.u64 %d6, %d6, 4;\n"
    "  add.u64 %d7, %d7, 4;\n"
    "  add.u32 %r8, %r8, 1;\n"
    "  setp.lt.u32 %p2, %r8, %r2;\n"
    "  @%p2 bra COLUMN;\n"
    "  sub.u32 %r3, %r3, 1;\n"
    "  setp.gt.u32 %p3, %r3, 0;\n"
    "  @%p3 bra ROUND;\n"
    "  mul.wide.u32 %d8, %r7, 4;\n"
    "  add.u64 %d9, %d3, %d8;\n"
    "  st.global.f32 [%d9], %f1;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

static struct gs_error *resolve(struct driver *d)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"cuInit", &d->init},
        {"cuDeviceGet", &d->device_get},
        {"cuDeviceGetName", &d->device_name},
        {"cuDevicePrimaryCtxRetain", &d->ctx_retain},
        {"cuDevicePrimaryCtxRelease_v2", &d->ctx_release},
        {"cuCtxSetCurrent", &d->ctx_set},
        {"cuCtxSynchronize", &d->ctx_sync},
        {"cuModuleLoadData", &d->module_load},
        {"cuModuleGetFunction", &d->get_function},
        {"cuMemAlloc_v2", &d->mem_alloc},
        {"cuMemFree_v2", &d->mem_free},
        {"cuMemcpyHtoD_v2", &d->to_device},
        {"cuMemcpyDtoH_v2", &d->to_host},
        {"cuLaunchKernel", &d->launch},
        {"cuGetErrorName", &d->error_name},
    };
    d->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!d->library)
        return gs_error_new(GS_ENOTFOUND, "libcuda.so.1 is not there");
    for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
        void *address = dlsym(d->library, symbols[i].name);
        if (!address)
            return gs_error_new(GS_ENOTSUP, "libcuda.so.1 has no %s", symbols[i].name);
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
    return NULL;
}

static struct gs_error *cuda_error(const struct driver *d, const char *what, cu_result result)
{
    const char *name = NULL;
    d->error_name(result, &name);
    return gs_error_new(GS_EIO, "CUDA %s: %s", what, name ? name : "unknown error");
}

static void cuda_close(void *self)
{
    struct cuda_gpu *g = self;
    if (g->ctx) {
        const cu_ptr all[] = {g->weights, g->features, g->scores, g->rest};
        g->d.ctx_set(g->ctx);
        for (size_t i = 0; i < GS_ARRAY_LEN(all); i++)
            if (all[i])
                g->d.mem_free(all[i]);
        g->d.ctx_release(g->device);
    }
    if (g->d.library)
        dlclose(g->d.library);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static cu_result run_kernel(struct cuda_gpu *g, uint32_t rounds)
{
    enum { BLOCK = 64 };
    uint32_t rows = (uint32_t)g->model.rows, columns = (uint32_t)g->model.columns;
    void *params[] = {&g->weights, &g->features, &g->scores, &rows, &columns, &rounds};
    cu_result r = g->d.launch(g->function, (rows + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
                              params, NULL);
    return r ? r : g->d.ctx_sync();
}

static struct gs_error *allocate(struct cuda_gpu *g)
{
    const struct gpu_model *m = &g->model;
    size_t weights = m->rows * m->columns * sizeof(float);
    size_t rest = m->memory > weights ? m->memory - weights : 1;
    cu_result r = g->d.mem_alloc(&g->weights, weights);
    if (!r)
        r = g->d.mem_alloc(&g->features, m->columns * sizeof(float));
    if (!r)
        r = g->d.mem_alloc(&g->scores, m->rows * sizeof(float));
    if (!r)
        r = g->d.mem_alloc(&g->rest, rest);
    if (!r)
        r = g->d.to_device(g->weights, m->weights, weights);
    return r ? cuda_error(&g->d, "model memory", r) : NULL;
}

// The number of rounds that takes the configured kernel time.
static struct gs_error *calibrate(struct cuda_gpu *g)
{
    enum { TRIAL = 200 };
    GS_AUTO_FREE float *zeros = gs_alloc_array(g->model.columns, sizeof(float));
    cu_result r = g->d.to_device(g->features, zeros, g->model.columns * sizeof(float));
    if (!r)
        r = run_kernel(g, 1); // the first launch loads the module
    int64_t start = gs_mono_ns();
    if (!r)
        r = run_kernel(g, TRIAL);
    if (r)
        return cuda_error(&g->d, "first kernel", r);
    double round_us = (double)(gs_mono_ns() - start) / 1e3 / TRIAL;
    double rounds = round_us > 0 ? (double)g->model.kernel_us / round_us : 1;
    g->rounds = rounds < 1 ? 1 : rounds > 1e6 ? 1000000 : (uint32_t)rounds;
    return NULL;
}

static struct gs_error *start(struct cuda_gpu *g)
{
    struct gs_error *err = resolve(&g->d);
    if (err)
        return err;
    if (g->d.init(0) || g->d.device_get(&g->device, 0))
        return gs_error_new(GS_ENOTFOUND, "the CUDA driver has no device");
    cu_result r = g->d.device_name(g->name, sizeof(g->name), g->device);
    if (!r)
        r = g->d.ctx_retain(&g->ctx, g->device);
    if (!r)
        r = g->d.ctx_set(g->ctx);
    if (!r)
        r = g->d.module_load(&g->module, ptx);
    if (!r)
        r = g->d.get_function(&g->function, g->module, "scores");
    if (r)
        return cuda_error(&g->d, "start", r);
    err = allocate(g);
    return err ? err : calibrate(g);
}

static struct gs_error *cuda_open(const struct gpu_model *model, void **ret_self)
{
    struct cuda_gpu *g = gs_alloc(sizeof(*g));
    g->model = *model;
    pthread_mutex_init(&g->lock, NULL);
    struct gs_error *err = start(g);
    if (err) {
        cuda_close(g);
        return err;
    }
    *ret_self = g;
    return NULL;
}

static const char *cuda_name(const void *self)
{
    return ((const struct cuda_gpu *)self)->name;
}

static struct gs_error *cuda_scores(void *self, const float *features, float *ret_scores)
{
    struct cuda_gpu *g = self;
    pthread_mutex_lock(&g->lock);
    cu_result r = g->d.ctx_set(g->ctx);
    if (!r)
        r = g->d.to_device(g->features, features, g->model.columns * sizeof(float));
    if (!r)
        r = run_kernel(g, g->rounds);
    if (!r)
        r = g->d.to_host(ret_scores, g->scores, g->model.rows * sizeof(float));
    pthread_mutex_unlock(&g->lock);
    return r ? cuda_error(&g->d, "inference", r) : NULL;
}

const struct gpu_ops gpu_cuda_ops = {cuda_open, cuda_close, cuda_name, cuda_scores};
