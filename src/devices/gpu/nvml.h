// SPDX-License-Identifier: Apache-2.0
// NVML: the part of its binary interface that gpuscale uses, and the loaded library.
#pragma once

#include "base/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- binary interface ---
//
// Declared from the published sizes, offsets and numbers (x86-64 and arm64 Linux, R450 to R595).
// The names are gpuscale's. Handles are opaque pointers passed by value, enums are 4-byte integers.

typedef int nvml_ret;
typedef struct nvml_device_opaque *nvml_device;
typedef struct nvml_event_set_opaque *nvml_event_set;
typedef struct nvml_gpm_sample_opaque *nvml_gpm_sample;

enum {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_CORRUPTED_INFOROM = 14,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_LIB_RM_VERSION_MISMATCH = 18,
    NVML_MEMORY = 20,
    NVML_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_DEPRECATED = 26,
    NVML_GPU_NOT_FOUND = 28,
    NVML_UNKNOWN = 999,
};

// First word of versioned structs.
#define NVML_VERSION_WORD(type, version) ((uint32_t)(sizeof(type) | ((uint32_t)(version) << 24)))

enum {
    NVML_TEXT_DRIVER_VERSION = 80,
    NVML_TEXT_UUID = 96,
    NVML_TEXT_NAME = 96,
};

enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_CLOCK_VIDEO = 3 };
enum {
    NVML_THRESHOLD_SHUTDOWN = 0,
    NVML_THRESHOLD_SLOWDOWN = 1,
    NVML_THRESHOLD_MEM_MAX = 2,
    NVML_THRESHOLD_GPU_MAX = 3,
};
enum { NVML_PCIE_TX = 0, NVML_PCIE_RX = 1 };
enum { NVML_INFOROM_OEM = 0, NVML_INFOROM_ECC = 1, NVML_INFOROM_POWER = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_SAMPLES_GPU_UTIL = 1 };
enum {
    NVML_VALUE_DOUBLE,
    NVML_VALUE_U32,
    NVML_VALUE_ULONG,
    NVML_VALUE_U64,
    NVML_VALUE_I64,
    NVML_VALUE_I32,
    NVML_VALUE_U16
};

#define NVML_EVENT_XID        UINT64_C(0x8)
#define NVML_FI_MEMORY_TEMP   82u
#define NVML_FI_NVLINK_COUNT  91u
#define NVML_FI_NVLINK_TX_KIB 138u // of the link in scope_id
#define NVML_FI_NVLINK_RX_KIB 139u
#define NVML_SCOPE_ALL        UINT32_MAX
#define NVML_MEMORY_UNKNOWN   UINT64_MAX
#define NVML_NO_INSTANCE      UINT32_MAX

