// SPDX-License-Identifier: Apache-2.0
// Range functions whose windows only move forward. Samples that two windows share are not processed
// again.
// Nothing is ever subtracted from a sum. A window has a border: the sums of the samples before it
// are kept for each possible start, and the samples after it have one sum. The result is therefore
// as exact as one compensated sum, whatever the window contained before.
#pragma once

#include "promql/eval_private.h"

#include <stddef.h>

struct promql_slider {
    const double *v;    // samples of the series
    size_t from, until; // of the last window
    // sums before the border, one for each start, with their compensation
    double *sums, *errors;
    size_t border, cap;
    double sum, error; // from the border to the end
    size_t n_wild;     // samples of the window outside the sums: NaN, infinite or close to overflow
    // indexes of samples that are candidates for the extreme, resets or changes
    size_t *places;
    size_t head, tail;
};

// Starts with another series of n samples. The memory belongs to the query.
struct gs_error *promql_slider_begin(struct promql_slider *s, struct promql_eval *ev,
                                     const double *v, size_t n);

typedef bool promql_sliding_fn(struct promql_slider *s, const struct promql_window *w, double *ret);
promql_sliding_fn promql_slide_sum, promql_slide_avg, promql_slide_min, promql_slide_max,
    promql_slide_rate, promql_slide_increase, promql_slide_changes, promql_slide_resets;
