// SPDX-License-Identifier: Apache-2.0
#include "patience.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/grpc/grpc.h"
#include "net/grpc/grpc_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

enum { LEAST_TURNS = 20 };

struct fixture {
    uv_loop_t loop;
    char dir[64], path[96], target[128];
    struct grpc_server *server;
    struct grpc_client *client;
    struct grpc_call *held;
    int handled, cancelled, replies;
};

struct result {
    struct fixture *f;
    int done, messages;
    size_t bytes;
    enum grpc_status status;
    char *message;
    struct gs_buf body;
    struct grpc_pending *pending;
    bool cancel_on_message, free_on_message, free_on_reply;
};

// --- handlers ---

static void on_cancel(void *arg)
{
    struct fixture *f = arg;
    f->cancelled++;
    f->held = NULL;
}

static void handle_echo(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    ((struct fixture *)ctx)->handled++;
    grpc_call_send(call, request);
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void handle_fail(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_finish(call, GRPC_NOT_FOUND, "no such pöd: 100%\n");
}

static void handle_hold(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    f->handled++;
    f->held = call;
    grpc_call_on_cancel(call, on_cancel, f);
}

static void handle_deaf(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    f->handled++;
    f->held = call;
}

static void handle_count(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    for (int i = 0; i < 5; i++) {
        char text[16];
        int n = snprintf(text, sizeof(text), "message %d", i);
        grpc_call_send(call, gs_slice_make(text, (size_t)n));
    }
    grpc_call_finish(call, GRPC_OK, "");
}

static void handle_nothing(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_finish(call, GRPC_OK, "");
}

static void handle_twice(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_send(call, GS_SLICE("a"));
    grpc_call_send(call, GS_SLICE("b"));
    grpc_call_finish(call, GRPC_OK, "");
}

static void handle_bye(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    grpc_call_on_cancel(call, on_cancel, f);
    grpc_server_free(GS_TAKE(f->server));
}

// --- fixture ---

static void add_handlers(struct fixture *f)
{
    grpc_server_handle(f->server, "/t.T/Echo", handle_echo, f);
    grpc_server_handle(f->server, "/t.T/Fail", handle_fail, f);
    grpc_server_handle(f->server, "/t.T/Hold", handle_hold, f);
    grpc_server_handle(f->server, "/t.T/Deaf", handle_deaf, f);
    grpc_server_handle(f->server, "/t.T/Count", handle_count, f);
    grpc_server_handle(f->server, "/t.T/Nothing", handle_nothing, f);
    grpc_server_handle(f->server, "/t.T/Twice", handle_twice, f);
    grpc_server_handle(f->server, "/t.T/Bye", handle_bye, f);
}

static struct fixture *setup(void)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    snprintf(f->dir, sizeof(f->dir), "/tmp/gs-grpc-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
    snprintf(f->target, sizeof(f->target), "unix:%s", f->path);
    f->server = grpc_server_new(&f->loop);
    add_handlers(f);
    assert_null(grpc_server_listen_unix(f->server, f->path));
    assert_null(grpc_client_new(&f->loop, f->target, &f->client));
    return f;
}

static void teardown(struct fixture *f)
{
    grpc_client_free(f->client);
    grpc_server_free(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    assert_int_equal(access(f->path, F_OK), -1); // the socket file is gone
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
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

static bool wait_nonzero(struct fixture *f, const int *flag)
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    while (!*flag && gs_mono_ns() < end) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(100);
    }
    return *flag != 0;
}

// --- calls ---

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct result *r = arg;
    r->done++;
    r->f->replies++;
    r->status = reply->status;
    r->message = gs_strdup(reply->message);
    gs_buf_add_slice(&r->body, reply->body);
    if (r->free_on_reply)
        grpc_client_free(GS_TAKE(r->f->client));
}

static void on_message(void *arg, struct gs_slice message)
{
    struct result *r = arg;
    r->messages++;
    r->bytes += message.len;
    gs_buf_add_slice(&r->body, message);
    gs_buf_add_char(&r->body, ';');
    if (r->cancel_on_message)
        grpc_pending_cancel(r->pending);
    if (r->free_on_message)
        grpc_client_free(GS_TAKE(r->f->client));
}

