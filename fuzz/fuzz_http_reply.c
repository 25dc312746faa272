// SPDX-License-Identifier: Apache-2.0
// Responses of an HTTP peer. Reading at once and in pieces must give the same result, and the body
// must be within the input. First byte: size of the pieces.
#include "net/http/http_private.h"

#include <stdlib.h>

#define MAX_BODY 4096

static enum http_reply_state feed(struct http_reply *r, const uint8_t *data, size_t size,
                                  size_t piece)
{
    enum http_reply_state state = HTTP_REPLY_MORE;
    for (size_t at = 0; at < size && state == HTTP_REPLY_MORE; at += piece) {
        gs_buf_add(&r->bytes, data + at, size - at < piece ? size - at : piece);
        state = http_reply_step(r, false);
    }
    return state == HTTP_REPLY_MORE ? http_reply_step(r, true) : state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct http_reply whole = {.max_body = MAX_BODY}, cut = {.max_body = MAX_BODY};
    enum http_reply_state a = feed(&whole, data + 1, size - 1, size);
    enum http_reply_state b = feed(&cut, data + 1, size - 1, (size_t)data[0] + 1);
    if (a == HTTP_REPLY_MORE || b == HTTP_REPLY_MORE)
        abort();
    if (a == HTTP_REPLY_DONE && b == HTTP_REPLY_DONE) {
        struct gs_slice x = http_reply_body(&whole), y = http_reply_body(&cut);
        if (x.len > MAX_BODY || !gs_slice_eq(x, y) || whole.status != cut.status)
            abort();
        const char *type = http_reply_content_type(&whole);
        if (type && strlen(type) > whole.head)
            abort();
    } else if (a != b && a == HTTP_REPLY_DONE) {
        abort(); // a reply that is right at once is right in pieces
    }
    gs_buf_finish(&whole.bytes);
    gs_buf_finish(&cut.bytes);
    return 0;
}
