// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "up/console/console_private.h"

static size_t width(const char *s)
{
    return console_text_width(gs_slice_of(s));
}

static void assert_fit(const char *s, size_t columns, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    console_text_fit(&out, gs_slice_of(s), columns);
    assert_string_equal(out.len ? out.data : "", want);
}

static void test_widths(void **state)
{
    assert_int_equal(width(""), 0);
    assert_int_equal(width("abc"), 3);
    assert_int_equal(width("1 → 3 █░…"), 9);
    assert_int_equal(width("\033[1mbold\033[0m"), 4);
    assert_int_equal(width("模型"), 4);       // wide
    assert_int_equal(width("e\xcc\x81t"), 2); // a combining accent
    assert_int_equal(width("\xff\xe2x"), 3);  // no UTF-8
}

static void test_what_is_cut_ends_with_an_ellipsis(void **state)
{
    assert_fit("abcdef", 6, "abcdef");
    assert_fit("abcdef", 5, "abcd…");
    assert_fit("abcdef", 1, "…");
    assert_fit("abcdef", 0, "");
    assert_fit("模型名", 5, "模型…");
    assert_fit("模型名", 4, "模…"); // never half a character
    assert_fit("a\033[1mbcd\033[0m", 3, "a\033[1mb…\033[0m");
}

static void test_columns_are_filled_up(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    console_text_column(&out, GS_SLICE("模"), 4);
    console_text_column(&out, GS_SLICE("abcdef"), 3);
    assert_string_equal(out.data, "模  ab…");
}

static void test_lines_break_at_blanks(void **state)
{
    struct gs_slice rest = GS_SLICE("one two  threefourfive 模型");
    const char *const want[] = {"one two", "threefo", "urfive", "模型"};
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        GS_AUTO_FREE char *line = gs_slice_dup(console_text_wrap(&rest, 7));
        assert_string_equal(line, want[i]);
    }
    assert_int_equal(rest.len, 0);
    rest = GS_SLICE("模");
    assert_int_equal(console_text_wrap(&rest, 1).len, 3); // goes on, also where nothing fits
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_what_is_cut_ends_with_an_ellipsis),
        cmocka_unit_test(test_columns_are_filled_up),
        cmocka_unit_test(test_lines_break_at_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
