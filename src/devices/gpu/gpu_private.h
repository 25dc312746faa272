// SPDX-License-Identifier: Apache-2.0
// Private parts of the NVML back end. The sampling thread (the coordinator) makes only the calls
// that concern no single GPU. Each GPU is read by its own worker thread, so that hanging driver
// calls for one GPU do not delay the others.
#pragma once

#include "base/clock.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"

#include <pthread.h>
#include <stdatomic.h>

// State of one thread's NVML calls. One thread at a time.
struct gpu_reader {
    const struct nvml *nvml;
    const struct gpu_backend *backend; // only members that are constant after opening
    struct gpu_call_errors *errors;
    size_t n_errors, cap_errors;
    uint64_t calls[NVML_CALL_COUNT];
    int64_t call_ns[NVML_CALL_COUNT];
    int64_t started_ns;     // of the current call
    unsigned util_capacity; // largest number of records that the driver required; 0: not called yet
    // Copied when the job starts, because the back end's may change when this thread is late.
    nvml_event_set events;
    enum gpu_validity events_validity; // why `events` is NULL
    bool device_lost;                  // a call for the current device returned GPU_IS_LOST
    // For the current device: calls that returned a value, and calls that reported an absent
    // driver.
    unsigned answered, driverless;
    nvml_ret driverless_code;
    // What the current sample reads; only of a worker.
    bool due[GPU_F_COUNT], due_group[GPU_G_COUNT];
    void *scratch; // buffer for the driver's lists, grown as needed
    size_t scratch_size;
};

// Two samples of performance counters: of a GPU, or of the GPU instance of a MIG device.
struct gpu_gpm_slot {
    uint32_t gpu_instance; // GPU_NO_INSTANCE: the GPU itself
    bool used, seen;
    nvml_gpm_sample older, newer;
    int64_t older_ns; // 0: none yet
    // Values of the last interval: the two samples need a minimum distance, and sampling may be
    // faster.
    struct gpu_value last[GPU_PROF_COUNT];
};

enum { GPU_NVLINK_LINKS = 18, GPU_CLOCK_RING = 1024 };
struct gpu_nvlink_counter {
    bool valid;
    uint64_t kib;
    int64_t mono_ns;
};
enum gpu_nvlink_rate {
    GPU_NVLINK_BOTH,
    GPU_NVLINK_SENT,
    GPU_NVLINK_RECEIVED,
    GPU_NVLINK_BYTES, // both, in bytes
    GPU_NVLINK_RATES
};

// State of a GPU between samples: the name, for when it is lost, and where windows and rates
// continue. Identified by UUID, because indices may shift.
struct gpu_known_device {
    nvml_device handle;
    char uuid[96], name[96], pci_bus_id[32];
    int64_t identified_ns;  // when the driver confirmed it last; only of the coordinator
    bool named;             // the members up to texts were read
    unsigned named_version; // version of `wanted` at that time
    uint32_t minor;
    bool has_minor;
    char texts[GPU_T_COUNT][GPU_TEXT_SIZE];
    enum gpu_validity text_validity[GPU_T_COUNT];
    uint64_t memory_total;    // bytes
    uint64_t util_seen_us;    // newest utilization sample that was used
    uint64_t process_seen_us; // time of the last call for per-process utilization
    struct gpu_nvlink_counter links[GPU_NVLINK_RATES]
                                   [GPU_NVLINK_LINKS + 1]; // the last element is their sum
    enum gpu_validity gpm_validity;                        // GPU_UNKNOWN: not queried yet
    struct gpu_gpm_slot gpm[GPU_MAX_INSTANCES + 1];
    struct {
        int64_t mono_ns;
        uint16_t bits;
    } clocks[GPU_CLOCK_RING];
    size_t n_clocks, next_clock;
    bool has_clock_bits;
    uint16_t clock_bits; // of the newest sample
    uint64_t clock_totals[GPU_CLOCK_EVENTS];
    int64_t read_ns[GPU_F_COUNT]; // when a field was last due
    struct gpu_value kept[GPU_F_COUNT];
    // Changes only with the topology: read once a minute, or if the peers change.
    int64_t p2p_ns; // 0: never
    nvml_device p2p_peers[GPU_MAX_DEVICES];
    uint8_t p2p[GPU_MAX_DEVICES];
    struct gpu_value p2p_value;
    int64_t inforom_ns; // 0: never
    struct gpu_value inforom;
    int64_t links_ns; // 0: never
    struct gpu_value links_down;
    char cluster[GPU_TEXT_SIZE]; // of the fabric, as read last
    // Used only by the coordinator.
    bool xid_registered;
    bool xid_watched; // was registered once; from then on last_xid and the counts are complete
    enum gpu_validity xid_validity; // of the last registration
    uint64_t last_xid;
    struct {
        int64_t mono_ns;
        uint32_t xid;
    } xids[GPU_MAX_XIDS];
    size_t n_xids, next_xid;
    struct gpu_xid_count xid_totals[GPU_MAX_XIDS];
    size_t n_xid_totals;
};

