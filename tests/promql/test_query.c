// SPDX-License-Identifier: Apache-2.0
// Queries over a small store, their results as text.
#include "promql/promql.h"

#include "base/mem.h"
#include "base/num.h"
#include "unit.h"

struct fixture {
    struct tsdb *db;
    struct promql_engine *engine;
};

static void put(struct fixture *f, const char *name, const char *pod, const char *node, int64_t t_s,
                double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {GS_SLICE("node"), gs_slice_of(node)},
                                           {GS_SLICE("pod"), gs_slice_of(pod)}};
    assert_ok(tsdb_append(f->db, labels, 3, t_s * 1000, v));
}

static void setup(struct fixture *f)
{
    f->db = tsdb_new(NULL);
    f->engine = promql_engine_new(f->db, NULL);
    for (int i = 0; i <= 12; i++) {
        put(f, "util", "a", "n1", i * 10, 10 + i);
        put(f, "util", "b", "n1", i * 10, 20);
        put(f, "util", "c", "n2", i * 10, 90 - i);
        put(f, "requests_total", "a", "n1", i * 10, i * 5);
        put(f, "info", "a", "", i * 10, 1);
    }
    put(f, "info", "c", "", 120, 1);
}

static void finish(struct fixture *f)
{
    promql_engine_free(f->engine);
    tsdb_free(f->db);
}

static void add_labels(struct gs_buf *out, const struct promql_result *r, struct tsdb_labels l)
{
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = promql_label_at(r, l, i);
        gs_buf_addf(out, "%s" GS_SLICE_FMT "=" GS_SLICE_FMT, i ? "," : "", GS_SLICE_ARG(label.name),
                    GS_SLICE_ARG(label.value));
    }
    gs_buf_add_char(out, '}');
}

static void add_value(struct gs_buf *out, double v)
{
    char text[GS_DOUBLE_SIZE];
    gs_buf_addf(out, " %s", promql_absent(v) ? "_" : gs_format_double(v, text));
}

static void show(struct gs_buf *out, const struct promql_result *r)
{
    if (r->type == PROMQL_RESULT_STRING)
        gs_buf_add_slice(out, r->string);
    for (size_t i = 0; i < r->matrix.n; i++) {
        add_labels(out, r, r->matrix.series[i].labels);
        for (size_t k = 0; k < r->matrix.n_steps; k++)
            add_value(out, r->matrix.series[i].v[k]);
        gs_buf_add_char(out, ';');
    }
    for (size_t i = 0; i < r->n_raw; i++) {
        add_labels(out, r, r->raw[i].labels);
        for (size_t k = 0; k < r->raw[i].n; k++)
            gs_buf_addf(out, " %g@%g", r->raw[i].v[k], (double)r->raw[i].t[k] / 1000);
        gs_buf_add_char(out, ';');
    }
}

// The result, or the error's text. step_s 0: instant at end_s.
static char *ask(struct fixture *f, const char *text, int start_s, int end_s, int step_s)
{
    struct promql_expr *x;
    struct promql_result r = {0};
    struct gs_error *err = promql_parse(gs_slice_of(text), &x);
    if (!err) {
        err = step_s ? promql_range(f->engine, x, start_s * 1000, end_s * 1000, step_s * 1000, &r)
                     : promql_instant(f->engine, x, end_s * 1000, &r);
        if (err)
            promql_expr_free(x);
    }
    if (err) {
        char *message = gs_strdup(gs_error_message(err));
        gs_error_free(err);
        return message;
    }
    struct gs_buf out = {0};
    show(&out, &r);
    promql_result_finish(&r);
    promql_expr_free(x);
    return gs_buf_take(&out);
}

