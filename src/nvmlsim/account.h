// SPDX-License-Identifier: Apache-2.0
// The books of a device: activity per sixth of a second in rings, and what the driver's gauges say
// from them. Readers use complete buckets only, so a value never includes time that has not passed
// yet. All functions need the GPU's mutex.
#pragma once

#include "nvmlsim/shm.h"

struct nvmlsim_account_sum {
    uint64_t span_ns; // length of the window
    uint64_t busy_ns, sm_ns, mem_ns;
};

// Adds [start, end) to a ring; the union with what is busy until *busy_end already counts once.
void nvmlsim_account_add(struct nvmlsim_shm_bucket *ring, int64_t start, int64_t end,
                         int64_t *busy_end, uint32_t sm_ppm, uint32_t mem_ppm);

static inline uint32_t nvmlsim_account_bucket(int64_t mono_ns)
{
    return (uint32_t)(mono_ns / NVMLSIM_SHM_BUCKET_NS);
}

// The first and the one-past-last complete bucket whose end is after `since` (monotonic; 0: all
// that is kept). Empty when first == end.
void nvmlsim_account_window(int64_t since, int64_t now, uint32_t *ret_first, uint32_t *ret_end);
void nvmlsim_account_sum(const struct nvmlsim_shm_bucket *ring, uint32_t first, uint32_t end,
                         struct nvmlsim_account_sum *ret);

// All timelines of the GPU together (sm and mem are parts of the whole GPU; busy only makes sense
// outside MIG).
void nvmlsim_account_sum_gpu(const struct nvmlsim_shm_gpu *g, unsigned n_mig, uint32_t first,
                             uint32_t end, struct nvmlsim_account_sum *ret);

static inline unsigned nvmlsim_account_percent(uint64_t part, uint64_t span)
{
    // clang-tidy 14 loses that nvmlsim_account_sum_gpu sets all fields.
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
    uint64_t p = span ? (part * 100 + span / 2) / span : 0;
    return p > 100 ? 100 : (unsigned)p;
}

// The gauges as of `now`.
struct nvmlsim_account_gauges {
    unsigned gpu_util, mem_util; // percent of the last second
    unsigned sm_util;            // SM-weighted
    uint32_t power_mw, power_instant_mw;
    uint64_t energy_mj; // since the device was made
    uint32_t temp_c, mem_temp_c;
    uint32_t sm_mhz, mem_mhz;
    bool active;
};
void nvmlsim_account_gauges(const struct nvmlsim_shm_gpu *g, const struct nvmlsim_shm_board *b,
                            int64_t created, int64_t now, struct nvmlsim_account_gauges *ret);

// Power in a bucket's worth of SM activity.
uint32_t nvmlsim_account_power_mw(const struct nvmlsim_model *m, uint64_t sm_ns, uint64_t span_ns);

// Totals since the device was made, up to `now` (reservations ahead taken out).
void nvmlsim_account_totals(const struct nvmlsim_shm_timeline *t, int64_t now,
                            struct nvmlsim_account_sum *ret);
