// SPDX-License-Identifier: Apache-2.0
// The receiver of remote write. Series are stored one by one, and a wrong one does not stop the
// rest: the reply then has status 400 with the first errors, as in Prometheus. Large requests
// pause between parts, and a series that was dropped in a pause is looked up again.
#include "engine/remote/receiver.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/turn.h"
#include "codec/encoding.h"
#include "engine/remote/remote_private.h"
#include "metrics/write.h"

#define MAX_AHEAD_MS     INT64_C(600000) // as in Prometheus
#define MAX_SHOWN_LABELS ((size_t)1024)  // bytes of labels in an error text
#define LOG_EVERY_NS     (60 * GS_NS_PER_SEC)

static const char v1_name[] = "prometheus.WriteRequest";
static const char v2_name[] = "io.prometheus.write.v2.Request";
static const char media_type[] = "application/x-protobuf";

// --- life ---

struct gs_error *remote_message_of(const char *name, unsigned *set)
{
    bool v1 = gs_streq(name, v1_name);
    if (!v1 && !gs_streq(name, v2_name))
        return gs_error_new(GS_EINVAL,
                            "unknown type for remote write protobuf message %s, supported: %s, %s",
                            name, v1_name, v2_name);
    *set |= v1 ? REMOTE_MESSAGE_V1 : REMOTE_MESSAGE_V2;
    return NULL;
}

struct remote_receiver *remote_receiver_new(struct tsdb *db, unsigned messages,
                                            int64_t retention_ms, int64_t lookback_ms)
{
    struct remote_receiver *r = gs_alloc(sizeof(*r));
    r->db = db;
    r->messages = messages;
    r->retention_ms = retention_ms;
    r->lookback_ms = lookback_ms;
    return r;
}

void remote_receiver_free(struct remote_receiver *r)
{
    if (r)
        remote_otlp_settings_unref(r->otlp);
    free(r);
}

static void counter(struct gs_buf *out, const char *name, const char *help, uint64_t value)
{
    metrics_write_family(out, name, METRICS_COUNTER, help);
    metrics_write_sample(out, name, NULL, 0, (double)value);
}

void remote_receiver_write_metrics(const struct remote_receiver *r, struct gs_buf *out)
{
    counter(out, "prometheus_api_remote_write_invalid_labels_samples_total",
            "The total number of received remote write samples and histogram samples which were "
            "rejected due to invalid labels.",
            r->invalid_labels);
    counter(out, "prometheus_api_remote_write_without_metadata_appended_samples_total",
            "The total number of received remote write samples (and histogram samples) which were "
            "ingested without corresponding metadata.",
            r->without_metadata);
    counter(out, "gpuscale_remote_write_received_samples_total",
            "Samples received by remote write and OTLP, and stored.", r->samples);
    counter(out, "gpuscale_remote_write_received_refused_samples_total",
            "Samples received by remote write and OTLP that were out of order, duplicate, out of "
            "bounds, or "
            "over the limit of series.",
            r->refused);
    counter(out, "gpuscale_remote_write_received_skipped_histograms_total",
            "Native histograms received by remote write and OTLP, which are not stored.",
            r->histograms);
    counter(out, "gpuscale_remote_write_received_skipped_exemplars_total",
            "Exemplars received by remote write and OTLP that are not stored.", r->exemplars);
}

// --- refused parts ---

// Adds an error to the reply. As in Prometheus, a reply to 1.0 has only the first.
void remote_incoming_refuse(struct remote_incoming *w, const char *fmt, ...)
{
    va_list ap;
    struct gs_buf *text = &w->reply->text;
    if (++w->n_errors > w->max_errors)
        return;
    if (text->len)
        gs_buf_add_char(text, '\n');
    va_start(ap, fmt);
    gs_buf_vaddf(text, fmt, ap);
    va_end(ap);
}

static void add_name(struct gs_buf *out, struct gs_slice name)
{
    if (metrics_is_plain_name(name)) {
        gs_buf_add_slice(out, name);
        return;
    }
    gs_buf_add_char(out, '"');
    metrics_write_label_value(out, name);
    gs_buf_add_char(out, '"');
}