static struct result *start(struct fixture *f, const char *path, struct gs_slice request,
                            unsigned timeout_ms, bool stream)
{
    struct result *r = gs_alloc(sizeof(*r));
    r->f = f;
    r->pending = stream ? grpc_client_call_stream(f->client, path, request, timeout_ms, on_message,
                                                  on_reply, r)
                        : grpc_client_call(f->client, path, request, timeout_ms, on_reply, r);
    assert_int_equal(r->done, 0); // never from inside the call
    return r;
}

static struct result *call(struct fixture *f, const char *path, struct gs_slice request)
{
    struct result *r = start(f, path, request, 0, false);
    assert_true(wait_nonzero(f, &r->done));
    return r;
}

static void drop(struct result *r)
{
    free(r->message);
    gs_buf_finish(&r->body);
    free(r);
}

static void expect_status(struct fixture *f, const char *path, enum grpc_status status,
                          const char *message)
{
    struct result *r = call(f, path, GS_SLICE("x"));
    assert_int_equal(r->status, status);
    assert_non_null(strstr(r->message, message));
    assert_int_equal(r->body.len, 0);
    drop(r);
}

// --- HTTP/2 by hand ---

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static void add_frame(struct gs_buf *b, uint8_t type, uint8_t flags, uint8_t stream,
                      const void *payload, size_t len)
{
    const uint8_t head[9] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags, 0, 0, 0, stream};
    gs_buf_add(b, head, sizeof(head));
    gs_buf_add(b, payload, len);
}

static void add_headers(struct gs_buf *b, uint8_t flags, uint8_t stream, const char *method,
                        const char *path, const char *content_type)
{
    const char *pairs[][2] = {{":method", method},
                              {":scheme", "http"},
                              {":path", path},
                              {":authority", "x"},
                              {"content-type", content_type},
                              {"te", "trailers"}};
    GS_AUTO_BUF struct gs_buf block = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++) {
        gs_buf_add_char(&block, 0); // literal without indexing, new name
        gs_buf_add_char(&block, (char)strlen(pairs[i][0]));
        gs_buf_add_str(&block, pairs[i][0]);
        gs_buf_add_char(&block, (char)strlen(pairs[i][1]));
        gs_buf_add_str(&block, pairs[i][1]);
    }
    add_frame(b, NGHTTP2_HEADERS, flags, stream, block.data, block.len);
}

// --- tests ---

static void test_unary(void **state)
{
    struct fixture *f = setup();
    struct result *r = call(f, "/t.T/Echo", GS_SLICE("hello"));
    assert_int_equal(r->status, GRPC_OK);
    assert_string_equal(r->message, "");
    assert_string_equal(r->body.data, "hello");
    drop(r);
    r = call(f, "/t.T/Echo", (struct gs_slice){0});
    assert_int_equal(r->status, GRPC_OK);
    assert_int_equal(r->body.len, 0);
    drop(r);
    expect_status(f, "/t.T/Fail", GRPC_NOT_FOUND, "no such pöd: 100%\n");
    expect_status(f, "/t.T/Absent", GRPC_UNIMPLEMENTED, "unknown method /t.T/Absent");
    expect_status(f, "/t.T/Nothing", GRPC_INTERNAL, "no message");
    expect_status(f, "/t.T/Twice", GRPC_INTERNAL, "more than one");
    teardown(f);
}

static void test_silent_peers_make_room(void **state)
{
    struct fixture *f = setup();
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    int fds[300];
    char bytes[256];
    (void)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", f->path);
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fds[i], (struct sockaddr *)&sa, sizeof(sa)), 0);
        run_ms(f, 1);
    }
    struct result *r = call(f, "/t.T/Echo", GS_SLICE("hello"));
    assert_int_equal(r->status, GRPC_OK);
    drop(r);
    ssize_t n;
    do // the oldest: settings, then the end
        n = recv(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT);
    while (n > 0);
    assert_int_equal(n, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++)
        close(fds[i]);
    teardown(f);
}

