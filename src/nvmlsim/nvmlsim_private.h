// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.h"
#include "nvmlsim/sim.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

// --- boards ---

// What the simulated boards are: one row a model, with the numbers that NVIDIA publishes for it
// (memory as nvidia-smi shows it). The row is copied into shared memory when the device is made, so
// that every process sees the same board whatever its own build knows.

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
    NVMLSIM_FAN = 1 << 1, // has a fan of its own
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
    uint32_t arch; // enum nvmlsim_arch
    uint32_t cc_major, cc_minor;
    uint32_t brand; // nvmlBrandType_t
    uint32_t pci_device_id;
    uint32_t pcie_gen;
    uint32_t idle_temp_c, max_temp_c, slowdown_temp_c;
    uint32_t nvlinks;
    uint32_t c2c_links;  // to the CPU of the same module
    uint32_t mig_slices; // compute slices that MIG can share out; 0: no MIG
    uint32_t flags;      // enum nvmlsim_board_flags
};

// The row of that name or common alias ("H100-SXM5-80GB"); case, a leading "NVIDIA-" and a missing
// "Tesla-" do not matter. NULL: unknown.
const struct nvmlsim_model *nvmlsim_model_find(const char *name);

// A board that is in no table: a current-looking one of that name and size, without MIG.
void nvmlsim_model_custom(const char *name, uint64_t memory_mib, struct nvmlsim_model *ret);

// --- MIG ---

// MIG: the instance profiles of each board and where they fit. A board has 8 memory slices (A30: 4)
// and 7 compute slices (A30: 4); a profile takes some of both and may start only at certain memory
// slices, as in NVIDIA's MIG user guide.

struct nvmlsim_mig_profile {
    const char *name;
    uint32_t nvml_profile; // NVML_GPU_INSTANCE_PROFILE_*
    uint32_t slices;       // compute slices
    uint32_t mem_slices;   // also the distance between possible starts
    uint32_t max_count;
    uint32_t sms;
    uint32_t memory_mib;
};

// The profiles of a board, *ret_n of them; none when it has no MIG.
const struct nvmlsim_mig_profile *nvmlsim_mig_profiles(const char *model, unsigned *ret_n);

struct nvmlsim_mig_placed {
    const struct nvmlsim_mig_profile *profile;
    uint32_t gi_id, start; // start: first memory slice
    // The compute instance: its slices of the profile's, from ci_start on.
    uint32_t ci_id, ci_start, ci_slices;
};

// Finds a place for each wanted profile (names), or says why there is none. ret has room for n. A
// name such as "1c.3g.40gb" is a compute instance with 1 of the 3 slices; those of the same GPU
// instance profile fill a GPU instance one after the other.
struct gs_error *nvmlsim_mig_place(const struct nvmlsim_model *model, const char *const *names,
                                   unsigned n, struct nvmlsim_mig_placed *ret);

// The same for a GPU spec, and its model with the memory size that was asked for.
struct gs_error *nvmlsim_mig_place_spec(const struct nvmlsim_gpu_spec *g,
                                        const struct nvmlsim_model *model,
                                        struct nvmlsim_mig_placed *ret);
struct gs_error *nvmlsim_model_resolve(const struct nvmlsim_gpu_spec *g, struct nvmlsim_model *ret);

// --- shared memory ---

// The devices as they lie in POSIX shared memory. There is no daemon: whoever looks at a device or
// uses it keeps the books, under the device's mutex (process-shared and robust: when a holder dies,
// the next one goes on; every update below leaves a state that can be read after any of its steps).
//
//   nvmlsim_shm_segment
//   +-------------------------------------------------------------+
//   | magic, version, size, n_gpus, name                          |
//   | control mutex, fault rules        event counter (futex)     |
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
// Times are CLOCK_MONOTONIC nanoseconds, which all processes of a machine share and which no clock
// change touches; Unix times are made from them when a call answers. Every attached process holds a
// shared flock() on the segment: that is how a new segment knows whether the old one is in use.

