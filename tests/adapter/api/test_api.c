// SPDX-License-Identifier: Apache-2.0
// Responses of the API: representations, contents, health, OpenAPI.
#include "api_fixture.h"
#include "base/clock.h"

static const char rules[] =
    "rules:\n"
    "- seriesQuery: gpu\n"
    "  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}\n"
    "  metricsQuery: avg_over_time(<<.Series>>{<<.LabelMatchers>>}[2m])\n"
    "externalRules:\n"
    "- seriesQuery: gpu\n"
    "  name: {as: queue}\n"
    "  resources: {namespaced: false}\n"
    "  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})\n"
    "resourceRules:\n"
    "  cpu:\n"
    "    containerQuery: cpu{<<.LabelMatchers>>}\n"
    "    nodeQuery: cpu{<<.LabelMatchers>>}\n"
    "    containerLabel: container\n"
    "    resources: &r {overrides: {node: {resource: node}, ns: {resource: namespace}, pod: "
    "{resource: pod}}}\n"
    "  memory:\n"
    "    containerQuery: memory{<<.LabelMatchers>>}\n"
    "    nodeQuery: memory{<<.LabelMatchers>>}\n"
    "    containerLabel: container\n"
    "    resources: *r\n"
    "  window: 5m\n";

struct fixture {
    struct api_fixture api;
    const char *value;
    size_t n_pods, name_len; // of the fake API server
};

static void queries(void *arg, struct http_exchange *x)
{
    struct fixture *f = GS_CONTAINER_OF((struct api_fixture *)arg, struct fixture, api);
    const char *query = f->api.last_query.data;
    bool usage = gs_starts(query, "cpu") || gs_starts(query, "memory");
    GS_AUTO_FREE char *text = gs_format(
        VECTOR("{\"metric\":{\"pod\":\"p0\",\"ns\":\"ml\",\"container\":\"a\"},\"value\":["
               "1700000000,\"%s\"]},{\"metric\":{\"pod\":\"p0\",\"ns\":\"ml\",\"container\":\"b\"},"
               "\"value\":[1700000000,\"%s\"]}"),
        usage && gs_starts(query, "cpu") ? "0.25"
        : usage                          ? "1048576"
                                         : f->value,
        usage && gs_starts(query, "cpu") ? "0.5"
        : usage                          ? "1048576"
                                         : f->value);
    fixture_json(x, text);
}

static void cluster(void *arg, struct http_exchange *x)
{
    struct fixture *f = GS_CONTAINER_OF((struct api_fixture *)arg, struct fixture, api);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "{\"kind\":\"PodList\",\"items\":[");
    for (size_t i = 0; i < f->n_pods; i++)
        gs_buf_addf(&text, "%s{\"metadata\":{\"name\":\"p%0*zu\",\"namespace\":\"ml\"}}",
                    i ? "," : "", (int)f->name_len, i);
    gs_buf_add_str(&text, "]}");
    http_reply(x, 200, "application/json", gs_buf_slice(&text));
}

static void start(struct fixture *f)
{
    f->value = f->value ? f->value : "42";
    f->n_pods = f->n_pods ? f->n_pods : 1;
    f->api.rules = f->api.rules ? f->api.rules : rules;
    f->api.series = "[{\"__name__\":\"gpu\",\"pod\":\"a\",\"ns\":\"ml\"}]";
    f->api.queries = queries;
    f->api.cluster = cluster;
    uv_loop_init(&f->api.loop);
    fixture_start(&f->api);
}

static void stop(struct fixture *f)
{
    fixture_stop(&f->api);
    fixture_close_loop(&f->api);
}

#define V1       "/apis/custom.metrics.k8s.io/v1beta1"
#define V2       "/apis/custom.metrics.k8s.io/v1beta2"
#define EXTERNAL "/apis/external.metrics.k8s.io/v1beta1"
#define USAGE    "/apis/metrics.k8s.io/v1beta1"
#define ONE      "/namespaces/ml/pods/p0/gpu"

