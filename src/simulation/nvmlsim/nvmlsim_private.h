// SPDX-License-Identifier: Apache-2.0
// Shared by the simulated library and by the code that creates and changes its devices: boards,
// MIG, the layout in shared memory, and what happens on a device over time.
#pragma once

#include "base/error.h"
#include "nvmlsim/sim.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// --- boards ---

// The simulated boards: one row per model with NVIDIA's published numbers (memory as nvidia-smi
// prints it). The row is copied into shared memory when the device is created, so that all
// processes use the same values, even from different builds.

enum nvmlsim_arch {
    NVMLSIM_KEPLER = 2,
    NVMLSIM_PASCAL = 4,
    NVMLSIM_VOLTA = 5,
    NVMLSIM_TURING = 6,
    NVMLSIM_AMPERE = 7,
    NVMLSIM_ADA = 8,
    NVMLSIM_HOPPER = 9,
    NVMLSIM_BLACKWELL = 10,
}; // values of nvmlDeviceArchitecture_t

enum nvmlsim_board_flags {
    NVMLSIM_HBM = 1 << 0, // memory with its own temperature sensor, clock does not drop at idle
    NVMLSIM_FAN = 1 << 1, // has a fan
    NVMLSIM_ECC = 1 << 2, // ECC on
    NVMLSIM_CONSUMER = 1 << 3, // GeForce: no serial number
};

struct nvmlsim_model {
    char name[64];    // "A100-SXM4-80GB"
    char product[96]; // nvmlDeviceGetName: "NVIDIA A100-SXM4-80GB"
    uint32_t memory_mib, reserved_mib, bar1_mib;
    uint32_t sms;
    uint32_t idle_w, max_w;
    uint32_t sm_idle_mhz, sm_max_mhz, mem_idle_mhz, mem_max_mhz;
    uint32_t bus_bits; // width of the memory bus; 0: unknown
    uint32_t arch;     // enum nvmlsim_arch
    uint32_t cc_major, cc_minor;
    uint32_t brand; // nvmlBrandType_t
    uint32_t pci_device_id;
    uint32_t pcie_gen;
    uint32_t idle_temp_c, max_temp_c, slowdown_temp_c;
    uint32_t nvlinks;
    uint32_t c2c_links;  // to the CPU of the same module
    uint32_t mig_slices; // compute slices available for MIG; 0: no MIG
    uint32_t flags;      // enum nvmlsim_board_flags
};

// Finds a model by its name or a common alias ("H100-SXM5-80GB"). Case, a prefix "NVIDIA-" and a
// missing "Tesla-" are ignored. NULL: unknown.
const struct nvmlsim_model *nvmlsim_model_find(const char *name);

// Creates a board that is not in the table: a current model with that name and size, without MIG.
void nvmlsim_model_custom(const char *name, uint64_t memory_mib, struct nvmlsim_model *ret);

// --- MIG ---

// MIG instance profiles of each board and their placement. A board has 8 memory slices (A30: 4) and
// 7 compute slices (A30: 4). A profile uses some of both and may start only at certain memory
// slices (NVIDIA MIG User Guide).

struct nvmlsim_mig_profile {
    const char *name;
    uint32_t nvml_profile; // NVML_GPU_INSTANCE_PROFILE_*
    uint32_t slices;       // compute slices
    uint32_t mem_slices;   // also the distance between possible start positions
    uint32_t max_count;
    uint32_t sms;
    uint32_t memory_mib;
};

// The profiles of a board; *ret_n is 0 if it has no MIG.
const struct nvmlsim_mig_profile *nvmlsim_mig_profiles(const char *model, unsigned *ret_n);

struct nvmlsim_mig_placed {
    const struct nvmlsim_mig_profile *profile;
    uint32_t gi_id, start; // start: first memory slice
    // The compute instance: ci_slices of the profile's compute slices, from ci_start on.
    uint32_t ci_id, ci_start, ci_slices;
};

// Finds a position for each profile in names; the error says why one does not fit. ret has n
// elements. A name such as "1c.3g.40gb" is a compute instance with 1 of the 3 slices. Compute
// instances of the same profile fill one GPU instance after another.
struct gs_error *nvmlsim_mig_place(const struct nvmlsim_model *model, const char *const *names,
                                   unsigned n, struct nvmlsim_mig_placed *ret);

// The same for a GPU specification, and the model with the memory size of the specification.
struct gs_error *nvmlsim_mig_place_spec(const struct nvmlsim_gpu_spec *g,
                                        const struct nvmlsim_model *model,
                                        struct nvmlsim_mig_placed *ret);
