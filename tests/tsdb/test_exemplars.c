// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "tsdb/exemplars.h"

#include "base/buf.h"
#include "base/mem.h"

static tsdb_ref series(struct tsdb *db, const char *name)
{
    const struct metrics_label labels[] = {{GS_SLICE("job"), GS_SLICE("j")},
                                           {GS_SLICE("__name__"), gs_slice_of(name)}};
    tsdb_ref ref;
    assert_ok(tsdb_series_get(db, labels, 2, &ref));
    return ref;
}

static enum tsdb_exemplar_result add(struct tsdb *db, const char *name, int64_t t, double value,
                                     const char *trace)
{
    const struct metrics_label label = {GS_SLICE("trace_id"), gs_slice_of(trace)};
    const struct tsdb_exemplar e = {&label, 1, value, t, t > 0};
    struct tsdb_exemplar at = e;
    at.t_ms = t < 0 ? -t : t; // negative: without a time of its own
    return tsdb_exemplars_add(db, series(db, name), &at);
}

static void print_labels(struct gs_buf *out, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_slice(out, l[i].name);
        gs_buf_add_char(out, '=');
        gs_buf_add_slice(out, l[i].value);
        gs_buf_add_char(out, ' ');
    }
}

static void print(void *arg, const struct tsdb_exemplar_series *s, const struct tsdb_exemplar *e,
                  bool is_first)
{
    struct gs_buf *out = arg;
    if (is_first) {
        print_labels(out, s->labels, s->n_labels);
        gs_buf_add_char(out, '\n');
    }
    gs_buf_add_char(out, ' ');
    print_labels(out, e->labels, e->n_labels);
    gs_buf_addf(out, "%g @%lld\n", e->value, (long long)e->t_ms);
}

static void expect_between(struct tsdb *db, int64_t mint, int64_t maxt, const char *expected)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    const struct tsdb_exemplar_selector all = {NULL, 0};
    gs_buf_add_str(&out, "");
    tsdb_exemplars_select(db, &all, 1, mint, maxt, print, &out);
    assert_string_equal(out.data, expected);
}

static void expect(struct tsdb *db, const char *expected)
{
    expect_between(db, INT64_MIN, INT64_MAX, expected);
}

static void test_off_by_default(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_exemplar_stats s;
    assert_int_equal(add(db, "a", 1, 1, "x"), TSDB_EXEMPLAR_OFF);
    expect(db, "");
    tsdb_exemplars_set_max(db, 0);
    tsdb_exemplars_stats(db, &s);
    assert_int_equal(s.max + s.n + s.bytes, 0);
    tsdb_free(db);
}

static void test_sorted_by_series_and_time(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 100);
    add(db, "b", 2000, 1, "x");
    add(db, "a", 1000, 2, "y");
    add(db, "b", 3000, 3, "z");
    expect(db, "__name__=a job=j \n trace_id=y 2 @1000\n"
               "__name__=b job=j \n trace_id=x 1 @2000\n trace_id=z 3 @3000\n");
    expect_between(db, 1500, 2000, "__name__=b job=j \n trace_id=x 1 @2000\n");
    expect_between(db, 2001, 2999, "");
    tsdb_free(db);
}

static void test_selectors(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 100);
    add(db, "a", 1, 1, "x");
    add(db, "b", 2, 2, "y");
    add(db, "c", 3, 3, "z");
    const struct tsdb_matcher a[] = {{GS_SLICE("__name__"), GS_SLICE("a"), TSDB_EQ, NULL},
                                     {GS_SLICE("none"), GS_SLICE(""), TSDB_EQ, NULL}};
    const struct tsdb_matcher c[] = {{GS_SLICE("__name__"), GS_SLICE("c"), TSDB_EQ, NULL}};
    const struct tsdb_exemplar_selector some[] = {{a, 2}, {c, 1}};
    GS_AUTO_BUF struct gs_buf out = {0};
    tsdb_exemplars_select(db, some, 2, 0, 10, print, &out);
    assert_string_equal(out.data, "__name__=a job=j \n trace_id=x 1 @1\n"
                                  "__name__=c job=j \n trace_id=z 3 @3\n");
    tsdb_free(db);
}

