// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

#include <sys/stat.h>
#include <unistd.h>

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

// The line that standard error gets if JOURNAL_STREAM has this value; NULL: that of the stream.
static char *line_for_journal(const char *value)
{
    FILE *stream = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_true(stream && saved >= 0);
    assert_true(dup2(fileno(stream), STDERR_FILENO) >= 0);
    struct stat st;
    assert_int_equal(fstat(STDERR_FILENO, &st), 0);
    GS_AUTO_FREE char *own =
        gs_format("%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", value ? value : own, 1);
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    gs_warn("test", "a %s", value ? "file" : "journal");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    unsetenv("JOURNAL_STREAM");
    gs_log_configure(GS_LOG_INFO, GS_LOG_TEXT);
    char line[200] = "";
    rewind(stream);
    assert_non_null(fgets(line, sizeof(line), stream));
    fclose(stream);
    return gs_strdup(line);
}

static void test_journal_gets_priorities_instead_of_times(void **state)
{
    GS_AUTO_FREE char *journal = line_for_journal(NULL);
    assert_string_equal(journal, "<4>warn  test: a journal\n");
    GS_AUTO_FREE char *file = line_for_journal("1:2");
    assert_true(file[0] == '2' && strstr(file, " warn  test: a file\n"));
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
        cmocka_unit_test(test_journal_gets_priorities_instead_of_times),
        cmocka_unit_test(test_repeats_are_folded),
        cmocka_unit_test(test_flag_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
