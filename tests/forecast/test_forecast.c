// SPDX-License-Identifier: Apache-2.0
// Forecasts on courses of demand with a known shape: constant, daily, weekly, a ramp, noise, and
// shapes that change.
#include "unit.h"

#include "base/mem.h"
#include "forecast/forecast.h"

#include <math.h>

#define PI  3.14159265358979323846
#define DAY INT64_C(1440)

static const int64_t monday = INT64_C(20000) * 1440 * 60000; // ms

// Adds a minute in four parts.
static void add(struct forecast *f, int64_t minute, double demand)
{
    for (int i = 0; i < 4; i++)
        forecast_observe(f, demand, monday + minute * 60000 + i * 15000);
}

static double daily(int64_t minute)
{
    return 100 - 80 * cos(2 * PI * (double)(minute % DAY) / DAY);
}

// Pseudo-random, -1 to 1.
static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 11) / 4503599627370496.0 - 1;
}

static struct forecast_result result_of(const struct forecast *f)
{
    struct forecast_result r;
    forecast_read(f, &r);
    return r;
}

static void test_a_constant_demand_keeps_the_last_value(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    for (int64_t m = 0; m < 2 * DAY; m++)
        add(f, m, 50);
    struct forecast_result r = result_of(f);
    assert_int_equal(r.method, FORECAST_LAST);
    assert_true(r.growth == 1 && !r.off);
}

static void test_noise_is_no_forecast(void **state)
{
    uint64_t seed = 7;
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    for (int64_t m = 0; m < 2 * DAY; m++)
        add(f, m, 100 + 20 * noise(&seed));
    struct forecast_result r = result_of(f);
    assert_true(r.growth < 1.25);
}

static void test_nothing_is_forecast_before_an_hour_was_measured(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    assert_true(result_of(f).growth == 1);
    for (int64_t m = 0; m < 60; m++) {
        add(f, m, 10.0 + (double)m);
        assert_int_equal(result_of(f).method, FORECAST_LAST);
    }
}

static void test_a_ramp_is_followed_by_the_trend(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 3 * 60000);
    for (int64_t m = 0; m < 200; m++)
        add(f, m, 100 + 10.0 * (double)m);
    struct forecast_result r = result_of(f);
    assert_int_equal(r.method, FORECAST_TREND);
    // 2,080 now; 2,110 is right.
    assert_true(r.growth > 1.005 && r.growth < 1.02);
    assert_true(r.errors[FORECAST_TREND] < r.errors[FORECAST_LAST]);
}

// Peaks at a fixed time each day, which no trend can foresee.
static double peaks(int64_t minute)
{
    int64_t m = minute % DAY;
    return m >= 540 && m < 600 ? 300 : 100;
}

static void test_a_daily_peak_is_foreseen(void **state)
{
    struct forecast_result at_peak = {0};
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 3 * 60000);
    for (int64_t m = 0; m < 4 * DAY; m++) {
        add(f, m, peaks(m));
        if (m == 3 * DAY + 538)
            at_peak = result_of(f);
    }
    assert_int_equal(at_peak.method, FORECAST_YESTERDAY);
    assert_true(fabs(at_peak.growth - 3) < 0.01);
    assert_true(result_of(f).growth == 1);
}

static void test_a_weekly_peak_is_foreseen(void **state)
{
    struct forecast_result at_peak = {0};
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 15 * 60000);
    // Weekdays have a course, and the first day of each week rises in another one.
    for (int64_t m = 0; m < 15 * DAY; m++) {
        bool first = m / DAY % 7 == 0;
        int64_t t = m % DAY;
        double demand = 100 + (first && t > 600 && t < 900 ? (double)(t - 600) * 2 : 0);
        add(f, m, demand);
        if (m == 14 * DAY + 750)
            at_peak = result_of(f);
    }
    assert_true(at_peak.growth > 1.03);
    assert_true(at_peak.errors[FORECAST_WEEK] < at_peak.errors[FORECAST_LAST] * 0.9);
}

static void test_a_forecast_never_scales_down(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 5 * 60000);
    for (int64_t m = 0; m < 5 * DAY; m++) {
        add(f, m, daily(m));
        assert_true(result_of(f).growth >= 1);
    }
}

static void test_a_wrong_forecast_is_off_within_half_an_hour(void **state)
{
    int64_t wrong = 0, off_after = -1;
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 3 * 60000);
    for (int64_t m = 0; m < 4 * DAY; m++) {
        bool holiday = m >= 3 * DAY; // its peak does not come
        add(f, m, holiday ? 100 : peaks(m));
        if (!holiday || result_of(f).growth <= 1.05)
            continue;
        wrong++;
        off_after = m - (3 * DAY + 537);
    }
    assert_true(wrong > 0);
    assert_in_range(off_after, 1, 30);
}

