// SPDX-License-Identifier: Apache-2.0
// The server's side of SPDY/3.1 as Kubernetes' clients use it: streams that the client opens, of
// which each direction can end alone. It works on bytes: the caller carries them over a connection.
// Source: SPDY Protocol, draft 3.1. A difference: the windows of the flow control are only obeyed
// towards a peer that sets them, since Kubernetes' clients neither obey nor update any. The caller
// limits what is stored by reading no more from the connection.
#pragma once

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct spdy;
struct spdy_stream;

#define SPDY_MAX_STREAMS 512 // open at once; more are refused

struct spdy_callbacks {
    // The peer has opened a stream, which is the callee's until spdy_stream_free(). Its headers are
    // there already; a reply was not sent yet.
    void (*on_stream)(void *arg, struct spdy_stream *s);
    void (*on_data)(void *arg, struct spdy_stream *s, struct gs_slice bytes); // borrowed
    void (*on_fin)(void *arg, struct spdy_stream *s);   // the peer sends no more
    void (*on_reset)(void *arg, struct spdy_stream *s); // the peer gave it up
    // Bytes for the peer; borrowed for the call.
    void (*on_output)(void *arg, struct gs_slice bytes);
    // Once: the peer goes away (why NULL), or has violated the protocol (after our GOAWAY). Nothing
    // more is read; close the connection.
    void (*on_end)(void *arg, const char *why);
};

// The callbacks are only called inside functions of this header. They may free streams, not the
// session. Freeing the session frees its streams.
struct spdy *spdy_new(const struct spdy_callbacks *cb, void *arg);
void spdy_free(struct spdy *s); // accepts NULL
void spdy_feed(struct spdy *s, struct gs_slice bytes);
void spdy_close(struct spdy *s); // sends GOAWAY

// NULL if absent. Names are in lower case. Returns the first of repeated values.
const char *spdy_stream_header(const struct spdy_stream *s, const char *name);
uint32_t spdy_stream_id(const struct spdy_stream *s);
void spdy_stream_set_data(struct spdy_stream *s, void *data); // for the callee; NULL at first
void *spdy_stream_data(const struct spdy_stream *s);

void spdy_stream_accept(struct spdy_stream *s); // sends SYN_REPLY, once
void spdy_stream_write(struct spdy_stream *s, struct gs_slice bytes);
// Bytes that a window of the peer holds back.
size_t spdy_stream_held(const struct spdy_stream *s);
void spdy_stream_end(struct spdy_stream *s); // our direction
// The caller has dealt with n bytes of on_data.
void spdy_stream_consumed(struct spdy_stream *s, size_t n);
// Resets the stream unless both directions have ended. Accepts NULL.
void spdy_stream_free(struct spdy_stream *s);
