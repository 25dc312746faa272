// SPDX-License-Identifier: Apache-2.0
#include "engine/api/api_private.h"

#include "base/mem.h"

struct gs_error *engine_api_searches_prepare(const struct engine_api *api,
                                             struct promql_expr *const *expressions, size_t n,
                                             struct engine_api_searches *ret)
{
    struct engine_api_slice slice = engine_api_slice_begin(api);
    struct gs_error *err = NULL;
    // Isolated reads are in a list of the store, so the elements must not move.
    ret->items = gs_alloc_array(n + 1, sizeof(*ret->items));
    for (ret->n = 0; ret->n < n && !err; ret->n++) {
        size_t n_matchers;
        const struct tsdb_matcher *m = engine_api_matchers(expressions[ret->n], &n_matchers);
        err = tsdb_answers_collect(api->cfg.db, m, n_matchers, engine_api_slice_go_on, &slice,
                                   &ret->items[ret->n]);
    }
    return err;
}

void engine_api_searches_finish(struct engine_api_searches *s)
{
    for (size_t i = 0; i < s->n; i++)
        tsdb_answers_finish(&s->items[i]);
    free(s->items);
}
