// SPDX-License-Identifier: Apache-2.0
// The subresource proxy of pods, Services and nodes, with a server of the test. The texts are those
// of Kubernetes 1.36.
#include "cluster_harness.h"
#include "local/services.h"
#include "net/http/server.h"
#include "net/tls/tls.h"

#include <arpa/inet.h>

#define PODS     "/api/v1/namespaces/default/pods"
#define SERVICES "/api/v1/namespaces/default/services"

struct fixture {
    struct cluster k;
    struct local_services *services;
    struct tls_pair ca, cert;
    struct http_server *plain, *tls;
};

// Says what arrived.
static void on_backend(void *ctx, struct http_exchange *x)
{
    const char *uri = http_header(x, "X-Forwarded-Uri"), *own = http_header(x, "X-Own");
    bool proven = http_header(x, "Authorization") || http_header(x, "Impersonate-User") ||
                  http_header(x, "X-Remote-User");

    if (strstr(http_path(x), "/redirect"))
        http_add_header(x, "Location", "/next/?a=1");
    http_add_header(x, "ETag", "\"1\"");
    http_add_header(x, "Access-Control-Allow-Origin", "*");
    http_reply_text(x, strstr(http_path(x), "/redirect") ? 302 : 200, "%s %s own=%s uri=%s%s %.*s",
                    http_method(x), http_target(x), own ? own : "", uri ? uri : "",
                    proven ? " CREDENTIALS" : "", (int)http_body(x).len, http_body(x).data);
}

static void start_backends(struct fixture *f)
{
    const struct tls_leaf leaf = {.common_name = "backend", .server = 1, .days = 2};
    const struct http_server_config plain = {.address = "127.0.0.1"};

    assert_null(tls_make_ca("test CA", 2, &f->ca));
    assert_null(tls_make_leaf(&f->ca, &leaf, &f->cert));
    const struct http_server_config tls = {
        .address = "127.0.0.1", .cert_pem = f->cert.cert_pem, .key_pem = f->cert.key_pem};
    assert_null(http_server_start(&f->k.loop, &plain, on_backend, f, &f->plain));
    assert_null(http_server_start(&f->k.loop, &tls, on_backend, f, &f->tls));
}

