// SPDX-License-Identifier: Apache-2.0
// The health of a GPU by the rules of DCGM's health watches, from NVML values: states now, and the
// increase of counters within a minute. Names and error codes are those of DCGM.
#include "exporter/render.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"

#include <string.h>

// Counters are compared with their values one minute ago. Values are stored at intervals of a
// twelfth of it.
#define WINDOW_NS (60 * GS_NS_PER_SEC)
#define STEP_NS   (5 * GS_NS_PER_SEC)
enum { MARKS = 13 };

enum {
    RETIRED_PAGES_LIMIT = 63,
    RETIRED_DBE_LIMIT = 15,
    REMAPPED_ROWS_LIMIT = 512,
    NVLINK_CRC_PER_S = 100,
};

static const char fine[] = "DCGM_FR_OK";

// Counters whose increase is a finding.
static const enum gpu_field counters[] = {
    GPU_F_PCIE_REPLAY,
    GPU_F_THERMAL_VIOLATION,
    GPU_F_POWER_VIOLATION,
    GPU_F_NVLINK_CRC_FLIT,
    GPU_F_NVLINK_CRC_DATA,
    GPU_F_NVLINK_REPLAY,
    GPU_F_NVLINK_RECOVERY,
    GPU_F_NVLINK5_RX_MALFORMED,
    GPU_F_NVLINK5_RX_OVERRUN,
    GPU_F_NVLINK5_RX_ERRORS,
    GPU_F_NVLINK5_RX_REMOTE_ERRORS,
    GPU_F_NVLINK5_RX_GENERAL_ERRORS,
    GPU_F_NVLINK5_INTEGRITY_ERRORS,
    GPU_F_NVLINK5_RECOVERIES,
    GPU_F_NVLINK5_SYMBOL_ERRORS,
    GPU_F_NVLINK5_EFFECTIVE_ERRORS,
    GPU_F_NVLINK_ECC_DATA,
};
enum { REPLAY, THERMAL, POWER, CRC_FLIT, CRC_DATA, LINK_REPLAY, N_COUNTERS = 17 };
_Static_assert(GS_ARRAY_LEN(counters) == N_COUNTERS, "counters");

// States, and fields that are needed to evaluate the counters.
static const enum gpu_field states[] = {
    GPU_F_PCIE_GEN,
    GPU_F_PCIE_WIDTH,
    GPU_F_ECC_DBE_VOL,
    GPU_F_RETIRED_SBE,
    GPU_F_RETIRED_DBE,
    GPU_F_RETIRED_PENDING,
    GPU_F_POWER_USAGE,
    GPU_F_XID_ERRORS,
    GPU_F_ROW_REMAP_FAILURE,
    GPU_F_UNCORRECTABLE_REMAPPED,
    GPU_F_INFOROM_VALID,
    GPU_F_RECOVERY_ACTION,
    GPU_F_FABRIC_STATUS,
    GPU_F_FABRIC_HEALTH_MASK,
    GPU_F_NVLINKS_DOWN,
    GPU_F_MIG_MODE,
    GPU_F_MEMORY_UNREPAIRABLE,
    GPU_F_NVLINK_DL_CRC,
    GPU_F_NVLINK_DL_RECOVERY,
    GPU_F_NVLINK_DL_REPLAY,
    GPU_F_NVLINK5_RECOVERED,
    GPU_F_NVLINK5_RECOVERY_FAILED,
    GPU_F_NVLINK5_SYMBOL_BER,
    GPU_F_NVLINK5_EFFECTIVE_BER,
};

