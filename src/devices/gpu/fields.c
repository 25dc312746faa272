// SPDX-License-Identifier: Apache-2.0
// Field readers: the NVML call and unit of each field.
#include "gpu/gpu_private.h"

#include "base/slice.h"

#include <math.h>
#include <string.h>

enum {
    MAX_PLAUSIBLE_CELSIUS = 200, // boards without the sensor return more (DCGM ignores them, too)
    MAX_SAMPLES = 4096,
    HZ_PER_MHZ = 1000000,
};

struct gpu_value gpu_backend_invalid(nvml_ret ret)
{
    return (struct gpu_value){.validity = gpu_backend_validity(ret)};
}

struct gpu_value gpu_backend_integer(nvml_ret ret, uint64_t v)
{
    if (ret != NVML_OK)
        return gpu_backend_invalid(ret);
    if (v > INT64_MAX)
        return (struct gpu_value){.validity = GPU_FAILED};
    return (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)v};
}

struct gpu_value gpu_backend_double(nvml_ret ret, double v)
{
    if (ret != NVML_OK)
        return gpu_backend_invalid(ret);
    if (!isfinite(v))
        return (struct gpu_value){.validity = GPU_FAILED};
    return (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = v};
}

static struct gpu_value watts(nvml_ret ret, unsigned milliwatt)
{
    if (ret == NVML_OK && milliwatt > 100000000) // no board uses more than 100 kW
        return (struct gpu_value){.validity = GPU_FAILED};
    return gpu_backend_double(ret, milliwatt / 1000.0);
}

static struct gpu_value celsius(nvml_ret ret, int64_t v)
{
    if (ret == NVML_OK && (v > MAX_PLAUSIBLE_CELSIUS || v < -MAX_PLAUSIBLE_CELSIUS))
        return (struct gpu_value){.validity = GPU_NOT_SUPPORTED};
    if (ret != NVML_OK)
        return gpu_backend_invalid(ret);
    return (struct gpu_value){.validity = GPU_VALID, .i = v};
}

static struct gpu_value percent(nvml_ret ret, unsigned v)
{
    if (ret == NVML_OK && v > 100)
        return (struct gpu_value){.validity = GPU_FAILED};
    return gpu_backend_integer(ret, v);
}

// Sets a field that is a percentage and its field from 0 to 1.
static void set_percent(struct gpu_device *d, enum gpu_field f, enum gpu_field ratio,
                        struct gpu_value percent)
{
    d->fields[f] = d->fields[ratio] = percent;
    if (percent.validity == GPU_VALID)
        d->fields[ratio] = gpu_backend_double(NVML_OK, (double)percent.i / 100.0);
}

static void set_clock(struct gpu_device *d, enum gpu_field mhz, enum gpu_field hz, nvml_ret ret,
                      unsigned v)
{
    d->fields[mhz] = gpu_backend_integer(ret, v);
    d->fields[hz] = gpu_backend_integer(ret, (uint64_t)v * HZ_PER_MHZ);
}

static void read_clocks(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    static const struct {
        enum gpu_field mhz, hz;
        int type;
    } rows[] = {
        {GPU_F_SM_CLOCK, GPU_F_SM_CLOCK_HZ, NVML_CLOCK_SM},
        {GPU_F_MEM_CLOCK, GPU_F_MEM_CLOCK_HZ, NVML_CLOCK_MEM},
        {GPU_F_VIDEO_CLOCK, GPU_F_VIDEO_CLOCK_HZ, NVML_CLOCK_VIDEO},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        unsigned mhz = 0;
        if (!b->due[rows[i].mhz] && !b->due[rows[i].hz])
            continue;
        nvml_ret ret = NVML(b, clock_info, k->handle, rows[i].type, &mhz);
        set_clock(d, rows[i].mhz, rows[i].hz, ret, mhz);
    }
}

