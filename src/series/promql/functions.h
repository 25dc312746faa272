// SPDX-License-Identifier: Apache-2.0
// Values of an evaluation, and the table of PromQL functions
// (https://prometheus.io/docs/prometheus/latest/querying/functions/).
#pragma once

#include "base/arena.h"
#include "promql/ast.h"
#include "tsdb/tsdb.h"

// --- values ---
// Series are columns over the steps of a query. An instant query has one step. All memory of a
// query comes from its arena and counts against its byte limit.

// The series has no value at this step. These are the bits of the staleness marker. Selectors drop
// it, so it cannot be confused with a computed NaN. Test with promql_absent(), never with isnan().
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
    // Symbols of the store, or of the query for strings that the query created; promql_text() reads
    // both. Equal strings have equal symbols within a query.
    struct tsdb_labels labels;
    double *v;      // n_steps columns
    bool drop_name; // with PROMQL_DELAYED_NAMES: the query removes the name at its end
};

// A vector (or, with n 1 and no labels, a scalar) over all steps.
struct promql_matrix {
    struct promql_series *series;
    size_t n, cap;
    size_t n_steps;
    const struct promql_set *set; // what is cached about these series; NULL: nothing
};

// Warnings and infos of a query, deduplicated, with the position appended and Prometheus' wording.
struct promql_annotations;
void promql_annotate_warning(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
void promql_annotate_info(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
    GS_PRINTF(3, 4);
// Warns about a quantile that is not between 0 and 1.
void promql_annotate_quantile(struct promql_annotations *n, uint32_t pos, double q);
// True if the last call had the same arguments. Avoids repeated work at every step. what: any
// address.
bool promql_annotated(struct promql_annotations *n, uint32_t pos, const void *what);

// --- functions ---
// The functions of PromQL in one constant table. The parser checks names and types with it, and the
// evaluator calls the functions. Values are columns with one double per step.

#define PROMQL_MAX_ARGS 16

struct promql_eval;   // state of the evaluator
struct promql_slider; // sliding window

// The arguments of a range vector function for one series at one step.
struct promql_window {
    const int64_t *t; // n samples, start_ms < t <= end_ms, without staleness markers
    const double *v;
    size_t n; // at least 1, except for functions with wants_empty
    int64_t start_ms, end_ms;
    int64_t eval_ms;    // time of the step (differs from end_ms under offset and @)
    const double *args; // the scalar arguments at this step, in order, without the range vector
    size_t n_args;
    struct promql_annotations *notes;
    // The metric name of all series, for annotations. TSDB_NO_SYMBOL: it is in the labels.
    const struct promql_eval *ev;
    uint32_t name;
    struct tsdb_labels labels;
    uint32_t arg_start;    // position of the first argument in the text, for annotations
    uint32_t scalar_start; // and of the first scalar
};

enum promql_fn_kind {
    PROMQL_FN_ROLLUP, // range vector (and scalars) -> value per series
    PROMQL_FN_MAP,    // instant vector (and scalars) -> value per sample: abs, round, clamp …
    PROMQL_FN_TIME,   // time parts of an optional vector, default vector(time()): hour, minute …
    // evaluates the whole call: label_replace, absent, histogram_quantile, sort …
    PROMQL_FN_SPECIAL,
};

struct promql_function {
    const char *name;
    enum promql_fn_kind kind;
    enum promql_type ret;
    enum promql_type args[PROMQL_MAX_ARGS];
    uint8_t n_args;
    int8_t variadic;   // as in Prometheus: 0 exact; n > 0: the last n are optional; -1: the last
                       // can be repeated
    bool keep_name;    // the metric name stays (last_over_time, sort …)
    bool experimental; // rejected with Prometheus' message
    bool wants_empty;
    // Returns false if there is no value at this step.
    bool (*rollup)(const struct promql_window *w, double *ret);
    // A faster version for windows with a large overlap; NULL: none.
    bool (*sliding)(struct promql_slider *s, const struct promql_window *w, double *ret);
    double (*map)(double v, const double *args, size_t n_args);
    struct gs_error *(*special)(struct promql_eval *ev, const struct promql_node *call,
                                struct promql_matrix *ret);
};

const struct promql_function *promql_function_find(struct gs_slice name);
const struct promql_function *promql_function_nth(size_t i); // NULL after the last
