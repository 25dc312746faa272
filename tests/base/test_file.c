// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdlib.h>
#include <sys/stat.h>

static void test_write_then_read(void **state)
{
    char dir[] = "/tmp/gs-file-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *deep = gs_format("%s/a/b", dir);
    GS_AUTO_FREE char *path = gs_format("%s/x", deep);
    GS_AUTO_BUF struct gs_buf back = {0};
    assert_ok(gs_mkdir_p(deep, 0700));
    assert_ok(gs_mkdir_p(deep, 0700));
    assert_ok(gs_file_write_atomic(path, 0600, GS_SLICE("secret")));
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(gs_file_read(path, 100, &back));
    assert_string_equal(back.data, "secret");
    struct gs_buf small = {0};
    assert_error(gs_file_read(path, 3, &small), GS_ELIMIT, "larger than 3 bytes");
    assert_error(gs_file_read("/nonexistent/x", 3, &small), GS_ENOTFOUND, "/nonexistent/x");
    assert_error(gs_mkdir_p(path, 0700), GS_EEXIST, "not a directory");
    // The name of the temporary file would say nothing.
    assert_error(gs_file_write_atomic("/nonexistent/x", 0600, GS_SLICE("")), GS_ENOTFOUND,
                 "writing /nonexistent/x: ");
    GS_AUTO_FREE char *command = gs_format("rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_an_empty_file_is_an_empty_string(void **state)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    assert_ok(gs_file_read("/dev/null", 10, &b));
    assert_string_equal(b.data, "");
}

static void test_folders(void **state)
{
    static const char *const cases[][2] = {
        {"a", "."}, {"/a", "/"}, {"/a/b", "/a"}, {"a/b/c", "a/b"}, {"./a", "."}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *folder = gs_folder_of(cases[i][0]);
        assert_string_equal(folder, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_write_then_read),
                                       cmocka_unit_test(test_folders),
                                       cmocka_unit_test(test_an_empty_file_is_an_empty_string)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