enum gpu_job {
    GPU_JOB_NONE,
    GPU_JOB_IDENTIFY,
    GPU_JOB_READ,
    GPU_JOB_MAKE_EVENTS,
    GPU_JOB_TAKE_EVENTS
};

struct gpu_taken_event {
    nvml_device device;
    uint64_t xid;
};

// A worker thread. While `busy`, it owns the members after the blank line; otherwise the
// coordinator does.
struct gpu_worker {
    struct gpu_backend *backend;
    uint32_t index;
    pthread_t thread;
    bool started;
    pthread_cond_t posted; // a job, or the request to end
    enum gpu_job job;      // these three are protected by the lock
    bool busy, late;       // late: sampling did not wait for it any longer
    int64_t busy_since_ns;

    struct gpu_reader reader;
    struct gpu_known_device *known;     // NULL: no device found
    nvml_ret ret;                       // result of the job
    nvml_device handle;                 // of GPU_JOB_IDENTIFY
    nvml_device peers[GPU_MAX_DEVICES]; // by index, for GPU_JOB_READ; NULL: no device
    char uuid[NVML_TEXT_UUID];
    struct gpu_device *device; // of GPU_JOB_READ
    nvml_event_set made;       // of GPU_JOB_MAKE_EVENTS
    struct gpu_taken_event taken[64];
    size_t n_taken;

    struct gpu_device *last; // of the coordinator: the device of the previous sample
};

struct gpu_backend {
    struct gpu_backend_config cfg;
    // May change while workers read.
    atomic_bool wanted[GPU_F_COUNT], wants_group[GPU_G_COUNT];
    atomic_uint wanted_version;
    _Atomic int64_t every_ns[GPU_F_COUNT];
    atomic_uint driver_branch; // 580 of "580.65.06"; 0: unknown
    char *library, *sys;       // copies of cfg's
    struct nvml nvml;
    bool ready; // loaded and initialized
    enum gpu_driver driver;
    bool simulated;
    unsigned count; // devices, as the driver reported last
    int64_t counted_ns;
    char driver_version[NVML_TEXT_DRIVER_VERSION], nvml_version[80]; // "": not known yet
    nvml_event_set events;
    enum gpu_validity events_validity; // why `events` is NULL
    struct gpu_reader reader;          // the coordinator's
    struct gpu_worker *workers[GPU_MAX_DEVICES], *event_worker;

    pthread_mutex_t lock;
    pthread_cond_t done; // the last busy worker has finished, or a thread has ended
    bool ending;
    unsigned refs; // held by the owner and the threads
};

// Records the result and duration of a call; returns ret.
nvml_ret gpu_backend_note(struct gpu_reader *r, enum nvml_call call, nvml_ret ret);
enum gpu_validity gpu_backend_validity(nvml_ret ret);
bool gpu_backend_lacks_driver(nvml_ret ret); // only a new initialization helps
// Whether a call that failed may succeed at the next sample: what is known of a device stays.
// Memory, time and resources may be short for a moment; a missing driver or GPU is a state.
bool gpu_backend_may_pass(nvml_ret ret);
enum gpu_driver gpu_driver_of(nvml_ret ret); // the driver state that a failed call indicates
// False: the PCI bus and the device nodes show that the machine has no NVIDIA GPU.
bool gpu_machine_may_have_gpu(const char *sys);
// Makes a text of the driver safe to print: terminated, printable ASCII.
void gpu_backend_clean_text(char *text, size_t size);
void *gpu_backend_scratch(struct gpu_reader *r, size_t n, size_t size); // zeroed
bool gpu_backend_wants(const struct gpu_reader *r, enum gpu_field first, enum gpu_field last);

