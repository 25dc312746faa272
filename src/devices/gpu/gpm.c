// SPDX-License-Identifier: Apache-2.0
// Performance counters of Hopper and newer (DCGM_FI_PROF_*). NVML calculates a value for the time
// between two samples. Older GPUs provide them only through DCGM.
#include "gpu/gpu_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <math.h>
#include <string.h>

#define MIN_SPAN_NS (100 * GS_NS_PER_MS) // NVML requires more than this between samples

struct row {
    enum gpu_field field;
    uint32_t id;
    bool of_gpu; // not of a MIG device
};

#define NVDEC(n)                                                                                   \
    {                                                                                              \
        GPU_F_PROF_NVDEC##n, 30 + n, false                                                         \
    }
#define NVJPG(n)                                                                                   \
    {                                                                                              \
        GPU_F_PROF_NVJPG##n, 40 + n, false                                                         \
    }
#define NVLINK(n)                                                                                  \
    {GPU_F_PROF_NVLINK_L##n##_TX, 63 + 2 * n, true},                                               \
    {                                                                                              \
        GPU_F_PROF_NVLINK_L##n##_RX, 62 + 2 * n, true                                              \
    }
static const struct row rows[] = {
    {GPU_F_PROF_GR_ENGINE_ACTIVE, 1, false},
    {GPU_F_PROF_SM_ACTIVE, 2, false},
    {GPU_F_PROF_SM_OCCUPANCY, 3, false},
    {GPU_F_PROF_PIPE_INT_ACTIVE, 4, false},
    {GPU_F_PROF_PIPE_TENSOR_ACTIVE, 5, false},
    {GPU_F_PROF_PIPE_TENSOR_DFMA_ACTIVE, 6, false},
    {GPU_F_PROF_PIPE_TENSOR_HMMA_ACTIVE, 7, false},
    {GPU_F_PROF_PIPE_TENSOR_IMMA_ACTIVE, 9, false},
    {GPU_F_PROF_DRAM_ACTIVE, 10, false},
    {GPU_F_PROF_PIPE_FP64_ACTIVE, 11, false},
    {GPU_F_PROF_PIPE_FP32_ACTIVE, 12, false},
    {GPU_F_PROF_PIPE_FP16_ACTIVE, 13, false},
    {GPU_F_PROF_PCIE_TX_BYTES, 20, true},
    {GPU_F_PROF_PCIE_RX_BYTES, 21, true},
    {GPU_F_PROF_NVLINK_RX_BYTES, 60, true},
    {GPU_F_PROF_NVLINK_TX_BYTES, 61, true},
    NVDEC(0),
    NVDEC(1),
    NVDEC(2),
    NVDEC(3),
    NVDEC(4),
    NVDEC(5),
    NVDEC(6),
    NVDEC(7),
    NVJPG(0),
    NVJPG(1),
    NVJPG(2),
    NVJPG(3),
    NVJPG(4),
    NVJPG(5),
    NVJPG(6),
    NVJPG(7),
    {GPU_F_PROF_NVOFA0, 50, false},
    {GPU_F_PROF_NVOFA1, 51, false},
    NVLINK(0),
    NVLINK(1),
    NVLINK(2),
    NVLINK(3),
    NVLINK(4),
    NVLINK(5),
    NVLINK(6),
    NVLINK(7),
    NVLINK(8),
    NVLINK(9),
    NVLINK(10),
    NVLINK(11),
    NVLINK(12),
    NVLINK(13),
    NVLINK(14),
    NVLINK(15),
    NVLINK(16),
    NVLINK(17),
    {GPU_F_PROF_C2C_TX_ALL, 100, true},
    {GPU_F_PROF_C2C_RX_ALL, 101, true},
    {GPU_F_PROF_C2C_TX_DATA, 102, true},
    {GPU_F_PROF_C2C_RX_DATA, 103, true},
};

static void set_all(struct gpu_value *prof, enum gpu_validity v)
{
    for (size_t i = 0; i < GPU_PROF_COUNT; i++)
        prof[i] = (struct gpu_value){.validity = v};
}

static enum gpu_validity support(struct gpu_reader *r, struct gpu_known_device *k)
{
    if (k->gpm_validity != GPU_UNKNOWN)
        return k->gpm_validity;
    struct nvml_gpm_support s = {.version = NVML_GPM_VERSION};
    nvml_ret ret = NVML(r, gpm_support, k->handle, &s);
    enum gpu_validity v =
        ret == NVML_OK && !s.supported ? GPU_NOT_SUPPORTED : gpu_backend_validity(ret);
    if (v == GPU_VALID || v == GPU_NOT_SUPPORTED)
        k->gpm_validity = v;
    return v;
}

static struct gpu_gpm_slot *slot_of(struct gpu_known_device *k, uint32_t gpu_instance)
{
    struct gpu_gpm_slot *free_slot = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(k->gpm); i++) {
        if (k->gpm[i].used && k->gpm[i].gpu_instance == gpu_instance)
            return &k->gpm[i];
        if (!k->gpm[i].used && !free_slot)
            free_slot = &k->gpm[i];
    }
    if (free_slot) {
        free_slot->gpu_instance = gpu_instance;
        free_slot->used = true;
        free_slot->older_ns = 0;
        set_all(free_slot->last, GPU_UNKNOWN);
    }
    return free_slot;
}

