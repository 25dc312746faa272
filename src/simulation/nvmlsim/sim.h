// SPDX-License-Identifier: Apache-2.0
// Control of the simulated GPUs: creates the devices in POSIX shared memory, inspects them, and
// injects faults. The simulated libnvidia-ml and the client library (client.h) attach to the same
// memory by the name in the environment variable GPUSCALE_SIM ("/gpuscale-…"). One thread at a time
// per struct nvmlsim.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define NVMLSIM_MAX_GPUS     16
#define NVMLSIM_MAX_MIG      7
#define NVMLSIM_MAX_SWITCHES 12
#define NVMLSIM_MAX_CPUS     8
#define NVMLSIM_MAX_CORES    1024 // of all CPUs
#define NVMLSIM_ENV          "GPUSCALE_SIM"
#define NVMLSIM_UID_ENV      "GPUSCALE_SIM_UID" // UID of another user whose GPUs root may use
// The versions of the simulated driver: 570.124.06-simulated with CUDA 12.8.
#define NVMLSIM_DRIVER_BRANCH 570
#define NVMLSIM_DRIVER_MINOR  "124.06-simulated"
#define NVMLSIM_CUDA_VERSION  12080                    // 1000 major + 10 minor
#define NVMLSIM_LIBRARY       "libgpuscale-nvmlsim.so" // file name of the simulated libnvidia-ml

struct nvmlsim_mig_spec {
    char profile[24]; // "1g.10gb"
};

struct nvmlsim_gpu_spec {
    char model[64];      // "A100-SXM4-80GB": a model of the table, or any name if memory_mib is set
    uint64_t memory_mib; // 0: the memory of the model
    unsigned time_slices; // replicas offered to the scheduler; 0 or 1: whole
    bool slices_renamed;  // as another resource: renameByDefault of NVIDIA's device plug-in
    bool slices_single;   // a container gets at most one: its failRequestsGreaterThanOne
    struct nvmlsim_mig_spec mig[NVMLSIM_MAX_MIG];
    unsigned n_mig; // 0: MIG off
};

struct nvmlsim_spec {
    struct nvmlsim_gpu_spec gpus[NVMLSIM_MAX_GPUS];
    unsigned n_gpus;
    unsigned switches;    // NVSwitches
    unsigned cpus, cores; // CPUs that DCGM reports, and the cores of each
};

// Parses "8xA100-SXM4-80GB" or "2xTesla-K80,1xTesla-T4". The error for an unknown model lists all
// models.
struct gs_error *nvmlsim_spec_parse(const char *text, struct nvmlsim_spec *ret);
// Sets the model by name. If the model is not in the table, set memory_mib first.
struct gs_error *nvmlsim_gpu_spec_set_model(struct nvmlsim_gpu_spec *g, const char *name);
// Checks that such a GPU can be created: model, memory size, MIG profiles that fit.
struct gs_error *nvmlsim_gpu_spec_check(const struct nvmlsim_gpu_spec *g);
struct gs_error *nvmlsim_spec_add(struct nvmlsim_spec *spec, const struct nvmlsim_gpu_spec *gpu,
                                  unsigned count);
// The models that need no memory size, for help texts. NULL-terminated.
const char *const *nvmlsim_model_names(void);

struct nvmlsim; // attached shared memory

// name starts with "/gpuscale-". Replaces an existing segment if no process is attached to it;
// otherwise GS_EEXIST. The same name results in the same UUIDs.
struct gs_error *nvmlsim_create(const char *name, const struct nvmlsim_spec *spec,
                                struct nvmlsim **ret);
struct gs_error *nvmlsim_attach(const char *name, struct nvmlsim **ret);
void nvmlsim_detach(struct nvmlsim *s);
// Deletes the segments of this user whose name begins with prefix and that no process has open, as
// a killed program leaves them.
void nvmlsim_remove_unused(const char *prefix);
struct gs_error *nvmlsim_unlink(const char *name); // attached processes keep their devices
const char *nvmlsim_name(const struct nvmlsim *s);
// Lists the segments of this machine. The caller frees each name and the array with free().
struct gs_error *nvmlsim_list(char ***ret_names, size_t *ret_n);

