// SPDX-License-Identifier: Apache-2.0
// Credit for pods that are coming, on a simulated queue: requests arrive at a rate, each ready pod
// takes a rate of them, and pods start for some time.
#include "unit.h"

#include "base/mem.h"
#include "startup/credit.h"

#include <math.h>
#include <stdlib.h>

static void test_known_rates_count_the_work_that_starting_pods_do(void **state)
{
    const struct startup_coming c = {.ready = 1, .starting = 4, .last_ms = 60000};
    // 5 pods manage 100 per second: enough, and nothing waits.
    struct startup_work w = {.arriving = 100, .rate = 20, .drain_s = 60};
    assert_int_equal(startup_replicas_for(&w, &c, 0), 5);
    // 1,200 wait, 80 per second more come until the last start; nothing of it is drained.
    w.backlog = 1200;
    assert_int_equal(startup_replicas_for(&w, &c, 0), 6);
    // 80 per second: the surplus of 20 per second drains what waits after the last start.
    w.arriving = 80;
    w.backlog = 0;
    assert_int_equal(startup_replicas_for(&w, &c, 0), 4);
    w.arriving = 10;
    w.backlog = 300;
    assert_int_equal(startup_replicas_for(&w, &c, 0), 1);
}

static void test_no_work_needs_no_replica(void **state)
{
    const struct startup_coming c = {.ready = 3};
    const struct startup_work none = {.rate = 20, .drain_s = 60};
    const struct startup_work endless = {.backlog = 1e300, .rate = 1e-9, .drain_s = 1};
    assert_int_equal(startup_replicas_for(&none, &c, 0), 0);
    assert_int_equal(startup_replicas_for(&endless, &c, 0), INT32_MAX);
}

static void test_growth_needs_some_seconds_of_values(void **state)
{
    struct startup_trend t = {0};
    double growth;
    startup_trend_add(&t, 10, 0);
    startup_trend_add(&t, 14, 1000);
    assert_false(startup_trend_growth(&t, &growth));
    startup_trend_add(&t, NAN, 2000);
    for (int64_t s = 2; s <= 100; s++)
        startup_trend_add(&t, 10 + 4.0 * (double)s, s * 1000);
    assert_true(startup_trend_growth(&t, &growth));
    assert_true(fabs(growth - 4) < 1e-9);
}

static void test_a_trend_is_the_same_after_json(void **state)
{
    struct startup_trend t = {.has_order = true, .ordered_growth = 80, .ordered_ready = 2};
    t.rate = 20;
    for (int64_t s = 0; s <= 100; s++)
        startup_trend_add(&t, (double)(s * s), s * 1000);
    CODEC_AUTO_JSON json_t *json = startup_trend_json(&t, 101000);
    struct startup_trend copy = startup_trend_from_json(json, 201000);
    double a, b;
    assert_true(startup_trend_growth(&t, &a) && startup_trend_growth(&copy, &b));
    assert_true(fabs(a - b) < 1e-9);
    assert_int_equal(copy.newest.at_ms - t.newest.at_ms, 100000);
    assert_int_equal(copy.ordered_ready, 2);
    assert_true(copy.rate == 20 && copy.ordered_growth == 80 && copy.has_order);
    startup_trend_shift(&copy, -100000);
    assert_int_equal(copy.newest.at_ms, t.newest.at_ms);
    struct startup_trend empty = startup_trend_from_json(NULL, 0);
    assert_false(startup_trend_growth(&empty, &a));
}

static void test_wrong_json_is_an_empty_trend(void **state)
{
    CODEC_AUTO_JSON json_t *json = NULL;
    assert_ok(codec_json_parse(
        gs_slice_of("{\"points\":[7,{\"ageMs\":-5,\"value\":1},{\"ageMs\":1e300},{\"value\":\"x\"}]"
                    ",\"rate\":-1,\"orderedGrowth\":\"x\",\"orderedReady\":-99999999999}"),
        true, &json));
    struct startup_trend t = startup_trend_from_json(json, 1000000);
    assert_true(t.rate == 0 && !t.has_order && t.ordered_ready == 0);
}

