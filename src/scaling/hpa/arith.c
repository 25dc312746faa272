// SPDX-License-Identifier: Apache-2.0
// Conversions of doubles to integers that saturate. In C, a value out of range is undefined; Go's
// results are kept where Kubernetes depends on them.
#include "hpa/hpa_private.h"

#include <math.h>

int32_t hpa_trunc32(double v)
{
    if (isnan(v))
        return 0;
    if (v >= (double)INT32_MAX)
        return INT32_MAX;
    if (v <= (double)INT32_MIN)
        return INT32_MIN;
    return (int32_t)v;
}

int32_t hpa_ceil32(double v)
{
    return hpa_trunc32(ceil(v));
}

int64_t hpa_ceil64(double v)
{
    // 2^63 is the first double that does not fit.
    const double limit = 9223372036854775808.0;
    if (isnan(v))
        return 0;
    v = ceil(v);
    if (v >= limit)
        return INT64_MAX;
    if (v < -limit)
        return INT64_MIN;
    return (int64_t)v;
}

int32_t hpa_sat32(int64_t v)
{
    if (v > INT32_MAX)
        return INT32_MAX;
    return v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

bool hpa_within(struct hpa_tolerance t, double ratio)
{
    if (t.distance)
        return fabs(1.0 - ratio) <= t.up;
    return 1.0 - t.down <= ratio && ratio <= 1.0 + t.up;
}
