// SPDX-License-Identifier: Apache-2.0
// Expressions that read both names of a metric, as text.
#include "aliases/aliases.h"

#include "unit.h"

// The names in a list with spaces exist.
static bool listed(void *list, struct gs_slice metric)
{
    struct gs_slice rest = gs_slice_of(list);
    while (rest.data)
        if (gs_slice_eq(gs_slice_cut(&rest, ' '), metric))
            return true;
    return false;
}

static void check(const char *names, bool complete, const char *query, const char *expected)
{
    const struct aliases_source source = {listed, (void *)(uintptr_t)names, complete};
    GS_AUTO_BUF struct gs_buf text = {0};
    struct promql_expr *x = NULL, *again = NULL;
    assert_ok(promql_parse(gs_slice_of(query), &x));
    aliases_read(x, &source, &text, NULL);
    assert_string_equal(text.data ? text.data : "", expected);
    if (text.len)
        assert_ok(promql_parse(gs_buf_slice(&text), &again));
    promql_expr_free(again);
    promql_expr_free(x);
}

#define NEW_NAMES                                                                                  \
    "DCGM_FI_DEV_GPU_UTIL_RATIO DCGM_FI_DEV_SM_CLOCK_HERTZ DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL "   \
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS"

static void test_absent_name_reads_the_other(void **state)
{
    (void)state;
    check(NEW_NAMES, true, "avg by (pod) (DCGM_FI_DEV_GPU_UTIL{pod!=\"\"} offset 1m)",
          "avg by (pod) ((DCGM_FI_DEV_GPU_UTIL_RATIO{pod!=\"\"} offset 1m * 100))");
    check(NEW_NAMES, true, "sum(DCGM_FI_DEV_SM_CLOCK) * 1000000",
          "sum((DCGM_FI_DEV_SM_CLOCK_HERTZ / 1000000)) * 1000000");
    check(NEW_NAMES, true, "sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]))",
          "sum((rate(DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL[5m]) * 1000))");
    check("DCGM_FI_DEV_FB_USED", true, "max(DCGM_FI_DEV_FB_USED_BYTES)",
          "max((DCGM_FI_DEV_FB_USED * 1048576))");
    check("DCGM_FI_DEV_GPU_UTIL", true, "DCGM_FI_DEV_GPU_UTIL_RATIO > bool 0.2",
          "(DCGM_FI_DEV_GPU_UTIL / 100) > bool 0.2");
    check("DCGM_FI_DEV_GPU_TEMP", true, "sum(DCGM_FI_DEV_GPU_TEMP_CELSIUS)",
          "sum((DCGM_FI_DEV_GPU_TEMP))");
}

static void test_result_has_the_queried_name(void **state)
{
    (void)state;
    check(
        NEW_NAMES, true, "DCGM_FI_DEV_GPU_UTIL",
        "(label_replace(DCGM_FI_DEV_GPU_UTIL_RATIO * 100, \"__name__\", \"DCGM_FI_DEV_GPU_UTIL\", "
        "\"\", \"\"))");
    check(NEW_NAMES, true, "sum by (__name__) (last_over_time(DCGM_FI_DEV_GPU_TEMP[1m]))",
          "sum by (__name__) ((label_replace(last_over_time(DCGM_FI_DEV_GPU_TEMP_CELSIUS[1m]), "
          "\"__name__\", \"DCGM_FI_DEV_GPU_TEMP\", \"\", \"\")))");
    check(NEW_NAMES, true, "-DCGM_FI_DEV_GPU_TEMP", "-(DCGM_FI_DEV_GPU_TEMP_CELSIUS)");
}

static void test_each_gpu_is_read_once(void **state)
{
    (void)state;
    check("DCGM_FI_DEV_GPU_UTIL " NEW_NAMES, true, "avg(DCGM_FI_DEV_GPU_UTIL)",
          "avg((DCGM_FI_DEV_GPU_UTIL or (DCGM_FI_DEV_GPU_UTIL_RATIO * 100 unless on (UUID, "
          "GPU_I_ID) DCGM_FI_DEV_GPU_UTIL{UUID!=\"\"})))");
    check(NEW_NAMES, false, "avg(max_over_time(DCGM_FI_DEV_GPU_TEMP[1m]))",
          "avg((max_over_time(DCGM_FI_DEV_GPU_TEMP[1m]) or "
          "(max_over_time(DCGM_FI_DEV_GPU_TEMP_CELSIUS[1m]) unless on (UUID, GPU_I_ID) "
          "max_over_time(DCGM_FI_DEV_GPU_TEMP{UUID!=\"\"}[1m]))))");
}

static void test_values_that_no_factor_changes(void **state)
{
    (void)state;
    check(NEW_NAMES, true, "sum(changes(DCGM_FI_DEV_SM_CLOCK[5m]))",
          "sum((changes(DCGM_FI_DEV_SM_CLOCK_HERTZ[5m])))");
    check(NEW_NAMES, true, "sum(stdvar_over_time(DCGM_FI_DEV_GPU_UTIL[5m]))",
          "sum((stdvar_over_time(DCGM_FI_DEV_GPU_UTIL_RATIO[5m]) * 10000))");
    check(NEW_NAMES, true, "time() - timestamp(DCGM_FI_DEV_GPU_UTIL)",
          "time() - (timestamp(DCGM_FI_DEV_GPU_UTIL_RATIO))");
    check("DCGM_FI_DEV_GPU_UTIL " NEW_NAMES, true, "absent(DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"})",
          "(absent(DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"}) and on () "
          "absent(DCGM_FI_DEV_GPU_UTIL_RATIO{gpu=\"0\"}))");
    check(NEW_NAMES, true, "max_over_time(DCGM_FI_DEV_GPU_UTIL[5m:1m])",
          "max_over_time((DCGM_FI_DEV_GPU_UTIL_RATIO * 100)[5m:1m])");
}

