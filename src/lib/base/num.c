// SPDX-License-Identifier: Apache-2.0
// Numbers as text. The decimal point is always ".", because the program leaves LC_NUMERIC alone.
// Doubles print as Go's strconv.FormatFloat(v, 'g', -1, 64) prints them: the fewest digits that
// parse to the same value.
#include "base/num.h"

#include "base/shortest.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

// False: not only digits. A number that is too large is UINT64_MAX, with *ret_fits false.
static bool read_digits(struct gs_slice s, uint64_t *ret, bool *ret_fits)
{
    uint64_t v = 0;
    bool fits = true;
    for (size_t i = 0; i < s.len; i++) {
        unsigned d = (unsigned char)s.data[i] - (unsigned)'0';
        if (d > 9)
            return false;
        fits = fits && !__builtin_mul_overflow(v, (uint64_t)10, &v) &&
               !__builtin_add_overflow(v, (uint64_t)d, &v);
    }
    *ret = fits ? v : UINT64_MAX;
    *ret_fits = fits;
    return s.len > 0;
}

struct gs_error *gs_parse_u64(struct gs_slice s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    bool fits = false;
    if (!read_digits(s, &v, &fits))
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not a whole number",
                            GS_SLICE_ARG(s));
    if (!fits || v > max)
        return gs_error_new(GS_EINVAL, GS_SLICE_FMT " is more than %llu", GS_SLICE_ARG(s),
                            (unsigned long long)max);
    *ret = v;
    return NULL;
}

struct gs_error *gs_parse_i64(struct gs_slice s, int64_t min, int64_t max, int64_t *ret)
{
    bool negative = s.len && s.data[0] == '-', fits = false;
    size_t skip = negative || (s.len && s.data[0] == '+');
    uint64_t magnitude = 0;
    if (!read_digits(gs_slice_make(s.data + skip, s.len - skip), &magnitude, &fits))
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not a whole number",
                            GS_SLICE_ARG(s));
    fits = fits && magnitude <= (uint64_t)INT64_MAX + (negative ? 1 : 0);
    int64_t v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (!fits || v < min || v > max)
        return gs_error_new(GS_EINVAL, GS_SLICE_FMT " is not between %lld and %lld",
                            GS_SLICE_ARG(s), (long long)min, (long long)max);
    *ret = v;
    return NULL;
}

static bool parse_special(struct gs_slice s, double *ret)
{
    bool negative = s.len && s.data[0] == '-';
    size_t skip = negative || (s.len && s.data[0] == '+');
    struct gs_slice word = gs_slice_make(s.data + skip, s.len - skip);
    if (word.len == 3 && strncasecmp(word.data, "nan", 3) == 0 && !negative)
        *ret = NAN;
    else if ((word.len == 3 && strncasecmp(word.data, "inf", 3) == 0) ||
             (word.len == 8 && strncasecmp(word.data, "infinity", 8) == 0))
        *ret = negative ? -INFINITY : INFINITY;
    else
        return false;
    return true;
}

// strtod() accepts more than a decimal number; only these shapes go to it.
static bool is_decimal(struct gs_slice s)
{
    size_t i = 0, digits = 0;
    if (i < s.len && (s.data[i] == '+' || s.data[i] == '-'))
        i++;
    for (; i < s.len && isdigit((unsigned char)s.data[i]); i++)
        digits++;
    if (i < s.len && s.data[i] == '.')
        for (i++; i < s.len && isdigit((unsigned char)s.data[i]); i++)
            digits++;
    if (!digits)
        return false;
    if (i < s.len && (s.data[i] == 'e' || s.data[i] == 'E')) {
        i++;
        if (i < s.len && (s.data[i] == '+' || s.data[i] == '-'))
            i++;
        size_t exponent = i;
        while (i < s.len && isdigit((unsigned char)s.data[i]))
            i++;
        if (i == exponent)
            return false;
    }
    return i == s.len;
}

struct gs_error *gs_parse_double(struct gs_slice s, double *ret)
{
    if (parse_special(s, ret))
        return NULL;
    char text[400];
    if (!is_decimal(s) || s.len >= sizeof(text))
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not a number",
                            (int)(s.len < 60 ? s.len : 60), s.data);
    memcpy(text, s.data, s.len);
    text[s.len] = '\0';
    // The program never calls setlocale(), so the decimal point is '.'.
    *ret = strtod(text, NULL);
    return NULL;
}

