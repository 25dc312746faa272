// SPDX-License-Identifier: Apache-2.0
// Writes JSON into a buffer without a tree: a response can have millions of points. The put
// functions expect that the caller has reserved the space, the add functions reserve it. Numbers
// have the form of Prometheus' responses.
#include "engine/api/api_private.h"

#include "base/num.h"
#include "codec/json.h"

// --- strings ---

static char *put_escaped(char *at, struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        char e = codec_json_escape(c);
        if (!e) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '\\';
        *at++ = e;
        if (e == 'u') {
            *at++ = '0';
            *at++ = '0';
            at = gs_put_hex(at, &c, 1);
        }
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
        special |= codec_json_escape((unsigned char)s.data[i]) != 0;
    }
    return special == 0;
}

char *engine_api_json_put_string(char *at, struct gs_slice s)
{
    *at++ = '"';
    at = copy_plain(at, s) ? at + s.len : put_escaped(at, s);
    *at++ = '"';
    return at;
}

void engine_api_json_add_string(struct gs_buf *out, struct gs_slice s)
{
    char *at = gs_buf_room(out, ENGINE_API_JSON_STRING_SIZE(s.len));
    if (!at)
        return;
    char *end = engine_api_json_put_string(at, s);
    *end = '\0';
    out->len += (size_t)(end - at);
}

void engine_api_json_add_text(struct gs_buf *out, const char *s)
{
    engine_api_json_add_string(out, gs_slice_of(s));
}

// --- numbers ---

char *engine_api_json_put_time(char *at, int64_t ms)
{
    uint64_t u = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    if (ms < 0)
        *at++ = '-';
    at = gs_put_u64(at, u / 1000);
    unsigned fraction = (unsigned)(u % 1000);
    if (fraction) {
        *at++ = '.';
        *at++ = (char)('0' + fraction / 100);
        *at++ = (char)('0' + fraction / 10 % 10);
        *at++ = (char)('0' + fraction % 10);
    }
    return at;
}

char *engine_api_json_put_value(char *at, double v)
{
    return gs_put_double(at, v, -6);
}

// --- into the buffer ---

static void took(struct gs_buf *out, const char *start, char *end)
{
    *end = '\0';
    out->len += (size_t)(end - start);
}

void engine_api_json_add_value(struct gs_buf *out, double v)
{
    char *at = gs_buf_room(out, ENGINE_API_JSON_VALUE_SIZE + 2);
    if (!at)
        return;
    char *end = at;
    *end++ = '"';
    end = engine_api_json_put_value(end, v);
    *end++ = '"';
    took(out, at, end);
}

void engine_api_json_add_point(struct gs_buf *out, int64_t t_ms, double v)
{
    char *at = gs_buf_room(out, 2 * ENGINE_API_JSON_VALUE_SIZE + 5);
    if (!at)
        return;
    char *end = at;
    *end++ = '[';
    end = engine_api_json_put_time(end, t_ms);
    *end++ = ',';
    *end++ = '"';
    end = engine_api_json_put_value(end, v);
    *end++ = '"';
    *end++ = ']';
    took(out, at, end);
}

void engine_api_json_add_seconds(struct gs_buf *out, double seconds)
{
    char *at = gs_buf_room(out, ENGINE_API_JSON_VALUE_SIZE);
    if (at)
        took(out, at, engine_api_json_put_value(at, seconds));
}
