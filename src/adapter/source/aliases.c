// SPDX-License-Identifier: Apache-2.0
// The other names of GPU metrics in queries and lists of a source. A list of series shows which
// names exist, so that queries are only changed if there is something to read under another name.
#include "adapter/source/source_private.h"

#include "aliases/aliases.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"

struct source_aliases {
    struct gs_hmap *names;   // names of metrics that the source has, and that have other names
    struct gs_hmap *queried; // those other names
};

struct source_aliases *source_aliases_new(void)
{
    struct source_aliases *a = gs_alloc(sizeof(*a));
    a->names = gs_hmap_new(NULL);
    a->queried = gs_hmap_new(NULL);
    return a;
}

void source_aliases_free(struct source_aliases *a)
{
    if (!a)
        return;
    gs_hmap_free(a->names);
    gs_hmap_free(a->queried);
    free(a);
}

static void note_name(struct source_aliases *a, struct gs_slice metric,
                      const struct aliases_name *others, size_t n)
{
    if (gs_hmap_get(a->names, metric))
        return;
    gs_hmap_put(a->names, metric, a);
    for (size_t i = 0; i < n; i++)
        gs_hmap_put(a->queried, gs_slice_of(others[i].name), a);
}

// --- queries ---

static bool has_name(void *arg, struct gs_slice metric)
{
    const struct source_aliases *a = arg;
    return gs_hmap_get(a->names, metric) != NULL;
}

// Queries can be long, and few contain such a name.
static bool may_contain(const struct source_aliases *a, const char *promql)
{
    size_t at = 0;
    struct gs_slice name;
    void *unused;
    bool pattern = strstr(promql, "__name__=~") != NULL;
    while (gs_hmap_next(a->queried, &at, &name, &unused))
        if (pattern || memmem(promql, strlen(promql), name.data, name.len))
            return true;
    return false;
}

void source_aliases_query(const struct source_aliases *a, const char *promql,
                          struct gs_buf *ret_query, struct gs_buf *ret_notes)
{
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    if (!a || !may_contain(a, promql))
        return;
    const struct aliases_source source = {has_name, (void *)(uintptr_t)a, false};
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(promql), &x);
    if (!err) // the source reports the error otherwise
        aliases_read(x, &source, ret_query, ret_notes);
}

// --- lists ---

void source_aliases_selector(const struct source_aliases *a, const char *selector,
                             struct gs_buf *ret)
{
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    if (!a)
        return;
    GS_AUTO_ERROR struct gs_error *err = promql_parse_selector(gs_slice_of(selector), &x);
    if (!err)
        aliases_widen_selector(x, ret);
}

struct completion {
    struct source_aliases *aliases;
    const struct promql_expr *selector;
    struct source_shapes *shapes;
    size_t cap;
    struct gs_hmap *present; // name and labels of the series with several names
};

static void shape_key(struct gs_slice name, const struct source_shape *s, struct gs_buf *key)
{
    gs_buf_clear(key);
    gs_buf_add_slice(key, name);
    for (size_t i = 0; i < s->n_labels; i++) {
        gs_buf_add_char(key, '\0');
        gs_buf_add_slice(key, s->labels[i]);
    }
}

static void note_shape(struct completion *c, const struct source_shape *s, struct gs_buf *key)
{
    struct aliases_name others[ALIASES_MAX];
    size_t n = aliases_of(s->name, others);
    if (!n)
        return;
    note_name(c->aliases, s->name, others, n);
    shape_key(s->name, s, key);
    gs_hmap_put(c->present, gs_buf_slice(key), c);
}

// The labels are shared with the shape of the series' own name.
static void add_alias(struct completion *c, size_t of, const char *name, struct gs_buf *key)
{
    struct source_shapes *o = c->shapes;
    struct source_shape s = o->items[of];
    struct gs_slice metric = gs_slice_of(name);
    shape_key(metric, &s, key);
    if (!aliases_selector_fits(c->selector, metric) || gs_hmap_get(c->present, gs_buf_slice(key)))
        return;
    s.alias = aliases_selector_fits(c->selector, s.name);
    s.name = metric;
    gs_grow(&o->items, &c->cap, o->n, sizeof(*o->items));
    o->items[o->n++] = s;
    gs_hmap_put(c->present, gs_buf_slice(key), c);
}

static void remove_unselected(struct completion *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->shapes->n; i++)
        if (aliases_selector_fits(c->selector, c->shapes->items[i].name))
            c->shapes->items[kept++] = c->shapes->items[i];
    c->shapes->n = kept;
}

static void complete_list(struct completion *c)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    size_t n = c->shapes->n;
    for (size_t i = 0; i < n; i++)
        note_shape(c, &c->shapes->items[i], &key);
    for (size_t i = 0; i < n; i++) {
        struct aliases_name others[ALIASES_MAX];
        size_t n_others = aliases_of(c->shapes->items[i].name, others);
        for (size_t k = 0; k < n_others; k++)
            add_alias(c, i, others[k].name, &key);
    }
}

void source_aliases_complete(struct source_aliases *a, const char *selector,
                             struct source_shapes *shapes)
{
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    GS_AUTO_ERROR struct gs_error *err = promql_parse_selector(gs_slice_of(selector), &x);
    if (err)
        return;
    struct completion c = {.aliases = a,
                           .selector = x,
                           .shapes = shapes,
                           .cap = shapes->n,
                           .present = gs_hmap_new(NULL)};
    complete_list(&c);
    remove_unselected(&c);
    gs_hmap_free(c.present);
}
