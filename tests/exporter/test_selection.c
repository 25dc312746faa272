// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "exporter/exporter_private.h"

static void test_valid_selectors(void **state)
{
    static const char *const valid[] = {"f",   "g",         "i",       "g+i",      "i+g",
                                        "g:0", "g:0,2-4+i", "i:1,3-5", "g+i:0-17", "g:1+i:2,3"};
    static const char *const invalid[] = {"",     "x",    "g:",    "g:1,", "g:1-",    "g:1-2-3",
                                          "g+",   "g+g",  "f:1",   "f+g",  "g:12345", "g i",
                                          "g:-1", "g:1x", "i:1+f", "g++i"};
    for (size_t i = 0; i < GS_ARRAY_LEN(valid); i++)
        if (!exporter_selection_valid(valid[i]))
            fail_msg("\"%s\" is valid", valid[i]);
    for (size_t i = 0; i < GS_ARRAY_LEN(invalid); i++)
        if (exporter_selection_valid(invalid[i]))
            fail_msg("\"%s\" is not valid", invalid[i]);
}

static void test_all_of_a_kind(void **state)
{
    assert_true(exporter_selection_has("f", 'g', 7));
    assert_true(exporter_selection_has("f", 'i', 7));
    assert_true(exporter_selection_has("g", 'g', 7));
    assert_false(exporter_selection_has("g", 'i', 7));
    assert_true(exporter_selection_has("g+i", 'i', 7));
    assert_false(exporter_selection_has("i", 'g', 0));
}

static void test_lists_of_both_kinds(void **state)
{
    const char *s = "g:0,2-4+i:7";
    assert_true(exporter_selection_has(s, 'g', 0));
    assert_false(exporter_selection_has(s, 'g', 1));
    assert_true(exporter_selection_has(s, 'g', 3));
    assert_false(exporter_selection_has(s, 'g', 7));
    assert_true(exporter_selection_has(s, 'i', 7));
    assert_false(exporter_selection_has(s, 'i', 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_selectors),
        cmocka_unit_test(test_all_of_a_kind),
        cmocka_unit_test(test_lists_of_both_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
