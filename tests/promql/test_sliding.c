// SPDX-License-Identifier: Apache-2.0
// Sliding windows have the same result at each step as an instant query.
#include "promql/promql.h"

#include "base/mem.h"
#include "label_of.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>

enum { SAMPLES = 400, STEP_MS = 1000 };

static uint64_t roll(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

// One shape per series.
enum { SMALL, COUNTER, NANS, INFINITIES, OVERFLOWING, LARGE_AND_SMALL, ZEROS, STEADY, N_SHAPES };

static double value(int shape, int i, uint64_t *state)
{
    uint64_t dice = roll(state);
    switch (shape) {
    case COUNTER:
        return (double)(i % 37) * 3;
    case NANS:
        return dice % 3 ? (double)(dice % 100) : (double)NAN;
    case INFINITIES:
        return dice % 9 == 0    ? (double)INFINITY
               : dice % 31 == 0 ? -(double)INFINITY
                                : (double)(dice % 100);
    case OVERFLOWING:
        return dice % 10 == 0 ? 1.7e308 : dice % 7 == 0 ? -1.6e308 : (double)dice;
    case LARGE_AND_SMALL: // sometimes a large value
        return i % 60 == 0 ? 1e22 : (double)(dice % 1000) / 7;
    case ZEROS:
        return dice % 2 ? 0.0 : -0.0;
    case STEADY:
        return 0.1;
    default:
        return (double)(dice % 2000) / 3 - 300;
    }
}

static struct tsdb *filled(void)
{
    const struct tsdb_config cfg = {.retention_ms = INT64_C(1) << 40};
    struct tsdb *db = tsdb_new(&cfg);
    uint64_t state = 7;
    for (int shape = 0; shape < N_SHAPES; shape++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", shape);
        const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m_total")},
                                               {GS_SLICE("shape"), gs_slice_of(text)}};
        for (int i = 0; i < SAMPLES; i++) {
            double v = value(shape, i, &state);
            if (i % 97 == 60) // ends, and begins again
                v = tsdb_stale_marker();
            if (i % 97 > 60 && i % 97 < 70 + shape)
                continue;
            assert_ok(tsdb_append(db, labels, 2, INT64_C(1000000) + i * STEP_MS, v));
        }
    }
    return db;
}

static const double *values_of(const struct promql_result *r, struct gs_slice shape)
{
    for (size_t i = 0; i < r->matrix.n; i++)
        if (gs_slice_eq(label_of(r, r->matrix.series[i].labels, "shape"), shape))
            return r->matrix.series[i].v;
    return NULL;
}

static bool same(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) && promql_absent(a) == promql_absent(b);
    return a == b || fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b));
}

static size_t compare_step(const struct promql_result *range, size_t step,
                           const struct promql_result *instant, const char *query)
{
    size_t n = 0;
    for (size_t i = 0; i < range->matrix.n; i++) {
        struct gs_slice shape = label_of(range, range->matrix.series[i].labels, "shape");
        const double *one = values_of(instant, shape);
        double want = one ? *one : promql_absent_value(), got = range->matrix.series[i].v[step];
        if (!same(got, want))
            fail_msg("%s, shape " GS_SLICE_FMT ", step %zu: %.17g, not %.17g", query,
                     GS_SLICE_ARG(shape), step, got, want);
        n += !promql_absent(got);
    }
    return n;
}

static size_t compare(struct promql_engine *e, const char *query, int64_t step_ms)
{
    struct promql_expr *x;
    struct promql_result range, instant;
    int64_t start = 990000, end = 1000000 + (SAMPLES + 20) * STEP_MS;
    size_t n = 0;
    assert_ok(promql_parse(gs_slice_of(query), &x));
    assert_ok(promql_range(e, x, start, end, step_ms, &range));
    assert_true(range.matrix.n >= N_SHAPES - 1);
    for (size_t i = 0; i < range.matrix.n_steps; i++) {
        assert_ok(promql_instant(e, x, start + (int64_t)i * step_ms, &instant));
        n += compare_step(&range, i, &instant, query);
        promql_result_finish(&instant);
    }
    promql_result_finish(&range);
    promql_expr_free(x);
    return n;
}

static void test_slides_as_instants(void **state)
{
    static const char *const functions[] = {"sum_over_time",
                                            "avg_over_time",
                                            "min_over_time",
                                            "max_over_time",
                                            "count_over_time",
                                            "last_over_time",
                                            "rate",
                                            "increase",
                                            "delta",
                                            "changes",
                                            "resets",
                                            "deriv",
                                            "stddev_over_time",
                                            "present_over_time",
                                            "irate",
                                            "idelta"};
    static const char *const ranges[] = {"[2s]", "[5s]", "[61s]", "[250s]", "[40s:3s]"};
    static const int64_t steps[] = {700, 1000, 7000, 50000};
    struct tsdb *db = filled();
    struct promql_engine *e = promql_engine_new(db, NULL);
    for (size_t f = 0; f < GS_ARRAY_LEN(functions); f++)
        for (size_t r = 0; r < GS_ARRAY_LEN(ranges); r++)
            for (size_t s = 0; s < GS_ARRAY_LEN(steps); s++) {
                GS_AUTO_FREE char *query = gs_format("%s(m_total%s)", functions[f], ranges[r]);
                assert_true(compare(e, query, steps[s]) > 0);
            }
    promql_engine_free(e);
    tsdb_free(db);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slides_as_instants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