struct gs_error *nvmlsim_model_resolve(const struct nvmlsim_gpu_spec *g, struct nvmlsim_model *ret);

// --- shared memory ---

// Layout of the devices in POSIX shared memory. There is no daemon: each process that uses or reads
// a device updates it under the device's mutex. The mutex is process-shared and robust: if its
// holder dies, the next process continues, so the data is valid after each step of an update.
//
//   nvmlsim_shm_segment
//   +-------------------------------------------------------------+
//   | magic, version, size, n_gpus, name                          |
//   | control mutex, fault rules        event counter (futex)     |
//   | NVSwitches, CPUs      the engine of DCGM: enum, counter owner|
//   +-------------------------------------------------------------+
//   | gpu 0   mutex · model · identity · lost · MIG instances     |
//   |         events: the last 64                                 |
//   |         processes[128]: who has it open, with what memory   |
//   |         timelines[1 + 7]: 0 the whole GPU, 1… the instances |
//   |           reservations: slices that have not ended yet      |
//   |           ring[128]: activity per sixth of a second         |
//   |         process_rings[128][128]: the same per process       |
//   +-------------------------------------------------------------+
//   | gpu 1 …  (the file holds n_gpus of them)                    |
//
// Times are CLOCK_MONOTONIC nanoseconds, which are equal in all processes and independent of clock
// changes. Unix times are calculated when a call returns them. Each attached process holds a shared
// flock() on the segment, which shows whether a segment is in use.

#define NVMLSIM_SHM_MAGIC        0x4753494d30315047ULL
#define NVMLSIM_SHM_VERSION      7
#define NVMLSIM_SHM_PROCESSES    128
#define NVMLSIM_SHM_RESERVATIONS 256
#define NVMLSIM_SHM_BUCKETS      128 // power of two
#define NVMLSIM_SHM_HISTORY                                                                        \
    120 // buckets that readers use; the others are for reservations in the future
#define NVMLSIM_SHM_BUCKET_NS INT64_C(166666666)
#define NVMLSIM_SHM_PERIOD    6 // buckets in the sample period of utilization and power: one second
#define NVMLSIM_SHM_FAULTS    32
#define NVMLSIM_SHM_EVENTS    64
#define NVMLSIM_SHM_VALUES    32
#define NVMLSIM_SHM_TIMELINES (1 + NVMLSIM_MAX_MIG)
#define NVMLSIM_SHM_PPM       1000000U // shares are integer millionths, so that sums are exact

struct nvmlsim_shm_bucket {
    uint32_t id;      // monotonic time / NVMLSIM_SHM_BUCKET_NS; a slot with another ID is outdated
    uint32_t busy_ns; // any kernel
    uint32_t sm_ns;   // weighted with the part of the whole GPU's SMs
    uint32_t mem_ns;  // weighted with the part of the memory bandwidth
};

struct nvmlsim_shm_reservation {
    int64_t start, end;
    uint32_t share_ppm;
};

struct nvmlsim_shm_timeline {
    uint32_t sm_ppm;                 // part of the GPU's SMs that this timeline has
    int64_t last_start;              // starts never decrease: first come, first served
    int64_t floor;                   // the latest end of the removed reservations
    int64_t busy_end;                // end of the latest busy time
    uint64_t busy_ns, sm_ns, mem_ns; // since the device was created, including future reservations
    uint32_t n;
    struct nvmlsim_shm_reservation reservations[NVMLSIM_SHM_RESERVATIONS];
    struct nvmlsim_shm_bucket ring[NVMLSIM_SHM_BUCKETS];
};

// Values of shared memory, limited to their valid range.
static inline uint32_t nvmlsim_shm_sm_ppm(const struct nvmlsim_shm_timeline *t)
{
    uint32_t ppm = __atomic_load_n(&t->sm_ppm, __ATOMIC_RELAXED);
    return ppm < 1 ? 1 : ppm > NVMLSIM_SHM_PPM ? NVMLSIM_SHM_PPM : ppm;
}

static inline uint32_t nvmlsim_shm_reserved(const struct nvmlsim_shm_timeline *t)
{
    uint32_t n = __atomic_load_n(&t->n, __ATOMIC_RELAXED);
    return n < NVMLSIM_SHM_RESERVATIONS ? n : NVMLSIM_SHM_RESERVATIONS;
}

