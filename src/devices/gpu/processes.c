// SPDX-License-Identifier: Apache-2.0
// Processes on a GPU: the process lists in their three layouts, and the per-process utilization.
#include "gpu/gpu_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"

#include <string.h>

enum {
    LIST_FIRST = 64, // entries of the first call
    LIST_MAX = 1024,
    LIST_TRIES = 5,
    UTIL_FIRST = 128, // older drivers require at least 100
    UTIL_MAX = 8192,
    CLOCK_BACK_US = 1000000,
    CLOCK_AHEAD_US = 60000000, // records may be newer than the time that was read before
    SENTINEL = 0xEE,           // no field of an entry has this value
};

// Of a MIG device: GPU instance and compute instance.
struct place {
    uint32_t gpu_instance, compute_instance;
};
static const struct place no_place = {GPU_NO_INSTANCE, GPU_NO_INSTANCE};

static struct gpu_process *process_at(struct gpu_device *d, uint32_t pid, struct place at)
{
    for (size_t i = 0; i < d->n_processes; i++)
        if (d->processes[i].pid == pid &&
            (at.gpu_instance == GPU_NO_INSTANCE ||
             (d->processes[i].gpu_instance == at.gpu_instance &&
              d->processes[i].compute_instance == at.compute_instance)))
            return &d->processes[i];
    if (d->n_processes == GPU_MAX_PROCESSES)
        return NULL;
    d->processes = gs_realloc_array(d->processes, d->n_processes + 1, sizeof(*d->processes));
    struct gpu_process *p = &d->processes[d->n_processes++];
    *p = (struct gpu_process){
        .pid = pid, .gpu_instance = at.gpu_instance, .compute_instance = at.compute_instance};
    return p;
}

typedef nvml_ret (*list_fn)(nvml_device, unsigned *, void *);

struct list_kind {
    enum nvml_call v1, v2, v3;
    size_t v1_offset, v2_offset, v3_offset; // of the functions in struct nvml
    bool graphics, mps;
};

