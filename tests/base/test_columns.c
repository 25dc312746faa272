// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/columns.h"
#include "base/mem.h"

static size_t width(const char *s)
{
    return gs_columns_width(gs_slice_of(s));
}

static void assert_fit(const char *s, size_t columns, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_columns_fit(&out, gs_slice_of(s), columns);
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
    gs_columns_pad(&out, GS_SLICE("模"), 4);
    gs_columns_pad(&out, GS_SLICE("abcdef"), 3);
    assert_string_equal(out.data, "模  ab…");
}

static void test_lines_break_at_blanks(void **state)
{
    struct gs_slice rest = GS_SLICE("one two  threefourfive 模型");
    const char *const want[] = {"one two", "threefo", "urfive", "模型"};
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        GS_AUTO_FREE char *line = gs_slice_dup(gs_columns_wrap(&rest, 7));
        assert_string_equal(line, want[i]);
    }
    assert_int_equal(rest.len, 0);
    rest = GS_SLICE("模");
    assert_int_equal(gs_columns_wrap(&rest, 1).len, 3); // goes on, also where nothing fits
}

static void assert_clean(const char *s, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_columns_clean(&out, gs_slice_of(s));
    assert_string_equal(out.data, want);
}

#define REPLACED "\xef\xbf\xbd"

static void test_text_of_others_cannot_control_the_terminal(void **state)
{
    assert_clean("web-0 模型 é", "web-0 模型 é");
    assert_clean("a\033[2Jb\tc\nd\x7f", "a" REPLACED "[2Jb" REPLACED "c" REPLACED "d" REPLACED);
    assert_clean("\xc2\x9b"
                 "2J",
                 REPLACED "2J"); // C1: CSI
    assert_clean("\xe2\x80\xae"
                 "abc\xe2\x81\xa6",
                 REPLACED "abc" REPLACED);   // bidirectional
    assert_clean("e\xcc\x81", "e" REPLACED); // combining
    assert_clean("\xff\xe2x\xe2\x82", REPLACED REPLACED "x" REPLACED REPLACED);
    assert_clean("\xc0\x9b[2J\xe0\x80\x9b", REPLACED "[2J" REPLACED); // overlong
    assert_clean("\xf7\xbf\xbf\xbf\xed\xa0\x80", REPLACED REPLACED);  // past U+10FFFF, surrogate
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_what_is_cut_ends_with_an_ellipsis),
        cmocka_unit_test(test_columns_are_filled_up),
        cmocka_unit_test(test_lines_break_at_blanks),
        cmocka_unit_test(test_text_of_others_cannot_control_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
