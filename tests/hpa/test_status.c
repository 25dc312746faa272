// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/status.h"
#include "kube/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define T0_MS INT64_C(1700000000000) // 2023-11-14T22:13:20Z

struct bench {
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    struct hpa_pod pods[2];
    struct hpa_sample samples[2];
    struct hpa_metric_observation metrics[2];
    struct hpa_observation obs;
};

static void bench_init(struct bench *b, const char *metrics, const char *status)
{
    *b = (struct bench){.cfg = hpa_config_default(), .history = hpa_history_new()};
    CODEC_AUTO_JSON json_t *object =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:i, s:i, s:o}, s:o}", "apiVersion",
                  "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "name", "web",
                  "namespace", "shop", "uid", "u", "spec", "minReplicas", 1, "maxReplicas", 10,
                  "metrics", json_loads(metrics, 0, NULL), "status", json_loads(status, 0, NULL));
    hpa_default(object);
    assert_null(hpa_spec_parse(object, &b->spec));
    for (int i = 0; i < 2; i++) {
        b->pods[i] = (struct hpa_pod){.name = i ? "b" : "a",
                                      .phase = HPA_POD_RUNNING,
                                      .ready = HPA_CONDITION_TRUE,
                                      .has_start_time = true};
        b->samples[i].pod = b->pods[i].name;
        b->samples[i].timestamp_ms = T0_MS;
    }
    b->metrics[0] = (struct hpa_metric_observation){b->samples, 2, NULL};
    b->metrics[1] = (struct hpa_metric_observation){NULL, 0, "down"};
    b->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = 2,
                                      .status_replicas = 2,
                                      .selector = "a=b",
                                      .pods = b->pods,
                                      .n_pods = 2,
                                      .metrics = b->metrics};
}

static void bench_finish(struct bench *b)
{
    hpa_spec_finish(&b->spec);
    hpa_history_free(b->history);
}

// Decides, "writes" (with write_error when not NULL) and builds.
static json_t *pass(struct bench *b, int64_t now_ms, const char *write_error)
{
    struct hpa_decision d;
    hpa_decide(&b->spec, &b->obs, &b->cfg, b->history, now_ms, &d);
    if (d.rescale)
        hpa_decision_written(&b->spec, &b->cfg, write_error, &d);
    json_t *status = hpa_status_build(&b->spec, &d);
    hpa_decision_finish(&d);
    return status;
}

static const json_t *condition(const json_t *status, const char *type)
{
    const json_t *list = json_object_get(status, "conditions");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (gs_streq(codec_json_str(json_array_get(list, i), "type", NULL), type))
            return json_array_get(list, i);
    return NULL;
}

static void expect_condition(const json_t *status, const char *type, const char *want,
                             const char *reason, const char *since)
{
    const json_t *c = condition(status, type);
    assert_non_null(c);
    assert_string_equal(codec_json_str(c, "status", NULL), want);
    assert_string_equal(codec_json_str(c, "reason", NULL), reason);
    assert_string_equal(codec_json_str(c, "lastTransitionTime", NULL), since);
}

#define PODS_METRIC                                                                                \
    "{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"m\",\"selector\":{\"matchLabels\":{"      \
    "\"a\":\"b\"}}},\"target\":{\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}"
#define MEMORY_METRIC                                                                              \
    "{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"target\":{\"type\":"               \
    "\"AverageValue\",\"averageValue\":\"100Mi\"}}}"

