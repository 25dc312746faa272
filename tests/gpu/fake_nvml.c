// SPDX-License-Identifier: Apache-2.0
// Built several times: FAKE_LISTS is the version of the process lists that it exports (1, 2 or 3),
// FAKE_OLD leaves out what old drivers do not have.
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct fake_nvml fake_nvml = {.count = 2, .stride = 24};

#define GPU(dev) (&fake_nvml.gpus[(uintptr_t)(dev)-1])
#define CHECK(dev)                                                                                 \
    do {                                                                                           \
        if (GPU(dev)->lost)                                                                        \
            return NVML_GPU_IS_LOST;                                                               \
    } while (0)

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wpragmas"

#ifdef FAKE_OLD
#define V2(name) name
#else
#define V2(name) name##_v2
#endif

nvml_ret V2(nvmlInit)(void)
{
    fake_nvml.inits++;
    return fake_nvml.init_ret;
}

nvml_ret nvmlShutdown(void)
{
    fake_nvml.shutdowns++;
    return NVML_OK;
}

nvml_ret nvmlSystemGetDriverVersion(char *text, unsigned len)
{
    snprintf(text, len, "570.1");
    return NVML_OK;
}

nvml_ret V2(nvmlDeviceGetCount)(unsigned *n)
{
    // For a program that loads us: a GPU for each byte of this file.
    const char *file = getenv("FAKE_NVML_GPUS");
    struct stat st;
    if (file && stat(file, &st) == 0)
        fake_nvml.count = (unsigned)st.st_size;
    *n = fake_nvml.count;
    return fake_nvml.count_ret;
}

nvml_ret V2(nvmlDeviceGetHandleByIndex)(unsigned i, nvml_device *dev)
{
    if (i >= fake_nvml.count)
        return NVML_INVALID_ARGUMENT;
    if (fake_nvml.gpus[i].lost)
        return NVML_GPU_IS_LOST;
    *dev = (nvml_device)(uintptr_t)(i + 1);
    return NVML_OK;
}

// MIG devices have the handle of their GPU plus 100.
#define IS_MIG(dev) ((uintptr_t)(dev) > 100)

nvml_ret nvmlDeviceGetUUID(nvml_device dev, char *text, unsigned len)
{
    snprintf(text, len,
             IS_MIG(dev) ? "MIG-%08d-aaaa-bbbb-cccc-dddddddddddd"
                         : "GPU-%08d-aaaa-bbbb-cccc-dddddddddddd",
             (int)(uintptr_t)dev - 1);
    return NVML_OK;
}

nvml_ret nvmlDeviceGetName(nvml_device dev, char *text, unsigned len)
{
    snprintf(text, len, IS_MIG(dev) ? "NVIDIA Fake MIG 1g.10gb" : "NVIDIA Fake");
    return NVML_OK;
}

nvml_ret nvmlDeviceGetMinorNumber(nvml_device dev, unsigned *minor)
{
    *minor = (unsigned)(uintptr_t)dev + 3;
    return NVML_OK;
}

#ifdef FAKE_OLD
nvml_ret nvmlDeviceGetPciInfo(nvml_device dev, struct nvml_pci_info *p)
{
    snprintf(p->bus_id_legacy, sizeof(p->bus_id_legacy), "0000:%02X:00.0", (int)(uintptr_t)dev);
    return NVML_OK;
}
#else
nvml_ret nvmlDeviceGetPciInfo_v3(nvml_device dev, struct nvml_pci_info *p)
{
    snprintf(p->bus_id, sizeof(p->bus_id), "00000000:%02X:00.0", (int)(uintptr_t)dev);
    return NVML_OK;
}
#endif

nvml_ret nvmlDeviceGetClockInfo(nvml_device dev, int type, unsigned *mhz)
{
    CHECK(dev);
    *mhz = type == NVML_CLOCK_SM ? 1410 : 1215;
    return NVML_OK;
}

nvml_ret nvmlDeviceGetPowerUsage(nvml_device dev, unsigned *milliwatt)
{
    for (; atomic_load(&fake_nvml.hang); atomic_store(&fake_nvml.hangs, true))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    CHECK(dev);
    *milliwatt = 70123;
    return GPU(dev)->power_ret;
}

nvml_ret nvmlDeviceGetCurrentClocksEventReasons(nvml_device dev, unsigned long long *bits)
{
    CHECK(dev);
    *bits = GPU(dev)->clock_events;
    return NVML_OK;
}

nvml_ret nvmlDeviceGetUtilizationRates(nvml_device dev, struct nvml_utilization *u)
{
    CHECK(dev);
    if (GPU(dev)->mig)
        return NVML_NOT_SUPPORTED;
    u->gpu = GPU(dev)->util;
    u->memory = 7;
    return NVML_OK;
}

