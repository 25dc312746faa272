// SPDX-License-Identifier: Apache-2.0
// Metrics of OpenTelemetry become series as in Prometheus.
// https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "metrics/write.h"

#include <math.h>

#define DEFAULT_LOOKBACK_MS INT64_C(300000)
#define MAX_TARGET_INFO     100000 // samples of target_info of a request
#define MAX_SHOWN_NAME      200    // bytes

// --- settings ---

void remote_otlp_settings_unref(struct remote_otlp_settings *s)
{
    if (!s || --s->refs)
        return;
    for (size_t i = 0; i < s->o.n_attributes; i++)
        free((char *)(uintptr_t)s->names[i]);
    free(s);
}

static struct remote_otlp_settings *copy_settings(const struct engine_config_otlp *o)
{
    struct remote_otlp_settings *s = gs_alloc(sizeof(*s) + o->n_attributes * sizeof(*s->names));
    s->refs = 1;
    s->o = *o;
    for (size_t i = 0; i < o->n_attributes; i++)
        s->names[i] = gs_slice_dup(gs_slice_trim(gs_slice_of(o->attributes[i])));
    s->o.attributes = s->names;
    return s;
}

void remote_receiver_set_otlp(struct remote_receiver *r, const struct engine_config_otlp *o)
{
    remote_otlp_settings_unref(r->otlp);
    r->otlp = copy_settings(o);
}

// A metric with its points.
struct metric {
    struct gs_slice name, unit, data; // data: Gauge, Sum …
    unsigned kind;                    // OTLP_GAUGE …; 0: none
    uint64_t temporality;
    bool monotonic;
    bool failed; // its error is in the reply
};

// --- samples ---

// As Prometheus, a reply has one error of a metric.
static void refuse(struct remote_otlp *x, struct metric *m, struct gs_error *err)
{
    x->storage_error = x->storage_error || gs_error_code(err) == GS_ELIMIT;
    if (!m || !m->failed)
        remote_incoming_refuse(&x->w, "%s", gs_error_message(err));
    if (m)
        m->failed = true;
    gs_error_free(err);
}

// Puts name and labels into w.series. NULL: they are valid.
static struct gs_error *set_series(struct remote_otlp *x, const struct remote_label_set *labels)
{
    struct remote_decoder_series *s = &x->w.series;
    memcpy(s->labels, labels->items, labels->n * sizeof(*s->labels));
    s->n_labels = labels->full ? REMOTE_MAX_LABELS + 1 : labels->n;
    if (!remote_within_limits(&x->w)) { // it has added the error
        x->storage_error = true;
        return gs_error_new(GS_ELIMIT, "over a limit");
    }
    remote_sort_labels(s->labels, s->n_labels);
    if (remote_labels_valid(s))
        return NULL;
    GS_AUTO_FREE char *text = remote_labels_text(s);
    remote_incoming_refuse(&x->w, "invalid metric name or labels, got %s", text);
    x->storage_error = true;
    return gs_error_new(GS_ELIMIT, "invalid");
}

// name is followed by suffix. extra NULL: no further label. False: it was not stored.
static bool add_sample(struct remote_otlp *x, struct metric *m, const char *suffix,
                       const char *extra, double extra_value, uint64_t time, double v)
{
    struct remote_label_set labels = x->base;
    tsdb_ref ref = TSDB_NO_REF;
    if (x->stopped)
        return false;
    gs_buf_clear(&x->series_name);
    gs_buf_add_slice(&x->series_name, gs_buf_slice(&x->name));
    gs_buf_add_str(&x->series_name, suffix);
    if (extra) {
        gs_buf_clear(&x->number);
        remote_otlp_add_number(&x->number, extra_value);
        remote_otlp_set_label(&labels, gs_slice_of(extra), gs_buf_slice(&x->number));
    }
    remote_otlp_set_label(&labels, GS_SLICE("__name__"), gs_buf_slice(&x->series_name));
    GS_AUTO_ERROR struct gs_error *invalid = set_series(x, &labels);
    if (invalid) {
        x->w.r->invalid_labels++;
        m->failed = true;
        return false;
    }
    x->w.paused = true;
    struct gs_error *err = remote_incoming_append(&x->w, &ref, (int64_t)(time / 1000000), v);
    if (err) {
        x->w.r->refused++;
        x->storage_error = true;
        refuse(x, m, err);
    } else {
        x->w.reply->samples++;
        x->w.r->samples++;
    }
    x->stopped = !remote_incoming_go_on(&x->w);
    return !err && !x->stopped;
}