static void test_growth_is_bounded(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    for (int64_t m = 0; m < 4 * DAY; m++) {
        add(f, m, m % DAY >= 600 && m % DAY < 700 ? 1e6 : 1);
        assert_true(result_of(f).growth <= FORECAST_MAX_GROWTH);
    }
}

static void test_wrong_values_and_gaps_are_harmless(void **state)
{
    static const double wrong[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        forecast_observe(f, wrong[i], monday);
    for (int64_t m = 0; m < 100; m++)
        add(f, m, 100);
    forecast_observe(f, 1e9, monday); // in the past
    forecast_observe(f, 5, INT64_MAX / 2);
    forecast_observe(f, 5, INT64_MAX / 2 + 60000);
    forecast_observe(f, 5, -5);
    struct forecast_result r = result_of(f);
    assert_true(r.growth == 1);
    for (int64_t m = 0; m < 400; m++)
        forecast_observe(f, (double)m, INT64_MAX / 2 + 120000 + m * 60000);
    assert_int_equal(result_of(f).method, FORECAST_TREND);
}

static void test_a_shift_of_the_clock_keeps_the_course(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    forecast_set_horizon(f, 3 * 60000);
    for (int64_t m = 0; m < 3 * DAY + 500; m++)
        add(f, m, peaks(m));
    forecast_shift(f, 7 * 60000);
    for (int64_t m = 3 * DAY + 500; m < 3 * DAY + 539; m++)
        add(f, m + 7, peaks(m));
    assert_int_equal(result_of(f).method, FORECAST_YESTERDAY);
    assert_true(fabs(result_of(f).growth - 3) < 0.01);
    forecast_shift(f, -monday);
    forecast_shift(f, INT64_C(-4000000000000));
    forecast_observe(f, 5, 120000);
    forecast_shift(f, INT64_C(4000000000000));
    add(f, 3 * DAY, 5);
    assert_true(result_of(f).growth == 1);
}

// What another process has learned continues after minutes without values.
static void test_a_restart_keeps_the_course(void **state)
{
    struct forecast *f = forecast_new(), *restored = NULL;
    forecast_set_horizon(f, 3 * 60000);
    for (int64_t m = 0; m < 3 * DAY + 500; m++)
        add(f, m, peaks(m));
    CODEC_AUTO_JSON json_t *saved = forecast_state_json(f);
    assert_ok(forecast_from_state(saved, monday + (3 * DAY + 503) * 60000, &restored));
    for (int64_t m = 3 * DAY + 503; m < 3 * DAY + 539; m++)
        add(restored, m, peaks(m));
    struct forecast_result r = result_of(restored);
    assert_int_equal(r.method, FORECAST_YESTERDAY);
    assert_true(fabs(r.growth - 3) < 0.01);
    // The day of errors is known, too: a new forecast needs an hour for its first one.
    assert_true(fabs(r.errors[FORECAST_LAST] - result_of(f).errors[FORECAST_LAST]) < 0.02);
    forecast_free(restored);
    forecast_free(f);
}

static void test_minutes_of_a_newer_forecast_are_appended(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *whole = forecast_new();
    GS_CLEANUP(forecast_freep) struct forecast *older = forecast_new();
    GS_CLEANUP(forecast_freep) struct forecast *newer = forecast_new();
    for (int64_t m = 0; m < 2 * DAY; m++) {
        add(whole, m, daily(m));
        add(m < 2 * DAY - 300 ? older : newer, m, daily(m));
    }
    forecast_append(older, newer);
    assert_true(result_of(older).method == result_of(whole).method);
    assert_true(fabs(result_of(older).growth - result_of(whole).growth) < 0.001);
    assert_true(fabs(forecast_rise(older) - forecast_rise(whole)) < 0.001);
    forecast_append(whole, newer); // which it has
    assert_true(fabs(forecast_rise(older) - forecast_rise(whole)) < 0.001);
}

static void test_a_forecast_without_values_or_from_the_future_is_refused(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    struct forecast *restored = NULL;
    CODEC_AUTO_JSON json_t *empty = forecast_state_json(f);
    add(f, 0, 5);
    CODEC_AUTO_JSON json_t *saved = forecast_state_json(f);
    assert_error(forecast_from_state(empty, monday, &restored), GS_EINVAL, "minute of the past");
    assert_error(forecast_from_state(NULL, monday, &restored), GS_EINVAL, "minute of the past");
    assert_error(forecast_from_state(saved, monday - 60000, &restored), GS_EINVAL,
                 "minute of the past");
    assert_null(restored);
    assert_ok(forecast_from_state(saved, monday, &restored));
    forecast_free(restored);
}

static void test_numbers_of_a_file_that_are_out_of_range_are_unknown(void **state)
{
    static const char text[] =
        "{\"minute\":28800000,\"open\":5,\"ahead\":99,\"level\":1e300,\"slope\":0,\"minutes\":["
        "1e99,"
        "-4,\"x\",7],\"quarters\":{},\"errors\":{\"trend\":{\"quarters\":[[0,1,1,1,9000],[-1,0,0,0,"
        "1],[0,-5,1e300,1,3],7],\"recent\":[1,-1]},\"last value\":3}}";
    CODEC_AUTO_JSON json_t *in = json_loads(text, 0, NULL);
    struct forecast *f = NULL;
    assert_ok(forecast_from_state(in, monday, &f));
    for (int64_t m = 1; m < 3 * DAY; m++)
        add(f, m, 10);
    assert_true(result_of(f).growth == 1);
    CODEC_AUTO_JSON json_t *again = forecast_state_json(f);
    assert_true(json_array_size(json_object_get(again, "minutes")) > DAY);
    forecast_free(f);
}

static void test_a_rise_is_that_of_nine_of_ten_minutes(void **state)
{
    GS_CLEANUP(forecast_freep) struct forecast *f = forecast_new();
    // Each hour, the demand rises by 20 in the minutes 0 to 4, and by 300 in minute 30.
    forecast_set_horizon(f, 120000);
    for (int64_t m = 0; m < 50; m++)
        add(f, m, 100);
    assert_true(isnan(forecast_rise(f)));
    for (int64_t m = 50; m < 2 * DAY; m++)
        add(f, m, 100 + (m % 60 < 5 ? 20 : 0) + (m % 60 == 30 ? 300 : 0));
    assert_true(forecast_rise(f) == 0);
    for (int64_t m = 2 * DAY; m < 4 * DAY; m++)
        add(f, m, 100 + (m % 20 < 5 ? 20 : 0) + (m % 60 == 30 ? 300 : 0));
    assert_true(forecast_rise(f) == 20);
    // Errors and gaps are left out, and a fall is no rise.
    for (int64_t m = 4 * DAY + 30; m < 5 * DAY + 30; m++)
        add(f, m, (double)(10 * DAY - m));
    assert_true(forecast_rise(f) == 0);
}

static void test_texts(void **state)
{
    struct gs_buf text = {0};
    const struct forecast_result r = {.method = FORECAST_YESTERDAY,
                                      .growth = 1.18,
                                      .horizon_ms = 120000,
                                      .errors = {0.14, NAN, 0.06, NAN}};
    const struct forecast_result off = {.growth = 1, .off = true};
    forecast_text(&r, &text);
    assert_string_equal(text.data, "+18 % in 2 min by the same time yesterday (error 6.0 %, of the "
                                   "last value 14.0 %)");
    gs_buf_clear(&text);
    forecast_text(&off, &text);
    assert_string_equal(text.data, "no forecast: the best method was wrong in the last minutes");
    gs_buf_finish(&text);
    CODEC_AUTO_JSON json_t *json = forecast_json(&r);
    assert_int_equal(json_object_size(json_object_get(json, "errors")), 2);
    assert_int_equal(codec_json_int(json, 0, "horizonSeconds", NULL), 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_constant_demand_keeps_the_last_value),
        cmocka_unit_test(test_noise_is_no_forecast),
        cmocka_unit_test(test_nothing_is_forecast_before_an_hour_was_measured),
        cmocka_unit_test(test_a_ramp_is_followed_by_the_trend),
        cmocka_unit_test(test_a_daily_peak_is_foreseen),
        cmocka_unit_test(test_a_weekly_peak_is_foreseen),
        cmocka_unit_test(test_a_forecast_never_scales_down),
        cmocka_unit_test(test_a_wrong_forecast_is_off_within_half_an_hour),
        cmocka_unit_test(test_growth_is_bounded),
        cmocka_unit_test(test_wrong_values_and_gaps_are_harmless),
        cmocka_unit_test(test_a_shift_of_the_clock_keeps_the_course),
        cmocka_unit_test(test_a_restart_keeps_the_course),
        cmocka_unit_test(test_minutes_of_a_newer_forecast_are_appended),
        cmocka_unit_test(test_a_forecast_without_values_or_from_the_future_is_refused),
        cmocka_unit_test(test_numbers_of_a_file_that_are_out_of_range_are_unknown),
        cmocka_unit_test(test_a_rise_is_that_of_nine_of_ten_minutes),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