static void test_duplicates_and_order(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_exemplar_stats s;
    tsdb_exemplars_set_max(db, 100);
    assert_int_equal(add(db, "a", 1000, 1, "x"), TSDB_EXEMPLAR_ADDED);
    assert_int_equal(add(db, "a", 1000, 1, "x"), TSDB_EXEMPLAR_DUPLICATE);
    assert_int_equal(add(db, "a", 999, 1, "x"), TSDB_EXEMPLAR_OUT_OF_ORDER);
    assert_int_equal(add(db, "a", 1000, 0.5, "x"), TSDB_EXEMPLAR_OUT_OF_ORDER);
    assert_int_equal(add(db, "a", 1000, 2, "x"), TSDB_EXEMPLAR_ADDED);
    assert_int_equal(add(db, "b", 500, 1, "x"), TSDB_EXEMPLAR_ADDED); // another series
    tsdb_exemplars_stats(db, &s);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.series, 2);
    assert_int_equal(s.appended, 3);
    assert_int_equal(s.out_of_order, 2);
    assert_true(s.oldest_ms == 1000);
    tsdb_free(db);
}

// One of the two orders is refused: that with the smaller hash after the larger one.
static void test_same_time_and_value(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 100);
    add(db, "a", 1000, 1, "x");
    add(db, "b", 1000, 1, "y");
    int sum = add(db, "a", 1000, 1, "y") + add(db, "b", 1000, 1, "x");
    assert_int_equal(sum, TSDB_EXEMPLAR_ADDED + TSDB_EXEMPLAR_OUT_OF_ORDER);
    tsdb_free(db);
}

static void test_repeated_without_time(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 100);
    assert_int_equal(add(db, "a", -1000, 1, "x"), TSDB_EXEMPLAR_ADDED);
    assert_int_equal(add(db, "a", -2000, 1, "x"), TSDB_EXEMPLAR_DUPLICATE);
    assert_int_equal(add(db, "a", -3000, 1, "y"), TSDB_EXEMPLAR_ADDED);
    assert_int_equal(add(db, "a", 4000, 1, "y"), TSDB_EXEMPLAR_ADDED);
    expect(db, "__name__=a job=j \n trace_id=x 1 @1000\n trace_id=y 1 @3000\n"
               " trace_id=y 1 @4000\n");
    tsdb_free(db);
}

static void test_labels(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 10);
    tsdb_ref ref = series(db, "a");
    const struct metrics_label mixed[] = {{GS_SLICE("z"), GS_SLICE("1")},
                                          {GS_SLICE("empty"), GS_SLICE("")},
                                          {GS_SLICE("a"), GS_SLICE("2")}};
    struct tsdb_exemplar e = {mixed, 3, 1, 1, true};
    assert_int_equal(tsdb_exemplars_add(db, ref, &e), TSDB_EXEMPLAR_ADDED);
    const struct metrics_label twice[] = {mixed[0], mixed[2], mixed[0]};
    e = (struct tsdb_exemplar){twice, 3, 1, 2, true};
    assert_int_equal(tsdb_exemplars_add(db, ref, &e), TSDB_EXEMPLAR_NOT_UNIQUE);
    e = (struct tsdb_exemplar){NULL, 0, 3, 3, true};
    assert_int_equal(tsdb_exemplars_add(db, ref, &e), TSDB_EXEMPLAR_ADDED);
    expect(db, "__name__=a job=j \n a=2 z=1 1 @1\n 3 @3\n");
    tsdb_free(db);
}

// 128 characters, of any number of bytes.
static void test_length_in_characters(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    tsdb_exemplars_set_max(db, 10);
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < TSDB_EXEMPLAR_MAX_CHARS - 1; i++)
        gs_buf_add_str(&text, "𝄞");
    struct metrics_label label = {GS_SLICE("x"), gs_buf_slice(&text)};
    struct tsdb_exemplar e = {&label, 1, 1, 1, true};
    assert_int_equal(tsdb_exemplars_add(db, series(db, "a"), &e), TSDB_EXEMPLAR_ADDED);
    label.name = GS_SLICE("xy");
    e.t_ms = 2;
    assert_int_equal(tsdb_exemplars_add(db, series(db, "a"), &e), TSDB_EXEMPLAR_TOO_LONG);
    gs_buf_clear(&text); // bytes that begin no character
    for (size_t i = 0; i < 1000; i++)
        gs_buf_add_char(&text, (char)0x80);
    label.value = gs_buf_slice(&text);
    assert_int_equal(tsdb_exemplars_add(db, series(db, "a"), &e), TSDB_EXEMPLAR_TOO_LONG);
    tsdb_free(db);
}

