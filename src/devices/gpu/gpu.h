// SPDX-License-Identifier: Apache-2.0
// What a GPU reports: a value and its validity per field. The back end (NVML, real or simulated)
// creates snapshots and the exporter reads them. A field that the driver does not provide is
// invalid with a reason, never 0.
#pragma once

#include "base/error.h"
#include "gpu/field_table.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_MAX_DEVICES   32
#define GPU_MAX_PROCESSES 256 // per device
#define GPU_MAX_INSTANCES 8   // MIG devices of one GPU
#define GPU_NO_INSTANCE   UINT32_MAX

enum gpu_kind { GPU_INTEGER, GPU_DOUBLE, GPU_TEXT };

// What one step of sampling reads.
enum gpu_group {
    GPU_G_SYSTEM,
    GPU_G_IDENTITY,
    GPU_G_MODES,
    GPU_G_BAR1,
    GPU_G_CLOCKS,
    GPU_G_SET_CLOCKS,
    GPU_G_EVENT_REASONS,
    GPU_G_VALUES,
    GPU_G_TEMPERATURE,
    GPU_G_TEMP_LIMITS,
    GPU_G_MARGIN,
    GPU_G_POWER,
    GPU_G_ENERGY,
    GPU_G_POWER_LIMITS,
    GPU_G_STATE,
    GPU_G_PCIE_THROUGHPUT,
    GPU_G_PCIE_REPLAY,
    GPU_G_UTILIZATION,
    GPU_G_CODECS,
    GPU_G_XID,
    GPU_G_PCIE_LINK,
    GPU_G_MEMORY,
    GPU_G_REMAP,
    GPU_G_REMAP_BANKS,
    GPU_G_SRAM,
    GPU_G_NVLINK,
    GPU_G_P2P,
    GPU_G_LICENSE,
    GPU_G_INFOROM,
    GPU_G_FABRIC,
    GPU_G_REPAIR,
    GPU_G_LINK_STATE,
    GPU_G_GPM,
    GPU_G_COUNT
};

enum gpu_field {
#define GPU_FIELD_ENUM(sym, name, id, kind, group, type, unit, source, help) GPU_F_##sym,
    GPU_FIELDS(GPU_FIELD_ENUM)
#undef GPU_FIELD_ENUM
        GPU_F_COUNT
};

// Fields of GPUs with GPM and of their MIG devices. They are consecutive.
#define GPU_F_PROF_FIRST GPU_F_PROF_GR_ENGINE_ACTIVE
#define GPU_F_PROF_END   GPU_F_NVLINK5_TX_PACKETS
enum { GPU_PROF_COUNT = GPU_F_PROF_END - GPU_F_PROF_FIRST };

enum gpu_validity {
    GPU_UNKNOWN, // not read yet
    GPU_VALID,
    GPU_NOT_SUPPORTED, // the device or driver does not provide it
    GPU_NO_PERMISSION,
    GPU_LOST,
    GPU_FAILED, // the call failed for another reason
    GPU_HUNG,   // a call for this device has not returned
};

struct gpu_value {
    enum gpu_validity validity;
    bool is_double; // otherwise an integer
    union {
        double d;
        int64_t i;
    };
};

// Usage of one process over the last interval.
struct gpu_process {
    uint32_t pid;
    bool has_memory, has_util;
    uint64_t memory_bytes;
    uint32_t sm_util, mem_util, enc_util, dec_util; // percent of the interval
    uint32_t gpu_instance, compute_instance;        // GPU_NO_INSTANCE outside MIG
    bool compute, graphics; // the lists that contain it; neither: only in the utilization records
    bool mps;               // a client of the MPS server
    // Not measured by the driver, but a part of the device's value.
    bool util_estimated, memory_estimated;
};

// Memory of a GPU or a MIG device.
struct gpu_memory_values {
    struct gpu_value total, free, used, reserved; // MiB
    struct gpu_value used_ratio;                  // 0 to 1
    struct gpu_value total_bytes, free_bytes, used_bytes, reserved_bytes;
};

// A MIG device. Other fields (clocks, temperatures, power …) are those of the parent.
struct gpu_instance {
    uint32_t gpu_instance_id, compute_instance_id;
    bool divided;          // the GPU instance has several compute instances that share its memory
    char uuid[96];         // "MIG-…"
    char profile[32];      // "1g.10gb"; "" if unknown
    uint64_t memory_total; // bytes, 0: unknown
    struct gpu_memory_values fb;
    struct gpu_value prof[GPU_PROF_COUNT]; // starting at GPU_F_PROF_FIRST
};

