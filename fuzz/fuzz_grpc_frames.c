// SPDX-License-Identifier: Apache-2.0
// Hostile HTTP/2 bytes into a gRPC server (first byte even) or client (odd) session without a
// socket. The second byte says how large the pieces are in which they arrive.
#include "base/mem.h"
#include "net/grpc/grpc_private.h"

static void answer(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_send(call, request);
    grpc_call_finish(call, GRPC_OK, "");
}

// Never responds to a call while it is open.
static void hold(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct grpc_call **held = ctx;
    if (*held)
        grpc_call_finish(*held, GRPC_ABORTED, "another one came");
    *held = call;
}

static void on_message(void *arg, struct gs_slice message)
{
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    ++*(int *)arg;
}

static void feed(uv_loop_t *loop, struct grpc_conn *c, struct gs_slice bytes, size_t piece)
{
    while (bytes.len && !c->closing) {
        size_t n = bytes.len < piece ? bytes.len : piece;
        grpc_conn_feed(c, gs_slice_make(bytes.data, n));
        bytes = gs_slice_make(bytes.data + n, bytes.len - n);
        if (!c->closing)
            uv_run(loop, UV_RUN_NOWAIT);
    }
}

static void fuzz_server(uv_loop_t *loop, struct gs_slice bytes, size_t piece)
{
    struct grpc_call *held = NULL;
    struct grpc_server *s = grpc_server_new(loop);
    grpc_server_handle(s, "/t.T/Echo", answer, NULL);
    grpc_server_handle(s, "/t.T/Hold", hold, &held);
    feed(loop, &grpc_server_detached_conn(s)->base, bytes, piece);
    grpc_server_free(s);
    if (held)
        grpc_call_finish(held, GRPC_UNAVAILABLE, NULL);
}

static void fuzz_client(uv_loop_t *loop, struct gs_slice bytes, size_t piece)
{
    int replies = 0;
    struct grpc_client *c = NULL;
    gs_error_free(grpc_client_new(loop, "unix:/nowhere", &c));
    struct grpc_conn *conn = grpc_client_detached_conn(c);
    grpc_client_call(c, "/t.T/Unary", GS_SLICE("request"), UINT32_MAX, on_reply, &replies);
    grpc_client_call_stream(c, "/t.T/Stream", GS_SLICE("request"), UINT32_MAX, on_message, on_reply,
                            &replies);
    uv_run(loop, UV_RUN_NOWAIT);
    feed(loop, conn, bytes, piece);
    grpc_client_free(c);
    if (replies > 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uv_loop_t loop;
    if (size < 2 || uv_loop_init(&loop) != 0)
        return 0;
    struct gs_slice bytes = gs_slice_make(data + 2, size - 2);
    if (data[0] % 2)
        fuzz_client(&loop, bytes, (size_t)data[1] + 1);
    else
        fuzz_server(&loop, bytes, (size_t)data[1] + 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&loop) != 0)
        abort();
    return 0;
}
