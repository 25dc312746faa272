// SPDX-License-Identifier: Apache-2.0
// The custom metrics API over the loopback client, with pods from a list-and-watch of a small
// hand-made API.
#include "unit.h"

#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/mem.h"

static const char pod_list[] =
    "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"5\"},"
    "\"items\":["
    "{\"metadata\":{\"name\":\"w-1\",\"namespace\":\"ml\",\"labels\":{\"app\":\"w\"}}},"
    "{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"ml\",\"labels\":{\"app\":\"w\"}}},"
    "{\"metadata\":{\"name\":\"idle\",\"namespace\":\"ml\",\"labels\":{\"app\":\"idle\"}}},"
    "{\"metadata\":{\"name\":\"w-0\",\"namespace\":\"other\",\"labels\":{\"app\":\"w\"}}}]}";

static void no_op(void *arg)
{
}

static void serve_pods(void *ctx, struct http_exchange *x)
{
    if (http_query(x, "watch"))
        http_reply_stream(x, 200, "application/json", no_op, NULL);
    else
        http_reply(x, 200, "application/json", gs_slice_of(pod_list));
}

struct fixture {
    uv_loop_t loop;
    struct tsdb *db;
    struct http_client *api_http, *http;
    struct kube_client *api;
    struct kube_cache *pods;
    struct adapter *adapter;
    int64_t now;
};

static void put(struct fixture *f, const char *metric, const char *pod, double v)
{
    const struct metrics_label labels[] = {
        {GS_SLICE("__name__"), gs_slice_of(metric)},   {GS_SLICE("PodName"), gs_slice_of(pod)},
        {GS_SLICE("NamespaceName"), GS_SLICE("ml")},   {GS_SLICE("UUID"), gs_slice_of(pod)},
        {GS_SLICE("modelName"), GS_SLICE("Tesla T4")},
    };
    assert_ok(tsdb_append(f->db, labels, GS_ARRAY_LEN(labels), f->now, v));
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    f->now = gs_unix_ms();
    f->db = tsdb_new(NULL);
    f->api_http = http_client_new_loopback(&f->loop, serve_pods, NULL, NULL);
    f->api = kube_client_new(f->api_http);
    f->pods = kube_cache_new(&f->loop, f->api, KUBE_PODS, NULL, NULL);
    kube_cache_start(f->pods);
    while (!kube_cache_synced(f->pods))
        uv_run(&f->loop, UV_RUN_ONCE);
    f->adapter = adapter_new(f->db, f->pods);
    f->http = http_client_new_loopback(&f->loop, adapter_handle, f->adapter, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->http);
    adapter_free(f->adapter);
    kube_cache_free(f->pods);
    kube_client_free(f->api);
    http_client_free(f->api_http);
    tsdb_free(f->db);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

struct reply {
    bool done;
    int status;
    struct gs_buf body;
};

static void on_done(void *arg, const struct http_answer *answer, struct gs_error *err)
{
    struct reply *r = arg;
    assert_ok(err);
    r->done = true;
    r->status = answer->status;
    gs_buf_add_slice(&r->body, answer->body);
}

// The parsed body of GET /apis/custom.metrics.k8s.io<path>.
static json_t *get(struct fixture *f, const char *path, int expected_status)
{
    GS_AUTO_FREE char *full = gs_format("/apis/custom.metrics.k8s.io%s", path);
    static const struct http_callbacks callbacks = {.on_done = on_done};
    struct reply r = {0};
    http_send(f->http, &(struct http_call){.path = full}, &callbacks, &r);
    while (!r.done)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(r.status, expected_status);
    json_t *j = NULL;
    assert_ok(codec_json_parse(gs_buf_slice(&r.body), true, &j));
    gs_buf_finish(&r.body);
    return j;
}

static void test_all_pods_of_a_selector(void **state)
{
    struct fixture *f = *state;
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-0", 37.5);
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-1", 0);
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "idle", 1);
    CODEC_AUTO_JSON json_t *j =
        get(f, "/v1beta1/namespaces/ml/pods/%2A/DCGM_CUSTOM_PROCESS_SM_UTIL?labelSelector=app%3Dw",
            200);
    const json_t *items = json_object_get(j, "items");
    assert_int_equal(json_array_size(items), 2);
    GS_AUTO_BUF struct gs_buf first = {0};
    char when[GS_RFC3339_SIZE];
    codec_json_dump(json_array_get(items, 0), &first);
    GS_AUTO_FREE char *expected =
        gs_format("{\"describedObject\":{\"kind\":\"Pod\",\"namespace\":\"ml\",\"name\":\"w-0\","
                  "\"apiVersion\":\"/"
                  "v1\"},\"metricName\":\"DCGM_CUSTOM_PROCESS_SM_UTIL\",\"timestamp\":\"%s\","
                  "\"value\":\"37500m\",\"selector\":null}",
                  gs_format_rfc3339(f->now, when));
    assert_string_equal(first.data, expected);
    assert_string_equal(codec_json_str(json_array_get(items, 1), "value", NULL), "0");
}

