// SPDX-License-Identifier: Apache-2.0
// Stores for each series the time of the newest sample that the receiver has accepted or rejected.
// A sync compares these times with the store and sends newer samples in batches. The store itself
// is the backlog. Exemplars follow the samples of a sync, up to the number of the newest.
#include "engine/remote/remote_write.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/config/config.h"
#include "engine/remote/remote_private.h"
#include "metrics/write.h"
#include "net/http/client.h"
#include "tsdb/exemplars.h"

#define IDLE_MS       INT64_C(1000) // between syncs while batches are full
#define MAX_RETRY_S   INT64_C(3600)
#define DEFAULT_BATCH ((size_t)2000)

struct sent {
    uint64_t id; // hash of the labels, because numbers of series are reused
    int64_t t_ms;
};

struct mark {
    tsdb_ref ref;
    struct sent to;
};

struct remote_write {
    uv_loop_t *loop;
    struct tsdb *db;
    const struct engine_config_remote_write_config *cfg;
    const struct metrics_label *external;
    size_t n_external;
    int64_t start_ms; // older samples are not sent
    struct gs_timer *timer;
    struct http_client *client;
    struct http_op *op;

    struct sent *sent; // indexed by series number
    size_t sent_cap;
    struct tsdb_refs refs; // series of the current sync
    double *values;        // buffer of the current sync
    int64_t *newest;
    size_t turn_cap;
    size_t at; // index in refs
    uint64_t generation;
    bool in_turn;
    bool full; // the sync has sent a full batch

    struct gs_buf raw, body; // the batch; no batch if body is empty
    struct mark *marks;
    size_t n_marks, marks_cap;
    size_t batch_samples;
    struct tsdb_samples samples;
    uint64_t next_exemplar, batch_next_exemplar; // their numbers, before and after the batch
    uint64_t end_exemplar;                       // of the current sync
    size_t batch_exemplars;
    int64_t batch_exemplar_ms; // time of the newest
    struct metrics_label *own; // of a series
    size_t own_cap;
    struct metrics_label *labels;
    size_t labels_cap;
    struct engine_config_label_builder builder;
    int64_t backoff_ms;
    bool new_client;            // the configuration changed: the next request uses a new client
    bool last_turn;             // the current sync sends all samples that a flush requires
    void (*flushed)(void *arg); // NULL: no flush was requested
    void *flushed_arg;
    uint64_t samples_sent, bytes_sent, samples_failed, samples_retried, samples_dropped,
        samples_old;
    struct {
        uint64_t sent, failed, retried, dropped, old;
    } exemplars;
    int64_t newest_sent_ms;
};

static void arm_send_timer(struct remote_write *w, int64_t ms);

// --- what is to be sent ---

static uint64_t receiver_id(const struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    return gs_hash(l.pairs, l.n * sizeof(*l.pairs)) | 1; // 0: series without a sample
}

static void know(struct remote_write *w, tsdb_ref ref)
{
    uint64_t id = receiver_id(w->db, ref);
    if (ref >= w->sent_cap) {
        size_t cap = (size_t)ref * 2 + 1024;
        w->sent = gs_realloc_array(w->sent, cap, sizeof(*w->sent));
        memset(w->sent + w->sent_cap, 0, (cap - w->sent_cap) * sizeof(*w->sent));
        w->sent_cap = cap;
    }
    if (w->sent[ref].id != id)
        w->sent[ref] = (struct sent){id, w->start_ms - 1};
}

static void begin_turn(struct remote_write *w)
{
    bool first = !w->refs.items;
    w->at = 0;
    w->last_turn = w->flushed != NULL;
    w->full = false;
    w->end_exemplar = tsdb_exemplars_end(w->db);
    tsdb_refs_finish(&w->refs);
    // Cannot fail without a limit.
    gs_error_free(tsdb_find(w->db, NULL, 0, INT64_MIN, INT64_MAX, 0, &w->refs));
    size_t n = w->refs.len;
    if (n > w->turn_cap) {
        w->turn_cap = n * 2;
        w->values = gs_realloc_array(w->values, w->turn_cap, sizeof(*w->values));
        w->newest = gs_realloc_array(w->newest, w->turn_cap, sizeof(*w->newest));
    }
    if (first || tsdb_generation(w->db) != w->generation)
        for (size_t i = 0; i < n; i++)
            know(w, w->refs.items[i]);
    w->generation = tsdb_generation(w->db);
    tsdb_latest(w->db, w->refs.items, n, INT64_MAX, INT64_MIN, w->values, w->newest);
}

