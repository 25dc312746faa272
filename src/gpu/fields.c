// SPDX-License-Identifier: Apache-2.0
// The readers: which NVML call gives which field, and in which unit.
#include "gpu/backend.h"

#include "base/clock.h"
#include "base/slice.h"

#include <math.h>

enum {
    MAX_PLAUSIBLE_CELSIUS = 200, // boards without the sensor answer with more (DCGM drops it too)
    MAX_SAMPLES = 4096,
};

static struct gpu_value invalid(nvml_ret ret)
{
    return (struct gpu_value){.validity = backend_validity(ret)};
}

static struct gpu_value integer(nvml_ret ret, uint64_t v)
{
    if (ret != NVML_OK)
        return invalid(ret);
    if (v > INT64_MAX)
        return (struct gpu_value){.validity = GPU_FAILED};
    return (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)v};
}

static struct gpu_value celsius(nvml_ret ret, int64_t v)
{
    if (ret == NVML_OK && (v > MAX_PLAUSIBLE_CELSIUS || v < -MAX_PLAUSIBLE_CELSIUS))
        return (struct gpu_value){.validity = GPU_NOT_SUPPORTED};
    return ret == NVML_OK ? (struct gpu_value){.validity = GPU_VALID, .i = v} : invalid(ret);
}

static struct gpu_value percent(nvml_ret ret, unsigned v)
{
    return ret == NVML_OK && v > 100 ? (struct gpu_value){.validity = GPU_FAILED} : integer(ret, v);
}

static void read_clocks(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned mhz = 0;
    nvml_ret ret = NVML(b, clock_info, k->handle, NVML_CLOCK_SM, &mhz);
    d->fields[GPU_F_SM_CLOCK] = integer(ret, mhz);
    ret = NVML(b, clock_info, k->handle, NVML_CLOCK_MEM, &mhz);
    d->fields[GPU_F_MEM_CLOCK] = integer(ret, mhz);
}

static void read_temperature(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned v = 0;
    nvml_ret ret = NVML(b, temperature, k->handle, NVML_TEMPERATURE_GPU, &v);
    int64_t degrees = v;
    if (backend_validity(ret) == GPU_NOT_SUPPORTED) { // deprecated since R580
        struct nvml_temperature t = {
            .version = NVML_VERSION_WORD(struct nvml_temperature, 1),
            .sensor = NVML_TEMPERATURE_GPU,
        };
        ret = NVML(b, temperature_v, k->handle, &t);
        degrees = t.celsius;
    }
    d->fields[GPU_F_GPU_TEMP] = celsius(ret, degrees);
}

static void read_power(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned milliwatt = 0;
    nvml_ret ret = NVML(b, power_usage, k->handle, &milliwatt);
    d->fields[GPU_F_POWER_USAGE] =
        ret == NVML_OK
            ? (struct gpu_value){.validity = GPU_VALID, .is_double = true, .d = milliwatt / 1000.0}
            : invalid(ret);
}

static void read_energy(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned long long millijoule = 0;
    nvml_ret ret = NVML(b, total_energy, k->handle, &millijoule);
    d->fields[GPU_F_TOTAL_ENERGY] = integer(ret, millijoule);
}

static void read_pcie_replay(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned n = 0;
    nvml_ret ret = NVML(b, pcie_replay, k->handle, &n);
    d->fields[GPU_F_PCIE_REPLAY] = integer(ret, n);
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

// Mean of the driver's utilisation samples since the last pass, each weighted by the time that it
// stands for. A single reading covers 1/6 s on most boards and would miss the rest of the second.
static bool mean_utilization(struct gpu_backend *b, struct known_device *k, double *ret_mean)
{
    unsigned n = 0;
    int type = 0;
    nvml_ret ret =
        NVML(b, samples, k->handle, NVML_SAMPLES_GPU_UTIL, k->util_seen_us, &type, &n, NULL);
    if ((ret != NVML_OK && ret != NVML_INSUFFICIENT_SIZE) || n == 0)
        return false;
    n = n < MAX_SAMPLES ? n : MAX_SAMPLES;
    struct nvml_sample *samples = backend_scratch(b, n, sizeof(*samples));
    unsigned capacity = n;
    ret = NVML(b, samples, k->handle, NVML_SAMPLES_GPU_UTIL, k->util_seen_us, &type, &n, samples);
    if (ret != NVML_OK)
        return false;
    double sum = 0, weights = 0;
    uint64_t last = k->util_seen_us;
    for (unsigned i = 0; i < n && i < capacity; i++) {
        double v = 0;
        if (samples[i].time_us <= last || !sample_percent(type, samples[i].value, &v))
            continue;
        double weight = (double)(samples[i].time_us - last);
        sum += v * weight;
        weights += weight;
        last = samples[i].time_us;
    }
    if (weights <= 0)
        return false;
    k->util_seen_us = last;
    *ret_mean = sum / weights;
    return true;
}

static void read_utilization(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    struct nvml_utilization u = {0};
    nvml_ret ret = NVML(b, utilization, k->handle, &u);
    d->fields[GPU_F_MEM_COPY_UTIL] = percent(ret, u.memory);
    d->fields[GPU_F_GPU_UTIL] = percent(ret, u.gpu);
    double mean = 0;
    if (!b->device_lost && mean_utilization(b, k, &mean))
        d->fields[GPU_F_GPU_UTIL] =
            (struct gpu_value){.validity = GPU_VALID, .i = (int64_t)lround(mean)};
}

static void read_codecs(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned v = 0, period_us = 0;
    nvml_ret ret = NVML(b, encoder, k->handle, &v, &period_us);
    d->fields[GPU_F_ENC_UTIL] = percent(ret, v);
    ret = NVML(b, decoder, k->handle, &v, &period_us);
    d->fields[GPU_F_DEC_UTIL] = percent(ret, v);
}

void backend_read_memory(struct gpu_backend *b, nvml_device handle, struct gpu_value *ret_free,
                         struct gpu_value *ret_used, struct gpu_value *ret_reserved,
                         uint64_t *ret_total)
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
    }
    if (ret == NVML_OK && m.total == 0) // integrated GPUs without memory of their own
        ret = NVML_NOT_SUPPORTED;
    *ret_free = integer(ret, m.free >> 20);
    *ret_used = integer(ret, m.used >> 20);
    *ret_reserved =
        integer(ret == NVML_OK && !has_reserved ? NVML_NOT_SUPPORTED : ret, m.reserved >> 20);
    if (ret == NVML_OK)
        *ret_total = m.total;
}

