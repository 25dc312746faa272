// SPDX-License-Identifier: Apache-2.0
// Latency targets in the controller: the annotation, the query of the samples, the proposal, and
// what is published of the decision.
#include "base/slice.h"
#include "hpa/convert.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/signals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define SCALE    "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define EXTERNAL "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/"
#define TARGET                                                                                     \
    "\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"}"
#define METRIC(name, value)                                                                        \
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"" name "\"},\"target\":{"         \
    "\"type\":\"AverageValue\",\"averageValue\":\"" value "\"}}}"
#define SPEC(metric)                                                                               \
    "{" TARGET ",\"minReplicas\":1,\"maxReplicas\":10,\"metrics\":[" metric                        \
    "],\"behavior\":{\"scaleDown\":{\"stabilizationWindowSeconds\":0}}}"
#define QUEUE   METRIC("queue", "10")
#define DESIRED METRIC("gpuscale_desired_replicas", "1")

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    struct http_client *engine;
    char *query; // the last one
    int status;  // of the engine's responses
    bool no_engine;
    double kv;      // used share of the KV cache of each pod
    int pod_count;  // pods in the responses
    int64_t age_ms; // of the samples
    int passes;
    char last[400]; // explanation
    // conditions that a test waits for
    int want;
    const char *reason, *message, *text;
};

// --- the engine ---

static void add_series(struct bench *b, struct gs_buf *out, const char *name, int pod, double value)
{
    double t = (double)(gs_unix_ms() - b->age_ms) / 1000;
    gs_buf_addf(out,
                "%s{\"metric\":{\"__name__\":\"gpuscale_inference_%s\",\"namespace\":\"shop\","
                "\"pod\":\"web-%d\",\"model\":\"m\"},\"values\":[[%.3f,\"%g\"],[%.3f,\"%g\"]]}",
                out->len && out->data[out->len - 1] == '}' ? "," : "", name, pod, t - 1, value, t,
                value);
}

static void engine(void *arg, struct http_exchange *x)
{
    struct bench *b = arg;
    GS_AUTO_BUF struct gs_buf body = {0};
    free(b->query);
    b->query = gs_strdup(http_query(x, "query"));
    gs_buf_add_str(&body,
                   "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[");
    for (int i = 0; i < b->pod_count; i++) {
        add_series(b, &body, "waiting", i, b->kv > 0.5 ? 20 : 0);
        add_series(b, &body, "running", i, 16 * b->kv);
        add_series(b, &body, "kv_used_ratio", i, b->kv);
        add_series(b, &body, "kv_capacity_tokens", i, 100000);
    }
    gs_buf_add_str(&body, "]}}");
    if (b->status != 200) {
        gs_buf_clear(&body);
        gs_buf_add_str(&body,
                       "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"slow\"}");
    }
    http_reply(x, b->status, "application/json", gs_buf_slice(&body));
}

static struct http_client *engine_of(void *arg, const char **ret_why)
{
    struct bench *b = arg;
    *ret_why = "no engine in this test";
    return b->no_engine ? NULL : b->engine;
}

// --- fixture ---

static void observe(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct bench *b = arg;
    (void)spec;
    b->passes++;
    snprintf(b->last, sizeof(b->last), "%s", d->explanation);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    fake_init(&b->api);
    fake_scale(&b->api, SCALE, 2, "app=web");
    fake_pods(&b->api, "web", 2);
    b->engine = http_client_new_loopback(&b->api.loop, engine, b, NULL);
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    b->status = 200;
    b->kv = 0.95;
    b->pod_count = 2;
    const struct hpa_controller_config cfg = {
        .sync_period_ms = 20, .decide = hpa_config_default(), .engine = engine_of, .engine_arg = b};
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
    hpa_controller_set_observer(b->controller, observe, b);
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
    free(b->query);
    free(b);
    return rc;
}

static void put(struct bench *b, const char *annotation, const char *spec)
{
    CODEC_AUTO_JSON json_t *in =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:o}", "apiVersion", "autoscaling/v2", "kind",
                  "HorizontalPodAutoscaler", "metadata", "namespace", "shop", "name", "web", "uid",
                  "web", "spec", json_loads(spec, 0, NULL));
    if (annotation)
        codec_json_set(in, json_string(annotation), "metadata", "annotations", "gpuscale.dev/slo",
                       NULL);
    json_t *out = NULL;
    assert_null(hpa_to_v2(in, &out));
    hpa_default(out);
    fake_put(&b->api, b->api.hpas, out);
}

