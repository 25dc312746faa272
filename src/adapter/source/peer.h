// SPDX-License-Identifier: Apache-2.0
// An HTTP server with all that it takes to reach it: URL, TLS, credentials, headers of one's own.
// Tokens, passwords and certificates that are in files are looked at again and again; a new one
// counts for what is sent from then on, a file that cannot be read leaves the old one in force.
#pragma once

#include "net/http/client.h"

struct source_peer;

struct source_peer_options {
    // A path is put in front of paths; user:password@ is basic authentication.
    const char *url;
    const char *const *headers; // "Key=Value"
    size_t n_headers;
    const char *ca_file, *cert_file, *key_file;
    const char *ca_pem, *cert_pem, *key_pem; // where there is no file
    const char *server_name;                 // verified instead of the URL's host
    bool insecure;
    // One of these two ways; a file counts in front of a text.
    const char *auth_type; // NULL: Bearer
    const char *token, *token_file;
    const char *user, *user_file, *password, *password_file;
    const char *proxy, *no_proxy; // as in http_client.h
    int64_t look_ms;              // how often files are looked at; 0: 10 s
};
struct gs_error *source_peer_new(uv_loop_t *loop, const struct source_peer_options *o,
                                 struct source_peer **ret);
// Over a client that somebody else owns (the loopback to an engine in this process).
struct source_peer *source_peer_new_client(struct http_client *client, const char *name,
                                           const char *prefix);
// What is under way must be over or cancelled.
void source_peer_free(struct source_peer *p);
const char *source_peer_name(const struct source_peer *p); // its URL without secrets, for messages

struct source_peer_op;
// call->path below the URL's path; call->headers beside the peer's own. As http_send().
struct source_peer_op *source_peer_send(struct source_peer *p, const struct http_call *call,
                                        const struct http_callbacks *cb, void *arg);
void source_peer_cancel(struct source_peer_op *op); // NULL is fine; not from on_done
