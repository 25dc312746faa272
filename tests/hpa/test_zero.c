// SPDX-License-Identifier: Apache-2.0
// Scaling to zero: the annotation that keeps a used last replica, the query and its verdict, the
// explanation of zero replicas, and the history of starts from zero.
#include "base/slice.h"
#include "hpa/convert.h"
#include "hpa/zero.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/zero_query.h"
#include "promql/ast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"
#include "unit.h"

#define SCALE "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define EXTERNAL                                                                                   \
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/"                                       \
    "gpuscale_activator_waiting?labelSelector=service=api"

// --- the annotation ---

static struct gs_error *parse(const char *text, int64_t *ret_ms)
{
    CODEC_AUTO_JSON json_t *object =
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", HPA_ZERO_AFTER_ANNOTATION, text);
    return hpa_zero_after(object, ret_ms);
}

static void test_annotation(void **state)
{
    static const char *const wrong[] = {"", "10", "9s", "25h", "-1m", "10m x"};
    int64_t ms = -1;
    CODEC_AUTO_JSON json_t *without = json_object();
    assert_ok(hpa_zero_after(without, &ms));
    assert_int_equal(ms, 0);
    assert_ok(parse("10m", &ms));
    assert_int_equal(ms, 600000);
    assert_ok(parse("24h", &ms));
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        GS_AUTO_ERROR struct gs_error *err = parse(wrong[i], &ms);
        assert_non_null(err);
        assert_non_null(strstr(gs_error_message(err), "10s to 24h"));
        assert_int_equal(ms, 0);
    }
}

// --- the query ---

static const char *const one_pod[] = {"web-0"};
static const char *const one_service[] = {"api"};
static const struct hpa_zero_query query = {.ns = "shop",
                                            .pods = one_pod,
                                            .n_pods = 1,
                                            .services = one_service,
                                            .n_services = 1,
                                            .after_ms = 600000};

static void test_expression(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    static const char *const dotted[] = {"web.0", "web-1"};
    struct hpa_zero_query q = query;
    hpa_zero_expression(&query, &text);
    gs_buf_add_char(&text, '\0');
    assert_non_null(strstr(text.data,
                           "max_over_time(gpuscale_inference_running{namespace=\"shop\",pod=~"
                           "\"web-0\"}[600000ms])"));
    assert_non_null(strstr(text.data, "increase(gpuscale_activator_arrivals_total{namespace="
                                      "\"shop\",service=~\"api\"}[600000ms])"));
    assert_non_null(strstr(text.data, "{NamespaceName=\"shop\",PodName=~\"web-0\"}"));
    gs_buf_clear(&text);
    q.pods = dotted;
    q.n_pods = 2;
    q.n_services = 0;
    hpa_zero_expression(&q, &text);
    gs_buf_add_char(&text, '\0');
    assert_non_null(strstr(text.data, "pod=~\"web\\\\.0|web-1\""));
    assert_null(strstr(text.data, "activator"));
}

// A series that began long ago and has ended since says nothing about the use.
static void test_only_series_that_still_have_samples_reach_back(void **state)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct promql_expr *parsed = NULL;
    hpa_zero_expression(&query, &text);
    assert_ok(promql_parse(gs_buf_slice(&text), &parsed));
    promql_expr_free(parsed);
    gs_buf_add_char(&text, '\0');
    assert_non_null(strstr(text.data, "offset 600000ms and on (namespace, pod) "
                                      "gpuscale_inference_running{namespace=\"shop\",pod=~"
                                      "\"web-0\"}"));
    assert_non_null(strstr(text.data, "offset 600000ms and on (exported_namespace, exported_pod) "
                                      "DCGM_FI_DEV_GPU_UTIL{"));
}

// "METRIC FUNCTION NAME VALUE": what the engine returns for a row of the expression. It is found by
// the text of the row, so that the numbers of rows may change.
static void add_value(json_t *result, const char *part, const char *name, const char *value)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    hpa_zero_expression(&query, &text);
    gs_buf_add_char(&text, '\0');
    const char *at = strstr(text.data, part), *of = at ? strstr(at, "\"of\",\"") : NULL;
    assert_non_null(of);
    int number = (int)strtol(of + strlen("\"of\",\""), NULL, 10);
    json_array_append_new(result,
                          json_pack("{s:{s:s, s:o}, s:[i, s]}", "metric", "name", name, "of",
                                    codec_json_strf("%d", number), "value", 1000, value));
}

#define THEN(metric) metric "{namespace=\"shop\",pod=~\"web-0\"} offset"
#define MOST(metric) "max_over_time(" metric "{"

