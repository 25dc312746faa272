// SPDX-License-Identifier: Apache-2.0
// Fields of nvmlDeviceGetFieldValues: error and throttle counters, NVLink traffic.
#include "gpu/gpu_private.h"

#include "base/slice.h"

#include <math.h>

enum {
    MAX_PLAUSIBLE_CELSIUS = 200, // boards without the sensor return more (DCGM ignores them, too)
    FI_POWER_INSTANT = 186,
    MAX_VALUES = 128,
    NS_PER_SECOND = 1000000000,
    BYTES_PER_MB = 1000000,
    // The times of clock reductions have other IDs in R575 to R589 than in later drivers, and do
    // not exist before. In those drivers the same IDs are used for power smoothing.
    FIRST_BRANCH_OF_TIMES = 575,
    FIRST_BRANCH_OF_NEW_IDS = 590,
};

struct row {
    enum gpu_field field;
    uint32_t id;     // NVML's
    bool links;      // sum over all links: required for NVLink 5
    uint32_t old_id; // in R575 to R589, if the ID has changed
};

static const struct row rows[] = {
    {GPU_F_MEMORY_TEMP, NVML_FI_MEMORY_TEMP},
    {GPU_F_POWER_INSTANT, FI_POWER_INSTANT},
    {GPU_F_POWER_VIOLATION, 74},
    {GPU_F_THERMAL_VIOLATION, 75},
    {GPU_F_SYNC_BOOST_VIOLATION, 76},
    {GPU_F_BOARD_LIMIT_VIOLATION, 77},
    {GPU_F_LOW_UTIL_VIOLATION, 78},
    {GPU_F_RELIABILITY_VIOLATION, 79},
    {GPU_F_APP_CLOCKS_VIOLATION, 80},
    {GPU_F_BASE_CLOCKS_VIOLATION, 81},
    {GPU_F_POWER_SECONDS, 74},
    {GPU_F_THERMAL_SECONDS, 75},
    {GPU_F_SYNC_BOOST_SECONDS, 76},
    {GPU_F_BOARD_LIMIT_SECONDS, 77},
    {GPU_F_LOW_UTIL_SECONDS, 78},
    {GPU_F_RELIABILITY_SECONDS, 79},
    {GPU_F_APP_CLOCKS_SECONDS, 80},
    {GPU_F_BASE_CLOCKS_SECONDS, 81},
    {GPU_F_ECC_CURRENT, 1},
    {GPU_F_ECC_PENDING, 2},
    {GPU_F_ECC_SBE_VOL, 3},
    {GPU_F_ECC_DBE_VOL, 4},
    {GPU_F_ECC_SBE_AGG, 5},
    {GPU_F_ECC_DBE_AGG, 6},
    {GPU_F_ECC_SBE_VOL_L1, 7},
    {GPU_F_ECC_DBE_VOL_L1, 8},
    {GPU_F_ECC_SBE_VOL_L2, 9},
    {GPU_F_ECC_DBE_VOL_L2, 10},
    {GPU_F_ECC_SBE_VOL_DEV, 11},
    {GPU_F_ECC_DBE_VOL_DEV, 12},
    {GPU_F_ECC_SBE_VOL_REG, 13},
    {GPU_F_ECC_DBE_VOL_REG, 14},
    {GPU_F_ECC_SBE_VOL_TEX, 15},
    {GPU_F_ECC_DBE_VOL_TEX, 16},
    {GPU_F_ECC_SBE_AGG_L1, 18},
    {GPU_F_ECC_DBE_AGG_L1, 19},
    {GPU_F_ECC_SBE_AGG_L2, 20},
    {GPU_F_ECC_DBE_AGG_L2, 21},
    {GPU_F_ECC_SBE_AGG_DEV, 22},
    {GPU_F_ECC_DBE_AGG_DEV, 23},
    {GPU_F_ECC_SBE_AGG_REG, 24},
    {GPU_F_ECC_DBE_AGG_REG, 25},
    {GPU_F_ECC_SBE_AGG_TEX, 26},
    {GPU_F_ECC_DBE_AGG_TEX, 27},
    {GPU_F_RETIRED_SBE, 29},
    {GPU_F_RETIRED_DBE, 30},
    {GPU_F_RETIRED_PENDING, 31},
    {GPU_F_NVLINK_CRC_FLIT, 38},
    {GPU_F_NVLINK_CRC_DATA, 45},
    {GPU_F_NVLINK_REPLAY, 52},
    {GPU_F_NVLINK_RECOVERY, 59},
    {GPU_F_NVLINK_DL_CRC, 163},
    {GPU_F_NVLINK_DL_RECOVERY, 162},
    {GPU_F_NVLINK_DL_REPLAY, 161},
    {GPU_F_NVLINK5_TX_PACKETS, 201, true},
    {GPU_F_NVLINK5_TX_BYTES, 202, true},
    {GPU_F_NVLINK5_RX_PACKETS, 203, true},
    {GPU_F_NVLINK5_RX_BYTES, 204, true},
    {GPU_F_NVLINK5_RX_MALFORMED, 206, true},
    {GPU_F_NVLINK5_RX_OVERRUN, 207, true},
    {GPU_F_NVLINK5_RX_ERRORS, 208, true},
    {GPU_F_NVLINK5_RX_REMOTE_ERRORS, 209, true},
    {GPU_F_NVLINK5_RX_GENERAL_ERRORS, 210, true},
    {GPU_F_NVLINK5_INTEGRITY_ERRORS, 211, true},
    {GPU_F_NVLINK5_TX_DISCARDS, 212, true},
    {GPU_F_NVLINK5_RECOVERED, 213, true},
    {GPU_F_NVLINK5_RECOVERY_FAILED, 214, true},
    {GPU_F_NVLINK5_RECOVERIES, 215, true},
    {GPU_F_NVLINK5_SYMBOL_ERRORS, 221, true},
    {GPU_F_NVLINK5_SYMBOL_BER, 222, true},
    {GPU_F_NVLINK5_SYMBOL_BER_FLOAT, 222, true},
    {GPU_F_NVLINK5_EFFECTIVE_BER, 220, true},
    {GPU_F_NVLINK5_EFFECTIVE_BER_FLOAT, 220, true},
    {GPU_F_NVLINK5_EFFECTIVE_ERRORS, 219, true},
    {GPU_F_NVLINK_ECC_DATA, 160},
    {GPU_F_RECOVERY_ACTION, 230},
    {GPU_F_C2C_COUNT, 170},
    {GPU_F_C2C_STATUS, 171},
    {GPU_F_C2C_MAX_BANDWIDTH, 172},
    {GPU_F_C2C_MAX_BYTES, 172},
    {GPU_F_C2C_ERROR_INTR, 231},
    {GPU_F_C2C_ERROR_REPLAY, 232},
    {GPU_F_C2C_ERROR_REPLAY_B2B, 233},
    {GPU_F_C2C_POWER_STATE, 234},
    {GPU_F_CLOCK_NS_POWER_CAP, 74},
    {GPU_F_CLOCK_NS_SYNC_BOOST, 76},
    {GPU_F_CLOCK_NS_SW_THERMAL, 269, .old_id = 251},
    {GPU_F_CLOCK_NS_HW_THERMAL, 270, .old_id = 252},
    {GPU_F_CLOCK_NS_POWER_BRAKE, 271, .old_id = 253},
};
static_assert(GS_ARRAY_LEN(rows) + 2 * (GPU_NVLINK_LINKS + 1) <= MAX_VALUES, "room for all");

