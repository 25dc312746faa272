// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"

static void test_appending(void **state)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_add_str(&b, "a");
    gs_buf_add_char(&b, 'b');
    gs_buf_addf(&b, "%d-%s", 12, "x");
    gs_buf_add_u64(&b, UINT64_MAX);
    assert_string_equal(b.data, "ab12-x18446744073709551615");
    gs_buf_consume(&b, 2);
    assert_string_equal(b.data, "12-x18446744073709551615");
    gs_buf_consume(&b, 1000);
    assert_int_equal(b.len, 0);
}

static void test_the_limit_drops_whole_appends(void **state)
{
    GS_AUTO_BUF struct gs_buf b = {.limit = 4};
    gs_buf_add_str(&b, "abc");
    gs_buf_add_str(&b, "de");
    assert_true(b.overflow);
    assert_string_equal(b.data, "abc");
    gs_buf_clear(&b);
    assert_false(b.overflow);
    gs_buf_addf(&b, "%s", "12345");
    assert_true(b.overflow);
    assert_int_equal(b.len, 0);
}

static void test_take(void **state)
{
    struct gs_buf b = {0};
    char *empty = gs_buf_take(&b);
    assert_string_equal(empty, "");
    free(empty);
    gs_buf_add_str(&b, "x");
    char *text = gs_buf_take(&b);
    assert_string_equal(text, "x");
    assert_null(b.data);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appending),
        cmocka_unit_test(test_the_limit_drops_whole_appends),
        cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
