// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the server. server.c owns the daemon and the loop handles, connections.c
// the limits of connections, request.c carries exchanges over it, auth.c authenticates the peer,
// upgrade.c serves connections with another protocol.
#pragma once

#include "net/http/http_private.h"
#include "net/http/server.h"

#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <sys/queue.h>

struct http_server_request;
struct http_server_connection;
TAILQ_HEAD(server_requests, http_server_request);
TAILQ_HEAD(server_connections, http_server_connection);

// The state in which a connection waits. Each state has a queue, the longest waiting first.
enum http_connection_state {
    HTTP_CONNECTION_HEAD, // for its TLS handshake and the head of its first request, or of a
                          // request whose first line has arrived
    HTTP_CONNECTION_IDLE, // for the next request
    HTTP_CONNECTION_BODY,
    HTTP_CONNECTION_HANDLER,
    HTTP_CONNECTION_REPLY, // for the peer, to take a reply
    HTTP_CONNECTION_STREAM,
    HTTP_CONNECTION_UPGRADED, // has another protocol
    HTTP_CONNECTION_CLOSING,  // its socket is shut down
    HTTP_CONNECTION_STATES
};

// A certificate that handshakes may still use is kept after it was replaced.
#define HTTP_SERVER_KEPT_CERTIFICATES 4
struct http_server_certificate {
    gnutls_pcert_st chain[8];
    unsigned n;
    gnutls_privkey_t key;
};

struct http_server {
    bool request_client_cert;
    struct http_server_certificate *certificates[HTTP_SERVER_KEPT_CERTIFICATES]; // the newest first
    uv_loop_t *loop;
    struct MHD_Daemon *daemon;
    http_handler handler;
    void *ctx;
    uint16_t port;

    struct gs_arena arena; // copies of the configuration's strings
    const char *bearer_token, *client_ca_pem;
    bool (*check_token)(void *arg, const char *token, struct http_identity *ret);
    void *check_token_arg;
    bool tls, require_identity;
    const char **public_paths; // NULL-terminated
    size_t max_body, head_memory, max_head;
    size_t bodies;             // bytes of the bodies of all requests
    size_t queued;             // bytes that wait in the streams of all replies
    size_t max_unsent, unsent; // bytes of the replies that peers have not taken yet
    unsigned idle_timeout_s, head_timeout_s, body_timeout_s;

    struct server_requests requests; // all connections of MHD
    struct server_connections connections[HTTP_CONNECTION_STATES];
    struct server_connections gone; // the peer has sent its end; not yet acted on
    unsigned n_connections, n_closing, max_connections;
    uint64_t sweep_due_ms; // of the loop; 0: the timer is not active
    bool sweep_now;
    uint64_t evicted, warned_ms; // since the last warning; of the loop
    bool draining, stopping, closed;
    bool connection_closed; // in this run of MHD
    int running;            // depth of MHD_run
    int hangup_fd; // epoll for the end of what peers send, which MHD overlooks after other bytes
    int open_handles;
    uv_poll_t io, hangup;
    uv_timer_t timer, grace; // MHD's next timeout, and the time limit of a stop
    uv_timer_t sweep;        // the next time limit of a connection
    uv_idle_t again;         // MHD has work that needs no event
};

// A connection (MHD's socket context).
struct http_server_connection {
    struct http_server *server;
    struct MHD_Connection *mhd;
    struct http_server_request *request; // the current one
    int fd;
    enum http_connection_state state;
    TAILQ_ENTRY(http_server_connection) link, gone_link;
    uint64_t since_ms;         // start of the state
    bool peer_closed, is_gone; // the peer has sent its end; it is in the server's queue of these
    bool surplus;              // accepted although all others were busy

    // determined once
    bool authenticated; // the certificate was inspected
    struct gs_arena arena;
    struct http_identity identity;
    struct gs_slice *chain;
    size_t n_chain;
    char peer[64];
};