static void test_values(void **state)
{
    struct fixture f = {0};
    start(&f);
    assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 200);
    fixture_has(&f.api,
                "\"metricName\":\"gpu\",\"timestamp\":\"2023-11-14T22:13:20Z\",\"window\":120,"
                "\"value\":\"42\",\"selector\":null}");
    assert_int_equal(fixture_get(&f.api, V2 ONE, NULL), 200);
    fixture_has(&f.api, "\"metric\":{\"name\":\"gpu\",\"selector\":null},\"timestamp\":"
                        "\"2023-11-14T22:13:20Z\",\"windowSeconds\":120,\"value\":\"42\"}");
    assert_int_equal(fixture_get(&f.api, EXTERNAL "/namespaces/ml/queue", NULL), 200);
    fixture_has(&f.api, "\"timestamp\":\"2023-11-14T22:13:20Z\",\"value\":\"42\"}"); // no range
    stop(&f);
}

// Values that a quantity cannot represent are never served.
static void test_no_numbers(void **state)
{
    static const char *const values[] = {"NaN", "+Inf", "-Inf", "1e300", "-1e16"};
    for (size_t i = 0; i < GS_ARRAY_LEN(values); i++) {
        struct fixture f = {.value = values[i]};
        start(&f);
        assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 404);
        fixture_has(&f.api, "its value is NaN or infinite");
        assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/*/gpu", NULL), 200);
        fixture_has(&f.api, "\"items\":[]");
        assert_int_equal(fixture_get(&f.api, EXTERNAL "/namespaces/ml/queue", NULL), 200);
        fixture_has(&f.api, "\"items\":[]");
        stop(&f);
    }
}

static int get_as(struct fixture *f, const char *path, const char *accept)
{
    const struct http_header headers[] = {{"Accept", accept}, {0}};
    return fixture_get(&f->api, path, headers);
}

static void test_accept(void **state)
{
    // Accept headers of the autoscaler, kubectl, the aggregator and others.
    static const char *const good[] = {"application/vnd.kubernetes.protobuf, */*",
                                       "application/vnd.kubernetes.protobuf,application/json",
                                       "application/json;g=apidiscovery.k8s.io;v=v2;as="
                                       "APIGroupDiscoveryList,application/json",
                                       "application/*",
                                       "APPLICATION/JSON; charset=utf-8",
                                       ""};
    static const char *const bad[] = {"application/vnd.kubernetes.protobuf", "application/yaml",
                                      "text/html, application/xml;q=0.9"};
    struct fixture f = {0};
    start(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        assert_int_equal(get_as(&f, V1 ONE, good[i]), 200);
        assert_string_equal(f.api.type.data, "application/json");
        assert_int_equal(get_as(&f, V1, good[i]), 200);
        fixture_has(&f.api, "\"APIResourceList\"");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        assert_int_equal(get_as(&f, V1 ONE, bad[i]), 406);
        fixture_has(&f.api, "\"reason\":\"NotAcceptable\"");
    }
    stop(&f);
}

#define TABLE                                                                                      \
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g="          \
    "meta.k8s.io,application/json"

static void test_table(void **state)
{
    struct fixture f = {0};
    start(&f);
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods", TABLE), 200);
    fixture_has(&f.api, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{},"
                        "\"columnDefinitions\":[{\"name\":\"Name\",\"type\":\"string\",\"format\":"
                        "\"name\"");
    fixture_has(&f.api, "\"rows\":[{\"cells\":[\"p0\",\"750m\",\"2Mi\",\"5m0s\"],\"object\":{"
                        "\"kind\":\"PartialObjectMetadata\"");
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods/p0?includeObject=None", TABLE), 200);
    fixture_has(&f.api, "\"rows\":[{\"cells\":[\"p0\",\"750m\",\"2Mi\",\"5m0s\"]}]");
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods?includeObject=Object", TABLE), 200);
    fixture_has(&f.api, "\"containers\":[");
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods",
                            "application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
                     200);
    fixture_has(&f.api, "\"apiVersion\":\"meta.k8s.io/v1beta1\"");
    // Clients that prefer JSON, and unknown media types.
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods", "application/json," TABLE), 200);
    fixture_has(&f.api, "PodMetricsList");
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods",
                            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
                     200);
    fixture_has(&f.api, "PodMetricsList");
    stop(&f);
}

