// SPDX-License-Identifier: Apache-2.0
// The short way of the HTTP client against a peer that plays scripted replies, also bad ones.
#include "base/mem.h"
#include "net/http/client.h"
#include "patience.h"
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

// A peer: each connection's n-th request gets the n-th reply of its script; then it closes.
struct peer {
    int listener;
    pthread_t thread;
    const char *const *const *scripts; // of the first connection, the second, …; NULL ends
    atomic_int connections, requests;
    pthread_mutex_t lock; // of last_request
    char last_request[4096];
};

static bool read_request(int fd, struct peer *p)
{
    char buf[sizeof(p->last_request)];
    size_t len = 0;
    bool whole = false;
    while (len < sizeof(buf) - 1 && !whole) {
        ssize_t n = read(fd, buf + len, sizeof(buf) - 1 - len);
        if (n <= 0)
            return false;
        len += (size_t)n;
        buf[len] = '\0';
        whole = strstr(buf, "\r\n\r\n");
    }
    pthread_mutex_lock(&p->lock);
    memcpy(p->last_request, buf, len + 1);
    pthread_mutex_unlock(&p->lock);
    return whole;
}

static bool was_asked(struct peer *p, const char *text)
{
    pthread_mutex_lock(&p->lock);
    bool was = strstr(p->last_request, text);
    pthread_mutex_unlock(&p->lock);
    return was;
}

static void *run_peer(void *arg)
{
    struct peer *p = arg;
    for (size_t i = 0; p->scripts[i]; i++) {
        int fd = accept(p->listener, NULL, NULL);
        if (fd < 0)
            break;
        atomic_fetch_add(&p->connections, 1);
        const char *const *reply = p->scripts[i];
        for (; *reply && read_request(fd, p); reply++) {
            atomic_fetch_add(&p->requests, 1);
            if (write(fd, *reply, strlen(*reply)) < 0)
                break;
        }
        close(fd);
    }
    return NULL;
}

static char *start_peer(struct peer *p, const char *const *const *scripts)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    *p = (struct peer){.scripts = scripts, .lock = PTHREAD_MUTEX_INITIALIZER};
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(p->listener, 16), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(pthread_create(&p->thread, NULL, run_peer, p), 0);
    return gs_format("http://127.0.0.1:%d", ntohs(a.sin_port));
}

static void stop_peer(struct peer *p)
{
    shutdown(p->listener, SHUT_RDWR); // ends an accept
    pthread_join(p->thread, NULL);
    close(p->listener);
}

struct fixture {
    uv_loop_t loop;
    struct peer peer;
    struct http_client *client;
    char *base;
};

struct result {
    int done, status;
    char *body, *type, *same; // same: the header X-Same
    struct gs_error *err;
    struct http_client **free_client;
};

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct result *r = arg;
    r->done++;
    r->status = response->status;
    r->type = gs_strdup(response->content_type);
    r->same = gs_slice_dup(http_response_header(response, "x-same"));
    r->body = gs_slice_dup(response->body);
    r->err = err;
    if (r->free_client)
        http_client_free(GS_TAKE(*r->free_client));
}

static void result_finish(struct result *r)
{
    free(r->body);
    free(r->type);
    free(r->same);
    gs_error_free(r->err);
}

static void begin(struct fixture *f, const char *const *const *scripts)
{
    f->base = start_peer(&f->peer, scripts);
    uv_loop_init(&f->loop);
    struct http_client_config cfg = {
        .base_url = f->base, .follow_redirects = true, .user_agent = "test/1"};
    assert_ok(http_client_new_direct(&f->loop, &cfg, &f->client));
}

static void end(struct fixture *f)
{
    http_client_free(f->client);
    while (uv_run(&f->loop, UV_RUN_DEFAULT)) {
    }
    assert_int_equal(uv_loop_close(&f->loop), 0);
    stop_peer(&f->peer);
    free(f->base);
}

