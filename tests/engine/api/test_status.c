// SPDX-License-Identifier: Apache-2.0
// Status, lifecycle, methods, prefix, metrics of the engine, and responses without scraping and
// rules.
#include "harness.h"

static const struct http_header flags[] = {{"config.file", "x.yml"}, {"empty", NULL}, {NULL, NULL}};

static int setup_lifecycle(void **state)
{
    return setup_with(state, &(struct engine_api_config){.lifecycle = true, .flags = flags});
}

static int setup_prefix(void **state)
{
    return setup_with(state, &(struct engine_api_config){.route_prefix = "/metrics/engine/"});
}

static void test_status(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/status/flags");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"config.file\":\"x.yml\",\"empty\":\"\"}}");
    get(h, "/api/v1/features");
    assert_contains(h, 200, "\"promql_functions\":{\"abs\":true,");
    assert_contains(h, 200, "\"info\":false");
    get(h, "/api/v1/status/buildinfo");
    assert_contains(h, 200, "\"revision\":\"gpuscale-" GPUSCALE_VERSION "\"");
    get(h, "/api/v1/status/runtimeinfo");
    assert_contains(h, 200, "\"reloadConfigSuccess\":false");
    engine_api_set_reload(h->api, true, 1000);
    get(h, "/api/v1/status/runtimeinfo");
    assert_contains(h, 200, "\"reloadConfigSuccess\":true");
    assert_contains(h, 200, "\"lastConfigTime\":\"1970-01-01T00:00:01Z\"");
    assert_contains(h, 200, "\"storageRetention\":\"2h\"");
    get(h, "/api/v1/status/config");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":{\"yaml\":\"\"}}");
    get(h, "/api/v1/status/walreplay");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":{\"min\":0,\"max\":0,\"current\":0}}");
}

static void test_status_tsdb(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/status/tsdb");
    assert_contains(h, 200, "\"numSeries\":3,\"numLabelPairs\":6,");
    assert_contains(h, 200,
                    "\"seriesCountByMetricName\":[{\"name\":\"temperature\",\"value\":2},"
                    "{\"name\":\"odd\",\"value\":1}]");
    assert_contains(h, 200, "{\"name\":\"host=a\",\"value\":2}");
    get(h, "/api/v1/status/tsdb?limit=1");
    assert_contains(h, 200,
                    "\"seriesCountByMetricName\":[{\"name\":\"temperature\",\"value\":2}],");
    get(h, "/api/v1/status/tsdb?limit=0");
    assert_failed(h, 400, "bad_data", "limit must be a positive number");
}

