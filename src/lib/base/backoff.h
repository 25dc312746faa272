// SPDX-License-Identifier: Apache-2.0
// Exponential back-off: the delay of a retry after the first failure is `first`, each further
// failure doubles it, and it is never above `max`. Delays have the unit of the caller.
#pragma once

#include <stdint.h>

// The delay that follows the delay `last`. 0: there was none, so the next one is the first.
int64_t gs_backoff_next(int64_t last, int64_t first, int64_t max);
// The delay after this number of failures in a row. Less than 2: the first one.
int64_t gs_backoff_after(uint64_t failures, int64_t first, int64_t max);