static void memory(nvml_device dev, struct nvml_memory_v2 *m)
{
    const struct fake_gpu *g = IS_MIG(dev) ? GPU((uintptr_t)dev - 100) : GPU(dev);
    m->total = g->memory_total;
    m->reserved = 100 << 20;
    m->used = g->memory_used;
    m->free = m->total - m->used - m->reserved;
}

nvml_ret nvmlDeviceGetMemoryInfo(nvml_device dev, struct nvml_memory *m)
{
    struct nvml_memory_v2 v2;
    memory(dev, &v2);
    *m = (struct nvml_memory){v2.total, v2.free, v2.used + v2.reserved};
    return NVML_OK;
}

#ifndef FAKE_OLD
nvml_ret nvmlDeviceGetMemoryInfo_v2(nvml_device dev, struct nvml_memory_v2 *m)
{
    if (fake_nvml.memory_v2_ret)
        return fake_nvml.memory_v2_ret;
    if (m->version != 0x02000028)
        return 25;
    memory(dev, m);
    return NVML_OK;
}

nvml_ret nvmlDeviceGetSamples(nvml_device dev, int type, unsigned long long last, int *value_type,
                              unsigned *n, struct nvml_sample *out)
{
    CHECK(dev);
    if (GPU(dev)->n_samples == 0)
        return NVML_NOT_FOUND;
    *value_type = NVML_VALUE_U32;
    *n = GPU(dev)->n_samples;
    if (out)
        memcpy(out, GPU(dev)->samples, *n * sizeof(*out));
    return NVML_OK;
}

static void nvlink_traffic(struct nvml_field_value *v)
{
    const uint64_t *kib =
        v->field_id == NVML_FI_NVLINK_TX_KIB ? fake_nvml.sent_kib : fake_nvml.received_kib;
    bool all = v->scope_id == NVML_SCOPE_ALL;
    v->ret = NVML_NOT_SUPPORTED;
    v->value_type = NVML_VALUE_U64;
    v->value.u64 = 0;
    for (unsigned i = 0; i < fake_nvml.nvlinks; i++) {
        if (!all && i != v->scope_id)
            continue;
        v->ret = NVML_OK;
        v->value.u64 += kib[i];
    }
}

nvml_ret nvmlGpmQueryDeviceSupport(nvml_device dev, struct nvml_gpm_support *s)
{
    CHECK(dev);
    s->supported = fake_nvml.gpm;
    return NVML_OK;
}

nvml_ret nvmlGpmSampleAlloc(nvml_gpm_sample *s)
{
    *s = malloc(1);
    return NVML_OK;
}

nvml_ret nvmlGpmSampleFree(nvml_gpm_sample s)
{
    free(s);
    return NVML_OK;
}

nvml_ret nvmlGpmSampleGet(nvml_device dev, nvml_gpm_sample s)
{
    CHECK(dev);
    return NVML_OK;
}

nvml_ret nvmlGpmMetricsGet(struct nvml_gpm_request *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        q->metrics[i].ret = NVML_OK;
        q->metrics[i].value = q->metrics[i].id;
    }
    return NVML_OK;
}

nvml_ret nvmlDeviceGetFieldValues(nvml_device dev, int n, struct nvml_field_value *v)
{
    CHECK(dev);
    for (int i = 0; i < n; i++) {
        if (v[i].field_id == NVML_FI_NVLINK_TX_KIB || v[i].field_id == NVML_FI_NVLINK_RX_KIB) {
            nvlink_traffic(&v[i]);
            continue;
        }
        bool counts = (v[i].field_id >= 74 && v[i].field_id <= 81) || v[i].field_id == 172;
        if (fake_nvml.counts && counts) {
            v[i].ret = NVML_OK;
            v[i].value_type = NVML_VALUE_U64;
            v[i].value.u64 = (uint64_t)v[i].field_id * 12345678;
            continue;
        }
        v[i].ret = v[i].field_id == NVML_FI_MEMORY_TEMP ? NVML_OK : NVML_NOT_SUPPORTED;
        v[i].value_type = NVML_VALUE_U32;
        v[i].value.u32 = 45;
    }
    return NVML_OK;
}

nvml_ret nvmlDeviceGetRemappedRows(nvml_device dev, unsigned *c, unsigned *u, unsigned *p,
                                   unsigned *f)
{
    CHECK(dev);
    *c = 1, *u = 2, *p = 0, *f = 1;
    return NVML_OK;
}

nvml_ret nvmlDeviceGetUnrepairableMemoryFlag_v1(nvml_device dev, uint32_t *words)
{
    CHECK(dev);
    switch (fake_nvml.unrepairable_bytes) {
    case 8:
        if (words[0] != 0x01000008)
            return NVML_ARGUMENT_VERSION_MISMATCH;
        words[1] = GPU(dev)->unrepairable;
        return NVML_OK;
    case 4:
        words[0] = GPU(dev)->unrepairable;
        return NVML_OK;
    case 1:
        return NVML_OK;
    default:
        return NVML_NOT_SUPPORTED;
    }
}

