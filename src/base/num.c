// SPDX-License-Identifier: Apache-2.0
#include "base/num.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

struct gs_error *gs_parse_u64(struct gs_slice s, uint64_t max, uint64_t *ret)
{
    uint64_t v = 0;
    bool ok = s.len > 0;
    for (size_t i = 0; ok && i < s.len; i++) {
        unsigned d = (unsigned char)s.data[i] - (unsigned)'0';
        ok = d <= 9 && !__builtin_mul_overflow(v, (uint64_t)10, &v) &&
             !__builtin_add_overflow(v, (uint64_t)d, &v);
    }
    if (!ok)
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not a whole number",
                            GS_SLICE_ARG(s));
    if (v > max)
        return gs_error_new(GS_EINVAL, GS_SLICE_FMT " is more than %llu", GS_SLICE_ARG(s),
                            (unsigned long long)max);
    *ret = v;
    return NULL;
}

struct gs_error *gs_parse_i64(struct gs_slice s, int64_t min, int64_t max, int64_t *ret)
{
    bool negative = s.len && s.data[0] == '-';
    size_t skip = negative || (s.len && s.data[0] == '+');
    uint64_t magnitude = 0;
    struct gs_error *err = gs_parse_u64(gs_slice_make(s.data + skip, s.len - skip),
                                        (uint64_t)INT64_MAX + (negative ? 1 : 0), &magnitude);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL, "\"" GS_SLICE_FMT "\" is not a whole number",
                            GS_SLICE_ARG(s));
    }
    int64_t v = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (v < min || v > max)
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

char *gs_format_double(double v, char buf[GS_DOUBLE_SIZE])
{
    if (isnan(v)) {
        snprintf(buf, GS_DOUBLE_SIZE, "NaN");
        return buf;
    }
    if (isinf(v)) {
        snprintf(buf, GS_DOUBLE_SIZE, v > 0 ? "+Inf" : "-Inf");
        return buf;
    }
    if (v == floor(v) && fabs(v) < 1e15) {
        snprintf(buf, GS_DOUBLE_SIZE, "%.0f", v);
        return buf;
    }
    char digits[GS_DOUBLE_SIZE];
    int precision = 1;
    for (; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*e", precision - 1, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    int exponent = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 21) {
        // Go writes at least two exponent digits, as C does.
        snprintf(buf, GS_DOUBLE_SIZE, "%s", digits);
        return buf;
    }
    int decimals = precision - 1 - exponent;
    snprintf(buf, GS_DOUBLE_SIZE, "%.*f", decimals > 0 ? decimals : 0, v);
    return buf;
}
