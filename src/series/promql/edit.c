// SPDX-License-Identifier: Apache-2.0
// Edits the matchers of all selectors of an expression, as promtool promql label-matchers does.
#include "promql/parser_private.h"

#include <string.h>

struct edit {
    struct promql_expr *expr;
    const struct tsdb_matcher *set; // NULL: delete
    struct gs_slice name;           // of the matchers that are replaced or deleted
    bool failed;
};

static bool edit_selector(void *arg, const struct promql_node *node)
{
    struct edit *e = arg;
    if (node->kind != PROMQL_SELECTOR)
        return !e->failed;
    struct promql_node *n = (struct promql_node *)(uintptr_t)node; // of e->expr
    size_t len = n->u.selector.n_matchers, n_new = 0;
    struct tsdb_matcher *items = gs_arena_alloc(&e->expr->arena, (len + 1) * sizeof(*items));
    e->failed = !items;
    if (!items)
        return false;
    bool found = false;
    for (size_t i = 0; i < len; i++) {
        bool same = gs_slice_eq(n->u.selector.matchers[i].name, e->name);
        found = found || same;
        if (!same || e->set)
            items[n_new++] = same ? *e->set : n->u.selector.matchers[i];
    }
    if (e->set && !found)
        items[n_new++] = *e->set;
    n->u.selector.matchers = items;
    n->u.selector.n_matchers = n_new;
    return true;
}

static struct gs_error *edit_all(struct edit *e)
{
    promql_walk(e->expr->root, edit_selector, e);
    return e->failed ? gs_error_new(GS_ELIMIT, "too much memory") : NULL;
}

static struct gs_slice copy_text(struct promql_expr *x, struct gs_slice s)
{
    const char *copy = gs_arena_strndup(&x->arena, s.data ? s.data : "", s.len);
    return gs_slice_make(copy ? copy : "", copy ? s.len : 0);
}

struct gs_error *promql_set_matcher(struct promql_expr *x, struct gs_slice name, enum tsdb_match op,
                                    struct gs_slice value)
{
    const struct tsdb_matcher m = {
        .name = copy_text(x, name), .value = copy_text(x, value), .op = op};
    struct edit e = {.expr = x, .set = &m, .name = name};
    return edit_all(&e);
}

struct gs_error *promql_delete_matchers(struct promql_expr *x, struct gs_slice name)
{
    struct edit e = {.expr = x, .name = name};
    return edit_all(&e);
}