static void test_expressions_that_stay_as_they_are(void **state)
{
    (void)state;
    static const char *const queries[] = {
        "up",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "DCGM_FI_PROF_PCIE_TX_BYTES", // one name
        "DCGM_FI_DEV_POWER_USAGE",    // no series of the other name
        "DCGM_FI_DEV_GPU_UTIL[5m]",   // cannot be multiplied
        // The author has thought of both names.
        "avg(DCGM_FI_DEV_GPU_UTIL or DCGM_FI_DEV_GPU_UTIL_RATIO * 100)",
        "count({__name__=~\"DCGM_FI_.+\"})",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++)
        check(NEW_NAMES, true, queries[i], "");
    // DCGM 4.6 gives this name to percents; the name means the ratio of 4.7.
    check("DCGM_FI_DEV_GPU_UTIL_RATIO", true, "DCGM_FI_DEV_GPU_UTIL_RATIO", "");
}

static void test_names_of_dcgm_4_6(void **state)
{
    (void)state;
    check("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", true, "sum(DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)",
          "sum((DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL))");
    check("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", true,
          "sum(DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND)",
          "sum((DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL * 1024000))");
}

static void test_patterns_of_names(void **state)
{
    (void)state;
    check(NEW_NAMES, true, "sum by (pod) ({__name__=~\"DCGM_FI_DEV_GPU_(UTIL|TEMP)\",pod!=\"\"})",
          "sum by (pod) (({__name__=~\"DCGM_FI_DEV_GPU_(UTIL|TEMP)\",pod!=\"\"} or on (__name__, "
          "UUID, GPU_I_ID) label_replace(DCGM_FI_DEV_GPU_TEMP_CELSIUS{pod!=\"\"}, \"__name__\", "
          "\"DCGM_FI_DEV_GPU_TEMP\", \"\", \"\") or on (__name__, UUID, GPU_I_ID) "
          "label_replace(DCGM_FI_DEV_GPU_UTIL_RATIO{pod!=\"\"} * 100, \"__name__\", "
          "\"DCGM_FI_DEV_GPU_UTIL\", \"\", \"\")))");
}

static void test_label_of_the_driver(void **state)
{
    (void)state;
    check(NEW_NAMES, true,
          "count by (DCGM_FI_DRIVER_VERSION) (DCGM_FI_DEV_GPU_TEMP{DCGM_FI_DRIVER_VERSION!=\"\"})",
          "count by (DCGM_FI_DRIVER_VERSION) "
          "((label_replace(DCGM_FI_DEV_GPU_TEMP_CELSIUS{DCGM_FI_SYSTEM_DRIVER_VERSION!=\"\"}, "
          "\"DCGM_FI_DRIVER_VERSION\", \"$1\", \"DCGM_FI_SYSTEM_DRIVER_VERSION\", \"(.+)\")))");
}

static void add_selector(void *arg, struct gs_slice selector, const char *name, const char *shown)
{
    gs_buf_addf(arg, GS_SLICE_FMT " %s as %s\n", GS_SLICE_ARG(selector), name, shown);
}

static void test_series_selectors(void **state)
{
    (void)state;
    const struct aliases_source source = {listed, (void *)(uintptr_t)NEW_NAMES, true};
    static const char *const selectors[] = {"DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"}", "up",
                                            "{__name__=~\"DCGM_FI_DEV_GPU_UTIL|x\"}"};
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(selectors); i++) {
        struct promql_expr *x = NULL;
        assert_ok(promql_parse_selector(gs_slice_of(selectors[i]), &x));
        aliases_each_selector(x, &source, add_selector, &out);
        promql_expr_free(x);
    }
    assert_string_equal(out.data,
                        "DCGM_FI_DEV_GPU_TEMP_CELSIUS{gpu=\"0\"} DCGM_FI_DEV_GPU_TEMP_CELSIUS as "
                        "DCGM_FI_DEV_GPU_TEMP\n"
                        "DCGM_FI_DEV_GPU_UTIL_RATIO DCGM_FI_DEV_GPU_UTIL_RATIO as "
                        "DCGM_FI_DEV_GPU_UTIL\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_name_reads_the_other),
        cmocka_unit_test(test_result_has_the_queried_name),
        cmocka_unit_test(test_each_gpu_is_read_once),
        cmocka_unit_test(test_values_that_no_factor_changes),
        cmocka_unit_test(test_expressions_that_stay_as_they_are),
        cmocka_unit_test(test_names_of_dcgm_4_6),
        cmocka_unit_test(test_patterns_of_names),
        cmocka_unit_test(test_label_of_the_driver),
        cmocka_unit_test(test_series_selectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
