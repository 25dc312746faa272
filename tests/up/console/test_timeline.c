// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "up/console/console.h"

#include <math.h>

static void test_rows_are_aligned_and_unknown_is_not_zero(void **state)
{
    struct console_timeline *t = console_timeline_new(1000);
    console_timeline_add(t, 8000, true, 71.6, "1→4", "above target");
    console_timeline_add(t, 128500, false, NAN, "4", "load ended");
    GS_AUTO_BUF struct gs_buf out = {0};
    console_timeline_print(t, 0, &out);
    assert_string_equal(out.data, "TIME    LOAD   GPU %  REPLICAS   REASON\n"
                                  "  0:07  on        72  1→4        above target\n"
                                  "  2:07  off        -  4          load ended\n");
    console_timeline_free(t);
}

static void test_long_reasons_break_below_themselves(void **state)
{
    struct console_timeline *t = console_timeline_new(1000);
    console_timeline_add(t, 8000, true, 71.6, "1→4", "average 71 of 1 pod, ratio 3.55");
    console_timeline_add(t, 9000, true, 71.6, "4", "");
    GS_AUTO_BUF struct gs_buf out = {0};
    console_timeline_print(t, 53, &out);
    assert_string_equal(out.data, "TIME    LOAD   GPU %  REPLICAS   REASON\n"
                                  "  0:07  on        72  1→4        average 71 of 1 pod,\n"
                                  "                                 ratio 3.55\n"
                                  "  0:08  on        72  4          \n");
    console_timeline_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_aligned_and_unknown_is_not_zero),
        cmocka_unit_test(test_long_reasons_break_below_themselves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