static void check_verdict(const char *part, const char *name, const char *value, bool reaches_back,
                          bool want_held, const char *want)
{
    CODEC_AUTO_JSON json_t *response = json_pack("{s:{s:[]}}", "data", "result");
    json_t *result = json_object_get(json_object_get(response, "data"), "result");
    bool held = !want_held;
    if (reaches_back)
        add_value(result, THEN("DCGM_FI_DEV_GPU_UTIL"), "web-0", "0");
    if (part)
        add_value(result, part, name, value);
    GS_AUTO_FREE char *text = hpa_zero_verdict(&query, response, &held);
    assert_string_equal(text, want);
    assert_int_equal(held, want_held);
}

static void test_verdict(void **state)
{
    check_verdict(NULL, NULL, NULL, true, false, "no request for 10m");
    check_verdict(MOST("DCGM_CUSTOM_PROCESS_SM_UTIL"), "web-0", "0", true, false,
                  "no request and no busy process on a GPU for 10m");
    check_verdict(NULL, NULL, NULL, false, true, "the samples of pod web-0 do not reach back 10m");
    check_verdict(MOST("gpuscale_inference_running"), "web-0", "1", true, true,
                  "pod web-0 had requests within 10m");
    // A request that was too short for the gauges.
    check_verdict("increase(gpuscale_inference_generation_tokens_total", "web-0", "12.5", true,
                  true, "pod web-0 had requests within 10m");
    check_verdict(MOST("DCGM_CUSTOM_PROCESS_SM_UTIL"), "web-0", "34", true, true,
                  "a process on the GPU of pod web-0 used 34 % within 10m");
    check_verdict(MOST("DCGM_FI_DEV_GPU_UTIL"), "web-0", "7", true, true,
                  "the GPU of pod web-0 used 7 % within 10m");
    // A long stream that came through the activator.
    check_verdict(MOST("gpuscale_activator_open"), "api", "1", true, true,
                  "Service api had requests within 10m");
    check_verdict("increase(gpuscale_activator_arrivals_total", "api", "3", true, true,
                  "Service api had requests within 10m");
    // Others do not matter, and wrong values are none.
    check_verdict(MOST("gpuscale_inference_running"), "other-0", "5", true, false,
                  "no request for 10m");
    check_verdict(MOST("gpuscale_inference_running"), "web-0", "x", true, false,
                  "no request for 10m");
    CODEC_AUTO_JSON json_t *nothing = json_object();
    bool held = false;
    GS_AUTO_FREE char *text = hpa_zero_verdict(&query, nothing, &held);
    assert_true(held);
    assert_string_equal(text, "not a response of Prometheus");
}

// --- the controller ---

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct http_client *engine;
    const char *use; // of the pod: value of gpuscale_inference_running
    int status;      // of the engine's responses
    bool no_engine;
    char last[400]; // explanation
    int want;
    const char *text;
};

static void engine(void *arg, struct http_exchange *x)
{
    struct bench *b = arg;
    GS_AUTO_BUF struct gs_buf body = {0};
    CODEC_AUTO_JSON json_t *response = json_pack("{s:{s:[]}}", "data", "result");
    json_t *result = json_object_get(json_object_get(response, "data"), "result");
    add_value(result, THEN("gpuscale_inference_running"), "web-0", "0");
    add_value(result, MOST("gpuscale_inference_running"), "web-0", b->use);
    codec_json_dump(response, &body);
    http_reply(x, b->status, "application/json", gs_buf_slice(&body));
}

static struct http_client *engine_of(void *arg, const char **ret_why)
{
    struct bench *b = arg;
    *ret_why = "no engine in this test";
    return b->no_engine ? NULL : b->engine;
}

static void observe(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct bench *b = arg;
    (void)spec;
    snprintf(b->last, sizeof(b->last), "%s", d->explanation);
}

