// SPDX-License-Identifier: Apache-2.0
// The functions of Prometheus' templates that work on text and numbers. Outputs are compared with
// those of Prometheus, so prefixes and digits must not change.
#include "template/template_private.h"

#include "base/regex.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>

#define MATCH_LIMIT 100000

void template_escape_js(struct gs_slice s, struct gs_buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c == '\\' || c == '\'' || c == '"')
            gs_buf_addf(out, "\\%c", c);
        else if (c < 0x20 || strchr("<>&=", c))
            gs_buf_addf(out, "\\u%04X", c);
        else
            gs_buf_add_char(out, (char)c);
    }
}

void template_escape_query(struct gs_slice s, struct gs_buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (isalnum(c) || (c && strchr("-_.~", c)))
            gs_buf_add_char(out, (char)c);
        else if (c == ' ')
            gs_buf_add_char(out, '+');
        else
            gs_buf_addf(out, "%%%02X", c);
    }
}

// ASCII letters only, because label values and units consist of these.
void template_title(struct gs_slice s, struct gs_buf *out)
{
    bool inside = false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        gs_buf_add_char(out, (char)(inside ? c : toupper(c)));
        bool joins = isdigit(c) || c == '_' ||
                     ((c == '\'' || c == '.' || c == ':') && i + 1 < s.len &&
                      isalpha((unsigned char)s.data[i + 1]));
        inside = isalpha(c) || c >= 0x80 || (inside && joins);
    }
}

void template_upper(struct gs_slice s, struct gs_buf *out)
{
    for (size_t i = 0; i < s.len; i++)
        gs_buf_add_char(out, (char)toupper((unsigned char)s.data[i]));
}

void template_lower(struct gs_slice s, struct gs_buf *out)
{
    for (size_t i = 0; i < s.len; i++)
        gs_buf_add_char(out, (char)tolower((unsigned char)s.data[i]));
}

// Like Go's net.SplitHostPort. Returns false if the text is not host:port.
static bool split_host_port(struct gs_slice s, struct gs_slice *host, struct gs_slice *port)
{
    const char *colon = s.len ? memrchr(s.data, ':', s.len) : NULL;
    if (!colon)
        return false;
    *host = gs_slice_make(s.data, (size_t)(colon - s.data));
    *port = gs_slice_make(colon + 1, s.len - host->len - 1);
    bool open = host->len && host->data[0] == '[';
    if (open) {
        if (host->len < 2 || host->data[host->len - 1] != ']')
            return false;
        *host = gs_slice_make(host->data + 1, host->len - 2);
    } else if (host->len && memchr(host->data, ':', host->len)) {
        return false; // too many colons
    }
    return !(host->len &&
             (memchr(host->data, '[', host->len) || memchr(host->data, ']', host->len)));
}

void template_strip_port(struct gs_slice s, struct gs_buf *out)
{
    struct gs_slice host, port;
    gs_buf_add_slice(out, split_host_port(s, &host, &port) ? host : s);
}

// Also with a zone: fe80::1%eth0.
static bool is_ip(struct gs_slice host)
{
    char text[64];
    unsigned char addr[16];
    const char *zone = host.len ? memchr(host.data, '%', host.len) : NULL;
    size_t len = zone ? (size_t)(zone - host.data) : host.len;
    if (len >= sizeof(text) || (zone && len + 1 == host.len))
        return false;
    memcpy(text, host.data, len);
    text[len] = '\0';
    return (!zone && inet_pton(AF_INET, text, addr) == 1) || inet_pton(AF_INET6, text, addr) == 1;
}

void template_strip_domain(struct gs_slice s, struct gs_buf *out)
{
    struct gs_slice host, port = {0};
    if (!split_host_port(s, &host, &port)) {
        host = s;
        port.len = 0;
    }
    if (is_ip(host)) {
        gs_buf_add_slice(out, s);
        return;
    }
    const char *dot = host.len ? memchr(host.data, '.', host.len) : NULL;
    if (dot)
        host.len = (size_t)(dot - host.data);
    bool brackets = port.len && host.len && memchr(host.data, ':', host.len);
    if (brackets)
        gs_buf_add_char(out, '[');
    gs_buf_add_slice(out, host);
    if (brackets)
        gs_buf_add_char(out, ']');
    if (port.len) {
        gs_buf_add_char(out, ':');
        gs_buf_add_slice(out, port);
    }
}

