// SPDX-License-Identifier: Apache-2.0
// The controller on the embedded API, with the custom metrics API over a series store. Creates an
// HPA of every version, and checks the Deployment's count, the status and the events. Processes of
// pods and time are simulated.
#include "adapter/adapter.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "hpa_controller/controller.h"
#include "kube/object.h"
#include "local/api_harness.h"
#include "patience.h"

#define SHOP "/apis/apps/v1/namespaces/default/deployments"
#define HPAS "/namespaces/default/horizontalpodautoscalers"

struct bench {
    struct harness h;
    struct kube_client *kube;
    struct kube_cache *pods;
    struct engine *engine;
    struct adapter *adapter;
    struct hpa_controller *controller;
};

static void post(struct bench *b, const char *path, const char *body)
{
    struct reply r AUTO_REPLY = request(&b->h, "POST", path, body);
    assert_status(r, 201);
}

static void add_pod(struct bench *b, int i)
{
    GS_AUTO_FREE char *body = gs_format(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"bert-%d\",\"labels\":{"
        "\"app\":\"bert\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}",
        i);
    post(b, "/api/v1/namespaces/default/pods", body);
    GS_AUTO_FREE char *path = gs_format("/api/v1/namespaces/default/pods/bert-%d/status", i);
    struct reply r AUTO_REPLY =
        request_with(&b->h, "PATCH", path, "application/merge-patch+json", NULL,
                     "{\"status\":{\"phase\":\"Running\",\"startTime\":\"2024-01-01T00:00:00Z\","
                     "\"conditions\":[{"
                     "\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2024-01-"
                     "01T00:00:00Z\"}]}}");
    assert_status(r, 200);
}

static void set_gpu_use(struct bench *b, int pods, double percent)
{
    for (int i = 0; i < pods; i++) {
        GS_AUTO_FREE char *pod = gs_format("bert-%d", i);
        const struct metrics_label labels[] = {
            {GS_SLICE("__name__"), GS_SLICE("DCGM_CUSTOM_PROCESS_SM_UTIL")},
            {GS_SLICE("NamespaceName"), GS_SLICE("default")},
            {GS_SLICE("PodName"), gs_slice_of(pod)},
        };
        gs_error_free(tsdb_append(engine_tsdb(b->engine), labels, GS_ARRAY_LEN(labels),
                                  gs_unix_ms(), percent));
    }
}

static json_t *describe_group(const void *adapter, const char *group)
{
    return adapter_describe_group(adapter, group);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    harness_open(&b->h, NULL);
    b->kube = kube_client_new(b->h.client);
    b->pods = kube_cache_new(&b->h.loop, b->kube, KUBE_PODS, NULL, NULL);
    kube_cache_start(b->pods);
    assert_null(engine_new(&b->h.loop, &(struct engine_options){0}, &b->engine));
    const struct adapter_options o = {
        .kube = b->kube, .engine = b->engine, .trusted = true, .gpu_metrics = true};
    assert_null(adapter_new(&b->h.loop, &o, &b->adapter));
    local_api_mount(b->h.api, "custom.metrics.k8s.io", describe_group, adapter_handle, b->adapter);
    const struct hpa_controller_config cfg = {.sync_period_ms = 20, .decide = hpa_config_default()};
    b->controller = hpa_controller_new(&b->h.loop, b->kube, b->pods, &cfg);
    hpa_controller_start(b->controller);
    post(b, SHOP,
         "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":"
         "\"bert\"},\"spec\":{\"replicas\":2,\"selector\":{\"matchLabels\":{\"app\":"
         "\"bert\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"bert\"}},\"spec\":{"
         "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}");
    add_pod(b, 0);
    add_pod(b, 1);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_controller_free(b->controller);
    kube_cache_free(b->pods);
    adapter_free(b->adapter);
    engine_free(b->engine);
    kube_client_free(b->kube);
    harness_close(&b->h);
    free(b);
    return 0;
}

static int64_t replicas(struct bench *b)
{
    struct reply r AUTO_REPLY = request(&b->h, "GET", SHOP "/bert", NULL);
    return codec_json_int(r.body, -1, "spec", "replicas", NULL);
}

static void wait_replicas(struct bench *b, int64_t want)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (replicas(b) != want && gs_mono_ns() < deadline)
        uv_run(&b->h.loop, UV_RUN_NOWAIT);
    assert_int_equal(replicas(b), want);
}

// Waits until the object at `path` has this member at status.
static void wait_condition(struct bench *b, const char *path, const char *type, const char *reason)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    const char *seen = NULL;
    bool ok = false;
    while (!ok && gs_mono_ns() < deadline) {
        struct reply r AUTO_REPLY = request(&b->h, "GET", path, NULL);
        seen = codec_json_str(kube_condition(r.body, type), "reason", NULL);
        ok = gs_streq(seen, reason);
        uv_run(&b->h.loop, UV_RUN_NOWAIT);
    }
    assert_true(ok);
}

