// SPDX-License-Identifier: Apache-2.0
// The TLS server and the libcurl client against each other, and the server against raw sockets.
#include "patience.h"

#include "base/mem.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "raw_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEAST_TURNS = 20 };

enum { MANY_STREAMS = 32 };

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct http_client *client;
    struct http_exchange *held;
    struct http_stream *stream;
    struct http_stream *streams[MANY_STREAMS]; // of /streams; NULL once closed
    int n_streams;
    int handled, aborted, closed, done;
    struct tls_pair ca, other_ca, server_pair, client_pair, stranger;
    bool stop_in_handler;
    struct http_bytes *page; // of /page: "head" and a large text of the letter that was asked for
};

struct result {
    struct fixture *f;
    struct http_op *op;
    int done, status;
    struct gs_buf body, data;
    enum gs_code code;
    char *message;
    bool cancel_on_data, free_client_on_data;
};

// --- the loop ---

static bool run_until(struct fixture *f, bool (*condition)(void *arg), void *arg)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!condition(arg)) {
        if (gs_mono_ns() > end)
            return false;
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(200);
    }
    return true;
}

static bool is_set(void *flag)
{
    return *(int *)flag != 0;
}

// There are some turns also where the machine stands still the whole time.
static void run_ms(struct fixture *f, int ms)
{
    int64_t end = gs_mono_ns() + ms * GS_NS_PER_MS;
    for (int turns = 0; turns < LEAST_TURNS || gs_mono_ns() < end; turns++) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(200);
    }
}

#define wait_for(f, flag) assert_true(run_until((f), is_set, &(flag)))

#define wait_until(f, condition)                                                                   \
    do {                                                                                           \
        for (int64_t end_ = gs_mono_ns() + WAIT_NS; !(condition); run_ms((f), 1))                  \
            assert_true(gs_mono_ns() < end_);                                                      \
    } while (0)

// --- handlers ---

static void on_abort(void *arg)
{
    struct fixture *f = arg;
    f->aborted++;
    f->held = NULL;
}

static void on_one_closed(void *arg)
{
    *(struct http_stream **)arg = NULL;
}

static void on_close(void *arg)
{
    struct fixture *f = arg;
    f->closed++;
    f->stream = NULL;
}

static void reply_echo(struct http_exchange *x)
{
    const struct http_identity *id = http_identity(x);
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_addf(&b, "%s %s user=%s groups=", http_method(x), http_path(x),
                id->user ? id->user : "-");
    for (size_t i = 0; i < id->n_groups; i++)
        gs_buf_addf(&b, "%s%s", i ? "," : "", id->groups[i]);
    const char *name, *value;
    for (size_t i = 0; (value = http_query_nth(x, i, &name)); i++)
        gs_buf_addf(&b, " %s=%s", name, value);
    gs_buf_addf(&b, " body=%zu:", http_body(x).len);
    if (http_body(x).len < 100)
        gs_buf_add_slice(&b, http_body(x));
    http_add_header(x, "X-Extra", "extra");
    http_reply(x, 200, "text/plain", gs_buf_slice(&b));
}

enum { PAGE_LEN = 6000000 }; // more than fits into a socket that nobody reads

static void reply_page(struct fixture *f, struct http_exchange *x)
{
    struct gs_buf *text = http_bytes_edit(&f->page, strlen("head"));
    char *at = gs_buf_room(text, PAGE_LEN);
    memset(at, *http_query(x, "of"), PAGE_LEN);
    at[PAGE_LEN] = '\0';
    text->len += PAGE_LEN;
    http_reply_bytes(x, 200, "text/plain", f->page);
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *path = http_path(x);
    f->handled++;
    if (f->stop_in_handler)
        http_server_stop(GS_TAKE(f->server));
    if (strcmp(path, "/hold") == 0) {
        f->held = x;
        http_on_abort(x, on_abort, f);
    } else if (strcmp(path, "/release") == 0) {
        http_reply_text(f->held, 200, "released");
        reply_echo(x);
    } else if (strcmp(path, "/stream") == 0) {
        f->stream = http_reply_stream(x, 200, "application/json", on_close, f);
        http_stream_write(f->stream, GS_SLICE("first "));
    } else if (strcmp(path, "/streams") == 0) {
        struct http_stream **place = &f->streams[f->n_streams++];
        *place = http_reply_stream(x, 200, "application/json", on_one_closed, place);
    } else if (strcmp(path, "/peer") == 0) {
        http_reply_text(x, 200, "%s", http_peer(x));
    } else if (strcmp(path, "/empty") == 0) {
        http_reply(x, 204, NULL, (struct gs_slice){0});
    } else if (strcmp(path, "/redirect") == 0) {
        http_add_header(x, "Location", "/elsewhere");
        http_reply_text(x, 302, "go away");
    } else if (strcmp(path, "/big") == 0) {
        GS_AUTO_FREE char *big = gs_alloc(3000000);
        memset(big, 'b', 3000000);
        http_reply(x, 200, "text/plain", gs_slice_make(big, 3000000));
    } else if (strcmp(path, "/page") == 0) {
        reply_page(f, x);
    } else {
        reply_echo(x);
    }
}

