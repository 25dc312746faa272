// SPDX-License-Identifier: Apache-2.0
// Prints differences from the expected result: both results, or the lines that differ.
#include "engine/rules/unit_test_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

#define MAX_DIFF_LINES 2000 // per side: the size of the comparison table is its square

void rules_test_fail(struct codec_test_case *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    codec_test_case_fail(c, gs_vformat(fmt, ap));
    va_end(ap);
}

// --- differences by line ---

struct lines {
    struct gs_slice *items;
    size_t n, cap;
};

static struct lines split_lines(struct gs_slice text)
{
    struct lines l = {0};
    while (text.data && text.len) {
        gs_grow(&l.items, &l.cap, l.n, sizeof(*l.items));
        l.items[l.n++] = gs_slice_cut(&text, '\n');
    }
    return l;
}

static void add_diff_line(struct gs_buf *out, char sign, struct gs_slice line, bool color)
{
    const char *on = sign == '-' ? "\x1b[31m" : sign == '+' ? "\x1b[32m" : "";
    bool colored = color && *on;
    gs_buf_addf(out, "\n        %s%c " GS_SLICE_FMT "%s", colored ? on : "", sign,
                GS_SLICE_ARG(line), colored ? "\x1b[0m" : "");
}

// table[i][j]: length of the longest common subsequence of a[i..] and b[j..].
static void diff(const struct lines *a, const struct lines *b, bool color, struct gs_buf *out)
{
    size_t w = b->n + 1, i = 0, j = 0;
    GS_AUTO_FREE uint32_t *table = gs_alloc_array((a->n + 1) * w, sizeof(*table));
    for (size_t y = a->n; y-- > 0;)
        for (size_t x = b->n; x-- > 0;) {
            uint32_t down = table[(y + 1) * w + x], right = table[y * w + x + 1];
            table[y * w + x] = gs_slice_eq(a->items[y], b->items[x])
                                   ? table[(y + 1) * w + x + 1] + 1
                                   : (down > right ? down : right);
        }
    while (i < a->n || j < b->n) {
        if (i < a->n && j < b->n && gs_slice_eq(a->items[i], b->items[j])) {
            add_diff_line(out, ' ', a->items[i++], color);
            j++;
        } else if (j == b->n || (i < a->n && table[(i + 1) * w + j] >= table[i * w + j + 1])) {
            add_diff_line(out, '-', a->items[i++], color);
        } else {
            add_diff_line(out, '+', b->items[j++], color);
        }
    }
}

static void indent_text(struct gs_buf *out, const char *title, struct gs_slice text)
{
    gs_buf_addf(out, "\n        %s", title);
    if (!text.len)
        gs_buf_add_str(out, " nothing");
    while (text.data && text.len) {
        struct gs_slice line = gs_slice_cut(&text, '\n');
        gs_buf_addf(out, "\n            " GS_SLICE_FMT, GS_SLICE_ARG(line));
    }
}

static void report_difference(struct codec_test_case *c, const struct rules_tests_options *o,
                              const char *head, const struct gs_buf *wanted,
                              const struct gs_buf *got)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct lines a = split_lines(gs_buf_slice(wanted)), b = split_lines(gs_buf_slice(got));
    if (o->diff && a.n <= MAX_DIFF_LINES && b.n <= MAX_DIFF_LINES) {
        diff(&a, &b, o->color, &out);
    } else {
        indent_text(&out, "exp:", gs_buf_slice(wanted));
        indent_text(&out, "got:", gs_buf_slice(got));
    }
    rules_test_fail(c, "%s%s", head, out.data ? out.data : "");
    free(a.items);
    free(b.items);
}

// --- what is compared ---

static void add_quoted_value(struct gs_buf *out, struct gs_slice s)
{
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        char ch = s.data[i];
        if (ch == '\n')
            gs_buf_add_str(out, "\\n");
        else if (ch == '"' || ch == '\\')
            gs_buf_addf(out, "\\%c", ch);
        else
            gs_buf_add_char(out, ch);
    }
    gs_buf_add_char(out, '"');
}

