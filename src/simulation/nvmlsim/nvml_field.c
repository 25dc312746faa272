// SPDX-License-Identifier: Apache-2.0
// Sample buffers and field values.
#include "base/mem.h"
#include "nvmlsim/nvml_lib.h"

#define SEEN_SLACK_NS GS_NS_PER_MS // see nvml_process.c
#define SCOPE_ALL     UINT32_MAX

// --- samples: one per bucket ---

static uint32_t sample_value(const struct nvml_call *c, int type, uint32_t bucket)
{
    struct nvmlsim_activity_sum sum;
    nvmlsim_activity_sum_gpu(c->gpu, c->board->n_mig, bucket, bucket + 1, &sum);
    const struct nvmlsim_model *m = &c->board->model;
    switch (type) {
    case NVML_SAMPLE_POWER:
        return nvmlsim_activity_power_mw(m, sum.sm_ns, sum.span_ns);
    case NVML_SAMPLE_GPU_UTIL:
        return nvmlsim_activity_percent(sum.busy_ns, sum.span_ns);
    case NVML_SAMPLE_MEM_UTIL:
        return nvmlsim_activity_percent(sum.mem_ns, sum.span_ns);
    case NVML_SAMPLE_SM_CLOCK:
        return sum.busy_ns ? m->sm_max_mhz : m->sm_idle_mhz;
    case NVML_SAMPLE_MEM_CLOCK:
        return sum.busy_ns ? m->mem_max_mhz : m->mem_idle_mhz;
    default:
        return 0; // encoder and decoder cannot be used
    }
}

static bool util_sample(int type)
{
    return type >= NVML_SAMPLE_GPU_UTIL && type <= NVML_SAMPLE_DEC_UTIL;
}

NVML_API nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, int type,
                                           unsigned long long last_seen, int *value_type,
                                           unsigned *count, nvmlSample_t *samples)
{
    bool valid = value_type && count && type >= 0;
    NVML_CALL c = nvmlsim_call_device(
        __func__, device, util_sample(type) ? NVMLSIM_CALL_NO_MIG : NVMLSIM_CALL_GPU, valid);
    if (c.rc)
        return c.rc;
    if (type > NVML_SAMPLE_MEM_CLOCK)
        return NVML_ERROR_NOT_SUPPORTED;
    *value_type = NVML_VALUE_U32;
    NVMLSIM_SHM_HOLD(held, &c.gpu->lock);
    int64_t created = c.sim->created, now = gs_mono_ns();
    int64_t since = last_seen ? nvmlsim_mono_of_unix_us(last_seen) + SEEN_SLACK_NS : 0;
    uint32_t first, end;
    nvmlsim_activity_window(since > created ? since : created, now, &first, &end);
    if (first == end)
        return NVML_ERROR_NOT_FOUND;
    if (!samples) {
        *count = end - first;
        return NVML_SUCCESS;
    }
    if (*count < end - first) // the newest ones that fit
        first = end - *count;
    for (uint32_t id = first; id != end; id++)
        samples[id - first] = (nvmlSample_t){
            .timeStamp = nvmlsim_unix_us_of((int64_t)(id + 1) * NVMLSIM_SHM_BUCKET_NS),
            .sampleValue.u32 = sample_value(&c, type, id)};
    *count = end - first;
    return NVML_SUCCESS;
}

// --- field values ---

