// SPDX-License-Identifier: Apache-2.0
// Reserves time on a simulated GPU: kernels of several processes share its SMs, and wait when all
// are taken. Reservations lie at most a few slices in the future, so that a killed client blocks
// nothing for long. Callers hold the GPU's mutex.
#include "nvmlsim/nvmlsim_private.h"

#include "base/clock.h"

// A client that was late by more than this (stopped or starved) has left its device idle.
#define LATE_LIMIT_NS (50 * GS_NS_PER_MS)
#define MOST_AHEAD_NS (NVMLSIM_SHM_RESERVATIONS * NVMLSIM_TIMELINE_SLICE_NS)
// A kernel on all SMs is assumed to use half of the memory bandwidth.
#define MEM_PER_SM 2

// Returns the number of remaining reservations.
static uint32_t drop_ended(struct nvmlsim_shm_timeline *t, int64_t now)
{
    uint32_t kept = 0;
    uint32_t n = nvmlsim_shm_reserved(t);
    for (uint32_t i = 0; i < n; i++) {
        struct nvmlsim_shm_reservation r = t->reservations[i];
        if (r.end > now + MOST_AHEAD_NS)
            continue; // not a reservation of this library
        if (r.end > now)
            t->reservations[kept++] = r;
        else if (r.end > t->floor)
            t->floor = r.end;
    }
    t->n = kept;
    return kept;
}

// All reservations start at or before `from`, so the free share only grows when one of them ends.
static int64_t first_room(const struct nvmlsim_shm_timeline *t, uint32_t n, int64_t from,
                          uint32_t share_ppm)
{
    for (uint32_t step = 0; step <= n; step++) {
        uint64_t used = 0;
        int64_t next = INT64_MAX;
        for (uint32_t i = 0; i < n; i++) {
            struct nvmlsim_shm_reservation r = t->reservations[i];
            if (r.end <= from)
                continue;
            used += r.share_ppm;
            if (r.end < next)
                next = r.end;
        }
        if (used + share_ppm <= NVMLSIM_SHM_PPM || next == INT64_MAX)
            break;
        from = next;
    }
    return from;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Future time is limited to what the reservations can hold.
static int64_t not_far(int64_t t, int64_t now)
{
    return t < now + MOST_AHEAD_NS ? t : now;
}

// Rounded up, while nvmlsim_activity_totals rounds future time down, so that totals never decrease.
static uint64_t part_of(uint64_t ns, uint64_t ppm)
{
    return (ns * ppm + NVMLSIM_SHM_PPM - 1) / NVMLSIM_SHM_PPM;
}

static void book(struct nvmlsim_shm_gpu *g, unsigned process, struct nvmlsim_shm_timeline *t,
                 const struct nvmlsim_timeline_slice *s, uint32_t share_ppm)
{
    uint32_t sm_ppm = (uint32_t)part_of(share_ppm, nvmlsim_shm_sm_ppm(t));
    uint64_t length = (uint64_t)(s->end - s->start);
    int64_t fresh = later(__atomic_load_n(&t->busy_end, __ATOMIC_RELAXED), s->start);
    t->busy_ns += s->end > fresh ? (uint64_t)(s->end - fresh) : 0;
    t->sm_ns += part_of(length, sm_ppm);
    t->mem_ns += part_of(length, sm_ppm) / MEM_PER_SM;
    nvmlsim_activity_add(t->ring, s->start, s->end, &t->busy_end, sm_ppm, sm_ppm / MEM_PER_SM);
    struct nvmlsim_shm_process *p = &g->processes[process];
    nvmlsim_activity_add(g->process_rings[process], s->start, s->end, &p->busy_end, sm_ppm,
                         sm_ppm / MEM_PER_SM);
    p->last_active = s->end;
}

bool nvmlsim_timeline_reserve(struct nvmlsim_shm_gpu *g, unsigned process, int64_t earliest,
                              int64_t now, int64_t length, uint32_t share_ppm,
                              struct nvmlsim_timeline_slice *ret)
{
    struct nvmlsim_shm_timeline *t =
        &g->timelines[g->processes[process].timeline % NVMLSIM_SHM_TIMELINES];
    uint32_t n = drop_ended(t, now);
    if (n >= NVMLSIM_SHM_RESERVATIONS)
        return false;
    int64_t last_start = __atomic_load_n(&t->last_start, __ATOMIC_RELAXED);
    int64_t floor = __atomic_load_n(&t->floor, __ATOMIC_RELAXED);
    int64_t from = later(later(earliest, now - LATE_LIMIT_NS),
                         later(not_far(last_start, now), not_far(floor, now)));
    struct nvmlsim_timeline_slice s = {.start = not_far(first_room(t, n, from, share_ppm), now)};
    s.end = s.start + length;
    book(g, process, t, &s, share_ppm);
    t->reservations[n] =
        (struct nvmlsim_shm_reservation){.start = s.start, .end = s.end, .share_ppm = share_ppm};
    t->n = n + 1;
    t->last_start = s.start;
    *ret = s;
    return true;
}
