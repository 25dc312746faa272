// SPDX-License-Identifier: Apache-2.0
#include "../kube/loop.h"
#include "base/clock.h"
#include "base/timer.h"

struct fixture {
    uv_loop_t loop;
    struct gs_timer *timer;
    int first, second;
};

static void on_first(void *arg)
{
    ((struct fixture *)arg)->first++;
}

static void on_second(void *arg)
{
    ((struct fixture *)arg)->second++;
}

static void free_in_callback(void *arg)
{
    struct fixture *f = arg;
    f->first++;
    gs_timer_free(f->timer);
    f->timer = NULL;
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    f->timer = gs_timer_new(&f->loop, f);
}

static void finish(struct fixture *f)
{
    gs_timer_free(f->timer);
    loop_finish(&f->loop);
}

static void test_a_started_timer_is_due_once(void **state)
{
    struct fixture f;
    setup(&f);
    assert_false(gs_timer_is_active(f.timer));
    gs_timer_start(f.timer, on_first, 3600000);
    assert_true(gs_timer_is_active(f.timer));
    assert_in_range(gs_timer_due_in(f.timer), 3590000, 3600000);
    gs_timer_start(f.timer, on_second, 0); // replaces the previous one
    assert_int_equal(f.second, 0);         // not in this iteration of the loop
    loop_until(&f.loop, f.second == 1);
    assert_false(gs_timer_is_active(f.timer));
    assert_int_equal(gs_timer_due_in(f.timer), 0);
    assert_int_equal(f.first, 0);
    finish(&f);
    (void)state;
}

static void test_a_repeating_timer_is_due_until_it_is_stopped(void **state)
{
    struct fixture f;
    setup(&f);
    gs_timer_repeat(f.timer, on_first, 0, 1);
    loop_until(&f.loop, f.first >= 3);
    gs_timer_stop(f.timer);
    int count = f.first;
    loop_for_ms(&f.loop, 20);
    assert_int_equal(f.first, count);
    finish(&f);
    (void)state;
}

static void start_again(void *arg)
{
    struct fixture *f = arg;
    f->first++;
    gs_timer_start(f->timer, start_again, 0);
}

// A duration of 0 from a configuration: other events of the loop have their turns.
static void test_a_timer_that_starts_itself_lets_others_run(void **state)
{
    struct fixture f;
    setup(&f);
    struct gs_timer *other = gs_timer_new(&f.loop, &f);
    gs_timer_start(f.timer, start_again, 0);
    gs_timer_start(other, on_second, 5);
    loop_until(&f.loop, f.second == 1); // each turn of the loop ends
    gs_timer_repeat(f.timer, on_first, 0, 0);
    f.first = 0;
    gs_timer_start(other, on_second, 5);
    loop_until(&f.loop, f.second == 2 && f.first > 1); // 0 is the shortest period, not "once"
    gs_timer_free(other);
    finish(&f);
    (void)state;
}

static void test_a_timer_can_be_freed_in_its_callback(void **state)
{
    struct fixture f;
    setup(&f);
    gs_timer_repeat(f.timer, free_in_callback, 0, 1);
    loop_until(&f.loop, f.first == 1);
    loop_for_ms(&f.loop, 20);
    assert_int_equal(f.first, 1);
    finish(&f);
    (void)state;
}

static void test_a_freed_timer_does_not_touch_its_owner(void **state)
{
    struct fixture f;
    setup(&f);
    gs_timer_start(f.timer, on_first, 0);
    gs_timer_free(f.timer);
    f.timer = NULL;
    loop_for_ms(&f.loop, 20);
    assert_int_equal(f.first, 0);
    gs_timer_free(NULL);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_started_timer_is_due_once),
        cmocka_unit_test(test_a_repeating_timer_is_due_until_it_is_stopped),
        cmocka_unit_test(test_a_timer_that_starts_itself_lets_others_run),
        cmocka_unit_test(test_a_timer_can_be_freed_in_its_callback),
        cmocka_unit_test(test_a_freed_timer_does_not_touch_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
