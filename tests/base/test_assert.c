// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/assert.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_a_true_condition_has_no_effect(void **state)
{
    int one = 1;
    gs_assert(one == 1);
    gs_assert_debug(one == 1);
    (void)state;
}

// Runs fn in a child whose stderr is returned; the child must have aborted.
static void expect_abort(void (*fn)(void), char *ret, size_t size)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(fds[1]);
    size_t len = 0;
    for (ssize_t n; len + 1 < size && (n = read(fds[0], ret + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    ret[len] = '\0';
    close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void break_an_invariant(void)
{
    int one = 1;
    gs_assert(one == 2);
}

static void test_a_failure_prints_where_and_what(void **state)
{
    char text[512];
    expect_abort(break_an_invariant, text, sizeof(text));
    assert_non_null(strstr(text, "test_assert.c:"));
    assert_non_null(strstr(text, "break_an_invariant: assertion failed: one == 2"));
    (void)state;
}

static void *use_elsewhere(void *arg)
{
    const struct gs_thread_owner *o = arg;
    return gs_thread_owner_is_current(o) ? arg : NULL;
}

static void test_an_owner_is_one_thread(void **state)
{
    struct gs_thread_owner o = {0};
    pthread_t thread;
    void *allowed = NULL;
    assert_true(gs_thread_owner_is_current(&o)); // not bound
    gs_thread_owner_bind(&o);
    gs_thread_owner_assert(&o);
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, &o), 0);
    assert_int_equal(pthread_join(thread, &allowed), 0);
    assert_null(allowed);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_true_condition_has_no_effect),
        cmocka_unit_test(test_a_failure_prints_where_and_what),
        cmocka_unit_test(test_an_owner_is_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
