// SPDX-License-Identifier: Apache-2.0
// Explanations over HTTP, with the real settings and with others.
#include "hpa/convert.h"
#include "hpa_controller/explain_api.h"
#include "unit.h"

#include "fake_api.h"

#define SCALE  "/apis/apps/v1/namespaces/shop/deployments/web/scale"
#define CUSTOM "/apis/custom.metrics.k8s.io"
#define METRIC CUSTOM "/v1beta2/namespaces/shop/pods/%2A/gpu_util?labelSelector=app=web"
#define WEB    HPA_EXPLAIN_PATH "?namespace=shop&name=web"
#define OBJECT "GET /apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/"

#define MAX_REPLIES 64

struct bench {
    struct fake_api api;
    struct hpa_explain_api *explain;
    struct http_client *peer;
    size_t n_replies, wanted;
    int status;   // of the last reply
    json_t *body; // of the last reply
    size_t refused;
};

static void handle(void *ctx, struct http_exchange *x)
{
    struct bench *b = ctx;
    hpa_explain_api_handle(b->explain, x);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    const struct hpa_config cfg = hpa_config_default();
    fake_init(&b->api);
    fake_answer(&b->api, CUSTOM, 200,
                json_pack("{s:s, s:s, s:{s:s}, s:[{s:s}]}", "kind", "APIGroup", "name",
                          "custom.metrics.k8s.io", "preferredVersion", "version", "v1beta2",
                          "versions", "version", "v1beta2"));
    fake_scale(&b->api, SCALE, 3, "app=web");
    fake_pods(&b->api, "web", 3);
    json_t *o = json_loads(
        "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"namespace\":\"shop\",\"name\":\"web\",\"uid\":\"u\"},\"spec\":{\"scaleTargetRef\":{"
        "\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},\"maxReplicas\":10,"
        "\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"gpu_util\"},\"target\":{"
        "\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}],\"behavior\":{\"scaleUp\":{"
        "\"policies\":[{\"type\":\"Pods\",\"value\":3,\"periodSeconds\":60}]}}}}",
        0, NULL);
    hpa_default(o);
    fake_put(&b->api, b->api.hpas, o);
    fake_answer(&b->api, METRIC, 200,
                fake_values("web", (const char *const[]){"30", "30", "30"}, 3));
    b->explain = hpa_explain_api_new(&b->api.loop, b->api.kube, NULL, &cfg);
    b->peer = http_client_new_loopback(&b->api.loop, handle, b, NULL);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    http_client_free(b->peer);
    hpa_explain_api_free(b->explain);
    json_decref(b->body);
    int rc = fake_finish(&b->api);
    free(b);
    return rc;
}

static void on_reply(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct bench *b = arg;
    assert_null(err);
    b->n_replies++;
    b->status = response->status;
    b->refused += response->status == 429;
    json_decref(b->body);
    b->body = NULL;
    assert_null(codec_json_parse(response->body, true, &b->body));
}

static const struct http_callbacks callbacks = {.on_done = on_reply};

static struct http_op *send_get(struct bench *b, const char *path)
{
    return http_send(b->peer, &(struct http_request){.path = path}, &callbacks, b);
}

static bool have_replies(void *arg)
{
    const struct bench *b = arg;
    return b->n_replies >= b->wanted;
}

static void wait_for(struct bench *b, size_t n)
{
    b->wanted = n;
    assert_true(fake_wait(&b->api, have_replies, b));
}

static const json_t *ask(struct bench *b, const char *path)
{
    send_get(b, path);
    wait_for(b, b->n_replies + 1);
    return json_object_get(b->body, "data");
}

static int desired(const json_t *explanation)
{
    return (int)codec_json_int(explanation, -1, "replicas", "desired", NULL);
}

