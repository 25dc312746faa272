// SPDX-License-Identifier: Apache-2.0
// Values of templates: their truth, comparison, and printing as Go's fmt prints them with %v.
#include "template/template_private.h"

#include "base/clock.h"
#include "base/num.h"
#include "codec/encoding.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

const char *template_type_name(const struct template_value *v)
{
    static const char *const names[] = {
        [VALUE_NIL] = "<nil>",
        [VALUE_BOOL] = "bool",
        [VALUE_INT] = "int",
        [VALUE_FLOAT] = "float64",
        [VALUE_STRING] = "string",
        [VALUE_LABELS] = "map[string]string",
        [VALUE_SAMPLE] = "*template.sample",
        [VALUE_VECTOR] = "template.queryResult",
        [VALUE_ARGS] = "map[string]interface {}",
        [VALUE_LIST] = "[]string",
        [VALUE_TIME] = "*time.Time",
        [VALUE_DURATION] = "*time.Duration",
        [VALUE_DATA] = ("struct { Labels map[string]string; ExternalLabels map[string]string; "
                        "ExternalURL string; Value interface {} }"),
    };
    return names[v->type];
}

bool template_truth(const struct template_value *v)
{
    switch (v->type) {
    case VALUE_NIL:
        return false;
    case VALUE_BOOL:
        return v->u.b;
    case VALUE_INT:
        return v->u.i != 0;
    case VALUE_FLOAT:
        return v->u.f != 0;
    case VALUE_STRING:
        return v->u.s.len > 0;
    case VALUE_LABELS:
        return v->u.labels.n > 0;
    case VALUE_VECTOR:
        return v->u.vector.n > 0;
    case VALUE_ARGS:
        return v->u.args.n > 0;
    case VALUE_LIST:
        return v->u.list.n > 0;
    default:
        return true;
    }
}

struct gs_slice template_label(const struct template_value *labels, struct gs_slice name)
{
    for (size_t i = 0; i < labels->u.labels.n; i++)
        if (gs_slice_eq(labels->u.labels.items[i].name, name))
            return labels->u.labels.items[i].value;
    return (struct gs_slice){"", 0};
}

// Formats like Go's time.Time.String in UTC.
void template_print_duration(int64_t ns, struct gs_buf *out)
{
    char text[GS_RFC3339_SIZE];
    gs_format_duration(ns, text);
    bool micro = gs_ends(text, "us");
    gs_buf_add(out, text, strlen(text) - (micro ? 2 : 0));
    gs_buf_add_str(out, micro ? "µs" : "");
}

