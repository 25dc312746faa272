// SPDX-License-Identifier: Apache-2.0
// Prints expressions on one line.
#include "promql/parser_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "metrics/write.h"
#include "promql/eval_private.h"
#include "promql/functions.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

// Prometheus' durations: the largest units that divide, "1d2h", "90s" is "1m30s".
static void duration(struct gs_buf *out, int64_t ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
        bool exact; // only when nothing is left
    } units[] = {{"y", INT64_C(31536000000), true},
                 {"w", 604800000, true},
                 {"d", 86400000, false},
                 {"h", 3600000, false},
                 {"m", 60000, false},
                 {"s", 1000, false},
                 {"ms", 1, false}};
    if (ms < 0)
        gs_buf_add_char(out, '-');
    ms = ms < 0 ? -ms : ms;
    if (!ms)
        gs_buf_add_str(out, "0s");
    for (size_t i = 0; i < GS_ARRAY_LEN(units) && ms; i++) {
        if (units[i].exact && ms % units[i].ms)
            continue;
        if (ms / units[i].ms)
            gs_buf_addf(out, "%lld%s", (long long)(ms / units[i].ms), units[i].unit);
        ms %= units[i].ms;
    }
}

// Outside of braces Inf and NaN are numbers.
static bool reads_as_number(struct gs_slice s)
{
    return s.len == 3 && (strncasecmp(s.data, "inf", 3) == 0 || strncasecmp(s.data, "nan", 3) == 0);
}

// Without the feature, Prometheus also leaves names with colons unquoted.
static bool is_plain(struct gs_slice name)
{
    return promql_is_plain_label(name) ||
           (!(promql_features() & PROMQL_UTF8_NAMES) && metrics_is_plain_name(name));
}

static void names(struct gs_buf *out, const struct promql_names *n)
{
    gs_buf_add_char(out, '(');
    for (size_t i = 0; i < n->n; i++) {
        gs_buf_add_str(out, i ? ", " : "");
        if (!is_plain(n->items[i]) || reads_as_number(n->items[i]))
            promql_quote(out, n->items[i]);
        else
            gs_buf_add_slice(out, n->items[i]);
    }
    gs_buf_add_char(out, ')');
}

static void print_duration(const struct promql_duration *d, int64_t ms, struct gs_buf *out)
{
    if (d)
        promql_print_duration(d, out);
    else
        duration(out, ms);
}

static void print_at(struct gs_buf *out, const struct promql_shift *s)
{
    if (s->at == PROMQL_AT_TIME)
        gs_buf_addf(out, " @ %.3f", (double)s->at_ms / 1000);
    else if (s->at != PROMQL_AT_NONE)
        gs_buf_addf(out, " @ %s()", s->at == PROMQL_AT_START ? "start" : "end");
}

static void print_offset(struct gs_buf *out, const struct promql_shift *s)
{
    if (!s->offset_ms && !s->offset_expr)
        return;
    gs_buf_add_str(out, " offset ");
    print_duration(s->offset_expr, s->offset_ms, out);
}

static int compare_lines(const void *a, const void *b)
{
    const struct gs_buf *x = a, *y = b;
    return strcmp(x->data, y->data);
}

static void matchers(struct gs_buf *out, const struct promql_node *n)
{
    static const char *const ops[] = {"=", "!=", "=~", "!~"};
    GS_AUTO_FREE struct gs_buf *lines =
        gs_alloc_array(n->u.selector.n_matchers + 1, sizeof(*lines));
    size_t len = 0;
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        if (gs_slice_eq_str(m->name, "__name__") && m->op == TSDB_EQ && m->value.len &&
            gs_slice_eq(m->value, n->u.selector.name))
            continue;
        struct gs_buf *l = &lines[len++];
        if (promql_is_plain_label(m->name))
            gs_buf_add_slice(l, m->name);
        else
            promql_quote(l, m->name);
        gs_buf_add_str(l, ops[m->op]);
        promql_quote(l, m->value);
    }
    if (!len)
        return;
    qsort(lines, len, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < len; i++) {
        gs_buf_add_char(out, i ? ',' : '{');
        gs_buf_add_slice(out, gs_buf_slice(&lines[i]));
        gs_buf_finish(&lines[i]);
    }
    gs_buf_add_char(out, '}');
}

void promql_print_selector(const struct promql_node *n, struct gs_buf *out)
{
    gs_buf_add_slice(out, n->u.selector.name);
    matchers(out, n);
    if (n->u.selector.ranged) {
        gs_buf_add_char(out, '[');
        print_duration(n->u.selector.range_expr, n->u.selector.range_ms, out);
        gs_buf_add_char(out, ']');
    }
    static const char *const extensions[] = {"", " anchored", " smoothed"};
    const char *extension = extensions[n->u.selector.extension];
    gs_buf_add_str(out, n->u.selector.ranged ? extension : "");
    print_at(out, &n->u.selector.shift);
    gs_buf_add_str(out, n->u.selector.ranged ? "" : extension);
    print_offset(out, &n->u.selector.shift);
}