// --- fixture ---

static void make_certificates(struct fixture *f)
{
    const char *dns[] = {"localhost"}, *ip[] = {"127.0.0.1", "::1"};
    const char *groups[] = {"system:masters", "devs"};
    struct tls_leaf server = {.common_name = "server",
                              .dns_names = dns,
                              .n_dns_names = 1,
                              .ip_addresses = ip,
                              .n_ip_addresses = 2,
                              .server = 1,
                              .days = 2};
    struct tls_leaf client = {
        .common_name = "alice", .organizations = groups, .n_organizations = 2, .days = 2};
    assert_null(tls_make_ca("test CA", 10, &f->ca));
    assert_null(tls_make_ca("other CA", 10, &f->other_ca));
    assert_null(tls_make_leaf(&f->ca, &server, &f->server_pair));
    assert_null(tls_make_leaf(&f->ca, &client, &f->client_pair));
    assert_null(tls_make_leaf(&f->other_ca, &client, &f->stranger));
}

static struct fixture *setup(bool tls, struct http_server_config cfg)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    cfg.address = "127.0.0.1";
    if (tls) {
        make_certificates(f);
        cfg.cert_pem = f->server_pair.cert_pem;
        cfg.key_pem = f->server_pair.key_pem;
        cfg.client_ca_pem = f->ca.cert_pem;
    }
    assert_null(http_server_start(&f->loop, &cfg, handle, f, &f->server));
    assert_int_not_equal(http_server_port(f->server), 0);
    return f;
}

static struct http_client *client_for(struct fixture *f, bool tls, struct http_client_config cfg)
{
    GS_AUTO_FREE char *url =
        gs_format("http%s://127.0.0.1:%u", tls ? "s" : "", http_server_port(f->server));
    struct http_client *c = NULL;
    cfg.base_url = url;
    cfg.connect_timeout_ms = WAIT_MS;
    assert_null(http_client_new_curl(&f->loop, &cfg, &c));
    return c;
}

static void teardown(struct fixture *f)
{
    http_client_free(f->client);
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    struct tls_pair *pairs[] = {&f->ca, &f->other_ca, &f->server_pair, &f->client_pair,
                                &f->stranger};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++)
        tls_pair_finish(pairs[i]);
    free(f);
}

// --- calls ---

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct result *r = arg;
    r->done++;
    r->f->done++;
    r->status = response->status;
    gs_buf_add_slice(&r->body, response->body);
    if (err) {
        r->code = gs_error_code(err);
        r->message = gs_strdup(gs_error_message(err));
        gs_error_free(err);
    }
}

static void on_data(void *arg, struct gs_slice bytes)
{
    struct result *r = arg;
    gs_buf_add_slice(&r->data, bytes);
    if (r->cancel_on_data)
        http_op_cancel(r->op);
    if (r->free_client_on_data)
        http_client_free(GS_TAKE(r->f->client));
}

static const struct http_callbacks collect = {.on_done = on_done};
static const struct http_callbacks streaming = {.on_data = on_data, .on_done = on_done};

static struct result *start(struct fixture *f, struct http_client *c, struct http_request request,
                            const struct http_callbacks *cb)
{
    struct result *r = gs_alloc(sizeof(*r));
    r->f = f;
    request.timeout_ms = request.timeout_ms ? request.timeout_ms : WAIT_MS;
    r->op = http_send(c, &request, cb, r);
    return r;
}

static struct result *fetch(struct fixture *f, struct http_client *c, struct http_request request)
{
    struct result *r = start(f, c, request, &collect);
    wait_for(f, r->done);
    return r;
}

static void drop(struct result *r)
{
    gs_buf_finish(&r->body);
    gs_buf_finish(&r->data);
    free(r->message);
    free(r);
}

// --- raw sockets ---

struct raw_wait {
    int fd;
    const char *text; // NULL: the end of the connection
    struct gs_buf *got;
    bool ended;
};

static bool raw_has(void *arg)
{
    struct raw_wait *w = arg;
    char block[65536];
    ssize_t n = recv(w->fd, block, sizeof(block), 0);
    if (n > 0)
        gs_buf_add(w->got, block, (size_t)n);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        w->ended = true;
    return w->text ? w->got->data && strstr(w->got->data, w->text) : w->ended;
}

static bool raw_expect(struct fixture *f, int fd, const char *text, struct gs_buf *got)
{
    struct raw_wait w = {fd, text, got, false};
    return run_until(f, raw_has, &w);
}

// --- tests ---

