// SPDX-License-Identifier: Apache-2.0
// The stream of changed metrics, through the adapter's API.
#include "api/api_fixture.h"

#define PATH    "/apis/custom.metrics.k8s.io/v1beta1/"
#define CHANGES PATH "changes?watch=true"
#define LOAD    PATH "namespaces/shop/pods/%2A/load?labelSelector=app%3Dweb"

static const char rules[] =
    "rules:\n"
    "- seriesQuery: load\n"
    "  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}\n"
    "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n"
    "externalRules:\n"
    "- seriesQuery: queue\n"
    "  resources: {overrides: {ns: {resource: namespace}}}\n"
    "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})\n";

struct fixture {
    struct api_fixture api;
    const char *value; // of both pods, or of the queue
    struct gs_buf events;
    struct http_op *stream;
    int lines, want;
};

static void answer(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    GS_AUTO_FREE char *text =
        strstr(http_query(x, "query"), "queue")
            ? gs_format(VECTOR("{\"metric\":{},\"value\":[1700000000,\"%s\"]}"), f->value)
            : gs_format(VECTOR("{\"metric\":{\"pod\":\"a\"},\"value\":[1700000000,\"%s\"]},"
                               "{\"metric\":{\"pod\":\"b\"},\"value\":[1700000000,\"%s\"]}"),
                        f->value, f->value);
    fixture_json(x, text);
}

static void cluster(void *arg, struct http_exchange *x)
{
    (void)arg;
    fixture_json(x, "{\"kind\":\"PodList\",\"items\":[{\"metadata\":{\"name\":\"a\"}},"
                    "{\"metadata\":{\"name\":\"b\"}}]}");
}

static void start(struct fixture *f, bool follows)
{
    uv_loop_init(&f->api.loop);
    f->value = "10";
    f->api.rules = rules;
    f->api.series = "[{\"__name__\":\"load\",\"ns\":\"shop\",\"pod\":\"a\"},"
                    "{\"__name__\":\"queue\",\"ns\":\"shop\"}]";
    f->api.queries = answer;
    f->api.cluster = cluster;
    f->api.options.follows = follows;
    fixture_start(&f->api);
}

static void stop(struct fixture *f)
{
    http_op_cancel(f->stream);
    fixture_stop(&f->api);
    gs_buf_finish(&f->events);
    fixture_close_loop(&f->api);
}

static void on_event(void *arg, struct gs_slice bytes)
{
    struct fixture *f = arg;
    gs_buf_add_slice(&f->events, bytes);
    for (size_t i = 0; i < bytes.len; i++)
        f->lines += bytes.data[i] == '\n';
}

static void on_end(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    (void)response;
    gs_error_free(err);
    f->stream = NULL;
}

static void wait_lines(struct fixture *f, int n)
{
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (f->lines < n && gs_mono_ns() < deadline)
        uv_run(&f->api.loop, UV_RUN_ONCE);
    if (f->lines < n)
        fail_msg("events: want %d, got: %s", n, f->events.data ? f->events.data : "");
}

static void follow_path(struct fixture *f, const char *path)
{
    static const struct http_callbacks callbacks = {.on_data = on_event, .on_done = on_end};
    const struct http_request request = {.path = path, .timeout_ms = HTTP_NO_TIMEOUT};
    f->stream = http_send(f->api.client, &request, &callbacks, f);
    wait_lines(f, 1);
    assert_non_null(strstr(f->events.data, "\"type\":\"BOOKMARK\""));
}

static void follow(struct fixture *f)
{
    follow_path(f, CHANGES);
}

static void scrape(struct fixture *f, const char *value)
{
    f->value = value;
    adapter_api_new_samples(f->api.api);
}

static void wait_queries(struct fixture *f, int n)
{
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (f->api.n_queries < n && gs_mono_ns() < deadline)
        uv_run(&f->api.loop, UV_RUN_ONCE);
    assert_true(f->api.n_queries >= n);
}

static void test_a_change_is_reported(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow(&f);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    scrape(&f, "90");
    wait_lines(&f, 2);
    const char *event = strchr(f.events.data, '\n') + 1;
    assert_string_equal(event,
                        "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"MetricChange\","
                        "\"apiVersion\":\"custom.metrics.k8s.io/v1beta1\",\"metadata\":{"
                        "\"namespace\":\"shop\"},\"resource\":\"pods\",\"name\":\"*\","
                        "\"metric\":\"load\",\"selector\":\"app=web\",\"sum\":180,\"items\":2}}\n");
    stop(&f);
}

