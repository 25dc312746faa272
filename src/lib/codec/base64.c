// SPDX-License-Identifier: Apache-2.0
// Base64 of RFC 4648. The decoder of the standard alphabet skips white space, as that of Go skips
// line breaks in Secrets; that of the URL alphabet takes no padding, as in JSON Web Tokens.
#include "codec/encoding.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void codec_base64_encode(struct gs_slice in, struct gs_buf *out)
{
    for (size_t i = 0; i < in.len; i += 3) {
        size_t n = in.len - i < 3 ? in.len - i : 3;
        unsigned v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (unsigned char)in.data[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            gs_buf_add_char(out, (char)(k <= n ? alphabet[v >> (18 - 6 * k) & 63] : '='));
    }
}

static int digit(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

struct gs_error *codec_base64_decode(struct gs_slice in, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    unsigned v = 0;
    size_t digits = 0, padding = 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.data[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            continue;
        int d = c == '=' ? 0 : digit(c);
        padding += c == '=';
        if (d < 0 || padding > 2 || (padding && c != '='))
            return gs_error_new(GS_EINVAL, "base64: bad character at byte %zu", i);
        v = v << 6 | (unsigned)d;
        if (++digits % 4 == 0) {
            for (size_t k = 0; k < 3 - padding; k++)
                gs_buf_add_char(&out, (char)(v >> (16 - 8 * k) & 255));
            v = 0;
        }
    }
    if (digits % 4)
        return gs_error_new(GS_EINVAL, "base64: the text is truncated");
    gs_buf_add(&out, "", 0);
    *ret = out;
    out = (struct gs_buf){0};
    return NULL;
}

void codec_base64url_encode(struct gs_slice in, struct gs_buf *out)
{
    size_t start = out->len;
    codec_base64_encode(in, out);
    while (out->len > start && out->data[out->len - 1] == '=')
        out->data[--out->len] = '\0';
    for (char *c = out->data + start; out->len > start && *c; c++)
        *c = (char)(*c == '+' ? '-' : *c == '/' ? '_' : *c);
}

struct gs_error *codec_base64url_decode(struct gs_slice in, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < in.len; i++) {
        char c = in.data[i];
        c = (char)(c == '-' ? '+' : c == '_' ? '/' : c == '+' || c == '/' ? '?' : c);
        if (digit(c) < 0)
            return gs_error_new(GS_EINVAL, "base64url: bad character at byte %zu", i);
        gs_buf_add_char(&text, c);
    }
    for (size_t n = in.len; n % 4; n++)
        gs_buf_add_char(&text, '=');
    return codec_base64_decode(gs_buf_slice(&text), ret);
}