static void test_instant_queries(void **state)
{
    static const char *const cases[][2] = {
        {"1 + 2 * 3 ^ 2", "{} 19;"},
        {"-2 ^ 2", "{} -4;"},
        {"\"text\"", "text"},
        {"util{pod=\"b\"}", "{__name__=util,node=n1,pod=b} 20;"},
        {"util{pod=~\"a|c\"} > 50", "{__name__=util,node=n2,pod=c} 78;"},
        {"util{pod=\"a\"} > bool 50", "{node=n1,pod=a} 0;"},
        {"util{pod=\"a\"} * 2", "{node=n1,pod=a} 44;"},
        {"sum(util)", "{} 120;"},
        {"avg by (node) (util)", "{node=n1} 21;{node=n2} 78;"},
        {"max without (pod) (util)", "{node=n1} 22;{node=n2} 78;"},
        {"topk(1, util)", "{__name__=util,node=n2,pod=c} 78;"},
        {"count_values(\"v\", util > bool 21)", "{v=1} 2;{v=0} 1;"},
        {"quantile(0.5, util)", "{} 22;"},
        {"avg_over_time(util{pod=\"a\"}[30s])", "{node=n1,pod=a} 21;"},
        {"rate(requests_total[1m])", "{node=n1,pod=a} 0.5;"},
        {"max_over_time(sum(util)[1m:20s])", "{} 120;"},
        {"util{pod=\"a\"} offset 1m", "{__name__=util,node=n1,pod=a} 16;"},
        {"util{pod=\"a\"} @ 50", "{__name__=util,node=n1,pod=a} 15;"},
        {"util{pod=\"a\"}[21s]", "{__name__=util,node=n1,pod=a} 20@100 21@110 22@120;"},
        {"util * on(pod) group_left() info", "{node=n1,pod=a} 22;{node=n2,pod=c} 78;"},
        {"util and on(pod) info",
         "{__name__=util,node=n1,pod=a} 22;{__name__=util,node=n2,pod=c} 78;"},
        {"util unless on(pod) info", "{__name__=util,node=n1,pod=b} 20;"},
        {"absent(nothing{a=\"b\",c=~\"d\"})", "{a=b} 1;"},
        {"absent(util)", ""},
        {"label_replace(util{pod=\"a\"}, \"x\", \"$1-y\", \"node\", \"n(.)\")",
         "{__name__=util,node=n1,pod=a,x=1-y} 22;"},
        {"label_join(util{pod=\"a\"}, \"x\", \"/\", \"node\", \"pod\")",
         "{__name__=util,node=n1,pod=a,x=n1/a} 22;"},
        {"time()", "{} 120;"},
        {"timestamp(util{pod=\"a\"} offset 5s)", "{node=n1,pod=a} 110;"},
        {"scalar(util{pod=\"a\"}) + 1", "{} 23;"},
        {"sort_desc(util)", "{__name__=util,node=n2,pod=c} 78;{__name__=util,node=n1,pod=a} 22;"
                            "{__name__=util,node=n1,pod=b} 20;"},
        {"util + info", ""},
        {"util", "{__name__=util,node=n1,pod=a} 22;{__name__=util,node=n1,pod=b} 20;"
                 "{__name__=util,node=n2,pod=c} 78;"},
        {"util * on(node) util",
         "found duplicate series for the match group {node=\"n1\"} on the right hand-side of the "
         "operation: [{__name__=\"util\", node=\"n1\", pod=\"a\"}, {__name__=\"util\", "
         "node=\"n1\", pod=\"b\"}];many-to-many matching not allowed: matching labels must be "
         "unique on one side"},
        {"sum by (pod) (", "1:15: parse error: unclosed left parenthesis"},
        {"util{pod=\"a\"}[60s]) > 30", "1:20: parse error: unexpected right parenthesis ')'"},
        {"sum(util", "1:9: parse error: unclosed left parenthesis"},
        {"foo(util)", "1:1: parse error: unknown function with name \"foo\""},
        {"rate(util)", "1:6: parse error: expected type range vector in call to function \"rate\", "
                       "got instant vector"},
        {"1 > 2", "1:3: parse error: comparisons between scalars must use BOOL modifier"},
        {"{a=\"\"}",
         "1:1: parse error: vector selector must contain at least one non-empty matcher"},
        {"", "unknown position: parse error: no expression found in input"},
        {"\x80\x80", "1:1: parse error: the expression is not valid UTF-8"},
        {"1[5m] smoothed", "1:2: parse error: ranges only allowed for vector selectors"},
        {"foo offset (5m*2) [3m]", "1:19: parse error: no offset modifiers allowed before range"},
        {"foo @ start() [3m]", "1:15: parse error: no @ modifiers allowed before range"},
        {"foo[1/0]", "1:6: parse error: division by zero"},
        {"foo[NaN]", "1:5: parse error: unexpected character in duration expression: 'N'"},
        {"topk(5, foo[5m])", "1:9: parse error: expected type instant vector in aggregation "
                             "expression, got range vector"},
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *result = ask(&f, cases[i][0], 0, 120, 0);
        if (!gs_streq(result, cases[i][1]))
            fail_msg("%s\n  gave   %s\n  wanted %s", cases[i][0], result, cases[i][1]);
    }
    finish(&f);
    (void)state;
}

