// SPDX-License-Identifier: Apache-2.0
#include "metrics/write.h"

#include "base/num.h"

static const char *type_word(enum metrics_type type)
{
    switch (type) {
    case METRICS_COUNTER:
        return "counter";
    case METRICS_GAUGE:
        return "gauge";
    case METRICS_HISTOGRAM:
        return "histogram";
    case METRICS_SUMMARY:
        return "summary";
    case METRICS_UNTYPED:
        break;
    }
    return "untyped";
}

static void add_escaped(struct gs_buf *out, struct gs_slice s, bool quote)
{
    size_t start = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c != '\\' && c != '\n' && !(quote && c == '"'))
            continue;
        gs_buf_add(out, s.data + start, i - start);
        gs_buf_add_char(out, '\\');
        gs_buf_add_char(out, c == '\n' ? 'n' : c);
        start = i + 1;
    }
    gs_buf_add(out, s.data + start, s.len - start);
}

void metrics_write_label_value(struct gs_buf *out, struct gs_slice value)
{
    add_escaped(out, value, true);
}

void metrics_write_family(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help)
{
    gs_buf_add_str(out, "# HELP ");
    gs_buf_add_str(out, name);
    gs_buf_add_char(out, ' ');
    add_escaped(out, gs_slice_of(help), false);
    gs_buf_add_str(out, "\n# TYPE ");
    gs_buf_add_str(out, name);
    gs_buf_add_char(out, ' ');
    gs_buf_add_str(out, type_word(type));
    gs_buf_add_char(out, '\n');
}

void metrics_write_sample(struct gs_buf *out, const char *name, const struct metrics_label *labels,
                          size_t n_labels, double value)
{
    gs_buf_add_str(out, name);
    for (size_t i = 0; i < n_labels; i++) {
        gs_buf_add_char(out, i ? ',' : '{');
        gs_buf_add_slice(out, labels[i].name);
        gs_buf_add(out, "=\"", 2);
        metrics_write_label_value(out, labels[i].value);
        gs_buf_add_char(out, '"');
    }
    if (n_labels)
        gs_buf_add_char(out, '}');
    char text[GS_DOUBLE_SIZE];
    gs_buf_add_char(out, ' ');
    gs_buf_add_str(out, gs_format_double(value, text));
    gs_buf_add_char(out, '\n');
}
