// SPDX-License-Identifier: Apache-2.0
// Numbers and durations, parsed as by Go's strconv and Prometheus' model.ParseDuration.
#include "promql/parser_private.h"

#include "base/num.h"

#include <math.h>
#include <stdlib.h>

// As Go's ParseInt with base 0, then ParseFloat.
bool promql_parse_number(struct gs_slice text, double *ret)
{
    char digits[1024];
    size_t n = 0;
    if (text.len >= sizeof(digits))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] != '_')
            digits[n++] = text.data[i];
    digits[n] = '\0';
    bool hex = n > 1 && digits[0] == '0' && (digits[1] | 32) == 'x';
    bool octal = n > 1 && digits[0] == '0' && strspn(digits, "01234567") == n;
    if (hex || octal) {
        char *end;
        *ret = (double)strtoull(digits, &end, hex ? 16 : 8);
        return *end == '\0';
    }
    struct gs_error *err = gs_parse_double(gs_slice_make(digits, n), ret);
    gs_error_free(err);
    return !err;
}

static bool seconds_of_number(struct promql_parser *p, struct promql_token t, double *ret)
{
    bool number = promql_parse_number(t.text, ret);
    bool too_large = number && isinf(*ret) && strchr(".0123456789", t.text.data[0]);
    if (number && !too_large)
        return true;
    GS_AUTO_BUF struct gs_buf quoted = {0};
    promql_quote(&quoted, t.text);
    promql_parser_fail(p, t.start, "error parsing number: strconv.ParseFloat: parsing %s: %s",
                       quoted.data, too_large ? "value out of range" : "invalid syntax");
    return false;
}

static size_t run_of(struct gs_slice s, size_t at, bool digits)
{
    size_t n = 0;
    while (at + n < s.len && (s.data[at + n] >= '0' && s.data[at + n] <= '9') == digits)
        n++;
    return n;
}

// The index of the unit, from the largest; -1: none.
static int duration_unit(struct gs_slice name)
{
    static const char *const names[] = {"y", "w", "d", "h", "m", "s", "ms"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_slice_eq_str(name, names[i]))
            return (int)i;
    return -1;
}

static bool wrong_duration(struct promql_parser *p, struct promql_token t, struct gs_slice unit)
{
    GS_AUTO_BUF struct gs_buf quoted = {0};
    GS_AUTO_BUF struct gs_buf name = {0};
    promql_quote(&quoted, t.text);
    promql_quote(&name, unit);
    if (unit.len)
        promql_parser_fail(p, t.start, "unknown unit %s in duration %s", name.data, quoted.data);
    else
        promql_parser_fail(p, t.start, "not a valid duration string: %s", quoted.data);
    return false;
}

// Units from the largest to the smallest, each once at most.
static bool seconds_of_duration(struct promql_parser *p, struct promql_token t, double *ret)
{
    static const int64_t ms[] = {31536000000, 604800000, 86400000, 3600000, 60000, 1000, 1};
    const int64_t max_ms = INT64_MAX / 1000000;
    int64_t total = 0;
    int last = -1;
    for (size_t at = 0; at < t.text.len;) {
        size_t digits = run_of(t.text, at, true), letters = run_of(t.text, at + digits, false);
        struct gs_slice number = gs_slice_make(t.text.data + at, digits);
        struct gs_slice name = gs_slice_make(t.text.data + at + digits, letters);
        int unit = duration_unit(name);
        if (!digits || !letters)
            return wrong_duration(p, t, GS_SLICE(""));
        if (unit < 0)
            return wrong_duration(p, t, name);
        if (unit <= last)
            return wrong_duration(p, t, GS_SLICE(""));
        int64_t v;
        struct gs_error *err = gs_parse_i64(number, 0, max_ms / ms[unit], &v);
        gs_error_free(err);
        if (err || v * ms[unit] > max_ms - total) {
            promql_parser_fail(p, t.start, "duration out of range");
            return false;
        }
        total += v * ms[unit];
        last = unit;
        at += digits + letters;
    }
    *ret = (double)total / 1000;
    return true;
}

bool promql_parse_seconds(struct promql_parser *p, struct promql_token t, double *ret)
{
    return t.type == PROMQL_T_NUMBER ? seconds_of_number(p, t, ret)
                                     : seconds_of_duration(p, t, ret);
}
