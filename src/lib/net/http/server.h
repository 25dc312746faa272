// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 server on a libuv loop (libmicrohttpd inside, driven by its epoll descriptor: no
// threads). Limits: request body, header size, connections, time. TLS by GnuTLS, client
// certificates verified against a CA when one is given, bearer tokens compared in constant time.
#pragma once

#include "net/http/http.h"

#include <uv.h>

struct http_server;

struct http_server_config {
    const char *address; // numeric, "127.0.0.1", "::", "" = all
    uint16_t port;       // 0: any free one
    int listen_fd;       // a socket that listens already, ours from then on; 0: none
    // TLS when both are set (PEM text, not paths).
    const char *cert_pem, *key_pem;
    const char *client_ca_pem; // client certificates signed by it: CN is the user, O the groups
    // Client certificates are requested, not required, and not verified here: http_peer_chain().
    bool request_client_cert;
    const char *bearer_token; // NULL: none; its sender is user "admin", group system:masters
    // Called with other bearer tokens. Returns true and sets *ret, whose strings stay valid until
    // the next call, or false. NULL: other tokens prove nothing.
    bool (*check_token)(void *arg, const char *token, struct http_identity *ret);
    void *check_token_arg;
    bool require_identity;           // 401 for unauthenticated requests (except public_paths)
    const char *const *public_paths; // NULL-terminated exact paths
    // Bytes, 0: 3 MiB (kube-apiserver's limit). The bodies of all requests together take at most 16
    // times as many; more are refused with 503.
    size_t max_body;
    // Bytes of the replies that peers have not taken yet, 0: 256 MiB. While others wait, a reply
    // that exceeds it becomes a 503. Streams have their own limit (http.h).
    size_t max_unsent;
    size_t head_memory; // of a connection, for the head of a request and 12 KiB; 0: 32 KiB
    // 0: 512. When all are in use, the one that has waited longest for a request is closed; if all
    // are busy, new ones get health replies and 503 for the rest.
    unsigned max_connections;
    unsigned idle_timeout_s; // between requests, and of a peer that takes no bytes; 0: 90
    unsigned head_timeout_s; // of a TLS handshake and the head of a request together; 0: 10
    unsigned body_timeout_s; // of the body of a request; 0: 60
};

// Parses HOST:PORT, :PORT or [IPV6]:PORT. localhost becomes 127.0.0.1. Errors name the flag
// ("--web.listen-address"). The caller frees the host.
struct gs_error *http_server_parse_address(const char *flag, const char *text, char **ret_host,
                                           uint16_t *ret_port);
// The reverse: HOST:PORT, or [IPV6]:PORT. The caller frees it.
char *http_server_address_text(const char *host, uint16_t port) GS_MUST_USE;

// GS_EEXIST: the port is in use ("127.0.0.1:9400: address already in use (…)").
struct gs_error *http_server_start(uv_loop_t *loop, const struct http_server_config *cfg,
                                   http_handler handler, void *ctx, struct http_server **ret);
// Later handshakes use this certificate. Only for a server with TLS. GS_EINVAL: it is not PEM, or
// the key does not belong to it; the previous certificate stays in use.
struct gs_error *http_server_set_certificate(struct http_server *s, const char *cert_pem,
                                             const char *key_pem);
uint16_t http_server_port(const struct http_server *s);
// Closes the listening socket. Connections are closed after their next reply. Call
// http_server_stop() afterwards.
void http_server_drain(struct http_server *s);
// No request is being received or answered. Streams and upgraded connections do not count: they end
// with the server.
bool http_server_idle(const struct http_server *s);
// Closes the listening socket, ends pending requests (503) and streams before it returns, and
// allows up to a second for replies that are being sent. Run the loop until the handles are closed.
// The server is freed. Accepts NULL.
void http_server_stop(struct http_server *s);
GS_DEFINE_CLEANUP(struct http_server *, http_server_stop)
