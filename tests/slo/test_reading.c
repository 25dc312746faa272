// SPDX-License-Identifier: Apache-2.0
// The samples of a query as signals of pods.
#include "slo/slo.h"
#include "unit.h"

#include <math.h>

static struct slo_policy policy(const char *text)
{
    struct slo_policy p;
    assert_ok(slo_policy_parse(text, &p));
    return p;
}

static void test_gauges_and_counters(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pods[2] = {{.name = "a"}, {.name = "b"}};
    struct slo_reading *r = slo_reading_new(&p, pods, 2);
    slo_reading_add(r, "gpuscale_inference_waiting", "a", NULL, NULL, 3, 1000);
    slo_reading_add(r, "gpuscale_inference_waiting", "a", NULL, NULL, 2, 2000); // another rank
    slo_reading_add(r, "gpuscale_inference_kv_used_ratio", "a", NULL, NULL, 0.2, 1000);
    slo_reading_add(r, "gpuscale_inference_kv_used_ratio", "a", NULL, NULL, 0.5, 1000);
    slo_reading_add(r, "gpuscale_inference_prompt_tokens_total", "a", NULL, NULL, 7, 1500);
    slo_reading_add(r, "up", "a", NULL, NULL, 1, 9000);
    slo_reading_add(r, "gpuscale_inference_waiting", "c", NULL, NULL, 99, 9000);
    slo_reading_add(r, "gpuscale_inference_running", "a", NULL, NULL, NAN, 9000);
    assert_int_equal(slo_reading_end(r), SLO_UNIFIED);
    assert_true(pods[0].v[SLO_WAITING] == 5);
    assert_true(pods[0].v[SLO_KV_USED_RATIO] == 0.5);
    assert_true(pods[0].v[SLO_PROMPT_TOKENS] == 7);
    assert_false(slo_pod_has(&pods[0], SLO_RUNNING));
    assert_int_equal(pods[0].sampled_ms, 2000);
    assert_int_equal(pods[1].has, 0);
    assert_int_equal(pods[1].sampled_ms, 0);
    slo_reading_free(r);
}

static void add_bucket(struct slo_reading *r, const char *le, double count)
{
    slo_reading_add(r, "gpuscale_inference_ttft_seconds_bucket", "a", le, NULL, count, 1000);
}

static void test_buckets_in_any_order_and_of_several_ranks(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    add_bucket(r, "+Inf", 10);
    add_bucket(r, "0.5", 4);
    add_bucket(r, "1.0", 8);
    add_bucket(r, "1", 1);
    add_bucket(r, "0.5", 1);
    add_bucket(r, "+Inf", 1);
    add_bucket(r, "x", 50);
    slo_reading_add(r, "gpuscale_inference_ttft_seconds_sum", "a", NULL, NULL, 3.5, 1000);
    slo_reading_end(r);
    const struct slo_histogram *h = &pod.latency[SLO_TTFT];
    assert_int_equal(h->n, 3);
    assert_true(h->bounds[0] == 0.5 && h->bounds[1] == 1 && isinf(h->bounds[2]));
    assert_true(h->counts[0] == 5 && h->counts[1] == 9 && h->counts[2] == 11);
    assert_true(h->has_sum && h->sum == 3.5);
    assert_true(pod.v[SLO_REQUESTS] == 11);
    slo_reading_free(r);
}

static void test_a_histogram_without_infinity_is_absent(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    add_bucket(r, "0.5", 4);
    slo_reading_end(r);
    assert_int_equal(pod.latency[SLO_TTFT].n, 0);
    slo_reading_free(r);
}

static void test_too_many_buckets_are_bounded(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    add_bucket(r, "+Inf", 1000);
    for (int i = 1; i < 1000; i++) {
        char le[16];
        snprintf(le, sizeof(le), "%d", i);
        add_bucket(r, le, i);
    }
    slo_reading_end(r);
    assert_int_equal(pod.latency[SLO_TTFT].n, SLO_MAX_BUCKETS);
    slo_reading_free(r);
}