static void get(struct fixture *f, const struct http_request *request, struct result *r)
{
    static const struct http_callbacks cb = {.on_done = on_done};
    assert_non_null(http_send(f->client, request, &cb, r));
    assert_int_equal(r->done, 0);
    while (!r->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void assert_get(struct fixture *f, const char *path, int status, const char *body)
{
    struct http_request request = {.path = path, .timeout_ms = WAIT_MS};
    struct result r = {0};
    get(f, &request, &r);
    assert_ok(GS_TAKE(r.err));
    assert_int_equal(r.status, status);
    assert_string_equal(r.body, body);
    result_finish(&r);
}

#define OK(n, body)                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " n "\r\n\r\n" body
#define SCRIPT(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define SCRIPTS(...) ((const char *const *const[]){__VA_ARGS__, NULL})

static void test_connection_is_kept(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("3", "one"), "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno",
                             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "5\r\nthree\r\n0\r\n\r\n")));
    assert_get(&f, "/metrics?a=b", 200, "one");
    assert_true(was_asked(&f.peer, "GET /metrics?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert_true(was_asked(&f.peer, "\r\nUser-Agent: test/1\r\n"));
    assert_get(&f, "/", 503, "no");
    assert_get(&f, "/", 200, "three");
    assert_int_equal(f.peer.connections, 1);
    end(&f);
}

// `gpuscale query` once never ended: the loop waited for the end of its kept connection.
static void test_kept_connection_lets_the_loop_end(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("3", "one"), OK("3", "two"))));
    assert_get(&f, "/", 200, "one");
    assert_int_equal(uv_run(&f.loop, UV_RUN_DEFAULT), 0);
    assert_get(&f, "/", 200, "two");
    assert_int_equal(f.peer.connections, 1);
    end(&f);
}

static void test_headers_are_sent(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("1", "x"))));
    struct http_header headers[] = {{"Accept", "text/plain"}, {"Authorization", "Bearer t"}, {0}};
    struct http_request request = {.path = "/", .headers = headers};
    struct result r = {0};
    get(&f, &request, &r);
    assert_true(was_asked(&f.peer, "\r\nAccept: text/plain\r\nAuthorization: Bearer t\r\n\r\n"));
    assert_string_equal(r.type, "text/plain");
    result_finish(&r);
    end(&f);
}

// A line break in a header does not reach the peer, whatever way it goes.
static void test_header_cannot_smuggle(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("1", "x"))));
    struct http_header headers[] = {{"X", "a\r\nY: b"}, {0}};
    struct http_request request = {.path = "/", .headers = headers};
    struct result r = {0};
    get(&f, &request, &r);
    assert_error(GS_TAKE(r.err), GS_EINVAL, "line break");
    result_finish(&r);
    assert_int_equal(f.peer.requests, 0);
    end(&f);
}

static void test_kept_connection_that_the_peer_closed(void **state)
{
    struct fixture f;
    // The second request finds the first connection closed, or is told so by its reset.
    begin(&f, SCRIPTS(SCRIPT(OK("3", "one")), SCRIPT(OK("3", "two"))));
    assert_get(&f, "/", 200, "one");
    assert_get(&f, "/", 200, "two");
    assert_int_equal(f.peer.connections, 2);
    end(&f);
}

static void test_odd_reply_goes_through_libcurl(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT("HTTP/1.1 100 Continue\r\n\r\n" OK("3", "one")),
                      SCRIPT("HTTP/1.1 100 Continue\r\n\r\n" OK("3", "one"))));
    assert_get(&f, "/", 200, "one");
    assert_int_equal(f.peer.connections, 2);
    end(&f);
}

static void test_nonsense_is_an_error(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT("SSH-2.0-x\r\n\r\n"), SCRIPT("SSH-2.0-x\r\n\r\n")));
    struct http_request request = {.path = "/", .timeout_ms = WAIT_MS};
    struct result r = {0};
    get(&f, &request, &r);
    assert_non_null(r.err);
    assert_int_equal(r.status, 0);
    result_finish(&r);
    end(&f);
}