// --- methods and parameters: codes and texts are those of prometheus-adapter ---

static void test_parameters(void **state)
{
    static const struct {
        int status;
        const char *path, *text;
    } cases[] = {
        {405, USAGE "/pods?watch=true",
         "\"message\":\"watch is not supported on resources of kind \\\"pods.metrics.k8s.io\\\"\","
         "\"reason\":\"MethodNotAllowed\",\"details\":{\"group\":\"metrics.k8s.io\",\"kind\":"
         "\"pods\"}"},
        {200, USAGE "/namespaces/ml/pods/p0?watch=true", "\"kind\":\"PodMetrics\""},
        {200, USAGE "/namespaces/ml/pods?watch=false", "PodMetricsList"},
        {405, EXTERNAL "/namespaces/ml/queue?watch=1", "kind \\\"*.external.metrics.k8s.io\\\""},
        {200, V1 ONE "?watch=true", "\"value\":\"42\""},
        {400, USAGE "/pods?labelSelector=a%3D%3D%3D", "found '=', expected: identifier"},
        {400, USAGE "/pods?fieldSelector=bad", "invalid selector: 'bad'; can't understand 'bad'"},
        {400, USAGE "/pods?fieldSelector=spec.nodeName%3Dx",
         "\\\"spec.nodeName\\\" is not a known field selector: only \\\"metadata.name\\\", "},
        {400, USAGE "/pods?limit=abc", "strconv.ParseInt: parsing \\\"abc\\\": invalid syntax"},
        {400, USAGE "/pods?timeoutSeconds=abc", "\"reason\":\"BadRequest\""},
        {200, USAGE "/namespaces/ml/pods/p0?limit=abc", "\"kind\":\"PodMetrics\""},
        {422, USAGE "/pods?resourceVersionMatch=Foo",
         "ListOptions.meta.k8s.io \\\"\\\" is invalid: [resourceVersionMatch: Forbidden: "
         "resourceVersionMatch is forbidden unless resourceVersion is provided, "
         "resourceVersionMatch: Unsupported value: \\\"Foo\\\": supported values: \\\"Exact\\\", "
         "\\\"NotOlderThan\\\", \\\"\\\"]"},
        {422, USAGE "/pods?sendInitialEvents=true", "sendInitialEvents is forbidden for list"},
        {200, V1 ONE "?resourceVersionMatch=Foo", "\"value\":\"42\""},
        {400, V1 ONE "?limit=abc", "strconv.ParseInt"},
        {400, V1 ONE "?fieldSelector=bad", "can't understand 'bad'"},
        {400, V1 "?timeout=abc", "time: invalid duration \\\"abc\\\""},
        {504, V1 ONE "?timeout=1us",
         "Timeout: request did not complete within the allotted timeout"},
        {200, V1 ONE "?timeout=-1s", "\"value\":\"42\""},
        {200, V1 ONE "?timeout=1m", "\"value\":\"42\""},
    };
    struct fixture f = {0};
    start(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        if (fixture_get(&f.api, cases[i].path, NULL) != cases[i].status)
            fail_msg("%s: %d %s", cases[i].path, f.api.status, f.api.body.data);
        fixture_has(&f.api, cases[i].text);
    }
    f.api.hung = true;
    assert_int_equal(fixture_get(&f.api, V1 ONE "?timeout=20ms", NULL), 504);
    assert_int_equal(fixture_get(&f.api, USAGE "/pods?timeout=20ms", NULL), 504);
    stop(&f);
}

