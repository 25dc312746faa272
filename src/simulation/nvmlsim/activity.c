// SPDX-License-Identifier: Apache-2.0
// What a simulated GPU was busy with: a ring of buckets of time for each timeline, and the gauges
// that follow from it (utilization, power, temperature, energy). All numbers come from other
// processes through shared memory, so they may be anything; nothing here overflows because of
// them.
#include "nvmlsim/nvmlsim_private.h"

__extension__ typedef unsigned __int128 u128;

// First-order lag of the temperatures: the fraction of the difference that is covered in one
// bucket, for time constants of about 6 s and 10 s.
#define TEMP_STEP     0.0274
#define MEM_TEMP_STEP 0.0165

static struct nvmlsim_shm_bucket *bucket_at(struct nvmlsim_shm_bucket *ring, uint32_t id)
{
    struct nvmlsim_shm_bucket *b = &ring[id % NVMLSIM_SHM_BUCKETS];
    if (b->id != id) {
        b->busy_ns = b->sm_ns = b->mem_ns = 0;
        b->id = id;
    }
    return b;
}

static int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

void nvmlsim_activity_add(struct nvmlsim_shm_bucket *ring, int64_t start, int64_t end,
                          int64_t *busy_end, uint32_t sm_ppm, uint32_t mem_ppm)
{
    int64_t fresh = clamp(*busy_end, start, end); // earlier time is already busy
    for (int64_t at = start; at < end;) {
        uint32_t id = nvmlsim_activity_bucket(at);
        int64_t stop = clamp((int64_t)(id + 1) * NVMLSIM_SHM_BUCKET_NS, at, end);
        struct nvmlsim_shm_bucket *b = bucket_at(ring, id);
        uint64_t span = (uint64_t)(stop - at);
        b->busy_ns += (uint32_t)(stop - clamp(fresh, at, stop));
        b->sm_ns += (uint32_t)(span * sm_ppm / NVMLSIM_SHM_PPM);
        b->mem_ns += (uint32_t)(span * mem_ppm / NVMLSIM_SHM_PPM);
        at = stop;
    }
    if (end > *busy_end)
        *busy_end = end;
}

void nvmlsim_activity_window(int64_t since, int64_t now, uint32_t *ret_first, uint32_t *ret_end)
{
    uint32_t end = nvmlsim_activity_bucket(now); // the current bucket is incomplete
    uint32_t first = end > NVMLSIM_SHM_HISTORY ? end - NVMLSIM_SHM_HISTORY : 1;
    uint32_t wanted = since > 0 ? nvmlsim_activity_bucket(since) : 0;
    *ret_first = wanted > end ? end : wanted > first ? wanted : first;
    *ret_end = end;
}

void nvmlsim_activity_sum(const struct nvmlsim_shm_bucket *ring, uint32_t first, uint32_t end,
                          struct nvmlsim_activity_sum *ret)
{
    struct nvmlsim_activity_sum sum = {.span_ns = (uint64_t)(end - first) *
                                                  (uint64_t)NVMLSIM_SHM_BUCKET_NS};
    for (uint32_t id = first; id != end; id++) {
        const struct nvmlsim_shm_bucket *b = &ring[id % NVMLSIM_SHM_BUCKETS];
        if (b->id != id)
            continue;
        sum.busy_ns += b->busy_ns;
        sum.sm_ns += b->sm_ns;
        sum.mem_ns += b->mem_ns;
    }
    *ret = sum;
}

void nvmlsim_activity_sum_gpu(const struct nvmlsim_shm_gpu *g, unsigned n_mig, uint32_t first,
                              uint32_t end, struct nvmlsim_activity_sum *ret)
{
    struct nvmlsim_activity_sum total = {0};
    for (unsigned i = 0; i <= n_mig; i++) {
        struct nvmlsim_activity_sum sum = {0};
        nvmlsim_activity_sum(g->timelines[i].ring, first, end, &sum);
        total.span_ns = sum.span_ns;
        total.busy_ns += sum.busy_ns;
        total.sm_ns += sum.sm_ns;
        total.mem_ns += sum.mem_ns;
    }
    *ret = total;
}

uint32_t nvmlsim_activity_power_mw(const struct nvmlsim_model *m, uint64_t sm_ns, uint64_t span_ns)
{
    uint64_t dynamic_mw = (uint64_t)(m->max_w - m->idle_w) * 1000;
    uint64_t part = sm_ns > span_ns ? span_ns : sm_ns;
    return m->idle_w * 1000 + (span_ns ? (uint32_t)((u128)dynamic_mw * part / span_ns) : 0);
}