// The series of the store changed during a sync: continues after the last series, so that no series
// waits forever.
static void renew_turn(struct remote_write *w)
{
    tsdb_ref next = w->refs.items[w->at];
    bool full = w->full, last_turn = w->last_turn;
    uint64_t end_exemplar = w->end_exemplar;
    begin_turn(w);
    w->last_turn = last_turn; // series before this position may have new samples
    w->end_exemplar = end_exemplar;
    while (w->at < w->refs.len && w->refs.items[w->at] < next)
        w->at++;
    w->full = full;
}

static size_t add_external_label(struct remote_write *w, size_t n, struct gs_slice name,
                                 struct gs_slice value)
{
    gs_grow(&w->labels, &w->labels_cap, n, sizeof(*w->labels));
    w->labels[n] = (struct metrics_label){name, value};
    return n + 1;
}

// Merges the labels of a series and the external labels that it lacks. Both are sorted.
static size_t merge_labels(struct remote_write *w, const struct metrics_label *own, size_t n_own)
{
    size_t n = 0, e = 0;
    for (size_t i = 0; i < n_own; i++) {
        struct gs_slice name = own[i].name;
        int order = 1;
        for (; e < w->n_external && (order = gs_slice_compare(w->external[e].name, name)) < 0; e++)
            n = add_external_label(w, n, w->external[e].name, w->external[e].value);
        if (e < w->n_external && order == 0)
            e++;
        n = add_external_label(w, n, name, own[i].value);
    }
    for (; e < w->n_external; e++)
        n = add_external_label(w, n, w->external[e].name, w->external[e].value);
    return n;
}

// The labels of a series after relabeling. Returns false if relabeling drops it.
static bool relabel_series(struct remote_write *w, const struct metrics_label *own, size_t n_own,
                           const struct metrics_label **ret, size_t *ret_n)
{
    size_t n = merge_labels(w, own, n_own);
    *ret = w->labels;
    *ret_n = n;
    if (!w->cfg->write_relabel.n)
        return true;
    engine_config_labels_clear(&w->builder);
    for (size_t i = 0; i < n; i++)
        engine_config_labels_set(&w->builder, w->labels[i].name, w->labels[i].value);
    if (!engine_config_relabel(&w->cfg->write_relabel, &w->builder))
        return false;
    *ret = w->builder.items;
    *ret_n = w->builder.len;
    return w->builder.len > 0;
}

static bool labels_of(struct remote_write *w, tsdb_ref ref, const struct metrics_label **ret,
                      size_t *ret_n)
{
    struct tsdb_labels l = tsdb_series_labels(w->db, ref);
    const struct tsdb_symbols *symbols = tsdb_symbols(w->db);
    for (size_t i = 0; i < l.n; i++) {
        gs_grow(&w->own, &w->own_cap, i, sizeof(*w->own));
        w->own[i] = (struct metrics_label){tsdb_symbol_text(symbols, l.pairs[i].name),
                                           tsdb_symbol_text(symbols, l.pairs[i].value)};
    }
    return relabel_series(w, w->own, l.n, ret, ret_n);
}

static size_t max_batch(const struct remote_write *w)
{
    return w->cfg->max_samples_per_send ? w->cfg->max_samples_per_send : DEFAULT_BATCH;
}

// Skips samples at the start of the buffer that are older than sample_age_limit.
static void drop_old_samples(struct remote_write *w, tsdb_ref ref)
{
    struct tsdb_samples *s = &w->samples;
    size_t n = 0;
    if (!w->cfg->age_limit_ms)
        return;
    int64_t oldest = gs_unix_ms() - w->cfg->age_limit_ms;
    while (n < s->n && s->t[n] < oldest)
        n++;
    if (!n)
        return;
    w->sent[ref].t_ms = s->t[n - 1];
    w->samples_old += n;
    s->n -= n;
    memmove(s->t, s->t + n, s->n * sizeof(*s->t));
    memmove(s->v, s->v + n, s->n * sizeof(*s->v));
}

