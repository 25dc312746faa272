// SPDX-License-Identifier: Apache-2.0
// What a GPU reports, per field with its validity. A back end (NVML, real or simulated) fills
// snapshots; the exporter reads them. A field that the driver does not give is invalid with a
// reason, never 0.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_MAX_DEVICES   32
#define GPU_MAX_PROCESSES 256 // per device
#define GPU_MAX_INSTANCES 8   // MIG devices of one GPU
#define GPU_NO_INSTANCE   UINT32_MAX

// One row a field: NAME of DCGM, its numeric id, Prometheus type, help. The order is by id, which
// is the order of output.
#define GPU_FIELDS(X)                                                                              \
    X(SM_CLOCK, "DCGM_FI_DEV_SM_CLOCK", 100, "gauge", "SM clock frequency (in MHz).")              \
    X(MEM_CLOCK, "DCGM_FI_DEV_MEM_CLOCK", 101, "gauge", "Memory clock frequency (in MHz).")        \
    X(MEMORY_TEMP, "DCGM_FI_DEV_MEMORY_TEMP", 140, "gauge", "Memory temperature (in C).")          \
    X(GPU_TEMP, "DCGM_FI_DEV_GPU_TEMP", 150, "gauge", "GPU temperature (in C).")                   \
    X(POWER_USAGE, "DCGM_FI_DEV_POWER_USAGE", 155, "gauge", "Power draw (in W).")                  \
    X(TOTAL_ENERGY, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 156, "counter",                        \
      "Total energy consumption since the driver was loaded (in mJ).")                             \
    X(PCIE_REPLAY, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 202, "counter", "Number of PCIe retries.")   \
    X(GPU_UTIL, "DCGM_FI_DEV_GPU_UTIL", 203, "gauge", "GPU utilization (in %).")                   \
    X(MEM_COPY_UTIL, "DCGM_FI_DEV_MEM_COPY_UTIL", 204, "gauge", "Memory utilization (in %).")      \
    X(ENC_UTIL, "DCGM_FI_DEV_ENC_UTIL", 206, "gauge", "Encoder utilization (in %).")               \
    X(DEC_UTIL, "DCGM_FI_DEV_DEC_UTIL", 207, "gauge", "Decoder utilization (in %).")               \
    X(XID_ERRORS, "DCGM_FI_DEV_XID_ERRORS", 230, "gauge", "Value of the last XID error.")          \
    X(FB_FREE, "DCGM_FI_DEV_FB_FREE", 251, "gauge", "Framebuffer memory free (in MiB).")           \
    X(FB_USED, "DCGM_FI_DEV_FB_USED", 252, "gauge", "Framebuffer memory used (in MiB).")           \
    X(FB_RESERVED, "DCGM_FI_DEV_FB_RESERVED", 253, "gauge",                                        \
      "Framebuffer memory reserved (in MiB).")                                                     \
    X(UNCORRECTABLE_REMAPPED, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 393, "counter",           \
      "Number of rows remapped for uncorrectable errors.")                                         \
    X(CORRECTABLE_REMAPPED, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 394, "counter",               \
      "Number of rows remapped for correctable errors.")                                           \
    X(ROW_REMAP_FAILURE, "DCGM_FI_DEV_ROW_REMAP_FAILURE", 395, "gauge",                            \
      "Whether remapping of rows has failed.")                                                     \
    X(NVLINK_BANDWIDTH, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 449, "counter",                      \
      "NVLink bandwidth over all lanes.")                                                          \
    X(VGPU_LICENSE, "DCGM_FI_DEV_VGPU_LICENSE_STATUS", 526, "gauge", "vGPU license status.")

enum gpu_field {
#define GPU_FIELD_ENUM(sym, name, id, type, help) GPU_F_##sym,
    GPU_FIELDS(GPU_FIELD_ENUM)
#undef GPU_FIELD_ENUM
        GPU_F_COUNT
};

enum gpu_validity {
    GPU_UNKNOWN, // not read yet
    GPU_VALID,
    GPU_NOT_SUPPORTED, // the device or driver does not have it
    GPU_NO_PERMISSION,
    GPU_LOST,
    GPU_FAILED, // the call failed otherwise
};

