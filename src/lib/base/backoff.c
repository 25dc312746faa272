// SPDX-License-Identifier: Apache-2.0
// Doubles delays without overflow: a configured maximum may be the largest number.
#include "base/backoff.h"

int64_t gs_backoff_next(int64_t last, int64_t first, int64_t max)
{
    if (last <= 0)
        return first < max ? first : max;
    return last > max / 2 ? max : last * 2; // a doubled delay may be out of range
}

int64_t gs_backoff_after(uint64_t failures, int64_t first, int64_t max)
{
    int64_t delay = gs_backoff_next(0, first, max);
    for (uint64_t i = 1; i < failures && delay > 0 && delay < max; i++)
        delay = gs_backoff_next(delay, first, max);
    return delay;
}
