// SPDX-License-Identifier: Apache-2.0
// Sums with the rounding of Prometheus, and quantiles.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Neumaier's compensated addition, in the same order as Prometheus.
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

// Computes the same sum and compensation for n values if nothing overflows (otherwise *sum is not
// finite). The rounding error of an addition is exactly one number, so Knuth's branch-free form
// gives the same result.
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

// Two values for one instruction, and the result of comparing them: all bits, or none.
typedef double promql_two __attribute__((vector_size(16)));
typedef int64_t promql_two_bits __attribute__((vector_size(16)));

// The sum of whole numbers if no partial sum can be rounded, in any order. promql_fast_sum() then
// has the same sum and no compensation, but needs one addition after another. Returns false for
// other values.
bool promql_whole_sum(const double *v, size_t n, double *ret);

// Returns the q-quantile of n values with linear interpolation; NaN if n is 0. Sorts the values in
// place.
double promql_quantile(double q, double *values, size_t n);
