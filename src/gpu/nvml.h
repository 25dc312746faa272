// SPDX-License-Identifier: Apache-2.0
// The loaded NVML library: one function pointer per call, NULL if the library does not export it.
#pragma once

#include "base/error.h"
#include "gpu/nvml_abi.h"

#include <stdbool.h>

// X(member, symbol, first fallback, second fallback, arguments). A fallback takes the same
// arguments. The layouts of the process lists differ between versions: see processes.c.
#define NVML_CALLS(X)                                                                              \
    X(init, "nvmlInit_v2", "nvmlInit", NULL, (void))                                               \
    X(shutdown, "nvmlShutdown", NULL, NULL, (void))                                                \
    X(driver_version, "nvmlSystemGetDriverVersion", NULL, NULL, (char *, unsigned))                \
    X(nvml_version, "nvmlSystemGetNVMLVersion", NULL, NULL, (char *, unsigned))                    \
    X(cuda_version, "nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion", NULL,   \
      (int *))                                                                                     \
    X(count, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", NULL, (unsigned *))                    \
    X(handle_by_index, "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", NULL,        \
      (unsigned, nvml_device *))                                                                   \
    X(name, "nvmlDeviceGetName", NULL, NULL, (nvml_device, char *, unsigned))                      \
    X(uuid, "nvmlDeviceGetUUID", NULL, NULL, (nvml_device, char *, unsigned))                      \
    X(minor, "nvmlDeviceGetMinorNumber", NULL, NULL, (nvml_device, unsigned *))                    \
    X(pci_info, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo",      \
      (nvml_device, struct nvml_pci_info *))                                                       \
    X(brand, "nvmlDeviceGetBrand", NULL, NULL, (nvml_device, int *))                               \
    X(serial, "nvmlDeviceGetSerial", NULL, NULL, (nvml_device, char *, unsigned))                  \
    X(inforom, "nvmlDeviceGetInforomVersion", NULL, NULL, (nvml_device, int, char *, unsigned))    \
    X(inforom_image, "nvmlDeviceGetInforomImageVersion", NULL, NULL,                               \
      (nvml_device, char *, unsigned))                                                             \
    X(vbios, "nvmlDeviceGetVbiosVersion", NULL, NULL, (nvml_device, char *, unsigned))             \
    X(compute_mode, "nvmlDeviceGetComputeMode", NULL, NULL, (nvml_device, int *))                  \
    X(persistence_mode, "nvmlDeviceGetPersistenceMode", NULL, NULL, (nvml_device, int *))          \
    X(virtual_mode, "nvmlDeviceGetVirtualizationMode", NULL, NULL, (nvml_device, int *))           \
    X(bar1, "nvmlDeviceGetBAR1MemoryInfo", NULL, NULL, (nvml_device, struct nvml_memory *))        \
    X(app_clock, "nvmlDeviceGetApplicationsClock", NULL, NULL, (nvml_device, int, unsigned *))     \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", NULL, NULL, (nvml_device, int, unsigned *))          \
    X(event_reasons, "nvmlDeviceGetCurrentClocksEventReasons",                                     \
      "nvmlDeviceGetCurrentClocksThrottleReasons", NULL, (nvml_device, unsigned long long *))      \
    X(temp_threshold, "nvmlDeviceGetTemperatureThreshold", NULL, NULL,                             \
      (nvml_device, int, unsigned *))                                                              \
    X(power_limit, "nvmlDeviceGetPowerManagementLimit", NULL, NULL, (nvml_device, unsigned *))     \
    X(power_default, "nvmlDeviceGetPowerManagementDefaultLimit", NULL, NULL,                       \
      (nvml_device, unsigned *))                                                                   \
    X(power_enforced, "nvmlDeviceGetEnforcedPowerLimit", NULL, NULL, (nvml_device, unsigned *))    \
    X(power_range, "nvmlDeviceGetPowerManagementLimitConstraints", NULL, NULL,                     \
      (nvml_device, unsigned *, unsigned *))                                                       \
    X(pstate, "nvmlDeviceGetPerformanceState", NULL, NULL, (nvml_device, int *))                   \
    X(fan_speed, "nvmlDeviceGetFanSpeed", NULL, NULL, (nvml_device, unsigned *))                   \
    X(pcie_throughput, "nvmlDeviceGetPcieThroughput", NULL, NULL, (nvml_device, int, unsigned *))  \
    X(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", NULL, NULL, (nvml_device, unsigned *))      \
    X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", NULL, NULL, (nvml_device, unsigned *))         \
    X(pcie_max_gen, "nvmlDeviceGetMaxPcieLinkGeneration", NULL, NULL, (nvml_device, unsigned *))   \
    X(pcie_max_width, "nvmlDeviceGetMaxPcieLinkWidth", NULL, NULL, (nvml_device, unsigned *))      \
    X(gpm_support, "nvmlGpmQueryDeviceSupport", NULL, NULL,                                        \
      (nvml_device, struct nvml_gpm_support *))                                                    \
    X(gpm_alloc, "nvmlGpmSampleAlloc", NULL, NULL, (nvml_gpm_sample *))                            \
    X(gpm_free, "nvmlGpmSampleFree", NULL, NULL, (nvml_gpm_sample))                                \
    X(gpm_get, "nvmlGpmSampleGet", NULL, NULL, (nvml_device, nvml_gpm_sample))                     \
    X(gpm_get_mig, "nvmlGpmMigSampleGet", NULL, NULL, (nvml_device, unsigned, nvml_gpm_sample))    \
    X(gpm_metrics, "nvmlGpmMetricsGet", NULL, NULL, (struct nvml_gpm_request *))                   \
    X(clock_info, "nvmlDeviceGetClockInfo", NULL, NULL, (nvml_device, int, unsigned *))            \
    X(temperature, "nvmlDeviceGetTemperature", NULL, NULL, (nvml_device, int, unsigned *))         \
    X(temperature_v, "nvmlDeviceGetTemperatureV", NULL, NULL,                                      \
      (nvml_device, struct nvml_temperature *))                                                    \
    X(margin, "nvmlDeviceGetMarginTemperature", NULL, NULL, (nvml_device, struct nvml_margin *))   \
    X(power_usage, "nvmlDeviceGetPowerUsage", NULL, NULL, (nvml_device, unsigned *))               \
    X(total_energy, "nvmlDeviceGetTotalEnergyConsumption", NULL, NULL,                             \
      (nvml_device, unsigned long long *))                                                         \
    X(pcie_replay, "nvmlDeviceGetPcieReplayCounter", NULL, NULL, (nvml_device, unsigned *))        \
    X(utilization, "nvmlDeviceGetUtilizationRates", NULL, NULL,                                    \
      (nvml_device, struct nvml_utilization *))                                                    \
    X(samples, "nvmlDeviceGetSamples", NULL, NULL,                                                 \
      (nvml_device, int, unsigned long long, int *, unsigned *, struct nvml_sample *))             \
    X(encoder, "nvmlDeviceGetEncoderUtilization", NULL, NULL,                                      \
      (nvml_device, unsigned *, unsigned *))                                                       \
    X(decoder, "nvmlDeviceGetDecoderUtilization", NULL, NULL,                                      \
      (nvml_device, unsigned *, unsigned *))                                                       \
    X(memory, "nvmlDeviceGetMemoryInfo", NULL, NULL, (nvml_device, struct nvml_memory *))          \
    X(memory_v2, "nvmlDeviceGetMemoryInfo_v2", NULL, NULL, (nvml_device, struct nvml_memory_v2 *)) \
    X(p2p_status, "nvmlDeviceGetP2PStatus", NULL, NULL, (nvml_device, nvml_device, int, int *))    \
    X(validate_inforom, "nvmlDeviceValidateInforom", NULL, NULL, (nvml_device))                    \
    X(fabric_info, "nvmlDeviceGetGpuFabricInfoV", NULL, NULL,                                      \
      (nvml_device, struct nvml_fabric_info *))                                                    \
    X(link_state, "nvmlDeviceGetNvLinkState", NULL, NULL, (nvml_device, unsigned, int *))          \
    X(unrepairable, "nvmlDeviceGetUnrepairableMemoryFlag_v1",                                      \
      "nvmlDeviceGetUnrepairableMemoryFlag", NULL, (nvml_device, union nvml_unrepairable *))       \
    X(remapped_rows, "nvmlDeviceGetRemappedRows", NULL, NULL,                                      \
      (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))                               \
    X(row_histogram, "nvmlDeviceGetRowRemapperHistogram", NULL, NULL,                              \
      (nvml_device, struct nvml_row_histogram *))                                                  \
    X(sram_status, "nvmlDeviceGetSramEccErrorStatus", NULL, NULL,                                  \
      (nvml_device, struct nvml_sram_status *))                                                    \
    X(field_values, "nvmlDeviceGetFieldValues", NULL, NULL,                                        \
      (nvml_device, int, struct nvml_field_value *))                                               \
    X(licensable, "nvmlDeviceGetGridLicensableFeatures_v4", NULL, NULL,                            \
      (nvml_device, struct nvml_license_features *))                                               \
    X(event_set_create, "nvmlEventSetCreate", NULL, NULL, (nvml_event_set *))                      \
    X(event_set_free, "nvmlEventSetFree", NULL, NULL, (nvml_event_set))                            \
    X(event_set_wait, "nvmlEventSetWait_v2", "nvmlEventSetWait", NULL,                             \
      (nvml_event_set, struct nvml_event *, unsigned))                                             \
    X(supported_events, "nvmlDeviceGetSupportedEventTypes", NULL, NULL,                            \
      (nvml_device, unsigned long long *))                                                         \
    X(register_events, "nvmlDeviceRegisterEvents", NULL, NULL,                                     \
      (nvml_device, unsigned long long, nvml_event_set))                                           \
    X(mig_mode, "nvmlDeviceGetMigMode", NULL, NULL, (nvml_device, unsigned *, unsigned *))         \
    X(mig_max, "nvmlDeviceGetMaxMigDeviceCount", NULL, NULL, (nvml_device, unsigned *))            \
    X(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex", NULL, NULL,                               \
      (nvml_device, unsigned, nvml_device *))                                                      \
    X(gpu_instance_id, "nvmlDeviceGetGpuInstanceId", NULL, NULL, (nvml_device, unsigned *))        \
    X(compute_instance_id, "nvmlDeviceGetComputeInstanceId", NULL, NULL,                           \
      (nvml_device, unsigned *))                                                                   \
    X(compute_processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2", NULL, NULL,                 \
      (nvml_device, unsigned *, void *))                                                           \
    X(compute_processes_v3, "nvmlDeviceGetComputeRunningProcesses_v3", NULL, NULL,                 \
      (nvml_device, unsigned *, void *))                                                           \
    X(compute_processes_v1, "nvmlDeviceGetComputeRunningProcesses", NULL, NULL,                    \
      (nvml_device, unsigned *, void *))                                                           \
    X(graphics_processes_v2, "nvmlDeviceGetGraphicsRunningProcesses_v2", NULL, NULL,               \
      (nvml_device, unsigned *, void *))                                                           \
    X(graphics_processes_v3, "nvmlDeviceGetGraphicsRunningProcesses_v3", NULL, NULL,               \
      (nvml_device, unsigned *, void *))                                                           \
    X(graphics_processes_v1, "nvmlDeviceGetGraphicsRunningProcesses", NULL, NULL,                  \
      (nvml_device, unsigned *, void *))                                                           \
    X(mps_processes_v2, "nvmlDeviceGetMPSComputeRunningProcesses_v2", NULL, NULL,                  \
      (nvml_device, unsigned *, void *))                                                           \
    X(mps_processes_v3, "nvmlDeviceGetMPSComputeRunningProcesses_v3", NULL, NULL,                  \
      (nvml_device, unsigned *, void *))                                                           \
    X(mps_processes_v1, "nvmlDeviceGetMPSComputeRunningProcesses", NULL, NULL,                     \
      (nvml_device, unsigned *, void *))                                                           \
    X(process_utilization, "nvmlDeviceGetProcessUtilization", NULL, NULL,                          \
      (nvml_device, struct nvml_process_sample *, unsigned *, unsigned long long))                 \
    X(processes_utilization, "nvmlDeviceGetProcessesUtilizationInfo", NULL, NULL,                  \
      (nvml_device, struct nvml_process_util_request *))

enum nvml_call {
#define NVML_CALL_ENUM(member, symbol, second, third, args) NVML_CALL_##member,
    NVML_CALLS(NVML_CALL_ENUM)
#undef NVML_CALL_ENUM
        NVML_CALL_COUNT
};

struct nvml {
    void *library;
    char *path; // as found
    bool simulated;
#define NVML_CALL_MEMBER(member, symbol, second, third, args) nvml_ret(*member) args;
    NVML_CALLS(NVML_CALL_MEMBER)
#undef NVML_CALL_MEMBER
};

// Loads the library without initializing it. path NULL: the search order in nvml.c.
struct gs_error *nvml_load(const char *path, struct nvml *ret);
void nvml_unload(struct nvml *n);
const char *nvml_call_symbol(enum nvml_call c);