static void test_the_oldest_goes(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_exemplar_stats s;
    tsdb_exemplars_set_max(db, 3);
    add(db, "a", 1, 1, "x");
    add(db, "b", 2, 2, "x");
    add(db, "b", 3, 3, "x");
    add(db, "c", 4, 4, "x");
    expect(db, "__name__=b job=j \n trace_id=x 2 @2\n trace_id=x 3 @3\n"
               "__name__=c job=j \n trace_id=x 4 @4\n");
    tsdb_exemplars_stats(db, &s);
    assert_int_equal(s.series, 2);
    tsdb_exemplars_set_max(db, 1);
    expect(db, "__name__=c job=j \n trace_id=x 4 @4\n");
    add(db, "c", 5, 5, "x"); // replaces the only one of its series
    expect(db, "__name__=c job=j \n trace_id=x 5 @5\n");
    tsdb_exemplars_set_max(db, 2);
    add(db, "c", 6, 6, "x");
    expect(db, "__name__=c job=j \n trace_id=x 5 @5\n trace_id=x 6 @6\n");
    tsdb_exemplars_set_max(db, 0);
    expect(db, "");
    tsdb_exemplars_stats(db, &s);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(s.appended, 6);
    tsdb_exemplars_set_max(db, SIZE_MAX);
    assert_int_equal(add(db, "c", 1, 1, "x"), TSDB_EXEMPLAR_ADDED);
    tsdb_free(db);
}

static void test_memory_is_bounded(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_exemplar_stats s;
    GS_AUTO_BUF struct gs_buf name = {0};
    for (size_t i = 0; i < 5000; i++)
        gs_buf_add_char(&name, 'n');
    tsdb_exemplars_set_max(db, 20);
    for (int i = 0; i < 20; i++) {
        gs_buf_addf(&name, "%d", i % 10);
        assert_int_equal(add(db, name.data, i + 1, 1, "x"), TSDB_EXEMPLAR_ADDED);
    }
    tsdb_exemplars_stats(db, &s);
    assert_true(s.n >= 1 && s.n < 20);
    assert_true(s.bytes <= 20 * 2048);
    tsdb_free(db);
}

static void test_numbers(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct tsdb_exemplar_series s;
    struct tsdb_exemplar e;
    uint64_t number = tsdb_exemplars_end(db);
    assert_false(tsdb_exemplars_next(db, &number, &s, &e));
    tsdb_exemplars_set_max(db, 2);
    assert_true(number == tsdb_exemplars_end(db));
    add(db, "a", 1, 1, "x");
    add(db, "a", 2, 2, "y");
    assert_true(tsdb_exemplars_next(db, &number, &s, &e));
    assert_true(e.value == 1 && s.n_labels == 2 && gs_slice_eq_str(s.labels[0].value, "a"));
    add(db, "a", 3, 3, "z");
    add(db, "a", 4, 4, "z"); // the second is gone
    assert_true(tsdb_exemplars_next(db, &number, &s, &e) && e.value == 3);
    assert_true(tsdb_exemplars_next(db, &number, &s, &e) && e.value == 4);
    assert_false(tsdb_exemplars_next(db, &number, &s, &e));
    assert_true(number == tsdb_exemplars_end(db));
    tsdb_free(db);
}

static void test_numbers_of_a_series(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    uint64_t first = tsdb_exemplars_end(db);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first), 0);
    tsdb_exemplars_set_max(db, 5);
    add(db, "a", 1, 1, "x");
    add(db, "b", 2, 2, "x");
    add(db, "a", 3, 3, "x");
    add(db, "b", 4, 4, "x");
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "c"), first), 0);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), 0), first);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first), first);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first + 1), first + 2);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first + 2), first + 2);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first + 3), 0);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "b"), first + 2), first + 3);
    add(db, "c", 5, 5, "x");
    add(db, "c", 6, 6, "x"); // the first is gone
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first), first + 2);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "a"), first + 1), first + 2);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "c"), first + 5), first + 5);
    assert_int_equal(tsdb_exemplars_first_of(db, series(db, "c"), tsdb_exemplars_end(db)), 0);
    tsdb_free(db);
}

// Against a plain list of the newest exemplars.
static void test_random_use(void **state)
{
    enum { STEPS = 4000, SERIES = 7 };
    struct tsdb *db = tsdb_new(NULL);
    double kept[STEPS];
    size_t begin = 0, end = 0, max = 10;
    uint64_t seed = 1;
    tsdb_exemplars_set_max(db, max);
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        char name[] = {(char)('a' + (seed >> 33) % SERIES), '\0'};
        assert_int_equal(add(db, name, i + 1, i, "x"), TSDB_EXEMPLAR_ADDED);
        kept[end++] = i;
        if ((seed >> 40) % 50 == 0) {
            max = 1 + (seed >> 50) % 300;
            tsdb_exemplars_set_max(db, max);
        }
        if (end - begin > max)
            begin = end - max;
    }
    struct tsdb_exemplar_series s;
    struct tsdb_exemplar e;
    uint64_t number = 0;
    for (size_t i = begin; i < end; i++)
        assert_true(tsdb_exemplars_next(db, &number, &s, &e) && e.value == kept[i]);
    assert_false(tsdb_exemplars_next(db, &number, &s, &e));
    tsdb_free(db);
}

