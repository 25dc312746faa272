// SPDX-License-Identifier: Apache-2.0
// Hours of samples of DCGM-like targets: 8 GPUs with 25 series each. All processes generate the
// same samples, so that two stores can be filled with one history.
#pragma once

#include "metrics/labels.h"

#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_FIELDS = 25,
    HISTORY_GPUS = 8,
    HISTORY_SERIES = HISTORY_FIELDS * HISTORY_GPUS, // of a target
    HISTORY_LABELS = 13,
    HISTORY_TABLE = 4096, // values of a field, which take turns
};

struct history_target {
    double counters[HISTORY_GPUS];
    uint32_t offset; // of its passes, and into the tables
};

struct history {
    struct history_target *targets;
    size_t n;
    int64_t step_ms;
    int64_t begin_ms; // of round 0
    double values[HISTORY_FIELDS][HISTORY_TABLE];
};

struct history *history_new(int64_t series, int64_t step_ms, int64_t begin_ms);
void history_free(struct history *h);
// Rounds of a target in order and without gaps, because counters continue.
void history_values(struct history *h, size_t target, size_t round, double ret[HISTORY_SERIES]);
// Up to 3 ms late, as scrapes are.
int64_t history_time(const struct history *h, size_t target, size_t round);

// The labels of one GPU's series; sorted by name.
struct history_device {
    char gpu[12], uuid[64], pci_bus_id[24], device[16], host[24], space[24], pod[40], instance[32];
    struct metrics_label labels[HISTORY_LABELS]; // of the last series
};
void history_device(size_t target, int gpu, struct history_device *ret);
// Series i of a target belongs to GPU i % HISTORY_GPUS.
const struct metrics_label *history_labels(struct history_device *d, int series);
