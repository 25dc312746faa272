// SPDX-License-Identifier: Apache-2.0
// The functions that the table names, by file. Private to the room.
#pragma once

#include "promql/eval.h"

typedef bool promql_rollup_fn(const struct promql_window *w, double *ret);
// rollup_counter.c
promql_rollup_fn rollup_rate, rollup_increase, rollup_delta, rollup_irate, rollup_idelta,
    rollup_deriv, rollup_predict_linear, rollup_changes, rollup_resets;
struct gs_slice promql_window_metric(const struct promql_window *w); // the series' name
// rate or increase of a window in which a counter counted so much.
bool promql_counter_rate(const struct promql_window *w, double counted, bool per_second,
                         double *ret);
// rollup_over_time.c
promql_rollup_fn rollup_avg, rollup_sum, rollup_min, rollup_max, rollup_count, rollup_last,
    rollup_first, rollup_present, rollup_stddev, rollup_stdvar, rollup_quantile;

typedef double promql_map_fn(double v, const double *args, size_t n_args);
// functions_math.c
promql_map_fn map_abs, map_ceil, map_floor, map_exp, map_ln, map_log2, map_log10, map_sqrt, map_sgn,
    map_sin, map_cos, map_tan, map_asin, map_acos, map_atan, map_sinh, map_cosh, map_tanh,
    map_asinh, map_acosh, map_atanh, map_deg, map_rad, map_round, map_clamp, map_clamp_min,
    map_clamp_max;
// functions_time.c
promql_map_fn map_minute, map_hour, map_day_of_week, map_day_of_month, map_day_of_year,
    map_days_in_month, map_month, map_year;

typedef struct gs_error *promql_special_fn(struct promql_eval *ev, const struct promql_node *call,
                                           struct promql_matrix *ret);
// functions_misc.c
promql_special_fn special_time, special_pi, special_scalar, special_vector, special_absent,
    special_absent_over_time, special_timestamp, special_sort, special_sort_desc, special_none;
// functions_label.c
promql_special_fn special_label_replace, special_label_join, special_sort_by_label,
    special_sort_by_label_desc;
// functions_histogram.c
promql_special_fn special_histogram_quantile, special_histogram_fraction;

// Neumaier's compensated addition, in the order of Prometheus.
static inline void promql_kahan_add(double inc, double *sum, double *c)
{
    double t = *sum + inc;
    if (__builtin_isinf(t))
        *c = 0;
    else if (__builtin_fabs(*sum) >= __builtin_fabs(inc))
        *c += (*sum - t) + inc;
    else
        *c += (inc - t) + *sum;
    *sum = t;
}

// The same sum and compensation of n values for as long as nothing overflows (else *sum is not
// finite): the rounding error of an addition is one number, so Knuth's form without a branch finds
// it too.
static inline void promql_fast_sum(const double *v, size_t n, double *sum, double *c)
{
    double s = *sum, error = *c;
    for (size_t i = 0; i < n; i++) {
        double t = s + v[i], part = t - s;
        error += (s - (t - part)) + (v[i] - part);
        s = t;
    }
    *sum = s;
    *c = error;
}

// The q-quantile of n values, which are sorted in place; NaN for none. Linear interpolation.
double promql_quantile(double q, double *values, size_t n);