// --- a simulated queue ---

enum { MAX_PODS = 100000, SYNC_S = 15 };

struct queue {
    double arriving[4]; // per second, by quarter of the run
    double rate;        // of one pod
    int64_t start_s, seconds;
    double target; // of the queue, as a Value target
    bool credit;
    // results
    int32_t peak, last;
    double waiting, longest;
};

static struct startup_coming coming_at(const int64_t *ready_s, int32_t n, int64_t now_s)
{
    struct startup_coming c = {0};
    for (int32_t i = 0; i < n; i++) {
        bool ready = ready_s[i] <= now_s;
        c.ready += ready;
        c.settling += ready && ready_s[i] > 0 && now_s - ready_s[i] < STARTUP_SETTLE_MS / 1000;
        c.starting += !ready;
        if (ready_s[i] * 1000 > c.last_ms)
            c.last_ms = ready_s[i] * 1000;
    }
    return c;
}

static void decide(struct queue *q, struct startup_trend *t, int64_t *ready_s, int64_t now_s)
{
    struct startup_coming c = coming_at(ready_s, q->last, now_s);
    c.start_ms = q->start_s * 1000;
    double proposal = fmin(ceil(q->waiting / q->target * c.ready), MAX_PODS);
    double most = fmax(q->last * 2, q->last + 4); // the default policies
    struct startup_credit credit = {.proposal = (int32_t)proposal};
    if (q->credit) {
        startup_trend_add(t, q->waiting, now_s * 1000);
        startup_credit_apply(t, &c, q->last, (int32_t)proposal, &credit);
        free(credit.text);
    }
    int32_t to = credit.proposal > most ? (int32_t)most : credit.proposal;
    for (; q->last < to && q->last < MAX_PODS; q->last++)
        ready_s[q->last] = now_s + q->start_s;
    q->peak = q->last > q->peak ? q->last : q->peak;
}

static void run(struct queue *q)
{
    int64_t *ready_s = gs_alloc_array(MAX_PODS, sizeof(*ready_s));
    struct startup_trend t = {0};
    q->last = q->peak = 1;
    for (int64_t s = 0; s < q->seconds; s++) {
        double arriving = q->arriving[s * 4 / q->seconds];
        q->waiting += arriving - q->rate * coming_at(ready_s, q->last, s).ready;
        q->waiting = q->waiting > 0 ? q->waiting : 0;
        q->longest = q->waiting > q->longest ? q->waiting : q->longest;
        if (s % SYNC_S == 0)
            decide(q, &t, ready_s, s);
    }
    free(ready_s);
}

static void test_credit_stops_the_runaway_of_a_queue(void **state)
{
    // 100 requests per second need 5 pods, which start for a minute.
    struct queue q = {.arriving = {100, 100, 100, 100}, .rate = 20.5, .start_s = 60};
    q.seconds = 1200;
    q.target = 10;
    struct queue without = q;
    run(&without);
    q.credit = true;
    run(&q);
    assert_true(without.peak > 50);
    assert_in_range(q.peak, 5, 12);
    assert_true(q.waiting < 100);
}

static void test_credit_follows_a_demand_that_grows_meanwhile(void **state)
{
    struct queue q = {.arriving = {100, 1000, 1000, 1000}, .rate = 20.5, .start_s = 60};
    q.seconds = 2400;
    q.target = 10;
    q.credit = true;
    run(&q);
    assert_in_range(q.peak, 49, 120);
    assert_true(q.waiting < 1000);
}

static void test_credit_with_slow_starts(void **state)
{
    struct queue q = {.arriving = {200, 200, 200, 200}, .rate = 20.5, .start_s = 180};
    q.seconds = 3600;
    q.target = 10;
    q.credit = true;
    run(&q);
    assert_in_range(q.peak, 10, 26);
    assert_true(q.waiting < 100);
}

// --- single decisions ---

