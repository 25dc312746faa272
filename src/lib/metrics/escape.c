// SPDX-License-Identifier: Apache-2.0
// Escapes names that are not [a-zA-Z_:][a-zA-Z0-9_:]* for clients that support no others.
// https://prometheus.io/docs/instrumenting/escaping_schemes/
#include "metrics/write.h"

#include <stdlib.h>
#include <strings.h>

#define MAX_ELEMENTS 32

bool metrics_is_plain_name(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.len > 0;
}

bool metrics_is_plain_label(struct gs_slice name)
{
    return metrics_is_plain_name(name) && !memchr(name.data, ':', name.len);
}

// The code point at s, which is UTF-8; *ret_len its bytes.
static unsigned code_point(struct gs_slice s, size_t *ret_len)
{
    unsigned char first = (unsigned char)s.data[0];
    size_t len = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    unsigned c = len == 1 ? first : first & (0xffu >> (len + 1));
    if (len > s.len)
        len = s.len;
    for (size_t i = 1; i < len; i++)
        c = c << 6 | ((unsigned char)s.data[i] & 0x3f);
    *ret_len = len;
    return c;
}

static void escape_one(enum metrics_escaping scheme, unsigned c, struct gs_buf *out)
{
    if (scheme == METRICS_ESCAPE_UNDERSCORES)
        gs_buf_add_char(out, '_');
    else if (scheme == METRICS_ESCAPE_DOTS)
        gs_buf_add_str(out, c == '.' ? "_dot_" : "__");
    else
        gs_buf_addf(out, "_%x_", c);
}

void metrics_escape_name(enum metrics_escaping scheme, struct gs_slice name, struct gs_buf *out)
{
    bool plain = metrics_is_plain_name(name);
    // Dots: underscores of plain names are doubled too, so that it can be undone.
    if (scheme == METRICS_ESCAPE_NONE || (plain && scheme != METRICS_ESCAPE_DOTS)) {
        gs_buf_add_slice(out, name);
        return;
    }
    if (scheme == METRICS_ESCAPE_VALUES)
        gs_buf_add_str(out, "U__");
    for (size_t i = 0, len; i < name.len; i += len) {
        unsigned c = code_point(gs_slice_make(name.data + i, name.len - i), &len);
        char byte = (char)c;
        bool stays = len == 1 && (metrics_is_plain_name(gs_slice_make(&byte, 1)) ||
                                  (i && c >= '0' && c <= '9'));
        if (c == '_' && scheme != METRICS_ESCAPE_UNDERSCORES)
            gs_buf_add_str(out, "__");
        else if (stays)
            gs_buf_add_char(out, byte);
        else
            escape_one(scheme, c, out);
    }
}

const char *metrics_escaping_name(enum metrics_escaping scheme)
{
    static const char *const names[] = {"allow-utf-8", "underscores", "dots", "values"};
    return names[scheme];
}

bool metrics_escaping_of(struct gs_slice name, enum metrics_escaping *ret)
{
    for (int i = 0; i <= METRICS_ESCAPE_VALUES; i++) {
        if (gs_slice_eq_str(name, metrics_escaping_name((enum metrics_escaping)i))) {
            *ret = (enum metrics_escaping)i;
            return true;
        }
    }
    return false;
}

// --- Accept ---

struct element { // of an Accept header
    bool text;   // text/plain in the version that is written
    int scheme;  // -1: none
    int quality; // in thousandths
};

static void take_parameter(struct gs_slice p, struct element *e)
{
    struct gs_slice name = gs_slice_trim(gs_slice_cut(&p, '=')), value = gs_slice_trim(p);
    if (gs_slice_eq_str(name, "version") && !gs_slice_eq_str(value, "0.0.4") && value.len)
        e->text = false;
    enum metrics_escaping scheme;
    if (gs_slice_eq_str(name, "escaping") && metrics_escaping_of(value, &scheme))
        e->scheme = (int)scheme;
}

static struct element read_element(struct gs_slice s)
{
    struct element e = {.scheme = -1, .quality = metrics_accept_quality(s)};
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&s, ';'));
    e.text = gs_slice_eq_str(type, "text/plain");
    while (s.len)
        take_parameter(gs_slice_cut(&s, ';'), &e);
    return e;
}

// As in Prometheus: the last scheme of an element that is not less preferred than plain text.
enum metrics_escaping metrics_escaping_for(const char *accept)
{
    struct element items[MAX_ELEMENTS];
    size_t n = 0;
    struct gs_slice rest = gs_slice_of(accept);
    while (rest.len && n < MAX_ELEMENTS) {
        struct element e = read_element(gs_slice_cut(&rest, ','));
        size_t at = n++;
        for (; at && items[at - 1].quality < e.quality; at--)
            items[at] = items[at - 1];
        items[at] = e;
    }
    enum metrics_escaping scheme = METRICS_ESCAPE_UNDERSCORES;
    for (size_t i = 0; i < n; i++) {
        if (items[i].scheme >= 0)
            scheme = (enum metrics_escaping)items[i].scheme;
        if (items[i].text)
            break;
    }
    return scheme;
}
