// SPDX-License-Identifier: Apache-2.0
// Text that parses must give the same samples after it is written and parsed again. A second read
// with cached lines must give the same lines as the first. Exemplars are stored.
#include "base/mem.h"
#include "metrics/write.h"
#include "tsdb/exemplars.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct pass {
    struct gs_buf out;
    size_t n;
};

static bool rewrite(void *arg, const struct metrics_sample *s)
{
    struct pass *p = arg;
    GS_AUTO_FREE char *name = gs_slice_dup(s->name);
    if (memchr(s->name.data, '\0', s->name.len))
        return true; // the writer takes C strings
    metrics_write_sample(&p->out, name, s->labels, s->n_labels, s->value);
    p->n++;
    return true;
}

static void round_trip(struct gs_slice text, enum metrics_format format)
{
    struct pass first = {0}, second = {0};
    GS_AUTO_ERROR struct gs_error *err = metrics_parse(text, format, NULL, rewrite, &first);
    // An escape can make a line longer than the limit: then the second pass may refuse it.
    GS_AUTO_ERROR struct gs_error *again =
        text.len < 30000
            ? metrics_parse(gs_buf_slice(&first.out), METRICS_TEXT, NULL, rewrite, &second)
            : NULL;
    if (text.len < 30000 && (again || first.n != second.n))
        __builtin_trap();
    gs_buf_finish(&first.out);
    gs_buf_finish(&second.out);
}

struct seen {
    struct metrics_line *lines;
    size_t n, cap;
};

// Compares bits: distinguishes NaNs and zeros.
static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static bool same(const struct metrics_line *a, const struct metrics_line *b)
{
    return a->identity.data == b->identity.data && a->identity.len == b->identity.len &&
           a->hash == b->hash && bits_of(a->value) == bits_of(b->value) &&
           a->has_timestamp == b->has_timestamp && a->timestamp_ms == b->timestamp_ms &&
           a->exemplar.data == b->exemplar.data && a->exemplar.len == b->exemplar.len &&
           a->number == b->number;
}

// Lines are expected where `known` has them, shifted by `shift`. Returns where reading stopped.
static bool read_lines(struct metrics_reader *r, struct gs_slice text, enum metrics_format format,
                       const struct metrics_limits *limits, const struct seen *known, size_t shift,
                       struct seen *ret)
{
    metrics_reader_start(r, text, format, limits);
    for (;;) {
        struct metrics_line line;
        bool more;
        if (known && ret->n + shift < known->n) {
            const struct metrics_line *k = &known->lines[ret->n + shift];
            metrics_reader_expect(r, k->hash, k->identity.len);
        }
        GS_AUTO_ERROR struct gs_error *err = metrics_reader_next(r, &line, &more);
        if (err || !more)
            return !err;
        gs_grow(&ret->lines, &ret->cap, ret->n, sizeof(*ret->lines));
        ret->lines[ret->n++] = line;
    }
}

static void count_exemplar(void *arg, const struct tsdb_exemplar_series *s,
                           const struct tsdb_exemplar *e, bool is_first)
{
    size_t *n = arg;
    if (s->n_labels != 1 || e->n_labels > TSDB_EXEMPLAR_MAX_CHARS || is_first != !*n)
        __builtin_trap();
    ++*n;
}

// All in one series.
static void store_exemplars(struct metrics_reader *r, const struct seen *all)
{
    const struct metrics_label name = {GS_SLICE("__name__"), GS_SLICE("m")};
    const struct tsdb_exemplar_selector every = {NULL, 0};
    struct tsdb *db = tsdb_new(NULL);
    tsdb_ref ref;
    gs_error_free(tsdb_series_get(db, &name, 1, &ref));
    tsdb_exemplars_set_max(db, 3);
    for (size_t i = 0; i < all->n; i++) {
        struct metrics_exemplar e;
        if (!all->lines[i].exemplar.len)
            continue;
        if (metrics_reader_exemplar(r, all->lines[i].exemplar, &e)) // was valid before
            __builtin_trap();
        tsdb_exemplars_add(db, ref,
                           &(struct tsdb_exemplar){e.labels, e.n_labels, e.value, e.timestamp_ms,
                                                   e.has_timestamp});
    }
    struct tsdb_exemplar_stats stats;
    size_t n = 0;
    tsdb_exemplars_stats(db, &stats);
    tsdb_exemplars_select(db, &every, 1, INT64_MIN, INT64_MAX, count_exemplar, &n);
    if (n != stats.n || n > 3)
        __builtin_trap();
    tsdb_free(db);
}

static void expected_lines(struct gs_slice text, enum metrics_format format,
                           const struct metrics_limits *limits)
{
    struct metrics_reader *r = metrics_reader_new();
    struct seen plain = {0};
    bool ok = read_lines(r, text, format, limits, NULL, 0, &plain);
    for (size_t shift = 0; shift < 2; shift++) {
        struct seen again = {0};
        if (read_lines(r, text, format, limits, &plain, shift, &again) != ok || again.n != plain.n)
            __builtin_trap();
        for (size_t i = 0; i < plain.n; i++)
            if (!same(&plain.lines[i], &again.lines[i]))
                __builtin_trap();
        free(again.lines);
    }
    store_exemplars(r, &plain);
    free(plain.lines);
    metrics_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct metrics_limits few = {
        .max_line = 32, .skip_over_limits = true, .max_labels = 2};
    struct gs_slice text = gs_slice_make(data, size);
    for (int f = METRICS_TEXT; f <= METRICS_OPENMETRICS; f++) {
        round_trip(text, (enum metrics_format)f);
        expected_lines(text, (enum metrics_format)f, NULL);
        expected_lines(text, (enum metrics_format)f, &few);
    }
    return 0;
}
