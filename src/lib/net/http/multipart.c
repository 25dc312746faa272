// SPDX-License-Identifier: Apache-2.0
// Bodies of the type multipart/form-data (RFC 7578): the fields that are not files.
#include "net/http/http_private.h"

#include <strings.h>

enum { MAX_BOUNDARY = 70, MAX_PARTS = 1000 }; // RFC 2046; Go's limit of parts

static const char crlf[] = "\r\n";

// The parameter of a header such as `form-data; name="x"`. False: it is absent.
static bool find_parameter(struct gs_slice header, const char *name, struct gs_slice *ret)
{
    gs_slice_cut(&header, ';');
    while (header.data) {
        struct gs_slice rest = gs_slice_trim(header), value = rest;
        struct gs_slice key = gs_slice_trim(gs_slice_cut(&value, '='));
        bool quoted = value.len && value.data[0] == '"';
        if (quoted)
            value = gs_slice_make(value.data + 1, value.len - 1);
        // A ';' within quotes belongs to the value.
        header = value.data ? value : rest;
        struct gs_slice text = gs_slice_cut(&header, quoted ? '"' : ';');
        if (quoted && header.data)
            gs_slice_cut(&header, ';');
        if (value.data && key.len == strlen(name) && strncasecmp(key.data, name, key.len) == 0) {
            *ret = quoted ? text : gs_slice_trim(text);
            return true;
        }
    }
    return false;
}

// The text before the mark, which is cut off with it. False: the mark does not follow.
static bool cut_at(struct gs_slice *text, struct gs_slice mark, struct gs_slice *ret)
{
    const char *at = text->len ? memmem(text->data, text->len, mark.data, mark.len) : NULL;
    if (!at)
        return false;
    *ret = gs_slice_make(text->data, (size_t)(at - text->data));
    *text = gs_slice_make(at + mark.len, text->len - ret->len - mark.len);
    return true;
}

static struct gs_error *add_part(struct http_exchange *x, struct gs_slice part)
{
    static const char disposition[] = "content-disposition:";
    struct gs_slice line, name, file;
    bool named = false, is_file = false;
    while (cut_at(&part, gs_slice_of(crlf), &line) && line.len) {
        if (line.len < sizeof(disposition) ||
            strncasecmp(line.data, disposition, sizeof(disposition) - 1) != 0)
            continue;
        named = find_parameter(line, "name", &name);
        is_file = find_parameter(line, "filename", &file);
    }
    if (!named || is_file)
        return NULL;
    if (memchr(part.data ? part.data : "", '\0', part.len) || memchr(name.data, '\0', name.len))
        return gs_error_new(GS_EINVAL, "NUL byte in a multipart form");
    http_exchange_add_parameter(x, name, part);
    return NULL;
}

struct gs_error *http_read_multipart(struct http_exchange *x, const char *type)
{
    struct gs_slice boundary, part, body = gs_buf_slice(&x->body);
    if (!find_parameter(gs_slice_of(type), "boundary", &boundary) || !boundary.len ||
        boundary.len > MAX_BOUNDARY)
        return gs_error_new(GS_EINVAL, "no multipart boundary param in Content-Type");
    GS_AUTO_BUF struct gs_buf mark = {0};
    gs_buf_addf(&mark, "\r\n--" GS_SLICE_FMT, GS_SLICE_ARG(boundary));
    // The first boundary can be at the start of the body.
    struct gs_slice first = gs_slice_make(mark.data + 2, mark.len - 2);
    if (!cut_at(&body, first, &part))
        return gs_error_new(GS_EINVAL, "multipart: NextPart: EOF");
    for (size_t n = 0; !gs_slice_starts(body, "--"); n++) {
        struct gs_slice blanks;
        if (n == MAX_PARTS)
            return gs_error_new(GS_ELIMIT, "multipart: message too large");
        if (!cut_at(&body, gs_slice_of(crlf), &blanks) || gs_slice_trim(blanks).len ||
            !cut_at(&body, gs_buf_slice(&mark), &part))
            return gs_error_new(GS_EINVAL, "multipart: NextPart: EOF");
        struct gs_error *err = add_part(x, part);
        if (err)
            return err;
    }
    return NULL;
}
