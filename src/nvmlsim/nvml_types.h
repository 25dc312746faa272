// SPDX-License-Identifier: Apache-2.0
// The structures and numbers of NVML's binary interface, as far as the simulated library has them.
// The layouts were measured from NVIDIA's headers 11.1 to 13.3 (x86-64 and arm64 agree); the names
// of the fields are ours. A structure with a version word wants NVML_VERSION_WORD in it before the
// call.
#pragma once

#include "nvmlsim/nvml_codes.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

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
