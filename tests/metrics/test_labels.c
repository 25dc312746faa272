// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "metrics/labels.h"

#define L(n, v)                                                                                    \
    {                                                                                              \
        GS_SLICE(n), GS_SLICE(v)                                                                   \
    }

static void test_sets_are_sorted_without_empty_labels(void **state)
{
    const struct metrics_label a[] = {L("pod", "p"), L("gpu", "0"), L("__name__", "x")};
    const struct metrics_label b[] = {L("__name__", "x"), L("gpu", "0"), L("pod", "p"), L("e", "")};
    struct metrics_labels *la = metrics_labels_new(a, 3), *lb = metrics_labels_new(b, 4);
    assert_int_equal(metrics_labels_len(lb), 3);
    assert_int_equal(metrics_labels_len(la), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(gs_slice_eq(metrics_labels_at(la, i)->name, metrics_labels_at(lb, i)->name));
        assert_true(gs_slice_eq(metrics_labels_at(la, i)->value, metrics_labels_at(lb, i)->value));
    }
    assert_true(gs_slice_eq_str(metrics_labels_at(la, 1)->name, "gpu"));
    assert_true(gs_slice_eq_str(metrics_labels_at(la, 2)->value, "p"));
    metrics_labels_free(la);
    metrics_labels_free(lb);
}

static void test_the_last_duplicate_wins(void **state)
{
    const struct metrics_label a[] = {L("a", "1"), L("b", "2"), L("a", "3")};
    struct metrics_labels *l = metrics_labels_new(a, 3);
    assert_int_equal(metrics_labels_len(l), 2);
    assert_true(gs_slice_eq_str(metrics_labels_at(l, 0)->value, "3"));
    metrics_labels_free(l);
}

static void test_a_prefix_sorts_first(void **state)
{
    const struct metrics_label a[] = {L("ab", "1"), L("a", "2")};
    struct metrics_labels *l = metrics_labels_new(a, 2);
    assert_true(gs_slice_eq_str(metrics_labels_at(l, 0)->name, "a"));
    metrics_labels_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_are_sorted_without_empty_labels),
        cmocka_unit_test(test_the_last_duplicate_wins),
        cmocka_unit_test(test_a_prefix_sorts_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
