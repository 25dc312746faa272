// SPDX-License-Identifier: Apache-2.0
// GOAWAY of a server: calls in progress end on their connection, further ones are made on a new
// one.
#include "patience.h"
#include "unit.h"

#include "base/mem.h"
#include "net/grpc/grpc.h"
#include "net/grpc/grpc_private.h"

struct fixture {
    uv_loop_t loop;
    struct grpc_server *server;
    struct grpc_client *client;
    struct grpc_call *stream;
    size_t messages, ended, replies;
    enum grpc_status status;
};

static void handle_stream(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    f->stream = call;
    grpc_call_send(call, GS_SLICE("first"));
}

static void handle_echo(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_send(call, request);
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void on_message(void *arg, struct gs_slice message)
{
    ((struct fixture *)arg)->messages++;
}

static void on_end(void *arg, const struct grpc_reply *reply)
{
    struct fixture *f = arg;
    f->ended++;
    f->status = reply->status;
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct fixture *f = arg;
    f->replies++;
    assert_int_equal(reply->status, GRPC_OK);
}

static void wait_count(struct fixture *f, const size_t *count, size_t want)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (*count < want && gs_mono_ns() < deadline) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(100);
    }
    assert_int_equal(*count, want);
}

static size_t n_connections(const struct fixture *f)
{
    const struct grpc_server_conn *c;
    size_t n = 0;
    LIST_FOREACH (c, &f->server->conns, all)
        n++;
    return n;
}

static void wait_connections(struct fixture *f, size_t want)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (n_connections(f) != want && gs_mono_ns() < deadline) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(100);
    }
    assert_int_equal(n_connections(f), want);
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uint16_t port = 0;
    uv_loop_init(&f->loop);
    f->server = grpc_server_new(&f->loop);
    grpc_server_handle(f->server, "/t.T/Stream", handle_stream, f);
    grpc_server_handle(f->server, "/t.T/Echo", handle_echo, f);
    assert_ok(grpc_server_listen_tcp(f->server, "127.0.0.1", 0, &port));
    GS_AUTO_FREE char *target = gs_format("127.0.0.1:%u", port);
    assert_ok(grpc_client_new(&f->loop, target, &f->client));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    grpc_client_free(f->client);
    grpc_server_free(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f);
    return 0;
}

static void test_a_goaway_moves_further_calls_to_a_new_connection(void **state)
{
    struct fixture *f = *state;
    grpc_client_call_stream(f->client, "/t.T/Stream", GS_SLICE("x"), UINT32_MAX, on_message, on_end,
                            f);
    wait_count(f, &f->messages, 1);
    assert_int_equal(n_connections(f), 1);
    grpc_server_goaway(f->server);
    grpc_call_send(f->stream, GS_SLICE("second")); // the stream goes on
    wait_count(f, &f->messages, 2);
    assert_int_equal(f->ended, 0);
    grpc_client_call(f->client, "/t.T/Echo", GS_SLICE("x"), 0, on_reply, f);
    wait_count(f, &f->replies, 1);
    assert_int_equal(n_connections(f), 2);
    grpc_call_finish(f->stream, GRPC_OK, "");
    wait_count(f, &f->ended, 1);
    assert_int_equal(f->status, GRPC_OK);
    wait_connections(f, 1); // the old one is closed
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_goaway_moves_further_calls_to_a_new_connection,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