// {__name__="m", a="b"}
char *remote_labels_text(const struct remote_decoder_series *s)
{
    struct gs_buf out = {0};
    size_t n = s->n_labels < REMOTE_MAX_LABELS ? s->n_labels : REMOTE_MAX_LABELS;
    gs_buf_add_char(&out, '{');
    for (size_t i = 0; i < n; i++) {
        struct gs_slice name = s->labels[i].name, value = s->labels[i].value;
        if (out.len + name.len + value.len > MAX_SHOWN_LABELS) {
            gs_buf_add_str(&out, i ? ", …" : "…");
            break;
        }
        if (i)
            gs_buf_add_str(&out, ", ");
        add_name(&out, name);
        gs_buf_add_str(&out, "=\"");
        metrics_write_label_value(&out, value);
        gs_buf_add_char(&out, '"');
    }
    gs_buf_add_char(&out, '}');
    return gs_buf_take(&out);
}

void remote_incoming_log(struct remote_receiver *r, const struct remote_incoming *w)
{
    int64_t now = gs_mono_ns();
    r->unlogged++;
    if (r->logged_ns && now - r->logged_ns < LOG_EVERY_NS)
        return;
    struct gs_slice text = gs_buf_slice(&w->reply->text), first = gs_slice_cut(&text, '\n');
    gs_warn("remote_write", "%s: received samples are refused (%llu requests): " GS_SLICE_FMT,
            w->q->peer, (unsigned long long)r->unlogged, GS_SLICE_ARG(first));
    r->logged_ns = now;
    r->unlogged = 0;
}

// --- labels ---

static bool is_text(struct gs_slice s)
{
    return codec_utf8_valid_prefix(s) == s.len;
}

bool remote_labels_valid(const struct remote_decoder_series *s)
{
    bool named = false;
    for (size_t i = 0; i < s->n_labels; i++) {
        const struct metrics_label *l = &s->labels[i];
        bool is_name = gs_slice_eq_str(l->name, "__name__");
        named = named || is_name;
        if (!l->name.len || !is_text(l->name) || !is_text(l->value) || (is_name && !l->value.len))
            return false;
    }
    return named;
}

// The first label with the name of the label before it, or NULL.
static const struct metrics_label *find_duplicate(const struct remote_decoder_series *s)
{
    for (size_t i = 1; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i - 1].name, s->labels[i].name))
            return &s->labels[i];
    return NULL;
}

bool remote_within_limits(struct remote_incoming *w)
{
    const struct remote_decoder_series *s = &w->series;
    size_t bytes = 0;
    if (s->n_labels > REMOTE_MAX_LABELS) {
        remote_incoming_refuse(w, "more than %d labels for series", REMOTE_MAX_LABELS);
        return false;
    }
    for (size_t i = 0; i < s->n_labels; i++)
        bytes += s->labels[i].name.len + s->labels[i].value.len;
    if (bytes <= TSDB_MAX_LABEL_BYTES)
        return true;
    GS_AUTO_FREE char *text = remote_labels_text(s);
    remote_incoming_refuse(w, "labels of more than %zu bytes for series %s", TSDB_MAX_LABEL_BYTES,
                           text);
    return false;
}

// 1.0 ignores series with wrong labels, as in Prometheus.
static bool check_labels(struct remote_incoming *w)
{
    struct remote_decoder_series *s = &w->series;
    const struct metrics_label *twice = NULL;
    bool fits = !s->labels_error && remote_within_limits(w);
    bool valid = fits && remote_labels_valid(s);
    if (fits) // comparisons of larger labels would take long
        remote_sort_labels(s->labels, s->n_labels);
    if (valid)
        twice = find_duplicate(s);
    if (valid && !twice)
        return true;
    w->r->invalid_labels += s->n_samples + s->n_histograms;
    if (s->labels_error) {
        remote_incoming_refuse(w, "%s", gs_error_message(s->labels_error));
    } else if (fits && w->v2) {
        GS_AUTO_FREE char *text = remote_labels_text(s);
        if (twice)
            remote_incoming_refuse(
                w, "invalid labels for series, labels %s, duplicated label " GS_SLICE_FMT, text,
                GS_SLICE_ARG(twice->name));
        else
            remote_incoming_refuse(w, "invalid metric name or labels, got %s", text);
    }
    return false;
}

// --- samples ---

bool remote_incoming_go_on(void *arg)
{
    struct remote_incoming *w = arg;
    if (!w->q->go_on || gs_mono_ns() - w->turn_ns < gs_turn_ns())
        return true;
    w->paused = true;
    if (!w->q->go_on(w->q->arg))
        return false;
    w->turn_ns = gs_mono_ns();
    return true;
}

static struct gs_error *duplicate_error(const struct remote_incoming *w, tsdb_ref ref, int64_t t_ms,
                                        double v)
{
    char stored[GS_DOUBLE_SIZE], text[GS_DOUBLE_SIZE];
    double old;
    tsdb_latest(w->r->db, &ref, 1, t_ms, INT64_MIN, &old, NULL);
    return gs_error_new(
        GS_EEXIST,
        "duplicate sample for timestamp %lld; overrides not allowed: existing %s, new value %s",
        (long long)t_ms, gs_format_double(old, stored), gs_format_double(v, text));
}

