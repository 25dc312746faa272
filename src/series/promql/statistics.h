// SPDX-License-Identifier: Apache-2.0
// Counts what selectors use, if statistics are wanted.
#pragma once

#include "promql/eval_private.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Begins to count at the steps of the current evaluation.
struct gs_error *promql_stats_begin(struct promql_eval *ev, struct promql_statistics *s);
void promql_stats_series(struct promql_eval *ev, size_t n);
void promql_stats_samples(struct promql_eval *ev, size_t n); // of a query without steps
// A value for each step; absent ones do not count. fixed: all steps use the same sample.
void promql_stats_values(struct promql_eval *ev, const double *v, bool fixed);
// The samples of a window for each step: after t - back_ms, until t + ahead_ms.
void promql_stats_windows(struct promql_eval *ev, const struct promql_shift *shift, int64_t back_ms,
                          int64_t ahead_ms, const struct tsdb_samples *s);
// Counts for the other steps what the first one has used since its count was `used`.
void promql_stats_repeat(struct promql_eval *ev, uint64_t used);
// What the windows of the current steps use of a subquery with its own steps. Overwrites inner.
void promql_stats_add_subquery(struct promql_eval *ev, struct promql_statistics *inner,
                               const struct promql_steps *steps, const struct promql_shift *shift,
                               int64_t range_ms);
