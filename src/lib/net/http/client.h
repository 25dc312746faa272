// SPDX-License-Identifier: Apache-2.0
// Asynchronous HTTP client with three implementations: libcurl on a libuv loop; a fast path for GET
// requests over plain HTTP; and the in-process loopback, which calls a handler without TCP. Only
// the thread of the loop may use a client.
#pragma once

#include "net/http/http.h"

#include <limits.h>
#include <uv.h>

struct http_client; // free it after its operations are done or cancelled
struct http_op;

struct http_client_config {
    const char *base_url;                    // "https://127.0.0.1:6443"; prepended to call paths
    const char *unix_socket;                 // connect here instead
    const char *ca_pem, *cert_pem, *key_pem; // PEM text; ca NULL: the system's
    bool insecure;                           // no verification of the peer
    int tls_min, tls_max;    // 10 … 13 for TLS 1.0 … 1.3; 0: the library's default
    const char *server_name; // sent as SNI and verified instead of the URL's host
    const char *proxy;       // NULL: from the environment; "": none
    const char *no_proxy;    // with proxy: hosts that do not use it
    const struct http_header *proxy_headers; // of CONNECT; ends with a NULL name; NULL: none
    // Up to 9. Methods other than GET and HEAD: only 307 and 308, which keep the body.
    bool follow_redirects;
    const char *user_agent;
    unsigned connect_timeout_ms; // 0: 5000
    unsigned idle_connections;   // kept for the next call; 0: 32
    // Requests in progress, except streams (with on_data or a timeout of UINT_MAX), urgent ones and
    // GETs over plain HTTP. More of them wait, and their timeout begins when they start. 0: no
    // limit.
    unsigned max_requests;
};

struct gs_error *http_client_new_curl(uv_loop_t *loop, const struct http_client_config *cfg,
                                      struct http_client **ret);
// For callers that query many servers each second (scrapes). A GET request over plain HTTP without
// a proxy costs one write and one read on a kept connection, half of libcurl's time. libcurl sends
// all other requests, and repeats those that fail on the fast path, except on a timeout.
struct gs_error *http_client_new_direct(uv_loop_t *loop, const struct http_client_config *cfg,
                                        struct http_client **ret);
// identity is copied (NULL: anonymous). Replies arrive in a later loop turn, never inside
// http_send.
struct http_client *http_client_new_loopback(uv_loop_t *loop, http_handler handler, void *ctx,
                                             const struct http_identity *identity);
void http_client_free(struct http_client *c); // cancels all operations
GS_DEFINE_CLEANUP(struct http_client *, http_client_free)

#define HTTP_NO_TIMEOUT INT64_MAX

struct http_request {
    const char *method;                // NULL: GET
    const char *path;                  // "/api/v1/pods?watch=1", already encoded
    const struct http_header *headers; // ends with a NULL name; may be NULL
    struct gs_slice body;
    const char *content_type; // of the body
    // Of the whole operation. 0: 30000; streams: HTTP_NO_TIMEOUT. Longer ones than 24 days end
    // then.
    int64_t timeout_ms;
    size_t max_reply;  // bytes, 0: 64 MiB
    bool urgent;       // does not wait for others
    bool keep_headers; // the response has its header, which otherwise may be missing
};

const char *http_reason(int status); // "Not Found"; "" if unknown

struct http_response {
    int status;               // 0: the transfer failed
    const char *content_type; // may be NULL
    struct gs_slice body;     // empty if on_data received it
    int64_t retry_after_s;    // of Retry-After; 0: none
    struct gs_buf *buffer;    // contains body; may be moved out to keep it. NULL: none
    struct gs_slice head;     // lines of the header; for http_response_header()
};

// The value of a header of the response, valid until on_done returns; data is NULL if it is absent.
// Call it only if keep_headers of the request was true. name is in lower case.
struct gs_slice http_response_header(const struct http_response *r, const char *name);

struct http_callbacks {
    // Optional. If set, it receives the body bytes of a 200 reply as they arrive.
    void (*on_data)(void *arg, struct gs_slice bytes);
    // Always called once, unless cancelled. The callee owns err, which is NULL if a reply
    // of any status arrived.
    void (*on_done)(void *arg, const struct http_response *response, struct gs_error *err);
};

struct http_op *http_send(struct http_client *c, const struct http_request *request,
                          const struct http_callbacks *cb, void *arg);
void http_op_cancel(struct http_op *op); // no callback follows; accepts NULL; not inside on_done

// Percent-encodes a path segment or query value.
void http_encode(struct gs_slice s, struct gs_buf *out);

// --- implementations ---

// First members of struct http_client and struct http_op, for other implementations of a client.

struct http_client_ops {
    struct http_op *(*send)(struct http_client *c, const struct http_request *request,
                            const struct http_callbacks *cb, void *arg);
    void (*cancel)(struct http_op *op);
    void (*free)(struct http_client *c);
};

struct http_client {
    const struct http_client_ops *ops;
};

struct http_op {
    struct http_client *client;
};

#define HTTP_DEFAULT_TIMEOUT_MS 30000u
// For implementations: the timeout of a request, at most INT32_MAX. UINT_MAX: none.
unsigned http_request_timeout_ms(const struct http_request *r);
// What is left of it since begun_ns (monotonic), at least 1, for another request in its place.
int64_t http_time_left_ms(unsigned timeout_ms, int64_t begun_ns);
#define HTTP_DEFAULT_MAX_REPLY ((size_t)64 * 1024 * 1024)
