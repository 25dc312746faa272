// SPDX-License-Identifier: Apache-2.0
// One HTTP/1.1 reply as its bytes come in (RFC 9112): head, then a body by Content-Length, chunked,
// or until the end. What is unusual or doubtful is called odd rather than guessed at: the caller
// then asks a full client. Private to the room.
#pragma once

#include "base/buf.h"

enum http_reply_state {
    HTTP_REPLY_MORE, // bytes are missing
    HTTP_REPLY_DONE,
    HTTP_REPLY_ODD,
    HTTP_REPLY_LARGE, // the body is larger than max_body
};

struct http_reply {
    struct gs_buf bytes; // as received; the caller appends. Decoding happens in place
    size_t max_body;
    // Of the head, once there is a state other than MORE and ODD:
    int status;
    bool keep;             // the connection may be used again
    int64_t retry_after_s; // 0: none
    // Private:
    size_t content_type;   // where its text begins; 0: none
    size_t looked_at;      // bytes in which the head does not end
    size_t head;           // its length; 0: not there yet
    size_t body_end, next; // chunked: end of the decoded bytes, start of those that are not
    uint64_t left;         // chunked: bytes of the chunk that are missing, with its line end
    uint64_t length;
    bool has_length, chunked, trailers, has_keep;
};

// Call after bytes were appended. ended: none will follow.
enum http_reply_state http_reply_step(struct http_reply *r, bool ended);
// When done.
struct gs_slice http_reply_body(const struct http_reply *r);
const char *http_reply_content_type(const struct http_reply *r); // NULL: none
// For the next reply; keeps the memory of bytes.
void http_reply_reset(struct http_reply *r, size_t max_body);
