// SPDX-License-Identifier: Apache-2.0
// The fleet of engines: routing, starts, drains, faults, figures, and that equal runs are equal.
#include "unit.h"

#include "base/mem.h"
#include "inference/fleet.h"

#include <stdlib.h>

#define S INT64_C(1000000000)

enum { MAX_PODS = 64 };

// Round numbers: a step takes 10 ms; a request of 100 tokens of output a second.
static struct inference_fleet_setup setup(uint32_t replicas)
{
    return (struct inference_fleet_setup){
        .engine = {.max_num_seqs = 4,
                   .max_num_batched_tokens = 4096,
                   .max_model_len = 8192,
                   .block_size = 16,
                   .num_blocks = 10000,
                   .max_queued = UINT32_MAX,
                   .cost = {.host_ns = 0, .weights_ns = 10e6}},
        .replicas = replicas,
        .start_s = 60,
        .ttft_s = 1,
        .seed = 1,
    };
}

// Requests of 100 tokens, this far apart.
static struct inference_arrival *every(int64_t gap_ns, size_t n)
{
    struct inference_arrival *a = gs_alloc_array(n, sizeof(*a));
    for (size_t i = 0; i < n; i++)
        a[i] = (struct inference_arrival){(int64_t)i * gap_ns, 10, 100};
    return a;
}

static struct inference_pod pod(const struct inference_fleet *f, size_t nth)
{
    struct inference_pod pods[MAX_PODS];
    assert_true(inference_fleet_pods(f, pods, MAX_PODS) > nth);
    return pods[nth];
}

static size_t count(const struct inference_fleet *f, enum inference_pod_phase phase)
{
    struct inference_pod pods[MAX_PODS];
    size_t n = inference_fleet_pods(f, pods, MAX_PODS), found = 0;
    for (size_t i = 0; i < n; i++)
        found += pods[i].phase == phase;
    return found;
}

static void test_requests_go_to_the_engine_with_the_fewest(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(1000, 6);
    const struct inference_fleet_setup s = setup(3);
    struct inference_fleet *f = inference_fleet_new(&s, a, 6);
    inference_fleet_advance(f, S / 100);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pod(f, i).state.running + pod(f, i).state.waiting, 2);
    inference_fleet_advance(f, 5 * S);
    struct inference_fleet_figures r = inference_fleet_figures(f);
    assert_int_equal(r.arrived, 6);
    assert_int_equal(r.finished, 6);
    assert_int_equal(r.within, 6);
    assert_float_equal(r.pod_hours, 3 * 5.0 / 3600, 1e-9);
    inference_fleet_free(f);
}

static void test_a_placeholder_saves_the_wait_for_a_node_and_costs_its_hours(void **state)
{
    (void)state;
    struct inference_fleet_setup s = setup(1);
    s.node_s = 40; // of 60
    struct inference_fleet *f = inference_fleet_new(&s, NULL, 0);
    inference_fleet_hold(f, 1);
    inference_fleet_advance(f, 30 * S);
    inference_fleet_scale(f, 3); // the second one takes the place, whose node comes in 10 s
    inference_fleet_advance(f, 59 * S);
    assert_int_equal(count(f, INFERENCE_POD_READY), 1);
    inference_fleet_advance(f, 61 * S);
    assert_int_equal(count(f, INFERENCE_POD_READY), 2);
    inference_fleet_advance(f, 91 * S);
    assert_int_equal(count(f, INFERENCE_POD_READY), 3);
    inference_fleet_hold(f, 2);
    inference_fleet_advance(f, 101 * S);
    inference_fleet_hold(f, 1);
    inference_fleet_advance(f, 111 * S);
    // Pods 111 + 2 * 81 s; placeholders 30, 10 and 20 s.
    assert_float_equal(inference_fleet_figures(f).pod_hours, (111 + 162 + 60) / 3600.0, 1e-9);
    inference_fleet_free(f);
}

