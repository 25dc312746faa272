// SPDX-License-Identifier: Apache-2.0
// How to reach an HTTP server: TLS, credentials, headers and proxy, as an HTTP client that adds
// them to each request. The settings are those of Prometheus' http_config:
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#http_config
// Files of secrets and certificates are read again while the client is in use.
#pragma once

#include "base/arena.h"
#include "net/http/client.h"

// Leading and trailing white space does not count.
struct endpoint_secret {
    const char *text;
    const char *file; // counts before the text; NULL or "": none
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

    const struct endpoint_header *headers; // further ones of each request
    size_t n_headers;

    struct endpoint_secret ca, cert, key; // PEM; without ca: the certificates of the system
    const char *server_name;              // verified instead of the URL's host
    bool insecure_skip_verify;
    int tls_min, tls_max; // 10 … 13 for TLS 1.0 … 1.3; 0: as the library has it

    const char *proxy_url, *no_proxy;
    const struct http_header *proxy_headers; // of CONNECT; ends with a NULL name; NULL: none
    bool proxy_from_environment;
    bool follow_redirects; // of GET
    bool enable_http2;     // accepted; requests are HTTP/1.1
};

// The client credentials grant (RFC 6749 section 4.4). A token is fetched when a request needs it
// and is kept until ten seconds before it expires.
struct endpoint_oauth2 {
    const char *client_id, *token_url;
    struct endpoint_secret client_secret; // the file is read again for each request
    const char *const *scopes;
    size_t n_scopes;
    const struct http_header *params; // further ones of the token request
    size_t n_params;
    struct endpoint_settings server; // how to reach the token's server
};

struct endpoint_options {
    const char *user_agent;          // NULL: "gpuscale/VERSION"
    unsigned connect_timeout_ms;     // 0: as http_client_config
    unsigned idle_connections;       // kept for the next request; 0: as http_client_config
    struct endpoint_tokens **tokens; // of oauth2, shared by the clients of these settings: made by
                                     // the first client, unreferenced by the caller; NULL: own ones
    // 0: secrets are read for each request, and a request fails when a file cannot be read.
    // Otherwise files are read again when they were read so long ago; when a file cannot be read,
    // the last contents stay in use and a warning is logged.
    int64_t refresh_ms;
    const char *component; // for that warning, with the name of what is reached
    const char *name;
};

#define ENDPOINT_SCRAPE_CONNECTIONS 16384u // idle ones of a client that reaches many servers

// A client with these settings, which are copied. base_url: put before the path of each call; "":
// calls have whole URLs. GS_EINVAL: a certificate is not valid (the error names its file).
struct gs_error *endpoint_client_new(uv_loop_t *loop, const char *base_url,
                                     const struct endpoint_settings *settings,
                                     const struct endpoint_options *options,
                                     struct http_client **ret);

// The same for a URL that a user wrote: user:password@ is basic authentication unless the settings
// have credentials, and the query string is dropped. *ret_name: the URL without secrets, for
// messages; the caller frees it.
struct gs_error *endpoint_client_open(uv_loop_t *loop, const char *url,
                                      const struct endpoint_settings *settings,
                                      const struct endpoint_options *options,
                                      struct http_client **ret, char **ret_name);

// Sets the headers to these "Key=Value" texts, after those that the settings have. Memory is of
// mem.
struct gs_error *endpoint_add_headers(struct endpoint_settings *settings, const char *const *texts,
                                      size_t n, struct gs_arena *mem);

struct endpoint_tokens;
void endpoint_tokens_unref(struct endpoint_tokens *t); // NULL is fine
