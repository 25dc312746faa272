// SPDX-License-Identifier: Apache-2.0
// Long queries pause: changes of the store during a pause, and their effect on the query.
#include "promql/promql.h"

#include "base/mem.h"
#include "base/turn.h"
#include "unit.h"

#include <stdio.h>
#include <unistd.h>

enum { SERIES = 200, SAMPLES = 300 };

struct fixture {
    struct tsdb *db;
    struct promql_engine *engine;
    int pauses, added;
    enum { GO_ON, ASK_TOO, ADD_SERIES, DROP_SERIES, ADD_AND_ASK, WAIT, GIVE_UP } what;
};

static void append(struct fixture *f, unsigned i, int64_t t_ms, double v)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", i);
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                           {GS_SLICE("i"), gs_slice_of(text)}};
    assert_ok(tsdb_append(f->db, labels, 2, t_ms, v));
}

static double ask(struct fixture *f, const char *query, struct gs_error **ret)
{
    struct promql_expr *x;
    struct promql_result r;
    double v = 0;
    assert_ok(promql_parse(gs_slice_of(query), &x));
    *ret = promql_range(f->engine, x, 0, SAMPLES * 1000, 1000, &r);
    if (!*ret) {
        assert_in_range(r.matrix.n, 0, 1);
        v = r.matrix.n ? r.matrix.series[0].v[r.matrix.n_steps - 1] : 0;
        promql_result_finish(&r);
    }
    promql_expr_free(x);
    return v;
}

static bool on_pause(void *arg)
{
    struct fixture *f = arg;
    struct gs_error *err;
    f->pauses++;
    if (f->what == ASK_TOO) {
        f->what = GO_ON;
        promql_engine_set_limits(f->engine, 0, 1); // only for this query
        assert_true(ask(f, "count(m)", &err) == SERIES);
        assert_null(err);
    }
    if (f->what == ADD_SERIES) {
        const struct metrics_label name = {GS_SLICE("fresh"), GS_SLICE("x")};
        const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("other")}, name};
        append(f, (unsigned)(SERIES + f->added++), SAMPLES * 1000, 1);
        assert_ok(tsdb_append(f->db, labels, 2, SAMPLES * 1000 + f->added, 1));
    }
    if (f->what == ADD_AND_ASK && f->added < 20) {
        f->what = GO_ON;
        append(f, (unsigned)(SERIES + f->added++), SAMPLES * 1000, 1);
        assert_true(ask(f, "count(m)", &err) == SERIES + f->added);
        assert_true(ask(f, "count(count by (i) (m))", &err) == SERIES + f->added);
        f->what = ADD_AND_ASK;
    }
    if (f->what == DROP_SERIES && f->pauses == 1) { // except for the series that is appended now
        append(f, SERIES, (INT64_C(1) << 40) + SAMPLES * 1000, 1);
        tsdb_gc(f->db, (INT64_C(1) << 40) + SAMPLES * 2000);
    }
    if (f->what == WAIT)
        usleep(2000);
    return f->what != GIVE_UP;
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 40};
    f->db = tsdb_new(&cfg);
    f->engine = promql_engine_new(f->db, NULL);
    for (unsigned i = 0; i < SERIES; i++)
        for (int k = 0; k <= SAMPLES; k++)
            append(f, i, k * 1000, 1);
    promql_engine_set_pause(f->engine, on_pause, f);
    gs_turn_set_ns(0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    promql_engine_free(f->engine);
    tsdb_free(f->db);
    free(f);
    return 0;
}

#define LONG "sum(stddev_over_time(m[100s]) + 1)"

static void test_goes_on(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    assert_true(ask(f, LONG, &err) == SERIES);
    assert_null(err);
    assert_true(f->pauses > 0);
}

static void test_others_ask_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    f->what = ASK_TOO;
    assert_true(ask(f, LONG, &err) == SERIES);
    assert_null(err);
    assert_int_equal(f->what, GO_ON);
}

// Only series that existed at the start of the query are counted. A name that the query creates is
// the same name if the store adds it during a pause.
static void test_series_come_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    f->what = ADD_SERIES;
    assert_true(ask(f, LONG, &err) == SERIES);
    assert_null(err);
    assert_true(f->pauses > 2);
    f->what = GO_ON;
    assert_true(ask(f, "count(m)", &err) == SERIES + f->added);
    f->what = ADD_SERIES;
    f->pauses = 0;
    assert_true(ask(f,
                    "count(sum by (fresh) (label_replace(stddev_over_time(m[100s]), \"fresh\", "
                    "\"x\", \"\", \"\")) + on (fresh) sum by (fresh) (label_replace("
                    "stddev_over_time(m[100s]), \"fresh\", \"x\", \"\", \"\")))",
                    &err) == 1);
    assert_null(err);
    assert_true(f->pauses > 2);
    (void)state;
}

// Others ask for the series that have come, of which the query must not see any, also where it
// evaluates the selector again.
static void test_others_see_series_that_come_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    f->what = ADD_AND_ASK;
    assert_true(ask(f, "count(m) + " LONG " + count(m) + " LONG " + count(count by (i) (m))",
                    &err) == 5 * SERIES);
    assert_null(err);
    assert_true(f->added > 2);
}

// All series are removed during a pause: the query ends normally.
static void test_series_go_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    f->what = DROP_SERIES;
    ask(f, "count by (i) (stddev_over_time(m[100s])) + on (i) group_left () count by (i) (m)",
        &err);
    gs_error_free(err);
    assert_int_equal(tsdb_series_count(f->db), 1);
    f->what = GO_ON;
    append(f, 1, SAMPLES * 1000, 1); // numbers of removed series are reused
    assert_true(ask(f, "count(m)", &err) == 1);
    assert_null(err);
}

static void test_ends_when_told(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    f->what = GIVE_UP;
    ask(f, LONG, &err);
    assert_error(err, GS_EUNAVAIL, "query was canceled");
    assert_int_equal(f->pauses, 1);
}

static void test_time_is_up(void **state)
{
    struct fixture *f = *state;
    struct gs_error *err;
    promql_engine_set_limits(f->engine, 1, 0);
    f->what = WAIT; // for longer than that
    ask(f, LONG, &err);
    assert_error(err, GS_ETIMEOUT, "query timed out");
    ask(f, "count(m)", &err); // the limit applied to the other query
    assert_null(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_ask_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_series_come_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_see_series_that_come_meanwhile, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_series_go_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_when_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time_is_up, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
