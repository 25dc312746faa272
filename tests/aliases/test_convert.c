// SPDX-License-Identifier: Apache-2.0
// Conversion of expressions between the names of two releases of dcgm-exporter.
#include "aliases/aliases.h"

#include "unit.h"

static void check(enum aliases_release to, const char *expr, const char *expected,
                  const char *problem)
{
    GS_AUTO_BUF struct gs_buf text = {0}, changes = {0}, found = {0};
    assert_ok(aliases_convert(gs_slice_of(expr), to, &text, &changes, &found));
    assert_string_equal(text.data ? text.data : "", expected);
    if (!strstr(found.data ? found.data : "", problem) || (!*problem && found.len))
        fail_msg("\"%s\" is no problem \"%s\"", found.data ? found.data : "", problem);
}

static void test_to_4_9(void **state)
{
    (void)state;
    check(ALIASES_4_9, "avg( DCGM_FI_DEV_GPU_UTIL{a=\"b\"} )  > 80 # busy",
          "avg( DCGM_FI_DEV_GPU_UTIL_RATIO{a=\"b\"} * 100 )  > 80 # busy", "");
    check(ALIASES_4_9, "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
          "(DCGM_FI_DEV_FB_USED_BYTES / 1048576) / (DCGM_FI_DEV_FB_USED_BYTES / 1048576 + "
          "DCGM_FI_DEV_FB_FREE_BYTES / 1048576)",
          "");
    check(ALIASES_4_9, "increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[1h]) / 3600",
          "(increase(DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL[1h]) * 1000) / 3600", "");
    check(ALIASES_4_9, "changes(DCGM_FI_DEV_XID_ERRORS[5m]) > 0",
          "changes(DCGM_FI_DEV_XID_ERROR[5m]) > 0", "");
    check(ALIASES_4_9, "{__name__=\"DCGM_FI_DEV_GPU_TEMP\"}",
          "{__name__=\"DCGM_FI_DEV_GPU_TEMP_CELSIUS\"}", "");
    check(ALIASES_4_9, "max by (DCGM_FI_DRIVER_VERSION) (up)",
          "max by (DCGM_FI_SYSTEM_DRIVER_VERSION) (up)", "");
    check(ALIASES_4_9, "sum(up)", "", "");
    check(ALIASES_4_9, "DCGM_FI_DEV_GPU_UTIL_RATIO", "", "");
}

static void test_to_4_8(void **state)
{
    (void)state;
    check(ALIASES_4_8, "DCGM_FI_DEV_GPU_UTIL_RATIO > 0.8", "DCGM_FI_DEV_GPU_UTIL / 100 > 0.8", "");
    check(ALIASES_4_8, "max_over_time(DCGM_FI_DEV_SM_CLOCK_HERTZ[1h:5m])",
          "max_over_time((DCGM_FI_DEV_SM_CLOCK * 1000000)[1h:5m])", "");
    check(ALIASES_4_8, "sum(DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL)",
          "sum(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)", "");
}

static void test_both_directions_return_the_value(void **state)
{
    (void)state;
    check(ALIASES_4_9, "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO * 100", "");
    check(ALIASES_4_8, "DCGM_FI_DEV_GPU_UTIL_RATIO * 100", "(DCGM_FI_DEV_GPU_UTIL / 100) * 100",
          "");
}

static void test_patterns(void **state)
{
    (void)state;
    check(ALIASES_4_9, "{__name__=~\"DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_POWER_USAGE\"}",
          "{__name__=~\"DCGM_FI_DEV_GPU_TEMP_CELSIUS|DCGM_FI_DEV_BOARD_POWER_WATTS\"}", "");
    check(ALIASES_4_9, "{__name__=~\"DCGM_FI_DEV_GPU_(UTIL|TEMP)\"}", "", "regular expression");
    check(ALIASES_4_9, "{__name__=~\"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_DEV_GPU_TEMP.*\"}", "",
          "regular expression");
    check(ALIASES_4_9, "{__name__=~\"DCGM_FI_.*\"}", "", "");
    check(ALIASES_4_9, "{__name__=~\"DCGM_FI_(DEV|PROF)_.+\"}", "", "");
}

static void test_ranges_without_a_function(void **state)
{
    (void)state;
    check(ALIASES_4_9, "DCGM_FI_DEV_GPU_TEMP[5m]", "DCGM_FI_DEV_GPU_TEMP_CELSIUS[5m]", "");
    check(ALIASES_4_9, "DCGM_FI_DEV_GPU_UTIL[5m]", "", "cannot be multiplied");
}

static void test_no_promql(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf text = {0}, changes = {0}, found = {0};
    assert_error(
        aliases_convert(GS_SLICE("DCGM_FI_DEV_GPU_UTIL{"), ALIASES_4_9, &text, &changes, &found),
        GS_EINVAL, "parse error");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_4_9),
        cmocka_unit_test(test_to_4_8),
        cmocka_unit_test(test_both_directions_return_the_value),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_ranges_without_a_function),
        cmocka_unit_test(test_no_promql),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