enum field_id {
    FIELD_ECC_CURRENT = 1,
    FIELD_ECC_PENDING = 2,
    FIELD_ECC_FIRST = 3, // counters: volatile and aggregate, totals and per unit
    FIELD_ECC_LAST = 28,
    FIELD_RETIRED_FIRST = 29, // single-bit, double-bit, pending
    FIELD_RETIRED_LAST = 31,
    FIELD_POLICY_FIRST = 74, // time below the requested clocks, by reason
    FIELD_POLICY_LAST = 81,
    FIELD_MEMORY_TEMP = 82,
    FIELD_ENERGY = 83,
    FIELD_NVLINK_COUNT = 91,
    FIELD_PENDING_FIRST = 92,
    FIELD_PENDING_LAST = 93,
    FIELD_PCIE_REPLAY = 94,
    FIELD_PCIE_ROLLOVER = 95,
    FIELD_NVLINK_FIRST = 138, // data TX, RX, raw TX, RX
    FIELD_NVLINK_LAST = 141,
    FIELD_REMAP_FIRST = 142, // correctable, uncorrectable, pending, failure
    FIELD_REMAP_LAST = 145,
    FIELD_NVLINK_ERROR_FIRST = 160, // ECC data, replay, recovery, CRC
    FIELD_NVLINK_ERROR_LAST = 163,
    FIELD_PCIE_COUNTER_FIRST = 173,
    FIELD_PCIE_COUNTER_LAST = 183,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_POWER_MIN = 187,
    FIELD_POWER_MAX = 188,
    FIELD_POWER_DEFAULT = 189,
    FIELD_POWER_CURRENT = 190,
    FIELD_ENERGY_SECOND = 191,
    FIELD_POWER_REQUESTED = 192,
    FIELD_TLIMIT_SHUTDOWN = 193,
    FIELD_TLIMIT_SLOWDOWN = 194,
    FIELD_TLIMIT_MEM_MAX = 195,
    FIELD_TLIMIT_GPU_MAX = 196,
    FIELD_PCIE_BYTES_FIRST = 197,
    FIELD_PCIE_BYTES_LAST = 198,
    FIELD_NVLINK5_FIRST = 201, // traffic, errors, recoveries
    FIELD_NVLINK5_LAST = 215,
    FIELD_EFFECTIVE_ERRORS = 219,
    FIELD_EFFECTIVE_BER = 220,
    FIELD_SYMBOL_ERRORS = 221,
    FIELD_SYMBOL_BER = 222,
    FIELD_RECOVERY_ACTION = 230,
    FIELD_C2C_COUNT = 170,
    FIELD_C2C_STATUS = 171,
    FIELD_C2C_SPEED = 172,
    FIELD_C2C_ERROR_FIRST = 231, // CRC, replay, back-to-back replay
    FIELD_C2C_ERROR_LAST = 233,
    FIELD_C2C_POWER = 234,
    // Times of reduced clocks: software thermal, hardware thermal, power brake.
    FIELD_OLD_CLOCK_TIME_FIRST = 251, // R575 to R589
    FIELD_OLD_CLOCK_TIME_LAST = 253,
    FIELD_CLOCK_TIME_FIRST = 269, // R590 and newer
    FIELD_CLOCK_TIME_LAST = 271,
};
enum {
    BER_NONE = 15 << 8 | 255, // mantissa and exponent
    C2C_LINK_MBPS = 44712,
};

static bool between(uint32_t id, uint32_t first, uint32_t last)
{
    return id >= first && id <= last;
}

static int give_u32(nvmlFieldValue_t *f, uint32_t v)
{
    f->valueType = NVML_VALUE_U32;
    f->value.u32 = v;
    return NVML_SUCCESS;
}

static int give_u64(nvmlFieldValue_t *f, uint64_t v)
{
    f->valueType = NVML_VALUE_U64;
    f->value.u64 = v;
    return NVML_SUCCESS;
}

static int give_i32(nvmlFieldValue_t *f, int32_t v)
{
    f->valueType = NVML_VALUE_I32;
    f->value.i32 = v;
    return NVML_SUCCESS;
}