#define NVMLSIM_SHM_MAGIC        0x4753494d30315047ULL
#define NVMLSIM_SHM_VERSION      5
#define NVMLSIM_SHM_PROCESSES    128
#define NVMLSIM_SHM_RESERVATIONS 256
#define NVMLSIM_SHM_BUCKETS      128 // power of two
#define NVMLSIM_SHM_HISTORY                                                                        \
    120 // buckets that readers look back: the rest is room for what lies ahead
#define NVMLSIM_SHM_BUCKET_NS INT64_C(166666666)
#define NVMLSIM_SHM_PERIOD    6 // buckets in the sample period of utilisation and power: a second
#define NVMLSIM_SHM_FAULTS    32
#define NVMLSIM_SHM_EVENTS    64
#define NVMLSIM_SHM_VALUES    32
#define NVMLSIM_SHM_TIMELINES (1 + NVMLSIM_MAX_MIG)
#define NVMLSIM_SHM_PPM       1000000U // shares are millionths: they add up exactly

struct nvmlsim_shm_bucket {
    uint32_t id;      // monotonic time / NVMLSIM_SHM_BUCKET_NS; a slot with another id is old
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
    int64_t floor;                   // the latest end of what was dropped from the list
    int64_t busy_end;                // end of the latest busy time
    uint64_t busy_ns, sm_ns, mem_ns; // since the device was made, reservations ahead included
    uint32_t n;
    struct nvmlsim_shm_reservation reservations[NVMLSIM_SHM_RESERVATIONS];
    struct nvmlsim_shm_bucket ring[NVMLSIM_SHM_BUCKETS];
};

// What is in shared memory, within its bounds.
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
    NVMLSIM_SHM_PROC_ENDED, // closed or dead: kept for its samples until the place is needed
};

