// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/log.h"

static void keep(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static void test_lines(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_log_set_sink(keep, &out);
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_debug("test", "not shown");
    gs_warn("test", "a line\nbreak %d", 7);
    assert_non_null(strstr(out.data, "warn  test: a line break 7\n"));
    assert_null(strstr(out.data, "not shown"));
    gs_buf_clear(&out);
    gs_log_configure(GS_LOG_DEBUG, GS_LOG_JSON);
    gs_debug("test", "quote \" tab \t");
    assert_non_null(strstr(out.data,
                           "\"level\":\"debug\",\"component\":\"test\",\"msg\":\"quote \\\" tab "
                           "\\u0009\"}\n"));
    gs_log_set_sink(NULL, NULL);
}

static void test_repeats_are_folded(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_log_set_sink(keep, &out);
    for (int i = 0; i < 100; i++)
        gs_err("test", "the same");
    gs_err("test", "another");
    gs_log_set_sink(NULL, NULL);
    size_t lines = 0;
    for (size_t i = 0; i < out.len; i++)
        lines += out.data[i] == '\n';
    assert_true(lines < 100);
    assert_non_null(strstr(out.data, "repeated"));
}

static void test_flag_values(void **state)
{
    assert_error(gs_log_configure_text("loud", "text"), GS_EINVAL, "--log-level");
    assert_error(gs_log_configure_text("info", "xml"), GS_EINVAL, "--log-format");
    assert_ok(gs_log_configure_text("warn", "text"));
    assert_int_equal(gs_log_level(), GS_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_repeats_are_folded),
        cmocka_unit_test(test_flag_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
