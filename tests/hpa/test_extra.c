// SPDX-License-Identifier: Apache-2.0
// The proposal of an annotation beside those of the metrics: struct hpa_extra.
#include "base/mem.h"
#include "base/slice.h"
#include "hpa/convert.h"
#include "hpa/explanation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define T0_MS INT64_C(1700000000000)
#define PODS_METRIC                                                                                \
    "{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"queue\"},\"target\":{\"type\":"           \
    "\"AverageValue\",\"averageValue\":\"10\"}}}"
#define DESIRED(target)                                                                            \
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"gpuscale_desired_replicas\"},"    \
    "\"target\":" target "}}"
#define AVERAGE_1 "{\"type\":\"AverageValue\",\"averageValue\":\"1\"}"
#define VALUE_1   "{\"type\":\"Value\",\"value\":\"1\"}"

struct bench {
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    struct hpa_pod pods[10];
    struct hpa_sample samples[10]; // of the first metric, 10 each: at the target
    struct hpa_metric_observation metrics[2];
    struct hpa_extra extra;
    struct hpa_observation obs;
    struct hpa_decision d;
};

static const struct hpa_extra four = {
    .replicas = 4, .applied = true, .name = "latency target", .explanation = "demand: 4 replicas"};

// Ten pods, with a value at the target in the first metric.
static void set_up(struct bench *b, const char *metrics, struct hpa_extra extra)
{
    *b = (struct bench){.cfg = hpa_config_default(), .history = hpa_history_new(), .extra = extra};
    CODEC_AUTO_JSON json_t *object = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:i, s:i, s:o}}", "apiVersion", "autoscaling/v2", "kind",
        "HorizontalPodAutoscaler", "metadata", "name", "web", "namespace", "shop", "uid", "u",
        "spec", "minReplicas", 1, "maxReplicas", 20, "metrics", json_loads(metrics, 0, NULL));
    hpa_default(object);
    assert_null(hpa_spec_parse(object, &b->spec));
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    for (int i = 0; i < 10; i++) {
        b->pods[i] = (struct hpa_pod){.name = names[i],
                                      .phase = HPA_POD_RUNNING,
                                      .ready = HPA_CONDITION_TRUE,
                                      .has_start_time = true};
        b->samples[i] = (struct hpa_sample){names[i], 10000, T0_MS, 0};
    }
    b->metrics[0] = (struct hpa_metric_observation){b->samples, 10, NULL};
    b->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = 10,
                                      .status_replicas = 10,
                                      .selector = "a=b",
                                      .pods = b->pods,
                                      .n_pods = 10,
                                      .metrics = b->metrics,
                                      .extra = &b->extra};
    b->cfg.downscale_window_ms = 0;
}

static void decide(struct bench *b)
{
    hpa_decision_finish(&b->d);
    hpa_decide(&b->spec, &b->obs, &b->cfg, b->history, T0_MS, &b->d);
}

static void tear_down(struct bench *b)
{
    hpa_decision_finish(&b->d);
    hpa_spec_finish(&b->spec);
    hpa_history_free(b->history);
}

static const char *active(const struct bench *b)
{
    return hpa_decision_condition(&b->d, "ScalingActive")->message;
}

static void test_highest_wins(void **state)
{
    struct bench b;
    (void)state;
    set_up(&b, "[" PODS_METRIC "]", four);
    decide(&b);
    assert_int_equal(b.d.desired, 10); // of the metric
    b.extra.replicas = 12;
    decide(&b);
    assert_int_equal(b.d.desired, 12);
    assert_string_equal(b.d.reason, "demand: 4 replicas");
    assert_non_null(strstr(active(&b), "from latency target"));
    // The limits and rules of the object stay in force.
    b.extra.replicas = 100;
    decide(&b);
    assert_int_equal(b.d.desired, 20);
    tear_down(&b);
}

static void test_not_applied(void **state)
{
    struct bench b;
    (void)state;
    set_up(&b, "[" PODS_METRIC "]", four);
    b.extra.replicas = 12;
    b.extra.applied = false;
    decide(&b);
    assert_int_equal(b.d.desired, 10);
    b.extra.applied = true;
    b.extra.replicas = -1;
    decide(&b);
    assert_int_equal(b.d.desired, 10);
    tear_down(&b);
}