static const struct {
    uint32_t xid;
    enum exporter_health_watch watch;
    int level;
    const char *code; // NULL: DCGM_FR_XID_ERROR
} xids[] = {
    {48, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, NULL},
    {74, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, NULL},
    {79, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, "DCGM_FR_FALLEN_OFF_BUS"},
    {94, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_WARN, "DCGM_FR_CONTAINED_ERROR"},
    {95, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, "DCGM_FR_UNCONTAINED_ERROR"},
    {119, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, NULL},
    {120, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, NULL},
    {140, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, NULL},
    {31, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN, NULL},
    {32, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN, NULL},
    {43, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN, NULL},
    {63, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN, "DCGM_FR_PENDING_PAGE_RETIREMENTS"},
    {64, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL, "DCGM_FR_ROW_REMAP_FAILURE"},
    {38, EXPORTER_HEALTH_PCIE, EXPORTER_HEALTH_WARN, NULL},
    {39, EXPORTER_HEALTH_PCIE, EXPORTER_HEALTH_WARN, NULL},
    {42, EXPORTER_HEALTH_PCIE, EXPORTER_HEALTH_WARN, NULL},
    {60, EXPORTER_HEALTH_THERMAL, EXPORTER_HEALTH_WARN, "DCGM_FR_CLOCK_THROTTLE_THERMAL"},
    {61, EXPORTER_HEALTH_THERMAL, EXPORTER_HEALTH_WARN, NULL},
    {62, EXPORTER_HEALTH_THERMAL, EXPORTER_HEALTH_WARN, NULL},
    {54, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, NULL},
    {56, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, NULL},
    {57, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, "DCGM_FR_CLOCK_THROTTLE_POWER"},
    {58, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, NULL},
    {78, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, NULL},
    {67, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, NULL},
    {73, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, NULL},
    {121, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, NULL},
    {137, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, NULL},
};
_Static_assert(GS_ARRAY_LEN(xids) <= 32, "bits of seen");

struct mark {
    int64_t ns;
    bool valid[N_COUNTERS];
    int64_t values[N_COUNTERS];
};

struct gpu_health {
    char uuid[96];
    bool here, known; // part of the last snapshot; at least one check is possible
    uint32_t seen;    // bits of the rows of xids
    struct mark marks[MARKS];
    size_t n_marks, next_mark;
    struct exporter_health_result results[EXPORTER_HEALTH_WATCHES];
};

struct exporter_health {
    struct gpu_health *gpus;
    size_t n;
};

struct exporter_health *exporter_health_new(void)
{
    return gs_alloc(sizeof(struct exporter_health));
}

void exporter_health_free(struct exporter_health *h)
{
    if (h)
        free(h->gpus);
    free(h);
}

void exporter_health_wanted(bool *ret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(counters); i++)
        ret[counters[i]] = true;
    for (size_t i = 0; i < GS_ARRAY_LEN(states); i++)
        ret[states[i]] = true;
}

const char *exporter_health_watch_name(enum exporter_health_watch w)
{
    static const char *const names[EXPORTER_HEALTH_WATCHES] = {
        "PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER", "ALL",
    };
    return names[w];
}

// --- findings ---

static void record_finding(struct gpu_health *g, enum exporter_health_watch w, int level,
                           const char *code)
{
    if (level > g->results[w].level)
        g->results[w] = (struct exporter_health_result){level, code};
}

static bool is_at_least(const struct gpu_device *d, enum gpu_field f, int64_t limit)
{
    return d->fields[f].validity == GPU_VALID && d->fields[f].i >= limit;
}

static int64_t or_zero(const struct gpu_device *d, enum gpu_field f)
{
    return d->fields[f].validity == GPU_VALID ? d->fields[f].i : 0;
}

static void judge_memory(struct gpu_health *g, const struct gpu_device *d)
{
    if (is_at_least(d, GPU_F_ECC_DBE_VOL, 1))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL,
                       "DCGM_FR_VOLATILE_DBE_DETECTED");
    if (is_at_least(d, GPU_F_ROW_REMAP_FAILURE, 1))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL, "DCGM_FR_ROW_REMAP_FAILURE");
    if (or_zero(d, GPU_F_RETIRED_SBE) + or_zero(d, GPU_F_RETIRED_DBE) >= RETIRED_PAGES_LIMIT)
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL, "DCGM_FR_RETIRED_PAGES_LIMIT");
    if (is_at_least(d, GPU_F_RETIRED_DBE, RETIRED_DBE_LIMIT + 1))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL,
                       "DCGM_FR_RETIRED_PAGES_DBE_LIMIT");
    if (is_at_least(d, GPU_F_RETIRED_PENDING, 1))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN,
                       "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    if (is_at_least(d, GPU_F_MEMORY_UNREPAIRABLE, 1))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL, "DCGM_FR_FAULTY_MEMORY");
    if (is_at_least(d, GPU_F_UNCORRECTABLE_REMAPPED, REMAPPED_ROWS_LIMIT))
        record_finding(g, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_WARN,
                       "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT");
}

