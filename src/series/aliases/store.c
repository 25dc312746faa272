// SPDX-License-Identifier: Apache-2.0
// Queries over a store that read both names of a metric. Whether a name exists is decided when a
// query begins, because exporters change their names while the store is in use.
#include "aliases/aliases.h"

#include "base/log.h"

bool aliases_store_has(void *db, struct gs_slice metric)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), metric, TSDB_EQ, NULL};
    const struct tsdb *store = db;
    struct tsdb_refs refs = {0};
    if (tsdb_symbol_find(tsdb_symbols(store), metric) == TSDB_NO_SYMBOL)
        return false;
    GS_AUTO_ERROR struct gs_error *err = tsdb_find_any(store, &m, 1, 0, &refs);
    bool found = !err && refs.len;
    tsdb_refs_finish(&refs);
    return found;
}

struct promql_expr *aliases_substitute(void *db, const struct promql_expr *x)
{
    const struct aliases_source source = {aliases_store_has, db, true};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct promql_expr *rewritten = NULL;
    aliases_read(x, &source, &text, NULL);
    if (!text.len)
        return NULL;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_buf_slice(&text), &rewritten);
    if (err) // such as an expression that is now too long
        gs_debug("aliases", "\"" GS_SLICE_FMT "\" is evaluated as written: %s",
                 GS_SLICE_ARG(promql_expr_text(x)), gs_error_message(err));
    return rewritten;
}
