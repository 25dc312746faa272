// SPDX-License-Identifier: Apache-2.0
// The table of commands against the groups and the flags of their help.
#include "cmd/commands.h"
#include "unit.h"

static size_t times_in_groups(const struct gs_command *command)
{
    size_t n = 0;
    for (const struct gs_command_group *g = cmd_groups; g->heading; g++)
        for (const struct gs_command *const *c = g->commands; *c; c++)
            n += *c == command;
    return n;
}

static void test_the_help_lists_each_command_once(void **state)
{
    for (size_t i = 0; cmd_all[i]; i++) {
        const struct gs_command *c = cmd_all[i];
        size_t want = c->summary && !c->within;
        if (times_in_groups(c) != want)
            fail_msg("%s is %zu times in the groups of the help", c->name, times_in_groups(c));
    }
}

static void test_main_flags_exist(void **state)
{
    size_t n = 0;
    for (size_t i = 0; cmd_all[i]; i++) {
        struct gs_slice rest = gs_slice_of(cmd_all[i]->main_flags);
        while (rest.data) {
            struct gs_slice name = gs_slice_cut(&rest, ' ');
            if (!gs_options_find(cmd_all[i], name))
                fail_msg("%s has no flag " GS_SLICE_FMT, cmd_all[i]->name, GS_SLICE_ARG(name));
            n++;
        }
    }
    assert_true(n > 50);
}

static void test_parts_are_found_in_their_command(void **state)
{
    assert_ptr_equal(cmd_find_part(&cmd_check, "test"), &cmd_test);
    assert_ptr_equal(cmd_find_part(&cmd_check, "convert"), &cmd_convert);
    assert_ptr_equal(cmd_find_part(&cmd_sim, "inference"), &cmd_inference);
    assert_ptr_equal(cmd_find_part(&cmd_convert, "rules"), &cmd_convert_rules);
    assert_ptr_equal(cmd_find_part(&cmd_convert, "dashboards"), &cmd_convert_dashboards);
    assert_null(cmd_find("inference"));
    assert_null(cmd_find_part(&cmd_query, "test"));
    assert_null(cmd_find_part(&cmd_check, "query"));
    assert_ptr_equal(cmd_find("test"), &cmd_test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_help_lists_each_command_once),
        cmocka_unit_test(test_main_flags_exist),
        cmocka_unit_test(test_parts_are_found_in_their_command),
    };
    return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
