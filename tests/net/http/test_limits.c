// SPDX-License-Identifier: Apache-2.0
// The server against peers that connect and stay silent, send slowly, leave in the middle of a
// request, or write what RFC 9112 forbids.
#include "patience.h"

#include "base/mem.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "raw_socket.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct tls_pair ca, pair;
    struct http_exchange *held[8];
    size_t n_held;
    int handled;
};

static void turn(struct fixture *f)
{
    uv_run(&f->loop, UV_RUN_NOWAIT);
    usleep(200);
}

#define wait_until(f, condition)                                                                   \
    do {                                                                                           \
        for (int64_t end_ = gs_mono_ns() + WAIT_NS; !(condition); turn(f))                         \
            assert_true(gs_mono_ns() < end_);                                                      \
    } while (0)

static void reply_large_headers(struct http_exchange *x)
{
    GS_AUTO_FREE char *large = gs_alloc(1000001);
    memset(large, 'x', 1000000);
    http_add_header(x, "Too-Large", large);
    large[2000] = '\0';
    for (int i = 0; i < 10; i++)
        http_add_header(x, "Some", large);
    http_add_header(x, "Last", "small");
    http_reply_text(x, 200, "served\n");
}

enum { HUGE_REPLY = 32 * 1024 * 1024 }; // more than the kernel takes for a peer that does not read

static void reply_huge(struct http_exchange *x)
{
    struct gs_buf text = {0};
    GS_AUTO_FREE char *bytes = gs_alloc(HUGE_REPLY);
    gs_buf_add(&text, bytes, HUGE_REPLY);
    struct http_bytes *body = http_bytes_new(&text);
    http_reply_bytes(x, 200, "text/plain", body);
    http_bytes_unref(body);
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->handled++;
    if (strcmp(http_path(x), "/hold") == 0)
        f->held[f->n_held++] = x;
    else if (strcmp(http_path(x), "/large") == 0)
        reply_large_headers(x);
    else if (strcmp(http_path(x), "/huge") == 0)
        reply_huge(x);
    else
        http_reply_text(x, 200, "served %s\n", http_path(x));
}

static struct fixture *setup(bool tls, struct http_server_config cfg)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    cfg.address = "127.0.0.1";
    uv_loop_init(&f->loop);
    if (tls) {
        const struct tls_leaf leaf = {.common_name = "server", .server = 1, .days = 1};
        assert_null(tls_make_ca("test CA", 1, &f->ca));
        assert_null(tls_make_leaf(&f->ca, &leaf, &f->pair));
        cfg.cert_pem = f->pair.cert_pem;
        cfg.key_pem = f->pair.key_pem;
    }
    assert_null(http_server_start(&f->loop, &cfg, handle, f, &f->server));
    return f;
}

static void teardown(struct fixture *f)
{
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->pair);
    free(f);
}

// --- peers ---

static bool is_ended(int fd, struct gs_buf *got)
{
    char block[4096];
    ssize_t n = recv(fd, block, sizeof(block), 0);
    if (n > 0 && got)
        gs_buf_add(got, block, (size_t)n);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static bool has(int fd, struct gs_buf *got, const char *text)
{
    (void)is_ended(fd, got);
    return got->data && strstr(got->data, text);
}

// A request on a connection of its own; the status.
static int request(struct fixture *f, struct gs_slice text)
{
    GS_AUTO_BUF struct gs_buf got = {0};
    int fd = raw_connect(f->server), status = 0;
    assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), text.len);
    wait_until(f, has(fd, &got, "\r\n\r\n"));
    assert_int_equal(sscanf(got.data, "HTTP/1.1 %d", &status), 1);
    close(fd);
    return status;
}

static int get(struct fixture *f, const char *path)
{
    GS_AUTO_FREE char *text =
        gs_format("GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    return request(f, gs_slice_of(text));
}

static ssize_t tls_get(gnutls_session_t session, char *out, size_t size)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int rc = gnutls_handshake(session);
    if (rc == 0)
        rc = (int)gnutls_record_send(session, text, sizeof(text) - 1);
    return rc < 0 ? rc : gnutls_record_recv(session, out, size);
}

struct tls_peer {
    struct fixture *f;
    int fd;
};