struct nvmlsim_shm_mig {
    char uuid[96];
    char profile[24];
    uint32_t gi_id, nvml_profile;
    uint32_t slices, mem_slices, start;
    uint64_t memory; // bytes of the GPU instance: its compute instances share them
    // Of the compute instance.
    uint32_t ci_id, ci_start, ci_slices, sms;
};

enum nvmlsim_shm_process_state {
    NVMLSIM_SHM_PROC_FREE,
    NVMLSIM_SHM_PROC_LIVE,  // has the device open
    NVMLSIM_SHM_PROC_ENDED, // closed or dead: kept for its samples until the slot is needed
};

struct nvmlsim_shm_process {
    uint32_t state; // enum nvmlsim_shm_process_state
    int32_t pid;
    uint64_t start_time; // field 22 of /proc/<pid>/stat: distinguishes reused PIDs
    uint64_t pid_ns;     // inode of the PID namespace of `pid`
    uint32_t timeline;   // the part of the device that it has open
    uint32_t n_open;
    uint64_t memory; // bytes
    int64_t busy_end, last_active;
};

struct nvmlsim_shm_event {
    uint64_t type, data;
    uint32_t gi_id, ci_id;
};

struct nvmlsim_shm_value {
    uint32_t what; // enum nvmlsim_value, or a field id of NVML
    uint32_t used;
    uint64_t value;
};

// The constant properties of a GPU. They are copied from shared memory once: see struct nvmlsim.
struct nvmlsim_shm_board {
    struct nvmlsim_model model;
    char uuid[96];
    char pci_bus_id[32];
    uint32_t pci_bus;
    uint64_t memory; // bytes, all of it
    uint64_t reserved;
    uint32_t time_slices;
    uint32_t slices_renamed, slices_single; // 0 or 1
    uint32_t n_mig;
    struct nvmlsim_shm_mig mig[NVMLSIM_MAX_MIG];
};

struct nvmlsim_shm_gpu {
    pthread_mutex_t lock;
    struct nvmlsim_shm_board board;
    uint32_t lost;
    uint32_t last_xid;
    uint32_t n_values; // read without the lock to skip the lookup
    struct nvmlsim_shm_value values[NVMLSIM_SHM_VALUES];
    uint64_t n_events; // since creation; the last NVMLSIM_SHM_EVENTS are kept
    struct nvmlsim_shm_event events[NVMLSIM_SHM_EVENTS];
    struct nvmlsim_shm_process processes[NVMLSIM_SHM_PROCESSES];
    struct nvmlsim_shm_timeline timelines[NVMLSIM_SHM_TIMELINES];
    struct nvmlsim_shm_bucket process_rings[NVMLSIM_SHM_PROCESSES][NVMLSIM_SHM_BUCKETS];
};

struct nvmlsim_shm_fault {
    char call[64]; // "" : free
    int32_t gpu;   // -1: all
    int32_t code;  // 0: hang only; NVMLSIM_FAULT_CRASH
    uint32_t hang_ms;
    uint32_t left; // 0: until cleared
};

// What a machine has besides GPUs. Constant.
struct nvmlsim_shm_machine {
    uint32_t switches;
    uint32_t cpus, cores; // cores of each CPU
};

struct nvmlsim_process_id {
    int32_t pid; // 0: none
    uint64_t start_time;
    uint64_t pid_ns;
};

// The engine of DCGM, as far as processes share it.
struct nvmlsim_shm_engine {
    uint32_t flags;                  // enum nvmlsim_engine_flags
    uint32_t generation;             // connections of an older one are lost
    uint32_t dead_counters;          // a bit per GPU
    struct nvmlsim_process_id owner; // has the profiling counters of GPUs before Hopper
    uint32_t owner_is_host_engine;   // as a client of it; its other clients have them too
};

struct nvmlsim_shm_segment {
    uint64_t magic; // written last
    uint32_t version;
    uint32_t n_gpus;
    uint64_t size;
    char name[64];
    int64_t created; // monotonic
    pthread_mutex_t lock;
    uint32_t n_faults; // read without the lock to skip the lookup
    uint32_t fault_generation;
    struct nvmlsim_shm_fault faults[NVMLSIM_SHM_FAULTS];
    uint32_t event_seq; // futex: changes with every event of any GPU
    struct nvmlsim_shm_machine machine;
    struct nvmlsim_shm_engine engine;
    struct nvmlsim_shm_gpu gpus[];
};

