// SPDX-License-Identifier: Apache-2.0
// The functions that the table names, by file. Private to the room.
#pragma once

#include "promql/eval.h"

typedef bool promql_rollup_fn(const struct promql_window *w, double *ret);
// rollup_counter.c
promql_rollup_fn promql_rollup_rate, promql_rollup_increase, promql_rollup_delta,
    promql_rollup_irate, promql_rollup_idelta, promql_rollup_deriv, promql_rollup_predict_linear,
    promql_rollup_changes, promql_rollup_resets;
struct gs_slice promql_window_metric(const struct promql_window *w); // the series' name
// rate or increase of a window in which a counter counted so much.
bool promql_counter_rate(const struct promql_window *w, double counted, bool per_second,
                         double *ret);
// rollup_over_time.c
promql_rollup_fn promql_rollup_avg, promql_rollup_sum, promql_rollup_min, promql_rollup_max,
    promql_rollup_count, promql_rollup_last, promql_rollup_first, promql_rollup_present,
    promql_rollup_stddev, promql_rollup_stdvar, promql_rollup_quantile;

typedef double promql_map_fn(double v, const double *args, size_t n_args);
// functions_math.c
promql_map_fn promql_map_abs, promql_map_ceil, promql_map_floor, promql_map_exp, promql_map_ln,
    promql_map_log2, promql_map_log10, promql_map_sqrt, promql_map_sgn, promql_map_sin,
    promql_map_cos, promql_map_tan, promql_map_asin, promql_map_acos, promql_map_atan,
    promql_map_sinh, promql_map_cosh, promql_map_tanh, promql_map_asinh, promql_map_acosh,
    promql_map_atanh, promql_map_deg, promql_map_rad, promql_map_round, promql_map_clamp,
    promql_map_clamp_min, promql_map_clamp_max;
// functions_time.c
promql_map_fn promql_map_minute, promql_map_hour, promql_map_day_of_week, promql_map_day_of_month,
    promql_map_day_of_year, promql_map_days_in_month, promql_map_month, promql_map_year;

typedef struct gs_error *promql_special_fn(struct promql_eval *ev, const struct promql_node *call,
                                           struct promql_matrix *ret);
// functions_misc.c
promql_special_fn promql_special_time, promql_special_pi, promql_special_scalar,
    promql_special_vector, promql_special_absent, promql_special_absent_over_time,
    promql_special_timestamp, promql_special_sort, promql_special_sort_desc, promql_special_none;
// functions_label.c
promql_special_fn promql_special_label_replace, promql_special_label_join,
    promql_special_sort_by_label, promql_special_sort_by_label_desc;
// functions_histogram.c
promql_special_fn promql_special_histogram_quantile, promql_special_histogram_fraction;

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
