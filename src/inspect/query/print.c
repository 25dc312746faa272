// SPDX-License-Identifier: Apache-2.0
// Output formats for programs: JSON, the text format of promtool, and CSV (RFC 4180).
#include "query/query_private.h"

#include "base/num.h"

#include <ctype.h>
#include <stdlib.h>

// --- promtool's text ---

static bool plain_name(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_' && *s != ':')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != ':')
            return false;
    return true;
}

static void write_csv_field(struct gs_buf *out, const char *s)
{
    gs_buf_add_char(out, '"');
    for (; *s; s++) {
        if (*s == '\n')
            gs_buf_add_str(out, "\\n");
        else if (*s == '"' || *s == '\\')
            gs_buf_addf(out, "\\%c", *s);
        else
            gs_buf_add_char(out, *s);
    }
    gs_buf_add_char(out, '"');
}

// name_in_front: up{job="a"}, otherwise {__name__="up", job="a"}.
static void add_label_list(struct gs_buf *out, const struct query_label *l, size_t n,
                           bool name_in_front)
{
    const char *sep = "", *name = NULL;
    for (size_t i = 0; name_in_front && i < n; i++)
        if (gs_streq(l[i].name, "__name__"))
            name = l[i].value;
    bool in_front = name && plain_name(name);
    if (in_front)
        gs_buf_add_str(out, name);
    if (in_front && n == 1)
        return;
    gs_buf_add_char(out, '{');
    if (name && !in_front) {
        write_csv_field(out, name);
        sep = ", ";
    }
    for (size_t i = 0; i < n; i++) {
        if (name && gs_streq(l[i].name, "__name__"))
            continue;
        gs_buf_add_str(out, sep);
        if (plain_name(l[i].name))
            gs_buf_add_str(out, l[i].name);
        else
            write_csv_field(out, l[i].name);
        gs_buf_add_char(out, '=');
        write_csv_field(out, l[i].value);
        sep = ", ";
    }
    gs_buf_add_char(out, '}');
}

void query_add_metric(struct gs_buf *out, const struct query_label *l, size_t n)
{
    add_label_list(out, l, n, true);
}

// 1e+21 without an exponent, like Go's 'f' format.
static void add_decimal(struct gs_buf *out, const char *value)
{
    const char *e = strchr(value, 'e');
    double v;
    struct gs_error *err = e ? gs_parse_double(gs_slice_of(value), &v) : NULL;
    long exponent = e && !err ? strtol(e + 1, NULL, 10) : 0;
    if (!e || err || labs(exponent) > 400) { // exponents of doubles are smaller
        gs_error_free(err);
        gs_buf_add_str(out, value);
        return;
    }
    char digits[GS_DOUBLE_SIZE];
    size_t n = 0, point = 0;
    bool seen = false;
    const char *p = value + (*value == '-');
    for (; p < e && n < sizeof(digits); p++) {
        if (*p == '.') {
            seen = true;
            continue;
        }
        digits[n++] = *p;
        point += !seen;
    }
    long at = (long)point + exponent;
    gs_buf_add_str(out, *value == '-' ? "-" : "");
    if (at <= 0)
        gs_buf_add_str(out, "0.");
    for (long i = at; i < 0; i++)
        gs_buf_add_char(out, '0');
    for (long i = 0; i < (long)n; i++) {
        if (i == at && i > 0)
            gs_buf_add_char(out, '.');
        gs_buf_add_char(out, digits[i]);
    }
    for (long i = (long)n; i < at; i++)
        gs_buf_add_char(out, '0');
}

// @[1700000000.5]
static void add_point(struct gs_buf *out, const struct query_point *p)
{
    add_decimal(out, p->value);
    int64_t ms = p->t_ms < 0 ? -p->t_ms : p->t_ms;
    gs_buf_addf(out, " @[%s%lld", p->t_ms < 0 ? "-" : "", (long long)(ms / 1000));
    int part = (int)(ms % 1000), digits = 3;
    while (part && part % 10 == 0) {
        part /= 10;
        digits--;
    }
    if (part)
        gs_buf_addf(out, ".%0*d", digits, part);
    gs_buf_add_char(out, ']');
}

void query_print_promql(const struct query_result *r, struct gs_buf *out)
{
    if (r->type == QUERY_STRING) {
        gs_buf_addf(out, "%s\n", r->series[0].points[0].value);
        return;
    }
    if (r->type == QUERY_SCALAR) {
        gs_buf_add_str(out, "scalar: ");
        add_point(out, &r->series[0].points[0]);
        gs_buf_add_char(out, '\n');
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct query_series *s = &r->series[i];
        query_add_metric(out, s->labels, s->n_labels);
        gs_buf_add_str(out, r->type == QUERY_VECTOR ? " => " : " =>\n");
        for (size_t k = 0; k < s->n_points; k++) {
            add_point(out, &s->points[k]);
            gs_buf_add_char(out, '\n');
        }
    }
    if (!r->n)
        gs_buf_add_char(out, '\n');
}

static void print_series(const struct query_result *r, struct gs_buf *out)
{
    for (size_t i = 0; i < r->n; i++) {
        add_label_list(out, r->series[i].labels, r->series[i].n_labels, false);
        gs_buf_add_char(out, '\n');
    }
}

// --- CSV ---

