// SPDX-License-Identifier: Apache-2.0
// Selectors, subqueries and the modifiers of ranges: which series and samples an expression reads.
#pragma once

#include "promql/eval_private.h"
#include "promql/label_cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

// --- modifiers of ranges: anchored and smoothed (extended.c) ---

// How much a selector reads before and after its range.
int64_t promql_extension_before(const struct promql_eval *ev, const struct promql_node *selector);
int64_t promql_extension_after(const struct promql_eval *ev, const struct promql_node *selector);
// Fails if the function cannot be used with the modifier of the selector.
struct gs_error *promql_check_extension(const struct promql_function *fn,
                                        const struct promql_node *selector);
// The value of a range function. w has the samples around the range from start_ms to end_ms, too.
bool promql_extended_value(const struct promql_function *fn, const struct promql_window *w,
                           bool smoothed, double *ret);
// The samples of the range with its borders. t and v have room for w->n + 2. Returns their number.
size_t promql_extend_samples(const struct promql_window *w, bool smoothed, int64_t *t, double *v);
struct promql_cached_series;
struct gs_error *promql_eval_smoothed(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_cached_series *k, struct promql_matrix *ret);

// --- selectors and subqueries ---

struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *selector,
                                  int64_t mint, int64_t maxt, struct tsdb_refs *ret);
void promql_drop_stale(struct tsdb_samples *s);
struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret);
// Returns the time of a step after @ and offset.
int64_t promql_shifted(const struct promql_eval *ev, const struct promql_shift *s, int64_t t_ms);
// Evaluates the inner expression of a subquery on its grid.
struct gs_error *promql_eval_subquery(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_steps *ret_steps, struct promql_matrix *ret);

// --- cached selectors ---

// Series that have ended, apart from the others of a list. A series that got samples again, or was
// dropped, stays until the next promql_ended_add().
struct promql_ended {
    struct promql_end {
        int64_t t_ms; // of the stale marker
        tsdb_ref ref;
    } * items; // ascending times
    size_t n;
    uint32_t name;    // common to all; TSDB_NO_SYMBOL: they may differ
    uint64_t changes; // of the store that it knows
};
// Drops the series that changed, and adds n others with a common name, which are sorted for this.
void promql_ended_add(struct promql_ended *x, struct tsdb *db, struct promql_end *more, size_t n,
                      uint32_t name);
// The series that ended after since_ms, ascending.
void promql_ended_after(const struct promql_ended *x, struct tsdb *db, int64_t since_ms,
                        struct tsdb_refs *ret);

struct promql_cached_series {  // all matching series, whenever they had samples
    struct promql_entry entry; // zeros: used by this query only
    tsdb_ref *refs;            // ascending
    struct tsdb_labels *labels;
    size_t n;
    uint32_t name;    // common to all; TSDB_NO_SYMBOL: they may differ
    uint64_t changes; // of the store that it knows
    // private
    struct promql_ended ended;
    int64_t next_look_ms; // newest sample of the store when others may have ended
};

// The matching series, without those that have no value after since_ms because they ended before.
struct gs_error *promql_cached_series_select(struct promql_eval *ev,
                                             const struct promql_node *selector, int64_t since_ms,
                                             struct promql_cached_series **ret);