static void test_a_queue_misses_the_target(void **state)
{
    (void)state;
    // Four at once, each a second: of 12, the last four wait for two seconds.
    GS_AUTO_FREE struct inference_arrival *a = every(1, 12);
    const struct inference_fleet_setup s = setup(1);
    struct inference_fleet *f = inference_fleet_new(&s, a, 12);
    inference_fleet_advance(f, S / 2);
    assert_int_equal(pod(f, 0).state.waiting, 8);
    assert_int_equal(pod(f, 0).queued_tokens, 80);
    assert_int_equal(pod(f, 0).last_step.decode, 4);
    inference_fleet_advance(f, 10 * S);
    assert_int_equal(inference_fleet_figures(f).finished, 12);
    assert_int_equal(inference_fleet_figures(f).within, 4);
    assert_int_equal(pod(f, 0).stats->output_tokens, 1200);
    inference_fleet_free(f);
}

static void test_a_pod_serves_after_its_start(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(S, 100);
    struct inference_fleet_setup s = setup(1);
    s.gpus = 2;
    struct inference_fleet *f = inference_fleet_new(&s, a, 100);
    inference_fleet_advance(f, 10 * S);
    inference_fleet_scale(f, 3);
    assert_int_equal(count(f, INFERENCE_POD_STARTING), 1);
    assert_int_equal(count(f, INFERENCE_POD_UNSCHEDULABLE), 1);
    inference_fleet_advance(f, 69 * S);
    assert_int_equal(count(f, INFERENCE_POD_READY), 1);
    assert_null(pod(f, 1).stats);
    inference_fleet_advance(f, 70 * S);
    assert_int_equal(count(f, INFERENCE_POD_READY), 2);
    assert_int_equal(pod(f, 1).since_ns, 70 * S);
    assert_int_equal(inference_fleet_figures(f).peak, 3);
    inference_fleet_free(f);
}

static void test_a_removed_pod_drains_and_gives_its_gpu_away(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(S / 100, 4);
    struct inference_fleet_setup s = setup(2);
    s.gpus = 2;
    struct inference_fleet *f = inference_fleet_new(&s, a, 4);
    inference_fleet_advance(f, S / 2);
    inference_fleet_scale(f, 1);
    assert_int_equal(count(f, INFERENCE_POD_DRAINING), 1);
    inference_fleet_scale(f, 2);
    assert_int_equal(count(f, INFERENCE_POD_UNSCHEDULABLE), 1);
    inference_fleet_advance(f, 2 * S);
    assert_int_equal(count(f, INFERENCE_POD_DRAINING), 0);
    assert_int_equal(count(f, INFERENCE_POD_STARTING), 1);
    struct inference_fleet_figures r = inference_fleet_figures(f);
    assert_int_equal(r.finished, 4); // nothing was lost
    assert_int_equal(r.reversals, 1);
    inference_fleet_free(f);
}

static void test_the_youngest_pods_are_removed_first(void **state)
{
    (void)state;
    const struct inference_fleet_setup s = setup(2);
    struct inference_fleet *f = inference_fleet_new(&s, NULL, 0);
    inference_fleet_scale(f, 4);
    inference_fleet_advance(f, S);
    inference_fleet_scale(f, 3);
    assert_int_equal(count(f, INFERENCE_POD_READY), 2);
    assert_int_equal(count(f, INFERENCE_POD_STARTING), 1);
    inference_fleet_advance(f, 100 * S);
    inference_fleet_scale(f, 2);
    assert_int_equal(pod(f, 0).id, 1);
    assert_int_equal(pod(f, 1).id, 2);
    inference_fleet_free(f);
}

