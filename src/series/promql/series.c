// SPDX-License-Identifier: Apache-2.0
// The notation of test series ("0+10x5 _x3 stale"): values as runs, which are expanded while they
// are read, because xN can be huge.
#include "promql/series.h"

#include "base/num.h"
#include "promql/parser_private.h"
#include "tsdb/tsdb.h"

#include <ctype.h>
#include <strings.h>

#define MAX_TIMES INT32_MAX // of one run: 68 years of seconds

struct scan {
    struct gs_slice text;
    size_t at;
};

static int series_peek(const struct scan *s)
{
    return s->at < s->text.len ? (unsigned char)s->text.data[s->at] : -1;
}

static bool at_end_of_item(const struct scan *s)
{
    int c = series_peek(s);
    return c < 0 || isspace(c);
}

static struct gs_error *fail_expected(const struct scan *s, const char *wanted)
{
    size_t n = 0;
    while (s->at + n < s->text.len && !isspace((unsigned char)s->text.data[s->at + n]))
        n++;
    if (!n)
        return gs_error_new(GS_EINVAL, "column %zu: unexpected end of a value, expected %s",
                            s->at + 1, wanted);
    return gs_error_new(GS_EINVAL, "column %zu: unexpected \"%.*s\", expected %s", s->at + 1,
                        n > 40 ? 40 : (int)n, s->text.data + s->at, wanted);
}

// A letter ends a number: 0x10 is ten times zero.
static size_t number_length(const struct scan *s)
{
    const char *p = s->text.data + s->at;
    size_t n = s->text.len - s->at, i = 0;
    while (i < n && (isdigit((unsigned char)p[i]) || p[i] == '.' || p[i] == '_'))
        i++;
    if (!i || i == n || (p[i] | 32) != 'e')
        return i;
    size_t e = i + 1;
    if (e < n && (p[e] == '+' || p[e] == '-'))
        e++;
    size_t digits = e;
    while (digits < n && isdigit((unsigned char)p[digits]))
        digits++;
    return digits > e ? digits : i;
}

static bool scan_number(struct scan *s, double *ret)
{
    size_t n = number_length(s);
    struct gs_slice text = gs_slice_make(s->text.data + s->at, n);
    if (!n && s->text.len - s->at >= 3) {
        const char *p = s->text.data + s->at;
        n = strncasecmp(p, "inf", 3) == 0 || strncasecmp(p, "nan", 3) == 0 ? 3 : 0;
        text.len = n;
    }
    // As in Prometheus' lexer: no underscore at the start or end of a run of digits.
    if (!n || text.data[0] == '_' || text.data[n - 1] == '_' || !promql_parse_number(text, ret))
        return false;
    s->at += n;
    return true;
}

static bool scan_signed(struct scan *s, bool sign_needed, double *ret)
{
    int c = series_peek(s);
    struct scan ahead = *s;
    double v;
    if (c == '+' || c == '-')
        ahead.at++;
    else if (sign_needed)
        return false;
    if (!scan_number(&ahead, &v))
        return false;
    *s = ahead;
    *ret = c == '-' ? -v : v;
    return true;
}

static struct gs_error *scan_times(struct scan *s, uint64_t *ret)
{
    size_t from = ++s->at; // the x
    while (isdigit(series_peek(s)))
        s->at++;
    struct gs_slice digits = gs_slice_make(s->text.data + from, s->at - from);
    struct scan start = {s->text, from};
    if (!digits.len || !at_end_of_item(s))
        return fail_expected(&start, "a number of repetitions");
    struct gs_error *err = gs_parse_u64(digits, MAX_TIMES, ret);
    return err ? gs_error_wrap(err, "column %zu: repetitions", from + 1) : NULL;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    if (s->text.len - s->at < n || memcmp(s->text.data + s->at, word, n) != 0)
        return false;
    struct scan behind = {s->text, s->at + n};
    if (!at_end_of_item(&behind))
        return false;
    s->at = behind.at;
    return true;
}

static struct gs_error *scan_omitted(struct scan *s, struct promql_run *ret)
{
    s->at++;
    *ret = (struct promql_run){.omitted = true, .n = 1};
    if (series_peek(s) == 'x')
        return scan_times(s, &ret->n);
    return at_end_of_item(s) ? NULL : fail_expected(s, "a blank or xN after _");
}

static struct gs_error *scan_item(struct scan *s, struct promql_run *ret)
{
    if (series_peek(s) == '_')
        return scan_omitted(s, ret);
    if (series_peek(s) == '{')
        return gs_error_new(GS_ENOTSUP, "column %zu: native histograms are not supported",
                            s->at + 1);
    *ret = (struct promql_run){.n = 1};
    if (scan_word(s, "stale")) {
        ret->first = tsdb_stale_marker();
        return NULL;
    }
    if (!scan_signed(s, false, &ret->first))
        return fail_expected(s, "a number, _ or stale");
    bool stepped = scan_signed(s, true, &ret->by);
    if (at_end_of_item(s) && !stepped)
        return NULL;
    if (series_peek(s) != 'x')
        return fail_expected(s, stepped ? "xN" : "xN, +N or -N");
    uint64_t times = 0;
    struct gs_error *err = scan_times(s, &times);
    ret->n = times + 1;
    return err;
}

static void skip_blanks(struct scan *s)
{
    while (series_peek(s) >= 0 && isspace(series_peek(s)))
        s->at++;
}

static size_t count_items(struct gs_slice text)
{
    struct scan s = {text, 0};
    size_t n = 0;
    for (skip_blanks(&s); series_peek(&s) >= 0; n++, skip_blanks(&s))
        while (!at_end_of_item(&s))
            s.at++;
    return n;
}

struct gs_error *promql_parse_values(struct gs_slice text, struct gs_arena *arena,
                                     struct promql_values *ret)
{
    struct scan s = {text, 0};
    size_t room = count_items(text), n = 0;
    struct promql_run *runs = gs_arena_alloc(arena, (room + 1) * sizeof(*runs));
    if (!runs)
        return gs_error_new(GS_ELIMIT, "%zu values are too many", room);
    for (skip_blanks(&s); series_peek(&s) >= 0; skip_blanks(&s)) {
        struct gs_error *err = scan_item(&s, &runs[n++]);
        if (err)
            return err;
    }
    *ret = (struct promql_values){runs, n};
    return NULL;
}

bool promql_values_next(struct promql_values_reader *r, double *ret, bool *ret_omitted)
{
    const struct promql_values *v = r->values;
    while (r->run < v->n_runs && r->i == v->runs[r->run].n) {
        r->run++;
        r->i = 0;
    }
    if (r->run == v->n_runs)
        return false;
    const struct promql_run *run = &v->runs[r->run];
    // Added repeatedly, as in Prometheus: 0.1 added ten times is not 0.1 * 10. Omitted and stale
    // values and values without a step are not changed: adding 0 could change the bits of a NaN.
    r->value = r->i == 0 || run->by == 0 ? run->first : r->value + run->by;
    r->i++;
    *ret = r->value;
    *ret_omitted = run->omitted;
    return true;
}
