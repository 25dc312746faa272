// SPDX-License-Identifier: Apache-2.0
// Parses selectors and their suffixes: ranges, subqueries, offset, @.
#include "promql/parser_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>

struct matcher_list {
    struct tsdb_matcher *items;
    size_t n, cap;
};

static bool add_matcher(struct promql_parser *p, struct matcher_list *l, struct tsdb_matcher m)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        struct tsdb_matcher *items = gs_arena_alloc(&p->expr->arena, cap * sizeof(*items));
        if (!items) {
            promql_parser_fail(p, 0, "out of memory");
            return false;
        }
        if (l->n)
            memcpy(items, l->items, l->n * sizeof(*items));
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = m;
    return true;
}

static bool compile_matcher(struct promql_parser *p, uint32_t start, struct tsdb_matcher *m)
{
    struct gs_error *err = tsdb_regex_new(m->value, &m->regex);
    if (err) {
        promql_parser_fail(p, start, "%s", gs_error_message(err));
        gs_error_free(err);
        return false;
    }
    struct promql_expr *e = p->expr;
    gs_grow(&e->regexes, &e->regexes_cap, e->n_regexes, sizeof(*e->regexes));
    e->regexes[e->n_regexes++] = m->regex;
    return true;
}

static bool match_op(const struct promql_token *t, enum tsdb_match *ret)
{
    if (t->type == PROMQL_T_EQL)
        *ret = TSDB_EQ;
    else if (t->type == PROMQL_T_OPERATOR && t->code == PROMQL_NEQ)
        *ret = TSDB_NEQ;
    else if (t->type == PROMQL_T_EQL_REGEX)
        *ret = TSDB_RE;
    else if (t->type == PROMQL_T_NEQ_REGEX)
        *ret = TSDB_NRE;
    else
        return false;
    return true;
}

static bool label_matcher(struct promql_parser *p, struct matcher_list *l)
{
    struct promql_token name = p->tok;
    bool quoted = name.type == PROMQL_T_STRING;
    if (!quoted && name.type != PROMQL_T_IDENTIFIER) {
        promql_parser_unexpected(p, "label matching", "identifier or \"}\"");
        return false;
    }
    struct tsdb_matcher m = {0};
    m.name = quoted ? promql_parser_unquote(p, &name)
                    : gs_slice_make(promql_parser_text(p, name.text), name.text.len);
    promql_parser_advance(p);
    if (!match_op(&p->tok, &m.op)) {
        if (quoted) { // {"metric.name"}
            m = (struct tsdb_matcher){GS_SLICE("__name__"), m.name, TSDB_EQ, NULL};
            return !p->err && add_matcher(p, l, m);
        }
        promql_parser_unexpected(p, "label matching", "label matching operator");
        return false;
    }
    promql_parser_advance(p);
    if (p->tok.type != PROMQL_T_STRING) {
        promql_parser_unexpected(p, "label matching", "string");
        return false;
    }
    m.value = promql_parser_unquote(p, &p->tok);
    if ((m.op == TSDB_RE || m.op == TSDB_NRE) && !compile_matcher(p, name.start, &m))
        return false;
    promql_parser_advance(p);
    return !p->err && add_matcher(p, l, m);
}

static bool label_matchers(struct promql_parser *p, struct matcher_list *l, uint32_t *ret_end)
{
    promql_parser_advance(p); // {
    while (!p->err && p->tok.type != PROMQL_T_RIGHT_BRACE) {
        if (!label_matcher(p, l))
            return false;
        if (!promql_parser_accept(p, PROMQL_T_COMMA) && p->tok.type != PROMQL_T_RIGHT_BRACE)
            promql_parser_unexpected(p, "label matching", "\",\" or \"}\"");
    }
    *ret_end = p->tok.end;
    if (!p->err)
        promql_parser_advance(p);
    return !p->err;
}

struct promql_node *promql_parser_selector(struct promql_parser *p)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_SELECTOR, p->tok.start);
    struct matcher_list l = {0};
    if (!n)
        return NULL;
    if (p->tok.type != PROMQL_T_LEFT_BRACE) {
        n->u.selector.name = gs_slice_make(promql_parser_text(p, p->tok.text), p->tok.text.len);
        n->end = p->tok.end;
        promql_parser_advance(p);
    }
    if (p->err || (p->tok.type == PROMQL_T_LEFT_BRACE && !label_matchers(p, &l, &n->end)))
        return NULL;
    const struct tsdb_matcher name = {GS_SLICE("__name__"), n->u.selector.name, TSDB_EQ, NULL};
    if (name.value.len && !add_matcher(p, &l, name))
        return NULL;
    n->u.selector.matchers = l.items;
    n->u.selector.n_matchers = l.n;
    return n;
}

