// SPDX-License-Identifier: Apache-2.0
// Why a query has no result: names of metrics that the server does not have, with similar ones.
#include "base/mem.h"
#include "promql/ast.h"
#include "query/query_private.h"

enum { MAX_NAMES = 8 };

struct wanted {
    struct gs_arena mem;
    const char *names[MAX_NAMES];
    size_t n;
};

static bool note_name(void *arg, const struct promql_node *node)
{
    struct wanted *w = arg;
    if (node->kind != PROMQL_SELECTOR || w->n == MAX_NAMES)
        return true;
    for (size_t i = 0; i < node->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &node->u.selector.matchers[i];
        if (m->op == TSDB_EQ && gs_slice_eq_str(m->name, "__name__") && m->value.len)
            w->names[w->n++] = gs_arena_strndup(&w->mem, m->value.data, m->value.len);
    }
    return true;
}

static void describe(const char *name, const json_t *existing, struct gs_buf *out)
{
    size_t n = 0, i;
    const json_t *item;
    if (codec_json_has_string(existing, name))
        return;
    GS_AUTO_FREE const char **all = gs_alloc_array(json_array_size(existing) + 1, sizeof(*all));
    json_array_foreach (existing, i, item)
        if (json_is_string(item))
            all[n++] = json_string_value(item);
    const char *near = gs_suggest(name, all, n);
    gs_buf_addf(out, "%sit has no metric %s", out->len ? "; " : "", name);
    if (near) {
        gs_buf_add_str(out, ", did you mean ");
        query_add_visible(out, gs_slice_of(near));
        gs_buf_add_char(out, '?');
    }
}

char *query_absent_names(const struct query_peer *peer, const char *expr)
{
    struct wanted w = {0};
    struct promql_expr *x = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    CODEC_AUTO_JSON json_t *answer = NULL;
    struct gs_error *err = promql_parse(gs_slice_of(expr), &x);
    if (!err) {
        promql_walk(promql_expr_root(x), note_name, &w);
        promql_expr_free(x);
    }
    if (!err && w.n)
        err = query_fetch(peer, "/api/v1/label/__name__/values", GS_SLICE(""), &answer);
    for (size_t i = 0; !err && i < w.n; i++)
        describe(w.names[i], json_object_get(answer, "data"), &out);
    gs_error_free(err); // this is only a hint
    gs_arena_finish(&w.mem);
    return out.len ? gs_buf_take(&out) : NULL;
}
