// SPDX-License-Identifier: Apache-2.0
// Functions of a range that look at how values change: rate and its family, regression.
#include "promql/functions_private.h"

#include <math.h>

// The sum of all rises: what a counter counted, a fall being a reset to zero.
static double counted(const struct promql_window *w)
{
    double sum = w->v[w->n - 1] - w->v[0];
    for (size_t i = 1; i < w->n; i++)
        if (w->v[i] < w->v[i - 1])
            sum += w->v[i - 1];
    return sum;
}

// From the sampled interval to the whole range: up to its ends when the samples reach near them,
// else by half of the mean interval; a counter is not followed below zero.
static bool extrapolated(const struct promql_window *w, bool counter, bool per_second, double *ret)
{
    if (w->n < 2)
        return false;
    double v = counter ? counted(w) : w->v[w->n - 1] - w->v[0];
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

static void note_counter(const struct promql_window *w)
{
    if (!w->metric.len || promql_noted(w->notes, w->arg_start, w->metric.data))
        return;
    static const char *const suffixes[] = {"_total", "_sum", "_count", "_bucket"};
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_ends(w->metric, suffixes[i]))
            return;
    promql_note_info(w->notes, w->arg_start,
                     "metric might not be a counter, name does not end in "
                     "_total/_sum/_count/_bucket: \"" GS_SLICE_FMT "\"",
                     GS_SLICE_ARG(w->metric));
}

bool rollup_rate(const struct promql_window *w, double *ret)
{
    if (!extrapolated(w, true, true, ret))
        return false;
    note_counter(w);
    return true;
}

bool rollup_increase(const struct promql_window *w, double *ret)
{
    if (!extrapolated(w, true, false, ret))
        return false;
    note_counter(w);
    return true;
}

bool rollup_delta(const struct promql_window *w, double *ret)
{
    return extrapolated(w, false, false, ret);
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

bool rollup_irate(const struct promql_window *w, double *ret)
{
    return instant(w, true, ret);
}

bool rollup_idelta(const struct promql_window *w, double *ret)
{
    return instant(w, false, ret);
}

// Least squares; x is the time from `origin` in seconds.
static void regression(const struct promql_window *w, int64_t origin, double *slope,
                       double *intercept)
{
    double n = 0, sum_x = 0, c_x = 0, sum_y = 0, c_y = 0, sum_xy = 0, c_xy = 0, sum_x2 = 0,
           c_x2 = 0;
    bool constant = true;
    for (size_t i = 0; i < w->n; i++) {
        constant = constant && (i == 0 || w->v[i] == w->v[0]);
        n += 1;
        double x = (double)(w->t[i] - origin) / 1e3;
        promql_kahan_add(x, &sum_x, &c_x);
        promql_kahan_add(w->v[i], &sum_y, &c_y);
        promql_kahan_add(x * w->v[i], &sum_xy, &c_xy);
        promql_kahan_add(x * x, &sum_x2, &c_x2);
    }
    if (constant) {
        *slope = isinf(w->v[0]) ? (double)NAN : 0;
        *intercept = isinf(w->v[0]) ? (double)NAN : w->v[0];
        return;
    }
    sum_x += c_x;
    sum_y += c_y;
    sum_xy += c_xy;
    sum_x2 += c_x2;
    double cov = sum_xy - sum_x * sum_y / n, var = sum_x2 - sum_x * sum_x / n;
    *slope = cov / var;
    *intercept = sum_y / n - *slope * sum_x / n;
}

bool rollup_deriv(const struct promql_window *w, double *ret)
{
    double intercept;
    if (w->n < 2)
        return false;
    regression(w, w->t[0], ret, &intercept);
    return true;
}

bool rollup_predict_linear(const struct promql_window *w, double *ret)
{
    double slope, intercept;
    if (w->n < 2)
        return false;
    regression(w, w->eval_ms, &slope, &intercept);
    *ret = slope * w->args[0] + intercept;
    return true;
}

bool rollup_changes(const struct promql_window *w, double *ret)
{
    size_t n = 0;
    for (size_t i = 1; i < w->n; i++)
        n += w->v[i] != w->v[i - 1] && !(isnan(w->v[i]) && isnan(w->v[i - 1]));
    *ret = (double)n;
    return true;
}

bool rollup_resets(const struct promql_window *w, double *ret)
{
    size_t n = 0;
    for (size_t i = 1; i < w->n; i++)
        n += w->v[i] < w->v[i - 1];
    *ret = (double)n;
    return true;
}
