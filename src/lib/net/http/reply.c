// SPDX-License-Identifier: Apache-2.0
// Parses responses of HTTP/1.1 (RFC 9112) as their bytes arrive, for the short path of plain GETs.
// Anything unusual is HTTP_REPLY_ODD, and the caller repeats the request by libcurl. Chunks are
// joined in place: the decoded bytes never overtake those that are to be read.
#include "net/http/http_private.h"

#include "base/num.h"

#define MAX_HEAD       ((size_t)64 * 1024)
#define MAX_CHUNK_LINE ((size_t)256) // size and extensions

// --- the head ---

static bool take_length(struct http_reply *r, struct gs_slice value)
{
    uint64_t n = 0;
    if (!value.len || value.len > 18 || r->has_length)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(value.data[i] - '0');
    }
    r->length = n;
    r->has_length = true;
    return true;
}

static bool take_connection(struct http_reply *r, struct gs_slice value)
{
    while (value.data) {
        struct gs_slice option = gs_slice_trim(gs_slice_cut(&value, ','));
        if (gs_slice_is_word(option, "close"))
            r->keep = false;
        else if (gs_slice_is_word(option, "keep-alive"))
            r->has_keep = true;
        else if (gs_slice_is_word(option, "upgrade"))
            return false;
    }
    return true;
}

// Parses seconds; a date is ignored.
static void take_retry_after(struct http_reply *r, struct gs_slice value)
{
    gs_error_free(gs_parse_i64(value, 0, INT64_MAX, &r->retry_after_s));
}

// Terminates the text in place: a line end or a blank follows it.
static void take_content_type(struct http_reply *r, struct gs_slice value)
{
    r->content_type = (size_t)(value.data - r->bytes.data);
    r->bytes.data[r->content_type + value.len] = '\0';
}

static bool take_field(struct http_reply *r, struct gs_slice line)
{
    const char *colon = memchr(line.data, ':', line.len);
    if (!colon || colon == line.data)
        return false;
    struct gs_slice name = gs_slice_make(line.data, (size_t)(colon - line.data));
    struct gs_slice value =
        gs_slice_trim(gs_slice_make(colon + 1, line.len - (size_t)(colon + 1 - line.data)));
    if (memchr(name.data, ' ', name.len) || memchr(name.data, '\t', name.len)) // also a folded line
        return false;
    if (gs_slice_is_word(name, "content-length"))
        return take_length(r, value);
    if (gs_slice_is_word(name, "transfer-encoding")) {
        bool again = r->chunked;
        r->chunked = gs_slice_is_word(value, "chunked");
        return r->chunked && !again;
    }
    if (gs_slice_is_word(name, "connection"))
        return take_connection(r, value);
    if (gs_slice_is_word(name, "content-type"))
        take_content_type(r, value);
    else if (gs_slice_is_word(name, "retry-after"))
        take_retry_after(r, value);
    return true;
}

// "HTTP/1.1 200 OK": the reason may be missing.
static bool take_status(struct http_reply *r, struct gs_slice line)
{
    bool v1_1 = gs_slice_starts(line, "HTTP/1.1 ");
    if ((!v1_1 && !gs_slice_starts(line, "HTTP/1.0 ")) || line.len < 12 ||
        (line.len > 12 && line.data[12] != ' '))
        return false;
    for (size_t i = 9; i < 12; i++) {
        if (line.data[i] < '0' || line.data[i] > '9')
            return false;
        r->status = r->status * 10 + (line.data[i] - '0');
    }
    r->keep = v1_1;
    return r->status >= 200;
}

static bool take_head(struct http_reply *r)
{
    struct gs_slice rest = gs_slice_make(r->bytes.data, r->head - 2); // without the empty line
    bool first = true;
    while (rest.len) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (!line.len || line.data[line.len - 1] != '\r')
            return false;
        line.len--;
        if (!(first ? take_status(r, line) : take_field(r, line)))
            return false;
        first = false;
    }
    bool v1_0 = gs_starts(r->bytes.data, "HTTP/1.0");
    if (r->chunked && (r->has_length || v1_0))
        return false; // this could hide a second reply
    if (r->status == 204 || r->status == 304) {
        r->chunked = false;
        r->has_length = true;
        r->length = 0;
    }
    r->keep = (r->keep || (v1_0 && r->has_keep)) && (r->has_length || r->chunked);
    r->body_end = r->next = r->head;
    return true;
}

static enum http_reply_state find_head(struct http_reply *r)
{
    struct gs_buf *b = &r->bytes;
    size_t from = r->looked_at > 3 ? r->looked_at - 3 : 0;
    const char *end = b->len ? memmem(b->data + from, b->len - from, "\r\n\r\n", 4) : NULL;
    r->looked_at = b->len;
    if (!end)
        return b->len > MAX_HEAD ? HTTP_REPLY_ODD : HTTP_REPLY_MORE;
    r->head = (size_t)(end - b->data) + 4;
    return r->head <= MAX_HEAD && take_head(r) ? HTTP_REPLY_DONE : HTTP_REPLY_ODD;
}

