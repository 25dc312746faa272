// SPDX-License-Identifier: Apache-2.0
// What the evaluator gives to functions that see the whole call. Private to the room.
#pragma once

#include "promql/functions.h"

// Steps: start_ms + i * step_ms for i in 0..n_steps.
struct promql_steps {
    int64_t start_ms, step_ms;
    size_t n;
};

const struct promql_steps *promql_eval_steps(const struct promql_eval *ev);
struct promql_notes *promql_eval_notes(struct promql_eval *ev);
// Evaluates an argument of type vector or scalar over all steps.
struct gs_error *promql_eval_node(struct promql_eval *ev, const struct promql_node *n,
                                  struct promql_matrix *ret);
// From the query's arena, zeroed; GS_ELIMIT when the query's memory is used up.
struct gs_error *promql_eval_alloc(struct promql_eval *ev, size_t n, size_t size, void *ret_ptr);
// A series with all steps absent, appended to m.
struct gs_error *promql_eval_add_series(struct promql_eval *ev, struct promql_matrix *m,
                                        struct tsdb_labels labels, struct promql_series **ret);
// The symbol of a text, equal for equal texts within the query.
struct gs_error *promql_eval_intern(struct promql_eval *ev, struct gs_slice text, uint32_t *ret);
struct gs_slice promql_eval_text(const struct promql_eval *ev, uint32_t symbol);
// A copy of the set with one label set (value TSDB_SYMBOL_EMPTY: taken out), sorted.
struct gs_error *promql_eval_with_label(struct promql_eval *ev, struct tsdb_labels from,
                                        uint32_t name, uint32_t value, struct tsdb_labels *ret);
// "vector cannot contain metrics with the same labelset" when two series have equal labels.
struct gs_error *promql_eval_check_unique(struct promql_eval *ev, struct promql_matrix *m);
// A range function over call's range argument, with call's scalar arguments.
struct gs_error *promql_eval_rollup(struct promql_eval *ev, const struct promql_function *fn,
                                    const struct promql_node *call, struct promql_matrix *ret);
// As promql_eval_node of an instant selector, with the time of each sample in seconds as its value.
struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret);
// Takes the metric names off; then as promql_eval_check_unique.
struct gs_error *promql_eval_drop_names(struct promql_eval *ev, struct promql_matrix *m);
