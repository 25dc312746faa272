// SPDX-License-Identifier: Apache-2.0
// A libnvidia-ml that does what a test tells it by the exported variable `fake_nvml`.
#pragma once

#include "gpu/nvml.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { FAKE_GPUS = 4, FAKE_PROCESSES = 300 };

struct fake_gpu {
    bool lost;
    uint64_t memory_total, memory_used;
    unsigned util;
    bool mig;
    nvml_ret power_ret;
    unsigned long long clock_events; // bits
    unsigned xid;                    // reported once, then cleared
    unsigned n_processes;
    struct nvml_process_v2 processes[FAKE_PROCESSES];
    nvml_ret util_ret;
    unsigned n_util;
    struct nvml_process_sample util_records[8];
    unsigned n_samples;
    struct nvml_sample samples[16];
    unsigned unrepairable;
};

struct fake_nvml {
    unsigned count;
    nvml_ret count_ret, init_ret;
    unsigned stride; // of the _v3 process lists
    unsigned inits, shutdowns;
    nvml_ret memory_v2_ret;
    unsigned
        unrepairable_bytes; // 4 or 8: the struct's size; 1: nothing is written; 0: no such call
    bool gpm;               // a metric's value is its number
    bool counts; // times with lowered clocks (fields 74 to 81), and the speed of C2C links (172)
    unsigned nvlinks;
    uint64_t sent_kib[36], received_kib[36];
    _Atomic uint64_t last_seen_us; // as asked for by the last utilisation call
    atomic_bool hang;              // nvmlDeviceGetPowerUsage does not return while set
    atomic_bool hangs;             // it was called meanwhile
    struct fake_gpu gpus[FAKE_GPUS];
};
