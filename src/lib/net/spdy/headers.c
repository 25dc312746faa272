// SPDX-License-Identifier: Apache-2.0
// Header blocks of SPDY/3.1: zlib with one stream of compression per direction for the whole
// session, so each block must be inflated, even one that is ignored. The dictionary is that of
// section 2.6.10.1.
#include "net/spdy/spdy_private.h"

#include "base/mem.h"

#include <zlib.h>

// The dictionary of section 2.6.10.1: these words, each after its length as four bytes, and a text.
static const char *const words[] = {"options",
                                    "head",
                                    "post",
                                    "put",
                                    "delete",
                                    "trace",
                                    "accept",
                                    "accept-charset",
                                    "accept-encoding",
                                    "accept-language",
                                    "accept-ranges",
                                    "age",
                                    "allow",
                                    "authorization",
                                    "cache-control",
                                    "connection",
                                    "content-base",
                                    "content-encoding",
                                    "content-language",
                                    "content-length",
                                    "content-location",
                                    "content-md5",
                                    "content-range",
                                    "content-type",
                                    "date",
                                    "etag",
                                    "expect",
                                    "expires",
                                    "from",
                                    "host",
                                    "if-match",
                                    "if-modified-since",
                                    "if-none-match",
                                    "if-range",
                                    "if-unmodified-since",
                                    "last-modified",
                                    "location",
                                    "max-forwards",
                                    "pragma",
                                    "proxy-authenticate",
                                    "proxy-authorization",
                                    "range",
                                    "referer",
                                    "retry-after",
                                    "server",
                                    "te",
                                    "trailer",
                                    "transfer-encoding",
                                    "upgrade",
                                    "user-agent",
                                    "vary",
                                    "via",
                                    "warning",
                                    "www-authenticate",
                                    "method",
                                    "get",
                                    "status",
                                    "200 OK",
                                    "version",
                                    "HTTP/1.1",
                                    "url",
                                    "public",
                                    "set-cookie",
                                    "keep-alive",
                                    "origin"};
static const char text[] =
    "1001012012022052063003023033043053063074024054064074084094104114124134144154164175025045"
    "05203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401"
    " Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 S"
    "ervice UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, We"
    "d, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xm"
    "l,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdc"
    "hcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

static struct gs_slice dictionary(void)
{
    static uint8_t bytes[2048];
    static size_t len;
    if (len)
        return gs_slice_make(bytes, len);
    size_t at = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++) {
        size_t n = strlen(words[i]);
        const uint8_t head[4] = {0, 0, 0, (uint8_t)n};
        memcpy(bytes + at, head, sizeof(head));
        memcpy(bytes + at + sizeof(head), words[i], n);
        at += sizeof(head) + n;
    }
    memcpy(bytes + at, text, sizeof(text) - 1);
    len = at + sizeof(text) - 1;
    return gs_slice_make(bytes, len);
}

bool spdy_headers_init(struct spdy_headers *h)
{
    enum { WINDOW_BITS = 11, MEMORY = 1 }; // there is little to compress
    struct gs_slice dict = dictionary();
    *h = (struct spdy_headers){0};
    h->has_in = inflateInit(&h->in) == Z_OK;
    h->has_out = deflateInit2(&h->out, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS, MEMORY,
                              Z_DEFAULT_STRATEGY) == Z_OK;
    return h->has_in && h->has_out &&
           deflateSetDictionary(&h->out, (const Bytef *)dict.data, (uInt)dict.len) == Z_OK;
}

void spdy_headers_finish(struct spdy_headers *h)
{
    if (h->has_in)
        inflateEnd(&h->in);
    if (h->has_out)
        deflateEnd(&h->out);
}

// One step; false at an error.
static bool inflate_step(struct spdy_headers *h, int *ret)
{
    struct gs_slice dict = dictionary();
    *ret = inflate(&h->in, Z_SYNC_FLUSH);
    if (*ret == Z_NEED_DICT) {
        if (inflateSetDictionary(&h->in, (const Bytef *)dict.data, (uInt)dict.len) != Z_OK)
            return false;
        *ret = inflate(&h->in, Z_SYNC_FLUSH);
    }
    return *ret == Z_OK || *ret == Z_BUF_ERROR;
}

bool spdy_headers_inflate(struct spdy_headers *h, struct gs_slice block, struct gs_buf *ret)
{
    char chunk[4096];
    int rc;
    h->in.next_in = (Bytef *)(uintptr_t)block.data;
    h->in.avail_in = (uInt)block.len;
    do {
        h->in.next_out = (Bytef *)chunk;
        h->in.avail_out = sizeof(chunk);
        if (!inflate_step(h, &rc))
            return false;
        size_t n = sizeof(chunk) - h->in.avail_out;
        if (n > SPDY_MAX_BLOCK - ret->len)
            return false;
        gs_buf_add(ret, chunk, n);
    } while (rc == Z_OK && (h->in.avail_in || !h->in.avail_out));
    return !h->in.avail_in;
}

void spdy_headers_empty(struct spdy_headers *h, struct gs_buf *ret)
{
    static const char none[4];
    char chunk[64];
    h->out.next_in = (Bytef *)(uintptr_t)none;
    h->out.avail_in = sizeof(none);
    do {
        h->out.next_out = (Bytef *)chunk;
        h->out.avail_out = sizeof(chunk);
        deflate(&h->out, Z_SYNC_FLUSH);
        gs_buf_add(ret, chunk, sizeof(chunk) - h->out.avail_out);
    } while (!h->out.avail_out);
}
