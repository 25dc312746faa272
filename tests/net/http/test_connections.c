// SPDX-License-Identifier: Apache-2.0
// Which connections the libcurl client opens, keeps and gives up.
#include "net/http/client.h"

#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "patience.h"
#include "unit.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_PEERS = 512, MAX_HELD = 64, MAX_FD = 1024 };

struct fixture {
    uv_loop_t loop;
    struct http_server_config cfg;
    struct http_server *server;
    struct http_client *client;
    struct tls_pair ca, leaf;
    char *peers[MAX_PEERS]; // address of each connection that has sent a request
    size_t n_peers;
    struct http_exchange *held[MAX_HELD]; // requests for /hold
    size_t n_held;
    int replies, n_handled;
    char *error; // the first
};

static void count_peer(struct fixture *f, const char *peer)
{
    for (size_t i = 0; i < f->n_peers; i++)
        if (strcmp(f->peers[i], peer) == 0)
            return;
    assert_in_range(f->n_peers, 0, MAX_PEERS - 1);
    f->peers[f->n_peers++] = gs_strdup(peer);
}

static void serve(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    count_peer(f, http_peer(x));
    f->n_handled++;
    if (strcmp(http_path(x), "/hold") != 0) {
        http_reply_text(x, 200, "ok");
        return;
    }
    assert_in_range(f->n_held, 0, MAX_HELD - 1);
    f->held[f->n_held++] = x;
}

static void start_server(struct fixture *f, uint16_t port)
{
    const struct http_server_config cfg = {.address = "127.0.0.1",
                                           .port = port,
                                           .cert_pem = f->leaf.cert_pem,
                                           .key_pem = f->leaf.key_pem};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
}

static struct fixture *setup(struct http_client_config cfg)
{
    static const char *const addresses[] = {"127.0.0.1"};
    const struct tls_leaf want = {
        .common_name = "s", .ip_addresses = addresses, .n_ip_addresses = 1, .server = 1, .days = 1};
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    assert_ok(tls_make_ca("ca", 1, &f->ca));
    assert_ok(tls_make_leaf(&f->ca, &want, &f->leaf));
    start_server(f, 0);
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%u", http_server_port(f->server));
    cfg.base_url = url;
    cfg.ca_pem = f->ca.cert_pem;
    cfg.connect_timeout_ms = WAIT_MS;
    assert_ok(http_client_new_curl(&f->loop, &cfg, &f->client));
    return f;
}

static void teardown(struct fixture *f)
{
    http_client_free(f->client);
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    for (size_t i = 0; i < f->n_peers; i++)
        free(f->peers[i]);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->leaf);
    free(f->error);
    free(f);
}

#define wait_until(f, condition)                                                                   \
    do {                                                                                           \
        for (int64_t end_ = gs_mono_ns() + WAIT_NS; !(condition); usleep(200)) {                   \
            uv_run(&(f)->loop, UV_RUN_NOWAIT);                                                     \
            assert_true(gs_mono_ns() < end_);                                                      \
        }                                                                                          \
    } while (0)

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    f->replies++;
    if (!f->error && err)
        f->error = gs_strdup(gs_error_message(err));
    else if (!f->error && response->status != 200)
        f->error = gs_format("status %d", response->status);
    gs_error_free(err);
}

static void on_data(void *arg, struct gs_slice bytes)
{
    (void)arg, (void)bytes;
}

static void request(struct fixture *f, const char *method, const char *path)
{
    static const struct http_callbacks cb = {.on_done = on_done};
    const struct http_request sent = {.method = method, .path = path, .timeout_ms = WAIT_MS};
    http_send(f->client, &sent, &cb, f);
}

static void release(struct fixture *f)
{
    for (size_t i = 0; i < f->n_held; i++)
        http_reply_text(f->held[i], 200, "at last");
    f->n_held = 0;
}

// Sends n requests that are in progress at the same time.
static void send_together(struct fixture *f, size_t n)
{
    f->replies = 0;
    for (size_t i = 0; i < n; i++)
        request(f, "GET", "/hold");
    wait_until(f, f->n_held == n);
    release(f);
    wait_until(f, f->replies == (int)n);
}

