// SPDX-License-Identifier: Apache-2.0
// One HTTP request and its reply, independent of the transport: the TLS server (server.h) or the
// in-process loopback (client.h). Only the thread of the loop may use an exchange.
//
// A handler gets an exchange and answers it exactly once, now or later: with http_reply(), or with
// http_reply_stream() and writes. Until then the exchange stays valid. A handler that answers later
// registers http_on_abort(), which is called if the peer disconnects; then it must not answer.
// After its answer (a stream: after on_close) it must not touch the exchange.
//
// on_close and on_abort are never called inside http_stream_write(), http_stream_end() or
// http_reply*(). They may be called inside http_server_stop(), http_op_cancel() and
// http_client_free(), and not after those have returned: stop servers and free loopback clients
// before the objects that their handlers use.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct http_exchange;
struct http_stream;

// The authenticated user of the peer. user NULL: anonymous. Valid as long as the exchange.
struct http_identity {
    const char *user;          // "system:admin"
    const char *const *groups; // n_groups entries
    size_t n_groups;
};

struct http_header {
    const char *name, *value;
};

typedef void (*http_handler)(void *ctx, struct http_exchange *x);

// "GET". Handlers receive HEAD requests as GET; the transport drops the body.
const char *http_method(const struct http_exchange *x);
bool http_is_head(const struct http_exchange *x);       // for handlers that pass a request on
const char *http_path(const struct http_exchange *x);   // raw path without the query, "/a/b%2A"
const char *http_target(const struct http_exchange *x); // path and query as they were sent
// Percent-decoded ('+' is a blank) value of the first query parameter of this name. NULL if
// absent, "" without a value.
const char *http_query(const struct http_exchange *x, const char *name);
// NULL after the last parameter.
const char *http_query_nth(const struct http_exchange *x, size_t i, const char **ret_name);
// Adds the parameters of an application/x-www-form-urlencoded body before those of the query, or
// those of a multipart/form-data body after them. Files and other bodies have no effect.
// GS_EINVAL on a bad escape, a NUL or malformed parts.
struct gs_error *http_read_form(struct http_exchange *x);
// The case of the name is ignored. NULL if absent.
const char *http_header(const struct http_exchange *x, const char *name);
// In the order of the request, repeated ones one by one. NULL after the last.
const char *http_header_nth(const struct http_exchange *x, size_t i, const char **ret_name);
bool http_accepts_gzip(const struct http_exchange *x); // by the header Accept-Encoding
struct gs_slice http_body(const struct http_exchange *x);
const struct http_identity *http_identity(const struct http_exchange *x);
// The certificates of the peer as DER, not verified, its own first, if the server requests them
// (server.h). Valid until the handler first returns. NULL: none.
const struct gs_slice *http_peer_chain(const struct http_exchange *x, size_t *ret_n);
const char *http_peer(const struct http_exchange *x); // "127.0.0.1:4711" or "loopback", for logs

// Percent-decodes a path segment. '+' stays. GS_EINVAL on a bad escape or a NUL.
struct gs_error *http_decode_segment(struct gs_slice raw, char **ret);
// The same of a form's value: '+' is a blank.
struct gs_error *http_decode_value(struct gs_slice raw, char **ret);

// Reply headers beside Content-Type and Content-Length; before the reply. Copied.
size_t http_reply_headers_len(const struct http_exchange *x); // bytes of those added
void http_add_header(struct http_exchange *x, const char *name, const char *value);
void http_reply(struct http_exchange *x, int status, const char *content_type,
                struct gs_slice body);
// The reply to a HEAD request that a handler has passed on: the length of the body that a GET
// request would get. -1: unknown.
void http_reply_head(struct http_exchange *x, int status, const char *content_type, int64_t length);
// A body that several replies share; counted.
struct http_bytes;
struct http_bytes *http_bytes_new(struct gs_buf *text); // takes the text
struct http_bytes *http_bytes_ref(struct http_bytes *b);
void http_bytes_unref(struct http_bytes *b); // accepts NULL
struct gs_slice http_bytes_slice(const struct http_bytes *b);
// Truncates *b to its first keep bytes and returns the buffer for appending. If *b is shared, it is
// replaced by a copy.
struct gs_buf *http_bytes_edit(struct http_bytes **b, size_t keep);
void http_reply_bytes(struct http_exchange *x, int status, const char *content_type,
                      struct http_bytes *body);
void http_reply_text(struct http_exchange *x, int status, const char *fmt, ...) GS_PRINTF(3, 4);

// A chunked reply that continues until http_stream_end() or until the peer disconnects. on_close is
// always called once, when no more may be written (also after http_stream_end). It ends the stream.
struct http_stream *http_reply_stream(struct http_exchange *x, int status, const char *content_type,
                                      void (*on_close)(void *arg), void *arg);
// Queues bytes. The stream is closed if more than its limit (4 MiB) is pending.
void http_stream_write(struct http_stream *s, struct gs_slice bytes);
size_t http_stream_pending(const struct http_stream *s);
void http_stream_end(struct http_stream *s);
// Closes the stream if the peer has acknowledged or read nothing of the sent bytes for so long
// (TCP_USER_TIMEOUT, RFC 5482). By default, the kernel waits 15 minutes for a peer that
// disappeared, and without limit for one that does not read.
void http_stream_limit_stall(struct http_stream *s, unsigned ms);

// --- another protocol on the connection ---

// A connection whose peer has asked for another protocol in the header Upgrade (RFC 9110, section
// 7.8). After the reply, which has the status 101, all bytes of both directions belong to the
// handler.
struct http_upgrade;
struct http_upgrade_callbacks {
    void (*on_data)(void *arg, struct gs_slice bytes); // borrowed for the call
    void (*on_drained)(void *arg); // everything written was taken by the system; may be NULL
    // Called once; the object must not be used from then on. Never called inside a function of this
    // section, but possibly inside http_server_stop().
    void (*on_close)(void *arg);
};
// Answers the exchange; the header Upgrade of the reply is `protocol`. NULL: this transport cannot
// upgrade (the in-process loopback), and the exchange is still to be answered.
struct http_upgrade *http_reply_upgrade(struct http_exchange *x, const char *protocol,
                                        const struct http_upgrade_callbacks *cb, void *arg);
// Queues bytes. The connection is closed if more than 4 MiB are pending.
void http_upgrade_write(struct http_upgrade *u, struct gs_slice bytes);
size_t http_upgrade_pending(const struct http_upgrade *u);
void http_upgrade_pause(struct http_upgrade *u, bool pause); // reads nothing meanwhile
// Closes the connection when what is queued is written. No more on_data follows.
void http_upgrade_end(struct http_upgrade *u);

void http_on_abort(struct http_exchange *x, void (*cb)(void *arg), void *arg);
// Called once with the reply, inside http_reply() or, without a body, http_reply_stream(): for logs
// of requests. body is borrowed for the call.
void http_on_response(struct http_exchange *x,
                      void (*cb)(void *arg, int status, const char *content_type,
                                 struct gs_slice body),
                      void *arg);
