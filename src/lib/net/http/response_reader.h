// SPDX-License-Identifier: Apache-2.0
// Reads a response of HTTP/1.x as its bytes arrive, for programs that pass it on: the head, then a
// body with a length, in chunks, or until the connection ends (RFC 9112). Nothing is buffered but
// the head. Used in one thread.
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "net/http/http.h"

#include <stdbool.h>
#include <stdint.h>

struct http_response_reader { // zero-initialized
    enum {
        HTTP_RESPONSE_HEAD,
        HTTP_RESPONSE_LENGTH,
        HTTP_RESPONSE_CHUNK_SIZE,
        HTTP_RESPONSE_CHUNK,
        HTTP_RESPONSE_CHUNK_END,
        HTTP_RESPONSE_TRAILER,
        HTTP_RESPONSE_UNTIL_END,
        HTTP_RESPONSE_DONE,
    } state;
    bool no_body;  // of a HEAD request: set before the first call
    bool has_head; // status and headers are set
    int status;
    struct http_header *headers; // n_headers; of the text in head
    size_t n_headers;
    int64_t length; // of the body; -1: unknown
    int64_t left;   // of the body or the chunk
    struct gs_buf head;
    char line[64]; // the beginning of a line between chunks
    size_t line_len, line_bytes;
};
void http_response_reader_finish(struct http_response_reader *r);
// Reads from the front of *in until it is empty, the head is complete, a piece of the body was
// found (*ret_body, a part of the input), or the response is complete. Call it again while *in is
// not empty and the state is not HTTP_RESPONSE_DONE. GS_EINVAL: not a valid response.
struct gs_error *http_response_reader_feed(struct http_response_reader *r, struct gs_slice *in,
                                           struct gs_slice *ret_body);
// The connection has ended. True: the response is complete.
bool http_response_reader_ended(struct http_response_reader *r);
const char *http_response_reader_header(const struct http_response_reader *r, const char *name);