static void test_methods(void **state)
{
    static const char *const paths[] = {"/apis", V1, V1 ONE, USAGE "/pods", "/version"};
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
    struct fixture f = {0};
    start(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        for (size_t k = 0; k < GS_ARRAY_LEN(methods); k++) {
            assert_int_equal(fixture_send(&f.api, methods[k], paths[i], NULL), 405);
            fixture_has(&f.api, "\"reason\":\"MethodNotAllowed\",\"details\":{},\"code\":405");
        }
    assert_int_equal(fixture_send(&f.api, "POST", "/healthz", NULL), 200);
    stop(&f);
}

static void test_forms(void **state)
{
#define AS(form) "application/json;as=" form ";v=v1;g=meta.k8s.io"
    struct fixture f = {0};
    start(&f);
    assert_int_equal(get_as(&f, USAGE "/pods", AS("Foo")), 406);
    fixture_has(&f.api, "\"reason\":\"NotAcceptable\"");
    assert_int_equal(get_as(&f, USAGE "/pods", AS("Foo") ",application/json"), 200);
    fixture_has(&f.api, "PodMetricsList");
    assert_int_equal(get_as(&f, V1 ONE, AS("Table")), 406);
    assert_int_equal(get_as(&f, EXTERNAL "/namespaces/ml/queue", AS("Foo")), 406);
    assert_int_equal(get_as(&f, USAGE "/pods", AS("PartialObjectMetadata")), 406);
    fixture_has(&f.api, "but the requested object is a list");
    assert_int_equal(get_as(&f, USAGE "/pods", AS("PartialObjectMetadataList")), 200);
    fixture_has(&f.api, "\"items\":[{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":"
                        "\"meta.k8s.io/v1\",\"metadata\":{\"name\":\"p0\"");
    assert_int_equal(get_as(&f, USAGE "/namespaces/ml/pods/p0", AS("PartialObjectMetadata")), 200);
    fixture_has(&f.api, "{\"kind\":\"PartialObjectMetadata\"");
    assert_int_equal(get_as(&f, USAGE "/pods?includeObject=Foo", AS("Table")), 400);
    fixture_has(&f.api, "must be 'Metadata', 'Object', 'None', or empty");
    stop(&f);
}

// --- OpenAPI ---

// Asserts that each reference has a schema. Returns the number of references.
static size_t check_references(const json_t *doc, const json_t *v)
{
    size_t n = 0, i;
    const char *key;
    json_t *child;
    json_object_foreach ((json_t *)(uintptr_t)v, key, child) {
        const char *to = gs_streq(key, "$ref") ? json_string_value(child) : NULL;
        n += check_references(doc, child);
        if (!to)
            continue;
        const json_t *schemas = gs_starts(to, "#/definitions/")
                                    ? json_object_get(doc, "definitions")
                                    : codec_json_get(doc, "components", "schemas", NULL);
        if (!json_object_get(schemas, strrchr(to, '/') + 1))
            fail_msg("%s leads nowhere", to);
        n++;
    }
    json_array_foreach ((json_t *)(uintptr_t)v, i, child)
        n += check_references(doc, child);
    return n;
}

static json_t *document(struct fixture *f, const char *path)
{
    json_t *doc = NULL;
    assert_int_equal(fixture_get(&f->api, path, NULL), 200);
    assert_ok(codec_json_parse(gs_buf_slice(&f->api.body), true, &doc));
    return doc;
}

static void test_openapi(void **state)
{
    struct fixture f = {0};
    start(&f);
    CODEC_AUTO_JSON json_t *index = document(&f, "/openapi/v3");
    const json_t *paths = json_object_get(index, "paths");
    const char *key;
    json_t *entry;
    assert_int_equal(json_object_size(paths), 4);
    json_object_foreach ((json_t *)(uintptr_t)paths, key, entry) {
        const char *url = codec_json_str(entry, "serverRelativeURL", NULL);
        CODEC_AUTO_JSON json_t *doc = document(&f, url);
        assert_true(check_references(doc, doc) > 1);
        // The hash matches the document, so clients do not fetch it again.
        GS_AUTO_FREE char *tag = gs_format("\"%s\"", strstr(url, "hash=") + 5);
        const struct http_header known[] = {{"If-None-Match", tag}, {0}};
        assert_int_equal(fixture_get(&f.api, url, known), 304);
    }
    CODEC_AUTO_JSON json_t *v2 = document(&f, "/openapi/v2");
    assert_string_equal(codec_json_str(v2, "swagger", NULL), "2.0");
    assert_true(check_references(v2, v2) > 10);
    const json_t *pods = codec_json_get(
        v2, "paths", "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods", "get", NULL);
    assert_string_equal(codec_json_str(pods, "x-kubernetes-group-version-kind", "kind", NULL),
                        "PodMetricsList");
    assert_int_equal(fixture_get(&f.api, "/openapi/v3/apis/apps/v1", NULL), 404);
    stop(&f);
}

// --- groups ---

// An APIService whose group is not served breaks discovery, and with it the deletion of namespaces.
static void test_empty_lists(void **state)
{
    struct fixture f = {.api.rules = "rules: []\nexternalRules: []\n"};
    start(&f);
    assert_int_equal(fixture_get(&f.api, V1, NULL), 200);
    fixture_has(&f.api, "\"resources\":[]");
    assert_int_equal(fixture_get(&f.api, EXTERNAL, NULL), 200);
    fixture_has(&f.api, "\"resources\":[]");
    assert_int_equal(fixture_get(&f.api, USAGE, NULL), 404);
    assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 404);
    fixture_has(&f.api, "no rule serves it");
    stop(&f);
}

