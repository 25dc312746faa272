// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/arena.h"

static void test_allocations_are_apart_aligned_and_zero(void **state)
{
    struct gs_arena a = {0};
    for (size_t size = 1; size < 40000; size = size * 3 + 1) {
        unsigned char *p = gs_arena_alloc(&a, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
    }
    gs_arena_clear(&a);
    unsigned char *again = gs_arena_alloc(&a, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(again[i], 0);
    gs_arena_finish(&a);
}

static void test_the_limit_gives_null(void **state)
{
    struct gs_arena a = {.limit = 100};
    assert_non_null(gs_arena_alloc(&a, 64));
    assert_null(gs_arena_alloc(&a, 64));
    assert_null(gs_arena_alloc(&a, SIZE_MAX));
    assert_non_null(gs_arena_strndup(&a, "x", 1));
    assert_string_equal(gs_arena_strdup(&a, "whole"), "whole");
    assert_null(gs_arena_strdup(&a, NULL));
    gs_arena_finish(&a);
}

// A query with large columns and small label sets in turn took twice its limit.
static void test_a_large_allocation_does_not_end_the_current_block(void **state)
{
    struct gs_arena a = {0};
    char *first = gs_arena_alloc(&a, 16);
    for (int i = 1; i < 20; i++) {
        assert_non_null(gs_arena_alloc(&a, 100000));
        char *next = gs_arena_alloc(&a, 16);
        assert_int_equal(next - first, 16 * i);
    }
    gs_arena_finish(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_apart_aligned_and_zero),
        cmocka_unit_test(test_the_limit_gives_null),
        cmocka_unit_test(test_a_large_allocation_does_not_end_the_current_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
