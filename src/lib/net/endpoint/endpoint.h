// SPDX-License-Identifier: Apache-2.0
// An HTTP client with the connection settings of Prometheus' http_config: TLS, credentials, headers
// and proxy are applied to each request.
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
// Files with secrets and certificates are read again while the client is in use, and so are secrets
// that their owner renews. Only the thread of
// the loop may use a client.
#pragma once

#include "base/arena.h"
#include "net/http/client.h"

// Leading and trailing white space is removed.
struct endpoint_secret {
    const char *text;
    const char *file; // used instead of the text; NULL or "": none
    // Used instead of both: the owner renews it. Called when a file would be read; NULL: none. The
    // text that it returns (NULL: unavailable) is valid until the next call.
    const char *(*current)(void *arg);
    void *arg;
};

struct endpoint_header {
    const char *name;
    struct endpoint_secret value;
};

struct endpoint_oauth2;

struct endpoint_settings {
    // At most one of the two: credentials, or a user with a password.
    const char *auth_type; // of the credentials; NULL: "Bearer"
    struct endpoint_secret credentials;
    struct endpoint_secret user, password;
    const struct endpoint_oauth2 *oauth2; // NULL: none

    const struct endpoint_header *headers; // added to each request
    size_t n_headers;

    struct endpoint_secret ca, cert, key; // PEM; no ca: the system's certificates
    const char *server_name;              // verified instead of the URL's host
    bool insecure_skip_verify;
    int tls_min, tls_max; // 10 … 13 for TLS 1.0 … 1.3; 0: the library's default

    const char *proxy_url, *no_proxy;
    const struct http_header *proxy_headers; // of CONNECT; ends with a NULL name; NULL: none
    bool proxy_from_environment;
    bool follow_redirects; // see struct http_client_config
    bool enable_http2;     // accepted; requests are HTTP/1.1
};

// The client credentials grant (RFC 6749 section 4.4). A token is fetched when a request needs it
// and is kept until ten seconds before it expires.
struct endpoint_oauth2 {
    const char *client_id, *token_url;
    struct endpoint_secret client_secret; // the file is read again for each request
    const char *const *scopes;
    size_t n_scopes;
    const struct http_header *params; // added to the token request
    size_t n_params;
    struct endpoint_settings server; // of the connection to the token's server
};

struct endpoint_options {
    const char *user_agent;      // NULL: "gpuscale/VERSION"
    unsigned connect_timeout_ms; // 0: the default of http_client_config
    unsigned idle_connections;   // kept for the next request; 0: as in http_client_config
    unsigned max_requests;       // under way; 0: no limit. As in http_client_config
    const char *unix_socket;     // connect here instead of to the server; NULL: no
    // Tokens of oauth2, shared by the clients of these settings. The first client creates them. The
    // caller drops the last reference. NULL: the client has its own.
    struct endpoint_tokens **tokens;
    // 0: secrets are read for each request, and a request fails if a file cannot be read.
    // Otherwise files are read again after this time. If a file cannot be read, the last contents
    // stay in use and a warning is logged.
    int64_t refresh_ms;
    const char *component; // of that warning
    const char *name;      // of the server in that warning
};

#define ENDPOINT_SCRAPE_CONNECTIONS 16384u // idle connections of a client for many servers

// A client with these settings, which are copied. base_url: prefix of the path of each call; "":
// calls have complete URLs. Parameters in its query string ("?tenant=a") are added to each call,
// also to those of other methods than GET. GS_EINVAL: invalid certificate (the error names its
// file).
struct gs_error *endpoint_client_new(uv_loop_t *loop, const char *base_url,
                                     const struct endpoint_settings *settings,
                                     const struct endpoint_options *options,
                                     struct http_client **ret);

// The same for the URL of a user: user:password@ is basic authentication unless the settings have
// credentials. *ret_name: the URL without user, password and query string, for messages; the caller
// frees it.
struct gs_error *endpoint_client_open(uv_loop_t *loop, const char *url,
                                      const struct endpoint_settings *settings,
                                      const struct endpoint_options *options,
                                      struct http_client **ret, char **ret_name);

// Appends headers from "Key=Value" texts to those of the settings. Memory comes from mem.
struct gs_error *endpoint_add_headers(struct endpoint_settings *settings, const char *const *texts,
                                      size_t n, struct gs_arena *mem);

struct endpoint_tokens;
void endpoint_tokens_unref(struct endpoint_tokens *t); // accepts NULL