// The labels of a point, without its name.
static struct gs_error *set_base(struct remote_otlp *x)
{
    static const char *const ignored[] = {"__name__", NULL};
    x->base.n = 0;
    x->base.full = false;
    gs_arena_recycle(&x->arena);
    struct gs_error *err = remote_otlp_attribute_labels(x, &x->point, ignored, &x->base);
    if (err)
        return err;
    remote_otlp_merge(&x->base, &x->resource_labels, true);
    remote_otlp_merge(&x->base, &x->identity, false);
    remote_otlp_merge(&x->base, &x->scope_labels, false);
    return NULL;
}

// --- points ---

// The exemplars [from, to) of the sample that was just added, or not (stored).
static void store_exemplars(struct remote_otlp *x, bool stored, size_t from, size_t to)
{
    if (stored)
        remote_otlp_exemplars_store(x, from, to);
    else
        x->w.r->exemplars += to - from;
}

static struct gs_error *add_number_point(struct remote_otlp *x, struct metric *m,
                                         struct gs_slice point)
{
    struct codec_proto_token t;
    struct gs_slice rest = point;
    uint64_t time = 0, flags = 0;
    double v = 0;
    remote_otlp_exemplars_clear(x);
    while (remote_otlp_next(x, &rest, &t)) {
        if (t.number == OTLP_POINT_TIME)
            time = remote_otlp_bits_of(t.bytes);
        else if (t.number == OTLP_NUMBER_DOUBLE)
            v = remote_otlp_double_of(t.bytes);
        else if (t.number == OTLP_NUMBER_INT)
            v = (double)(int64_t)remote_otlp_bits_of(t.bytes);
        else if (t.number == OTLP_NUMBER_FLAGS)
            flags = t.varint;
        else if (t.number == OTLP_NUMBER_EXEMPLARS && m->kind == OTLP_SUM)
            remote_otlp_exemplars_collect(x, t.bytes);
        else if (t.number == OTLP_NUMBER_EXEMPLARS)
            x->w.r->exemplars++; // as in Prometheus, a gauge has none
    }
    remote_otlp_read_attributes(x, point, OTLP_NUMBER_ATTRIBUTES, &x->point);
    struct gs_error *err = set_base(x);
    if (err) {
        store_exemplars(x, false, 0, x->n_exemplars);
        return err;
    }
    if (flags & REMOTE_OTLP_NO_VALUE)
        v = tsdb_stale_marker();
    store_exemplars(x, add_sample(x, m, "", NULL, 0, time, v), 0, x->n_exemplars);
    return NULL;
}

static void add_numbers(struct gs_buf *out, const struct codec_proto_token *t)
{
    gs_buf_add_slice(out, t->bytes); // packed, or one
}

static void add_buckets(struct remote_otlp *x, struct metric *m, uint64_t time, double count,
                        bool none)
{
    size_t n = x->bounds.len < x->counts.len ? x->bounds.len : x->counts.len;
    uint64_t sum = 0;
    size_t exemplar = 0, next;
    bool stored;
    remote_otlp_exemplars_sort(x);
    for (size_t at = 0; at < n && !x->stopped; at += sizeof(uint64_t)) {
        double bound = remote_otlp_double_of(gs_slice_make(x->bounds.data + at, sizeof(uint64_t)));
        sum += remote_otlp_bits_of(gs_slice_make(x->counts.data + at, sizeof(uint64_t)));
        if (isinf(bound) && bound > 0) // its value is the count
            continue;
        stored = add_sample(x, m, "_bucket", "le", bound, time,
                            none ? tsdb_stale_marker() : (double)sum);
        next = remote_otlp_exemplars_up_to(x, exemplar, bound);
        store_exemplars(x, stored, exemplar, next);
        exemplar = next;
    }
    stored = add_sample(x, m, "_bucket", "le", INFINITY, time, count);
    store_exemplars(x, stored, exemplar, x->n_exemplars);
}

