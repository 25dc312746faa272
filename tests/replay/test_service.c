// SPDX-License-Identifier: Apache-2.0
// Inference services as scenarios: their requests, what the autoscaler sees, the latency target,
// and errors.
#include "base/file.h"
#include "base/mem.h"
#include "replay/service.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define HPA(annotations, metric)                                                                   \
    "hpa: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: chat, "     \
    "annotations: {" annotations "}}, spec: {minReplicas: 1, maxReplicas: 8, "                     \
    "metrics: [" metric "]}}\n"
#define SLO(target) "gpuscale.dev/slo: \"" target "\""
#define DESIRED                                                                                    \
    "{type: External, external: {metric: {name: gpuscale_desired_replicas}, target: {type: "       \
    "AverageValue, averageValue: 1}}}"
#define PODS(name, value)                                                                          \
    "{type: Pods, pods: {metric: {name: " name                                                     \
    "}, target: {type: AverageValue, averageValue: " value "}}}"
#define ENGINE                                                                                     \
    "model: org/Llama-8B, gpu: H100-80GB, maxNumSeqs: 16, startup: 20s, promptTokens: 500, "       \
    "outputTokens: 100, "
#define SERVICE(requests) "service: {" ENGINE requests "}\n"
// One replica of this engine serves about 20 requests per second.
#define BURST "requests: [[0s, 4], [3m, 4], [3m, 40], [6m, 40], [6m, 4]]"

static struct gs_error *load_text(const char *text, struct replay_scenario **ret)
{
    char path[] = "/tmp/gpuscale-service-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    struct gs_error *err = replay_scenario_load(path, ret);
    unlink(path);
    return err;
}

static struct replay_scenario *scenario(const char *text)
{
    struct replay_scenario *s = NULL;
    assert_ok(load_text(text, &s));
    return s;
}

static struct replay_summary summary_of(const char *text)
{
    struct replay_scenario *s = scenario(text);
    struct replay_summary u;
    replay_summarize(s, &u);
    replay_scenario_free(s);
    return u;
}

static void assert_refused(const char *text, const char *part)
{
    struct replay_scenario *s = NULL;
    GS_AUTO_ERROR struct gs_error *err = load_text(text, &s);
    assert_non_null(err);
    if (!strstr(gs_error_message(err), part))
        fail_msg("no \"%s\" in: %s", part, gs_error_message(err));
}

// --- the requests ---

static void test_requests_follow_the_curve(void **state)
{
    (void)state;
    struct replay_scenario *s = scenario(HPA("", DESIRED) "duration: 10m\ndelay: 0s\n" SERVICE(
        "requests: [[0s, 10], [5m, 10], [5m, 50]]"));
    GS_AUTO_FREE struct inference_arrival *a = NULL;
    size_t n = 0, early = 0;
    double prompts = 0, outputs = 0;
    assert_ok(replay_service_arrivals(s, &a, &n));
    for (size_t i = 0; i < n; i++) {
        early += a[i].at_ns < INT64_C(300000000000);
        prompts += a[i].prompt;
        outputs += a[i].output;
        assert_true(i == 0 || a[i].at_ns >= a[i - 1].at_ns);
        assert_true(a[i].prompt >= 1 && a[i].output >= 1);
    }
    // Five standard deviations of Poisson.
    assert_true(fabs((double)early - 3000) < 5 * sqrt(3000));
    assert_true(fabs((double)(n - early) - 15000) < 5 * sqrt(15000));
    assert_true(fabs(prompts / (double)n - 500) < 25 && fabs(outputs / (double)n - 100) < 5);
    replay_scenario_free(s);
}

// A peak between two points of the grid on which the load is read, and a cost that it hides.
static void test_a_hidden_peak_is_refused(void **state)
{
    (void)state;
    assert_refused(HPA("", DESIRED) "duration: 30d\ndelay: 0s\n" SERVICE(
                       "requests: [[0s, 0], [100001ms, 0], [100002ms, 1e12], [100003ms, 0]]"),
                   "too many");
    // Few, but at a high rate: each part has candidates of its own.
    struct replay_scenario *s = scenario(HPA("", DESIRED) "duration: 30d\ndelay: 0s\n" SERVICE(
        "requests: [[0s, 0], [100001ms, 0], [100002ms, 1e6], [100003ms, 0]]"));
    GS_AUTO_FREE struct inference_arrival *a = NULL;
    size_t n = 0;
    assert_true(fabs(replay_service_expected(s) - 1000) < 1);
    assert_ok(replay_service_arrivals(s, &a, &n));
    assert_true(fabs((double)n - 1000) < 5 * sqrt(1000));
    replay_scenario_free(s);
}