static void test_a_rescale_is_told(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]", "{\"desiredReplicas\":1}");
    b.samples[0].value = b.samples[1].value = 30500;
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
    assert_int_equal(codec_json_int(s, -1, "currentReplicas", NULL), 2);
    assert_int_equal(codec_json_int(s, -1, "desiredReplicas", NULL), 4);
    assert_string_equal(codec_json_str(s, "lastScaleTime", NULL), "2023-11-14T22:13:20Z");
    const json_t *m = json_array_get(json_object_get(s, "currentMetrics"), 0);
    CODEC_AUTO_JSON json_t *want = json_pack(
        "{s:s, s:{s:{s:s, s:{s:{s:s}}}, s:{s:s}}}", "type", "Pods", "pods", "metric", "name", "m",
        "selector", "matchLabels", "a", "b", "current", "averageValue", "30500m");
    assert_true(json_equal(m, want));
    expect_condition(s, "AbleToScale", "True", "SucceededRescale", "2023-11-14T22:13:20Z");
    expect_condition(s, "ScalingActive", "True", "ValidMetricFound", "2023-11-14T22:13:20Z");
    expect_condition(s, "ScaledToZero", "False", "NotScaledToZero", "2023-11-14T22:13:20Z");
    // The usual order.
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(s, "conditions"), 3), "type", NULL),
        "ScaledToZero");
    bench_finish(&b);
}

static void test_a_failed_write_keeps_desired(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]", "{\"desiredReplicas\":2}");
    b.samples[0].value = b.samples[1].value = 40000;
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, "no luck");
    assert_int_equal(codec_json_int(s, -1, "desiredReplicas", NULL), 2);
    assert_null(json_object_get(s, "lastScaleTime"));
    expect_condition(s, "AbleToScale", "False", "FailedUpdateScale", "2023-11-14T22:13:20Z");
    assert_null(condition(s, "ScaledToZero"));
    bench_finish(&b);
}

static void test_the_gate_off_drops_the_condition(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]",
               "{\"conditions\":[{\"type\":\"ScaledToZero\",\"status\":\"False\"}]}");
    b.cfg.scale_to_zero = false;
    b.samples[0].value = b.samples[1].value = 40000;
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
    assert_null(condition(s, "ScaledToZero"));
    bench_finish(&b);
}

static void test_failed_scale_read_leaves_the_rest(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]",
               "{\"currentReplicas\":3,\"desiredReplicas\":5,\"currentMetrics\":[{\"type\":\"\"}],"
               "\"conditions\":[{\"type\":\"ScalingActive\",\"status\":\"True\",\"reason\":"
               "\"ValidMetricFound\",\"message\":\"m\",\"lastTransitionTime\":"
               "\"2020-01-01T00:00:00Z\"}]}");
    b.obs.scale_found = false;
    b.obs.scale_error = "gone";
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
    assert_int_equal(codec_json_int(s, -1, "currentReplicas", NULL), 3);
    assert_int_equal(codec_json_int(s, -1, "desiredReplicas", NULL), 5);
    assert_int_equal(json_array_size(json_object_get(s, "currentMetrics")), 1);
    expect_condition(s, "ScalingActive", "True", "ValidMetricFound", "2020-01-01T00:00:00Z");
    expect_condition(s, "AbleToScale", "False", "FailedGetScale", "2023-11-14T22:13:20Z");
    bench_finish(&b);
}

static void test_failed_metrics_keep_desired_and_old_conditions(void **state)
{
    struct bench b;
    bench_init(&b, "[" MEMORY_METRIC "," PODS_METRIC "]",
               "{\"desiredReplicas\":7,\"conditions\":[{\"type\":\"ScalingLimited\",\"status\":"
               "\"True\",\"reason\":\"TooManyReplicas\",\"message\":\"m\",\"lastTransitionTime\":"
               "\"2020-01-01T00:00:00Z\"}]}");
    b.samples[0].value = b.samples[1].value = INT64_C(1048576000) * 10; // 10 MiB
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
    assert_int_equal(codec_json_int(s, -1, "desiredReplicas", NULL), 7);
    assert_int_equal(codec_json_int(s, -1, "currentReplicas", NULL), 2);
    expect_condition(s, "ScalingLimited", "True", "TooManyReplicas", "2020-01-01T00:00:00Z");
    expect_condition(s, "ScalingActive", "False", "FailedGetPodsMetric", "2023-11-14T22:13:20Z");
    const json_t *current = json_object_get(s, "currentMetrics");
    assert_string_equal(
        codec_json_str(json_array_get(current, 0), "resource", "current", "averageValue", NULL),
        "10Mi");
    assert_string_equal(codec_json_str(json_array_get(current, 1), "type", NULL), "");
    assert_int_equal(json_object_size(json_array_get(current, 1)), 1);
    bench_finish(&b);
}