struct interruption {
    struct tsdb *db;
    struct gs_buf out;
    int calls, end_at; // 0: never
};

static void print_interrupted(void *arg, const struct tsdb_exemplar_series *s,
                              const struct tsdb_exemplar *e, bool is_first)
{
    struct interruption *i = arg;
    print(&i->out, s, e, is_first);
}

// Drops exemplars of all series, and some series.
static bool interrupt(void *arg)
{
    struct interruption *i = arg;
    i->calls++;
    for (int k = 0; k < 40; k++) {
        int64_t t = 100000 + i->calls * 40 + k;
        GS_AUTO_FREE char *name = gs_format("late-%d", k % 3);
        assert_int_equal(add(i->db, name, t, (double)t, "y"), TSDB_EXEMPLAR_ADDED);
    }
    const struct tsdb_exemplar_selector all = {NULL, 0};
    GS_AUTO_BUF struct gs_buf other = {0}; // another reader
    tsdb_exemplars_select(i->db, &all, 1, 0, 100, print, &other);
    return i->calls != i->end_at;
}

static void test_the_store_changes_during_a_query(void **state)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    for (int end_at = 0; end_at < 4; end_at++) {
        struct interruption i = {.db = tsdb_new(NULL), .end_at = end_at};
        const struct tsdb_exemplar_query q = {.selectors = &all,
                                              .n_selectors = 1,
                                              .maxt = INT64_MAX,
                                              .fn = print_interrupted,
                                              .go_on = interrupt,
                                              .arg = &i};
        tsdb_exemplars_set_max(i.db, 300);
        for (int k = 0; k < 300; k++) {
            GS_AUTO_FREE char *name = gs_format("s-%d", k < 280 ? k % 2 : k);
            add(i.db, name, 1 + k, k, "x");
        }
        assert_true(tsdb_exemplars_query(i.db, &q) == !end_at);
        assert_true(end_at ? i.calls == end_at : i.calls > 3);
        gs_buf_add_str(&i.out, "");
        // What was added later is not read.
        assert_null(strstr(i.out.data, "late"));
        assert_true(end_at || strstr(i.out.data, "__name__=s-299 job=j \n trace_id=x 299 @300\n"));
        gs_buf_finish(&i.out);
        tsdb_free(i.db);
    }
}

static bool count_calls(void *arg)
{
    ++*(int *)arg;
    return true;
}

static void print_nothing(void *arg, const struct tsdb_exemplar_series *s,
                          const struct tsdb_exemplar *e, bool is_first)
{
    (void)arg;
    (void)s;
    (void)e;
    (void)is_first;
}

// Each selector takes time.
static void test_selectors_count_as_steps(void **state)
{
    const struct tsdb_matcher other = {
        .name = GS_SLICE("job"), .op = TSDB_EQ, .value = GS_SLICE("other")};
    struct tsdb_exemplar_selector selectors[100];
    struct tsdb *db = tsdb_new(NULL);
    int calls = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(selectors); i++)
        selectors[i] = (struct tsdb_exemplar_selector){&other, 1};
    tsdb_exemplars_set_max(db, 10);
    for (int k = 0; k < 10; k++) {
        GS_AUTO_FREE char *name = gs_format("s-%d", k);
        add(db, name, 1 + k, k, "x");
    }
    const struct tsdb_exemplar_query q = {.selectors = selectors,
                                          .n_selectors = GS_ARRAY_LEN(selectors),
                                          .maxt = INT64_MAX,
                                          .fn = print_nothing,
                                          .go_on = count_calls,
                                          .arg = &calls};
    assert_true(tsdb_exemplars_query(db, &q));
    assert_int_equal(calls, 10);
    tsdb_free(db);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_by_default),
        cmocka_unit_test(test_sorted_by_series_and_time),
        cmocka_unit_test(test_selectors),
        cmocka_unit_test(test_duplicates_and_order),
        cmocka_unit_test(test_same_time_and_value),
        cmocka_unit_test(test_repeated_without_time),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_length_in_characters),
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_the_store_changes_during_a_query),
        cmocka_unit_test(test_numbers_of_a_series),
        cmocka_unit_test(test_selectors_count_as_steps),
        cmocka_unit_test(test_random_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
