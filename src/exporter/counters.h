// SPDX-License-Identifier: Apache-2.0
// Which families /metrics has: dcgm-exporter's counters file ("field, Prometheus type, help"), or
// one of its three files as built in.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "gpu/gpu.h"

enum counter_kind {
    COUNTER_FIELD,
    COUNTER_LABEL, // no family: a label, named like the field, of all others
    COUNTER_EXP_XIDS,
    COUNTER_EXP_CLOCK_EVENTS,
    COUNTER_EXP_HEALTH,
    COUNTER_EXP_P2P,
    COUNTER_EXP_XIDS_TOTAL,
    COUNTER_EXP_CLOCK_EVENTS_TOTAL,
};

struct counter {
    enum counter_kind kind;
    enum gpu_field field; // whose validity counts
    int id;               // DCGM's; the order of output
    char *name, *type, *help;
    int64_t every_ns; // how often it is read; 0: in each pass
};

struct counters {
    struct counter *rows; // by id, a field once; labels by name behind them
    size_t len, cap;
    size_t n_families; // the rest are labels
    char **warnings;   // rows that were left out, and why
    size_t n_warnings, cap_warnings;
};

// Wrong files are errors that name the line: no three columns, an unknown type or field. Fields
// that only DCGM has become warnings.
struct gs_error *counters_parse(struct gs_slice text, struct counters *ret);
// "default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv", with any
// folder before it; false: none of them.
bool counters_builtin(const char *path, struct counters *ret);
void counters_default(struct counters *ret);
void counters_finish(struct counters *c);
bool counters_have(const struct counters *c, enum counter_kind kind);
// Sets ret[field] for what has to be read; GPU_F_COUNT of them.
void counters_wanted(const struct counters *c, bool *ret);
// And how often: gpu_backend_config.every_ns.
void counters_every(const struct counters *c, int64_t *ret);
