// SPDX-License-Identifier: Apache-2.0
// Writes the text format. Names that are not plain identifiers are quoted and move into the
// braces, as the format has it since UTF-8 names are allowed.
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
        gs_buf_add_char(out, (char)(c == '\n' ? 'n' : c));
        start = i + 1;
    }
    gs_buf_add(out, s.data + start, s.len - start);
}

void metrics_write_label_value(struct gs_buf *out, struct gs_slice value)
{
    add_escaped(out, value, true);
}

// In the form that all versions of the format accept.
static bool is_plain_identifier(struct gs_slice name, bool colon)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        bool letter =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return name.len > 0;
}

static void add_quoted(struct gs_buf *out, struct gs_slice s)
{
    gs_buf_add_char(out, '"');
    add_escaped(out, s, true);
    gs_buf_add_char(out, '"');
}

static void add_quoted_name(struct gs_buf *out, struct gs_slice name, bool colon)
{
    if (is_plain_identifier(name, colon))
        gs_buf_add_slice(out, name);
    else
        add_quoted(out, name);
}

void metrics_write_sample(struct gs_buf *out, const char *name, const struct metrics_label *labels,
                          size_t n_labels, double value)
{
    struct gs_slice metric = gs_slice_of(name);
    bool plain = is_plain_identifier(metric, true);
    if (plain)
        gs_buf_add_slice(out, metric);
    if (!plain || n_labels)
        gs_buf_add_char(out, '{');
    if (!plain)
        add_quoted(out, metric);
    for (size_t i = 0; i < n_labels; i++) {
        if (i || !plain)
            gs_buf_add_char(out, ',');
        add_quoted_name(out, labels[i].name, false);
        gs_buf_add(out, "=\"", 2);
        metrics_write_label_value(out, labels[i].value);
        gs_buf_add_char(out, '"');
    }
    if (!plain || n_labels)
        gs_buf_add_char(out, '}');
    char text[GS_DOUBLE_SIZE];
    gs_buf_add_char(out, ' ');
    gs_buf_add_str(out, gs_format_double(value, text));
    gs_buf_add_char(out, '\n');
}

void metrics_write_single(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help, double value)
{
    metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

static void add_meta(struct gs_buf *out, const char *keyword, struct gs_slice name)
{
    gs_buf_add_str(out, "# ");
    gs_buf_add_str(out, keyword);
    gs_buf_add_char(out, ' ');
    add_quoted_name(out, name, true);
    gs_buf_add_char(out, ' ');
}

void metrics_write_family(struct gs_buf *out, const char *name, enum metrics_type type,
                          const char *help)
{
    add_meta(out, "HELP", gs_slice_of(name));
    add_escaped(out, gs_slice_of(help), false);
    gs_buf_add_char(out, '\n');
    add_meta(out, "TYPE", gs_slice_of(name));
    gs_buf_add_str(out, type_word(type));
    gs_buf_add_char(out, '\n');
}
