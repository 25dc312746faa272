// SPDX-License-Identifier: Apache-2.0
// Quantities with the semantics of apimachinery's resource.Quantity: canonical form, and rounding
// away from zero to the unit that is requested, at nano at the finest. Texts are parsed
// and printed with 128-bit integers; they never pass through a double.
#include "kube/quantity.h"

#include <math.h>
#include <stdio.h>

typedef unsigned __int128 u128;

// Mantissas without trailing zeros are below 10^MAX_DIGITS. Two more factors of ten therefore never
// overflow, and each canonical text fits KUBE_QUANTITY_SIZE and can be parsed again.
#define MAX_DIGITS   28
#define MAX_EXPONENT 999999
#define NANO         (-9)
#define EXA          18

enum form { DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT };

// (negative ? -1 : 1) x mantissa x 10^exponent, never finer than nano.
struct amount {
    u128 mantissa;
    int64_t exponent;
    bool negative;
    enum form form;
};

struct text {
    struct gs_slice whole, fraction, suffix;
    bool negative;
};

static struct gs_error *bad_format(void)
{
    return gs_error_new(GS_EINVAL, "quantities must match the regular expression "
                                   "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
}

static struct gs_error *bad_suffix(void)
{
    return gs_error_new(GS_EINVAL, "unable to parse quantity's suffix");
}

static struct gs_error *bad_number(void)
{
    return gs_error_new(GS_EINVAL, "unable to parse numeric part of quantity");
}

static struct gs_slice take_while(struct gs_slice *s, const char *set)
{
    size_t n = 0;
    while (n < s->len && s->data[n] && strchr(set, s->data[n]))
        n++;
    struct gs_slice taken = gs_slice_make(s->data, n);
    s->data += n;
    s->len -= n;
    return taken;
}

static struct gs_error *split_quantity(struct gs_slice s, struct text *ret)
{
    struct text t = {0};
    if (s.len == 0)
        return bad_format();
    if (s.data[0] == '-' || s.data[0] == '+') {
        t.negative = s.data[0] == '-';
        s.data++;
        s.len--;
    }
    t.whole = take_while(&s, "0123456789");
    if (s.len && s.data[0] == '.') {
        s.data++;
        s.len--;
        t.fraction = take_while(&s, "0123456789");
    }
    // Kubernetes parses a text without digits as 0, although its own expression does not match it.
    // Here it is an error.
    if (t.whole.len + t.fraction.len == 0)
        return bad_format();
    const char *start = s.data;
    take_while(&s, "eEinumkKMGTP");
    if (s.len && (s.data[0] == '-' || s.data[0] == '+')) {
        s.data++;
        s.len--;
    }
    take_while(&s, "0123456789");
    if (s.len)
        return bad_format();
    t.suffix = gs_slice_make(start, (size_t)(s.data - start));
    *ret = t;
    return NULL;
}

static const struct {
    const char *text;
    int exponent; // power of ten, or of two
    enum form form;
} suffixes[] = {
    {"", 0, DECIMAL_SI},   {"n", -9, DECIMAL_SI}, {"u", -6, DECIMAL_SI}, {"m", -3, DECIMAL_SI},
    {"k", 3, DECIMAL_SI},  {"M", 6, DECIMAL_SI},  {"G", 9, DECIMAL_SI},  {"T", 12, DECIMAL_SI},
    {"P", 15, DECIMAL_SI}, {"E", 18, DECIMAL_SI}, {"Ki", 10, BINARY_SI}, {"Mi", 20, BINARY_SI},
    {"Gi", 30, BINARY_SI}, {"Ti", 40, BINARY_SI}, {"Pi", 50, BINARY_SI}, {"Ei", 60, BINARY_SI},
};

static bool read_suffix(struct gs_slice s, int *ret_exponent, enum form *ret_form)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
        if (gs_slice_eq_str(s, suffixes[i].text)) {
            *ret_exponent = suffixes[i].exponent;
            *ret_form = suffixes[i].form;
            return true;
        }
    }
    if (s.len < 2 || (s.data[0] != 'e' && s.data[0] != 'E'))
        return false;
    size_t i = 1;
    bool negative = s.data[i] == '-';
    if (s.data[i] == '-' || s.data[i] == '+')
        i++;
    if (i == s.len)
        return false;
    int64_t value = 0;
    for (; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9')
            return false;
        value = value * 10 + (s.data[i] - '0');
        if (value > MAX_EXPONENT)
            return false;
    }
    *ret_exponent = (int)(negative ? -value : value);
    *ret_form = DECIMAL_EXPONENT;
    return true;
}