void nvmlsim_activity_totals(const struct nvmlsim_shm_timeline *t, int64_t now,
                             struct nvmlsim_activity_sum *ret)
{
    uint64_t ahead_ppm_ns = 0;
    for (uint32_t i = 0, n = nvmlsim_shm_reserved(t); i < n; i++) {
        const struct nvmlsim_shm_reservation r = t->reservations[i];
        int64_t from = r.start > now ? r.start : now;
        if (r.end > from)
            ahead_ppm_ns += (uint64_t)(r.end - from) * r.share_ppm;
    }
    uint64_t sm_ahead = ahead_ppm_ns / NVMLSIM_SHM_PPM * nvmlsim_shm_sm_ppm(t) / NVMLSIM_SHM_PPM;
    int64_t busy_end = __atomic_load_n(&t->busy_end, __ATOMIC_RELAXED);
    uint64_t busy_ahead = busy_end > now ? (uint64_t)(busy_end - now) : 0;
    *ret = (struct nvmlsim_activity_sum){
        .busy_ns = t->busy_ns > busy_ahead ? t->busy_ns - busy_ahead : 0,
        .sm_ns = t->sm_ns > sm_ahead ? t->sm_ns - sm_ahead : 0,
        .mem_ns = t->mem_ns > sm_ahead / 2 ? t->mem_ns - sm_ahead / 2 : 0,
    };
}

// Idle power for the whole time, plus the dynamic part for the SM time used.
static uint64_t energy_mj(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                          int64_t created, int64_t now)
{
    u128 nanojoule_mw =
        (u128)b->model.idle_w * 1000 * (uint64_t)(now > created ? now - created : 0);
    for (unsigned i = 0; i <= b->n_mig; i++) {
        struct nvmlsim_activity_sum sum;
        nvmlsim_activity_totals(&g->timelines[i], now, &sum);
        nanojoule_mw += (u128)(b->model.max_w - b->model.idle_w) * 1000 * sum.sm_ns;
    }
    return (uint64_t)(nanojoule_mw / 1000000000U);
}

static void temperatures(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                         int64_t now, struct nvmlsim_activity_gauges *ret)
{
    uint32_t first, end;
    nvmlsim_activity_window(0, now, &first, &end);
    double core = 0, memory = 0; // 0: idle temperature, 1: at full load
    for (uint32_t id = first; id != end; id++) {
        struct nvmlsim_activity_sum sum;
        nvmlsim_activity_sum_gpu(g, b->n_mig, id, id + 1, &sum);
        double load = (double)sum.sm_ns / (double)NVMLSIM_SHM_BUCKET_NS;
        core += ((load > 1 ? 1 : load) - core) * TEMP_STEP;
        memory += ((load > 1 ? 1 : load) - memory) * MEM_TEMP_STEP;
    }
    double range = (double)(b->model.max_temp_c - b->model.idle_temp_c);
    ret->temp_c = b->model.idle_temp_c + (uint32_t)(range * core + 0.5);
    ret->mem_temp_c = b->model.idle_temp_c + 3 + (uint32_t)(range * memory + 0.5);
}

void nvmlsim_activity_gauges(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                             int64_t created, int64_t now, struct nvmlsim_activity_gauges *ret)
{
    uint32_t first, end;
    nvmlsim_activity_window(now - NVMLSIM_SHM_PERIOD * NVMLSIM_SHM_BUCKET_NS, now, &first, &end);
    struct nvmlsim_activity_sum second, last;
    nvmlsim_activity_sum_gpu(g, b->n_mig, first, end, &second);
    nvmlsim_activity_sum_gpu(g, b->n_mig, end - 1, end, &last);
    uint64_t busy = b->n_mig ? second.sm_ns : second.busy_ns;
    struct nvmlsim_activity_gauges v = {
        .gpu_util = nvmlsim_activity_percent(busy, second.span_ns),
        .mem_util = nvmlsim_activity_percent(second.mem_ns, second.span_ns),
        .sm_util = nvmlsim_activity_percent(second.sm_ns, second.span_ns),
        .power_mw = nvmlsim_activity_power_mw(&b->model, second.sm_ns, second.span_ns),
        .power_instant_mw = nvmlsim_activity_power_mw(&b->model, last.sm_ns, last.span_ns),
        .energy_mj = energy_mj(g, b, created, now),
        .active = second.busy_ns > 0,
    };
    temperatures(g, b, now, &v);
    v.sm_mhz = v.active ? b->model.sm_max_mhz : b->model.sm_idle_mhz;
    v.mem_mhz = v.active ? b->model.mem_max_mhz : b->model.mem_idle_mhz;
    *ret = v;
}