// --- print ---

char *gs_put_u64(char *at, uint64_t v)
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    char text[20];
    size_t n = sizeof(text);
    for (; v >= 100; v /= 100) {
        n -= 2;
        memcpy(text + n, pairs + 2 * (v % 100), 2);
    }
    if (v >= 10) {
        n -= 2;
        memcpy(text + n, pairs + 2 * v, 2);
    } else {
        text[--n] = (char)('0' + v);
    }
    memcpy(at, text + n, sizeof(text) - n);
    return at + (sizeof(text) - n);
}

// Go writes at least two exponent digits, as C does.
static char *put_exponent_form(char *at, const char *digits, int n, int exponent)
{
    *at++ = digits[0];
    if (n > 1) {
        *at++ = '.';
        memcpy(at, digits + 1, (size_t)n - 1);
        at += n - 1;
    }
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    unsigned e = (unsigned)(exponent < 0 ? -exponent : exponent);
    if (e < 10)
        *at++ = '0';
    return gs_put_u64(at, e);
}

static char *put_plain_form(char *at, const char *digits, int n, int exponent)
{
    int point = exponent + 1; // digits in front of the point
    if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        memset(at, '0', (size_t)-point);
        at += -point;
        memcpy(at, digits, (size_t)n);
        return at + n;
    }
    int whole = point < n ? point : n;
    memcpy(at, digits, (size_t)whole);
    at += whole;
    memset(at, '0', (size_t)(point - whole));
    at += point - whole;
    if (whole == n)
        return at;
    *at++ = '.';
    memcpy(at, digits + whole, (size_t)(n - whole));
    return at + (n - whole);
}

char *gs_put_double(char *at, double v, int min_exponent)
{
    if (isnan(v) || isinf(v)) {
        memcpy(at, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf", 4);
        return at + (isnan(v) ? 3 : 4);
    }
    if (signbit(v))
        *at++ = '-';
    double abs = fabs(v);
    if (abs < 0x1p53 && abs == (double)(int64_t)abs)
        return gs_put_u64(at, (uint64_t)abs);
    struct gs_decimal d = gs_shortest_decimal(abs);
    char digits[20];
    int n = (int)(gs_put_u64(digits, d.digits) - digits);
    int exponent = n - 1 + d.exponent; // of the first digit
    return exponent < min_exponent || exponent >= 21 ? put_exponent_form(at, digits, n, exponent)
                                                     : put_plain_form(at, digits, n, exponent);
}

char *gs_format_double(double v, char buf[GS_DOUBLE_SIZE])
{
    *gs_put_double(buf, v, -4) = '\0';
    return buf;
}

// v * 10^6 as an integer, rounded to even at the half, as long as it fits; every step is exact.
static bool scale6(double v, uint64_t *ret)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
    if (exponent > -10 || exponent < -1074) // from 2^43 on; below all: 0 and subnormal numbers
        return false;
    unsigned __int128 product =
        (unsigned __int128)((bits & 0xfffffffffffffU) | 1ULL << 52) * 1000000;
    unsigned shift = (unsigned)-exponent;
    if (shift > 100) { // less than half of the last decimal
        *ret = 0;
        return true;
    }
    uint64_t whole = (uint64_t)(product >> shift);
    unsigned __int128 rest = product & (((unsigned __int128)1 << shift) - 1);
    unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
    *ret = whole + (rest > half || (rest == half && (whole & 1)));
    return true;
}

char *gs_put_fixed6(char *at, double v)
{
    uint64_t scaled = 0;
    double abs = fabs(v);
    if (abs != 0 && !scale6(abs, &scaled))
        return at + snprintf(at, GS_FIXED6_SIZE, "%f", v);
    if (signbit(v))
        *at++ = '-';
    at = gs_put_u64(at, scaled / 1000000);
    *at = '.';
    uint32_t decimals = (uint32_t)(scaled % 1000000);
    for (int i = 6; i > 0; i--) {
        at[i] = (char)('0' + decimals % 10);
        decimals /= 10;
    }
    return at + 7;
}

char *gs_put_hex(char *at, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = bytes;
    for (size_t i = 0; i < len; i++) {
        *at++ = digits[from[i] >> 4];
        *at++ = digits[from[i] & 15];
    }
    return at;
}

int gs_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int gs_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int gs_compare_int64s(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t gs_add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}