static void judge_power(struct gpu_health *g, const struct gpu_device *d)
{
    enum gpu_validity v = d->fields[GPU_F_POWER_USAGE].validity;
    if (v == GPU_FAILED || v == GPU_NO_PERMISSION)
        record_finding(g, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN, "DCGM_FR_POWER_UNREADABLE");
}

static void judge_inforom(struct gpu_health *g, const struct gpu_device *d)
{
    if (d->fields[GPU_F_INFOROM_VALID].validity == GPU_VALID && !d->fields[GPU_F_INFOROM_VALID].i)
        record_finding(g, EXPORTER_HEALTH_INFOROM, EXPORTER_HEALTH_WARN, "DCGM_FR_CORRUPT_INFOROM");
}

// The recovery action that the driver recommends.
static void judge_recovery(struct gpu_health *g, const struct gpu_device *d)
{
    static const struct exporter_health_result actions[] = {
        {EXPORTER_HEALTH_PASS, fine},
        {EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_RESET"},
        {EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_REBOOT"},
        {EXPORTER_HEALTH_WARN, "DCGM_FR_GPU_RECOVERY_DRAIN_P2P"},
        {EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_DRAIN_RESET"},
    };
    int64_t action = or_zero(d, GPU_F_RECOVERY_ACTION);
    if (action > 0 && action < (int64_t)GS_ARRAY_LEN(actions))
        record_finding(g, EXPORTER_HEALTH_DRIVER, actions[action].level, actions[action].code);
}

// For NVSwitch systems. The mask has two bits per property (1: true, 2: false, 0: not reported),
// and from bit 8 on four bits for a wrong configuration (1: it is correct).
static void judge_fabric(struct gpu_health *g, const struct gpu_device *d)
{
    enum { DEGRADED_BANDWIDTH = 0, ROUTE_RECOVERY = 2, ROUTE_UNHEALTHY = 4, TIMEOUT_RECOVERY = 6 };
    static const unsigned properties[] = {DEGRADED_BANDWIDTH, ROUTE_RECOVERY, ROUTE_UNHEALTHY,
                                          TIMEOUT_RECOVERY};
    enum { IN_PROGRESS = 2, SUCCESS = 3 };
    uint64_t mask = (uint64_t)or_zero(d, GPU_F_FABRIC_HEALTH_MASK);
    for (size_t i = 0; i < GS_ARRAY_LEN(properties); i++)
        if ((mask >> properties[i] & 3) == 1)
            record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                           "DCGM_FR_FIELD_VIOLATION");
    if ((mask >> 8 & 15) > 1)
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION");
    int64_t status = or_zero(d, GPU_F_FABRIC_STATUS);
    if (status == IN_PROGRESS)
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN,
                       "DCGM_FR_FABRIC_PROBE_STATE");
    else if (status && status != SUCCESS)
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                       "DCGM_FR_FABRIC_PROBE_STATE");
}

// Blackwell and newer: only these count link recoveries.
static bool has_nvlink5(const struct gpu_device *d)
{
    return d->fields[GPU_F_NVLINK5_RECOVERY_FAILED].validity == GPU_VALID;
}

// Above 1e-12: a mantissa above 1 with the exponent 12, or above 10 with 13.
static bool is_effective_ber_high(uint64_t encoded)
{
    struct gpu_ber b = gpu_nvlink_ber(encoded);
    if (b.mantissa == 15 && b.exponent == 255)
        return false;
    return b.exponent < 12 || (b.exponent == 12 && b.mantissa > 1) ||
           (b.exponent == 13 && b.mantissa > 10);
}

// The rate is distinguishable from zero: the exponent of a sum over links has another minimum.
static bool is_symbol_ber_high(uint64_t encoded, bool over_links)
{
    struct gpu_ber b = gpu_nvlink_ber(encoded);
    return b.mantissa && b.exponent < (over_links ? 238 : 255);
}

