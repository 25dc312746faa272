// SPDX-License-Identifier: Apache-2.0
// Parses the rest of a line after the identity, and # lines.
#include "metrics/metrics_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "metrics/labels.h"

#include <math.h>

#define MAX_COMMENTS ((size_t)100000) // cached; more are parsed each time

static struct gs_slice next_word(struct metrics_reader *r)
{
    size_t start = r->at;
    while (r->at < r->line.len && metrics_reader_peek(r) != ' ' &&
           (r->om || metrics_reader_peek(r) != '\t'))
        r->at++;
    return gs_slice_make(r->line.data + start, r->at - start);
}

// Before a value, a timestamp: blanks, in OpenMetrics exactly one space.
static bool take_separator(struct metrics_reader *r)
{
    if (!r->om) {
        metrics_reader_skip_blanks(r);
        return true;
    }
    if (metrics_reader_peek(r) != ' ')
        return false;
    r->at++;
    return true;
}

static struct gs_error *take_value(struct metrics_reader *r, double *ret)
{
    const char *p = r->line.data + r->at, *end = r->line.data + r->line.len;
    const char *after = metrics_scan_number(p, end, ret);
    if (after && (after == end || *after == ' ' || (!r->om && *after == '\t'))) {
        r->at += (size_t)(after - p);
        return NULL;
    }
    size_t start = r->at;
    struct gs_slice word = next_word(r);
    struct gs_error *err = gs_parse_double(word, ret);
    if (!err)
        return NULL;
    gs_error_free(err);
    r->at = start;
    return metrics_reader_fail(r, word.len ? "the value is not a number" : "the value is missing");
}

// OpenMetrics: seconds, with a fraction.
static struct gs_error *take_seconds(struct metrics_reader *r, int64_t *ret_ms)
{
    size_t start = r->at;
    double seconds;
    struct gs_error *err = gs_parse_double(next_word(r), &seconds);
    bool ok = !err && isfinite(seconds) && fabs(seconds) < 9e15;
    gs_error_free(err);
    if (ok) {
        *ret_ms = (int64_t)(seconds * 1000);
        return NULL;
    }
    r->at = start;
    return metrics_reader_fail(r, "the timestamp is not a number of seconds");
}

// The cursor is at '{'.
static struct gs_error *take_exemplar(struct metrics_reader *r, struct metrics_exemplar *ret)
{
    struct gs_error *err = metrics_reader_exemplar_labels(r, ret);
    if (err)
        return err;
    if (!take_separator(r))
        return metrics_reader_fail(r, "expected a space before the exemplar's value");
    err = take_value(r, &ret->value);
    if (err || r->at == r->line.len)
        return err;
    if (!take_separator(r))
        return metrics_reader_fail(r, "unexpected text after the exemplar's value");
    err = take_seconds(r, &ret->timestamp_ms);
    ret->has_timestamp = true;
    if (!err && r->at != r->line.len)
        err = metrics_reader_fail(r, "unexpected text after the exemplar");
    return err;
}

// The cursor is at '#'. Only checks the exemplar: few readers use it.
static struct gs_error *check_exemplar(struct metrics_reader *r, struct gs_slice *ret)
{
    struct metrics_exemplar e = {0};
    r->at++;
    if (!take_separator(r) || metrics_reader_peek(r) != '{')
        return metrics_reader_fail(r, "expected '{' of an exemplar");
    struct gs_slice text = gs_slice_make(r->line.data + r->at, r->line.len - r->at);
    struct gs_error *err = take_exemplar(r, &e);
    if (!err)
        *ret = text;
    return err;
}

struct gs_error *metrics_reader_exemplar(struct metrics_reader *r, struct gs_slice text,
                                         struct metrics_exemplar *ret)
{
    struct metrics_exemplar e = {0};
    r->line = text;
    r->at = 0;
    struct gs_error *err = take_exemplar(r, &e);
    if (!err)
        *ret = e;
    return err;
}