static void start(struct bench *b)
{
    hpa_controller_start(b->controller);
    kube_cache_start(b->pods);
}

// An external metric "queue" with this sum.
static void set_queue(struct bench *b, const char *value)
{
    fake_answer(&b->api, EXTERNAL "queue", 200,
                json_pack("{s:s, s:[{s:s, s:s}]}", "kind", "ExternalMetricValueList", "items",
                          "metricName", "queue", "value", value));
}

// --- conditions to wait for ---

static bool replicas_above(void *arg)
{
    const struct bench *b = arg;
    return fake_replicas(&b->api, SCALE) > b->want;
}

static bool replicas_are(void *arg)
{
    const struct bench *b = arg;
    return fake_replicas(&b->api, SCALE) == b->want;
}

static bool event_seen(void *arg)
{
    const struct bench *b = arg;
    return fake_has_event(&b->api, b->reason, b->message);
}

static bool explained(void *arg)
{
    const struct bench *b = arg;
    return strstr(b->last, b->text) != NULL;
}

static bool passes_reached(void *arg)
{
    const struct bench *b = arg;
    return b->passes >= b->want;
}

static void wait_passes(struct bench *b, int n)
{
    b->want = b->passes + n;
    assert_true(fake_wait(&b->api, passes_reached, b));
}

static const char *active_text(const struct bench *b)
{
    const json_t *object = json_object_get(b->api.hpas, "shop/web");
    return codec_json_str(kube_condition(object, "ScalingActive"), "message", NULL);
}

static bool inactive(void *arg)
{
    const struct bench *b = arg;
    const char *text = active_text(b);
    return text && strstr(text, b->text);
}

// --- tests ---

static void test_scales_by_the_annotation(void **state)
{
    struct bench *b = *state;
    set_queue(b, "1");
    put(b, "ttft=1s,itl=50ms", SPEC(QUEUE));
    start(b);
    b->want = 2;
    assert_true(fake_wait(&b->api, replicas_above, b));
    assert_non_null(strstr(b->query, "namespace=\"shop\""));
    assert_non_null(strstr(b->query, "pod=~\"web-0|web-1\"") ? b->query
                                                             : strstr(b->query, "web-1|web-0"));
    b->text = "from latency target gpuscale.dev/slo";
    assert_true(fake_wait(&b->api, inactive, b));
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", "web");
    assert_true(codec_json_int(history, 0, "slo", "proposal", NULL) > 2);
    assert_true(codec_json_bool(history, false, "slo", "applied", NULL));
    assert_string_equal(codec_json_str(history, "slo", "annotation", NULL), "ttft=1s,itl=50ms");
    assert_int_equal(codec_json_int(history, 0, "startup", "coming", "ready", NULL), 2);
    // The demand of the first minutes is observed, and nothing is forecast.
    assert_string_equal(codec_json_str(history, "slo", "forecast", "method", NULL), "last value");
}

static void test_published(void **state)
{
    struct bench *b = *state;
    GS_AUTO_BUF struct gs_buf text = {0};
    put(b, "ttft=1s,mode=shadow", SPEC(QUEUE));
    set_queue(b, "20");
    start(b);
    wait_passes(b, 3);
    // Two replicas by the queue: the decision is not applied.
    assert_int_equal(fake_replicas(&b->api, SCALE), 2);
    hpa_controller_write_metrics(b->controller, &text);
    gs_buf_add_char(&text, '\0');
    const char labels[] =
        "{namespace=\"shop\",horizontalpodautoscaler=\"web\",deployment=\"web\"} ";
    GS_AUTO_FREE char *desired = gs_format("gpuscale_desired_replicas%s", labels);
    const char *at = strstr(text.data, desired);
    assert_non_null(at);
    assert_true(strtol(at + strlen(desired), NULL, 10) > 2);
    assert_non_null(strstr(text.data, "gpuscale_slo_bound_replicas{namespace=\"shop\","
                                      "horizontalpodautoscaler=\"web\",deployment=\"web\","
                                      "bound=\"demand\"} "));
    assert_non_null(strstr(text.data, "# TYPE gpuscale_slo_pressure gauge\n"));
}

