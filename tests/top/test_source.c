// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "top_samples.h"

static void test_expositions_are_read(void **state)
{
    struct top_samples s = {0};
    int64_t before = gs_unix_ms();
    assert_null(top_source_read_exposition(
        GS_SLICE(
            "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 7 1700000000000\n"
            "go_goroutines 5\nDCGM_FI_DEV_FB_USED{gpu=\"0\"} 8\n"
            "gpuscale_exporter_sample_age_seconds 2\n"),
        &s));
    assert_int_equal(s.len, 3); // other metrics are not kept
    assert_int_equal(s.items[0].t_ms, 1700000000000);
    assert_true(s.items[1].t_ms <= gs_unix_ms() - 2000 && s.items[1].t_ms >= before - 2000);
    top_samples_finish(&s);
}

static void test_a_line_with_too_many_labels_leaves_the_others(void **state)
{
    struct top_samples s = {0};
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 7\nDCGM_FI_DEV_GPU_UTIL{");
    for (int i = 0; i < 300; i++)
        gs_buf_addf(&text, "l%d=\"v\",", i);
    gs_buf_add_str(&text, "} 8\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\"} 9\n");
    assert_ok(top_source_read_exposition(gs_buf_slice(&text), &s));
    assert_int_equal(s.len, 2);
    assert_true(s.items[1].value == 9);
    top_samples_finish(&s);
}

static void test_broken_expositions_are_errors(void **state)
{
    struct top_samples s = {0};
    GS_AUTO_ERROR struct gs_error *err =
        top_source_read_exposition(GS_SLICE("<html>\n<body>no metrics</body>\n"), &s);
    assert_non_null(err);
    top_samples_finish(&s);
}

static void test_responses_of_queries_are_read(void **state)
{
    struct top_samples s = {0};
    assert_null(top_source_read_query(
        GS_SLICE(
            "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
            "{\"metric\":{\"__name__\":\"DCGM_FI_DEV_GPU_UTIL\",\"gpu\":\"0\"},\"value\":["
            "1700000000.5,\"83\"]},"
            "{\"metric\":{\"gpu\":\"0\"},\"value\":[1700000000.5,\"1699999999\"]},"
            "{\"metric\":{\"gpu\":\"1\"},\"values\":[[1700000000,\"1\"],[1700000002,\"NaN\"]]},"
            "{\"metric\":{\"gpu\":\"2\"},\"value\":[1700000000,7]}]}}"),
        &s));
    assert_int_equal(s.len, 4); // a value that is no text is none
    assert_int_equal(s.items[0].t_ms, 0);
    assert_int_equal(s.items[0].value, 83);
    assert_true(gs_slice_eq_str(s.items[1].name, TOP_TIMESTAMP));
    assert_int_equal(s.items[3].t_ms, 1700000002000);
    top_samples_finish(&s);
}

static void assert_query_error(const char *body, const char *want)
{
    struct top_samples s = {0};
    GS_AUTO_ERROR struct gs_error *err = top_source_read_query(gs_slice_of(body), &s);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), want));
    top_samples_finish(&s);
}

static void test_other_responses_are_errors(void **state)
{
    assert_query_error("", "not that of a Prometheus: it is empty");
    assert_query_error("<html>\n\033[2J", "not that of a Prometheus: <html>");
    assert_query_error("\033[2J", "\xef\xbf\xbd[2J");
    assert_query_error("{\"status\":\"error\",\"error\":\"no \\u001b[1mspace\"}",
                       "the server reports: no \xef\xbf\xbd[1mspace");
    assert_query_error("{\"status\":\"error\"}", "the server reports: no reason");
    assert_query_error("{\"status\":\"success\",\"data\":{\"result\":[{\"metric\":{\"a\":1}}]}}",
                       "labels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expositions_are_read),
        cmocka_unit_test(test_a_line_with_too_many_labels_leaves_the_others),
        cmocka_unit_test(test_broken_expositions_are_errors),
        cmocka_unit_test(test_responses_of_queries_are_read),
        cmocka_unit_test(test_other_responses_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