static ssize_t pull(gnutls_transport_ptr_t arg, void *out, size_t size)
{
    struct tls_peer *p = arg;
    ssize_t n;
    wait_until(p->f, (n = recv(p->fd, out, size, 0)) >= 0 || errno != EAGAIN);
    return n;
}

static int pull_timeout(gnutls_transport_ptr_t arg, unsigned ms)
{
    (void)arg;
    (void)ms;
    return 1;
}

static ssize_t push(gnutls_transport_ptr_t arg, const void *bytes, size_t size)
{
    return send(((struct tls_peer *)arg)->fd, bytes, size, MSG_NOSIGNAL);
}

static int get_tls(struct fixture *f)
{
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    struct tls_peer peer = {f, raw_connect(f->server)};
    char got[512] = "";
    int status = 0;
    gnutls_init(&session, GNUTLS_CLIENT);
    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_transport_set_ptr(session, &peer);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_pull_timeout_function(session, pull_timeout);
    gnutls_transport_set_push_function(session, push);
    assert_true(tls_get(session, got, sizeof(got) - 1) > 0);
    assert_int_equal(sscanf(got, "HTTP/1.1 %d", &status), 1);
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(peer.fd);
    return status;
}

// Sockets of the server in a state of /proc/net/tcp: 1 ESTABLISHED, 8 CLOSE-WAIT.
static int sockets_in(struct fixture *f, unsigned wanted)
{
    FILE *in = fopen("/proc/net/tcp", "re");
    char line[512];
    unsigned port = 0, state = 0;
    int n = 0;
    assert_non_null(in);
    while (fgets(line, sizeof(line), in))
        n += sscanf(line, " %*u: %*8x:%x %*x:%*x %x", &port, &state) == 2 &&
             port == http_server_port(f->server) && state == wanted;
    fclose(in);
    return n;
}

// --- floods ---

enum { LIMIT = 8, FLOOD = 40 };

static void check_closed_connections(bool tls, const char *beginning)
{
    struct fixture *f = setup(tls, (struct http_server_config){.max_connections = LIMIT});
    for (int i = 0; i < FLOOD; i++) {
        int fd = raw_connect(f->server);
        assert_true(raw_send(fd, beginning));
        close(fd);
        turn(f);
    }
    assert_int_equal(tls ? get_tls(f) : get(f, "/"), 200);
    wait_until(f, sockets_in(f, 8) == 0);
    teardown(f);
}

static void test_peers_that_leave_within_a_head(void **state)
{
    (void)state;
    check_closed_connections(false, "GET / HTTP/1.1\r\nX: ");
}

static void test_peers_that_leave_within_a_body(void **state)
{
    (void)state;
    check_closed_connections(false, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
}

static void test_peers_that_leave_within_a_handshake(void **state)
{
    (void)state;
    check_closed_connections(true, "\x16\x03\x01\x01\x02\x01");
}

static void check_silent_connections(bool tls)
{
    struct fixture *f = setup(tls, (struct http_server_config){.max_connections = LIMIT});
    int fds[FLOOD];
    for (int i = 0; i < FLOOD; i++)
        fds[i] = raw_connect(f->server);
    assert_int_equal(tls ? get_tls(f) : get(f, "/"), 200);
    wait_until(f, sockets_in(f, 1) <= LIMIT);
    assert_true(is_ended(fds[0], NULL)); // the oldest made room
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    wait_until(f, sockets_in(f, 8) == 0);
    teardown(f);
}

static void test_silent_peers(void **state)
{
    (void)state;
    check_silent_connections(false);
}

static void test_silent_peers_tls(void **state)
{
    (void)state;
    check_silent_connections(true);
}

static void test_kept_connections_make_room(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){.max_connections = LIMIT});
    int fds[FLOOD];
    for (int i = 0; i < FLOOD; i++) {
        GS_AUTO_BUF struct gs_buf got = {0};
        fds[i] = raw_connect(f->server);
        assert_true(raw_send(fds[i], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
        wait_until(f, has(fds[i], &got, "served"));
    }
    assert_int_equal(f->handled, FLOOD);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    teardown(f);
}

// --- slow peers ---

static void drip(struct fixture *f, int fd, const char *bytes)
{
    wait_until(f, !raw_send(fd, bytes) || is_ended(fd, NULL));
    close(fd);
    assert_int_equal(get(f, "/"), 200);
    assert_int_equal(f->handled, 1);
    teardown(f);
}

// MHD's timeout starts again with each byte.
static void test_head_has_a_time_limit(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){.head_timeout_s = 1});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "GET / HTTP/1.1\r\nX: "));
    drip(f, fd, "x");
}