// A redirect has headers of its own.
static void test_headers_of_a_response(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT("HTTP/1.1 302 Found\r\nLocation: /b\r\nX-Same: first\r\n"
                             "Content-Length: 0\r\n\r\n",
                             "HTTP/1.1 200 OK\r\nx-other: X-Same: no\r\nx-SAME:  a: b \r\n"
                             "Content-Length: 2\r\n\r\nok")));
    struct http_request request = {.path = "/a", .timeout_ms = WAIT_MS, .keep_headers = true};
    struct result r = {0};
    get(&f, &request, &r);
    assert_ok(GS_TAKE(r.err));
    assert_string_equal(r.body, "ok");
    assert_string_equal(r.same, "a: b");
    result_finish(&r);
    end(&f);
}

static void test_kept_headers_have_a_limit(void **state)
{
    GS_AUTO_FREE char *big = gs_alloc(40001);
    memset(big, 'x', 40000);
    GS_AUTO_FREE char *reply = gs_format("HTTP/1.1 200 OK\r\nA: %s\r\nX-Same: %s\r\n"
                                         "Content-Length: 0\r\n\r\n",
                                         big, big);
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(reply)));
    struct http_request request = {.path = "/a", .timeout_ms = WAIT_MS, .keep_headers = true};
    struct result r = {0};
    get(&f, &request, &r);
    assert_non_null(r.err);
    assert_non_null(strstr(gs_error_message(r.err), "larger than 65536 bytes"));
    result_finish(&r);
    end(&f);
}

// libcurl ignores them, and takes what there is as the body.
static void test_wrong_length_is_an_error(void **state)
{
    static const char *const replies[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4x\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 2\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nA: b\r\nCONTENT-LENGTH: 04 5\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\na 1\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\na 1\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(replies); i++) {
        struct fixture f;
        begin(&f, SCRIPTS(SCRIPT(replies[i]), SCRIPT(replies[i])));
        struct http_request request = {.path = "/", .timeout_ms = WAIT_MS};
        struct result r = {0};
        get(&f, &request, &r);
        assert_non_null(r.err);
        assert_non_null(strstr(gs_error_message(r.err), "Content-Length"));
        result_finish(&r);
        end(&f);
    }
}

static void test_cut_body_is_an_error(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"),
                      SCRIPT("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")));
    struct http_request request = {.path = "/", .timeout_ms = WAIT_MS};
    struct result r = {0};
    get(&f, &request, &r);
    assert_non_null(r.err);
    result_finish(&r);
    end(&f);
}

static void test_redirect_is_followed(void **state)
{
    static const char moved[] =
        "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(moved), SCRIPT(moved), SCRIPT(OK("5", "there"))));
    assert_get(&f, "/here", 200, "there");
    assert_true(was_asked(&f.peer, "GET /there HTTP/1.1"));
    end(&f);
}

static void test_headers_go_along_through_libcurl(void **state)
{
    static const char odd[] = "HTTP/1.1 100 Continue\r\n\r\n" OK("3", "one");
    const struct http_header headers[] = {
        {"Accept", "text/plain;q=0.5"}, {"X-Other", "a: b"}, {NULL, NULL}};
    struct http_request request = {.path = "/", .headers = headers, .timeout_ms = WAIT_MS};
    struct fixture f;
    struct result r = {0};
    begin(&f, SCRIPTS(SCRIPT(odd), SCRIPT(odd)));
    get(&f, &request, &r);
    assert_ok(GS_TAKE(r.err));
    assert_int_equal(f.peer.connections, 2);
    assert_true(was_asked(&f.peer, "\r\nAccept: text/plain;q=0.5\r\n"));
    assert_true(was_asked(&f.peer, "\r\nX-Other: a: b\r\n"));
    result_finish(&r);
    end(&f);
}

static void test_names_are_resolved(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("3", "one")), SCRIPT(OK("3", "one"))));
    struct http_client *named = NULL;
    GS_AUTO_FREE char *url = gs_format("http://localhost%s", strrchr(f.base, ':'));
    struct http_client_config cfg = {.base_url = url};
    assert_ok(http_client_new_direct(&f.loop, &cfg, &named));
    struct http_client *first = f.client;
    f.client = named;
    assert_get(&f, "/", 200, "one");
    f.client = first;
    http_client_free(named);
    end(&f);
}

