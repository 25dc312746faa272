// SPDX-License-Identifier: Apache-2.0
#include "metrics/parse.h"

#include "base/mem.h"
#include "base/num.h"

#define DEFAULT_MAX_LINE   ((size_t)64 * 1024)
#define DEFAULT_MAX_LABELS ((size_t)64)
#define HARD_MAX_LABELS    ((size_t)1024)

// The family that the last # TYPE line named.
struct family {
    struct gs_slice name;
    enum metrics_type type;
};

struct parser {
    struct gs_slice line;
    size_t at; // next byte of the line
    size_t line_number;
    size_t max_labels;
    struct metrics_label *labels;
    char *scratch; // unescaped label values of the line; never longer than the line
    size_t scratch_len;
    struct family family;
};

static struct gs_error *fail(const struct parser *p, const char *what)
{
    return gs_error_new(GS_EINVAL, "line %zu, column %zu: %s", p->line_number, p->at + 1, what);
}

static bool is_name_start(char c, bool colon)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
}

static bool is_name_char(char c, bool colon)
{
    return is_name_start(c, colon) || (c >= '0' && c <= '9');
}

static char peek(const struct parser *p)
{
    return p->at < p->line.len ? p->line.data[p->at] : '\0';
}

static void skip_blanks(struct parser *p)
{
    while (peek(p) == ' ' || peek(p) == '\t')
        p->at++;
}

// Empty when there is no name at this place.
static struct gs_slice take_name(struct parser *p, bool colon)
{
    size_t start = p->at;
    if (!is_name_start(peek(p), colon))
        return gs_slice_make(p->line.data + start, 0);
    while (p->at < p->line.len && is_name_char(p->line.data[p->at], colon))
        p->at++;
    return gs_slice_make(p->line.data + start, p->at - start);
}

// After the opening quote. Escapes: \\ \" \n; any other backslash stays as it is.
static struct gs_error *take_label_value(struct parser *p, struct gs_slice *ret)
{
    size_t start = p->at;
    const char *end = NULL;
    bool escaped = false;
    for (size_t i = p->at; i < p->line.len && !end; i++) {
        if (p->line.data[i] == '\\') {
            escaped = true;
            i++;
        } else if (p->line.data[i] == '"') {
            end = p->line.data + i;
        }
    }
    if (!end) {
        p->at = p->line.len;
        return fail(p, "the label value is not closed with a quote");
    }
    size_t len = (size_t)(end - (p->line.data + start));
    p->at = start + len + 1;
    if (!escaped) {
        *ret = gs_slice_make(p->line.data + start, len);
        return NULL;
    }
    char *out = p->scratch + p->scratch_len;
    size_t n = 0;
    for (size_t i = start; i < start + len; i++) {
        char c = p->line.data[i], next = i + 1 < start + len ? p->line.data[i + 1] : '\0';
        if (c == '\\' && (next == '\\' || next == '"' || next == 'n')) {
            out[n++] = next == 'n' ? '\n' : next;
            i++;
        } else {
            out[n++] = c;
        }
    }
    p->scratch_len += n;
    *ret = gs_slice_make(out, n);
    return NULL;
}

static struct gs_error *take_labels(struct parser *p, size_t *ret_n)
{
    size_t n = 0;
    p->at++; // '{'
    for (;;) {
        skip_blanks(p);
        if (peek(p) == '}') {
            p->at++;
            *ret_n = n;
            return NULL;
        }
        struct gs_slice name = take_name(p, false);
        if (!name.len)
            return fail(p, "expected a label name or '}'");
        skip_blanks(p);
        if (peek(p) != '=')
            return fail(p, "expected '=' after the label name");
        p->at++;
        skip_blanks(p);
        if (peek(p) != '"')
            return fail(p, "expected '\"' before the label value");
        p->at++;
        if (n == p->max_labels)
            return fail(p, "too many labels");
        p->labels[n].name = name;
        struct gs_error *err = take_label_value(p, &p->labels[n].value);
        if (err)
            return err;
        for (size_t i = 0; i < n; i++)
            if (gs_slice_eq(p->labels[i].name, name))
                return fail(p, "the label name is repeated");
        n++;
        skip_blanks(p);
        if (peek(p) == ',')
            p->at++;
        else if (peek(p) != '}')
            return fail(p, "expected ',' or '}' after the label value");
    }
}

static struct gs_slice take_word(struct parser *p)
{
    skip_blanks(p);
    size_t start = p->at;
    while (p->at < p->line.len && peek(p) != ' ' && peek(p) != '\t')
        p->at++;
    return gs_slice_make(p->line.data + start, p->at - start);
}