static void set_waiting(struct bench *b, const char *value)
{
    fake_answer(&b->api, EXTERNAL, 200,
                json_pack("{s:s, s:[{s:s, s:s}]}", "kind", "ExternalMetricValueList", "items",
                          "metricName", "gpuscale_activator_waiting", "value", value));
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_scale(&b->api, SCALE, 1, "app=web");
    fake_pods(&b->api, "web", 1);
    b->engine = http_client_new_loopback(&b->api.loop, engine, b, NULL);
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    b->status = 200;
    b->use = "0";
    const struct hpa_controller_config cfg = {
        .sync_period_ms = 20, .decide = hpa_config_default(), .engine = engine_of, .engine_arg = b};
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
    hpa_controller_set_observer(b->controller, observe, b);
    set_waiting(b, "0");
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_controller_free(b->controller);
    http_client_free(b->engine);
    kube_cache_free(b->pods);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static void put(struct bench *b, const char *after, int min)
{
    CODEC_AUTO_JSON json_t *in = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s}}, s:{s:{s:s, s:s, s:s}, s:i, s:i, s:{s:{s:i}}, "
        "s:[{s:s, s:{s:{s:s, s:{s:{s:s}}}, s:{s:s, s:s}}}]}}",
        "apiVersion", "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "namespace",
        "shop", "name", "web", "uid", "web", "annotations", HPA_ZERO_AFTER_ANNOTATION, after,
        "spec", "scaleTargetRef", "apiVersion", "apps/v1", "kind", "Deployment", "name", "web",
        "minReplicas", min, "maxReplicas", 5, "behavior", "scaleDown", "stabilizationWindowSeconds",
        0, "metrics", "type", "External", "external", "metric", "name",
        "gpuscale_activator_waiting", "selector", "matchLabels", "service", "api", "target", "type",
        "AverageValue", "averageValue", "8");
    json_t *out = NULL;
    assert_ok(hpa_to_v2(in, &out));
    hpa_default(out);
    fake_put(&b->api, b->api.hpas, out);
}

static void start(struct bench *b)
{
    hpa_controller_start(b->controller);
    kube_cache_start(b->pods);
}

static bool replicas_are(void *arg)
{
    const struct bench *b = arg;
    return fake_replicas(&b->api, SCALE) == b->want;
}

static bool explained(void *arg)
{
    const struct bench *b = arg;
    return strstr(b->last, b->text) != NULL;
}

static void wait_text(struct bench *b, const char *text)
{
    b->text = text;
    assert_true(fake_wait(&b->api, explained, b));
}

static void wait_replicas(struct bench *b, int n)
{
    b->want = n;
    assert_true(fake_wait(&b->api, replicas_are, b));
}

static json_t *zero_of(const struct bench *b)
{
    json_t *history = hpa_controller_history(b->controller, "shop", "web");
    json_t *zero = json_incref(json_object_get(history, "zero"));
    json_decref(history);
    return zero;
}

static bool has_reason(void *arg)
{
    const struct bench *b = arg;
    CODEC_AUTO_JSON json_t *zero = zero_of(b);
    return json_object_get(zero, "reason") != NULL;
}

static void test_used_replica_remains(void **state)
{
    struct bench *b = *state;
    b->use = "2";
    put(b, "10m", 0);
    start(b);
    wait_text(b, "the last replica remains: pod web-0 had requests within 10m");
    assert_int_equal(fake_replicas(&b->api, SCALE), 1);
    CODEC_AUTO_JSON json_t *zero = zero_of(b);
    assert_true(codec_json_bool(zero, false, "check", "held", NULL));
    assert_string_equal(codec_json_str(zero, "check", "after", NULL), "10m");
    b->use = "0";
    wait_replicas(b, 0);
    assert_true(fake_wait(&b->api, has_reason, b));
    CODEC_AUTO_JSON json_t *after = zero_of(b);
    assert_string_equal(codec_json_str(after, "reason", NULL), "no request for 10m");
}

// Without an answer, the use is unknown, and the replica remains.
static void test_unknown_use(void **state)
{
    struct bench *b = *state;
    b->status = 503;
    put(b, "10m", 0);
    start(b);
    wait_text(b, "its use is unknown: HTTP status 503");
    b->no_engine = true;
    wait_text(b, "the last replica remains: no engine in this test");
    assert_int_equal(fake_replicas(&b->api, SCALE), 1);
}

// Several replicas end except for one, which is then checked.
static void test_several_replicas(void **state)
{
    struct bench *b = *state;
    fake_scale(&b->api, SCALE, 3, "app=web");
    b->use = "1";
    put(b, "10m", 0);
    start(b);
    wait_replicas(b, 1);
    wait_text(b, "pod web-0 had requests");
}

// "10" instead of "10m": whoever writes the annotation does not want the last replica to end at
// once.
static void test_wrong_annotation_keeps_the_last_replica(void **state)
{
    struct bench *b = *state;
    b->use = "0";
    put(b, "10", 0);
    start(b);
    wait_text(b, "the last replica remains: the annotation gpuscale.dev/zero-after is no duration");
    assert_int_equal(fake_replicas(&b->api, SCALE), 1);
    assert_true(fake_has_event(&b->api, "InvalidAnnotation", "\"10\""));
    put(b, "10m", 0);
    wait_replicas(b, 0);
}

static bool has_wake(void *arg)
{
    struct bench *b = arg;
    CODEC_AUTO_JSON json_t *zero = zero_of(b);
    return json_array_size(json_object_get(zero, "wakes")) == (size_t)b->want;
}

