// SPDX-License-Identifier: Apache-2.0
// Stores for each series the time of the newest sample that the receiver has accepted or rejected.
// A sync compares these times with the store and sends newer samples in batches. The store itself
// is the backlog. Exemplars follow the samples of a sync, up to the number of the newest. In 2.0
// they are sent together with the samples of their series, because Prometheus refuses them
// otherwise.
#include "engine/remote/remote_write.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "engine/config/config.h"
#include "engine/remote/send_private.h"
#include "tsdb/exemplars.h"

#define IDLE_MS       INT64_C(1000) // between syncs while batches are full
#define DEFAULT_BATCH ((size_t)2000)

// --- what is to be sent ---

static uint64_t receiver_id(const struct tsdb *db, tsdb_ref ref)
{
    return tsdb_labels_hash(tsdb_series_labels(db, ref)) | 1; // 0: series without a sample
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
        w->sent[ref] = (struct remote_sent){id, w->start_ms - 1};
}

static void list_series(struct remote_write *w)
{
    bool first = !w->refs.items;
    w->at = 0;
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

// No exemplar of the sync was taken yet.
static void begin_exemplars(struct remote_write *w)
{
    struct tsdb_exemplar_stats stats;
    tsdb_exemplars_stats(w->db, &stats);
    w->end_exemplar = tsdb_exemplars_end(w->db);
    w->taken_from = w->end_exemplar - stats.n;
    if (w->taken_from < w->next_exemplar)
        w->taken_from = w->next_exemplar;
    size_t bytes = (size_t)(w->end_exemplar - w->taken_from) / 8 + 1;
    if (bytes > w->taken_cap) {
        w->taken = gs_realloc_array(w->taken, bytes, 1);
        w->taken_cap = bytes;
    }
    memset(w->taken, 0, bytes);
}

static void begin_turn(struct remote_write *w)
{
    w->last_turn = w->flushed != NULL;
    w->full = false;
    begin_exemplars(w);
    list_series(w);
}

// The series of the store changed during a sync: continues after the last series, so that no series
// waits forever. Series before it may have new samples.
static void renew_turn(struct remote_write *w)
{
    tsdb_ref next = w->refs.items[w->at];
    list_series(w);
    while (w->at < w->refs.len && w->refs.items[w->at] < next)
        w->at++;
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
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        gs_grow(&w->own, &w->own_cap, i, sizeof(*w->own));
        w->own[i] = tsdb_labels_text_at(symbols, l, i);
    }
    return relabel_series(w, w->own, tsdb_labels_len(l), ret, ret_n);
}

static size_t max_batch(const struct remote_write *w)
{
    return w->cfg->max_samples_per_send ? w->cfg->max_samples_per_send : DEFAULT_BATCH;
}

