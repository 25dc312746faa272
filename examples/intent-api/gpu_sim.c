// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "gpu_backend.h"
#include "nvmlsim/client.h"

#include <string.h>

struct sim_gpu {
    struct gpu_model model;
    float *weights;
    struct nvmlsim_ctx *ctx;
    struct nvmlsim_alloc *memory;
};

static void sim_close(void *self)
{
    struct sim_gpu *g = self;
    if (g->ctx && g->memory)
        nvmlsim_mem_free(g->ctx, g->memory);
    if (g->ctx)
        nvmlsim_ctx_close(g->ctx);
    free(g->weights);
    free(g);
}

static struct gs_error *sim_open(const struct gpu_model *model, void **ret_self)
{
    if (!getenv("GPUSCALE_SIM"))
        return gs_error_new(GS_ENOTFOUND, "GPUSCALE_SIM is not set");
    struct sim_gpu *g = gs_alloc(sizeof(*g));
    g->model = *model;
    size_t n = model->rows * model->columns;
    g->weights = gs_alloc_array(n, sizeof(float));
    memcpy(g->weights, model->weights, n * sizeof(float));
    struct gs_error *err = nvmlsim_ctx_open(0, &g->ctx);
    if (!err)
        err = nvmlsim_mem_alloc(g->ctx, model->memory, &g->memory);
    if (err) {
        sim_close(g);
        // It was requested, so its absence is an error and not a reason to try the next kind.
        struct gs_error *shown = gs_error_new(GS_EUNAVAIL, "simulated GPU %s: %s",
                                              getenv("GPUSCALE_SIM"), gs_error_message(err));
        gs_error_free(err);
        return shown;
    }
    *ret_self = g;
    return NULL;
}

static const char *sim_name(const void *self)
{
    (void)self;
    return "simulated GPU";
}

// The device is busy for the model's kernel time. The CPU calculates the sums.
static struct gs_error *sim_scores(void *self, const float *features, float *ret_scores)
{
    struct sim_gpu *g = self;
    for (size_t r = 0; r < g->model.rows; r++) {
        const float *row = g->weights + r * g->model.columns;
        float sum = 0;
        for (size_t i = 0; i < g->model.columns; i++)
            sum += row[i] * features[i];
        ret_scores[r] = sum;
    }
    return nvmlsim_kernel_run(g->ctx, g->model.kernel_us, g->model.sm_share);
}

const struct gpu_ops gpu_sim_ops = {sim_open, sim_close, sim_name, sim_scores};