static void test_nobody_listens(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("1", "x"))));
    stop_peer(&f.peer);
    struct http_request request = {.path = "/", .timeout_ms = WAIT_MS};
    struct result r = {0};
    get(&f, &request, &r);
    assert_error(GS_TAKE(r.err), GS_EUNAVAIL, f.base);
    result_finish(&r);
    f.peer.listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_create(&f.peer.thread, NULL, run_peer, &f.peer);
    end(&f);
}

static void test_errors_cover_the_password(void **state)
{
    static const struct http_callbacks cb = {.on_done = on_done};
    static const char *const methods[] = {"GET", "POST"};
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("1", "x"))));
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        struct http_client_config cfg = {.base_url = "http://name:word@127.0.0.1:1"};
        struct http_client *client;
        struct result r = {0};
        struct http_request request = {.method = methods[i], .path = "/a", .timeout_ms = WAIT_MS};
        assert_ok(http_client_new_direct(&f.loop, &cfg, &client));
        (void)http_send(client, &request, &cb, &r);
        while (!r.done)
            uv_run(&f.loop, UV_RUN_ONCE);
        assert_null(strstr(gs_error_message(r.err), "word"));
        assert_error(GS_TAKE(r.err), GS_EUNAVAIL, " http://name:xxxxx@127.0.0.1:1/a: ");
        result_finish(&r);
        http_client_free(client);
    }
    end(&f);
}

static void test_too_large(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("7", "1234567"))));
    struct http_request request = {.path = "/", .timeout_ms = WAIT_MS, .max_reply = 6};
    struct result r = {0};
    get(&f, &request, &r);
    assert_error(GS_TAKE(r.err), GS_ELIMIT, "larger than the limit of 6 bytes");
    result_finish(&r);
    end(&f);
}

static void test_no_reply_in_time(void **state)
{
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT("HTTP/1.1 200 OK\r\n", "")));
    struct http_request request = {.path = "/slow", .timeout_ms = 50};
    struct result r = {0};
    get(&f, &request, &r);
    assert_error(GS_TAKE(r.err), GS_ETIMEOUT, "/slow: no complete reply within 50 ms");
    result_finish(&r);
    end(&f);
}

static void test_cancel(void **state)
{
    static const struct http_callbacks cb = {.on_done = on_done};
    struct fixture f;
    struct result r = {0};
    begin(&f, SCRIPTS(SCRIPT("HTTP/1.1 200 OK\r\n", "")));
    struct http_request request = {.path = "/"};
    struct http_op *op = http_send(f.client, &request, &cb, &r);
    while (!f.peer.requests)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    http_op_cancel(op);
    (void)http_send(f.client, &request, &cb, &r); // ended by the client's end, not yet connected
    end(&f);
    assert_int_equal(r.done, 0);
}

static void test_client_freed_by_who_is_told(void **state)
{
    static const struct http_callbacks cb = {.on_done = on_done};
    struct fixture f;
    begin(&f, SCRIPTS(SCRIPT(OK("1", "x"))));
    struct result r = {.free_client = &f.client};
    struct http_request request = {.path = "/"};
    (void)http_send(f.client, &request, &cb, &r);
    while (!r.done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_string_equal(r.body, "x");
    result_finish(&r);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_is_kept),
        cmocka_unit_test(test_kept_connection_lets_the_loop_end),
        cmocka_unit_test(test_headers_are_sent),
        cmocka_unit_test(test_header_cannot_smuggle),
        cmocka_unit_test(test_kept_connection_that_the_peer_closed),
        cmocka_unit_test(test_odd_reply_goes_through_libcurl),
        cmocka_unit_test(test_nonsense_is_an_error),
        cmocka_unit_test(test_headers_of_a_response),
        cmocka_unit_test(test_kept_headers_have_a_limit),
        cmocka_unit_test(test_wrong_length_is_an_error),
        cmocka_unit_test(test_cut_body_is_an_error),
        cmocka_unit_test(test_redirect_is_followed),
        cmocka_unit_test(test_headers_go_along_through_libcurl),
        cmocka_unit_test(test_names_are_resolved),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_errors_cover_the_password),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_no_reply_in_time),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_client_freed_by_who_is_told),
    };
    return cmocka_run_group_tests_name("net/http_direct", tests, NULL, NULL);
}