// 0: the driver does not have the field.
static uint32_t id_of(const struct gpu_reader *r, const struct row *row)
{
    unsigned branch = r->backend->driver_branch;
    if (!row->old_id || branch >= FIRST_BRANCH_OF_NEW_IDS)
        return row->id;
    return branch >= FIRST_BRANCH_OF_TIMES ? row->old_id : 0;
}

static nvml_ret field_integer(const struct nvml_field_value *v, int64_t *ret)
{
    // If the board lacks the part, the driver may return either code.
    if (v->ret == NVML_INVALID_ARGUMENT)
        return NVML_NOT_SUPPORTED;
    if (v->ret != NVML_OK)
        return v->ret;
    switch (v->value_type) {
    case NVML_VALUE_U32:
        *ret = v->value.u32;
        return NVML_OK;
    case NVML_VALUE_I32:
        *ret = v->value.i32;
        return NVML_OK;
    case NVML_VALUE_U16:
        *ret = v->value.u16;
        return NVML_OK;
    case NVML_VALUE_ULONG:
    case NVML_VALUE_U64:
    case NVML_VALUE_I64:
        *ret = v->value.i64;
        return NVML_OK;
    default:
        return NVML_NOT_SUPPORTED;
    }
}

struct gpu_ber gpu_nvlink_ber(uint64_t encoded)
{
    struct gpu_ber b = {.mantissa = encoded >> 8 & 0xf, .exponent = encoded & 0xff};
    b.ratio = (double)b.mantissa * pow(10, -(double)b.exponent);
    return b;
}

