// SPDX-License-Identifier: Apache-2.0
// The *_over_time functions.
#include "promql/function_table.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/sums.h"

#include <math.h>

bool promql_whole_sum(const double *v, size_t n, double *ret)
{
    // Adding and subtracting it rounds numbers below 2^51 to whole ones.
    const double shift = 0x1.8p52, limit = 0x1p50;
    promql_two sums[2] = {0}, totals[2] = {0}; // totals: of the magnitudes
    promql_two_bits differ[2] = {0};
    const promql_two_bits without_sign = {INT64_MAX, INT64_MAX};
    size_t i = 0;
    if (n && v[0] != (v[0] + shift) - shift) // mostly all are whole, or few
        return false;
    for (; i + 4 <= n; i += 4) {
        promql_two a, b;
        memcpy(&a, v + i, sizeof(a));
        memcpy(&b, v + i + 2, sizeof(b));
        differ[0] |= a != (a + shift) - shift;
        differ[1] |= b != (b + shift) - shift;
        totals[0] += (promql_two)((promql_two_bits)a & without_sign);
        totals[1] += (promql_two)((promql_two_bits)b & without_sign);
        sums[0] += a;
        sums[1] += b;
    }
    promql_two sum = sums[0] + sums[1], total = totals[0] + totals[1];
    double all = sum[0] + sum[1], magnitude = total[0] + total[1];
    differ[0] |= differ[1];
    bool whole = !differ[0][0] && !differ[0][1];
    for (; i < n; i++) {
        whole = whole && v[i] == (v[i] + shift) - shift;
        magnitude += fabs(v[i]);
        all += v[i];
    }
    if (!whole || magnitude >= limit)
        return false;
    *ret = all;
    return true;
}

// A compensated sum, or an incremental mean after an overflow.
bool promql_rollup_avg(const struct promql_window *w, double *ret)
{
    double sum, count = 1, mean = 0, c = 0;
    bool incremental = false;
    if (promql_whole_sum(w->v, w->n, &sum)) {
        *ret = sum / (double)w->n;
        return true;
    }
    sum = w->v[0];
    promql_fast_sum(w->v + 1, w->n - 1, &sum, &c);
    if (isfinite(sum)) {
        *ret = sum / (double)w->n + c / (double)w->n;
        return true;
    }
    sum = w->v[0];
    c = 0;
    for (size_t i = 1; i < w->n; i++) {
        count = (double)(i + 1);
        if (!incremental) {
            double next = sum, next_c = c;
            promql_kahan_add(w->v[i], &next, &next_c);
            if (!isinf(next)) {
                sum = next;
                c = next_c;
                continue;
            }
            incremental = true;
            mean = sum / (count - 1);
            c /= count - 1;
        }
        double q = (count - 1) / count;
        mean *= q;
        c *= q;
        promql_kahan_add(w->v[i] / count, &mean, &c);
    }
    *ret = incremental ? mean + c : sum / count + c / count;
    return true;
}

bool promql_rollup_sum(const struct promql_window *w, double *ret)
{
    double sum = 0, c = 0;
    if (promql_whole_sum(w->v, w->n, ret))
        return true;
    promql_fast_sum(w->v, w->n, &sum, &c);
    if (isfinite(sum)) {
        *ret = sum + c;
        return true;
    }
    sum = c = 0;
    for (size_t i = 0; i < w->n; i++)
        promql_kahan_add(w->v[i], &sum, &c);
    *ret = isinf(sum) ? sum : sum + c;
    return true;
}

bool promql_rollup_min(const struct promql_window *w, double *ret)
{
    double v = w->v[0];
    for (size_t i = 1; i < w->n; i++)
        if (w->v[i] < v || isnan(v))
            v = w->v[i];
    *ret = v;
    return true;
}

bool promql_rollup_max(const struct promql_window *w, double *ret)
{
    double v = w->v[0];
    for (size_t i = 1; i < w->n; i++)
        if (w->v[i] > v || isnan(v))
            v = w->v[i];
    *ret = v;
    return true;
}

bool promql_rollup_count(const struct promql_window *w, double *ret)
{
    *ret = (double)w->n;
    return true;
}

bool promql_rollup_last(const struct promql_window *w, double *ret)
{
    *ret = w->v[w->n - 1];
    return true;
}

bool promql_rollup_first(const struct promql_window *w, double *ret)
{
    *ret = w->v[0];
    return true;
}

bool promql_rollup_present(const struct promql_window *w, double *ret)
{
    (void)w;
    *ret = 1;
    return true;
}

bool promql_rollup_stdvar(const struct promql_window *w, double *ret)
{
    double count = 0, mean = 0, c_mean = 0, aux = 0, c_aux = 0;
    for (size_t i = 0; i < w->n; i++) {
        count++;
        double delta = w->v[i] - (mean + c_mean);
        promql_kahan_add(delta / count, &mean, &c_mean);
        promql_kahan_add(delta * (w->v[i] - (mean + c_mean)), &aux, &c_aux);
    }
    *ret = (aux + c_aux) / count;
    return true;
}

bool promql_rollup_stddev(const struct promql_window *w, double *ret)
{
    promql_rollup_stdvar(w, ret);
    *ret = sqrt(*ret);
    return true;
}

// NaN sorts first, as in Prometheus.
static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    if (isnan(x))
        return isnan(y) ? 0 : -1;
    return isnan(y) ? 1 : (x > y) - (x < y);
}

