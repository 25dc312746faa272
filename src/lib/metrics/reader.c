// SPDX-License-Identifier: Apache-2.0
// Lines and identities. An expected line costs a hash and its value. For other lines, the end and
// the closing brace of the labels are searched.
#include "metrics/metrics_private.h"

#include "base/mem.h"
#include "metrics/labels.h"

#define DEFAULT_MAX_LINE   ((size_t)64 * 1024)
#define DEFAULT_MAX_LABELS ((size_t)64)
#define HARD_MAX_LABELS    ((size_t)1024)
#define LONG_RUN           256               // lines
#define PREFETCH           ((ptrdiff_t)2048) // bytes ahead

struct metrics_reader *metrics_reader_new(void)
{
    struct metrics_reader *r = gs_alloc(sizeof(*r));
    // Differs between processes where addresses are randomised.
    r->seed = (uint64_t)(uintptr_t)&metrics_reader_new * 0x9e3779b97f4a7c15ULL;
    return r;
}

void metrics_reader_free(struct metrics_reader *r)
{
    if (!r)
        return;
    free(r->labels);
    free(r->scratch);
    free(r->comments);
    free(r);
}

void metrics_reader_trim(struct metrics_reader *r)
{
    free(r->labels);
    free(r->scratch);
    r->labels = NULL;
    r->scratch = NULL;
    r->labels_cap = r->scratch_len = r->scratch_cap = 0;
    if (r->comments_cap <= r->n_comments + 1)
        return;
    r->comments_cap = r->n_comments + 1;
    r->comments = gs_realloc_array(r->comments, r->comments_cap, sizeof(*r->comments));
}

void metrics_reader_on_metadata(struct metrics_reader *r,
                                void (*fn)(void *arg, const struct metrics_metadata *m), void *arg)
{
    r->on_metadata = fn;
    r->metadata_arg = arg;
}

void metrics_reader_on_long_run(struct metrics_reader *r, bool (*fn)(void *arg), void *arg)
{
    r->on_long_run = fn;
    r->long_run_arg = arg;
}

bool metrics_reader_metadata_changed(struct metrics_reader *r)
{
    bool changed = r->comments_changed || r->comment_at < r->n_comments;
    r->n_comments = r->comment_at;
    r->comments_changed = false;
    return changed;
}

void metrics_reader_forget_metadata(struct metrics_reader *r)
{
    r->n_comments = r->comment_at = 0;
}

void metrics_reader_start(struct metrics_reader *r, struct gs_slice text, enum metrics_format f,
                          const struct metrics_limits *limits)
{
    static const struct metrics_limits none = {0};
    r->next = r->fetched = text.data;
    r->end = text.len ? text.data + text.len : text.data;
    if (r->om != (f == METRICS_OPENMETRICS)) // the rules for # lines differ
        metrics_reader_forget_metadata(r);
    r->om = f == METRICS_OPENMETRICS;
    r->comment_at = 0;
    r->limits = limits ? *limits : none;
    if (!r->limits.max_line)
        r->limits.max_line = DEFAULT_MAX_LINE;
    if (!r->limits.max_labels)
        r->limits.max_labels = DEFAULT_MAX_LABELS;
    if (r->limits.max_labels > HARD_MAX_LABELS)
        r->limits.max_labels = HARD_MAX_LABELS;
    r->seen_eof = false;
    r->expect_len = r->n_samples = r->number = r->n_skipped = 0;
    r->family = gs_slice_make(NULL, 0);
    r->type = METRICS_UNTYPED;
}

void metrics_reader_expect(struct metrics_reader *r, uint64_t hash, size_t len)
{
    r->expect_hash = hash;
    r->expect_len = len;
}

struct gs_error *metrics_reader_fail(const struct metrics_reader *r, const char *what)
{
    return gs_error_new(GS_EINVAL, "line %zu, column %zu: %s", r->number, r->at + 1, what);
}

static bool is_name_start(char c, bool colon)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':');
}

struct gs_slice metrics_reader_take_name(struct metrics_reader *r, bool colon)
{
    const char *p = r->line.data + r->at, *start = p, *end = r->line.data + r->line.len;
    if (p < end && is_name_start(*p, colon))
        p = metrics_scan_name(p, end, r->end, colon);
    r->at += (size_t)(p - start);
    return gs_slice_make(start, (size_t)(p - start));
}

