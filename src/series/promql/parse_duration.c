// SPDX-License-Identifier: Apache-2.0
// Durations: numbers, and arithmetic on them. Expressions are evaluated when the query begins.
#include "promql/eval_private.h"
#include "promql/grouping.h"
#include "promql/parser_private.h"

#include "base/mem.h"

#include <math.h>

static struct promql_duration *sum(struct promql_parser *p, int min_level);

static struct promql_duration *new_duration(struct promql_parser *p, enum promql_duration_kind kind)
{
    struct promql_duration *d = gs_arena_alloc(&p->expr->arena, sizeof(*d));
    if (!d) {
        promql_parser_fail(p, 0, "out of memory");
        return NULL;
    }
    d->kind = kind;
    d->start = p->tok.start;
    return d;
}

// Sets the operands, lhs may be NULL. Functions that walk the tree are recursive.
static bool set_operands(struct promql_parser *p, struct promql_duration *d,
                         const struct promql_duration *lhs, const struct promql_duration *rhs)
{
    d->lhs = lhs;
    d->rhs = rhs;
    d->height = 1 + (lhs && lhs->height > rhs->height ? lhs->height : rhs->height);
    if (d->height > PROMQL_MAX_HEIGHT)
        promql_parser_fail(p, d->start, "the duration has too many operations");
    return !p->err;
}

static bool in_range(double seconds)
{
    return fabs(seconds) <= 9223372036.854775807;
}

static bool is_sign(const struct promql_parser *p)
{
    return p->tok.type == PROMQL_T_OPERATOR &&
           (p->tok.code == PROMQL_ADD || p->tok.code == PROMQL_SUB);
}

static struct promql_duration *number(struct promql_parser *p, bool negative, uint32_t start)
{
    struct promql_duration *d = new_duration(p, PROMQL_DURATION_NUMBER);
    if (!d || !promql_parse_seconds(p, p->tok, &d->number))
        return NULL;
    d->number = negative ? -d->number : d->number;
    d->is_duration = p->tok.type == PROMQL_T_DURATION;
    d->start = start;
    d->end = p->tok.end;
    if (!in_range(d->number))
        promql_parser_fail(p, start, "duration out of range");
    promql_parser_advance(p);
    return p->err ? NULL : d;
}

static bool expect(struct promql_parser *p, enum promql_token_type type)
{
    if (p->tok.type != type) {
        promql_parser_unexpected(p, NULL, NULL);
        return false;
    }
    promql_parser_advance(p);
    return !p->err;
}

// step(), range(), max_of(a, b), min_of(a, b)
static struct promql_duration *call(struct promql_parser *p)
{
    static const enum promql_duration_kind kinds[] = {[PROMQL_P_STEP] = PROMQL_DURATION_STEP,
                                                      [PROMQL_P_RANGE] = PROMQL_DURATION_RANGE,
                                                      [PROMQL_P_MAX_OF] = PROMQL_DURATION_MAX_OF,
                                                      [PROMQL_P_MIN_OF] = PROMQL_DURATION_MIN_OF};
    int word = p->tok.code;
    struct promql_duration *d = new_duration(p, kinds[word]);
    promql_parser_advance(p);
    if (!d || p->err || !expect(p, PROMQL_T_LEFT_PAREN))
        return NULL;
    if (word == PROMQL_P_MAX_OF || word == PROMQL_P_MIN_OF) {
        const struct promql_duration *lhs = sum(p, 0);
        if (!lhs || !expect(p, PROMQL_T_COMMA))
            return NULL;
        const struct promql_duration *rhs = sum(p, 0);
        if (!rhs || !set_operands(p, d, lhs, rhs))
            return NULL;
    }
    d->end = p->tok.end;
    return expect(p, PROMQL_T_RIGHT_PAREN) ? d : NULL;
}

static struct promql_duration *wrap(struct promql_parser *p, struct promql_duration *inner,
                                    uint32_t start, uint32_t end)
{
    if (inner->kind != PROMQL_DURATION_NUMBER) {
        inner->wrapped = true;
        return inner;
    }
    struct promql_duration *d = new_duration(p, PROMQL_DURATION_OPERATOR);
    if (!d)
        return NULL;
    d->op = PROMQL_ADD;
    d->rhs = inner;
    d->wrapped = true;
    d->start = start;
    d->end = end;
    return d;
}

