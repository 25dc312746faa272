// SPDX-License-Identifier: Apache-2.0
// Hints of changed metrics: which are read, which cause an evaluation, and how many.
#include "hpa/convert.h"
#include "hpa_controller/controller.h"
#include "hpa_controller/hints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake_api.h"

#define SCALE  "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define CUSTOM "/apis/custom.metrics.k8s.io"
#define METRIC CUSTOM "/v1beta1/namespaces/shop/pods/%2A/gpu_util?labelSelector=app=web"
#define QUEUE                                                                                      \
    CUSTOM "/v1beta1/namespaces/shop/pods/%2A/gpuscale_inference_waiting?labelSelector=app=web"
#define GPU_GET "GET " CUSTOM "/v1beta1/namespaces/shop/pods/%2A/gpu_util"
#define CHANGES "GET " CUSTOM "/v1beta1/changes"

struct bench {
    struct fake_api api;
    struct kube_cache *pods;
    struct hpa_controller *controller;
    int passes, want;
    int32_t desired;
    const char *prefix; // of requests
};

static void observe(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct bench *b = arg;
    (void)spec;
    b->passes++;
    b->desired = d->desired;
}

static json_t *hpa_object(const char *name, const char *metric)
{
    CODEC_AUTO_JSON json_t *in = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:{s:s, s:s, s:s}, s:i, s:i, s:[{s:s, s:{s:{s:s}, "
        "s:{s:s, s:s}}}]}}",
        "apiVersion", "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "namespace",
        "shop", "name", name, "uid", name, "spec", "scaleTargetRef", "apiVersion", "apps/v1",
        "kind", "Deployment", "name", "web", "minReplicas", 1, "maxReplicas", 10, "metrics", "type",
        "Pods", "pods", "metric", "name", metric, "target", "type", "AverageValue", "averageValue",
        "20");
    json_t *out = NULL;
    struct gs_error *err = hpa_to_v2(in, &out);
    if (err)
        fail_msg("%s", gs_error_message(err));
    hpa_default(out);
    return out;
}

static void script_values(struct bench *b, const char *value)
{
    const char *const values[] = {value, value};
    fake_answer(&b->api, METRIC, 200, fake_values("web", values, 2));
}

// A period of one hour: without hints, nothing is evaluated twice.
static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    const struct hpa_controller_config cfg = {.sync_period_ms = 3600 * 1000,
                                              .decide = hpa_config_default()};
    fake_init(&b->api);
    b->api.serves_changes = true;
    fake_answer(&b->api, CUSTOM, 200,
                json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "name",
                          "custom.metrics.k8s.io", "preferredVersion", "version", "v1beta1",
                          "versions", "version", "v1beta1"));
    fake_scale(&b->api, SCALE, 2, "app=web");
    fake_pods(&b->api, "web", 2);
    fake_put(&b->api, b->api.hpas, hpa_object("gpu", "gpu_util"));
    b->pods = kube_cache_new(&b->api.loop, b->api.kube, KUBE_PODS, NULL, NULL);
    b->controller = hpa_controller_new(&b->api.loop, b->api.kube, b->pods, &cfg);
    hpa_controller_set_observer(b->controller, observe, b);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_controller_free(b->controller);
    kube_cache_free(b->pods);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static bool passes_reached(void *arg)
{
    const struct bench *b = arg;
    return b->passes >= b->want;
}

static void wait_passes(struct bench *b, int n)
{
    b->want = n;
    if (!fake_wait(&b->api, passes_reached, b))
        fail_msg("evaluations: want %d, got %d", n, b->passes);
}

static bool stream_open(void *arg)
{
    return ((const struct bench *)arg)->api.changes != NULL;
}

static bool requests_reached(void *arg)
{
    const struct bench *b = arg;
    return fake_count_log(&b->api, b->prefix) >= (size_t)b->want;
}

// The first evaluation, and the stream.
static void start(struct bench *b)
{
    hpa_controller_start(b->controller);
    kube_cache_start(b->pods);
    wait_passes(b, 1);
    assert_true(fake_wait(&b->api, stream_open, b));
}

static void send_text(struct bench *b, const char *text)
{
    http_stream_write(b->api.changes, gs_slice_of(text));
}

#define HINT(metric, selector, sum)                                                                \
    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"namespace\":\"shop\"},\"resource\":"       \
    "\"pods\",\"name\":\"*\",\"metric\":\"" metric "\",\"selector\":\"" selector "\",\"sum\":" sum \
    ",\"items\":2}}\n"

// --- the controller ---

static void test_a_changed_value_is_read_when_it_arrives(void **state)
{
    struct bench *b = *state;
    script_values(b, "20");
    start(b);
    assert_int_equal(b->desired, 2);
    script_values(b, "40");
    send_text(b, HINT("gpu_util", "app=web", "80"));
    wait_passes(b, 2);
    assert_int_equal(b->desired, 4);
    assert_int_equal(fake_replicas(&b->api, SCALE), 4);
}

// The value of the hint only selects: what decides is read.
static void test_the_value_of_a_hint_does_not_decide(void **state)
{
    struct bench *b = *state;
    script_values(b, "20");
    start(b);
    send_text(b, HINT("gpu_util", "app=web", "400"));
    wait_passes(b, 2);
    assert_int_equal(b->desired, 2);
}

static void test_hints_that_cannot_change_the_decision_cost_no_request(void **state)
{
    struct bench *b = *state;
    script_values(b, "20");
    start(b);
    send_text(b, HINT("gpu_util", "app=web", "42")); // within the tolerance
    send_text(b, HINT("gpu_util", "app=other", "80"));
    send_text(b, HINT("other", "app=web", "80"));
    script_values(b, "40");
    send_text(b, HINT("gpu_util", "app=web", "80"));
    wait_passes(b, 2);
    assert_int_equal(b->desired, 4);
    assert_int_equal(fake_count_log(&b->api, GPU_GET), 2);
}

static void test_many_hints_are_one_evaluation(void **state)
{
    struct bench *b = *state;
    GS_AUTO_BUF struct gs_buf text = {0};
    script_values(b, "20");
    start(b);
    for (int i = 0; i < 100; i++)
        gs_buf_add_str(&text, HINT("gpu_util", "app=web", "80"));
    script_values(b, "20.5");
    send_text(b, text.data);
    wait_passes(b, 2);
    // Another one, which is evaluated after those of before.
    script_values(b, "40");
    send_text(b, HINT("gpu_util", "app=web", "80"));
    wait_passes(b, 3);
    assert_int_equal(fake_count_log(&b->api, GPU_GET), 3);
}

static void test_broken_lines_are_skipped(void **state)
{
    struct bench *b = *state;
    GS_AUTO_BUF struct gs_buf text = {0};
    script_values(b, "20");
    start(b);
    gs_buf_add_str(&text, "no JSON\n[1]\n{\"type\":\"MODIFIED\"}\n\n");
    for (int i = 0; i < 100000; i++)
        gs_buf_add_char(&text, '{');
    gs_buf_add_str(&text, "\n");
    send_text(b, text.data);
    script_values(b, "40");
    send_text(b, HINT("gpu_util", "app=web", "80"));
    wait_passes(b, 2);
    assert_int_equal(b->desired, 4);
}

static void test_a_stream_that_ends_is_opened_again(void **state)
{
    struct bench *b = *state;
    script_values(b, "20");
    start(b);
    http_stream_end(b->api.changes);
    b->prefix = CHANGES;
    b->want = 2;
    assert_true(fake_wait(&b->api, requests_reached, b));
    assert_true(fake_wait(&b->api, stream_open, b));
    script_values(b, "40");
    send_text(b, HINT("gpu_util", "app=web", "80"));
    wait_passes(b, 2);
}

// No stream reports a value that nobody has been given.
static void test_a_metric_without_a_value_is_read_again_soon(void **state)
{
    struct bench *b = *state;
    start(b);
    script_values(b, "40");
    wait_passes(b, 2);
    assert_int_equal(b->desired, 4);
}

// Its samples are read from the engine, so no request of the adapter has named them.
static void test_the_queue_of_a_latency_target_is_followed(void **state)
{
    struct bench *b = *state;
    json_t *hpa = json_deep_copy(json_object_get(b->api.hpas, "shop/gpu"));
    codec_json_set(hpa, json_pack("{s:s}", "gpuscale.dev/slo", "ttft=1s"), "metadata",
                   "annotations", NULL);
    fake_put(&b->api, b->api.hpas, hpa);
    script_values(b, "20");
    fake_answer(&b->api, QUEUE, 200, fake_values("web", (const char *const[]){"0", "0"}, 2));
    start(b);
    b->prefix = "GET " QUEUE;
    b->want = 1;
    assert_true(fake_wait(&b->api, requests_reached, b));
    send_text(b, HINT("gpuscale_inference_waiting", "app=web", "12"));
    wait_passes(b, 2);
    send_text(b, HINT("gpuscale_inference_waiting", "app=web", "3")); // falls
    send_text(b, HINT("gpuscale_inference_waiting", "app=web", "9"));
    wait_passes(b, 3);
    b->want = 3; // it names the pods, so it is repeated
    assert_true(fake_wait(&b->api, requests_reached, b));
}

static void test_a_queue_that_grows(void **state)
{
    (void)state;
    struct kube_selector selector = {0};
    struct hpa_hint hint = {
        .metric = HPA_QUEUE_METRIC, .pods = true, .selector = "a=b", .sum = 4, .items = 1};
    double queue = 0;
    gs_error_free(kube_selector_parse("a=b", &selector));
    assert_true(hpa_queue_grows(&hint, &selector, &queue));
    hint.sum = 2;
    assert_false(hpa_queue_grows(&hint, &selector, &queue));
    hint.sum = 3;
    assert_true(hpa_queue_grows(&hint, &selector, &queue));
    hint.sum = 9;
    assert_false(hpa_queue_grows(&hint, NULL, &queue));
    hint.selector = "a=c";
    assert_false(hpa_queue_grows(&hint, &selector, &queue));
    assert_true(queue == 3);
    kube_selector_finish(&selector);
}

// --- hints ---

static bool read_text(const char *text, json_t **ret_event, struct hpa_hint *ret)
{
    *ret_event = json_loads(text, 0, NULL);
    return hpa_hint_read(*ret_event, ret);
}

static void test_reads_hints(void **state)
{
    (void)state;
    struct hpa_hint h;
    CODEC_AUTO_JSON json_t *pods = NULL, *external = NULL, *bookmark = NULL, *no_ns = NULL;
    assert_true(read_text(HINT("m", "a=b", "1.5"), &pods, &h));
    assert_true(h.pods && !h.external);
    assert_string_equal(h.ns, "shop");
    assert_string_equal(h.metric, "m");
    assert_string_equal(h.selector, "a=b");
    assert_true(h.sum == 1.5);
    assert_int_equal(h.items, 2);
    assert_true(read_text("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"namespace\":\"n\"},"
                          "\"metric\":\"m\",\"sum\":3,\"items\":1}}",
                          &external, &h));
    assert_true(h.external && !h.pods);
    assert_string_equal(h.selector, "");
    assert_false(read_text("{\"type\":\"BOOKMARK\",\"object\":{\"sum\":1}}", &bookmark, &h));
    assert_false(
        read_text("{\"type\":\"MODIFIED\",\"object\":{\"metric\":\"m\",\"sum\":3}}", &no_ns, &h));
}

// An autoscaler with 4 of 1 to 8 replicas and one metric, as it was evaluated last.
static struct hpa_seen *seen_of(enum hpa_metric_type type, bool ok, double ratio, int32_t desired)
{
    struct hpa_metric_spec metric = {.type = type, .name = "m"};
    struct hpa_metric_result result = {.ok = ok, .ratio = ratio};
    const struct hpa_spec spec = {.max_replicas = 8, .metrics = &metric, .n_metrics = 1};
    const struct hpa_decision d = {
        .current = 4, .desired = desired, .metrics = &result, .n_metrics = 1};
    result.average_value = (int64_t)(ratio * 20 * 1000); // a target of 20
    result.has_average_value = true;
    return hpa_seen_new(&spec, &d, "a=b", 0.1);
}

static void test_selects_hints(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum hpa_metric_type type;
        bool ok;
        double ratio; // seen
        int32_t desired;
        double sum; // of a hint with 4 values
        bool matters;
    } cases[] = {
        {"rises above the tolerance", HPA_METRIC_PODS, true, 1, 4, 90, true},
        {"stays within the tolerance", HPA_METRIC_PODS, true, 1, 4, 86, false},
        {"rises further", HPA_METRIC_PODS, true, 1.5, 4, 160, true},
        {"rises further at the maximum", HPA_METRIC_PODS, true, 1.5, 8, 160, false},
        {"falls, but stays above", HPA_METRIC_PODS, true, 2, 4, 120, false},
        {"falls below the tolerance", HPA_METRIC_PODS, true, 1, 4, 40, true},
        {"falls below it at the minimum", HPA_METRIC_PODS, true, 1, 1, 40, false},
        {"varies below the tolerance", HPA_METRIC_PODS, true, 0.5, 4, 60, false},
        {"rises from zero", HPA_METRIC_PODS, true, 0, 4, 90, true},
        {"stays zero", HPA_METRIC_PODS, true, 0, 4, 0, false},
        {"had no value", HPA_METRIC_PODS, false, 0, 4, 80, true},
        {"a sum with a target for each replica", HPA_METRIC_EXTERNAL, true, 1, 4, 90, true},
        {"the same sum", HPA_METRIC_EXTERNAL, true, 1, 4, 80, false},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct hpa_seen *s = seen_of(cases[i].type, cases[i].ok, cases[i].ratio, cases[i].desired);
        const struct hpa_hint hint = {.ns = "n",
                                      .metric = "m",
                                      .external = cases[i].type == HPA_METRIC_EXTERNAL,
                                      .pods = cases[i].type == HPA_METRIC_PODS,
                                      .selector = "a=b",
                                      .sum = cases[i].sum,
                                      .items = 4};
        if (hpa_seen_matters(s, &hint) != cases[i].matters)
            fail_msg("a value that %s: want %d", cases[i].what, cases[i].matters);
        hpa_seen_free(s);
    }
}

