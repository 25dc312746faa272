// SPDX-License-Identifier: Apache-2.0
// The families of /metrics: a counters file of dcgm-exporter ("field, Prometheus type, help"), or a
// built-in one.
#pragma once

#include "base/error.h"
#include "base/slice.h"
#include "gpu/gpu.h"

enum exporter_counter_kind {
    EXPORTER_COUNTER_FIELD,
    EXPORTER_COUNTER_LABEL, // no family: a label, named like the field, of all other families
    EXPORTER_COUNTER_EXP_XIDS,
    EXPORTER_COUNTER_EXP_CLOCK_EVENTS,
    EXPORTER_COUNTER_EXP_HEALTH,
    EXPORTER_COUNTER_EXP_P2P,
    EXPORTER_COUNTER_EXP_XIDS_TOTAL,
    EXPORTER_COUNTER_EXP_CLOCK_EVENTS_TOTAL,
    EXPORTER_COUNTER_DCGM, // only DCGM has it: field is GPU_F_COUNT
};

struct exporter_counter {
    enum exporter_counter_kind kind;
    enum gpu_field field; // the field whose validity decides whether the family has a value
    int id;               // DCGM's field ID; determines the order of output
    char *name, *type, *help;
    int64_t every_ns; // sampling interval; 0: each sample
};

struct exporter_counters {
    struct exporter_counter *rows; // families by ID and name, each name once, then labels by name
    size_t len, cap;
    size_t n_families; // the remaining rows are labels
    size_t n_left_out; // rows that were ignored
    char **warnings;   // which rows, and why
    size_t n_warnings, cap_warnings;
};

// Fails with the line number if a row has not three columns, if its type is unknown, or if its
// field is neither a known one nor has the form of a DCGM name (DCGM_FI_…). Rows with names of that
// form that are unknown or that only DCGM provides are left out with a warning: each release of
// DCGM has new names, and a row without a metric must not end the others. A file of which all rows
// are left out is valid.
struct gs_error *exporter_counters_parse(struct gs_slice text, struct exporter_counters *ret);
// dcgm: there is a source of the fields that only DCGM has. Those that are numbers are then rows of
// the kind EXPORTER_COUNTER_DCGM.
struct gs_error *exporter_counters_parse_with(struct gs_slice text, bool dcgm,
                                              struct exporter_counters *ret);
// Accepts "default-counters.csv", "dcp-metrics-included.csv", "1.x-compatibility-metrics.csv" and
// "default-counters-4.9.csv" in any directory. False: another name.
bool exporter_counters_builtin(const char *path, struct exporter_counters *ret);
void exporter_counters_default(struct exporter_counters *ret);
void exporter_counters_finish(struct exporter_counters *c);
bool exporter_counters_have(const struct exporter_counters *c, enum exporter_counter_kind kind);
// Sets ret[field] for each field that has to be read; ret has GPU_F_COUNT elements.
void exporter_counters_wanted(const struct exporter_counters *c, bool *ret);
// Writes the ids of the rows that only DCGM has, in ascending order. Returns how many, at most cap.
size_t exporter_counters_dcgm_ids(const struct exporter_counters *c, uint16_t *ret, size_t cap);
// Sets the sampling interval of each field, as in gpu_backend_config.every_ns.
void exporter_counters_intervals(const struct exporter_counters *c, int64_t *ret);

// Which names the metrics have that dcgm-exporter 4.9 renames. With those of 4.9, 11 of the default
// metrics are in base units.
enum exporter_names {
    EXPORTER_NAMES_OF_FILE, // as the file has them
    EXPORTER_NAMES_4_8,
    EXPORTER_NAMES_4_9,
    EXPORTER_NAMES_BOTH, // each metric and label twice
};

// "4.8", "4.9" or "both". False: another text.
bool exporter_names_parse(const char *text, enum exporter_names *ret);
void exporter_counters_rename(struct exporter_counters *c, enum exporter_names names);
