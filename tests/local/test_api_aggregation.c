// SPDX-License-Identifier: Apache-2.0
// APIServices with a Service: their requests reach its server, with the caller's identity, and its
// availability is a condition. The texts were compared with those of Kubernetes 1.36.
#include "api_harness.h"

#include "codec/encoding.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

#define APISERVICES "/apis/apiregistration.k8s.io/v1/apiservices"
#define DEMO        APISERVICES "/v1.demo.example.com"
#define ADDRESS     "127.96.3.77"

struct backend {
    struct harness h;
    struct tls_pair ca, cert;
    struct http_server *server;
    struct http_exchange *held; // a request that is not answered
    struct http_stream *watch;  // ended by the test
    char user[64], group[64];
    bool has_certificate, forged;
};

static void on_watch_closed(void *arg)
{
    struct backend *b = arg;
    b->watch = NULL;
}

static void on_backend_request(void *ctx, struct http_exchange *x)
{
    struct backend *b = ctx;
    size_t n = 0;
    const char *user = http_header(x, "X-Remote-User"), *group = http_header(x, "X-Remote-Group");

    if (strstr(http_path(x), "/slow")) {
        b->held = x;
        return;
    }
    if (http_query(x, "watch")) {
        b->watch = http_reply_stream(x, 200, "application/json", on_watch_closed, b);
        http_stream_write(b->watch, gs_slice_of("first\n"));
        return;
    }
    if (!user) { // as servers of Kubernetes do, which serve nothing to anonymous users
        http_reply_text(x, 401, "Unauthorized");
        return;
    }
    snprintf(b->user, sizeof b->user, "%s", user);
    snprintf(b->group, sizeof b->group, "%s", group ? group : "");
    b->has_certificate = http_peer_chain(x, &n) && n > 0;
    b->forged = http_header(x, "X-Remote-Extra-Scopes") != NULL;
    if (strcmp(http_path(x), "/apis/demo.example.com/v1") == 0)
        http_reply(x, 200, "application/json",
                   gs_slice_of("{\"kind\":\"APIResourceList\",\"groupVersion\":\"demo.example.com/"
                               "v1\",\"resources\":[]}"));
    else if (http_query(x, "missing"))
        http_reply(x, 404, "application/json", gs_slice_of("{\"kind\":\"Status\",\"code\":404}"));
    else
        http_reply(x, 200, "application/json", gs_slice_of("{\"kind\":\"Thing\"}"));
}

static int open_backend(void **state)
{
    static const char *const names[] = {"api.default.svc"};
    struct backend *b = gs_alloc(sizeof *b);
    const struct tls_leaf leaf = {
        .common_name = "api", .dns_names = names, .n_dns_names = 1, .server = 1, .days = 2};

    harness_open(&b->h, NULL);
    assert_null(tls_make_ca("test CA", 2, &b->ca));
    assert_null(tls_make_leaf(&b->ca, &leaf, &b->cert));
    const struct http_server_config cfg = {.address = ADDRESS,
                                           .cert_pem = b->cert.cert_pem,
                                           .key_pem = b->cert.key_pem,
                                           .request_client_cert = true};
    assert_null(http_server_start(&b->h.loop, &cfg, on_backend_request, b, &b->server));
    *state = b;
    return 0;
}

static int close_backend(void **state)
{
    struct backend *b = *state;

    if (b->held)
        http_reply_text(b->held, 200, "late");
    http_server_stop(b->server);
    harness_close(&b->h);
    tls_pair_finish(&b->ca);
    tls_pair_finish(&b->cert);
    free(b);
    return 0;
}

static void must_post(struct harness *h, const char *path, const char *body)
{
    AUTO_REPLY struct reply r = request(h, "POST", path, body);
    assert_status(r, 201);
}