static void test_an_explanation_has_text_limits_and_events(void **state)
{
    struct bench *b = *state;
    json_array_append_new(b->api.events,
                          json_pack("{s:s, s:s, s:s, s:s}", "lastTimestamp", "2026-01-01T00:00:01Z",
                                    "type", "Normal", "reason", "First", "message", "m"));
    json_array_append_new(b->api.events,
                          json_pack("{s:n, s:s, s:s, s:s, s:s, s:i}", "lastTimestamp", "eventTime",
                                    "2026-01-01T00:00:02.5Z", "type", "Normal", "reason", "Second",
                                    "message", "m", "count", 3));
    const json_t *e = ask(b, WEB);
    assert_int_equal(b->status, 200);
    assert_string_equal(codec_json_str(b->body, "status", NULL), "success");
    assert_int_equal(desired(e), 5);
    assert_non_null(strstr(codec_json_str(e, "text", NULL), "gpu_util: average 30 of 3 pods"));
    const json_t *m = json_array_get(json_object_get(e, "metrics"), 0);
    assert_string_equal(codec_json_str(m, "target", "type", NULL), "AverageValue");
    assert_true(json_number_value(codec_json_get(m, "target", "value", NULL)) == 20);
    assert_true(json_number_value(json_object_get(m, "value")) == 30);
    assert_int_equal(codec_json_int(e, 0, "limits", "scaleUp", "most", NULL), 6);
    assert_int_equal(codec_json_int(e, 0, "limits", "scaleDown", "windowSeconds", NULL), 300);
    const json_t *events = json_object_get(e, "events");
    assert_int_equal(json_array_size(events), 2);
    assert_string_equal(codec_json_str(json_array_get(events, 0), "reason", NULL), "Second");
    assert_int_equal(codec_json_int(json_array_get(events, 0), 0, "count", NULL), 3);
    assert_int_equal(fake_count_log(&b->api, "PUT") + fake_count_log(&b->api, "PATCH"), 0);
}

static void test_other_settings_change_only_the_answer(void **state)
{
    struct bench *b = *state;
    assert_int_equal(desired(ask(b, WEB "&target=90")), 1);
    const json_t *e = ask(b, WEB "&target.gpu_util=10&max=20");
    assert_int_equal(desired(e), 6); // limited by the policy
    assert_int_equal(codec_json_int(e, 0, "replicas", "proposal", NULL), 9);
    assert_non_null(strstr(codec_json_str(e, "held", NULL), "policy 3 pods per 60 s"));
    assert_null(json_object_get(e, "cluster"));
    assert_null(strstr(codec_json_str(e, "text", NULL), "The cluster's status"));
    assert_int_equal(desired(ask(b, WEB "&tolerance=0.6")), 3);
    assert_int_equal(desired(ask(b, WEB "&min=7")), 7);
    assert_int_equal(desired(ask(b, WEB)), 5);
    assert_int_equal(fake_count_log(&b->api, "PUT") + fake_count_log(&b->api, "PATCH"), 0);
}

