// SPDX-License-Identifier: Apache-2.0
// The functions in the table (functions.c), by the file that defines them.
#pragma once

#include "promql/functions.h"

#include <stdbool.h>
#include <stddef.h>

typedef bool promql_rollup_fn(const struct promql_window *w, double *ret);
// rollup_counter.c
promql_rollup_fn promql_rollup_rate, promql_rollup_increase, promql_rollup_delta,
    promql_rollup_irate, promql_rollup_idelta, promql_rollup_deriv, promql_rollup_predict_linear,
    promql_rollup_changes, promql_rollup_resets;
// Notes that the name of the metric is not that of a counter.
void promql_note_counter(const struct promql_window *w);
struct gs_slice promql_window_metric(const struct promql_window *w); // the series' name
// Computes rate or increase of a window from the increase that was counted in it.
bool promql_counter_rate(const struct promql_window *w, double counted, bool per_second,
                         double *ret);
// rollup_over_time.c
promql_rollup_fn promql_rollup_avg, promql_rollup_sum, promql_rollup_min, promql_rollup_max,
    promql_rollup_count, promql_rollup_last, promql_rollup_first, promql_rollup_present,
    promql_rollup_stddev, promql_rollup_stdvar, promql_rollup_quantile, promql_rollup_mad,
    promql_rollup_integral, promql_rollup_double_exponential_smoothing, promql_rollup_time_of_first,
    promql_rollup_time_of_last, promql_rollup_time_of_max, promql_rollup_time_of_min;

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
    promql_special_timestamp, promql_special_sort, promql_special_sort_desc, promql_special_none,
    promql_special_query_start, promql_special_query_end, promql_special_query_range,
    promql_special_query_step, promql_special_max_of, promql_special_min_of;
// info.c
promql_special_fn promql_special_info;
// functions_label.c
promql_special_fn promql_special_label_replace, promql_special_label_join,
    promql_special_sort_by_label, promql_special_sort_by_label_desc;
// functions_histogram.c
promql_special_fn promql_special_histogram_quantile, promql_special_histogram_quantiles,
    promql_special_histogram_fraction;