unsigned nvmlsim_gpu_count(const struct nvmlsim *s);
struct nvmlsim_gpu_info {
    char uuid[96], model[64], pci_bus_id[32];
    char product[96]; // what NVML calls it: "NVIDIA A100-SXM4-80GB"
    // Bytes. used: allocated by processes; reserved: by the driver.
    uint64_t memory_total, memory_used, memory_reserved;
    unsigned time_slices;
    bool slices_renamed, slices_single; // as in struct nvmlsim_gpu_spec
    unsigned n_mig;
    char mig_uuid[NVMLSIM_MAX_MIG][96];
    char mig_profile[NVMLSIM_MAX_MIG][24];
    uint64_t mig_memory_total[NVMLSIM_MAX_MIG], mig_memory_used[NVMLSIM_MAX_MIG];
    unsigned util_percent; // last full second; with MIG the part of all SMs
    unsigned power_mw, temp_c;
    unsigned n_processes; // that have it open
    unsigned last_xid;    // 0: none
    bool lost;
};
void nvmlsim_gpu_info(struct nvmlsim *s, unsigned gpu, struct nvmlsim_gpu_info *ret);

// Injects faults. call: an NVML symbol, "*" for all of NVML, a DCGM symbol, or "dcgm*" for all of
// DCGM. gpu -1: all GPUs, and calls without a device, as those of DCGM. count 0: until cleared. A
// new rule replaces the previous one for the same call and GPU. code: above 0 for NVML, below 0 for
// DCGM.
struct gs_error *nvmlsim_fail_call(struct nvmlsim *s, const char *call, int gpu, int code,
                                   unsigned count);
// A call of DCGM ends the process that makes it.
struct gs_error *nvmlsim_crash_call(struct nvmlsim *s, const char *call, unsigned count);
struct gs_error *nvmlsim_hang_call(struct nvmlsim *s, const char *call, int gpu, unsigned ms,
                                   unsigned count);
struct gs_error *nvmlsim_lose_gpu(struct nvmlsim *s, unsigned gpu, bool lost);
struct gs_error *nvmlsim_report_xid(struct nvmlsim *s, unsigned gpu, unsigned xid);
// Values that differ from those of a healthy board: a field ID of nvmlDeviceGetFieldValues (error
// counters, NVLink 5, recovery action …), or one of these.
enum nvmlsim_value {
    NVMLSIM_VALUE_LINKS_DOWN = 0x10000, // bitmask of NVLinks
    NVMLSIM_VALUE_FABRIC_STATE,         // nvmlGpuFabricInfo state
    NVMLSIM_VALUE_FABRIC_STATUS,        // an NVML code
    NVMLSIM_VALUE_FABRIC_HEALTH,        // health mask
    NVMLSIM_VALUE_UNREPAIRABLE,         // 0 or 1
    NVMLSIM_VALUE_FABRIC_CLIQUE,
    NVMLSIM_VALUE_SRAM_EXCEEDED, // 0 or 1
    NVMLSIM_VALUE_BANKS_NONE,    // memory banks without a spare row
    NVMLSIM_VALUE_DRIVER_BRANCH, // 590: driver version 590.48.01; set on GPU 0 for all GPUs
};
struct gs_error *nvmlsim_set_value(struct nvmlsim *s, unsigned gpu, uint32_t what, uint64_t value);
// Parses "links-down", "fabric-state", "driver-branch" and so on, or a field ID.
struct gs_error *nvmlsim_value_parse(const char *text, uint32_t *ret);
// Removes failing, hanging and crashing calls, set values, dead counters and another owner of the
// counters. Lost GPUs stay lost.
void nvmlsim_clear_faults(struct nvmlsim *s);
// Parses "15", "GPU_IS_LOST" or "NVML_ERROR_GPU_IS_LOST".
struct gs_error *nvmlsim_nvml_code_parse(const char *text, int *ret);
// Parses "-37", an error code of DCGM.
struct gs_error *nvmlsim_dcgm_code_parse(const char *text, int *ret);

// The host engine of DCGM (nv-hostengine) as programs see it that connect to it. It does not run in
// a new set. Embedded engines do not need it.
enum nvmlsim_engine_action {
    NVMLSIM_ENGINE_START,
    NVMLSIM_ENGINE_STOP,    // connections are lost
    NVMLSIM_ENGINE_RESTART, // connections are lost, their groups and watches too
    NVMLSIM_ENGINE_PAUSE,   // profiling values are blank, as after dcgmProfPause
    NVMLSIM_ENGINE_RESUME,
};
struct gs_error *nvmlsim_engine_action_parse(const char *text, enum nvmlsim_engine_action *ret);
void nvmlsim_engine_control(struct nvmlsim *s, enum nvmlsim_engine_action action);
// Another program than DCGM has the profiling counters of the GPUs before Hopper.
void nvmlsim_own_counters(struct nvmlsim *s, bool owned);
// The profiling counters of a GPU count nothing.
struct gs_error *nvmlsim_kill_counters(struct nvmlsim *s, unsigned gpu, bool dead);