static enum metrics_type type_of_word(struct gs_slice word)
{
    static const char *const words[] = {
        [METRICS_COUNTER] = "counter",
        [METRICS_GAUGE] = "gauge",
        [METRICS_HISTOGRAM] = "histogram",
        [METRICS_SUMMARY] = "summary",
    };
    for (size_t i = METRICS_COUNTER; i < GS_ARRAY_LEN(words); i++)
        if (gs_slice_eq_str(word, words[i]))
            return (enum metrics_type)i;
    return METRICS_UNTYPED;
}

// "# TYPE name type" is remembered; every other comment is passed over.
static void read_comment(struct parser *p)
{
    p->at++;
    if (!gs_slice_eq_str(take_word(p), "TYPE"))
        return;
    p->family.name = take_word(p);
    p->family.type = type_of_word(take_word(p));
}

// Whether a sample belongs to the family: by its name, or with the suffix of a histogram or
// summary.
static bool in_family(const struct family *f, struct gs_slice name)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    if (!f->name.len || name.len < f->name.len || memcmp(name.data, f->name.data, f->name.len) != 0)
        return false;
    struct gs_slice rest = gs_slice_make(name.data + f->name.len, name.len - f->name.len);
    if (!rest.len)
        return true;
    if (f->type != METRICS_HISTOGRAM && f->type != METRICS_SUMMARY)
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++)
        if (gs_slice_eq_str(rest, suffixes[i]))
            return true;
    return false;
}

static struct gs_error *read_value(struct parser *p, struct metrics_sample *s)
{
    skip_blanks(p);
    size_t start = p->at;
    struct gs_slice word = take_word(p);
    struct gs_error *err = gs_parse_double(word, &s->value);
    if (err) {
        gs_error_free(err);
        p->at = start;
        return fail(p, word.len ? "the value is not a number" : "the value is missing");
    }
    skip_blanks(p);
    start = p->at;
    word = take_word(p);
    if (!word.len)
        return NULL;
    err = gs_parse_i64(word, INT64_MIN, INT64_MAX, &s->timestamp_ms);
    if (err) {
        gs_error_free(err);
        p->at = start;
        return fail(p, "the timestamp is not a whole number of milliseconds");
    }
    s->has_timestamp = true;
    skip_blanks(p);
    return p->at == p->line.len ? NULL : fail(p, "unexpected text after the timestamp");
}

static struct gs_error *read_sample(struct parser *p, struct metrics_sample *ret)
{
    struct metrics_sample s = {.labels = p->labels};
    p->scratch_len = 0;
    s.name = take_name(p, true);
    if (!s.name.len)
        return fail(p, "expected a metric name");
    skip_blanks(p);
    struct gs_error *err = peek(p) == '{' ? take_labels(p, &s.n_labels) : NULL;
    if (!err)
        err = read_value(p, &s);
    if (err)
        return err;
    s.type = in_family(&p->family, s.name) ? p->family.type : METRICS_UNTYPED;
    *ret = s;
    return NULL;
}

static struct gs_error *parse_lines(struct parser *p, struct gs_slice text, size_t max_line,
                                    size_t max_samples,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg)
{
    size_t n_samples = 0;
    while (text.len) {
        p->line = gs_slice_cut(&text, '\n');
        p->line_number++;
        p->at = 0;
        if (p->line.len && p->line.data[p->line.len - 1] == '\r')
            p->line.len--;
        if (p->line.len > max_line)
            return gs_error_new(GS_ELIMIT, "line %zu: longer than %zu bytes", p->line_number,
                                max_line);
        skip_blanks(p);
        if (p->at == p->line.len)
            continue;
        if (peek(p) == '#') {
            read_comment(p);
            continue;
        }
        struct metrics_sample s;
        struct gs_error *err = read_sample(p, &s);
        if (err)
            return err;
        if (max_samples && ++n_samples > max_samples)
            return gs_error_new(GS_ELIMIT, "line %zu: more than %zu samples", p->line_number,
                                max_samples);
        if (!on_sample(arg, &s))
            return NULL;
    }
    return NULL;
}

struct gs_error *metrics_parse_text(struct gs_slice text, const struct metrics_limits *limits,
                                    bool (*on_sample)(void *arg, const struct metrics_sample *s),
                                    void *arg)
{
    static const struct metrics_limits none = {0};
    const struct metrics_limits *l = limits ? limits : &none;
    size_t max_line = l->max_line ? l->max_line : DEFAULT_MAX_LINE;
    size_t max_labels = l->max_labels ? l->max_labels : DEFAULT_MAX_LABELS;
    if (max_labels > HARD_MAX_LABELS)
        max_labels = HARD_MAX_LABELS;
    GS_AUTO_FREE struct metrics_label *labels = gs_alloc_array(max_labels, sizeof(*labels));
    GS_AUTO_FREE char *scratch = gs_alloc(max_line);
    struct parser p = {.max_labels = max_labels, .labels = labels, .scratch = scratch};
    return parse_lines(&p, text, max_line, l->max_samples, on_sample, arg);
}