static void test_range_queries(void **state)
{
    static const char *const cases[][2] = {
        {"util{pod=\"a\"}", "{__name__=util,node=n1,pod=a} 19 20 21 22;"},
        {"util{pod=\"a\"} > 20", "{__name__=util,node=n1,pod=a} _ _ 21 22;"},
        {"sum(util)", "{} 120 120 120 120;"},
        {"time()", "{} 90 100 110 120;"},
        {"util{pod=\"a\"} @ end()", "{__name__=util,node=n1,pod=a} 22 22 22 22;"},
        {"rate(requests_total[30s])", "{node=n1,pod=a} 0.5 0.5 0.5 0.5;"},
        {"info{pod=\"c\"} * on(pod) group_left(node) util", "{node=n2,pod=c} _ _ _ 78;"},
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        if (!*cases[i][1])
            continue;
        GS_AUTO_FREE char *result = ask(&f, cases[i][0], 90, 120, 10);
        if (!gs_streq(result, cases[i][1]))
            fail_msg("%s\n  gave   %s\n  wanted %s", cases[i][0], result, cases[i][1]);
    }
    finish(&f);
    (void)state;
}

static void test_printed_again(void **state)
{
    static const char *const cases[][2] = {
        {"sum(a)by(x,y)", "sum by (x, y) (a)"},
        {"a{y='2',x!~\"1\"}[90s] offset -1h", "a{x!~\"1\",y=\"2\"}[1m30s] offset -1h"},
        {"rate(a[5m:]@ 10)", "rate(a[5m:] @ 10.000)"},
        {"a*on(x)group_left b", "a * on (x) group_left () b"},
        {"1e3+0x10", "1000 + 16"},
        {"foo[(5m)]", "foo[(5m)]"},
        {"foo offset (5m)", "foo offset (5m)"},
        {"foo[range():1s]", "foo[range():1s]"},
        {"foo[5m:step()+1s]", "foo[5m:step() + 1s]"},
        {"anchored + smoothed{smoothed=\"a\"}", "anchored + smoothed{smoothed=\"a\"}"},
        {"rate(foo[5m] smoothed)", "rate(foo[5m] smoothed)"},
        {"a / ignoring() group_left() b", "a / ignoring () group_left () b"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct promql_expr *x;
        assert_ok(promql_parse(gs_slice_of(cases[i][0]), &x));
        struct gs_buf out = {0};
        promql_print(promql_expr_root(x), &out);
        GS_AUTO_FREE char *text = gs_buf_take(&out);
        assert_string_equal(text, cases[i][1]);
        promql_expr_free(x);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instant_queries),
        cmocka_unit_test(test_range_queries),
        cmocka_unit_test(test_printed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
