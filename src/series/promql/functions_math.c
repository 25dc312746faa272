// SPDX-License-Identifier: Apache-2.0
// Functions of single values, with the results of Go's math package for NaN, infinities and -0.
#include "promql/function_table.h"

#include "promql/eval_private.h"

#include <math.h>

#define PLAIN(name, expression)                                                                    \
    double promql_map_##name(double v, const double *args, size_t n_args)                          \
    {                                                                                              \
        (void)args, (void)n_args;                                                                  \
        return expression;                                                                         \
    }
PLAIN(abs, fabs(v))
PLAIN(ceil, ceil(v))
PLAIN(floor, floor(v))
PLAIN(exp, exp(v))
PLAIN(ln, log(v))
PLAIN(log2, log2(v))
PLAIN(log10, log10(v))
PLAIN(sqrt, sqrt(v))
PLAIN(sgn, v<0 ? -1 : v> 0 ? 1 : v)
PLAIN(sin, sin(v))
PLAIN(cos, cos(v))
PLAIN(tan, tan(v))
PLAIN(asin, asin(v))
PLAIN(acos, acos(v))
PLAIN(atan, atan(v))
PLAIN(sinh, sinh(v))
PLAIN(cosh, cosh(v))
PLAIN(tanh, tanh(v))
PLAIN(asinh, asinh(v))
PLAIN(acosh, acosh(v))
PLAIN(atanh, atanh(v))
PLAIN(deg, v *(180 / M_PI))
PLAIN(rad, v *(M_PI / 180))
#undef PLAIN

double promql_map_round(double v, const double *args, size_t n_args)
{
    // Computes the inverse first, for the same rounding errors as Prometheus.
    double inverse = 1.0 / (n_args ? args[0] : 1);
    return floor(v * inverse + 0.5) / inverse;
}

// As Go's math.Max and math.Min: the infinity in that direction wins over NaN, and NaN over every
// number; -0 is less than 0.
double promql_smaller(double a, double b)
{
    if (isnan(a) || isnan(b))
        return a == -(double)INFINITY || b == -(double)INFINITY ? -(double)INFINITY : (double)NAN;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return -promql_smaller(-a, -b);
}

// If the minimum is above the maximum, there is no value: the evaluator drops the absent marker.
static double clamp(double v, double low, double high)
{
    if (low > high)
        return promql_absent_value();
    return larger(low, promql_smaller(high, v));
}

double promql_map_clamp(double v, const double *args, size_t n_args)
{
    (void)n_args;
    return clamp(v, args[0], args[1]);
}

double promql_map_clamp_min(double v, const double *args, size_t n_args)
{
    (void)n_args;
    return clamp(v, args[0], (double)INFINITY);
}

double promql_map_clamp_max(double v, const double *args, size_t n_args)
{
    (void)n_args;
    return clamp(v, -(double)INFINITY, args[0]);
}