static void read_set_clocks(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned mhz = 0;
    nvml_ret ret = NVML(b, app_clock, k->handle, NVML_CLOCK_SM, &mhz);
    set_clock(d, GPU_F_APP_SM_CLOCK, GPU_F_APP_SM_CLOCK_HZ, ret, mhz);
    ret = NVML(b, app_clock, k->handle, NVML_CLOCK_MEM, &mhz);
    set_clock(d, GPU_F_APP_MEM_CLOCK, GPU_F_APP_MEM_CLOCK_HZ, ret, mhz);
    ret = NVML(b, max_clock, k->handle, NVML_CLOCK_SM, &mhz);
    set_clock(d, GPU_F_MAX_SM_CLOCK, GPU_F_MAX_SM_CLOCK_HZ, ret, mhz);
    ret = NVML(b, max_clock, k->handle, NVML_CLOCK_MEM, &mhz);
    set_clock(d, GPU_F_MAX_MEM_CLOCK, GPU_F_MAX_MEM_CLOCK_HZ, ret, mhz);
    ret = NVML(b, max_clock, k->handle, NVML_CLOCK_VIDEO, &mhz);
    set_clock(d, GPU_F_MAX_VIDEO_CLOCK, GPU_F_MAX_VIDEO_CLOCK_HZ, ret, mhz);
}

// If there are more samples than slots, the newest of each short interval is kept.
static void remember_clock_events(const struct gpu_reader *b, struct gpu_known_device *k,
                                  uint16_t bits)
{
    int64_t now = gs_mono_ns(), window = b->backend->cfg.clock_window_ns;
    size_t newest = (k->next_clock + GPU_CLOCK_RING - 1) % GPU_CLOCK_RING;
    bool close = k->n_clocks && now - k->clocks[newest].mono_ns < window / GPU_CLOCK_RING;
    size_t at = close ? newest : k->next_clock;
    if (!close) {
        k->next_clock = (k->next_clock + 1) % GPU_CLOCK_RING;
        k->n_clocks += k->n_clocks < GPU_CLOCK_RING;
        k->clocks[at].mono_ns = now;
    }
    k->clocks[at].bits = bits;
}

// Reasons in the first sample do not count as new.
static void total_clock_events(struct gpu_known_device *k, uint16_t bits)
{
    unsigned begun = k->has_clock_bits ? bits & ~(unsigned)k->clock_bits : 0;
    for (unsigned bit = 0; bit < GPU_CLOCK_EVENTS; bit++)
        k->clock_totals[bit] += begun >> bit & 1;
    k->has_clock_bits = true;
    k->clock_bits = bits;
}

void gpu_backend_fill_clock_events(const struct gpu_reader *b, const struct gpu_known_device *k,
                                   struct gpu_device *d)
{
    int64_t now = gs_mono_ns(), window = b->backend->cfg.clock_window_ns;
    d->has_clock_events = k->has_clock_bits;
    memcpy(d->clock_totals, k->clock_totals, sizeof(d->clock_totals));
    for (size_t i = 0; i < k->n_clocks; i++)
        for (unsigned bit = 0; now - k->clocks[i].mono_ns <= window && bit < GPU_CLOCK_EVENTS;
             bit++)
            d->clock_events[bit] += k->clocks[i].bits >> bit & 1;
}

static void read_event_reasons(struct gpu_reader *b, struct gpu_known_device *k,
                               struct gpu_device *d)
{
    unsigned long long bits = 0;
    nvml_ret ret = NVML(b, event_reasons, k->handle, &bits);
    d->fields[GPU_F_CLOCKS_EVENT_REASONS] = gpu_backend_integer(ret, bits);
    if (ret != NVML_OK)
        return;
    remember_clock_events(b, k, (uint16_t)(bits & 0x1ff));
    total_clock_events(k, (uint16_t)(bits & 0x1ff));
}

static void read_modes(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    int v = 0;
    nvml_ret ret = NVML(b, compute_mode, k->handle, &v);
    d->fields[GPU_F_COMPUTE_MODE] = gpu_backend_integer(ret, (uint64_t)v);
    ret = NVML(b, persistence_mode, k->handle, &v);
    d->fields[GPU_F_PERSISTENCE_MODE] = gpu_backend_integer(ret, (uint64_t)v);
    ret = NVML(b, virtual_mode, k->handle, &v);
    d->fields[GPU_F_VIRTUAL_MODE] = gpu_backend_integer(ret, (uint64_t)v);
    unsigned current = 0, pending = 0;
    ret = NVML(b, mig_mode, k->handle, &current, &pending);
    d->fields[GPU_F_MIG_MODE] = gpu_backend_integer(ret, current);
}