static void test_body_has_a_time_limit(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){.body_timeout_s = 1});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"));
    drip(f, fd, "x");
}

// Sends small requests until one gets this reply.
static void post_until(struct fixture *f, const char *reply)
{
    bool done = false;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !done; usleep(1000)) {
        GS_AUTO_BUF struct gs_buf got = {0};
        int fd = raw_connect(f->server);
        assert_true(gs_mono_ns() < end);
        assert_true(raw_send(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
                                 "12345678901234567890"));
        wait_until(f, has(fd, &got, "\r\n\r\n"));
        done = strstr(got.data, reply) != NULL;
        if (done && strstr(reply, "503"))
            assert_non_null(strstr(got.data, "\r\nRetry-After: 1\r\n"));
        close(fd);
    }
}

// Peers that never end their bodies take a limited amount of memory.
static void test_bodies_share_a_limit(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){.max_body = 1000});
    GS_AUTO_FREE char *part = gs_alloc(1000);
    int fds[16];
    memset(part, 'x', 999);
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++) {
        fds[i] = raw_connect(f->server);
        assert_true(raw_send(fds[i], "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"));
        assert_true(raw_send(fds[i], part));
    }
    post_until(f, " 503 ");
    close(fds[0]);
    post_until(f, " 200 ");
    for (size_t i = 1; i < GS_ARRAY_LEN(fds); i++)
        close(fds[i]);
    teardown(f);
}

static void test_handlers_have_no_time_limit(void **state)
{
    (void)state;
    struct fixture *f = setup(
        false,
        (struct http_server_config){.head_timeout_s = 1, .body_timeout_s = 1, .idle_timeout_s = 1});
    GS_AUTO_BUF struct gs_buf got = {0};
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    for (int64_t end = gs_mono_ns() + 2500 * GS_NS_PER_MS; gs_mono_ns() < end;)
        turn(f);
    assert_int_equal(f->n_held, 1);
    http_reply_text(f->held[0], 200, "late");
    wait_until(f, has(fd, &got, "late"));
    close(fd);
    teardown(f);
}

// --- busy connections ---

static void test_probes_are_answered_when_all_are_busy(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){.max_connections = 2});
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = raw_connect(f->server);
        assert_true(raw_send(fds[i], "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    wait_until(f, f->n_held == 2);
    for (int i = 0; i < 200; i++)
        assert_int_equal(get(f, "/metrics"), 503);
    assert_int_equal(get(f, "/healthz"), 200);
    assert_int_equal(get(f, "/livez/ping"), 200);
    assert_int_equal(get(f, "/prefix/-/healthy"), 200);
    assert_int_equal(get(f, "/healthzz"), 503);
    for (int i = 0; i < 2; i++) {
        GS_AUTO_BUF struct gs_buf got = {0};
        http_reply_text(f->held[i], 200, "done %d", i);
        wait_until(f, has(fds[i], &got, "done"));
        close(fds[i]);
    }
    assert_int_equal(get(f, "/metrics"), 200);
    teardown(f);
}

// The end of the peer may come with the request; the reply is sent, then the connection ends.
static void test_half_closed_peer_gets_its_reply(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){0});
    GS_AUTO_BUF struct gs_buf got = {0};
    int fd = raw_connect(f->server);
    assert_true(
        raw_send(fd, "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n"));
    shutdown(fd, SHUT_WR);
    wait_until(f, is_ended(fd, &got));
    assert_non_null(strstr(got.data, "served /a"));
    assert_non_null(strstr(got.data, "served /b"));
    close(fd);
    teardown(f);
}

// --- heads ---

