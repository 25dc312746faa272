// SPDX-License-Identifier: Apache-2.0
// Detects request heads that RFC 9112 forbids. If two programs parse such a head differently, a
// request can be hidden inside another (request smuggling).
#include "net/http/server_private.h"

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