// True if the batch has waited too long for its receiver.
static bool batch_is_old(const struct remote_write *w)
{
    if (!w->cfg->age_limit_ms || !w->body.len)
        return false;
    int64_t oldest = gs_unix_ms() - w->cfg->age_limit_ms;
    if (w->batch_exemplars && w->batch_exemplar_ms >= oldest)
        return false;
    for (size_t i = 0; i < w->n_marks; i++)
        if (w->marks[i].to.t_ms >= oldest)
            return false;
    return true;
}

// Adds the new samples of the next series to the batch, as far as they fit.
static void fill_one(struct remote_write *w)
{
    tsdb_ref ref = w->refs.items[w->at];
    struct sent from = w->sent[ref];
    if (w->newest[w->at] <= from.t_ms) {
        w->at++;
        return;
    }
    tsdb_read(w->db, ref, from.t_ms + 1, w->newest[w->at], &w->samples);
    drop_old_samples(w, ref);
    size_t room = max_batch(w) - w->batch_samples, n = w->samples.n, n_labels;
    const struct metrics_label *labels;
    if (n && !labels_of(w, ref, &labels, &n_labels)) {
        w->samples_dropped += n; // drop all at once: they need no space
    } else if (n) {
        n = n < room ? n : room;
        remote_encode_series(&w->raw, labels, n_labels, w->samples.t, w->samples.v, n);
        w->batch_samples += n;
    }
    if (n) {
        gs_grow(&w->marks, &w->marks_cap, w->n_marks, sizeof(*w->marks));
        w->marks[w->n_marks++] = (struct mark){ref, {from.id, w->samples.t[n - 1]}};
    }
    w->at += n == w->samples.n;
}

static void add_exemplar(struct remote_write *w, const struct tsdb_exemplar_series *s,
                         const struct tsdb_exemplar *e)
{
    const struct metrics_label *labels;
    size_t n;
    if (w->cfg->age_limit_ms && e->t_ms < gs_unix_ms() - w->cfg->age_limit_ms) {
        w->exemplars.old++;
        return;
    }
    if (!relabel_series(w, s->labels, s->n_labels, &labels, &n)) {
        w->exemplars.dropped++;
        return;
    }
    remote_encode_exemplar(&w->raw, labels, n, e);
    if (!w->batch_exemplars || e->t_ms > w->batch_exemplar_ms)
        w->batch_exemplar_ms = e->t_ms;
    w->batch_exemplars++;
}

// Adds new exemplars to the batch, as far as they fit. They count as samples. Those that are newer
// than the sync wait for the samples of their series: Prometheus refuses exemplars of unknown
// series.
static void fill_exemplars(struct remote_write *w)
{
    struct tsdb_exemplar_series s;
    struct tsdb_exemplar e;
    w->batch_exemplars = 0;
    w->batch_next_exemplar = w->next_exemplar;
    if (!w->cfg->send_exemplars)
        w->batch_next_exemplar = tsdb_exemplars_end(w->db);
    while (w->batch_samples + w->batch_exemplars < max_batch(w)) {
        uint64_t before = w->batch_next_exemplar;
        if (!tsdb_exemplars_next(w->db, &w->batch_next_exemplar, &s, &e) ||
            w->batch_next_exemplar > w->end_exemplar) {
            w->batch_next_exemplar = before;
            break;
        }
        w->exemplars.old += w->batch_next_exemplar - before - 1; // left the store unsent
        add_exemplar(w, &s, &e);
    }
}

static void acknowledge(struct remote_write *w)
{
    w->next_exemplar = w->batch_next_exemplar;
    w->batch_exemplars = 0;
    for (size_t i = 0; i < w->n_marks; i++) {
        const struct mark *m = &w->marks[i];
        if (m->ref < w->sent_cap && w->sent[m->ref].id == m->to.id)
            w->sent[m->ref].t_ms = m->to.t_ms;
        if (m->to.t_ms > w->newest_sent_ms)
            w->newest_sent_ms = m->to.t_ms;
    }
    w->n_marks = 0;
    gs_buf_clear(&w->body);
    w->backoff_ms = w->cfg->min_backoff_ms;
}