struct nvml_pci_info {
    char bus_id_legacy[16];
    uint32_t domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");
static_assert(offsetof(struct nvml_pci_info, bus_id) == 36, "nvmlPciInfo_t");

struct nvml_utilization {
    uint32_t gpu, memory; // percent
};
static_assert(sizeof(struct nvml_utilization) == 8, "nvmlUtilization_t");

struct nvml_memory {
    uint64_t total, free, used; // bytes; used includes memory reserved by the driver
};
static_assert(sizeof(struct nvml_memory) == 24, "nvmlMemory_t");

struct nvml_memory_v2 {
    uint32_t version;
    uint64_t total, reserved, free, used; // used excludes reserved
};
static_assert(sizeof(struct nvml_memory_v2) == 40, "nvmlMemory_v2_t");
static_assert(offsetof(struct nvml_memory_v2, used) == 32, "nvmlMemory_v2_t");
static_assert(NVML_VERSION_WORD(struct nvml_memory_v2, 2) == 0x02000028, "nvmlMemory_v2");

struct nvml_temperature {
    uint32_t version;
    int32_t sensor, celsius;
};
static_assert(NVML_VERSION_WORD(struct nvml_temperature, 1) == 0x0100000c, "nvmlTemperature_v1");

struct nvml_margin {
    uint32_t version;
    int32_t celsius;
};
static_assert(NVML_VERSION_WORD(struct nvml_margin, 1) == 0x01000008, "nvmlMarginTemperature_v1");

struct nvml_sram_status {
    uint32_t version;
    uint64_t counts[11]; // aggregate, volatile, aggregate by unit
    uint32_t threshold_exceeded;
};
static_assert(NVML_VERSION_WORD(struct nvml_sram_status, 1) == 0x01000068,
              "nvmlEccSramErrorStatus_v1");
static_assert(offsetof(struct nvml_sram_status, threshold_exceeded) == 96,
              "nvmlEccSramErrorStatus_v1");

struct nvml_row_histogram {
    uint32_t max, high, partial, low, none; // memory banks
};
static_assert(sizeof(struct nvml_row_histogram) == 20, "nvmlRowRemapperHistogramValues_t");

// State of a GPU in the fabric of an NVSwitch system. Version 2 ends before the summary.
enum { NVML_FABRIC_NOT_STARTED = 1, NVML_FABRIC_IN_PROGRESS, NVML_FABRIC_COMPLETED };
struct nvml_fabric_info {
    uint32_t version;
    uint8_t cluster[16];
    nvml_ret status; // of a completed registration
    uint32_t clique;
    uint8_t state; // 0: the GPU has no fabric
    uint32_t health_mask;
    uint8_t health_summary; // 0: not reported
};
static_assert(NVML_VERSION_WORD(struct nvml_fabric_info, 3) == 0x03000028, "nvmlGpuFabricInfo_v3");
static_assert(offsetof(struct nvml_fabric_info, health_summary) == 36, "nvmlGpuFabricInfo_v2");

// NVIDIA's headers disagree about nvmlUnrepairableMemoryStatus_v1_t: the flag alone (nvml.h of
// CUDA 13.1 and newer), or after a version word (DCGM 4.6, pynvml 13.590).
union nvml_unrepairable {
    struct {
        uint32_t version, flag;
    } versioned;
    uint32_t flag_alone;
    uint32_t room[16]; // reserve for longer structs of later drivers
};
#define NVML_UNREPAIRABLE_VERSION UINT32_C(0x01000008)

union nvml_value {
    double d;
    int32_t i32;
    uint32_t u32;
    uint64_t u64;
    int64_t i64;
    uint16_t u16;
};

struct nvml_sample {
    uint64_t time_us;
    union nvml_value value;
};
static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");

struct nvml_field_value {
    uint32_t field_id, scope_id;
    int64_t time_us, latency_us;
    int32_t value_type;
    nvml_ret ret;
    union nvml_value value;
};
static_assert(sizeof(struct nvml_field_value) == 40, "nvmlFieldValue_t");
static_assert(offsetof(struct nvml_field_value, value) == 32, "nvmlFieldValue_t");

struct nvml_event {
    nvml_device device;
    uint64_t type, data;
    uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(struct nvml_event) == 32, "nvmlEventData_t");

// Process list entry of the unsuffixed symbols.
struct nvml_process_v1 {
    uint32_t pid;
    uint64_t memory; // bytes or NVML_MEMORY_UNKNOWN
};
static_assert(sizeof(struct nvml_process_v1) == 16, "nvmlProcessInfo_v1_t");

// Entry of _v2, and of _v3 except in R535.43 to R535.86, whose entries have 8 more bytes.
struct nvml_process_v2 {
    uint32_t pid;
    uint64_t memory;
    uint32_t gpu_instance, compute_instance;
};
static_assert(sizeof(struct nvml_process_v2) == 24, "nvmlProcessInfo_v2_t");
enum { NVML_PROCESS_MAX_STRIDE = 32 };

struct nvml_process_sample {
    uint32_t pid;
    uint64_t time_us;           // Unix time
    uint32_t sm, mem, enc, dec; // percent
};
static_assert(sizeof(struct nvml_process_sample) == 32, "nvmlProcessUtilizationSample_t");

struct nvml_process_util {
    uint64_t time_us;
    uint32_t pid, sm, mem, enc, dec, jpg, ofa;
};
static_assert(sizeof(struct nvml_process_util) == 40, "nvmlProcessUtilizationInfo_v1_t");

struct nvml_process_util_request {
    uint32_t version, count;
    uint64_t last_seen_us;
    struct nvml_process_util *entries;
};
static_assert(NVML_VERSION_WORD(struct nvml_process_util_request, 1) == 0x01000018,
              "nvmlProcessesUtilizationInfo_v1");

struct nvml_license_feature {
    int32_t code;
    uint32_t state; // not 0: licensed
    char info[128], product[128];
    uint32_t enabled;
    struct {
        uint32_t year;
        uint16_t month, day, hour, min, sec;
        uint8_t status;
    } expiry;
};

struct nvml_license_features {
    int32_t supported;
    uint32_t count;
    struct nvml_license_feature features[3];
};
static_assert(sizeof(struct nvml_license_features) == 860, "nvmlGridLicensableFeatures_t v4");

// GPU performance monitoring; its version is a plain number. A value covers the time between two
// samples.
enum { NVML_GPM_VERSION = 1, NVML_GPM_MAX_METRICS = 333 };
struct nvml_gpm_support {
    uint32_t version, supported;
};
struct nvml_gpm_metric {
    uint32_t id;
    nvml_ret ret;
    double value; // percent or MiB/s; may be NaN
    const char *names[3];
};
static_assert(sizeof(struct nvml_gpm_metric) == 40, "nvmlGpmMetric_t");
struct nvml_gpm_request {
    uint32_t version, n;
    nvml_gpm_sample older, newer;
    struct nvml_gpm_metric metrics[NVML_GPM_MAX_METRICS];
};
static_assert(sizeof(struct nvml_gpm_request) == 13344, "nvmlGpmMetricsGet_t");

// --- loaded library ---
//
// One function pointer per call, NULL if the library does not export it.

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
