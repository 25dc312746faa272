// SPDX-License-Identifier: Apache-2.0
// The table of functions: argument and result types, and how each is evaluated (rollup over a
// window, map of single values, special). It must be sorted by name: it is searched by bisection.
#include "promql/function_table.h"

#include "promql/sliding_window.h"

#define S PROMQL_SCALAR
#define V PROMQL_VECTOR
#define M PROMQL_MATRIX
#define T PROMQL_STRING

#define ROLLUP(name_, fn_)                                                                         \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_ROLLUP, .ret = V, .args = {M}, .n_args = 1, .rollup = fn_ \
    }
#define SLIDING(name_, of_)                                                                        \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_ROLLUP, .ret = V, .args = {M}, .n_args = 1,               \
        .rollup = promql_rollup_##of_, .sliding = promql_slide_##of_                               \
    }
#define MAP(name_, fn_)                                                                            \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_MAP, .ret = V, .args = {V}, .n_args = 1, .map = fn_       \
    }
#define TIME(name_, fn_)                                                                           \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_TIME, .ret = V, .args = {V}, .n_args = 1, .variadic = 1,  \
        .map = fn_                                                                                 \
    }
// These functions apply to native histograms only: the result for floats is empty.
#define NATIVE(name_)                                                                              \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_SPECIAL, .ret = V, .args = {V}, .n_args = 1,              \
        .special = promql_special_none                                                             \
    }
#define EXPERIMENTAL_ROLLUP(name_, fn_, keep_)                                                     \
    {                                                                                              \
        .name = name_, .kind = PROMQL_FN_ROLLUP, .ret = V, .args = {M}, .n_args = 1,               \
        .experimental = true, .keep_name = keep_, .rollup = fn_                                    \
    }
#define SPECIAL(name_, ret_, fn_)                                                                  \
    .name = name_, .kind = PROMQL_FN_SPECIAL, .ret = ret_, .special = fn_

