// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"

static void test_grow_keeps_what_is_there_and_zeroes_the_rest(void **state)
{
    int *items = NULL;
    size_t cap = 0;
    for (size_t len = 0; len < 100; len++) {
        gs_grow(&items, &cap, len, sizeof(*items));
        assert_true(cap > len);
        assert_int_equal(items[len], 0);
        items[len] = (int)len + 1;
    }
    for (int i = 0; i < 100; i++)
        assert_int_equal(items[i], i + 1);
    free(items);
}

static void test_take_leaves_nothing_behind(void **state)
{
    char *text = gs_format("%s-%d", "a", 1);
    GS_AUTO_FREE char *taken = GS_TAKE(text);
    assert_null(text);
    assert_string_equal(taken, "a-1");
    assert_null(gs_strdup(NULL));
}

static void test_sizes_of_peers_can_fail(void **state)
{
    assert_null(gs_try_alloc(SIZE_MAX / 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow_keeps_what_is_there_and_zeroes_the_rest),
        cmocka_unit_test(test_take_leaves_nothing_behind),
        cmocka_unit_test(test_sizes_of_peers_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
