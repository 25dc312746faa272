// SPDX-License-Identifier: Apache-2.0
// parse_query: the tree of an expression as JSON.
#include "engine/api/api_private.h"

#include "promql/functions.h"

#include <math.h>

static json_t *tree(const struct promql_node *n);

static json_t *text(struct gs_slice s)
{
    GS_AUTO_BUF struct gs_buf utf8 = {0};
    gs_buf_add(&utf8, s.data, s.len);
    engine_api_make_utf8(&utf8);
    return json_stringn(utf8.data, utf8.len);
}

static json_t *names(const struct promql_names *l)
{
    json_t *list = json_array();
    for (size_t i = 0; i < l->n; i++)
        json_array_append_new(list, text(l->items[i]));
    return list;
}

static const char *value_type(enum promql_type t)
{
    switch (t) {
    case PROMQL_SCALAR:
        return "scalar";
    case PROMQL_VECTOR:
        return "vector";
    case PROMQL_MATRIX:
        return "matrix";
    case PROMQL_STRING:
        return "string";
    case PROMQL_NONE:
        break;
    }
    return "none";
}

static json_t *number(double v)
{
    char text[ENGINE_API_JSON_VALUE_SIZE];
    return json_stringn(text, (size_t)(engine_api_json_put_value(text, v) - text));
}

// The recursion is bounded by the parser's depth limit.
static json_t *duration(const struct promql_duration *d)
{
    const char *op = NULL;
    if (!d)
        return json_null();
    switch (d->kind) {
    case PROMQL_DURATION_NUMBER:
        return json_pack("{s:s,s:o,s:b}", "type", "numberLiteral", "val", number(d->number),
                         "duration", d->is_duration);
    case PROMQL_DURATION_STEP:
        op = "step";
        break;
    case PROMQL_DURATION_RANGE:
        op = "range";
        break;
    case PROMQL_DURATION_MIN_OF:
        op = "min_of";
        break;
    case PROMQL_DURATION_MAX_OF:
        op = "max_of";
        break;
    case PROMQL_DURATION_OPERATOR:
        op = promql_op_text(d->op);
        break;
    }
    return json_pack("{s:s,s:s,s:o,s:o,s:b}", "type", "durationExpr", "op", op, "lhs",
                     duration(d->lhs), "rhs", duration(d->rhs), "wrapped", d->wrapped);
}

// Milliseconds of a duration; 0 of an expression.
static void add_duration(json_t *obj, const char *name, const char *expr_name, int64_t ms,
                         const struct promql_duration *d)
{
    codec_json_set_int(obj, name, d ? 0 : ms);
    json_object_set_new(obj, expr_name, duration(d));
}

static void add_shift(json_t *obj, const struct promql_shift *s)
{
    add_duration(obj, "offset", "offsetExpr", s->offset_ms, s->offset_expr);
    json_object_set_new(obj, "timestamp",
                        s->at == PROMQL_AT_TIME ? json_integer(s->at_ms) : json_null());
    json_object_set_new(obj, "startOrEnd",
                        s->at == PROMQL_AT_START ? json_string("start")
                        : s->at == PROMQL_AT_END ? json_string("end")
                                                 : json_null());
}

static json_t *selector(const struct promql_node *n)
{
    static const char *const ops[] = {
        [TSDB_EQ] = "=", [TSDB_NEQ] = "!=", [TSDB_RE] = "=~", [TSDB_NRE] = "!~"};
    json_t *matchers = json_array();
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        json_array_append_new(matchers, json_pack("{s:o,s:o,s:s}", "name", text(m->name), "value",
                                                  text(m->value), "type", ops[m->op]));
    }
    json_t *obj = json_pack("{s:s,s:o,s:o}", "type",
                            n->u.selector.ranged ? "matrixSelector" : "vectorSelector", "name",
                            text(n->u.selector.name), "matchers", matchers);
    if (n->u.selector.ranged)
        add_duration(obj, "range", "rangeExpr", n->u.selector.range_ms, n->u.selector.range_expr);
    json_object_set_new(obj, "anchored", json_boolean(n->u.selector.extension == PROMQL_ANCHORED));
    json_object_set_new(obj, "smoothed", json_boolean(n->u.selector.extension == PROMQL_SMOOTHED));
    add_shift(obj, &n->u.selector.shift);
    return obj;
}

