// SPDX-License-Identifier: Apache-2.0
// Values of series in the notation of rule unit tests
// (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series): `1 2 _
// 5+1x3 _x2 0x4 stale`. Runs are expanded while they are read, so 0x1000000000 needs no memory.
#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct promql_run {
    double first, by;
    uint64_t n;   // number of samples: 4 for 5+1x3
    bool omitted; // _
};

struct promql_values {
    const struct promql_run *runs;
    size_t n_runs;
};

// The runs are allocated in the arena. Errors have the column. GS_ENOTSUP: histograms.
struct gs_error *promql_parse_values(struct gs_slice text, struct gs_arena *arena,
                                     struct promql_values *ret);

// Reads values in order. Set `values` and zero the rest.
struct promql_values_reader {
    const struct promql_values *values;
    size_t run;
    uint64_t i;
    double value;
};
// Returns false after the last value. *ret_omitted: no sample at this position.
bool promql_values_next(struct promql_values_reader *r, double *ret, bool *ret_omitted);