static void add_sample_line(struct gs_buf *out, const struct rules_sample *s)
{
    char text[GS_DOUBLE_SIZE];
    const char *sep = "";
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq_str(s->labels[i].name, "__name__"))
            gs_buf_add_slice(out, s->labels[i].value);
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < s->n_labels; i++) {
        if (gs_slice_eq_str(s->labels[i].name, "__name__"))
            continue;
        gs_buf_addf(out, "%s" GS_SLICE_FMT "=", sep, GS_SLICE_ARG(s->labels[i].name));
        add_quoted_value(out, s->labels[i].value);
        sep = ", ";
    }
    gs_buf_addf(out, "} %s\n", gs_format_double(s->value, text));
}

void rules_test_samples_differ(struct codec_test_case *c, const struct rules_tests_options *o,
                               const struct rules_test_expr *x, const struct rules_sample *wanted,
                               size_t n_wanted, const struct rules_sample *got, size_t n_got)
{
    GS_AUTO_BUF struct gs_buf a = {0}, b = {0};
    char time[GS_RFC3339_SIZE];
    for (size_t i = 0; i < n_wanted; i++)
        add_sample_line(&a, &wanted[i]);
    for (size_t i = 0; i < n_got; i++)
        add_sample_line(&b, &got[i]);
    GS_AUTO_FREE char *head = gs_format("    %s: expr: \"%s\", time: %s", x->where, x->expr,
                                        gs_format_units(x->eval_ms * GS_NS_PER_MS, time));
    report_difference(c, o, head, &a, &b);
}

static void add_map(struct gs_buf *out, const char *title, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(out, "  %s" GS_SLICE_FMT ": ", title, GS_SLICE_ARG(l[i].name));
        add_quoted_value(out, l[i].value);
        gs_buf_add_char(out, '\n');
    }
}

static void add_alerts(struct gs_buf *out, const struct rules_test_alert *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gs_buf_add_str(out, "alert\n");
        add_map(out, "label ", a[i].labels, a[i].n_labels);
        add_map(out, "annotation ", a[i].annotations, a[i].n_annotations);
    }
}

void rules_test_alerts_differ(struct codec_test_case *c, const struct rules_tests_options *o,
                              const struct rules_test_alerts *x,
                              const struct rules_test_alert *wanted, size_t n_wanted,
                              const struct rules_test_alert *got, size_t n_got)
{
    GS_AUTO_BUF struct gs_buf a = {0}, b = {0};
    char time[GS_RFC3339_SIZE];
    add_alerts(&a, wanted, n_wanted);
    add_alerts(&b, got, n_got);
    GS_AUTO_FREE char *head = gs_format("    %s: alertname: %s, time: %s", x->where, x->name,
                                        gs_format_units(x->eval_ms * GS_NS_PER_MS, time));
    report_difference(c, o, head, &a, &b);
}

// --- debugging ---

static int by_text(const void *a, const void *b)
{
    const struct gs_buf *x = a, *y = b;
    return strcmp(x->data, y->data);
}

void rules_test_print_series(const struct promql_result *r, FILE *out)
{
    char number[GS_DOUBLE_SIZE];
    GS_AUTO_FREE struct gs_buf *texts = gs_alloc_array(r->n_raw + 1, sizeof(*texts));
    for (size_t i = 0; i < r->n_raw; i++) {
        const struct promql_raw *s = &r->raw[i];
        gs_buf_add_char(&texts[i], '{');
        for (size_t k = 0; k < tsdb_labels_len(s->labels); k++) {
            struct metrics_label label = promql_label_at(r, s->labels, k);
            gs_buf_addf(&texts[i], "%s" GS_SLICE_FMT "=", k ? ", " : "", GS_SLICE_ARG(label.name));
            add_quoted_value(&texts[i], label.value);
        }
        gs_buf_add_str(&texts[i], "} =>\n");
        for (size_t k = 0; k < s->n; k++)
            gs_buf_addf(&texts[i], "%s @[%lld]\n", gs_format_double(s->v[k], number),
                        (long long)s->t[k]);
    }
    if (r->n_raw)
        qsort(texts, r->n_raw, sizeof(*texts), by_text);
    for (size_t i = 0; i < r->n_raw; i++) {
        fputs(texts[i].data, out);
        gs_buf_finish(&texts[i]);
    }
}