static void create_objects(struct fixture *f)
{
    GS_AUTO_FREE char *endpoints = gs_format(
        "{apiVersion: v1, kind: Endpoints, metadata: {name: web}, subsets: [{addresses: [{ip: "
        "127.0.0.1}], ports: [{name: http, port: %u}, {name: https, port: %u}]}]}",
        http_server_port(f->plain), http_server_port(f->tls));
    GS_AUTO_FREE char *pod = gs_format(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: "
        "i, ports: [{containerPort: %u}]}]}}",
        http_server_port(f->plain));
    CODEC_AUTO_JSON json_t *status = json_pack("{s:{s:s}}", "status", "podIP", "127.0.0.1");

    cluster_create(&f->k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{name: "
                   "http, port: 80}, {name: https, port: 443}]}}");
    cluster_create(&f->k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: empty}, spec: {ports: [{port: "
                   "80}]}}");
    cluster_create(&f->k, KUBE_ENDPOINTS,
                   "{apiVersion: v1, kind: Endpoints, metadata: {name: empty}}");
    cluster_create(&f->k, KUBE_ENDPOINTS, endpoints);
    cluster_create(&f->k, KUBE_PODS, pod);
    kube_patch(f->k.client, KUBE_PODS, "default", "web", "status", KUBE_STRATEGIC_PATCH, status,
               call_took, &f->k);
    assert_int_equal(await(&f->k), 200);
    cluster_create(&f->k, KUBE_NODES, "{apiVersion: v1, kind: Node, metadata: {name: node-1}}");
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof *f);

    cluster_open(&f->k);
    f->k.ready_budget = 0; // the test gives the pod its address
    f->services = services_new(f->k.c);
    local_api_set_forwarder(f->k.api, &(struct local_api_forwarder){services_forward, f->services});
    start_backends(f);
    create_objects(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    local_api_set_forwarder(f->k.api, NULL);
    services_free(f->services);
    http_server_stop(f->plain);
    http_server_stop(f->tls);
    cluster_close(&f->k);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->cert);
    free(f);
    return 0;
}

struct got {
    bool done;
    int status;
    char *text, *location, *cors;
};

static void got_finish(struct got *g)
{
    free(g->text);
    free(g->location);
    free(g->cors);
}
#define AUTO_GOT GS_CLEANUP(got_finish)

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct got *g = arg;

    g->done = true;
    g->status = response->status;
    g->text = gs_strndup(response->body.data ? response->body.data : "", response->body.len);
    g->location = gs_slice_dup(http_response_header(response, "location"));
    g->cors = gs_slice_dup(http_response_header(response, "access-control-allow-origin"));
    gs_error_free(err);
}

static struct got send_request(struct fixture *f, const char *method, const char *path,
                               const char *body)
{
    static const struct http_header headers[] = {{"Authorization", "Bearer secret"},
                                                 {"Impersonate-User", "somebody"},
                                                 {"X-Remote-User", "somebody"},
                                                 {"X-Own", "kept"},
                                                 {0}};
    struct got g = {0};

    http_send(f->k.http,
              &(struct http_request){.method = method,
                                     .path = path,
                                     .headers = headers,
                                     .body = gs_slice_of(body),
                                     .content_type = body ? "text/plain" : NULL,
                                     .keep_headers = true},
              &(struct http_callbacks){.on_done = on_done}, &g);
    loop_until(&f->k.loop, g.done);
    return g;
}

static void expect(struct fixture *f, const char *path, int status, const char *text)
{
    AUTO_GOT struct got g = send_request(f, "GET", path, NULL);

    if (g.status != status || !strstr(g.text, text))
        fail_msg("%s: HTTP %d, %s; wanted %d, %s", path, g.status, g.text, status, text);
}

static void test_pods_services_and_nodes_are_reached(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_FREE char *pod = gs_format(PODS "/web:%u/proxy/a", http_server_port(f->plain));
    GS_AUTO_FREE char *tls_pod = gs_format(PODS "/https:web:%u/proxy/a", http_server_port(f->tls));

    expect(f, pod, 200, "GET /a own=kept");
    expect(f, tls_pod, 200, "GET /a own=kept");
    expect(f, PODS "/web/proxy/a", 200, "GET /a "); // the declared port
    expect(f, SERVICES "/web:80/proxy/a", 200, "GET /a ");
    expect(f, SERVICES "/web:http/proxy/a", 200, "GET /a ");
    expect(f, SERVICES "/http:web:80/proxy/a", 200, "GET /a ");
    expect(f, SERVICES "/https:web:443/proxy/a", 200, "GET /a ");
    expect(f, SERVICES "/https:web:https/proxy/a", 200, "GET /a ");
}

static void test_requests_arrive_as_they_were_sent_without_credentials(void **state)
{
    struct fixture *f = *state;
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};

    expect(f, SERVICES "/web:80/proxy/a%20b/%2F//c/?x=%26&y", 200,
           "GET /a%20b/%2F//c/?x=%26&y own=kept uri=" SERVICES "/web:80/proxy/a%20b/%2F//c/ ");
    expect(f, SERVICES "/https:web:443/proxy/a%20b/?x=%26", 200, "GET /a%20b/?x=%26 own=kept");
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        AUTO_GOT struct got plain = send_request(f, methods[i], SERVICES "/web:80/proxy/p", "body");
        AUTO_GOT struct got tls =
            send_request(f, methods[i], SERVICES "/https:web:443/proxy/p", "body");
        GS_AUTO_FREE char *wanted = gs_format("%s /p own=kept", methods[i]);

        assert_non_null(strstr(plain.text, wanted));
        assert_non_null(strstr(plain.text, " body"));
        assert_null(strstr(plain.text, "CREDENTIALS"));
        assert_string_equal(plain.cors ? plain.cors : "", "");
        assert_non_null(strstr(tls.text, wanted));
        assert_non_null(strstr(tls.text, " body"));
        assert_null(strstr(tls.text, "CREDENTIALS"));
    }
}

static void test_redirects_lead_through_the_proxy(void **state)
{
    static const struct {
        const char *location, *shown;
    } cases[] = {
        {"/next?a=1#b", "/prefix/proxy/next?a=1#b"},
        {"/", "/prefix/proxy/"},
        {"http://127.0.0.1:80/x/", "/prefix/proxy/x/"},
        {"//127.0.0.1:80/x", "/prefix/proxy/x"},
        {"https://api:6443/x", "/prefix/proxy/x"},
        {"/prefix/proxy/x", "/prefix/proxy/x"},
        {"relative/x", "relative/x"},
        {"?q", "?q"},
        {"https://elsewhere/x", "https://elsewhere/x"},
        {"https://127.0.0.1:81/x?u=http://127.0.0.1:80/",
         "https://127.0.0.1:81/x?u=http://127.0.0.1:80/"},
        {"", ""},
    };
    const struct local_api_forward to = {.ip = "127.0.0.1", .port = 80, .prefix = "/prefix/proxy"};
    AUTO_GOT struct got plain =
        send_request(*state, "GET", SERVICES "/web:80/proxy/redirect", NULL);
    AUTO_GOT struct got tls =
        send_request(*state, "GET", SERVICES "/https:web:443/proxy/redirect", NULL);

    assert_int_equal(plain.status, 302);
    assert_string_equal(plain.location, SERVICES "/web:80/proxy/next/?a=1");
    assert_int_equal(tls.status, 302);
    assert_string_equal(tls.location, SERVICES "/https:web:443/proxy/next/?a=1");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *shown = local_api_forward_location(&to, cases[i].location, "api:6443");
        assert_string_equal(shown, cases[i].shown);
    }
}