static size_t count_events(struct bench *b, const char *reason)
{
    struct reply r AUTO_REPLY = request(&b->h, "GET", "/api/v1/namespaces/default/events", NULL);
    const json_t *items = json_object_get(r.body, "items");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(items); i++)
        n += gs_streq(codec_json_str(json_array_get(items, i), "reason", NULL), reason);
    return n;
}

#define TARGET                                                                                     \
    "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"bert\"},"   \
    "\"minReplicas\":1,\"maxReplicas\":10"

static void the_guides_hpa(struct bench *b, const char *version, const char *metric)
{
    GS_AUTO_FREE char *collection = gs_format("/apis/autoscaling/%s" HPAS, version);
    GS_AUTO_FREE char *body = gs_format(
        "{\"apiVersion\":\"autoscaling/%s\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"name\":\"gpu-hpa\"},\"spec\":{" TARGET
        ",\"metrics\":[{\"type\":\"Pods\",\"pods\":%s}]}}",
        version, metric);
    set_gpu_use(b, 2, 28);
    post(b, collection, body);
    wait_replicas(b, 3);
    wait_condition(b, "/apis/autoscaling/v2" HPAS "/gpu-hpa", "ScalingActive", "ValidMetricFound");
    struct reply r AUTO_REPLY = request(&b->h, "GET", "/apis/autoscaling/v2" HPAS "/gpu-hpa", NULL);
    assert_string_equal(
        codec_json_str(json_array_get(codec_json_get(r.body, "status", "currentMetrics", NULL), 0),
                       "pods", "current", "averageValue", NULL),
        "28");
    assert_true(count_events(b, "SuccessfulRescale") == 1);
}

static void test_of_v2(void **state)
{
    the_guides_hpa(*state, "v2",
                   "{\"metric\":{\"name\":\"DCGM_CUSTOM_PROCESS_SM_UTIL\"},\"target\":{\"type\":"
                   "\"Utilization\",\"averageValue\":20}}");
}

static void test_of_v2beta1(void **state)
{
    the_guides_hpa(*state, "v2beta1",
                   "{\"metricName\":\"DCGM_CUSTOM_PROCESS_SM_UTIL\",\"targetAverageValue\":20}");
}

static void test_no_sample_is_not_zero(void **state)
{
    struct bench *b = *state;
    post(b, "/apis/autoscaling/v2" HPAS,
         "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
         "\"name\":\"gpu-hpa\"},\"spec\":{" TARGET
         ",\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"no_such_metric\"},"
         "\"target\":{\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}],\"behavior\":{"
         "\"scaleDown\":{\"stabilizationWindowSeconds\":0}}}}");
    wait_condition(b, "/apis/autoscaling/v2" HPAS "/gpu-hpa", "ScalingActive",
                   "FailedGetPodsMetric");
    assert_int_equal(replicas(b), 2);
    assert_true(count_events(b, "FailedGetPodsMetric") == 1);
}

static void check_history(struct bench *b, const char *path, const char *kind)
{
    struct reply r AUTO_REPLY = request(&b->h, "GET", path, NULL);
    assert_status(r, 200);
    assert_string_equal(codec_json_str(r.body, "kind", NULL), kind);
    assert_true(json_array_size(json_object_get(r.body, "recommendations")) > 0);
    assert_true(json_is_array(json_object_get(r.body, "scaleUps")));
}

static void test_the_history_of_an_object_over_http(void **state)
{
    struct bench *b = *state;
    local_api_mount(b->h.api, HPA_HISTORY_GROUP, hpa_history_group, hpa_history_handle,
                    b->controller);
    test_of_v2(state);
    GS_AUTO_FREE char *path = hpa_history_path("default", "gpu-hpa");
    check_history(b, path, "History");
    struct reply other AUTO_REPLY =
        request(&b->h, "GET", "/apis/hpa.gpuscale.dev/v1/namespaces/default/memories/x", NULL);
    assert_status(other, 404);
    struct reply resources AUTO_REPLY = request(&b->h, "GET", "/apis/hpa.gpuscale.dev/v1", NULL);
    assert_status(resources, 200);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(resources.body, "resources"), 0), "name",
                       NULL),
        "histories");
}

#define WITH_BENCH(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BENCH(test_of_v2),
        WITH_BENCH(test_of_v2beta1),
        WITH_BENCH(test_no_sample_is_not_zero),
        WITH_BENCH(test_the_history_of_an_object_over_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
