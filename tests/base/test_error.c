// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <errno.h>

static void test_wrapping_keeps_the_code(void **state)
{
    struct gs_error *err = gs_error_new(GS_ELIMIT, "more than %d", 3);
    err = gs_error_wrap(err, "reading %s", "x.yaml");
    assert_string_equal(gs_error_message(err), "reading x.yaml: more than 3");
    assert_int_equal(gs_error_code(err), GS_ELIMIT);
    gs_error_free(err);
    gs_error_free(NULL);
}

static void test_errno_becomes_code_and_text(void **state)
{
    assert_error(gs_error_errno(ENOENT, "/x"), GS_ENOTFOUND, "/x: No such file or directory");
    assert_error(gs_error_errno(EADDRINUSE, "port"), GS_EEXIST, "port: Address already in use");
    assert_error(gs_error_errno(EIO, "disk"), GS_EIO, "disk: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrapping_keeps_the_code),
                                       cmocka_unit_test(test_errno_becomes_code_and_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
