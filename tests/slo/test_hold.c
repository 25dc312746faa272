// SPDX-License-Identifier: Apache-2.0
// Samples that are old, and engines that restart, change nothing.
#include "unit.h"

#include "slo/service.h"

static void test_no_fresh_sample_holds(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 50;
    service_run(&s, 60);
    assert_true(s.decision.proposal > 2);
    s.engines[0].frozen = s.engines[1].frozen = true;
    service_run(&s, 15); // three scrapes
    assert_false(s.decision.hold);
    service_run(&s, 5);
    assert_true(s.decision.hold);
    assert_int_equal(s.decision.proposal, 2);
    assert_string_equal(s.decision.hold_text,
                        "2 of 2 ready pods have no fresh sample; that of llm-0 is 20 s old");
    service_finish(&s);
}

static void test_one_blind_pod_of_many_forbids_less_but_not_more(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 6);
    s.rate = 5;
    service_run(&s, 300);
    assert_true(s.decision.proposal < 6);
    s.engines[3].frozen = true;
    service_run(&s, 60);
    assert_false(s.decision.hold);
    assert_int_equal(s.decision.proposal, 6);
    assert_string_equal(s.decision.guard.text, "1 of 6 ready pods have no fresh sample (llm-3)");
    s.rate = 120;
    service_run(&s, 60);
    assert_true(s.decision.proposal > 6);
    service_finish(&s);
}

static void test_a_restart_is_no_load(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 3);
    s.rate = 6;
    service_run(&s, 300);
    assert_true(s.decision.proposal < 3);
    struct service_engine fresh = {.phase = SLO_POD_READY, .since_ms = s.now_ms};
    memcpy(fresh.name, s.engines[1].name, sizeof(fresh.name));
    s.engines[1] = fresh;
    service_step(&s);
    assert_int_equal(s.decision.proposal, 3);
    assert_string_equal(s.decision.guard.text, "the engine of llm-1 has just restarted");
    assert_true(s.decision.demand >= 0);
    service_run(&s, 65);
    assert_true(s.decision.proposal < 3);
    service_finish(&s);
}

static void test_restarts_of_most_engines_hold(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 30;
    service_run(&s, 60);
    struct service_engine fresh = {.phase = SLO_POD_READY, .since_ms = s.now_ms};
    memcpy(fresh.name, s.engines[1].name, sizeof(fresh.name));
    s.engines[1] = fresh;
    service_step(&s);
    assert_true(s.decision.hold);
    assert_int_equal(s.decision.proposal, 2);
    assert_string_equal(s.decision.hold_text,
                        "the engines of 1 of 2 ready pods have restarted (llm-1)");
    service_finish(&s);
}

static void test_no_ready_pod_holds(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 3);
    for (size_t i = 0; i < 3; i++)
        s.engines[i].phase = SLO_POD_STARTING;
    service_step(&s);
    assert_true(s.decision.hold);
    assert_int_equal(s.decision.proposal, 3);
    service_finish(&s);
}

static void test_no_signal_holds(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 3);
    s.signals = 0;
    s.has_ttft = s.has_itl = false;
    service_run(&s, 60);
    assert_true(s.decision.hold);
    assert_int_equal(s.decision.proposal, 3);
    assert_non_null(strstr(s.decision.hold_text, "no signal"));
    service_finish(&s);
}

static void test_a_clock_that_is_set_back_holds_once(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 2);
    s.rate = 10;
    service_run(&s, 120);
    s.now_ms -= 3600000;
    service_step(&s);
    assert_true(s.decision.hold);
    assert_string_equal(s.decision.hold_text, "the clock was set back");
    service_run(&s, 60);
    assert_false(s.decision.hold);
    assert_true(s.decision.demand > 0);
    service_finish(&s);
}

static void test_a_sample_from_the_future_is_not_fresh(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s", 1);
    s.rate = 5;
    service_run(&s, 60);
    s.pods[0].sampled_ms = s.now_ms + 3600000;
    slo_decide(&s.policy, &s.obs, s.state, s.now_ms, false, &s.decision);
    assert_true(s.decision.hold);
    service_run(&s, 60); // and it does not stop later ones
    assert_false(s.decision.hold);
    service_finish(&s);
}

static void test_an_engine_without_progress_is_replaced(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 60;
    service_follow(&s, 900, 60);
    size_t n = s.n;
    service_run(&s, 60);
    struct service_engine stuck = s.engines[0];
    for (int i = 0; i < 12; i++) {
        stuck.running = 20;
        s.engines[0] = stuck;
        service_step(&s);
        s.engines[0] = stuck;
        s.engines[0].sampled_ms = s.now_ms;
        service_fill(&s, &s.engines[0], &s.pods[0]);
        slo_decide(&s.policy, &s.obs, s.state, s.now_ms + 1, false, &s.decision);
    }
    assert_true(s.decision.proposal >= (int32_t)n);
    service_finish(&s);
}

// Frozen pages, gaps, absent pods, restarts: a load that needs no more never gets more.
static void test_faults_never_scale_up(void **state)
{
    (void)state;
    struct service s;
    unsigned random = 7;
    size_t ups = 0;
    service_init(&s, "ttft=1s,itl=50ms", 4);
    s.rate = 20;
    service_run(&s, 600);
    for (int fault = 0; fault < 1000; fault++) {
        random = random * 1103515245 + 12345;
        size_t victim = (random >> 16) % 4;
        unsigned kind = (random >> 20) % 4;
        if (kind == 0)
            for (size_t i = 0; i < 4; i++)
                s.engines[i].frozen = true;
        else if (kind == 1)
            s.engines[victim].frozen = true;
        else if (kind == 2)
            memset(s.engines[victim].ttft, 0, sizeof(s.engines[victim].ttft));
        else
            s.now_ms += 30000; // no scrape at all
        for (int i = 0; i < 8; i++) {
            service_step(&s);
            ups += s.decision.proposal > 4;
        }
        for (size_t i = 0; i < 4; i++)
            s.engines[i].frozen = false;
        service_step(&s);
        ups += s.decision.proposal > 4;
    }
    assert_int_equal(ups, 0);
    service_finish(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_fresh_sample_holds),
        cmocka_unit_test(test_one_blind_pod_of_many_forbids_less_but_not_more),
        cmocka_unit_test(test_a_restart_is_no_load),
        cmocka_unit_test(test_restarts_of_most_engines_hold),
        cmocka_unit_test(test_no_ready_pod_holds),
        cmocka_unit_test(test_no_signal_holds),
        cmocka_unit_test(test_a_clock_that_is_set_back_holds_once),
        cmocka_unit_test(test_a_sample_from_the_future_is_not_fresh),
        cmocka_unit_test(test_an_engine_without_progress_is_replaced),
        cmocka_unit_test(test_faults_never_scale_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
