// SPDX-License-Identifier: Apache-2.0
// Ingresses on the embedded API, with real sockets. The backend is an HTTP server of the test.
#include "cluster_harness.h"
#include "local/ports.h"
#include "local/services.h"
#include "net/http/server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#define INGRESSES ((struct kube_gvr){"networking.k8s.io", "v1", "ingresses"})

struct fixture {
    struct cluster k;
    struct local_services *services;
    struct http_server *backend;
    int n_heads;                 // requests with the method HEAD that the backend has got
    bool took_head;              // the client has got the reply to one
    struct http_exchange *held;  // a request that the backend does not answer
    struct http_upgrade *socket; // a WebSocket of the backend, which sends back what it gets
    json_t *ingress;
};

static void on_socket_data(void *arg, struct gs_slice bytes)
{
    http_upgrade_write(((struct fixture *)arg)->socket, bytes);
}

static void on_socket_close(void *arg)
{
    ((struct fixture *)arg)->socket = NULL;
}

static void on_backend(void *ctx, struct http_exchange *x)
{
    static const struct http_upgrade_callbacks callbacks = {.on_data = on_socket_data,
                                                            .on_close = on_socket_close};
    struct fixture *f = ctx;
    if (gs_streq(http_path(x), "/socket") && http_header(x, "Upgrade")) {
        http_add_header(x, "Sec-WebSocket-Accept", http_header(x, "Sec-WebSocket-Key"));
        f->socket = http_reply_upgrade(x, "websocket", &callbacks, f);
        return;
    }
    f->n_heads += http_is_head(x);
    if (gs_streq(http_path(x), "/hold")) {
        f->held = x;
        return;
    }
    const char *forwarded = http_header(x, "X-Forwarded-For");
    http_add_header(x, "X-Backend", "yes");
    if (gs_streq(http_path(x), "/long")) {
        GS_AUTO_FREE char *block = gs_alloc(100001);
        memset(block, 'x', 100000);
        struct gs_buf body = {0};
        for (int i = 0; i < 10; i++)
            gs_buf_add(&body, block, 100000);
        http_reply(x, 200, "text/plain", gs_buf_slice(&body));
        gs_buf_finish(&body);
        return;
    }
    http_reply_text(x, 200, "%s %s %s %zu", http_method(x), http_target(x),
                    !http_header(x, "Host") ? "no Host"
                    : forwarded             ? forwarded
                                            : "-",
                    http_body(x).len);
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    cluster_open(&f->k);
    f->services = services_new(f->k.c);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->k.loop, &cfg, on_backend, f, &f->backend));
    // A Service without a selector: the test writes its Endpoints.
    GS_AUTO_FREE char *endpoints =
        gs_format("{apiVersion: v1, kind: Endpoints, metadata: {name: web}, subsets: [{addresses: "
                  "[{ip: 127.0.0.1}], ports: [{name: http, port: %u}]}]}",
                  http_server_port(f->backend));
    cluster_create(&f->k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{name: "
                   "http, port: 8000}]}}");
    cluster_create(&f->k, KUBE_ENDPOINTS, endpoints);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    services_free(f->services);
    http_server_stop(f->backend);
    json_decref(f->ingress);
    cluster_close(&f->k);
    free(f);
    return 0;
}

static void create(struct fixture *f, const char *spec)
{
    GS_AUTO_FREE char *yaml = gs_format("{apiVersion: networking.k8s.io/v1, kind: Ingress, "
                                        "metadata: {name: i}, spec: {%s}}",
                                        spec);
    cluster_create(&f->k, INGRESSES, yaml);
}

static bool has_address(struct fixture *f)
{
    kube_get(f->k.client, INGRESSES, "default", "i", NULL, call_took, &f->k);
    assert_int_equal(await(&f->k), 200);
    json_decref(f->ingress);
    f->ingress = json_incref(f->k.body);
    return kube_annotation(f->ingress, LOCAL_ANN_ADDRESS) &&
           codec_json_get(f->ingress, "status", "loadBalancer", "ingress", NULL);
}

struct got {
    bool done;
    int status;
    char *text;
    size_t len;
};

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct got *g = arg;
    g->done = true;
    g->status = response->status;
    g->text = gs_strndup(response->body.data ? response->body.data : "", response->body.len);
    g->len = response->body.len;
    gs_error_free(err);
}

