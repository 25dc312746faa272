// SPDX-License-Identifier: Apache-2.0
// Which families /metrics has: dcgm-exporter's counters file ("field, Prometheus type, help"), or
// one of its three files as built in.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "gpu/gpu.h"

enum exporter_counter_kind {
    EXPORTER_COUNTER_FIELD,
    EXPORTER_COUNTER_LABEL, // no family: a label, named like the field, of all others
    EXPORTER_COUNTER_EXP_XIDS,
    EXPORTER_COUNTER_EXP_CLOCK_EVENTS,
    EXPORTER_COUNTER_EXP_HEALTH,
    EXPORTER_COUNTER_EXP_P2P,
    EXPORTER_COUNTER_EXP_XIDS_TOTAL,
    EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL,
};

struct exporter_counter {
    enum exporter_counter_kind kind;
    enum gpu_field field; // whose validity counts
    int id;               // DCGM's; the order of output
    char *name, *type, *help;
    int64_t every_ns; // how often it is read; 0: in each pass
};

struct exporter_counters {
    struct exporter_counter *rows; // by id, a field once; labels by name behind them
    size_t len, cap;
    size_t n_families; // the rest are labels
    char **warnings;   // rows that were left out, and why
    size_t n_warnings, cap_warnings;
};

// Wrong files are errors that name the line: no three columns, an unknown type or field. Fields
// that only DCGM has become warnings.
struct gs_error *exporter_counters_parse(struct gs_slice text, struct exporter_counters *ret);
// "default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv", with any
// folder before it; false: none of them.
bool exporter_counters_builtin(const char *path, struct exporter_counters *ret);
void exporter_counters_default(struct exporter_counters *ret);
void exporter_counters_finish(struct exporter_counters *c);
bool exporter_counters_have(const struct exporter_counters *c, enum exporter_counter_kind kind);
// Sets ret[field] for what has to be read; GPU_F_COUNT of them.
void exporter_counters_wanted(const struct exporter_counters *c, bool *ret);
// And how often: gpu_backend_config.every_ns.
void exporter_counters_intervals(const struct exporter_counters *c, int64_t *ret);