static struct gpu_value field_value(enum gpu_field f, nvml_ret ret, int64_t v)
{
    if (ret == NVML_OK && f == GPU_F_MEMORY_TEMP)
        return v > MAX_PLAUSIBLE_CELSIUS || v < -MAX_PLAUSIBLE_CELSIUS
                   ? gpu_backend_invalid(NVML_NOT_SUPPORTED)
                   : (struct gpu_value){.validity = GPU_VALID, .i = v};
    if (f == GPU_F_POWER_INSTANT)
        return gpu_backend_double(ret, (double)v / 1000.0);
    if (f == GPU_F_NVLINK5_SYMBOL_BER_FLOAT || f == GPU_F_NVLINK5_EFFECTIVE_BER_FLOAT)
        return gpu_backend_double(ret, gpu_nvlink_ber((uint64_t)v).ratio);
    if (ret == NVML_OK && v < 0) // a negative counter is invalid
        return (struct gpu_value){.validity = GPU_FAILED};
    if (f >= GPU_F_POWER_SECONDS && f <= GPU_F_BASE_CLOCKS_SECONDS)
        return gpu_backend_double(ret, (double)v / NS_PER_SECOND);
    if (f == GPU_F_C2C_MAX_BYTES && v <= INT64_MAX / BYTES_PER_MB)
        return gpu_backend_integer(ret, (uint64_t)v * BYTES_PER_MB);
    if (f == GPU_F_C2C_MAX_BYTES)
        return (struct gpu_value){.validity = GPU_FAILED};
    return gpu_backend_integer(ret, (uint64_t)v);
}

// As in DCGM: KiB since the last sample, per second, divided by 1000, or in bytes. The first sample
// therefore has no value.
static struct gpu_value link_rate(struct gpu_nvlink_counter *c, nvml_ret ret, uint64_t kib,
                                  int64_t now, double units_per_kib)
{
    struct gpu_value v = gpu_backend_invalid(ret);
    if (ret == NVML_OK) {
        v.validity = GPU_UNKNOWN;
        if (c->valid && kib >= c->kib && now > c->mono_ns) {
            double seconds = (double)(now - c->mono_ns) / (double)GS_NS_PER_SEC;
            v.validity = GPU_VALID;
            v.i = (int64_t)((double)(kib - c->kib) / seconds * units_per_kib);
        }
    }
    *c = (struct gpu_nvlink_counter){ret == NVML_OK, kib, now};
    return v;
}

#define LINKS_UP_TO_5(field) field##0, field##1, field##2, field##3, field##4, field##5
#define LINKS_UP_TO_17(field)                                                                      \
    LINKS_UP_TO_5(field), field##6, field##7, field##8, field##9, field##10, field##11, field##12, \
        field##13, field##14, field##15, field##16, field##17
static const enum gpu_field link_fields[GPU_NVLINK_RATES][GPU_NVLINK_LINKS + 1] = {
    [GPU_NVLINK_BOTH] = {LINKS_UP_TO_17(GPU_F_NVLINK_L), GPU_F_NVLINK_BANDWIDTH},
    [GPU_NVLINK_SENT] = {LINKS_UP_TO_17(GPU_F_NVLINK_TX_L), GPU_F_NVLINK_TX_TOTAL},
    [GPU_NVLINK_RECEIVED] = {LINKS_UP_TO_17(GPU_F_NVLINK_RX_L), GPU_F_NVLINK_RX_TOTAL},
    [GPU_NVLINK_BYTES] = {LINKS_UP_TO_17(GPU_F_NVLINK_BYTES_L), GPU_F_NVLINK_BYTES_TOTAL},
};

