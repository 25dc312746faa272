// SPDX-License-Identifier: Apache-2.0
// Services that report only some of the signals.
#include "unit.h"

#include "slo/service.h"

static void test_only_a_queue_grows_and_shrinks(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "queue=1s", 2);
    s.signals = 1U << SLO_WAITING;
    s.has_ttft = s.has_itl = false;
    s.rate = 35;
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 4, 8);
    s.rate = 5;
    service_follow(&s, 7200, 60);
    assert_in_range(s.n, 1, 3);
    service_finish(&s);
}

static void test_a_queue_without_pods(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "queue=1s", 2);
    s.signals = 0;
    s.has_ttft = s.has_itl = false;
    s.obs.has_queue = true;
    for (int i = 0; i < 24; i++) {
        s.obs.queue = 40 * i;
        s.obs.queue_sampled_ms = s.now_ms + SERVICE_SCRAPE_MS;
        service_step(&s);
        s.engines[0].sampled_ms = s.engines[1].sampled_ms = 0;
    }
    assert_false(s.decision.hold);
    assert_int_equal(s.decision.proposal, 3);
    s.obs.queue_sampled_ms = s.now_ms - 60000;
    service_step(&s);
    assert_int_equal(s.decision.proposal, 2);
    service_finish(&s);
}

static void test_utilization_and_latency(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 2);
    s.signals = 1U << SLO_UTILIZATION;
    s.has_itl = false;
    s.rate = 40;
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 5, 9);
    s.rate = 5;
    service_follow(&s, 3600, 60);
    assert_in_range(s.n, 1, 3);
    service_finish(&s);
}

static void test_only_a_histogram_by_name(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 2);
    s.signals = 0;
    s.has_itl = false;
    s.rate = 40;
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 5, 9);
    assert_string_equal(s.decision.demand_unit, "requests/s");
    assert_true(fabs(s.decision.demand - 40) < 4);
    service_finish(&s);
}

static void test_too_few_requests_give_no_percentile(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 3);
    s.signals = 0;
    s.has_itl = false;
    s.idle_s = 30; // terrible, but of three requests
    s.rate = 0.01;
    service_run(&s, 600);
    assert_true(isnan(s.decision.pressure));
    assert_int_equal(s.decision.proposal, 3);
    service_finish(&s);
}

static void test_queue_and_kv_without_latencies(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 2);
    s.has_ttft = s.has_itl = false;
    s.rate = 50;
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 6, 9);
    service_finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_a_queue_grows_and_shrinks),
        cmocka_unit_test(test_a_queue_without_pods),
        cmocka_unit_test(test_utilization_and_latency),
        cmocka_unit_test(test_only_a_histogram_by_name),
        cmocka_unit_test(test_too_few_requests_give_no_percentile),
        cmocka_unit_test(test_queue_and_kv_without_latencies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