static void test_large_messages(void **state)
{
    struct fixture *f = setup();
    size_t max = GRPC_MAX_MESSAGE;
    GS_AUTO_FREE char *big = gs_alloc(max + 1);
    for (size_t i = 0; i < max; i++)
        big[i] = (char)(i * 7);
    struct result *r = call(f, "/t.T/Echo", gs_slice_make(big, max));
    assert_int_equal(r->status, GRPC_OK);
    assert_int_equal(r->body.len, max);
    assert_memory_equal(r->body.data, big, max);
    drop(r);
    r = call(f, "/t.T/Echo", gs_slice_make(big, max + 1));
    assert_int_equal(r->status, GRPC_RESOURCE_EXHAUSTED);
    drop(r);
    assert_int_equal(f->handled, 1);
    teardown(f);
}

static void test_streaming(void **state)
{
    struct fixture *f = setup();
    struct result *r = start(f, "/t.T/Count", GS_SLICE("x"), 0, true);
    assert_true(wait_nonzero(f, &r->done));
    assert_int_equal(r->status, GRPC_OK);
    assert_int_equal(r->messages, 5);
    assert_string_equal(r->body.data, "message 0;message 1;message 2;message 3;message 4;");
    drop(r);

    r = start(f, "/t.T/Hold", GS_SLICE("x"), UINT_MAX, true); // over time
    assert_true(wait_nonzero(f, &f->handled));
    grpc_call_send(f->held, GS_SLICE("one"));
    assert_true(wait_nonzero(f, &r->messages));
    run_ms(f, 20);
    grpc_call_send(f->held, GS_SLICE("two"));
    grpc_call_finish(f->held, GRPC_ABORTED, "enough");
    assert_true(wait_nonzero(f, &r->done));
    assert_string_equal(r->body.data, "one;two;");
    assert_int_equal(r->status, GRPC_ABORTED);
    assert_string_equal(r->message, "enough");
    assert_int_equal(f->cancelled, 0);
    drop(r);
    teardown(f);
}

static void test_slow_stream_reader_is_cut(void **state)
{
    struct fixture *f = setup();
    struct grpc_server *s = f->server;
    struct grpc_server_conn *c =
        grpc_server_detached_conn(s); // grants no window beyond the first 64 KiB
    GS_AUTO_BUF struct gs_buf bytes = {0};
    gs_buf_add_str(&bytes, PREFACE);
    add_frame(&bytes, NGHTTP2_SETTINGS, 0, 0, "", 0);
    add_headers(&bytes, NGHTTP2_FLAG_END_HEADERS, 1, "POST", "/t.T/Hold", "application/grpc");
    add_frame(&bytes, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\0", 5);
    grpc_conn_feed(&c->base, gs_buf_slice(&bytes));
    assert_non_null(f->held);
    GS_AUTO_FREE char *block = gs_alloc(1024 * 1024);
    for (int i = 0; i < 40 && f->held; i++) {
        grpc_call_send(f->held, gs_slice_make(block, 1024 * 1024));
        run_ms(f, 1);
    }
    assert_int_equal(f->cancelled, 1);
    teardown(f);
}

// A call that the server got and did not answer in time; on a slow machine the time may be over
// before the server has it, which is no such call.
static struct result *call_too_long(struct fixture *f, const char *path)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end;) {
        f->handled = 0;
        struct result *r = start(f, path, GS_SLICE("x"), 300, false);
        assert_true(wait_nonzero(f, &r->done));
        assert_int_equal(r->status, GRPC_DEADLINE_EXCEEDED);
        run_ms(f, 20);
        if (f->handled)
            return r;
        drop(r);
    }
    fail_msg("the server never gets it in time");
    return NULL;
}

static void test_deadline(void **state)
{
    struct fixture *f = setup();
    struct result *r = call_too_long(f, "/t.T/Hold");
    assert_true(wait_nonzero(f, &f->cancelled)); // the server hears of it
    assert_null(f->held);
    drop(r);
    r = call_too_long(f, "/t.T/Deaf");
    grpc_call_send(f->held, GS_SLICE("late"));
    grpc_call_finish(f->held, GRPC_OK, "");
    run_ms(f, 20);
    assert_int_equal(r->done, 1);
    drop(r);
    r = call(f, "/t.T/Echo", GS_SLICE("still there"));
    assert_int_equal(r->status, GRPC_OK);
    drop(r);
    teardown(f);
}

