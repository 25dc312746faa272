// SPDX-License-Identifier: Apache-2.0
// The syntax tree: names of its parts, and walking it. A tree is immutable after parsing and owned
// by its promql_expr. Features are a setting of the process, made before anything is parsed.
#include "promql/ast.h"

#include "base/mem.h"
#include "promql/parser_private.h"

const char *promql_type_name(enum promql_type t)
{
    static const char *const names[] = {"none", "scalar", "instant vector", "range vector",
                                        "string"};
    return names[t];
}

const char *promql_op_text(enum promql_op op)
{
    static const char *const texts[] = {"+",  "-",  "*", "/", "%",  "^",  "atan2", "</", ">/",
                                        "==", "!=", "<", ">", "<=", ">=", "and",   "or", "unless"};
    return texts[op];
}

const char *promql_agg_name(enum promql_agg a)
{
    static const char *const names[] = {
        "sum",    "avg",  "count",   "min",          "max",      "group",  "stddev",
        "stdvar", "topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio"};
    return names[a];
}

static unsigned enabled_features; // of the process, set before expressions are parsed

static struct tsdb_regex *letters; // NULL until names can have letters of Unicode

void promql_set_features(unsigned features)
{
    enabled_features = features;
    if ((features & PROMQL_UTF8_NAMES) && !letters)
        gs_error_free(tsdb_regex_new(GS_SLICE("\\p{L}"), &letters));
}

size_t promql_letter(struct gs_slice text)
{
    static const unsigned char first[] = {0, 0x80, 0xc0, 0xe0, 0xf0};
    unsigned char c = text.len ? (unsigned char)*text.data : 0;
    size_t n = 4;
    while (n && c < first[n])
        n--;
    if (n < 2 || n > text.len || !letters ||
        !tsdb_regex_matches(letters, gs_slice_make(text.data, n)))
        return 0;
    return n;
}

unsigned promql_features(void)
{
    return enabled_features;
}

unsigned promql_features_of(struct gs_slice list, struct gs_slice *ret_other)
{
    unsigned features = 0;
    while (list.data) {
        struct gs_slice name = gs_slice_trim(gs_slice_cut(&list, ','));
        if (gs_slice_eq_str(name, "promql-experimental-functions"))
            features |= PROMQL_EXPERIMENTAL_FUNCTIONS;
        else if (gs_slice_eq_str(name, "promql-binop-fill-modifiers"))
            features |= PROMQL_FILL;
        else if (gs_slice_eq_str(name, "promql-unquoted-utf8-names"))
            features |= PROMQL_UTF8_NAMES;
        else if (gs_slice_eq_str(name, "promql-delayed-name-removal"))
            features |= PROMQL_DELAYED_NAMES;
        else if (gs_slice_eq_str(name, "promql-per-step-stats"))
            features |= PROMQL_PER_STEP_STATS;
        else if (!ret_other->len)
            *ret_other = name;
    }
    return features;
}

void promql_expr_free(struct promql_expr *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < e->n_regexes; i++)
        tsdb_regex_free(e->regexes[i]);
    free(e->regexes);
    gs_arena_finish(&e->arena);
    free(e);
}

const struct promql_node *promql_expr_root(const struct promql_expr *e)
{
    return e->root;
}

struct gs_slice promql_expr_text(const struct promql_expr *e)
{
    return e->text;
}

void promql_walk(const struct promql_node *n, bool (*fn)(void *arg, const struct promql_node *n),
                 void *arg)
{
    if (!n || !fn(arg, n))
        return;
    switch (n->kind) {
    case PROMQL_SUBQUERY:
        promql_walk(n->u.subquery.expr, fn, arg);
        break;
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        promql_walk(n->u.unary.expr, fn, arg);
        break;
    case PROMQL_BINARY:
        promql_walk(n->u.binary.lhs, fn, arg);
        promql_walk(n->u.binary.rhs, fn, arg);
        break;
    case PROMQL_AGGREGATE:
        promql_walk(n->u.aggregate.expr, fn, arg);
        promql_walk(n->u.aggregate.param, fn, arg);
        break;
    case PROMQL_CALL:
        for (size_t i = 0; i < n->u.call.n_args; i++)
            promql_walk(n->u.call.args[i], fn, arg);
        break;
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
    case PROMQL_SELECTOR:
        break;
    }
}