// Whether two GPUs can use NVLink peer to peer: nvmlGpuP2PStatus_t.
enum gpu_p2p {
    GPU_P2P_OK,
    GPU_P2P_CHIPSET_NOT_SUPPORTED,
    GPU_P2P_GPU_NOT_SUPPORTED,
    GPU_P2P_TOPOLOGY_NOT_SUPPORTED,
    GPU_P2P_DISABLED,
    GPU_P2P_NOT_SUPPORTED,
    GPU_P2P_UNKNOWN,
    GPU_P2P_NONE = 255, // not queried: the GPU itself, or no GPU has this index
};

// The text fields of a device.
enum gpu_text {
    GPU_T_BRAND,
    GPU_T_SERIAL,
    GPU_T_OEM_INFOROM,
    GPU_T_ECC_INFOROM,
    GPU_T_POWER_INFOROM,
    GPU_T_INFOROM_IMAGE,
    GPU_T_VBIOS,
    GPU_T_CLUSTER, // of the NVLink fabric; read separately from the others
    GPU_T_COUNT
};
enum { GPU_TEXT_SIZE = 64 };

enum {
    GPU_MAX_XIDS = 64,    // maximum per device within the window
    GPU_CLOCK_EVENTS = 9, // bits of CLOCKS_EVENT_REASONS
};
struct gpu_xid_count {
    uint32_t xid, count; // count within the window
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
    bool hung;       // driver calls for it do not return; its fields are GPU_HUNG
    int64_t mono_ns; // when its values were read
    struct gpu_value fields[GPU_F_COUNT]; // of a text field only the validity is set
    char texts[GPU_T_COUNT][GPU_TEXT_SIZE];
    // Events stay valid when the GPU is lost or hangs.
    struct gpu_xid_count xids[GPU_MAX_XIDS]; // valid if XID_ERRORS is
    size_t n_xids;
    // since the GPU was found; also valid if XID_ERRORS is
    struct gpu_xid_count xid_totals[GPU_MAX_XIDS];
    size_t n_xid_totals;
    bool has_clock_events;                   // the reasons were read at least once
    uint32_t clock_events[GPU_CLOCK_EVENTS]; // samples of the window with the bit; not of a GPU
                                             // that hangs
    uint64_t clock_totals[GPU_CLOCK_EVENTS]; // how often the bit changed to 1
    uint8_t p2p[GPU_MAX_DEVICES];            // enum gpu_p2p by index; valid if NVLINK_P2P is
    int64_t processes_ns;                    // gs_mono_ns before the processes were listed
    bool processes_valid;                    // false: the driver provides no process list
    enum gpu_validity process_util; // whether the driver reports the utilization of each process
    struct gpu_process *processes;
    size_t n_processes;
    struct gpu_instance *instances; // empty: MIG is off, or no instance exists
    size_t n_instances;
};

// How often an NVML call has failed since the back end was opened. Missing capabilities (not
// supported, function not found) and normal results (no active process, no event) are not counted.
struct gpu_call_errors {
    const char *call; // NVML symbol, static
    int code;         // nvmlReturn_t
    uint64_t count;
};
// Calls and their total duration since the back end was opened.
struct gpu_call_time {
    const char *call; // NVML symbol, static
    uint64_t count;
    int64_t ns;
};
const char *gpu_nvml_error_name(int code); // "GPU_IS_LOST"; never NULL

// One sample of all devices.
struct gpu_snapshot {
    int64_t unix_ms;     // when sampling ended
    int64_t duration_us; // duration of sampling
    bool simulated;
    char driver_version[80], nvml_version[80];
    int32_t cuda_version; // 1000 major + 10 minor; 0: unknown
    enum gpu_validity cuda_validity;
    struct gpu_device *devices;
    size_t n_devices;
    // GPUs that the driver counts but cannot open, or has not opened yet; they are not in devices
    size_t n_unopened;
    int unopened_code; // nvmlReturn_t of one of them
    struct gpu_call_errors *errors;
    size_t n_errors;
    struct gpu_call_time *calls;
    size_t n_calls;
};
void gpu_snapshot_free(struct gpu_snapshot *s);

struct gpu_field_info {
    const char *name, *type, *unit, *source, *help;
    int id;
    enum gpu_kind kind;
    enum gpu_group group;
};
// The value of a MIG device itself. NULL: the field belongs to the parent GPU.
const struct gpu_value *gpu_instance_value(const struct gpu_instance *i, enum gpu_field f);
// The value of a text field. NULL: not available.
const char *gpu_field_text(const struct gpu_snapshot *s, const struct gpu_device *d,
                           enum gpu_field f);
