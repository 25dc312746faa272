// SPDX-License-Identifier: Apache-2.0
// Series selectors, as in match[] of the HTTP API and in the seriesQuery of rules of the adapter.
#include "aliases/aliases_private.h"

#include "base/mem.h"

struct selection {
    const struct promql_node *selector;
    void (*fn)(void *arg, struct gs_slice selector, const char *name, const char *shown);
    void *arg;
};

static void report_selector(void *arg, const char *shown, const struct aliases_name *a)
{
    const struct selection *s = arg;
    GS_AUTO_BUF struct gs_buf text = {0};
    aliases_add_selector(s->selector, a->name, NULL, false, &text);
    s->fn(s->arg, gs_buf_slice(&text), a->name, shown);
}

void aliases_each_selector(const struct promql_expr *selector, const struct aliases_source *source,
                           void (*fn)(void *arg, struct gs_slice selector, const char *name,
                                      const char *shown),
                           void *arg)
{
    const struct promql_node *n = promql_expr_root(selector);
    struct gs_slice name = aliases_selected_name(n);
    struct selection s = {n, fn, arg};
    struct aliases_name all[ALIASES_MAX];
    size_t n_names = aliases_of(name, all);
    for (size_t i = 0; i < n_names; i++)
        if (source->has(source->arg, gs_slice_of(all[i].name)))
            report_selector(&s, name.data, &all[i]);
    if (!name.len && aliases_has_pattern(n))
        aliases_each_in_pattern(n, source, report_selector, &s);
}

bool aliases_selector_fits(const struct promql_expr *selector, struct gs_slice metric)
{
    const struct promql_node *n = promql_expr_root(selector);
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (gs_slice_eq_str(m->name, "__name__") && !tsdb_matcher_matches(m, metric))
            return false;
    }
    return true;
}

// --- widening ---

struct widening {
    struct gs_buf names; // as alternatives of a regular expression
    size_t n;
};

static bool has_any(void *arg, struct gs_slice metric)
{
    (void)arg, (void)metric;
    return true;
}

static void add_alternative(void *arg, struct gs_slice selector, const char *name,
                            const char *shown)
{
    struct widening *w = arg;
    (void)selector, (void)shown;
    gs_buf_addf(&w->names, "|%s", name);
    w->n++;
}

void aliases_widen_selector(const struct promql_expr *selector, struct gs_buf *ret_text)
{
    const struct promql_node *n = promql_expr_root(selector);
    const struct aliases_source all = {has_any, NULL, true};
    GS_AUTO_BUF struct gs_buf pattern = {0};
    struct widening w = {0};
    aliases_each_selector(selector, &all, add_alternative, &w);
    size_t len = n->u.selector.n_matchers;
    GS_AUTO_FREE struct tsdb_matcher *m = gs_alloc_array(len + 1, sizeof(*m));
    for (size_t i = 0; i < len; i++) {
        m[i] = n->u.selector.matchers[i];
        if (m[i].op > TSDB_RE || m[i].op == TSDB_NEQ || !gs_slice_eq_str(m[i].name, "__name__"))
            continue;
        gs_buf_clear(&pattern);
        gs_buf_addf(&pattern, m[i].op == TSDB_EQ ? GS_SLICE_FMT : "(?:" GS_SLICE_FMT ")",
                    GS_SLICE_ARG(m[i].value));
        gs_buf_add_slice(&pattern, gs_buf_slice(&w.names));
        m[i].op = TSDB_RE;
        m[i].value = gs_buf_slice(&pattern);
    }
    struct promql_node copy = *n;
    copy.u.selector.name = GS_SLICE("");
    copy.u.selector.matchers = m;
    if (w.n)
        promql_print(&copy, ret_text);
    gs_buf_finish(&w.names);
}