static struct http_client *client_of(struct fixture *f)
{
    struct http_client *c = NULL;
    loop_until(&f->k.loop, has_address(f));
    const char *address = kube_annotation(f->ingress, LOCAL_ANN_ADDRESS);
    GS_AUTO_FREE char *url = gs_format("http://%.*s", (int)strcspn(address, ","), address);
    const struct http_client_config cfg = {.base_url = url, .proxy = ""};
    assert_ok(http_client_new_curl(&f->k.loop, &cfg, &c));
    return c;
}

static void send_request(struct http_client *c, const char *host, const char *path,
                         struct gs_slice body, struct got *ret)
{
    const struct http_header headers[] = {{"Host", host}, {0}};
    const struct http_callbacks cb = {.on_done = on_done};
    http_send(c,
              &(struct http_request){.method = body.len ? "POST" : NULL,
                                     .path = path,
                                     .headers = headers,
                                     .body = body,
                                     .content_type = body.len ? "text/plain" : NULL},
              &cb, ret);
}

static void assert_get(struct fixture *f, struct http_client *c, const char *host, const char *path,
                       int status, const char *text)
{
    struct got g = {0};
    send_request(c, host, path, (struct gs_slice){0}, &g);
    loop_until(&f->k.loop, g.done);
    if (g.status != status || strcmp(g.text, text) != 0)
        fail_msg("%s%s: %d %s", host, path, g.status, g.text);
    free(g.text);
}

#define BACKEND "backend: {service: {name: web, port: {name: http}}}"

static void took_head(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    assert_null(err);
    assert_int_equal(response->status, 200);
    assert_int_equal(response->body.len, 0);
    assert_true(gs_slice_eq_str(http_response_header(response, "content-length"), "18"));
    f->took_head = true;
}

// Not as GET, whose body the backend would send for nothing.
static void test_head_reaches_the_backend(void **state)
{
    static const struct http_callbacks callbacks = {.on_done = took_head};
    struct fixture *f = *state;
    create(f, "rules: [{http: {paths: [{path: /, pathType: Prefix, " BACKEND "}]}}]");
    struct http_client *c = client_of(f);
    http_send(c, &(struct http_request){.method = "HEAD", .path = "/x", .keep_headers = true},
              &callbacks, f);
    loop_until(&f->k.loop, f->took_head);
    assert_int_equal(f->n_heads, 1);
    http_client_free(c);
}

static void test_requests_reach_the_backend(void **state)
{
    struct fixture *f = *state;
    create(f, "rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, " BACKEND
              "}, {path: /none, pathType: Prefix, backend: {service: {name: none, port: {number: "
              "1}}}}]}}]");
    struct http_client *c = client_of(f);
    assert_string_equal(codec_json_str(f->ingress, "spec", "ingressClassName", NULL), "gpuscale");
    assert_get(f, c, "a.example.com", "/x?y=z", 200, "GET /x?y=z 127.0.0.1 0");
    assert_get(f, c, "b.example.com", "/", 404, "404 Not Found\n");
    assert_get(f, c, "a.example.com", "/none", 503, "503 Service Temporarily Unavailable\n");
    struct got g = {0};
    send_request(c, "a.example.com", "/post", GS_SLICE("12345"), &g);
    loop_until(&f->k.loop, g.done);
    assert_string_equal(g.text, "POST /post 127.0.0.1 5");
    free(g.text);
    http_client_free(c);
}

struct client {
    int fd;
    size_t to_send;
    struct gs_buf got;
    bool ended;
};

