// SPDX-License-Identifier: Apache-2.0
// Searches with answers that were collected before, while the store changes.
#include "tsdb/tsdb.h"

#include "base/mem.h"
#include "unit.h"

#include <stdio.h>

enum { PODS = 300 };
#define T0         INT64_C(1700000000000)
#define RETENTION  INT64_C(60000)
#define MUCH_LATER (T0 + 10 * RETENTION)

struct fixture {
    struct tsdb *db;
    int calls, change_at, stop_at; // 0: never
};

static void append(struct tsdb *db, const char *metric, unsigned pod, int64_t t_ms)
{
    char text[16];
    snprintf(text, sizeof(text), "pod-%u", pod);
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(metric)},
                                           {GS_SLICE("pod"), gs_slice_of(text)}};
    assert_ok(tsdb_append(db, labels, 2, t_ms, 1));
}

static struct fixture setup(void)
{
    struct fixture f = {.db = tsdb_new(&(struct tsdb_config){.retention_ms = RETENTION})};
    for (unsigned i = 0; i < PODS; i++) {
        append(f.db, "util", i, T0);
        if (i % 3 == 0)
            append(f.db, "rare", i, i % 2 ? T0 : MUCH_LATER);
    }
    return f;
}

// Others append during a pause: series appear, and nearly all of those that exist are dropped, so
// that their numbers and symbols would be free for the new ones.
static bool on_pause(void *arg)
{
    struct fixture *f = arg;
    if (++f->calls == f->change_at) {
        for (unsigned i = 0; i < PODS; i++)
            append(f->db, "util", 10000 + i, MUCH_LATER);
        for (int i = 0; i < 20; i++)
            tsdb_gc(f->db, MUCH_LATER);
        for (unsigned i = 0; i < PODS; i++)
            append(f->db, "rare", 20000 + i, MUCH_LATER);
    }
    return f->calls != f->stop_at;
}

static void assert_same_series(struct tsdb *db, const struct tsdb_matcher *a,
                               const struct tsdb_matcher *b, size_t n)
{
    struct tsdb_refs x = {0}, y = {0};
    assert_ok(tsdb_find_any(db, a, n, 0, &x));
    assert_ok(tsdb_find_any(db, b, n, 0, &y));
    assert_int_equal(x.len, y.len);
    assert_true(x.len > 0);
    assert_memory_equal(x.items, y.items, x.len * sizeof(*x.items));
    tsdb_refs_finish(&x);
    tsdb_refs_finish(&y);
}

static const char *const patterns[] = {"p(od)?-[0-9]*[05]", "(pod-[0-9]*7)?", "pod-(1|2)0*..+"};

static struct tsdb_matcher slow_matcher(const char *pattern, enum tsdb_match op)
{
    struct tsdb_matcher m = {.name = GS_SLICE("pod"), .value = gs_slice_of(pattern), .op = op};
    assert_ok(tsdb_regex_new(m.value, &m.regex));
    assert_true(tsdb_regex_can_be_slow(m.regex));
    return m;
}

static void test_answers_are_those_of_the_search(void **state)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(patterns); i++)
        for (int kind = 0; kind < 8; kind++) {
            bool equal = kind & 1, change = kind & 2;
            struct fixture f = setup();
            struct tsdb_answers a;
            const struct tsdb_matcher m[] = {
                slow_matcher(patterns[i], kind & 4 ? TSDB_NRE : TSDB_RE),
                {.name = GS_SLICE("__name__"), .value = GS_SLICE("rare"), .op = TSDB_EQ}};
            f.change_at = change ? 5 : 0;
            assert_ok(tsdb_answers_collect(f.db, m, 1 + equal, NULL, on_pause, &f, &a));
            assert_true(f.calls >= 5);
            assert_same_series(f.db, a.matchers, m, 1 + equal);
            tsdb_answers_finish(&a);
            tsdb_regex_free(m[0].regex);
            tsdb_free(f.db);
        }
}

static void test_a_collection_is_given_up(void **state)
{
    struct fixture f = setup();
    struct tsdb_answers a;
    struct tsdb_matcher m = slow_matcher(patterns[0], TSDB_RE);
    f.stop_at = 3;
    struct gs_error *err = tsdb_answers_collect(f.db, &m, 1, NULL, on_pause, &f, &a);
    assert_int_equal(gs_error_code(err), GS_EUNAVAIL);
    gs_error_free(err);
    assert_int_equal(f.calls, 3);
    tsdb_answers_finish(&a);
    tsdb_regex_free(m.regex);
    tsdb_free(f.db);
}

static void test_fast_matchers_are_not_evaluated_before(void **state)
{
    struct fixture f = setup();
    struct tsdb_answers a;
    struct tsdb_matcher m = {
        .name = GS_SLICE("pod"), .value = GS_SLICE("pod-1|pod-2"), .op = TSDB_RE};
    assert_ok(tsdb_regex_new(m.value, &m.regex));
    assert_ok(tsdb_answers_collect(f.db, &m, 1, NULL, on_pause, &f, &a));
    assert_int_equal(f.calls, 0);
    assert_ptr_equal(a.matchers, &m);
    tsdb_answers_finish(&a);
    tsdb_regex_free(m.regex);
    tsdb_free(f.db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_of_the_search),
        cmocka_unit_test(test_a_collection_is_given_up),
        cmocka_unit_test(test_fast_matchers_are_not_evaluated_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
