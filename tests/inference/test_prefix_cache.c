// SPDX-License-Identifier: Apache-2.0
// Names of blocks, and which blocks of prompts are remembered.
#include "unit.h"

#include "base/mem.h"
#include "inference/prefix_cache.h"

#include <stdlib.h>

static void test_equal_beginnings_have_equal_names(void **state)
{
    GS_AUTO_FREE uint64_t *a = NULL, *b = NULL, *c = NULL;
    (void)state;
    assert_int_equal(inference_prefix_blocks(GS_SLICE("aaaabbbbcccc"), 4, &a), 3);
    assert_int_equal(inference_prefix_blocks(GS_SLICE("aaaabbbbxxxxy"), 4, &b), 3);
    assert_int_equal(inference_prefix_blocks(GS_SLICE("xxxxbbbb"), 4, &c), 2);
    assert_int_equal(a[0], b[0]);
    assert_int_equal(a[1], b[1]);
    assert_int_not_equal(a[2], b[2]);
    assert_int_not_equal(a[1], c[1]); // the same block after another one
}

static void test_a_text_without_a_whole_block_has_no_names(void **state)
{
    GS_AUTO_FREE uint64_t *a = NULL;
    (void)state;
    assert_int_equal(inference_prefix_blocks(GS_SLICE("abc"), 4, &a), 0);
}

static void test_leading_blocks_are_found(void **state)
{
    const uint64_t one[] = {1, 2, 3}, two[] = {1, 2, 9, 3}, other[] = {7, 1, 2};
    struct inference_prefix_cache *c = inference_prefix_cache_new(100);
    (void)state;
    assert_int_equal(inference_prefix_cache_find(c, one, 3), 0);
    inference_prefix_cache_add(c, one, 3);
    assert_int_equal(inference_prefix_cache_find(c, one, 3), 3);
    assert_int_equal(inference_prefix_cache_find(c, two, 4), 2);
    assert_int_equal(inference_prefix_cache_find(c, other, 3), 0);
    inference_prefix_cache_free(c);
}

static void test_the_least_recently_used_blocks_are_replaced(void **state)
{
    const uint64_t one[] = {1, 2}, two[] = {11, 12}, three[] = {21, 22};
    struct inference_prefix_cache *c = inference_prefix_cache_new(4);
    (void)state;
    inference_prefix_cache_add(c, one, 2);
    inference_prefix_cache_add(c, two, 2);
    assert_int_equal(inference_prefix_cache_find(c, one, 2), 2); // used: `two` is older now
    inference_prefix_cache_add(c, three, 2);
    assert_int_equal(inference_prefix_cache_find(c, two, 2), 0);
    assert_int_equal(inference_prefix_cache_find(c, one, 2), 2);
    assert_int_equal(inference_prefix_cache_find(c, three, 2), 2);
    inference_prefix_cache_free(c);
}

static void test_the_end_of_a_prompt_is_replaced_first(void **state)
{
    const uint64_t one[] = {1, 2, 3}, two[] = {11};
    struct inference_prefix_cache *c = inference_prefix_cache_new(3);
    (void)state;
    inference_prefix_cache_add(c, one, 3);
    inference_prefix_cache_add(c, two, 1);
    assert_int_equal(inference_prefix_cache_find(c, one, 3), 2);
    inference_prefix_cache_free(c);
}

static void test_a_cache_without_blocks_remembers_none(void **state)
{
    const uint64_t one[] = {1};
    struct inference_prefix_cache *c = inference_prefix_cache_new(0);
    (void)state;
    inference_prefix_cache_add(c, one, 1);
    assert_int_equal(inference_prefix_cache_find(c, one, 1), 0);
    inference_prefix_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_beginnings_have_equal_names),
        cmocka_unit_test(test_a_text_without_a_whole_block_has_no_names),
        cmocka_unit_test(test_leading_blocks_are_found),
        cmocka_unit_test(test_the_least_recently_used_blocks_are_replaced),
        cmocka_unit_test(test_the_end_of_a_prompt_is_replaced_first),
        cmocka_unit_test(test_a_cache_without_blocks_remembers_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
