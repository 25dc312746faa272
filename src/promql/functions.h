// SPDX-License-Identifier: Apache-2.0
// The functions of PromQL as one constant table: the parser checks names and types with it, the
// evaluator calls through it, `--help` and the documentation list it. Values are columns: one
// double a step, PROMQL_ABSENT where the series has none at that step.
#pragma once

#include "promql/ast.h"
#include "promql/value.h"

#define PROMQL_MAX_ARGS 16

struct promql_eval;   // evaluator's state; eval.h
struct promql_slider; // slider.h

// What a function over a range vector sees of one series at one step.
struct promql_window {
    const int64_t *t; // n samples, start_ms < t <= end_ms, no stale markers
    const double *v;
    size_t n; // at least 1, except for functions with wants_empty
    int64_t start_ms, end_ms;
    int64_t eval_ms;    // time of the step (differs from end_ms under offset and @)
    const double *args; // the scalar arguments at this step, in order, without the range vector
    struct promql_notes *notes;
    // The series' name, for annotations: of all series, or with TSDB_NO_SYMBOL in these labels.
    const struct promql_eval *ev;
    uint32_t name;
    struct tsdb_labels labels;
    uint32_t arg_start; // position of the first argument in the text, for annotations
};

enum promql_fn_kind {
    PROMQL_FN_ROLLUP,  // range vector (and scalars) -> value per series
    PROMQL_FN_MAP,     // instant vector (and scalars) -> value per sample: abs, round, clamp …
    PROMQL_FN_TIME,    // time parts of an optional vector, default vector(time()): hour, minute …
    PROMQL_FN_SPECIAL, // sees the whole call: label_replace, absent, histogram_quantile, sort …
};

struct promql_function {
    const char *name;
    enum promql_fn_kind kind;
    enum promql_type ret;
    enum promql_type args[PROMQL_MAX_ARGS];
    uint8_t n_args;
    int8_t variadic;   // as in Prometheus: 0 exact; n > 0: up to n of the last may be left out; -1:
                       // any number of the last
    bool keep_name;    // the metric name stays (last_over_time, sort …)
    bool experimental; // known, refused with Prometheus' message
    bool wants_empty;
    // False: no value at this step.
    bool (*rollup)(const struct promql_window *w, double *ret);
    // The same, where windows overlap much; NULL: no faster way.
    bool (*sliding)(struct promql_slider *s, const struct promql_window *w, double *ret);
    double (*map)(double v, const double *args, size_t n_args);
    struct gs_error *(*special)(struct promql_eval *ev, const struct promql_node *call,
                                struct promql_matrix *ret);
};

const struct promql_function *promql_function_find(struct gs_slice name);
const struct promql_function *promql_function_at(size_t i); // NULL behind the last; sorted by name