// Finds a field by its name, for fields of DCGM by that of any release. GPU_F_COUNT: NVML does not
// provide it.
enum gpu_field gpu_field_by_name(const char *name);
enum gpu_field gpu_field_by_id(int id); // GPU_F_COUNT: NVML does not provide it
// Whether DCGM has a field of this name that NVML does not provide.
bool gpu_field_is_dcgm_only(const char *name);
const struct gpu_field_info *gpu_field_info(enum gpu_field f);
const char *gpu_field_name(enum gpu_field f);
const char *gpu_validity_text(enum gpu_validity v); // "not supported", …

// A bit error rate of NVLink 5 in NVML's encoding. Mantissa 15 with exponent 255: no rate.
struct gpu_ber {
    unsigned mantissa, exponent;
    double ratio; // mantissa / 10^exponent
};
struct gpu_ber gpu_nvlink_ber(uint64_t encoded);

// --- back end ---
struct gpu_backend;

// State of the driver at the last attempt to use it.
enum gpu_driver {
    GPU_DRIVER_UP,
    GPU_DRIVER_NO_LIBRARY,
    GPU_DRIVER_NOT_LOADED,    // the kernel module is not loaded (yet)
    GPU_DRIVER_MISMATCH,      // library and kernel module are of different versions
    GPU_DRIVER_NO_PERMISSION, // no access to the device nodes
    GPU_DRIVER_NO_GPU,        // the driver works, but finds no GPU
    GPU_DRIVER_NO_DEVICE,     // the same, and the machine has no NVIDIA GPU
    GPU_DRIVER_FAILED,        // the driver returns another error
    GPU_DRIVER_STATES
};
const char *gpu_driver_name(enum gpu_driver d); // "library_not_found"; "up"

struct gpu_backend_config {
    const char *library; // path; NULL: the default search order (see nvml.c)
    const char *sys;     // the host's /sys, for GPU_DRIVER_NO_DEVICE; NULL: "/sys"
    bool simulated_only; // refuse a library that is not the simulated one
    const bool *wanted;  // GPU_F_COUNT elements, copied; NULL: all fields except slow ones
    // GPU_F_COUNT elements, copied: the interval at which a field is read. It keeps its value in
    // between. Fields of the same driver call are read together. 0 or NULL: in each sample.
    const int64_t *every_ns;
    int64_t pass_ns;       // interval between samples, for every_ns
    bool max_util;         // GPU_UTIL is the maximum of the interval's samples instead of the mean
    int64_t patience_ns;   // how long sampling waits for a device; 0: 1 s
    int64_t hung_after_ns; // a device that does not respond for this time is hung; 0: 10 s
    int64_t xid_window_ns; // of gpu_device.xids; 0: 5 min
    int64_t clock_window_ns; // of gpu_device.clock_events; 0: 5 min
};

// Loads and initializes NVML. GS_ENOTFOUND: no library was found; the text lists the searched
// paths. The functions below block while the driver blocks: call them on a separate thread, one
// thread at a time unless stated otherwise. A sample takes about 15 calls per GPU. Slow calls of
// real drivers are the process lists and the per-process utilization (milliseconds each,
// proportional to the number of clients). PCIe throughput (20 ms per call) is not read.
struct gs_error *gpu_backend_open(const struct gpu_backend_config *cfg, struct gpu_backend **ret);
// The same, but does not need a driver yet: the samples try to open it.
struct gpu_backend *gpu_backend_new(const struct gpu_backend_config *cfg);
enum gpu_driver gpu_backend_driver(const struct gpu_backend *b);
// False if a thread hangs in the driver: its memory and the library are not freed.
bool gpu_backend_stop(struct gpu_backend *b);
void gpu_backend_close(struct gpu_backend *b);
GS_DEFINE_CLEANUP(struct gpu_backend *, gpu_backend_close)
// Changes the fields to read from the next sample on, as in gpu_backend_config. Any thread may call
// it.
void gpu_backend_want(struct gpu_backend *b, const bool *wanted, const int64_t *every_ns);
// Takes one sample. Enumerates the devices each time, because GPUs may appear and disappear. A lost
// GPU is listed with `lost` set. One that was known and cannot be identified for up to
// `hung_after_ns` keeps its names and has no values. An error means that NVML as a whole provided
// nothing. If the driver was unloaded or replaced, a later call opens it again.
struct gs_error *gpu_backend_sample(struct gpu_backend *b, struct gpu_snapshot **ret);