// --- health ---

static const char *not_ready(void *arg)
{
    return *(const char **)arg;
}

static void test_health(void **state)
{
    const char *wrong = NULL;
    struct fixture f = {.api.options = {.not_ready = not_ready, .arg = &wrong}};
    start(&f);
    assert_int_equal(fixture_get(&f.api, "/livez?verbose", NULL), 200);
    assert_string_equal(f.api.body.data, "[+]ping ok\nlivez check passed\n");
    assert_int_equal(fixture_get(&f.api, "/readyz", NULL), 200);
    assert_string_equal(f.api.body.data, "ok");
    wrong = "not yet";
    assert_int_equal(fixture_get(&f.api, "/readyz", NULL), 500);
    fixture_has(&f.api, "[-]start failed: not yet\n");
    fixture_has(&f.api, "readyz check failed\n");
    assert_int_equal(fixture_get(&f.api, "/readyz?exclude=start", NULL), 200);
    assert_int_equal(fixture_get(&f.api, "/readyz?verbose&exclude=start", NULL), 200);
    fixture_has(&f.api, "[+]start excluded: ok\n");
    assert_int_equal(fixture_get(&f.api, "/readyz/start", NULL), 500);
    assert_int_equal(fixture_get(&f.api, "/readyz/source", NULL), 200);
    assert_int_equal(fixture_get(&f.api, "/readyz/nothing", NULL), 404);
    wrong = NULL;
    adapter_api_stopping(f.api.api);
    assert_int_equal(fixture_get(&f.api, "/readyz", NULL), 500);
    assert_int_equal(fixture_get(&f.api, "/livez", NULL), 200);
    assert_int_equal(fixture_get(&f.api, "/version", NULL), 200);
    fixture_has(&f.api, "{\"major\":\"1\",\"minor\":\"0\"");
    stop(&f);
}

// --- the source ---

static void wait_for_source(struct fixture *f, int status)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (fixture_get(&f->api, "/readyz/source", NULL) != status && gs_mono_ns() < end)
        uv_run(&f->api.loop, UV_RUN_ONCE);
    assert_int_equal(fixture_get(&f->api, "/readyz/source", NULL), status);
}