static void test_transition_times_follow_the_status_only(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]", "{}");
    b.samples[0].value = b.samples[1].value = 20000;
    json_t *first = pass(&b, T0_MS, NULL);
    assert_int_equal(codec_json_int(first, -1, "desiredReplicas", NULL), 2);
    json_object_set_new(b.spec.object, "status", first);
    b.samples[0].value = b.samples[1].value = 10000;
    CODEC_AUTO_JSON json_t *held = pass(&b, T0_MS + 15000, NULL);
    expect_condition(held, "AbleToScale", "True", "ScaleDownStabilized", "2023-11-14T22:13:20Z");
    b.metrics[0].error = "down";
    CODEC_AUTO_JSON json_t *failed = pass(&b, T0_MS + 30000, NULL);
    expect_condition(failed, "ScalingActive", "False", "FailedGetPodsMetric",
                     "2023-11-14T22:13:50Z");
    bench_finish(&b);
}

static void test_memory_is_shown_in_bytes(void **state)
{
    static const struct {
        int64_t milli;
        const char *text;
    } cases[] = {
        {INT64_C(104857600000), "100Mi"},
        {INT64_C(104857601000), "104857601"},
        {INT64_C(999000), "999"},
        {INT64_C(1500), "1500m"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct bench b;
        bench_init(&b, "[" MEMORY_METRIC "]", "{}");
        b.samples[0].value = b.samples[1].value = cases[i].milli;
        CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
        const json_t *m = json_array_get(json_object_get(s, "currentMetrics"), 0);
        assert_string_equal(codec_json_str(m, "resource", "current", "averageValue", NULL),
                            cases[i].text);
        bench_finish(&b);
    }
}

static void test_limits_blank_the_metrics(void **state)
{
    struct bench b;
    bench_init(&b, "[" PODS_METRIC "]", "{\"currentMetrics\":[{\"type\":\"\"}]}");
    b.obs.spec_replicas = 20;
    CODEC_AUTO_JSON json_t *s = pass(&b, T0_MS, NULL);
    assert_true(json_is_null(json_object_get(s, "currentMetrics")));
    assert_int_equal(codec_json_int(s, -1, "currentReplicas", NULL), 20);
    assert_int_equal(codec_json_int(s, -1, "desiredReplicas", NULL), 10);
    bench_finish(&b);
}

static void test_differences(void **state)
{
    static const struct {
        const char *a, *b;
        bool differs;
    } cases[] = {
        {"{}", "{\"currentMetrics\":null,\"conditions\":[],\"desiredReplicas\":0}", false},
        {"{\"currentMetrics\":[]}", "{}", false},
        {"{\"desiredReplicas\":1}", "{\"desiredReplicas\":2}", true},
        {"{\"desiredReplicas\":1}", "{}", true},
        {"{}", "{\"lastScaleTime\":\"x\"}", true},
        {"{\"conditions\":[{\"type\":\"A\",\"reason\":\"x\"}]}",
         "{\"conditions\":[{\"reason\":\"x\",\"type\":\"A\"}]}", false},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        CODEC_AUTO_JSON json_t *a = json_loads(cases[i].a, 0, NULL);
        CODEC_AUTO_JSON json_t *b = json_loads(cases[i].b, 0, NULL);
        assert_int_equal(hpa_status_differs(a, b), cases[i].differs);
    }
    CODEC_AUTO_JSON json_t *some = json_loads("{\"desiredReplicas\":1}", 0, NULL);
    assert_true(hpa_status_differs(NULL, some));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rescale_is_told),
        cmocka_unit_test(test_a_failed_write_keeps_desired),
        cmocka_unit_test(test_the_gate_off_drops_the_condition),
        cmocka_unit_test(test_failed_scale_read_leaves_the_rest),
        cmocka_unit_test(test_failed_metrics_keep_desired_and_old_conditions),
        cmocka_unit_test(test_transition_times_follow_the_status_only),
        cmocka_unit_test(test_memory_is_shown_in_bytes),
        cmocka_unit_test(test_limits_blank_the_metrics),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
