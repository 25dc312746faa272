// SPDX-License-Identifier: Apache-2.0
// The page of the adapter and its data.
#include "api_fixture.h"

static const char rules[] =
    "rules:\n"
    "- seriesQuery: gpu\n"
    "  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}\n"
    "  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n"
    "externalRules:\n"
    "- seriesQuery: gpu\n"
    "  name: {as: queue}\n"
    "  resources: {namespaced: false}\n"
    "  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})\n";

static void queries(void *arg, struct http_exchange *x)
{
    (void)arg;
    fixture_json(x, VECTOR(SAMPLE("\"series\":\"0\"", "1700000000") "," SAMPLE(
                        "\"series\":\"99999999999999999999\"",
                        "1") "," SAMPLE("\"series\":\"1\"", "NaN") "," SAMPLE("", "1e300")));
}

static void cluster(void *arg, struct http_exchange *x)
{
    (void)arg;
    if (strstr(http_path(x), "/v1beta1.custom"))
        fixture_json(x, "{\"spec\":{\"service\":{\"namespace\":\"gpu\",\"name\":\"a\"}},"
                        "\"status\":{\"conditions\":[{\"type\":\"Available\",\"status\":"
                        "\"False\",\"message\":\"no endpoints\"}]}}");
    else if (strstr(http_path(x), "/v1beta2.custom"))
        kube_reply_failure(x, 404, "NotFound", "not found");
    else
        kube_reply_failure(x, 403, "Forbidden", "forbidden");
}

static void start(struct api_fixture *f)
{
    f->rules = f->rules ? f->rules : rules;
    f->series = f->series ? f->series : "[{\"__name__\":\"gpu\",\"pod\":\"a\",\"ns\":\"ml\"}]";
    f->queries = queries;
    f->cluster = f->cluster ? f->cluster : cluster;
    uv_loop_init(&f->loop);
    fixture_start(f);
}

static void stop(struct api_fixture *f)
{
    fixture_stop(f);
    fixture_close_loop(f);
}

static const struct http_header browser[] = {{"Accept", "text/html,*/*;q=0.8"}, {NULL, NULL}};

static void test_browsers_get_the_page(void **state)
{
    static const char *const others[] = {"/query", "/events", "/adapter", "/assets/none",
                                         "/assets/page.html/.."};
    struct api_fixture f = {0};
    start(&f);
    assert_int_equal(fixture_get(&f, "/", browser), 200);
    assert_string_equal(f.type.data, "text/html; charset=utf-8");
    fixture_has(&f, "data-page=\"adapter\"");
    assert_int_equal(fixture_get(&f, "/assets/page-adapter.js", NULL), 200);
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        assert_int_equal(fixture_get(&f, others[i], browser), 404);
    assert_int_equal(fixture_get(&f, "/", NULL), 200);
    assert_string_equal(f.type.data, "application/json");
    fixture_has(&f, "\"/openapi/v3\"");
    stop(&f);
}

static void test_state_has_rules_metrics_and_registrations(void **state)
{
    struct api_fixture f = {0};
    start(&f);
    assert_int_equal(fixture_get(&f, ADAPTER_API_STATUS_PATH, NULL), 200);
    fixture_has(&f, "\"rule\":\"rules.yaml:2\"");
    fixture_has(&f, "\"seriesQuery\":\"gpu\"");
    fixture_has(&f, "\"api\":\"custom\",\"name\":\"gpu\",\"resources\":[\"namespaces\",\"pods\"]");
    fixture_has(&f, "\"api\":\"external\",\"name\":\"queue\",\"resources\":[]");
    fixture_has(&f, "\"newest\":1700000000");
    fixture_has(&f, "\"metricCount\":2");
    fixture_has(&f, "\"message\":\"no endpoints\",\"state\":\"unavailable\","
                    "\"name\":\"v1beta1.custom.metrics.k8s.io\"");
    fixture_has(&f, "{\"state\":\"absent\",\"name\":\"v1beta2.custom.metrics.k8s.io\"}");
    fixture_has(&f, "{\"state\":\"forbidden\",\"name\":\"v1beta1.external.metrics.k8s.io\"}");
    fixture_has(&f, "\"url\":\"http://test\"");
    stop(&f);
}

static void test_lookups_are_shared(void **state)
{
    struct api_fixture f = {0};
    start(&f);
    int before = f.n_queries;
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_get(&f, ADAPTER_API_STATUS_PATH, NULL), 200);
    assert_int_equal(f.n_queries - before, 1);
    stop(&f);
}

static void test_error_of_the_source(void **state)
{
    struct api_fixture f = {0};
    start(&f);
    f.down = true;
    assert_int_equal(fixture_get(&f, ADAPTER_API_STATUS_PATH, NULL), 200);
    fixture_has(&f, "\"failures\":1");
    fixture_has(&f, "\"error\":\"");
    assert_null(strstr(f.body.data, "\"newest\""));
    stop(&f);
}

// The state is returned without what is not known in time.
static void test_source_hangs(void **state)
{
    struct api_fixture f = {0};
    start(&f);
    f.hung = true;
    assert_int_equal(fixture_get(&f, ADAPTER_API_STATUS_PATH, NULL), 200);
    assert_null(strstr(f.body.data, "\"newest\""));
    fixture_has(&f, "\"metricCount\":2");
    stop(&f);
}

// The client disconnects, and the API is freed, while the state is looked up.
static void test_client_leaves(void **state)
{
    static const struct http_callbacks callbacks = {.on_done = fixture_done};
    const struct http_request request = {.method = "GET", .path = ADAPTER_API_STATUS_PATH};
    struct api_fixture f = {0};
    start(&f);
    f.hung = true;
    http_op_cancel(http_send(f.client, &request, &callbacks, &f));
    struct http_op *op = http_send(f.client, &request, &callbacks, &f);
    uv_run(&f.loop, UV_RUN_NOWAIT);
    http_op_cancel(op);
    stop(&f);
}

static void test_only_get(void **state)
{
    struct api_fixture f = {0};
    start(&f);
    assert_int_equal(fixture_send(&f, "POST", ADAPTER_API_STATUS_PATH, NULL), 405);
    assert_int_equal(fixture_send(&f, "DELETE", "/", browser), 405);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_browsers_get_the_page),
        cmocka_unit_test(test_state_has_rules_metrics_and_registrations),
        cmocka_unit_test(test_lookups_are_shared),
        cmocka_unit_test(test_error_of_the_source),
        cmocka_unit_test(test_source_hangs),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_only_get),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
