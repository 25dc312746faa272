// SPDX-License-Identifier: Apache-2.0
// Parts of the printed form that both printers share. Private to the room.
#pragma once

#include "promql/ast.h"

void promql_print_selector(const struct promql_node *n, struct gs_buf *out);
void promql_print_subquery_suffix(const struct promql_node *n, struct gs_buf *out); // [5m:1m] …
void promql_print_operator(const struct promql_node *n, struct gs_buf *out); // == bool on (a) …
void promql_print_aggregate_head(const struct promql_node *n, struct gs_buf *out); // sum by (a)
const char *promql_function_name(const struct promql_node *call);
