// SPDX-License-Identifier: Apache-2.0
#include "base/fiber.h"
#include "unit.h"

struct count {
    struct gs_fiber *fiber;
    int n, until;
};

static void count(void *arg)
{
    struct count *c = arg;
    char local[4096];
    memset(local, c->until, sizeof(local));
    for (; c->n < c->until; c->n++)
        gs_fiber_pause(c->fiber);
    assert_int_equal(local[sizeof(local) - 1], c->until);
}

static void test_two_in_turns(void **state)
{
    struct count a = {.until = 3}, b = {.until = 1};
    assert_ok(gs_fiber_new(&a.fiber));
    assert_ok(gs_fiber_new(&b.fiber));
    assert_false(gs_fiber_start(a.fiber, count, &a));
    assert_false(gs_fiber_start(b.fiber, count, &b));
    assert_false(gs_fiber_resume(a.fiber));
    assert_int_equal(a.n, 1);
    assert_true(gs_fiber_resume(b.fiber));
    assert_false(gs_fiber_resume(a.fiber));
    assert_true(gs_fiber_resume(a.fiber));
    assert_int_equal(a.n, 3);
    b.n = 0;
    b.until = 0;
    assert_true(gs_fiber_start(b.fiber, count, &b)); // another function
    gs_fiber_free(a.fiber);
    gs_fiber_free(b.fiber);
    (void)state;
}

static void deep(void *arg)
{
    int *depth = arg;
    volatile char frame[1024];
    frame[0] = 1;
    if (--*depth > 0)
        deep(arg);
    frame[1] = frame[0];
}

static void test_half_a_megabyte_of_stack(void **state)
{
    struct gs_fiber *f;
    int depth = 450;
    assert_ok(gs_fiber_new(&f));
    assert_true(gs_fiber_start(f, deep, &depth));
    assert_int_equal(depth, 0);
    gs_fiber_free(f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_in_turns),
        cmocka_unit_test(test_half_a_megabyte_of_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