// What does not fit into the memory of a connection would end it without a reply.
static void test_large_headers_of_replies_are_left_out(void **state)
{
    (void)state;
    struct fixture *f = setup(false, (struct http_server_config){0});
    GS_AUTO_BUF struct gs_buf got = {0};
    GS_AUTO_FREE char *padding = gs_alloc(18001);
    memset(padding, 'p', 18000);
    GS_AUTO_FREE char *text =
        gs_format("GET /large HTTP/1.1\r\nHost: x\r\nPadding: %s\r\n\r\n", padding);
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, text));
    wait_until(f, has(fd, &got, "served\n"));
    assert_null(strstr(got.data, "Too-Large"));
    assert_non_null(strstr(got.data, "Some: xxx"));
    assert_non_null(strstr(got.data, "Last: small"));
    close(fd);
    teardown(f);
}

static void test_large_heads(void **state)
{
    (void)state;
    GS_AUTO_FREE char *padding = gs_alloc(100001);
    memset(padding, 'p', 100000);
    for (int size = 1000; size <= 100000; size += 3000) {
        struct fixture *f = setup(false, (struct http_server_config){0});
        GS_AUTO_FREE char *text =
            gs_format("GET / HTTP/1.1\r\nHost: x\r\nA: %.*s\r\n\r\n", size, padding);
        int status = request(f, gs_slice_of(text));
        assert_true(size < 20000 ? status == 200
                                 : status == 431 || (size > 30000 && status == 413));
        teardown(f);
    }
}

static void test_large_heads_with_more_memory(void **state)
{
    (void)state;
    static const int sizes[] = {20000, 100000, 240000, 252000};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    while (parameters.len < 252000)
        gs_buf_add_str(&parameters, "match%5B%5D=a_metric&");
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        struct fixture *f = setup(false, (struct http_server_config){.head_memory = 256 * 1024});
        GS_AUTO_FREE char *text =
            gs_format("GET /?%.*s HTTP/1.1\r\nHost: x\r\n\r\n", sizes[i], parameters.data);
        assert_int_equal(request(f, gs_slice_of(text)), sizes[i] > 250000 ? 431 : 200);
        teardown(f);
    }
}

static void test_forbidden_heads(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 200},
        {"GET / HTTP/1.0\r\n\r\n", 200},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
         200},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\nA b: x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\nA: x\001y\r\n\r\n", 400},
        {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
        {"GET / HTTP/1.1\r\nHost: x\r\nEmpty:\r\nBlank: \r\nA: b \r\n\r\n", 200},
        {"GET / HTTP/1.1\nHost: x\nA: b\n\n", 200},
        {"GET / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\n: y\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: x\r\n:\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: x\n:\nGET /hidden HTTP/1.1\nHost: x\n\n", 400},
        {"GET / HTTP/1.1\r\n: y\r\nHost: x\r\n\r\n", 400},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct fixture *f = setup(false, (struct http_server_config){0});
        int status = request(f, gs_slice_of(cases[i].text));
        // Newer versions of libmicrohttpd refuse some of them in their own way.
        if (status != cases[i].status && (cases[i].status == 200 || status < 300))
            fail_msg("%d instead of %d: %s", status, cases[i].status, cases[i].text);
        assert_int_equal(f->handled, cases[i].status == 200);
        teardown(f);
    }
}

static void test_heads_with_a_nul(void **state)
{
    static const struct gs_slice cases[] = {
        GS_SLICE("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\0002\r\n\r\nab"),
        GS_SLICE("POST / HTTP/1.1\r\nContent-Length: 1\0002\r\nHost: x\r\n\r\nab"),
        GS_SLICE("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\000\r\n\r\nab"),
        GS_SLICE("GET / HTTP/1.1\r\nHost: x\000y\r\nA: b\r\n\r\n"),
        GS_SLICE("GET / HTTP/1.1\r\nHost: x\r\nA\000B: c\r\n\r\n"),
        GS_SLICE("GET /\000 HTTP/1.1\r\nHost: x\r\n\r\n"),
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct fixture *f = setup(false, (struct http_server_config){0});
        int status = request(f, cases[i]);
        if (status != 400 || f->handled)
            fail_msg("case %zu: %d", i, status);
        teardown(f);
    }
    (void)state;
}

// libmicrohttpd reads the chunks of a body less strictly than proxies may, so nothing behind them
// is taken for a request.
static void test_no_request_follows_chunks(void **state)
{
    static const char text[] = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "1\na\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, text));
    wait_until(f, is_ended(fd, NULL));
    assert_in_range(f->handled, 0, 1);
    close(fd);
    teardown(f);
    (void)state;
}

// --- the client ---

