// SPDX-License-Identifier: Apache-2.0
// Writes strings and jansson's values as JSON. jansson itself prints numbers with 17 digits: 0.7
// becomes 0.69999999999999996. This printer uses the shortest form that parses to the same number.
#include "base/num.h"
#include "codec/json.h"

#include <string.h>

#define INDENT    "  "
#define MAX_SHORT 1024 // bytes of a string that is written at once

// --- strings ---

// How a byte is escaped. 0: not at all, 'u': as \u00XX, otherwise the character after the
// backslash. UTF-8 is not escaped.
static char escape_of(unsigned char c, enum codec_json_style style)
{
    switch (c) {
    case '"':
    case '\\':
        return (char)c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\b':
        return style == CODEC_JSON_SHORT ? 'b' : 'u';
    case '\f':
        return style == CODEC_JSON_SHORT ? 'f' : 'u';
    case '<':
    case '>':
    case '&':
        return style == CODEC_JSON_HTML ? 'u' : 0;
    default:
        return c < 0x20 ? 'u' : 0;
    }
}

static char *put_escape(char *at, unsigned char c, char escape)
{
    *at++ = '\\';
    *at++ = escape;
    if (escape != 'u')
        return at;
    *at++ = '0';
    *at++ = '0';
    return gs_put_hex(at, &c, 1);
}

static char *put_escaped(char *at, struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        char escape = escape_of(c, CODEC_JSON_PLAIN);
        if (escape)
            at = put_escape(at, c, escape);
        else
            *at++ = (char)c;
    }
    return at;
}

#define BYTES(b) (UINT64_C(0x0101010101010101) * (b))

// Non-zero if one of eight bytes must be escaped. A byte after such a byte can be reported, too.
static uint64_t special_bytes(uint64_t x)
{
    uint64_t quote = x ^ BYTES('"'), slash = x ^ BYTES('\\');
    uint64_t control = (x - BYTES(0x20)) & ~x;
    quote = (quote - BYTES(1)) & ~quote;
    slash = (slash - BYTES(1)) & ~slash;
    return (control | quote | slash) & BYTES(0x80);
}

// Copies the text and checks it at the same time. Returns false if a byte must be escaped.
static bool copy_plain(char *at, struct gs_slice s)
{
    uint64_t word, special = 0;
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        memcpy(&word, s.data + i, 8);
        memcpy(at + i, &word, 8);
        special |= special_bytes(word);
    }
    if (i < s.len && s.len >= 8) { // the last eight bytes, which may overlap the previous ones
        i = s.len - 8;
        memcpy(&word, s.data + i, 8);
        memcpy(at + i, &word, 8);
        special |= special_bytes(word);
        i = s.len;
    }
    for (; i < s.len; i++) {
        at[i] = s.data[i];
        special |= escape_of((unsigned char)s.data[i], CODEC_JSON_PLAIN) != 0;
    }
    return special == 0;
}

char *codec_json_put_string(char *at, struct gs_slice s)
{
    *at++ = '"';
    at = copy_plain(at, s) ? at + s.len : put_escaped(at, s);
    *at++ = '"';
    return at;
}

// Piece by piece, so that a text reserves only the size that it needs.
static void add_pieces(struct gs_buf *out, struct gs_slice s, enum codec_json_style style)
{
    size_t done = 0;
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        char text[8], escape = escape_of(c, style);
        if (!escape)
            continue;
        gs_buf_add(out, s.data + done, i - done);
        gs_buf_add(out, text, (size_t)(put_escape(text, c, escape) - text));
        done = i + 1;
    }
    gs_buf_add(out, s.data + done, s.len - done);
    gs_buf_add_char(out, '"');
}

void codec_json_add_string(struct gs_buf *out, struct gs_slice s, enum codec_json_style style)
{
    char *at = NULL;
    if (style != CODEC_JSON_PLAIN || s.len > MAX_SHORT) {
        add_pieces(out, s, style);
    } else if ((at = gs_buf_room(out, CODEC_JSON_STRING_SIZE(s.len)))) {
        char *end = codec_json_put_string(at, s);
        *end = '\0';
        out->len += (size_t)(end - at);
    }
}

