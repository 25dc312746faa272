// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module: code common to server and client (wire.c), and the server's
// parts. server.c owns sockets and connections, call.c turns HTTP/2 streams into calls.
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include "base/buf.h"
#include "base/hmap.h"
#include "net/grpc/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <sys/types.h>

// An HTTP/2 connection on a libuv stream, messages with their 5-byte prefix, and the texts of
// gRPC's headers.

enum {
    GRPC_PREFIX = 5,
    GRPC_STREAM_WINDOW = 1024 * 1024,
    GRPC_CONN_WINDOW = 4 * 1024 * 1024,
    GRPC_MAX_STREAMS = 128,
    GRPC_BACKLOG = 128,
};

// --- connection ---

struct grpc_tls_session;
struct grpc_tls_credentials;

struct grpc_conn {
    uv_loop_t *loop;
    struct grpc_tls_session *tls;            // NULL: cleartext
    void (*on_secured)(struct grpc_conn *c); // the TLS handshake is complete
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } io;
    uv_idle_t flusher;
    uv_write_t write;
    struct gs_buf out;    // being written
    size_t max_message;   // bytes
    uint32_t max_streams; // that the peer may open; 0: GRPC_MAX_STREAMS
    char *in;
    nghttp2_session *session;
    // The handles are closed and the session is freed: the owner ends its calls and frees this
    // object.
    void (*on_closed)(struct grpc_conn *c);
    char reason[128]; // why it was closed
    bool connected, writing, closing;
    bool detached; // no socket: fed by grpc_conn_feed(), output dropped
    int open_handles;
};

// The caller initializes io, unless the connection is detached.
void grpc_conn_init(struct grpc_conn *c, uv_loop_t *loop, void (*on_closed)(struct grpc_conn *c));
// Call it when the session is set and the socket is connected: sends SETTINGS and starts reading.
void grpc_conn_start(struct grpc_conn *c);
void grpc_conn_feed(struct grpc_conn *c, struct gs_slice bytes);
// Sends the session's pending data in a later turn of the loop. Calls no callback before it
// returns.
void grpc_conn_flush_soon(struct grpc_conn *c);
void grpc_conn_close(struct grpc_conn *c, const char *reason);
// Starts reading and, with TLS, the handshake: on_secured() calls grpc_conn_start().
void grpc_conn_start_reading(struct grpc_conn *c);
// Sends what the socket takes at once, before the connection is closed.
void grpc_conn_send_last(struct grpc_conn *c, struct gs_buf *bytes);

// --- TLS ---

// GS_EINVAL: a PEM text is broken or missing.
struct gs_error *grpc_tls_credentials_new(const struct grpc_tls *tls, bool server,
                                          struct grpc_tls_credentials **ret);
void grpc_tls_credentials_unref(struct grpc_tls_credentials *c); // accepts NULL
// Gives the connection a TLS session with a deadline for the handshake. False: it is closed.
bool grpc_tls_start(struct grpc_conn *conn, struct grpc_tls_credentials *c);
void grpc_tls_free(struct grpc_tls_session *t);  // accepts NULL
void grpc_tls_shake(struct grpc_tls_session *t); // the first message of a client
void grpc_tls_feed(struct grpc_tls_session *t, struct gs_slice bytes);
bool grpc_tls_encrypt(struct grpc_tls_session *t, struct gs_slice bytes);
struct gs_buf *grpc_tls_out(struct grpc_tls_session *t); // encrypted bytes to send
void grpc_tls_end(struct grpc_tls_session *t);           // queues the closing alert

// --- messages ---

struct grpc_reader {
    uint8_t prefix[GRPC_PREFIX];
    size_t n_prefix;
    uint32_t len;
    struct gs_buf body;
    char why[80]; // the problem, if the result of grpc_reader_feed() is not GRPC_OK
};

// Consumes bytes of *in up to the end of a message of at most max bytes. After another result than
// GRPC_OK the reader must not be fed again.
enum grpc_status grpc_reader_feed(struct grpc_reader *r, size_t max, struct gs_slice *in,
                                  bool *ret_complete);
#define GRPC_LIMIT_TEXT 80
const char *grpc_limit_text(const char *what, size_t max, char out[GRPC_LIMIT_TEXT]);
void grpc_reader_next(struct grpc_reader *r); // ready for another message
void grpc_reader_finish(struct grpc_reader *r);
void grpc_add_message(struct gs_buf *out, struct gs_slice message);

// Copies bytes of a queue for nghttp2 and counts them in *sent. Sent bytes are removed from the
// queue when there are many.
size_t grpc_take_queued(struct gs_buf *queue, size_t *sent, uint8_t *out, size_t max);

// --- header texts ---

nghttp2_nv grpc_nv(const char *name, const char *value); // both borrowed
void grpc_encode_message(const char *text, struct gs_buf *out);
void grpc_decode_message(struct gs_slice raw,
                         struct gs_buf *out); // lenient, as the specification requires
bool grpc_parse_timeout(struct gs_slice s, uint64_t *ret_ms); // rounded up
#define GRPC_TIMEOUT_SIZE 16
void grpc_format_timeout(uint64_t ms, char out[GRPC_TIMEOUT_SIZE]);

// --- server ---

struct grpc_method {
    grpc_method_fn fn;
    void *ctx;
};

struct grpc_server_conn;
struct grpc_server_listener;
LIST_HEAD(server_conns, grpc_server_conn);
LIST_HEAD(server_listeners, grpc_server_listener);
LIST_HEAD(server_calls, grpc_call);

struct grpc_server {
    uv_loop_t *loop;
    struct gs_hmap *methods; // path → struct grpc_method
    struct server_listeners listeners;
    struct server_conns conns;
    struct grpc_tls_credentials *tls; // for new connections; NULL: cleartext
    size_t max_message;
    uint32_t max_streams;
    size_t buffered; // bytes of incomplete requests on all connections
    unsigned n_conns;
    unsigned refs; // the owner's, and one for each listener and connection
};

struct grpc_server_conn {
    struct grpc_conn base;
    LIST_ENTRY(grpc_server_conn) all;
    struct grpc_server *server; // NULL while that is freed: handlers are not called
    struct server_calls calls;
    size_t buffered; // bytes of incomplete requests
    char peer[48];   // its address; "": a Unix socket
};

// The server side of an HTTP/2 connection without a socket, for tests of hostile bytes. Bytes go in
// by grpc_conn_feed(&c->base); grpc_conn_close() ends it.
struct grpc_server_conn *grpc_server_detached_conn(struct grpc_server *s);

struct gs_error *grpc_server_session_new(struct grpc_server_conn *c); // sets base.session
// Ends the calls of a connection that is closed, or whose server is freed: their handlers are
// called.
void grpc_server_calls_end(struct grpc_server_conn *c);

// --- client ---

// Gives the client a connection without a socket, for tests of hostile bytes. Calls are dropped;
// grpc_conn_feed() supplies replies.
struct grpc_conn *grpc_client_detached_conn(struct grpc_client *c);