static struct gs_error *add_histogram_point(struct remote_otlp *x, struct metric *m,
                                            struct gs_slice point)
{
    struct codec_proto_token t;
    struct gs_slice rest = point;
    uint64_t time = 0, flags = 0, count = 0;
    double sum = 0;
    bool has_sum = false;
    gs_buf_clear(&x->counts);
    gs_buf_clear(&x->bounds);
    remote_otlp_exemplars_clear(x);
    while (remote_otlp_next(x, &rest, &t)) {
        if (t.number == OTLP_POINT_TIME) {
            time = remote_otlp_bits_of(t.bytes);
        } else if (t.number == OTLP_HISTOGRAM_COUNT) {
            count = remote_otlp_bits_of(t.bytes);
        } else if (t.number == OTLP_HISTOGRAM_SUM) {
            sum = remote_otlp_double_of(t.bytes);
            has_sum = true;
        } else if (t.number == OTLP_HISTOGRAM_COUNTS) {
            add_numbers(&x->counts, &t);
        } else if (t.number == OTLP_HISTOGRAM_BOUNDS) {
            add_numbers(&x->bounds, &t);
        } else if (t.number == OTLP_HISTOGRAM_FLAGS) {
            flags = t.varint;
        } else if (t.number == OTLP_HISTOGRAM_EXEMPLARS) {
            remote_otlp_exemplars_collect(x, t.bytes);
        }
    }
    remote_otlp_read_attributes(x, point, OTLP_HISTOGRAM_ATTRIBUTES, &x->point);
    struct gs_error *err = set_base(x);
    if (err) {
        store_exemplars(x, false, 0, x->n_exemplars);
        return err;
    }
    bool none = flags & REMOTE_OTLP_NO_VALUE;
    double n = none ? tsdb_stale_marker() : (double)count;
    if (has_sum)
        add_sample(x, m, "_sum", NULL, 0, time, none ? tsdb_stale_marker() : sum);
    add_sample(x, m, "_count", NULL, 0, time, n);
    add_buckets(x, m, time, n, none);
    return NULL;
}

static struct gs_error *add_summary_point(struct remote_otlp *x, struct metric *m,
                                          struct gs_slice point)
{
    struct codec_proto_token t;
    struct gs_slice rest = point;
    uint64_t time = 0, flags = 0, count = 0;
    double sum = 0;
    while (remote_otlp_next(x, &rest, &t)) {
        if (t.number == OTLP_POINT_TIME)
            time = remote_otlp_bits_of(t.bytes);
        else if (t.number == OTLP_SUMMARY_COUNT)
            count = remote_otlp_bits_of(t.bytes);
        else if (t.number == OTLP_SUMMARY_SUM)
            sum = remote_otlp_double_of(t.bytes);
        else if (t.number == OTLP_SUMMARY_FLAGS)
            flags = t.varint;
    }
    remote_otlp_read_attributes(x, point, OTLP_SUMMARY_ATTRIBUTES, &x->point);
    struct gs_error *err = set_base(x);
    if (err)
        return err;
    bool none = flags & REMOTE_OTLP_NO_VALUE;
    add_sample(x, m, "_sum", NULL, 0, time, none ? tsdb_stale_marker() : sum);
    add_sample(x, m, "_count", NULL, 0, time, none ? tsdb_stale_marker() : (double)count);
    while (remote_otlp_next(x, &point, &t)) {
        if (t.number != OTLP_SUMMARY_QUANTILES)
            continue;
        double q = remote_otlp_double_of(remote_otlp_field_of(x, t.bytes, OTLP_QUANTILE));
        double v = remote_otlp_double_of(remote_otlp_field_of(x, t.bytes, OTLP_QUANTILE_VALUE));
        add_sample(x, m, "", "quantile", q, time, none ? tsdb_stale_marker() : v);
    }
    return NULL;
}

// --- metrics ---

static struct metric read_metric(struct remote_otlp *x, struct gs_slice message)
{
    struct metric m = {.name = GS_SLICE(""), .unit = GS_SLICE(""), .data = GS_SLICE("")};
    struct codec_proto_token t;
    while (remote_otlp_next(x, &message, &t)) {
        if (t.number == OTLP_METRIC_NAME) {
            m.name = t.bytes;
        } else if (t.number == OTLP_METRIC_UNIT) {
            m.unit = t.bytes;
        } else if (t.number == OTLP_GAUGE || t.number == OTLP_SUM || t.number == OTLP_HISTOGRAM ||
                   t.number == OTLP_EXPONENTIAL || t.number == OTLP_SUMMARY) {
            m.kind = (unsigned)t.number;
            m.data = t.bytes;
        }
    }
    return m;
}