static void create_service(struct backend *b)
{
    int port = http_server_port(b->server);
    GS_AUTO_FREE char *service =
        gs_format("{\"metadata\":{\"name\":\"api\"},\"spec\":{\"clusterIP\":\"" ADDRESS "\","
                  "\"ports\":[{\"port\":%d}]}}",
                  port);
    GS_AUTO_FREE char *endpoints =
        gs_format("{\"metadata\":{\"name\":\"api\"},\"subsets\":[{\"addresses\":[{\"ip\":"
                  "\"127.64.0.9\"}],\"ports\":[{\"port\":%d}]}]}",
                  port);
    must_post(&b->h, "/api/v1/namespaces/default/services", service);
    must_post(&b->h, "/api/v1/namespaces/default/endpoints", endpoints);
}

static void create_apiservice(struct backend *b, const char *ca_pem)
{
    GS_AUTO_BUF struct gs_buf bundle = {0};

    codec_base64_encode(gs_slice_of(ca_pem), &bundle);
    GS_AUTO_FREE char *body =
        gs_format("{\"metadata\":{\"name\":\"v1.demo.example.com\"},\"spec\":{\"group\":"
                  "\"demo.example.com\",\"version\":\"v1\",\"groupPriorityMinimum\":100,"
                  "\"versionPriority\":10,\"caBundle\":\"%s\",\"service\":{\"namespace\":"
                  "\"default\",\"name\":\"api\",\"port\":%d}}}",
                  bundle.data, http_server_port(b->server));
    must_post(&b->h, APISERVICES, body);
}

// Runs the loop until the condition Available has this reason.
static void await_reason(struct harness *h, const char *reason)
{
    for (bool found = false; !found;) {
        AUTO_REPLY struct reply r = request(h, "GET", DEMO, NULL);
        GS_AUTO_FREE char *text = gs_format("\"reason\":\"%s\"", reason);
        found = strstr(r.text, text) != NULL;
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
}

static void test_requests_reach_the_server_with_the_identity_of_the_caller(void **state)
{
    struct backend *b = *state;
    create_service(b);
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "Passed");
    AUTO_REPLY struct reply list = request(&b->h, "GET", "/apis/demo.example.com/v1/things", NULL);
    AUTO_REPLY struct reply missing =
        request(&b->h, "GET", "/apis/demo.example.com/v1/things?missing=1", NULL);
    AUTO_REPLY struct reply version = request(&b->h, "GET", "/apis/demo.example.com/v1", NULL);
    AUTO_REPLY struct reply groups = request(&b->h, "GET", "/apis", NULL);

    assert_status(list, 200);
    assert_member(list, "Thing", "kind");
    assert_status(missing, 404);
    assert_member(version, "APIResourceList", "kind");
    assert_non_null(strstr(groups.text, "\"demo.example.com/v1\""));
    assert_string_equal(b->user, "system:admin");
    assert_string_equal(b->group, "system:masters");
    assert_true(b->has_certificate);
    assert_false(b->forged);
}

static void test_availability_checks_come_from_the_aggregator(void **state)
{
    struct backend *b = *state;
    create_service(b);
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "Passed");

    assert_string_equal(b->user, "system:kube-aggregator");
    assert_string_equal(b->group, "system:masters");
    assert_true(b->has_certificate);
}

#define PROXY_MAP "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

static void test_the_authority_of_the_proxy_is_published_from_the_start(void **state)
{
    struct backend *b = *state;
    AUTO_REPLY struct reply map = request(&b->h, "GET", PROXY_MAP, NULL);
    AUTO_REPLY struct reply role =
        request(&b->h, "GET",
                "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/"
                "extension-apiserver-authentication-reader",
                NULL);

    assert_status(map, 200);
    assert_member(map, "[\"front-proxy-client\"]", "data", "requestheader-allowed-names");
    assert_member(map, "[\"X-Remote-User\"]", "data", "requestheader-username-headers");
    assert_non_null(codec_json_str(map.body, "data", "requestheader-client-ca-file", NULL));
    assert_status(role, 200);
}

static void test_the_authority_of_the_proxy_is_restored(void **state)
{
    struct backend *b = *state;
    AUTO_REPLY struct reply before = request(&b->h, "GET", PROXY_MAP, NULL);
    const char *ca = codec_json_str(before.body, "data", "requestheader-client-ca-file", NULL);
    AUTO_REPLY struct reply deleted = request(&b->h, "DELETE", PROXY_MAP, NULL);
    AUTO_REPLY struct reply after = request(&b->h, "GET", PROXY_MAP, NULL);
    while (after.status != 200) {
        reply_finish(&after);
        after = request(&b->h, "GET", PROXY_MAP, NULL);
    }

    assert_status(deleted, 200);
    assert_member(after, ca, "data", "requestheader-client-ca-file");
}