static void test_wrong_parameters_are_refused(void **state)
{
    struct bench *b = *state;
    static const struct {
        const char *query;
        int status;
        const char *part;
    } rows[] = {
        {"", 400, "namespace is missing"},
        {"?namespace=shop", 400, "name is missing"},
        {"?namespace=shop&name=", 400, "name is missing"},
        {"?namespace=../../x&name=web", 400, "namespace: a lowercase RFC 1123 label"},
        {"?namespace=shop&name=%2Fweb", 400, "name: a lowercase RFC 1123 subdomain"},
        {"?namespace=shop&name=%3Cimg%3E", 400, "name: a lowercase RFC 1123 subdomain"},
        {"?namespace=shop&name=web&name=web", 400, "name is given twice"},
        {"?namespace=shop&name=web&targets=1", 400, "unknown parameter \"targets\""},
        {"?namespace=shop&name=web&target=x", 400, "target=x"},
        {"?namespace=shop&name=web&target.a=1", 404, "no metric \"a\""},
        {"?namespace=shop&name=web&min=11", 400, "spec.maxReplicas"},
        {"?namespace=shop&name=web&min=1&min=1&min=1&min=1&min=1&min=1&min=1&min=1&min=1&min=1&"
         "min=1&min=1&min=1&min=1&min=1&min=1&min=1",
         400, "more than 16 settings"},
        {"?namespace=shop&name=other", 404, "no such HPA"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_FREE char *path = gs_format(HPA_EXPLAIN_PATH "%s", rows[i].query);
        ask(b, path);
        const char *text = codec_json_str(b->body, "error", NULL);
        if (b->status != rows[i].status || !text || !strstr(text, rows[i].part))
            fail_msg("%s: %d %s", rows[i].query, b->status, text);
        assert_string_equal(codec_json_str(b->body, "status", NULL), "error");
    }
    http_send(b->peer, &(struct http_request){.path = WEB, .method = "POST"}, &callbacks, b);
    wait_for(b, b->n_replies + 1);
    assert_int_equal(b->status, 405);
}

static bool is_held(void *arg)
{
    const struct bench *b = arg;
    return fake_n_held(&b->api) > 0;
}

static void test_requests_share_an_inspection(void **state)
{
    struct bench *b = *state;
    b->api.hold_prefix = "/apis/autoscaling";
    for (int i = 0; i < 5; i++)
        send_get(b, i % 2 ? WEB : WEB "&target=60");
    assert_true(fake_wait(&b->api, is_held, b));
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    wait_for(b, 5);
    assert_int_equal(b->status, 200);
    assert_int_equal(fake_count_log(&b->api, OBJECT), 1);
}

static void test_too_many_requests_are_refused(void **state)
{
    struct bench *b = *state;
    b->api.hold_prefix = "/apis/autoscaling";
    for (int i = 0; i < MAX_REPLIES; i++)
        send_get(b, WEB);
    wait_for(b, MAX_REPLIES - 32);
    assert_int_equal(b->refused, MAX_REPLIES - 32);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    wait_for(b, MAX_REPLIES);
    assert_int_equal(b->refused, MAX_REPLIES - 32);
    assert_int_equal(b->status, 200);
}

static void test_few_objects_are_inspected_at_a_time(void **state)
{
    struct bench *b = *state;
    b->api.hold_prefix = "/apis/autoscaling";
    for (int i = 0; i < 12; i++) {
        GS_AUTO_FREE char *path = gs_format(HPA_EXPLAIN_PATH "?namespace=shop&name=web-%d", i);
        send_get(b, path);
    }
    wait_for(b, 4);
    assert_int_equal(b->refused, 4);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    wait_for(b, 12);
    assert_int_equal(b->refused, 4);
}

static void test_callers_may_leave(void **state)
{
    struct bench *b = *state;
    struct http_op *ops[8];
    b->api.hold_prefix = "/apis/autoscaling";
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        ops[i] = send_get(b, WEB);
    assert_true(fake_wait(&b->api, is_held, b));
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        http_op_cancel(ops[i]);
    b->api.hold_prefix = NULL;
    fake_release(&b->api);
    ask(b, WEB);
    assert_int_equal(b->status, 200);
    assert_int_equal(b->n_replies, 1);
}

static void test_without_a_cluster(void **state)
{
    struct bench *b = *state;
    const struct hpa_config cfg = hpa_config_default();
    hpa_explain_api_free(b->explain);
    b->explain = hpa_explain_api_new(&b->api.loop, NULL, NULL, &cfg);
    ask(b, WEB);
    assert_int_equal(b->status, 404);
    assert_non_null(strstr(codec_json_str(b->body, "error", NULL), "--kubeconfig"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_explanation_has_text_limits_and_events, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_other_settings_change_only_the_answer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_parameters_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_requests_share_an_inspection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_requests_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_objects_are_inspected_at_a_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_callers_may_leave, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_cluster, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
