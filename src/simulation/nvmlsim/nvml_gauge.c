// SPDX-License-Identifier: Apache-2.0
// Utilization, memory, temperature, power, clocks, fan.
#include "nvmlsim/nvml_lib.h"

#define PERIOD_US (NVMLSIM_SHM_PERIOD * (NVMLSIM_SHM_BUCKET_NS / 1000))

enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEM, CLOCK_VIDEO, CLOCK_TYPES };
enum { CLOCK_CURRENT, CLOCK_APP_TARGET, CLOCK_APP_DEFAULT, CLOCK_BOOST_MAX, CLOCK_IDS };
enum { PSTATE_FULL = 0, PSTATE_IDLE = 8 };
enum { THRESHOLD_SHUTDOWN, THRESHOLD_SLOWDOWN, THRESHOLD_MEM_MAX, THRESHOLD_GPU_MAX };
enum { REASON_IDLE = 0x1 };
#define N_FANS 2

NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_NO_MIG, rates != NULL);
    if (c.rc)
        return c.rc;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    *rates = (nvmlUtilization_t){.gpu = v.gpu_util, .memory = v.mem_util};
    return NVML_SUCCESS;
}

// Video and image engines exist, but clients of the simulated device cannot use them.
static nvmlReturn_t engine(const char *fn, nvmlDevice_t device, unsigned flags, unsigned *percent,
                           unsigned *period)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_NO_MIG | flags, percent && period);
    if (c.rc)
        return c.rc;
    *percent = 0;
    *period = (unsigned)PERIOD_US;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *percent,
                                                      unsigned *period)
{
    return engine(__func__, device, NVMLSIM_CALL_MAXWELL, percent, period);
}

NVML_API nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *percent,
                                                      unsigned *period)
{
    return engine(__func__, device, NVMLSIM_CALL_MAXWELL, percent, period);
}

NVML_API nvmlReturn_t nvmlDeviceGetJpgUtilization(nvmlDevice_t device, unsigned *percent,
                                                  unsigned *period)
{
    return engine(__func__, device, NVMLSIM_CALL_AMPERE, percent, period);
}

NVML_API nvmlReturn_t nvmlDeviceGetOfaUtilization(nvmlDevice_t device, unsigned *percent,
                                                  unsigned *period)
{
    return engine(__func__, device, NVMLSIM_CALL_AMPERE, percent, period);
}

static nvmlReturn_t read_memory(const struct nvml_call *c, nvmlMemory_v2_t *ret)
{
    struct nvmlsim_shm_gpu *g = c->gpu;
    const struct nvmlsim_shm_board *b = c->board;
    unsigned timeline = c->device->timeline;
    if (timeline == 0 && b->n_mig && !nvmlsim_is_privileged())
        return NVML_ERROR_NO_PERMISSION;
    NVMLSIM_SHM_HOLD(held, &g->lock);
    nvmlsim_process_reap(g);
    nvmlMemory_v2_t m = {.version = ret->version,
                         .total = timeline ? b->mig[timeline - 1].memory : b->memory,
                         .reserved = timeline ? 0 : b->reserved};
    m.used = timeline ? nvmlsim_process_memory_used(g, b, timeline) : nvmlsim_process_memory_all(g);
    uint64_t room = m.total - m.reserved;
    m.free = room > m.used ? room - m.used : 0;
    *ret = m;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, memory != NULL);
    nvmlMemory_v2_t m = {0};
    nvmlReturn_t rc = c.rc ? c.rc : read_memory(&c, &m);
    if (!rc)
        *memory = (nvmlMemory_t){.total = m.total, .free = m.free, .used = m.used + m.reserved};
    return rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, memory != NULL);
    if (c.rc)
        return c.rc;
    if (memory->version != NVML_VERSION_WORD(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return read_memory(&c, memory);
}

NVML_API nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ANY, memory != NULL);
    if (c.rc)
        return c.rc;
    if (!nvmlsim_device_is_mig(&c) && c.board->n_mig && !nvmlsim_is_privileged())
        return NVML_ERROR_NO_PERMISSION;
    uint64_t total = (uint64_t)c.board->model.bar1_mib << 20;
    if (nvmlsim_device_is_mig(&c))
        total = total / 8 * nvmlsim_device_mig(&c)->mem_slices;
    uint64_t used = UINT64_C(1) << 20;
    *memory = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned *celsius)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, celsius && sensor == 0);
    if (c.rc)
        return c.rc;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    *celsius = v.temp_c;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device,
                                                nvmlTemperature_v1_t *temperature)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, temperature != NULL);
    if (c.rc)
        return c.rc;
    if (temperature->version != NVML_VERSION_WORD(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    temperature->temperature = (int32_t)v.temp_c;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int type,
                                                        unsigned *celsius)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, celsius && type >= 0);
    if (c.rc)
        return c.rc;
    uint32_t slowdown = c.board->model.slowdown_temp_c;
    switch (type) {
    case THRESHOLD_SHUTDOWN:
        *celsius = slowdown + 5;
        return NVML_SUCCESS;
    case THRESHOLD_SLOWDOWN:
        *celsius = slowdown;
        return NVML_SUCCESS;
    case THRESHOLD_MEM_MAX:
        if (!(c.board->model.flags & NVMLSIM_HBM))
            return NVML_ERROR_NOT_SUPPORTED;
        *celsius = 95;
        return NVML_SUCCESS;
    case THRESHOLD_GPU_MAX:
        *celsius = slowdown - 4;
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

NVML_API nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device,
                                                     nvmlMarginTemperature_v1_t *margin)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, margin != NULL);
    if (c.rc)
        return c.rc;
    if (margin->version != NVML_VERSION_WORD(nvmlMarginTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (c.board->model.arch < NVMLSIM_ADA)
        return NVML_ERROR_NOT_SUPPORTED;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    margin->marginTemperature = (int32_t)c.board->model.slowdown_temp_c - 4 - (int32_t)v.temp_c;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *mw)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, mw != NULL);
    if (c.rc)
        return c.rc;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    *mw = v.power_mw;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                          unsigned long long *mj)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_VOLTA, mj != NULL);
    if (c.rc)
        return c.rc;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    *mj = v.energy_mj;
    return NVML_SUCCESS;
}

