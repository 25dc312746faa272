// SPDX-License-Identifier: Apache-2.0
// The syntax tree of a PromQL expression (Prometheus 3:
// https://prometheus.io/docs/prometheus/latest/querying/basics/). It is immutable after parsing.
// Every node has its position in the text and its type.
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "tsdb/matcher.h"

#include <stdint.h>
#include <stdio.h>

enum promql_type { PROMQL_NONE, PROMQL_SCALAR, PROMQL_VECTOR, PROMQL_MATRIX, PROMQL_STRING };
const char *
promql_type_name(enum promql_type t); // "scalar", "instant vector", "range vector", "string"

enum promql_kind {
    PROMQL_NUMBER,
    PROMQL_STRING_LITERAL,
    PROMQL_SELECTOR, // vector selector, or matrix selector if `ranged`
    PROMQL_SUBQUERY,
    PROMQL_PAREN,
    PROMQL_UNARY,
    PROMQL_BINARY,
    PROMQL_AGGREGATE,
    PROMQL_CALL,
};

enum promql_op {
    PROMQL_ADD,
    PROMQL_SUB,
    PROMQL_MUL,
    PROMQL_DIV,
    PROMQL_MOD,
    PROMQL_POW,
    PROMQL_ATAN2,
    PROMQL_TRIM_UPPER, // </ and >/, of native histograms
    PROMQL_TRIM_LOWER,
    PROMQL_EQL,
    PROMQL_NEQ,
    PROMQL_LSS,
    PROMQL_GTR,
    PROMQL_LTE,
    PROMQL_GTE,
    PROMQL_AND,
    PROMQL_OR,
    PROMQL_UNLESS,
};
const char *promql_op_text(enum promql_op op);
static inline bool promql_op_is_comparison(enum promql_op op)
{
    return op >= PROMQL_EQL && op <= PROMQL_GTE;
}

enum promql_agg {
    PROMQL_SUM,
    PROMQL_AVG,
    PROMQL_COUNT,
    PROMQL_MIN,
    PROMQL_MAX,
    PROMQL_GROUP,
    PROMQL_STDDEV,
    PROMQL_STDVAR,
    PROMQL_TOPK,
    PROMQL_BOTTOMK,
    PROMQL_COUNT_VALUES,
    PROMQL_QUANTILE,
    PROMQL_LIMITK,
    PROMQL_LIMIT_RATIO,
};
const char *promql_agg_name(enum promql_agg a);

// An arithmetic expression in place of a duration: [5m * 2], offset step(). Values are in seconds.
enum promql_duration_kind {
    PROMQL_DURATION_NUMBER,
    PROMQL_DURATION_STEP,  // step(): resolution of the query
    PROMQL_DURATION_RANGE, // range(): time from the start to the end of the query
    PROMQL_DURATION_MIN_OF,
    PROMQL_DURATION_MAX_OF,
    PROMQL_DURATION_OPERATOR,
};
struct promql_duration {
    enum promql_duration_kind kind;
    enum promql_op op;                       // PROMQL_ADD … PROMQL_POW
    const struct promql_duration *lhs, *rhs; // lhs NULL: a sign
    double number;
    bool is_duration; // the number was written as a duration
    bool wrapped;     // in parentheses
    uint32_t start, end, height;
};

// offset and @ of a selector or subquery.
struct promql_shift {
    int64_t offset_ms;                         // positive: into the past
    const struct promql_duration *offset_expr; // offset_ms is then 0 until the query begins
    enum { PROMQL_AT_NONE, PROMQL_AT_TIME, PROMQL_AT_START, PROMQL_AT_END } at;
    int64_t at_ms; // PROMQL_AT_TIME
};

enum promql_card { PROMQL_ONE_TO_ONE, PROMQL_MANY_TO_ONE, PROMQL_ONE_TO_MANY, PROMQL_MANY_TO_MANY };

struct promql_names { // label names, in the order written
    const struct gs_slice *items;
    size_t n;
};

struct promql_function; // functions.h