static void test_cancel(void **state)
{
    struct fixture *f = setup();
    struct result *r = start(f, "/t.T/Hold", GS_SLICE("x"), 0, false);
    grpc_pending_cancel(r->pending); // before it is connected
    run_ms(f, 20);
    assert_int_equal(f->handled, 0);
    drop(r);
    r = start(f, "/t.T/Hold", GS_SLICE("x"), 0, false);
    assert_true(wait_nonzero(f, &f->handled));
    grpc_pending_cancel(r->pending);
    assert_true(wait_nonzero(f, &f->cancelled));
    assert_int_equal(r->done, 0);
    drop(r);
    r = start(f, "/t.T/Count", GS_SLICE("x"), 0, true);
    r->cancel_on_message = true;
    assert_true(wait_nonzero(f, &r->messages));
    run_ms(f, 20);
    assert_int_equal(r->messages, 1);
    assert_int_equal(r->done, 0);
    drop(r);
    r = start(f, "/t.T/Count", GS_SLICE("x"), 0, true);
    r->free_on_message = true;
    assert_true(wait_nonzero(f, &r->messages));
    run_ms(f, 20);
    assert_int_equal(r->messages, 1);
    assert_int_equal(r->done, 0);
    drop(r);
    assert_null(grpc_client_new(&f->loop, f->target, &f->client));
    r = start(f, "/t.T/Echo", GS_SLICE("x"), 0, false);
    struct result *other = start(f, "/t.T/Hold", GS_SLICE("x"), 0, false);
    r->free_on_reply = true;
    assert_true(wait_nonzero(f, &r->done));
    run_ms(f, 20);
    assert_int_equal(other->done, 0);
    drop(r);
    drop(other);
    teardown(f);
}

static void test_drained_server_answers_calls(void **state)
{
    struct fixture *f = setup();
    struct grpc_client *own = f->client;
    assert_true(grpc_server_idle(f->server));
    struct result *hold = start(f, "/t.T/Hold", GS_SLICE("x"), 0, false);
    assert_true(wait_nonzero(f, &f->handled));
    grpc_server_drain(f->server);
    assert_false(grpc_server_idle(f->server));
    assert_null(grpc_client_new(&f->loop, f->target, &f->client));
    struct result *late = call(f, "/t.T/Echo", GS_SLICE("x"));
    assert_int_equal(late->status, GRPC_UNAVAILABLE); // it does not listen any more
    grpc_client_free(f->client);
    f->client = own;
    grpc_call_send(f->held, GS_SLICE("late"));
    grpc_call_finish(f->held, GRPC_OK, NULL);
    assert_true(wait_nonzero(f, &hold->done));
    assert_int_equal(hold->status, GRPC_OK);
    assert_string_equal(hold->body.data, "late");
    int idle = 0;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !idle && gs_mono_ns() < end; usleep(100)) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        idle = grpc_server_idle(f->server);
    }
    assert_true(idle);
    drop(late);
    drop(hold);
    teardown(f);
}

static void test_reconnect(void **state)
{
    struct fixture *f = setup();
    struct result *hold = start(f, "/t.T/Hold", GS_SLICE("x"), 0, false);
    assert_true(wait_nonzero(f, &f->handled));
    grpc_server_free(f->server);
    assert_int_equal(f->cancelled, 1); // before it returns
    assert_true(wait_nonzero(f, &hold->done));
    assert_int_equal(hold->status, GRPC_UNAVAILABLE);
    drop(hold);
    expect_status(f, "/t.T/Echo", GRPC_UNAVAILABLE, "sock: cannot connect: no such file");
    f->server = grpc_server_new(&f->loop);
    add_handlers(f);
    assert_null(grpc_server_listen_unix(f->server, f->path));
    struct result *r = call(f, "/t.T/Echo", GS_SLICE("again"));
    assert_int_equal(r->status, GRPC_OK);
    drop(r);
    teardown(f);
}