static void test_a_crash_returns_requests_to_the_router(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(1, 2);
    const struct inference_fleet_setup s = setup(1);
    struct inference_fleet *f = inference_fleet_new(&s, a, 2);
    inference_fleet_advance(f, S / 2);
    inference_fleet_crash(f, 0);
    assert_int_equal(count(f, INFERENCE_POD_STARTING), 1);
    assert_int_equal(pod(f, 0).starts, 2);
    inference_fleet_advance(f, 100 * S);
    struct inference_fleet_figures r = inference_fleet_figures(f);
    assert_int_equal(r.retried, 2);
    assert_int_equal(r.finished, 2);
    assert_int_equal(r.within, 0); // their answers broke off
    inference_fleet_free(f);
}

static void test_starts_can_fail(void **state)
{
    (void)state;
    struct inference_fleet_setup s = setup(1);
    s.failed_starts = 0.999;
    struct inference_fleet *f = inference_fleet_new(&s, NULL, 0);
    inference_fleet_scale(f, 2);
    inference_fleet_advance(f, 200 * S);
    assert_int_equal(count(f, INFERENCE_POD_STARTING), 1);
    assert_int_equal(pod(f, 1).starts, 4);
    assert_int_equal(pod(f, 1).since_ns, 0);
    inference_fleet_free(f);
}

static void test_slow_and_leaking_engines(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(S, 1);
    struct inference_fleet_setup s = setup(1);
    struct inference_fleet *f = inference_fleet_new(&s, a, 1);
    inference_fleet_slow(f, 0, 3);
    inference_fleet_advance(f, 2 * S);
    assert_int_equal(inference_fleet_figures(f).finished, 0);
    inference_fleet_advance(f, 3 * S + S / 10);
    assert_int_equal(inference_fleet_figures(f).finished, 1);
    inference_fleet_free(f);

    a[0].at_ns = 3600 * S;
    s.leak_per_hour = 1;
    f = inference_fleet_new(&s, a, 1);
    inference_fleet_advance(f, 3601 * S + S / 2);
    assert_int_equal(inference_fleet_figures(f).finished, 0);
    inference_fleet_advance(f, 3602 * S + S / 10);
    assert_int_equal(inference_fleet_figures(f).finished, 1);
    inference_fleet_free(f);
}

static void test_requests_wait_for_the_first_pod(void **state)
{
    (void)state;
    GS_AUTO_FREE struct inference_arrival *a = every(S, 3);
    const struct inference_fleet_setup s = setup(0);
    struct inference_fleet_moment m;
    struct inference_fleet *f = inference_fleet_new(&s, a, 3);
    inference_fleet_advance(f, 5 * S);
    inference_fleet_take_moment(f, &m);
    assert_int_equal(m.waiting, 3);
    assert_int_equal(m.arrived, 3);
    assert_true(m.ttft_p90_s != m.ttft_p90_s);
    inference_fleet_scale(f, 1);
    inference_fleet_advance(f, 70 * S);
    inference_fleet_take_moment(f, &m);
    assert_int_equal(m.finished, 3);
    assert_int_equal(m.arrived, 0);
    assert_true(m.ttft_p50_s > 60);
    inference_fleet_free(f);
}

static struct inference_fleet_figures run_long(enum inference_router router)
{
    const struct inference_arrivals settings = {
        .shape = INFERENCE_BURSTGPT, .duration_s = 300, .rate = 4, .seed = 7};
    struct inference_arrival *a = NULL;
    size_t n = 0;
    struct inference_fleet_setup s = setup(4);
    s.router = router;
    s.start_spread = 0.3;
    assert_null(inference_arrivals_make(&settings, &a, &n));
    struct inference_fleet *f = inference_fleet_new(&s, a, n);
    for (int64_t t = 0; t < 400; t += 20) {
        inference_fleet_advance(f, t * S);
        inference_fleet_scale(f, 4 + (uint32_t)(t / 20) % 5);
    }
    struct inference_fleet_figures r = inference_fleet_figures(f);
    inference_fleet_free(f);
    free(a);
    return r;
}