static void test_v1beta2_and_metric_selectors(void **state)
{
    struct fixture *f = *state;
    put(f, "FB", "w-0", 1000);
    CODEC_AUTO_JSON json_t *j =
        get(f, "/v1beta2/namespaces/ml/pods/w-0/FB?metricLabelSelector=UUID%3Dw-0", 200);
    const json_t *item = json_array_get(json_object_get(j, "items"), 0);
    assert_string_equal(codec_json_str(item, "value", NULL), "1k");
    assert_string_equal(codec_json_str(item, "metric", "name", NULL), "FB");
    assert_string_equal(codec_json_str(item, "metric", "selector", "matchLabels", "UUID", NULL),
                        "w-0");
    json_decref(get(f, "/v1beta2/namespaces/ml/pods/w-0/FB?metricLabelSelector=UUID%3Dother", 404));
    json_decref(get(f, "/v1beta2/namespaces/ml/pods/w-0/FB?metricLabelSelector=%3D%3D", 400));
    json_decref(get(f, "/v1beta2/namespaces/ml/pods/w-0/FB?metricLabelSelector=n%3E1", 400));
}

static void test_what_is_missing_is_said(void **state)
{
    struct fixture *f = *state;
    put(f, "FB", "w-0", 1);
    CODEC_AUTO_JSON json_t *pod = get(f, "/v1beta1/namespaces/ml/pods/w-9/FB", 404);
    assert_string_equal(codec_json_str(pod, "message", NULL),
                        "the server could not find the metric FB for pods w-9");
    CODEC_AUTO_JSON json_t *none =
        get(f, "/v1beta1/namespaces/ml/pods/%2A/FB?labelSelector=app%3Dnobody", 404);
    assert_string_equal(codec_json_str(none, "message", NULL),
                        "the server could not find the metric FB for pods");
    assert_string_equal(codec_json_str(none, "reason", NULL), "NotFound");
    CODEC_AUTO_JSON json_t *empty =
        get(f, "/v1beta1/namespaces/ml/pods/%2A/FB?labelSelector=app%3Didle", 200);
    assert_int_equal(json_array_size(json_object_get(empty, "items")), 0);
    // A metric that no pod has is an error: a typing error must not look like a metric without
    // data.
    CODEC_AUTO_JSON json_t *unknown =
        get(f, "/v1beta1/namespaces/ml/pods/%2A/nonsense?labelSelector=app%3Didle", 404);
    assert_string_equal(codec_json_str(unknown, "message", NULL),
                        "the server could not find the metric nonsense for pods");
    json_decref(get(f, "/v1beta1/namespaces/ml/pods/%2A/FB?labelSelector=%2C%2C", 400));
    json_decref(get(f, "/v1beta1/namespaces/ml", 400));
    json_decref(get(f, "/v9", 404));
}

static void test_not_a_number_is_not_served(void **state)
{
    struct fixture *f = *state;
    put(f, "BROKEN", "w-0", 0.0 / 0.0);
    put(f, "BROKEN", "w-1", 1.0 / 0.0);
    CODEC_AUTO_JSON json_t *j =
        get(f, "/v1beta1/namespaces/ml/pods/%2A/BROKEN?labelSelector=app%3Dw", 200);
    assert_int_equal(json_array_size(json_object_get(j, "items")), 0);
}

static void test_namespaces_and_discovery(void **state)
{
    struct fixture *f = *state;
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-0", 30);
    put(f, "DCGM_CUSTOM_PROCESS_SM_UTIL", "w-1", 10);
    CODEC_AUTO_JSON json_t *j =
        get(f, "/v1beta1/namespaces/ml/metrics/DCGM_CUSTOM_PROCESS_SM_UTIL", 200);
    const json_t *item = json_array_get(json_object_get(j, "items"), 0);
    assert_string_equal(codec_json_str(item, "describedObject", "kind", NULL), "Namespace");
    assert_string_equal(codec_json_str(item, "describedObject", "name", NULL), "ml");
    assert_null(codec_json_str(item, "describedObject", "namespace", NULL));
    assert_string_equal(codec_json_str(item, "value", NULL), "20");
    CODEC_AUTO_JSON json_t *list = get(f, "/v1beta1", 200);
    const json_t *resources = json_object_get(list, "resources");
    assert_int_equal(json_array_size(resources), 2);
    assert_string_equal(codec_json_str(json_array_get(resources, 0), "name", NULL),
                        "pods/DCGM_CUSTOM_PROCESS_SM_UTIL");
    CODEC_AUTO_JSON json_t *group = get(f, "", 200);
    assert_string_equal(codec_json_str(group, "preferredVersion", "version", NULL), "v1beta1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_pods_of_a_selector, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_v1beta2_and_metric_selectors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_missing_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_a_number_is_not_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_namespaces_and_discovery, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