static json_t *subquery(const struct promql_node *n)
{
    json_t *obj = json_pack("{s:s,s:o}", "type", "subquery", "expr", tree(n->u.subquery.expr));
    add_duration(obj, "range", "rangeExpr", n->u.subquery.range_ms, n->u.subquery.range_expr);
    add_duration(obj, "step", "stepExpr", n->u.subquery.step_ms, n->u.subquery.step_expr);
    add_shift(obj, &n->u.subquery.shift);
    return obj;
}

static json_t *fill(bool given, double v)
{
    return given && isfinite(v) ? json_real(v) : json_null();
}

static json_t *binary_json(const struct promql_node *n)
{
    static const char *const cards[] = {[PROMQL_ONE_TO_ONE] = "one-to-one",
                                        [PROMQL_MANY_TO_ONE] = "many-to-one",
                                        [PROMQL_ONE_TO_MANY] = "one-to-many",
                                        [PROMQL_MANY_TO_MANY] = "many-to-many"};
    json_t *matching = json_null();
    if (n->u.binary.lhs->type == PROMQL_VECTOR && n->u.binary.rhs->type == PROMQL_VECTOR)
        matching = json_pack("{s:s,s:o,s:b,s:o,s:{s:o,s:o}}", "card", cards[n->u.binary.card],
                             "labels", names(&n->u.binary.labels), "on", n->u.binary.on, "include",
                             names(&n->u.binary.include), "fillValues", "lhs",
                             fill(n->u.binary.has_fill_left, n->u.binary.fill_left), "rhs",
                             fill(n->u.binary.has_fill_right, n->u.binary.fill_right));
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:b}", "type", "binaryExpr", "op",
                     promql_op_text(n->u.binary.op), "lhs", tree(n->u.binary.lhs), "rhs",
                     tree(n->u.binary.rhs), "matching", matching, "bool", n->u.binary.return_bool);
}

static json_t *aggregate_json(const struct promql_node *n)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:o,s:b}", "type", "aggregation", "op",
                     promql_agg_name(n->u.aggregate.op), "expr", tree(n->u.aggregate.expr), "param",
                     n->u.aggregate.param ? tree(n->u.aggregate.param) : json_null(), "grouping",
                     names(&n->u.aggregate.grouping), "without", n->u.aggregate.without);
}

static json_t *call_json(const struct promql_node *n)
{
    const struct promql_function *fn = n->u.call.fn;
    json_t *args = json_array(), *types = json_array();
    for (size_t i = 0; i < n->u.call.n_args; i++)
        json_array_append_new(args, tree(n->u.call.args[i]));
    for (size_t i = 0; i < fn->n_args; i++)
        json_array_append_new(types, json_string(value_type(fn->args[i])));
    return json_pack("{s:s,s:{s:s,s:o,s:i,s:s},s:o}", "type", "call", "func", "name", fn->name,
                     "argTypes", types, "variadic", fn->variadic, "returnType", value_type(fn->ret),
                     "args", args);
}

// The recursion is bounded by the parser's depth limit.
static json_t *tree(const struct promql_node *n)
{
    switch (n->kind) {
    case PROMQL_NUMBER:
        return json_pack("{s:s,s:o}", "type", "numberLiteral", "val", number(n->u.number));
    case PROMQL_STRING_LITERAL:
        return json_pack("{s:s,s:o}", "type", "stringLiteral", "val", text(n->u.string));
    case PROMQL_SELECTOR:
        return selector(n);
    case PROMQL_SUBQUERY:
        return subquery(n);
    case PROMQL_PAREN:
        return json_pack("{s:s,s:o}", "type", "parenExpr", "expr", tree(n->u.unary.expr));
    case PROMQL_UNARY:
        return json_pack("{s:s,s:s,s:o}", "type", "unaryExpr", "op",
                         n->u.unary.negative ? "-" : "+", "expr", tree(n->u.unary.expr));
    case PROMQL_BINARY:
        return binary_json(n);
    case PROMQL_AGGREGATE:
        return aggregate_json(n);
    case PROMQL_CALL:
        return call_json(n);
    }
    return json_null();
}

void engine_api_parse_query(struct engine_api_request *r)
{
    struct promql_expr *expr = NULL;
    struct gs_error *err = promql_parse(gs_slice_of(engine_api_param(r, "query")), &expr);
    if (err) {
        engine_api_fail_param(r, "query", err);
        return;
    }
    json_t *data = tree(promql_expr_root(expr));
    promql_expr_free(expr);
    engine_api_reply_json(r, data);
}
