// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "dcgm/abi.h"
#include "dcgm/code.h"

static void test_a_text_says_what_to_do_and_has_the_number(void **state)
{
    assert_string_equal(dcgm_code_text(DCGM_PROFILING_FAILED),
                        "another process owns the profiling counters (-37)");
    assert_non_null(strstr(dcgm_code_text(DCGM_PAUSED), "dcgmi profile --resume (-54)"));
}

static void test_an_unknown_code_has_a_text(void **state)
{
    assert_string_equal(dcgm_code_text(-9999), "unknown error of DCGM");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_text_says_what_to_do_and_has_the_number),
        cmocka_unit_test(test_an_unknown_code_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