static size_t room_of_batch(const struct remote_write *w)
{
    size_t used = w->batch_samples + w->batch_exemplars, max = max_batch(w);
    return used < max ? max - used : 0;
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
    w->n_samples.old += n;
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

// --- exemplars ---

static bool is_taken(const struct remote_write *w, uint64_t number)
{
    return number >= w->taken_from && number < w->end_exemplar &&
           w->taken[(number - w->taken_from) / 8] & 1u << (number - w->taken_from) % 8;
}

// True if it is too old, which is counted.
static bool exemplar_is_old(struct remote_write *w, const struct tsdb_exemplar *e)
{
    bool old = w->cfg->age_limit_ms && e->t_ms < gs_unix_ms() - w->cfg->age_limit_ms;
    w->n_exemplars.old += old;
    return old;
}

static void count_exemplar(struct remote_write *w, int64_t t_ms)
{
    if (!w->batch_exemplars || t_ms > w->batch_exemplar_ms)
        w->batch_exemplar_ms = t_ms;
    w->batch_exemplars++;
}

// Adds the exemplars of the series that the encoder writes. They count as samples, but the last
// series of a full batch can have some more.
static void take_exemplars(struct remote_write *w, tsdb_ref ref)
{
    const size_t max = max_batch(w) + max_batch(w) / 10 + 1;
    uint64_t number = w->taken_from;
    while (w->cfg->send_exemplars && w->batch_samples + w->batch_exemplars < max) {
        struct tsdb_exemplar_series s;
        struct tsdb_exemplar e;
        number = tsdb_exemplars_first_of(w->db, ref, number);
        if (!number || number >= w->end_exemplar)
            break;
        w->taken[(number - w->taken_from) / 8] |=
            (unsigned char)(1u << (number - w->taken_from) % 8);
        if (!tsdb_exemplars_next(w->db, &number, &s, &e) || exemplar_is_old(w, &e))
            continue;
        remote_encoder_exemplar(&w->encoder, &e);
        count_exemplar(w, e.t_ms);
    }
}

static void add_exemplar(struct remote_write *w, const struct tsdb_exemplar_series *s,
                         const struct tsdb_exemplar *e)
{
    const struct metrics_label *labels;
    size_t n;
    if (exemplar_is_old(w, e))
        return;
    if (!relabel_series(w, s->labels, s->n_labels, &labels, &n)) {
        w->n_exemplars.dropped++;
        return;
    }
    if (w->batch_v2) {
        remote_encoder_begin_series(&w->encoder, labels, n);
        remote_encoder_exemplar(&w->encoder, e);
        remote_encoder_end_series(&w->encoder);
    } else {
        remote_encode_exemplar(&w->raw, labels, n, e);
    }
    count_exemplar(w, e->t_ms);
}

// Those that have left the store unsent.
static uint64_t count_lost(const struct remote_write *w, uint64_t from, uint64_t to)
{
    uint64_t n = to - from;
    for (uint64_t i = from < w->taken_from ? w->taken_from : from; i < to; i++)
        n -= is_taken(w, i);
    return n;
}

// Adds new exemplars to the batch that are not sent with the samples of their series, as far as
// they fit. They count as samples. Those that are newer than the sync wait for the samples of their
// series: Prometheus refuses exemplars of unknown series.
static void fill_exemplars(struct remote_write *w)
{
    struct tsdb_exemplar_series s;
    struct tsdb_exemplar e;
    if (!w->cfg->send_exemplars)
        w->batch_next_exemplar = tsdb_exemplars_end(w->db);
    while (room_of_batch(w)) {
        uint64_t before = w->batch_next_exemplar;
        if (!tsdb_exemplars_next(w->db, &w->batch_next_exemplar, &s, &e) ||
            w->batch_next_exemplar > w->end_exemplar) {
            w->batch_next_exemplar = before;
            break;
        }
        w->n_exemplars.old += count_lost(w, before, w->batch_next_exemplar - 1);
        if (!is_taken(w, w->batch_next_exemplar - 1))
            add_exemplar(w, &s, &e);
    }
}

// --- batches ---

// Adds n samples of the buffer.
static void add_samples(struct remote_write *w, tsdb_ref ref, const struct metrics_label *labels,
                        size_t n_labels, size_t n)
{
    const struct tsdb_samples *s = &w->samples;
    w->batch_samples += n;
    if (!w->batch_v2) {
        remote_encode_series(&w->raw, labels, n_labels, s->t, s->v, n);
        return;
    }
    const struct metrics_metadata *metadata =
        remote_metadata_of(&w->metadata, tsdb_series_label(w->db, ref, "__name__"));
    remote_encoder_begin_series(&w->encoder, labels, n_labels);
    for (size_t i = 0; i < n; i++)
        remote_encoder_sample(&w->encoder, s->t[i], s->v[i]);
    if (n == s->n)
        take_exemplars(w, ref);
    if (metadata)
        remote_encoder_metadata(&w->encoder, metadata);
    remote_encoder_end_series(&w->encoder);
}

// Adds the new samples of the next series to the batch, as far as they fit.
static void fill_one(struct remote_write *w)
{
    tsdb_ref ref = w->refs.items[w->at];
    struct remote_sent from = w->sent[ref];
    if (w->newest[w->at] <= from.t_ms) {
        w->at++;
        return;
    }
    tsdb_read(w->db, ref, from.t_ms + 1, w->newest[w->at], &w->samples);
    drop_old_samples(w, ref);
    size_t room = room_of_batch(w), n = w->samples.n, n_labels;
    const struct metrics_label *labels;
    if (n && !labels_of(w, ref, &labels, &n_labels)) {
        w->n_samples.dropped += n; // drop all at once: they need no space
    } else if (n) {
        n = n < room ? n : room;
        add_samples(w, ref, labels, n_labels, n);
    }
    if (n) {
        gs_grow(&w->marks, &w->marks_cap, w->n_marks, sizeof(*w->marks));
        w->marks[w->n_marks++] = (struct remote_mark){ref, {from.id, w->samples.t[n - 1]}};
    }
    w->at += n == w->samples.n;
}

void remote_write_acknowledge(struct remote_write *w)
{
    w->next_exemplar = w->batch_next_exemplar;
    w->batch_exemplars = 0;
    for (size_t i = 0; i < w->n_marks; i++) {
        const struct remote_mark *m = &w->marks[i];
        if (m->ref < w->sent_cap && w->sent[m->ref].id == m->to.id)
            w->sent[m->ref].t_ms = m->to.t_ms;
        if (m->to.t_ms > w->newest_sent_ms)
            w->newest_sent_ms = m->to.t_ms;
    }
    w->n_marks = 0;
    gs_buf_clear(&w->body);
    w->backoff_ms = 0;
}

void remote_write_discard(struct remote_write *w)
{
    w->n_samples.dropped = w->samples_before.dropped;
    w->n_exemplars.dropped = w->exemplars_before.dropped;
    w->n_exemplars.old = w->exemplars_before.old;
    w->batch_next_exemplar = w->next_exemplar;
    w->n_marks = w->batch_samples = w->batch_exemplars = 0;
    gs_buf_clear(&w->body);
    w->in_turn = false;
}

static void begin_batch(struct remote_write *w)
{
    w->batch_v2 = w->cfg->v2 && w->negotiation == REMOTE_AS_CONFIGURED;
    w->samples_before = w->n_samples;
    w->exemplars_before = w->n_exemplars;
    w->n_marks = w->batch_samples = w->batch_exemplars = 0;
    w->written_samples = w->written_exemplars = 0;
    w->batch_next_exemplar = w->next_exemplar;
    if (w->batch_v2)
        remote_encoder_begin(&w->encoder);
    else
        gs_buf_clear(&w->raw);
}

// Returns false if there is nothing to send.
static bool fill_batch(struct remote_write *w)
{
    if (!w->in_turn)
        begin_turn(w);
    else if (w->at < w->refs.len && tsdb_generation(w->db) != w->generation)
        renew_turn(w);
    begin_batch(w);
    while (w->at < w->refs.len && room_of_batch(w))
        fill_one(w);
    fill_exemplars(w);
    w->in_turn = w->batch_v2 ? !remote_encoder_is_empty(&w->encoder) : w->raw.len > 0;
    if (!w->in_turn) {
        remote_write_acknowledge(w); // samples that relabeling dropped count as sent
        return false;
    }
    w->full = w->full || !room_of_batch(w);
    if (w->batch_v2)
        remote_encoder_end(&w->encoder, &w->body);
    else
        remote_compress(gs_buf_slice(&w->raw), &w->body);
    return true;
}

// --- timer ---

static void on_send_timer(void *arg)
{
    struct remote_write *w = arg;
    if (batch_is_old(w)) {
        w->n_samples.old += w->batch_samples;
        w->n_exemplars.old += w->batch_exemplars;
        remote_write_acknowledge(w);
    }
    if (w->body.len || fill_batch(w)) {
        remote_write_send(w);
        return;
    }
    if (w->flushed && !w->last_turn) {
        remote_write_arm(w, 0);
        return;
    }
    int64_t deadline_ms = remote_write_wait(w->cfg->batch_deadline_ms);
    remote_write_arm(w, w->full && IDLE_MS < deadline_ms ? IDLE_MS : deadline_ms);
    if (w->flushed)
        GS_TAKE(w->flushed)(w->flushed_arg);
}

void remote_write_arm(struct remote_write *w, int64_t ms)
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
    w->timer = gs_timer_new(loop, w);
    remote_write_arm(w, cfg->batch_deadline_ms);
    return w;
}

void remote_write_set_metadata(struct remote_write *w, remote_write_metadata_fn find, void *arg)
{
    w->metadata.find = find;
    w->metadata.arg = arg;
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
    w->negotiation = REMOTE_AS_CONFIGURED;
    w->backoff_ms = 0;
    if (!w->op)
        remote_write_arm(w, 0);
}

void remote_write_flush(struct remote_write *w, void (*done)(void *arg), void *arg)
{
    w->flushed = done;
    w->flushed_arg = arg;
    if (!w->op)
        remote_write_arm(w, 0);
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
    remote_metadata_finish(&w->metadata);
    remote_encoder_finish(&w->encoder);
    gs_buf_finish(&w->raw);
    gs_buf_finish(&w->body);
    free(w->sent);
    free(w->values);
    free(w->newest);
    free(w->marks);
    free(w->taken);
    free(w->labels);
    free(w->own);
    free(w);
}