struct nvmlsim_shm_process {
    uint32_t state; // enum nvmlsim_shm_process_state
    int32_t pid;
    uint64_t start_time; // field 22 of /proc/<pid>/stat: tells a reused pid
    uint64_t pid_ns;     // inode of the pid namespace that `pid` belongs to
    uint32_t timeline;   // which part of the device it has open
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

// What a GPU is. It does not change once the device is made, and is read from shared memory once:
// see struct sim.
struct nvmlsim_shm_board {
    struct nvmlsim_model model;
    char uuid[96];
    char pci_bus_id[32];
    uint32_t pci_bus;
    uint64_t memory; // bytes, all of it
    uint64_t reserved;
    uint32_t time_slices;
    uint32_t n_mig;
    struct nvmlsim_shm_mig mig[NVMLSIM_MAX_MIG];
};

struct nvmlsim_shm_gpu {
    pthread_mutex_t lock;
    struct nvmlsim_shm_board board;
    uint32_t lost;
    uint32_t last_xid;
    uint32_t n_values; // read without the lock to skip the look-up
    struct nvmlsim_shm_value values[NVMLSIM_SHM_VALUES];
    uint64_t n_events; // ever; the last NVMLSIM_SHM_EVENTS are kept
    struct nvmlsim_shm_event events[NVMLSIM_SHM_EVENTS];
    struct nvmlsim_shm_process processes[NVMLSIM_SHM_PROCESSES];
    struct nvmlsim_shm_timeline timelines[NVMLSIM_SHM_TIMELINES];
    struct nvmlsim_shm_bucket process_rings[NVMLSIM_SHM_PROCESSES][NVMLSIM_SHM_BUCKETS];
};

struct nvmlsim_shm_fault {
    char call[64]; // "" : free
    int32_t gpu;   // -1: all
    int32_t code;  // 0: hang only
    uint32_t hang_ms;
    uint32_t left; // 0: until cleared
};

struct nvmlsim_shm_segment {
    uint64_t magic; // written last
    uint32_t version;
    uint32_t n_gpus;
    uint64_t size;
    char name[64];
    int64_t created; // monotonic
    pthread_mutex_t lock;
    uint32_t n_faults; // read without the lock to skip the look-up
    uint32_t fault_generation;
    struct nvmlsim_shm_fault faults[NVMLSIM_SHM_FAULTS];
    uint32_t event_seq; // futex: changes with every event of any GPU
    struct nvmlsim_shm_gpu gpus[];
};

// Any process of the user can write to the segment at any time, whatever it means to do. So what
// does not change is copied and checked once, when a process attaches, and used from the copy
// alone. What changes is read into a variable, then checked, at each use: no value of the segment
// is an index, a length, a divisor or an end of a loop before that, and none overflows a sum. The
// mutexes cannot be checked; that is why segments of other users are refused.
struct nvmlsim {
    struct nvmlsim_shm_segment *seg;
    size_t size;
    int fd;
    char name[64];
    unsigned n_gpus;
    int64_t created; // monotonic
    struct nvmlsim_shm_board boards[NVMLSIM_MAX_GPUS];
};

// Name rules, and the mapping of an open segment of `size` bytes.
struct gs_error *nvmlsim_shm_check_name(const char *name);
struct gs_error *nvmlsim_shm_map(const char *name, int fd, size_t size, struct nvmlsim **ret);
struct gs_error *nvmlsim_shm_mutex_init(pthread_mutex_t *m);
// Copies what does not change, and checks it.
struct gs_error *nvmlsim_shm_copy_constants(struct nvmlsim *s);

// Locks, taking over from a holder that died.
void nvmlsim_shm_lock(pthread_mutex_t *m);
static inline void nvmlsim_shm_unlockp(pthread_mutex_t **m)
{
    pthread_mutex_unlock(*m);
}
// Holds the mutex until the end of the scope.
#define NVMLSIM_SHM_HOLD(var, m)                                                                   \
    GS_CLEANUP(nvmlsim_shm_unlockp) pthread_mutex_t *var = (m);                                    \
    nvmlsim_shm_lock(var)

// Wakes whoever waits for events; waits until event_seq is no longer `seen` or the time is over.
void nvmlsim_shm_event_wake(struct nvmlsim_shm_segment *seg);
void nvmlsim_shm_event_wait(struct nvmlsim_shm_segment *seg, uint32_t seen, unsigned timeout_ms);

// --- processes ---

// Who has a device open, with how much memory. What a process that died left is taken back by
// whoever looks next: a process is the pid together with its start time, and a zombie is dead. All
// functions need the GPU's mutex.

struct nvmlsim_process_id {
    int32_t pid;
    uint64_t start_time;
    uint64_t pid_ns;
};

struct gs_error *nvmlsim_process_self(struct nvmlsim_process_id *ret);

// The place of that process on that timeline, opened once more. GS_ELIMIT when all are taken.
struct gs_error *nvmlsim_process_open(struct nvmlsim_shm_gpu *g,
                                      const struct nvmlsim_process_id *id, uint32_t timeline,
                                      unsigned *ret); // the error does not name the GPU
// Undoes one nvmlsim_process_open and gives `memory` back.
void nvmlsim_process_close(struct nvmlsim_shm_gpu *g, unsigned place, uint64_t memory);

// Ends the entries of processes that are no more.
void nvmlsim_process_reap(struct nvmlsim_shm_gpu *g);

// Bytes of a timeline: what it has for processes, and what they have allocated.
uint64_t nvmlsim_process_memory_limit(const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_used(const struct nvmlsim_shm_gpu *g,
                                     const struct nvmlsim_shm_board *b, uint32_t timeline);
uint64_t nvmlsim_process_memory_all(const struct nvmlsim_shm_gpu *g); // of the whole GPU

// --- activity ---

// The books of a device: activity per sixth of a second in rings, and what the driver's gauges say
// from them. Readers use complete buckets only, so a value never includes time that has not passed
// yet. All functions need the GPU's mutex.

struct nvmlsim_activity_sum {
    uint64_t span_ns; // length of the window
    uint64_t busy_ns, sm_ns, mem_ns;
};

// Adds [start, end) to a ring; the union with what is busy until *busy_end already counts once.
void nvmlsim_activity_add(struct nvmlsim_shm_bucket *ring, int64_t start, int64_t end,
                          int64_t *busy_end, uint32_t sm_ppm, uint32_t mem_ppm);

static inline uint32_t nvmlsim_activity_bucket(int64_t mono_ns)
{
    return (uint32_t)(mono_ns / NVMLSIM_SHM_BUCKET_NS);
}

// The first and the one-past-last complete bucket whose end is after `since` (monotonic; 0: all
// that is kept). Empty when first == end.
void nvmlsim_activity_window(int64_t since, int64_t now, uint32_t *ret_first, uint32_t *ret_end);
void nvmlsim_activity_sum(const struct nvmlsim_shm_bucket *ring, uint32_t first, uint32_t end,
                          struct nvmlsim_activity_sum *ret);

// All timelines of the GPU together (sm and mem are parts of the whole GPU; busy only makes sense
// outside MIG).
void nvmlsim_activity_sum_gpu(const struct nvmlsim_shm_gpu *g, unsigned n_mig, uint32_t first,
                              uint32_t end, struct nvmlsim_activity_sum *ret);

static inline unsigned nvmlsim_activity_percent(uint64_t part, uint64_t span)
{
    // clang-tidy 14 loses that nvmlsim_activity_sum_gpu sets all fields.
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

// Power in a bucket's worth of SM activity.
uint32_t nvmlsim_activity_power_mw(const struct nvmlsim_model *m, uint64_t sm_ns, uint64_t span_ns);

// Totals since the device was made, up to `now` (reservations ahead taken out).
void nvmlsim_activity_totals(const struct nvmlsim_shm_timeline *t, int64_t now,
                             struct nvmlsim_activity_sum *ret);

// --- timelines ---

// How a device spends its time. A kernel runs in slices of 2 ms; a slice is a reservation on the
// timeline of the GPU or MIG instance, made under the GPU's mutex, first come first served, so that
// the kernels of several processes alternate. Slices whose parts of the SMs add up to at most 1
// overlap. Nobody executes anything: the client sleeps until its slice is over.

#define NVMLSIM_TIMELINE_SLICE_NS (2 * GS_NS_PER_MS)

struct nvmlsim_timeline_slice {
    int64_t start, end;
};

// Reserves `length` ns with `share_ppm` of the timeline's SMs for the process in that place, from
// `earliest` on (for the next slice of a running kernel: the end of the last one, which may be past
// by the time that its client took to wake up). False: as many slices as can be are waiting; ask
// again a moment later. Needs the GPU's mutex.
bool nvmlsim_timeline_reserve(struct nvmlsim_shm_gpu *g, unsigned process, int64_t earliest,
                              int64_t now, int64_t length, uint32_t share_ppm,
                              struct nvmlsim_timeline_slice *ret);

// --- faults ---

// Rules that make calls of the simulated NVML fail or hang.

struct nvmlsim_fault_hit {
    int code; // nvmlReturn_t, 0: none
    uint32_t hang_ms;
    uint32_t generation; // of the rules, when the hit was found
};

// Whether rules match a call on that GPU (-1: a call without a device): the first that hangs and
// the first that fails, for a call may do both. Uses up one of their counts.
bool nvmlsim_fault_match(struct nvmlsim_shm_segment *seg, const char *call, int gpu,
                         struct nvmlsim_fault_hit *ret);

// Whether the rules are still those of the hit: a hang ends when its rule is cleared.
static inline bool nvmlsim_fault_unchanged(const struct nvmlsim_shm_segment *seg,
                                           const struct nvmlsim_fault_hit *hit)
{
    return __atomic_load_n(&seg->fault_generation, __ATOMIC_ACQUIRE) == hit->generation;
}