static void test_server_freed_by_its_handler(void **state)
{
    struct fixture *f = setup();
    expect_status(f, "/t.T/Bye", GRPC_UNAVAILABLE, "sock: ");
    assert_int_equal(f->cancelled, 1);
    teardown(f);
}

static void test_many_calls(void **state)
{
    enum { N = 1000 }; // more than the concurrent streams of one connection
    struct fixture *f = setup();
    struct result *r[N];
    for (int i = 0; i < N; i++) {
        char text[16];
        int n = snprintf(text, sizeof(text), "%d", i);
        r[i] = start(f, "/t.T/Echo", gs_slice_make(text, (size_t)n), 0, false);
    }
    for (int i = 0; i < N; i++) {
        char text[16];
        snprintf(text, sizeof(text), "%d", i);
        assert_true(wait_nonzero(f, &r[i]->done));
        assert_int_equal(r[i]->status, GRPC_OK);
        assert_string_equal(r[i]->body.data, text);
    }
    assert_int_equal(f->replies, N);
    for (int i = 0; i < N; i++)
        drop(r[i]);
    teardown(f);
}

static void test_tcp(void **state)
{
    struct fixture *f = setup();
    uint16_t port = 0;
    assert_null(grpc_server_listen_tcp(f->server, "127.0.0.1", 0, &port));
    assert_int_not_equal(port, 0);
    grpc_client_free(f->client);
    char target[64];
    snprintf(target, sizeof(target), "127.0.0.1:%u", port);
    assert_null(grpc_client_new(&f->loop, target, &f->client));
    struct result *r = call(f, "/t.T/Echo", GS_SLICE("tcp"));
    assert_string_equal(r->body.data, "tcp");
    drop(r);
    struct gs_error *err = grpc_server_listen_tcp(f->server, "127.0.0.1", port, &port);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    assert_non_null(strstr(gs_error_message(err), target));
    gs_error_free(err);
    err = grpc_server_listen_tcp(f->server, "localhost", 0, &port);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    static const char *const bad[] = {
        "",       "unix:", "127.0.0.1", "localhost:80", "127.0.0.1:0", "127.0.0.1:70000",
        "::1:80", ":80"};
    struct grpc_client *none = NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        err = grpc_client_new(&f->loop, bad[i], &none);
        assert_int_equal(gs_error_code(err), GS_EINVAL);
        assert_null(none);
        gs_error_free(err);
    }
    grpc_client_free(f->client);
    assert_null(grpc_client_new(&f->loop, "127.0.0.1:1", &f->client));
    expect_status(f, "/t.T/Echo", GRPC_UNAVAILABLE, "127.0.0.1:1: cannot connect: connection");
    teardown(f);
}

static void test_socket_file(void **state)
{
    struct fixture *f = setup();
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    struct grpc_server *second = grpc_server_new(&f->loop);
    struct gs_error *err = grpc_server_listen_unix(second, f->path);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    assert_non_null(strstr(gs_error_message(err), "a running server uses this socket"));
    gs_error_free(err);

    char stale[100]; // bound once, and nobody listens
    snprintf(stale, sizeof(stale), "%s/stale", f->dir);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", stale);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    close(fd);
    assert_null(grpc_server_listen_unix(second, stale));

    char file[128];
    snprintf(file, sizeof(file), "%s/file", f->dir);
    assert_null(gs_file_write_atomic(file, 0600, GS_SLICE("precious")));
    err = grpc_server_listen_unix(second, file);
    assert_int_equal(gs_error_code(err), GS_EEXIST);
    gs_error_free(err);
    assert_int_equal(unlink(file), 0);

    char deep[300];
    memset(deep, 'a', sizeof(deep));
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    err = grpc_server_listen_unix(second, deep);
    assert_int_equal(gs_error_code(err), GS_EINVAL);
    gs_error_free(err);
    grpc_server_free(second);
    assert_int_equal(access(stale, F_OK), -1);
    teardown(f);
}

// --- broken peers ---

static int raw_connect(struct fixture *f)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", f->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

struct seen {
    int status; // -1: none
    int http_status;
    bool reset;
    char message[200];
};