static void read_memory(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    backend_read_memory(b, k->handle, &d->fields[GPU_F_FB_FREE], &d->fields[GPU_F_FB_USED],
                        &d->fields[GPU_F_FB_RESERVED], &d->memory_total);
}

static void read_remapped_rows(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    unsigned correctable = 0, uncorrectable = 0, pending = 0, failed = 0;
    nvml_ret ret =
        NVML(b, remapped_rows, k->handle, &correctable, &uncorrectable, &pending, &failed);
    d->fields[GPU_F_CORRECTABLE_REMAPPED] = integer(ret, correctable);
    d->fields[GPU_F_UNCORRECTABLE_REMAPPED] = integer(ret, uncorrectable);
    d->fields[GPU_F_ROW_REMAP_FAILURE] = integer(ret, failed ? 1 : 0);
}

static nvml_ret field_integer(const struct nvml_field_value *v, int64_t *ret)
{
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

// DCGM's meaning of the field: both directions over all links, KiB since the last pass per second
// and 1000. So the first pass has no value yet.
static struct gpu_value nvlink_rate(struct known_device *k, nvml_ret ret, uint64_t kib)
{
    int64_t now = gs_mono_ns();
    struct gpu_value v = invalid(ret);
    if (ret == NVML_OK) {
        v.validity = GPU_UNKNOWN;
        if (k->has_nvlink && kib >= k->nvlink_kib && now > k->nvlink_mono_ns) {
            double seconds = (double)(now - k->nvlink_mono_ns) / (double)GS_NS_PER_SEC;
            v.validity = GPU_VALID;
            v.i = (int64_t)((double)(kib - k->nvlink_kib) / seconds / 1000.0);
        }
    }
    k->has_nvlink = ret == NVML_OK;
    k->nvlink_kib = kib;
    k->nvlink_mono_ns = now;
    return v;
}

static void read_field_values(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    struct nvml_field_value v[] = {
        {.field_id = NVML_FI_MEMORY_TEMP},
        {.field_id = NVML_FI_NVLINK_TX_KIB, .scope_id = NVML_SCOPE_ALL},
        {.field_id = NVML_FI_NVLINK_RX_KIB, .scope_id = NVML_SCOPE_ALL},
    };
    nvml_ret ret = NVML(b, field_values, k->handle, GS_ARRAY_LEN(v), v);
    int64_t degrees = 0, tx = 0, rx = 0;
    nvml_ret temp_ret = ret, link_ret = ret;
    if (ret == NVML_OK) {
        temp_ret = field_integer(&v[0], &degrees);
        link_ret = field_integer(&v[1], &tx);
        if (link_ret == NVML_OK)
            link_ret = field_integer(&v[2], &rx);
        // Drivers answer unknown ids of a board without links with either code.
        if (link_ret == NVML_INVALID_ARGUMENT)
            link_ret = NVML_NOT_SUPPORTED;
    }
    d->fields[GPU_F_MEMORY_TEMP] = celsius(temp_ret, degrees);
    d->fields[GPU_F_NVLINK_BANDWIDTH] = nvlink_rate(k, link_ret, (uint64_t)tx + (uint64_t)rx);
}

static void read_license(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    struct nvml_license_features f = {0};
    nvml_ret ret = NVML(b, licensable, k->handle, &f);
    if (ret == NVML_OK && !f.supported) // bare metal needs no licence: nothing to report
        ret = NVML_NOT_SUPPORTED;
    unsigned licensed = 0;
    for (uint32_t i = 0; i < f.count && i < GS_ARRAY_LEN(f.features); i++)
        licensed |= f.features[i].state != 0;
    d->fields[GPU_F_VGPU_LICENSE] = integer(ret, licensed);
}

static void (*const readers[])(struct gpu_backend *, struct known_device *, struct gpu_device *) = {
    read_memory,        read_utilization,  read_clocks,      read_temperature,
    read_power,         read_energy,       read_pcie_replay, read_codecs,
    read_remapped_rows, read_field_values, read_license,
};

void backend_read_fields(struct gpu_backend *b, struct known_device *k, struct gpu_device *d)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(readers) && !b->device_lost; i++)
        readers[i](b, k, d);
}
