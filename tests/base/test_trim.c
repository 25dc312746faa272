// SPDX-License-Identifier: Apache-2.0
// Regular trimming of the heap.
#include "base/trim.h"
#include "unit.h"

// An adapter with a million series spent half of its time in it, once a second.
static void test_regular_calls_are_limited(void **state)
{
    assert_true(gs_trim_heap());
    for (int i = 0; i < 1000; i++)
        assert_false(gs_trim_heap());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_regular_calls_are_limited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