// Reads the times of the points, and what else the data has.
static void read_data(struct remote_otlp *x, struct metric *m)
{
    struct gs_slice data = m->data;
    struct codec_proto_token t;
    while (remote_otlp_next(x, &data, &t)) {
        if (t.number == OTLP_POINTS) {
            uint64_t time = remote_otlp_bits_of(remote_otlp_field_of(x, t.bytes, OTLP_POINT_TIME));
            x->min_time = time < x->min_time ? time : x->min_time;
            x->max_time = time > x->max_time ? time : x->max_time;
        } else if (t.number == OTLP_TEMPORALITY && m->kind != OTLP_GAUGE &&
                   m->kind != OTLP_SUMMARY) {
            m->temporality = t.varint;
        } else if (t.number == OTLP_MONOTONIC && m->kind == OTLP_SUM) {
            m->monotonic = t.varint;
        }
    }
}

static struct gs_error *check_metric(struct remote_otlp *x, const struct metric *m)
{
    struct gs_slice shown = m->name;
    if (shown.len > MAX_SHOWN_NAME)
        shown.len = MAX_SHOWN_NAME;
    if (!m->kind)
        return gs_error_new(GS_ENOTSUP,
                            "could not get aggregation temporality for " GS_SLICE_FMT
                            " as it has unsupported metric type Empty",
                            GS_SLICE_ARG(shown));
    bool timed = m->kind != OTLP_GAUGE && m->kind != OTLP_SUMMARY;
    if (timed && m->temporality != REMOTE_OTLP_CUMULATIVE)
        return gs_error_new(
            GS_ENOTSUP, "invalid temporality and type combination for metric \"" GS_SLICE_FMT "\"",
            GS_SLICE_ARG(shown));
    enum remote_otlp_kind kind = m->kind == OTLP_GAUGE ? REMOTE_OTLP_GAUGE
                                 : m->monotonic        ? REMOTE_OTLP_COUNTER
                                                       : REMOTE_OTLP_OTHER;
    gs_buf_clear(&x->name);
    return remote_otlp_metric_name(&x->settings->o, m->name, m->unit, kind, &x->name);
}

static struct gs_error *add_point(struct remote_otlp *x, struct metric *m, struct gs_slice point)
{
    switch (m->kind) {
    case OTLP_HISTOGRAM:
        return add_histogram_point(x, m, point);
    case OTLP_SUMMARY:
        return add_summary_point(x, m, point);
    case OTLP_EXPONENTIAL:
        x->rejected++;
        x->w.r->histograms++;
        return NULL;
    default:
        return add_number_point(x, m, point);
    }
}

static void add_metric(struct remote_otlp *x, struct gs_slice message)
{
    struct metric m = read_metric(x, message);
    struct codec_proto_token t;
    read_data(x, &m);
    struct gs_error *err = check_metric(x, &m);
    while (!err && remote_otlp_next(x, &m.data, &t)) {
        if (t.number == OTLP_POINTS)
            err = add_point(x, &m, t.bytes);
    }
    if (err)
        refuse(x, &m, err);
}

// --- target_info ---

// A sample that the series has already is not an error: resources can repeat in a request.
static bool has_sample(const struct remote_otlp *x, tsdb_ref ref, int64_t t_ms)
{
    double v;
    tsdb_latest(x->w.r->db, &ref, 1, t_ms, t_ms - 1, &v, NULL);
    return v == 1;
}

static bool add_info_sample(struct remote_otlp *x, struct metric *m, tsdb_ref *ref, int64_t t_ms)
{
    struct gs_error *err = NULL;
    if (++x->n_target_info > MAX_TARGET_INFO)
        err = gs_error_new(GS_ELIMIT, "more than %d samples of target_info", MAX_TARGET_INFO);
    else
        err = remote_incoming_append(&x->w, ref, t_ms, 1);
    if (err && !x->w.paused && has_sample(x, *ref, t_ms)) {
        gs_error_free(err);
        err = NULL;
    } else if (!err) {
        x->w.reply->samples++;
        x->w.r->samples++;
    }
    x->stopped = !remote_incoming_go_on(&x->w);
    if (!err)
        return !x->stopped;
    x->w.r->refused++;
    x->storage_error = true;
    refuse(x, m, err);
    return false;
}