// Counters that are always 0 on boards that have them. -1: not such a counter.
static int fill_counter(const struct nvmlsim_shm_board *g, nvmlFieldValue_t *f)
{
    const struct nvmlsim_model *m = &g->model;
    bool ecc = m->flags & NVMLSIM_ECC;
    uint32_t id = f->fieldId;
    bool has;
    if (between(id, FIELD_ECC_FIRST, FIELD_ECC_LAST))
        has = ecc;
    else if (between(id, FIELD_RETIRED_FIRST, FIELD_RETIRED_LAST) ||
             between(id, FIELD_PENDING_FIRST, FIELD_PENDING_LAST))
        has = ecc && m->arch <= NVMLSIM_VOLTA;
    else if (between(id, FIELD_POLICY_FIRST, FIELD_POLICY_LAST))
        has = m->arch > NVMLSIM_KEPLER;
    else if (between(id, FIELD_NVLINK_FIRST, FIELD_NVLINK_LAST))
        has = m->nvlinks && m->arch >= NVMLSIM_AMPERE &&
              (f->scopeId < m->nvlinks || f->scopeId == SCOPE_ALL);
    else if (between(id, FIELD_NVLINK_ERROR_FIRST, FIELD_NVLINK_ERROR_LAST))
        has = m->nvlinks && m->arch <= NVMLSIM_HOPPER;
    else if (between(id, FIELD_PCIE_COUNTER_FIRST, FIELD_PCIE_COUNTER_LAST) ||
             between(id, FIELD_PCIE_BYTES_FIRST, FIELD_PCIE_BYTES_LAST))
        has = m->arch >= NVMLSIM_AMPERE;
    else
        return -1;
    return has ? give_u64(f, 0) : NVML_ERROR_NOT_SUPPORTED;
}

static bool is_c2c(uint32_t id)
{
    return between(id, FIELD_C2C_COUNT, FIELD_C2C_SPEED) ||
           between(id, FIELD_C2C_ERROR_FIRST, FIELD_C2C_POWER);
}

static int fill_c2c(const struct nvmlsim_model *m, nvmlFieldValue_t *f)
{
    if (!m->c2c_links)
        return NVML_ERROR_NOT_SUPPORTED;
    if (f->fieldId == FIELD_C2C_COUNT)
        return give_u32(f, m->c2c_links);
    if (f->scopeId >= m->c2c_links)
        return NVML_ERROR_INVALID_ARGUMENT;
    switch (f->fieldId) {
    case FIELD_C2C_STATUS:
        return give_u32(f, 1);
    case FIELD_C2C_SPEED:
        return give_u32(f, C2C_LINK_MBPS);
    case FIELD_C2C_POWER:
        return give_u32(f, 0);
    default:
        return give_u64(f, 0);
    }
}

// Whether the simulated driver has the field. The other fields with these IDs (power smoothing)
// exist on no simulated board.
static bool has_clock_time(const struct nvml_call *c, uint32_t id)
{
    enum { FIRST = 575, NEW_IDS = 590 };
    unsigned branch = nvmlsim_driver_branch(c->seg);
    if (between(id, FIELD_OLD_CLOCK_TIME_FIRST, FIELD_OLD_CLOCK_TIME_LAST))
        return branch >= FIRST && branch < NEW_IDS;
    return branch >= NEW_IDS;
}

static bool is_clock_time(uint32_t id)
{
    return between(id, FIELD_OLD_CLOCK_TIME_FIRST, FIELD_OLD_CLOCK_TIME_LAST) ||
           between(id, FIELD_CLOCK_TIME_FIRST, FIELD_CLOCK_TIME_LAST);
}

static bool is_nvlink5(uint32_t id)
{
    return between(id, FIELD_NVLINK5_FIRST, FIELD_NVLINK5_LAST) ||
           between(id, FIELD_EFFECTIVE_ERRORS, FIELD_SYMBOL_BER);
}

static int fill_nvlink5(const struct nvmlsim_model *m, nvmlFieldValue_t *f)
{
    bool rate = f->fieldId == FIELD_EFFECTIVE_BER || f->fieldId == FIELD_SYMBOL_BER;
    if (!m->nvlinks || m->arch < NVMLSIM_BLACKWELL)
        return NVML_ERROR_NOT_SUPPORTED;
    if (f->scopeId >= m->nvlinks && f->scopeId != SCOPE_ALL)
        return NVML_ERROR_INVALID_ARGUMENT;
    return give_u64(f, rate ? BER_NONE : 0);
}

static int fill_remap(const struct nvmlsim_shm_board *g, nvmlFieldValue_t *f)
{
    bool has = (g->model.flags & NVMLSIM_ECC) && g->model.arch >= NVMLSIM_AMPERE && !g->n_mig;
    return has ? give_u32(f, 0) : NVML_ERROR_NOT_SUPPORTED;
}

