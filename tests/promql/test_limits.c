// SPDX-License-Identifier: Apache-2.0
// Queries over the limits of samples and memory fail, and the next query is unaffected.
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
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