// Sorted by name.
static const struct promql_function functions[] = {
    MAP("abs", promql_map_abs),
    {SPECIAL("absent", V, promql_special_absent), .args = {V}, .n_args = 1},
    {SPECIAL("absent_over_time", V, promql_special_absent_over_time), .args = {M}, .n_args = 1},
    MAP("acos", promql_map_acos),
    MAP("acosh", promql_map_acosh),
    MAP("asin", promql_map_asin),
    MAP("asinh", promql_map_asinh),
    MAP("atan", promql_map_atan),
    MAP("atanh", promql_map_atanh),
    SLIDING("avg_over_time", avg),
    MAP("ceil", promql_map_ceil),
    SLIDING("changes", changes),
    {.name = "clamp",
     .kind = PROMQL_FN_MAP,
     .ret = V,
     .args = {V, S, S},
     .n_args = 3,
     .map = promql_map_clamp},
    {.name = "clamp_max",
     .kind = PROMQL_FN_MAP,
     .ret = V,
     .args = {V, S},
     .n_args = 2,
     .map = promql_map_clamp_max},
    {.name = "clamp_min",
     .kind = PROMQL_FN_MAP,
     .ret = V,
     .args = {V, S},
     .n_args = 2,
     .map = promql_map_clamp_min},
    MAP("cos", promql_map_cos),
    MAP("cosh", promql_map_cosh),
    ROLLUP("count_over_time", promql_rollup_count),
    TIME("day_of_month", promql_map_day_of_month),
    TIME("day_of_week", promql_map_day_of_week),
    TIME("day_of_year", promql_map_day_of_year),
    TIME("days_in_month", promql_map_days_in_month),
    MAP("deg", promql_map_deg),
    ROLLUP("delta", promql_rollup_delta),
    ROLLUP("deriv", promql_rollup_deriv),
    {.name = "double_exponential_smoothing",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {M, S, S},
     .n_args = 3,
     .experimental = true,
     .rollup = promql_rollup_double_exponential_smoothing},
    {SPECIAL("end", S, promql_special_query_end), .experimental = true},
    MAP("exp", promql_map_exp),
    {.name = "first_over_time",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {M},
     .n_args = 1,
     .keep_name = true,
     .rollup = promql_rollup_first},
    MAP("floor", promql_map_floor),
    NATIVE("histogram_avg"),
    NATIVE("histogram_count"),
    {SPECIAL("histogram_fraction", V, promql_special_histogram_fraction), .args = {S, S, V},
     .n_args = 3},
    {SPECIAL("histogram_quantile", V, promql_special_histogram_quantile), .args = {S, V},
     .n_args = 2},
    {SPECIAL("histogram_quantiles", V, promql_special_histogram_quantiles), .args = {V, T, S, S},
     .n_args = 4, .variadic = 9, .experimental = true},
    NATIVE("histogram_stddev"),
    NATIVE("histogram_stdvar"),
    NATIVE("histogram_sum"),
    TIME("hour", promql_map_hour),
    ROLLUP("idelta", promql_rollup_idelta),
    SLIDING("increase", increase),
    {SPECIAL("info", V, promql_special_info), .args = {V, V}, .n_args = 2, .variadic = 1,
     .experimental = true},
    {.name = "integral",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {M, S},
     .n_args = 2,
     .variadic = 1,
     .experimental = true,
     .rollup = promql_rollup_integral},
    ROLLUP("irate", promql_rollup_irate),
    {SPECIAL("label_join", V, promql_special_label_join), .args = {V, T, T, T}, .n_args = 4,
     .variadic = -1},
    {SPECIAL("label_replace", V, promql_special_label_replace), .args = {V, T, T, T, T},
     .n_args = 5},
    {.name = "last_over_time",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {M},
     .n_args = 1,
     .keep_name = true,
     .rollup = promql_rollup_last},
    MAP("ln", promql_map_ln),
    MAP("log10", promql_map_log10),
    MAP("log2", promql_map_log2),
    EXPERIMENTAL_ROLLUP("mad_over_time", promql_rollup_mad, false),
    {SPECIAL("max_of", S, promql_special_max_of), .args = {S, S}, .n_args = 2,
     .experimental = true},
    SLIDING("max_over_time", max),
    {SPECIAL("min_of", S, promql_special_min_of), .args = {S, S}, .n_args = 2,
     .experimental = true},
    SLIDING("min_over_time", min),
    TIME("minute", promql_map_minute),
    TIME("month", promql_map_month),
    {SPECIAL("pi", S, promql_special_pi)},
    {.name = "predict_linear",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {M, S},
     .n_args = 2,
     .rollup = promql_rollup_predict_linear},
    ROLLUP("present_over_time", promql_rollup_present),
    {.name = "quantile_over_time",
     .kind = PROMQL_FN_ROLLUP,
     .ret = V,
     .args = {S, M},
     .n_args = 2,
     .rollup = promql_rollup_quantile},
    MAP("rad", promql_map_rad),
    {SPECIAL("range", S, promql_special_query_range), .experimental = true},
    SLIDING("rate", rate),
    SLIDING("resets", resets),
    {.name = "round",
     .kind = PROMQL_FN_MAP,
     .ret = V,
     .args = {V, S},
     .n_args = 2,
     .variadic = 1,
     .map = promql_map_round},
    {SPECIAL("scalar", S, promql_special_scalar), .args = {V}, .n_args = 1},
    MAP("sgn", promql_map_sgn),
    MAP("sin", promql_map_sin),
    MAP("sinh", promql_map_sinh),
    {SPECIAL("sort", V, promql_special_sort), .args = {V}, .n_args = 1, .keep_name = true},
    {SPECIAL("sort_by_label", V, promql_special_sort_by_label), .args = {V, T}, .n_args = 2,
     .variadic = -1, .keep_name = true, .experimental = true},
    {SPECIAL("sort_by_label_desc", V, promql_special_sort_by_label_desc), .args = {V, T},
     .n_args = 2, .variadic = -1, .keep_name = true, .experimental = true},
    {SPECIAL("sort_desc", V, promql_special_sort_desc), .args = {V}, .n_args = 1,
     .keep_name = true},
    MAP("sqrt", promql_map_sqrt),
    {SPECIAL("start", S, promql_special_query_start), .experimental = true},
    {SPECIAL("start_timestamp", V, promql_special_none), .args = {V}, .n_args = 1,
     .experimental = true},
    ROLLUP("stddev_over_time", promql_rollup_stddev),
    ROLLUP("stdvar_over_time", promql_rollup_stdvar),
    {SPECIAL("step", S, promql_special_query_step), .experimental = true},
    SLIDING("sum_over_time", sum),
    MAP("tan", promql_map_tan),
    MAP("tanh", promql_map_tanh),
    {SPECIAL("time", S, promql_special_time)},
    {SPECIAL("timestamp", V, promql_special_timestamp), .args = {V}, .n_args = 1},
    EXPERIMENTAL_ROLLUP("ts_of_first_over_time", promql_rollup_time_of_first, false),
    EXPERIMENTAL_ROLLUP("ts_of_last_over_time", promql_rollup_time_of_last, false),
    EXPERIMENTAL_ROLLUP("ts_of_max_over_time", promql_rollup_time_of_max, false),
    EXPERIMENTAL_ROLLUP("ts_of_min_over_time", promql_rollup_time_of_min, false),
    {SPECIAL("vector", V, promql_special_vector), .args = {S}, .n_args = 1},
    TIME("year", promql_map_year),
};

const struct promql_function *promql_function_find(struct gs_slice name)
{
    size_t low = 0, high = GS_ARRAY_LEN(functions);
    while (low < high) {
        size_t mid = low + (high - low) / 2, len = strlen(functions[mid].name);
        size_t shared = len < name.len ? len : name.len;
        int order = memcmp(functions[mid].name, name.data, shared);
        if (order == 0)
            order = (len > name.len) - (len < name.len);
        if (order == 0)
            return &functions[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

const struct promql_function *promql_function_nth(size_t i)
{
    return i < GS_ARRAY_LEN(functions) ? &functions[i] : NULL;
}