static void test_the_root_is_redirected_to_a_path_with_a_slash(void **state)
{
    AUTO_GOT struct got g = send_request(*state, "GET", SERVICES "/web:80/proxy?x=1", NULL);
    AUTO_GOT struct got post = send_request(*state, "POST", SERVICES "/web:80/proxy?x=1", "");

    assert_int_equal(g.status, 301);
    assert_string_equal(g.location, SERVICES "/web:80/proxy/?x=1");
    assert_non_null(strstr(post.text, "POST /?x=1"));
    expect(*state, SERVICES "/web:80/proxy/", 200, "GET / ");
}

// A bound socket keeps a port to which nobody listens.
static void expect_refused_connections(struct fixture *f)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    unsigned port = ntohs(at.sin_port);
    GS_AUTO_FREE char *plain = gs_format(PODS "/web:%u/proxy/", port);
    GS_AUTO_FREE char *tls = gs_format(PODS "/https:web:%u/proxy/", port);
    GS_AUTO_FREE char *why = gs_format("error trying to reach service: dial tcp 127.0.0.1:%u: "
                                       "connect: connection refused",
                                       port);
    expect(f, plain, 503, why);
    expect(f, tls, 503, "error trying to reach service: ");
    close(fd);
}

static void test_servers_that_cannot_be_reached_are_named(void **state)
{
    expect(*state, SERVICES "/none/proxy/", 404, "services \\\"none\\\" not found");
    expect(*state, PODS "/none/proxy/", 404, "pods \\\"none\\\" not found");
    expect(*state, "/api/v1/nodes/none/proxy/", 404, "nodes \\\"none\\\" not found");
    expect(*state, SERVICES "/web:81/proxy/", 503,
           "no service port 81 found for service \\\"web\\\"");
    expect(*state, SERVICES "/web/proxy/", 503, "no endpoints available for service \\\"web\\\"");
    expect(*state, SERVICES "/web:other/proxy/", 503,
           "no endpoints available for service \\\"web:other\\\"");
    expect(*state, SERVICES "/empty/proxy/", 503,
           "no endpoints available for service \\\"empty\\\"");
    expect(*state, SERVICES "/ftp:web:80/proxy/", 400,
           "invalid service request \\\"ftp:web:80\\\"");
    expect(*state, PODS "/a:b:c:d/proxy/", 400, "invalid pod request");
    expect_refused_connections(*state);
    expect(*state, PODS "/web:0/proxy/", 400, "is not a number from 1 to 65535");
    expect(*state, "/api/v1/nodes/node-1:80/proxy/", 400, "address not allowed");
    expect(*state, "/api/v1/nodes/node-1/proxy/", 503, "no kubelet runs the node \\\"node-1\\\"");
}

static void serve_kubelet(void *ctx, const char *path, struct http_exchange *x)
{
    http_reply_text(x, 200, "kubelet %s", path);
}

static void test_nodes_without_a_port_are_their_kubelet(void **state)
{
    struct fixture *f = *state;
    const struct local_api_kubelet kubelet = {.serve = serve_kubelet};
    CODEC_AUTO_JSON json_t *status = json_pack(
        "{s:{s:{s:{s:i}}, s:[{s:s, s:s}]}}", "status", "daemonEndpoints", "kubeletEndpoint", "Port",
        10250, "addresses", "type", "InternalIP", "address", "127.0.0.1");
    GS_AUTO_FREE char *other =
        gs_format("/api/v1/nodes/node-1:%u/proxy/a", http_server_port(f->plain));

    local_api_set_kubelet(f->k.api, "node-1", &kubelet);
    kube_patch(f->k.client, KUBE_NODES, NULL, "node-1", "status", KUBE_MERGE_PATCH, status,
               call_took, &f->k);
    assert_int_equal(await(&f->k), 200);
    expect(f, "/api/v1/nodes/node-1/proxy/metrics", 200, "kubelet /metrics");
    expect(f, "/api/v1/nodes/https:node-1:10250/proxy/pods", 200, "kubelet /pods");
    expect(f, other, 200, "GET /a ");
}

static void test_anonymous_callers_reach_nothing(void **state)
{
    struct fixture *f = *state;
    struct got g = {0};
    struct http_client *nobody =
        http_client_new_loopback(&f->k.loop, local_api_handle, f->k.api, NULL);

    http_send(nobody, &(struct http_request){.path = SERVICES "/web:80/proxy/a"},
              &(struct http_callbacks){.on_done = on_done}, &g);
    loop_until(&f->k.loop, g.done);
    assert_int_equal(g.status, 401);
    got_finish(&g);
    http_client_free(nobody);
}

int main(void)
{
#define PROXY_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        PROXY_TEST(test_pods_services_and_nodes_are_reached),
        PROXY_TEST(test_requests_arrive_as_they_were_sent_without_credentials),
        PROXY_TEST(test_redirects_lead_through_the_proxy),
        PROXY_TEST(test_the_root_is_redirected_to_a_path_with_a_slash),
        PROXY_TEST(test_servers_that_cannot_be_reached_are_named),
        PROXY_TEST(test_nodes_without_a_port_are_their_kubelet),
        PROXY_TEST(test_anonymous_callers_reach_nothing),
    };
    return cmocka_run_group_tests_name("api_proxy", tests, NULL, NULL);
}