static struct promql_duration *parentheses(struct promql_parser *p)
{
    uint32_t start = p->tok.start;
    promql_parser_advance(p);
    struct promql_duration *inner = p->err ? NULL : sum(p, 0);
    uint32_t end = p->tok.end;
    return inner && expect(p, PROMQL_T_RIGHT_PAREN) ? wrap(p, inner, start, end) : NULL;
}

static bool is_call(const struct promql_parser *p)
{
    return p->tok.type == PROMQL_T_PREPROCESSOR && p->tok.code >= PROMQL_P_STEP;
}

static struct promql_duration *apply_sign(struct promql_parser *p, struct promql_duration *d,
                                          bool negative, uint32_t start)
{
    if (!d || !negative)
        return d;
    if (d->kind == PROMQL_DURATION_NUMBER) {
        d->number = -d->number;
        d->start = start;
        return d;
    }
    struct promql_duration *minus = new_duration(p, PROMQL_DURATION_OPERATOR);
    if (!minus)
        return NULL;
    minus->op = PROMQL_SUB;
    minus->start = start;
    minus->end = d->end;
    return set_operands(p, minus, NULL, d) ? minus : NULL;
}

static struct promql_duration *operand(struct promql_parser *p)
{
    if (is_sign(p)) {
        uint32_t start = p->tok.start;
        bool negative = p->tok.code == PROMQL_SUB;
        promql_parser_advance(p);
        // Binds as multiplication does: only powers belong to the operand.
        return p->err ? NULL : apply_sign(p, sum(p, 3), negative, start);
    }
    if (p->tok.type == PROMQL_T_NUMBER || p->tok.type == PROMQL_T_DURATION)
        return number(p, false, p->tok.start);
    if (p->tok.type == PROMQL_T_LEFT_PAREN)
        return parentheses(p);
    if (is_call(p))
        return call(p);
    promql_parser_unexpected(p, "subquery or range selector",
                             "number, duration, step(), or range()");
    return NULL;
}

static int level_of(const struct promql_token *t)
{
    if (t->type != PROMQL_T_OPERATOR)
        return 0;
    switch (t->code) {
    case PROMQL_ADD:
    case PROMQL_SUB:
        return 1;
    case PROMQL_MUL:
    case PROMQL_DIV:
    case PROMQL_MOD:
        return 2;
    case PROMQL_POW:
        return 3;
    default:
        return 0;
    }
}

static struct promql_duration *operation(struct promql_parser *p, struct promql_duration *lhs,
                                         int level)
{
    struct promql_duration *d = new_duration(p, PROMQL_DURATION_OPERATOR);
    uint32_t at = p->tok.start;
    if (!d)
        return NULL;
    d->op = (enum promql_op)p->tok.code;
    d->start = lhs->start;
    promql_parser_advance(p);
    struct promql_duration *rhs = p->err ? NULL : sum(p, level == 3 ? 3 : level + 1);
    if (!rhs || !set_operands(p, d, lhs, rhs))
        return NULL;
    d->end = rhs->end;
    bool zero = rhs->kind == PROMQL_DURATION_NUMBER && rhs->number == 0;
    if (zero && d->op == PROMQL_DIV)
        promql_parser_fail(p, at, "division by zero");
    if (zero && d->op == PROMQL_MOD)
        promql_parser_fail(p, at, "modulo by zero");
    return p->err ? NULL : d;
}

// The recursion is bounded as that of expressions.
static struct promql_duration *sum(struct promql_parser *p, int min_level)
{
    if (++p->depth > PROMQL_MAX_DEPTH) {
        promql_parser_fail(p, p->tok.start, "the duration is nested deeper than %d levels",
                           PROMQL_MAX_DEPTH);
        return NULL;
    }
    struct promql_duration *d = operand(p);
    int level;
    while (d && !p->err && (level = level_of(&p->tok)) && level >= min_level)
        d = operation(p, d, level);
    p->depth--;
    return p->err ? NULL : d;
}

