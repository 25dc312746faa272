// SPDX-License-Identifier: Apache-2.0
// Writes the result of a query as JSON directly into the buffer, without intermediate objects,
// because replies can have thousands of series.
#include "engine/api/api_private.h"

enum { LABELS_AT_ONCE = 64, AHEAD = 8 };

// The start of a sample at a step, which is the same for all series: [1700000000.123,"
struct point {
    uint8_t len;
    char text[ENGINE_API_JSON_VALUE_SIZE + 7];
};

struct writer {
    const struct promql_result *res;
    struct gs_buf *out;
    bool (*go_on)(void *arg); // NULL: always
    void *arg;
    // The labels of the previous series, and where each begins in the output. Series that follow
    // each other have most labels in common, whose text is copied.
    struct tsdb_pair last[LABELS_AT_ONCE];
    size_t n_last;
    size_t last_at[LABELS_AT_ONCE + 1], last_value[LABELS_AT_ONCE];
};

static void add_pair(struct writer *w, bool first, struct gs_slice name, struct gs_slice value)
{
    if (!first)
        gs_buf_add_char(w->out, ',');
    codec_json_add_string(w->out, name, CODEC_JSON_PLAIN);
    gs_buf_add_char(w->out, ':');
    codec_json_add_string(w->out, value, CODEC_JSON_PLAIN);
}

// For series with more labels than add_labels() handles.
static void add_many_labels(struct writer *w, struct tsdb_labels l)
{
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = promql_label_at(w->res, l, i);
        add_pair(w, !i, label.name, label.value);
    }
    gs_buf_add_char(w->out, '}');
    w->n_last = 0;
}

// All labels in the order of their names.
static size_t copy_pairs(struct tsdb_labels l, struct tsdb_pair ret[LABELS_AT_ONCE])
{
    size_t n = l.metric == TSDB_SYMBOL_EMPTY ? l.n : l.before, rest = l.n - n;
    if (n)
        memcpy(ret, l.pairs, n * sizeof(*ret));
    if (l.metric != TSDB_SYMBOL_EMPTY)
        ret[n++] = (struct tsdb_pair){TSDB_SYMBOL_NAME, l.metric};
    if (rest)
        memcpy(ret + n, l.pairs + l.before, rest * sizeof(*ret));
    return n + rest;
}

enum likeness { OTHER, SAME_NAME, SAME }; // as the label at this place of the previous series

static enum likeness likeness_of(const struct writer *w, const struct tsdb_pair *pairs, size_t i)
{
    if (i >= w->n_last || w->last[i].name != pairs[i].name)
        return OTHER;
    return w->last[i].value == pairs[i].value ? SAME : SAME_NAME;
}

enum { COPY = 16 };

// For texts of usual lengths, without a call. Writes up to COPY - 1 bytes more.
static char *copy_text(char *at, const char *from, size_t len)
{
    for (size_t i = 0; i < len; i += COPY)
        memcpy(at + i, from + i, COPY);
    return at + len;
}

// Adds "name":"value", with the name as in the previous series, or with its text.
static char *put_pair(struct writer *w, char *at, size_t i, bool known, const struct gs_slice *text)
{
    const char *start = at;
    if (known) {
        at = copy_text(at, w->out->data + w->last_at[i], w->last_value[i]);
    } else {
        at = codec_json_put_string(at, text[0]);
        *at++ = ':';
        w->last_value[i] = (size_t)(at - start);
    }
    w->last_at[i] = (size_t)(start - w->out->data);
    at = codec_json_put_string(at, text[1]);
    *at++ = ',';
    return at;
}

// Adds the labels and the closing brace. Reserves the space for all labels of a series at once.
static void add_labels(struct writer *w, struct tsdb_labels l)
{
    struct tsdb_pair pairs[LABELS_AT_ONCE];
    enum likeness likeness[LABELS_AT_ONCE];
    struct gs_slice texts[2 * LABELS_AT_ONCE];
    if (tsdb_labels_len(l) > LABELS_AT_ONCE) {
        add_many_labels(w, l);
        return;
    }
    size_t room = 1 + COPY, n = copy_pairs(l, pairs);
    for (size_t i = 0; i < n; i++) {
        likeness[i] = likeness_of(w, pairs, i);
        if (likeness[i] == SAME) {
            room += w->last_at[i + 1] - w->last_at[i];
            continue;
        }
        texts[2 * i + 1] = promql_text(w->res, pairs[i].value);
        room += CODEC_JSON_STRING_SIZE(texts[2 * i + 1].len) + COPY;
        if (likeness[i] == SAME_NAME) {
            room += w->last_value[i];
            continue;
        }
        texts[2 * i] = promql_text(w->res, pairs[i].name);
        room += CODEC_JSON_STRING_SIZE(texts[2 * i].len) + 1;
    }
    char *start = gs_buf_room(w->out, room), *at = start;
    if (!start)
        return;
    size_t offset = w->out->len, until;
    const char *before = w->out->data;
    for (size_t i = 0; i < n; i = until) {
        for (until = i; until < n && likeness[until] == SAME;)
            until++;
        if (until == i) {
            at = put_pair(w, at, i, likeness[i] == SAME_NAME, &texts[2 * i]);
            until++;
            continue;
        }
        size_t from = w->last_at[i], len = w->last_at[until] - from;
        size_t moved = offset + (size_t)(at - start) - from;
        at = copy_text(at, before + from, len);
        for (size_t k = i; k < until; k++)
            w->last_at[k] += moved;
        at[-1] = ',';
    }
    w->last_at[n] = offset + (size_t)(at - start);
    memcpy(w->last, pairs, n * sizeof(*pairs));
    w->n_last = n;
    if (n)
        at--; // instead of the comma
    *at++ = '}';
    *at = '\0';
    w->out->len += (size_t)(at - start);
}

