// SPDX-License-Identifier: Apache-2.0
// A CUDA driver library for the test of the hardware test: what cuda-load uses of the CUDA driver
// API, on the simulated GPUs. A kernel takes 1 µs for each 100 rounds.
#include "nvmlsim/client.h"

#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, ROUNDS_PER_US = 100, SM_COUNT = 16 };

static struct nvmlsim_ctx *ctx;

static int result(struct gs_error *err, int code)
{
    if (!err)
        return OK;
    gs_error_free(err);
    return code;
}

int cuInit(unsigned flags)
{
    return OK;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ctx ? OK : result(nvmlsim_ctx_open((unsigned)ordinal, &ctx), NO_DEVICE);
}

int cuDeviceGetName(char *name, int size, int device)
{
    static const char text[] = "SIMULATED GPU";
    for (int i = 0; i < size && i < (int)sizeof(text); i++)
        name[i] = text[i];
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    *value = attribute == SM_COUNT ? 132 : 0;
    return OK;
}

int cuDevicePrimaryCtxRetain(void **ret, int device)
{
    *ret = ctx;
    return OK;
}

int cuCtxSetCurrent(void *c)
{
    return OK;
}

int cuCtxSynchronize(void)
{
    return OK; // a launch here returns when the kernel has ended
}

int cuModuleLoadData(void **module, const void *image)
{
    *module = ctx;
    return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = module;
    return OK;
}

int cuMemAlloc_v2(uint64_t *p, size_t bytes)
{
    struct nvmlsim_alloc *a = NULL;
    int r = result(nvmlsim_mem_alloc(ctx, bytes, &a), OUT_OF_MEMORY);
    *p = (uint64_t)(uintptr_t)a;
    return r;
}

int cuMemsetD8_v2(uint64_t p, unsigned char value, size_t bytes)
{
    return OK;
}

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    uint32_t rounds = *(const uint32_t *)params[1];
    return result(nvmlsim_kernel_run(ctx, rounds / ROUNDS_PER_US + 1, 1), NO_DEVICE);
}

int cuGetErrorName(int code, const char **name)
{
    *name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_NO_DEVICE";
    return OK;
}