static void test_reasons_of_unavailable_servers(void **state)
{
    struct backend *b = *state;
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "ServiceNotFound");
    AUTO_REPLY struct reply object = request(&b->h, "GET", DEMO, NULL);
    AUTO_REPLY struct reply list = request(&b->h, "GET", "/apis/demo.example.com/v1/things", NULL);
    AUTO_REPLY struct reply table = request_with(
        &b->h, "GET", APISERVICES, NULL, "application/json;as=Table;g=meta.k8s.io;v=v1", NULL);

    assert_non_null(strstr(object.text, "service/api in \\\"default\\\" is not present"));
    assert_status(list, 503);
    assert_string_equal(list.text, "service unavailable\n");
    assert_non_null(strstr(table.text, "\"default/api\",\"False (ServiceNotFound)\""));
    must_post(&b->h, "/api/v1/namespaces/default/services",
              "{\"metadata\":{\"name\":\"api\"},\"spec\":{\"ports\":[{\"port\":1}]}}");
    await_reason(&b->h, "ServicePortError");
}

static void test_a_server_with_a_foreign_certificate_is_unavailable(void **state)
{
    struct backend *b = *state;
    struct tls_pair other = {0};
    assert_null(tls_make_ca("other CA", 2, &other));
    create_service(b);
    create_apiservice(b, other.cert_pem);
    tls_pair_finish(&other);
    await_reason(&b->h, "FailedDiscoveryCheck");
    AUTO_REPLY struct reply list = request(&b->h, "GET", "/apis/demo.example.com/v1/things", NULL);

    assert_status(list, 503);
}

static void test_a_slow_server_delays_nobody_else(void **state)
{
    struct backend *b = *state;
    struct reply slow = {0};
    const struct http_callbacks cb = {.on_done = reply_done};
    create_service(b);
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "Passed");
    struct http_op *op = http_send(
        b->h.client, &(struct http_request){.path = "/apis/demo.example.com/v1/slow"}, &cb, &slow);
    while (!b->held)
        uv_run(&b->h.loop, UV_RUN_ONCE);
    AUTO_REPLY struct reply own = request(&b->h, "GET", "/api/v1/namespaces", NULL);
    AUTO_REPLY struct reply quick = request(&b->h, "GET", "/apis/demo.example.com/v1/things", NULL);

    assert_status(own, 200);
    assert_status(quick, 200);
    assert_false(slow.done);
    http_op_cancel(op);
}

static void test_a_deleted_apiservice_answers_its_open_requests(void **state)
{
    struct backend *b = *state;
    struct reply slow = {0};
    const struct http_callbacks cb = {.on_done = reply_done};
    create_service(b);
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "Passed");
    http_send(b->h.client, &(struct http_request){.path = "/apis/demo.example.com/v1/slow"}, &cb,
              &slow);
    while (!b->held)
        uv_run(&b->h.loop, UV_RUN_ONCE);
    AUTO_REPLY struct reply deleted = request(&b->h, "DELETE", DEMO, NULL);
    while (!slow.done)
        uv_run(&b->h.loop, UV_RUN_ONCE);
    AUTO_REPLY struct reply gone = request(&b->h, "GET", "/apis/demo.example.com/v1/things", NULL);

    assert_status(deleted, 200);
    assert_int_equal(slow.status, 503);
    reply_finish(&slow);
    assert_status(gone, 404);
}

static void test_watches_are_forwarded_as_they_come(void **state)
{
    struct backend *b = *state;
    struct watched w = {0};
    create_service(b);
    create_apiservice(b, b->ca.cert_pem);
    await_reason(&b->h, "Passed");
    watch_start(&b->h, &w, "/apis/demo.example.com/v1/things?watch=true", NULL);
    while (!b->watch || w.text.len == 0)
        uv_run(&b->h.loop, UV_RUN_ONCE);
    assert_string_equal(w.text.data, "first\n");
    assert_false(w.ended);
    http_stream_end(b->watch);
    while (!w.ended)
        uv_run(&b->h.loop, UV_RUN_ONCE);
    gs_buf_finish(&w.text);
}

