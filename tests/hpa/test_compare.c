// SPDX-License-Identifier: Apache-2.0
// The comparison of two adapters: one that serves v1beta1, as prometheus-adapter, and one that
// serves v1beta2.
#include "unit.h"

#include "hpa/convert.h"
#include "hpa_controller/compare.h"

#include "fake_api.h"

#define SCALE "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define GROUP "/apis/custom.metrics.k8s.io"
#define PODS  "/namespaces/shop/pods/%2A/gpu?labelSelector=app=web"
#define QUEUE "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue"
#define TARGET                                                                                     \
    "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"}"
#define SPEC                                                                                       \
    "{" TARGET ",\"maxReplicas\":9,\"metrics\":[{\"type\":\"Resource\",\"resource\":{\"name\":"    \
    "\"cpu\",\"target\":{\"type\":\"Utilization\",\"averageUtilization\":50}}},{\"type\":"         \
    "\"Pods\",\"pods\":{\"metric\":{\"name\":\"gpu\"},\"target\":{\"type\":\"AverageValue\","      \
    "\"averageValue\":\"20\"}}},{\"type\":\"External\",\"external\":{\"metric\":{\"name\":"        \
    "\"queue\"},\"target\":{\"type\":\"AverageValue\",\"averageValue\":\"5\"}}}]}"

struct bench {
    struct fake_api before, after; // the first one is also the cluster
    struct http_client *http;      // of the second one, on the loop of the first
    struct kube_client *client;
    struct hpa_compare *compare;
    int rounds;
    struct gs_error *err;
};

static void serve_version(struct fake_api *f, const char *version)
{
    fake_answer(f, GROUP, 200,
                json_pack("{s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "preferredVersion",
                          "version", version, "versions", "version", version));
}

static void serve_pods(struct fake_api *f, const char *version, const char *a, const char *b)
{
    const char *const values[] = {a, b};
    GS_AUTO_FREE char *path = gs_format("%s/%s%s", GROUP, version, PODS);
    fake_answer(f, path, 200, fake_values("web", values, 2));
}

static json_t *external(const char *a, const char *b)
{
    return json_pack("{s:s, s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]}", "kind",
                     "ExternalMetricValueList", "items", "metricName", "queue", "timestamp",
                     "2026-01-01T00:00:00Z", "value", a, "metricName", "queue", "timestamp",
                     "2026-01-01T00:00:00Z", "value", b);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->before);
    fake_init(&b->after);
    b->http = http_client_new_loopback(&b->before.loop, fake_handle, &b->after, NULL);
    b->client = kube_client_new(b->http);
    json_t *hpa = json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", "autoscaling/v2",
                            "kind", "HorizontalPodAutoscaler", "metadata", "namespace", "shop",
                            "name", "web", "uid", "u", "spec", json_loads(SPEC, 0, NULL));
    fake_put(&b->before, b->before.hpas, hpa);
    fake_scale(&b->before, SCALE, 2, "app=web");
    serve_version(&b->before, "v1beta1");
    serve_version(&b->after, "v1beta2");
    serve_pods(&b->before, "v1beta1", "10", "20");
    serve_pods(&b->after, "v1beta2", "10", "20");
    fake_answer(&b->before, QUEUE, 200, external("7", "3"));
    fake_answer(&b->after, QUEUE, 200, external("3", "7"));
    const struct hpa_compare_config cfg = {
        .cluster = b->before.kube, .before = b->before.kube, .after = b->client, .again_ms = 1};
    b->compare = hpa_compare_new(&b->before.loop, &cfg);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_compare_free(b->compare);
    kube_client_free(b->client);
    http_client_free(b->http);
    gs_error_free(b->err);
    int rc = fake_finish(&b->before);
    rc = fake_finish(&b->after) || rc;
    free(b);
    return rc;
}

static void on_round(void *arg, struct gs_error *err)
{
    struct bench *b = arg;
    b->rounds++;
    gs_error_free(b->err);
    b->err = err;
}

static void run_round(struct bench *b)
{
    int before = b->rounds;
    hpa_compare_round(b->compare, on_round, b);
    while (b->rounds == before)
        uv_run(&b->before.loop, UV_RUN_ONCE);
}