static struct gs_error *check_time(const struct remote_incoming *w, int64_t t_ms)
{
    if (t_ms > w->now_ms + MAX_AHEAD_MS)
        return gs_error_new(GS_EINVAL, "out of bounds: timestamp is too far in the future");
    if (w->r->retention_ms && t_ms <= w->now_ms - w->r->retention_ms)
        return gs_error_new(GS_EINVAL, "out of bounds");
    return NULL;
}

static struct gs_error *append_to(struct remote_incoming *w, tsdb_ref ref, int64_t t_ms, double v)
{
    struct gs_error *err = tsdb_append_ref(w->r->db, ref, t_ms, v);
    if (err && gs_error_code(err) == GS_EEXIST) {
        gs_error_free(err);
        err = duplicate_error(w, ref, t_ms, v);
    }
    return err;
}

struct gs_error *remote_incoming_append(struct remote_incoming *w, tsdb_ref *ref, int64_t t_ms,
                                        double v)
{
    const struct remote_decoder_series *s = &w->series;
    struct gs_error *err = check_time(w, t_ms);
    if (!err && w->paused) { // the series may have been dropped
        err = tsdb_series_get(w->r->db, s->labels, s->n_labels, ref);
        w->paused = err != NULL;
    }
    return err ? err : append_to(w, *ref, t_ms, v);
}

static void refuse_sample(struct remote_incoming *w, struct gs_error *err)
{
    w->r->refused++;
    if (w->v2 && w->n_errors < REMOTE_MAX_ERRORS) {
        GS_AUTO_FREE char *text = remote_labels_text(&w->series);
        remote_incoming_refuse(w, "%s for series %s", gs_error_message(err), text);
    } else {
        remote_incoming_refuse(w, "%s", gs_error_message(err));
    }
    gs_error_free(err);
}

// Returns false if go_on has.
static bool store_samples(struct remote_incoming *w)
{
    struct remote_decoder_series *s = &w->series;
    tsdb_ref ref = TSDB_NO_REF;
    int64_t t_ms;
    double v;
    w->paused = true;
    for (size_t i = 0; remote_decoder_sample(&w->decoder, s, &t_ms, &v); i++) {
        struct gs_error *err = remote_incoming_append(w, &ref, t_ms, v);
        if (err) {
            refuse_sample(w, err);
        } else {
            w->reply->samples++;
            w->r->samples++;
            w->r->without_metadata += w->v2 && !s->has_metadata;
        }
        if (i % 32 == 31 && !remote_incoming_go_on(w))
            return false;
    }
    return !w->decoder.stopped;
}

// --- exemplars ---

int remote_compare_exemplars(const void *a, const void *b)
{
    const struct remote_decoder_exemplar *x = a, *y = b;
    if (x->t_ms != y->t_ms)
        return x->t_ms < y->t_ms ? -1 : 1;
    if (x->value < y->value || x->value > y->value)
        return x->value < y->value ? -1 : 1;
    return (x->message.data > y->message.data) - (x->message.data < y->message.data);
}

static bool exemplar_valid(const struct metrics_label *labels, size_t n)
{
    if (n > REMOTE_MAX_LABELS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!labels[i].name.len || !is_text(labels[i].name) || !is_text(labels[i].value))
            return false;
    return true;
}

enum tsdb_exemplar_result remote_incoming_exemplar(struct remote_incoming *w, tsdb_ref *ref,
                                                   const struct tsdb_exemplar *e)
{
    const struct remote_decoder_series *s = &w->series;
    if (!exemplar_valid(e->labels, e->n_labels) || e->t_ms > w->now_ms + MAX_AHEAD_MS)
        return TSDB_EXEMPLAR_OFF;
    if (w->paused) { // the series may have been dropped
        GS_AUTO_ERROR struct gs_error *err = tsdb_series_get(w->r->db, s->labels, s->n_labels, ref);
        if (err) // the limit of series
            return TSDB_EXEMPLAR_OFF;
        w->paused = false;
    }
    return tsdb_exemplars_add(w->r->db, *ref, e);
}