struct promql_duration *promql_parse_duration(struct promql_parser *p, bool offset,
                                              const char *context, const char *expected)
{
    bool sign = is_sign(p), negative = sign && p->tok.code == PROMQL_SUB;
    bool known = sign || is_call(p) || p->tok.type == PROMQL_T_NUMBER ||
                 p->tok.type == PROMQL_T_DURATION || p->tok.type == PROMQL_T_LEFT_PAREN;
    if (!known) {
        promql_parser_unexpected(p, context, expected);
        return NULL;
    }
    if (!offset)
        return sum(p, 0);
    uint32_t start = p->tok.start;
    if (sign)
        promql_parser_advance(p);
    if (p->err)
        return NULL;
    if (p->tok.type == PROMQL_T_NUMBER || p->tok.type == PROMQL_T_DURATION)
        return number(p, negative, start);
    if (p->tok.type == PROMQL_T_LEFT_PAREN)
        return apply_sign(p, parentheses(p), negative, start);
    if (is_call(p))
        return apply_sign(p, call(p), negative, start);
    promql_parser_unexpected(p, context, expected);
    return NULL;
}

void promql_set_duration(const struct promql_duration *d, int64_t *ret_ms, int64_t unknown_ms,
                         const struct promql_duration **ret_expr)
{
    bool number = d->kind == PROMQL_DURATION_NUMBER;
    // As in Prometheus, rounded to nanoseconds, then truncated to milliseconds.
    *ret_ms = number ? (int64_t)trunc(round(d->number * 1e9) / 1e6) : unknown_ms;
    *ret_expr = number ? NULL : d;
}

// --- printing ---

void promql_print_duration(const struct promql_duration *d, struct gs_buf *out)
{
    if (d->wrapped)
        gs_buf_add_char(out, '(');
    switch (d->kind) {
    case PROMQL_DURATION_NUMBER:
        promql_print_seconds(d->number, d->is_duration, out);
        break;
    case PROMQL_DURATION_STEP:
        gs_buf_add_str(out, "step()");
        break;
    case PROMQL_DURATION_RANGE:
        gs_buf_add_str(out, "range()");
        break;
    case PROMQL_DURATION_MIN_OF:
    case PROMQL_DURATION_MAX_OF:
        gs_buf_add_str(out, d->kind == PROMQL_DURATION_MIN_OF ? "min_of(" : "max_of(");
        promql_print_duration(d->lhs, out);
        gs_buf_add_str(out, ", ");
        promql_print_duration(d->rhs, out);
        gs_buf_add_char(out, ')');
        break;
    case PROMQL_DURATION_OPERATOR:
        if (d->lhs) {
            promql_print_duration(d->lhs, out);
            gs_buf_addf(out, " %s ", promql_op_text(d->op));
        } else if (d->op == PROMQL_SUB) {
            gs_buf_add_char(out, '-');
        }
        promql_print_duration(d->rhs, out);
        break;
    }
    if (d->wrapped)
        gs_buf_add_char(out, ')');
}

// --- evaluation ---

static bool find_duration(void *arg, const struct promql_node *n)
{
    bool *found = arg;
    if (n->kind == PROMQL_SELECTOR)
        *found = *found || n->u.selector.range_expr || n->u.selector.shift.offset_expr;
    if (n->kind == PROMQL_SUBQUERY)
        *found = *found || n->u.subquery.range_expr || n->u.subquery.step_expr ||
                 n->u.subquery.shift.offset_expr;
    return !*found;
}

bool promql_has_durations(const struct promql_node *n)
{
    bool found = false;
    promql_walk(n, find_duration, &found);
    return found;
}

