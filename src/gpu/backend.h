// SPDX-License-Identifier: Apache-2.0
// Inside of the NVML back end: what is remembered between passes, and the steps of a pass. One
// thread.
#pragma once

#include "gpu/gpu.h"
#include "gpu/nvml.h"

// Remembered of a GPU from pass to pass, so that one that is lost still has its name, and rates and
// windows know where the last pass ended. Found by UUID: indices may shift.
struct known_device {
    bool used, seen; // seen: in the current pass
    uint32_t index;
    nvml_device handle;
    char uuid[96], name[96], pci_bus_id[32];
    uint32_t minor;
    bool has_minor;
    uint64_t memory_total;
    uint64_t util_seen_us;    // newest utilisation sample taken into account
    uint64_t process_seen_us; // when the last pass asked for per-process utilisation
    bool has_nvlink;
    uint64_t nvlink_kib;
    int64_t nvlink_mono_ns;
    bool xid_registered;
    enum gpu_validity xid_validity;
    uint64_t last_xid;
};

struct gpu_backend {
    struct gpu_backend_config cfg;
    char *library; // copy of cfg.library
    struct nvml nvml;
    bool ready; // loaded and initialised
    bool simulated;
    nvml_event_set events;
    struct known_device known[GPU_MAX_DEVICES];
    struct gpu_call_errors *errors;
    size_t n_errors, cap_errors;
    unsigned util_capacity; // records that the driver wanted room for so far; 0: not asked yet
    bool device_lost;       // a call of the device being read said GPU_IS_LOST
    void *scratch;          // lists of the driver, grown as needed
    size_t scratch_size;
};

// Books the outcome of a call; returns ret.
nvml_ret backend_note(struct gpu_backend *b, enum nvml_call call, nvml_ret ret);
enum gpu_validity backend_validity(nvml_ret ret);
void *backend_scratch(struct gpu_backend *b, size_t n, size_t size); // zeroed

// Calls NVML and books the outcome: NVML(b, name, handle, buf, sizeof(buf)).
#define NVML(b, member, ...)                                                                       \
    backend_note((b), NVML_CALL_##member,                                                          \
                 (b)->nvml.member ? (b)->nvml.member(__VA_ARGS__) : NVML_FUNCTION_NOT_FOUND)

// The steps. Each reads one device through `handle` into d; they stop early when it is lost.
void backend_read_fields(struct gpu_backend *b, struct known_device *k, struct gpu_device *d);
void backend_read_processes(struct gpu_backend *b, struct known_device *k, struct gpu_device *d);
// MIG devices of d, and their processes.
void backend_read_instances(struct gpu_backend *b, struct known_device *k, struct gpu_device *d);

// Memory of a GPU or MIG device, in MiB; *ret_total in bytes, untouched when unknown.
void backend_read_memory(struct gpu_backend *b, nvml_device handle, struct gpu_value *ret_free,
                         struct gpu_value *ret_used, struct gpu_value *ret_reserved,
                         uint64_t *ret_total);
// Adds what the process lists of `handle` hold to d; false when the driver gives no compute list.
bool backend_list_processes(struct gpu_backend *b, nvml_device handle, uint32_t gpu_instance,
                            struct gpu_device *d);

// Events: registers k when that is not yet done; takes what has happened into known[].last_xid.
void backend_watch_events(struct gpu_backend *b, struct known_device *k);
void backend_take_events(struct gpu_backend *b);
void backend_stop_events(struct gpu_backend *b);