nvml_ret nvmlDeviceGetTemperature(nvml_device dev, int sensor, unsigned *v)
{
    return NVML_DEPRECATED;
}

nvml_ret nvmlDeviceGetTemperatureV(nvml_device dev, struct nvml_temperature *t)
{
    CHECK(dev);
    t->celsius = t->version == 0x0100000c ? 41 : 0;
    return NVML_OK;
}

nvml_ret nvmlEventSetCreate(nvml_event_set *set)
{
    *set = (nvml_event_set)(uintptr_t)1;
    return NVML_OK;
}

nvml_ret nvmlEventSetFree(nvml_event_set set)
{
    return NVML_OK;
}

nvml_ret nvmlDeviceGetSupportedEventTypes(nvml_device dev, unsigned long long *mask)
{
    *mask = NVML_EVENT_XID | 0x10;
    return NVML_OK;
}

nvml_ret nvmlDeviceRegisterEvents(nvml_device dev, unsigned long long mask, nvml_event_set set)
{
    return mask == NVML_EVENT_XID ? NVML_OK : NVML_NOT_SUPPORTED;
}

nvml_ret nvmlEventSetWait_v2(nvml_event_set set, struct nvml_event *e, unsigned timeout_ms)
{
    for (unsigned i = 0; i < fake_nvml.count; i++) {
        struct fake_gpu *g = &fake_nvml.gpus[i];
        if (!g->xid)
            continue;
        *e = (struct nvml_event){(nvml_device)(uintptr_t)(i + 1), NVML_EVENT_XID, g->xid, -1u, -1u};
        g->xid = 0;
        return NVML_OK;
    }
    return NVML_TIMEOUT;
}

nvml_ret nvmlDeviceGetMigMode(nvml_device dev, unsigned *current, unsigned *pending)
{
    CHECK(dev);
    *current = *pending = GPU(dev)->mig;
    return NVML_OK;
}

nvml_ret nvmlDeviceGetMaxMigDeviceCount(nvml_device dev, unsigned *n)
{
    *n = 7;
    return NVML_OK;
}

nvml_ret nvmlDeviceGetMigDeviceHandleByIndex(nvml_device dev, unsigned i, nvml_device *mig)
{
    if (i != 3) // with holes on both sides
        return NVML_NOT_FOUND;
    *mig = (nvml_device)((uintptr_t)dev + 100);
    return NVML_OK;
}

nvml_ret nvmlDeviceGetGpuInstanceId(nvml_device dev, unsigned *id)
{
    *id = 9;
    return NVML_OK;
}
#endif

static nvml_ret list(nvml_device dev, unsigned *n, void *out, size_t stride)
{
    const struct fake_gpu *g = IS_MIG(dev) ? GPU((uintptr_t)dev - 100) : GPU(dev);
    if (g->lost)
        return NVML_GPU_IS_LOST;
    unsigned capacity = *n;
    *n = g->n_processes;
    if (capacity < g->n_processes)
        return NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < g->n_processes; i++) {
        char *entry = (char *)out + i * stride;
        memset(entry, 0, stride);
        memcpy(entry, &g->processes[i], stride < 24 ? stride : 24);
    }
    return NVML_OK;
}

#if FAKE_LISTS == 1
nvml_ret nvmlDeviceGetComputeRunningProcesses(nvml_device dev, unsigned *n, void *out)
{
    return list(dev, n, out, sizeof(struct nvml_process_v1));
}
#elif FAKE_LISTS == 2
nvml_ret nvmlDeviceGetComputeRunningProcesses_v2(nvml_device dev, unsigned *n, void *out)
{
    return list(dev, n, out, sizeof(struct nvml_process_v2));
}

// A trap: it must not be preferred.
nvml_ret nvmlDeviceGetComputeRunningProcesses_v3(nvml_device dev, unsigned *n, void *out)
{
    return list(dev, n, out, NVML_PROCESS_MAX_STRIDE);
}

nvml_ret nvmlDeviceGetGraphicsRunningProcesses_v2(nvml_device dev, unsigned *n, void *out)
{
    return list(dev, n, out, sizeof(struct nvml_process_v2));
}
#else
nvml_ret nvmlDeviceGetComputeRunningProcesses_v3(nvml_device dev, unsigned *n, void *out)
{
    return list(dev, n, out, fake_nvml.stride);
}
#endif

#ifndef FAKE_OLD
nvml_ret nvmlDeviceGetProcessUtilization(nvml_device dev, struct nvml_process_sample *out,
                                         unsigned *n, unsigned long long last_seen)
{
    CHECK(dev);
    fake_nvml.last_seen_us = last_seen;
    if (GPU(dev)->util_ret)
        return GPU(dev)->util_ret;
    // As real drivers: the number stays the capacity, what is not used stays zero.
    memcpy(out, GPU(dev)->util_records, GPU(dev)->n_util * sizeof(*out));
    return NVML_OK;
}
#endif
