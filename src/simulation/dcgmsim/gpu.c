// SPDX-License-Identifier: Apache-2.0
// Fields of GPUs, read from the simulated NVML by the calls that the real engine makes, so that
// NVML and DCGM agree. A MIG instance has its own memory; everything else is that of its GPU.
#include "dcgmsim/dcgmsim_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <stdio.h>
#include <string.h>

#define E   (&dcgmsim_engine)
#define MIB (1024 * 1024)

enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, CLOCK_VIDEO = 3 };
enum { ID_NONE = 0xffff };

// A value as NVML gives it: in `number`, a double if the field is one.
struct reading {
    nvmlDevice_t device; // of the GPU
    unsigned gpu;
    const struct nvmlsim_shm_mig *mig; // NULL: the whole GPU
    nvmlDevice_t mig_device;
    int arg;
    double number;
    int64_t integer; // of fields with exact numbers
    char text[96];
};
typedef nvmlReturn_t reader(struct reading *r);

// --- readers ---

static nvmlReturn_t give(struct reading *r, nvmlReturn_t rc, int64_t v)
{
    r->integer = v;
    r->number = (double)v;
    return rc;
}

static nvmlReturn_t read_clock(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetClockInfo(r->device, r->arg, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_max_clock(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetMaxClockInfo(r->device, r->arg, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_app_clock(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetApplicationsClock(r->device, r->arg, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_temperature(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetTemperature(r->device, 0, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_threshold(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetTemperatureThreshold(r->device, r->arg, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_field(struct reading *r)
{
    nvmlFieldValue_t f = {.fieldId = (uint32_t)r->arg};
    nvmlReturn_t rc = nvmlDeviceGetFieldValues(r->device, 1, &f);
    if (!rc)
        rc = f.nvmlReturn;
    int64_t v = f.valueType == NVML_VALUE_U32   ? f.value.u32
                : f.valueType == NVML_VALUE_I32 ? f.value.i32
                                                : (int64_t)f.value.u64;
    return give(r, rc, rc ? 0 : v);
}

static nvmlReturn_t read_power(struct reading *r)
{
    unsigned mw = 0;
    nvmlReturn_t rc = nvmlDeviceGetPowerUsage(r->device, &mw);
    r->number = mw / 1000.0;
    return rc;
}

static nvmlReturn_t read_power_field(struct reading *r)
{
    nvmlReturn_t rc = read_field(r);
    r->number /= 1000;
    return rc;
}

enum limit { LIMIT_CURRENT, LIMIT_LEAST, LIMIT_MOST, LIMIT_DEFAULT, LIMIT_ENFORCED };

static nvmlReturn_t read_power_limit(struct reading *r)
{
    unsigned mw = 0, other = 0;
    nvmlReturn_t rc = NVML_SUCCESS;
    switch ((enum limit)r->arg) {
    case LIMIT_CURRENT:
        rc = nvmlDeviceGetPowerManagementLimit(r->device, &mw);
        break;
    case LIMIT_LEAST:
        rc = nvmlDeviceGetPowerManagementLimitConstraints(r->device, &mw, &other);
        break;
    case LIMIT_MOST:
        rc = nvmlDeviceGetPowerManagementLimitConstraints(r->device, &other, &mw);
        break;
    case LIMIT_DEFAULT:
        rc = nvmlDeviceGetPowerManagementDefaultLimit(r->device, &mw);
        break;
    case LIMIT_ENFORCED:
        rc = nvmlDeviceGetEnforcedPowerLimit(r->device, &mw);
        break;
    }
    r->number = mw / 1000.0;
    return rc;
}

static nvmlReturn_t read_energy(struct reading *r)
{
    unsigned long long mj = 0;
    nvmlReturn_t rc = nvmlDeviceGetTotalEnergyConsumption(r->device, &mj);
    return give(r, rc, (int64_t)mj);
}

static nvmlReturn_t read_utilization(struct reading *r)
{
    nvmlUtilization_t v = {0};
    nvmlReturn_t rc = nvmlDeviceGetUtilizationRates(r->device, &v);
    return give(r, rc, r->arg ? v.memory : v.gpu);
}

static nvmlReturn_t read_codec(struct reading *r)
{
    unsigned v = 0, period = 0;
    nvmlReturn_t rc = r->arg ? nvmlDeviceGetDecoderUtilization(r->device, &v, &period)
                             : nvmlDeviceGetEncoderUtilization(r->device, &v, &period);
    return give(r, rc, v);
}

// DCGM 4 reports no XID before the first one.
static nvmlReturn_t read_xid(struct reading *r)
{
    struct nvmlsim_shm_gpu *g = &E->sim->seg->gpus[r->gpu];
    NVMLSIM_SHM_HOLD(held, &g->lock);
    return give(r, g->last_xid ? NVML_SUCCESS : NVML_ERROR_UNKNOWN, g->last_xid);
}

static nvmlReturn_t read_pcie(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = r->arg == 0   ? nvmlDeviceGetMaxPcieLinkGeneration(r->device, &v)
                      : r->arg == 1 ? nvmlDeviceGetMaxPcieLinkWidth(r->device, &v)
                      : r->arg == 2 ? nvmlDeviceGetCurrPcieLinkGeneration(r->device, &v)
                                    : nvmlDeviceGetCurrPcieLinkWidth(r->device, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_pcie_traffic(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetPcieThroughput(r->device, r->arg, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_replays(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetPcieReplayCounter(r->device, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_violation(struct reading *r)
{
    nvmlViolationTime_t v = {0};
    nvmlReturn_t rc = nvmlDeviceGetViolationStatus(r->device, r->arg, &v);
    return give(r, rc, (int64_t)v.violationTime);
}

enum memory_part { MEMORY_TOTAL, MEMORY_FREE, MEMORY_USED, MEMORY_RESERVED, MEMORY_SHARE };

static nvmlReturn_t read_memory_bytes(struct reading *r)
{
    nvmlMemory_v2_t m = {.version = (uint32_t)sizeof(m) | 2U << 24};
    nvmlReturn_t rc = nvmlDeviceGetMemoryInfo_v2(r->mig ? r->mig_device : r->device, &m);
    const uint64_t parts[] = {[MEMORY_TOTAL] = m.total,
                              [MEMORY_FREE] = m.free,
                              [MEMORY_USED] = m.used,
                              [MEMORY_RESERVED] = m.reserved};
    if (rc)
        return rc;
    r->number = m.total > m.reserved ? (double)m.used / (double)(m.total - m.reserved) : 0;
    return r->arg == MEMORY_SHARE ? NVML_SUCCESS : give(r, NVML_SUCCESS, (int64_t)parts[r->arg]);
}

static nvmlReturn_t read_memory(struct reading *r)
{
    nvmlReturn_t rc = read_memory_bytes(r);
    return give(r, rc, r->integer / MIB);
}

static nvmlReturn_t read_bar1(struct reading *r)
{
    nvmlMemory_t m = {0};
    nvmlReturn_t rc = nvmlDeviceGetBAR1MemoryInfo(r->mig ? r->mig_device : r->device, &m);
    uint64_t v = r->arg == MEMORY_TOTAL ? m.total : r->arg == MEMORY_FREE ? m.free : m.used;
    return give(r, rc, (int64_t)(v / MIB));
}

static nvmlReturn_t read_ecc_mode(struct reading *r)
{
    int now = 0, later = 0;
    nvmlReturn_t rc = nvmlDeviceGetEccMode(r->device, &now, &later);
    return give(r, rc, r->arg ? later : now);
}

enum row_part { ROWS_CORRECTABLE, ROWS_UNCORRECTABLE, ROWS_PENDING, ROWS_FAILED, ROWS_PARTS };

static nvmlReturn_t read_rows(struct reading *r)
{
    unsigned v[ROWS_PARTS] = {0};
    nvmlReturn_t rc = nvmlDeviceGetRemappedRows(
        r->device, &v[ROWS_CORRECTABLE], &v[ROWS_UNCORRECTABLE], &v[ROWS_PENDING], &v[ROWS_FAILED]);
    return give(r, rc, v[r->arg]);
}

// Counters of links that transfer nothing without errors.
static nvmlReturn_t read_links(struct reading *r)
{
    bool has = E->sim->boards[r->gpu].model.nvlinks > 0;
    return give(r, has ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, 0);
}

// A rate, which is 0 if the driver counts what all links of the GPU transfer.
static nvmlReturn_t read_link_traffic(struct reading *r)
{
    nvmlFieldValue_t f = {.fieldId = (uint32_t)r->arg, .scopeId = UINT32_MAX};
    nvmlReturn_t rc = nvmlDeviceGetFieldValues(r->device, 1, &f);
    return give(r, rc ? rc : f.nvmlReturn, 0);
}

static nvmlReturn_t read_state(struct reading *r)
{
    int v = 0;
    nvmlReturn_t rc = nvmlDeviceGetPerformanceState(r->device, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_fan(struct reading *r)
{
    unsigned v = 0;
    nvmlReturn_t rc = nvmlDeviceGetFanSpeed(r->device, &v);
    return give(r, rc, v);
}

static nvmlReturn_t read_reasons(struct reading *r)
{
    unsigned long long v = 0;
    nvmlReturn_t rc = nvmlDeviceGetCurrentClocksEventReasons(r->device, &v);
    return give(r, rc, (int64_t)v);
}

static nvmlReturn_t read_margin(struct reading *r)
{
    nvmlMarginTemperature_v1_t v = {.version = (uint32_t)sizeof(v) | 1U << 24};
    nvmlReturn_t rc = nvmlDeviceGetMarginTemperature(r->device, &v);
    return give(r, rc, v.marginTemperature);
}

static nvmlReturn_t read_number(struct reading *r)
{
    return give(r, NVML_SUCCESS, r->arg);
}

enum gpu_number {
    NUMBER_INDEX,
    NUMBER_MINOR,
    NUMBER_MIG_MODE,
    NUMBER_MIG_SLICES,
    NUMBER_GPUS,
    NUMBER_CUDA,
    NUMBER_CAPABILITY,
    NUMBER_PERSISTENCE,
    NUMBER_COMPUTE_MODE,
    NUMBER_GPM,
    NUMBER_AFFINITY
};

static nvmlReturn_t read_board(struct reading *r)
{
    const struct nvmlsim_shm_board *b = &E->sim->boards[r->gpu];
    switch ((enum gpu_number)r->arg) {
    case NUMBER_INDEX:
    case NUMBER_MINOR:
        return give(r, NVML_SUCCESS, r->gpu);
    case NUMBER_MIG_MODE:
        return give(r, b->model.mig_slices ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED, b->n_mig > 0);
    case NUMBER_MIG_SLICES:
        return give(r, b->model.mig_slices ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED,
                    b->model.mig_slices);
    case NUMBER_GPUS:
        return give(r, NVML_SUCCESS, E->sim->n_gpus);
    case NUMBER_CUDA:
        return give(r, NVML_SUCCESS, NVMLSIM_CUDA_VERSION);
    case NUMBER_CAPABILITY:
        return give(r, NVML_SUCCESS, (int64_t)b->model.cc_major << 16 | b->model.cc_minor);
    case NUMBER_PERSISTENCE:
        return give(r, NVML_SUCCESS, 1);
    case NUMBER_COMPUTE_MODE:
        return give(r, NVML_SUCCESS, 0);
    case NUMBER_GPM:
        return give(r, NVML_SUCCESS, b->model.arch >= NVMLSIM_HOPPER);
    case NUMBER_AFFINITY:
        return give(r, NVML_SUCCESS, 1);
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

enum gpu_text {
    TEXT_DRIVER,
    TEXT_NVML,
    TEXT_NAME,
    TEXT_BRAND,
    TEXT_SERIAL,
    TEXT_UUID,
    TEXT_PCI,
    TEXT_VBIOS,
    TEXT_INFOROM
};

static nvmlReturn_t read_name(struct reading *r)
{
    if (r->mig) {
        snprintf(r->text, sizeof(r->text), "%s", r->mig->profile);
        return NVML_SUCCESS;
    }
    return nvmlDeviceGetName(r->device, r->text, sizeof(r->text));
}

static nvmlReturn_t read_text(struct reading *r)
{
    switch ((enum gpu_text)r->arg) {
    case TEXT_DRIVER:
        return nvmlSystemGetDriverVersion(r->text, sizeof(r->text));
    case TEXT_NVML:
        return nvmlSystemGetNVMLVersion(r->text, sizeof(r->text));
    case TEXT_NAME:
        return read_name(r);
    case TEXT_BRAND:
        snprintf(r->text, sizeof(r->text), "Nvidia");
        return NVML_SUCCESS;
    case TEXT_SERIAL:
        return nvmlDeviceGetSerial(r->device, r->text, sizeof(r->text));
    case TEXT_UUID:
        return nvmlDeviceGetUUID(r->mig ? r->mig_device : r->device, r->text, sizeof(r->text));
    case TEXT_PCI:
        snprintf(r->text, sizeof(r->text), "%s", E->sim->boards[r->gpu].pci_bus_id);
        return NVML_SUCCESS;
    case TEXT_VBIOS:
        return nvmlDeviceGetVbiosVersion(r->device, r->text, sizeof(r->text));
    case TEXT_INFOROM:
        return nvmlDeviceGetInforomImageVersion(r->device, r->text, sizeof(r->text));
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

// --- the table ---

static const struct row {
    uint16_t first, last;
    reader *read;
    int arg;   // of the first field; the following ones have the next numbers
    bool same; // all have the same
} rows[] = {
    {1, 2, read_text, TEXT_DRIVER},
    {4, 5, read_board, NUMBER_GPUS},
    {50, 51, read_text, TEXT_NAME},
    {52, 52, read_board, NUMBER_INDEX},
    {53, 54, read_text, TEXT_SERIAL},
    {55, 55, read_board, NUMBER_MINOR},
    {57, 57, read_text, TEXT_PCI},
    {63, 63, read_board, NUMBER_CAPABILITY},
    {65, 65, read_board, NUMBER_COMPUTE_MODE},
    {66, 66, read_board, NUMBER_PERSISTENCE},
    {67, 67, read_board, NUMBER_MIG_MODE},
    {69, 69, read_board, NUMBER_MIG_SLICES},
    {70, 70, read_board, NUMBER_AFFINITY},
    {71, 73, read_number, 0, true},
    {82, 82, read_text, TEXT_INFOROM},
    {85, 85, read_text, TEXT_VBIOS},
    {90, 90, read_bar1, MEMORY_TOTAL},
    {92, 92, read_bar1, MEMORY_USED},
    {93, 93, read_bar1, MEMORY_FREE},
    {94, 94, read_board, NUMBER_GPM},
    {100, 102, read_clock, CLOCK_SM},
    {110, 111, read_app_clock, CLOCK_SM},
    {112, 112, read_reasons, 0},
    {113, 115, read_max_clock, CLOCK_SM},
    {140, 140, read_field, 82},
    {150, 150, read_temperature, 0},
    {151, 152, read_threshold, 2},
    {153, 153, read_margin, 0},
    {155, 155, read_power, 0},
    {156, 156, read_energy, 0},
    {157, 157, read_power_field, 186},
    {158, 158, read_threshold, 1},
    {159, 159, read_threshold, 0},
    {160, 164, read_power_limit, LIMIT_CURRENT},
    {190, 190, read_state, 0},
    {191, 191, read_fan, 0},
    {200, 201, read_pcie_traffic, 0},
    {202, 202, read_replays, 0},
    {203, 204, read_utilization, 0},
    {206, 207, read_codec, 0},
    {230, 230, read_xid, 0},
    {235, 238, read_pcie, 0},
    {240, 245, read_violation, 0},
    {246, 247, read_violation, 10},
    {250, 253, read_memory, MEMORY_TOTAL},
    {254, 254, read_memory_bytes, MEMORY_SHARE},
    {285, 285, read_field, 170},
    {300, 301, read_ecc_mode, 0},
    {310, 313, read_field, 3},
    {318, 323, read_field, 11},
    {328, 333, read_field, 19},
    {390, 392, read_field, 29},
    {393, 393, read_rows, ROWS_UNCORRECTABLE},
    {394, 394, read_rows, ROWS_CORRECTABLE},
    {395, 395, read_rows, ROWS_FAILED},
    {396, 396, read_rows, ROWS_PENDING},
    {409, 409, read_links, 0},
    {419, 419, read_links, 0},
    {429, 429, read_links, 0},
    {439, 439, read_links, 0},
    {449, 449, read_link_traffic, 138},
    {500, 500, read_number, 0},
    {526, 526, read_number, 0},
    {1625, 1628, read_memory_bytes, MEMORY_TOTAL},
};

static const struct row *find_row(unsigned id)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        if (id >= rows[i].first && id <= rows[i].last)
            return &rows[i];
    return NULL;
}

static nvmlReturn_t open_reading(struct reading *r, unsigned gpu, int mig)
{
    r->gpu = gpu;
    nvmlReturn_t rc = nvmlDeviceGetHandleByIndex_v2(gpu, &r->device);
    if (rc || mig < 0)
        return rc;
    r->mig = &E->sim->boards[gpu].mig[mig];
    return nvmlDeviceGetMigDeviceHandleByIndex(r->device, (unsigned)mig, &r->mig_device);
}

static nvmlReturn_t read_row(struct reading *r, const struct row *row, unsigned id)
{
    r->arg = row->same ? row->arg : row->arg + (int)(id - row->first);
    return row->read(r);
}

// Fields in base units without a row of their own follow from the older field.
static nvmlReturn_t read_id(struct reading *r, unsigned id)
{
    const struct row *row = find_row(id);
    if (row)
        return read_row(r, row, id);
    const struct dcgm_unit_change *u = dcgm_unit_change_of(id);
    row = u && u->new_id == id ? find_row(u->old_id) : NULL;
    if (!row)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t rc = read_row(r, row, u->old_id);
    r->number *= u->factor;
    r->integer = (int64_t)r->number;
    return rc;
}

void dcgmsim_read_gpu(unsigned gpu, int mig, const struct dcgm_field *f, struct dcgmsim_value *ret)
{
    struct reading r = {0};
    nvmlReturn_t rc = open_reading(&r, gpu, mig);
    if (!rc)
        rc = f->type == 'b' ? NVML_ERROR_NOT_SUPPORTED : read_id(&r, f->id);
    if (rc) {
        dcgmsim_give_nvml_error(ret, f->type, f->id == 230 ? NVML_ERROR_NOT_FOUND : rc);
        return;
    }
    if (f->type == DCGM_TYPE_TEXT)
        dcgmsim_give_text(ret, r.text);
    else if (f->type == DCGM_TYPE_DOUBLE)
        dcgmsim_give_double(ret, r.number);
    else
        dcgmsim_give_int(ret, r.integer);
}

// --- attributes ---

static unsigned read_unsigned(unsigned gpu, unsigned id)
{
    struct reading r = {0};
    if (open_reading(&r, gpu, -1) || read_id(&r, id))
        return (unsigned)DCGM_BLANK_INT32;
    return (unsigned)r.number;
}

static void copy_text(unsigned gpu, unsigned id, char *dst, size_t size)
{
    struct reading r = {0};
    if (open_reading(&r, gpu, -1) || read_id(&r, id))
        snprintf(r.text, sizeof(r.text), "%s", DCGM_BLANK_TEXT_NOT_SUPPORTED);
    snprintf(dst, size, "%s", r.text);
}

static void fill_identifiers(unsigned gpu, struct dcgm_identifiers *d)
{
    const struct nvmlsim_shm_board *b = &E->sim->boards[gpu];
    copy_text(gpu, 51, d->brand, sizeof(d->brand));
    copy_text(gpu, 50, d->name, sizeof(d->name));
    copy_text(gpu, 57, d->pci_bus_id, sizeof(d->pci_bus_id));
    copy_text(gpu, 53, d->serial, sizeof(d->serial));
    copy_text(gpu, 54, d->uuid, sizeof(d->uuid));
    copy_text(gpu, 85, d->vbios, sizeof(d->vbios));
    copy_text(gpu, 82, d->inforom_image, sizeof(d->inforom_image));
    copy_text(gpu, 1, d->driver_version, sizeof(d->driver_version));
    d->pci_device_id = b->model.pci_device_id;
    d->virtualization_mode = 0;
}

DCGM_API int dcgmGetDeviceAttributes(dcgm_handle h, uint32_t gpu, struct dcgm_attributes *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (gpu >= E->sim->n_gpus)
        return DCGM_BAD_PARAMETER;
    if (ret->version != DCGM_ATTRIBUTES)
        return DCGM_VERSION_MISMATCH;
    *ret = (struct dcgm_attributes){.version = ret->version};
    fill_identifiers(gpu, &ret->identifiers);
    ret->thermals = (struct dcgm_thermals){.slowdown = read_unsigned(gpu, 158),
                                           .shutdown = read_unsigned(gpu, 159)};
    ret->power_limits = (struct dcgm_power_limits){.current = read_unsigned(gpu, 160),
                                                   .standard = read_unsigned(gpu, 163),
                                                   .enforced = read_unsigned(gpu, 164),
                                                   .minimum = read_unsigned(gpu, 161),
                                                   .maximum = read_unsigned(gpu, 162)};
    ret->memory = (struct dcgm_memory_usage){.bar1_total = read_unsigned(gpu, 90),
                                             .fb_total = read_unsigned(gpu, 250),
                                             .fb_used = read_unsigned(gpu, 252),
                                             .fb_free = read_unsigned(gpu, 251)};
    ret->settings =
        (struct dcgm_settings){.persistence_mode = 1, .mig_mode = E->sim->boards[gpu].n_mig > 0};
    return DCGM_OK;
}

// As the real one for a GPU without a known topology.
DCGM_API int dcgmGetDeviceTopology(dcgm_handle h, uint32_t gpu, void *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret && gpu < DCGM_MAX_GPUS);
    return c.rc ? c.rc : DCGM_NOT_SUPPORTED;
}