static void test_equal_scenarios_have_equal_results(void **state)
{
    (void)state;
    static const char text[] =
        HPA(SLO("ttft=1s"), DESIRED) "duration: 8m\ndelay: 1s\n" SERVICE(BURST);
    struct replay_summary a = summary_of(text), b = summary_of(text);
    assert_memory_equal(&a, &b, sizeof(a));
    struct replay_scenario *s = scenario(text);
    assert_ok(replay_scenario_set(s, "seed", "2"));
    replay_summarize(s, &b);
    assert_true(a.requests != b.requests);
    replay_scenario_free(s);
}

static void test_a_published_shape_has_its_rate(void **state)
{
    (void)state;
    struct replay_summary u = summary_of(
        HPA("", DESIRED) "duration: 20m\ndelay: 1s\n" SERVICE("shape: constant, rate: 5"));
    assert_true(fabs(u.requests - 6000) < 5 * sqrt(6000));
}

// --- what decides ---

static void test_a_latency_target_orders_replicas_for_a_burst(void **state)
{
    (void)state;
    struct replay_scenario *s = scenario(HPA(SLO("ttft=1s"), DESIRED) "controller: {sync: 5s}\n"
                                                                      "duration: 8m\ndelay: "
                                                                      "1s\n" SERVICE(BURST));
    struct replay_result r;
    replay_run(s, &r);
    bool reason = false;
    for (size_t i = 0; i < r.n; i++)
        reason = reason || (r.rows[i].why && r.rows[i].t_ms > 180000 && *r.rows[i].why);
    assert_true(reason);
    assert_true(r.summary.max_replicas >= 2 && r.summary.max_replicas <= 8);
    assert_true(r.summary.of_service && r.summary.within_percent > 50);
    assert_true(r.summary.gpu_hours < 8 * 8 / 60.0);
    replay_result_finish(&r);
    replay_scenario_free(s);
}

static void test_a_shadow_target_changes_nothing(void **state)
{
    (void)state;
    struct replay_summary u = summary_of(
        HPA(SLO("ttft=1s,mode=shadow"), PODS("gpuscale_inference_waiting",
                                             "100000")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST));
    assert_int_equal(u.max_replicas, 1);
    assert_int_equal(u.ups, 0);
    // It is measured by the target all the same.
    assert_true(u.within_percent > 1 && u.within_percent < 50);
}

static void test_the_signals_of_engines_are_metrics(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HPA("", PODS("gpuscale_inference_waiting", "5")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST),
        HPA("", PODS("gpuscale_inference_running", "8")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST),
        HPA("", PODS("gpuscale_inference_kv_used_ratio",
                     "10m")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST),
        HPA("", PODS("gpuscale_inference_ttft_p90_seconds", "500m")) "duration: 8m\ndelay: "
                                                                     "1s\n" SERVICE(BURST),
        HPA("",
            PODS("own", "40")) "metrics: {own: running}\nduration: 8m\ndelay: 1s\n" SERVICE(BURST),
        HPA("", PODS("gpu_util", "60")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST),
    };
    static const bool grows[] = {true, true, true, true, false, true};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct replay_summary u = summary_of(texts[i]);
        if ((u.max_replicas > 1) != grows[i])
            fail_msg("scenario %zu: %d replicas", i, u.max_replicas);
    }
}

static void test_metrics_that_are_away_change_nothing(void **state)
{
    (void)state;
    struct replay_summary u =
        summary_of(HPA(SLO("ttft=1s"), PODS("gpuscale_inference_waiting",
                                            "5")) "duration: 8m\ndelay: 1s\nevents: [{at: 0s, "
                                                  "noMetrics: true, for: 1h}]\n" SERVICE(BURST));
    assert_int_equal(u.ups + u.downs, 0);
}

static void test_a_lost_replica_starts_again(void **state)
{
    (void)state;
    static const char steady[] = HPA("", PODS("gpuscale_inference_waiting", "100000"));
    GS_AUTO_FREE char *text =
        gs_format("%sduration: 5m\ndelay: 1s\nevents: [{at: 2m, lose: 1}]\n%s", steady,
                  SERVICE("requests: [[0s, 4]]"));
    struct replay_scenario *s = scenario(text);
    struct replay_result r;
    replay_run(s, &r);
    for (size_t i = 0; i < r.n; i++)
        assert_int_equal(r.rows[i].ready,
                         r.rows[i].t_ms > 120000 && r.rows[i].t_ms < 140000 ? 0 : 1);
    replay_result_finish(&r);
    replay_scenario_free(s);
}