// Processors prefetch streams, but not across pages.
static inline void prefetch(struct metrics_reader *r)
{
    const char *p = r->fetched, *to = r->end - r->next > PREFETCH ? r->next + PREFETCH : r->end;
    for (; p < to; p += 64)
        __builtin_prefetch(p);
    r->fetched = p;
}

// Reads the line if it is the expected one, with a plain number at its end. Otherwise returns false
// and changes nothing.
static bool next_expected(struct metrics_reader *r, struct metrics_line *ret)
{
    size_t len = r->expect_len;
    const char *p = r->next;
    prefetch(r);
    if ((size_t)(r->end - p) < len + 2 || p[len] != ' ' ||
        metrics_hash(p, len, r->seed) != r->expect_hash)
        return false;
    double value;
    const char *after = metrics_scan_number(p + len + 1, r->end, &value);
    if (!after || after == r->end || *after != '\n')
        return false;
    size_t line_len = (size_t)(after - p);
    if (line_len > r->limits.max_line)
        return false;
    r->line = gs_slice_make(p, line_len);
    r->next = after + 1;
    *ret = (struct metrics_line){.identity = gs_slice_make(p, len),
                                 .hash = r->expect_hash,
                                 .value = value,
                                 .number = ++r->number};
    return true;
}

// Skips the # line if it is the same as in the last text. Otherwise returns false and changes
// nothing.
static bool next_known_comment(struct metrics_reader *r)
{
    const char *p = r->next;
    if (r->comment_at == r->n_comments)
        return false;
    const struct metrics_reader_comment *c = &r->comments[r->comment_at];
    size_t left = (size_t)(r->end - p);
    if (left < c->len || (left > c->len && p[c->len] != '\n') || c->len > r->limits.max_line ||
        metrics_hash(p, c->len, r->seed) != c->hash)
        return false;
    if (c->has_type) {
        r->family = gs_slice_make(p + c->family_at, c->family_len);
        r->type = c->type;
    }
    r->next = p + c->len + (left > c->len);
    r->number++;
    r->comment_at++;
    return true;
}

static struct gs_error *take_line(struct metrics_reader *r)
{
    const char *end = memchr(r->next, '\n', (size_t)(r->end - r->next));
    r->number++;
    r->at = 0;
    if (!end && r->om &&
        !gs_slice_eq_str(gs_slice_make(r->next, (size_t)(r->end - r->next)), "# EOF")) {
        r->line = gs_slice_make(r->next, (size_t)(r->end - r->next));
        return metrics_reader_fail(r, "the text does not end with # EOF");
    }
    size_t len = (size_t)((end ? end : r->end) - r->next);
    r->line = gs_slice_make(r->next, len);
    r->next = end ? end + 1 : r->end;
    if (!r->om && len && r->line.data[len - 1] == '\r')
        r->line.len--;
    return NULL;
}

static struct gs_error *long_line(struct metrics_reader *r)
{
    if (!r->limits.skip_over_limits)
        return gs_error_new(GS_ELIMIT, "line %zu: longer than %zu bytes", r->number,
                            r->limits.max_line);
    if (!r->n_skipped++)
        r->skipped = r->line;
    return NULL;
}

size_t metrics_reader_skipped(const struct metrics_reader *r, struct gs_slice *ret_first)
{
    if (r->n_skipped)
        *ret_first = r->skipped;
    return r->n_skipped;
}

// In OpenMetrics an exemplar may follow with braces of its own: the quotes are counted from the
// front.
static struct gs_error *find_close(struct metrics_reader *r, bool named)
{
    if (named)
        metrics_reader_take_name(r, true);
    size_t name_end = r->at;
    metrics_reader_skip_blanks(r);
    if (metrics_reader_peek(r) != '{') {
        r->at = name_end;
        return NULL;
    }
    const char *open = r->line.data + r->at + 1, *end = r->line.data + r->line.len;
    bool in_quotes;
    const char *close = metrics_scan_brace(open, end, r->end, &in_quotes);
    r->at = (size_t)(close - r->line.data);
    if (close == end)
        return metrics_reader_fail(r, in_quotes ? "the label value is not closed with a quote"
                                                : "expected ',' or '}' after the label value");
    r->at++;
    return NULL;
}