static u128 ceil_div(u128 a, u128 b)
{
    return a / b + (a % b != 0);
}

// Not beyond the largest exponent that is accepted, so that the result can be parsed again.
static void strip_tens(struct amount *a)
{
    while (a->mantissa && a->mantissa % 10 == 0 && a->exponent < MAX_EXPONENT) {
        a->mantissa /= 10;
        a->exponent++;
    }
}

static bool fits(struct amount a)
{
    u128 limit = 1;
    for (int i = 0; i < MAX_DIGITS; i++)
        limit *= 10;
    strip_tens(&a);
    return a.mantissa < limit;
}

// Parses the digits. Digits that do not fit into the mantissa must be after the decimal point and
// are rounded up.
static struct gs_error *read_digits(const struct text *t, struct amount *a)
{
    size_t n = 0;
    bool more = false;
    for (size_t i = 0; i < t->whole.len; i++) {
        if (n == 0 && t->whole.data[i] == '0')
            continue;
        if (++n > MAX_DIGITS + 2)
            return bad_number();
        a->mantissa = a->mantissa * 10 + (unsigned)(t->whole.data[i] - '0');
    }
    for (size_t i = 0; i < t->fraction.len; i++) {
        unsigned digit = (unsigned)(t->fraction.data[i] - '0');
        if (n >= MAX_DIGITS) {
            more |= digit != 0;
            continue;
        }
        n += n > 0 || digit;
        a->mantissa = a->mantissa * 10 + digit;
        a->exponent--;
    }
    bool fit = fits(*a); // rounding nines up makes zeros, which would be stripped
    a->mantissa += more;
    return fit && fits(*a) ? NULL : bad_number();
}

// Rounds away from zero to a multiple of 10^exponent.
static void round_to(struct amount *a, int64_t exponent)
{
    while (a->exponent < exponent && a->mantissa > 1) {
        a->mantissa = ceil_div(a->mantissa, 10);
        a->exponent++;
    }
    if (a->exponent < exponent)
        a->exponent = exponent;
}

// mantissa x 10^exponent x 2^shift in nano-units, at most INT64_MAX whole units.
static void apply_binary(struct amount *a, int shift)
{
    const u128 max = INT64_MAX;
    const u128 nano = 1000000000;
    round_to(a, -18);
    u128 scale = 1;
    for (int64_t e = a->exponent; e < 0; e++)
        scale *= 10;
    u128 whole = a->mantissa / scale;
    u128 part = (a->mantissa % scale) << shift; // below 2^120
    if (whole > max >> shift) {
        whole = max;
        part = 0;
    } else {
        whole = (whole << shift) + part / scale;
        part = ceil_div(part % scale * nano, scale);
    }
    if (whole >= max) {
        whole = max;
        part = 0;
    }
    a->mantissa = whole * nano + part;
    a->exponent = NANO;
    if (whole == 0 && part)
        a->form = DECIMAL_SI;
}

static struct gs_error *parse_quantity(struct gs_slice s, struct amount *ret)
{
    struct text t = {0};
    struct gs_error *err = split_quantity(s, &t);
    if (err)
        return err;
    int exponent = 0;
    struct amount a = {.negative = t.negative};
    if (!read_suffix(t.suffix, &exponent, &a.form))
        return bad_suffix();
    err = read_digits(&t, &a);
    if (err)
        return err;
    if (a.form == BINARY_SI)
        apply_binary(&a, exponent);
    else
        a.exponent += exponent;
    round_to(&a, NANO);
    *ret = a;
    return NULL;
}

// Returns the value in units of 10^unit, rounded away from zero. Saturates.
static int64_t in_units(struct amount a, int unit)
{
    const u128 max = (u128)INT64_MAX + (a.negative ? 1 : 0);
    round_to(&a, unit);
    while (a.exponent > unit && a.mantissa && a.mantissa <= max) {
        a.mantissa *= 10;
        a.exponent--;
    }
    if (a.mantissa > max)
        a.mantissa = max;
    uint64_t magnitude = (uint64_t)a.mantissa;
    return a.negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
}