// --- settings ---

static void test_a_key_of_the_target_is_replaced(void **state)
{
    (void)state;
    char slo[SLO_TEXT_MAX] = "ttft=1s, itl=50ms,p=90";
    assert_ok(replay_service_set_target(slo, "ttft", "2s"));
    assert_string_equal(slo, "ttft=2s,itl=50ms,p=90");
    assert_ok(replay_service_set_target(slo, "itl", ""));
    assert_string_equal(slo, "ttft=2s,p=90");
    assert_ok(replay_service_set_target(slo, "ttft", "")); // nothing is left that p is of
    assert_string_equal(slo, "");
    assert_ok(replay_service_set_target(slo, NULL, "ttft=1s,p=90"));
    assert_ok(replay_service_set_target(slo, NULL, ""));
    assert_string_equal(slo, "");
    assert_ok(replay_service_set_target(slo, "ttft", "1s"));
    assert_string_equal(slo, "ttft=1s");
    GS_AUTO_FREE char *long_text = gs_alloc(SLO_TEXT_MAX + 1);
    memset(long_text, 'x', SLO_TEXT_MAX);
    struct gs_error *err = replay_service_set_target(slo, "ttft", long_text);
    assert_non_null(err);
    gs_error_free(err);
    assert_string_equal(slo, "ttft=1s");
}

static void test_a_longer_target_is_met_more_often(void **state)
{
    (void)state;
    struct replay_scenario *s = scenario(
        HPA(SLO("ttft=1s,mode=shadow"),
            PODS("gpuscale_inference_waiting", "5")) "duration: 8m\ndelay: 1s\n" SERVICE(BURST));
    struct replay_summary one, ten;
    replay_summarize(s, &one);
    assert_ok(replay_scenario_set(s, "slo.ttft", "10s"));
    replay_summarize(s, &ten);
    assert_true(ten.within > one.within);
    assert_true(ten.finished == one.finished);
    struct gs_error *err = replay_scenario_set(s, "slo.ttft", "fast");
    assert_non_null(err);
    gs_error_free(err);
    replay_scenario_free(s);
}

static void test_wrong_services_are_refused(void **state)
{
    (void)state;
    assert_refused(HPA(SLO("ttft=never"), DESIRED) SERVICE(BURST), "ttft");
    assert_refused(HPA(SLO("queue=1s"), DESIRED) SERVICE(BURST), "measured by ttft or itl");
    assert_refused(HPA("", DESIRED) SERVICE("shape: constant"), "a shape needs a rate");
    assert_refused(HPA("", DESIRED) SERVICE("shape: none, rate: 1"), "shape");
    assert_refused(HPA("", DESIRED) SERVICE("router: best, rate: 1"), "router");
    assert_refused(HPA("", DESIRED) SERVICE("rates: 1"), "rates");
    assert_refused(HPA("", DESIRED) SERVICE("gpusPerReplica: 0, " BURST), "gpusPerReplica");
    assert_refused(HPA("", DESIRED) "delay: 1m\n" SERVICE(BURST), "delay");
    assert_refused(HPA("", DESIRED) "events: [{at: 0s, scale: 2000}]\n" SERVICE(BURST), "at most");
    assert_refused(HPA("", DESIRED) "nodes: {gpusPerNode: 8}\n" SERVICE(BURST), "no nodes");
    assert_refused(HPA("", DESIRED) "duration: 365d\n" SERVICE(BURST), "too many");
    assert_refused(HPA("", PODS("q", "1")) "metrics: {q: ttft}\nworkload: {load: [[0s, 1]]}\n",
                   "only a scenario with a service");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_follow_the_curve),
        cmocka_unit_test(test_a_hidden_peak_is_refused),
        cmocka_unit_test(test_equal_scenarios_have_equal_results),
        cmocka_unit_test(test_a_published_shape_has_its_rate),
        cmocka_unit_test(test_a_latency_target_orders_replicas_for_a_burst),
        cmocka_unit_test(test_a_shadow_target_changes_nothing),
        cmocka_unit_test(test_the_signals_of_engines_are_metrics),
        cmocka_unit_test(test_metrics_that_are_away_change_nothing),
        cmocka_unit_test(test_a_lost_replica_starts_again),
        cmocka_unit_test(test_a_key_of_the_target_is_replaced),
        cmocka_unit_test(test_a_longer_target_is_met_more_often),
        cmocka_unit_test(test_wrong_services_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
