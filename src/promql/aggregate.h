// SPDX-License-Identifier: Apache-2.0
// Between the files of aggregation.
#pragma once

#include "promql/eval_private.h"
#include "promql/functions_private.h"

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
struct gs_error *promql_eval_topk(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_grouping *g, const double *k,
                                  struct promql_matrix *ret);
struct gs_error *promql_eval_count_values(struct promql_eval *ev, const struct promql_node *n,
                                          const struct promql_matrix *input,
                                          struct promql_matrix *ret);