static void read_bar1(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_memory m = {0};
    nvml_ret ret = NVML(b, bar1, k->handle, &m);
    d->fields[GPU_F_BAR1_TOTAL] = gpu_backend_integer(ret, m.total >> 20);
    d->fields[GPU_F_BAR1_USED] = gpu_backend_integer(ret, m.used >> 20);
    d->fields[GPU_F_BAR1_FREE] = gpu_backend_integer(ret, m.free >> 20);
    d->fields[GPU_F_BAR1_TOTAL_BYTES] = gpu_backend_integer(ret, m.total);
    d->fields[GPU_F_BAR1_USED_BYTES] = gpu_backend_integer(ret, m.used);
    d->fields[GPU_F_BAR1_FREE_BYTES] = gpu_backend_integer(ret, m.free);
}

static void read_temp_limits(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    static const struct {
        enum gpu_field field;
        int type;
    } rows[] = {
        {GPU_F_MEM_MAX_OP_TEMP, NVML_THRESHOLD_MEM_MAX},
        {GPU_F_GPU_MAX_OP_TEMP, NVML_THRESHOLD_GPU_MAX},
        {GPU_F_SLOWDOWN_TEMP, NVML_THRESHOLD_SLOWDOWN},
        {GPU_F_SHUTDOWN_TEMP, NVML_THRESHOLD_SHUTDOWN},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        unsigned v = 0;
        nvml_ret ret = NVML(b, temp_threshold, k->handle, rows[i].type, &v);
        d->fields[rows[i].field] = celsius(ret, v);
    }
}

static void read_power_limits(struct gpu_reader *b, struct gpu_known_device *k,
                              struct gpu_device *d)
{
    unsigned mw = 0, max = 0;
    nvml_ret ret = NVML(b, power_limit, k->handle, &mw);
    d->fields[GPU_F_POWER_LIMIT] = watts(ret, mw);
    ret = NVML(b, power_default, k->handle, &mw);
    d->fields[GPU_F_POWER_LIMIT_DEF] = watts(ret, mw);
    ret = NVML(b, power_enforced, k->handle, &mw);
    d->fields[GPU_F_POWER_LIMIT_ENFORCED] = watts(ret, mw);
    ret = NVML(b, power_range, k->handle, &mw, &max);
    d->fields[GPU_F_POWER_LIMIT_MIN] = watts(ret, mw);
    d->fields[GPU_F_POWER_LIMIT_MAX] = watts(ret, max);
}

static void read_state(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    int state = 0;
    unsigned fan = 0;
    nvml_ret ret = NVML(b, pstate, k->handle, &state);
    bool known = state >= 0 && state <= 15; // 32: unknown
    d->fields[GPU_F_PSTATE] = ret == NVML_OK && !known ? gpu_backend_invalid(NVML_UNKNOWN)
                                                       : gpu_backend_integer(ret, (uint64_t)state);
    ret = NVML(b, fan_speed, k->handle, &fan);
    // Boosted fans report more than 100.
    bool sane = ret != NVML_OK || fan <= 1000;
    set_percent(d, GPU_F_FAN_SPEED, GPU_F_FAN_SPEED_RATIO,
                sane ? gpu_backend_integer(ret, fan) : gpu_backend_invalid(NVML_UNKNOWN));
}

static void read_pcie_throughput(struct gpu_reader *b, struct gpu_known_device *k,
                                 struct gpu_device *d)
{
    unsigned v = 0;
    nvml_ret ret = NVML(b, pcie_throughput, k->handle, NVML_PCIE_TX, &v);
    d->fields[GPU_F_PCIE_TX] = gpu_backend_integer(ret, v);
    ret = NVML(b, pcie_throughput, k->handle, NVML_PCIE_RX, &v);
    d->fields[GPU_F_PCIE_RX] = gpu_backend_integer(ret, v);
}

