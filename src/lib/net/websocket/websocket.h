// SPDX-License-Identifier: Apache-2.0
// The server's side of WebSocket (RFC 6455), without extensions. It works on bytes: the caller
// carries them over a connection (net/http/http.h, http_reply_upgrade). Payloads are passed on as
// they arrive, so a message may have any length and none is stored.
#pragma once

#include "net/http/http.h"

struct websocket;

enum websocket_opcode {
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
};

// Close codes, RFC 6455 section 7.4.1.
enum websocket_code {
    WEBSOCKET_NORMAL = 1000,
    WEBSOCKET_GOING_AWAY = 1001,
    WEBSOCKET_PROTOCOL_ERROR = 1002,
    WEBSOCKET_NO_CODE = 1005, // the peer's close frame has none, or there was none
    WEBSOCKET_INTERNAL_ERROR = 1011,
};

struct websocket_callbacks {
    // A part of a message. first and last: it begins and ends the message. The bytes of a text
    // message are not checked to be UTF-8.
    void (*on_message)(void *arg, enum websocket_opcode opcode, struct gs_slice part, bool first,
                       bool last);
    // Bytes for the peer; borrowed for the call.
    void (*on_output)(void *arg, struct gs_slice bytes);
    // Once: the peer has closed (after a reply to its close frame), or has violated the protocol
    // (after a close frame of ours). Nothing more is read; close the connection.
    void (*on_end)(void *arg, unsigned code);
};

// The callbacks are only called inside websocket_feed(), websocket_send() and websocket_close().
// They may not free the object.
struct websocket *websocket_new(const struct websocket_callbacks *cb, void *arg);
void websocket_free(struct websocket *w); // accepts NULL

void websocket_feed(struct websocket *w, struct gs_slice bytes);
// One message in one frame, of head and body (either may be empty). Dropped after a close frame.
void websocket_send(struct websocket *w, enum websocket_opcode opcode, struct gs_slice head,
                    struct gs_slice body);
// Sends a close frame, once. reason: at most 123 bytes are sent.
void websocket_close(struct websocket *w, enum websocket_code code, const char *reason);

// --- the handshake ---

// The headers of the request contain an upgrade to WebSocket.
bool websocket_requested(const struct http_exchange *x);
// NULL: a correct handshake, of which *ret_accept is the answer's Sec-WebSocket-Accept (caller
// frees). Else what is wrong with it: answer 400, of another version 426.
const char *websocket_handshake(const struct http_exchange *x, char **ret_accept);
// The first protocol of the peer's list Sec-WebSocket-Protocol that is among `supported`
// (NULL-terminated), as an element of that array. NULL: none. *ret_offered: the peer has a list.
const char *websocket_protocol(const struct http_exchange *x, const char *const *supported,
                               bool *ret_offered);