struct gpu_value {
    enum gpu_validity validity;
    bool is_double; // else integer
    union {
        double d;
        int64_t i;
    };
};

// Per-process reading of the last interval.
struct gpu_process {
    uint32_t pid;
    bool has_memory, has_util;
    uint64_t memory_bytes;
    uint32_t sm_util, mem_util, enc_util, dec_util; // percent of the interval
    uint32_t gpu_instance;                          // GPU_NO_INSTANCE outside MIG
    bool compute, graphics; // which lists name it; neither: seen in the utilisation records only
};

// A MIG device. What is not here (clocks, temperatures, power …) is the parent's.
struct gpu_instance {
    uint32_t gpu_instance_id, compute_instance_id;
    char uuid[96];         // "MIG-…"
    char profile[32];      // "1g.10gb"; "" when unknown
    uint64_t memory_total; // bytes, 0: unknown
    struct gpu_value fb_free, fb_used, fb_reserved;
};

struct gpu_device {
    uint32_t index; // NVML index
    uint32_t minor; // /dev/nvidia<minor>
    bool has_minor;
    char uuid[96];
    char name[96];
    char pci_bus_id[32];
    uint64_t memory_total; // bytes, 0: unknown
    bool lost;
    struct gpu_value fields[GPU_F_COUNT];
    bool processes_valid;           // false: the driver gives no process list here
    enum gpu_validity process_util; // whether it tells who of them was how active
    struct gpu_process *processes;
    size_t n_processes;
    struct gpu_instance *instances; // empty: MIG is off, or no instance was made
    size_t n_instances;
};

// How often an NVML call has failed since the back end was opened. What a device lacks (not
// supported, function not found) and what is no failure (nobody active, no event) is not counted.
struct gpu_call_errors {
    const char *call; // NVML symbol, static
    int code;         // nvmlReturn_t
    uint64_t count;
};
const char *gpu_nvml_error_name(int code); // "GPU_IS_LOST"; never NULL

// One sampling pass over all devices.
struct gpu_snapshot {
    int64_t unix_ms;     // when the pass ended
    int64_t duration_us; // how long the pass took
    bool simulated;
    char driver_version[80];
    struct gpu_device *devices;
    size_t n_devices;
    struct gpu_call_errors *errors;
    size_t n_errors;
};
void gpu_snapshot_free(struct gpu_snapshot *s);

struct gpu_field_info {
    const char *name, *type, *help;
    int id;
};
const struct gpu_field_info *gpu_field_info(enum gpu_field f);
const char *gpu_field_name(enum gpu_field f);
const char *gpu_validity_text(enum gpu_validity v); // "not supported", …

// --- back end ---
struct gpu_backend;

struct gpu_backend_config {
    const char *library; // path; NULL: the search order of docs (driver's libnvidia-ml.so.1)
    bool simulated_only; // refuse a library that is not the simulated one
};

// Loads NVML and initialises it. GS_ENOTFOUND when there is no library; the text says where it
// looked. Everything below may block as long as the driver blocks: call it on a thread of its own.
// A pass asks each GPU about 15 things. Slow in real drivers: the process lists and the per-process
// utilisation (milliseconds each, they walk the clients). PCIe throughput (20 ms a call) is not
// read.
struct gs_error *gpu_backend_open(const struct gpu_backend_config *cfg, struct gpu_backend **ret);
void gpu_backend_close(struct gpu_backend *b);
GS_DEFINE_CLEANUP(struct gpu_backend *, gpu_backend_close)
bool gpu_backend_simulated(const struct gpu_backend *b); // it exports gpuscaleNvmlIsSimulated
// Reads everything once, enumerating anew, so that GPUs may come and go. A GPU that is lost is
// listed with `lost` set; an error means that NVML as a whole gave nothing. After the driver was
// unloaded or replaced, a later call opens it again.
struct gs_error *gpu_backend_sample(struct gpu_backend *b, struct gpu_snapshot **ret);