static void read_pcie_link(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned v = 0;
    nvml_ret ret = NVML(b, pcie_gen, k->handle, &v);
    d->fields[GPU_F_PCIE_GEN] = gpu_backend_integer(ret, v);
    ret = NVML(b, pcie_width, k->handle, &v);
    d->fields[GPU_F_PCIE_WIDTH] = gpu_backend_integer(ret, v);
    ret = NVML(b, pcie_max_gen, k->handle, &v);
    d->fields[GPU_F_PCIE_MAX_GEN] = gpu_backend_integer(ret, v);
    ret = NVML(b, pcie_max_width, k->handle, &v);
    d->fields[GPU_F_PCIE_MAX_WIDTH] = gpu_backend_integer(ret, v);
}

static void read_temperature(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned v = 0;
    nvml_ret ret = NVML(b, temperature, k->handle, NVML_TEMPERATURE_GPU, &v);
    int64_t degrees = v;
    if (gpu_backend_validity(ret) == GPU_NOT_SUPPORTED) { // deprecated since R580
        struct nvml_temperature t = {
            .version = NVML_VERSION_WORD(struct nvml_temperature, 1),
            .sensor = NVML_TEMPERATURE_GPU,
        };
        ret = NVML(b, temperature_v, k->handle, &t);
        degrees = t.celsius;
    }
    d->fields[GPU_F_GPU_TEMP] = celsius(ret, degrees);
}

static void read_margin(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_margin m = {.version = NVML_VERSION_WORD(struct nvml_margin, 1)};
    nvml_ret ret = NVML(b, margin, k->handle, &m);
    if (ret == NVML_ARGUMENT_VERSION_MISMATCH)
        ret = NVML_NOT_SUPPORTED;
    d->fields[GPU_F_TEMP_LIMIT] = celsius(ret, m.celsius);
}

static void read_power(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned milliwatt = 0;
    nvml_ret ret = NVML(b, power_usage, k->handle, &milliwatt);
    d->fields[GPU_F_POWER_USAGE] = watts(ret, milliwatt);
}

static void read_energy(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned long long millijoule = 0;
    nvml_ret ret = NVML(b, total_energy, k->handle, &millijoule);
    d->fields[GPU_F_TOTAL_ENERGY] = gpu_backend_integer(ret, millijoule);
    d->fields[GPU_F_ENERGY_JOULES] = gpu_backend_integer(ret, millijoule / 1000);
}

static void read_pcie_replay(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned n = 0;
    nvml_ret ret = NVML(b, pcie_replay, k->handle, &n);
    d->fields[GPU_F_PCIE_REPLAY] = gpu_backend_integer(ret, n);
}

static bool sample_percent(int value_type, union nvml_value v, double *ret)
{
    switch (value_type) {
    case NVML_VALUE_DOUBLE:
        *ret = v.d;
        break;
    case NVML_VALUE_U64:
    case NVML_VALUE_ULONG:
        *ret = (double)v.u64;
        break;
    case NVML_VALUE_I64:
        *ret = (double)v.i64;
        break;
    case NVML_VALUE_U32:
    case NVML_VALUE_I32:
        *ret = v.u32;
        break;
    default:
        return false;
    }
    return *ret >= 0 && *ret <= 100;
}

// The mean of the driver's utilization samples since the last sample, weighted by duration, or
// their maximum if configured. A single value covers 1/6 s on most boards and would miss the rest
// of the second.
static bool mean_utilization(struct gpu_reader *b, struct gpu_known_device *k, double *ret_mean)
{
    unsigned n = 0;
    int type = 0;
    nvml_ret ret =
        NVML(b, samples, k->handle, NVML_SAMPLES_GPU_UTIL, k->util_seen_us, &type, &n, NULL);
    if ((ret != NVML_OK && ret != NVML_INSUFFICIENT_SIZE) || n == 0)
        return false;
    n = n < MAX_SAMPLES ? n : MAX_SAMPLES;
    struct nvml_sample *samples = gpu_backend_scratch(b, n, sizeof(*samples));
    unsigned capacity = n;
    ret = NVML(b, samples, k->handle, NVML_SAMPLES_GPU_UTIL, k->util_seen_us, &type, &n, samples);
    if (ret != NVML_OK)
        return false;
    double sum = 0, weights = 0, highest = 0;
    uint64_t last = k->util_seen_us;
    for (unsigned i = 0; i < n && i < capacity; i++) {
        double v = 0;
        if (samples[i].time_us <= last || !sample_percent(type, samples[i].value, &v))
            continue;
        double weight = (double)(samples[i].time_us - last);
        sum += v * weight;
        weights += weight;
        highest = v > highest ? v : highest;
        last = samples[i].time_us;
    }
    if (weights <= 0)
        return false;
    k->util_seen_us = last;
    *ret_mean = b->backend->cfg.max_util ? highest : sum / weights;
    return true;
}

