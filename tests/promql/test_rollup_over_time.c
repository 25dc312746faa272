// SPDX-License-Identifier: Apache-2.0
// Sums of whole numbers have the bits of the compensated sum.
#include "promql/function_table.h"
#include "promql/sums.h"
#include "unit.h"

#include <math.h>

enum { MOST = 70 };

static uint64_t roll(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static double mean_of(const double *v, size_t n)
{
    double sum = v[0], c = 0;
    promql_fast_sum(v + 1, n - 1, &sum, &c);
    return sum / (double)n + c / (double)n;
}

static double sum_of(const double *v, size_t n)
{
    double sum = 0, c = 0;
    promql_fast_sum(v, n, &sum, &c);
    return sum + c;
}

static void assert_same(double got, double want)
{
    uint64_t a, b;
    memcpy(&a, &got, sizeof(a));
    memcpy(&b, &want, sizeof(b));
    assert_true(a == b);
}

static void check(const double *v, size_t n)
{
    const struct promql_window w = {.v = v, .n = n};
    double got;
    assert_true(promql_rollup_sum(&w, &got));
    assert_same(got, sum_of(v, n));
    assert_true(promql_rollup_avg(&w, &got));
    assert_same(got, mean_of(v, n));
}

static void test_sums_have_the_same_bits(void **state)
{
    static const double scales[] = {1, -1, 0.25, 0.001, 0x1p20, 0x1p43, 0x1p49, 0x1p52, 1e22};
    uint64_t r = 1;
    for (size_t s = 0; s < GS_ARRAY_LEN(scales); s++)
        for (size_t n = 1; n <= MOST; n++)
            for (int odd = 0; odd < 4; odd++) {
                double v[MOST];
                for (size_t i = 0; i < n; i++)
                    v[i] = (double)(int64_t)(roll(&r) % 201 - (odd == 3 ? 100 : 0)) * scales[s];
                if (odd) // one is not like the others
                    v[roll(&r) % n] = odd == 1 ? 0.1 : odd == 2 ? -0.0 : 0x1p50;
                check(v, n);
            }
    (void)state;
}

static void test_only_exact_sums_are_whole(void **state)
{
    const double whole[] = {1, -2, 3, -0.0, 5}, fraction[] = {1, 2, 3, 4, 5, 6.5};
    const double large[] = {0x1p49, -0x1p49}, infinite[] = {1, (double)INFINITY, 2, 3};
    const double nan[] = {1, 2, 3, 4, (double)NAN};
    double sum = 7;
    assert_false(promql_whole_sum(fraction, GS_ARRAY_LEN(fraction), &sum));
    assert_false(promql_whole_sum(large, GS_ARRAY_LEN(large), &sum));
    assert_false(promql_whole_sum(infinite, GS_ARRAY_LEN(infinite), &sum));
    assert_false(promql_whole_sum(nan, GS_ARRAY_LEN(nan), &sum));
    assert_true(sum == 7); // as before
    assert_true(promql_whole_sum(whole, GS_ARRAY_LEN(whole), &sum));
    assert_true(sum == 7);
    assert_true(promql_whole_sum(whole, 0, &sum));
    assert_same(sum, 0);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_have_the_same_bits),
                                       cmocka_unit_test(test_only_exact_sums_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
