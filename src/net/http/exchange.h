// SPDX-License-Identifier: Apache-2.0
// Private to net/: the exchange as a carrier (TLS server, loopback) sees it. A carrier embeds
// struct http_exchange, fills in the request, runs the handler and implements http_carrier_ops.
//
// References: one is the carrier's, one the handler's from http_exchange_run() until it has
// answered (a stream: until on_close) or was told of the abort. A handler that did not ask to be
// told keeps its reference after the peer left; its late answer is dropped.
#pragma once

#include "base/arena.h"
#include "net/http/http.h"

#include <uv.h>

struct http_carrier_ops {
    // None of these may call back into the handler; they take effect in a later loop turn or on the
    // return to the carrier.
    void (*reply)(struct http_exchange *x, int status, const char *content_type,
                  struct gs_slice body);
    void (*stream_begin)(struct http_exchange *x, int status, const char *content_type);
    void (*stream_changed)(struct http_exchange *x); // bytes were queued, or it was ended or cut
    void (*release)(struct http_exchange *x); // last reference gone: free the carrier's struct
};

struct http_pair {
    const char *name, *value;
};

struct http_pairs {
    struct http_pair *items;
    size_t len, cap;
};

#define HTTP_STREAM_LIMIT (4u * 1024 * 1024)

struct http_stream {
    struct gs_buf queue;
    size_t sent; // bytes of queue that are sent already
    bool open;   // on_close is still to be called
    bool ended;
    bool cut; // the peer read too slowly
    void (*on_close)(void *arg);
    void *arg;
};

struct http_exchange {
    const struct http_carrier_ops *ops;
    uv_loop_t *loop;
    struct gs_timer *close_timer; // of a stream that nobody wants
    unsigned refs;
    bool answered;
    bool gone;             // the carrier has let go of it
    struct gs_arena arena; // strings of the request and the reply headers
    const char *method, *target, *path, *peer;
    struct http_pairs query, headers, reply_headers;
    struct gs_buf body;
    struct http_identity identity;
    const struct gs_slice *peer_chain; // of the carrier
    size_t n_peer_chain;
    void (*on_abort)(void *arg);
    void *abort_arg;
    void (*on_answer)(void *arg, int status, const char *content_type, struct gs_slice body);
    void *answer_arg;
    struct http_stream stream;
    struct http_bytes *shared; // the reply's body, while the carrier is given the reply
};

void http_exchange_init(struct http_exchange *x, uv_loop_t *loop,
                        const struct http_carrier_ops *ops);
void http_exchange_set_method(struct http_exchange *x, const char *method);
// target: origin form "/a/b?c=d", or absolute form. GS_EINVAL when it is malformed.
struct gs_error *http_exchange_set_target(struct http_exchange *x, struct gs_slice target);
void http_exchange_set_identity(struct http_exchange *x, const struct http_identity *identity);
void http_exchange_set_peer(struct http_exchange *x, const char *peer);
void http_exchange_add_request_header(struct http_exchange *x, const char *name, const char *value);

void http_exchange_run(struct http_exchange *x, http_handler handler, void *ctx);
// The peer left, or the carrier is done with a stream: tells the handler, once, by on_abort or
// on_close. Then the carrier drops its reference.
void http_exchange_gone(struct http_exchange *x);
void http_exchange_unref(struct http_exchange *x);

struct gs_slice http_stream_front(const struct http_stream *s); // what is to be sent next
void http_stream_consume(struct http_stream *s, size_t n);

// Copies into one allocation-owning arena; groups and user included.
void http_identity_copy(struct gs_arena *arena, const struct http_identity *from,
                        struct http_identity *ret);
