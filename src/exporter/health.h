// SPDX-License-Identifier: Apache-2.0
// DCGM_EXP_GPU_HEALTH_STATUS: what DCGM's background health checks say of a GPU, from the values of
// NVML and by DCGM's limits (modules/health of DCGM 4): counters that moved within the last minute,
// states, and XIDs since the start. What DCGM looks at and NVML's values here do not tell is in
// docs/compatibility/.
#pragma once

#include "gpu/gpu.h"

enum exporter_health_watch {
    EXPORTER_HEALTH_PCIE,
    EXPORTER_HEALTH_NVLINK,
    EXPORTER_HEALTH_PMU, // of these three DCGM has no check either
    EXPORTER_HEALTH_MCU,
    EXPORTER_HEALTH_MEM,
    EXPORTER_HEALTH_SM,
    EXPORTER_HEALTH_INFOROM,
    EXPORTER_HEALTH_THERMAL,
    EXPORTER_HEALTH_POWER,
    EXPORTER_HEALTH_DRIVER,
    EXPORTER_HEALTH_ALL, // XIDs that concern the whole GPU
    EXPORTER_HEALTH_WATCHES
};
enum { EXPORTER_HEALTH_PASS = 0, EXPORTER_HEALTH_WARN = 10, EXPORTER_HEALTH_FAIL = 20 };

struct exporter_health_result {
    int level;        // the worst
    const char *code; // "DCGM_FR_…" of it, static
};

struct exporter_health;
struct exporter_health *exporter_health_new(void);
void exporter_health_free(struct exporter_health *h);
// Fields that it is made of: sets ret[field].
void exporter_health_wanted(bool *ret);
void exporter_health_take(struct exporter_health *h, const struct gpu_snapshot *s, int64_t now_ns);
// EXPORTER_HEALTH_WATCHES of them; NULL: nothing is known of this GPU.
const struct exporter_health_result *exporter_health_of(const struct exporter_health *h,
                                                        const char *uuid);
const char *exporter_health_watch_name(enum exporter_health_watch w); // "PCIE"
