// SPDX-License-Identifier: Apache-2.0
// GPU performance monitoring, Hopper and newer: a metric is the difference between two samples. The
// execution inside SMs is not simulated. Supported are activity, occupancy (the part of the SMs),
// memory bandwidth, tensor pipes as a whole, and idle PCIe, NVLink and C2C links. Single pipes and
// formats are NOT_SUPPORTED.
#include "base/mem.h"
#include "nvmlsim/nvml_lib.h"

#define GPM_VERSION 1 // a plain number

enum gpm_metric {
    GPM_GRAPHICS_UTIL = 1,
    GPM_SM_UTIL = 2,
    GPM_SM_OCCUPANCY = 3,
    GPM_ANY_TENSOR = 5,
    GPM_DRAM_UTIL = 10,
    GPM_PCIE_TX = 20,
    GPM_PCIE_RX = 21,
    GPM_NVLINK_FIRST = 60, // total received, total sent, then the same for each link
    GPM_NVLINK_LINKS = 62,
    GPM_C2C_FIRST = 100,
    GPM_C2C_LAST = 103,
};

struct nvml_gpm_sample {
    struct nvmlsim_activity_counters counters; // of the GPU or of the instance
    unsigned nvlinks, c2c_links;
};

NVML_API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, support != NULL);
    if (c.rc)
        return c.rc;
    if (support->version != GPM_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    support->isSupportedDevice = c.board->model.arch >= NVMLSIM_HOPPER;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    NVML_CALL c = nvmlsim_call_system(__func__, sample != NULL);
    if (!c.rc)
        *sample = gs_alloc(sizeof(**sample));
    return c.rc;
}

NVML_API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    NVML_CALL c = nvmlsim_call_system(__func__, sample != NULL);
    if (!c.rc)
        free(sample);
    return c.rc;
}

static void fill_sample(const struct nvml_call *c, unsigned timeline, nvmlGpmSample_t sample)
{
    *sample = (struct nvml_gpm_sample){0};
    if (timeline) {
        nvmlsim_activity_count_instance(c->gpu, c->board, c->board->mig[timeline - 1].gi_id,
                                        &sample->counters);
        return;
    }
    sample->nvlinks = c->board->model.nvlinks; // the links are the whole GPU's
    sample->c2c_links = c->board->model.c2c_links;
    nvmlsim_activity_count_gpu(c->gpu, c->board, &sample->counters);
}

NVML_API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY | NVMLSIM_CALL_HOPPER,
                                      sample != NULL);
    if (!c.rc)
        fill_sample(&c, device->timeline, sample);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance,
                                          nvmlGpmSample_t sample)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_HOPPER, sample != NULL);
    if (c.rc)
        return c.rc;
    for (unsigned i = 0; i < c.board->n_mig; i++) {
        if (c.board->mig[i].gi_id == gpu_instance) {
            fill_sample(&c, 1 + i, sample);
            return NVML_SUCCESS;
        }
    }
    return c.board->n_mig ? NVML_ERROR_NOT_FOUND : NVML_ERROR_NOT_SUPPORTED;
}

static double percent(double part, double span)
{
    double p = part * 100 / span;
    return p < 0 ? 0 : p > 100 ? 100 : p;
}

// Nothing is transferred.
static int fill_link(const struct nvml_gpm_sample *s, nvmlGpmMetric_t *m)
{
    bool nvlink = m->metricId >= GPM_NVLINK_FIRST && s->nvlinks &&
                  m->metricId < GPM_NVLINK_LINKS + 2 * s->nvlinks;
    bool c2c = m->metricId >= GPM_C2C_FIRST && m->metricId <= GPM_C2C_LAST && s->c2c_links;
    if (!nvlink && !c2c)
        return NVML_ERROR_NOT_SUPPORTED;
    m->value = 0;
    return NVML_SUCCESS;
}

static int fill_metric(const struct nvml_gpm_sample *a, const struct nvml_gpm_sample *b,
                       nvmlGpmMetric_t *m)
{
    const struct nvmlsim_activity_counters *from = &a->counters, *to = &b->counters;
    double span = (double)(to->at - from->at);
    switch (m->metricId) {
    case GPM_GRAPHICS_UTIL:
        m->value = percent(to->busy - from->busy, span);
        return NVML_SUCCESS;
    case GPM_SM_UTIL:
    case GPM_SM_OCCUPANCY:
        m->value = percent(to->sm - from->sm, span);
        return NVML_SUCCESS;
    case GPM_ANY_TENSOR: // assumed to be half of the SM time, like memory traffic
        m->value = percent((to->sm - from->sm) / 2, span);
        return NVML_SUCCESS;
    case GPM_DRAM_UTIL:
        m->value = percent(to->mem - from->mem, span);
        return NVML_SUCCESS;
    case GPM_PCIE_TX:
    case GPM_PCIE_RX:
        m->value = 0;
        return NVML_SUCCESS;
    default:
        return fill_link(b, m);
    }
}

NVML_API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *request)
{
    NVML_CALL c = nvmlsim_call_system(__func__, request && request->sample1 && request->sample2);
    if (c.rc)
        return c.rc;
    if (request->version != GPM_VERSION)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct nvml_gpm_sample *a = request->sample1, *b = request->sample2;
    if (a->counters.at == 0 || b->counters.at <= a->counters.at)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < request->numMetrics; i++)
        request->metrics[i].nvmlReturn = fill_metric(a, b, &request->metrics[i]);
    return NVML_SUCCESS;
}