static bool is_asleep(void *arg)
{
    const struct bench *b = arg;
    const json_t *object = json_object_get(b->api.hpas, "shop/web");
    return kube_condition_true(object, "ScaledToZero") && fake_replicas(&b->api, SCALE) == 0;
}

static void test_starts_from_zero(void **state)
{
    struct bench *b = *state;
    put(b, "10m", 0);
    start(b);
    assert_true(fake_wait(&b->api, is_asleep, b));
    set_waiting(b, "3");
    b->want = 1;
    assert_true(fake_wait(&b->api, has_wake, b));
    CODEC_AUTO_JSON json_t *zero = zero_of(b);
    const json_t *wake = json_array_get(json_object_get(zero, "wakes"), 0);
    assert_non_null(codec_json_str(wake, "since", NULL));
    assert_non_null(codec_json_str(wake, "time", NULL));
    assert_non_null(strstr(codec_json_str(wake, "reason", NULL), "gpuscale_activator_waiting"));
    assert_null(json_object_get(wake, "readySeconds"));
    set_waiting(b, "0");
    wait_replicas(b, 0);
    set_waiting(b, "1");
    b->want = 2;
    assert_true(fake_wait(&b->api, has_wake, b));
    CODEC_AUTO_JSON json_t *again = zero_of(b);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(again, "wakes"), 1), "failed", NULL),
        "zero again before a pod was ready");
}

// --- the explanation ---

static void explain(const char *metric, int window, json_t *of_controller, const char *want)
{
    CODEC_AUTO_JSON json_t *object = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s, s:s, s:s}, s:i, s:i, s:[{s:s, s:{s:{s:s}, s:{s:s, "
        "s:s}}}]}, s:{s:[{s:s, s:s, s:s}]}}",
        "apiVersion", "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "namespace",
        "shop", "name", "web", "spec", "scaleTargetRef", "apiVersion", "apps/v1", "kind",
        "Deployment", "name", "web", "minReplicas", 0, "maxReplicas", 5, "metrics", "type",
        "External", "external", "metric", "name", metric, "target", "type", "AverageValue",
        "averageValue", "8", "status", "conditions", "type", "ScaledToZero", "status", "True",
        "lastTransitionTime", "2026-11-29T02:14:00Z");
    struct hpa_config cfg = hpa_config_default();
    struct hpa_spec spec;
    GS_AUTO_BUF struct gs_buf text = {0};
    if (window >= 0)
        codec_json_set(object, json_integer(window), "spec", "behavior", "scaleDown",
                       "stabilizationWindowSeconds", NULL);
    hpa_default(object);
    assert_ok(hpa_spec_parse(object, &spec));
    const struct hpa_observation obs = {
        .scale_found = true, .scaled_to_zero = true, .selector = "app=web"};
    int64_t now_ms = 0;
    assert_ok(gs_parse_rfc3339(gs_slice_of("2026-11-29T05:24:30Z"), &now_ms));
    const struct hpa_inspection_result found = {
        .spec = &spec, .obs = &obs, .now_ms = now_ms, .zero = of_controller};
    CODEC_AUTO_JSON json_t *zero = hpa_zero_json(&found, &cfg);
    hpa_zero_text(zero, &text);
    gs_buf_add_char(&text, '\0');
    assert_string_equal(text.data, want);
    hpa_spec_finish(&spec);
    json_decref(of_controller);
}

static void test_explanation(void **state)
{
    explain("gpuscale_activator_waiting", 600, NULL,
            "At zero since 2026-11-29T02:14:00Z (3h10m30s): no request for 10m.\n");
    explain("queue_length", -1, NULL,
            "At zero since 2026-11-29T02:14:00Z (3h10m30s): no work in any metric for 5m.\n");
    explain("gpuscale_activator_waiting", 0,
            json_pack("{s:s, s:[{s:s, s:f, s:{s:f, s:f}}]}", "reason", "no request for 30m",
                      "wakes", "time", "2026-11-28T08:00:01Z", "readySeconds", 41.25, "phases",
                      "pull", 3.0, "load", 38.0),
            "At zero since 2026-11-29T02:14:00Z (3h10m30s): no request for 30m.\n"
            "The last start from zero: 2026-11-28T08:00:01Z, ready after 41.2s (pull 3.0s, load "
            "38.0s).\n");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_annotation),
        cmocka_unit_test(test_expression),
        cmocka_unit_test(test_only_series_that_still_have_samples_reach_back),
        cmocka_unit_test(test_verdict),
        T(test_used_replica_remains),
        T(test_unknown_use),
        T(test_several_replicas),
        T(test_wrong_annotation_keeps_the_last_replica),
        T(test_starts_from_zero),
        cmocka_unit_test(test_explanation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