static void read_utilization(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_utilization u = {0};
    nvml_ret ret = NVML(b, utilization, k->handle, &u);
    set_percent(d, GPU_F_MEM_COPY_UTIL, GPU_F_MEM_COPY_UTIL_RATIO, percent(ret, u.memory));
    struct gpu_value util = percent(ret, u.gpu);
    double mean = 0;
    if (!b->device_lost && mean_utilization(b, k, &mean))
        util = (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)lround(mean)};
    set_percent(d, GPU_F_GPU_UTIL, GPU_F_GPU_UTIL_RATIO, util);
}

static void read_codecs(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    unsigned v = 0, period_us = 0;
    nvml_ret ret = NVML(b, encoder, k->handle, &v, &period_us);
    set_percent(d, GPU_F_ENC_UTIL, GPU_F_ENC_UTIL_RATIO, percent(ret, v));
    ret = NVML(b, decoder, k->handle, &v, &period_us);
    set_percent(d, GPU_F_DEC_UTIL, GPU_F_DEC_UTIL_RATIO, percent(ret, v));
}

struct gpu_memory_values gpu_backend_read_memory(struct gpu_reader *b, nvml_device handle)
{
    struct nvml_memory_v2 m = {.version = NVML_VERSION_WORD(struct nvml_memory_v2, 2)};
    nvml_ret ret = NVML(b, memory_v2, handle, &m);
    bool has_reserved = ret == NVML_OK;
    if (ret != NVML_OK && ret != NVML_GPU_IS_LOST) {
        struct nvml_memory old = {0};
        ret = NVML(b, memory, handle, &old);
        m.total = old.total;
        m.free = old.free;
        m.used = old.used;
        m.reserved = 0;
    }
    if (ret == NVML_OK && m.total == 0) // integrated GPUs without dedicated memory
        ret = NVML_NOT_SUPPORTED;
    uint64_t usable = m.total - m.reserved;
    bool sane = m.reserved < m.total && m.used <= usable && m.free <= m.total;
    if (ret == NVML_OK && !sane) // implausible
        ret = NVML_UNKNOWN;
    nvml_ret reserved_ret = ret == NVML_OK && !has_reserved ? NVML_NOT_SUPPORTED : ret;
    return (struct gpu_memory_values){
        .total = gpu_backend_integer(ret, m.total >> 20),
        .free = gpu_backend_integer(ret, m.free >> 20),
        .used = gpu_backend_integer(ret, m.used >> 20),
        .reserved = gpu_backend_integer(reserved_ret, m.reserved >> 20),
        .used_ratio = gpu_backend_double(ret, usable ? (double)m.used / (double)usable : 0),
        .total_bytes = gpu_backend_integer(ret, m.total),
        .free_bytes = gpu_backend_integer(ret, m.free),
        .used_bytes = gpu_backend_integer(ret, m.used),
        .reserved_bytes = gpu_backend_integer(reserved_ret, m.reserved),
    };
}

static void read_memory(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    struct gpu_memory_values m = gpu_backend_read_memory(b, k->handle);
    d->fields[GPU_F_FB_TOTAL] = m.total;
    d->fields[GPU_F_FB_FREE] = m.free;
    d->fields[GPU_F_FB_USED] = m.used;
    d->fields[GPU_F_FB_RESERVED] = m.reserved;
    d->fields[GPU_F_FB_USED_PERCENT] = m.used_ratio;
    d->fields[GPU_F_FB_TOTAL_BYTES] = m.total_bytes;
    d->fields[GPU_F_FB_FREE_BYTES] = m.free_bytes;
    d->fields[GPU_F_FB_USED_BYTES] = m.used_bytes;
    d->fields[GPU_F_FB_RESERVED_BYTES] = m.reserved_bytes;
    if (m.total_bytes.validity == GPU_VALID)
        d->memory_total = (uint64_t)m.total_bytes.i;
}