static struct client connect_client(struct fixture *f)
{
    struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in to = {.sin_family = AF_INET};
    loop_until(&f->k.loop, has_address(f));
    const char *address = kube_annotation(f->ingress, LOCAL_ANN_ADDRESS);
    GS_AUTO_FREE char *ip = gs_strndup(address, strcspn(address, ":"));
    to.sin_port = htons((uint16_t)strtol(address + strlen(ip) + 1, NULL, 10));
    assert_int_equal(inet_pton(AF_INET, ip, &to.sin_addr), 1);
    assert_int_equal(connect(c.fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return c;
}

// Sends and receives without waiting. True: the text was received, or `n` bytes.
static bool exchange(struct client *c, const char *text, size_t n)
{
    static char block[65536];
    size_t len = c->to_send < sizeof(block) ? c->to_send : sizeof(block);
    ssize_t sent = len ? send(c->fd, block, len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (sent > 0)
        c->to_send -= (size_t)sent;
    char in[65536];
    ssize_t got = recv(c->fd, in, sizeof(in), MSG_DONTWAIT);
    if (got > 0)
        gs_buf_add(&c->got, in, (size_t)got);
    c->ended = c->ended || got == 0;
    return text ? c->got.len && strstr(c->got.data, text) : c->got.len >= n;
}

static void test_tricks_do_not_reach_the_backend(void **state)
{
    static const struct {
        const char *request, *reply;
    } cases[] = {
        {"GET /open/../web HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 404"},
        {"GET /open/..%2fweb HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 404"},
        {"GET /open/../../web HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 400"},
        {"GET /open%00 HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 400"},
        {"GET /open HTTP/1.1\r\nHost: h\r\nHost: i\r\n", "HTTP/1.1 400"},
        {"GET /open HTTP/1.1\r\nHost: x@h\r\n", "HTTP/1.1 400"},
        {"POST /open HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n",
         "HTTP/1.1 400"},
        {"POST /open HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 1\r\n",
         "HTTP/1.1 400"},
        {"POST /open HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n", "HTTP/1.1 400"},
        {"POST /open HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n", "HTTP/1.1 400"},
        {"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n", "HTTP/1.1 400"},
        // The backend shows the X-Forwarded-For that it got.
        {"GET /open HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 9.9.9.9\r\nX_Forwarded_For: "
         "8.8.8.8\r\n",
         "\r\n\r\nGET /open 127.0.0.1 0"},
        {"GET /open HTTP/1.1\r\nHost: h\r\nX_Real_IP: 9.9.9.9\r\nProxy: x\r\nConnection: "
         "X-Forwarded-For, Host\r\n",
         "\r\n\r\nGET /open 127.0.0.1 0"},
    };
    struct fixture *f = *state;
    create(f, "rules: [{host: h, http: {paths: [{path: /open, pathType: Prefix, " BACKEND "}]}}]");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct client c = connect_client(f);
        GS_AUTO_FREE char *request = gs_format("%s\r\n", cases[i].request);
        assert_int_equal(send(c.fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
        for (int64_t end = gs_mono_ns() + WAIT_NS;
             !exchange(&c, cases[i].reply, 0) && gs_mono_ns() < end && !c.ended;)
            uv_run(&f->k.loop, UV_RUN_NOWAIT);
        if (!c.got.len || !strstr(c.got.data, cases[i].reply))
            fail_msg("%s: %s", cases[i].request, c.got.len ? c.got.data : "closed");
        close(c.fd);
        gs_buf_finish(&c.got);
    }
}

static void test_long_replies_are_streamed(void **state)
{
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {number: 8000}}}");
    struct http_client *c = client_of(f);
    struct got g = {0};
    send_request(c, "any", "/long", (struct gs_slice){0}, &g);
    loop_until(&f->k.loop, g.done);
    assert_int_equal(g.status, 200);
    assert_int_equal(g.len, 1000000);
    free(g.text);
    http_client_free(c);
}

static void test_a_backend_that_waits_does_not_block_others(void **state)
{
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {number: 8000}}}");
    struct http_client *c = client_of(f);
    struct got slow = {0};
    send_request(c, "any", "/hold", (struct gs_slice){0}, &slow);
    loop_until(&f->k.loop, f->held);
    assert_get(f, c, "any", "/quick", 200, "GET /quick 127.0.0.1 0");
    assert_false(slow.done);
    http_reply_text(f->held, 200, "late");
    loop_until(&f->k.loop, slow.done);
    assert_string_equal(slow.text, "late");
    free(slow.text);
    http_client_free(c);
}

static void test_a_backend_that_does_not_listen(void **state)
{
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {number: 8000}}}");
    struct http_client *c = client_of(f);
    http_server_stop(GS_TAKE(f->backend));
    assert_get(f, c, "any", "/", 502, "502 Bad Gateway\n");
    http_client_free(c);
}