// As in Prometheus, a request of 1.0 does not fail because of exemplars, and one of 2.0 only
// because of their order and their references.
static void store_exemplar(struct remote_incoming *w, tsdb_ref *ref,
                           const struct remote_decoder_exemplar *e)
{
    struct metrics_label labels[REMOTE_MAX_LABELS];
    size_t n = 0;
    enum tsdb_exemplar_result result = TSDB_EXEMPLAR_OFF;
    GS_AUTO_ERROR struct gs_error *err = remote_decoder_exemplar_labels(&w->decoder, e, labels, &n);
    if (!err)
        result = remote_incoming_exemplar(
            w, ref, &(struct tsdb_exemplar){labels, n, e->value, e->t_ms, e->t_ms != 0});
    if (result == TSDB_EXEMPLAR_ADDED || result == TSDB_EXEMPLAR_DUPLICATE) {
        w->reply->exemplars++;
        return;
    }
    w->r->exemplars++;
    if (!w->v2 || (!err && result != TSDB_EXEMPLAR_OUT_OF_ORDER))
        return;
    GS_AUTO_FREE char *text = remote_labels_text(&w->series);
    if (err)
        remote_incoming_refuse(w, "parsing exemplar for series %s: %s", text,
                               gs_error_message(err));
    else
        remote_incoming_refuse(w, "out of order exemplar for series %s", text);
}

// Returns false if go_on has.
static bool store_exemplars(struct remote_incoming *w)
{
    struct remote_decoder_series *s = &w->series;
    size_t n = 0,
           max = s->n_exemplars < REMOTE_MAX_EXEMPLARS ? s->n_exemplars : REMOTE_MAX_EXEMPLARS;
    tsdb_ref ref = TSDB_NO_REF;
    if (!max || !tsdb_exemplars_max(w->r->db)) {
        w->r->exemplars += s->n_exemplars;
        return true;
    }
    GS_AUTO_FREE struct remote_decoder_exemplar *all = gs_alloc_array(max, sizeof(*all));
    while (n < max && remote_decoder_exemplar(&w->decoder, s, &all[n]))
        n++;
    w->r->exemplars += s->n_exemplars - n;
    qsort(all, n, sizeof(*all), remote_compare_exemplars);
    w->paused = true;
    for (size_t i = 0; i < n && !w->decoder.stopped; i++) {
        store_exemplar(w, &ref, &all[i]);
        if (i % 32 == 31 && !remote_incoming_go_on(w))
            return false;
    }
    return !w->decoder.stopped;
}

static bool store_series(struct remote_incoming *w)
{
    const struct remote_decoder_series *s = &w->series;
    if (!s->labels_error && s->metadata_error) {
        remote_incoming_refuse(w, "%s", gs_error_message(s->metadata_error));
        return true;
    }
    if (!check_labels(w))
        return true;
    w->r->histograms += s->n_histograms;
    // Prometheus sends each exemplar as a series of its own, which its receiver refuses.
    bool exemplars_only = s->n_exemplars && !s->n_histograms;
    if (w->v2 && !s->n_samples && !exemplars_only) {
        w->r->exemplars += s->n_exemplars;
        GS_AUTO_FREE char *text = remote_labels_text(s);
        if (s->n_histograms)
            remote_incoming_refuse(w, "native histograms are not supported for series %s", text);
        else
            remote_incoming_refuse(
                w, "TimeSeries must contain at least one sample or histogram for series %s", text);
        return true;
    }
    return store_samples(w) && store_exemplars(w);
}

// --- requests ---

void remote_reply(struct remote_receiver_reply *ret, int status, const char *fmt, ...)
{
    va_list ap;
    ret->status = status;
    gs_buf_clear(&ret->text);
    va_start(ap, fmt);
    gs_buf_vaddf(&ret->text, fmt, ap);
    va_end(ap);
}

// Finds the message of a Content-Type such as application/x-protobuf;proto=prometheus.WriteRequest.
static struct gs_error *read_type(const char *type, unsigned *ret)
{
    struct gs_slice whole = gs_slice_trim(gs_slice_of(type && *type ? type : media_type));
    struct gs_slice rest = whole;
    if (!gs_slice_eq_str(gs_slice_cut(&rest, ';'), media_type))
        return gs_error_new(
            GS_EINVAL, "expected %s as the first (media) part, got " GS_SLICE_FMT " content-type",
            media_type, GS_SLICE_ARG(whole));
    while (rest.data) {
        struct gs_slice value = gs_slice_trim(gs_slice_cut(&rest, ';')), part = value;
        struct gs_slice key = gs_slice_cut(&value, '=');
        if (!value.data || (value.len && memchr(value.data, '=', value.len)))
            return gs_error_new(GS_EINVAL,
                                "as per https://www.rfc-editor.org/rfc/rfc9110#parameter expected "
                                "parameters to be key-values, got " GS_SLICE_FMT " in " GS_SLICE_FMT
                                " content-type",
                                GS_SLICE_ARG(part), GS_SLICE_ARG(whole));
        if (!gs_slice_eq_str(key, "proto"))
            continue;
        GS_AUTO_FREE char *name = gs_slice_dup(value);
        GS_AUTO_ERROR struct gs_error *err = remote_message_of(name, ret);
        return err ? gs_error_new(GS_EINVAL, "got " GS_SLICE_FMT " content type; %s",
                                  GS_SLICE_ARG(whole), gs_error_message(err))
                   : NULL;
    }
    *ret = REMOTE_MESSAGE_V1;
    return NULL;
}