static void test_invalid_apiservices_are_rejected(void **state)
{
    struct backend *b = *state;
    AUTO_REPLY struct reply r =
        request(&b->h, "POST", APISERVICES,
                "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"group\":\"foo.example.com\","
                "\"version\":\"v1\",\"service\":{\"name\":\"s\",\"namespace\":\"default\"},"
                "\"insecureSkipTLSVerify\":true,\"caBundle\":\"YQ==\"}}");

    assert_status(r, 422);
    assert_member(
        r,
        "APIService.apiregistration.k8s.io \"x\" is invalid: [metadata.name: Invalid value: \"x\": "
        "must be `spec.version+\".\"+spec.group`: \"v1.foo.example.com\", "
        "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000, "
        "spec.versionPriority: Invalid value: 0: must be positive and less than 1000, "
        "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present]",
        "message");
}

static void test_local_apiservices_are_available(void **state)
{
    struct backend *b = *state;
    AUTO_REPLY struct reply r =
        request(&b->h, "POST", APISERVICES,
                "{\"metadata\":{\"name\":\"v1.apps\"},\"spec\":{\"group\":\"apps\","
                "\"version\":\"v1\",\"groupPriorityMinimum\":100,\"versionPriority\":10}}");

    assert_status(r, 201);
    assert_non_null(strstr(r.text, "\"Local APIServices are always available\""));
}

// prometheus-adapter's charts 2.5.1 to 2.10.0 create this version.
static void test_apiservices_are_served_in_version_v1beta1(void **state)
{
    struct backend *b = *state;
    AUTO_REPLY struct reply made =
        request(&b->h, "POST", "/apis/apiregistration.k8s.io/v1beta1/apiservices",
                "{\"apiVersion\":\"apiregistration.k8s.io/v1beta1\",\"kind\":\"APIService\","
                "\"metadata\":{\"name\":\"v1beta1.old.example.com\"},\"spec\":{\"group\":"
                "\"old.example.com\",\"version\":\"v1beta1\",\"groupPriorityMinimum\":100,"
                "\"versionPriority\":10}}");
    AUTO_REPLY struct reply now =
        request(&b->h, "GET", APISERVICES "/v1beta1.old.example.com", NULL);
    AUTO_REPLY struct reply list =
        request(&b->h, "GET", "/apis/apiregistration.k8s.io/v1beta1/apiservices", NULL);

    assert_status(made, 201);
    assert_member(made, "apiregistration.k8s.io/v1beta1", "apiVersion");
    assert_member(now, "apiregistration.k8s.io/v1", "apiVersion");
    assert_status(list, 200);
    assert_member(list, "apiregistration.k8s.io/v1beta1", "apiVersion");
}

// --- APIServices of mounted groups ---

#define MOUNTED APISERVICES "/v1beta1.metrics.k8s.io"

static json_t *describe_metrics(const void *ctx, const char *group)
{
    return json_pack("{s:s, s:[{s:s}]}", "name", group, "versions", "version", "v1beta1");
}

static void serve_metrics(void *ctx, struct http_exchange *x)
{
    http_reply_text(x, 200, "mounted");
}

// Helm's first request for an object is GET.
static struct reply helm(struct harness *h, const char *method, const char *path, const char *body)
{
    return request_as(h, "Helm/3.22.0", method, path, body);
}

// Runs the loop until the object of the mounted group is that of this program.
static void await_own(struct harness *h)
{
    for (bool found = false; !found;) {
        AUTO_REPLY struct reply r = request(h, "GET", MOUNTED, NULL);
        found = r.status == 200 &&
                codec_json_str(r.body, "metadata", "annotations", "gpuscale.dev/built-in", NULL);
        uv_run(&h->loop, UV_RUN_NOWAIT);
    }
}

