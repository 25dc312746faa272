// SPDX-License-Identifier: Apache-2.0
// Reads responses of HTTP/1.x for programs that pass them on (RFC 9112). Requests of our own go
// through client.h: libcurl, and for plain GETs the stricter parser in reply.c.
#include "net/http/response_reader.h"

#include "base/mem.h"
#include "base/num.h"
#include "net/http/http_private.h"

#include <strings.h>

#define MAX_HEAD       ((size_t)64 * 1024) // also of the trailers
#define MAX_CHUNK_LINE 1024
#define MAX_HEADERS    200

static struct gs_error *bad(const char *what)
{
    return gs_error_new(GS_EINVAL, "invalid response: %s", what);
}

void http_response_reader_finish(struct http_response_reader *r)
{
    gs_buf_finish(&r->head);
    free(r->headers);
    r->headers = NULL;
}

const char *http_response_reader_header(const struct http_response_reader *r, const char *name)
{
    for (size_t i = 0; i < r->n_headers; i++)
        if (strcasecmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

// --- the head ---

static bool is_token(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.data[i] <= ' ' || s.data[i] == 127 || strchr("()<>@,;:\\\"/[]?={}", s.data[i]))
            return false;
    return s.len > 0;
}

static bool has_control(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (((unsigned char)s.data[i] < ' ' && s.data[i] != '\t') || s.data[i] == 127)
            return true;
    return false;
}

// A line without its end. The text stays in the buffer, where it is cut by NULs.
static struct gs_slice cut_line(struct gs_slice *rest)
{
    struct gs_slice line = gs_slice_cut(rest, '\n');
    if (line.len && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

static struct gs_error *read_status(struct http_response_reader *r, struct gs_slice line)
{
    int64_t status = 0;
    if (line.len < 12 || !gs_slice_starts(line, "HTTP/1.") || line.data[8] != ' ' ||
        (line.len > 12 && line.data[12] != ' '))
        return bad("no status line");
    struct gs_error *err = gs_parse_i64(gs_slice_make(line.data + 9, 3), 100, 999, &status);
    if (err) {
        gs_error_free(err);
        return bad("no status code");
    }
    r->status = (int)status;
    return NULL;
}

static struct gs_error *add_header(struct http_response_reader *r, struct gs_slice line)
{
    struct gs_slice rest = line, name = gs_slice_cut(&rest, ':');
    if (!rest.data || !is_token(name) || r->n_headers == MAX_HEADERS)
        return bad(r->n_headers == MAX_HEADERS ? "too many headers" : "a line is no header");
    struct gs_slice value = gs_slice_trim(rest);
    if (has_control(value))
        return bad("a header has a control character");
    ((char *)name.data)[name.len] = '\0';
    // The byte after the value is white space or the end of the line.
    if (value.len)
        ((char *)value.data)[value.len] = '\0';
    r->headers[r->n_headers++] = (struct http_header){name.data, value.len ? value.data : ""};
    return NULL;
}

static bool is_last_coding_chunked(const char *value)
{
    const char *comma = strrchr(value, ',');
    return strcasecmp(gs_slice_trim(gs_slice_of(comma ? comma + 1 : value)).data, "chunked") == 0;
}

static struct gs_error *set_framing(struct http_response_reader *r)
{
    const char *length = http_response_reader_header(r, "Content-Length");
    const char *coding = http_response_reader_header(r, "Transfer-Encoding");
    r->length = -1;
    if (coding && length)
        return bad("both a length and a transfer coding");
    if (r->status == 204 || r->status == 304 || r->status == 101) {
        r->state = HTTP_RESPONSE_DONE;
    } else if (coding) {
        if (!is_last_coding_chunked(coding))
            return bad("unknown transfer coding");
        r->state = HTTP_RESPONSE_CHUNK_SIZE;
    } else if (length) {
        for (size_t i = 0; i < r->n_headers; i++)
            if (strcasecmp(r->headers[i].name, "Content-Length") == 0 &&
                // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): each has a value
                strcmp(r->headers[i].value, length) != 0)
                return bad("two lengths");
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_i64(gs_slice_of(length), 0, INT64_MAX, &r->length);
        if (err)
            return bad("no valid length");
        r->left = r->length;
        r->state = r->length ? HTTP_RESPONSE_LENGTH : HTTP_RESPONSE_DONE;
    } else {
        r->state = HTTP_RESPONSE_UNTIL_END;
    }
    if (r->no_body && r->status >= 200)
        r->state = HTTP_RESPONSE_DONE;
    return NULL;
}

static struct gs_error *parse_head(struct http_response_reader *r)
{
    struct gs_slice rest = gs_buf_slice(&r->head);
    r->n_headers = 0;
    struct gs_error *err = read_status(r, cut_line(&rest));
    while (!err && rest.data && rest.len) {
        struct gs_slice line = cut_line(&rest);
        if (!line.len)
            break;
        err = add_header(r, line);
    }
    return err ? err : set_framing(r);
}

// The empty line that ends the head, or SIZE_MAX. from: where new bytes begin.
static size_t find_end(const struct gs_buf *head, size_t from)
{
    for (size_t i = from > 3 ? from - 3 : 0; i + 1 < head->len; i++) {
        if (head->data[i] != '\n')
            continue;
        if (head->data[i + 1] == '\n')
            return i + 2;
        if (i + 2 < head->len && head->data[i + 1] == '\r' && head->data[i + 2] == '\n')
            return i + 3;
    }
    return SIZE_MAX;
}

static struct gs_error *feed_head(struct http_response_reader *r, struct gs_slice *in)
{
    size_t before = r->head.len;
    size_t take = in->len < MAX_HEAD - before ? in->len : MAX_HEAD - before;
    gs_buf_add(&r->head, in->data, take);
    size_t end = find_end(&r->head, before);
    if (end == SIZE_MAX) {
        *in = gs_slice_make(in->data + take, in->len - take);
        return r->head.len >= MAX_HEAD ? bad("its head is too long") : NULL;
    }
    *in = gs_slice_make(in->data + (end - before), in->len - (end - before));
    r->head.len = end;
    if (!r->headers)
        r->headers = gs_alloc_array(MAX_HEADERS, sizeof(*r->headers));
    struct gs_error *err = parse_head(r);
    if (err)
        return err;
    if (r->status < 200 && r->status != 101) { // an interim response: the next head follows
        gs_buf_clear(&r->head);
        r->state = HTTP_RESPONSE_HEAD;
        return NULL;
    }
    r->has_head = true;
    return NULL;
}

// --- the body ---

// Collects one line in r->line. True when it is complete.
static bool feed_line(struct http_response_reader *r, struct gs_slice *in)
{
    while (in->len) {
        char c = *in->data++;
        in->len--;
        if (c == '\n')
            return true;
        if (c != '\r' && r->line_len < sizeof(r->line) - 1)
            r->line[r->line_len++] = c;
        r->line_bytes++;
    }
    return false;
}

static struct gs_error *read_chunk_size(struct http_response_reader *r)
{
    uint64_t size = 0;
    if (!http_chunk_size(gs_slice_make(r->line, r->line_len), &size))
        return bad("no valid size of a chunk");
    r->left = (int64_t)size;
    r->state = size ? HTTP_RESPONSE_CHUNK : HTTP_RESPONSE_TRAILER;
    return NULL;
}

static struct gs_error *feed_chunk_line(struct http_response_reader *r, struct gs_slice *in)
{
    bool complete = feed_line(r, in);
    struct gs_error *err = NULL;
    if (r->line_bytes > (r->state == HTTP_RESPONSE_TRAILER ? MAX_HEAD : MAX_CHUNK_LINE))
        return bad("a line between chunks is too long");
    if (!complete)
        return NULL;
    if (r->state == HTTP_RESPONSE_CHUNK_SIZE)
        err = read_chunk_size(r);
    else if (r->state == HTTP_RESPONSE_CHUNK_END && r->line_len)
        err = bad("a chunk does not end where it should");
    else if (r->state == HTTP_RESPONSE_CHUNK_END)
        r->state = HTTP_RESPONSE_CHUNK_SIZE;
    else if (r->line_len == 0)
        r->state = HTTP_RESPONSE_DONE;
    r->line_len = 0;
    if (r->state != HTTP_RESPONSE_TRAILER)
        r->line_bytes = 0;
    return err;
}

static struct gs_slice feed_data(struct http_response_reader *r, struct gs_slice *in)
{
    size_t n = r->state == HTTP_RESPONSE_UNTIL_END || (uint64_t)r->left > in->len ? in->len
                                                                                  : (size_t)r->left;
    struct gs_slice data = gs_slice_make(in->data, n);
    *in = gs_slice_make(in->data + n, in->len - n);
    if (r->state == HTTP_RESPONSE_UNTIL_END)
        return data;
    r->left -= (int64_t)n;
    if (r->left == 0)
        r->state = r->state == HTTP_RESPONSE_CHUNK ? HTTP_RESPONSE_CHUNK_END : HTTP_RESPONSE_DONE;
    return data;
}

struct gs_error *http_response_reader_feed(struct http_response_reader *r, struct gs_slice *in,
                                           struct gs_slice *ret_body)
{
    struct gs_error *err = NULL;
    *ret_body = (struct gs_slice){0};
    while (!err && in->len && r->state != HTTP_RESPONSE_DONE) {
        bool had_head = r->has_head;
        switch (r->state) {
        case HTTP_RESPONSE_HEAD:
            err = feed_head(r, in);
            break;
        case HTTP_RESPONSE_LENGTH:
        case HTTP_RESPONSE_CHUNK:
        case HTTP_RESPONSE_UNTIL_END:
            *ret_body = feed_data(r, in);
            return NULL;
        case HTTP_RESPONSE_CHUNK_SIZE:
        case HTTP_RESPONSE_CHUNK_END:
        case HTTP_RESPONSE_TRAILER:
            err = feed_chunk_line(r, in);
            break;
        case HTTP_RESPONSE_DONE:
            break;
        }
        if (!had_head && r->has_head)
            return err; // the caller starts its reply before the first bytes of the body
    }
    return err;
}

bool http_response_reader_ended(struct http_response_reader *r)
{
    if (r->state == HTTP_RESPONSE_UNTIL_END)
        r->state = HTTP_RESPONSE_DONE;
    return r->state == HTTP_RESPONSE_DONE;
}
