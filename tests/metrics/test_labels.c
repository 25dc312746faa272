// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "metrics/labels.h"

#define L(n, v)                                                                                    \
    {                                                                                              \
        GS_SLICE(n), GS_SLICE(v)                                                                   \
    }

static void test_sets_are_sorted_and_compared_by_content(void **state)
{
    const struct metrics_label a[] = {L("pod", "p"), L("gpu", "0"), L("__name__", "x")};
    const struct metrics_label b[] = {L("__name__", "x"), L("gpu", "0"), L("pod", "p"), L("e", "")};
    struct metrics_labels *la = metrics_labels_new(a, 3), *lb = metrics_labels_new(b, 4);
    assert_int_equal(metrics_labels_len(lb), 3);
    assert_true(metrics_labels_eq(la, lb));
    assert_true(metrics_labels_hash(la) == metrics_labels_hash(lb));
    assert_true(gs_slice_eq_str(metrics_labels_at(la, 1)->name, "gpu"));
    assert_true(gs_slice_eq_str(metrics_labels_get(la, "pod"), "p"));
    assert_int_equal(metrics_labels_get(la, "absent").len, 0);
    metrics_labels_free(la);
    metrics_labels_free(lb);
}

static void test_the_last_duplicate_wins(void **state)
{
    const struct metrics_label a[] = {L("a", "1"), L("b", "2"), L("a", "3")};
    struct metrics_labels *l = metrics_labels_new(a, 3);
    assert_int_equal(metrics_labels_len(l), 2);
    assert_true(gs_slice_eq_str(metrics_labels_get(l, "a"), "3"));
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
        cmocka_unit_test(test_sets_are_sorted_and_compared_by_content),
        cmocka_unit_test(test_the_last_duplicate_wins),
        cmocka_unit_test(test_a_prefix_sorts_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