#define OF_RELEASE                                                                                 \
    "{\"apiVersion\":\"apiregistration.k8s.io/v1\",\"kind\":\"APIService\",\"metadata\":"          \
    "{\"name\":\"v1beta1.metrics.k8s.io\"},\"spec\":{\"group\":\"metrics.k8s.io\",\"version\":"    \
    "\"v1beta1\",\"groupPriorityMinimum\":100,\"versionPriority\":100,"                            \
    "\"insecureSkipTLSVerify\":true,\"service\":{\"name\":\"m\",\"namespace\":\"default\"}}}"

static void test_a_mounted_group_has_an_available_apiservice(void **state)
{
    struct backend *b = *state;
    local_api_mount(b->h.api, "metrics.k8s.io", describe_metrics, serve_metrics, NULL);
    await_own(&b->h);
    AUTO_REPLY struct reply r = request(&b->h, "GET", MOUNTED, NULL);
    const json_t *condition =
        json_array_get(codec_json_get(r.body, "status", "conditions", NULL), 0);

    assert_string_equal(codec_json_str(condition, "type", NULL), "Available");
    assert_string_equal(codec_json_str(condition, "status", NULL), "True");
    assert_string_equal(codec_json_str(condition, "reason", NULL), "Local");
    assert_member(r, "metrics.k8s.io", "spec", "group");
    assert_member(r, "v1beta1", "spec", "version");
}

static void test_a_release_replaces_the_apiservice_of_a_mounted_group(void **state)
{
    struct backend *b = *state;
    local_api_mount(b->h.api, "metrics.k8s.io", describe_metrics, serve_metrics, NULL);
    await_own(&b->h);
    AUTO_REPLY struct reply hidden = helm(&b->h, "GET", MOUNTED, NULL);
    AUTO_REPLY struct reply made = helm(&b->h, "POST", APISERVICES, OF_RELEASE);
    AUTO_REPLY struct reply shown = helm(&b->h, "GET", MOUNTED, NULL);
    AUTO_REPLY struct reply again = helm(&b->h, "POST", APISERVICES, OF_RELEASE);
    AUTO_REPLY struct reply served = request(&b->h, "GET", "/apis/metrics.k8s.io/v1beta1", NULL);
    AUTO_REPLY struct reply deleted = helm(&b->h, "DELETE", MOUNTED, NULL);

    assert_status(hidden, 404);
    assert_status(made, 201);
    assert_status(shown, 200);
    assert_member(shown, "m", "spec", "service", "name");
    assert_status(again, 409);
    assert_string_equal(served.text, "mounted"); // by this program, whatever the release does
    assert_status(deleted, 200);
    await_own(&b->h);
}

int main(void)
{
#define BACKEND_TEST(f) cmocka_unit_test_setup_teardown(f, open_backend, close_backend)
    const struct CMUnitTest tests[] = {
        BACKEND_TEST(test_requests_reach_the_server_with_the_identity_of_the_caller),
        BACKEND_TEST(test_availability_checks_come_from_the_aggregator),
        BACKEND_TEST(test_the_authority_of_the_proxy_is_published_from_the_start),
        BACKEND_TEST(test_the_authority_of_the_proxy_is_restored),
        BACKEND_TEST(test_reasons_of_unavailable_servers),
        BACKEND_TEST(test_a_server_with_a_foreign_certificate_is_unavailable),
        BACKEND_TEST(test_a_slow_server_delays_nobody_else),
        BACKEND_TEST(test_a_deleted_apiservice_answers_its_open_requests),
        BACKEND_TEST(test_watches_are_forwarded_as_they_come),
        BACKEND_TEST(test_invalid_apiservices_are_rejected),
        BACKEND_TEST(test_local_apiservices_are_available),
        BACKEND_TEST(test_apiservices_are_served_in_version_v1beta1),
        BACKEND_TEST(test_a_mounted_group_has_an_available_apiservice),
        BACKEND_TEST(test_a_release_replaces_the_apiservice_of_a_mounted_group),
    };
    return cmocka_run_group_tests_name("api_aggregation", tests, NULL, NULL);
}
