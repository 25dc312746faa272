// SPDX-License-Identifier: Apache-2.0
// Prometheus text exposition format 0.0.4, read. Allocation-free per sample: the callback gets
// slices into the input (escaped label values are unescaped into scratch memory that lives until it
// returns).
#pragma once

#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

enum metrics_type {
    METRICS_UNTYPED,
    METRICS_COUNTER,
    METRICS_GAUGE,
    METRICS_HISTOGRAM,
    METRICS_SUMMARY,
};

struct metrics_sample {
    struct gs_slice name;
    const struct metrics_label *labels; // in input order, without __name__
    size_t n_labels;
    double value;
    bool has_timestamp;
    int64_t timestamp_ms;
    enum metrics_type type; // of the family, METRICS_UNTYPED when not declared
};

struct metrics_limits {
    size_t max_line;            // bytes, 0: 64 KiB
    size_t max_labels;          // 0: 64
    size_t max_samples;         // 0: none
    size_t max_name, max_value; // bytes of a label's name and value, 0: none
};

// Returns false from on_sample to stop early. A malformed line is GS_EINVAL "line 12, column 7: …".
struct gs_error *metrics_parse_text(struct gs_slice text, const struct metrics_limits *limits,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg);