void template_print_time(int64_t unix_ms, struct gs_buf *out)
{
    int64_t seconds = unix_ms / 1000, ms = unix_ms % 1000;
    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    time_t t = (time_t)seconds;
    struct tm tm;
    char text[64];
    if (!gmtime_r(&t, &tm) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
        return;
    gs_buf_add_str(out, text);
    if (ms) {
        char fraction[8];
        (void)snprintf(fraction, sizeof(fraction), ".%03d", (int)ms);
        size_t n = strlen(fraction);
        while (fraction[n - 1] == '0')
            n--;
        gs_buf_add(out, fraction, n);
    }
    gs_buf_add_str(out, " +0000 UTC");
}

static void print_labels(const struct metrics_label *items, size_t n, struct gs_buf *out)
{
    gs_buf_add_str(out, "map[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            gs_buf_add_char(out, ' ');
        gs_buf_add_slice(out, items[i].name);
        gs_buf_add_char(out, ':');
        gs_buf_add_slice(out, items[i].value);
    }
    gs_buf_add_char(out, ']');
}

// Formats like fmt's %v: shortest digits, with an exponent from 1e+06 on (gs_format_double: from
// 1e+21 on).
static void print_double(double v, struct gs_buf *out)
{
    char text[GS_DOUBLE_SIZE], digits[GS_DOUBLE_SIZE] = "";
    gs_format_double(v, text);
    const char *p = text + (text[0] == '-');
    size_t whole = strspn(p, "0123456789"), n = 0;
    if (whole < 7 || strchr(p, 'e')) {
        gs_buf_add_str(out, text);
        return;
    }
    for (size_t i = 0; p[i]; i++)
        if (p[i] != '.')
            digits[n++] = p[i];
    while (n > 1 && digits[n - 1] == '0')
        n--;
    gs_buf_addf(out, "%s%c", text[0] == '-' ? "-" : "", digits[0]);
    if (n > 1) {
        gs_buf_add_char(out, '.');
        gs_buf_add(out, digits + 1, n - 1);
    }
    gs_buf_addf(out, "e+%02zu", whole - 1);
}

static void print_sample(const struct template_sample *s, struct gs_buf *out)
{
    gs_buf_add_char(out, '{');
    print_labels(s->labels, s->n_labels, out);
    gs_buf_add_char(out, ' ');
    print_double(s->value, out);
    gs_buf_add_char(out, '}');
}

static void print_data(const struct template_data *d, struct gs_buf *out)
{
    gs_buf_add_char(out, '{');
    print_labels(d->labels, d->n_labels, out);
    gs_buf_add_char(out, ' ');
    print_labels(d->external_labels, d->n_external_labels, out);
    gs_buf_addf(out, " %s ", d->external_url ? d->external_url : "");
    print_double(d->value, out);
    gs_buf_add_char(out, '}');
}

static void print_args(const struct template_value *v, struct gs_buf *out)
{
    gs_buf_add_str(out, "map[");
    for (size_t i = 0; i < v->u.args.n; i++) {
        gs_buf_addf(out, "%sarg%zu:", i ? " " : "", i);
        template_print(&v->u.args.items[i], out);
    }
    gs_buf_add_char(out, ']');
}

void template_print(const struct template_value *v, struct gs_buf *out)
{
    switch (v->type) {
    case VALUE_NIL:
        gs_buf_add_str(out, "<nil>");
        return;
    case VALUE_BOOL:
        gs_buf_add_str(out, v->u.b ? "true" : "false");
        return;
    case VALUE_INT:
        gs_buf_addf(out, "%lld", (long long)v->u.i);
        return;
    case VALUE_FLOAT:
        print_double(v->u.f, out);
        return;
    case VALUE_STRING:
        gs_buf_add_slice(out, v->u.s);
        return;
    case VALUE_LABELS:
        print_labels(v->u.labels.items, v->u.labels.n, out);
        return;
    case VALUE_SAMPLE:
        print_sample(v->u.sample, out);
        return;
    case VALUE_VECTOR: // Go prints addresses here. The samples are more useful
        gs_buf_add_char(out, '[');
        for (size_t i = 0; i < v->u.vector.n; i++) {
            if (i)
                gs_buf_add_char(out, ' ');
            print_sample(v->u.vector.items[i], out);
        }
        gs_buf_add_char(out, ']');
        return;
    case VALUE_ARGS:
        print_args(v, out);
        return;
    case VALUE_LIST:
        gs_buf_add_char(out, '[');
        for (size_t i = 0; i < v->u.list.n; i++) {
            if (i)
                gs_buf_add_char(out, ' ');
            gs_buf_add_slice(out, v->u.list.items[i]);
        }
        gs_buf_add_char(out, ']');
        return;
    case VALUE_TIME:
        template_print_time(v->u.i, out);
        return;
    case VALUE_DURATION:
        template_print_duration(v->u.i, out);
        return;
    case VALUE_DATA:
        print_data(v->u.data, out);
        return;
    }
}

static int order_double(double a, double b)
{
    return (a > b) - (a < b);
}

static int order_string(struct gs_slice a, struct gs_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? (c > 0) - (c < 0) : (a.len > b.len) - (a.len < b.len);
}

enum template_comparison template_compare(const struct template_value *a,
                                          const struct template_value *b, bool ordered, int *ret)
{
    if (a->type > VALUE_STRING || b->type > VALUE_STRING)
        return ordered ? COMPARE_BAD_TYPE : COMPARE_UNSUPPORTED;
    if (a->type == VALUE_NIL || b->type == VALUE_NIL) {
        *ret = a->type != b->type;
        return ordered ? COMPARE_BAD_TYPE : COMPARE_OK;
    }
    if (a->type != b->type)
        return COMPARE_INCOMPATIBLE;
    switch (a->type) {
    case VALUE_BOOL:
        *ret = a->u.b != b->u.b;
        return ordered ? COMPARE_BAD_TYPE : COMPARE_OK;
    case VALUE_INT:
        *ret = (a->u.i > b->u.i) - (a->u.i < b->u.i);
        return COMPARE_OK;
    case VALUE_FLOAT: // comparisons with NaN are false
        *ret = isnan(a->u.f) || isnan(b->u.f) ? 2 : order_double(a->u.f, b->u.f);
        return COMPARE_OK;
    default:
        *ret = order_string(a->u.s, b->u.s);
        return COMPARE_OK;
    }
}

void template_quote(struct gs_slice s, struct gs_buf *out)
{
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        static const char from[] = "\a\b\f\n\r\t\v", to[] = "abfnrtv";
        const char *hit = c ? strchr(from, c) : NULL;
        if (hit)
            gs_buf_addf(out, "\\%c", to[hit - from]);
        else if (c == '"' || c == '\\')
            gs_buf_addf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            gs_buf_addf(out, "\\x%02x", c);
        else
            gs_buf_add_char(out, (char)c);
    }
    gs_buf_add_char(out, '"');
}

void template_add_general(double v, int precision, struct gs_buf *out)
{
    if (isnan(v))
        gs_buf_add_str(out, "NaN");
    else if (isinf(v))
        gs_buf_add_str(out, v > 0 ? "+Inf" : "-Inf");
    else
        gs_buf_addf(out, "%.*g", precision, v);
}
