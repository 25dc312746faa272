// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/log.h"
#include "up/up_private.h"

#include <signal.h>

struct seen {
    struct gs_buf lines;
    int exits;
    int64_t status;
    int signal;
};

static void on_line(void *arg, const char *line)
{
    struct seen *s = arg;
    gs_buf_addf(&s->lines, "%s|", line);
}

static void on_exit_seen(void *arg, int64_t status, int term_signal)
{
    struct seen *s = arg;
    s->exits++;
    s->status = status;
    s->signal = term_signal;
}

static struct up_child *start(uv_loop_t *loop, const char *script, bool restart, struct seen *s)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const env[] = {"GREETING=hello", NULL};
    const struct up_child_config cfg = {.name = "test",
                                        .argv = argv,
                                        .extra_env = env,
                                        .restart = restart,
                                        .on_line = on_line,
                                        .on_exit = on_exit_seen,
                                        .arg = s};
    struct up_child *c = NULL;
    assert_ok(up_child_start(loop, &cfg, &c));
    return c;
}

static void finish(uv_loop_t *loop, struct up_child *c, struct seen *s)
{
    up_child_free(c);
    uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(loop), 0);
    gs_buf_finish(&s->lines);
}

static void test_output_and_exit_code(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct seen s = {0};
    struct up_child *c =
        start(&loop, "echo $GREETING; echo to stderr >&2; printf 'no newline'; exit 3", false, &s);
    while (!s.exits || !strstr(s.lines.data ? s.lines.data : "", "newline"))
        uv_run(&loop, UV_RUN_ONCE);
    assert_string_equal(s.lines.data, "hello|to stderr|no newline|");
    assert_int_equal(s.status, 3);
    assert_int_equal(s.exits, 1);
    finish(&loop, c, &s);
}

static void test_what_is_killed_starts_again(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct seen s = {0};
    gs_log_configure(GS_LOG_ERROR, GS_LOG_TEXT);
    struct up_child *c = start(&loop, "echo started; kill -9 $$", true, &s);
    while (s.exits < 2)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(s.signal, SIGKILL);
    assert_non_null(strstr(s.lines.data, "started|started|"));
    finish(&loop, c, &s);
}

static void test_stop_ends_also_who_ignores_it(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct seen s = {0};
    struct up_child *c =
        start(&loop, "trap '' TERM; echo ready; while :; do sleep 0.1; done", true, &s);
    while (!s.lines.len)
        uv_run(&loop, UV_RUN_ONCE);
    up_child_stop(c);
    while (!s.exits)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(s.signal, SIGKILL);
    finish(&loop, c, &s);
}

// The timer of a freed child is closed before the loop gets to know of the end of the process.
static void test_process_that_ends_after_its_child_is_freed_is_ignored(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct seen s = {0};
    sigset_t child, old;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    struct up_child *c = start(&loop, "sleep 1000", true, &s);
    assert_int_equal(sigprocmask(SIG_BLOCK, &child, &old), 0);
    up_child_free(c);
    for (int turns = 0; turns < 3; turns++)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(s.exits, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    gs_buf_finish(&s.lines);
}

static void test_a_missing_program_is_an_error(void **state)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    const char *const argv[] = {"/nonexistent/program", NULL};
    const struct up_child_config cfg = {.name = "x", .argv = argv};
    struct up_child *c = NULL;
    assert_error(up_child_start(&loop, &cfg, &c), GS_EIO, "cannot start /nonexistent/program");
    assert_null(c);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_exit_code),
        cmocka_unit_test(test_what_is_killed_starts_again),
        cmocka_unit_test(test_stop_ends_also_who_ignores_it),
        cmocka_unit_test(test_process_that_ends_after_its_child_is_freed_is_ignored),
        cmocka_unit_test(test_a_missing_program_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
