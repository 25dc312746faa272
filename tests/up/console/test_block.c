// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "up/console/console_private.h"

static struct console_block *example(size_t rows, size_t columns)
{
    struct console_block *b = console_block_new(rows, columns);
    console_block_section(b, (struct console_section){.importance = 9, .least = 1});
    console_block_entry(b, GS_SLICE("head"));
    console_block_section(b, (struct console_section){5, 2, "GPUs"});
    for (int i = 0; i < 4; i++) {
        GS_AUTO_FREE char *text = gs_format("gpu %d", i);
        console_block_entry(b, gs_slice_of(text));
    }
    console_block_section(b, (struct console_section){7, 1, "problems"});
    console_block_text(b, 0, "! ", "  ", GS_SLICE("it does not work at all"));
    console_block_text(b, 1, "  > ", "    ", GS_SLICE("mend it"));
    console_block_section(b, (struct console_section){.importance = 1});
    console_block_entry(b, GS_SLICE("hint"));
    return b;
}

static void assert_block(size_t rows, size_t columns, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct console_block *b = example(rows, columns);
    console_block_print(b, &out);
    console_block_free(b);
    assert_string_equal(out.data, want);
}

static void test_all_of_it_where_there_is_room(void **state)
{
    static const char whole[] = "head\ngpu 0\ngpu 1\ngpu 2\ngpu 3\n! it does not\n  work at all\n"
                                "  > mend it\nhint\n";
    assert_block(0, 14, whole);
    assert_block(9, 14, whole);
}

static void test_the_unimportant_goes_first(void **state)
{
    assert_block(8, 14, "head\ngpu 0\ngpu 1\ngpu 2\ngpu 3\n! it does not…\n  > mend it\nhint\n");
    assert_block(7, 14, "head\ngpu 0\ngpu 1\n  … 2 more GP…\n! it does not…\n  > mend it\nhint\n");
    assert_block(6, 14, "head\ngpu 0\ngpu 1\n  … 2 more GP…\n! it does not…\n  > mend it\n");
    assert_block(4, 14, "head\ngpu 0\n  … 3 more GP…\n! it does not…\n");
    assert_block(3, 14, "head\n  … 4 GPUs\n! it does not…\n");
    assert_block(2, 14, "head\n! it does not…\n");
    assert_block(1, 14, "head\n");
}

static void test_no_block_is_larger_than_its_window(void **state)
{
    for (size_t rows = 1; rows < 12; rows++) {
        for (size_t columns = 1; columns < 30; columns++) {
            GS_AUTO_BUF struct gs_buf out = {0};
            struct console_block *b = example(rows, columns);
            console_block_print(b, &out);
            console_block_free(b);
            size_t n = 0;
            struct gs_slice rest = gs_buf_slice(&out);
            for (; rest.len; n++)
                gs_slice_cut(&rest, '\n');
            assert_true(n <= rows);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it_where_there_is_room),
        cmocka_unit_test(test_the_unimportant_goes_first),
        cmocka_unit_test(test_no_block_is_larger_than_its_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