static void test_plain_requests(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *r = fetch(f, f->client, (struct http_request){.path = "/a%2Fb?x=1+2&y=%26"});
    assert_int_equal(r->status, 200);
    assert_string_equal(r->body.data, "GET /a%2Fb user=- groups= x=1 2 y=& body=0:");
    drop(r);
    r = fetch(f, f->client,
              (struct http_request){.method = "PATCH", .path = "/p", .body = GS_SLICE("{}")});
    assert_string_equal(r->body.data, "PATCH /p user=- groups= body=2:{}");
    drop(r);
    r = fetch(f, f->client, (struct http_request){.method = "DELETE", .path = "/p"});
    assert_string_equal(r->body.data, "DELETE /p user=- groups= body=0:");
    drop(r);
    r = fetch(f, f->client, (struct http_request){.path = "/empty"});
    assert_int_equal(r->status, 204);
    drop(r);
    r = fetch(f, f->client, (struct http_request){.path = "/redirect"});
    assert_int_equal(r->status, 302); // not followed
    drop(r);
    r = fetch(f, f->client, (struct http_request){.path = "/big"});
    assert_int_equal(r->body.len, 3000000);
    drop(r);
    int handled = f->handled;
    r = fetch(f, f->client, (struct http_request){.path = "/?a=%zz"});
    assert_int_equal(r->status, 400);
    assert_int_equal(f->handled, handled);
    drop(r);
    r = fetch(f, f->client, (struct http_request){.method = "HEAD", .path = "/big"});
    assert_int_equal(r->status, 200);
    assert_int_equal(r->body.len, 0);
    drop(r);
    teardown(f);
}

static void test_client_limits_and_errors(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *r =
        fetch(f, f->client, (struct http_request){.path = "/big", .max_reply = 100000});
    assert_int_equal(r->status, 0);
    assert_int_equal(r->code, GS_ELIMIT);
    assert_non_null(strstr(r->message, "/big: the reply is larger than the limit of 100000"));
    drop(r);
    r = fetch(f, f->client, (struct http_request){.path = "/hold", .timeout_ms = 50});
    assert_int_equal(r->code, GS_ETIMEOUT);
    wait_for(f, f->aborted); // and the handler hears of it
    drop(r);
    struct http_header injected[] = {{"X-A", "b\r\nX-C: d"}, {NULL, NULL}};
    int handled = f->handled;
    r = start(f, f->client, (struct http_request){.path = "/", .headers = injected}, &collect);
    assert_int_equal(r->done, 0);
    wait_for(f, r->done);
    assert_int_equal(r->code, GS_EINVAL);
    assert_int_equal(f->handled, handled);
    drop(r);
    uint16_t port = http_server_port(f->server);
    http_server_stop(GS_TAKE(f->server));
    run_ms(f, 20);
    r = fetch(f, f->client, (struct http_request){.path = "/"});
    assert_int_equal(r->code, GS_EUNAVAIL);
    GS_AUTO_FREE char *url = gs_format("GET http://127.0.0.1:%u/: ", port);
    assert_non_null(strstr(r->message, url));
    drop(r);
    teardown(f);
}

static void test_connection_is_reused(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    setenv("http_proxy", "http://127.0.0.1:1", 1); // not for this machine itself
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *a = fetch(f, f->client, (struct http_request){.path = "/peer"});
    struct result *b = fetch(f, f->client, (struct http_request){.path = "/peer"});
    assert_int_equal(a->status, 200);
    assert_true(gs_starts(a->body.data, "127.0.0.1:"));
    assert_string_equal(a->body.data, b->body.data);
    drop(a);
    drop(b);
    // With on_data, the body of an error is collected all the same.
    a = start(f, f->client, (struct http_request){.path = "/redirect"}, &streaming);
    wait_for(f, a->done);
    assert_int_equal(a->data.len, 0);
    assert_string_equal(a->body.data, "go away");
    drop(a);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    teardown(f);
}

// The server closed more kept connections than libcurl tries.
static void test_closed_connections_are_noticed(void **state)
{
    enum { N = 20 };
    struct fixture *f = setup(true, (struct http_server_config){0});
    f->client = client_for(f, true, (struct http_client_config){.ca_pem = f->ca.cert_pem});
    struct result *r[N];
    for (int i = 0; i < N; i++)
        r[i] = start(f, f->client, (struct http_request){.path = "/peer"}, &collect);
    for (int i = 0; i < N; i++) {
        wait_for(f, r[i]->done);
        assert_int_equal(r[i]->status, 200);
        drop(r[i]);
    }
    const struct http_server_config again = {.address = "127.0.0.1",
                                             .port = http_server_port(f->server),
                                             .cert_pem = f->server_pair.cert_pem,
                                             .key_pem = f->server_pair.key_pem,
                                             .client_ca_pem = f->ca.cert_pem};
    http_server_stop(GS_TAKE(f->server));
    assert_null(http_server_start(&f->loop, &again, handle, f, &f->server));
    struct result *after = fetch(f, f->client, (struct http_request){.path = "/peer"});
    assert_null(after->message);
    assert_int_equal(after->status, 200);
    drop(after);
    after = fetch(f, f->client, (struct http_request){.path = "/peer"});
    assert_int_equal(after->status, 200);
    drop(after);
    teardown(f);
}

