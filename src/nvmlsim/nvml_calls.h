// SPDX-License-Identifier: Apache-2.0
// Every call of NVML that the simulated library exports, with its arguments: prototypes, the names
// that a fault rule may use, and the look-ups of the tests are made from this table.
// nvmlErrorString and gpuscaleNvmlIsSimulated are exported besides.
#pragma once

#include "nvmlsim/nvml_types.h"

#define NVML_CALLS(X)                                                                              \
    X(nvmlInit, (void))                                                                            \
    X(nvmlInit_v2, (void))                                                                         \
    X(nvmlInitWithFlags, (unsigned flags))                                                         \
    X(nvmlShutdown, (void))                                                                        \
    X(nvmlSystemGetDriverVersion, (char *version, unsigned length))                                \
    X(nvmlSystemGetNVMLVersion, (char *version, unsigned length))                                  \
    X(nvmlSystemGetCudaDriverVersion, (int *version))                                              \
    X(nvmlSystemGetCudaDriverVersion_v2, (int *version))                                           \
    X(nvmlSystemGetProcessName, (unsigned pid, char *name, unsigned length))                       \
    X(nvmlDeviceGetCount, (unsigned *count))                                                       \
    X(nvmlDeviceGetCount_v2, (unsigned *count))                                                    \
    X(nvmlDeviceGetHandleByIndex, (unsigned index, nvmlDevice_t *device))                          \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device))                       \
    X(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))                         \
    X(nvmlDeviceGetHandleByPciBusId, (const char *bus_id, nvmlDevice_t *device))                   \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus_id, nvmlDevice_t *device))                \
    X(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned *index))                                  \
    X(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned length))                       \
    X(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned length))                       \
    X(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned *minor))                            \
    X(nvmlDeviceGetSerial, (nvmlDevice_t device, char *serial, unsigned length))                   \
    X(nvmlDeviceGetPciInfo, (nvmlDevice_t device, nvmlPciInfo_t * pci))                            \
    X(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t * pci))                         \
    X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t * pci))                         \
    X(nvmlDeviceGetArchitecture, (nvmlDevice_t device, unsigned *architecture))                    \
    X(nvmlDeviceGetBrand, (nvmlDevice_t device, int *brand))                                       \
    X(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor))           \
    X(nvmlDeviceGetVirtualizationMode, (nvmlDevice_t device, int *mode))                           \
    X(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, int *mode))                              \
    X(nvmlDeviceGetNumaNodeId, (nvmlDevice_t device, unsigned *node))                              \
    X(nvmlDeviceGetComputeMode, (nvmlDevice_t device, int *mode))                                  \
    X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t * rates))             \
    X(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period)) \
    X(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period)) \
    X(nvmlDeviceGetJpgUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period))     \
    X(nvmlDeviceGetOfaUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period))     \
    X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                       \
    X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t * memory))                 \
    X(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlMemory_t * memory))                   \
    X(nvmlDeviceGetTemperature, (nvmlDevice_t device, int sensor, unsigned *celsius))              \
    X(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_v1_t * temperature))        \
    X(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, int type, unsigned *celsius))       \
    X(nvmlDeviceGetMarginTemperature, (nvmlDevice_t device, nvmlMarginTemperature_v1_t * margin))  \
    X(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *mw))                                \
    X(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *mj))          \
    X(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned *mw))                      \
    X(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned *mw))               \
    X(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned *mw))                        \
    X(nvmlDeviceGetPowerManagementLimitConstraints,                                                \
      (nvmlDevice_t device, unsigned *min_mw, unsigned *max_mw))                                   \
    X(nvmlDeviceGetClockInfo, (nvmlDevice_t device, int type, unsigned *mhz))                      \
    X(nvmlDeviceGetClock, (nvmlDevice_t device, int type, int id, unsigned *mhz))                  \
    X(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, int type, unsigned *mhz))                   \
    X(nvmlDeviceGetApplicationsClock, (nvmlDevice_t device, int type, unsigned *mhz))              \
    X(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, int *state))                            \
    X(nvmlDeviceGetFanSpeed, (nvmlDevice_t device, unsigned *percent))                             \
    X(nvmlDeviceGetFanSpeed_v2, (nvmlDevice_t device, unsigned fan, unsigned *percent))            \
    X(nvmlDeviceGetNumFans, (nvmlDevice_t device, unsigned *count))                                \
    X(nvmlDeviceGetFanSpeedRPM, (nvmlDevice_t device, nvmlFanSpeedInfo_v1_t * speed))              \
    X(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, unsigned long long *reasons))  \
    X(nvmlDeviceGetCurrentClocksThrottleReasons,                                                   \
      (nvmlDevice_t device, unsigned long long *reasons))                                          \
    X(nvmlDeviceGetViolationStatus, (nvmlDevice_t device, int policy, nvmlViolationTime_t *time))  \
    X(nvmlDeviceGetSamples, (nvmlDevice_t device, int type, unsigned long long last_seen,          \
                             int *value_type, unsigned *count, nvmlSample_t *samples))             \
    X(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values))        \
    X(nvmlDeviceGetPcieThroughput, (nvmlDevice_t device, int counter, unsigned *kbps))             \
    X(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation))            \
    X(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation))             \
    X(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned *width))                      \
    X(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned *width))                       \
    X(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned *count))                      \
    X(nvmlDeviceGetEccMode, (nvmlDevice_t device, int *current, int *pending))                     \
    X(nvmlDeviceGetTotalEccErrors,                                                                 \
      (nvmlDevice_t device, int error, int counter, unsigned long long *count))                    \
    X(nvmlDeviceGetMemoryErrorCounter,                                                             \
      (nvmlDevice_t device, int error, int counter, int location, unsigned long long *count))      \
    X(nvmlDeviceGetSramEccErrorStatus,                                                             \
      (nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t * status))                                 \
    X(nvmlDeviceGetRetiredPages,                                                                   \
      (nvmlDevice_t device, int cause, unsigned *count, unsigned long long *addresses))            \
    X(nvmlDeviceGetRetiredPages_v2,                                                                \
      (nvmlDevice_t device, int cause, unsigned *count, unsigned long long *addresses,             \
       unsigned long long *timestamps))                                                            \
    X(nvmlDeviceGetRetiredPagesPendingStatus, (nvmlDevice_t device, int *pending))                 \
    X(nvmlDeviceGetRemappedRows, (nvmlDevice_t device, unsigned *correctable,                      \
                                  unsigned *uncorrectable, unsigned *pending, unsigned *failed))   \
    X(nvmlDeviceGetRowRemapperHistogram,                                                           \
      (nvmlDevice_t device, nvmlRowRemapperHistogramValues_t * values))                            \
    X(nvmlDeviceValidateInforom, (nvmlDevice_t device))                                            \
    X(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfo_v3_t * info))           \
    X(nvmlDeviceGetUnrepairableMemoryFlag_v1,                                                      \
      (nvmlDevice_t device, nvmlUnrepairableMemoryStatus_v1_t * s))                                \
    X(nvmlDeviceGetP2PStatus, (nvmlDevice_t device, nvmlDevice_t other, int index, int *status))   \
    X(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, int *active))                 \
    X(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned link, unsigned *version))         \
    X(nvmlDeviceGetNvLinkErrorCounter,                                                             \
      (nvmlDevice_t device, unsigned link, int counter, unsigned long long *count))                \
    X(nvmlDeviceGetComputeRunningProcesses,                                                        \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos))                         \
    X(nvmlDeviceGetComputeRunningProcesses_v2,                                                     \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetComputeRunningProcesses_v3,                                                     \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetGraphicsRunningProcesses,                                                       \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos))                         \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2,                                                    \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3,                                                    \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetMPSComputeRunningProcesses,                                                     \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *infos))                         \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v2,                                                  \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3,                                                  \
      (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *infos))                         \
    X(nvmlDeviceGetRunningProcessDetailList,                                                       \
      (nvmlDevice_t device, nvmlProcessDetailList_v1_t * list))                                    \
    X(nvmlDeviceGetProcessUtilization,                                                             \
      (nvmlDevice_t device, nvmlProcessUtilizationSample_t * samples, unsigned *count,             \
       unsigned long long last_seen))                                                              \
    X(nvmlDeviceGetProcessesUtilizationInfo,                                                       \
      (nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t * info))                             \
    X(nvmlDeviceGetAccountingMode, (nvmlDevice_t device, int *mode))                               \
    X(nvmlEventSetCreate, (nvmlEventSet_t * set))                                                  \
    X(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *types))          \
    X(nvmlDeviceRegisterEvents,                                                                    \
      (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set))                         \
    X(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_t * data, unsigned timeout_ms))         \
    X(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t * data, unsigned timeout_ms))      \
    X(nvmlEventSetFree, (nvmlEventSet_t set))                                                      \
    X(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *current, unsigned *pending))           \
    X(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned *count))                      \
    X(nvmlDeviceGetMigDeviceHandleByIndex,                                                         \
      (nvmlDevice_t device, unsigned index, nvmlDevice_t *mig))                                    \
    X(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned *is_mig))                        \
    X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t mig, nvmlDevice_t * device))     \
    X(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t mig, unsigned *id))                                \
    X(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t mig, unsigned *id))                            \
    X(nvmlDeviceGetAttributes, (nvmlDevice_t mig, nvmlDeviceAttributes_t * attributes))            \
    X(nvmlDeviceGetAttributes_v2, (nvmlDevice_t mig, nvmlDeviceAttributes_t * attributes))         \
    X(nvmlDeviceGetGpuInstanceById,                                                                \
      (nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *instance))                             \
    X(nvmlGpuInstanceGetInfo, (nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t * info))          \
    X(nvmlGpuInstanceGetComputeInstanceById,                                                       \
      (nvmlGpuInstance_t instance, unsigned id, nvmlComputeInstance_t *compute))                   \
    X(nvmlComputeInstanceGetInfo_v2,                                                               \
      (nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t * info))                          \
    X(nvmlDeviceGetGpuInstanceProfileInfo,                                                         \
      (nvmlDevice_t device, unsigned profile, nvmlGpuInstanceProfileInfo_t *info))                 \
    X(nvmlDeviceGetGpuInstanceProfileInfoV,                                                        \
      (nvmlDevice_t device, unsigned profile, nvmlGpuInstanceProfileInfo_v2_t *info))              \
    X(nvmlGpmQueryDeviceSupport, (nvmlDevice_t device, nvmlGpmSupport_t * support))                \
    X(nvmlGpmSampleAlloc, (nvmlGpmSample_t * sample))                                              \
    X(nvmlGpmSampleFree, (nvmlGpmSample_t sample))                                                 \
    X(nvmlGpmSampleGet, (nvmlDevice_t device, nvmlGpmSample_t sample))                             \
    X(nvmlGpmMigSampleGet, (nvmlDevice_t device, unsigned gpu_instance, nvmlGpmSample_t sample))   \
    X(nvmlGpmMetricsGet, (nvmlGpmMetricsGet_t * request))

#define NVML_PROTOTYPE(name, arguments) nvmlReturn_t name arguments;
NVML_CALLS(NVML_PROTOTYPE)
#undef NVML_PROTOTYPE

const char *nvmlErrorString(nvmlReturn_t code);
// 1: by this a program knows that the NVML that it loaded is the simulated one.
int gpuscaleNvmlIsSimulated(void);
