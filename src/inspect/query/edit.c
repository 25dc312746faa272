// SPDX-License-Identifier: Apache-2.0
// Changes matchers in an expression and prints it, as promtool promql label-matchers does.
#include "promql/ast.h"
#include "query/query_private.h"

static struct gs_error *read_operator(const char *text, enum tsdb_match *ret)
{
    static const char *const texts[] = {
        [TSDB_EQ] = "=", [TSDB_NEQ] = "!=", [TSDB_RE] = "=~", [TSDB_NRE] = "!~"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        if (gs_streq(text, texts[i])) {
            *ret = (enum tsdb_match)i;
            return NULL;
        }
    return gs_error_new(GS_EINVAL, "--type must be one of =,!=,=~,!~, got \"%s\"", text);
}

struct gs_error *query_edit_matchers(const char *expr, const char *name, const char *op,
                                     const char *value)
{
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    enum tsdb_match match = TSDB_EQ;
    struct gs_error *err = op ? read_operator(op, &match) : NULL;
    if (err)
        return err;
    err = promql_parse(gs_slice_of(expr), &x);
    if (err)
        return query_point_at(err, expr);
    err = op ? promql_set_matcher(x, gs_slice_of(name), match, gs_slice_of(value))
             : promql_delete_matchers(x, gs_slice_of(name));
    if (err)
        return err;
    promql_print_pretty(promql_expr_root(x), &out);
    printf("%s\n", out.data ? out.data : "");
    return NULL;
}