static void add_info_samples(struct remote_otlp *x, struct metric *m)
{
    int64_t lookback_ms = x->w.r->lookback_ms > 1 ? x->w.r->lookback_ms : DEFAULT_LOOKBACK_MS;
    uint64_t interval = (uint64_t)(lookback_ms / 2) * 1000000;
    tsdb_ref ref = TSDB_NO_REF;
    x->w.paused = true;
    for (uint64_t t = x->min_time; t < x->max_time; t += interval) {
        if (!add_info_sample(x, m, &ref, (int64_t)(t / 1000000)))
            return;
        if (t > UINT64_MAX - interval)
            break;
    }
    add_info_sample(x, m, &ref, (int64_t)(x->max_time / 1000000));
}

static struct gs_error *add_target_info(struct remote_otlp *x)
{
    static const char *const identifying[] = {"service.namespace", "service.name",
                                              "service.instance.id", NULL};
    static const char *const none[] = {NULL};
    struct metric m = {0};
    size_t rest = x->resource.n;
    for (size_t i = 0; identifying[i]; i++)
        rest -= remote_otlp_find_attribute(&x->resource, identifying[i]) != NULL;
    if (!rest)
        return NULL;
    x->base.n = 0;
    x->base.full = false;
    gs_arena_recycle(&x->arena);
    struct gs_error *err = remote_otlp_attribute_labels(
        x, &x->resource, x->settings->o.keep_identifying ? none : identifying, &x->base);
    if (err)
        return err;
    remote_otlp_merge(&x->base, &x->identity, false);
    if (!remote_otlp_get_label(&x->base, GS_SLICE("job")) &&
        !remote_otlp_get_label(&x->base, GS_SLICE("instance")))
        return NULL;
    remote_otlp_set_label(&x->base, GS_SLICE("__name__"), GS_SLICE("target_info"));
    GS_AUTO_ERROR struct gs_error *invalid = set_series(x, &x->base);
    if (!invalid)
        add_info_samples(x, &m);
    return NULL;
}

// --- requests ---

static void add_scope(struct remote_otlp *x, struct gs_slice scope_metrics)
{
    struct codec_proto_token t;
    struct gs_error *err = remote_otlp_read_scope(x, scope_metrics);
    if (err) {
        refuse(x, NULL, err);
        return;
    }
    while (remote_otlp_next(x, &scope_metrics, &t))
        if (t.number == OTLP_METRICS)
            add_metric(x, t.bytes);
}

static void add_resource(struct remote_otlp *x, struct gs_slice message)
{
    struct codec_proto_token t;
    gs_arena_recycle(&x->scope_arena);
    x->min_time = UINT64_MAX;
    x->max_time = 0;
    struct gs_error *err =
        remote_otlp_read_resource(x, remote_otlp_field_of(x, message, OTLP_RESOURCE));
    while (!err && remote_otlp_next(x, &message, &t))
        if (t.number == OTLP_SCOPE_METRICS)
            add_scope(x, t.bytes);
    if (!err && !x->stopped && x->min_time < UINT64_MAX)
        err = add_target_info(x);
    if (err)
        refuse(x, NULL, err);
}

static struct gs_error *translate(struct remote_otlp *x, struct gs_slice message)
{
    struct codec_proto_token t;
    struct gs_error *err = remote_otlp_check(message, remote_incoming_go_on, &x->w);
    while (!err && remote_otlp_next(x, &message, &t))
        if (t.number == OTLP_RESOURCE_METRICS)
            add_resource(x, t.bytes);
    if (!err && x->stopped)
        err = gs_error_new(GS_ECONFLICT, "stopped");
    return err;
}

static const char media_protobuf[] = "application/x-protobuf";
static const char media_json[] = "application/json";

static struct gs_error *read_body(struct remote_otlp *x, bool json)
{
    const struct remote_receiver_request *q = x->w.q;
    GS_AUTO_BUF struct gs_buf plain = {0}, converted = {0};
    struct gs_slice body = q->body;
    if (gs_streq(q->content_encoding, "gzip")) {
        struct gs_error *err =
            codec_gunzip(body, REMOTE_MAX_DECODED, remote_incoming_go_on, &x->w, &plain);
        if (err)
            return err;
        body = gs_buf_slice(&plain);
    }
    if (json) {
        struct gs_error *err =
            remote_otlp_of_json(body, REMOTE_MAX_DECODED, remote_incoming_go_on, &x->w, &converted);
        if (err)
            return err;
        body = gs_buf_slice(&converted);
    }
    return translate(x, body);
}

