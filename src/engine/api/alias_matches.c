// SPDX-License-Identifier: Apache-2.0
// match[] of series, labels and values with a GPU metric whose series have its other name. Without
// them, the variables of a dashboard would be empty, although its queries have results.
#include "engine/api/api_private.h"

#include "aliases/aliases.h"
#include "base/mem.h"

struct collection {
    const struct engine_api_matches *matches;
    struct engine_api_aliases *out;
};

void engine_api_aliases_finish(struct engine_api_aliases *a)
{
    for (size_t i = 0; i < a->len; i++)
        promql_expr_free(a->items[i].selector);
    free(a->items);
}

// A match[] that selects the other name itself shows its series already.
static bool is_selected(const struct engine_api_matches *m, const char *name)
{
    for (size_t i = 0; i < m->len; i++) {
        size_t n;
        const struct tsdb_matcher *list = engine_api_matchers(m->items[i], &n);
        for (size_t k = 0; k < n; k++)
            if (list[k].op == TSDB_EQ && gs_slice_eq_str(list[k].name, "__name__") &&
                gs_slice_eq_str(list[k].value, name))
                return true;
    }
    return false;
}

static void add_alias(void *arg, struct gs_slice selector, const char *name, const char *shown)
{
    struct collection *c = arg;
    struct promql_expr *expr = NULL;
    if (is_selected(c->matches, name))
        return;
    GS_AUTO_ERROR struct gs_error *err = promql_parse_selector(selector, &expr);
    if (err)
        return;
    gs_grow(&c->out->items, &c->out->cap, c->out->len, sizeof(*c->out->items));
    c->out->items[c->out->len++] = (struct engine_api_alias){expr, shown};
}

void engine_api_find_aliases(const struct engine_api *api, const struct engine_api_matches *m,
                             struct engine_api_aliases *ret)
{
    const struct aliases_source source = {aliases_store_has, api->cfg.db, true};
    struct collection c = {m, ret};
    for (size_t i = 0; api->cfg.dcgm_aliases && i < m->len; i++)
        aliases_each_selector(m->items[i], &source, add_alias, &c);
}

struct gs_error *engine_api_find_aliased(struct engine_api_request *r,
                                         const struct engine_api_alias *a, int64_t start,
                                         int64_t end, struct tsdb_refs *ret)
{
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
    struct gs_error *err = engine_api_prepare_search(r->api, a->selector, &answers);
    return err ? err : tsdb_find(r->api->cfg.db, answers.matchers, answers.n, start, end, 0, ret);
}
