// SPDX-License-Identifier: Apache-2.0
// The binary interface of NVML as far as the simulated library has it: types, return codes and the
// table of calls.
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

// --- types ---

// The structures and numbers of NVML's binary interface, as far as the simulated library has them.
// The layouts were measured from NVIDIA's headers 11.1 to 13.3 (x86-64 and arm64 agree); the names
// of the fields are ours. A structure with a version word wants NVML_VERSION_WORD in it before the
// call.

typedef int nvmlReturn_t;
typedef const struct nvml_device *nvmlDevice_t;
typedef struct nvml_event_set *nvmlEventSet_t;
typedef const struct nvml_gpu_instance *nvmlGpuInstance_t;
typedef const struct nvml_compute_instance *nvmlComputeInstance_t;
typedef struct nvml_gpm_sample *nvmlGpmSample_t;

#define NVML_VERSION_WORD(type, ver) ((uint32_t)(sizeof(type) | ((uint32_t)(ver) << 24)))
#define NVML_NO_INSTANCE             UINT32_MAX

// The size and the offset of the last field, checked where the structure is written.
#define NVML_LAYOUT(type, size, last, at)                                                          \
    static_assert(sizeof(type) == (size) && offsetof(type, last) == (at), #type)

typedef struct {
    char busIdLegacy[16]; // "%04X:%02X:%02X.0"
    uint32_t domain, bus, device;
    uint32_t pciDeviceId; // device << 16 | vendor
    uint32_t pciSubSystemId;
    char busId[32]; // "%08X:%02X:%02X.0"
} nvmlPciInfo_t;
NVML_LAYOUT(nvmlPciInfo_t, 68, busId, 36);

typedef struct {
    uint32_t gpu, memory; // percent
} nvmlUtilization_t;
NVML_LAYOUT(nvmlUtilization_t, 8, memory, 4);

typedef struct {
    uint64_t total, free, used; // bytes
} nvmlMemory_t;
NVML_LAYOUT(nvmlMemory_t, 24, used, 16);

typedef struct {
    uint32_t version;
    uint64_t total, reserved, free, used;
} nvmlMemory_v2_t;
NVML_LAYOUT(nvmlMemory_v2_t, 40, used, 32);

typedef struct {
    uint32_t version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    uint32_t cliqueId;
    unsigned char state;
    uint32_t healthMask;
    unsigned char healthSummary; // v2 ends before it
} nvmlGpuFabricInfo_v3_t;
NVML_LAYOUT(nvmlGpuFabricInfo_v3_t, 40, healthSummary, 36);

typedef struct {
    uint32_t version, bUnrepairableMemory;
} nvmlUnrepairableMemoryStatus_v1_t;
NVML_LAYOUT(nvmlUnrepairableMemoryStatus_v1_t, 8, bUnrepairableMemory, 4);

typedef struct {
    uint32_t version;
    uint32_t sensorType;
    int32_t temperature; // °C
} nvmlTemperature_v1_t;
NVML_LAYOUT(nvmlTemperature_v1_t, 12, temperature, 8);

typedef struct {
    uint32_t version;
    int32_t marginTemperature;
} nvmlMarginTemperature_v1_t;
NVML_LAYOUT(nvmlMarginTemperature_v1_t, 8, marginTemperature, 4);

typedef struct {
    uint32_t version, fan, speed;
} nvmlFanSpeedInfo_v1_t;
NVML_LAYOUT(nvmlFanSpeedInfo_v1_t, 12, speed, 8);

typedef struct {
    uint64_t referenceTime; // µs
    uint64_t violationTime; // ns
} nvmlViolationTime_t;
NVML_LAYOUT(nvmlViolationTime_t, 16, violationTime, 8);

typedef union {
    double d;
    uint32_t u32;
    uint64_t u64;
    int32_t i32;
    int64_t i64;
} nvmlValue_t;

enum nvml_value_type {
    NVML_VALUE_DOUBLE,
    NVML_VALUE_U32,
    NVML_VALUE_ULONG,
    NVML_VALUE_U64,
    NVML_VALUE_I64,
    NVML_VALUE_I32,
};

typedef struct {
    uint64_t timeStamp; // Unix µs
    nvmlValue_t sampleValue;
} nvmlSample_t;
NVML_LAYOUT(nvmlSample_t, 16, sampleValue, 8);

enum nvml_sample_type {
    NVML_SAMPLE_POWER,
    NVML_SAMPLE_GPU_UTIL,
    NVML_SAMPLE_MEM_UTIL,
    NVML_SAMPLE_ENC_UTIL,
    NVML_SAMPLE_DEC_UTIL,
    NVML_SAMPLE_SM_CLOCK,
    NVML_SAMPLE_MEM_CLOCK,
};

typedef struct {
    uint32_t fieldId, scopeId; // in
    int64_t timestamp;         // Unix µs
    int64_t latencyUsec;
    int32_t valueType; // enum nvml_value_type
    int32_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;
NVML_LAYOUT(nvmlFieldValue_t, 40, value, 32);

typedef struct {
    uint32_t version;
    uint64_t aggUncParity, aggUncSecDed, aggCor, volUncParity, volUncSecDed, volCor;
    uint64_t aggUncBucketL2, aggUncBucketSm, aggUncBucketPcie, aggUncBucketMcu, aggUncBucketOther;
    uint32_t bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;
NVML_LAYOUT(nvmlEccSramErrorStatus_v1_t, 104, bThresholdExceeded, 96);

typedef struct {
    uint32_t max, high, partial, low, none; // banks
} nvmlRowRemapperHistogramValues_t;
NVML_LAYOUT(nvmlRowRemapperHistogramValues_t, 20, none, 16);

typedef struct {
    nvmlDevice_t device;
    uint64_t eventType;
    uint64_t eventData; // the XID
    uint32_t gpuInstanceId, computeInstanceId;
} nvmlEventData_t;
NVML_LAYOUT(nvmlEventData_t, 32, computeInstanceId, 28);

#define NVML_EVENT_SBE 0x1ULL
#define NVML_EVENT_DBE 0x2ULL
#define NVML_EVENT_XID 0x8ULL

typedef struct {
    uint32_t pid;
    uint64_t usedGpuMemory; // bytes
} nvmlProcessInfo_v1_t;
NVML_LAYOUT(nvmlProcessInfo_v1_t, 16, usedGpuMemory, 8);

typedef struct {
    uint32_t pid;
    uint64_t usedGpuMemory;
    uint32_t gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;
NVML_LAYOUT(nvmlProcessInfo_v2_t, 24, computeInstanceId, 20);

typedef struct {
    uint32_t pid;
    uint64_t usedGpuMemory;
    uint32_t gpuInstanceId, computeInstanceId;
    uint64_t usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;
NVML_LAYOUT(nvmlProcessDetail_v1_t, 32, usedGpuCcProtectedMemory, 24);

typedef struct {
    uint32_t version;
    uint32_t mode; // 0 compute, 1 graphics, 2 MPS, 3 all
    uint32_t numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
NVML_LAYOUT(nvmlProcessDetailList_v1_t, 24, procArray, 16);

typedef struct {
    uint32_t pid;
    uint64_t timeStamp; // Unix µs
    uint32_t smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;
NVML_LAYOUT(nvmlProcessUtilizationSample_t, 32, decUtil, 28);

typedef struct {
    uint64_t timeStamp;
    uint32_t pid;
    uint32_t smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;
NVML_LAYOUT(nvmlProcessUtilizationInfo_v1_t, 40, ofaUtil, 32);

typedef struct {
    uint32_t version;
    uint32_t processSamplesCount;
    uint64_t lastSeenTimeStamp;
    nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;
NVML_LAYOUT(nvmlProcessesUtilizationInfo_v1_t, 24, procUtilArray, 16);

typedef struct {
    uint32_t multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
    uint32_t sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    uint64_t memorySizeMB; // MiB
} nvmlDeviceAttributes_t;
NVML_LAYOUT(nvmlDeviceAttributes_t, 40, memorySizeMB, 32);

typedef struct {
    uint32_t start, size;
} nvmlPlacement_t;

typedef struct {
    nvmlDevice_t device;
    uint32_t id, profileId;
    nvmlPlacement_t placement;
} nvmlGpuInstanceInfo_t;
NVML_LAYOUT(nvmlGpuInstanceInfo_t, 24, placement, 16);

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    uint32_t id, profileId;
    nvmlPlacement_t placement;
} nvmlComputeInstanceInfo_t;
NVML_LAYOUT(nvmlComputeInstanceInfo_t, 32, placement, 24);

typedef struct {
    uint32_t id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount;
    uint32_t decoderCount, encoderCount, jpegCount, ofaCount;
    uint64_t memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
NVML_LAYOUT(nvmlGpuInstanceProfileInfo_t, 48, memorySizeMB, 40);

typedef struct {
    uint32_t version;
    uint32_t id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount;
    uint32_t decoderCount, encoderCount, jpegCount, ofaCount;
    uint64_t memorySizeMB;
    char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;
NVML_LAYOUT(nvmlGpuInstanceProfileInfo_v2_t, 152, name, 56);

typedef struct {
    uint32_t version;
    uint32_t id, sliceCount, instanceCount, multiprocessorCount, copyEngineCount;
    uint32_t decoderCount, encoderCount, jpegCount, ofaCount;
    uint64_t memorySizeMB;
    char name[96];
    uint32_t capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;
NVML_LAYOUT(nvmlGpuInstanceProfileInfo_v3_t, 152, capabilities, 144);

typedef struct {
    uint32_t version; // 1
    uint32_t isSupportedDevice;
} nvmlGpmSupport_t;
NVML_LAYOUT(nvmlGpmSupport_t, 8, isSupportedDevice, 4);

typedef struct {
    uint32_t metricId; // in
    int32_t nvmlReturn;
    double value;
    const char *shortName, *longName, *unit;
} nvmlGpmMetric_t;
NVML_LAYOUT(nvmlGpmMetric_t, 40, unit, 32);

typedef struct {
    uint32_t version;                 // 1
    uint32_t numMetrics;              // in: the array has as many
    nvmlGpmSample_t sample1, sample2; // older, newer
    nvmlGpmMetric_t metrics[];
} nvmlGpmMetricsGet_t;
NVML_LAYOUT(nvmlGpmMetricsGet_t, 24, sample2, 16);

typedef struct {
    uint32_t sessionsCount, averageFPS, averageLatency;
} nvmlFBCStats_t;
NVML_LAYOUT(nvmlFBCStats_t, 12, averageLatency, 8);

typedef struct {
    uint32_t version;
    char branch[80];
} nvmlSystemDriverBranchInfo_v1_t;
NVML_LAYOUT(nvmlSystemDriverBranchInfo_v1_t, 84, branch, 4);

// --- return codes ---

// The return codes of NVML: number, name after NVML_ERROR_, text of nvmlErrorString. And the calls
// that the simulated library has.

#define NVML_CODES(X)                                                                              \
    X(1, UNINITIALIZED, "Uninitialized")                                                           \
    X(2, INVALID_ARGUMENT, "Invalid Argument")                                                     \
    X(3, NOT_SUPPORTED, "Not Supported")                                                           \
    X(4, NO_PERMISSION, "Insufficient Permissions")                                                \
    X(5, ALREADY_INITIALIZED, "Already Initialized")                                               \
    X(6, NOT_FOUND, "Not Found")                                                                   \
    X(7, INSUFFICIENT_SIZE, "Insufficient Size")                                                   \
    X(8, INSUFFICIENT_POWER, "Insufficient External Power")                                        \
    X(9, DRIVER_NOT_LOADED, "Driver Not Loaded")                                                   \
    X(10, TIMEOUT, "Timeout")                                                                      \
    X(11, IRQ_ISSUE, "Interrupt Request Issue")                                                    \
    X(12, LIBRARY_NOT_FOUND, "NVML Shared Library Not Found")                                      \
    X(13, FUNCTION_NOT_FOUND, "Function Not Found")                                                \
    X(14, CORRUPTED_INFOROM, "Corrupted infoROM")                                                  \
    X(15, GPU_IS_LOST, "GPU is lost")                                                              \
    X(16, RESET_REQUIRED, "GPU requires reset")                                                    \
    X(17, OPERATING_SYSTEM, "The operating system has blocked the request.")                       \
    X(18, LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch")                              \
    X(19, IN_USE, "In use by another client")                                                      \
    X(20, MEMORY, "Insufficient Memory")                                                           \
    X(21, NO_DATA, "No data")                                                                      \
    X(22, VGPU_ECC_NOT_SUPPORTED, "The requested vgpu operation is not available, ECC is on")      \
    X(23, INSUFFICIENT_RESOURCES, "Insufficient resources")                                        \
    X(24, FREQ_NOT_SUPPORTED, "Frequency not supported")                                           \
    X(25, ARGUMENT_VERSION_MISMATCH, "The provided version is invalid/unsupported")                \
    X(26, DEPRECATED, "The requested functionality has been deprecated")                           \
    X(27, NOT_READY, "The system is not ready for the request")                                    \
    X(28, GPU_NOT_FOUND, "No GPUs were found")                                                     \
    X(29, INVALID_STATE, "Resource not in correct state to perform requested operation")           \
    X(30, RESET_TYPE_NOT_SUPPORTED, "Reset type not supported")                                    \
    X(999, UNKNOWN, "Unknown Error")

enum nvml_code {
    NVML_SUCCESS = 0,
#define NVML_CODE_ENUM(number, name, text) NVML_ERROR_##name = number,
    NVML_CODES(NVML_CODE_ENUM)
#undef NVML_CODE_ENUM
};

// --- calls ---

// Every call of NVML that the simulated library exports, with its arguments: prototypes, the names
// that a fault rule may use, and the look-ups of the tests are made from this table.
// nvmlErrorString and gpuscaleNvmlIsSimulated are exported besides.

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
    X(nvmlDeviceGetBoardId, (nvmlDevice_t device, unsigned *id))                                   \
    X(nvmlDeviceGetBoardPartNumber, (nvmlDevice_t device, char *number, unsigned length))          \
    X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char *version, unsigned length))            \
    X(nvmlDeviceGetInforomImageVersion, (nvmlDevice_t device, char *version, unsigned length))     \
    X(nvmlDeviceGetInforomVersion,                                                                 \
      (nvmlDevice_t device, int object, char *version, unsigned length))                           \
    X(nvmlDeviceGetGspFirmwareVersion, (nvmlDevice_t device, char *version))                       \
    X(nvmlDeviceGetGspFirmwareMode,                                                                \
      (nvmlDevice_t device, unsigned *enabled, unsigned *by_default))                              \
    X(nvmlDeviceGetModuleId, (nvmlDevice_t device, unsigned *id))                                  \
    X(nvmlDeviceGetMultiGpuBoard, (nvmlDevice_t device, unsigned *is_multi))                       \
    X(nvmlDeviceOnSameBoard, (nvmlDevice_t device, nvmlDevice_t other, int *same))                 \
    X(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t device, nvmlDevice_t other, int *level))  \
    X(nvmlDeviceGetCpuAffinity, (nvmlDevice_t device, unsigned size, unsigned long *cpus))         \
    X(nvmlDeviceGetBusType, (nvmlDevice_t device, int *type))                                      \
    X(nvmlDeviceGetIrqNum, (nvmlDevice_t device, unsigned *irq))                                   \
    X(nvmlDeviceGetGpuMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation))          \
    X(nvmlDeviceGetPcieLinkMaxSpeed, (nvmlDevice_t device, unsigned *speed))                       \
    X(nvmlDeviceGetPcieSpeed, (nvmlDevice_t device, unsigned *mbps))                               \
    X(nvmlDeviceGetNumGpuCores, (nvmlDevice_t device, unsigned *cores))                            \
    X(nvmlDeviceGetMemoryBusWidth, (nvmlDevice_t device, unsigned *bits))                          \
    X(nvmlDeviceGetDefaultEccMode, (nvmlDevice_t device, int *mode))                               \
    X(nvmlDeviceGetDisplayMode, (nvmlDevice_t device, int *mode))                                  \
    X(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, int *active))                              \
    X(nvmlDeviceGetPowerManagementMode, (nvmlDevice_t device, int *mode))                          \
    X(nvmlDeviceGetPowerSource, (nvmlDevice_t device, unsigned *source))                           \
    X(nvmlDeviceGetPowerState, (nvmlDevice_t device, int *state))                                  \
    X(nvmlDeviceGetSupportedPerformanceStates, (nvmlDevice_t device, int *states, unsigned size))  \
    X(nvmlDeviceGetSupportedMemoryClocks, (nvmlDevice_t device, unsigned *count, unsigned *mhz))   \
    X(nvmlDeviceGetSupportedGraphicsClocks,                                                        \
      (nvmlDevice_t device, unsigned memory_mhz, unsigned *count, unsigned *mhz))                  \
    X(nvmlDeviceGetDefaultApplicationsClock, (nvmlDevice_t device, int type, unsigned *mhz))       \
    X(nvmlDeviceGetMaxCustomerBoostClock, (nvmlDevice_t device, int type, unsigned *mhz))          \
    X(nvmlDeviceGetAdaptiveClockInfoStatus, (nvmlDevice_t device, unsigned *status))               \
    X(nvmlDeviceGetSupportedClocksEventReasons,                                                    \
      (nvmlDevice_t device, unsigned long long *reasons))                                          \
    X(nvmlDeviceGetSupportedClocksThrottleReasons,                                                 \
      (nvmlDevice_t device, unsigned long long *reasons))                                          \
    X(nvmlDeviceGetAccountingBufferSize, (nvmlDevice_t device, unsigned *size))                    \
    X(nvmlDeviceGetAccountingPids, (nvmlDevice_t device, unsigned *count, unsigned *pids))         \
    X(nvmlDeviceGetEncoderCapacity, (nvmlDevice_t device, int type, unsigned *percent))            \
    X(nvmlDeviceGetEncoderStats,                                                                   \
      (nvmlDevice_t device, unsigned *sessions, unsigned *fps, unsigned *latency_us))              \
    X(nvmlDeviceGetEncoderSessions, (nvmlDevice_t device, unsigned *count, void *sessions))        \
    X(nvmlDeviceGetFBCStats, (nvmlDevice_t device, nvmlFBCStats_t * stats))                        \
    X(nvmlDeviceGetFBCSessions, (nvmlDevice_t device, unsigned *count, void *sessions))            \
    X(nvmlGpmQueryIfStreamingEnabled, (nvmlDevice_t device, unsigned *state))                      \
    X(nvmlGetExcludedDeviceCount, (unsigned *count))                                               \
    X(nvmlUnitGetCount, (unsigned *count))                                                         \
    X(nvmlSystemGetHicVersion, (unsigned *count, void *entries))                                   \
    X(nvmlSystemGetDriverBranch, (nvmlSystemDriverBranchInfo_v1_t * info, unsigned length))        \
    X(nvmlGpmMetricsGet, (nvmlGpmMetricsGet_t * request))

#define NVML_PROTOTYPE(name, arguments) nvmlReturn_t name arguments;
NVML_CALLS(NVML_PROTOTYPE)
#undef NVML_PROTOTYPE

const char *nvmlErrorString(nvmlReturn_t code);
// 1: by this a program knows that the NVML that it loaded is the simulated one.
int gpuscaleNvmlIsSimulated(void);