// Returns false if there is nothing to send.
static bool fill_batch(struct remote_write *w)
{
    if (!w->in_turn)
        begin_turn(w);
    else if (w->at < w->refs.len && tsdb_generation(w->db) != w->generation)
        renew_turn(w);
    gs_buf_clear(&w->raw);
    w->n_marks = w->batch_samples = 0;
    while (w->at < w->refs.len && w->batch_samples < max_batch(w))
        fill_one(w);
    fill_exemplars(w);
    w->in_turn = w->raw.len > 0;
    if (!w->in_turn) {
        acknowledge(w); // samples that relabeling dropped count as sent
        return false;
    }
    w->full = w->full || w->batch_samples + w->batch_exemplars >= max_batch(w);
    remote_compress(gs_buf_slice(&w->raw), &w->body);
    return true;
}

// --- sending ---

static void retry(struct remote_write *w, const char *why, int64_t retry_after_s)
{
    gs_warn("remote_write", "%s: %s; the request is retried", w->cfg->url, why);
    int64_t delay = w->backoff_ms;
    if (retry_after_s > 0)
        delay = (retry_after_s < MAX_RETRY_S ? retry_after_s : MAX_RETRY_S) * 1000;
    w->samples_retried += w->batch_samples;
    w->exemplars.retried += w->batch_exemplars;
    w->backoff_ms *= 2;
    if (w->backoff_ms > w->cfg->max_backoff_ms)
        w->backoff_ms = w->cfg->max_backoff_ms;
    arm_send_timer(w, delay);
}

static void drop_batch(struct remote_write *w, const struct http_response *a)
{
    size_t shown = a->body.len < 200 ? a->body.len : 200;
    gs_err("remote_write", "%s: status %d, %zu samples and %zu exemplars dropped: %.*s",
           w->cfg->url, a->status, w->batch_samples, w->batch_exemplars, (int)shown,
           shown ? a->body.data : "");
    w->samples_failed += w->batch_samples;
    w->exemplars.failed += w->batch_exemplars;
    acknowledge(w);
    arm_send_timer(w, 0);
}

static void on_write_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct remote_write *w = arg;
    w->op = NULL;
    if (err) {
        retry(w, gs_error_message(err), 0);
        gs_error_free(err);
    } else if (a->status / 100 == 2) {
        w->samples_sent += w->batch_samples;
        w->exemplars.sent += w->batch_exemplars;
        w->bytes_sent += w->body.len;
        acknowledge(w);
        arm_send_timer(w, 0);
    } else if (a->status / 100 == 5 || a->status == 429) {
        GS_AUTO_FREE char *why = gs_format("status %d", a->status);
        retry(w, why, a->retry_after_s);
    } else {
        drop_batch(w, a);
    }
}

static void post_batch(struct remote_write *w)
{
    const struct engine_config_remote_write_config *cfg = w->cfg;
    GS_AUTO_FREE struct http_header *headers = gs_alloc_array(cfg->n_headers + 3, sizeof(*headers));
    GS_AUTO_FREE char **own = gs_alloc_array(2 * cfg->n_headers + 1, sizeof(char *));
    size_t n = 0;
    headers[n++] = (struct http_header){"Content-Encoding", "snappy"};
    headers[n++] = (struct http_header){"X-Prometheus-Remote-Write-Version", "0.1.0"};
    for (size_t i = 0; i < cfg->n_headers; i++) {
        own[2 * i] = gs_slice_dup(cfg->headers[i].name);
        own[2 * i + 1] = gs_slice_dup(cfg->headers[i].value);
        headers[n++] = (struct http_header){own[2 * i], own[2 * i + 1]};
    }
    const struct http_request request = {.method = "POST",
                                         .path = "",
                                         .headers = headers,
                                         .body = gs_buf_slice(&w->body),
                                         .content_type = "application/x-protobuf",
                                         .timeout_ms = (unsigned)cfg->timeout_ms,
                                         .max_reply = 1 << 20};
    static const struct http_callbacks callbacks = {.on_done = on_write_response};
    w->op = http_send(w->client, &request, &callbacks, w);
    for (size_t i = 0; i < 2 * cfg->n_headers; i++)
        free(own[i]);
}

