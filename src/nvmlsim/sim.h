// SPDX-License-Identifier: Apache-2.0
// Control of the simulated GPUs: create the devices in POSIX shared memory, look at them, break
// them. The simulated libnvidia-ml and the client library (client.h) attach to the same memory by
// the name in the environment variable GPUSCALE_SIM ("/gpuscale-…").
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SIM_MAX_GPUS 16
#define SIM_MAX_MIG  7
#define SIM_ENV      "GPUSCALE_SIM"
#define SIM_UID_ENV  "GPUSCALE_SIM_UID"       // the other user whose GPUs root may use
#define SIM_LIBRARY  "libgpuscale-nvmlsim.so" // file name of the simulated libnvidia-ml

struct sim_mig_spec {
    char profile[24]; // "1g.10gb"
};

struct sim_gpu_spec {
    char model[64];       // "A100-SXM4-80GB": a row of the model table, or any name with memory_mib
    uint64_t memory_mib;  // 0: the model's
    unsigned time_slices; // replicas offered to the scheduler; 0 or 1: whole
    struct sim_mig_spec mig[SIM_MAX_MIG];
    unsigned n_mig; // 0: MIG off
};

struct sim_spec {
    struct sim_gpu_spec gpus[SIM_MAX_GPUS];
    unsigned n_gpus;
};

// "8xA100-SXM4-80GB", "2xTesla-K80,1xTesla-T4". An unknown model lists the known ones.
struct gs_error *sim_spec_parse(const char *text, struct sim_spec *ret);
// Sets a model by name (memory_mib first, when the model is not a known one), adds `count` such
// GPUs.
struct gs_error *sim_gpu_spec_set_model(struct sim_gpu_spec *g, const char *name);
// Whether such a GPU can be made: model and memory size, MIG profiles that fit.
struct gs_error *sim_gpu_spec_check(const struct sim_gpu_spec *g);
struct gs_error *sim_spec_add(struct sim_spec *spec, const struct sim_gpu_spec *gpu,
                              unsigned count);
// The models that need no memory size, for help texts; NULL-terminated.
const char *const *sim_model_names(void);

struct sim; // attached shared memory

// name starts with "/gpuscale-". Replaces an old segment of that name when no process is attached
// to it; GS_EEXIST otherwise. The same name gives the same UUIDs.
struct gs_error *sim_create(const char *name, const struct sim_spec *spec, struct sim **ret);
struct gs_error *sim_attach(const char *name, struct sim **ret);
void sim_detach(struct sim *s);
struct gs_error *sim_unlink(const char *name); // who is attached keeps what he has
const char *sim_name(const struct sim *s);
// Names of the segments of this machine; the caller frees each and the array with free().
struct gs_error *sim_list(char ***ret_names, size_t *ret_n);

unsigned sim_gpu_count(const struct sim *s);
struct sim_gpu_info {
    char uuid[96], model[64], pci_bus_id[32];
    char product[96]; // what NVML calls it: "NVIDIA A100-SXM4-80GB"
    // Bytes. used: what processes have allocated; reserved: what the driver keeps for itself.
    uint64_t memory_total, memory_used, memory_reserved;
    unsigned time_slices;
    unsigned n_mig;
    char mig_uuid[SIM_MAX_MIG][96];
    char mig_profile[SIM_MAX_MIG][24];
    uint64_t mig_memory_total[SIM_MAX_MIG], mig_memory_used[SIM_MAX_MIG];
    unsigned util_percent; // last full second; with MIG the part of all SMs
    unsigned power_mw, temp_c;
    unsigned n_processes; // that have it open
    unsigned last_xid;    // 0: none
    bool lost;
};
void sim_gpu_info(struct sim *s, unsigned gpu, struct sim_gpu_info *ret);

// Faults, for tests. call: an NVML symbol, or "*". gpu -1: all (calls that have no device match
// only then). count 0: until cleared. A later rule for the same call and GPU replaces the earlier
// one.
struct gs_error *sim_fail_call(struct sim *s, const char *call, int gpu, int nvml_code,
                               unsigned count);
struct gs_error *sim_hang_call(struct sim *s, const char *call, int gpu, unsigned ms,
                               unsigned count);
struct gs_error *sim_lose_gpu(struct sim *s, unsigned gpu, bool lost);
struct gs_error *sim_report_xid(struct sim *s, unsigned gpu, unsigned xid);
// What a board says of itself, instead of what is well: the field of nvmlDeviceGetFieldValues with
// that id (counters of errors, NVLink 5, recovery action …), or one of these.
enum sim_value {
    SIM_VALUE_LINKS_DOWN = 0x10000, // bits of NVLinks
    SIM_VALUE_FABRIC_STATE,         // nvmlGpuFabricInfo state
    SIM_VALUE_FABRIC_STATUS,        // an NVML code
    SIM_VALUE_FABRIC_HEALTH,        // its mask
    SIM_VALUE_UNREPAIRABLE,         // 0 or 1
    SIM_VALUE_FABRIC_CLIQUE,
    SIM_VALUE_SRAM_EXCEEDED, // 0 or 1
    SIM_VALUE_BANKS_NONE,    // memory banks that have no spare row left
    SIM_VALUE_DRIVER_BRANCH, // 590: the driver calls itself 590.48.01; of GPU 0, for all
};
struct gs_error *sim_set_value(struct sim *s, unsigned gpu, uint32_t what, uint64_t value);
// "links-down", "fabric-state", "driver-branch" and the like, or the number of a field.
struct gs_error *sim_value_parse(const char *text, uint32_t *ret);
// Failing and hanging calls, and set values; lost GPUs stay lost.
void sim_clear_faults(struct sim *s);
// "15", "GPU_IS_LOST" or "NVML_ERROR_GPU_IS_LOST".
struct gs_error *sim_nvml_code_parse(const char *text, int *ret);