// In the long run, evaluations that decide nothing are at most as many as those of the period.
static void test_limits_evaluations(void **state)
{
    (void)state;
    struct hpa_hint_budget b = {0};
    int64_t now = GS_NS_PER_SEC;
    int n = 0;
    for (int i = 0; i < 4 * 3600; i++, now += GS_NS_PER_SEC / 4)
        n += hpa_hint_budget_take(&b, 15000, now);
    assert_in_range(n, 240, 240 + 8);
    while (hpa_hint_budget_take(&b, 15000, now)) // at most one
        n++;
    assert_in_range(n, 240, 240 + 8);
    hpa_hint_budget_fill(&b);
    assert_true(hpa_hint_budget_take(&b, 15000, now));
}

#define WITH_BENCH(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BENCH(test_a_changed_value_is_read_when_it_arrives),
        WITH_BENCH(test_the_value_of_a_hint_does_not_decide),
        WITH_BENCH(test_hints_that_cannot_change_the_decision_cost_no_request),
        WITH_BENCH(test_many_hints_are_one_evaluation),
        WITH_BENCH(test_broken_lines_are_skipped),
        WITH_BENCH(test_a_stream_that_ends_is_opened_again),
        WITH_BENCH(test_a_metric_without_a_value_is_read_again_soon),
        WITH_BENCH(test_the_queue_of_a_latency_target_is_followed),
        cmocka_unit_test(test_a_queue_that_grows),
        cmocka_unit_test(test_reads_hints),
        cmocka_unit_test(test_selects_hints),
        cmocka_unit_test(test_limits_evaluations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
