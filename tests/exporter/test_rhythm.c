// SPDX-License-Identifier: Apache-2.0
// When the next request of the page is expected, and when to sample for it.
#include "exporter/sampler.h"
#include "unit.h"

#define MS INT64_C(1000000)

static void test_regular_requests_are_expected(void **state)
{
    (void)state;
    struct exporter_rhythm r = {0};
    assert_int_equal(exporter_rhythm_next(&r, 1000 * MS), 0);
    assert_int_equal(exporter_rhythm_next(&r, 1250 * MS), 0); // one interval is no rhythm
    assert_int_equal(exporter_rhythm_next(&r, 1500 * MS), 1750 * MS);
    assert_int_equal(exporter_rhythm_next(&r, 1760 * MS), 2020 * MS); // a late one
}

static void test_other_requests_are_ignored(void **state)
{
    (void)state;
    struct exporter_rhythm r = {0};
    for (int64_t t = 1000; t <= 2000; t += 250)
        exporter_rhythm_next(&r, t * MS);
    assert_int_equal(exporter_rhythm_next(&r, 2100 * MS), 0);
    assert_int_equal(exporter_rhythm_next(&r, 2250 * MS), 0);
    assert_int_equal(exporter_rhythm_next(&r, 2500 * MS), 0);
    assert_int_equal(exporter_rhythm_next(&r, 2750 * MS), 3000 * MS);
}

static void test_samples_move_to_the_request(void **state)
{
    (void)state;
    assert_int_equal(exporter_rhythm_shift(1000, 1060, 250), 1060);
    assert_int_equal(exporter_rhythm_shift(1000, 1190, 250), 940);
    assert_int_equal(exporter_rhythm_shift(1000, 1750, 250), 1000);
    // A scrape interval of several samples: one of them is before the request.
    assert_int_equal(exporter_rhythm_shift(1000, 15990, 1000), 990);
    assert_int_equal(exporter_rhythm_shift(15000, 990, 1000), 14990); // the last known request
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regular_requests_are_expected),
        cmocka_unit_test(test_other_requests_are_ignored),
        cmocka_unit_test(test_samples_move_to_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