static int seen_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                       size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                       void *arg)
{
    struct seen *s = arg;
    struct gs_slice n = gs_slice_make(name, name_len);
    if (gs_slice_eq_str(n, "grpc-status"))
        s->status = atoi((const char *)value);
    if (gs_slice_eq_str(n, ":status"))
        s->http_status = atoi((const char *)value);
    if (gs_slice_eq_str(n, "grpc-message"))
        snprintf(s->message, sizeof(s->message), "%.*s", (int)value_len, (const char *)value);
    return 0;
}

static int seen_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        ((struct seen *)arg)->reset = true;
    return 0;
}

// Sends bytes as a client would and reads what comes back on stream 1 with a client session.
static struct seen exchange_raw(struct fixture *f, struct gs_slice bytes)
{
    struct seen seen = {.status = -1};
    nghttp2_session_callbacks *cb;
    nghttp2_session *session;
    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_header_callback(cb, seen_header);
    nghttp2_session_callbacks_set_on_header_callback(cb, seen_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, seen_frame);
    nghttp2_session_client_new(&session, cb, &seen);
    nghttp2_session_callbacks_del(cb);
    const nghttp2_nv nv[] = {grpc_nv(":method", "POST"), grpc_nv(":path", "/x"),
                             grpc_nv(":scheme", "http")};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0); // the bytes contain them
    nghttp2_submit_request(session, NULL, nv, GS_ARRAY_LEN(nv), NULL, NULL);
    const uint8_t *ignored;
    while (nghttp2_session_mem_send(session, &ignored) > 0)
        continue;
    int fd = raw_connect(f);
    size_t sent = 0;
    int64_t end = gs_mono_ns() + WAIT_NS;
    bool over = false;
    while (!over && gs_mono_ns() < end) {
        uint8_t block[65536];
        ssize_t n = send(fd, bytes.data + sent, bytes.len - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += (size_t)n;
        run_ms(f, 1);
        n = recv(fd, block, sizeof(block), 0);
        if (n > 0)
            nghttp2_session_mem_recv(session, block, (size_t)n);
        over = n == 0 || (n < 0 && errno != EAGAIN) || seen.status >= 0 || seen.reset ||
               (seen.http_status && seen.http_status != 200);
    }
    assert_true(over);
    close(fd);
    nghttp2_session_del(session);
    return seen;
}

static struct seen send_request(struct fixture *f, const char *method, const char *path,
                                const char *content_type, const void *body, size_t len)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_add_str(&b, PREFACE);
    add_frame(&b, NGHTTP2_SETTINGS, 0, 0, "", 0);
    add_headers(&b, NGHTTP2_FLAG_END_HEADERS, 1, method, path, content_type);
    add_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, body, len);
    return exchange_raw(f, gs_buf_slice(&b));
}

static void test_broken_requests(void **state)
{
    static const struct {
        const char *body;
        size_t len;
        int status;
        const char *why;
    } cases[] = {
        {"\0\0\0\0\2ok", 7, GRPC_OK, ""},
        {"\1\0\0\0\2ok", 7, GRPC_UNIMPLEMENTED, "compressed"},
        {"\7\0\0\0\2ok", 7, GRPC_INTERNAL, "compressed flag"},
        {"\0\xff\xff\xff\xff", 5, GRPC_RESOURCE_EXHAUSTED, "16 MiB"},
        {"\0\1\0\0\1", 5, GRPC_RESOURCE_EXHAUSTED, "16 MiB"},
        {"\0\0\0\0\5ok", 7, GRPC_INTERNAL, "ended before"},
        {"\0\0", 2, GRPC_INTERNAL, "ended before"},
        {"", 0, GRPC_INTERNAL, "ended before"},
        {"\0\0\0\0\1a\0\0\0\0\1b", 12, GRPC_INTERNAL, "more than one"},
    };
    struct fixture *f = setup();
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        f->handled = 0;
        struct seen s = send_request(f, "POST", "/t.T/Echo", "application/grpc+proto",
                                     cases[i].body, cases[i].len);
        assert_int_equal(s.status, cases[i].status);
        assert_non_null(strstr(s.message, cases[i].why));
        assert_int_equal(f->handled, cases[i].status == GRPC_OK);
    }
    assert_int_equal(
        send_request(f, "GET", "/t.T/Echo", "application/grpc", "\0\0\0\0\0", 5).http_status, 405);
    assert_int_equal(send_request(f, "POST", "/t.T/Echo", "text/html", "\0\0\0\0\0", 5).http_status,
                     415);
    teardown(f);
}