double promql_quantile(double q, double *values, size_t n)
{
    if (!n || isnan(q))
        return (double)NAN;
    if (q < 0)
        return -(double)INFINITY;
    if (q > 1)
        return (double)INFINITY;
    qsort(values, n, sizeof(*values), compare_doubles);
    double rank = q * (double)(n - 1), lower = fmax(0, floor(rank));
    double upper = fmin((double)(n - 1), lower + 1), weight = rank - floor(rank);
    if (weight == 0) // 0 times an infinity is not a number
        return values[(size_t)lower];
    return values[(size_t)lower] * (1 - weight) + values[(size_t)upper] * weight;
}

bool promql_rollup_quantile(const struct promql_window *w, double *ret)
{
    double q = w->args[0];
    if (!(q >= 0 && q <= 1))
        promql_annotate_quantile(w->notes, w->arg_start, q);
    double few[256];
    GS_AUTO_FREE double *many =
        w->n > GS_ARRAY_LEN(few) ? gs_alloc_array(w->n, sizeof(*many)) : NULL;
    double *values = many ? many : few;
    memcpy(values, w->v, w->n * sizeof(*values));
    *ret = promql_quantile(q, values, w->n);
    return true;
}

// The median of the distances from the median.
bool promql_rollup_mad(const struct promql_window *w, double *ret)
{
    double *values = gs_try_alloc(w->n * sizeof(*values));
    if (!values)
        return false;
    bool nan = false;
    for (size_t i = 0; i < w->n; i++) {
        nan = nan || isnan(w->v[i]);
        values[i] = w->v[i];
    }
    double median = nan ? (double)NAN : promql_quantile(0.5, values, w->n);
    for (size_t i = 0; i < w->n; i++)
        values[i] = fabs(values[i] - median);
    *ret = nan ? (double)NAN : promql_quantile(0.5, values, w->n);
    free(values);
    return true;
}

bool promql_rollup_time_of_first(const struct promql_window *w, double *ret)
{
    *ret = (double)w->t[0] / 1000;
    return true;
}

bool promql_rollup_time_of_last(const struct promql_window *w, double *ret)
{
    *ret = (double)w->t[w->n - 1] / 1000;
    return true;
}

// The last time at which the values, times the sign, are at their maximum.
static bool time_of_extreme(const struct promql_window *w, double sign, double *ret)
{
    size_t at = 0;
    for (size_t i = 1; i < w->n; i++)
        if (sign * w->v[i] >= sign * w->v[at] || isnan(w->v[at]))
            at = i;
    *ret = (double)w->t[at] / 1000;
    return true;
}

bool promql_rollup_time_of_max(const struct promql_window *w, double *ret)
{
    return time_of_extreme(w, 1, ret);
}

bool promql_rollup_time_of_min(const struct promql_window *w, double *ret)
{
    return time_of_extreme(w, -1, ret);
}

enum rule { LEFT_POINT, RIGHT_POINT, TRAPEZOID };

static enum rule integral_rule(const struct promql_window *w)
{
    char text[GS_DOUBLE_SIZE];
    double rule = w->n_args ? w->args[0] : TRAPEZOID;
    if (rule == LEFT_POINT || rule == RIGHT_POINT || rule == TRAPEZOID)
        return (enum rule)rule;
    promql_annotate_warning(w->notes, w->scalar_start,
                            "strategy should be 0, 1, or 2 (default), using 2, got %s",
                            promql_format_g(rule, text));
    return TRAPEZOID;
}

// The mean of two values with its rounding error, without overflow.
static void mean_of(double a, double b, double *mean, double *error)
{
    *mean = a;
    *error = 0;
    promql_kahan_add(b, mean, error);
    if (isinf(*mean) && !isinf(a) && !isinf(b)) {
        *mean = a / 2;
        *error = 0;
        promql_kahan_add(b / 2, mean, error);
        return;
    }
    *mean /= 2;
    *error /= 2;
}

// NaN counts as 0.
bool promql_rollup_integral(const struct promql_window *w, double *ret)
{
    enum rule rule = integral_rule(w);
    double sum = 0, c = 0;
    for (size_t i = 1; i < w->n; i++) {
        double before = isnan(w->v[i - 1]) ? 0 : w->v[i - 1], now = isnan(w->v[i]) ? 0 : w->v[i];
        double value = rule == LEFT_POINT ? before : now, error = 0;
        if (rule == TRAPEZOID)
            mean_of(before, now, &value, &error);
        if (value == 0 && error == 0)
            continue;
        double seconds = (double)(w->t[i] - w->t[i - 1]) / 1000;
        c += error * seconds;
        promql_kahan_add(value * seconds, &sum, &c);
    }
    *ret = isinf(sum) ? sum : sum + c;
    return true;
}

// Holt's linear method. args: the smoothing factor and the trend factor.
bool promql_rollup_double_exponential_smoothing(const struct promql_window *w, double *ret)
{
    double sf = w->args[0], tf = w->args[1];
    if (w->n < 2)
        return false;
    double before = 0, now = w->v[0], trend = w->v[1] - w->v[0];
    for (size_t i = 1; i < w->n; i++) {
        double x = sf * w->v[i];
        if (i > 1)
            trend = tf * (now - before) + (1 - tf) * trend;
        double y = (1 - sf) * (now + trend);
        before = now;
        now = x + y;
    }
    *ret = now;
    return true;
}
