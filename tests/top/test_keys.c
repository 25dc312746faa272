// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "top/top_private.h"

static struct top_ui new_ui(void)
{
    struct top_ui ui = {.interval_ms = 2000};
    for (int i = 0; i < TOP_PANES; i++) {
        ui.order[i].column = -1;
        ui.n_rows[i] = 10;
        ui.shown[i] = 4;
    }
    return ui;
}

static void type(struct top_ui *ui, const char *keys)
{
    for (; *keys; keys++)
        top_ui_key(ui, *keys);
}

static void test_the_cursor_stays_within_the_rows(void **state)
{
    static const struct {
        int key;
        size_t want;
    } steps[] = {{TOP_KEY_UP, 0},        {TOP_KEY_DOWN, 1},    {'j', 2}, {'k', 1},
                 {TOP_KEY_PAGE_DOWN, 4}, {TOP_KEY_END, 9},     {'j', 9}, {TOP_KEY_PAGE_UP, 6},
                 {TOP_KEY_HOME, 0},      {TOP_KEY_PAGE_UP, 0}, {'G', 9}, {'g', 0}};
    struct top_ui ui = new_ui();
    for (size_t i = 0; i < GS_ARRAY_LEN(steps); i++) {
        top_ui_key(&ui, steps[i].key);
        assert_int_equal(ui.cursor[TOP_GPUS], steps[i].want);
    }
    ui.n_rows[TOP_GPUS] = 0;
    top_ui_key(&ui, TOP_KEY_DOWN);
    assert_int_equal(ui.cursor[TOP_GPUS], 0);
    top_ui_finish(&ui);
}

static void test_panes_change_with_tab_and_numbers(void **state)
{
    struct top_ui ui = new_ui();
    top_ui_key(&ui, TOP_KEY_TAB);
    assert_int_equal(ui.pane, TOP_PODS);
    top_ui_key(&ui, TOP_KEY_BACK_TAB);
    top_ui_key(&ui, TOP_KEY_BACK_TAB);
    assert_int_equal(ui.pane, TOP_PROCESSES);
    type(&ui, "1");
    assert_int_equal(ui.pane, TOP_GPUS);
    type(&ui, "2z");
    assert_int_equal(ui.pane, TOP_PODS);
    assert_true(ui.only_pane);
}

static void test_the_order_passes_all_columns_but_the_history(void **state)
{
    struct top_ui ui = new_ui();
    const struct top_column *columns = top_columns_of(TOP_GPUS);
    int n = 0, seen = 0;
    while (columns[n].name)
        n++;
    do {
        type(&ui, "s");
        int c = ui.order[TOP_GPUS].column;
        assert_true(c < 0 || !gs_streq(columns[c].name, "history"));
        seen++;
    } while (ui.order[TOP_GPUS].column >= 0 && seen <= n);
    assert_int_equal(seen, n); // all but the history, and the natural order
    type(&ui, "S");
    assert_int_equal(ui.order[TOP_GPUS].column, n - 1);
    type(&ui, "r");
    assert_true(ui.order[TOP_GPUS].reverse);
    type(&ui, "U");
    assert_int_equal(ui.order[TOP_GPUS].column, top_columns_find(TOP_GPUS, "util"));
    assert_false(ui.order[TOP_GPUS].reverse);
    type(&ui, "N");
    assert_int_equal(ui.order[TOP_GPUS].column, -1);
}

static void test_a_filter_is_typed_kept_and_cancelled(void **state)
{
    struct top_ui ui = new_ui();
    type(&ui, "/qs?");
    top_ui_key(&ui, 0xe9);
    assert_string_equal(ui.filter, "qs?\xc3\xa9"); // keys have no other meaning
    assert_false(ui.quit || ui.help);
    top_ui_key(&ui, TOP_KEY_BACKSPACE);
    assert_string_equal(ui.filter, "qs?");
    top_ui_key(&ui, TOP_KEY_ENTER);
    assert_false(ui.typing);
    type(&ui, "/x");
    top_ui_key(&ui, TOP_KEY_ESCAPE);
    assert_string_equal(ui.filter, "qs?");
    top_ui_key(&ui, TOP_KEY_ESCAPE);
    assert_string_equal(ui.filter, "");
    type(&ui, "/");
    for (int i = 0; i < 1000; i++)
        top_ui_key(&ui, 0x6a21);
    assert_int_equal(strlen(ui.filter) % 3, 0); // no half character
    top_ui_key(&ui, 0x9b);                      // a control character
    top_ui_key(&ui, TOP_KEY_UP);
    top_ui_key(&ui, 1);
    assert_int_equal(strlen(ui.filter) % 3, 0);
}

static void test_q_leaves_a_page_before_the_program(void **state)
{
    struct top_ui ui = new_ui();
    type(&ui, "?");
    assert_true(ui.help);
    type(&ui, "q");
    assert_false(ui.help || ui.quit);
    top_ui_key(&ui, TOP_KEY_ENTER);
    assert_true(ui.details);
    top_ui_key(&ui, TOP_KEY_ESCAPE);
    assert_false(ui.details);
    type(&ui, "q");
    assert_true(ui.quit);
    ui = new_ui();
    type(&ui, "?");
    top_ui_key(&ui, 3);
    assert_true(ui.quit);
}

static void test_the_interval_has_limits(void **state)
{
    struct top_ui ui = new_ui();
    type(&ui, "+");
    assert_int_equal(ui.interval_ms, 4000);
    type(&ui, "------------");
    assert_int_equal(ui.interval_ms, 500);
    for (int i = 0; i < 100; i++)
        type(&ui, "+");
    assert_int_equal(ui.interval_ms, 3600000);
    type(&ui, " ");
    assert_true(ui.paused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cursor_stays_within_the_rows),
        cmocka_unit_test(test_panes_change_with_tab_and_numbers),
        cmocka_unit_test(test_the_order_passes_all_columns_but_the_history),
        cmocka_unit_test(test_a_filter_is_typed_kept_and_cancelled),
        cmocka_unit_test(test_q_leaves_a_page_before_the_program),
        cmocka_unit_test(test_the_interval_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
