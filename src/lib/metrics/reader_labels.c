// SPDX-License-Identifier: Apache-2.0
// Parses the labels of a new identity.
#include "metrics/metrics_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>

// Space for the unescaped strings of the line and a normalized bound.
static void reserve_scratch(struct metrics_reader *r)
{
    size_t need = r->line.len + GS_DOUBLE_SIZE * 2;
    r->scratch_len = 0;
    if (need <= r->scratch_cap)
        return;
    free(r->scratch);
    r->scratch = gs_alloc(need);
    r->scratch_cap = need;
}

// At the opening quote. Escapes: \\ \" \n; any other backslash stays as it is.
static struct gs_error *take_quoted(struct metrics_reader *r, struct gs_slice *ret)
{
    size_t start = ++r->at, i = start;
    bool escaped = false;
    for (; i < r->line.len && r->line.data[i] != '"'; i++)
        if (r->line.data[i] == '\\') {
            escaped = true;
            i++;
        }
    if (i >= r->line.len) {
        r->at = r->line.len;
        return metrics_reader_fail(r, "the label value is not closed with a quote");
    }
    struct gs_slice raw = gs_slice_make(r->line.data + start, i - start);
    if (!metrics_utf8_ok(raw.data, raw.len))
        return metrics_reader_fail(r, "the text is not UTF-8");
    r->at = i + 1;
    *ret = raw;
    if (!escaped)
        return NULL;
    char *out = r->scratch + r->scratch_len;
    size_t n = 0;
    for (i = 0; i < raw.len; i++) {
        char c = raw.data[i], next = '\0';
        if (i + 1 < raw.len)
            next = raw.data[i + 1];
        bool known = c == '\\' && (next == '\\' || next == '"' || next == 'n');
        if (known)
            c = (char)(next == 'n' ? '\n' : next);
        out[n++] = c;
        i += known;
    }
    r->scratch_len += n;
    *ret = gs_slice_make(out, n);
    return NULL;
}

// Go's shortest %g, with ".0" where it has neither a point nor an exponent.
static size_t format_bound(double v, char *out)
{
    if (isnan(v) || isinf(v))
        return (size_t)snprintf(out, GS_DOUBLE_SIZE, "%s",
                                isnan(v) ? "NaN"
                                : v > 0  ? "+Inf"
                                         : "-Inf");
    int precision = 0;
    do
        snprintf(out, GS_DOUBLE_SIZE, "%.*e", precision, v);
    while (strtod(out, NULL) != v && ++precision < 17);
    long exponent = strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 6)
        return strlen(out);
    int decimals = precision - (int)exponent;
    return (size_t)snprintf(out, GS_DOUBLE_SIZE * 2, "%.*f", decimals > 0 ? decimals : 1, v);
}

static void normalize_bound(struct metrics_reader *r, struct metrics_label *l)
{
    bool bound = (r->type == METRICS_HISTOGRAM && gs_slice_eq_str(l->name, "le")) ||
                 (r->type == METRICS_SUMMARY && gs_slice_eq_str(l->name, "quantile"));
    double v;
    if (!bound)
        return;
    struct gs_error *err = gs_parse_double(l->value, &v);
    if (err) {
        gs_error_free(err);
        return;
    }
    // One bound per line is enough: a second le is a duplicate.
    char text[GS_DOUBLE_SIZE * 2];
    size_t n = format_bound(v, text);
    if (r->scratch_len + n > r->scratch_cap)
        return;
    memcpy(r->scratch + r->scratch_len, text, n);
    l->value = gs_slice_make(r->scratch + r->scratch_len, n);
    r->scratch_len += n;
}

static struct gs_error *append_label(struct metrics_reader *r, bool exemplar, size_t *n,
                                     struct metrics_label l)
{
    if (*n > r->limits.max_labels)
        return gs_error_new(GS_ELIMIT, "line %zu: more than %zu labels", r->number,
                            r->limits.max_labels);
    if (r->limits.max_name && l.name.len > r->limits.max_name)
        return metrics_reader_fail(r, "the label name is too long");
    if (r->limits.max_value && l.value.len > r->limits.max_value)
        return metrics_reader_fail(r, "the label value is too long");
    for (size_t i = 0; i < *n && !exemplar; i++)
        if (gs_slice_eq(r->labels[i].name, l.name))
            return metrics_reader_fail(r, "the label name is repeated");
    if (!exemplar)
        normalize_bound(r, &l);
    gs_grow(&r->labels, &r->labels_cap, *n, sizeof(*r->labels));
    r->labels[(*n)++] = l;
    return NULL;
}

