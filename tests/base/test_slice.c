// SPDX-License-Identifier: Apache-2.0
#include "base/slice.h"
#include "unit.h"

#include <ctype.h>
#include <stdlib.h>

static void test_cut(void **state)
{
    struct gs_slice s = GS_SLICE("a,,b");
    assert_true(gs_slice_eq_str(gs_slice_cut(&s, ','), "a"));
    assert_true(gs_slice_eq_str(gs_slice_cut(&s, ','), ""));
    assert_true(gs_slice_eq_str(gs_slice_cut(&s, ','), "b"));
    assert_null(s.data);
}

static void test_trim_and_ends(void **state)
{
    assert_true(gs_slice_eq_str(gs_slice_trim(GS_SLICE(" \t x y \r\n")), "x y"));
    assert_int_equal(gs_slice_trim(GS_SLICE("  ")).len, 0);
    assert_true(gs_slice_starts(GS_SLICE("GPU-1"), "GPU-"));
    assert_false(gs_slice_starts(GS_SLICE("G"), "GPU-"));
    assert_true(gs_slice_ends(GS_SLICE("x_total"), "_total"));
    assert_true(gs_streq(NULL, NULL));
    assert_false(gs_streq(NULL, ""));
    assert_false(gs_starts(NULL, ""));
    static const char *const texts[] = {"a", "ab"};
    assert_true(gs_is_one_of("ab", texts, 2));
    assert_false(gs_is_one_of("ab", texts, 1));
    assert_false(gs_is_one_of("", texts, 2));
    assert_false(gs_is_one_of(NULL, texts, 2));
}

static void test_texts_are_sorted(void **state)
{
    const char *texts[] = {"b", "", "a10", "a"};
    qsort(texts, 4, sizeof(*texts), gs_compare_texts);
    assert_string_equal(texts[0], "");
    assert_string_equal(texts[1], "a");
    assert_string_equal(texts[2], "a10");
    assert_string_equal(texts[3], "b");
}

static void test_characters_of_words(void **state)
{
    for (int c = 1; c < 256; c++)
        assert_int_equal(gs_is_word((char)c), (c < 128 && isalnum(c)) || c == '_');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_sorted), cmocka_unit_test(test_characters_of_words),
        cmocka_unit_test(test_cut), cmocka_unit_test(test_trim_and_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
