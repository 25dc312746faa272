// SPDX-License-Identifier: Apache-2.0
#include "history.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(field) "DCGM_FI_DEV_" field

static const char *const names[HISTORY_FIELDS] = {NAME("SM_CLOCK"),
                                                  NAME("MEM_CLOCK"),
                                                  NAME("MEMORY_TEMP"),
                                                  NAME("GPU_TEMP"),
                                                  NAME("POWER_USAGE"),
                                                  NAME("TOTAL_ENERGY_CONSUMPTION"),
                                                  NAME("PCIE_REPLAY_COUNTER"),
                                                  NAME("GPU_UTIL"),
                                                  NAME("MEM_COPY_UTIL"),
                                                  NAME("ENC_UTIL"),
                                                  NAME("DEC_UTIL"),
                                                  NAME("XID_ERRORS"),
                                                  NAME("FB_FREE"),
                                                  NAME("FB_USED"),
                                                  NAME("NVLINK_BANDWIDTH_TOTAL"),
                                                  NAME("VGPU_LICENSE_STATUS"),
                                                  NAME("UNCORRECTABLE_REMAPPED_ROWS"),
                                                  NAME("CORRECTABLE_REMAPPED_ROWS"),
                                                  NAME("ROW_REMAP_FAILURE"),
                                                  NAME("GR_ENGINE_ACTIVE"),
                                                  NAME("PIPE_TENSOR_ACTIVE"),
                                                  NAME("DRAM_ACTIVE"),
                                                  NAME("PCIE_TX_BYTES"),
                                                  NAME("PCIE_RX_BYTES"),
                                                  NAME("FB_RESERVED")};
enum { ENERGY = 5 };

static unsigned roll(uint64_t *dice, unsigned n)
{
    *dice = *dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*dice >> 33) % n);
}

// The same kinds of values as bench/engine-peer.
static double draw(uint64_t *dice, const char *name)
{
    if (strstr(name, "_GPU_UTIL") || strstr(name, "MEM_COPY_UTIL"))
        return roll(dice, 101);
    if (strstr(name, "POWER_USAGE"))
        return (60000 + roll(dice, 640000)) / 1e3;
    if (strstr(name, "ACTIVE"))
        return roll(dice, 1000000) / 1e6;
    if (strstr(name, "BYTES"))
        return roll(dice, 1000000000);
    if (strstr(name, "ENERGY"))
        return 30000 + roll(dice, 1000);
    if (strstr(name, "FB_"))
        return 1000 + 1000 * (double)roll(dice, 3);
    if (strstr(name, "TEMP"))
        return 40 + roll(dice, 40);
    return strstr(name, "CLOCK") ? 210 * (1 + (double)roll(dice, 9)) : 0;
}

struct history *history_new(int64_t series, int64_t step_ms, int64_t begin_ms)
{
    struct history *h = gs_alloc(sizeof(*h));
    uint64_t dice = 1;
    h->n = (size_t)(series + HISTORY_SERIES - 1) / HISTORY_SERIES;
    h->targets = gs_alloc_array(h->n, sizeof(*h->targets));
    h->step_ms = step_ms;
    h->begin_ms = begin_ms;
    for (size_t t = 0; t < h->n; t++)
        h->targets[t].offset = (uint32_t)(t * 7919);
    for (int f = 0; f < HISTORY_FIELDS; f++)
        for (int i = 0; i < HISTORY_TABLE; i++)
            h->values[f][i] = draw(&dice, names[f]);
    return h;
}

void history_free(struct history *h)
{
    if (!h)
        return;
    free(h->targets);
    free(h);
}

void history_values(struct history *h, size_t target, size_t round, double ret[HISTORY_SERIES])
{
    struct history_target *t = &h->targets[target];
    for (size_t f = 0; f < HISTORY_FIELDS; f++)
        for (size_t g = 0; g < HISTORY_GPUS; g++) {
            double v = h->values[f][(t->offset + round * 17 + g * 131 + f) % HISTORY_TABLE];
            if (f == ENERGY)
                v = t->counters[g] += v;
            ret[f * HISTORY_GPUS + g] = v;
        }
}

int64_t history_time(const struct history *h, size_t target, size_t round)
{
    uint64_t dice = target << 32 ^ round;
    roll(&dice, 4);
    return h->begin_ms + (int64_t)round * h->step_ms + h->targets[target].offset % 1000 +
           roll(&dice, 4);
}

void history_device(size_t target, int gpu, struct history_device *ret)
{
    snprintf(ret->gpu, sizeof(ret->gpu), "%d", gpu);
    snprintf(ret->uuid, sizeof(ret->uuid), "GPU-%08zx-52ab-4f2e-9c4e-%012zx",
             target * 8 + (size_t)gpu, target);
    snprintf(ret->pci_bus_id, sizeof(ret->pci_bus_id), "00000000:%02X:00.0", (unsigned)gpu);
    snprintf(ret->device, sizeof(ret->device), "nvidia%d", gpu);
    snprintf(ret->host, sizeof(ret->host), "node-%04zu", target);
    snprintf(ret->space, sizeof(ret->space), "team-%zu", target % 20);
    snprintf(ret->pod, sizeof(ret->pod), "inference-%zu-%d", target, gpu);
    snprintf(ret->instance, sizeof(ret->instance), "10.0.%zu.%zu:9400", target / 256, target % 256);
}

const struct metrics_label *history_labels(struct history_device *d, int series)
{
    const struct metrics_label labels[HISTORY_LABELS] = {
        {GS_SLICE("DCGM_FI_DRIVER_VERSION"), GS_SLICE("550.54.15")},
        {GS_SLICE("Hostname"), gs_slice_of(d->host)},
        {GS_SLICE("UUID"), gs_slice_of(d->uuid)},
        {GS_SLICE("__name__"), gs_slice_of(names[series / HISTORY_GPUS])},
        {GS_SLICE("container"), GS_SLICE("inference")},
        {GS_SLICE("device"), gs_slice_of(d->device)},
        {GS_SLICE("gpu"), gs_slice_of(d->gpu)},
        {GS_SLICE("instance"), gs_slice_of(d->instance)},
        {GS_SLICE("job"), GS_SLICE("gpu")},
        {GS_SLICE("modelName"), GS_SLICE("NVIDIA H100 80GB HBM3")},
        {GS_SLICE("namespace"), gs_slice_of(d->space)},
        {GS_SLICE("pci_bus_id"), gs_slice_of(d->pci_bus_id)},
        {GS_SLICE("pod"), gs_slice_of(d->pod)},
    };
    memcpy(d->labels, labels, sizeof(labels));
    return d->labels;
}