// Counters since the driver was loaded, and rates.
static void judge_links(struct gpu_health *g, const struct gpu_device *d, bool any_mig)
{
    static const char critical[] = "DCGM_FR_NVLINK_ERROR_CRITICAL";
    // With MIG, links are down by design, including those of other GPUs to this one.
    if (!any_mig && is_at_least(d, GPU_F_NVLINKS_DOWN, 1))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_NVLINK_DOWN");
    bool nvlink5 = has_nvlink5(d);
    if (d->fields[GPU_F_NVLINK5_EFFECTIVE_BER].validity == GPU_VALID &&
        is_effective_ber_high((uint64_t)d->fields[GPU_F_NVLINK5_EFFECTIVE_BER].i))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                       "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD");
    if (d->fields[GPU_F_NVLINK5_SYMBOL_BER].validity == GPU_VALID &&
        is_symbol_ber_high((uint64_t)d->fields[GPU_F_NVLINK5_SYMBOL_BER].i, nvlink5))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                       "DCGM_FR_NVLINK_SYMBOL_BER_THRESHOLD");
    if (nvlink5 && is_at_least(d, GPU_F_NVLINK5_RECOVERY_FAILED, 1))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, critical);
    if (nvlink5 && is_at_least(d, GPU_F_NVLINK5_RECOVERED, 1))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, critical);
    if (!nvlink5 &&
        (is_at_least(d, GPU_F_NVLINK_DL_CRC, 1) || is_at_least(d, GPU_F_NVLINK_DL_RECOVERY, 1) ||
         is_at_least(d, GPU_F_NVLINK_DL_REPLAY, 1)))
        record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, critical);
}

static void judge_xids(struct gpu_health *g, const struct gpu_device *d)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(xids); i++) {
        bool last = is_at_least(d, GPU_F_XID_ERRORS, 1) &&
                    d->fields[GPU_F_XID_ERRORS].i == (int64_t)xids[i].xid;
        for (size_t k = 0; k < d->n_xids && !last; k++)
            last = d->xids[k].xid == xids[i].xid;
        if (last)
            g->seen |= 1U << i;
        if (g->seen & 1U << i)
            record_finding(g, xids[i].watch, xids[i].level,
                           xids[i].code ? xids[i].code : "DCGM_FR_XID_ERROR");
    }
}

// --- the last minute ---

static struct mark mark_of(const struct gpu_device *d, int64_t now)
{
    struct mark m = {.ns = now};
    for (size_t i = 0; i < N_COUNTERS; i++) {
        m.valid[i] = d->fields[counters[i]].validity == GPU_VALID;
        m.values[i] = d->fields[counters[i]].i;
    }
    return m;
}

static void remember(struct gpu_health *g, const struct mark *m)
{
    size_t newest = (g->next_mark + MARKS - 1) % MARKS;
    if (g->n_marks && m->ns - g->marks[newest].ns < STEP_NS)
        return;
    g->marks[g->next_mark] = *m;
    g->next_mark = (g->next_mark + 1) % MARKS;
    g->n_marks += g->n_marks < MARKS;
}

// The increase of a counter within the window; 0 if it was reset with the driver.
static int64_t moved(const struct gpu_health *g, const struct mark *now, size_t counter)
{
    const struct mark *oldest = NULL;
    for (size_t i = 0; i < g->n_marks; i++) {
        const struct mark *m = &g->marks[i];
        if (m->valid[counter] && now->ns - m->ns <= WINDOW_NS && (!oldest || m->ns < oldest->ns))
            oldest = m;
    }
    if (!oldest || !now->valid[counter] || now->values[counter] < oldest->values[counter])
        return 0;
    return now->values[counter] - oldest->values[counter];
}

// One wrong bit in 10^12 is allowed: replays per minute by generation and lane count.
static int64_t allowed_replays(const struct gpu_device *d)
{
    static const double gbit[] = {2.5, 5, 8, 16, 32, 64};
    int64_t generation = or_zero(d, GPU_F_PCIE_GEN), lanes = or_zero(d, GPU_F_PCIE_WIDTH);
    if (generation < 1 || generation > (int64_t)GS_ARRAY_LEN(gbit) || lanes < 1)
        return INT64_MAX;
    return (int64_t)(gbit[generation - 1] / 1000 * 60 * (double)lanes);
}

