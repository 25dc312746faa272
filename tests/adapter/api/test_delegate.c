// SPDX-License-Identifier: Apache-2.0
// A delegate of the API groups, over TLS.
#include "api_fixture.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

static const char rules[] =
    "rules:\n"
    "- seriesQuery: mine\n"
    "  resources: {overrides: {ns: {resource: namespace}, pod: {resource: pod}}}\n"
    "  metricsQuery: <<.Series>>{<<.LabelMatchers>>}\n";

struct fixture {
    struct api_fixture api;
    struct tls_pair ca;
    struct http_server *owner;
    struct adapter_api_delegate *previous;
    bool silent;
    int requests;
    struct gs_buf headers; // of the last request, and its target
};

static void owner(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    const char *path = http_path(x), *name, *value;
    f->requests++;
    bool list = gs_ends(path, "/v1beta1"); // sent by the timer at any time
    if (!list)
        gs_buf_clear(&f->headers);
    for (size_t i = 0; !list && (value = http_header_nth(x, i, &name)); i++)
        gs_buf_addf(&f->headers, "%s=%s\n", name, value);
    if (!list)
        gs_buf_addf(&f->headers, "selector=%s\n", http_query(x, "labelSelector"));
    if (f->silent)
        http_reply_text(x, 401, "who?");
    else if (list)
        fixture_json(x, "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"pods/mine\","
                        "\"from\":\"owner\"},{\"name\":\"pods/theirs\",\"namespaced\":true}]}");
    else if (gs_ends(path, "/theirs"))
        fixture_json(x, "{\"kind\":\"MetricValueList\",\"items\":[\"theirs\"]}");
    else if (gs_ends(path, "/binary"))
        http_reply(x, 200, "application/vnd.kubernetes.protobuf", GS_SLICE("k8s\0x"));
    else
        kube_reply_failure(x, 404, "NotFound", "never heard of it");
}

static void no_query(void *arg, struct http_exchange *x)
{
    fixture_json(x, VECTOR(SAMPLE("\"pod\":\"a\"", "1")));
}

static void cluster(void *arg, struct http_exchange *x)
{
    fixture_json(x, "{\"kind\":\"PodList\",\"items\":[]}");
}

static void start(struct fixture *f, bool front_proxy)
{
    static const char *const addresses[] = {"127.0.0.1"};
    GS_CLEANUP(tls_pair_finish) struct tls_pair leaf = {0};
    const struct tls_leaf want = {
        .common_name = "s", .ip_addresses = addresses, .n_ip_addresses = 1, .server = 1, .days = 1};
    f->api.rules = rules;
    f->api.series = "[{\"__name__\":\"mine\",\"pod\":\"a\",\"ns\":\"ml\"}]";
    f->api.queries = no_query;
    f->api.cluster = cluster;
    uv_loop_init(&f->api.loop);
    assert_ok(tls_make_ca("ca", 1, &f->ca));
    assert_ok(tls_make_leaf(&f->ca, &want, &leaf));
    const struct http_server_config cfg = {
        .address = "127.0.0.1", .cert_pem = leaf.cert_pem, .key_pem = leaf.key_pem};
    assert_ok(http_server_start(&f->api.loop, &cfg, owner, f, &f->owner));
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%u", http_server_port(f->owner));
    const struct adapter_api_delegate_options o = {
        .url = url,
        .endpoint = {.ca.text = f->ca.cert_pem, .credentials.text = "ours"},
        .front_proxy = front_proxy,
        .relist_ms = 50};
    assert_ok(adapter_api_delegate_new(&f->api.loop, &o, &f->previous));
    adapter_api_delegate_follow(f->previous, ADAPTER_API_CUSTOM "/v1beta1");
    f->api.options.delegate_custom = f->previous;
    f->api.options.delegate_external = f->previous;
    f->api.options.delegate_resource = f->previous;
    fixture_start(&f->api);
    while (!adapter_api_delegate_resources(f->previous, ADAPTER_API_CUSTOM "/v1beta1"))
        uv_run(&f->api.loop, UV_RUN_ONCE);
}

static void stop(struct fixture *f)
{
    fixture_stop(&f->api);
    adapter_api_delegate_free(f->previous);
    http_server_stop(f->owner);
    fixture_close_loop(&f->api);
    tls_pair_finish(&f->ca);
    gs_buf_finish(&f->headers);
}

#define CUSTOM   "/apis/custom.metrics.k8s.io/v1beta1"
#define EXTERNAL "/apis/external.metrics.k8s.io/v1beta1"