// In the text format no brace follows the labels, so the last one closes them. If it is quoted,
// metrics_reader_labels reports an error.
static struct gs_error *find_end(struct metrics_reader *r)
{
    bool named = is_name_start(metrics_reader_peek(r), true);
    if (!named && metrics_reader_peek(r) != '{')
        return metrics_reader_fail(r, "expected a metric name");
    if (r->om)
        return find_close(r, named);
    const char *from = r->line.data + r->at;
    const char *close = memrchr(from, '}', r->line.len - r->at);
    if (!close)
        return find_close(r, named);
    r->at = (size_t)(close + 1 - r->line.data);
    return NULL;
}

static struct gs_error *read_sample_line(struct metrics_reader *r, struct metrics_line *ret)
{
    size_t start = r->at;
    struct gs_error *err = find_end(r);
    if (err)
        return err;
    ret->identity = gs_slice_make(r->line.data + start, r->at - start);
    ret->hash = metrics_hash(ret->identity.data, ret->identity.len, r->seed);
    ret->number = r->number;
    return metrics_reader_tail(r, ret);
}

static struct gs_error *count_sample(struct metrics_reader *r, bool *ret_more)
{
    if (r->limits.max_samples && ++r->n_samples > r->limits.max_samples)
        return gs_error_new(GS_ELIMIT, "line %zu: more than %zu samples", r->number,
                            r->limits.max_samples);
    *ret_more = true;
    return NULL;
}

static struct gs_error *passed_over(struct metrics_reader *r)
{
    if (r->number % LONG_RUN == 0 && r->on_long_run && !r->on_long_run(r->long_run_arg))
        return gs_error_new(GS_ECONFLICT, "line %zu: stopped", r->number);
    return NULL;
}

// Reads the next line and all of it that is not a sample. *ret_sample: the cursor is at a sample.
static struct gs_error *next_line(struct metrics_reader *r, bool *ret_sample)
{
    if (*r->next == '#' && !r->seen_eof && next_known_comment(r))
        return NULL;
    struct gs_error *err = take_line(r);
    if (err)
        return err;
    if (r->seen_eof)
        return metrics_reader_fail(r, "unexpected text after # EOF");
    if (r->line.len > r->limits.max_line)
        return long_line(r);
    metrics_reader_skip_blanks(r);
    if (r->at == r->line.len)
        return r->om ? metrics_reader_fail(r, "an empty line") : NULL;
    if (metrics_reader_peek(r) == '#')
        return metrics_reader_comment(r);
    *ret_sample = true;
    return NULL;
}

struct gs_error *metrics_reader_next(struct metrics_reader *r, struct metrics_line *ret,
                                     bool *ret_more)
{
    struct metrics_line line;
    size_t expected = r->expect_len;
    while (r->next < r->end) {
        if (expected && !r->seen_eof && *r->next != '#' && next_expected(r, ret)) {
            r->expect_len = 0;
            return count_sample(r, ret_more);
        }
        bool sample = false;
        struct gs_error *err = next_line(r, &sample);
        if (!err && !sample)
            err = passed_over(r);
        if (err)
            return err;
        if (!sample)
            continue;
        r->expect_len = 0;
        err = read_sample_line(r, &line);
        if (err)
            return err;
        *ret = line;
        return count_sample(r, ret_more);
    }
    if (r->om && !r->seen_eof) {
        r->at = 0;
        r->number++;
        return metrics_reader_fail(r, "the text does not end with # EOF");
    }
    *ret_more = false;
    return NULL;
}

struct gs_error *metrics_read_text(struct gs_slice text,
                                   void (*on_metadata)(void *arg, const struct metrics_metadata *m),
                                   void (*on_sample)(void *arg, const struct metrics_line *line,
                                                     const struct metrics_label *labels, size_t n),
                                   void *arg)
{
    struct metrics_reader *r = metrics_reader_new();
    struct gs_error *err = NULL;
    metrics_reader_on_metadata(r, on_metadata, arg);
    metrics_reader_start(r, text, METRICS_TEXT, NULL);
    while (!err) {
        struct metrics_line line;
        const struct metrics_label *labels;
        size_t n;
        bool more = false;
        err = metrics_reader_next(r, &line, &more);
        if (err || !more)
            break;
        err = metrics_reader_labels(r, &line, &labels, &n);
        if (!err)
            on_sample(arg, &line, labels, n);
    }
    metrics_reader_free(r);
    return err;
}