static void test_a_histogram_by_name_and_utilization(void **state)
{
    (void)state;
    const struct slo_policy p = policy("http_request_duration_seconds=2s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    slo_reading_add(r, "http_request_duration_seconds_bucket", "a", "+Inf", NULL, 5, 1000);
    slo_reading_add(r, "DCGM_FI_DEV_GPU_UTIL", "a", NULL, NULL, 60, 4000);
    slo_reading_add(r, "DCGM_FI_DEV_GPU_UTIL", "a", NULL, NULL, 80, 4000); // its second GPU
    slo_reading_end(r);
    assert_int_equal(pod.latency[SLO_OTHER].n, 1);
    assert_true(fabs(pod.v[SLO_UTILIZATION] - 0.7) < 1e-9);
    // A fresh GPU does not make old requests fresh.
    assert_int_equal(pod.sampled_ms, 1000);
    slo_reading_free(r);
}

static void test_the_role_of_the_series(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    slo_reading_add(r, "gpuscale_inference_waiting", "a", NULL, "prefill", 1, 1000);
    assert_int_equal(slo_reading_end(r), SLO_PREFILL);
    slo_reading_free(r);
}

// The sum of two ranks would be infinite, and so would be all that is calculated from it.
static void test_huge_values_are_left_out(void **state)
{
    (void)state;
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a"};
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    for (int rank = 0; rank < 2; rank++) {
        slo_reading_add(r, "gpuscale_inference_prompt_tokens_total", "a", NULL, NULL, 1.7e308, 9);
        slo_reading_add(r, "gpuscale_inference_ttft_seconds_sum", "a", NULL, NULL, 1.7e308, 9);
        add_bucket(r, "+Inf", 1.7e308);
    }
    slo_reading_end(r);
    assert_int_equal(pod.has, 0);
    assert_int_equal(pod.latency[SLO_TTFT].n, 0);
    assert_int_equal(pod.sampled_ms, 0); // the pod has no sample
    slo_reading_free(r);
}

static void read_ranks(struct slo_state *st, int64_t s, int ranks, struct slo_decision *ret)
{
    const struct slo_policy p = policy("ttft=1s");
    struct slo_pod pod = {.name = "a", .phase = SLO_POD_READY, .since_ms = 1};
    const struct slo_observation obs = {
        .pods = &pod, .n_pods = 1, .replicas = 1, .min = 1, .max = 100, .scrape_ms = 5000};
    int64_t now_ms = 1700000000000 + s * 1000;
    struct slo_reading *r = slo_reading_new(&p, &pod, 1);
    for (int rank = 0; rank < ranks; rank++) {
        double requests = rank ? 1e6 : 1000 + 10 * (double)s;
        slo_reading_add(r, "gpuscale_inference_running", "a", NULL, NULL, 1, now_ms);
        add_bucket(r, "0.5", requests);
        add_bucket(r, "+Inf", requests);
        slo_reading_add(r, "gpuscale_inference_waiting", "a", NULL, NULL, 0, now_ms);
    }
    slo_reading_end(r);
    slo_decide(&p, &obs, st, now_ms, false, ret);
    slo_reading_free(r);
}

// The page of a rank could not be read for some time, and its counter is a million then.
static void test_a_rank_that_appears_has_no_increment(void **state)
{
    (void)state;
    SLO_AUTO_STATE struct slo_state *st = slo_state_new();
    struct slo_decision d;
    for (int64_t s = 0; s < 120; s += 5)
        read_ranks(st, s, 1, &d);
    assert_true(fabs(d.demand - 10) < 1);
    for (int64_t s = 120; s < 180; s += 5) {
        read_ranks(st, s, 2, &d);
        assert_true(fabs(d.demand - 10) < 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gauges_and_counters),
        cmocka_unit_test(test_buckets_in_any_order_and_of_several_ranks),
        cmocka_unit_test(test_a_histogram_without_infinity_is_absent),
        cmocka_unit_test(test_too_many_buckets_are_bounded),
        cmocka_unit_test(test_a_histogram_by_name_and_utilization),
        cmocka_unit_test(test_the_role_of_the_series),
        cmocka_unit_test(test_huge_values_are_left_out),
        cmocka_unit_test(test_a_rank_that_appears_has_no_increment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