static int64_t count(const struct bench *b, size_t row, const char *what)
{
    CODEC_AUTO_JSON json_t *rows = hpa_compare_json(b->compare);
    return codec_json_int(json_array_get(rows, row), -1, what, NULL);
}

static void check_difference(const struct bench *b, size_t row, const char *want)
{
    CODEC_AUTO_JSON json_t *rows = hpa_compare_json(b->compare);
    assert_string_equal(codec_json_str(json_array_get(rows, row), "difference", NULL), want);
}

static void test_equal_values_of_both_versions(void **state)
{
    struct bench *b = *state;
    run_round(b);
    run_round(b);
    assert_null(b->err);
    assert_int_equal(count(b, 0, "equal"), 2);  // pods
    assert_int_equal(count(b, 1, "equal"), 2);  // the sum of the queue
    assert_int_equal(count(b, 2, "equal"), -1); // CPU is not compared
    assert_true(hpa_compare_agrees(b->compare));
}

static void test_a_different_value_is_read_again_and_named(void **state)
{
    struct bench *b = *state;
    serve_pods(&b->after, "v1beta2", "10", "21500m");
    run_round(b);
    assert_int_equal(count(b, 0, "different"), 1);
    assert_int_equal(count(b, 0, "equal"), 0);
    assert_int_equal(count(b, 1, "equal"), 1);
    check_difference(b, 0, "web-1: 20 and 21.5");
    assert_int_equal(fake_count_log(&b->after, "GET " GROUP "/v1beta2/"), 3);
    assert_false(hpa_compare_agrees(b->compare));
}

static void test_a_metric_that_only_one_adapter_has(void **state)
{
    struct bench *b = *state;
    json_object_del(b->after.answers, QUEUE);
    run_round(b);
    assert_int_equal(count(b, 1, "onlyBefore"), 1);
    assert_false(hpa_compare_agrees(b->compare));
    fake_answer(&b->after, QUEUE, 200, external("3", "7"));
    json_object_del(b->before.answers, QUEUE);
    run_round(b);
    assert_int_equal(count(b, 1, "onlyAfter"), 1);
    json_object_del(b->after.answers, QUEUE);
    run_round(b);
    assert_int_equal(count(b, 1, "neither"), 1);
}

static void test_a_pod_that_only_one_adapter_has(void **state)
{
    struct bench *b = *state;
    const char *const values[] = {"10"};
    fake_answer(&b->after, GROUP "/v1beta2" PODS, 200, fake_values("web", values, 1));
    run_round(b);
    check_difference(b, 0, "web-1: 20 and no value");
}

static void test_a_target_without_a_scale_is_left_out(void **state)
{
    struct bench *b = *state;
    json_object_del(b->before.scales, SCALE);
    run_round(b);
    assert_null(b->err);
    assert_int_equal(count(b, 0, "equal"), -1);
    assert_false(hpa_compare_agrees(b->compare)); // nothing was compared
}

static void test_autoscalers_that_cannot_be_read_are_an_error(void **state)
{
    struct bench *b = *state;
    fake_answer(&b->before, "/apis/autoscaling/v2/horizontalpodautoscalers", 403,
                json_pack("{s:s, s:s, s:s}", "kind", "Status", "status", "Failure", "message",
                          "not yours"));
    run_round(b);
    assert_non_null(b->err);
    assert_non_null(strstr(gs_error_message(b->err), "not yours"));
}

static void test_free_cancels(void **state)
{
    struct bench *b = *state;
    hpa_compare_round(b->compare, on_round, b);
    uv_run(&b->before.loop, UV_RUN_NOWAIT);
    assert_int_equal(b->rounds, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_equal_values_of_both_versions),
        TEST(test_a_different_value_is_read_again_and_named),
        TEST(test_a_metric_that_only_one_adapter_has),
        TEST(test_a_pod_that_only_one_adapter_has),
        TEST(test_a_target_without_a_scale_is_left_out),
        TEST(test_autoscalers_that_cannot_be_read_are_an_error),
        TEST(test_free_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
