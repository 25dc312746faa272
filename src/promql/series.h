// SPDX-License-Identifier: Apache-2.0
// Series as unit tests of rules write them
// (https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/#series):
// `1 2 _ 5+1x3 _x2 0x4 stale`. Kept as written, so that 0x1000000000 costs nothing before its
// samples are asked for.
#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

struct promql_run {
    double first, by;
    uint64_t n;   // samples: those of 5+1x3 are four
    bool omitted; // _
};

struct promql_values {
    const struct promql_run *runs;
    size_t n_runs;
};

// The runs are in the arena. Errors name the column; histograms are GS_ENOTSUP.
struct gs_error *promql_parse_values(struct gs_slice text, struct gs_arena *arena,
                                     struct promql_values *ret);

// Reads them one after the other; zeroed but for values.
struct promql_values_reader {
    const struct promql_values *values;
    size_t run;
    uint64_t i;
    double value;
};
// False behind the last. *ret_omitted: there is no sample at this place.
bool promql_values_next(struct promql_values_reader *r, double *ret, bool *ret_omitted);