// The metric of the spec is the same proposal, and the metrics API is not needed.
static void test_metric_of_the_spec(void **state)
{
    struct bench *b = *state;
    put(b, "ttft=1s", SPEC(DESIRED));
    start(b);
    b->want = 2;
    assert_true(fake_wait(&b->api, replicas_above, b));
    size_t i;
    json_t *line;
    json_array_foreach (b->api.log, i, line)
        assert_null(strstr(json_string_value(line), "external.metrics"));
}

static void test_limits_of_the_object(void **state)
{
    struct bench *b = *state;
    b->kv = 1;
    set_queue(b, "1");
    put(b, "ttft=1s", "{" TARGET ",\"minReplicas\":1,\"maxReplicas\":3,\"metrics\":[" QUEUE "]}");
    start(b);
    b->want = 3;
    assert_true(fake_wait(&b->api, replicas_are, b));
    wait_passes(b, 5);
    assert_int_equal(fake_replicas(&b->api, SCALE), 3);
}

// Without samples, the metrics may scale up, and nothing scales down.
static void test_no_samples(void **state)
{
    static const struct {
        int status, pod_count;
        bool no_engine;
        int64_t age_ms;
        const char *text;
    } cases[] = {
        {503, 2, false, 0, "slow"},
        {200, 2, true, 0, "no engine in this test"},
        {200, 0, false, 0, ""},
        {200, 2, false, 600000, ""},
    };
    struct bench *b = *state;
    set_queue(b, "1"); // one replica
    put(b, "ttft=1s", SPEC(QUEUE));
    b->status = 503;
    start(b);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        b->status = cases[i].status;
        b->pod_count = cases[i].pod_count;
        b->no_engine = cases[i].no_engine;
        b->age_ms = cases[i].age_ms;
        wait_passes(b, 3);
        b->text = cases[i].text;
        assert_true(fake_wait(&b->api, explained, b));
        assert_non_null(strstr(b->last, "no scaling down"));
        assert_int_equal(fake_replicas(&b->api, SCALE), 2);
    }
    set_queue(b, "50");
    b->want = 5;
    assert_true(fake_wait(&b->api, replicas_are, b));
    GS_AUTO_BUF struct gs_buf text = {0};
    b->status = 503;
    wait_passes(b, 3);
    hpa_controller_write_metrics(b->controller, &text);
    gs_buf_add_char(&text, '\0');
    assert_null(strstr(text.data, "gpuscale_desired_replicas{"));
}

static void test_wrong_annotation(void **state)
{
    struct bench *b = *state;
    set_queue(b, "40");
    put(b, "ttft=1s,tpot=5ms", SPEC(QUEUE));
    start(b);
    b->reason = "InvalidAnnotation";
    b->message = "tpot";
    assert_true(fake_wait(&b->api, event_seen, b));
    // The metrics work on.
    b->want = 4;
    assert_true(fake_wait(&b->api, replicas_are, b));
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", "web");
    assert_non_null(strstr(codec_json_str(history, "slo", "error", NULL), "tpot"));
    put(b, "ttft=1s", SPEC(QUEUE));
    wait_passes(b, 3);
    CODEC_AUTO_JSON json_t *corrected = hpa_controller_history(b->controller, "shop", "web");
    assert_non_null(codec_json_get(corrected, "slo", "proposal", NULL));
}

static void test_annotation_is_removed(void **state)
{
    struct bench *b = *state;
    b->status = 503;
    set_queue(b, "1");
    put(b, "ttft=1s", SPEC(QUEUE));
    start(b);
    wait_passes(b, 3);
    assert_int_equal(fake_replicas(&b->api, SCALE), 2);
    put(b, NULL, SPEC(QUEUE));
    b->want = 1;
    assert_true(fake_wait(&b->api, replicas_are, b));
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", "web");
    assert_null(json_object_get(history, "slo"));
}

// After the first response, the range is that of the scrapes.
static void test_range_of_the_query(void **state)
{
    struct bench *b = *state;
    set_queue(b, "20");
    put(b, "ttft=1s,mode=shadow", SPEC(QUEUE));
    b->pod_count = 0;
    start(b);
    wait_passes(b, 2);
    assert_non_null(strstr(b->query, "[60000ms]"));
    b->pod_count = 2;
    wait_passes(b, 3);
    assert_non_null(strstr(b->query, "[5000ms]"));
}

static bool publishes_desired(const struct bench *b)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    hpa_controller_write_metrics(b->controller, &text);
    gs_buf_add_char(&text, '\0');
    return strstr(text.data, "gpuscale_desired_replicas{") != NULL;
}

static bool publishes_nothing(void *arg)
{
    return !publishes_desired(arg);
}

