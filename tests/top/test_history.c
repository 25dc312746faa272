// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "top/top_private.h"

#include <math.h>

static void assert_line(const struct top_history *h, int64_t now, size_t columns, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    top_history_draw(h, now, columns, 100, &out);
    assert_string_equal(out.data, want);
}

static void test_zero_and_a_missing_value_differ(void **state)
{
    struct top_history h = {0};
    assert_line(&h, 1000, 3, "   ");
    top_history_add(&h, 1000, 0);
    top_history_add(&h, 1002, 100);
    top_history_add(&h, 1003, NAN);
    assert_line(&h, 1003, 5, " ▁ █ ");
    assert_line(&h, 1005, 3, "   ");
}

static void test_values_are_eighths(void **state)
{
    struct top_history h = {0};
    static const double values[] = {1, 12.5, 13, 50, 87.5, 88, 100, 140};
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++)
        top_history_add(&h, 500 + (int64_t)i, values[i]);
    assert_line(&h, 507, 8, "▁▁▂▄▇███");
}

static void test_infinite_values_have_no_block(void **state)
{
    struct top_history h = {0};
    GS_AUTO_BUF struct gs_buf out = {0};
    top_history_add(&h, 100, INFINITY);
    top_history_chart(&h, 100, 2, 2, INFINITY, &out);
    assert_string_equal(out.data, "  \n  \n");
    assert_line(&h, 100, 2, " █");
}

static void test_old_intervals_are_forgotten(void **state)
{
    struct top_history h = {0};
    top_history_add(&h, 1000, 10);
    top_history_add(&h, 1000 + TOP_HISTORY, 20);
    assert_true(isnan(top_history_at(&h, 1000)));
    assert_true(isnan(top_history_at(&h, 1001)));
    top_history_add(&h, 1000, 30); // too old
    assert_int_equal(top_history_at(&h, 1000 + TOP_HISTORY), 20);
    top_history_add(&h, 1001, 30); // earlier samples of a range query
    assert_int_equal(top_history_at(&h, 1001), 30);
    top_history_add(&h, INT64_C(1) << 60, 5); // a jump of the clock
    assert_true(isnan(top_history_at(&h, 1001)));
    assert_int_equal(top_history_at(&h, INT64_C(1) << 60), 5);
}

static void test_charts_have_rows(void **state)
{
    struct top_history h = {0};
    GS_AUTO_BUF struct gs_buf out = {0};
    top_history_add(&h, 100, 100);
    top_history_add(&h, 101, 50);
    top_history_add(&h, 102, 0);
    top_history_chart(&h, 103, 2, 4, 100, &out);
    assert_string_equal(out.data, "█   \n██▁ \n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_and_a_missing_value_differ),
        cmocka_unit_test(test_values_are_eighths),
        cmocka_unit_test(test_infinite_values_have_no_block),
        cmocka_unit_test(test_old_intervals_are_forgotten),
        cmocka_unit_test(test_charts_have_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