static void test_passed_on(void **state)
{
    struct fixture f = {0};
    start(&f, false);
    // Metrics of rules are not forwarded.
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/mine", NULL), 200);
    fixture_has(&f.api, "\"metricName\":\"mine\"");
    // Others are forwarded with the adapter's credentials.
    const struct http_header headers[] = {
        {"Authorization", "Bearer caller"}, {"Accept", "application/json;as=Table"}, {0}};
    assert_int_equal(
        fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/%2A/theirs?labelSelector=a+in+%28b%2Cc%29",
                    headers),
        200);
    fixture_has(&f.api, "\"items\":[\"theirs\"]");
    assert_non_null(strstr(f.headers.data, "Authorization=Bearer ours\n"));
    assert_null(strstr(f.headers.data, "caller"));
    assert_null(strstr(f.headers.data, "X-Remote"));
    assert_non_null(strstr(f.headers.data, "Accept=application/json;as=Table\n"));
    assert_non_null(strstr(f.headers.data, "selector=a in (b,c)\n"));
    assert_int_equal(fixture_get(&f.api, EXTERNAL "/namespaces/ml/theirs", NULL), 200);
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/unicorns/a/theirs", NULL), 200);
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/binary", NULL), 200);
    assert_string_equal(f.api.type.data, "application/vnd.kubernetes.protobuf");
    assert_int_equal(f.api.body.len, 5);
    // Neither side has the metric.
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/none", NULL), 404);
    fixture_has(&f.api, "could not find the metric none for pods: no rule serves it; the previous "
                        "owner of custom.metrics.k8s.io: never heard of it");
    assert_int_equal(fixture_get(&f.api, "/apis/metrics.k8s.io/v1beta1/namespaces/ml/pods", NULL),
                     404);
    fixture_has(&f.api, "never heard of it");
    stop(&f);
}

static void test_lists(void **state)
{
    struct fixture f = {0};
    start(&f, false);
    assert_int_equal(fixture_get(&f.api, CUSTOM, NULL), 200);
    fixture_has(&f.api, "{\"name\":\"pods/mine\",\"singularName\"");
    fixture_has(&f.api, "{\"name\":\"pods/theirs\",\"namespaced\":true}");
    assert_null(strstr(f.api.body.data, "owner")); // the adapter's entry wins
    // Prevents an endless loop between two adapters.
    const struct http_header mark[] = {{ADAPTER_API_FORWARDED_HEADER, "1"}, {0}};
    int before = f.requests;
    assert_int_equal(fixture_get(&f.api, CUSTOM, mark), 200);
    assert_null(strstr(f.api.body.data, "theirs"));
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/theirs", mark), 404);
    assert_int_equal(fixture_get(&f.api, "/apis", NULL), 200);
    fixture_has(&f.api, "external.metrics.k8s.io");
    assert_in_range(f.requests - before, 0, 3); // at most lists by the timer
    stop(&f);
}

static void test_front_proxy(void **state)
{
    struct fixture f = {.api.user = "alice"};
    start(&f, true);
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/theirs", NULL), 200);
    assert_non_null(strstr(f.headers.data, "X-Remote-User=alice\n"));
    assert_non_null(strstr(f.headers.data, "X-Remote-Group=system:masters\n"));
    assert_non_null(strstr(f.headers.data, "X-Remote-Group=system:authenticated\n"));
    stop(&f);
    struct fixture g = {.api.user = "al\nX-Remote-User: root"};
    start(&g, true);
    assert_int_equal(fixture_get(&g.api, CUSTOM "/namespaces/ml/pods/a/theirs", NULL), 500);
    fixture_has(&g.api, "an HTTP header cannot contain");
    stop(&g);
}

static void test_down(void **state)
{
    struct fixture f = {0};
    struct adapter_api_delegate_stats s;
    start(&f, false);
    f.silent = true;
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/theirs", NULL), 503);
    fixture_has(&f.api, "rejected the credentials");
    http_server_stop(GS_TAKE(f.owner));
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/theirs", NULL), 503);
    fixture_has(
        &f.api,
        "no rule serves it; the request to the previous owner of custom.metrics.k8s.io at https");
    adapter_api_delegate_stats(f.previous, &s);
    assert_false(s.up);
    assert_int_equal(s.requests, 2);
    assert_int_equal(s.failures, 1);
    // Its resources stay listed, and the adapter's rules are still served.
    assert_int_equal(fixture_get(&f.api, CUSTOM, NULL), 200);
    fixture_has(&f.api, "pods/theirs");
    assert_int_equal(fixture_get(&f.api, CUSTOM "/namespaces/ml/pods/a/mine", NULL), 200);
    stop(&f);
}

static void test_wrong(void **state)
{
    uv_loop_t loop;
    struct adapter_api_delegate *p = NULL;
    const struct adapter_api_delegate_options o = {.url = "http://plain"};
    uv_loop_init(&loop);
    assert_error(adapter_api_delegate_new(&loop, &o, &p), GS_EINVAL, "want https://");
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passed_on),   cmocka_unit_test(test_lists),
        cmocka_unit_test(test_front_proxy), cmocka_unit_test(test_down),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
