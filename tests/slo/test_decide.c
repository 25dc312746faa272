// SPDX-License-Identifier: Apache-2.0
// The number of replicas that a service with all signals needs.
#include "unit.h"

#include "slo/service.h"

static void test_enough_replicas_stay(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 3);
    s.rate = 20; // 67 % of what three carry
    service_run(&s, 600);
    assert_int_equal(s.decision.proposal, 3);
    assert_false(s.decision.hold);
    assert_true(s.decision.pressure < 1);
    service_finish(&s);
}

static void test_overload_asks_for_what_the_demand_needs(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 60; // six replicas at their limit
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 7, 10);
    assert_in_range(s.n, 7, 9);
    assert_true(s.decision.pressure < 1);
    service_finish(&s);
}

static void test_slow_starts_do_not_run_away(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 1);
    s.rate = 60;
    size_t peak = service_follow(&s, 3600, 600);
    assert_in_range(peak, 7, 11);
    service_finish(&s);
}

static void test_clients_that_wait_for_their_requests_are_served(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=200ms", 2);
    s.clients = 600; // a replica runs 100
    size_t peak = service_follow(&s, 1800, 60);
    assert_in_range(peak, 6, 12);
    assert_in_range(s.n, 6, 12);
    assert_true(s.decision.pressure < 1);
    service_finish(&s);
}

static void test_a_measured_load_counts_more_than_a_prediction(void **state)
{
    (void)state;
    struct service s;
    size_t ups = 0, last;
    service_init(&s, "ttft=1s,itl=200ms", 4);
    for (s.rate = 4; s.rate < 7; s.rate += 0.05) // loads for a curve
        service_run(&s, 20);
    s.rate = 6;
    last = s.n;
    for (int i = 0; i < 720; i++) {
        service_follow(&s, 5, 60);
        ups += s.n > last;
        last = s.n;
    }
    assert_int_equal(s.n, 1);
    assert_int_equal(ups, 0);
    service_finish(&s);
}

// Its mean load would fit on one replica; its short bursts do not.
static void test_a_decrease_that_was_undone_is_not_repeated(void **state)
{
    (void)state;
    struct service s;
    size_t downs = 0, last = 2;
    service_init(&s, "ttft=1s,itl=200ms", 2);
    for (int i = 0; i < 1440; i++) {
        s.rate = i % 90 < 2 ? 11 : 4; // ten seconds of seven minutes and a half
        service_follow(&s, 5, 60);
        downs += s.n < last;
        last = s.n;
    }
    assert_in_range(downs, 1, 4);
    service_finish(&s);
}

static void test_starting_replicas_are_credited(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 30;
    service_run(&s, 60);
    int32_t before = s.decision.proposal;
    assert_true(before > 2);
    service_set_replicas(&s, (size_t)before, SLO_POD_STARTING);
    service_run(&s, 30);
    assert_int_equal(s.decision.proposal, before);
    assert_int_equal(s.decision.credit.starting, before - 2);
    assert_non_null(strstr(s.decision.explanation, "stays at"));
    s.pods[before - 1].expected_ms = s.now_ms + 20000;
    slo_decide(&s.policy, &s.obs, s.state, s.now_ms, false, &s.decision);
    assert_non_null(strstr(s.decision.credit.text, "the first is expected in 20 s"));
    service_finish(&s);
}

static void test_late_replicas_are_replaced_within_bounds(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 40;
    service_run(&s, 60);
    service_set_replicas(&s, (size_t)s.decision.proposal, SLO_POD_LATE);
    service_run(&s, 5);
    int32_t need = (int32_t)s.n;
    assert_true(s.decision.proposal > need);
    for (int i = 0; i < 20; i++) { // no start ever succeeds
        service_set_replicas(&s, (size_t)s.decision.proposal, SLO_POD_LATE);
        service_run(&s, 60);
    }
    assert_true(s.n <= 10);
    service_finish(&s);
}

static void test_fewer_replicas_when_survivors_hold(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 4);
    s.rate = 28;
    service_run(&s, 900);
    assert_int_equal(s.decision.proposal, 4);
    s.rate = 8;
    service_follow(&s, 1800, 60);
    assert_in_range(s.n, 1, 2);
    assert_true(s.decision.pressure < 1);
    service_finish(&s);
}

static void test_survivors_that_would_miss_the_target_keep_the_number(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 25; // two carry 20
    service_follow(&s, 900, 60);
    s.rate = 9;
    service_run(&s, 300);
    service_set_replicas(&s, 2, SLO_POD_READY);
    bool refused = false;
    // One replica misses its target at 7.5 requests a second.
    for (s.rate = 8.5; s.rate > 5; s.rate -= 0.1) {
        service_run(&s, 180);
        assert_true(s.decision.proposal == 2 || s.rate < 7.5);
        if (!s.decision.guard.checked || s.decision.guard.holds)
            continue;
        refused = true;
        assert_int_equal(s.decision.proposal, 2);
        assert_non_null(strstr(s.decision.guard.text, "with 1 replica "));
    }
    assert_true(refused);
    assert_int_equal(s.decision.proposal, 1);
    service_finish(&s);
}