static bool accept_request(struct remote_receiver *r, const struct remote_receiver_request *q,
                           struct remote_receiver_reply *ret, unsigned *ret_message)
{
    const char *encoding = q->content_encoding;
    if (encoding && *encoding && !gs_streq(encoding, "snappy")) {
        remote_reply(
            ret, 415,
            "%s encoding (compression) is not accepted by this server; only snappy is acceptable",
            encoding);
        return false;
    }
    *ret_message = 0;
    GS_AUTO_ERROR struct gs_error *err = read_type(q->content_type, ret_message);
    if (err) {
        remote_reply(ret, 415, "%s", gs_error_message(err));
        return false;
    }
    if (r->messages & *ret_message)
        return true;
    remote_reply(ret, 415, "%s protobuf message is not accepted by this server; only accepts %s",
                 *ret_message == REMOTE_MESSAGE_V1 ? v1_name : v2_name,
                 *ret_message == REMOTE_MESSAGE_V1 ? v2_name : v1_name);
    return false;
}

static struct gs_error *store_message(struct remote_incoming *w, struct gs_slice message)
{
    bool more;
    struct gs_error *err =
        remote_decoder_init(&w->decoder, w->v2, message, remote_incoming_go_on, w);
    if (err)
        return err;
    while (!(err = remote_decoder_next(&w->decoder, &w->series, &more)) && more) {
        bool ok = store_series(w);
        remote_decoder_series_finish(&w->series);
        if (!ok) {
            err = gs_error_new(GS_ECONFLICT, "stopped");
            break;
        }
    }
    remote_decoder_finish(&w->decoder);
    return err;
}

static void finish_reply(struct remote_incoming *w)
{
    struct remote_receiver_reply *ret = w->reply;
    ret->has_counts = w->v2;
    ret->status = w->n_errors ? 400 : 204;
    if (w->v2 && w->n_errors > w->max_errors)
        gs_buf_addf(&ret->text, "\n%zu more errors", w->n_errors - w->max_errors);
    if (w->n_errors)
        remote_incoming_log(w->r, w);
}

// Decompresses and stores the body.
static struct gs_error *store_body(struct remote_incoming *w)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    struct gs_error *err =
        codec_unsnappy(w->q->body, REMOTE_MAX_DECODED, remote_incoming_go_on, w, &message);
    return err ? err : store_message(w, gs_buf_slice(&message));
}

void remote_receiver_write(struct remote_receiver *r, const struct remote_receiver_request *q,
                           struct remote_receiver_reply *ret)
{
    unsigned message;
    size_t size = 0;
    *ret = (struct remote_receiver_reply){0};
    if (!accept_request(r, q, ret, &message))
        return;
    GS_AUTO_ERROR struct gs_error *err = codec_snappy_size(q->body, &size);
    if (err) {
        remote_reply(ret, 400, "%s", gs_error_message(err));
        return;
    }
    if (size > REMOTE_MAX_DECODED) {
        remote_reply(ret, 400, "decoded size exceeds the %zu bytes limit", REMOTE_MAX_DECODED);
        return;
    }
    if (r->in_progress + size > REMOTE_MAX_IN_PROGRESS) {
        remote_reply(ret, 429, "more than %zu bytes of remote writes are in progress; try again",
                     REMOTE_MAX_IN_PROGRESS);
        return;
    }
    struct remote_incoming w = {.r = r,
                                .q = q,
                                .reply = ret,
                                .v2 = message == REMOTE_MESSAGE_V2,
                                .max_errors = message == REMOTE_MESSAGE_V2 ? REMOTE_MAX_ERRORS : 1,
                                .now_ms = gs_unix_ms(),
                                .turn_ns = gs_mono_ns()};
    r->in_progress += size;
    err = store_body(&w);
    r->in_progress -= size;
    if (!err)
        finish_reply(&w);
    else if (gs_error_code(err) != GS_ECONFLICT)
        remote_reply(ret, 400, "%s", gs_error_message(err));
}