static void test_unix_socket_client(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    char dir[] = "/tmp/gs-http-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/sock", dir);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(listener, 1), 0);
    struct http_client_config cfg = {.base_url = "http://docker", .unix_socket = sa.sun_path};
    assert_null(http_client_new_curl(&f->loop, &cfg, &f->client));
    struct result *r = start(f, f->client, (struct http_request){.path = "/v1"}, &collect);
    int fd = -1;
    fcntl(listener, F_SETFL, O_NONBLOCK);
    wait_until(f, (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0);
    GS_AUTO_BUF struct gs_buf got = {0};
    assert_true(raw_expect(f, fd, "GET /v1 HTTP/1.1\r\nHost: docker\r\n", &got));
    assert_true(raw_send(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    wait_for(f, r->done);
    assert_string_equal(r->body.data, "ok");
    drop(r);
    close(fd);
    close(listener);
    unlink(sa.sun_path);
    rmdir(dir);
    teardown(f);
}

static void test_body_limits(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){.max_body = 1000});
    f->client = client_for(f, false, (struct http_client_config){0});
    GS_AUTO_FREE char *body = gs_alloc(2000);
    memset(body, 'x', 2000);
    struct result *r = fetch(
        f, f->client,
        (struct http_request){.method = "POST", .path = "/", .body = gs_slice_make(body, 1000)});
    assert_int_equal(r->status, 200);
    drop(r);
    r = fetch(
        f, f->client,
        (struct http_request){.method = "POST", .path = "/", .body = gs_slice_make(body, 1001)});
    assert_int_equal(r->status, 413);
    assert_non_null(strstr(r->body.data, "limit of 1000 bytes"));
    assert_int_equal(f->handled, 1);
    drop(r);

    int fd = raw_connect(f->server); // chunked: the length is not known before
    GS_AUTO_BUF struct gs_buf got = {0};
    assert_true(raw_send(fd, "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 3; i++) {
        assert_true(raw_send(fd, "1f4\r\n"));
        assert_int_equal(send(fd, body, 500, 0), 500);
        assert_true(raw_send(fd, "\r\n"));
    }
    assert_true(raw_send(fd, "0\r\n\r\n"));
    assert_true(raw_expect(f, fd, "limit of 1000 bytes", &got));
    assert_non_null(strstr(got.data, "HTTP/1.1 413"));
    close(fd);

    fd = raw_connect(f->server); // without end: cut
    gs_buf_clear(&got);
    assert_true(raw_send(fd, "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"));
    struct raw_wait w = {fd, NULL, &got, false};
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!raw_has(&w) && gs_mono_ns() < end) {
        char chunk[600];
        int n = snprintf(chunk, sizeof(chunk), "1f4\r\n%.500s\r\n", body);
        send(fd, chunk, (size_t)n, MSG_NOSIGNAL);
        run_ms(f, 1);
    }
    assert_true(w.ended);
    assert_int_equal(f->handled, 1);
    close(fd);
    teardown(f);
}

