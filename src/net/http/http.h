// SPDX-License-Identifier: Apache-2.0
// One HTTP request and its reply, independent of what carries it: the TLS server (http_server.h),
// or the in-process loopback of http_client.h. Everything runs on the event loop's thread.
//
// A handler gets an exchange and answers it exactly once, now or later: with http_reply(), or with
// http_reply_stream() and writes. Until then the exchange stays valid; a handler that answers later
// registers http_on_abort() to learn that the peer went away (then it must not answer any more).
// After its answer (a stream: after on_close) it must not touch the exchange.
//
// on_close and on_abort are never called from inside http_stream_write(), http_stream_end() or
// http_reply*(); they may be called from inside http_server_stop(), http_op_cancel() and
// http_client_free(). Once those have returned, nothing of the handler is called any more by them:
// stop servers and free loopback clients before what their handlers use.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct http_exchange;
struct http_stream;

// Who the peer proved to be. user NULL: anonymous. Borrowed; lives as long as the exchange.
struct http_identity {
    const char *user;          // "system:admin"
    const char *const *groups; // n_groups entries
    size_t n_groups;
};

struct http_header {
    const char *name, *value;
};

typedef void (*http_handler)(void *ctx, struct http_exchange *x);

// "GET". HEAD requests are given to handlers as GET; the carrier drops the body.
const char *http_method(const struct http_exchange *x);
const char *http_path(const struct http_exchange *x);   // raw path without the query, "/a/b%2A"
const char *http_target(const struct http_exchange *x); // path and query as they were sent
// Percent-decoded ('+' is a blank) value of the first such query parameter; NULL when absent, ""
// when without value.
const char *http_query(const struct http_exchange *x, const char *name);
// NULL after the last parameter.
const char *http_query_nth(const struct http_exchange *x, size_t i, const char **ret_name);
// Takes the parameters of an application/x-www-form-urlencoded body in front of the query's, so
// that http_query() finds both. Other bodies have no effect. GS_EINVAL on a bad escape or a NUL.
struct gs_error *http_read_form(struct http_exchange *x);
// The name in any case; NULL when absent.
const char *http_header(const struct http_exchange *x, const char *name);
// In the order of the request, repeated ones one by one. NULL after the last.
const char *http_header_nth(const struct http_exchange *x, size_t i, const char **ret_name);
struct gs_slice http_body(const struct http_exchange *x);
const struct http_identity *http_identity(const struct http_exchange *x);
// The certificates that the peer showed, its own first, as DER and not verified: of servers that
// ask for them (http_server.h). Only until the handler first returns. NULL: none.
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
// A body that several replies share; counted.
struct http_bytes;
struct http_bytes *http_bytes_new(struct gs_buf *text); // takes the text
struct http_bytes *http_bytes_ref(struct http_bytes *b);
void http_bytes_unref(struct http_bytes *b); // NULL is fine
struct gs_slice http_bytes_slice(const struct http_bytes *b);
// Cut to its first keep bytes, to write on. What others hold is left to them: *b is then a copy.
struct gs_buf *http_bytes_edit(struct http_bytes **b, size_t keep);
void http_reply_bytes(struct http_exchange *x, int status, const char *content_type,
                      struct http_bytes *body);
void http_reply_text(struct http_exchange *x, int status, const char *fmt, ...) GS_PRINTF(3, 4);

// A chunked reply that goes on until http_stream_end() or the peer leaves. on_close is called once,
// always, when no more may be written (also after http_stream_end); the stream is gone afterwards.
struct http_stream *http_reply_stream(struct http_exchange *x, int status, const char *content_type,
                                      void (*on_close)(void *arg), void *arg);
// Queues bytes. When the peer reads too slowly for the stream's limit (4 MiB) the stream is cut.
void http_stream_write(struct http_stream *s, struct gs_slice bytes);
size_t http_stream_pending(const struct http_stream *s);
void http_stream_end(struct http_stream *s);

void http_on_abort(struct http_exchange *x, void (*cb)(void *arg), void *arg);
// Called once from inside http_reply() or http_reply_stream() (then without a body) with what is
// answered: for logs of requests. body is borrowed for the call.
void http_on_answer(struct http_exchange *x,
                    void (*cb)(void *arg, int status, const char *content_type,
                               struct gs_slice body),
                    void *arg);