static void count_reply(void *arg, const struct http_response *response, struct gs_error *err)
{
    assert_null(err);
    assert_int_equal(response->status, 200);
    ++*(int *)arg;
}

static void ignore_bytes(void *arg, struct gs_slice bytes)
{
    (void)arg, (void)bytes;
}

// Not more than max_requests are under way. Streams and urgent requests are not counted, and a
// cancelled request makes room.
static void test_requests_of_a_client_wait_for_others(void **state)
{
    struct fixture *f = setup(true, (struct http_server_config){0});
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%d", http_server_port(f->server));
    const struct http_client_config cfg = {
        .base_url = url, .insecure = true, .connect_timeout_ms = WAIT_MS, .max_requests = 2};
    static const struct http_request hold = {.path = "/hold", .timeout_ms = WAIT_MS},
                                     stream = {.path = "/hold", .timeout_ms = HTTP_NO_TIMEOUT},
                                     urgent = {
                                         .path = "/hold", .timeout_ms = WAIT_MS, .urgent = true};
    const struct http_callbacks cb = {.on_done = count_reply},
                                watch_cb = {.on_data = ignore_bytes, .on_done = count_reply};
    struct http_client *client;
    struct http_op *ops[5];
    int replies = 0;
    assert_null(http_client_new_curl(&f->loop, &cfg, &client));
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        ops[i] = http_send(client, &hold, &cb, &replies);
    wait_until(f, f->n_held == 2);
    (void)http_send(client, &stream, &cb, &replies);
    (void)http_send(client, &hold, &watch_cb, &replies); // streams may have a timeout
    (void)http_send(client, &urgent, &cb, &replies);
    wait_until(f, f->n_held == 5);
    for (int i = 0; i < 200; i++)
        turn(f);
    assert_int_equal(f->n_held, 5);
    http_op_cancel(ops[4]); // waits
    http_op_cancel(ops[1]); // is under way
    wait_until(f, f->n_held == 6);
    for (size_t i = 0; i < f->n_held; i++)
        if (f->held[i])
            http_reply_text(f->held[i], 200, "at last\n");
    wait_until(f, f->n_held == 7);
    http_reply_text(f->held[6], 200, "at last\n");
    wait_until(f, replies == 6);
    // Requests that wait end with the client.
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        (void)http_send(client, &hold, &cb, &replies);
    http_client_free(client);
    teardown(f);
    (void)state;
}

// Peers that do not read cannot make the server keep more than a limit.
static void test_unread_replies_share_a_limit(void **state)
{
    static const char text[] = "GET /huge HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct fixture *f = setup(false, (struct http_server_config){.max_unsent = HUGE_REPLY * 3 / 2});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, text));
    wait_until(f, f->handled == 1);
    assert_int_equal(get(f, "/huge"), 503);
    assert_int_equal(get(f, "/small"), 200);
    wait_until(f, is_ended(fd, NULL)); // reads all of it
    close(fd);
    wait_until(f, get(f, "/huge") == 200);
    teardown(f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peers_that_leave_within_a_head),
        cmocka_unit_test(test_peers_that_leave_within_a_body),
        cmocka_unit_test(test_peers_that_leave_within_a_handshake),
        cmocka_unit_test(test_silent_peers),
        cmocka_unit_test(test_silent_peers_tls),
        cmocka_unit_test(test_kept_connections_make_room),
        cmocka_unit_test(test_head_has_a_time_limit),
        cmocka_unit_test(test_body_has_a_time_limit),
        cmocka_unit_test(test_bodies_share_a_limit),
        cmocka_unit_test(test_handlers_have_no_time_limit),
        cmocka_unit_test(test_probes_are_answered_when_all_are_busy),
        cmocka_unit_test(test_half_closed_peer_gets_its_reply),
        cmocka_unit_test(test_large_headers_of_replies_are_left_out),
        cmocka_unit_test(test_large_heads),
        cmocka_unit_test(test_large_heads_with_more_memory),
        cmocka_unit_test(test_forbidden_heads),
        cmocka_unit_test(test_heads_with_a_nul),
        cmocka_unit_test(test_no_request_follows_chunks),
        cmocka_unit_test(test_unread_replies_share_a_limit),
        cmocka_unit_test(test_requests_of_a_client_wait_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