// --- chunks ---

bool http_chunk_size(struct gs_slice line, uint64_t *ret)
{
    size_t i = 0;
    *ret = 0;
    for (; i < line.len && gs_hex_digit(line.data[i]) >= 0; i++) {
        if (i == 15)
            return false;
        *ret = *ret * 16 + (uint64_t)gs_hex_digit(line.data[i]);
    }
    return i > 0 && (i == line.len || line.data[i] == ';' || line.data[i] == ' ');
}

// Returns the line that starts at r->next, without its end. False: it is incomplete.
static bool next_line(struct http_reply *r, struct gs_slice *ret, bool *ret_odd)
{
    const char *from = r->bytes.data + r->next;
    size_t there = r->bytes.len - r->next;
    const char *end = memchr(from, '\n', there);
    *ret_odd = end ? end == from || end[-1] != '\r' : there > MAX_CHUNK_LINE + 1; // with a CR
    if (!end || *ret_odd)
        return false;
    *ret = gs_slice_make(from, (size_t)(end - from) - 1);
    *ret_odd = ret->len > MAX_CHUNK_LINE;
    r->next += ret->len + 2;
    return !*ret_odd;
}

// Moves the received part of the chunk to the end of the decoded bytes. Its line end counts as the
// last two bytes and is dropped.
static enum http_reply_state take_chunk(struct http_reply *r)
{
    size_t there = r->bytes.len - r->next;
    size_t data = r->left > 2 ? (size_t)(r->left - 2) : 0;
    size_t n = data < there ? data : there;
    memmove(r->bytes.data + r->body_end, r->bytes.data + r->next, n);
    r->body_end += n;
    r->next += n;
    r->left -= n;
    if (r->left > 2 || r->bytes.len - r->next < 2)
        return HTTP_REPLY_MORE;
    if (memcmp(r->bytes.data + r->next, "\r\n", 2) != 0)
        return HTTP_REPLY_ODD;
    r->next += 2;
    r->left = 0;
    return HTTP_REPLY_DONE;
}

static enum http_reply_state take_chunks(struct http_reply *r)
{
    for (;;) {
        struct gs_slice line;
        bool odd;
        uint64_t size = 0;
        if (r->left) {
            enum http_reply_state state = take_chunk(r);
            if (state != HTTP_REPLY_DONE)
                return state;
        }
        if (!next_line(r, &line, &odd))
            return odd ? HTTP_REPLY_ODD : HTTP_REPLY_MORE;
        if (r->trailers) {
            if (!line.len)
                return HTTP_REPLY_DONE;
            continue;
        }
        if (!http_chunk_size(line, &size))
            return HTTP_REPLY_ODD;
        if (size > r->max_body - (r->body_end - r->head))
            return HTTP_REPLY_LARGE;
        r->trailers = !size;
        r->left = size ? size + 2 : 0;
    }
}

// The other bytes are moved behind the decoded ones, so that line ends of chunks do not accumulate.
static void close_gap(struct http_reply *r)
{
    size_t n = r->bytes.len - r->next;
    memmove(r->bytes.data + r->body_end, r->bytes.data + r->next, n);
    r->next = r->body_end;
    r->bytes.len = r->body_end + n;
}

// --- the whole ---

enum http_reply_state http_reply_step(struct http_reply *r, bool ended)
{
    enum http_reply_state state = r->head ? HTTP_REPLY_DONE : find_head(r);
    if (state != HTTP_REPLY_DONE)
        return state == HTTP_REPLY_MORE && ended ? HTTP_REPLY_ODD : state;
    size_t there = r->bytes.len - r->head;
    if (r->chunked) {
        state = take_chunks(r);
        if (state == HTTP_REPLY_DONE) // bytes after the reply belong to no request
            r->keep = r->keep && r->next == r->bytes.len;
        close_gap(r);
    } else if (r->has_length ? r->length > r->max_body : there > r->max_body) {
        state = HTTP_REPLY_LARGE;
    } else if (r->has_length) {
        state = there >= r->length ? HTTP_REPLY_DONE : HTTP_REPLY_MORE;
        r->body_end = r->head + (size_t)r->length;
        r->keep = r->keep && there <= r->length;
    } else {
        state = ended ? HTTP_REPLY_DONE : HTTP_REPLY_MORE;
        r->body_end = r->bytes.len;
    }
    return state == HTTP_REPLY_MORE && ended ? HTTP_REPLY_ODD : state;
}

struct gs_slice http_reply_body(const struct http_reply *r)
{
    return gs_slice_make(r->bytes.data + r->head, r->body_end - r->head);
}

const char *http_reply_content_type(const struct http_reply *r)
{
    return r->content_type ? r->bytes.data + r->content_type : NULL;
}

void http_reply_reset(struct http_reply *r, size_t max_body)
{
    struct gs_buf bytes = r->bytes;
    gs_buf_clear(&bytes);
    *r = (struct http_reply){.bytes = bytes, .max_body = max_body};
}
