// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include "base/mem.h"
#include "gpu_backend.h"

struct gpu {
    const struct gpu_ops *ops;
    void *self;
};

struct gs_error *gpu_open(const struct gpu_model *model, struct gpu **ret)
{
    static const struct gpu_ops *const kinds[] = {&gpu_cuda_ops, &gpu_sim_ops};
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        void *self;
        struct gs_error *err = kinds[i]->open(model, &self);
        if (err && gs_error_code(err) != GS_ENOTFOUND)
            return err;
        if (err) {
            gs_error_free(err);
            continue;
        }
        struct gpu *g = gs_alloc(sizeof(*g));
        g->ops = kinds[i];
        g->self = self;
        *ret = g;
        return NULL;
    }
    return gs_error_new(GS_ENOTFOUND,
                        "no GPU: neither the CUDA driver (libcuda.so.1) with a device nor a "
                        "simulated GPU (GPUSCALE_SIM) is there");
}

void gpu_close(struct gpu *g)
{
    if (!g)
        return;
    g->ops->close(g->self);
    free(g);
}

const char *gpu_name(const struct gpu *g)
{
    return g->ops->name(g->self);
}

struct gs_error *gpu_scores(struct gpu *g, const float *features, float *ret_scores)
{
    return g->ops->scores(g->self, features, ret_scores);
}
