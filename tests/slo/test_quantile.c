// SPDX-License-Identifier: Apache-2.0
// Percentiles of coarse histograms.
#include "slo/slo_private.h"
#include "unit.h"

static struct slo_counts counts_of(const double *bounds, const double *counts, size_t n)
{
    struct slo_counts c = {.n = n};
    for (size_t i = 0; i < n; i++) {
        c.bounds[i] = bounds[i];
        c.counts[i] = counts[i];
        c.total += counts[i];
    }
    return c;
}

static void test_values_within_a_bucket_are_logarithmic(void **state)
{
    (void)state;
    const double bounds[] = {1, 4, INFINITY}, counts[] = {0, 100, 0};
    struct slo_counts c = counts_of(bounds, counts, 3);
    assert_true(fabs(slo_quantile(&c, 0.5) - 2) < 1e-9);
    assert_true(fabs(slo_share_within(&c, 2) - 0.5) < 1e-9);
    assert_true(fabs(slo_quantile(&c, 1) - 4) < 1e-9);
}

static void test_what_the_bucket_of_the_target_cannot_say(void **state)
{
    (void)state;
    double low, high;
    const double bounds[] = {0.5, 1, 2, INFINITY}, counts[] = {50, 30, 15, 5};
    struct slo_counts c = counts_of(bounds, counts, 4);
    slo_share_range(&c, 1, &low, &high); // a bound: exact
    assert_true(fabs(low - 0.8) < 1e-9 && fabs(high - 0.8) < 1e-9);
    slo_share_range(&c, 1.5, &low, &high);
    assert_true(fabs(low - 0.8) < 1e-9 && fabs(high - 0.95) < 1e-9);
    slo_share_range(&c, 0.1, &low, &high);
    assert_true(low == 0 && fabs(high - 0.5) < 1e-9);
    slo_share_range(&c, 3, &low, &high);
    assert_true(fabs(low - 0.95) < 1e-9 && high == 1);
}

static void test_above_all_bounds_only_the_last_one_is_certain(void **state)
{
    (void)state;
    const double bounds[] = {0.5, INFINITY}, counts[] = {1, 99};
    struct slo_counts c = counts_of(bounds, counts, 2);
    assert_true(slo_quantile(&c, 0.9) == 0.5);
    assert_true(fabs(slo_share_within(&c, 100) - 0.01) < 1e-9);
}

static void test_no_samples_give_no_value(void **state)
{
    (void)state;
    const double bounds[] = {0.5, INFINITY}, counts[] = {0, 0};
    struct slo_counts c = counts_of(bounds, counts, 2);
    assert_true(isnan(slo_quantile(&c, 0.9)));
    assert_true(isnan(slo_share_within(&c, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_within_a_bucket_are_logarithmic),
        cmocka_unit_test(test_what_the_bucket_of_the_target_cannot_say),
        cmocka_unit_test(test_above_all_bounds_only_the_last_one_is_certain),
        cmocka_unit_test(test_no_samples_give_no_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
