// SPDX-License-Identifier: Apache-2.0
// Range functions of changes: rate and related functions, regression.
#include "promql/function_table.h"

#include "promql/sums.h"

#include <math.h>

// Mostly false, so pairs of samples are checked without a branch for each.
static bool falls(const double *v, size_t n)
{
    promql_two_bits any = {0};
    size_t i = 1;
    for (; i + 2 <= n; i += 2) {
        promql_two before, now;
        memcpy(&before, v + i - 1, sizeof(before));
        memcpy(&now, v + i, sizeof(now));
        any |= now < before;
    }
    return any[0] || any[1] || (i < n && v[i] < v[i - 1]);
}

// The total increase of a counter: a decrease is a reset to zero.
static double total_increase(const struct promql_window *w)
{
    double sum = w->v[w->n - 1] - w->v[0];
    if (!falls(w->v, w->n))
        return sum;
    for (size_t i = 1; i < w->n; i++)
        sum += w->v[i] < w->v[i - 1] ? w->v[i - 1] : 0;
    return sum;
}

// Extrapolates from the sampled interval to the range: to its ends if the samples are close to
// them, otherwise by half of the mean interval. A counter is not extrapolated below zero.
static bool extrapolated(const struct promql_window *w, double v, bool counter, bool per_second,
                         double *ret)
{
    if (w->n < 2)
        return false;
    double to_start = (double)(w->t[0] - w->start_ms) / 1000;
    double to_end = (double)(w->end_ms - w->t[w->n - 1]) / 1000;
    double sampled = (double)(w->t[w->n - 1] - w->t[0]) / 1000;
    double mean = sampled / (double)(w->n - 1), threshold = mean * 1.1, whole = sampled;
    if (to_start >= threshold)
        to_start = mean / 2;
    if (counter && v > 0 && w->v[0] >= 0) {
        double to_zero = sampled * (w->v[0] / v);
        if (to_zero < to_start)
            to_start = to_zero;
    }
    whole += to_start;
    if (to_end >= threshold)
        to_end = mean / 2;
    whole += to_end;
    double factor = whole / sampled;
    if (per_second)
        factor /= (double)(w->end_ms - w->start_ms) / 1000;
    *ret = v * factor;
    return true;
}

void promql_note_counter(const struct promql_window *w)
{
    struct gs_slice metric = promql_window_metric(w);
    if (!metric.len || promql_annotated(w->notes, w->arg_start, metric.data))
        return;
    static const char *const suffixes[] = {"_total", "_sum", "_count", "_bucket"};
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_ends(metric, suffixes[i]))
            return;
    promql_annotate_info(w->notes, w->arg_start,
                         "metric might not be a counter, name does not end in "
                         "_total/_sum/_count/_bucket: \"" GS_SLICE_FMT "\"",
                         GS_SLICE_ARG(metric));
}

bool promql_counter_rate(const struct promql_window *w, double counted, bool per_second,
                         double *ret)
{
    if (!extrapolated(w, counted, true, per_second, ret))
        return false;
    promql_note_counter(w);
    return true;
}

bool promql_rollup_rate(const struct promql_window *w, double *ret)
{
    return promql_counter_rate(w, total_increase(w), true, ret);
}

bool promql_rollup_increase(const struct promql_window *w, double *ret)
{
    return promql_counter_rate(w, total_increase(w), false, ret);
}

bool promql_rollup_delta(const struct promql_window *w, double *ret)
{
    return extrapolated(w, w->v[w->n - 1] - w->v[0], false, false, ret);
}

static bool instant(const struct promql_window *w, bool rate, double *ret)
{
    if (w->n < 2)
        return false;
    double last = w->v[w->n - 1], before = w->v[w->n - 2];
    int64_t interval = w->t[w->n - 1] - w->t[w->n - 2];
    double v = rate && last < before ? last : last - before;
    *ret = rate ? v / ((double)interval / 1000) : v;
    return true;
}

bool promql_rollup_irate(const struct promql_window *w, double *ret)
{
    return instant(w, true, ret);
}

bool promql_rollup_idelta(const struct promql_window *w, double *ret)
{
    return instant(w, false, ret);
}

// Two compensated sums in parallel.
static inline void add_two(promql_two v, promql_two *sum, promql_two *error)
{
    promql_two t = *sum + v, part = t - *sum;
    *error += (*sum - (t - part)) + (v - part);
    *sum = t;
}

// Of x (the time from `origin` in seconds), y, xy, x².
static void sums_of(const struct promql_window *w, int64_t origin, double ret[4])
{
    promql_two sum = {0}, error = {0}, products = {0}, products_error = {0};
    for (size_t i = 0; i < w->n; i++) {
        double x = (double)(w->t[i] - origin) / 1e3;
        promql_two v = {x, w->v[i]}, of_x = {x, x};
        add_two(v, &sum, &error);
        add_two(v * of_x, &products, &products_error);
    }
    sum += error;
    products += products_error;
    ret[0] = sum[0];
    ret[1] = sum[1];
    ret[2] = products[1];
    ret[3] = products[0];
}

// As sums_of() if nothing overflows.
static void careful_sums_of(const struct promql_window *w, int64_t origin, double ret[4])
{
    double sum[4] = {0}, error[4] = {0};
    for (size_t i = 0; i < w->n; i++) {
        double x = (double)(w->t[i] - origin) / 1e3, y = w->v[i];
        double v[4] = {x, y, x * y, x * x};
        for (size_t k = 0; k < 4; k++)
            promql_kahan_add(v[k], &sum[k], &error[k]);
    }
    for (size_t k = 0; k < 4; k++)
        ret[k] = sum[k] + error[k];
}

static bool is_constant(const struct promql_window *w)
{
    size_t i = 1;
    while (i < w->n && w->v[i] == w->v[0])
        i++;
    return i == w->n;
}

// Least squares.
static void regression(const struct promql_window *w, int64_t origin, double *slope,
                       double *intercept)
{
    if (is_constant(w)) {
        *slope = isinf(w->v[0]) ? (double)NAN : 0;
        *intercept = isinf(w->v[0]) ? (double)NAN : w->v[0];
        return;
    }
    double sums[4], n = (double)w->n;
    sums_of(w, origin, sums);
    if (!isfinite(sums[1] + sums[2]))
        careful_sums_of(w, origin, sums);
    double cov = sums[2] - sums[0] * sums[1] / n, var = sums[3] - sums[0] * sums[0] / n;
    *slope = cov / var;
    *intercept = sums[1] / n - *slope * sums[0] / n;
}

bool promql_rollup_deriv(const struct promql_window *w, double *ret)
{
    double intercept;
    if (w->n < 2)
        return false;
    regression(w, w->t[0], ret, &intercept);
    return true;
}

bool promql_rollup_predict_linear(const struct promql_window *w, double *ret)
{
    double slope, intercept;
    if (w->n < 2)
        return false;
    regression(w, w->eval_ms, &slope, &intercept);
    *ret = slope * w->args[0] + intercept;
    return true;
}

bool promql_rollup_changes(const struct promql_window *w, double *ret)
{
    size_t n = 0;
    for (size_t i = 1; i < w->n; i++)
        n += w->v[i] != w->v[i - 1] && !(isnan(w->v[i]) && isnan(w->v[i - 1]));
    *ret = (double)n;
    return true;
}

bool promql_rollup_resets(const struct promql_window *w, double *ret)
{
    size_t n = 0;
    for (size_t i = 1; i < w->n; i++)
        n += w->v[i] < w->v[i - 1];
    *ret = (double)n;
    return true;
}
