// SPDX-License-Identifier: Apache-2.0
// The interface of all HTTP clients (libcurl, direct, loopback, endpoint), and helpers for their
// callers.
#include "net/http/client.h"

#include "base/clock.h"

#include <microhttpd.h>

struct http_op *http_send(struct http_client *c, const struct http_request *request,
                          const struct http_callbacks *cb, void *arg)
{
    return c->ops->send(c, request, cb, arg);
}

void http_op_cancel(struct http_op *op)
{
    if (op)
        op->client->ops->cancel(op);
}

unsigned http_request_timeout_ms(const struct http_request *r)
{
    if (r->timeout_ms == HTTP_NO_TIMEOUT)
        return UINT_MAX;
    if (r->timeout_ms > INT32_MAX)
        return INT32_MAX;
    return r->timeout_ms < 0   ? 1
           : r->timeout_ms > 0 ? (unsigned)r->timeout_ms
                               : HTTP_DEFAULT_TIMEOUT_MS;
}

int64_t http_time_left_ms(unsigned timeout_ms, int64_t begun_ns)
{
    int64_t spent_ms = (gs_mono_ns() - begun_ns) / GS_NS_PER_MS;
    if (timeout_ms == UINT_MAX)
        return HTTP_NO_TIMEOUT;
    return spent_ms < timeout_ms ? timeout_ms - spent_ms : 1;
}

void http_client_free(struct http_client *c)
{
    if (c)
        c->ops->free(c);
}

// RFC 3986 section 2.3.
static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void http_encode(struct gs_slice s, struct gs_buf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (is_unreserved(c)) {
            gs_buf_add_char(out, (char)c);
            continue;
        }
        char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
        gs_buf_add(out, escape, sizeof(escape));
    }
}

const char *http_reason(int status)
{
    const char *text = MHD_get_reason_phrase_for((unsigned)status);
    return text && !gs_streq(text, "Unknown") ? text : "";
}

struct gs_slice http_response_header(const struct http_response *r, const char *name)
{
    struct gs_slice rest = r->head;
    while (rest.len) {
        struct gs_slice value = gs_slice_cut(&rest, '\n');
        struct gs_slice key = gs_slice_cut(&value, ':');
        if (value.data && gs_slice_is_word(key, name))
            return gs_slice_trim(value);
    }
    return (struct gs_slice){0};
}