void promql_print_subquery_suffix(const struct promql_node *n, struct gs_buf *out)
{
    gs_buf_add_char(out, '[');
    print_duration(n->u.subquery.range_expr, n->u.subquery.range_ms, out);
    gs_buf_add_char(out, ':');
    if (n->u.subquery.step_ms)
        print_duration(n->u.subquery.step_expr, n->u.subquery.step_ms, out);
    gs_buf_add_char(out, ']');
    print_at(out, &n->u.subquery.shift);
    print_offset(out, &n->u.subquery.shift);
}

static void fill(struct gs_buf *out, const char *word, double v)
{
    char text[GS_DOUBLE_SIZE];
    gs_buf_addf(out, " %s (%s)", word, promql_format_g(v, text));
}

void promql_print_operator(const struct promql_node *n, struct gs_buf *out)
{
    gs_buf_add_str(out, promql_op_text(n->u.binary.op));
    gs_buf_add_str(out, n->u.binary.return_bool ? " bool" : "");
    bool grouped = n->u.binary.card == PROMQL_MANY_TO_ONE || n->u.binary.card == PROMQL_ONE_TO_MANY;
    bool left = n->u.binary.has_fill_left, right = n->u.binary.has_fill_right;
    if (n->u.binary.labels.n || n->u.binary.on || grouped) {
        gs_buf_add_str(out, n->u.binary.on ? " on " : " ignoring ");
        names(out, &n->u.binary.labels);
    }
    if (grouped) {
        gs_buf_add_str(out,
                       n->u.binary.card == PROMQL_MANY_TO_ONE ? " group_left " : " group_right ");
        names(out, &n->u.binary.include);
    }
    if (left && right && n->u.binary.fill_left == n->u.binary.fill_right) {
        fill(out, "fill", n->u.binary.fill_left);
        return;
    }
    if (left)
        fill(out, "fill_left", n->u.binary.fill_left);
    if (right)
        fill(out, "fill_right", n->u.binary.fill_right);
}

void promql_print_aggregate_head(const struct promql_node *n, struct gs_buf *out)
{
    gs_buf_add_str(out, promql_agg_name(n->u.aggregate.op));
    if (!n->u.aggregate.without && !n->u.aggregate.grouping.n)
        return;
    gs_buf_add_str(out, n->u.aggregate.without ? " without " : " by ");
    names(out, &n->u.aggregate.grouping);
    gs_buf_add_char(out, ' ');
}

void promql_print_seconds(double seconds, bool is_duration, struct gs_buf *out)
{
    if (is_duration && seconds == 0 && signbit(seconds))
        gs_buf_add_str(out, "-0s");
    else if (is_duration)
        duration(out, (int64_t)llround(seconds * 1000));
    else
        promql_format_f(out, seconds);
}

void promql_print(const struct promql_node *n, struct gs_buf *out)
{
    switch (n->kind) {
    case PROMQL_NUMBER:
        promql_print_seconds(n->u.number, n->is_duration, out);
        break;
    case PROMQL_STRING_LITERAL:
        promql_quote(out, n->u.string);
        break;
    case PROMQL_SELECTOR:
        promql_print_selector(n, out);
        break;
    case PROMQL_SUBQUERY:
        promql_print(n->u.subquery.expr, out);
        promql_print_subquery_suffix(n, out);
        break;
    case PROMQL_PAREN:
        gs_buf_add_char(out, '(');
        promql_print(n->u.unary.expr, out);
        gs_buf_add_char(out, ')');
        break;
    case PROMQL_UNARY:
        gs_buf_add_char(out, n->u.unary.negative ? '-' : '+');
        promql_print(n->u.unary.expr, out);
        break;
    case PROMQL_BINARY:
        promql_print(n->u.binary.lhs, out);
        gs_buf_add_char(out, ' ');
        promql_print_operator(n, out);
        gs_buf_add_char(out, ' ');
        promql_print(n->u.binary.rhs, out);
        break;
    case PROMQL_AGGREGATE:
        promql_print_aggregate_head(n, out);
        gs_buf_add_char(out, '(');
        if (n->u.aggregate.param) {
            promql_print(n->u.aggregate.param, out);
            gs_buf_add_str(out, ", ");
        }
        promql_print(n->u.aggregate.expr, out);
        gs_buf_add_char(out, ')');
        break;
    case PROMQL_CALL:
        gs_buf_addf(out, "%s(", promql_function_name(n));
        for (size_t i = 0; i < n->u.call.n_args; i++) {
            gs_buf_add_str(out, i ? ", " : "");
            promql_print(n->u.call.args[i], out);
        }
        gs_buf_add_char(out, ')');
        break;
    }
}

const char *promql_function_name(const struct promql_node *call)
{
    return call->u.call.fn->name;
}