static void test_broken_frames(void **state)
{
    struct fixture *f = setup();
    GS_AUTO_BUF struct gs_buf b = {0};
    // Not HTTP/2 at all: the server hangs up.
    struct seen s = exchange_raw(f, GS_SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_int_equal(s.status, -1);
    // DATA on a stream that was never opened, then a frame far over the size limit.
    gs_buf_add_str(&b, PREFACE);
    add_frame(&b, NGHTTP2_SETTINGS, 0, 0, "", 0);
    add_frame(&b, NGHTTP2_DATA, 0, 5, "x", 1);
    gs_buf_add(&b, "\xff\xff\xff\0\0\0\0\0\1", 9);
    s = exchange_raw(f, gs_buf_slice(&b));
    assert_int_equal(s.status, -1);
    // A header block that is not HPACK.
    gs_buf_clear(&b);
    gs_buf_add_str(&b, PREFACE);
    add_frame(&b, NGHTTP2_SETTINGS, 0, 0, "", 0);
    add_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff", 6);
    s = exchange_raw(f, gs_buf_slice(&b));
    assert_int_equal(s.status, -1);
    assert_int_equal(f->handled, 0);
    struct result *r = call(f, "/t.T/Echo", GS_SLICE("unimpressed"));
    assert_int_equal(r->status, GRPC_OK);
    drop(r);
    teardown(f);
}

static void test_server_deadline(void **state)
{
    struct fixture *f = setup();
    GS_AUTO_BUF struct gs_buf b = {0};
    gs_buf_add_str(&b, PREFACE);
    add_frame(&b, NGHTTP2_SETTINGS, 0, 0, "", 0);
    static const char extra[] = "\0\x0cgrpc-timeout\x03"
                                "20m";
    GS_AUTO_BUF struct gs_buf headers = {0};
    add_headers(&headers, NGHTTP2_FLAG_END_HEADERS, 1, "POST", "/t.T/Hold", "application/grpc");
    gs_buf_add(&headers, extra, sizeof(extra) - 1);
    headers.data[2] = (char)(headers.len - 9);
    gs_buf_add_slice(&b, gs_buf_slice(&headers));
    add_frame(&b, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "\0\0\0\0\0", 5);
    struct seen s = exchange_raw(f, gs_buf_slice(&b));
    assert_int_equal(s.status, GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(f->cancelled, 1);
    teardown(f);
}

// A server that answers wrongly: bytes go straight into the client's session.
static struct result *feed_client(struct fixture *f, struct gs_slice bytes)
{
    struct grpc_conn *c = grpc_client_detached_conn(f->client);
    struct result *r = start(f, "/t.T/Any", GS_SLICE("x"), WAIT_MS, false);
    run_ms(f, 2);
    GS_AUTO_BUF struct gs_buf b = {0};
    add_frame(&b, NGHTTP2_SETTINGS, 0, 0, "", 0);
    gs_buf_add_slice(&b, bytes);
    grpc_conn_feed(c, gs_buf_slice(&b));
    assert_true(wait_nonzero(f, &r->done));
    grpc_client_free(f->client);
    assert_null(grpc_client_new(&f->loop, f->target, &f->client));
    return r;
}

#define STATUS_200       "\x88"
#define GRPC_STATUS(one) "\0\x0bgrpc-status\x01" one

static void test_broken_replies(void **state)
{
    static const struct {
        const char *headers;
        size_t n_headers;
        const char *data;
        size_t n_data;
        const char *trailers;
        size_t n_trailers;
        enum grpc_status status;
    } cases[] = {
        {STATUS_200, 1, "\0\0\0\0\1x", 6, GRPC_STATUS("0"), 15, GRPC_OK},
        {STATUS_200, 1, "\0\0\0\0\1x", 6, GRPC_STATUS("7"), 15, GRPC_PERMISSION_DENIED},
        {STATUS_200, 1, "\0\0\0\0\1x", 6, GRPC_STATUS("z"), 15, GRPC_UNKNOWN},
        {STATUS_200, 1, "\0\0\0\0\3x", 6, GRPC_STATUS("0"), 15, GRPC_INTERNAL},
        {STATUS_200, 1, "\1\0\0\0\1x", 6, GRPC_STATUS("0"), 15, GRPC_UNIMPLEMENTED},
        {STATUS_200, 1, "\0\x7f\0\0\1x", 6, GRPC_STATUS("0"), 15, GRPC_RESOURCE_EXHAUSTED},
        {STATUS_200, 1, "\0\0\0\0\1x", 6, "\0\1a\1b", 5, GRPC_INTERNAL},         // no status
        {"\x8d", 1, "not found", 9, "\0\1a\1b", 5, GRPC_UNIMPLEMENTED},          // HTTP 404
        {STATUS_200, 1, "", 0, "\xff\xff\xff\xff\xff\xff", 6, GRPC_UNAVAILABLE}, // not HPACK
    };
    struct fixture *f = setup();
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf b = {0};
        add_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, cases[i].headers,
                  cases[i].n_headers);
        add_frame(&b, NGHTTP2_DATA, 0, 1, cases[i].data, cases[i].n_data);
        add_frame(&b, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1,
                  cases[i].trailers, cases[i].n_trailers);
        struct result *r = feed_client(f, gs_buf_slice(&b));
        assert_int_equal(r->status, cases[i].status);
        drop(r);
    }
    GS_AUTO_BUF struct gs_buf b = {0}; // refused stream, and a server that says goodbye
    add_frame(&b, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\7", 4);
    struct result *r = feed_client(f, gs_buf_slice(&b));
    assert_int_equal(r->status, GRPC_UNAVAILABLE);
    drop(r);
    gs_buf_clear(&b);
    add_frame(&b, NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    r = feed_client(f, gs_buf_slice(&b));
    assert_int_equal(r->status, GRPC_UNAVAILABLE);
    drop(r);
    teardown(f);
}

static void test_texts(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        uint64_t ms;
    } cases[] = {{"1S", true, 1000},
                 {"250m", true, 250},
                 {"1u", true, 1},
                 {"1500u", true, 2},
                 {"1n", true, 1},
                 {"2M", true, 120000},
                 {"99999999H", true, UINT64_C(359999996400000)},
                 {"0m", true, 0},
                 {"100000000m", false, 0},
                 {"m", false, 0},
                 {"1", false, 0},
                 {"", false, 0},
                 {"-1S", false, 0},
                 {"1s", false, 0},
                 {"1 S", false, 0}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        uint64_t ms = 0;
        assert_int_equal(grpc_parse_timeout(gs_slice_of(cases[i].text), &ms), cases[i].ok);
        if (cases[i].ok)
            assert_int_equal(ms, cases[i].ms);
    }
    char text[GRPC_TIMEOUT_SIZE];
    grpc_format_timeout(1500, text);
    assert_string_equal(text, "1500m");
    grpc_format_timeout(UINT32_MAX - 1, text);
    assert_string_equal(text, "4294967S");
    GS_AUTO_BUF struct gs_buf b = {0};
    grpc_encode_message("a b%\n\xc3\xb6", &b);
    assert_string_equal(b.data, "a b%25%0A%C3%B6");
    GS_AUTO_BUF struct gs_buf back = {0};
    grpc_decode_message(gs_buf_slice(&b), &back);
    assert_string_equal(back.data, "a b%\n\xc3\xb6");
    gs_buf_clear(&back);
    grpc_decode_message(GS_SLICE("%zz%4%%41%00"), &back);
    assert_string_equal(back.data, "%zz%4%A ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_silent_peers_make_room),
        cmocka_unit_test(test_large_messages),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_slow_stream_reader_is_cut),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_drained_server_answers_calls),
        cmocka_unit_test(test_reconnect),
        cmocka_unit_test(test_server_freed_by_its_handler),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_socket_file),
        cmocka_unit_test(test_broken_requests),
        cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_server_deadline),
        cmocka_unit_test(test_broken_replies),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