static void judge_counters(struct gpu_health *g, const struct gpu_device *d, const struct mark *now)
{
    if (moved(g, now, REPLAY) > allowed_replays(d))
        record_finding(g, EXPORTER_HEALTH_PCIE, EXPORTER_HEALTH_WARN, "DCGM_FR_PCI_REPLAY_RATE");
    if (moved(g, now, THERMAL))
        record_finding(g, EXPORTER_HEALTH_THERMAL, EXPORTER_HEALTH_WARN,
                       "DCGM_FR_CLOCK_THROTTLE_THERMAL");
    if (moved(g, now, POWER))
        record_finding(g, EXPORTER_HEALTH_POWER, EXPORTER_HEALTH_WARN,
                       "DCGM_FR_CLOCK_THROTTLE_POWER");
    for (size_t i = LINK_REPLAY; i < N_COUNTERS; i++)
        if (moved(g, now, i))
            record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                           "DCGM_FR_NVLINK_ERROR_CRITICAL");
    for (size_t i = CRC_FLIT; i <= CRC_DATA; i++) {
        int64_t errors = moved(g, now, i);
        if (errors >= NVLINK_CRC_PER_S * (WINDOW_NS / GS_NS_PER_SEC))
            record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                           "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD");
        else if (errors)
            record_finding(g, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN,
                           "DCGM_FR_NVLINK_ERROR_THRESHOLD");
    }
}

// --- GPUs ---

static struct gpu_health *gpu_of(struct exporter_health *h, const char *uuid)
{
    for (size_t i = 0; i < h->n; i++)
        if (gs_streq(h->gpus[i].uuid, uuid))
            return &h->gpus[i];
    h->gpus = gs_realloc_array(h->gpus, h->n + 1, sizeof(*h->gpus));
    struct gpu_health *g = &h->gpus[h->n++];
    *g = (struct gpu_health){0};
    memcpy(g->uuid, uuid, strlen(uuid) + 1);
    return g;
}

static void update_gpu(struct gpu_health *g, const struct gpu_device *d, bool any_mig, int64_t now)
{
    g->here = true;
    g->known = !d->hung;
    for (size_t i = 0; i < EXPORTER_HEALTH_WATCHES; i++)
        g->results[i] = (struct exporter_health_result){EXPORTER_HEALTH_PASS, fine};
    judge_xids(g, d);
    if (d->lost)
        record_finding(g, EXPORTER_HEALTH_ALL, EXPORTER_HEALTH_FAIL, "DCGM_FR_FALLEN_OFF_BUS");
    if (d->lost || d->hung)
        return;
    struct mark m = mark_of(d, now);
    judge_memory(g, d);
    judge_power(g, d);
    judge_inforom(g, d);
    judge_recovery(g, d);
    judge_fabric(g, d);
    judge_links(g, d, any_mig);
    judge_counters(g, d, &m);
    remember(g, &m);
}

void exporter_health_update(struct exporter_health *h, const struct gpu_snapshot *s, int64_t now_ns)
{
    for (size_t i = 0; i < h->n; i++)
        h->gpus[i].here = false;
    bool any_mig = false;
    for (size_t i = 0; i < s->n_devices && !any_mig; i++)
        any_mig = s->devices[i].n_instances || is_at_least(&s->devices[i], GPU_F_MIG_MODE, 1);
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].uuid[0])
            update_gpu(gpu_of(h, s->devices[i].uuid), &s->devices[i], any_mig, now_ns);
    size_t kept = 0;
    for (size_t i = 0; i < h->n; i++) // removed: the slot may be reused for another board
        if (h->gpus[i].here)
            h->gpus[kept++] = h->gpus[i];
    h->n = kept;
}

const struct exporter_health_result *exporter_health_of(const struct exporter_health *h,
                                                        const char *uuid)
{
    for (size_t i = 0; h && i < h->n; i++)
        if (gs_streq(h->gpus[i].uuid, uuid))
            return h->gpus[i].known ? h->gpus[i].results : NULL;
    return NULL;
}
