// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/backoff.h"

static void test_doubles_up_to_the_maximum(void **state)
{
    static const int64_t want[] = {500, 1000, 2000, 4000, 5000, 5000};
    int64_t delay = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        delay = gs_backoff_next(delay, 500, 5000);
        assert_int_equal(delay, want[i]);
        assert_int_equal(gs_backoff_after(i + 1, 500, 5000), want[i]);
    }
    assert_int_equal(gs_backoff_after(0, 500, 5000), 500);
}

static void test_first_delay_is_limited(void **state)
{
    assert_int_equal(gs_backoff_next(0, 500, 200), 200);
    assert_int_equal(gs_backoff_next(200, 500, 200), 200);
    assert_int_equal(gs_backoff_after(3, 500, 200), 200);
    assert_int_equal(gs_backoff_next(8, 1, 9), 9); // the doubled one is above an odd maximum
    assert_int_equal(gs_backoff_next(4, 1, 9), 8);
}

static void test_large_numbers_stay_in_range(void **state)
{
    assert_int_equal(gs_backoff_next(INT64_MAX - 1, 1, INT64_MAX), INT64_MAX);
    assert_int_equal(gs_backoff_after(UINT64_MAX, 1, INT64_MAX), INT64_MAX);
    assert_int_equal(gs_backoff_after(UINT64_MAX, 0, 100), 0); // and ends
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles_up_to_the_maximum),
        cmocka_unit_test(test_first_delay_is_limited),
        cmocka_unit_test(test_large_numbers_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