static nvmlReturn_t power_limit(const char *fn, nvmlDevice_t device, unsigned *mw)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, mw != NULL);
    if (!c.rc)
        *mw = c.board->model.max_w * 1000;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *mw)
{
    return power_limit(__func__, device, mw);
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *mw)
{
    return power_limit(__func__, device, mw);
}

NVML_API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *mw)
{
    return power_limit(__func__, device, mw);
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                   unsigned *min_mw,
                                                                   unsigned *max_mw)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, min_mw && max_mw);
    if (!c.rc) {
        *min_mw = c.board->model.max_w * 1000 / 2;
        *max_mw = c.board->model.max_w * 1000;
    }
    return c.rc;
}

static unsigned max_clock(const struct nvml_call *c, int type)
{
    return type == CLOCK_MEM ? c->board->model.mem_max_mhz : c->board->model.sm_max_mhz;
}

static unsigned current_clock(const struct nvml_call *c, int type)
{
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(c, &v);
    return type == CLOCK_MEM ? v.mem_mhz : v.sm_mhz;
}

static bool clock_type(int type)
{
    return type >= 0 && type < CLOCK_TYPES;
}

NVML_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *mhz)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, mhz && clock_type(type));
    if (!c.rc)
        *mhz = current_clock(&c, type);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, int type, int id, unsigned *mhz)
{
    bool valid = mhz && clock_type(type) && id >= 0 && id < CLOCK_IDS;
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, valid);
    if (c.rc)
        return c.rc;
    if (type == CLOCK_VIDEO && id != CLOCK_CURRENT)
        return NVML_ERROR_NOT_SUPPORTED;
    *mhz = id == CLOCK_CURRENT ? current_clock(&c, type) : max_clock(&c, type);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *mhz)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, mhz && clock_type(type));
    if (!c.rc)
        *mhz = max_clock(&c, type);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, int type, unsigned *mhz)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, mhz && clock_type(type));
    if (c.rc)
        return c.rc;
    if (type == CLOCK_VIDEO || (c.board->model.flags & NVMLSIM_CONSUMER))
        return NVML_ERROR_NOT_SUPPORTED;
    *mhz = max_clock(&c, type);
    return NVML_SUCCESS;
}

// Boards whose memory clock drops at idle are then in P8; the others stay in P0.
NVML_API nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int *state)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, state != NULL);
    if (c.rc)
        return c.rc;
    bool active = current_clock(&c, CLOCK_MEM) == c.board->model.mem_max_mhz;
    *state = active ? PSTATE_FULL : PSTATE_IDLE;
    return NVML_SUCCESS;
}

// The fan speed follows the temperature between idle and maximum.
static unsigned fan_percent(const struct nvml_call *c)
{
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(c, &v);
    const struct nvmlsim_model *m = &c->board->model;
    return 30 + 40 * (v.temp_c - m->idle_temp_c) / (m->max_temp_c - m->idle_temp_c);
}

NVML_API nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned *percent)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_FAN, percent != NULL);
    if (!c.rc)
        *percent = fan_percent(&c);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *percent)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_FAN, percent && fan < N_FANS);
    if (!c.rc)
        *percent = fan_percent(&c);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, count != NULL);
    if (!c.rc)
        *count = c.board->model.flags & NVMLSIM_FAN ? N_FANS : 0;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *speed)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_FAN, speed != NULL);
    if (c.rc)
        return c.rc;
    if (speed->version != NVML_VERSION_WORD(nvmlFanSpeedInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (speed->fan >= N_FANS)
        return NVML_ERROR_INVALID_ARGUMENT;
    speed->speed = fan_percent(&c) * 34;
    return NVML_SUCCESS;
}

static nvmlReturn_t event_reasons(const char *fn, nvmlDevice_t device, unsigned long long *reasons)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, reasons != NULL);
    if (c.rc)
        return c.rc;
    struct nvmlsim_activity_gauges v;
    nvmlsim_read_gauges(&c, &v);
    *reasons = v.active ? 0 : REASON_IDLE;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                             unsigned long long *reasons)
{
    return event_reasons(__func__, device, reasons);
}

NVML_API nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                                unsigned long long *reasons)
{
    return event_reasons(__func__, device, reasons);
}

// A simulated board never reduces its clocks.
NVML_API nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, int policy,
                                                   nvmlViolationTime_t *time)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_MAXWELL,
                                      time && policy >= 0 && policy <= 11);
    if (!c.rc)
        *time = (nvmlViolationTime_t){.referenceTime = nvmlsim_unix_us_of(gs_mono_ns())};
    return c.rc;
}