// Only resourceRules, without GPU metrics: nothing queries the source before the first request.
static void test_ready_without_queries(void **state)
{
    struct fixture f = {.api = {.rules = strstr(rules, "resourceRules"),
                                .probe = {.period_ms = 10, .timeout_ms = 50}}};
    start(&f);
    wait_for_source(&f, 200);
    stop(&f);
}

// A source that accepts requests and does not respond counts as down.
static void test_source_hangs(void **state)
{
    struct fixture f = {.api.probe = {.period_ms = 10, .timeout_ms = 50, .silence_ms = 200}};
    start(&f);
    wait_for_source(&f, 200);
    f.api.hung = true;
    wait_for_source(&f, 500);
    fixture_has(&f.api, "[-]source failed: no good answer for ");
    fixture_has(&f.api, "no response within 50 ms");
    f.api.hung = false;
    wait_for_source(&f, 200);
    f.api.down = true;
    wait_for_source(&f, 500);
    fixture_has(&f.api, "502");
    stop(&f);
}

// Values are at most one scrape interval old, even if they are requested all the time.
static void test_ages(void **state)
{
    struct fixture f = {.api.value_age_ms = 300};
    start(&f);
    int64_t begin = gs_mono_ns(), end = begin + WAIT_NS, now;
    assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 200);
    fixture_has(&f.api, "\"value\":\"42\"");
    f.value = "43";
    do {
        assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 200);
        now = gs_mono_ns();
        if (now - begin < 300 * GS_NS_PER_MS)
            assert_int_equal(f.api.n_queries, 1);
    } while (f.api.n_queries == 1 && now < end);
    fixture_has(&f.api, "\"value\":\"43\"");
    assert_int_equal(f.api.n_queries, 2);
    stop(&f);
}

static void test_many_pods(void **state)
{
    struct fixture f = {.n_pods = 5, .name_len = 3};
    start(&f);
    assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/*/gpu", NULL), 200);
    assert_false(f.api.posted);
    f.n_pods = 5000;
    assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/*/gpu?labelSelector=a", NULL),
                     200);
    assert_true(f.api.posted);
    assert_non_null(strstr(f.api.last_query.data, "|p4999|"));
    f.n_pods = 20000;
    f.name_len = 30;
    assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/*/gpu?labelSelector=c", NULL),
                     200);
    assert_true(f.api.last_query.len > 600000);
    // Longer than the limit of any server.
    f.n_pods = 45000;
    f.name_len = 200;
    int before = f.api.n_queries;
    assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/*/gpu?labelSelector=b", NULL),
                     404);
    fixture_has(&f.api, "the matchers are longer than 8388608 bytes");
    assert_int_equal(f.api.n_queries, before);
    stop(&f);
}

static void test_source_down(void **state)
{
    struct fixture f = {0};
    start(&f);
    f.api.down = true;
    assert_int_equal(fixture_get(&f.api, V1 ONE, NULL), 500);
    fixture_has(&f.api, "unable to fetch metrics: the source is unavailable: http://test: HTTP "
                        "status 502");
    assert_int_equal(fixture_get(&f.api, V1 "/namespaces/ml/pods/p0/none", NULL), 404);
    fixture_has(&f.api, "no rule serves it");
    assert_int_equal(fixture_get(&f.api, V1, NULL), 200); // the metrics stay
    fixture_has(&f.api, "pods/gpu");
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),       cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_accept),       cmocka_unit_test(test_table),
        cmocka_unit_test(test_openapi),      cmocka_unit_test(test_health),
        cmocka_unit_test(test_parameters),   cmocka_unit_test(test_methods),
        cmocka_unit_test(test_forms),        cmocka_unit_test(test_empty_lists),
        cmocka_unit_test(test_ages),         cmocka_unit_test(test_many_pods),
        cmocka_unit_test(test_source_down),  cmocka_unit_test(test_ready_without_queries),
        cmocka_unit_test(test_source_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
