// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "up/up_private.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

// The standard files of this test are exchanged meanwhile, so nothing may fail in between.
static void rotate_with(const char *path, off_t size)
{
    struct up_detached d = {.ready = -1, .log_path = (char *)(uintptr_t)path};
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int unusable = log < 0 || ftruncate(log, size) < 0;
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    up_detach_rotate(&d);
    ssize_t written = write(STDERR_FILENO, "x\n", 2);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(log);
    assert_int_equal(unusable, 0);
    assert_int_equal(written, 2);
}

static void test_a_large_log_begins_again(void **state)
{
    char dir[] = "/tmp/gpuscale-detach-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *log = gs_format("%s/up.log", dir), *old = gs_format("%s/up.log.1", dir);
    rotate_with(log, 1000);
    assert_int_equal(size_of(log), 1002);
    assert_int_equal(size_of(old), -1);
    rotate_with(log, 9 << 20);
    assert_int_equal(size_of(log), 2);
    assert_int_equal(size_of(old), 9 << 20);
    rotate_with(log, 10 << 20); // the oldest is dropped
    assert_int_equal(size_of(log), 2);
    assert_int_equal(size_of(old), 10 << 20);
    gs_remove_tree(dir);
}

static void test_in_the_foreground_nothing_is_rotated(void **state)
{
    struct up_detached d = {.ready = -1};
    up_detach_rotate(&d);
    up_detach_ready(&d, "text");
    up_detach_finish(&d);
    assert_int_equal(d.ready, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_large_log_begins_again),
        cmocka_unit_test(test_in_the_foreground_nothing_is_rotated),
    };
    return cmocka_run_group_tests_name("detach", tests, NULL, NULL);
}
