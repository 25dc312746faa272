// SPDX-License-Identifier: Apache-2.0
#include "engine/api/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// --- strings ---

// What a byte becomes: 0 itself, 'u' \u00XX, else the letter behind the backslash. UTF-8 passes.
static char escape_of(unsigned char c)
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
    default:
        return c < 0x20 ? 'u' : 0;
    }
}

static bool is_plain(struct gs_slice s)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        bad |= (unsigned char)((c < 0x20) | (c == '"') | (c == '\\'));
    }
    return !bad;
}

static char *put_escaped(char *at, struct gs_slice s)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        char e = escape_of(c);
        if (!e) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '\\';
        *at++ = e;
        if (e == 'u') {
            *at++ = '0';
            *at++ = '0';
            *at++ = hex[c >> 4];
            *at++ = hex[c & 15];
        }
    }
    return at;
}

void json_add_string(struct gs_buf *out, struct gs_slice s)
{
    bool plain = is_plain(s);
    char *at = gs_buf_room(out, (plain ? s.len : s.len * 6) + 2);
    if (!at)
        return;
    char *start = at;
    *at++ = '"';
    if (!plain) {
        at = put_escaped(at, s);
    } else if (s.len) {
        memcpy(at, s.data, s.len);
        at += s.len;
    }
    *at++ = '"';
    *at = '\0';
    out->len += (size_t)(at - start);
}

void json_add_text(struct gs_buf *out, const char *s)
{
    json_add_string(out, gs_slice_of(s));
}

// --- numbers ---

static char *put_u64(char *at, uint64_t v)
{
    char text[20];
    size_t n = sizeof(text);
    do {
        text[--n] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    memcpy(at, text + n, sizeof(text) - n);
    return at + (sizeof(text) - n);
}

static char *put_time(char *at, int64_t ms)
{
    uint64_t u = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    if (ms < 0)
        *at++ = '-';
    at = put_u64(at, u / 1000);
    unsigned fraction = (unsigned)(u % 1000);
    if (fraction) {
        *at++ = '.';
        *at++ = (char)('0' + fraction / 100);
        *at++ = (char)('0' + fraction / 10 % 10);
        *at++ = (char)('0' + fraction % 10);
    }
    return at;
}

// The shortest decimal that reads back as the same double: digits (no trailing zero), and the
// exponent of the first one.
struct decimal {
    char digits[20];
    int n, exponent;
};

static void set_digits(struct decimal *d, uint64_t m, int shift)
{
    while (m % 10 == 0 && m) {
        m /= 10;
        shift++;
    }
    d->n = (int)(put_u64(d->digits, m) - d->digits);
    d->exponent = d->n - 1 + shift;
}

// Most samples are whole or have a few decimals: m / 10^k is correctly rounded, so that when it
// gives v back, the decimal does too. Below 2^50 fifteen digits suffice and are unique.
static bool short_decimal(double v, struct decimal *d)
{
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    for (int k = 0; k < (int)(sizeof(pow10) / sizeof(pow10[0])); k++) {
        double m = v * pow10[k];
        if (m >= 0x1p50)
            return false;
        double whole = (double)(int64_t)(m + 0.5);
        if (whole / pow10[k] == v) {
            set_digits(d, (uint64_t)whole, -k);
            return true;
        }
    }
    return false;
}

static void long_decimal(double v, struct decimal *d)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*e", digits - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    const char *e = strchr(text, 'e');
    d->exponent = (int)strtol(e + 1, NULL, 10);
    d->n = 0;
    for (const char *c = text; c < e; c++)
        if (*c != '.')
            d->digits[d->n++] = *c;
    while (d->n > 1 && d->digits[d->n - 1] == '0')
        d->n--;
}

static char *put_exponent_form(char *at, const struct decimal *d)
{
    *at++ = d->digits[0];
    if (d->n > 1) {
        *at++ = '.';
        memcpy(at, d->digits + 1, (size_t)d->n - 1);
        at += d->n - 1;
    }
    *at++ = 'e';
    *at++ = d->exponent < 0 ? '-' : '+';
    unsigned e = (unsigned)(d->exponent < 0 ? -d->exponent : d->exponent);
    if (e < 10)
        *at++ = '0';
    return put_u64(at, e);
}

static char *put_plain_form(char *at, const struct decimal *d)
{
    int point = d->exponent + 1; // digits in front of the point
    if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        memset(at, '0', (size_t)-point);
        at += -point;
        memcpy(at, d->digits, (size_t)d->n);
        return at + d->n;
    }
    int whole = point < d->n ? point : d->n;
    memcpy(at, d->digits, (size_t)whole);
    at += whole;
    memset(at, '0', (size_t)(point - whole));
    at += point - whole;
    if (whole == d->n)
        return at;
    *at++ = '.';
    memcpy(at, d->digits + whole, (size_t)(d->n - whole));
    return at + (d->n - whole);
}

static char *put_value(char *at, double v)
{
    if (isnan(v) || isinf(v)) {
        memcpy(at, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf", 4);
        return at + (isnan(v) ? 3 : 4);
    }
    if (signbit(v))
        *at++ = '-';
    double abs = fabs(v);
    if (abs < 0x1p53 && abs == (double)(int64_t)abs)
        return put_u64(at, (uint64_t)abs);
    struct decimal d;
    if (!short_decimal(abs, &d))
        long_decimal(abs, &d);
    return abs < 1e-6 || abs >= 1e21 ? put_exponent_form(at, &d) : put_plain_form(at, &d);
}

size_t json_format_value(double v, char out[JSON_VALUE_SIZE])
{
    return (size_t)(put_value(out, v) - out);
}

// --- into the buffer ---

static void took(struct gs_buf *out, const char *start, char *end)
{
    *end = '\0';
    out->len += (size_t)(end - start);
}

void json_add_time(struct gs_buf *out, int64_t ms)
{
    char *at = gs_buf_room(out, JSON_VALUE_SIZE);
    if (at)
        took(out, at, put_time(at, ms));
}

void json_add_value(struct gs_buf *out, double v)
{
    char *at = gs_buf_room(out, JSON_VALUE_SIZE + 2);
    if (!at)
        return;
    char *end = at;
    *end++ = '"';
    end = put_value(end, v);
    *end++ = '"';
    took(out, at, end);
}

void json_add_point(struct gs_buf *out, int64_t t_ms, double v)
{
    char *at = gs_buf_room(out, 2 * JSON_VALUE_SIZE + 5);
    if (!at)
        return;
    char *end = at;
    *end++ = '[';
    end = put_time(end, t_ms);
    *end++ = ',';
    *end++ = '"';
    end = put_value(end, v);
    *end++ = '"';
    *end++ = ']';
    took(out, at, end);
}

void json_add_seconds(struct gs_buf *out, double seconds)
{
    char *at = gs_buf_room(out, JSON_VALUE_SIZE);
    if (at)
        took(out, at, put_value(at, seconds));
}