// Calls NVML and records the result: NVML(r, name, handle, buf, sizeof(buf)).
#define NVML(r, member, ...)                                                                       \
    ((r)->started_ns = gs_mono_ns(),                                                               \
     gpu_backend_note((r), NVML_CALL_##member,                                                     \
                      (r)->nvml->member ? (r)->nvml->member(__VA_ARGS__)                           \
                                        : NVML_FUNCTION_NOT_FOUND))

// --- values ---
struct gpu_value gpu_backend_invalid(nvml_ret ret);
struct gpu_value gpu_backend_integer(nvml_ret ret, uint64_t v);
struct gpu_value gpu_backend_double(nvml_ret ret, double v);

// --- steps: each reads part of one device into d, and ends early if the device is lost ---
void gpu_backend_read_identity(struct gpu_reader *r, struct gpu_known_device *k);
void gpu_backend_read_fields(struct gpu_reader *r, struct gpu_known_device *k,
                             struct gpu_device *d);
// How many samples of the window had each clock event reason, and how often each began. Also valid
// for a lost GPU.
void gpu_backend_fill_clock_events(const struct gpu_reader *r, const struct gpu_known_device *k,
                                   struct gpu_device *d);
void gpu_backend_read_values(struct gpu_reader *r, struct gpu_known_device *k,
                             struct gpu_device *d);
void gpu_backend_read_processes(struct gpu_reader *r, struct gpu_known_device *k,
                                struct gpu_device *d);
// Reads the MIG devices of d and their processes.
void gpu_backend_read_instances(struct gpu_reader *r, struct gpu_known_device *k,
                                struct gpu_device *d);
// Reads the performance counters of d and its MIG devices for the time since the last sample.
void gpu_backend_read_gpm(struct gpu_reader *r, struct gpu_known_device *k, struct gpu_device *d);
// Reads the NVLink peer-to-peer status with the other GPUs.
void gpu_backend_read_p2p(struct gpu_reader *r, struct gpu_known_device *k,
                          const nvml_device *peers, struct gpu_device *d);
// Reads the InfoROM checksum, unrepairable memory, the NVLink fabric, and links that are down.
void gpu_backend_read_integrity(struct gpu_reader *r, struct gpu_known_device *k,
                                struct gpu_device *d);
void gpu_backend_free_gpm(const struct nvml *nvml, struct gpu_known_device *k);

struct gpu_memory_values gpu_backend_read_memory(struct gpu_reader *r, nvml_device handle);
// Adds the processes in the lists of `handle` to d. False: the driver provides no compute list.
// instance: the MIG device of the handle; NULL: the GPU.
bool gpu_backend_list_processes(struct gpu_reader *r, nvml_device handle,
                                const struct gpu_instance *instance, struct gpu_device *d);

// --- events ---
void gpu_backend_watch_events(struct gpu_reader *r,
                              struct gpu_known_device *k); // on the device's worker
nvml_ret gpu_backend_make_events(struct gpu_reader *r, nvml_event_set *ret);
nvml_ret gpu_backend_take_events(struct gpu_reader *r, struct gpu_worker *w); // into w->taken
// On the coordinator: adds the events to the devices, and copies them into a snapshot.
void gpu_backend_remember_events(struct gpu_backend *b);
void gpu_backend_fill_xids(const struct gpu_backend *b, const struct gpu_known_device *k,
                           struct gpu_device *d);

// --- workers ---
// Stores the worker in *ret. NULL: the thread could not be started.
void gpu_worker_start(struct gpu_backend *b, uint32_t index, struct gpu_worker **ret);
void gpu_worker_post(struct gpu_worker *w, enum gpu_job job);
// Waits until the busy workers have finished, or until the deadline. The remaining ones become
// late.
void gpu_workers_wait(struct gpu_backend *b, int64_t deadline_ns);
bool gpu_worker_idle(struct gpu_worker *w);             // true for NULL
bool gpu_workers_idle(struct gpu_backend *b);           // all of them
int64_t gpu_worker_busy_since_ns(struct gpu_worker *w); // 0: idle
void gpu_backend_unref(struct gpu_backend *b);
void gpu_backend_unload(struct gpu_backend *b); // no thread is inside the library any more
void gpu_device_free(struct gpu_device *d);     // NULL is allowed
struct gpu_device *gpu_device_copy(const struct gpu_device *d);