static void test_protocol_details(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fd = raw_connect(f->server);
    GS_AUTO_BUF struct gs_buf got = {0};
    assert_true(raw_send(
        fd, "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
    assert_true(raw_expect(f, fd, "HTTP/1.1 100 Continue\r\n\r\n", &got));
    assert_int_equal(f->handled, 0);
    assert_true(raw_send(fd, "abc"));
    assert_true(raw_expect(f, fd, "body=3:abc", &got));
    gs_buf_clear(&got);
    assert_true(raw_send(fd, "HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n")); // same connection
    assert_true(raw_expect(f, fd, "\r\n\r\n", &got));
    assert_non_null(strstr(got.data, "Content-Length: 29"));
    assert_non_null(strstr(got.data, "X-Extra: extra"));
    gs_buf_clear(&got);
    assert_true(
        raw_send(fd, "GET http://x/abs?q=1 HTTP/1.1\r\nHost: x\r\n\r\n"
                     "GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); // pipelined
    assert_true(raw_expect(f, fd, "GET /second", &got));
    assert_non_null(strstr(got.data, "GET /abs user=- groups= q=1"));
    assert_null(strstr(got.data, "GET /h")); // the body of the HEAD reply
    assert_true(raw_expect(f, fd, NULL, &got));
    close(fd);

    fd = raw_connect(f->server);
    gs_buf_clear(&got);
    assert_true(raw_send(fd, "GARBAGE\r\n\r\n"));
    assert_true(raw_expect(f, fd, NULL, &got));
    close(fd);
    teardown(f);
}

static void test_late_answer_and_stream(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){.idle_timeout_s = 1});
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *hold = start(f, f->client, (struct http_request){.path = "/hold"}, &collect);
    struct result *r =
        start(f, f->client, (struct http_request){.path = "/stream", .timeout_ms = HTTP_NO_TIMEOUT},
              &streaming);
    wait_until(f, f->held && r->data.len);
    assert_string_equal(r->data.data, "first ");
    run_ms(f, 2500); // longer than the idle timeout
    assert_int_equal(r->done + hold->done + f->aborted + f->closed, 0);
    http_stream_write(f->stream, GS_SLICE("second "));
    wait_until(f, r->data.len >= 13);
    assert_string_equal(r->data.data, "first second ");
    http_reply_text(f->held, 200, "at last");
    wait_for(f, hold->done);
    assert_string_equal(hold->body.data, "at last");
    assert_int_equal(f->aborted, 0);
    http_stream_write(f->stream, GS_SLICE("third"));
    http_stream_end(f->stream);
    assert_int_equal(f->closed, 0);
    wait_for(f, r->done);
    wait_for(f, f->closed);
    assert_int_equal(f->closed, 1);
    assert_int_equal(r->status, 200);
    assert_string_equal(r->data.data, "first second third");
    drop(r);
    drop(hold);
    teardown(f);
}

static void check_disconnects(bool tls)
{
    struct fixture *f = setup(tls, (struct http_server_config){0});
    f->client = client_for(f, tls, (struct http_client_config){.ca_pem = f->ca.cert_pem});
    struct result *r = start(f, f->client, (struct http_request){.path = "/stream"}, &streaming);
    wait_until(f, r->data.len);
    assert_non_null(f->stream);
    run_ms(f, 50);
    http_op_cancel(r->op);
    wait_for(f, f->closed);
    assert_int_equal(r->done, 0);
    drop(r);

    r = start(f, f->client, (struct http_request){.path = "/hold"}, &collect);
    wait_until(f, f->held);
    http_op_cancel(r->op);
    wait_for(f, f->aborted);
    drop(r);

    r = start(f, f->client, (struct http_request){.path = "/stream"}, &streaming);
    r->cancel_on_data = true;
    f->closed = 0;
    wait_for(f, f->closed);
    assert_string_equal(r->data.data, "first ");
    assert_int_equal(r->done, 0);
    drop(r);

    r = start(f, f->client, (struct http_request){.path = "/stream"}, &streaming);
    r->free_client_on_data = true;
    f->closed = 0;
    wait_for(f, f->closed);
    assert_null(f->client);
    assert_int_equal(r->done, 0);
    drop(r);
    assert_int_equal(f->closed, 1);
    assert_int_equal(f->aborted, 1);
    teardown(f);
}

static void test_disconnects(void **state)
{
    check_disconnects(false);
}

static void test_disconnects_tls(void **state)
{
    check_disconnects(true);
}

static void test_slow_stream_reader_is_cut(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
    wait_until(f, f->stream);
    GS_AUTO_FREE char *block = gs_alloc(256 * 1024);
    memset(block, 's', 256 * 1024);
    for (int i = 0; i < 200 && f->stream; i++) { // 50 MB into a socket nobody reads
        http_stream_write(f->stream, gs_slice_make(block, 256 * 1024));
        run_ms(f, 1);
    }
    wait_for(f, f->closed);
    assert_int_equal(f->closed, 1);
    close(fd);
    teardown(f);
}

// Writes until this many bytes wait: the kernel takes some megabytes.
static void fill_stream(struct fixture *f, int i, size_t bytes)
{
    GS_AUTO_FREE char *block = gs_alloc(bytes);
    memset(block, 's', bytes);
    for (int64_t end = gs_mono_ns() + WAIT_NS; f->streams[i]; run_ms(f, 5)) {
        size_t pending = http_stream_pending(f->streams[i]);
        assert_true(gs_mono_ns() < end);
        if (pending > bytes - 64 * 1024)
            return;
        http_stream_write(f->streams[i], gs_slice_make(block, bytes - pending));
    }
}

// Each of them is below the limit of one stream.
static void test_slow_stream_readers_have_a_common_limit(void **state)
{
    enum { SMALL = 1024 * 1024, LARGE = 3 * 1024 * 1024, LIMIT = 64 * 1024 * 1024 };
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fds[MANY_STREAMS];
    for (int i = 0; i < MANY_STREAMS; i++) {
        fds[i] = raw_connect(f->server);
        assert_true(raw_send(fds[i], "GET /streams HTTP/1.1\r\nHost: x\r\n\r\n"));
        wait_until(f, f->n_streams == i + 1);
        fill_stream(f, i, i == 0 ? SMALL : LARGE);
    }
    size_t waiting = 0;
    int open = 0;
    run_ms(f, 50);
    for (int i = 0; i < MANY_STREAMS; i++) {
        waiting += f->streams[i] ? http_stream_pending(f->streams[i]) : 0;
        open += f->streams[i] != NULL;
        close(fds[i]);
    }
    assert_non_null(f->streams[0]); // those with the most bytes are cut
    assert_true(waiting <= LIMIT);
    assert_true(open < MANY_STREAMS && open > LIMIT / LARGE / 2);
    teardown(f);
}

static void test_stream_without_a_reader_is_closed_after_its_time(void **state)
{
    enum { MANY = 1024 * 1024 }; // bytes, less than the limit of a stream
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"));
    wait_until(f, f->stream);
    http_stream_limit_stall(f->stream, 1000);
    GS_AUTO_FREE char *block = gs_alloc(MANY);
    memset(block, 's', MANY);
    for (int64_t end = gs_mono_ns() + WAIT_NS; f->stream;) {
        assert_true(gs_mono_ns() < end);
        if (http_stream_pending(f->stream) < MANY) // the kernel takes some megabytes
            http_stream_write(f->stream, gs_slice_make(block, MANY));
        run_ms(f, 10);
    }
    assert_int_equal(f->closed, 1);
    close(fd);
    teardown(f);
}

// While a reply is on its way, what it shares is not written over.
static void test_shared_body_is_copied_for_a_change(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    GS_AUTO_BUF struct gs_buf slow = {0}, quick = {0};
    struct gs_buf text = {0};
    gs_buf_add_str(&text, "head, and what goes");
    f->page = http_bytes_new(&text);
    int fds[] = {raw_connect(f->server), raw_connect(f->server)};
    assert_true(
        raw_send(fds[0], "GET /page?of=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    wait_for(f, f->handled);
    run_ms(f, 20);
    const struct http_bytes *first = f->page;
    assert_true(
        raw_send(fds[1], "GET /page?of=b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert_true(raw_expect(f, fds[1], "headbbbb", &quick));
    assert_ptr_not_equal(f->page, first);
    struct raw_wait waits[] = {{fds[1], NULL, &quick, false}, {fds[0], NULL, &slow, false}};
    for (size_t i = 0; i < GS_ARRAY_LEN(waits); i++) {
        assert_true(run_until(f, raw_has, &waits[i]));
        const char *body = strstr(waits[i].got->data, "\r\n\r\nhead");
        assert_non_null(body);
        assert_int_equal(strspn(body + 8, i ? "a" : "b"), PAGE_LEN);
        close(waits[i].fd);
    }
    run_ms(f, 20);
    first = f->page; // nobody else holds it any more
    assert_int_equal(http_bytes_edit(&f->page, 4)->len, 4);
    assert_ptr_equal(f->page, first);
    assert_string_equal(http_bytes_slice(f->page).data, "head");
    http_bytes_unref(f->page);
    teardown(f);
}

static bool check_token(void *arg, const char *token, struct http_identity *ret)
{
    static const char *const groups[] = {"readers"};
    assert_string_equal(arg, "arg");
    if (!gs_streq(token, "signed"))
        return false;
    *ret = (struct http_identity){"bob", groups, 1};
    return true;
}

static void test_certificates_and_tokens(void **state)
{
    static const char *const public_paths[] = {"/healthz", NULL};
    struct fixture *f = setup(true, (struct http_server_config){.require_identity = true,
                                                                .bearer_token = "s3cret",
                                                                .check_token = check_token,
                                                                .check_token_arg = (char[]){"arg"},
                                                                .public_paths = public_paths});
    const char *ca = f->ca.cert_pem;
    struct tls_pair no = {0};
    const struct {
        const struct tls_pair *pair;
        const char *token, *path;
        int status;
        const char *reply;
    } cases[] = {
        {&f->client_pair, NULL, "/who", 200, "user=alice groups=system:masters,devs"},
        {&no, "s3cret", "/who", 200, "user=admin groups=system:masters"},
        {&no, "signed", "/who", 200, "user=bob groups=readers"},
        {&f->client_pair, "signed", "/who", 200, "user=alice groups=system:masters,devs"},
        {&no, NULL, "/who", 401, "\"reason\":\"Unauthorized\",\"code\":401}"},
        {&no, "s3cres", "/who", 401, "Unauthorized"},
        {&no, "s3cret2", "/who", 401, "Unauthorized"},
        {&no, "", "/who", 401, "Unauthorized"},
        {&no, NULL, "/healthz", 200, "user=-"},
        {&no, NULL, "/healthz/x", 401, "Unauthorized"},
        {&f->stranger, NULL, "/who", 401, "Unauthorized"},
        {&f->stranger, NULL, "/healthz", 200, "user=-"},
        {&f->server_pair, NULL, "/who", 401, "Unauthorized"}, // not a client certificate
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct http_client *c =
            client_for(f, true,
                       (struct http_client_config){.ca_pem = ca,
                                                   .cert_pem = cases[i].pair->cert_pem,
                                                   .key_pem = cases[i].pair->key_pem});
        GS_AUTO_FREE char *value = gs_format("Bearer %s", cases[i].token ? cases[i].token : "");
        const struct http_header headers[] = {{cases[i].token ? "Authorization" : NULL, value},
                                              {0}};
        struct result *r =
            fetch(f, c, (struct http_request){.path = cases[i].path, .headers = headers});
        assert_int_equal(r->code, 0);
        assert_int_equal(r->status, cases[i].status);
        assert_non_null(strstr(r->body.data, cases[i].reply));
        drop(r);
        http_client_free(c);
    }
    teardown(f);
}

static void test_wrong_ca_is_refused(void **state)
{
    struct fixture *f = setup(true, (struct http_server_config){0});
    struct http_client *c =
        client_for(f, true, (struct http_client_config){.ca_pem = f->other_ca.cert_pem});
    struct result *r = fetch(f, c, (struct http_request){.path = "/"});
    assert_int_equal(r->status, 0);
    assert_int_equal(r->code, GS_EPERM);
    assert_int_equal(f->handled, 0);
    drop(r);
    http_client_free(c);
    c = client_for(f, true, (struct http_client_config){.insecure = true});
    r = fetch(f, c, (struct http_request){.path = "/"});
    assert_int_equal(r->status, 200);
    drop(r);
    http_client_free(c);
    teardown(f);
}

static void test_many_requests(bool tls)
{
    enum { N = 500 };
    struct fixture *f = setup(tls, (struct http_server_config){0});
    f->client = client_for(f, tls, (struct http_client_config){.ca_pem = f->ca.cert_pem});
    struct result *r[N];
    for (int i = 0; i < N; i++) {
        GS_AUTO_FREE char *path = gs_format("/n?i=%d", i);
        r[i] = start(f, f->client, (struct http_request){.path = path}, &collect);
        if (i % 50 == 49) // waves: the later ones find idle connections
            for (int j = 0; j <= i; j++)
                wait_for(f, r[j]->done);
    }
    assert_int_equal(f->done, N);
    for (int i = 0; i < N; i++) {
        GS_AUTO_FREE char *want = gs_format("GET /n user=- groups= i=%d body=0:", i);
        assert_int_equal(r[i]->status, 200);
        assert_string_equal(r[i]->body.data, want);
        drop(r[i]);
    }
    teardown(f);
}

static void test_many_requests_plain(void **state)
{
    test_many_requests(false);
}

static void test_many_requests_tls(void **state)
{
    test_many_requests(true);
}

static void test_accepts_again_after_descriptors_ran_out(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    int fds[40];
    struct rlimit usual, few;
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++)
        fds[i] = raw_connect(f->server);
    getrlimit(RLIMIT_NOFILE, &usual);
    few = (struct rlimit){(rlim_t)fds[GS_ARRAY_LEN(fds) - 1] + 6, usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    run_ms(f, 200);
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++)
        close(fds[i]);
    run_ms(f, 200);
    struct result *r = start(f, f->client, (struct http_request){.path = "/"}, &collect);
    wait_for(f, r->done);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(r->status, 200);
    drop(r);
    teardown(f);
}

static void test_idle_connection_is_closed(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){.idle_timeout_s = 1});
    int fd = raw_connect(f->server);
    GS_AUTO_BUF struct gs_buf got = {0};
    assert_true(raw_send(fd, "GET / HTTP/1.1\r\nHo")); // never finished
    assert_true(raw_expect(f, fd, NULL, &got));
    close(fd);
    teardown(f);
}

static void test_addresses(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    struct http_server *other = NULL;
    struct http_server_config cfg = {.address = "127.0.0.1", .port = http_server_port(f->server)};
    struct gs_error *err = http_server_start(&f->loop, &cfg, handle, f, &other);
    assert_non_null(err);
    assert_null(other);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    GS_AUTO_FREE char *want =
        gs_format("127.0.0.1:%u: address already in use (", http_server_port(f->server));
    assert_non_null(strstr(gs_error_message(err), want));
    assert_non_null(strstr(gs_error_message(err), "choose another port"));
    gs_error_free(err);
    cfg = (struct http_server_config){.address = "localhost"};
    err = http_server_start(&f->loop, &cfg, handle, f, &other);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    cfg = (struct http_server_config){.address = "127.0.0.1", .cert_pem = "x", .key_pem = "y"};
    err = http_server_start(&f->loop, &cfg, handle, f, &other);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    cfg = (struct http_server_config){.address = ""};
    assert_null(http_server_start(&f->loop, &cfg, handle, f, &other));
    http_server_stop(other);
    teardown(f);
}

static void test_stop_while_busy(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *hold = start(f, f->client, (struct http_request){.path = "/hold"}, &collect);
    struct result *r = start(f, f->client, (struct http_request){.path = "/stream"}, &streaming);
    wait_until(f, f->held && r->data.len);
    http_server_stop(GS_TAKE(f->server));
    assert_int_equal(f->closed, 1); // at once: the handler's context may go away now
    assert_int_equal(f->aborted, 1);
    wait_for(f, r->done);
    wait_for(f, hold->done);
    assert_int_equal(r->code, GS_EUNAVAIL);
    assert_int_equal(hold->status, 503);
    drop(r);
    drop(hold);
    teardown(f);
}

// What is under way is answered, each connection ends with its next answer, nobody new comes in.
static void test_drain(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    struct gs_buf held = {0}, idle = {0};
    int fd = raw_connect(f->server), quiet = raw_connect(f->server);
    assert_true(raw_send(quiet, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_true(raw_expect(f, quiet, "GET /a", &idle));
    assert_true(raw_send(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    wait_until(f, f->held);
    http_server_drain(f->server);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(http_server_port(f->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(late, (struct sockaddr *)&in, sizeof(in)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    gs_buf_clear(&idle);
    assert_true(raw_send(quiet, "GET /b HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_true(raw_expect(f, quiet, NULL, &idle));
    assert_non_null(strstr(idle.data, "200 OK"));
    assert_non_null(strstr(idle.data, "Connection: close"));
    assert_non_null(f->held); // not cut
    http_reply_text(GS_TAKE(f->held), 200, "released");
    assert_true(raw_expect(f, fd, NULL, &held));
    assert_non_null(strstr(held.data, "Connection: close"));
    assert_non_null(strstr(held.data, "released"));
    gs_buf_finish(&held);
    gs_buf_finish(&idle);
    close(fd);
    close(quiet);
    close(late);
    teardown(f);
}

static void test_stop_from_a_handler(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    f->stop_in_handler = true;
    struct result *r = fetch(f, f->client, (struct http_request){.path = "/bye"});
    assert_int_equal(r->done, 1);
    assert_null(f->server);
    drop(r);
    teardown(f);
}

static void test_one_handler_answers_another(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    f->client = client_for(f, false, (struct http_client_config){0});
    struct result *hold = start(f, f->client, (struct http_request){.path = "/hold"}, &collect);
    wait_until(f, f->held);
    struct result *r = start(f, f->client, (struct http_request){.path = "/release"}, &collect);
    wait_for(f, hold->done);
    wait_for(f, r->done);
    assert_string_equal(hold->body.data, "released");
    drop(r);
    drop(hold);
    teardown(f);
}

static void test_answer_after_peer_left(void **state)
{
    struct fixture *f = setup(false, (struct http_server_config){0});
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n"));
    wait_until(f, f->held);
    struct http_exchange *x = f->held;
    http_on_abort(x, NULL, NULL); // a handler that does not listen
    close(fd);
    run_ms(f, 100);
    http_reply_text(x, 200, "too late");
    teardown(f);
}

static void test_listen_addresses(void **state)
{
    static const struct {
        const char *text, *host; // host NULL: an error
        uint16_t port;
    } cases[] = {
        {":9400", "", 9400},
        {"127.0.0.1:0", "127.0.0.1", 0},
        {"[::1]:80", "::1", 80},
        {"localhost:9090", "127.0.0.1", 9090},
        {"node-1:65535", "node-1", 65535},
        {"nowhere", NULL, 0},
        {":65536", NULL, 0},
        {"::1:80", NULL, 0},
        {"1.2.3.4:", NULL, 0},
        {"", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *host = NULL;
        uint16_t port = 1;
        struct gs_error *err = http_server_parse_address("--flag", cases[i].text, &host, &port);
        if (!cases[i].host) {
            assert_error(err, GS_EINVAL, "--flag \"");
            assert_null(host);
            continue;
        }
        assert_ok(err);
        assert_string_equal(host, cases[i].host);
        assert_int_equal(port, cases[i].port);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen_addresses),
        cmocka_unit_test(test_plain_requests),
        cmocka_unit_test(test_client_limits_and_errors),
        cmocka_unit_test(test_connection_is_reused),
        cmocka_unit_test(test_closed_connections_are_noticed),
        cmocka_unit_test(test_unix_socket_client),
        cmocka_unit_test(test_body_limits),
        cmocka_unit_test(test_protocol_details),
        cmocka_unit_test(test_late_answer_and_stream),
        cmocka_unit_test(test_disconnects),
        cmocka_unit_test(test_disconnects_tls),
        cmocka_unit_test(test_slow_stream_reader_is_cut),
        cmocka_unit_test(test_slow_stream_readers_have_a_common_limit),
        cmocka_unit_test(test_stream_without_a_reader_is_closed_after_its_time),
        cmocka_unit_test(test_shared_body_is_copied_for_a_change),
        cmocka_unit_test(test_certificates_and_tokens),
        cmocka_unit_test(test_wrong_ca_is_refused),
        cmocka_unit_test(test_many_requests_plain),
        cmocka_unit_test(test_many_requests_tls),
        cmocka_unit_test(test_accepts_again_after_descriptors_ran_out),
        cmocka_unit_test(test_idle_connection_is_closed),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_stop_while_busy),
        cmocka_unit_test(test_stop_from_a_handler),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_one_handler_answers_another),
        cmocka_unit_test(test_answer_after_peer_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
