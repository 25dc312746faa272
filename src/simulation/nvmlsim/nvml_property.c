// SPDX-License-Identifier: Apache-2.0
// Properties of a board that never change, and features that it has but nobody uses. Texts that
// would identify a real board say that it is simulated.
#include "nvmlsim/nvml_lib.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    TOPOLOGY_SYSTEM = 40, // the same NUMA node, different host bridges
    FIRST_IRQ = 64,
    GSP_VERSION_SIZE = 64, // of the caller's buffer
    N_PSTATES = 16,        // of the caller's array
    PSTATE_UNKNOWN = 32,
    PSTATE_FULL = 0,
    PSTATE_IDLE = 8,
    CLOCK_STEP_MHZ = 15,
    CLOCK_TYPES = 4,
    CLOCK_MEM = 2,
    REASONS = 0x1ff, // idle to display clock setting
    ACCOUNTING_BUFFER = 4000,
    INFOROM_OBJECTS = 3,
    ENCODERS = 2, // H.264, HEVC
};

#define SIMULATED_TEXT "SIMULATED"

static nvmlReturn_t text(const char *fn, nvmlDevice_t device, char *ret, unsigned length)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, ret != NULL);
    return c.rc ? c.rc : nvmlsim_give_text(ret, length, SIMULATED_TEXT);
}

// --- identity ---

NVML_API nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *id)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, id != NULL);
    if (!c.rc)
        *id = c.board->pci_bus << 8;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *part, unsigned length)
{
    return text(__func__, device, part, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned length)
{
    return text(__func__, device, version, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version,
                                                       unsigned length)
{
    return text(__func__, device, version, length);
}

NVML_API nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, int object, char *version,
                                                  unsigned length)
{
    bool valid = version && object >= 0 && object < INFOROM_OBJECTS;
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, valid);
    return c.rc ? c.rc : nvmlsim_give_text(version, length, SIMULATED_TEXT);
}

static bool has_gsp(const struct nvml_call *c)
{
    return c->board->model.arch >= NVMLSIM_TURING;
}

NVML_API nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, version != NULL);
    if (c.rc)
        return c.rc;
    return has_gsp(&c) ? nvmlsim_give_driver_version(&c, "", version, GSP_VERSION_SIZE)
                       : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned *enabled,
                                                   unsigned *by_default)
{
    NVML_CALL c =
        nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, enabled != NULL && by_default);
    if (!c.rc)
        *enabled = *by_default = has_gsp(&c);
    return c.rc;
}

// The place of an SXM module on its board.
NVML_API nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned *id)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, id != NULL);
    if (!c.rc)
        *id = c.device->gpu + 1;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *is_multi)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, 0, is_multi);
}

// --- the place in the machine ---

NVML_API nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *same)
{
    {
        NVML_CALL c = nvmlsim_call_device(__func__, other, NVMLSIM_CALL_GPU, true);
        if (c.rc)
            return c.rc;
    }
    return nvmlsim_give_choice(__func__, device, device == other, same);
}

NVML_API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                          int *level)
{
    {
        NVML_CALL c = nvmlsim_call_device(__func__, other, NVMLSIM_CALL_GPU, true);
        if (c.rc)
            return c.rc;
    }
    return nvmlsim_give_choice(__func__, device, device == other ? 0 : TOPOLOGY_SYSTEM, level);
}

// All processors of the machine.
NVML_API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size,
                                               unsigned long *cpus)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, cpus != NULL && size > 0);
    if (c.rc)
        return c.rc;
    long n = sysconf(_SC_NPROCESSORS_CONF);
    unsigned bits = sizeof(*cpus) * CHAR_BIT;
    memset(cpus, 0, size * sizeof(*cpus));
    for (unsigned i = 0; i < (unsigned long)n && i / bits < size; i++)
        cpus[i / bits] |= 1UL << (i % bits);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetIrqNum(nvmlDevice_t device, unsigned *irq)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, irq != NULL);
    if (!c.rc)
        *irq = FIRST_IRQ + c.device->gpu;
    return c.rc;
}

// --- the chip ---

static unsigned cores_of_sm(const struct nvmlsim_model *m)
{
    if (m->cc_major < 5)
        return 192;
    bool half = m->cc_major == 7 || ((m->cc_major == 6 || m->cc_major == 8) && m->cc_minor == 0);
    return half ? 64 : 128;
}

NVML_API nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *cores)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, cores != NULL);
    if (!c.rc)
        *cores = c.board->model.sms * cores_of_sm(&c.board->model);
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *bits)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, bits != NULL);
    if (c.rc || !c.board->model.bus_bits)
        return c.rc ? c.rc : NVML_ERROR_NOT_SUPPORTED;
    *bits = c.board->model.bus_bits;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, int *mode)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_ECC, mode != NULL);
    if (!c.rc)
        *mode = 1;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, int *mode)
{
    return nvmlsim_give_choice(__func__, device, 0, mode);
}

NVML_API nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, int *active)
{
    return nvmlsim_give_choice(__func__, device, 0, active);
}

// --- power and clocks ---

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, int *mode)
{
    return nvmlsim_give_choice(__func__, device, 1, mode);
}

// 0: not a battery.
NVML_API nvmlReturn_t nvmlDeviceGetPowerSource(nvmlDevice_t device, unsigned *source)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, 0, source);
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, int *state)
{
    return nvmlDeviceGetPerformanceState(device, state);
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, int *states,
                                                              unsigned size)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, states != NULL);
    if (c.rc)
        return c.rc;
    if (size < N_PSTATES * sizeof(*states))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < N_PSTATES; i++)
        states[i] = i == 0 ? PSTATE_FULL : i == 1 ? PSTATE_IDLE : PSTATE_UNKNOWN;
    return NVML_SUCCESS;
}