// Any process of the user can write anything to the segment at any time. Constant data is therefore
// copied and checked once, when a process attaches, and only the copy is used. Variable data is
// read into a local variable and checked at each use: before that it is not used as an index, a
// length, a divisor or a loop bound, and sums cannot overflow. Mutexes cannot be checked; segments
// of other users are therefore refused.
struct nvmlsim {
    struct nvmlsim_shm_segment *seg;
    size_t size;
    int fd;
    char name[64];
    unsigned n_gpus;
    int64_t created; // monotonic
    struct nvmlsim_shm_machine machine;
    struct nvmlsim_shm_board boards[NVMLSIM_MAX_GPUS];
};

enum nvmlsim_engine_flags {
    NVMLSIM_ENGINE_RUNNING = 1 << 0,
    NVMLSIM_ENGINE_PAUSED = 1 << 1,        // no profiling values
    NVMLSIM_ENGINE_FOREIGN_OWNER = 1 << 2, // another program has the profiling counters
};

// Checks a name, and maps an open segment of `size` bytes.
struct gs_error *nvmlsim_shm_check_name(const char *name);
struct gs_error *nvmlsim_shm_map(const char *name, int fd, size_t size, struct nvmlsim **ret);
struct gs_error *nvmlsim_shm_mutex_init(pthread_mutex_t *m);
// Copies and checks the constant data.
struct gs_error *nvmlsim_shm_copy_constants(struct nvmlsim *s);

// Locks the mutex, also if its last holder died.
void nvmlsim_shm_lock(pthread_mutex_t *m);
static inline void nvmlsim_shm_unlockp(pthread_mutex_t **m)
{
    pthread_mutex_unlock(*m);
}
// Holds the mutex until the end of the scope.
#define NVMLSIM_SHM_HOLD(var, m)                                                                   \
    GS_CLEANUP(nvmlsim_shm_unlockp) pthread_mutex_t *var = (m);                                    \
    nvmlsim_shm_lock(var)

// Wakes all waiters; waits until event_seq differs from `seen` or until the timeout.
void nvmlsim_shm_event_wake(struct nvmlsim_shm_segment *seg);
void nvmlsim_shm_event_wait(struct nvmlsim_shm_segment *seg, uint32_t seen, unsigned timeout_ms);

// --- processes ---

// The processes that have a device open, and their memory. The next process that locks the GPU
// releases what a dead process has left. A process is identified by PID and start time; a zombie is
// dead. All functions need the GPU's mutex.

struct gs_error *nvmlsim_process_self(struct nvmlsim_process_id *ret);
// Whether the process has certainly ended. One of another PID namespace counts as running.
bool nvmlsim_process_ended(const struct nvmlsim_process_id *id);

// Returns the slot of the process on that timeline and increments its open count. GS_ELIMIT: all
// slots are in use.
struct gs_error *nvmlsim_process_open(struct nvmlsim_shm_gpu *g,
                                      const struct nvmlsim_process_id *id, uint32_t timeline,
                                      unsigned *ret); // the error does not name the GPU
// Reverts one nvmlsim_process_open and releases `memory` bytes.
void nvmlsim_process_close(struct nvmlsim_shm_gpu *g, unsigned place, uint64_t memory);

// Ends the entries of processes that no longer exist.
void nvmlsim_process_reap(struct nvmlsim_shm_gpu *g);

