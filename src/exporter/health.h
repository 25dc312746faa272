// SPDX-License-Identifier: Apache-2.0
// DCGM_EXP_GPU_HEALTH_STATUS: what DCGM's background health checks say of a GPU, from the values of
// NVML and by DCGM's limits (modules/health of DCGM 4): counters that moved within the last minute,
// states, and XIDs since the start. What DCGM looks at and NVML's values here do not tell is in
// docs/compatibility.md.
#pragma once

#include "gpu/gpu.h"

enum health_watch {
    HEALTH_PCIE,
    HEALTH_NVLINK,
    HEALTH_PMU, // of these three DCGM has no check either
    HEALTH_MCU,
    HEALTH_MEM,
    HEALTH_SM,
    HEALTH_INFOROM,
    HEALTH_THERMAL,
    HEALTH_POWER,
    HEALTH_DRIVER,
    HEALTH_ALL, // XIDs that concern the whole GPU
    HEALTH_WATCHES
};
enum { HEALTH_PASS = 0, HEALTH_WARN = 10, HEALTH_FAIL = 20 };

struct health_result {
    int level;        // the worst
    const char *code; // "DCGM_FR_…" of it, static
};

struct health;
struct health *health_new(void);
void health_free(struct health *h);
// Fields that it is made of: sets ret[field].
void health_wanted(bool *ret);
void health_take(struct health *h, const struct gpu_snapshot *s, int64_t now_ns);
// HEALTH_WATCHES of them; NULL: nothing is known of this GPU.
const struct health_result *health_of(const struct health *h, const char *uuid);
const char *health_watch_name(enum health_watch w); // "PCIE"
