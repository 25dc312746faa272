// SPDX-License-Identifier: Apache-2.0
// Finds the units of an expression: the parts that can be multiplied in place of the values of a
// selector, because a range of samples cannot be multiplied itself.
#include "aliases/aliases_private.h"

#include "base/mem.h"
#include "promql/functions.h"

struct walk {
    void (*fn)(void *arg, const struct aliases_unit *u);
    void *arg;
};

static void walk_node(const struct walk *w, const struct promql_node *n,
                      const struct promql_node *parent, bool named);

static const struct promql_node *without_parens(const struct promql_node *n)
{
    while (n->kind == PROMQL_PAREN)
        n = n->u.unary.expr;
    return n;
}

static enum aliases_scale scale_of(const char *function)
{
    static const char *const absences[] = {"absent", "absent_over_time"};
    static const char *const free_ones[] = {"timestamp",
                                            "count_over_time",
                                            "present_over_time",
                                            "changes",
                                            "resets",
                                            "ts_of_first_over_time",
                                            "ts_of_last_over_time",
                                            "ts_of_max_over_time",
                                            "ts_of_min_over_time"};
    if (gs_is_one_of(function, absences, GS_ARRAY_LEN(absences)))
        return ALIASES_ABSENCE;
    if (gs_is_one_of(function, free_ones, GS_ARRAY_LEN(free_ones)))
        return ALIASES_FREE;
    return gs_streq(function, "stdvar_over_time") ? ALIASES_SQUARE : ALIASES_LINEAR;
}

// The selector that makes the call a unit; NULL: it makes no unit.
static const struct promql_node *selector_of_call(const struct promql_node *call)
{
    for (size_t i = 0; i < call->u.call.n_args; i++) {
        const struct promql_node *n = without_parens(call->u.call.args[i]);
        const char *name = call->u.call.fn->name;
        if (n->kind == PROMQL_SELECTOR &&
            (n->u.selector.ranged || gs_streq(name, "absent") || gs_streq(name, "timestamp")))
            return n;
    }
    return NULL;
}

static void walk_call(const struct walk *w, const struct promql_node *n,
                      const struct promql_node *parent, bool named)
{
    const struct promql_function *fn = n->u.call.fn;
    const struct promql_node *selector = selector_of_call(n);
    if (selector) {
        w->fn(w->arg, &(struct aliases_unit){n, selector, parent, scale_of(fn->name),
                                             named && fn->keep_name});
        return;
    }
    for (size_t i = 0; i < n->u.call.n_args; i++)
        walk_node(w, n->u.call.args[i], n, named && fn->keep_name);
}

static bool lists_name(const struct promql_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        if (gs_slice_eq_str(names->items[i], "__name__"))
            return true;
    return false;
}

static bool selects_series(enum promql_agg op)
{
    return op == PROMQL_TOPK || op == PROMQL_BOTTOMK || op == PROMQL_LIMITK ||
           op == PROMQL_LIMIT_RATIO;
}

static void walk_aggregate(const struct walk *w, const struct promql_node *n, bool named)
{
    bool by_name = !n->u.aggregate.without && lists_name(&n->u.aggregate.grouping);
    if (n->u.aggregate.param)
        walk_node(w, n->u.aggregate.param, n, false);
    walk_node(w, n->u.aggregate.expr, n, by_name || (named && selects_series(n->u.aggregate.op)));
}

static void walk_binary(const struct walk *w, const struct promql_node *n, bool named)
{
    enum promql_op op = n->u.binary.op;
    bool matched = n->u.binary.on && lists_name(&n->u.binary.labels);
    bool keeps = (promql_op_is_comparison(op) && !n->u.binary.return_bool) || op == PROMQL_AND ||
                 op == PROMQL_OR || op == PROMQL_UNLESS;
    walk_node(w, n->u.binary.lhs, n, matched || (named && keeps));
    walk_node(w, n->u.binary.rhs, n, matched || (named && keeps));
}

