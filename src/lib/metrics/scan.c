// SPDX-License-Identifier: Apache-2.0
// The inner loops of the exposition parser, with SSE2 where it exists: the end of the braces, the
// end of a name, numbers, UTF-8. They may read up to `limit`, beyond the text, but never use what
// is there. Numbers are rounded correctly, as strtod() rounds.
#include "metrics/metrics_private.h"

#include "base/attr.h"

#include <string.h>

static const char *scan_scalar(const char *p, const char *end, bool quoted, bool *ret_open)
{
    for (; p < end; p++) {
        if (*p == '"')
            quoted = !quoted;
        else if (*p == '\\' && quoted && p + 1 < end)
            p++;
        else if (*p == '}' && !quoted)
            break;
    }
    *ret_open = quoted;
    return p;
}

// Bit 0: may be in a name; bit 1: in a metric's name.
static const uint8_t name_bytes[256] = {
    ['0' ... '9'] = 3, ['A' ... 'Z'] = 3, ['a' ... 'z'] = 3, ['_'] = 3, [':'] = 2,
};

static const char *name_scalar(const char *p, const char *end, bool colon)
{
    uint8_t want = colon ? 2 : 1;
    while (p < end && (name_bytes[(unsigned char)*p] & want))
        p++;
    return p;
}

#ifdef __SSE2__
#include <emmintrin.h>

static inline __attribute__((always_inline)) uint64_t mask_of(const __m128i v[4], char c)
{
    __m128i want = _mm_set1_epi8(c);
    uint64_t m0 = (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v[0], want));
    uint64_t m1 = (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v[1], want));
    uint64_t m2 = (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v[2], want));
    uint64_t m3 = (uint16_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v[3], want));
    return m0 | m1 << 16 | m2 << 32 | m3 << 48;
}

// Bit i: the number of set bits at or below i is odd.
static uint64_t prefix_xor(uint64_t m)
{
    m ^= m << 1;
    m ^= m << 2;
    m ^= m << 4;
    m ^= m << 8;
    m ^= m << 16;
    return m ^ m << 32;
}

const char *metrics_scan_brace(const char *p, const char *end, const char *limit, bool *ret_open)
{
    uint64_t quoted = 0; // all ones within quotes
    for (; p < end && limit - p >= 64; p += 64) {
        uint64_t valid = end - p >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (end - p)) - 1;
        __m128i v[4];
        v[0] = _mm_loadu_si128((const __m128i *)(const void *)p);
        v[1] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16));
        v[2] = _mm_loadu_si128((const __m128i *)(const void *)(p + 32));
        v[3] = _mm_loadu_si128((const __m128i *)(const void *)(p + 48));
        if (mask_of(v, '\\') & valid)
            break;
        uint64_t inside = prefix_xor(mask_of(v, '"') & valid) ^ quoted;
        uint64_t braces = mask_of(v, '}') & valid & ~inside;
        if (braces) {
            *ret_open = false;
            return p + __builtin_ctzll(braces);
        }
        quoted = (uint64_t)((int64_t)inside >> 63);
    }
    if (p >= end) {
        *ret_open = quoted != 0;
        return end;
    }
    return scan_scalar(p, end, quoted != 0, ret_open);
}

// All ones in bytes of v - from (modulo 256) that are at most n.
static inline __m128i within(__m128i v, char from, char n)
{
    __m128i above = _mm_sub_epi8(v, _mm_set1_epi8(from));
    return _mm_cmpeq_epi8(_mm_min_epu8(above, _mm_set1_epi8(n)), above);
}