// --- values ---

struct writer {
    struct gs_buf *out;
    bool pretty;
    bool (*go_on)(void *arg); // NULL: always
    void *arg;
};

static void add_integer(struct gs_buf *out, json_int_t v)
{
    if (v < 0)
        gs_buf_add_char(out, '-');
    gs_buf_add_u64(out, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

// Whole numbers keep a ".0", so that they are parsed as reals again.
static void add_real(struct gs_buf *out, double v)
{
    char text[GS_DOUBLE_SIZE];
    *gs_put_double(text, v, -6) = '\0';
    gs_buf_add_str(out, text);
    if (!strpbrk(text, ".e"))
        gs_buf_add_str(out, ".0");
}

static void begin_item(const struct writer *w, bool first, unsigned depth)
{
    if (!first)
        gs_buf_add_char(w->out, ',');
    if (!w->pretty)
        return;
    gs_buf_add_char(w->out, '\n');
    for (unsigned i = 0; i < depth; i++)
        gs_buf_add_str(w->out, INDENT);
}

static void write_value(const struct writer *w, const json_t *j, unsigned depth);

static void add_array(const struct writer *w, const json_t *j, unsigned depth)
{
    size_t n = json_array_size(j);
    gs_buf_add_char(w->out, '[');
    for (size_t i = 0; i < n && !(w->go_on && !w->go_on(w->arg)); i++) {
        begin_item(w, i == 0, depth + 1);
        write_value(w, json_array_get(j, i), depth + 1);
    }
    if (n && w->pretty)
        begin_item(w, true, depth);
    gs_buf_add_char(w->out, ']');
}

static void json_add_object(const struct writer *w, const json_t *j, unsigned depth)
{
    bool first = true;
    gs_buf_add_char(w->out, '{');
    for (void *at = json_object_iter((json_t *)j); at;
         at = json_object_iter_next((json_t *)j, at)) {
        const char *key = json_object_iter_key(at);
        begin_item(w, first, depth + 1);
        first = false;
        add_pieces(w->out, gs_slice_of(key), CODEC_JSON_PLAIN);
        gs_buf_add_str(w->out, w->pretty ? ": " : ":");
        write_value(w, json_object_iter_value(at), depth + 1);
    }
    if (!first && w->pretty)
        begin_item(w, true, depth);
    gs_buf_add_char(w->out, '}');
}

static void write_value(const struct writer *w, const json_t *j, unsigned depth)
{
    if (json_is_object(j))
        json_add_object(w, j, depth);
    else if (json_is_array(j))
        add_array(w, j, depth);
    else if (json_is_string(j))
        add_pieces(w->out, gs_slice_make(json_string_value(j), json_string_length(j)),
                   CODEC_JSON_PLAIN);
    else if (json_is_integer(j))
        add_integer(w->out, json_integer_value(j));
    else if (json_is_real(j))
        add_real(w->out, json_real_value(j));
    else
        gs_buf_add_str(w->out, json_is_true(j) ? "true" : json_is_false(j) ? "false" : "null");
}

void codec_json_dump(const json_t *j, struct gs_buf *out)
{
    const struct writer w = {.out = out};
    if (j)
        write_value(&w, j, 0);
}

void codec_json_dump_slowly(const json_t *j, struct gs_buf *out, bool (*go_on)(void *arg),
                            void *arg)
{
    const struct writer w = {.out = out, .go_on = go_on, .arg = arg};
    if (j)
        write_value(&w, j, 0);
}

void codec_json_dump_pretty(const json_t *j, struct gs_buf *out)
{
    const struct writer w = {.out = out, .pretty = true};
    if (j)
        write_value(&w, j, 0);
}

char *codec_json_text(const json_t *j)
{
    struct gs_buf out = {0};
    codec_json_dump(j, &out);
    return gs_buf_take(&out);
}