static void test_constant_load_does_not_swing(void **state)
{
    (void)state;
    struct service s;
    size_t changes = 0, last;
    service_init(&s, "ttft=1s,itl=50ms", 4);
    service_follow(&s, 900, 60);
    last = s.n;
    unsigned random = 1;
    for (int i = 0; i < 1440; i++) { // two hours with noise of 15 %
        random = random * 1103515245 + 12345;
        s.rate = 31 * (0.85 + 0.3 * ((random >> 16) & 1023) / 1024.0);
        service_follow(&s, 5, 60);
        changes += s.n != last;
        last = s.n;
    }
    assert_true(changes <= 4);
    service_finish(&s);
}

static void test_a_target_that_an_idle_replica_misses_is_not_chased(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=100ms", 2);
    s.idle_s = 0.5;
    s.rate = 8;
    size_t peak = service_follow(&s, 3600, 60);
    assert_in_range(peak, 3, 12);
    service_finish(&s);
}

static void test_forecast_growth_raises_the_demand(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 60;
    service_follow(&s, 900, 60);
    s.rate = 30;
    service_run(&s, 120);
    const struct slo_bound *b = service_bound(&s, "throughput");
    double before = b->value;
    s.obs.growth = 1.5;
    service_step(&s);
    assert_true(service_bound(&s, "throughput")->value > 1.4 * before);
    s.obs.growth = 0.1; // a forecast never lowers it
    service_step(&s);
    assert_true(service_bound(&s, "throughput")->value > 0.9 * before);
    service_finish(&s);
}

static void test_the_same_samples_count_once(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 15;
    service_run(&s, 300);
    double before = s.decision.demand;
    for (int i = 0; i < 100; i++)
        slo_decide(&s.policy, &s.obs, s.state, s.now_ms + i, false, &s.decision);
    assert_true(s.decision.demand == before);
    service_finish(&s);
}

static void test_ratio_to_the_peer(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,peer=llm-decode,ratio=0.5..1", 2);
    s.obs.has_peer = true;
    s.obs.peer_replicas = 8;
    s.rate = 15;
    service_run(&s, 120);
    assert_int_equal(s.decision.proposal, 4);
    assert_string_equal(s.decision.bounds[s.decision.decider].name, "ratio");
    s.obs.peer_replicas = 1;
    service_step(&s);
    assert_int_equal(s.decision.proposal, 1);
    s.obs.has_peer = false;
    service_step(&s);
    assert_int_equal(s.decision.proposal, 2);
    assert_non_null(strstr(service_bound(&s, "ratio")->text, "llm-decode are unknown"));
    service_finish(&s);
}

static void test_prefill_and_decode_read_their_own_targets(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=1ms", 2); // the decodes miss theirs
    s.rate = 10;
    s.obs.role = SLO_PREFILL;
    service_run(&s, 120);
    assert_true(s.decision.pressure < 1);
    s.obs.role = SLO_DECODE;
    service_run(&s, 120);
    assert_true(s.decision.pressure > 1);
    service_finish(&s);
}

static void test_json_has_bounds_and_abstentions(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 10;
    service_run(&s, 120);
    CODEC_AUTO_JSON json_t *j = slo_decision_json(&s.policy, &s.decision);
    assert_int_equal(codec_json_int(j, -1, "proposal", NULL), s.decision.proposal);
    assert_true(json_is_null(json_object_get(j, "hold")));
    const json_t *bounds = json_object_get(j, "bounds");
    assert_int_equal(json_array_size(bounds), s.decision.n_bounds);
    assert_string_equal(codec_json_str(json_array_get(bounds, 0), "abstains", NULL),
                        "no replica has reached its limit yet");
    assert_non_null(codec_json_str(json_array_get(bounds, 1), "text", NULL));
    assert_true(json_is_number(json_object_get(j, "pressure")));
    service_finish(&s);
}

// The first requests of an engine wait for its kernels to be compiled.
static void test_an_engine_that_warms_up_is_not_what_a_replica_carries(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 2);
    s.rate = 60;
    s.capacity = 0.05;
    service_run(&s, 15);
    s.capacity = 20;
    service_run(&s, 300);
    double n = service_bound(&s, "throughput")->value;
    assert_true(n > 2 && n < 6); // 3.3 with 90 % of 20 requests
    service_finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_enough_replicas_stay),
        cmocka_unit_test(test_overload_asks_for_what_the_demand_needs),
        cmocka_unit_test(test_slow_starts_do_not_run_away),
        cmocka_unit_test(test_clients_that_wait_for_their_requests_are_served),
        cmocka_unit_test(test_a_measured_load_counts_more_than_a_prediction),
        cmocka_unit_test(test_a_decrease_that_was_undone_is_not_repeated),
        cmocka_unit_test(test_starting_replicas_are_credited),
        cmocka_unit_test(test_late_replicas_are_replaced_within_bounds),
        cmocka_unit_test(test_fewer_replicas_when_survivors_hold),
        cmocka_unit_test(test_survivors_that_would_miss_the_target_keep_the_number),
        cmocka_unit_test(test_constant_load_does_not_swing),
        cmocka_unit_test(test_a_target_that_an_idle_replica_misses_is_not_chased),
        cmocka_unit_test(test_forecast_growth_raises_the_demand),
        cmocka_unit_test(test_the_same_samples_count_once),
        cmocka_unit_test(test_ratio_to_the_peer),
        cmocka_unit_test(test_prefill_and_decode_read_their_own_targets),
        cmocka_unit_test(test_json_has_bounds_and_abstentions),
        cmocka_unit_test(test_an_engine_that_warms_up_is_not_what_a_replica_carries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
