// SPDX-License-Identifier: Apache-2.0
#include "tsdb/tsdb.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define L(name, value)                                                                             \
    {                                                                                              \
        GS_SLICE(name), GS_SLICE(value)                                                            \
    }
#define T0 INT64_C(1700000000000)

static tsdb_ref append(struct tsdb *db, const struct metrics_label *labels, size_t n, int64_t t_ms)
{
    tsdb_ref ref;
    assert_ok(tsdb_series_get(db, labels, n, &ref));
    assert_ok(tsdb_append_ref(db, ref, t_ms, 1));
    return ref;
}

static char *text_of(const struct tsdb *db, tsdb_ref ref)
{
    struct gs_buf out = {0};
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    gs_buf_add_str(&out, "");
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = tsdb_labels_text_at(tsdb_symbols(db), l, i);
        gs_buf_addf(&out, GS_SLICE_FMT "=" GS_SLICE_FMT " ", GS_SLICE_ARG(label.name),
                    GS_SLICE_ARG(label.value));
    }
    return gs_buf_take(&out);
}

static void test_series_that_differ_in_the_name_share_labels(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    const struct metrics_label util[] = {L("__name__", "util"), L("gpu", "0"), L("Host", "a")};
    const struct metrics_label temp[] = {L("gpu", "0"), L("Host", "a"), L("__name__", "temp")};
    const struct metrics_label other[] = {L("__name__", "util"), L("gpu", "1"), L("Host", "a")};
    const struct metrics_label unnamed[] = {L("gpu", "0"), L("Host", "a")};
    tsdb_ref a = append(db, util, 3, T0), b = append(db, temp, 3, T0);
    tsdb_ref c = append(db, other, 3, T0), d = append(db, unnamed, 2, T0);
    assert_true(a != b && a != c && a != d && b != d);
    assert_ptr_equal(tsdb_series_labels(db, a).pairs, tsdb_series_labels(db, b).pairs);
    assert_ptr_equal(tsdb_series_labels(db, a).pairs, tsdb_series_labels(db, d).pairs);
    assert_ptr_not_equal(tsdb_series_labels(db, a).pairs, tsdb_series_labels(db, c).pairs);
    assert_int_equal(append(db, util, 3, T0 + 1), a);
    assert_int_equal(append(db, unnamed, 2, T0 + 1), d);
    tsdb_free(db);
}

// The name is in its place in the order of the labels.
static void test_labels_are_sorted_with_the_name(void **state)
{
    static const struct {
        struct metrics_label labels[3];
        size_t n;
        const char *wanted;
    } cases[] = {
        {{L("__name__", "m"), L("a", "1"), L("Z", "2")}, 3, "Z=2 __name__=m a=1 "},
        {{L("__name__", "m"), L("a", "1"), L("b", "2")}, 3, "__name__=m a=1 b=2 "},
        {{L("__name__", "m"), L("A", "1"), L("B", "2")}, 3, "A=1 B=2 __name__=m "},
        {{L("__name__", "m"), L("__a", "1"), L("__z", "2")}, 3, "__a=1 __name__=m __z=2 "},
        {{L("Z", "2"), L("a", "1")}, 2, "Z=2 a=1 "},
        {{L("__name__", "m")}, 1, "__name__=m "},
        {{L("__name__", ""), L("a", "")}, 2, ""},
    };
    struct tsdb *db = tsdb_new(NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        char *text = text_of(db, append(db, cases[i].labels, cases[i].n, T0));
        assert_string_equal(text, cases[i].wanted);
        free(text);
    }
    tsdb_free(db);
}

// Sets come and go in any order; the table of sets grows and moves its entries.
static void test_sets_end_with_their_last_series(void **state)
{
    enum { PODS = 2000, METRICS = 3, LIFE_MS = 60000 };
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.retention_ms = 120000});
    struct tsdb_stats before, after;
    char names[METRICS][8], pods[PODS][16];
    tsdb_stats(db, &before);
    for (size_t i = 0; i < PODS; i++)
        snprintf(pods[i], sizeof(pods[i]), "pod-%zu", i);
    for (size_t k = 0; k < METRICS; k++) {
        snprintf(names[k], sizeof(names[k]), "m%zu", k);
        // Of each third pod, one series remains.
        for (size_t i = 0; i < PODS; i++) {
            bool remains = i % 3 == 0 && k == 1;
            struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(names[k])},
                                             {GS_SLICE("pod"), gs_slice_of(pods[i])}};
            append(db, labels, 2, remains ? T0 + 4 * LIFE_MS : T0);
        }
    }
    for (int i = 0; i < 40; i++)
        tsdb_gc(db, T0 + 4 * LIFE_MS);
    assert_int_equal(tsdb_series_count(db), (PODS + 2) / 3);
    for (size_t i = 0; i < PODS; i += 3) {
        struct metrics_label labels[] = {L("__name__", "m1"),
                                         {GS_SLICE("pod"), gs_slice_of(pods[i])}};
        append(db, labels, 2, T0 + 4 * LIFE_MS + 1);
    }
    assert_int_equal(tsdb_series_count(db), (PODS + 2) / 3);
    for (int i = 0; i < 40; i++)
        tsdb_gc(db, T0 + 8 * LIFE_MS);
    tsdb_stats(db, &after);
    assert_int_equal(after.series, 0);
    assert_int_equal(after.symbols, before.symbols);
    assert_int_equal(after.label_pairs, 0);
    tsdb_free(db);
}

static void test_a_dropped_series_has_no_labels(void **state)
{
    struct tsdb *db = tsdb_new(&(struct tsdb_config){.retention_ms = 60000});
    const struct metrics_label old[] = {L("__name__", "old")}, now[] = {L("__name__", "now")};
    tsdb_ref ref = append(db, old, 1, T0);
    append(db, now, 1, T0 + 600000);
    for (int i = 0; i < 10; i++)
        tsdb_gc(db, T0 + 600000);
    assert_int_equal(tsdb_series_count(db), 1);
    assert_int_equal(tsdb_labels_len(tsdb_series_labels(db, ref)), 0);
    tsdb_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series_that_differ_in_the_name_share_labels),
        cmocka_unit_test(test_labels_are_sorted_with_the_name),
        cmocka_unit_test(test_sets_end_with_their_last_series),
        cmocka_unit_test(test_a_dropped_series_has_no_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