static struct gs_error *openmetrics_tail(struct metrics_reader *r, struct metrics_line *ret)
{
    if (r->at == r->line.len)
        return NULL;
    if (!take_separator(r))
        return metrics_reader_fail(r, "unexpected text after the value");
    if (metrics_reader_peek(r) != '#') {
        struct gs_error *err = take_seconds(r, &ret->timestamp_ms);
        if (err)
            return err;
        ret->has_timestamp = true;
        if (r->at == r->line.len)
            return NULL;
        if (!take_separator(r) || metrics_reader_peek(r) != '#')
            return metrics_reader_fail(r, "unexpected text after the timestamp");
    }
    return check_exemplar(r, &ret->exemplar);
}

static struct gs_error *text_tail(struct metrics_reader *r, struct metrics_line *ret)
{
    metrics_reader_skip_blanks(r);
    if (r->at == r->line.len)
        return NULL;
    size_t start = r->at;
    struct gs_error *err = gs_parse_i64(next_word(r), INT64_MIN, INT64_MAX, &ret->timestamp_ms);
    if (err) {
        gs_error_free(err);
        r->at = start;
        return metrics_reader_fail(r, "the timestamp is not a whole number of milliseconds");
    }
    ret->has_timestamp = true;
    metrics_reader_skip_blanks(r);
    return r->at == r->line.len ? NULL
                                : metrics_reader_fail(r, "unexpected text after the timestamp");
}

struct gs_error *metrics_reader_tail(struct metrics_reader *r, struct metrics_line *ret)
{
    ret->has_timestamp = false;
    ret->exemplar = gs_slice_make(NULL, 0);
    ret->timestamp_ms = 0;
    if (!take_separator(r))
        return metrics_reader_fail(r, "the value is missing");
    struct gs_error *err = take_value(r, &ret->value);
    if (err)
        return err;
    return r->om ? openmetrics_tail(r, ret) : text_tail(r, ret);
}

// --- # lines ---

static const struct {
    const char *word;
    enum metrics_type type;
    bool text, om;
} types[] = {
    {"counter", METRICS_COUNTER, true, true},         {"gauge", METRICS_GAUGE, true, true},
    {"histogram", METRICS_HISTOGRAM, true, true},     {"summary", METRICS_SUMMARY, true, true},
    {"untyped", METRICS_UNTYPED, true, false},        {"unknown", METRICS_UNTYPED, false, true},
    {"gaugehistogram", METRICS_UNTYPED, false, true}, {"info", METRICS_UNTYPED, false, true},
    {"stateset", METRICS_UNTYPED, false, true},
};

static struct gs_error *take_type(struct metrics_reader *r, struct gs_slice text,
                                  struct metrics_metadata *m)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++) {
        if (!(r->om ? types[i].om : types[i].text) || !gs_slice_eq_str(text, types[i].word))
            continue;
        r->family = m->family;
        r->type = m->type = types[i].type;
        m->type_name = r->type == METRICS_UNTYPED && !r->om ? "unknown" : types[i].word;
        return NULL;
    }
    r->at = (size_t)(text.data - r->line.data);
    return metrics_reader_fail(r, "unknown metric type");
}

static struct gs_error *take_unit(struct metrics_reader *r, struct gs_slice text,
                                  struct metrics_metadata *m)
{
    m->unit = text;
    size_t n = m->family.len;
    if (!text.len || (n > text.len && m->family.data[n - text.len - 1] == '_' &&
                      memcmp(m->family.data + n - text.len, text.data, text.len) == 0))
        return NULL;
    return metrics_reader_fail(r, "the unit is not the end of the metric's name");
}

