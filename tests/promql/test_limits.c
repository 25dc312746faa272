// SPDX-License-Identifier: Apache-2.0
// Queries over the limits of samples and memory fail, and the next query is unaffected.
#include "promql/ast.h"
#include "promql/promql.h"

#include "base/mem.h"
#include "unit.h"

enum { SAMPLES = 5000 };

static struct tsdb *filled(void)
{
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 40};
    const struct metrics_label name = {GS_SLICE("__name__"), GS_SLICE("m")};
    struct tsdb *db = tsdb_new(&cfg);
    for (int i = 0; i < SAMPLES; i++)
        assert_ok(tsdb_append(db, &name, 1, i * 1000, i % 7));
    return db;
}

static struct gs_error *ask(struct promql_engine *e, const char *query, int64_t step_ms)
{
    struct promql_expr *x;
    struct promql_result r;
    assert_ok(promql_parse(gs_slice_of(query), &x));
    struct gs_error *err = step_ms ? promql_range(e, x, 0, SAMPLES * 1000, step_ms, &r)
                                   : promql_instant(e, x, SAMPLES * 1000, &r);
    if (!err)
        promql_result_finish(&r);
    promql_expr_free(x);
    return err;
}

static void test_samples(void **state)
{
    static const char text[] = "query processing would load too many samples into memory";
    struct tsdb *db = filled();
    struct promql_engine *e =
        promql_engine_new(db, &(struct promql_config){.max_samples = SAMPLES - 1});
    assert_error(ask(e, "m[2h]", 0), GS_ELIMIT, text);
    assert_error(ask(e, "sum_over_time(m[2h])", 0), GS_ELIMIT, text);
    assert_error(ask(e, "m", 1000), GS_ELIMIT, text);
    assert_error(ask(e, "max_over_time(vector(1)[2h:1s])", 0), GS_ELIMIT, text);
    assert_ok(ask(e, "sum_over_time(m[1h])", 0));
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

// Memory of intermediate results, sliding windows, and strings of the query.
static void test_memory(void **state)
{
    static const char *const queries[] = {
        "m + m + m + m + m",
        "sum_over_time(m[1h])",
        "max_over_time(m[1h])",
        "sum_over_time((m * 2)[1h:1s])",
        "count_values(\"v\", m * timestamp(m))",
        "label_replace(m, \"a\", \"b\", \"c\", \"\") + on () vector(1)",
    };
    struct tsdb *db = filled();
    struct promql_engine *e =
        promql_engine_new(db, &(struct promql_config){.max_bytes = (size_t)64 << 10});
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++) {
        assert_error(ask(e, queries[i], 1000), GS_ELIMIT, "more than its limit of 65536 bytes");
        assert_ok(ask(e, "m", 0));
    }
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

// info() makes label sets when the info series change, not at each step.
static void test_memory_of_info(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    struct metrics_label l[2 + GS_ARRAY_LEN(names)] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                                       {GS_SLICE("instance"), GS_SLICE("i")}};
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 40};
    struct tsdb *db = tsdb_new(&cfg);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        l[2 + i] = (struct metrics_label){gs_slice_of(names[i]), GS_SLICE("x")};
    for (int i = 0; i < SAMPLES; i++) {
        l[0].value = GS_SLICE("m");
        assert_ok(tsdb_append(db, l, 2, i * 1000, i));
        l[0].value = GS_SLICE("target_info");
        assert_ok(tsdb_append(db, l, GS_ARRAY_LEN(l), i * 1000, 1));
    }
    struct promql_engine *e =
        promql_engine_new(db, &(struct promql_config){.max_bytes = (size_t)1 << 20});
    promql_set_features(PROMQL_EXPERIMENTAL_FUNCTIONS);
    assert_ok(ask(e, "info(m)", 1000));
    promql_set_features(0);
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

static void add_chain(struct gs_buf *out, const char *before, const char *after)
{
    GS_AUTO_BUF struct gs_buf inner = {0};
    gs_buf_add_slice(&inner, gs_buf_slice(out));
    out->len = 0;
    gs_buf_addf(out, "%s%s", before, inner.len ? inner.data : "1");
    for (int i = 0; i < 1100; i++)
        gs_buf_add_str(out, "+1");
    gs_buf_add_str(out, after);
}

