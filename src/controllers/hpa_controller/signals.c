// SPDX-License-Identifier: Apache-2.0
// Reads the newest samples of a service's pods with their own times from an engine or a Prometheus.
// A range selector is queried, because an instant vector has the time of the query instead. The
// range follows the interval of the scrapes: what is older than a few of them is not read at all.
#include "hpa_controller/signals.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/json.h"
#include "hpa_controller/query_text.h"

#include <math.h>

enum {
    MAX_PODS_TEXT = 4000, // bytes of the pattern of pods; longer ones are left out
    MAX_SERIES = 100000,
    MAX_ANSWER = 32 * 1024 * 1024,
    MAX_MEMORY = 32 * 1024 * 1024, // of the texts of one response
    TIMEOUT_MS = 5000,
    FIRST_RANGE_MS = 60000, // until the interval is known
    LEAST_RANGE_MS = 5000,
    MAX_INTERVAL_MS = 61000, // FIRST_RANGE_MS with jitter: longer ones cannot be seen at first
    INTERVALS = 4,           // that the range covers: the oldest sample that counts is three old
};

struct hpa_signals_fetch {
    struct http_op *op;
    struct hpa_signals signals;
    void (*cb)(void *arg);
    void *arg;
    bool done;
};

// --- the query ---

static void add_pods(const struct hpa_signals_query *q, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    hpa_query_names(q->pods, q->n_pods, &names);
    if (names.len && names.len <= MAX_PODS_TEXT)
        gs_buf_addf(out, ",pod=~\"%.*s\"", (int)names.len, names.data);
}

static int64_t range_ms(int64_t interval_ms)
{
    int64_t range = interval_ms ? INTERVALS * interval_ms : FIRST_RANGE_MS;
    return range < LEAST_RANGE_MS ? LEAST_RANGE_MS : range;
}

static char *query_path(const struct hpa_signals_query *q)
{
    GS_AUTO_BUF struct gs_buf matchers = {0};
    GS_AUTO_BUF struct gs_buf query = {0};
    struct gs_buf path = {0};
    gs_buf_addf(&matchers, "namespace=\"%s\"", q->ns);
    add_pods(q, &matchers);
    gs_buf_add_char(&matchers, '\0');
    slo_policy_query(q->policy, matchers.data, &query);
    gs_buf_addf(&query, "[%lldms]", (long long)range_ms(q->interval_ms));
    gs_buf_add_str(&path, "/api/v1/query?query=");
    http_encode(gs_buf_slice(&query), &path);
    return gs_buf_take(&path);
}

// --- the response ---

static const char *copy(struct hpa_signals *all, struct gs_slice text, bool *ok)
{
    const char *out = gs_arena_strndup(&all->arena, text.data, text.len);
    *ok = *ok && out;
    return out;
}

static bool read_labels(struct hpa_signals *all, struct codec_json_pull *j, struct hpa_signal *ret)
{
    struct gs_slice key, value;
    bool ok = codec_json_pull_object(j);
    while (ok && codec_json_pull_member(j, &all->arena, &key)) {
        const char **at = gs_slice_eq_str(key, "__name__") ? &ret->name
                          : gs_slice_eq_str(key, "pod")    ? &ret->pod
                          : gs_slice_eq_str(key, "le")     ? &ret->le
                          : gs_slice_eq_str(key, "role")   ? &ret->role
                                                           : NULL;
        ok = codec_json_pull_string(j, &all->arena, &value);
        if (ok && at)
            *at = copy(all, value, &ok);
    }
    return ok && !j->bad;
}

static bool read_sample(struct hpa_signals *all, struct codec_json_pull *j, double *ret_seconds,
                        double *ret_value)
{
    struct gs_slice text;
    bool ok = codec_json_pull_array(j) && codec_json_pull_item(j) &&
              codec_json_pull_number(j, ret_seconds) && codec_json_pull_item(j) &&
              codec_json_pull_string(j, &all->arena, &text);
    GS_AUTO_ERROR struct gs_error *err = ok ? gs_parse_double(text, ret_value) : NULL;
    return ok && !err && !codec_json_pull_item(j) && !j->bad;
}

