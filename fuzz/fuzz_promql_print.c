// SPDX-License-Identifier: Apache-2.0
// Any expression, printed on one line and with line breaks: both parse to the same tree.
#include "base/buf.h"
#include "promql/ast.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct promql_node *a, const struct promql_node *b);

static bool same_names(const struct promql_names *a, const struct promql_names *b)
{
    bool ok = a->n == b->n;
    for (size_t i = 0; ok && i < a->n; i++)
        ok = gs_slice_eq(a->items[i], b->items[i]);
    return ok;
}

static bool same_shift(const struct promql_shift *a, const struct promql_shift *b)
{
    return a->offset_ms == b->offset_ms && a->at == b->at &&
           (a->at != PROMQL_AT_TIME || a->at_ms == b->at_ms);
}

static bool has_matcher(const struct promql_node *n, const struct tsdb_matcher *m)
{
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *o = &n->u.selector.matchers[i];
        if (o->op == m->op && gs_slice_eq(o->name, m->name) && gs_slice_eq(o->value, m->value))
            return true;
    }
    return false;
}

// In any order: the printer sorts matchers.
static bool same_selector(const struct promql_node *a, const struct promql_node *b)
{
    bool ok = a->u.selector.n_matchers == b->u.selector.n_matchers &&
              a->u.selector.range_ms == b->u.selector.range_ms &&
              same_shift(&a->u.selector.shift, &b->u.selector.shift);
    for (size_t i = 0; ok && i < a->u.selector.n_matchers; i++)
        ok = has_matcher(b, &a->u.selector.matchers[i]) &&
             has_matcher(a, &b->u.selector.matchers[i]);
    return ok;
}

static bool same_number(double a, double b)
{
    return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b);
}

static bool same_binary(const struct promql_node *a, const struct promql_node *b)
{
    return a->u.binary.op == b->u.binary.op && a->u.binary.return_bool == b->u.binary.return_bool &&
           a->u.binary.card == b->u.binary.card && a->u.binary.on == b->u.binary.on &&
           same_names(&a->u.binary.labels, &b->u.binary.labels) &&
           same_names(&a->u.binary.include, &b->u.binary.include) &&
           same(a->u.binary.lhs, b->u.binary.lhs) && same(a->u.binary.rhs, b->u.binary.rhs);
}

static bool same_aggregate(const struct promql_node *a, const struct promql_node *b)
{
    const struct promql_node *p = a->u.aggregate.param, *q = b->u.aggregate.param;
    return a->u.aggregate.op == b->u.aggregate.op &&
           a->u.aggregate.without == b->u.aggregate.without &&
           same_names(&a->u.aggregate.grouping, &b->u.aggregate.grouping) && !p == !q &&
           (!p || same(p, q)) && same(a->u.aggregate.expr, b->u.aggregate.expr);
}

static bool same_call(const struct promql_node *a, const struct promql_node *b)
{
    bool ok = a->u.call.fn == b->u.call.fn && a->u.call.n_args == b->u.call.n_args;
    for (size_t i = 0; ok && i < a->u.call.n_args; i++)
        ok = same(a->u.call.args[i], b->u.call.args[i]);
    return ok;
}

static bool same(const struct promql_node *a, const struct promql_node *b)
{
    if (a->kind != b->kind || a->type != b->type)
        return false;
    switch (a->kind) {
    case PROMQL_NUMBER:
        return same_number(a->u.number, b->u.number);
    case PROMQL_STRING_LITERAL:
        return gs_slice_eq(a->u.string, b->u.string);
    case PROMQL_SELECTOR:
        return same_selector(a, b);
    case PROMQL_SUBQUERY:
        return a->u.subquery.range_ms == b->u.subquery.range_ms &&
               a->u.subquery.step_ms == b->u.subquery.step_ms &&
               same_shift(&a->u.subquery.shift, &b->u.subquery.shift) &&
               same(a->u.subquery.expr, b->u.subquery.expr);
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        return (a->kind == PROMQL_PAREN || a->u.unary.negative == b->u.unary.negative) &&
               same(a->u.unary.expr, b->u.unary.expr);
    case PROMQL_BINARY:
        return same_binary(a, b);
    case PROMQL_AGGREGATE:
        return same_aggregate(a, b);
    case PROMQL_CALL:
        return same_call(a, b);
    }
    return false;
}

static void check(const struct promql_expr *x,
                  void (*print)(const struct promql_node *n, struct gs_buf *out))
{
    GS_AUTO_BUF struct gs_buf text = {0}, again = {0};
    struct promql_expr *y = NULL;
    print(promql_expr_root(x), &text);
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_buf_slice(&text), &y);
    if (err && gs_error_code(err) == GS_ELIMIT) // blanks can make it longer than a text may be
        return;
    if (!err)
        print(promql_expr_root(y), &again);
    if (err || !same(promql_expr_root(x), promql_expr_root(y)) ||
        !gs_slice_eq(gs_buf_slice(&text), gs_buf_slice(&again))) {
        fprintf(stderr, "printed: %s\n%s\n", text.data, err ? gs_error_message(err) : "differs");
        abort();
    }
    promql_expr_free(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct promql_expr *x = NULL;
    promql_set_features(PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL | PROMQL_UTF8_NAMES);
    GS_AUTO_ERROR struct gs_error *err =
        promql_parse(gs_slice_make(size ? (const char *)data : "", size), &x);
    if (err)
        return 0;
    check(x, promql_print);
    check(x, promql_print_pretty);
    promql_expr_free(x);
    return 0;
}
