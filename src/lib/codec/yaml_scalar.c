// SPDX-License-Identifier: Apache-2.0
// The type of a plain YAML scalar by the rules of go-yaml 2, which Kubernetes' tools use: the
// words of YAML 1.1 for booleans (yes, on, y), and integers with a base or underscores.
#include "codec/yaml.h"

#include "base/num.h"

#include <math.h>

static bool is_listed(struct gs_slice s, const char *const *words)
{
    for (; *words; words++)
        if (gs_slice_eq_str(s, *words))
            return true;
    return false;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

// [-+]digits of the base, '_' allowed between; false when it is not that or does not fit.
static bool parse_based(struct gs_slice s, int64_t *ret)
{
    bool negative = s.data[0] == '-';
    size_t i = negative || s.data[0] == '+';
    int base = 10;
    if (s.len > i + 1 && s.data[i] == '0') {
        char mark = s.data[i + 1];
        base = mark == 'x' ? 16 : mark == 'b' ? 2 : 8;
        i += mark == 'x' || mark == 'b' || mark == 'o' ? 2 : 1;
    }
    if (i >= s.len)
        return false;
    int64_t v = 0;
    for (; i < s.len; i++) {
        if (s.data[i] == '_')
            continue;
        int d = digit_value(s.data[i]);
        if (d >= base || __builtin_mul_overflow(v, (int64_t)base, &v) ||
            __builtin_add_overflow(v, (int64_t)d, &v))
            return false;
    }
    *ret = negative ? -v : v;
    return true;
}

json_t *codec_yaml_plain_scalar(struct gs_slice s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", "yes", "Yes", "YES",
                                        "on",   "On",   "ON",   "y",   "Y",   NULL};
    static const char *const falses[] = {"false", "False", "FALSE", "no", "No", "NO",
                                         "off",   "Off",   "OFF",   "n",  "N",  NULL};
    if (is_listed(s, nulls))
        return json_null();
    if (is_listed(s, trues))
        return json_true();
    if (is_listed(s, falses))
        return json_false();
    char first = s.data[0];
    bool numeric = (first >= '0' && first <= '9') || first == '-' || first == '+' || first == '.';
    int64_t i;
    if (numeric && parse_based(s, &i))
        return json_integer(i);
    double d;
    GS_AUTO_ERROR struct gs_error *err = numeric ? gs_parse_double(s, &d) : NULL;
    if (numeric && !err && isfinite(d))
        return json_real(d);
    return json_stringn(s.data, s.len);
}