const char *metrics_scan_name(const char *p, const char *end, const char *limit, bool colon)
{
    for (; p < end && limit - p >= 16; p += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i letter = within(_mm_or_si128(v, _mm_set1_epi8(0x20)), 'a', 25);
        __m128i digit = within(v, '0', colon ? 10 : 9); // ':' follows '9'
        __m128i score = _mm_cmpeq_epi8(v, _mm_set1_epi8('_'));
        __m128i name = _mm_or_si128(_mm_or_si128(letter, digit), score);
        unsigned other = (uint16_t)~_mm_movemask_epi8(name);
        if (other) {
            p += __builtin_ctz(other);
            return p < end ? p : end;
        }
    }
    return p < end ? name_scalar(p, end, colon) : end;
}
#else
const char *metrics_scan_name(const char *p, const char *end, const char *limit, bool colon)
{
    (void)limit;
    return name_scalar(p, end, colon);
}

const char *metrics_scan_brace(const char *p, const char *end, const char *limit, bool *ret_open)
{
    (void)limit;
    return scan_scalar(p, end, false, ret_open);
}
#endif

// --- numbers ---

// The 8 digits of x (each byte 0 to 9, the first one lowest) as a number.
static inline uint64_t eight_digits(uint64_t x)
{
    x = (x * 2561) >> 8 & 0x00ff00ff00ff00ffULL;
    x = (x * 6553601) >> 16 & 0x0000ffff0000ffffULL;
    return (x * 42949672960001ULL) >> 32;
}

// Reads a number of up to 7 digits and a point without a branch for each: nearly all values.
// Returns the length; 0: not such a number.
static inline size_t short_number(const char *p, double *ret)
{
    static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7};
    uint64_t c, low = 0x7f7f7f7f7f7f7f7fULL;
    memcpy(&c, p, sizeof(c));
    c ^= 0x3030303030303030ULL;
    uint64_t other = (((c & low) + 0x7676767676767676ULL) | c) & ~low; // bytes that are no digits
    if (!other)
        return 0;
    unsigned n = (unsigned)__builtin_ctzll(other) & ~7u, decimals = 0; // bits before the first
    size_t len = n / 8;
    uint64_t digits = n ? c << (64 - n) : 0;
    if (p[len] == '.') {
        other &= other - 1;
        if (!other)
            return 0;
        unsigned all = (unsigned)__builtin_ctzll(other) & ~7u;
        uint64_t before = c & ((UINT64_C(1) << n) - 1), behind = c >> 8 & ~((UINT64_C(1) << n) - 1);
        len = all / 8;
        decimals = (unsigned)(len - 1 - n / 8);
        digits = all > 8 ? (before | behind) << (72 - all) : 0;
        if (all <= 8)
            return 0; // only a point
    }
    if (!len)
        return 0;
    double v = (double)eight_digits(digits);
    *ret = decimals ? v / tens[decimals] : v;
    return len;
}

// A mantissa below 2^53 divided by a power of ten up to 10^22: both exact, so one correct rounding.
const char *metrics_scan_number(const char *p, const char *end, double *ret)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool negative = p < end && *p == '-';
    p += negative;
    double v;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    size_t len = end - p >= 8 ? short_number(p, &v) : 0;
    if (len) {
        *ret = negative ? -v : v;
        return p + len;
    }
#endif
    uint64_t m = 0;
    const char *start = p;
    while (p < end && (unsigned char)(*p - '0') <= 9)
        m = m * 10 + (uint64_t)(*p++ - '0');
    size_t digits = (size_t)(p - start), decimals = 0;
    if (p < end && *p == '.') {
        start = ++p;
        while (p < end && (unsigned char)(*p - '0') <= 9)
            m = m * 10 + (uint64_t)(*p++ - '0');
        decimals = (size_t)(p - start);
        digits += decimals;
    }
    if (!digits || digits > 19 || m >= (uint64_t)1 << 53)
        return NULL;
    v = decimals ? (double)m / tens[decimals] : (double)m;
    *ret = negative ? -v : v;
    return p;
}

// RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (!len || len > n || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

bool metrics_utf8_ok(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0; i < n;) {
        uint64_t eight;
        if (n - i >= 8 && (memcpy(&eight, p + i, 8), !(eight & 0x8080808080808080ULL))) {
            i += 8;
            continue;
        }
        size_t len = utf8_length(p + i, n - i);
        if (!len)
            return false;
        i += len;
    }
    return true;
}