static nvml_ret get_gpm_sample(struct gpu_reader *r, struct gpu_known_device *k,
                               struct gpu_gpm_slot *s)
{
    nvml_ret ret = s->older ? NVML_OK : NVML(r, gpm_alloc, &s->older);
    if (ret == NVML_OK && !s->newer)
        ret = NVML(r, gpm_alloc, &s->newer);
    if (ret != NVML_OK)
        return ret;
    nvml_gpm_sample into = s->older_ns ? s->newer : s->older;
    return s->gpu_instance == GPU_NO_INSTANCE
               ? NVML(r, gpm_get, k->handle, into)
               : NVML(r, gpm_get_mig, k->handle, s->gpu_instance, into);
}

static struct gpu_value gpm_value(const struct row *row, const struct nvml_gpm_metric *m)
{
    if (m->ret != NVML_OK || isnan(m->value))
        return gpu_backend_invalid(m->ret == NVML_OK ? NVML_NOT_SUPPORTED : m->ret);
    if (m->value < 0 || !isfinite(m->value))
        return gpu_backend_invalid(NVML_UNKNOWN);
    if (gpu_field_info(row->field)->kind == GPU_INTEGER) // MiB/s; no GPU transfers 2^40
        return m->value < 1e12 ? gpu_backend_integer(NVML_OK, (uint64_t)(m->value * 1048576.0))
                               : gpu_backend_invalid(NVML_UNKNOWN);
    // Values slightly above 100 occur; much higher ones are invalid.
    if (m->value > 110)
        return gpu_backend_invalid(NVML_UNKNOWN);
    return gpu_backend_double(NVML_OK, m->value > 100 ? 1 : m->value / 100);
}

static void compute(struct gpu_reader *r, struct gpu_gpm_slot *s, struct gpu_value *prof)
{
    struct nvml_gpm_request *q = gpu_backend_scratch(r, 1, sizeof(*q));
    const struct row *of[GS_ARRAY_LEN(rows)];
    q->version = NVML_GPM_VERSION;
    q->older = s->older;
    q->newer = s->newer;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (!gpu_backend_wants(r, rows[i].field, rows[i].field))
            continue;
        if (rows[i].of_gpu && s->gpu_instance != GPU_NO_INSTANCE) {
            prof[rows[i].field - GPU_F_PROF_FIRST].validity = GPU_NOT_SUPPORTED;
            continue;
        }
        of[q->n] = &rows[i];
        q->metrics[q->n++] = (struct nvml_gpm_metric){.id = rows[i].id, .ret = NVML_UNKNOWN};
    }
    nvml_ret ret = NVML(r, gpm_metrics, q);
    for (uint32_t i = 0; i < q->n && i < GS_ARRAY_LEN(rows); i++)
        prof[of[i]->field - GPU_F_PROF_FIRST] =
            ret == NVML_OK ? gpm_value(of[i], &q->metrics[i]) : gpu_backend_invalid(ret);
}

static void read_slot(struct gpu_reader *r, struct gpu_known_device *k, uint32_t gpu_instance,
                      struct gpu_value *prof)
{
    struct gpu_gpm_slot *s = slot_of(k, gpu_instance);
    set_all(prof, GPU_UNKNOWN);
    if (!s)
        return;
    s->seen = true;
    int64_t now = gs_mono_ns();
    if (s->older_ns && (!r->due_group[GPU_G_GPM] || now - s->older_ns <= MIN_SPAN_NS)) {
        memcpy(prof, s->last, sizeof(s->last));
        return;
    }
    nvml_ret ret = get_gpm_sample(r, k, s);
    if (ret != NVML_OK) {
        set_all(prof, gpu_backend_validity(ret));
        set_all(s->last, GPU_UNKNOWN);
        s->older_ns = 0;
        return;
    }
    if (s->older_ns) {
        compute(r, s, prof);
        memcpy(s->last, prof, sizeof(s->last));
        nvml_gpm_sample sample = s->older;
        s->older = s->newer;
        s->newer = sample;
    }
    s->older_ns = now;
}

static void free_slot(const struct nvml *nvml, struct gpu_gpm_slot *s)
{
    if (nvml->gpm_free && s->older)
        nvml->gpm_free(s->older);
    if (nvml->gpm_free && s->newer)
        nvml->gpm_free(s->newer);
    *s = (struct gpu_gpm_slot){0};
}

void gpu_backend_free_gpm(const struct nvml *nvml, struct gpu_known_device *k)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(k->gpm); i++)
        free_slot(nvml, &k->gpm[i]);
    k->gpm_validity = GPU_UNKNOWN;
}

void gpu_backend_read_gpm(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    if (!r->backend->wants_group[GPU_G_GPM])
        return;
    enum gpu_validity v = support(r, k);
    struct gpu_value *prof = &d->fields[GPU_F_PROF_FIRST];
    for (size_t i = 0; v != GPU_VALID && i < d->n_instances; i++)
        set_all(d->instances[i].prof, v);
    if (v != GPU_VALID) {
        set_all(prof, v);
        return;
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(k->gpm); i++)
        k->gpm[i].seen = false;
    read_slot(r, k, GPU_NO_INSTANCE, prof);
    for (size_t i = 0; i < d->n_instances && !r->device_lost; i++)
        read_slot(r, k, d->instances[i].gpu_instance_id, d->instances[i].prof);
    for (size_t i = 0; i < GS_ARRAY_LEN(k->gpm); i++)
        if (k->gpm[i].used && !k->gpm[i].seen) // the instance no longer exists
            free_slot(r->nvml, &k->gpm[i]);
}
