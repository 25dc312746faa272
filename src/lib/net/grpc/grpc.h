// SPDX-License-Identifier: Apache-2.0
// gRPC over HTTP/2 (nghttp2), in cleartext or TLS, on Unix and TCP sockets, as used by the
// kubelet's PodResources and by plug-ins of the Cluster Autoscaler: unary calls and server
// streaming, deadlines, status codes, message size limits, flow control. Messages are opaque bytes;
// callers encode and decode them. Only the thread of the loop may use servers and clients.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>
#include <uv.h>

enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

#define GRPC_MAX_MESSAGE (16u * 1024 * 1024) // unless another limit is set

// TLS 1.2 or 1.3 with ALPN "h2". The texts are PEM and copied.
struct grpc_tls {
    const char *cert_pem, *key_pem; // required of servers; a client without them is anonymous
    // Server: clients must present a certificate of this CA; NULL: any client may call. Client: the
    // CA of the server's certificate, required.
    const char *ca_pem;
    const char *server_name; // client: DNS name or IP address in the server's certificate, required
};

// --- server ---
struct grpc_server;
struct grpc_call; // server side of one call

// Receives the request message. Answers with any number of grpc_call_send() (one for unary calls)
// and one grpc_call_finish(), now or later. on_cancel (optional, set by grpc_call_on_cancel) is
// called if the client disconnects or its deadline expires; the call is invalid then. Without it
// the answer is discarded. The call is also invalid after grpc_call_finish().
typedef void (*grpc_method_fn)(void *ctx, struct grpc_call *call, struct gs_slice request);

struct grpc_server *grpc_server_new(uv_loop_t *loop);
void grpc_server_handle(struct grpc_server *s, const char *path, grpc_method_fn fn, void *ctx);
// New connections use TLS. Call it again to renew the certificate or the client CA; connections
// that exist keep theirs. A handshake may take 10 s. GS_EINVAL: nothing changes.
struct gs_error *grpc_server_set_tls(struct grpc_server *s, const struct grpc_tls *tls);
// Limit of a message in either direction, for new connections. Unfinished requests of all
// connections together have at most 512 MiB.
void grpc_server_set_max_message(struct grpc_server *s, size_t bytes);
// Limit of calls in progress on a connection, for new connections. Default: 128. A client sends
// further calls when earlier ones have ended.
void grpc_server_set_max_streams(struct grpc_server *s, uint32_t streams);
// Replaces the socket file of a dead server. The mode of the new file is 0600.
struct gs_error *grpc_server_listen_unix(struct grpc_server *s, const char *path);
// address: numeric. port 0: any free one, in *ret_port.
struct gs_error *grpc_server_listen_tcp(struct grpc_server *s, const char *address, uint16_t port,
                                        uint16_t *ret_port);
// Closes the listening sockets and removes the file. Calls of existing connections are still
// answered. Call grpc_server_free() afterwards.
void grpc_server_drain(struct grpc_server *s);
// Sends GOAWAY to all clients: they make further calls on a new connection. A connection is closed
// when its calls have ended.
void grpc_server_goaway(struct grpc_server *s);
bool grpc_server_idle(const struct grpc_server *s); // no call is in progress
// Closes sockets and connections and removes the file. on_cancel of open calls is called before it
// returns. The loop must run until the handles are closed. Accepts NULL, like grpc_client_free.
void grpc_server_free(struct grpc_server *s);

void grpc_call_send(struct grpc_call *call, struct gs_slice message);
void grpc_call_finish(struct grpc_call *call, enum grpc_status status, const char *message);
// For methods that answer later.
void grpc_call_on_cancel(struct grpc_call *call, void (*cb)(void *arg), void *arg);

// --- client ---
struct grpc_client; // one target; connects on first use and after failures
struct grpc_pending;

// target: "unix:/path/to.sock" or "127.0.0.1:50051".
struct gs_error *grpc_client_new(uv_loop_t *loop, const char *target, struct grpc_client **ret);
// For new connections.
struct gs_error *grpc_client_set_tls(struct grpc_client *c, const struct grpc_tls *tls);
void grpc_client_set_max_message(struct grpc_client *c, size_t bytes);
void grpc_client_free(struct grpc_client *c); // running calls end without callback

struct grpc_reply {
    enum grpc_status status; // GRPC_UNAVAILABLE: connecting failed
    const char *message;     // "" or the text of the status
    struct gs_slice body;    // the message, if status is GRPC_OK
};
typedef void (*grpc_reply_fn)(void *arg, const struct grpc_reply *reply);

// timeout_ms 0: 30000; UINT_MAX: none. The callback is called once, in a later loop turn. The
// request is copied.
struct grpc_pending *grpc_client_call(struct grpc_client *c, const char *path,
                                      struct gs_slice request, unsigned timeout_ms,
                                      grpc_reply_fn cb, void *arg);
// Server streaming: on_message for each message as it arrives, then cb with an empty body.
typedef void (*grpc_message_fn)(void *arg, struct gs_slice message);
struct grpc_pending *grpc_client_call_stream(struct grpc_client *c, const char *path,
                                             struct gs_slice request, unsigned timeout_ms,
                                             grpc_message_fn on_message, grpc_reply_fn cb,
                                             void *arg);
// No callback follows. Accepts NULL. Not allowed after cb. grpc_client_free() cancels all calls.
void grpc_pending_cancel(struct grpc_pending *p);
