// SPDX-License-Identifier: Apache-2.0
// Prints expressions with line breaks: parts that do not fit on a line are split, with two blanks
// of indentation per level.
#include "promql/parser_private.h"

#include "base/buf.h"

#define LINE_BYTES ((size_t)100)

static void indent_line(struct gs_buf *out, int level)
{
    for (int i = 0; i < level; i++)
        gs_buf_add_str(out, "  ");
}

static bool fits_on_line(const struct promql_node *n)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    promql_print(n, &line);
    return line.len <= LINE_BYTES;
}

static void pretty(const struct promql_node *n, int level, struct gs_buf *out);

static void open(struct gs_buf *out)
{
    gs_buf_add_str(out, "(\n");
}

static void close(struct gs_buf *out, int level)
{
    gs_buf_add_char(out, '\n');
    indent_line(out, level);
    gs_buf_add_char(out, ')');
}

static void print_aggregate(const struct promql_node *n, int level, struct gs_buf *out)
{
    promql_print_aggregate_head(n, out);
    open(out);
    if (n->u.aggregate.param) {
        pretty(n->u.aggregate.param, level + 1, out);
        gs_buf_add_str(out, ",\n");
    }
    pretty(n->u.aggregate.expr, level + 1, out);
    close(out, level);
}

static void print_call(const struct promql_node *n, int level, struct gs_buf *out)
{
    gs_buf_add_str(out, promql_function_name(n));
    open(out);
    for (size_t i = 0; i < n->u.call.n_args; i++) {
        gs_buf_add_str(out, i ? ",\n" : "");
        pretty(n->u.call.args[i], level + 1, out);
    }
    close(out, level);
}

static void print_binary(const struct promql_node *n, int level, struct gs_buf *out)
{
    pretty(n->u.binary.lhs, level + 1, out);
    gs_buf_add_char(out, '\n');
    indent_line(out, level);
    promql_print_operator(n, out);
    gs_buf_add_char(out, '\n');
    pretty(n->u.binary.rhs, level + 1, out);
}

// Does not indent the first line.
static void unbroken_start(const struct promql_node *n, int level, struct gs_buf *out)
{
    size_t start = out->len;
    pretty(n, level, out);
    size_t blanks = 0;
    while (start + blanks < out->len && out->data[start + blanks] == ' ')
        blanks++;
    memmove(out->data + start, out->data + start + blanks, out->len - start - blanks + 1);
    out->len -= blanks;
}

static void pretty(const struct promql_node *n, int level, struct gs_buf *out)
{
    bool broken = !fits_on_line(n);
    if (broken && n->kind == PROMQL_BINARY) {
        print_binary(n, level, out);
        return;
    }
    if (broken && n->kind == PROMQL_SUBQUERY) {
        pretty(n->u.subquery.expr, level, out);
        promql_print_subquery_suffix(n, out);
        return;
    }
    indent_line(out, level);
    if (broken && n->kind == PROMQL_AGGREGATE) {
        print_aggregate(n, level, out);
    } else if (broken && n->kind == PROMQL_CALL) {
        print_call(n, level, out);
    } else if (broken && n->kind == PROMQL_PAREN) {
        open(out);
        pretty(n->u.unary.expr, level + 1, out);
        close(out, level);
    } else if (broken && n->kind == PROMQL_UNARY) {
        gs_buf_add_char(out, n->u.unary.negative ? '-' : '+');
        unbroken_start(n->u.unary.expr, level, out);
    } else {
        promql_print(n, out);
    }
}

void promql_print_pretty(const struct promql_node *n, struct gs_buf *out)
{
    pretty(n, 0, out);
}