// A list of clocks from high to low. count: in the size of the array, out the number of clocks.
static nvmlReturn_t give_clocks(unsigned high, unsigned low, unsigned step, unsigned *count,
                                unsigned *mhz)
{
    unsigned n = (high - low) / step + 1, size = *count;
    *count = n;
    if (size < n || !mhz)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < n; i++)
        mhz[i] = high - i * step;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned *count,
                                                         unsigned *mhz)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, count != NULL);
    if (c.rc)
        return c.rc;
    const struct nvmlsim_model *m = &c.board->model;
    unsigned step = m->mem_max_mhz > m->mem_idle_mhz ? m->mem_max_mhz - m->mem_idle_mhz : 1;
    return give_clocks(m->mem_max_mhz, m->mem_idle_mhz, step, count, mhz);
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned memory_mhz,
                                                           unsigned *count, unsigned *mhz)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_GPU, count != NULL);
    if (c.rc)
        return c.rc;
    const struct nvmlsim_model *m = &c.board->model;
    if (memory_mhz != m->mem_max_mhz && memory_mhz != m->mem_idle_mhz)
        return NVML_ERROR_NOT_FOUND;
    return give_clocks(m->sm_max_mhz, m->sm_idle_mhz, CLOCK_STEP_MHZ, count, mhz);
}

static nvmlReturn_t highest_clock(const char *fn, nvmlDevice_t device, int type, unsigned *mhz)
{
    bool valid = mhz && type >= 0 && type < CLOCK_TYPES;
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, valid);
    if (!c.rc)
        *mhz = type == CLOCK_MEM ? c.board->model.mem_max_mhz : c.board->model.sm_max_mhz;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, int type,
                                                            unsigned *mhz)
{
    return highest_clock(__func__, device, type, mhz);
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, int type,
                                                         unsigned *mhz)
{
    return highest_clock(__func__, device, type, mhz);
}

NVML_API nvmlReturn_t nvmlDeviceGetAdaptiveClockInfoStatus(nvmlDevice_t device, unsigned *status)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_MAXWELL, 0, status);
}

static nvmlReturn_t supported_reasons(const char *fn, nvmlDevice_t device,
                                      unsigned long long *reasons)
{
    NVML_CALL c = nvmlsim_call_device(fn, device, NVMLSIM_CALL_GPU, reasons != NULL);
    if (!c.rc)
        *reasons = REASONS;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                               unsigned long long *reasons)
{
    return supported_reasons(__func__, device, reasons);
}

NVML_API nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                                  unsigned long long *reasons)
{
    return supported_reasons(__func__, device, reasons);
}

// --- features without users ---

NVML_API nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned *size)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, ACCOUNTING_BUFFER, size);
}

NVML_API nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned *count,
                                                  unsigned *pids)
{
    (void)pids;
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_GPU, 0, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderCapacity(nvmlDevice_t device, int type, unsigned *percent)
{
    bool valid = percent && type >= 0 && type < ENCODERS;
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_MAXWELL, 100, valid ? percent : NULL);
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned *sessions,
                                                unsigned *fps, unsigned *latency_us)
{
    bool valid = sessions && fps && latency_us;
    nvmlReturn_t rc =
        nvmlsim_give_number(__func__, device, NVMLSIM_CALL_MAXWELL, 0, valid ? sessions : NULL);
    if (!rc)
        *fps = *latency_us = 0;
    return rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetEncoderSessions(nvmlDevice_t device, unsigned *count,
                                                   void *sessions)
{
    (void)sessions;
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_MAXWELL, 0, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetFBCStats(nvmlDevice_t device, nvmlFBCStats_t *stats)
{
    NVML_CALL c = nvmlsim_call_device(__func__, device, NVMLSIM_CALL_MAXWELL, stats != NULL);
    if (!c.rc)
        *stats = (nvmlFBCStats_t){0};
    return c.rc;
}

NVML_API nvmlReturn_t nvmlDeviceGetFBCSessions(nvmlDevice_t device, unsigned *count, void *sessions)
{
    (void)sessions;
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_MAXWELL, 0, count);
}

NVML_API nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(nvmlDevice_t device, unsigned *state)
{
    return nvmlsim_give_number(__func__, device, NVMLSIM_CALL_HOPPER, 1, state);
}

// --- the system ---

static nvmlReturn_t no_devices(const char *fn, unsigned *count)
{
    NVML_CALL c = nvmlsim_call_system(fn, count != NULL);
    if (!c.rc)
        *count = 0;
    return c.rc;
}

NVML_API nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned *count)
{
    return no_devices(__func__, count);
}

NVML_API nvmlReturn_t nvmlUnitGetCount(unsigned *count)
{
    return no_devices(__func__, count);
}

NVML_API nvmlReturn_t nvmlSystemGetHicVersion(unsigned *count, void *entries)
{
    (void)entries;
    return no_devices(__func__, count);
}

NVML_API nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *info,
                                                unsigned length)
{
    NVML_CALL c = nvmlsim_call_system(__func__, info != NULL);
    if (c.rc)
        return c.rc;
    if (info->version != NVML_VERSION_WORD(nvmlSystemDriverBranchInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    char branch[16];
    snprintf(branch, sizeof(branch), "r%u_00", nvmlsim_driver_branch(c.seg));
    return nvmlsim_give_text(info->branch,
                             length < sizeof(info->branch) ? length : sizeof(info->branch), branch);
}