struct promql_node {
    enum promql_kind kind;
    enum promql_type type;
    uint32_t start, end; // bytes in the text
    uint32_t height;     // of the chain of operators and subqueries below; limited by the parser
    // True if no part depends on the evaluation time of a step (only literals, and selectors and
    // subqueries with an @). Such a node is evaluated once for all steps.
    bool step_invariant;
    bool is_duration; // PROMQL_NUMBER: was written as a duration (5m), in seconds
    union {
        double number;
        struct gs_slice string; // unescaped, NUL-terminated
        struct {
            const struct tsdb_matcher *matchers; // __name__ included when given
            size_t n_matchers;
            struct gs_slice name;                     // metric name before the braces, or empty
            bool ranged;                              // has a range
            int64_t range_ms;                         // may be 0: a[0.0001]
            const struct promql_duration *range_expr; // range_ms is then 1 until the query begins
            // How values at the borders of a range are found: by the last sample before, or by
            // interpolation. PROMQL_SMOOTHED also for instants.
            enum { PROMQL_PLAIN, PROMQL_ANCHORED, PROMQL_SMOOTHED } extension;
            bool any; // second argument of info(): need not select
            struct promql_shift shift;
        } selector;
        struct {
            const struct promql_node *expr;
            int64_t range_ms, step_ms; // step 0: the default step of the engine
            const struct promql_duration *range_expr, *step_expr;
            struct promql_shift shift;
        } subquery;
        struct {
            const struct promql_node *expr;
            bool negative;
        } unary; // also for PROMQL_PAREN (negative is unused)
        struct {
            const struct promql_node *lhs, *rhs;
            enum promql_op op;
            bool return_bool;
            enum promql_card card; // vector with vector only
            bool on;               // on(...) or, when false, ignoring(...)
            struct promql_names labels, include;
            bool has_fill_left, has_fill_right; // for series without a partner on that side
            double fill_left, fill_right;
        } binary;
        struct {
            const struct promql_node *expr, *param; // param NULL when the operator takes none
            enum promql_agg op;
            bool without;
            struct promql_names grouping;
        } aggregate;
        struct {
            const struct promql_function *fn;
            const struct promql_node *const *args;
            size_t n_args;
        } call;
    } u;
};

struct promql_expr; // a text and its tree, in one arena

// Parts of the language that Prometheus enables with --enable-feature.
enum promql_feature {
    PROMQL_EXPERIMENTAL_FUNCTIONS = 1, // promql-experimental-functions
    PROMQL_FILL = 2,                   // promql-binop-fill-modifiers
    PROMQL_UTF8_NAMES = 4,             // promql-unquoted-utf8-names
    PROMQL_DELAYED_NAMES = 8,          // promql-delayed-name-removal
    PROMQL_PER_STEP_STATS = 16,        // promql-per-step-stats
};
// Sets the features of the process. Call it before expressions are parsed.
void promql_set_features(unsigned features);
unsigned promql_features(void);
// Adds the features in a list with commas; other names are ignored. *ret_other: the first of them.
unsigned promql_features_of(struct gs_slice list, struct gs_slice *ret_other);

// Errors have Prometheus' format: `1:5: parse error: unexpected character: '!'`. The text is
// copied. GS_ELIMIT: more than 64 KiB of text or a depth above 200.
struct gs_error *promql_parse(struct gs_slice text, struct promql_expr **ret);
void promql_expr_free(struct promql_expr *e);
GS_DEFINE_CLEANUP(struct promql_expr *, promql_expr_free)
const struct promql_node *promql_expr_root(const struct promql_expr *e);
struct gs_slice promql_expr_text(const struct promql_expr *e);
// Parses a series selector, as in match[] of the HTTP API. GS_EINVAL for anything else.
struct gs_error *promql_parse_selector(struct gs_slice text, struct promql_expr **ret);
// Parses a series description of promtool's unit tests, `metric{a="b"}`, into labels (with
// __name__) that live as long as the expression.
struct gs_error *promql_parse_metric(struct gs_slice text, struct promql_expr **ret);

// Prints an expression on one line, as Prometheus' Expr.String(), or with line breaks, as
// /api/v1/format_query.
void promql_print(const struct promql_node *n, struct gs_buf *out);
void promql_print_pretty(const struct promql_node *n, struct gs_buf *out);
void promql_print_duration(const struct promql_duration *d, struct gs_buf *out);
// Whether the tree has a duration expression.
bool promql_has_durations(const struct promql_node *n);
// Sets a matcher of this label in all selectors, or deletes all of them, for printing only: the
// result is not checked, and regular expressions are not compiled.
struct gs_error *promql_set_matcher(struct promql_expr *x, struct gs_slice name, enum tsdb_match op,
                                    struct gs_slice value);
struct gs_error *promql_delete_matchers(struct promql_expr *x, struct gs_slice name);
// Calls fn for every node, parents first. fn returns false to skip the children.
void promql_walk(const struct promql_node *n, bool (*fn)(void *arg, const struct promql_node *n),
                 void *arg);
