// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "base/table.h"

static void assert_printed(const struct gs_table *t, struct gs_table_style style, const char *want)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_table_print(t, &style, &out);
    assert_string_equal(out.data, want);
}

static struct gs_table *example(void)
{
    static const char *const cells[] = {"NAME", "GPUS", "node-1", "8", "日本", "16"};
    struct gs_table *t = gs_table_new(3, 2);
    for (size_t i = 0; i < GS_ARRAY_LEN(cells); i++)
        gs_table_add(t, cells[i]);
    return t;
}

static void test_columns_are_as_wide_as_their_widest_cell(void **state)
{
    GS_CLEANUP(gs_table_freep) struct gs_table *t = example();
    assert_printed(t, (struct gs_table_style){.gap = 3, .left = SIZE_MAX},
                   "NAME     GPUS\nnode-1   8\n日本     16\n");
    assert_printed(t, (struct gs_table_style){.gap = 2, .left = 1, .indent = 1},
                   " NAME    GPUS\n node-1     8\n 日本      16\n");
    assert_printed(t, (struct gs_table_style){.gap = 1}, "  NAME GPUS\nnode-1    8\n  日本   16\n");
}

static void test_styles(void **state)
{
    GS_CLEANUP(gs_table_freep) struct gs_table *t = example();
    assert_printed(t, (struct gs_table_style){.gap = 1, .left = SIZE_MAX, .fill = true},
                   "NAME   GPUS \nnode-1 8    \n日本   16   \n");
    assert_printed(t, (struct gs_table_style){.least_first = 8, .least = 6, .left = 1},
                   "NAME      GPUS\nnode-1       8\n日本        16\n");
    assert_printed(t, (struct gs_table_style){.gap = 1, .left = SIZE_MAX, .bold = true},
                   "\x1b[1mNAME   GPUS\x1b[0m\nnode-1 8\n日本   16\n");
}

static void test_cells_that_are_not_written(void **state)
{
    GS_CLEANUP(gs_table_freep) struct gs_table *t = gs_table_new(2, 2);
    gs_table_seek(t, 1, 0);
    gs_table_addf(t, "%d%%", 5);
    gs_table_add(t, "");
    gs_table_add(t, "behind the last row");
    gs_table_seek(t, 0, 1);
    gs_table_add(t, "a");
    gs_table_seek(t, 0, 1);
    gs_table_add(t, "again");
    assert_printed(t, (struct gs_table_style){.gap = 1, .left = SIZE_MAX}, "-  again\n5% \n");
    GS_CLEANUP(gs_table_freep) struct gs_table *none = gs_table_new(0, 0);
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_table_add(none, "x");
    gs_table_print(none, &(struct gs_table_style){0}, &out);
    assert_int_equal(out.len, 0);
}

// A server may send series that would make more cells than any machine has memory for.
static void test_too_large_tables(void **state)
{
    assert_null(gs_table_new(SIZE_MAX / 2, 3));
    assert_null(gs_table_new(SIZE_MAX / 8, 2));
    assert_null(gs_table_new(SIZE_MAX / 16, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(test_styles),
        cmocka_unit_test(test_cells_that_are_not_written),
        cmocka_unit_test(test_too_large_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
