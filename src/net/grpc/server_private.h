// SPDX-License-Identifier: Apache-2.0
// Private to net/: grpc_server.c owns sockets and connections, grpc_call.c turns HTTP/2 streams
// into calls.
#pragma once

#include "base/hmap.h"
#include "net/grpc/wire.h"

#include <sys/queue.h>
#include <sys/types.h>

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
    unsigned n_conns;
    unsigned refs; // the owner's, and one for each listener and connection
};

struct grpc_server_conn {
    struct grpc_conn base;
    LIST_ENTRY(grpc_server_conn) all;
    struct grpc_server *server; // NULL once that is being freed: no handler is called any more
    struct server_calls calls;
    size_t buffered; // bytes of requests that are still coming in
};

// The server side of an HTTP/2 connection without a socket, for tests of hostile bytes. Bytes go in
// by grpc_conn_feed(&c->base); grpc_conn_close() ends it.
struct grpc_server_conn *grpc_server_detached_conn(struct grpc_server *s);

struct gs_error *grpc_server_session_new(struct grpc_server_conn *c); // sets base.session
// Calls of a connection that is gone, or whose server goes: tells their handlers.
void grpc_server_calls_end(struct grpc_server_conn *c);