#define LIST_KIND(name, is_graphics, is_mps)                                                       \
    {                                                                                              \
        NVML_CALL_##name##_processes_v1, NVML_CALL_##name##_processes_v2,                          \
            NVML_CALL_##name##_processes_v3, offsetof(struct nvml, name##_processes_v1),           \
            offsetof(struct nvml, name##_processes_v2),                                            \
            offsetof(struct nvml, name##_processes_v3), is_graphics, is_mps                        \
    }

static const struct list_kind list_kinds[] = {
    LIST_KIND(compute, false, false),
    LIST_KIND(graphics, true, false),
    LIST_KIND(mps, false, true),
};

// A process that uses compute and graphics is in several lists; its memory counts once.
static void add_process(struct gpu_device *d, uint32_t pid, uint64_t memory, struct place at,
                        const struct list_kind *kind)
{
    if (pid == 0)
        return;
    struct gpu_process *p = process_at(d, pid, at);
    if (!p)
        return;
    p->graphics |= kind->graphics;
    p->compute |= !kind->graphics;
    p->mps |= kind->mps;
    if (memory != NVML_MEMORY_UNKNOWN) {
        p->has_memory = true;
        p->memory_bytes = memory > p->memory_bytes ? memory : p->memory_bytes;
    }
}

// Returns the size of the entries that the library wrote into a buffer filled with the sentinel:
// for _v3 24, 32 (R535.43 to R535.86) or, reportedly, 16 bytes.
static size_t probe_stride(const unsigned char *buf, size_t size, unsigned n)
{
    size_t end = size;
    while (end > 0 && buf[end - 1] == SENTINEL)
        end--;
    if (end > (size_t)n * sizeof(struct nvml_process_v2))
        return NVML_PROCESS_MAX_STRIDE;
    return end > (size_t)n * sizeof(struct nvml_process_v1) ? sizeof(struct nvml_process_v2)
                                                            : sizeof(struct nvml_process_v1);
}

static list_fn list_at(const struct nvml *n, size_t offset)
{
    list_fn fn;
    memcpy(&fn, (const char *)n + offset, sizeof(fn));
    return fn;
}

// _v2 first: its layout has never changed.
static list_fn choose_list(const struct nvml *n, const struct list_kind *kind,
                           enum nvml_call *ret_call, size_t *ret_stride)
{
    list_fn fn = list_at(n, kind->v2_offset);
    *ret_call = kind->v2;
    *ret_stride = sizeof(struct nvml_process_v2);
    if (fn)
        return fn;
    fn = list_at(n, kind->v3_offset);
    *ret_call = kind->v3;
    *ret_stride = 0; // must be determined by probing
    if (fn)
        return fn;
    *ret_call = kind->v1;
    *ret_stride = sizeof(struct nvml_process_v1);
    return list_at(n, kind->v1_offset);
}

// Old layouts do not contain the MIG instance; the caller provides it. A driver may list all
// processes of the GPU instance for each of its compute instances.
static struct place place_of(const struct nvml_process_v2 *e, const struct gpu_instance *instance)
{
    if (!instance)
        return (struct place){e->gpu_instance, e->compute_instance};
    bool named =
        e->gpu_instance == instance->gpu_instance_id && e->compute_instance != NVML_NO_INSTANCE;
    return (struct place){instance->gpu_instance_id,
                          named ? e->compute_instance : instance->compute_instance_id};
}

static void take_list(const unsigned char *buf, unsigned n, size_t stride,
                      const struct gpu_instance *instance, const struct list_kind *kind,
                      struct gpu_device *d)
{
    for (unsigned i = 0; i < n; i++) {
        struct nvml_process_v2 e = {.gpu_instance = NVML_NO_INSTANCE,
                                    .compute_instance = NVML_NO_INSTANCE};
        size_t len = stride < sizeof(e) ? stride : sizeof(e);
        memcpy(&e, buf + i * stride, len);
        add_process(d, e.pid, e.memory, place_of(&e, instance), kind);
    }
}

static nvml_ret read_list(struct gpu_reader *b, nvml_device handle, const struct list_kind *kind,
                          const struct gpu_instance *instance, struct gpu_device *d)
{
    enum nvml_call call;
    size_t stride;
    list_fn fn = choose_list(b->nvml, kind, &call, &stride);
    if (!fn)
        return NVML_FUNCTION_NOT_FOUND;
    unsigned capacity = LIST_FIRST;
    for (int i = 0; i < LIST_TRIES; i++) {
        size_t size = (size_t)capacity * NVML_PROCESS_MAX_STRIDE;
        unsigned char *buf = gpu_backend_scratch(b, capacity, NVML_PROCESS_MAX_STRIDE);
        memset(buf, SENTINEL, size);
        unsigned n = capacity;
        b->started_ns = gs_mono_ns();
        nvml_ret ret = gpu_backend_note(b, call, fn(handle, &n, buf));
        if (ret == NVML_OK) {
            n = n < capacity ? n : capacity;
            take_list(buf, n, stride ? stride : probe_stride(buf, size, n), instance, kind, d);
            return NVML_OK;
        }
        if (ret != NVML_INSUFFICIENT_SIZE || capacity == LIST_MAX)
            return ret;
        // Processes may start meanwhile: allocate more.
        capacity = n > capacity && n < LIST_MAX / 2 ? n * 2 : LIST_MAX;
    }
    return NVML_INSUFFICIENT_SIZE;
}

bool gpu_backend_list_processes(struct gpu_reader *b, nvml_device handle,
                                const struct gpu_instance *instance, struct gpu_device *d)
{
    bool valid = false;
    if (!d->processes_ns)
        d->processes_ns = gs_mono_ns();
    for (size_t i = 0; i < GS_ARRAY_LEN(list_kinds) && !b->device_lost; i++) {
        nvml_ret ret = read_list(b, handle, &list_kinds[i], instance, d);
        if (i == 0)
            valid = ret == NVML_OK;
    }
    return valid;
}

// --- utilization ---

// Sums of the utilization records of one sample. Most drivers return one record per process, the
// mean over the window. If there are several, each counts for the time since the previous one.
struct util_sums {
    uint64_t since_us, until_us; // records outside are stale or invalid
    struct {
        uint64_t last_us, weight, sm, mem, enc, dec;
    } of[GPU_MAX_PROCESSES]; // same index as in the device
};

static void take_util(struct gpu_device *d, const struct nvml_process_util *u,
                      struct util_sums *sums)
{
    // Unused slots are zero; records outside the window or range are invalid.
    if (u->pid == 0 || u->time_us <= sums->since_us || u->time_us > sums->until_us)
        return;
    if (u->sm > 100 || u->mem > 100 || u->enc > 100 || u->dec > 100)
        return;
    struct gpu_process *p = process_at(d, u->pid, no_place);
    if (!p)
        return;
    size_t at = (size_t)(p - d->processes);
    uint64_t before = sums->of[at].last_us ? sums->of[at].last_us : sums->since_us;
    if (u->time_us <= before)
        return;
    uint64_t weight = u->time_us - before;
    sums->of[at].last_us = u->time_us;
    sums->of[at].weight += weight;
    sums->of[at].sm += weight * u->sm;
    sums->of[at].mem += weight * u->mem;
    sums->of[at].enc += weight * u->enc;
    sums->of[at].dec += weight * u->dec;
}

static uint32_t mean(uint64_t sum, uint64_t weight)
{
    return (uint32_t)((sum + weight / 2) / weight);
}

static void give_util(struct gpu_device *d, const struct util_sums *sums)
{
    for (size_t i = 0; i < d->n_processes; i++) {
        uint64_t weight = sums->of[i].weight;
        if (!weight)
            continue;
        d->processes[i].has_util = true;
        d->processes[i].sm_util = mean(sums->of[i].sm, weight);
        d->processes[i].mem_util = mean(sums->of[i].mem, weight);
        d->processes[i].enc_util = mean(sums->of[i].enc, weight);
        d->processes[i].dec_util = mean(sums->of[i].dec, weight);
    }
}

static nvml_ret read_util_samples(struct gpu_reader *b, struct gpu_known_device *k,
                                  struct gpu_device *d, struct util_sums *sums)
{
    for (unsigned capacity = b->util_capacity; capacity <= UTIL_MAX; capacity *= 4) {
        b->util_capacity = capacity;
        struct nvml_process_sample *s = gpu_backend_scratch(b, capacity, sizeof(*s));
        unsigned n = capacity;
        nvml_ret ret = NVML(b, process_utilization, k->handle, s, &n, k->process_seen_us);
        if (ret == NVML_INSUFFICIENT_SIZE)
            continue;
        for (unsigned i = 0; ret == NVML_OK && i < n && i < capacity; i++) {
            struct nvml_process_util u = {s[i].time_us, s[i].pid, s[i].sm, s[i].mem,
                                          s[i].enc,     s[i].dec, 0,       0};
            take_util(d, &u, sums);
        }
        return ret;
    }
    return NVML_INSUFFICIENT_SIZE;
}

static nvml_ret read_util_info(struct gpu_reader *b, struct gpu_known_device *k,
                               struct gpu_device *d, struct util_sums *sums)
{
    for (unsigned capacity = b->util_capacity; capacity <= UTIL_MAX; capacity *= 4) {
        b->util_capacity = capacity;
        struct nvml_process_util_request r = {
            .version = NVML_VERSION_WORD(struct nvml_process_util_request, 1),
            .count = capacity,
            .last_seen_us = k->process_seen_us,
            .entries = gpu_backend_scratch(b, capacity, sizeof(*r.entries)),
        };
        nvml_ret ret = NVML(b, processes_utilization, k->handle, &r);
        if (ret == NVML_INSUFFICIENT_SIZE)
            continue;
        for (unsigned i = 0; ret == NVML_OK && i < r.count && i < capacity; i++)
            take_util(d, &r.entries[i], sums);
        return ret;
    }
    return NVML_INSUFFICIENT_SIZE;
}

static void read_utilization(struct gpu_reader *b, struct gpu_known_device *k, struct gpu_device *d)
{
    uint64_t now = (uint64_t)gs_unix_us();
    // If the clock was set back, the records must not look stale until it has caught up.
    if (k->process_seen_us > now)
        k->process_seen_us = now - CLOCK_BACK_US;
    struct util_sums sums = {.since_us = k->process_seen_us, .until_us = now + CLOCK_AHEAD_US};
    if (!b->util_capacity)
        b->util_capacity = UTIL_FIRST;
    nvml_ret ret = read_util_samples(b, k, d, &sums);
    if (ret == NVML_FUNCTION_NOT_FOUND || ret == NVML_DEPRECATED)
        ret = read_util_info(b, k, d, &sums);
    k->process_seen_us = now;
    d->process_util = ret == NVML_NOT_FOUND ? GPU_VALID : gpu_backend_validity(ret);
    if (d->process_util != GPU_VALID)
        return;
    give_util(d, &sums);
    // Only active processes have a record (NOT_FOUND: none is active). The others are idle, which
    // is a value.
    for (size_t i = 0; i < d->n_processes; i++)
        d->processes[i].has_util = true;
}

void gpu_backend_read_processes(struct gpu_reader *b, struct gpu_known_device *k,
                                struct gpu_device *d)
{
    // With MIG, the lists were read per instance, and the driver provides no utilization.
    d->process_util = GPU_NOT_SUPPORTED;
    if (d->n_instances)
        return;
    d->processes_valid = gpu_backend_list_processes(b, k->handle, NULL, d);
    if (!b->device_lost)
        read_utilization(b, k, d);
}