static void link_to(struct gs_slice expr, int tab, struct gs_buf *out)
{
    gs_buf_add_str(out, "/graph?g0.expr=");
    template_escape_query(expr, out);
    gs_buf_addf(out, "&g0.tab=%d", tab);
}

void template_graph_link(struct gs_slice s, struct gs_buf *out)
{
    link_to(s, 0, out);
}

void template_table_link(struct gs_slice s, struct gs_buf *out)
{
    link_to(s, 1, out);
}

static void scale_down(double v, struct gs_buf *out)
{
    static const char prefixes[] = "munpfazy";
    char prefix = '\0';
    for (size_t i = 0; prefixes[i] && fabs(v) < 1; i++) {
        prefix = prefixes[i];
        v *= 1000;
    }
    template_add_general(v, 4, out);
    if (prefix)
        gs_buf_add_char(out, prefix);
}

void template_humanize(double v, struct gs_buf *out)
{
    static const char prefixes[] = "kMGTPEZY";
    char prefix = '\0';
    if (v == 0 || !isfinite(v)) {
        template_add_general(v, 4, out);
        return;
    }
    if (fabs(v) < 1) {
        scale_down(v, out);
        return;
    }
    for (size_t i = 0; prefixes[i] && fabs(v) >= 1000; i++) {
        prefix = prefixes[i];
        v /= 1000;
    }
    template_add_general(v, 4, out);
    if (prefix)
        gs_buf_add_char(out, prefix);
}

void template_humanize_1024(double v, struct gs_buf *out)
{
    static const char prefixes[] = "kMGTPEZY";
    char prefix = '\0';
    if (isfinite(v))
        for (size_t i = 0; prefixes[i] && fabs(v) >= 1024; i++) {
            prefix = prefixes[i];
            v /= 1024;
        }
    template_add_general(v, 4, out);
    if (prefix)
        gs_buf_addf(out, "%ci", prefix);
}

void template_humanize_duration(double v, struct gs_buf *out)
{
    if (!isfinite(v)) {
        template_add_general(v, 4, out);
        return;
    }
    if (fabs(v) < 1 && v != 0) {
        scale_down(v, out);
        gs_buf_add_char(out, 's');
        return;
    }
    const char *sign = v < 0 ? "-" : "";
    v = fabs(v);
    int64_t all = v < 9e18 ? (int64_t)v : INT64_MAX;
    int64_t s = all % 60, m = all / 60 % 60, h = all / 3600 % 24, d = all / 86400;
    gs_buf_add_str(out, sign);
    if (d)
        gs_buf_addf(out, "%lldd ", (long long)d);
    if (d || h)
        gs_buf_addf(out, "%lldh ", (long long)h);
    if (d || h || m)
        gs_buf_addf(out, "%lldm %llds", (long long)m, (long long)s);
    else
        gs_buf_addf(out, "%.4gs", v);
}

// --- regular expressions ---

static struct gs_error *compile(struct gs_slice pattern, struct gs_regex **ret)
{
    static const struct gs_regex_options options = {.any_bytes = true, .match_limit = MATCH_LIMIT};
    return gs_regex_new(pattern, &options, ret);
}

struct gs_error *template_regex_match(struct gs_slice pattern, struct gs_slice text, bool *ret)
{
    struct gs_regex *r = NULL;
    struct gs_error *err = compile(pattern, &r);
    if (!err)
        *ret = gs_regex_matches(r, text);
    gs_regex_free(r);
    return err;
}

struct gs_error *template_regex_replace(struct gs_slice pattern, struct gs_slice replacement,
                                        struct gs_slice text, struct gs_buf *out)
{
    struct gs_regex *r = NULL;
    struct gs_error *err = compile(pattern, &r);
    if (!err)
        gs_regex_replace_all(r, text, replacement, out);
    gs_regex_free(r);
    return err;
}
