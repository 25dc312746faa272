// SPDX-License-Identifier: Apache-2.0
// The parts of a gate: its connections by state, the endpoints that they are passed on to, and the
// time. A connection goes through these states, each of which is a list:
//
//   SILENT ──its first bytes──▶ WAITING ──an endpoint──▶ CONNECTING ──▶ OPEN
//      │                           ▲  └──refused──▶ ENDING  │
//      └──an endpoint──────────────┼────────────────────────┘ fails: WAITING or SILENT again
//
// ENDING has been answered and waits until the client has read the answer.
#pragma once

#include "activator/gate.h"
#include "activator/gate_private.h"

#include "base/timer.h"
#include "net/splice/splice.h"

#define ACTIVATOR_QUIET_NS  GS_NS_PER_SEC // after an answer or without bytes: no request is open
#define ACTIVATOR_ENDING_NS (2 * GS_NS_PER_SEC)
#define ACTIVATOR_ALIVE_S   30 // between probes of a connection without traffic

enum activator_state {
    ACTIVATOR_STATE_SILENT,
    ACTIVATOR_STATE_WAITING,
    ACTIVATOR_STATE_CONNECTING,
    ACTIVATOR_STATE_OPEN,
    ACTIVATOR_STATE_ENDING,
    ACTIVATOR_N_STATES,
};

struct activator_endpoint {
    struct activator_address address;
    unsigned refs;
    unsigned busy; // requests of connections that were held
    int64_t not_before_ns;
};

struct activator_gate_port {
    uv_tcp_t *listener;
    struct activator_endpoint **endpoints;
    size_t n;
    int64_t ready_ns; // monotonic time since when it has endpoints
};

struct activator_connection {
    struct activator_gate *gate;
    struct activator_connection *prev, *next;
    size_t port;
    enum activator_state state;
    struct splice_socket *client, *server;
    struct splice *splice;
    struct activator_endpoint *endpoint;
    struct activator_stream *stream; // NULL: no part of an answer was sent
    char *bytes;
    size_t len;
    int64_t commented_ns;          // monotonic time of the last comment, or of the last check
    int64_t since_ns, accepted_ns; // since: it is in this state; of WAITING: it sent something
    bool http;                     // the head of an HTTP/1 request is complete
    bool interim;                  // of HTTP/1.1: it may get interim responses
    bool counted;                  // it has been an arrival
    bool paused;                   // not read, because of a limit
    bool ended;                    // the client has sent its end
    bool over;                     // above the limit of connections
    bool busy;                     // counted at the endpoint
    bool sent, answered;           // bytes were passed on, of the client and of the endpoint
    bool awaits;                   // the last bytes were those of the client
};

struct activator_list {
    struct activator_connection *first, *last;
    size_t n;
};

struct activator_gate {
    uv_loop_t *loop;
    struct activator_gate_config cfg;
    const struct activator_rules *rules; // borrowed
    struct activator_gate_port *ports;
    size_t n_ports;
    struct activator_list lists[ACTIVATOR_N_STATES];
    struct gs_timer *timer; // of sweeps
    char *failure;
    int64_t extended_ns;               // until then, nothing that waits is refused
    struct activator_gate_stats stats; // the counters
};

// --- gate.c ---

void activator_connection_move(struct activator_connection *c, enum activator_state state);
void activator_connection_hold_again(struct activator_connection *c); // in front of others
void activator_connection_drop_bytes(struct activator_connection *c);
void activator_connection_free(struct activator_connection *c);
// Ends a connection that is held: with an answer if it has sent an HTTP request.
void activator_connection_refuse(struct activator_connection *c, enum activator_reason reason,
                                 int status);
// The client of a connection that is held has ended its side. It may be freed.
void activator_connection_ended(struct activator_connection *c);
void activator_connection_gone(struct activator_connection *c);
void activator_connection_read_again(struct activator_connection *c);
void activator_gate_report(struct activator_gate *g); // the number of those that wait has changed

// --- gate_release.c: passing on ---

void activator_gate_release(struct activator_gate *g); // those that wait and may be passed on
void activator_connection_attempt_failed(struct activator_connection *c);
void activator_connection_leave_endpoint(struct activator_connection *c);
void activator_connection_set_busy(struct activator_connection *c, bool busy);

// --- gate_ports.c: listeners and endpoints ---

// The listener accepts a connection.
void activator_gate_accept(uv_stream_t *listener, int status);
void activator_endpoint_unref(struct activator_endpoint *e); // accepts NULL
// The endpoint for the next connection of a port. NULL: it has to wait.
struct activator_endpoint *activator_endpoint_choose(const struct activator_gate *g, size_t port,
                                                     int64_t now_ns);
void activator_gate_close_ports(struct activator_gate *g);

// --- gate_time.c ---

void activator_gate_start_sweeps(struct activator_gate *g); // while it has connections

// --- stream.c: an answer that begins before there is an endpoint ---

// Sends a comment if it is time for one; the first one begins the answer. False: the client is
// gone.
bool activator_stream_comment(struct activator_connection *c, int64_t now_ns);
// The rest of an answer that had begun, in place of an HTTP response. For `out`.
void activator_stream_refuse(struct gs_buf *out, int status, const char *text);
// Bytes of the endpoint (empty: its end), in the form of splice_config.take.
bool activator_stream_take(void *connection, enum splice_side from, struct gs_slice bytes);
void activator_stream_free(struct activator_stream *s); // accepts NULL