static struct gs_error *seconds_of(const struct promql_eval *ev, const struct promql_duration *d,
                                   double *ret)
{
    double l = 0, r = 0;
    struct gs_error *err = d->lhs ? seconds_of(ev, d->lhs, &l) : NULL;
    if (!err && d->rhs)
        err = seconds_of(ev, d->rhs, &r);
    if (err)
        return err;
    switch (d->kind) {
    case PROMQL_DURATION_NUMBER:
        *ret = d->number;
        return NULL;
    case PROMQL_DURATION_STEP:
        *ret = (double)ev->query_step_ms / 1000;
        return NULL;
    case PROMQL_DURATION_RANGE:
        *ret = (double)(ev->query_end_ms - ev->query_start_ms) / 1000;
        return NULL;
    case PROMQL_DURATION_MIN_OF:
        *ret = promql_smaller(l, r);
        return NULL;
    case PROMQL_DURATION_MAX_OF:
        *ret = -promql_smaller(-l, -r);
        return NULL;
    case PROMQL_DURATION_OPERATOR:
        break;
    }
    if (r == 0 && (d->op == PROMQL_DIV || d->op == PROMQL_MOD))
        return gs_error_new(GS_EINVAL, "%u:%u: %s by zero", d->start, d->end,
                            d->op == PROMQL_DIV ? "division" : "modulo");
    bool keep;
    *ret = promql_apply(d->op, l, r, &keep);
    return NULL;
}

static struct gs_error *resolve(const struct promql_eval *ev, const struct promql_duration *d,
                                bool negative, int64_t *ret_ms)
{
    double s = 0;
    struct gs_error *err = d ? seconds_of(ev, d, &s) : NULL;
    if (err || !d)
        return err;
    const char *wrong = !isfinite(s)          ? "duration is NaN or infinite"
                        : s <= 0 && !negative ? "duration must be greater than 0"
                        : !in_range(s)        ? "duration is out of range"
                                              : NULL;
    if (wrong)
        return gs_error_new(GS_EINVAL, "%u:%u: %s", d->start, d->end, wrong);
    *ret_ms = (int64_t)(s * 1000);
    return NULL;
}

static struct gs_error *copy(struct promql_eval *ev, const struct promql_node **n);

static struct gs_error *copy_args(struct promql_eval *ev, struct promql_node *call)
{
    const struct promql_node **args;
    struct gs_error *err = promql_eval_alloc(ev, call->u.call.n_args, sizeof(*args), &args);
    for (size_t i = 0; i < call->u.call.n_args && !err; i++) {
        args[i] = call->u.call.args[i];
        err = copy(ev, &args[i]);
    }
    if (!err)
        call->u.call.args = args;
    return err;
}

static struct gs_error *copy_children(struct promql_eval *ev, struct promql_node *n)
{
    struct gs_error *err = NULL;
    switch (n->kind) {
    case PROMQL_SELECTOR:
        err = resolve(ev, n->u.selector.range_expr, false, &n->u.selector.range_ms);
        return err ? err
                   : resolve(ev, n->u.selector.shift.offset_expr, true,
                             &n->u.selector.shift.offset_ms);
    case PROMQL_SUBQUERY:
        err = resolve(ev, n->u.subquery.shift.offset_expr, true, &n->u.subquery.shift.offset_ms);
        if (!err)
            err = resolve(ev, n->u.subquery.step_expr, false, &n->u.subquery.step_ms);
        if (!err)
            err = resolve(ev, n->u.subquery.range_expr, false, &n->u.subquery.range_ms);
        return err ? err : copy(ev, &n->u.subquery.expr);
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        return copy(ev, &n->u.unary.expr);
    case PROMQL_BINARY:
        err = copy(ev, &n->u.binary.lhs);
        return err ? err : copy(ev, &n->u.binary.rhs);
    case PROMQL_AGGREGATE:
        err = copy(ev, &n->u.aggregate.expr);
        return err || !n->u.aggregate.param ? err : copy(ev, &n->u.aggregate.param);
    case PROMQL_CALL:
        return copy_args(ev, n);
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
        break;
    }
    return err;
}

static struct gs_error *copy(struct promql_eval *ev, const struct promql_node **n)
{
    struct promql_node *made;
    struct gs_error *err = promql_eval_alloc(ev, 1, sizeof(*made), &made);
    if (err)
        return err;
    *made = **n;
    err = copy_children(ev, made);
    if (!err)
        *n = made;
    return err;
}

struct gs_error *promql_eval_durations(struct promql_eval *ev, const struct promql_node **n)
{
    return promql_has_durations(*n) ? copy(ev, n) : NULL;
}