static void test_starting_pods_are_named(void **state)
{
    struct startup_trend t = {0};
    const struct startup_coming c = {.ready = 1, .starting = 3};
    struct startup_credit credit;
    startup_credit_apply(&t, &c, 4, 7, &credit);
    assert_int_equal(credit.proposal, 4);
    assert_string_equal(credit.text, "would be 7, credit for 3 starting pods: stays at 4");
    free(credit.text);
}

static void test_the_first_pod_of_a_workload_does_not_delay_an_order(void **state)
{
    struct startup_trend t = {0};
    const struct startup_coming c = {.ready = 1, .settling = 1};
    struct startup_credit credit;
    for (int64_t s = 0; s <= 15; s++)
        startup_trend_add(&t, 5.0 * (double)s, s * 1000);
    startup_credit_apply(&t, &c, 1, 7, &credit);
    assert_int_equal(credit.proposal, 7);
    assert_null(credit.text);
    // Those of the order do.
    const struct startup_coming more = {.ready = 7, .settling = 6};
    startup_credit_apply(&t, &more, 7, 20, &credit);
    assert_int_equal(credit.proposal, 7);
    free(credit.text);
}

static void test_noise_of_the_growth_is_no_rate(void **state)
{
    struct startup_trend t = {.has_order = true, .ordered_growth = 5.1, .ordered_ready = 1};
    const struct startup_coming c = {.ready = 3};
    struct startup_credit credit;
    for (int64_t s = 0; s <= 15; s++)
        startup_trend_add(&t, 5.0 * (double)s, s * 1000);
    startup_credit_apply(&t, &c, 3, 3, &credit);
    assert_true(t.rate == 0 && !t.has_order);
}

static void test_late_and_unschedulable_pods_give_no_credit(void **state)
{
    struct startup_trend t = {0};
    const struct startup_coming c = {.ready = 1, .late = 2, .unschedulable = 1, .failed = 1};
    struct startup_credit credit;
    startup_credit_apply(&t, &c, 4, 7, &credit);
    assert_int_equal(credit.proposal, 7);
    assert_null(credit.text);
}

static void test_credit_never_scales_down_and_leaves_lower_proposals(void **state)
{
    struct startup_trend t = {0};
    const struct startup_coming c = {.ready = 1, .starting = 3};
    struct startup_credit credit;
    for (int32_t proposal = 0; proposal <= 4; proposal++) {
        startup_credit_apply(&t, &c, 4, proposal, &credit);
        assert_int_equal(credit.proposal, proposal);
        assert_null(credit.text);
    }
}

static void test_a_queue_that_drains_orders_nothing(void **state)
{
    struct startup_trend t = {0};
    const struct startup_coming c = {.ready = 4, .start_ms = 90000};
    struct startup_credit credit;
    for (int64_t s = 0; s <= 20; s++)
        startup_trend_add(&t, 1000 - 10.0 * (double)s, s * 1000);
    startup_credit_apply(&t, &c, 4, 80, &credit);
    assert_int_equal(credit.proposal, 4);
    assert_non_null(strstr(credit.text, "is 0 in 80 s"));
    free(credit.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_rates_count_the_work_that_starting_pods_do),
        cmocka_unit_test(test_no_work_needs_no_replica),
        cmocka_unit_test(test_growth_needs_some_seconds_of_values),
        cmocka_unit_test(test_a_trend_is_the_same_after_json),
        cmocka_unit_test(test_wrong_json_is_an_empty_trend),
        cmocka_unit_test(test_credit_stops_the_runaway_of_a_queue),
        cmocka_unit_test(test_credit_follows_a_demand_that_grows_meanwhile),
        cmocka_unit_test(test_credit_with_slow_starts),
        cmocka_unit_test(test_starting_pods_are_named),
        cmocka_unit_test(test_the_first_pod_of_a_workload_does_not_delay_an_order),
        cmocka_unit_test(test_noise_of_the_growth_is_no_rate),
        cmocka_unit_test(test_late_and_unschedulable_pods_give_no_credit),
        cmocka_unit_test(test_credit_never_scales_down_and_leaves_lower_proposals),
        cmocka_unit_test(test_a_queue_that_drains_orders_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