static void send_batch(struct remote_write *w)
{
    static const struct endpoint_options options = {0};
    if (w->new_client) {
        http_client_free(w->client);
        w->client = NULL;
        w->new_client = false;
    }
    GS_AUTO_ERROR struct gs_error *err =
        w->client ? NULL
                  : endpoint_client_new(w->loop, w->cfg->url, &w->cfg->http, &options, &w->client);
    if (err)
        retry(w, gs_error_message(err), 0);
    else
        post_batch(w);
}

static void on_send_timer(void *arg)
{
    struct remote_write *w = arg;
    if (batch_is_old(w)) {
        w->samples_old += w->batch_samples;
        w->exemplars.old += w->batch_exemplars;
        acknowledge(w);
    }
    if (w->body.len || fill_batch(w)) {
        send_batch(w);
        return;
    }
    if (w->flushed && !w->last_turn) {
        arm_send_timer(w, 0);
        return;
    }
    arm_send_timer(w, w->full && IDLE_MS < w->cfg->batch_deadline_ms ? IDLE_MS
                                                                     : w->cfg->batch_deadline_ms);
    if (w->flushed)
        GS_TAKE(w->flushed)(w->flushed_arg);
}

static void arm_send_timer(struct remote_write *w, int64_t ms)
{
    gs_timer_start(w->timer, on_send_timer, ms > 0 ? (uint64_t)ms : 0);
}

// --- life ---

struct remote_write *remote_write_new(uv_loop_t *loop, struct tsdb *db,
                                      const struct engine_config_remote_write_config *cfg,
                                      const struct metrics_label *external_labels, size_t n)
{
    struct remote_write *w = gs_alloc(sizeof(*w));
    w->loop = loop;
    w->db = db;
    w->cfg = cfg;
    w->external = external_labels;
    w->n_external = n;
    w->start_ms = gs_unix_ms();
    w->next_exemplar = w->batch_next_exemplar = tsdb_exemplars_end(db);
    w->backoff_ms = cfg->min_backoff_ms;
    w->timer = gs_timer_new(loop, w);
    arm_send_timer(w, cfg->batch_deadline_ms);
    return w;
}

static void bound_backlog(int64_t *t, int64_t t_ms)
{
    if (*t > t_ms)
        *t = t_ms;
}

void remote_write_cut(struct remote_write *w, int64_t t_ms)
{
    bound_backlog(&w->start_ms, t_ms);
    bound_backlog(&w->newest_sent_ms, t_ms);
    for (size_t i = 0; i < w->sent_cap; i++)
        bound_backlog(&w->sent[i].t_ms, t_ms);
    for (size_t i = 0; i < w->n_marks; i++) // of the current batch
        bound_backlog(&w->marks[i].to.t_ms, t_ms);
}

bool remote_write_is(const struct remote_write *w,
                     const struct engine_config_remote_write_config *cfg)
{
    return gs_streq(w->cfg->url, cfg->url) &&
           gs_streq(w->cfg->name ? w->cfg->name : "", cfg->name ? cfg->name : "");
}

// The current batch is sent unchanged: the receiver may have accepted it, and would reject the same
// samples in another batch as out of order.
void remote_write_reconfigure(struct remote_write *w,
                              const struct engine_config_remote_write_config *cfg,
                              const struct metrics_label *external_labels, size_t n)
{
    w->cfg = cfg;
    w->external = external_labels;
    w->n_external = n;
    w->new_client = true;
    w->backoff_ms = cfg->min_backoff_ms;
    if (!w->op)
        arm_send_timer(w, 0);
}

void remote_write_flush(struct remote_write *w, void (*done)(void *arg), void *arg)
{
    w->flushed = done;
    w->flushed_arg = arg;
    if (!w->op)
        arm_send_timer(w, 0);
}

