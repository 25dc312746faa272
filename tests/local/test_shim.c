// SPDX-License-Identifier: Apache-2.0
// The supervisor process with real processes below it.
#include "local/kubelet/shim.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "patience.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static char dir[] = "/tmp/gpuscale-shim-XXXXXX";
static char exe[4096], log_path[64], status_path[64], pid_path[64];

static int set_up(void **state)
{
    (void)state;
    const char *build = getenv("GPUSCALE_BUILD_ROOT");
    snprintf(exe, sizeof(exe), "%s/src/cmd/gpuscale", build ? build : "build");
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    snprintf(status_path, sizeof(status_path), "%s/status", dir);
    snprintf(pid_path, sizeof(pid_path), "%s/pid", dir);
    // Orphans of a killed shim come to the test, which then sees that they end.
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static int tear_down(void **state)
{
    (void)state;
    kubelet_proc_signal_descendants(getpid(), SIGKILL);
    while (wait(NULL) > 0)
        ;
    GS_AUTO_FREE char *command = gs_format("rm -rf %s", dir);
    return system(command);
}

static void exec_shim(pid_t parent, const char *script)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", (int)parent);
    execl(exe, "gpuscale", "pod-shim", "--parent", text, "--grace", "60000", "--log", log_path,
          "--status", status_path, "--", "/bin/sh", "-c", script, (char *)NULL);
    _exit(99);
}

static pid_t start(const char *script)
{
    setenv("PIDFILE", pid_path, 1);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        exec_shim(parent, script);
    return pid;
}

static int wait_exit(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void read_text(const char *path, struct gs_buf *ret)
{
    gs_buf_finish(ret);
    gs_error_free(gs_file_read(path, 64 * 1024 * 1024, ret));
}

// The number that the script wrote to $PIDFILE.
static pid_t wait_pid(void)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000)) {
        read_text(pid_path, &text);
        int64_t pid;
        if (text.len && text.data[text.len - 1] == '\n') {
            assert_null(gs_parse_i64(gs_slice_trim(gs_buf_slice(&text)), 1, INT32_MAX, &pid));
            return (pid_t)pid;
        }
    }
    fail_msg("no %s", pid_path);
    return 0;
}

static bool is_gone(pid_t pid)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return kill(pid, 0) < 0;
}

static void assert_ends(pid_t pid)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000))
        if (is_gone(pid))
            return;
    fail_msg("process %d is still there", (int)pid);
}

static struct kubelet_shim_status wait_status(bool finished)
{
    struct kubelet_shim_status s = {0};
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(5000)) {
        struct gs_error *err = kubelet_shim_status_read(status_path, &s);
        bool ok = !err && (!finished || s.finished_ms);
        gs_error_free(err);
        if (ok)
            return s;
    }
    fail_msg("no status");
    return s;
}

static void test_logs_both_streams_and_reports_the_exit(void **state)
{
    (void)state;
    assert_int_equal(wait_exit(start("echo one; echo two >&2; printf three; exit 3")), 3);
    struct kubelet_shim_status s = wait_status(true);
    assert_int_equal(s.exit_code, 3);
    assert_int_equal(s.exec_errno, 0);
    assert_true(s.started_ms > 0 && s.finished_ms >= s.started_ms);
    GS_AUTO_BUF struct gs_buf log = {0};
    read_text(log_path, &log);
    assert_non_null(strstr(log.data, "Z stdout F one\n"));
    assert_non_null(strstr(log.data, "Z stderr F two\n"));
    assert_non_null(strstr(log.data, "Z stdout F three\n"));
    assert_int_equal(log.data[4], '-');
    assert_int_equal(log.data[29], 'Z'); // nine digits of the second
}

static void test_reports_a_command_that_does_not_exist(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execl(exe, "gpuscale", "pod-shim", "--status", status_path, "--log", log_path, "--",
              "no-such-command-here", (char *)NULL);
        _exit(99);
    }
    assert_int_equal(wait_exit(pid), KUBELET_SHIM_EXIT_NOT_STARTED);
    assert_int_equal(wait_status(true).exec_errno, ENOENT);
}

static void test_passes_options_of_the_command_through(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execl(exe, "gpuscale", "pod-shim", "--log", log_path, "--", "/bin/echo", "--help", "--log",
              "--", "-x", (char *)NULL);
        _exit(99);
    }
    assert_int_equal(wait_exit(pid), 0);
    GS_AUTO_BUF struct gs_buf log = {0};
    read_text(log_path, &log);
    assert_non_null(strstr(log.data, "F --help --log -- -x\n"));
}

static void test_a_killed_command_is_an_exit(void **state)
{
    (void)state;
    pid_t shim = start("echo $$ > $PIDFILE; exec sleep 1000");
    kill(wait_pid(), SIGKILL);
    assert_int_equal(wait_exit(shim), 137);
    assert_int_equal(wait_status(true).exit_code, 137);
}