// Keeps the newest sample. The shortest distance of two is the interval: one may be missing.
static bool read_samples(struct hpa_signals *all, struct codec_json_pull *j, struct hpa_signal *ret)
{
    double last = NAN, nearest = INFINITY, seconds = 0;
    bool ok = codec_json_pull_array(j);
    while (ok && codec_json_pull_item(j)) {
        ok = read_sample(all, j, &seconds, &ret->value);
        if (ok && !isnan(last) && seconds > last)
            nearest = fmin(nearest, seconds - last);
        last = seconds;
    }
    if (!ok || j->bad || isnan(last) || !(fabs(last) < 1e12))
        return false;
    ret->t_ms = llround(last * 1000);
    // A target whose scrapes often fail has no interval: samples of an hour ago would be fresh.
    if (nearest * 1000 <= MAX_INTERVAL_MS && nearest * 1000 > (double)all->interval_ms)
        all->interval_ms = llround(nearest * 1000);
    return true;
}

static bool read_series(struct hpa_signals *all, struct codec_json_pull *j)
{
    struct hpa_signal s = {0};
    struct gs_slice key;
    bool ok = codec_json_pull_object(j), sampled = false;
    while (ok && codec_json_pull_member(j, &all->arena, &key)) {
        if (gs_slice_eq_str(key, "metric")) {
            ok = read_labels(all, j, &s);
        } else if (gs_slice_eq_str(key, "values")) {
            ok = sampled = read_samples(all, j, &s);
        } else {
            ok = codec_json_pull_skip(j, NULL);
        }
    }
    if (!ok || j->bad || all->n == MAX_SERIES)
        return false;
    if (sampled && s.name && s.pod) {
        gs_grow(&all->items, &all->cap, all->n, sizeof(*all->items));
        all->items[all->n++] = s;
    }
    return true;
}

static bool read_result(struct hpa_signals *all, struct codec_json_pull *j)
{
    bool ok = codec_json_pull_array(j);
    while (ok && codec_json_pull_item(j))
        ok = read_series(all, j);
    return ok && !j->bad;
}

static bool read_data(struct hpa_signals *all, struct codec_json_pull *j)
{
    struct gs_slice key;
    bool ok = codec_json_pull_object(j);
    while (ok && codec_json_pull_member(j, &all->arena, &key))
        ok = gs_slice_eq_str(key, "result") ? read_result(all, j) : codec_json_pull_skip(j, NULL);
    return ok && !j->bad;
}

bool hpa_signals_read(struct gs_slice body, struct hpa_signals *all)
{
    struct codec_json_pull j = codec_json_pull_of(body);
    all->arena.limit = MAX_MEMORY;
    struct gs_slice key;
    bool ok = codec_json_pull_object(&j), found = false;
    while (ok && codec_json_pull_member(&j, &all->arena, &key)) {
        if (gs_slice_eq_str(key, "data"))
            ok = found = read_data(all, &j);
        else
            ok = codec_json_pull_skip(&j, NULL);
    }
    if (ok && !j.bad && found)
        return true;
    all->n = 0;
    return false;
}

void hpa_signals_finish(struct hpa_signals *all)
{
    gs_arena_finish(&all->arena);
    free(all->items);
    free(all->error);
    *all = (struct hpa_signals){0};
}

static char *refused(const struct http_response *a)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(a->body, false, &body);
    return hpa_query_refused(a->status, body);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct hpa_signals_fetch *f = arg;
    f->op = NULL;
    f->done = true;
    if (err) {
        f->signals.error = gs_strdup(gs_error_message(err));
    } else if (a->status != 200) {
        f->signals.error = refused(a);
    } else if (!hpa_signals_read(a->body, &f->signals)) {
        f->signals.error = gs_strdup("not a response of Prometheus, or one with too many series");
    }
    gs_error_free(err);
    f->cb(f->arg);
}

// --- public functions ---

struct hpa_signals_fetch *hpa_signals_start(struct http_client *engine,
                                            const struct hpa_signals_query *q,
                                            void (*cb)(void *arg), void *arg)
{
    struct hpa_signals_fetch *f = gs_alloc(sizeof(*f));
    GS_AUTO_FREE char *path = query_path(q);
    const struct http_request request = {
        .path = path, .timeout_ms = TIMEOUT_MS, .max_reply = MAX_ANSWER};
    const struct http_callbacks callbacks = {.on_done = on_done};
    f->cb = cb;
    f->arg = arg;
    f->op = http_send(engine, &request, &callbacks, f);
    return f;
}

bool hpa_signals_finished(const struct hpa_signals_fetch *f)
{
    return f->done;
}

const struct hpa_signals *hpa_signals_of(const struct hpa_signals_fetch *f)
{
    return &f->signals;
}

void hpa_signals_free(struct hpa_signals_fetch *f)
{
    if (!f)
        return;
    http_op_cancel(f->op);
    hpa_signals_finish(&f->signals);
    free(f);
}
