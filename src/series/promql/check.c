// SPDX-License-Identifier: Apache-2.0
// Sets the types of all nodes, children first, and checks the rules that are not part of the
// grammar.
#include "promql/functions.h"
#include "promql/parser_private.h"

static void check_is(struct promql_parser *p, const struct promql_node *n, enum promql_type wanted,
                     const char *context)
{
    if (n->type != wanted)
        promql_parser_fail(p, n->start, "expected type %s in %s, got %s", promql_type_name(wanted),
                           context, promql_type_name(n->type));
}

static bool is_set_operator(enum promql_op op)
{
    return op >= PROMQL_AND;
}

static bool is_operand(const struct promql_node *n)
{
    return n->type == PROMQL_SCALAR || n->type == PROMQL_VECTOR;
}

// The position of the operator, for errors.
static uint32_t operator_at(const struct promql_parser *p, const struct promql_node *n)
{
    uint32_t at = n->u.binary.lhs->end;
    while (at < p->expr->text.len && strchr(" \t\n\r", p->expr->text.data[at]))
        at++;
    return at;
}

static void check_on_and_include(struct promql_parser *p, const struct promql_node *n)
{
    const struct promql_names *on = &n->u.binary.labels, *include = &n->u.binary.include;
    for (size_t i = 0; n->u.binary.on && i < on->n; i++) {
        for (size_t k = 0; k < include->n; k++) {
            if (!gs_slice_eq(on->items[i], include->items[k]))
                continue;
            GS_AUTO_BUF struct gs_buf quoted = {0};
            promql_quote(&quoted, on->items[i]);
            promql_parser_fail(p, operator_at(p, n),
                               "label %s must not occur in ON and GROUP clause at once",
                               quoted.data);
        }
    }
}

static void check_vectors(struct promql_parser *p, struct promql_node *n)
{
    enum promql_op op = n->u.binary.op;
    bool vectors = n->u.binary.lhs->type == PROMQL_VECTOR && n->u.binary.rhs->type == PROMQL_VECTOR;
    if (!vectors) {
        if (n->u.binary.labels.n)
            promql_parser_fail(p, n->start, "vector matching only allowed between instant vectors");
        if (n->u.binary.has_fill_left || n->u.binary.has_fill_right)
            promql_parser_fail(p, n->start,
                               "filling in missing series only allowed between instant vectors");
        if (is_set_operator(op))
            promql_parser_fail(p, n->start,
                               "set operator \"%s\" not allowed in binary scalar expression",
                               promql_op_text(op));
        return;
    }
    if (!is_set_operator(op))
        return;
    if (n->u.binary.card != PROMQL_ONE_TO_ONE)
        promql_parser_fail(p, n->start, "no grouping allowed for \"%s\" operation",
                           promql_op_text(op));
    if (n->u.binary.has_fill_left || n->u.binary.has_fill_right)
        promql_parser_fail(p, n->start, "filling in missing series not allowed for set operators");
    n->u.binary.card = PROMQL_MANY_TO_MANY;
}

static void check_binary(struct promql_parser *p, struct promql_node *n)
{
    const struct promql_node *lhs = n->u.binary.lhs, *rhs = n->u.binary.rhs;
    bool scalars = lhs->type == PROMQL_SCALAR && rhs->type == PROMQL_SCALAR;
    if (n->u.binary.return_bool && !promql_op_is_comparison(n->u.binary.op))
        promql_parser_fail(p, operator_at(p, n),
                           "bool modifier can only be used on comparison operators");
    if (scalars && promql_op_is_comparison(n->u.binary.op) && !n->u.binary.return_bool)
        promql_parser_fail(p, operator_at(p, n),
                           "comparisons between scalars must use BOOL modifier");
    check_on_and_include(p, n);
    const struct promql_node *wrong = !is_operand(lhs) ? lhs : !is_operand(rhs) ? rhs : NULL;
    if (wrong)
        promql_parser_fail(p, wrong->start,
                           "binary expression must contain only scalar and instant vector types");
    else
        check_vectors(p, n);
    n->type = scalars ? PROMQL_SCALAR : PROMQL_VECTOR;
}