static bool goes_on(const struct writer *w)
{
    return !w->go_on || w->go_on(w->arg);
}

static void add_series_metric(struct writer *w, struct tsdb_labels l)
{
    gs_buf_add(w->out, "{\"metric\":{", 11);
    add_labels(w, l);
}

// The pairs of the series to come are far apart in memory, and waiting for them takes longer than
// writing.
static inline void fetch_labels(struct tsdb_labels l)
{
    __builtin_prefetch(l.pairs);
    __builtin_prefetch(l.pairs + 8);
}

static void set_point(struct point *p, int64_t t_ms)
{
    char *at = p->text;
    *at++ = '[';
    at = engine_api_json_put_time(at, t_ms);
    *at++ = ',';
    *at++ = '"';
    p->len = (uint8_t)(at - p->text);
}

// [time,"value"], in SAMPLE_ROOM bytes at most, which may all be overwritten.
#define SAMPLE_ROOM (sizeof(((struct point *)NULL)->text) + ENGINE_API_JSON_VALUE_SIZE + 2)
static char *put_sample(char *at, const struct point *p, double v)
{
    memcpy(at, p->text, sizeof(p->text)); // of a fixed size, which needs no call
    at = engine_api_json_put_value(at + p->len, v);
    *at++ = '"';
    *at++ = ']';
    return at;
}

// ,"value":[time,"value"]}
static void add_vector_value(struct writer *w, const struct point *p, double v)
{
    static const char key[] = ",\"value\":";
    char *start = gs_buf_room(w->out, sizeof(key) + SAMPLE_ROOM + 2);
    if (!start)
        return;
    char *at = start;
    memcpy(at, key, sizeof(key) - 1);
    at = put_sample(at + sizeof(key) - 1, p, v);
    *at++ = '}';
    *at = '\0';
    w->out->len += (size_t)(at - start);
}

static void add_vector(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_matrix *m = &w->res->matrix;
    size_t n = 0;
    struct point p = {0};
    set_point(&p, w->res->start_ms);
    for (size_t i = 0; i < m->n && goes_on(w); i++) {
        const struct promql_series *s = &m->series[i];
        if (i + AHEAD < m->n)
            fetch_labels(s[AHEAD].labels);
        if (m->n_steps == 0 || promql_absent(s->v[0]))
            continue;
        if (limit && n == limit) {
            *ret_truncated = true;
            break;
        }
        if (n++)
            gs_buf_add_char(w->out, ',');
        add_series_metric(w, s->labels);
        add_vector_value(w, &p, s->v[0]);
    }
}

// --- matrices come sorted by their labels ---