void remote_write_free(struct remote_write *w)
{
    if (!w)
        return;
    gs_timer_free(w->timer);
    http_op_cancel(w->op);
    http_client_free(w->client);
    tsdb_refs_finish(&w->refs);
    tsdb_samples_finish(&w->samples);
    engine_config_labels_finish(&w->builder);
    gs_buf_finish(&w->raw);
    gs_buf_finish(&w->body);
    free(w->sent);
    free(w->values);
    free(w->newest);
    free(w->marks);
    free(w->labels);
    free(w->own);
    free(w);
}

// reason: the value of a label; NULL: no such label.
static void receiver_metric(const struct remote_write *w, struct gs_buf *out, const char *name,
                            enum metrics_type type, const char *help, const char *reason,
                            double value)
{
    const struct metrics_label all[] = {
        {GS_SLICE("reason"), gs_slice_of(reason)},
        {GS_SLICE("remote_name"), gs_slice_of(w->cfg->name ? w->cfg->name : "")},
        {GS_SLICE("url"), gs_slice_of(w->cfg->url)},
    };
    const struct metrics_label *labels = reason ? all : all + 1;
    GS_AUTO_FREE char *type_line = gs_format("# TYPE %s ", name);
    if (!out->data || !strstr(out->data, type_line)) // another remote may have written it
        metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, labels, GS_ARRAY_LEN(all) - !reason, value);
}

static void metric(const struct remote_write *w, struct gs_buf *out, const char *name,
                   enum metrics_type type, const char *help, double value)
{
    receiver_metric(w, out, name, type, help, NULL, value);
}

void remote_write_metrics(const struct remote_write *w, struct gs_buf *out)
{
    static const char dropped[] = "prometheus_remote_storage_samples_dropped_total";
    static const char dropped_help[] =
        "Samples dropped by write_relabel_configs, or older than sample_age_limit.";
    metric(w, out, "prometheus_remote_storage_samples_total", METRICS_COUNTER,
           "Samples that the receiver accepted.", (double)w->samples_sent);
    metric(w, out, "prometheus_remote_storage_bytes_total", METRICS_COUNTER,
           "Bytes of compressed samples that the receiver accepted.", (double)w->bytes_sent);
    metric(w, out, "prometheus_remote_storage_samples_failed_total", METRICS_COUNTER,
           "Samples that the receiver rejected.", (double)w->samples_failed);
    metric(w, out, "prometheus_remote_storage_samples_retried_total", METRICS_COUNTER,
           "Samples in requests that were retried.", (double)w->samples_retried);
    receiver_metric(w, out, dropped, METRICS_COUNTER, dropped_help, "dropped_series",
                    (double)w->samples_dropped);
    receiver_metric(w, out, dropped, METRICS_COUNTER, dropped_help, "too_old",
                    (double)w->samples_old);
    static const char old[] = "prometheus_remote_storage_exemplars_dropped_total";
    static const char old_help[] = "Exemplars dropped by write_relabel_configs, or older than "
                                   "sample_age_limit or the store.";
    metric(w, out, "prometheus_remote_storage_exemplars_total", METRICS_COUNTER,
           "Exemplars that the receiver accepted.", (double)w->exemplars.sent);
    metric(w, out, "prometheus_remote_storage_exemplars_failed_total", METRICS_COUNTER,
           "Exemplars that the receiver rejected.", (double)w->exemplars.failed);
    metric(w, out, "prometheus_remote_storage_exemplars_retried_total", METRICS_COUNTER,
           "Exemplars in requests that were retried.", (double)w->exemplars.retried);
    receiver_metric(w, out, old, METRICS_COUNTER, old_help, "dropped_series",
                    (double)w->exemplars.dropped);
    receiver_metric(w, out, old, METRICS_COUNTER, old_help, "too_old", (double)w->exemplars.old);
    metric(w, out, "prometheus_remote_storage_queue_highest_sent_timestamp_seconds", METRICS_GAUGE,
           "Time of the newest sample that the receiver accepted.",
           (double)w->newest_sent_ms / 1000);
}