// The second argument of info() is a list of matchers in braces.
static void check_info(struct promql_parser *p, const struct promql_node *n)
{
    const struct promql_node *labels = n->u.call.args[1];
    if (labels->type != PROMQL_VECTOR)
        promql_parser_fail(p, n->start,
                           "expected type instant vector in call to function \"info\", got %s",
                           promql_type_name(labels->type));
    if (labels->kind == PROMQL_SELECTOR && labels->u.selector.name.len)
        promql_parser_fail(p, labels->start,
                           "expected label selectors only, got vector selector instead");
    if (labels->kind != PROMQL_SELECTOR)
        promql_parser_fail(p, labels->start, "expected label selectors only");
}

// Its matchers may match everything.
static void allow_any(const struct promql_node *n)
{
    const struct promql_node *labels = n->u.call.n_args > 1 ? n->u.call.args[1] : NULL;
    if (labels && gs_streq(n->u.call.fn->name, "info") && labels->kind == PROMQL_SELECTOR)
        ((struct promql_node *)labels)->u.selector.any = true;
}

static void check_call(struct promql_parser *p, struct promql_node *n)
{
    const struct promql_function *fn = n->u.call.fn;
    size_t given = n->u.call.n_args, wanted = fn->n_args;
    if (fn->variadic == 0 && given != wanted)
        promql_parser_fail(p, n->start, "expected %zu argument(s) in call to \"%s\", got %zu",
                           wanted, fn->name, given);
    if (fn->variadic && given + 1 < wanted)
        promql_parser_fail(p, n->start,
                           "expected at least %zu argument(s) in call to \"%s\", got %zu",
                           wanted - 1, fn->name, given);
    if (fn->variadic > 0 && given > wanted - 1 + (size_t)fn->variadic)
        promql_parser_fail(p, n->start,
                           "expected at most %zu argument(s) in call to \"%s\", got %zu",
                           wanted - 1 + (size_t)fn->variadic, fn->name, given);
    GS_AUTO_BUF struct gs_buf context = {0};
    gs_buf_addf(&context, "call to function \"%s\"", fn->name);
    if (gs_streq(fn->name, "info") && given > 1)
        check_info(p, n);
    for (size_t i = 0; i < given && wanted; i++)
        check_is(p, n->u.call.args[i], fn->args[i < wanted ? i : wanted - 1], context.data);
    n->type = fn->ret;
}

static void check_aggregate(struct promql_parser *p, struct promql_node *n)
{
    check_is(p, n->u.aggregate.expr, PROMQL_VECTOR, "aggregation expression");
    if (n->u.aggregate.param)
        check_is(p, n->u.aggregate.param,
                 n->u.aggregate.op == PROMQL_COUNT_VALUES ? PROMQL_STRING : PROMQL_SCALAR,
                 "aggregation parameter");
    n->type = PROMQL_VECTOR;
}

static void check_series_selector(struct promql_parser *p, struct promql_node *n)
{
    n->type = n->u.selector.ranged ? PROMQL_MATRIX : PROMQL_VECTOR;
    bool named = n->u.selector.name.len > 0, selective = named;
    for (size_t i = 0; i + named < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        selective = selective || !tsdb_matcher_matches(m, GS_SLICE(""));
        if (!named || !gs_slice_eq_str(m->name, "__name__"))
            continue;
        GS_AUTO_BUF struct gs_buf both = {0};
        promql_quote(&both, n->u.selector.name);
        gs_buf_add_str(&both, " or ");
        promql_quote(&both, m->value);
        promql_parser_fail(p, n->start, "metric name must not be set twice: %s", both.data);
    }
    if (!selective && !n->u.selector.any)
        promql_parser_fail(p, n->start,
                           "vector selector must contain at least one non-empty matcher");
}

