// SPDX-License-Identifier: Apache-2.0
// Values of an evaluation, and the table of functions.
#pragma once

#include "base/arena.h"
#include "promql/ast.h"
#include "tsdb/tsdb.h"

// --- values ---
//
// Values of an evaluation: series as columns over the steps of a query. An instant query has one
// step. Everything of a query lives in its arena, under its byte limit.

// No value at this step. It has the bits of the staleness marker, which never leaves a selector, so
// no computed NaN is mistaken for it: test with promql_absent(), never with isnan().
#define PROMQL_ABSENT_BITS UINT64_C(0x7ff0000000000002)
static inline bool promql_absent(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits == PROMQL_ABSENT_BITS;
}
static inline double promql_absent_value(void)
{
    uint64_t bits = PROMQL_ABSENT_BITS;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

struct promql_series {
    // Symbols of the store's table, or of the query's own (texts made by the query); both are read
    // by promql_text(). Equal texts have equal symbols within a query.
    struct tsdb_labels labels;
    double *v; // n_steps columns
};

// A vector (or, with n 1 and no labels, a scalar) over all steps.
struct promql_matrix {
    struct promql_series *series;
    size_t n, cap;
    size_t n_steps;
    uint64_t set; // not 0: which series these are; see cache.h
};

// Warnings and infos of a query, deduplicated, with the position appended: texts as Prometheus'.
struct promql_annotations;
void promql_annotate_warning(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
void promql_annotate_info(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
// A quantile that is not between 0 and 1.
void promql_annotate_quantile(struct promql_annotations *n, uint32_t pos, double q);
// Whether the last call was the same, for what is asked at every step. what: any address.
bool promql_annotated(struct promql_annotations *n, uint32_t pos, const void *what);

// --- functions ---
//
// The functions of PromQL as one constant table: the parser checks names and types with it, the
// evaluator calls through it, `--help` and the documentation list it. Values are columns: one
// double a step, PROMQL_ABSENT where the series has none at that step.

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
    struct promql_annotations *notes;
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