static void test_equal_runs_are_equal(void **state)
{
    (void)state;
    struct inference_fleet_figures a = run_long(INFERENCE_LEAST_REQUESTS),
                                   b = run_long(INFERENCE_LEAST_REQUESTS),
                                   c = run_long(INFERENCE_RANDOM);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_true(a.finished > 800);
    assert_int_equal(a.arrived, c.arrived);
    assert_true(c.within < a.within); // a random router queues where others are idle
}

// --- arrivals ---

static void test_arrivals_have_rate_order_and_lengths(void **state)
{
    (void)state;
    for (size_t shape = 0; shape < INFERENCE_N_SHAPES; shape++) {
        const struct inference_arrivals settings = {.shape = (enum inference_shape)shape,
                                                    .duration_s = 3600,
                                                    .rate = 5,
                                                    .max_prompt = 3000,
                                                    .seed = 3};
        struct inference_arrival *a = NULL;
        enum inference_shape parsed;
        size_t n = 0;
        assert_null(inference_arrivals_make(&settings, &a, &n));
        assert_in_range(n, 16500, 19500);
        for (size_t i = 0; i < n; i++) {
            assert_true(a[i].at_ns >= (i ? a[i - 1].at_ns : 0));
            assert_true(a[i].at_ns <= 3600 * S);
            assert_in_range(a[i].prompt, 1, 3000);
            assert_in_range(a[i].output, 1, 1024);
        }
        free(a);
        assert_null(inference_shape_parse(inference_shape_name(settings.shape), &parsed));
        assert_int_equal(parsed, shape);
    }
}

static size_t between(const struct inference_arrival *a, size_t n, int64_t from, int64_t to)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += a[i].at_ns >= from * S && a[i].at_ns < to * S;
    return found;
}

static void test_a_burst_has_three_times_the_rate(void **state)
{
    (void)state;
    const struct inference_arrivals settings = {
        .shape = INFERENCE_BURST, .duration_s = 1000, .rate = 20, .seed = 5};
    struct inference_arrival *a = NULL;
    size_t n = 0;
    assert_null(inference_arrivals_make(&settings, &a, &n));
    double ratio = (double)between(a, n, 250, 350) / (double)between(a, n, 100, 200);
    assert_true(ratio > 2.7 && ratio < 3.3);
    free(a);
}

static void test_wrong_arrivals(void **state)
{
    (void)state;
    enum inference_shape shape;
    struct inference_arrivals settings = {.duration_s = 1e9, .rate = 1e9};
    struct inference_arrival *a;
    size_t n;
    assert_error(inference_shape_parse("burst-gpt", &shape), GS_EINVAL, "azure-chat");
    assert_error(inference_arrivals_make(&settings, &a, &n), GS_ELIMIT, "requests");
    settings = (struct inference_arrivals){.duration_s = 0.5, .rate = 1};
    assert_error(inference_arrivals_make(&settings, &a, &n), GS_ELIMIT, "second");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_go_to_the_engine_with_the_fewest),
        cmocka_unit_test(test_a_placeholder_saves_the_wait_for_a_node_and_costs_its_hours),
        cmocka_unit_test(test_a_queue_misses_the_target),
        cmocka_unit_test(test_a_pod_serves_after_its_start),
        cmocka_unit_test(test_a_removed_pod_drains_and_gives_its_gpu_away),
        cmocka_unit_test(test_the_youngest_pods_are_removed_first),
        cmocka_unit_test(test_a_crash_returns_requests_to_the_router),
        cmocka_unit_test(test_starts_can_fail),
        cmocka_unit_test(test_slow_and_leaking_engines),
        cmocka_unit_test(test_requests_wait_for_the_first_pod),
        cmocka_unit_test(test_equal_runs_are_equal),
        cmocka_unit_test(test_arrivals_have_rate_order_and_lengths),
        cmocka_unit_test(test_a_burst_has_three_times_the_rate),
        cmocka_unit_test(test_wrong_arrivals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