// --- after a node ---

static struct promql_shift *shift_of(struct promql_node *n)
{
    if (n->kind == PROMQL_SELECTOR)
        return &n->u.selector.shift;
    return n->kind == PROMQL_SUBQUERY ? &n->u.subquery.shift : NULL;
}

static const char DURATION_WORDS[] = "number, duration, step(), or range()";

// In brackets: a number must be positive.
static const struct promql_duration *positive_duration(struct promql_parser *p, const char *context,
                                                       const char *expected)
{
    const struct promql_duration *d = promql_parse_duration(p, false, context, expected);
    if (d && d->kind == PROMQL_DURATION_NUMBER && d->number <= 0) {
        promql_parser_fail(p, d->start, "duration must be greater than 0");
        return NULL;
    }
    return d;
}

static struct promql_node *range(struct promql_parser *p, struct promql_node *n, uint32_t open,
                                 const struct promql_duration *d)
{
    if (n->kind != PROMQL_SELECTOR || n->u.selector.ranged)
        promql_parser_fail(p, open, "ranges only allowed for vector selectors");
    else if (n->u.selector.shift.offset_ms || n->u.selector.shift.offset_expr)
        promql_parser_fail(p, open, "no offset modifiers allowed before range");
    else if (n->u.selector.shift.at != PROMQL_AT_NONE)
        promql_parser_fail(p, open, "no @ modifiers allowed before range");
    if (p->err)
        return NULL;
    n->u.selector.ranged = true;
    promql_set_duration(d, &n->u.selector.range_ms, 1, &n->u.selector.range_expr);
    n->end = p->tok.end;
    promql_parser_advance(p);
    return p->err ? NULL : n;
}

static struct promql_node *subquery(struct promql_parser *p, struct promql_node *expr,
                                    const struct promql_duration *d)
{
    struct promql_node *n = promql_parser_node(p, PROMQL_SUBQUERY, expr->start);
    promql_parser_advance(p); // :
    if (!n || p->err)
        return NULL;
    n->u.subquery.expr = expr;
    promql_set_duration(d, &n->u.subquery.range_ms, 1, &n->u.subquery.range_expr);
    if (p->tok.type != PROMQL_T_RIGHT_BRACKET) {
        const struct promql_duration *step = positive_duration(
            p, "subquery selector", "number, duration, step(), range(), or \"]\"");
        if (!step)
            return NULL;
        promql_set_duration(step, &n->u.subquery.step_ms, 1, &n->u.subquery.step_expr);
    }
    if (p->tok.type != PROMQL_T_RIGHT_BRACKET) {
        promql_parser_unexpected(p, "subquery selector", "\"]\"");
        return NULL;
    }
    n->end = p->tok.end;
    promql_parser_advance(p);
    return p->err ? NULL : promql_parser_check_height(p, n, expr);
}

static struct promql_node *brackets(struct promql_parser *p, struct promql_node *n)
{
    uint32_t open = p->tok.start;
    promql_parser_advance(p);
    const struct promql_duration *d =
        p->err ? NULL : positive_duration(p, "subquery or range selector", DURATION_WORDS);
    if (!d)
        return NULL;
    if (p->tok.type == PROMQL_T_RIGHT_BRACKET)
        return range(p, n, open, d);
    if (p->tok.type == PROMQL_T_COLON)
        return subquery(p, n, d);
    promql_parser_unexpected(p, "subquery or range", "\":\" or \"]\"");
    return NULL;
}

static bool offset(struct promql_parser *p, struct promql_node *n)
{
    promql_parser_advance(p);
    const struct promql_duration *d =
        p->err ? NULL : promql_parse_duration(p, true, "offset", DURATION_WORDS);
    if (!d)
        return false;
    struct promql_shift *shift = shift_of(n);
    if (!shift)
        promql_parser_fail(
            p, n->start,
            "offset modifier must be preceded by an instant vector selector or range "
            "vector selector or a subquery");
    else if (shift->offset_ms || shift->offset_expr)
        promql_parser_fail(p, n->start, "offset may not be set multiple times");
    else
        promql_set_duration(d, &shift->offset_ms, 0, &shift->offset_expr);
    n->end = p->last_end;
    return !p->err;
}