struct gs_error *kube_quantity_parse_milli(struct gs_slice s, int64_t *ret_milli)
{
    struct amount a;
    struct gs_error *err = parse_quantity(s, &a);
    if (!err)
        *ret_milli = in_units(a, -3);
    return err;
}

struct gs_error *kube_quantity_parse_value(struct gs_slice s, int64_t *ret_value)
{
    struct amount a;
    struct gs_error *err = parse_quantity(s, &a);
    if (!err)
        *ret_value = in_units(a, 0);
    return err;
}

static const char *suffix_text(int64_t exponent, enum form form)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (suffixes[i].exponent == exponent && suffixes[i].form == form)
            return suffixes[i].text;
    return "";
}

static char *print_quantity(bool negative, u128 mantissa, const char *suffix,
                            char buf[KUBE_QUANTITY_SIZE])
{
    char digits[KUBE_QUANTITY_SIZE];
    size_t at = sizeof(digits);
    digits[--at] = '\0';
    do {
        digits[--at] = (char)('0' + (unsigned)(mantissa % 10));
        mantissa /= 10;
    } while (mantissa && at > 0);
    snprintf(buf, KUBE_QUANTITY_SIZE, "%s%s%s", negative ? "-" : "", digits + at, suffix);
    return buf;
}

static char *format_decimal(struct amount a, char buf[KUBE_QUANTITY_SIZE])
{
    strip_tens(&a);
    while (a.exponent % 3 != 0 || (a.form == DECIMAL_SI && a.exponent > EXA)) {
        a.mantissa *= 10;
        a.exponent--;
    }
    if (a.form == DECIMAL_SI)
        return print_quantity(a.negative, a.mantissa, suffix_text(a.exponent, DECIMAL_SI), buf);
    char suffix[24] = "";
    if (a.exponent)
        snprintf(suffix, sizeof(suffix), "e%lld", (long long)a.exponent);
    return print_quantity(a.negative, a.mantissa, suffix, buf);
}

static char *format_quantity(struct amount a, char buf[KUBE_QUANTITY_SIZE])
{
    if (a.mantissa == 0)
        return print_quantity(false, 0, "", buf);
    if (a.form == BINARY_SI) {
        struct amount whole = a;
        strip_tens(&whole);
        bool exact = whole.exponent >= 0;
        for (; exact && whole.exponent > 0; whole.exponent--)
            whole.mantissa *= 10;
        if (exact && whole.mantissa >= 1024) {
            int power = 0;
            for (; whole.mantissa % 1024 == 0; power += 10)
                whole.mantissa /= 1024;
            return print_quantity(a.negative, whole.mantissa, suffix_text(power, BINARY_SI), buf);
        }
        a.form = DECIMAL_SI;
    }
    return format_decimal(a, buf);
}

static struct amount amount_of(int64_t v, int exponent, enum form form)
{
    return (struct amount){
        .mantissa = v < 0 ? 0 - (uint64_t)v : (uint64_t)v,
        .exponent = exponent,
        .negative = v < 0,
        .form = form,
    };
}

char *kube_quantity_format_milli(int64_t milli, char buf[KUBE_QUANTITY_SIZE])
{
    return format_quantity(amount_of(milli, -3, DECIMAL_SI), buf);
}

char *kube_quantity_format_bytes(int64_t bytes, char buf[KUBE_QUANTITY_SIZE])
{
    return format_quantity(amount_of(bytes, 0, BINARY_SI), buf);
}

struct gs_error *kube_quantity_canonical(struct gs_slice s, char buf[KUBE_QUANTITY_SIZE])
{
    struct amount a;
    struct gs_error *err = parse_quantity(s, &a);
    if (!err)
        format_quantity(a, buf);
    return err;
}

bool kube_quantity_from_double(double v, int64_t *ret_milli)
{
    double milli = v * 1000;
    const double limit = 9223372036854775808.0; // 2^63, the first double above the range
    // NaN fails both comparisons.
    if (!(milli >= -limit && milli < limit))
        return false;
    *ret_milli = (int64_t)milli;
    return true;
}