// Distance to a limit in °C, on Ada and newer.
static int fill_tlimit(const struct nvmlsim_model *m, nvmlFieldValue_t *f)
{
    static const int32_t behind_max[] = {-9, -4, 0, 0}; // shutdown, slowdown, memory, GPU
    if (m->arch < NVMLSIM_ADA || (f->fieldId == FIELD_TLIMIT_MEM_MAX && !(m->flags & NVMLSIM_HBM)))
        return NVML_ERROR_NOT_SUPPORTED;
    return give_i32(f, behind_max[f->fieldId - FIELD_TLIMIT_SHUTDOWN]);
}

static int fill_power(const struct nvmlsim_model *m, const struct nvmlsim_activity_gauges *v,
                      nvmlFieldValue_t *f)
{
    if (m->arch < NVMLSIM_AMPERE || f->scopeId != 0)
        return NVML_ERROR_NOT_SUPPORTED; // scope 1: the module, which no simulated board has
    switch (f->fieldId) {
    case FIELD_POWER_AVERAGE:
        return give_u32(f, v->power_mw);
    case FIELD_POWER_INSTANT:
        return give_u32(f, v->power_instant_mw);
    case FIELD_POWER_MIN:
        return give_u32(f, m->max_w * 1000 / 2);
    default:
        return give_u32(f, m->max_w * 1000);
    }
}

static int fill_field(const struct nvmlsim_shm_board *g, const struct nvmlsim_activity_gauges *v,
                      nvmlFieldValue_t *f)
{
    const struct nvmlsim_model *m = &g->model;
    int rc = fill_counter(g, f);
    if (rc >= 0)
        return rc;
    switch (f->fieldId) {
    case FIELD_ECC_CURRENT:
    case FIELD_ECC_PENDING:
        return m->flags & NVMLSIM_ECC ? give_u32(f, 1) : NVML_ERROR_NOT_SUPPORTED;
    case FIELD_MEMORY_TEMP:
        return m->flags & NVMLSIM_HBM ? give_u32(f, v->mem_temp_c) : NVML_ERROR_NOT_SUPPORTED;
    case FIELD_ENERGY:
    case FIELD_ENERGY_SECOND:
        return m->arch >= NVMLSIM_VOLTA ? give_u64(f, v->energy_mj) : NVML_ERROR_NOT_SUPPORTED;
    case FIELD_NVLINK_COUNT:
        return m->nvlinks ? give_u32(f, m->nvlinks) : NVML_ERROR_NOT_SUPPORTED;
    case FIELD_PCIE_REPLAY:
    case FIELD_PCIE_ROLLOVER:
    case FIELD_RECOVERY_ACTION:
        return give_u32(f, 0);
    default:
        break;
    }
    if (is_nvlink5(f->fieldId))
        return fill_nvlink5(m, f);
    if (is_c2c(f->fieldId))
        return fill_c2c(m, f);
    if (is_clock_time(f->fieldId))
        return give_u64(f, 0);
    if (between(f->fieldId, FIELD_REMAP_FIRST, FIELD_REMAP_LAST))
        return fill_remap(g, f);
    if (between(f->fieldId, FIELD_TLIMIT_SHUTDOWN, FIELD_TLIMIT_GPU_MAX))
        return fill_tlimit(m, f);
    if (between(f->fieldId, FIELD_POWER_AVERAGE, FIELD_POWER_REQUESTED))
        return fill_power(m, v, f);
    return NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                               nvmlFieldValue_t *values)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, values && count > 0);
    if (c.rc)
        return c.rc;
    int64_t start = gs_mono_ns();
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    for (int i = 0; i < count; i++) {
        uint64_t set = 0;
        if (is_clock_time(values[i].fieldId) && !has_clock_time(&c, values[i].fieldId))
            values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        else if (nvmlsim_read_set_value(&c, values[i].fieldId, &set))
            values[i].nvmlReturn = give_u64(&values[i], set);
        else
            values[i].nvmlReturn = fill_field(c.board, &v, &values[i]);
        values[i].timestamp = (int64_t)nvmlsim_unix_us_of(start);
        values[i].latencyUsec = (gs_mono_ns() - start) / 1000;
    }
    return NVML_SUCCESS;
}