static void read_remapped_rows(struct gpu_reader *b, struct gpu_known_device *k,
                               struct gpu_device *d)
{
    unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
    nvml_ret ret =
        NVML(b, remapped_rows, k->handle, &correctable, &uncorrectable, &pending, &failed);
    d->fields[GPU_F_CORRECTABLE_REMAPPED] = gpu_backend_integer(ret, correctable);
    d->fields[GPU_F_UNCORRECTABLE_REMAPPED] = gpu_backend_integer(ret, uncorrectable);
    d->fields[GPU_F_ROW_REMAP_FAILURE] = gpu_backend_integer(ret, failed ? 1 : 0);
    d->fields[GPU_F_ROW_REMAP_PENDING] = gpu_backend_integer(ret, pending ? 1 : 0);
}

static void read_license(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    struct nvml_license_features f = {0};
    nvml_ret ret = NVML(b, licensable, k->handle, &f);
    if (ret == NVML_OK && !f.supported) // bare metal needs no license
        ret = NVML_NOT_SUPPORTED;
    unsigned licensed = 0;
    for (uint32_t i = 0; i < f.count && i < GS_ARRAY_LEN(f.features); i++)
        licensed |= f.features[i].state != 0;
    d->fields[GPU_F_VGPU_LICENSE] = gpu_backend_integer(ret, licensed);
}

// Identity fields were read before. The table contains the fields that depend on the MIG mode or
// that gpuscale does not provide.
static void fill_identity(const struct gpu_known_device *k, struct gpu_device *d)
{
    static const enum gpu_field texts[] = {
        // in the order of enum gpu_text
        GPU_F_BRAND,         GPU_F_SERIAL,        GPU_F_OEM_INFOROM, GPU_F_ECC_INFOROM,
        GPU_F_POWER_INFOROM, GPU_F_INFOROM_IMAGE, GPU_F_VBIOS,
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        d->fields[texts[i]].validity = k->text_validity[i];
    d->fields[GPU_F_NAME].validity = k->name[0] ? GPU_VALID : GPU_FAILED;
    d->fields[GPU_F_UUID].validity = GPU_VALID;
    d->fields[GPU_F_PCI_BUSID].validity = k->pci_bus_id[0] ? GPU_VALID : GPU_FAILED;
    d->fields[GPU_F_NVML_INDEX] = gpu_backend_integer(NVML_OK, d->index);
    d->fields[GPU_F_MINOR_NUMBER] =
        gpu_backend_integer(k->has_minor ? NVML_OK : NVML_NOT_SUPPORTED, k->minor);
    d->fields[GPU_F_DRIVER_VERSION].validity = d->fields[GPU_F_NVML_VERSION].validity = GPU_VALID;
}

static const struct {
    void (*read)(struct gpu_reader *, struct gpu_known_device *, struct gpu_device *);
    enum gpu_group group;
} readers[] = {
    {read_memory, GPU_G_MEMORY},
    {read_utilization, GPU_G_UTILIZATION},
    {read_clocks, GPU_G_CLOCKS},
    {read_temperature, GPU_G_TEMPERATURE},
    {read_power, GPU_G_POWER},
    {read_energy, GPU_G_ENERGY},
    {read_pcie_replay, GPU_G_PCIE_REPLAY},
    {read_codecs, GPU_G_CODECS},
    {read_remapped_rows, GPU_G_REMAP},
    {read_license, GPU_G_LICENSE},
    {read_set_clocks, GPU_G_SET_CLOCKS},
    {read_event_reasons, GPU_G_EVENT_REASONS},
    {read_modes, GPU_G_MODES},
    {read_bar1, GPU_G_BAR1},
    {read_temp_limits, GPU_G_TEMP_LIMITS},
    {read_margin, GPU_G_MARGIN},
    {read_power_limits, GPU_G_POWER_LIMITS},
    {read_state, GPU_G_STATE},
    {read_pcie_throughput, GPU_G_PCIE_THROUGHPUT},
    {read_pcie_link, GPU_G_PCIE_LINK},
};

void gpu_backend_read_fields(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    fill_identity(k, d);
    for (size_t i = 0; i < GS_ARRAY_LEN(readers) && !b->device_lost; i++)
        if (b->due_group[readers[i].group])
            readers[i].read(b, k, d);
}
