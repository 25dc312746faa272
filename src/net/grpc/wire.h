// SPDX-License-Identifier: Apache-2.0
// Private to net/: what gRPC's server and client have in common. An HTTP/2 connection on a libuv
// stream, messages with their 5-byte prefix, and the texts of gRPC's headers.
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include "base/buf.h"
#include "net/grpc/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

enum {
    GRPC_PREFIX = 5,
    GRPC_STREAM_WINDOW = 1024 * 1024,
    GRPC_CONN_WINDOW = 4 * 1024 * 1024,
    GRPC_MAX_STREAMS = 128,
    GRPC_BACKLOG = 128,
};

// --- connection ---

struct grpc_conn {
    uv_loop_t *loop;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } io;
    uv_idle_t flusher;
    uv_write_t write;
    struct gs_buf out; // being written
    char *in;
    nghttp2_session *session;
    // The handles are closed and the session is gone: the owner ends its calls and frees this.
    void (*on_closed)(struct grpc_conn *c);
    char reason[128]; // why it was closed, for people
    bool connected, writing, closing;
    bool detached; // no socket: fed by grpc_conn_feed(), output dropped
    int open_handles;
};

// io must be initialised by the caller, unless detached.
void grpc_conn_init(struct grpc_conn *c, uv_loop_t *loop, void (*on_closed)(struct grpc_conn *c));
// The session is set and the socket connected: sends SETTINGS, starts reading.
void grpc_conn_start(struct grpc_conn *c);
void grpc_conn_feed(struct grpc_conn *c, struct gs_slice bytes);
// Sends what the session has, from a later point of the loop; never calls anybody back at once.
void grpc_conn_flush_soon(struct grpc_conn *c);
void grpc_conn_close(struct grpc_conn *c, const char *reason);

// --- messages ---

struct grpc_reader {
    uint8_t prefix[GRPC_PREFIX];
    size_t n_prefix;
    uint32_t len;
    struct gs_buf body;
};

// Takes bytes off *in up to the end of a message. On anything but GRPC_OK *ret_why says what is
// wrong with the message; the reader must not be fed again.
enum grpc_status grpc_reader_feed(struct grpc_reader *r, struct gs_slice *in, bool *ret_complete,
                                  const char **ret_why);
void grpc_reader_next(struct grpc_reader *r); // ready for another message
void grpc_reader_finish(struct grpc_reader *r);
void grpc_add_message(struct gs_buf *out, struct gs_slice message);

// Hands out bytes of a queue to nghttp2 and counts them in *sent; the queue shrinks when it is
// worth it.
size_t grpc_take_queued(struct gs_buf *queue, size_t *sent, uint8_t *out, size_t max);

// --- header texts ---

nghttp2_nv grpc_nv(const char *name, const char *value); // both borrowed
void grpc_encode_message(const char *text, struct gs_buf *out);
void grpc_decode_message(struct gs_slice raw, struct gs_buf *out); // lenient, as the source demands
bool grpc_parse_timeout(struct gs_slice s, uint64_t *ret_ms);      // rounded up
#define GRPC_TIMEOUT_SIZE 16
void grpc_format_timeout(uint64_t ms, char out[GRPC_TIMEOUT_SIZE]);