// Signs, functions and parentheses do not reset the height of a duration, whose evaluation is
// recursive.
static void test_height_of_durations(void **state)
{
    static const struct {
        const char *before, *after;
    } forms[] = {{"-(", ")"}, {"max_of(", ",1)"}, {"min_of(1,", ")"}, {"(1+(", "))"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++) {
        GS_AUTO_BUF struct gs_buf d = {0}, text = {0};
        struct promql_expr *x;
        add_chain(&d, forms[i].before, forms[i].after);
        gs_buf_addf(&text, "m[%s]", d.data);
        assert_ok(promql_parse(gs_buf_slice(&text), &x));
        promql_expr_free(x);
        add_chain(&d, forms[i].before, forms[i].after);
        text.len = 0;
        gs_buf_addf(&text, "m[%s]", d.data);
        assert_error(promql_parse(gs_buf_slice(&text), &x), GS_EINVAL,
                     "the duration has too many operations");
    }
    (void)state;
}

static char *nested(int depth, const char *before, const char *inner, const char *after)
{
    struct gs_buf text = {0};
    for (int i = 0; i < depth; i++)
        gs_buf_add_str(&text, before);
    gs_buf_add_str(&text, inner);
    for (int i = 0; i < depth; i++)
        gs_buf_add_str(&text, after);
    return gs_buf_take(&text);
}

// Each level doubles the length, so few levels would fill any memory.
static void test_nested_label_functions(void **state)
{
    static const struct {
        const char *before, *after, *error;
    } cases[] = {
        {"label_join(", ", \"a\", \"\", \"a\", \"a\")",
         "label_join() makes a label value of more than 65536 bytes"},
        {"label_replace(", ", \"a\", \"$1$1\", \"a\", \"(.*)\")",
         "label_replace() makes a label value of more than 65536 bytes"},
        {"label_join(", ", \"__name__\", \"\", \"__name__\", \"__name__\")",
         "label_join() makes a label value of more than 65536 bytes"},
    };
    static const char seed[] = "label_replace(m, \"a\", \"x\", \"\", \"\")";
    struct tsdb *db = filled();
    struct promql_engine *e = promql_engine_new(db, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *small = nested(16, cases[i].before, seed, cases[i].after);
        GS_AUTO_FREE char *large = nested(60, cases[i].before, seed, cases[i].after);
        assert_ok(ask(e, small, 0));
        assert_error(ask(e, large, 0), GS_ELIMIT, cases[i].error);
    }
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

// Values within the limit of one value, but many.
static void test_label_values_together(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct tsdb *db = filled();
    struct promql_engine *e =
        promql_engine_new(db, &(struct promql_config){.max_bytes = (size_t)1 << 20});
    GS_AUTO_FREE char *doubled =
        nested(15, "label_join(", "label_replace(m, \"a\", \"x\", \"\", \"\")",
               ", \"a\", \"\", \"a\", \"a\")");
    for (int i = 0; i < 8; i++)
        gs_buf_add_str(&text, "label_replace(");
    gs_buf_add_str(&text, doubled);
    for (int i = 0; i < 8; i++)
        gs_buf_addf(&text, ", \"b%d\", \"%d$1\", \"a\", \"(.*)\")", i, i);
    assert_error(ask(e, text.data, 0), GS_ELIMIT,
                 "query creates more than its limit of 131072 bytes of labels");
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

static void test_steps(void **state)
{
    struct tsdb *db = filled();
    struct promql_engine *e = promql_engine_new(db, &(struct promql_config){.max_points = 100});
    assert_error(ask(e, "m", 10000), GS_EINVAL, "exceeded maximum resolution");
    assert_ok(ask(e, "m", 50000));
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_memory_of_info),
        cmocka_unit_test(test_height_of_durations),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_nested_label_functions),
        cmocka_unit_test(test_label_values_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