static void test_orphans_end_with_the_command(void **state)
{
    (void)state;
    pid_t shim = start("(setsid sh -c 'setsid sleep 1000 & echo $! > $PIDFILE' &) ; "
                       "while ! [ -s $PIDFILE ]; do sleep 0.01; done; exit 0");
    pid_t orphan = wait_pid();
    assert_int_equal(wait_exit(shim), 0);
    assert_true(is_gone(orphan));
}

static void test_everything_ends_with_the_parent(void **state)
{
    (void)state;
    setenv("PIDFILE", pid_path, 1);
    pid_t parent = fork();
    if (parent == 0) {
        pid_t self = getpid();
        if (fork() == 0)
            exec_shim(self, "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ > $PIDFILE; "
                            "while :; do sleep 1; done' &); while :; do sleep 1; done");
        for (;;)
            pause();
    }
    pid_t orphan = wait_pid();
    struct kubelet_shim_status s = wait_status(false);
    kill(parent, SIGKILL);
    assert_ends(orphan);
    assert_ends(s.pid);
    assert_ends(s.shim_pid);
    assert_int_equal(wait_status(true).exit_code, 137);
}

static void test_the_command_ends_with_the_shim(void **state)
{
    (void)state;
    pid_t shim = start("echo $$ > $PIDFILE; exec sleep 1000");
    pid_t command = wait_pid();
    kill(shim, SIGKILL);
    assert_ends(command);
}

static void test_marked_processes_can_be_found(void **state)
{
    (void)state;
    GS_AUTO_FREE char *value = gs_format("%d-%lld", (int)getpid(), (long long)gs_mono_ns());
    GS_AUTO_FREE char *mark = gs_format("GPUSCALE_TEST_MARK=%s", value);
    setenv("GPUSCALE_TEST_MARK", value, 1);
    pid_t shim = start("setsid sleep 1000 & echo $! > $PIDFILE; exec sleep 1000");
    unsetenv("GPUSCALE_TEST_MARK");
    pid_t orphan = wait_pid();
    kill(shim, SIGKILL);
    assert_int_equal(kubelet_proc_kill_marked(mark, "GPUSCALE_TEST_OTHER=1"), 0);
    assert_false(is_gone(orphan));
    // While it executes another program a process has no environment to be seen.
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end && !is_gone(orphan); usleep(5000))
        kubelet_proc_kill_marked(mark, NULL);
    assert_true(is_gone(orphan));
}

static void test_sigterm_is_forwarded(void **state)
{
    (void)state;
    pid_t shim = start("trap 'exit 7' TERM; echo $$ > $PIDFILE; while :; do sleep 0.05; done");
    wait_pid();
    kill(shim, SIGTERM);
    assert_int_equal(wait_exit(shim), 7);
}

static void test_the_grace_time_ends(void **state)
{
    (void)state;
    pid_t shim = start("trap '' TERM; echo $$ > $PIDFILE; while :; do sleep 0.05; done");
    wait_pid();
    kill(shim, SIGTERM); // a minute of grace, which the next one shortens
    sigqueue(shim, KUBELET_SHIM_SIGNAL_STOP, (union sigval){.sival_int = 50});
    assert_int_equal(wait_exit(shim), 137);
}

static void test_does_not_start_without_its_parent(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        exec_shim(1, "echo $$ > $PIDFILE");
    assert_int_equal(wait_exit(pid), KUBELET_SHIM_EXIT_NOT_STARTED);
    assert_int_equal(access(pid_path, F_OK), -1);
}

static void test_long_lines_are_cut_and_files_rotate(void **state)
{
    (void)state;
    assert_int_equal(
        wait_exit(start("head -c 40000 /dev/zero | tr '\\0' x; echo; "
                        "head -c 15000000 /dev/zero | tr '\\0' y | fold -w 1000; echo; echo end")),
        0);
    GS_AUTO_FREE char *old_path = gs_format("%s.1", log_path);
    GS_AUTO_BUF struct gs_buf old = {0}, log = {0};
    read_text(old_path, &old);
    read_text(log_path, &log);
    assert_true(old.len > 9u * 1024 * 1024 && old.len <= KUBELET_SHIM_LOG_MAX_BYTES);
    assert_true(log.len > 1024 * 1024 && log.len <= KUBELET_SHIM_LOG_MAX_BYTES);
    assert_non_null(strstr(old.data, "stdout P xxx"));
    assert_string_equal(log.data + log.len - strlen("stdout F end\n"), "stdout F end\n");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_logs_both_streams_and_reports_the_exit),
        T(test_reports_a_command_that_does_not_exist),
        T(test_passes_options_of_the_command_through),
        T(test_a_killed_command_is_an_exit),
        T(test_orphans_end_with_the_command),
        T(test_everything_ends_with_the_parent),
        T(test_the_command_ends_with_the_shim),
        T(test_marked_processes_can_be_found),
        T(test_sigterm_is_forwarded),
        T(test_the_grace_time_ends),
        T(test_does_not_start_without_its_parent),
        T(test_long_lines_are_cut_and_files_rotate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
