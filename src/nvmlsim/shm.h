// SPDX-License-Identifier: Apache-2.0
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
#pragma once

#include "nvmlsim/mig.h"
#include "nvmlsim/model.h"
#include "nvmlsim/sim.h"

#include <pthread.h>

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
struct gs_error *nvmlsim_shm_copy_facts(struct nvmlsim *s);

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
