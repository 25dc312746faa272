// SPDX-License-Identifier: Apache-2.0
// Shared by the files of this module: exchanges of servers, URLs, and replies that clients parse.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"
#include "net/http/http.h"

#include <sys/socket.h>
#include <uv.h>

// --- exchanges ---

// The carrier's side of an exchange (TLS server, loopback). A carrier embeds struct http_exchange,
// fills in the request, runs the handler and implements http_carrier_ops.
//
// References: the carrier has one. The handler has one from http_exchange_run() until it has
// answered (a stream: until on_close) or on_abort was called. A handler without on_abort keeps its
// reference after the peer has disconnected; its late answer is dropped.

struct http_carrier_ops {
    // None of these may call the handler. They take effect in a later turn of the loop, or when the
    // carrier continues.
    void (*reply)(struct http_exchange *x, int status, const char *content_type,
                  struct gs_slice body);
    void (*stream_begin)(struct http_exchange *x, int status, const char *content_type);
    void (*stream_changed)(struct http_exchange *x); // bytes were queued, or it was ended or cut
    void (*stream_limit_stall)(struct http_exchange *x, unsigned ms); // NULL: not needed
    // NULL: not possible. The reply's headers were added to the exchange.
    struct http_upgrade *(*upgrade)(struct http_exchange *x, const char *protocol,
                                    const struct http_upgrade_callbacks *cb, void *arg);
    void (*release)(struct http_exchange *x); // last reference gone: free the carrier's struct
};

struct http_pair {
    const char *name, *value;
};

struct http_pairs {
    struct http_pair *items;
    size_t len, cap;
};

#define HTTP_STREAM_LIMIT  (4u * 1024 * 1024)  // bytes that wait in one stream
#define HTTP_STREAMS_LIMIT (64u * 1024 * 1024) // and in all streams of a server

struct http_stream {
    struct gs_buf queue;
    size_t sent; // bytes of queue that are sent already
    bool open;   // on_close was not called yet
    bool ended;
    bool cut; // the peer read too slowly
    void (*on_close)(void *arg);
    void *arg;
};

struct http_exchange {
    const struct http_carrier_ops *ops;
    uv_loop_t *loop;
    struct gs_timer *close_timer; // of a stream without a reader
    unsigned refs;
    bool answered;
    bool is_head;          // method is GET instead of HEAD
    bool has_body_length;  // body_length is that of the reply, whose body is unknown
    int64_t body_length;   // -1: unknown
    bool gone;             // the carrier has dropped its reference
    struct gs_arena arena; // strings of the request and the reply headers
    const char *method, *target, *path, *peer;
    struct http_pairs query, headers, reply_headers;
    struct gs_buf body;
    struct http_identity identity;
    const struct gs_slice *peer_chain; // of the carrier
    size_t n_peer_chain;
    void (*on_abort)(void *arg);
    void *abort_arg;
    void (*on_response)(void *arg, int status, const char *content_type, struct gs_slice body);
    void *response_arg;
    struct http_stream stream;
    struct http_bytes *shared; // the reply's body, while the carrier is given the reply
};

unsigned http_bytes_refs(const struct http_bytes *b);

void http_exchange_init(struct http_exchange *x, uv_loop_t *loop,
                        const struct http_carrier_ops *ops);
void http_exchange_set_method(struct http_exchange *x, const char *method);
// target: origin form "/a/b?c=d", or absolute form. GS_EINVAL: it is malformed.
struct gs_error *http_exchange_set_target(struct http_exchange *x, struct gs_slice target);
void http_exchange_add_parameter(struct http_exchange *x, struct gs_slice name,
                                 struct gs_slice value); // copies both
// Adds the fields of the body as parameters. type: its Content-Type. GS_EINVAL: it is malformed.
struct gs_error *http_read_multipart(struct http_exchange *x, const char *type);
void http_exchange_set_identity(struct http_exchange *x, const struct http_identity *identity);
void http_exchange_set_peer(struct http_exchange *x, const char *peer);
void http_exchange_add_request_header(struct http_exchange *x, const char *name, const char *value);

void http_exchange_run(struct http_exchange *x, http_handler handler, void *ctx);
// Call it when the peer has disconnected or the carrier has finished a stream: calls on_abort or
// on_close of the handler once. Then the carrier drops its reference.
void http_exchange_gone(struct http_exchange *x);
void http_exchange_unref(struct http_exchange *x);

void http_stream_cut(struct http_stream *s); // drops what waits, and closes the connection
struct gs_slice http_stream_front(const struct http_stream *s); // the bytes to send next
void http_stream_consume(struct http_stream *s, size_t n);

// Copies into one allocation-owning arena; groups and user included.
void http_identity_copy(struct gs_arena *arena, const struct http_identity *from,
                        struct http_identity *ret);

// --- URLs ---

// The parts of an http:// URL for the fast path of the client. Other URLs (another scheme, user
// information, a fragment, characters that need encoding) are rejected: libcurl parses those.

struct http_url {
    struct gs_slice authority; // "node-1:9400", for the Host header; of the text
    struct gs_slice target;    // "/metrics?x=1"; "/" if the URL has no path
    char host[256];            // without brackets
    int port;                  // 80 if the URL has no port
};

bool http_url_parse(const char *text, struct http_url *ret);
// "localhost", 127.…, ::1 with or without brackets.
bool http_host_is_loopback(const char *host);
// False: the host is a name.
bool http_url_address(const struct http_url *u, struct sockaddr_storage *ret);

// --- replies ---

// The size in a line before a chunk: "1f3a" or "1f3a;name=value". False: none, or 2^60 and above.
bool http_chunk_size(struct gs_slice line, uint64_t *ret);

// One HTTP/1.1 reply as its bytes arrive (RFC 9112): head, then a body by Content-Length, chunked,
// or until the end. Unusual or ambiguous replies are reported as odd, and the caller sends the
// request by libcurl.

enum http_reply_state {
    HTTP_REPLY_MORE, // bytes are missing
    HTTP_REPLY_DONE,
    HTTP_REPLY_ODD,
    HTTP_REPLY_LARGE, // the body is larger than max_body
};

struct http_reply {
    struct gs_buf bytes; // as received; the caller appends. Decoding happens in place
    size_t max_body;
    // From the head, valid in all states except MORE and ODD:
    int status;
    bool keep;             // the connection may be used again
    int64_t retry_after_s; // 0: none
    // Private:
    size_t content_type;   // offset of its text; 0: none
    size_t looked_at;      // searched bytes without the end of the head
    size_t head;           // its length; 0: incomplete
    size_t body_end, next; // chunked: end of the decoded bytes, start of the other bytes
    uint64_t left;         // chunked: missing bytes of the chunk and its line end
    uint64_t length;
    bool has_length, chunked, trailers, has_keep;
};

// Call it after bytes were appended. ended: no more bytes follow.
enum http_reply_state http_reply_step(struct http_reply *r, bool ended);
// Call it when the reply is complete.
struct gs_slice http_reply_body(const struct http_reply *r);
const char *http_reply_content_type(const struct http_reply *r); // NULL: none
// Prepares for the next reply; keeps the memory of bytes.
void http_reply_reset(struct http_reply *r, size_t max_body);