static void test_a_deleted_ingress_is_not_served(void **state)
{
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {number: 8000}}}");
    struct http_client *c = client_of(f);
    assert_get(f, c, "any", "/", 200, "GET / 127.0.0.1 0");
    cluster_delete(&f->k, INGRESSES, "default", "i");
    for (int status = 200; status;) {
        struct got g = {0};
        send_request(c, "any", "/", (struct gs_slice){0}, &g);
        loop_until(&f->k.loop, g.done);
        status = g.status;
        free(g.text);
    }
    http_client_free(c);
}

static bool has_ended(struct client *c)
{
    exchange(c, NULL, SIZE_MAX);
    return c->ended;
}

static void hand_shake(struct fixture *f, struct client *c, const char *upgrade)
{
    GS_AUTO_FREE char *request =
        gs_format("GET /socket HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n"
                  "Upgrade: %s\r\nSec-WebSocket-Key: key\r\n\r\n",
                  upgrade);
    assert_int_equal(send(c->fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    loop_until(&f->k.loop, exchange(c, "\r\n\r\n", 0));
}

static void test_websockets_are_passed_on(void **state)
{
    enum { MANY = 3000000 };
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {name: http}}}");
    struct client c = connect_client(f);
    hand_shake(f, &c, "websocket");
    assert_non_null(strstr(c.got.data, "HTTP/1.1 101"));
    assert_non_null(strstr(c.got.data, "Sec-WebSocket-Accept: key"));
    gs_buf_clear(&c.got);
    assert_int_equal(send(c.fd, "ping", 4, MSG_NOSIGNAL), 4);
    loop_until(&f->k.loop, exchange(&c, "ping", 0));
    gs_buf_clear(&c.got);
    c.to_send = MANY;
    loop_until(&f->k.loop, exchange(&c, NULL, MANY));
    http_upgrade_end(f->socket);
    loop_until(&f->k.loop, has_ended(&c));
    close(c.fd);
    gs_buf_clear(&c.got);
    c = (struct client){.fd = connect_client(f).fd, .got = c.got};
    hand_shake(f, &c, "websocket");
    assert_non_null(f->socket);
    close(c.fd);
    loop_until(&f->k.loop, !f->socket);
    gs_buf_finish(&c.got);
}

// The backend sees an ordinary request.
static void test_other_upgrades_are_not_passed_on(void **state)
{
    struct fixture *f = *state;
    create(f, "defaultBackend: {service: {name: web, port: {name: http}}}");
    struct client c = connect_client(f);
    hand_shake(f, &c, "h2c");
    assert_non_null(strstr(c.got.data, "HTTP/1.1 200"));
    close(c.fd);
    gs_buf_finish(&c.got);
}

static void refuse(struct fixture *f, const char *spec, const char *part)
{
    GS_AUTO_FREE char *yaml = gs_format("{apiVersion: networking.k8s.io/v1, kind: Ingress, "
                                        "metadata: {name: i}, spec: {%s}}",
                                        spec);
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test.yaml", &docs));
    kube_create(f->k.client, INGRESSES, "default", docs.items[0].value, call_took, &f->k);
    codec_yaml_docs_finish(&docs);
    assert_int_equal(await(&f->k), 422);
    const char *message = codec_json_str(f->k.body, "message", NULL);
    if (!message || !strstr(message, part))
        fail_msg("no \"%s\" in: %s", part, message ? message : "");
}

static void test_mistakes_are_refused(void **state)
{
    struct fixture *f = *state;
    refuse(f, "", "either `defaultBackend` or `rules` must be specified");
    refuse(f, "rules: [{http: {paths: [{path: x, pathType: Prefix, " BACKEND "}]}}]",
           "spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path");
    refuse(f,
           "rules: [{host: 127.0.0.1, http: {paths: [{path: /, pathType: Prefix, " BACKEND "}]}}]",
           "must be a DNS name, not an IP address");
    refuse(f, "defaultBackend: {service: {name: web}}",
           "spec.defaultBackend.service.port: Required value: port name or number is required");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_requests_reach_the_backend),
        TEST(test_head_reaches_the_backend),
        TEST(test_tricks_do_not_reach_the_backend),
        TEST(test_long_replies_are_streamed),
        TEST(test_a_backend_that_waits_does_not_block_others),
        TEST(test_a_backend_that_does_not_listen),
        TEST(test_a_deleted_ingress_is_not_served),
        TEST(test_websockets_are_passed_on),
        TEST(test_other_upgrades_are_not_passed_on),
        TEST(test_mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
