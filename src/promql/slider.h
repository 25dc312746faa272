// SPDX-License-Identifier: Apache-2.0
// Functions of ranges whose windows only move forward: what two windows have in common is not
// looked at again. Private to the room.
//
// Sums are never subtracted from: a window is the sum of the samples behind a border, kept for each
// of its starts, and the sum of those in front of it, so a result is as exact as that of one
// compensated sum, whatever was in the window before.
#pragma once

#include "promql/functions_private.h"

struct promql_slider {
    const double *v;    // samples of the series
    size_t from, until; // of the last window
    // sums: behind the border one for each start, with its compensation
    double *sums, *errors;
    size_t border, cap;
    double sum, error; // from the border to the end
    size_t n_wild;     // samples of the window that are in no sum: NaN, infinite or nearly so
    // places of samples: those that may become the extreme, or that fall, or change
    size_t *places;
    size_t head, tail;
};

// Of another series of n samples. Its memory is the query's.
struct gs_error *promql_slider_begin(struct promql_slider *s, struct promql_eval *ev,
                                     const double *v, size_t n);

typedef bool promql_sliding_fn(struct promql_slider *s, const struct promql_window *w, double *ret);
promql_sliding_fn promql_slide_sum, promql_slide_avg, promql_slide_min, promql_slide_max,
    promql_slide_rate, promql_slide_increase, promql_slide_changes, promql_slide_resets;