// A family's name, as it is or in quotes (then its raw text is between them).
static struct gs_error *take_family(struct metrics_reader *r, struct gs_slice *ret)
{
    if (metrics_reader_peek(r) != '"') {
        *ret = metrics_reader_take_name(r, true);
        return ret->len ? NULL : metrics_reader_fail(r, "expected a metric name");
    }
    size_t start = ++r->at;
    while (r->at < r->line.len && metrics_reader_peek(r) != '"')
        r->at += metrics_reader_peek(r) == '\\' ? 2 : 1;
    if (r->at >= r->line.len) {
        r->at = start - 1;
        return metrics_reader_fail(r, "the metric name is not closed with a quote");
    }
    *ret = gs_slice_make(r->line.data + start, r->at - start);
    r->at++;
    return NULL;
}

// "# EOF" of OpenMetrics.
static bool is_eof(const struct metrics_reader *r)
{
    return r->om && gs_slice_eq_str(r->line, "# EOF");
}

static void remember_line(struct metrics_reader *r, const struct metrics_metadata *m)
{
    const char *line = r->line.data; // with the \r at its end
    size_t len = (size_t)(r->next - line) - (r->next[-1] == '\n');
    r->comments_changed = true;
    if (len > UINT32_MAX || r->comment_at == MAX_COMMENTS)
        return;
    gs_grow(&r->comments, &r->comments_cap, r->comment_at, sizeof(*r->comments));
    r->comments[r->comment_at++] = (struct metrics_reader_comment){
        .hash = metrics_hash(line, len, r->seed),
        .len = (uint32_t)len,
        .family_at = (uint32_t)(m->family.data - line),
        .family_len = (uint32_t)m->family.len,
        .type = m->type,
        .has_type = m->type_name != NULL,
    };
    if (r->n_comments < r->comment_at)
        r->n_comments = r->comment_at;
}

static struct gs_error *take_metadata(struct metrics_reader *r, struct gs_slice keyword)
{
    struct metrics_metadata m = {.escaped_quotes = r->om, .number = r->number};
    metrics_reader_skip_blanks(r);
    struct gs_error *err = take_family(r, &m.family);
    if (err)
        return err;
    if (r->om && !take_separator(r))
        return metrics_reader_fail(r, "expected a space after the metric name");
    size_t before = r->at;
    metrics_reader_skip_blanks(r);
    if (!r->om && before == r->at && r->at < r->line.len)
        return metrics_reader_fail(r, "expected a space after the metric name");
    struct gs_slice text = gs_slice_make(r->line.data + r->at, r->line.len - r->at);
    if (keyword.data[0] == 'T')
        err = take_type(r, r->om ? text : gs_slice_trim(text), &m);
    else if (keyword.data[0] == 'U')
        err = take_unit(r, text, &m);
    else if (!metrics_utf8_ok(text.data, text.len))
        err = metrics_reader_fail(r, "the help text is not UTF-8");
    else
        m.help = text;
    if (err)
        return err;
    remember_line(r, &m);
    if (r->on_metadata)
        r->on_metadata(r->metadata_arg, &m);
    return NULL;
}

struct gs_error *metrics_reader_comment(struct metrics_reader *r)
{
    if (is_eof(r)) {
        r->seen_eof = true;
        return NULL;
    }
    // The common notation.
    if (r->line.len > 7 &&
        (memcmp(r->line.data, "# HELP ", 7) == 0 || memcmp(r->line.data, "# TYPE ", 7) == 0)) {
        r->at = 7;
        return take_metadata(r, gs_slice_make(r->line.data + 2, 4));
    }
    r->at++;
    size_t blanks = r->at;
    if (r->om)
        take_separator(r);
    metrics_reader_skip_blanks(r);
    bool spaced = r->at > blanks;
    struct gs_slice word = next_word(r);
    bool known = gs_slice_eq_str(word, "HELP") || gs_slice_eq_str(word, "TYPE") ||
                 (r->om && gs_slice_eq_str(word, "UNIT"));
    if (spaced && known && r->at < r->line.len) {
        r->at++;
        return take_metadata(r, word);
    }
    r->at = 0;
    return r->om ? metrics_reader_fail(r, "expected HELP, TYPE, UNIT or EOF after #") : NULL;
}