// A quoted string in place of a label name, followed by ',' or '}', is the metric name.
static bool is_metric_name(const struct metrics_reader *r)
{
    return metrics_reader_peek(r) == ',' || metrics_reader_peek(r) == '}';
}

// name = "value". ret_metric: it was the metric's name.
static struct gs_error *take_pair(struct metrics_reader *r, struct metrics_label *ret,
                                  bool *ret_metric)
{
    bool quoted = metrics_reader_peek(r) == '"';
    struct gs_error *err = NULL;
    *ret_metric = false;
    if (quoted)
        err = take_quoted(r, &ret->name);
    else
        ret->name = metrics_reader_take_name(r, false);
    if (err)
        return err;
    if (!ret->name.len)
        return metrics_reader_fail(r, "expected a label name or '}'");
    metrics_reader_skip_blanks(r);
    if (quoted && is_metric_name(r)) {
        *ret_metric = true;
        return NULL;
    }
    if (metrics_reader_peek(r) != '=')
        return metrics_reader_fail(r, "expected '=' after the label name");
    r->at++;
    metrics_reader_skip_blanks(r);
    if (metrics_reader_peek(r) != '"')
        return metrics_reader_fail(r, "expected '\"' before the label value");
    return take_quoted(r, &ret->value);
}

// The cursor is at '{'. labels[0] is the metric name; if it is empty, it must be in the braces.
static struct gs_error *take_labels(struct metrics_reader *r, bool exemplar, size_t *n)
{
    r->at++;
    for (;;) {
        metrics_reader_skip_blanks(r);
        if (metrics_reader_peek(r) == '}') {
            r->at++;
            return NULL;
        }
        struct metrics_label l = {0};
        bool metric = false;
        struct gs_error *err = take_pair(r, &l, &metric);
        if (err)
            return err;
        if (metric && (exemplar || r->labels[0].value.len))
            return metrics_reader_fail(r, exemplar ? "expected '=' after the label name"
                                                   : "a second metric name");
        if (metric)
            r->labels[0].value = l.name;
        else
            err = append_label(r, exemplar, n, l);
        if (err)
            return err;
        metrics_reader_skip_blanks(r);
        // As in Prometheus, the comma can be missing in the text format.
        if (metrics_reader_peek(r) == ',')
            r->at++;
        else if (metrics_reader_peek(r) != '}' && (r->om || metric || r->at >= r->line.len))
            return metrics_reader_fail(r, "expected ',' or '}' after the label value");
    }
}

static void put_name(struct metrics_reader *r, struct gs_slice name)
{
    gs_grow(&r->labels, &r->labels_cap, 0, sizeof(*r->labels));
    r->labels[0] = (struct metrics_label){GS_SLICE("__name__"), name};
}

struct gs_error *metrics_reader_exemplar_labels(struct metrics_reader *r,
                                                struct metrics_exemplar *ret)
{
    reserve_scratch(r);
    put_name(r, gs_slice_make(NULL, 0));
    size_t n = 1;
    struct gs_error *err = take_labels(r, true, &n);
    if (err)
        return err;
    ret->labels = r->labels + 1;
    ret->n_labels = n - 1;
    return NULL;
}

struct gs_error *metrics_reader_labels(struct metrics_reader *r, const struct metrics_line *line,
                                       const struct metrics_label **ret, size_t *ret_n)
{
    reserve_scratch(r);
    size_t start = (size_t)(line->identity.data - r->line.data), n = 1;
    r->at = start;
    put_name(r, metrics_reader_take_name(r, true));
    if (r->at < start + line->identity.len) {
        metrics_reader_skip_blanks(r);
        if (metrics_reader_peek(r) != '{')
            return metrics_reader_fail(r, "expected '{' or a value");
        struct gs_error *err = take_labels(r, false, &n);
        if (err)
            return err;
    }
    if (r->at != start + line->identity.len)
        return metrics_reader_fail(r, "the value is not a number");
    if (!r->labels[0].value.len) {
        r->at = start;
        return metrics_reader_fail(r, "expected a metric name");
    }
    *ret = r->labels;
    *ret_n = n;
    return NULL;
}