// An old number would say that so many replicas are needed.
static void test_without_an_evaluation_nothing_is_published(void **state)
{
    struct bench *b = *state;
    set_queue(b, "20");
    put(b, "ttft=1s,mode=shadow", SPEC(QUEUE));
    start(b);
    wait_passes(b, 3);
    assert_true(publishes_desired(b));
    fake_scale(&b->api, SCALE, 0, "app=web"); // scaling is disabled
    assert_true(fake_wait(&b->api, publishes_nothing, b));
    fake_scale(&b->api, SCALE, 2, "app=web");
    wait_passes(b, 3);
    assert_true(publishes_desired(b));
}

static void set_image(struct bench *b, const char *pod, const char *image)
{
    json_t *copy = json_deep_copy(json_object_get(b->api.pods, pod));
    codec_json_set(copy, json_pack("[{s:s, s:s}]", "name", "app", "imageID", image), "status",
                   "containerStatuses", NULL);
    fake_put(&b->api, b->api.pods, copy);
}

// In a rollout, the pods of both images are ready.
static void test_learns_for_the_image_of_most_pods(void **state)
{
    static const char *const pods[] = {"shop/web-0", "shop/web-1", "shop/web-2"};
    struct bench *b = *state;
    fake_pods(&b->api, "web", 3);
    for (size_t i = 0; i < GS_ARRAY_LEN(pods); i++)
        set_image(b, pods[i], "old");
    set_queue(b, "20");
    put(b, "ttft=1s,mode=shadow", SPEC(QUEUE));
    start(b);
    wait_passes(b, 3);
    for (size_t i = 0; i < GS_ARRAY_LEN(pods); i++) {
        set_image(b, pods[i], "new");
        wait_passes(b, 3);
        set_image(b, pods[i], "old");
    }
    wait_passes(b, 3);
    CODEC_AUTO_JSON json_t *document = hpa_controller_learned(b->controller);
    const json_t *learned = codec_json_get(document, "services", "shop/web", "learned", NULL);
    assert_int_equal(json_array_size(learned), 1);
    assert_string_equal(codec_json_str(json_array_get(learned, 0), "identity", NULL), "old");
}

// Prefill and decode as two workloads.
static void test_replicas_of_the_peer(void **state)
{
    struct bench *b = *state;
    set_queue(b, "1");
    fake_scale(&b->api, "/apis/apps/v1/namespaces/shop/deployments/decode/scale", 9, "app=decode");
    b->kv = 0.1; // nothing to do
    put(b, "ttft=1s,peer=decode,ratio=0.5..2", SPEC(QUEUE));
    start(b);
    b->want = 5;
    assert_true(fake_wait(&b->api, replicas_are, b));
    CODEC_AUTO_JSON json_t *history = hpa_controller_history(b->controller, "shop", "web");
    GS_AUTO_FREE char *text = codec_json_text(json_object_get(history, "slo"));
    assert_non_null(strstr(text, "9 replicas of decode"));
}

// A target that is seldom scraped with success must not make old samples of all others fresh.
static void test_interval_of_samples(void **state)
{
    (void)state;
#define SERIES(pod, samples)                                                                       \
    "{\"metric\":{\"__name__\":\"gpuscale_inference_waiting\",\"pod\":\"" pod                      \
    "\"},\"values\":[" samples "]}"
#define STEADY SERIES("a", "[1000,\"1\"],[1015,\"1\"],[1060,\"2\"],[1900,\"3\"]")
    struct hpa_signals all = {0};
    assert_true(hpa_signals_read(gs_slice_of("{\"data\":{\"result\":[" STEADY
                                             "," SERIES("b", "[1000,\"1\"],[1880,\"1\"]") "]}}"),
                                 &all));
    assert_int_equal(all.n, 2);
    assert_int_equal(all.interval_ms, 15000);
    assert_int_equal(all.items[0].t_ms, 1900000);
    hpa_signals_finish(&all);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_scales_by_the_annotation),
        T(test_published),
        T(test_metric_of_the_spec),
        T(test_limits_of_the_object),
        T(test_no_samples),
        T(test_without_an_evaluation_nothing_is_published),
        T(test_learns_for_the_image_of_most_pods),
        T(test_wrong_annotation),
        T(test_annotation_is_removed),
        T(test_range_of_the_query),
        T(test_replicas_of_the_peer),
        cmocka_unit_test(test_interval_of_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