static void check_node(struct promql_parser *p, struct promql_node *n)
{
    switch (n->kind) {
    case PROMQL_NUMBER:
        n->type = PROMQL_SCALAR;
        break;
    case PROMQL_STRING_LITERAL:
        n->type = PROMQL_STRING;
        break;
    case PROMQL_SELECTOR:
        check_series_selector(p, n);
        break;
    case PROMQL_SUBQUERY:
        if (n->u.subquery.expr->type != PROMQL_VECTOR)
            promql_parser_fail(p, n->start,
                               "subquery is only allowed on instant vector, got %s instead",
                               n->u.subquery.expr->type == PROMQL_MATRIX
                                   ? "matrix"
                                   : promql_type_name(n->u.subquery.expr->type));
        n->type = PROMQL_MATRIX;
        break;
    case PROMQL_PAREN:
        n->type = n->u.unary.expr->type;
        break;
    case PROMQL_UNARY:
        if (!is_operand(n->u.unary.expr))
            promql_parser_fail(
                p, n->start,
                "unary expression only allowed on expressions of type scalar or instant "
                "vector, got \"%s\"",
                promql_type_name(n->u.unary.expr->type));
        n->type = n->u.unary.expr->type;
        break;
    case PROMQL_BINARY:
        check_binary(p, n);
        break;
    case PROMQL_AGGREGATE:
        check_aggregate(p, n);
        break;
    case PROMQL_CALL:
        check_call(p, n);
        break;
    }
}

static bool shift_is_fixed(const struct promql_shift *s)
{
    return s->at != PROMQL_AT_NONE;
}

// Functions of the evaluation time are not constant, whatever their arguments.
static bool call_is_fixed(const struct promql_node *n)
{
    static const char *const varying[] = {
        "days_in_month", "day_of_month", "day_of_week", "day_of_year",    "hour",      "minute",
        "month",         "year",         "time",        "predict_linear", "timestamp", "info"};
    static const char *const constant[] = {"pi", "start", "end", "range", "step"};
    bool fixed = n->u.call.n_args > 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(constant); i++)
        fixed = fixed || gs_streq(n->u.call.fn->name, constant[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(varying); i++)
        fixed = fixed && !gs_streq(n->u.call.fn->name, varying[i]);
    for (size_t i = 0; i < n->u.call.n_args; i++)
        fixed = fixed && n->u.call.args[i]->step_invariant;
    return fixed;
}

static bool is_fixed(const struct promql_node *n)
{
    switch (n->kind) {
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
        return true;
    case PROMQL_SELECTOR:
        return shift_is_fixed(&n->u.selector.shift);
    case PROMQL_SUBQUERY:
        return shift_is_fixed(&n->u.subquery.shift);
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        return n->u.unary.expr->step_invariant;
    case PROMQL_BINARY:
        return n->u.binary.lhs->step_invariant && n->u.binary.rhs->step_invariant;
    case PROMQL_AGGREGATE:
        return n->u.aggregate.expr->step_invariant &&
               (!n->u.aggregate.param || n->u.aggregate.param->step_invariant);
    case PROMQL_CALL:
        return call_is_fixed(n);
    }
    return false;
}

static void check_below(struct promql_parser *p, const struct promql_node *n)
{
    if (n)
        promql_check(p, (struct promql_node *)n);
}

void promql_check(struct promql_parser *p, struct promql_node *n)
{
    switch (n->kind) {
    case PROMQL_SUBQUERY:
        check_below(p, n->u.subquery.expr);
        break;
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        check_below(p, n->u.unary.expr);
        break;
    case PROMQL_BINARY:
        check_below(p, n->u.binary.lhs);
        check_below(p, n->u.binary.rhs);
        break;
    case PROMQL_AGGREGATE:
        check_below(p, n->u.aggregate.expr);
        check_below(p, n->u.aggregate.param);
        break;
    case PROMQL_CALL:
        allow_any(n);
        for (size_t i = 0; i < n->u.call.n_args; i++)
            check_below(p, n->u.call.args[i]);
        break;
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
    case PROMQL_SELECTOR:
        break;
    }
    if (p->err)
        return;
    check_node(p, n);
    n->step_invariant = !p->err && is_fixed(n);
}