static bool wants_link(const struct gpu_reader *r, size_t link)
{
    for (size_t i = 0; i < GPU_NVLINK_RATES; i++)
        if (r->due[link_fields[i][link]])
            return true;
    return false;
}

static void take_link(const struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d,
                      size_t link, nvml_ret ret, const struct nvml_field_value *tx,
                      const struct nvml_field_value *rx, int64_t now)
{
    int64_t sent = 0, received = 0;
    nvml_ret tx_ret = ret == NVML_OK ? field_integer(tx, &sent) : ret;
    nvml_ret rx_ret = ret == NVML_OK ? field_integer(rx, &received) : ret;
    nvml_ret both_ret = tx_ret ? tx_ret : rx_ret;
    uint64_t both = (uint64_t)sent + (uint64_t)received;
    const struct {
        nvml_ret ret;
        uint64_t kib;
        double units_per_kib;
    } read[GPU_NVLINK_RATES] = {
        [GPU_NVLINK_BOTH] = {both_ret, both, 1e-3},
        [GPU_NVLINK_SENT] = {tx_ret, (uint64_t)sent, 1e-3},
        [GPU_NVLINK_RECEIVED] = {rx_ret, (uint64_t)received, 1e-3},
        [GPU_NVLINK_BYTES] = {both_ret, both, 1024},
    };
    for (size_t i = 0; i < GPU_NVLINK_RATES; i++)
        if (r->due[link_fields[i][link]])
            d->fields[link_fields[i][link]] =
                link_rate(&k->links[i][link], read[i].ret, read[i].kib, now, read[i].units_per_kib);
}

static int request_rows(const struct gpu_reader *r, struct gpu_device *d,
                        struct nvml_field_value *v, const struct row **of)
{
    int n = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        if (!r->due[rows[i].field])
            continue;
        uint32_t id = id_of(r, &rows[i]);
        if (!id) {
            d->fields[rows[i].field] = gpu_backend_invalid(NVML_NOT_SUPPORTED);
            continue;
        }
        of[n] = &rows[i];
        v[n++] = (struct nvml_field_value){.field_id = id,
                                           .scope_id = rows[i].links ? NVML_SCOPE_ALL : 0};
    }
    return n;
}

void gpu_backend_read_values(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_field_value v[MAX_VALUES] = {0};
    const struct row *of[MAX_VALUES];
    int n = request_rows(r, d, v, of), first_link = n;
    for (size_t link = 0; link <= GPU_NVLINK_LINKS; link++) {
        if (!wants_link(r, link))
            continue;
        uint32_t scope = link == GPU_NVLINK_LINKS ? NVML_SCOPE_ALL : (uint32_t)link;
        v[n++] = (struct nvml_field_value){.field_id = NVML_FI_NVLINK_TX_KIB, .scope_id = scope};
        v[n++] = (struct nvml_field_value){.field_id = NVML_FI_NVLINK_RX_KIB, .scope_id = scope};
    }
    if (!n)
        return;
    nvml_ret ret = NVML(r, field_values, k->handle, n, v);
    int64_t now = gs_mono_ns();
    for (int i = 0; i < first_link; i++) {
        int64_t value = 0;
        nvml_ret rc = ret == NVML_OK ? field_integer(&v[i], &value) : ret;
        d->fields[of[i]->field] = field_value(of[i]->field, rc, value);
    }
    for (int i = first_link; i < n; i += 2) {
        size_t link = v[i].scope_id == NVML_SCOPE_ALL ? GPU_NVLINK_LINKS : v[i].scope_id;
        if (link <= GPU_NVLINK_LINKS)
            take_link(r, k, d, link, ret, &v[i], &v[i + 1], now);
    }
}