// Memory of a timeline in bytes: available to processes, and allocated by them.
uint64_t nvmlsim_process_memory_limit(const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_used(const struct nvmlsim_shm_gpu *g,
                                     const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_all(const struct nvmlsim_shm_gpu *g); // of the whole GPU

// --- activity ---

// The activity of a device: per sixth of a second in rings, and the driver's gauges that result
// from it. Readers use only complete buckets, so that a value never includes the future. All
// functions need the GPU's mutex.

struct nvmlsim_activity_sum {
    uint64_t span_ns; // length of the window
    uint64_t busy_ns, sm_ns, mem_ns;
};

// Adds [start, end) to a ring. Time before *busy_end is already busy and does not count twice.
void nvmlsim_activity_add(struct nvmlsim_shm_bucket *ring, int64_t start, int64_t end,
                          int64_t *busy_end, uint32_t sm_ppm, uint32_t mem_ppm);

static inline uint32_t nvmlsim_activity_bucket(int64_t mono_ns)
{
    return (uint32_t)(mono_ns / NVMLSIM_SHM_BUCKET_NS);
}

// Returns the first and the one-past-last complete bucket whose end is after `since` (monotonic; 0:
// the whole ring). Empty if first == end.
void nvmlsim_activity_window(int64_t since, int64_t now, uint32_t *ret_first, uint32_t *ret_end);
void nvmlsim_activity_sum(const struct nvmlsim_shm_bucket *ring, uint32_t first, uint32_t end,
                          struct nvmlsim_activity_sum *ret);

// The sum of all timelines of the GPU (sm and mem are parts of the whole GPU; busy is meaningful
// only without MIG).
void nvmlsim_activity_sum_gpu(const struct nvmlsim_shm_gpu *g, unsigned n_mig, uint32_t first,
                              uint32_t end, struct nvmlsim_activity_sum *ret);

static inline unsigned nvmlsim_activity_percent(uint64_t part, uint64_t span)
{
    // clang-tidy 14 does not see that nvmlsim_activity_sum_gpu sets all fields.
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
    uint64_t p = span ? (part * 100 + span / 2) / span : 0;
    return p > 100 ? 100 : (unsigned)p;
}

// The gauges as of `now`.
struct nvmlsim_activity_gauges {
    unsigned gpu_util, mem_util; // percent of the last second
    unsigned sm_util;            // SM-weighted
    uint32_t power_mw, power_instant_mw;
    uint64_t energy_mj; // since the device was made
    uint32_t temp_c, mem_temp_c;
    uint32_t sm_mhz, mem_mhz;
    bool active;
};
void nvmlsim_activity_gauges(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                             int64_t created, int64_t now, struct nvmlsim_activity_gauges *ret);

// The power at the SM activity of one bucket.
uint32_t nvmlsim_activity_power_mw(const struct nvmlsim_model *m, uint64_t sm_ns, uint64_t span_ns);

// Totals since the device was created up to `now`, without future reservations.
void nvmlsim_activity_totals(const struct nvmlsim_shm_timeline *t, int64_t now,
                             struct nvmlsim_activity_sum *ret);

// What the performance counters have counted since the device was created, in ns. Takes the GPU's
// mutex.
struct nvmlsim_activity_counters {
    int64_t at; // 0: none yet
    double busy, sm, mem;
};
void nvmlsim_activity_count_gpu(struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                                struct nvmlsim_activity_counters *ret);
void nvmlsim_activity_count_instance(struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                                     uint32_t gi_id, struct nvmlsim_activity_counters *ret);

// --- timelines ---

// How a device schedules kernels. A kernel runs in slices of 2 ms. A slice is a reservation on the
// timeline of the GPU or MIG instance, made under the GPU's mutex in order of arrival, so that the
// kernels of several processes alternate. Slices whose SM shares add up to at most 1 overlap.
// Nothing is executed: the client sleeps until its slice ends.

#define NVMLSIM_TIMELINE_SLICE_NS (2 * GS_NS_PER_MS)

struct nvmlsim_timeline_slice {
    int64_t start, end;
};

// Reserves `length` ns with `share_ppm` of the timeline's SMs for the process in that slot, not
// before `earliest` (for the next slice of a running kernel: the end of the previous slice, which
// may be in the past if the client woke up late). False: the maximum number of slices is waiting;
// retry later. Needs the GPU's mutex.
bool nvmlsim_timeline_reserve(struct nvmlsim_shm_gpu *g, unsigned process, int64_t earliest,
                              int64_t now, int64_t length, uint32_t share_ppm,
                              struct nvmlsim_timeline_slice *ret);

// --- faults ---

// Rules that make calls of the simulated NVML and DCGM fail or hang.

#define NVMLSIM_FAULT_CRASH INT32_MIN // a code: the call ends its process

struct nvmlsim_fault_hit {
    int code; // nvmlReturn_t, or of DCGM (negative); 0: none
    uint32_t hang_ms;
    uint32_t generation; // of the rules when the rule matched
};

// Finds the rules that match a call for that GPU (-1: a call without a device): the first one that
// hangs and the first one that fails, because a call may do both. Decrements their counts.
bool nvmlsim_fault_match(struct nvmlsim_shm_segment *seg, const char *call, int gpu,
                         struct nvmlsim_fault_hit *ret);

// Whether the rules have not changed since then: a hang ends when its rule is cleared.
static inline bool nvmlsim_fault_unchanged(const struct nvmlsim_shm_segment *seg,
                                           const struct nvmlsim_fault_hit *hit)
{
    return __atomic_load_n(&seg->fault_generation, __ATOMIC_ACQUIRE) == hit->generation;
}
