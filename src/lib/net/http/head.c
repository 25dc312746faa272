// SPDX-License-Identifier: Apache-2.0
// Detects request heads that RFC 9112 forbids. If two programs parse such a head differently, a
// request can be hidden inside another (request smuggling).
#include "net/http/server_private.h"

#include <stddef.h>
#include <stdlib.h>
#include <strings.h>

// RFC 9110, 5.6.2
static bool is_token(const char *s)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    if (!*s)
        return false;
    for (; *s; s++) {
        bool alnum =
            (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');
        if (!alnum && !strchr(others, *s))
            return false;
    }
    return true;
}

static bool has_forbidden_control(const char *s)
{
    for (; *s; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return true;
    return false;
}

static bool is_number(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    return digits > 0 && !s[digits];
}

static bool ends_with_chunked(const char *value)
{
    const char *last = strrchr(value, ',');
    last = last ? last + 1 : value;
    return strcasecmp(last + strspn(last, " \t"), "chunked") == 0;
}

struct framing {
    unsigned hosts, lengths, codings;
    const char *host, *length, *coding;
};

static void count_headers_named(const struct http_pair *h, struct framing *f)
{
    if (strcasecmp(h->name, "Host") == 0) {
        f->hosts++;
        f->host = h->value;
    } else if (strcasecmp(h->name, "Content-Length") == 0) {
        f->lengths++;
        f->length = h->value;
    } else if (strcasecmp(h->name, "Transfer-Encoding") == 0) {
        f->codings++;
        f->coding = h->value;
    }
}

static const char *length_fault(const struct framing *f, bool v1_0)
{
    if (f->lengths > 1)
        return "the request has more than one Content-Length\n";
    if (f->lengths && !is_number(f->length))
        return "Content-Length is not a number\n";
    if (f->codings && f->lengths)
        return "the request has both Content-Length and Transfer-Encoding\n";
    if (f->codings && v1_0)
        return "an HTTP/1.0 request cannot have a Transfer-Encoding\n";
    if (f->codings && (f->codings > 1 || !ends_with_chunked(f->coding)))
        return "the last Transfer-Encoding must be chunked\n";
    return NULL;
}

static const char *host_fault(const struct framing *f, bool v1_0)
{
    if (!f->hosts && !v1_0)
        return "the request has no Host header\n";
    if (f->hosts > 1)
        return "the request has more than one Host header\n";
    if (f->hosts && strpbrk(f->host, " \t/\\@?#\"<>"))
        return "the Host header is not a host with an optional port\n";
    return NULL;
}

const char *http_server_head_fault(const struct http_exchange *x, const char *version,
                                   int *ret_status)
{
    struct framing f = {0};
    bool v1_0 = strcmp(version, "HTTP/1.0") == 0;
    *ret_status = MHD_HTTP_BAD_REQUEST;
    if (!is_token(x->method))
        return "the method of the request is malformed\n";
    if (strpbrk(x->target, " \t") || has_forbidden_control(x->target))
        return "the request target contains a blank or a control character\n";
    for (size_t i = 0; i < x->headers.len; i++) {
        if (!is_token(x->headers.items[i].name))
            return "the name of a header is malformed\n";
        if (has_forbidden_control(x->headers.items[i].value))
            return "the value of a header contains a control character\n";
        count_headers_named(&x->headers.items[i], &f);
    }
    const char *fault = host_fault(&f, v1_0);
    if (!fault)
        fault = length_fault(&f, v1_0);
    if (!fault && f.codings && strcasecmp(f.coding, "chunked") != 0) {
        *ret_status = MHD_HTTP_NOT_IMPLEMENTED;
        fault = "the only Transfer-Encoding that is supported is chunked\n";
    }
    return fault;
}

// --- what libmicrohttpd hides ---
// Before 0.9.77, it takes a line without a name, such as ": x", for the end of a head, and a NUL
// for the end of a value. It parses the head in place, with NUL instead of line ends, so both leave
// bytes between the parts. The one line that leaves none is ":" with only a line feed after others
// that also have a carriage return.

struct raw_head {
    const char *begin, *end; // of the head
    const char *seen;        // the end of the part before
    unsigned short_ends, long_ends;
    bool odd;
};

static enum MHD_Result check_part(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct raw_head *h = arg;
    h->odd = h->odd || !value || name < h->begin || value < name || value >= h->end;
    if (h->odd)
        return MHD_NO;
    ptrdiff_t gap = name - h->seen;
    h->short_ends += gap == 1;
    h->long_ends += gap == 2;
    h->odd = gap != 1 && gap != 2;
    h->seen = value + strlen(value);
    return MHD_YES;
}

static bool version_hides_bytes(void)
{
    const char *version = MHD_get_version();
    return gs_starts(version, "0.9.") && strtol(version + 4, NULL, 10) < 77;
}

const char *http_server_raw_head_fault(const struct http_server_request *r, const char *method,
                                       const char *version)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!info || !version_hides_bytes())
        return NULL;
    if (version != method + strlen(method) + 1 + r->target_len + 1)
        return "the request line is malformed\n";
    struct raw_head h = {.begin = method, .end = method + info->header_size, .seen = version};
    h.seen += strlen(version);
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, check_part, &h);
    ptrdiff_t rest = h.end - h.seen;
    bool ends = h.long_ends ? rest == 4 : h.short_ends ? rest == 2 : rest == 4 || rest == 2;
    return h.odd || !ends || (h.long_ends && h.short_ends)
               ? "a line of the head is malformed, or different line ends are mixed\n"
               : NULL;
}