static void walk_node(const struct walk *w, const struct promql_node *n,
                      const struct promql_node *parent, bool named)
{
    switch (n->kind) {
    case PROMQL_SELECTOR:
        if (!n->u.selector.any)
            w->fn(w->arg,
                  &(struct aliases_unit){
                      n, n, parent, n->u.selector.ranged ? ALIASES_RAW : ALIASES_LINEAR, named});
        break;
    case PROMQL_SUBQUERY:
        walk_node(w, n->u.subquery.expr, n, named);
        break;
    case PROMQL_PAREN:
        walk_node(w, n->u.unary.expr, n, named);
        break;
    case PROMQL_UNARY:
        walk_node(w, n->u.unary.expr, n, false);
        break;
    case PROMQL_BINARY:
        walk_binary(w, n, named);
        break;
    case PROMQL_AGGREGATE:
        walk_aggregate(w, n, named);
        break;
    case PROMQL_CALL:
        walk_call(w, n, parent, named);
        break;
    case PROMQL_NUMBER:
    case PROMQL_STRING_LITERAL:
        break;
    }
}

void aliases_each_unit(const struct promql_node *root,
                       void (*fn)(void *arg, const struct aliases_unit *u), void *arg)
{
    const struct walk w = {fn, arg};
    walk_node(&w, root, NULL, true);
}

struct aliases_name aliases_scaled(const struct aliases_name *a, enum aliases_scale scale)
{
    struct aliases_name s = *a;
    if (scale == ALIASES_SQUARE) {
        s.multiplier *= s.multiplier;
        s.divisor *= s.divisor;
    } else if (scale == ALIASES_FREE || scale == ALIASES_ABSENCE) {
        s.multiplier = s.divisor = 1;
    }
    return s;
}

// --- selectors ---

struct gs_slice aliases_selected_name(const struct promql_node *selector)
{
    for (size_t i = 0; i < selector->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &selector->u.selector.matchers[i];
        if (m->op == TSDB_EQ && gs_slice_eq_str(m->name, "__name__"))
            return m->value;
    }
    return GS_SLICE("");
}

bool aliases_has_pattern(const struct promql_node *selector)
{
    for (size_t i = 0; i < selector->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &selector->u.selector.matchers[i];
        if (m->op == TSDB_RE && gs_slice_eq_str(m->name, "__name__"))
            return true;
    }
    return false;
}

bool aliases_pattern_fits(const struct promql_node *selector, const char *name)
{
    bool fits = aliases_has_pattern(selector);
    for (size_t i = 0; fits && i < selector->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &selector->u.selector.matchers[i];
        fits = !gs_slice_eq_str(m->name, "__name__") || tsdb_matcher_matches(m, gs_slice_of(name));
    }
    return fits;
}

// --- edits ---

void aliases_edits_add(struct aliases_edits *e, uint32_t start, uint32_t end, struct gs_buf *text)
{
    gs_grow(&e->items, &e->cap, e->len, sizeof(*e->items));
    e->items[e->len++] = (struct aliases_edit){start, end, gs_buf_take(text)};
}

void aliases_open_paren(struct gs_slice text, uint32_t at, struct gs_buf *out)
{
    struct gs_slice before = gs_slice_trim(gs_slice_make(text.data, at));
    bool grouping = gs_slice_ends(before, "group_left") || gs_slice_ends(before, "group_right");
    gs_buf_add_str(out, grouping ? "() (" : "(");
}

void aliases_edits_apply(const struct aliases_edits *e, struct gs_slice text, struct gs_buf *out)
{
    size_t at = 0;
    for (size_t i = 0; i < e->len; i++) {
        gs_buf_add(out, text.data + at, e->items[i].start - at);
        gs_buf_add_str(out, e->items[i].text);
        at = e->items[i].end;
    }
    gs_buf_add(out, text.data + at, text.len - at);
}

void aliases_edits_finish(struct aliases_edits *e)
{
    for (size_t i = 0; i < e->len; i++)
        free(e->items[i].text);
    free(e->items);
    *e = (struct aliases_edits){0};
}
