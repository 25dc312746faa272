// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "tsdb/ring.h"

#include <stdio.h>

static struct gs_error *put(struct ring *db, const char *name, const char *pod, int64_t t, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {GS_SLICE("pod"), gs_slice_of(pod)}};
    return ring_append(db, labels, 2, t, v);
}

struct sum {
    int n;
    double value;
    int64_t t_ms;
};

static int add(void *arg, const struct metrics_labels *labels, struct ring_point p)
{
    struct sum *s = arg;
    s->n++;
    s->value += p.value;
    s->t_ms = p.t_ms;
    return 1;
}

static struct sum select_at(struct ring *db, const char *name, const char *pod, int64_t t)
{
    const struct ring_matcher m[] = {{"__name__", RING_EQ, name}, {"pod", RING_EQ, pod}};
    struct sum s = {0};
    ring_select(db, m, pod ? 2 : 1, t, 5000, add, &s);
    return s;
}

static void test_select_gives_the_newest_in_the_window(void **state)
{
    struct ring *db = ring_new(NULL);
    assert_ok(put(db, "util", "a", 1000, 10));
    assert_ok(put(db, "util", "a", 2000, 20));
    assert_ok(put(db, "util", "b", 2000, 5));
    assert_ok(put(db, "other", "a", 2000, 7));
    assert_int_equal(select_at(db, "util", NULL, 2000).n, 2);
    assert_true(select_at(db, "util", "a", 2500).value == 20);
    assert_true(select_at(db, "util", "a", 1999).value == 10);
    assert_int_equal(select_at(db, "util", "a", 999).n, 0);
    assert_int_equal(select_at(db, "util", "a", 6999).n, 1);
    assert_int_equal(select_at(db, "util", "a", 7000).n, 0);
    assert_int_equal(select_at(db, "nothing", NULL, 2000).n, 0);
    ring_free(db);
}

static void test_older_and_equal_times_are_refused(void **state)
{
    struct ring *db = ring_new(NULL);
    assert_ok(put(db, "util", "a", 1000, 10));
    assert_error(put(db, "util", "a", 1000, 11), GS_ECONFLICT, "not newer");
    assert_error(put(db, "util", "a", 500, 11), GS_ECONFLICT, "not newer");
    assert_true(select_at(db, "util", "a", 1000).value == 10);
    ring_free(db);
}

static void test_a_stale_marker_ends_the_series(void **state)
{
    struct ring *db = ring_new(NULL);
    assert_ok(put(db, "util", "a", 1000, 10));
    assert_ok(put(db, "util", "a", 2000, ring_stale_marker()));
    assert_int_equal(select_at(db, "util", "a", 2000).n, 0);
    assert_int_equal(select_at(db, "util", "a", 1500).n, 1);
    assert_ok(put(db, "util", "a", 3000, 0));
    assert_int_equal(select_at(db, "util", "a", 3000).n, 1);
    assert_ok(put(db, "util", "never", 1, ring_stale_marker()));
    assert_int_equal(ring_series_count(db), 1);
    ring_free(db);
}

static void test_retention_and_gc(void **state)
{
    const struct ring_config cfg = {.retention_ms = 10000};
    struct ring *db = ring_new(&cfg);
    for (int64_t t = 1; t <= 1000; t++)
        assert_ok(put(db, "util", "a", t * 1000, (double)t));
    assert_ok(put(db, "util", "b", 1000000, 1));
    assert_true(select_at(db, "util", "a", 995000).value == 995);
    assert_int_equal(select_at(db, "util", "a", 980000).n, 0);
    assert_int_equal(ring_series_count(db), 2);
    assert_ok(put(db, "util", "b", 1009000, 1));
    ring_gc(db, 1015000);
    assert_int_equal(ring_series_count(db), 1);
    assert_int_equal(select_at(db, "util", "b", 1009000).n, 1);
    ring_free(db);
}

static void test_the_series_limit_says_so(void **state)
{
    const struct ring_config cfg = {.max_series = 3};
    struct ring *db = ring_new(&cfg);
    char name[8];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        assert_ok(put(db, "util", name, 1, 1));
    }
    assert_error(put(db, "util", "p3", 1, 1), GS_ELIMIT, "limit of 3 series");
    assert_ok(put(db, "util", "p0", 2, 1));
    ring_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select_gives_the_newest_in_the_window),
        cmocka_unit_test(test_older_and_equal_times_are_refused),
        cmocka_unit_test(test_a_stale_marker_ends_the_series),
        cmocka_unit_test(test_retention_and_gc),
        cmocka_unit_test(test_the_series_limit_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