// The ExportMetricsServiceResponse.
static void reply_stored(const struct remote_otlp *x, bool json)
{
    static const char why[] = "exponential histograms are not stored";
    struct gs_buf *out = &x->w.reply->text;
    x->w.reply->status = 200;
    x->w.reply->type = json ? media_json : media_protobuf;
    if (json && x->rejected) {
        gs_buf_addf(
            out, "{\"partialSuccess\":{\"rejectedDataPoints\":\"%llu\",\"errorMessage\":\"%s\"}}",
            (unsigned long long)x->rejected, why);
    } else if (json) {
        gs_buf_add_str(out, "{}");
    } else if (x->rejected) {
        GS_AUTO_BUF struct gs_buf part = {0};
        codec_proto_add_varint(&part, 1, x->rejected);
        codec_proto_add_bytes(&part, 2, GS_SLICE("exponential histograms are not stored"));
        codec_proto_add_bytes(out, 1, gs_buf_slice(&part));
    }
}

static void finish_reply(struct remote_otlp *x, bool json)
{
    struct remote_incoming *w = &x->w;
    if (!w->n_errors) {
        reply_stored(x, json);
        return;
    }
    w->reply->status = x->storage_error ? 400 : 500;
    if (w->n_errors > w->max_errors)
        gs_buf_addf(&w->reply->text, "\n%zu more errors", w->n_errors - w->max_errors);
    remote_incoming_log(w->r, w);
}

static bool read_type(const struct remote_receiver_request *q, struct remote_receiver_reply *ret,
                      bool *ret_json)
{
    struct gs_slice rest = gs_slice_of(q->content_type);
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&rest, ';'));
    const char *encoding = q->content_encoding;
    *ret_json = gs_slice_eq_str(type, media_json);
    if (!*ret_json && !gs_slice_eq_str(type, media_protobuf)) {
        remote_reply(ret, 400, "unsupported content type: %s, supported: [%s, %s]",
                     q->content_type ? q->content_type : "", media_json, media_protobuf);
        return false;
    }
    if (!encoding || !*encoding || gs_streq(encoding, "gzip"))
        return true;
    remote_reply(ret, 400, "unsupported compression: %s. Only \"gzip\" or no compression supported",
                 encoding);
    return false;
}

static struct remote_otlp_settings *ref_settings(struct remote_receiver *r)
{
    static const struct engine_config_otlp defaults = {.suffixes = true,
                                                       .escape = true,
                                                       .sanitize_underscores = true,
                                                       .preserve_underscores = true};
    if (!r->otlp)
        r->otlp = copy_settings(&defaults);
    r->otlp->refs++;
    return r->otlp;
}

void remote_receiver_otlp(struct remote_receiver *r, const struct remote_receiver_request *q,
                          struct remote_receiver_reply *ret)
{
    bool json;
    *ret = (struct remote_receiver_reply){0};
    if (!read_type(q, ret, &json))
        return;
    // The size after decompression and conversion is not known yet.
    bool grows = json || gs_streq(q->content_encoding, "gzip");
    size_t size = grows ? REMOTE_MAX_DECODED : q->body.len;
    if (r->in_progress + size > REMOTE_MAX_IN_PROGRESS) {
        remote_reply(ret, 429, "more than %zu bytes of pushed metrics are in progress; try again",
                     REMOTE_MAX_IN_PROGRESS);
        return;
    }
    struct remote_otlp *x = gs_alloc(sizeof(*x));
    x->w = (struct remote_incoming){.r = r,
                                    .q = q,
                                    .reply = ret,
                                    .max_errors = REMOTE_MAX_ERRORS,
                                    .now_ms = gs_unix_ms(),
                                    .turn_ns = gs_mono_ns()};
    x->settings = ref_settings(r);
    x->arena.limit = x->scope_arena.limit = x->exemplar_arena.limit = REMOTE_OTLP_ARENA;
    r->in_progress += size;
    GS_AUTO_ERROR struct gs_error *err = read_body(x, json);
    r->in_progress -= size;
    if (!err)
        finish_reply(x, json);
    else if (gs_error_code(err) != GS_ECONFLICT)
        remote_reply(ret, 400, "%s", gs_error_message(err));
    gs_arena_finish(&x->arena);
    gs_arena_finish(&x->scope_arena);
    gs_arena_finish(&x->exemplar_arena);
    free(x->exemplars);
    gs_buf_finish(&x->name);
    gs_buf_finish(&x->series_name);
    gs_buf_finish(&x->number);
    gs_buf_finish(&x->counts);
    gs_buf_finish(&x->bounds);
    remote_otlp_settings_unref(x->settings);
    free(x);
}