static void write_field(struct gs_buf *out, const char *s)
{
    if (!strpbrk(s, ",\"\r\n")) {
        gs_buf_add_str(out, s);
        return;
    }
    gs_buf_add_char(out, '"');
    for (; *s; s++)
        gs_buf_addf(out, *s == '"' ? "\"%c" : "%c", *s);
    gs_buf_add_char(out, '"');
}

static void add_csv_line(struct gs_buf *out, const struct query_series *s,
                         const struct query_names *names, const struct query_point *p)
{
    if (p)
        query_add_seconds(out, p->t_ms);
    for (size_t i = 0; i < names->n; i++) {
        const char *value = query_label_of(s, names->items[i]);
        gs_buf_add_str(out, i || p ? "," : "");
        write_field(out, value ? value : "");
    }
    if (p) {
        gs_buf_add_char(out, ',');
        write_field(out, p->value);
    }
    gs_buf_add_char(out, '\n');
}

void query_print_csv(const struct query_result *r, struct gs_arena *arena, bool values,
                     struct gs_buf *out)
{
    struct query_names names = query_label_names(r, arena);
    gs_buf_add_str(out, values ? "time" : "");
    for (size_t i = 0; i < names.n; i++) {
        gs_buf_add_str(out, i || values ? "," : "");
        write_field(out, names.items[i]);
    }
    gs_buf_add_str(out, values ? ",value\n" : "\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct query_series *s = &r->series[i];
        for (size_t k = 0; values && k < s->n_points; k++)
            add_csv_line(out, s, &names, &s->points[k]);
        if (!values)
            add_csv_line(out, s, &names, NULL);
    }
}

static void csv_texts(const char *heading, const json_t *list, struct gs_buf *out)
{
    gs_buf_addf(out, "%s\n", heading);
    for (size_t i = 0; i < json_array_size(list); i++) {
        write_field(out, json_string_value(json_array_get(list, i)));
        gs_buf_add_char(out, '\n');
    }
}

static void csv_metadata(const json_t *data, struct gs_buf *out)
{
    static const char *const keys[] = {"type", "unit", "help"};
    const char *name;
    json_t *list;
    gs_buf_add_str(out, "metric,type,unit,help\n");
    json_object_foreach ((json_t *)data, name, list)
        for (size_t i = 0; i < json_array_size(list); i++) {
            write_field(out, name);
            for (size_t k = 0; k < GS_ARRAY_LEN(keys); k++) {
                const char *text = codec_json_str(json_array_get(list, i), keys[k], NULL);
                gs_buf_add_char(out, ',');
                write_field(out, text ? text : "");
            }
            gs_buf_add_char(out, '\n');
        }
}

// --- by kind ---

static void print_result(const struct query_print *p, const struct query_result *r,
                         struct gs_arena *arena, struct gs_buf *out)
{
    bool values = p->kind == QUERY_VALUES;
    if (p->format == QUERY_TABLE)
        query_print_table(p, r, arena, out);
    else if (p->format == QUERY_CSV)
        query_print_csv(r, arena, values, out);
    else if (values)
        query_print_promql(r, out);
    else
        print_series(r, out);
}

static struct gs_error *print_texts(const struct query_print *p, const json_t *data,
                                    struct gs_buf *out)
{
    for (size_t i = 0; i < json_array_size(data); i++)
        if (!json_is_string(json_array_get(data, i)))
            return gs_error_new(GS_EPROTO, "the response is not a list of strings");
    if (p->format == QUERY_CSV) {
        csv_texts("value", data, out);
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(data); i++) {
        const char *text = json_string_value(json_array_get(data, i));
        if (p->format == QUERY_TABLE)
            query_add_visible(out, gs_slice_of(text));
        else
            gs_buf_add_str(out, text);
        gs_buf_add_char(out, '\n');
    }
    return NULL;
}

static struct gs_error *print_into(const struct query_print *p, const json_t *data,
                                   struct gs_arena *arena, struct gs_buf *out, bool *ret_any)
{
    struct query_result r = {0};
    struct gs_error *err = NULL;
    *ret_any = true;
    if (p->kind == QUERY_LABELS) {
        *ret_any = json_array_size(data) > 0;
        return print_texts(p, data, out);
    }
    if (p->kind == QUERY_METADATA) {
        *ret_any = json_object_size(data) > 0;
        if (p->format == QUERY_CSV)
            csv_metadata(data, out);
        else
            query_print_metadata(p, data, out);
        return NULL;
    }
    err = p->kind == QUERY_SERIES ? query_read_series(data, arena, &r)
                                  : query_read_result(data, arena, &r);
    if (err)
        return err;
    *ret_any = r.n > 0;
    print_result(p, &r, arena, out);
    return NULL;
}

// Like promtool, prints the result on one line.
static void print_json(const struct query_print *p, const json_t *data, struct gs_buf *out)
{
    gs_buf_clear(out);
    codec_json_dump(p->kind == QUERY_VALUES ? json_object_get(data, "result") : data, out);
    gs_buf_add_char(out, '\n');
}

struct gs_error *query_print(const struct query_print *p, const json_t *data, FILE *out,
                             bool *ret_any)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_arena arena = {0};
    // Also for JSON: an invalid response is an error in every format.
    struct gs_error *err = print_into(p, data, &arena, &text, ret_any);
    if (!err && p->format == QUERY_JSON)
        print_json(p, data, &text);
    if (!err && text.len) // main() reports a failure, except that of a closed pipe
        (void)fwrite(text.data, 1, text.len, out);
    gs_arena_finish(&arena);
    return err;
}