static void test_a_change_of_an_external_metric_is_reported(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow(&f);
    assert_int_equal(
        fixture_get(&f.api, "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue", NULL),
        200);
    scrape(&f, "0");
    wait_lines(&f, 2);
    assert_null(strstr(f.events.data, "\"resource\""));
    assert_non_null(strstr(f.events.data, "\"metric\":\"queue\",\"selector\":\"\",\"sum\":0,"));
    stop(&f);
}

// NaN is no value, so the first number is a change.
static void test_the_first_value_after_nan_is_reported(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow(&f);
    f.value = "NaN";
    assert_int_equal(
        fixture_get(&f.api, "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue", NULL),
        200);
    scrape(&f, "90");
    wait_lines(&f, 2);
    assert_non_null(strstr(f.events.data, "\"sum\":90,\"items\":1"));
    stop(&f);
}

// A change is compared with the last one that was reported, so that a slow one is reported, too.
static void test_small_changes_are_not_reported(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow(&f);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    int before = f.api.n_queries;
    scrape(&f, "10.6");
    wait_queries(&f, before + 1);
    scrape(&f, "11.2");
    wait_lines(&f, 2);
    assert_null(strstr(f.events.data, "\"sum\":21.2"));
    assert_non_null(strstr(f.events.data, "\"sum\":22.4"));
    assert_int_equal(f.lines, 2);
    stop(&f);
}

// Other clients may read the value at any time: the change is still reported to those that follow.
static void test_a_value_that_others_have_read_is_reported(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow(&f);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    f.value = "90";
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    scrape(&f, "90");
    wait_lines(&f, 2);
    stop(&f);
}

static void test_a_stream_of_one_namespace(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    follow_path(&f, PATH "namespaces/shop/changes?watch=true");
    assert_int_equal(fixture_get(&f.api, PATH "namespaces/other/pods/%2A/load", NULL), 200);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    scrape(&f, "90");
    wait_lines(&f, 2);
    scrape(&f, "10"); // after both results of the first round
    wait_lines(&f, 3);
    assert_non_null(strstr(f.events.data, "\"namespace\":\"shop\""));
    assert_null(strstr(f.events.data, "\"namespace\":\"other\""));
    stop(&f);
}

// Otherwise the client that follows would read the old value.
static void test_cached_values_are_dropped_before_the_event(void **state)
{
    struct fixture f = {.api = {.value_age_ms = 3600000}};
    (void)state;
    start(&f, true);
    follow(&f);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    fixture_has(&f.api, "\"value\":\"10\"");
    scrape(&f, "90");
    wait_lines(&f, 2);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    fixture_has(&f.api, "\"value\":\"90\"");
    stop(&f);
}

static void test_without_a_stream_nothing_is_evaluated(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    int before = f.api.n_queries;
    scrape(&f, "90");
    follow(&f);
    scrape(&f, "90"); // the request was answered before the stream
    assert_int_equal(fixture_get(&f.api, LOAD, NULL), 200);
    assert_int_equal(f.api.n_queries, before + 1);
    stop(&f);
}

static void test_other_requests_of_the_path(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, true);
    assert_int_equal(fixture_get(&f.api, PATH "changes", NULL), 400);
    assert_int_equal(fixture_send(&f.api, "POST", CHANGES, NULL), 405);
    stop(&f);
}

static void test_a_source_that_is_not_in_this_process_has_no_stream(void **state)
{
    struct fixture f = {0};
    (void)state;
    start(&f, false);
    assert_int_equal(fixture_get(&f.api, CHANGES, NULL), 404);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_change_is_reported),
        cmocka_unit_test(test_a_change_of_an_external_metric_is_reported),
        cmocka_unit_test(test_the_first_value_after_nan_is_reported),
        cmocka_unit_test(test_small_changes_are_not_reported),
        cmocka_unit_test(test_a_value_that_others_have_read_is_reported),
        cmocka_unit_test(test_a_stream_of_one_namespace),
        cmocka_unit_test(test_cached_values_are_dropped_before_the_event),
        cmocka_unit_test(test_without_a_stream_nothing_is_evaluated),
        cmocka_unit_test(test_other_requests_of_the_path),
        cmocka_unit_test(test_a_source_that_is_not_in_this_process_has_no_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
