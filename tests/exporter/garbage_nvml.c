// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml in front of the simulated one that spoils what one call gives: all of its output
// becomes a pattern, sizes and counts included. Handles are left alone, since the next call
// would give them back to the simulated library. Arguments of NVML calls are integers and pointers,
// at most six of them, so that one type of function passes them all on.
#include "garbage_nvml.h"

#include "gpu/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wpragmas"

struct garbage_nvml garbage_nvml;

typedef uintptr_t word;
typedef nvml_ret (*any_fn)(word, word, word, word, word, word);

// --- what calls give ---

enum special { PLAIN, TEXT, LIST, FIELDS, GPM, UTIL_REQUEST };

static const struct output {
    const char *call;
    int arg;
    size_t offset, size; // of the bytes; of TEXT, LIST, FIELDS: of an entry
    enum special special;
    int count; // TEXT, FIELDS: the argument with the length; LIST: with the pointer to it
} outputs[] = {
    {"nvmlSystemGetDriverVersion", 0, 0, 1, TEXT, 1},
    {"nvmlSystemGetNVMLVersion", 0, 0, 1, TEXT, 1},
    {"nvmlSystemGetCudaDriverVersion_v2", 0, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetCount_v2", 0, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetName", 1, 0, 1, TEXT, 2},
    {"nvmlDeviceGetUUID", 1, 0, 1, TEXT, 2},
    {"nvmlDeviceGetSerial", 1, 0, 1, TEXT, 2},
    {"nvmlDeviceGetVbiosVersion", 1, 0, 1, TEXT, 2},
    {"nvmlDeviceGetInforomImageVersion", 1, 0, 1, TEXT, 2},
    {"nvmlDeviceGetInforomVersion", 2, 0, 1, TEXT, 3},
    {"nvmlDeviceGetMinorNumber", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPciInfo_v3", 1, 0, 68, PLAIN, 0},
    {"nvmlDeviceGetBrand", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetComputeMode", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPersistenceMode", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetVirtualizationMode", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetBAR1MemoryInfo", 1, 0, 24, PLAIN, 0},
    {"nvmlDeviceGetApplicationsClock", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMaxClockInfo", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetCurrentClocksEventReasons", 1, 0, 8, PLAIN, 0},
    {"nvmlDeviceGetTemperatureThreshold", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPowerManagementLimit", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPowerManagementDefaultLimit", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetEnforcedPowerLimit", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPowerManagementLimitConstraints", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPowerManagementLimitConstraints", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPerformanceState", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetFanSpeed", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetPcieThroughput", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetCurrPcieLinkGeneration", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetCurrPcieLinkWidth", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMaxPcieLinkGeneration", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMaxPcieLinkWidth", 1, 0, 4, PLAIN, 0},
    {"nvmlGpmQueryDeviceSupport", 1, 4, 4, PLAIN, 0},
    {"nvmlGpmMetricsGet", 0, 0, 0, GPM, 0},
    {"nvmlDeviceGetClockInfo", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetTemperature", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetTemperatureV", 1, 8, 4, PLAIN, 0},
    {"nvmlDeviceGetPowerUsage", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetTotalEnergyConsumption", 1, 0, 8, PLAIN, 0},
    {"nvmlDeviceGetPcieReplayCounter", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetUtilizationRates", 1, 0, 8, PLAIN, 0},
    {"nvmlDeviceGetSamples", 5, 0, sizeof(struct nvml_sample), LIST, 4},
    {"nvmlDeviceGetSamples", 3, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetEncoderUtilization", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetEncoderUtilization", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetDecoderUtilization", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetDecoderUtilization", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMemoryInfo", 1, 0, 24, PLAIN, 0},
    {"nvmlDeviceGetMemoryInfo_v2", 1, 8, 32, PLAIN, 0},
    {"nvmlDeviceGetRemappedRows", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetRemappedRows", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetRemappedRows", 3, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetRemappedRows", 4, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetGpuFabricInfoV", 1, 4, 36, PLAIN, 0},
    {"nvmlDeviceGetFieldValues", 2, 0, 0, FIELDS, 1},
    {"nvmlDeviceGetGridLicensableFeatures_v4", 1, 0, 860, PLAIN, 0},
    {"nvmlEventSetWait_v2", 1, 0, sizeof(struct nvml_event), PLAIN, 0},
    {"nvmlDeviceGetSupportedEventTypes", 1, 0, 8, PLAIN, 0},
    {"nvmlDeviceGetMigMode", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMigMode", 2, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetMaxMigDeviceCount", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetGpuInstanceId", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetComputeInstanceId", 1, 0, 4, PLAIN, 0},
    {"nvmlDeviceGetComputeRunningProcesses_v2", 2, 0, 24, LIST, 1},
    {"nvmlDeviceGetGraphicsRunningProcesses_v2", 2, 0, 24, LIST, 1},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v2", 2, 0, 24, LIST, 1},
    {"nvmlDeviceGetProcessUtilization", 1, 0, sizeof(struct nvml_process_sample), LIST, 2},
    {"nvmlDeviceGetProcessesUtilizationInfo", 1, 0, 0, UTIL_REQUEST, 0},
};

const char *garbage_nvml_call(unsigned i)
{
    return i < sizeof(outputs) / sizeof(outputs[0]) ? outputs[i].call : NULL;
}

// --- spoiling ---

static void fill(void *at, size_t size)
{
    static const unsigned char nan[8] = {0, 0, 0, 0, 0, 0, 0xf8, 0x7f};
    static const unsigned char infinite[8] = {0, 0, 0, 0, 0, 0, 0xf0, 0xff};
    unsigned char *p = at;
    for (size_t i = 0; i < size; i++) {
        switch (garbage_nvml.pattern) {
        case GARBAGE_ONES:
            p[i] = 0xff;
            break;
        case GARBAGE_MINIMUM:
            p[i] = i % 4 == 3 ? 0x80 : 0;
            break;
        case GARBAGE_MAXIMUM:
            p[i] = i % 4 == 3 ? 0x7f : 0xff;
            break;
        case GARBAGE_NAN:
            p[i] = nan[i % 8];
            break;
        case GARBAGE_INFINITE:
            p[i] = infinite[i % 8];
            break;
        default:
            garbage_nvml.seed = garbage_nvml.seed * 6364136223846793005u + 1442695040888963407u;
            p[i] = (unsigned char)(garbage_nvml.seed >> 56);
        }
    }
}

static void spoil(const struct output *o, const word *args, unsigned capacity)
{
    char *at = (char *)args[o->arg];
    struct nvml_gpm_request *gpm = (void *)at;
    struct nvml_process_util_request *util = (void *)at;
    if (!at)
        return;
    switch (o->special) {
    case PLAIN:
        fill(at + o->offset, o->size);
        break;
    case TEXT:
        fill(at, args[o->count]);
        break;
    case LIST:
        fill(at, capacity * o->size);
        fill((void *)args[o->count], 4);
        break;
    case FIELDS:
        for (int i = 0; i < (int)args[o->count]; i++)
            fill(at + (size_t)i * sizeof(struct nvml_field_value) +
                     offsetof(struct nvml_field_value, value_type),
                 4);
        for (int i = 0; i < (int)args[o->count]; i++)
            fill(at + (size_t)i * sizeof(struct nvml_field_value) +
                     offsetof(struct nvml_field_value, value),
                 8);
        break;
    case GPM:
        for (unsigned i = 0; i < gpm->n && i < NVML_GPM_MAX_METRICS; i++)
            fill(&gpm->metrics[i].value, 8);
        break;
    case UTIL_REQUEST:
        if (util->entries)
            fill(util->entries, capacity * sizeof(*util->entries));
        fill(&util->count, 4);
        break;
    }
}

// --- passing on ---

static void *library(void)
{
    static void *lib;
    char path[1024];
    if (lib)
        return lib;
    snprintf(path, sizeof(path), "%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
             getenv("GPUSCALE_BUILD_ROOT"));
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return lib;
}

static unsigned capacity_of(const char *call, const word *args)
{
    for (size_t i = 0; garbage_nvml_call((unsigned)i); i++) {
        const struct output *o = &outputs[i];
        if (strcmp(o->call, call) != 0)
            continue;
        if (o->special == LIST && args[o->count])
            return *(unsigned *)args[o->count];
        if (o->special == UTIL_REQUEST)
            return ((struct nvml_process_util_request *)args[o->arg])->count;
    }
    return 0;
}

static nvml_ret pass(const char *call, word a, word b, word c, word d, word e, word f)
{
    any_fn fn = (any_fn)dlsym(library(), call);
    word args[6] = {a, b, c, d, e, f};
    if (!fn)
        return NVML_FUNCTION_NOT_FOUND;
    bool armed = garbage_nvml.call && strcmp(garbage_nvml.call, call) == 0;
    unsigned capacity = armed ? capacity_of(call, args) : 0;
    nvml_ret ret = fn(a, b, c, d, e, f);
    if (!armed)
        return ret;
    garbage_nvml.spoiled++;
    if (garbage_nvml.pattern == GARBAGE_CODE)
        return 0x5a5a5a5a;
    for (size_t i = 0; garbage_nvml_call((unsigned)i); i++)
        if (strcmp(outputs[i].call, call) == 0)
            spoil(&outputs[i], args, capacity);
    return NVML_OK; // also where there was nothing to tell
}

#define PASS(name)                                                                                 \
    nvml_ret name(word a, word b, word c, word d, word e, word f)                                  \
    {                                                                                              \
        return pass(#name, a, b, c, d, e, f);                                                      \
    }

PASS(nvmlInit_v2)
PASS(nvmlShutdown)
PASS(nvmlSystemGetDriverVersion)
PASS(nvmlSystemGetNVMLVersion)
PASS(nvmlSystemGetCudaDriverVersion_v2)
PASS(nvmlDeviceGetCount_v2)
PASS(nvmlDeviceGetHandleByIndex_v2)
PASS(nvmlDeviceGetName)
PASS(nvmlDeviceGetUUID)
PASS(nvmlDeviceGetMinorNumber)
PASS(nvmlDeviceGetPciInfo_v3)
PASS(nvmlDeviceGetBrand)
PASS(nvmlDeviceGetSerial)
PASS(nvmlDeviceGetInforomVersion)
PASS(nvmlDeviceGetInforomImageVersion)
PASS(nvmlDeviceGetVbiosVersion)
PASS(nvmlDeviceGetComputeMode)
PASS(nvmlDeviceGetPersistenceMode)
PASS(nvmlDeviceGetVirtualizationMode)
PASS(nvmlDeviceGetBAR1MemoryInfo)
PASS(nvmlDeviceGetApplicationsClock)
PASS(nvmlDeviceGetMaxClockInfo)
PASS(nvmlDeviceGetCurrentClocksEventReasons)
PASS(nvmlDeviceGetTemperatureThreshold)
PASS(nvmlDeviceGetPowerManagementLimit)
PASS(nvmlDeviceGetPowerManagementDefaultLimit)
PASS(nvmlDeviceGetEnforcedPowerLimit)
PASS(nvmlDeviceGetPowerManagementLimitConstraints)
PASS(nvmlDeviceGetPerformanceState)
PASS(nvmlDeviceGetFanSpeed)
PASS(nvmlDeviceGetPcieThroughput)
PASS(nvmlDeviceGetCurrPcieLinkGeneration)
PASS(nvmlDeviceGetCurrPcieLinkWidth)
PASS(nvmlDeviceGetMaxPcieLinkGeneration)
PASS(nvmlDeviceGetMaxPcieLinkWidth)
PASS(nvmlGpmQueryDeviceSupport)
PASS(nvmlGpmSampleAlloc)
PASS(nvmlGpmSampleFree)
PASS(nvmlGpmSampleGet)
PASS(nvmlGpmMigSampleGet)
PASS(nvmlGpmMetricsGet)
PASS(nvmlDeviceGetClockInfo)
PASS(nvmlDeviceGetTemperature)
PASS(nvmlDeviceGetTemperatureV)
PASS(nvmlDeviceGetPowerUsage)
PASS(nvmlDeviceGetTotalEnergyConsumption)
PASS(nvmlDeviceGetPcieReplayCounter)
PASS(nvmlDeviceGetUtilizationRates)
PASS(nvmlDeviceGetSamples)
PASS(nvmlDeviceGetEncoderUtilization)
PASS(nvmlDeviceGetDecoderUtilization)
PASS(nvmlDeviceGetMemoryInfo)
PASS(nvmlDeviceGetMemoryInfo_v2)
PASS(nvmlDeviceGetRemappedRows)
PASS(nvmlDeviceValidateInforom)
PASS(nvmlDeviceGetGpuFabricInfoV)
PASS(nvmlDeviceGetFieldValues)
PASS(nvmlDeviceGetGridLicensableFeatures_v4)
PASS(nvmlEventSetCreate)
PASS(nvmlEventSetFree)
PASS(nvmlEventSetWait_v2)
PASS(nvmlDeviceGetSupportedEventTypes)
PASS(nvmlDeviceRegisterEvents)
PASS(nvmlDeviceGetMigMode)
PASS(nvmlDeviceGetMaxMigDeviceCount)
PASS(nvmlDeviceGetMigDeviceHandleByIndex)
PASS(nvmlDeviceGetGpuInstanceId)
PASS(nvmlDeviceGetComputeInstanceId)
PASS(nvmlDeviceGetComputeRunningProcesses_v2)
PASS(nvmlDeviceGetGraphicsRunningProcesses_v2)
PASS(nvmlDeviceGetMPSComputeRunningProcesses_v2)
PASS(nvmlDeviceGetProcessUtilization)
PASS(nvmlDeviceGetProcessesUtilizationInfo)