static void test_without_parts(void **state)
{
    struct harness *h = *state;
    static const struct {
        const char *path, *data;
    } cases[] = {
        {"targets", "{\"activeTargets\":[],\"droppedTargets\":[],\"droppedTargetCounts\":{}}"},
        {"targets/metadata", "[]"},
        {"metadata", "{}"},
        {"scrape_pools", "{\"scrapePools\":[]}"},
        {"rules", "{\"groups\":[]}"},
        {"alerts", "{\"alerts\":[]}"},
        {"alertmanagers", "{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}"},
        {"query_exemplars?query=up", "[]"},
        {"format_query?query=sum(up)", "\"sum(up)\""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path = gs_format("/api/v1/%s", cases[i].path);
        GS_AUTO_FREE char *want = gs_format("{\"status\":\"success\",\"data\":%s}", cases[i].data);
        get(h, path);
        assert_answer(h, 200, want);
    }
    get(h, "/api/v1/rules?type=other");
    assert_failed(h, 400, "bad_data", "invalid parameter \"type\": not supported value \"other\"");
    get(h, "/api/v1/rules?group_next_token=x");
    assert_failed(h, 400, "bad_data", "group_limit needs to be present");
    get(h, "/api/v1/metadata?limit=x");
    assert_failed(h, 400, "bad_data", "limit must be a number");
}

static void test_parse_query(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/parse_query?query=sum+by(gpu)(rate(x%7Ba!%3D%22b%22%7D%5B5m%5D))");
    assert_contains(h, 200, "\"type\":\"aggregation\",\"op\":\"sum\"");
    assert_contains(h, 200, "\"grouping\":[\"gpu\"],\"without\":false");
    assert_contains(h, 200, "\"type\":\"matrixSelector\",\"name\":\"x\"");
    assert_contains(h, 200, "\"range\":300000");
    assert_contains(h, 200, "{\"name\":\"a\",\"value\":\"b\",\"type\":\"!=\"}");
}

static void test_methods(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/nothing");
    assert_answer(h, 404, "404 page not found\n");
    send_request(h, "DELETE", "/api/v1/query", NULL);
    assert_int_equal(h->status, 405);
    send_request(h, "POST", "/api/v1/targets", "");
    assert_int_equal(h->status, 405);
    send_request(h, "OPTIONS", "/api/v1/query", NULL);
    assert_int_equal(h->status, 204);
    get(h, "/query");
    assert_contains(h, 200, "href=\"api/v1/targets\"");
    post(h, "/api/v1/query", "query=%zz");
    assert_failed(h, 400, "bad_data", "error parsing form values");
}

static void test_lifecycle(void **state)
{
    struct harness *h = *state;
    get(h, "/-/reload");
    assert_answer(h, 405, "Only POST or PUT requests allowed");
    send_request(h, "POST", "/-/reload", "");
    assert_int_equal(h->status, 200);
    assert_int_equal(h->reloads, 1);
    h->reload_error = gs_error_new(GS_EINVAL, "x.yml:1:1: wrong");
    send_request(h, "PUT", "/-/reload", "");
    assert_answer(h, 500, "failed to reload config: x.yml:1:1: wrong\n");
    send_request(h, "POST", "/-/quit", "");
    assert_answer(h, 200, "Requesting termination... Goodbye!");
    assert_int_equal(h->quits, 1);
}

static void test_lifecycle_off(void **state)
{
    struct harness *h = *state;
    send_request(h, "POST", "/-/reload", "");
    assert_answer(h, 403, "Lifecycle API is not enabled.");
    send_request(h, "POST", "/-/quit", "");
    assert_answer(h, 403, "Lifecycle API is not enabled.");
    assert_int_equal(h->reloads + h->quits, 0);
    get(h, "/-/healthy");
    assert_int_equal(h->status, 200);
    get(h, "/-/ready");
    assert_int_equal(h->status, 200);
    engine_api_set_stopping(h->api);
    get(h, "/-/ready");
    assert_int_equal(h->status, 503);
}

static void test_prefix(void **state)
{
    struct harness *h = *state;
    get(h, "/metrics/engine/api/v1/status/walreplay");
    assert_int_equal(h->status, 200);
    get(h, "/metrics/engine/alerts");
    assert_int_equal(h->status, 200);
    get(h, "/");
    assert_answer(h, 302, "/metrics/engine/\n");
    get(h, "/metrics/engine");
    assert_answer(h, 302, "engine/\n");
    get(h, "/api/v1/status/walreplay");
    assert_int_equal(h->status, 404);
    get(h, "/metrics/enginex/metrics");
    assert_int_equal(h->status, 404);
}

static void test_own_metrics(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/query?query=up");
    get(h, "/api/v1/query?query=(");
    get(h, "/metrics");
    assert_contains(h, 200, "prometheus_tsdb_head_series 3\n");
    assert_contains(h, 200,
                    "prometheus_http_requests_total{code=\"200\",handler=\"/api/v1/query\"} 1\n");
    assert_contains(h, 200,
                    "prometheus_http_requests_total{code=\"400\",handler=\"/api/v1/query\"} 1\n");
    assert_contains(h, 200, "process_resident_memory_bytes ");
}

static void test_own_metrics_as_json(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/status/self_metrics?metric_name_pattern=prometheus_tsdb_head_series");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":[{\"name\":\"prometheus_tsdb_head_series\","
                  "\"help\":\"Total number of series in the head block.\",\"type\":\"GAUGE\","
                  "\"metric\":[{\"gauge\":{\"value\":3.0}}]}]}");
    get(h, "/api/v1/status/self_metrics?metric_name_pattern=prometheus_engine_query_dur.*");
    assert_contains(h, 200,
                    "\"type\":\"SUMMARY\",\"metric\":[{\"label\":[{\"name\":\"slice\",\"value\":"
                    "\"inner_eval\"}],\"summary\":{\"sampleSum\":");
    get(h, "/api/v1/status/self_metrics");
    assert_contains(h, 200, "\"name\":\"process_open_fds\"");
    get(h, "/api/v1/status/self_metrics?metric_name_pattern=(");
    assert_failed(h, 400, "bad_data", "invalid metric_name_pattern: ");
}

static void test_cors_pattern(void **state)
{
    struct engine_api_config cfg = {.cors_origin = "("};
    struct engine_api *a = NULL;
    assert_error(engine_api_new(&cfg, &a), GS_EINVAL, "web.cors.origin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_status, setup_lifecycle, teardown),
        cmocka_unit_test_setup_teardown(test_status_tsdb, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parse_query, setup, teardown),
        cmocka_unit_test_setup_teardown(test_methods, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lifecycle, setup_lifecycle, teardown),
        cmocka_unit_test_setup_teardown(test_lifecycle_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prefix, setup_prefix, teardown),
        cmocka_unit_test_setup_teardown(test_own_metrics, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_metrics_as_json, setup, teardown),
        cmocka_unit_test(test_cors_pattern),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