static int compare_texts(struct gs_slice a, struct gs_slice b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_series_labels(const struct promql_result *res, struct tsdb_labels a,
                                 struct tsdb_labels b)
{
    size_t n_a = tsdb_labels_len(a), n_b = tsdb_labels_len(b);
    for (size_t i = 0; i < n_a && i < n_b; i++) {
        struct tsdb_pair x = tsdb_labels_at(a, i), y = tsdb_labels_at(b, i);
        int c = 0;
        if (x.name != y.name)
            c = compare_texts(promql_text(res, x.name), promql_text(res, y.name));
        if (!c && x.value != y.value)
            c = compare_texts(promql_text(res, x.value), promql_text(res, y.value));
        if (c)
            return c;
    }
    return (n_a > n_b) - (n_a < n_b);
}

static int by_labels(const void *a, const void *b, void *arg)
{
    const struct writer *w = arg;
    const struct promql_result *res = w->res;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (res->is_raw)
        return compare_series_labels(res, res->raw[x].labels, res->raw[y].labels);
    return compare_series_labels(res, res->matrix.series[x].labels, res->matrix.series[y].labels);
}

static uint32_t *sorted_order(const struct writer *w, size_t n)
{
    uint32_t *order = gs_alloc_array(n + 1, sizeof(*order));
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    if (n > 1)
        engine_api_sort(order, n, sizeof(*order), by_labels, (void *)(uintptr_t)w, w->go_on,
                        w->arg);
    return order;
}

// points: of all steps
static void add_columns(struct writer *w, const struct point *points, const struct promql_series *s)
{
    size_t n = w->res->matrix.n_steps;
    char *start = gs_buf_room(w->out, n * (SAMPLE_ROOM + 1)), *at = start;
    if (!start)
        return;
    for (size_t k = 0; k < n; k++) {
        if (promql_absent(s->v[k]))
            continue;
        at = put_sample(at, &points[k], s->v[k]);
        *at++ = ',';
    }
    at -= at > start; // the comma after the last one
    *at = '\0';
    w->out->len += (size_t)(at - start);
}

static void add_matrix(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_matrix *m = &w->res->matrix;
    size_t n = limit && m->n > limit ? limit : m->n;
    GS_AUTO_FREE uint32_t *order = sorted_order(w, m->n);
    GS_AUTO_FREE struct point *points = gs_alloc_array(m->n_steps + 1, sizeof(*points));
    for (size_t k = 0; k < m->n_steps; k++)
        set_point(&points[k], w->res->start_ms + (int64_t)k * w->res->step_ms);
    *ret_truncated = n < m->n;
    for (size_t i = 0; i < n && goes_on(w); i++) {
        if (i)
            gs_buf_add_char(w->out, ',');
        if (i + AHEAD < n)
            fetch_labels(m->series[order[i + AHEAD]].labels);
        add_series_metric(w, m->series[order[i]].labels);
        gs_buf_add_str(w->out, ",\"values\":[");
        add_columns(w, points, &m->series[order[i]]);
        gs_buf_add_str(w->out, "]}");
    }
}

static void add_raw(struct writer *w, size_t limit, bool *ret_truncated)
{
    const struct promql_result *res = w->res;
    size_t n = limit && res->n_raw > limit ? limit : res->n_raw;
    GS_AUTO_FREE uint32_t *order = sorted_order(w, res->n_raw);
    *ret_truncated = n < res->n_raw;
    for (size_t i = 0; i < n && goes_on(w); i++) {
        const struct promql_raw *s = &res->raw[order[i]];
        if (i)
            gs_buf_add_char(w->out, ',');
        add_series_metric(w, s->labels);
        gs_buf_add_str(w->out, ",\"values\":[");
        for (size_t k = 0; k < s->n; k++) {
            if (k)
                gs_buf_add_char(w->out, ',');
            engine_api_json_add_point(w->out, s->t[k], s->v[k]);
        }
        gs_buf_add_str(w->out, "]}");
    }
}

// The time of a scalar or string has no trailing zeros, unlike the time of a sample.
static void add_single(struct writer *w)
{
    const struct promql_result *res = w->res;
    gs_buf_add_char(w->out, '[');
    engine_api_json_add_seconds(w->out, (double)res->start_ms / 1000);
    gs_buf_add_char(w->out, ',');
    if (res->type == PROMQL_RESULT_SCALAR)
        engine_api_json_add_value(w->out, res->matrix.series[0].v[0]);
    else
        codec_json_add_string(w->out, res->string, CODEC_JSON_PLAIN);
    gs_buf_add_char(w->out, ']');
}

void engine_api_write_result(struct gs_buf *out, const struct promql_result *res, size_t limit,
                             bool (*go_on)(void *arg), void *arg, bool *ret_truncated)
{
    static const char *const types[] = {[PROMQL_RESULT_SCALAR] = "scalar",
                                        [PROMQL_RESULT_VECTOR] = "vector",
                                        [PROMQL_RESULT_MATRIX] = "matrix",
                                        [PROMQL_RESULT_STRING] = "string"};
    struct writer w = {.res = res, .out = out, .go_on = go_on, .arg = arg};
    gs_buf_addf(out, "\"resultType\":\"%s\",\"result\":", types[res->type]);
    if (res->type == PROMQL_RESULT_SCALAR || res->type == PROMQL_RESULT_STRING) {
        add_single(&w);
        return;
    }
    gs_buf_add_char(out, '[');
    if (res->is_raw)
        add_raw(&w, limit, ret_truncated);
    else if (res->type == PROMQL_RESULT_VECTOR)
        add_vector(&w, limit, ret_truncated);
    else
        add_matrix(&w, limit, ret_truncated);
    gs_buf_add_char(out, ']');
}