// libcurl closed each connection after its request while others used as many as may be idle. An
// autoscaler with 64 requests in progress and two watches opened a connection for most requests.
static void test_busy_connections_do_not_count_as_idle(void **state)
{
    enum { N = 4, STREAMS = 6 };
    static const struct http_request stream = {.path = "/hold", .timeout_ms = HTTP_NO_TIMEOUT};
    static const struct http_callbacks stream_cb = {.on_data = on_data, .on_done = on_done};
    struct fixture *f =
        setup((struct http_client_config){.idle_connections = N, .max_requests = N});
    for (int i = 0; i < STREAMS; i++)
        http_send(f->client, &stream, &stream_cb, f);
    wait_until(f, f->n_held == STREAMS);
    struct http_exchange *streams[STREAMS];
    memcpy(streams, f->held, sizeof(streams));
    f->n_held = 0;
    for (int i = 0; i < 10; i++)
        send_together(f, N);
    assert_int_equal(f->n_peers, STREAMS + N);
    f->replies = 0;
    for (int i = 0; i < 10 * N; i++)
        request(f, "PUT", "/");
    wait_until(f, f->replies == 10 * N);
    assert_int_equal(f->n_peers, STREAMS + N);
    for (int i = 0; i < STREAMS; i++)
        http_reply_text(streams[i], 200, "at last");
    wait_until(f, f->replies == 10 * N + STREAMS);
    assert_null(f->error);
    teardown(f);
}

static void test_idle_connections_have_a_limit(void **state)
{
    enum { N = 8, IDLE = 2 };
    struct fixture *f = setup((struct http_client_config){.idle_connections = IDLE});
    for (int round = 1; round <= 2; round++) {
        f->replies = 0;
        for (int i = 0; i < N; i++)
            request(f, "GET", "/hold");
        wait_until(f, f->n_held == N);
        assert_int_equal(f->n_peers, round * (N - IDLE) + IDLE);
        for (int i = 0; i < N; i++) {
            http_reply_text(f->held[i], 200, "at last");
            wait_until(f, f->replies == i + 1);
        }
        f->n_held = 0;
    }
    assert_null(f->error);
    teardown(f);
}

// Returns whether this is the client's end of a connection to this port.
static bool is_connection(int fd, uint16_t port)
{
    struct sockaddr_in sa = {0};
    socklen_t len = sizeof(sa);
    return getpeername(fd, (struct sockaddr *)&sa, &len) == 0 && sa.sin_family == AF_INET &&
           ntohs(sa.sin_port) == port;
}

// Returns the number of connections that the server has closed.
static int n_closed(uint16_t port)
{
    int n = 0;
    for (int fd = 0; fd < MAX_FD; fd++) {
        struct pollfd p = {.fd = fd, .events = POLLRDHUP};
        n += is_connection(fd, port) && poll(&p, 1, 0) > 0;
    }
    return n;
}

// The server has closed more kept connections than libcurl tries. It gets each request once.
static void test_requests_after_a_restart(void **state)
{
    static const char *const methods[] = {"GET", "PUT", "DELETE", "PATCH", "POST"};
    enum { N = 20 };
    struct fixture *f = setup((struct http_client_config){0});
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        send_together(f, N);
        uint16_t port = http_server_port(f->server);
        http_server_stop(GS_TAKE(f->server));
        wait_until(f, n_closed(port) == N);
        start_server(f, port);
        f->replies = f->n_handled = 0;
        for (int k = 0; k < N; k++)
            request(f, methods[i], "/");
        wait_until(f, f->replies == N);
        if (f->error)
            fail_msg("%s: %s", methods[i], f->error);
        assert_int_equal(f->n_handled, N);
    }
    teardown(f);
}

static int option_of(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
    return value;
}

// A watch of a server that disappeared ends within two minutes, not after ten.
static void test_silent_servers_are_probed(void **state)
{
    struct fixture *f = setup((struct http_client_config){0});
    int n = 0;
    send_together(f, 2);
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (!is_connection(fd, http_server_port(f->server)))
            continue;
        n++;
        assert_in_range(option_of(fd, TCP_KEEPIDLE) + 9 * option_of(fd, TCP_KEEPINTVL), 1, 120);
    }
    assert_int_equal(n, 2);
    teardown(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy_connections_do_not_count_as_idle),
        cmocka_unit_test(test_idle_connections_have_a_limit),
        cmocka_unit_test(test_requests_after_a_restart),
        cmocka_unit_test(test_silent_servers_are_probed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