static void test_held(void **state)
{
    struct bench b;
    (void)state;
    set_up(&b, "[" PODS_METRIC "]", four);
    for (int i = 0; i < 10; i++)
        b.samples[i].value = 1000; // one replica
    b.extra.replicas = 10;
    b.extra.held = true;
    b.extra.explanation = "no fresh samples";
    decide(&b);
    assert_int_equal(b.d.desired, 10);
    assert_string_equal(b.d.explanation, "no scaling down: no fresh samples");
    // Metrics can scale up.
    for (int i = 0; i < 10; i++)
        b.samples[i].value = 12000;
    decide(&b);
    assert_int_equal(b.d.desired, 12);
    // If all metrics fail, nothing says how many replicas are needed.
    b.metrics[0] = (struct hpa_metric_observation){.error = "down"};
    decide(&b);
    assert_int_equal(b.d.outcome, HPA_OUTCOME_NO_COUNT);
    tear_down(&b);
}

static void test_metrics_fail(void **state)
{
    struct bench b;
    (void)state;
    set_up(&b, "[" PODS_METRIC "]", four);
    b.metrics[0] = (struct hpa_metric_observation){.error = "down"};
    decide(&b);
    assert_int_equal(b.d.desired, 10); // not down while a metric is missing
    assert_int_equal(b.d.outcome, HPA_OUTCOME_NO_COUNT);
    b.extra.replicas = 13;
    decide(&b);
    assert_int_equal(b.d.desired, 13);
    tear_down(&b);
}

// As in a metric of the spec: without tolerance, and without the metrics API.
static void test_metric_of_spec(void **state)
{
    static const char *const specs[] = {"[" DESIRED(AVERAGE_1) "]", "[" DESIRED(VALUE_1) "]"};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(specs); i++) {
        struct bench b;
        set_up(&b, specs[i], four);
        b.metrics[0] = (struct hpa_metric_observation){0};
        b.extra.replicas = 11;
        decide(&b);
        assert_int_equal(b.d.desired, 11);
        assert_string_equal(b.d.metrics[0].explanation,
                            "gpuscale_desired_replicas: demand: 4 replicas: 11 replicas");
        b.extra.replicas = 9;
        decide(&b);
        assert_int_equal(b.d.desired, 9);
        // With mode=shadow, only the metric applies it.
        b.extra.applied = false;
        decide(&b);
        assert_int_equal(b.d.desired, 9);
        b.extra.replicas = -1;
        b.extra.explanation = "no engine";
        decide(&b);
        assert_int_equal(b.d.outcome, HPA_OUTCOME_NO_COUNT);
        assert_non_null(strstr(active(&b), "no engine"));
        tear_down(&b);
    }
}

// The value in the status is that of kube-controller-manager.
static void test_status_value(void **state)
{
    struct bench b;
    (void)state;
    set_up(&b, "[" DESIRED(AVERAGE_1) "]", four);
    b.extra.replicas = 15;
    decide(&b);
    assert_true(b.d.metrics[0].has_average_value);
    assert_int_equal(b.d.metrics[0].average_value, 1500);
    tear_down(&b);
}

static void test_from_json(void **state)
{
    static const struct {
        const char *json;
        struct hpa_extra want;
    } cases[] = {
        {"{\"proposal\":7,\"hold\":null,\"applied\":true,\"explanation\":\"x\"}",
         {.replicas = 7, .applied = true}},
        {"{\"proposal\":7,\"hold\":\"stale\",\"applied\":true,\"explanation\":\"x\"}",
         {.replicas = 7, .applied = true, .held = true}},
        {"{\"proposal\":7,\"hold\":null,\"applied\":false,\"explanation\":\"x\"}", {.replicas = 7}},
        {"{\"applied\":true,\"error\":\"x\"}", {.replicas = -1, .applied = true, .held = true}},
        {"{\"proposal\":99999999999,\"applied\":true,\"explanation\":\"x\"}",
         {.replicas = INT32_MAX, .applied = true}},
    };
    (void)state;
    struct hpa_extra e;
    assert_false(hpa_extra_from_json(NULL, &e));
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        CODEC_AUTO_JSON json_t *json = json_loads(cases[i].json, 0, NULL);
        assert_true(hpa_extra_from_json(json, &e));
        assert_int_equal(e.replicas, cases[i].want.replicas);
        assert_int_equal(e.applied, cases[i].want.applied);
        assert_int_equal(e.held, cases[i].want.held);
        assert_string_equal(e.explanation, "x");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_highest_wins),   cmocka_unit_test(test_not_applied),
        cmocka_unit_test(test_held),           cmocka_unit_test(test_metrics_fail),
        cmocka_unit_test(test_metric_of_spec), cmocka_unit_test(test_status_value),
        cmocka_unit_test(test_from_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
