// SPDX-License-Identifier: Apache-2.0
// Which label sets are equal in some of their labels: the keys of groups and of joins, and the
// aggregations and binary operators that use them.
#pragma once

#include "promql/eval_private.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- keys: which of some label sets are equal in some of their labels ---

struct promql_key_rule {
    const uint32_t *names; // symbols; TSDB_NO_SYMBOL: a name that no series has
    size_t n;
    bool on;        // only these labels; otherwise all except these and the metric name
    bool with_name; // the metric name is also part of the key
};
struct promql_keys {
    uint32_t *ids; // for each series: 0, 1, 2 … in the order of the first series
    size_t n_ids;
    uint32_t *first; // for each id: its first series
    // for each id: the number of its label set in the table; NULL: not cached
    const struct promql_label_table *table;
    const uint32_t *numbers;
};
struct gs_error *promql_eval_names(struct promql_eval *ev, struct promql_names names,
                                   const uint32_t **ret);
// Numbers the keys of both matrices together (b may be NULL). ret_a and ret_b get the ids of their
// series.
struct gs_error *promql_eval_keys(struct promql_eval *ev, const struct promql_key_rule *rule,
                                  const struct promql_matrix *a, const struct promql_matrix *b,
                                  struct promql_keys *ret_a, struct promql_keys *ret_b);
// Whether the results of two vectors have the metric name, if only until the end of the query.
bool promql_keeps_result_name(const struct promql_node *n);
// Returns the labels of the result of two matched series.
struct gs_error *promql_eval_result_labels(struct promql_eval *ev, const struct promql_node *n,
                                           const struct promql_key_rule *rule,
                                           const uint32_t *include, struct tsdb_labels many,
                                           struct tsdb_labels one, struct tsdb_labels *ret);
// Numbers whole label sets, including the metric name.
struct gs_error *promql_eval_whole_keys(struct promql_eval *ev, const struct promql_matrix *m,
                                        struct promql_keys *ret);
// Returns the labels that are part of the key.
struct gs_error *promql_eval_key_labels(struct promql_eval *ev, const struct promql_key_rule *rule,
                                        struct tsdb_labels from, struct tsdb_labels *ret);
// Appends a key that is unique for the rule.
void promql_eval_rule_key(const struct promql_eval *ev, const struct promql_key_rule *rule,
                          struct gs_buf *key);
// Gives the table of the rule, and the numbers of the series of m in it, which has a set. *ret is
// NULL if the cache has no room.
struct gs_error *promql_eval_numbers(struct promql_eval *ev, const struct promql_key_rule *rule,
                                     const struct promql_matrix *m, uint32_t *numbers,
                                     struct promql_label_table **ret);

// --- binary operators ---

struct gs_error *promql_eval_binary(struct promql_eval *ev, const struct promql_node *n,
                                    struct promql_matrix *ret);
struct gs_error *promql_eval_vectors(struct promql_eval *ev, const struct promql_node *n,
                                     const struct promql_matrix *lhs,
                                     const struct promql_matrix *rhs, struct promql_matrix *ret);
struct gs_error *promql_eval_sets(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_matrix *lhs, const struct promql_matrix *rhs,
                                  struct promql_matrix *ret);
// The fast path for cached series on both sides with at most one match each. *ret_done is false if
// this is not the case.
struct gs_error *promql_eval_cached_vectors(struct promql_eval *ev, const struct promql_node *n,
                                            const struct promql_matrix *lhs,
                                            const struct promql_matrix *rhs, bool *ret_done,
                                            struct promql_matrix *ret);
// Returns the value of "a op b". *ret_keep: the comparison holds (true for other operators).
double promql_apply(enum promql_op op, double a, double b, bool *ret_keep);

// --- aggregation ---
// Used by aggregate.c, aggregate_select.c and aggregate_limit.c.

struct promql_grouping {
    struct promql_matrix input;
    struct promql_key_rule rule;
    struct promql_keys keys;
};
struct gs_error *promql_eval_grouping(struct promql_eval *ev, const struct promql_node *n,
                                      const struct promql_matrix *input,
                                      struct promql_grouping *ret);
struct gs_error *promql_eval_aggregate_matrix(struct promql_eval *ev, const struct promql_node *n,
                                              const struct promql_matrix *input,
                                              struct promql_matrix *ret);
// Checks the numbers k of all steps. *ret_some: a step selects series.
struct gs_error *promql_eval_check_limits(const double *k, size_t n_steps, bool *ret_some);
// limitk, limit_ratio
struct gs_error *promql_eval_limit(struct promql_eval *ev, const struct promql_node *n,
                                   const struct promql_grouping *g, const double *param,
                                   struct promql_matrix *ret);
struct gs_error *promql_eval_topk(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_grouping *g, const double *k,
                                  struct promql_matrix *ret);
struct gs_error *promql_eval_count_values(struct promql_eval *ev, const struct promql_node *n,
                                          const struct promql_matrix *input,
                                          struct promql_matrix *ret);
struct gs_error *promql_eval_aggregate(struct promql_eval *ev, const struct promql_node *n,
                                       struct promql_matrix *ret);