struct http_server_request {
    struct http_exchange x;
    TAILQ_ENTRY(http_server_request) all;
    struct http_server *server;
    struct MHD_Connection *connection; // NULL after MHD has finished it
    struct http_server_connection *on; // gpuscale's object of it
    struct MHD_Response *response;     // answered, not yet queued
    struct http_upgrade *upgrade;      // of this connection, until its end
    size_t target_len;                 // as sent
    struct gs_error *bad_target;
    int status;
    int fd;
    size_t counted; // of its body in server->bodies
    size_t queued;  // of its stream in server->queued
    size_t unsent;  // of its reply in server->unsent
    bool begun, handed_over, suspended;
    bool too_large, no_room; // its body is discarded
    bool over;               // an upgraded connection has ended: MHD is to close it
    size_t discarded;        // bytes of a body that is too large
};

// --- server.c ---
void http_server_run_soon(struct http_server *s); // a resumed connection does not wake the daemon

// --- connections.c ---
#define HTTP_SERVER_SURPLUS                                                                        \
    64u // connections beyond the limit, for probes and until others are closed
void http_server_connections_init(struct http_server *s);
void http_server_connection_opened(struct http_server_connection *c);
void http_server_connection_closed(struct http_server_connection *c);
void http_server_connection_enter(struct http_server_connection *c,
                                  enum http_connection_state state);
// The peer has ended its stream. Received data is still read.
void http_server_connection_ended(struct http_server_connection *c);
// Call it after each run of MHD: closes connections whose time limit has expired or whose peer has
// disconnected.
void http_server_connections_check(struct http_server *s);
// False: the connection is beyond the limit and the request is not a health probe.
bool http_server_connection_admits(const struct http_server_connection *c, const char *path);

// --- head.c ---
// What RFC 9112 forbids in a request and MHD accepts: a text for the reply, else NULL. *ret_status:
// 400 or 501.
const char *http_server_head_fault(const struct http_exchange *x, const char *version,
                                   int *ret_status);

// What libmicrohttpd hides from the function above. method and version: as it gives them. A text
// for the reply, else NULL.
const char *http_server_raw_head_fault(const struct http_server_request *r, const char *method,
                                       const char *version);

// --- request.c ---
void *http_server_request_open(void *server, const char *uri, struct MHD_Connection *connection);
enum MHD_Result http_server_request_access(void *server, struct MHD_Connection *connection,
                                           const char *url, const char *method, const char *version,
                                           const char *upload, size_t *upload_size, void **request);
void http_server_request_completed(void *server, struct MHD_Connection *connection, void **request,
                                   enum MHD_RequestTerminationCode code);
// Call it when the peer has disconnected or the server stops: ends the handler's part and lets MHD
// finish the rest.
void http_server_request_abandon(struct http_server_request *r);
// An upgraded connection has ended.
void http_server_request_over(struct http_server_request *r);

// --- upgrade.c ---
struct http_upgrade *http_server_upgrade(struct http_server_request *r, const char *protocol,
                                         const struct http_upgrade_callbacks *cb, void *arg);
// The peer sends nothing any more. What has arrived is still read.
void http_server_upgrade_hung_up(struct http_upgrade *u);
// The server stops: calls on_close before it returns.
void http_server_upgrade_cut(struct http_upgrade *u);
void http_server_upgrade_forget(struct http_upgrade *u); // MHD ends the connection

// --- tls.c ---
int http_server_pick_certificate(gnutls_session_t session, const gnutls_datum_t *issuers,
                                 int n_issuers, const gnutls_pk_algorithm_t *algorithms,
                                 int n_algorithms, gnutls_pcert_st **ret_chain, unsigned *ret_n,
                                 gnutls_privkey_t *ret_key);
void http_server_certificates_finish(struct http_server *s);

// --- auth.c ---
void http_server_connection_event(void *server, struct MHD_Connection *connection, void **context,
                                  enum MHD_ConnectionNotificationCode event);
struct http_server_connection *http_server_connection_of(struct MHD_Connection *connection);
// Sets the identity of the exchange. False: 401.
bool http_server_authenticate(struct http_server_request *r);