// anchored or smoothed
static bool extension(struct promql_parser *p, struct promql_node *n)
{
    bool anchored = promql_parser_is_keyword(p, PROMQL_K_ANCHORED);
    const char *word = anchored ? "anchored" : "smoothed";
    promql_parser_advance(p);
    if (p->err)
        return false;
    if (n->kind == PROMQL_SUBQUERY)
        promql_parser_fail(p, n->start, "%s modifier is not supported for subqueries", word);
    else if (n->kind != PROMQL_SELECTOR)
        promql_parser_fail(p, n->start, "%s modifier not implemented", word);
    else if (n->u.selector.extension == (anchored ? PROMQL_SMOOTHED : PROMQL_ANCHORED))
        promql_parser_fail(p, n->start, "anchored and smoothed modifiers cannot be used together");
    else
        n->u.selector.extension = anchored ? PROMQL_ANCHORED : PROMQL_SMOOTHED;
    return !p->err;
}

static bool at_time(struct promql_parser *p, const struct promql_node *n, struct promql_shift *ret)
{
    bool sign = p->tok.type == PROMQL_T_OPERATOR &&
                (p->tok.code == PROMQL_ADD || p->tok.code == PROMQL_SUB);
    bool negative = sign && p->tok.code == PROMQL_SUB;
    if (sign)
        promql_parser_advance(p);
    if (p->tok.type != PROMQL_T_NUMBER && p->tok.type != PROMQL_T_DURATION) {
        promql_parser_unexpected(p, "@", "timestamp");
        return false;
    }
    double s = 0;
    if (!promql_parse_seconds(p, p->tok, &s))
        return false;
    s = negative ? -s : s;
    if (!(fabs(s) < 9223372036854775807.0)) {
        char text[GS_DOUBLE_SIZE];
        if (isfinite(s))
            promql_parser_fail(p, n->start, "timestamp out of bounds for @ modifier: %f", s);
        else
            promql_parser_fail(p, n->start, "timestamp out of bounds for @ modifier: %s",
                               gs_format_double(s, text));
        return false;
    }
    promql_parser_advance(p);
    ret->at = PROMQL_AT_TIME;
    ret->at_ms = fabs(s) < 9.2e15 ? (int64_t)round(s * 1000) : (s < 0 ? INT64_MIN : INT64_MAX);
    return !p->err;
}

static bool at_preprocessor(struct promql_parser *p, struct promql_shift *ret)
{
    if (p->tok.code > PROMQL_P_END) {
        promql_parser_unexpected(p, "@", "timestamp");
        return false;
    }
    ret->at = p->tok.code == PROMQL_P_END ? PROMQL_AT_END : PROMQL_AT_START;
    promql_parser_advance(p);
    if (!promql_parser_accept(p, PROMQL_T_LEFT_PAREN) || p->tok.type != PROMQL_T_RIGHT_PAREN) {
        promql_parser_unexpected(p, "@", "timestamp");
        return false;
    }
    promql_parser_advance(p);
    return !p->err;
}

static bool parse_at_modifier(struct promql_parser *p, struct promql_node *n)
{
    struct promql_shift found = {0};
    promql_parser_advance(p);
    bool ok = !p->err && (p->tok.type == PROMQL_T_PREPROCESSOR ? at_preprocessor(p, &found)
                                                               : at_time(p, n, &found));
    if (!ok)
        return false;
    struct promql_shift *shift = shift_of(n);
    if (!shift)
        promql_parser_fail(
            p, n->start,
            "@ modifier must be preceded by an instant vector selector or range vector "
            "selector or a subquery");
    else if (shift->at != PROMQL_AT_NONE)
        promql_parser_fail(p, n->start, "@ <timestamp> may not be set multiple times");
    if (p->err)
        return false;
    shift->at = found.at;
    shift->at_ms = found.at_ms;
    n->end = p->last_end;
    return true;
}

struct promql_node *promql_parse_postfix(struct promql_parser *p, struct promql_node *n)
{
    while (n && !p->err) {
        if (p->tok.type == PROMQL_T_LEFT_BRACKET)
            n = brackets(p, n);
        else if (promql_parser_is_keyword(p, PROMQL_K_OFFSET))
            n = offset(p, n) ? n : NULL;
        else if (promql_parser_is_keyword(p, PROMQL_K_ANCHORED) ||
                 promql_parser_is_keyword(p, PROMQL_K_SMOOTHED))
            n = extension(p, n) ? n : NULL;
        else if (p->tok.type == PROMQL_T_AT)
            n = parse_at_modifier(p, n) ? n : NULL;
        else
            return n;
    }
    return p->err ? NULL : n;
}
