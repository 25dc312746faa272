// SPDX-License-Identifier: Apache-2.0
// The lines of the last complete scrape are cached in order as (hash, length, slot). A line at the
// same position needs one comparison. A line at another position needs a lookup in a table, which
// is created when the first line differs. A new line needs parsing of its labels, relabeling and
// the index of the store.
#include "engine/scrape/scrape.h"

#include "base/mem.h"
#include "engine/scrape/scrape_private.h"
#include "metrics/labels.h"
#include "tsdb/exemplars.h"

#define MAX_SAMPLES ((size_t)2000000) // per scrape
#define MAX_LINE    ((size_t)1 << 20)
#define MAX_LABELS  ((size_t)1024)
// Number of scrapes after which the metadata of an absent family is removed, as in Prometheus.
#define KEEP_METADATA 10
#define PAUSE_LINES   256             // lines between two calls of go_on
#define MAX_AHEAD_MS  INT64_C(600000) // for timestamps of samples, as in Prometheus

enum kind {
    LINE_NEW,     // not resolved yet
    LINE_SLOT,    // slot of the group
    LINE_TIMED,   // number of a series with timestamps
    LINE_DROPPED, // by metric_relabel_configs, or over a limit of one series
};

struct line {
    uint64_t hash;
    uint32_t len : 30;
    uint32_t kind : 2;
    uint32_t at; // slot or series number
};

struct lines {
    struct line *items;
    size_t n, cap;
};

enum report { REPORT_UP, REPORT_DURATION, REPORT_SCRAPED, REPORT_POST, REPORT_ADDED, N_REPORTS };

static const char *const report_names[N_REPORTS] = {
    [REPORT_UP] = "up",
    [REPORT_DURATION] = "scrape_duration_seconds",
    [REPORT_SCRAPED] = "scrape_samples_scraped",
    [REPORT_POST] = "scrape_samples_post_metric_relabeling",
    [REPORT_ADDED] = "scrape_series_added",
};

struct scrape_ingest {
    struct tsdb *db;
    const struct engine_config_scrape_config *cfg;
    struct gs_arena arena; // owns the strings of target
    struct scrape_sample_target target;
    struct tsdb_group *group;
    struct metrics_reader *reader;
    struct engine_config_label_builder builder;
    struct scrape_metadata *metadata;
    unsigned metadata_sweep_in; // scrapes until the metadata is swept; 0: unchanged
    bool metadata_sweeping;
    struct lines lines; // of the last complete scrape
    // Series of the last scrape with timestamps, if track_timestamps_staleness is set.
    struct scrape_timestamped_set timed;
    uint32_t report_slots[N_REPORTS];
    bool reports_cached;
    uint64_t epoch;   // of the group, for which the slots of the lines are right
    uint64_t changes; // of the store, for which series numbers are right; if has_timed
    bool has_timed;   // some line had a timestamp
    bool (*go_on)(void *arg);
    void *go_on_arg;
    struct ingestion *ingestion;  // the current scrape; NULL: none
    struct signals_page *signals; // NULL: none
    struct scrape_ingest_counts counts;
    int64_t refused_logged_ns; // 0: never
};

// The state of a scrape in progress.
struct ingestion {
    struct scrape_ingest *in;
    int64_t t_ms;
    size_t pos; // index in the cached lines at which the next line is expected
    // The lines differ from the cached ones: `fresh` has the lines so far, and `table` finds cached
    // ones.
    bool differs;
    struct lines fresh; // lines of this scrape
    uint32_t *table;    // index + 1: in the cached lines if below lines.n, else in fresh
    size_t table_cap;
    struct scrape_timestamped_scrape timed;
    size_t scraped, post, added, put;
    bool limit, full; // sample limit of the job reached; the store is full
    struct scrape_refused refused;
    bool whole;  // all lines were read
    bool paused; // other series may have been dropped meanwhile
    bool wants_exemplars;
    struct scrape_exemplars exemplars;
};

static void push_line(struct lines *l, struct line item)
{
    gs_grow(&l->items, &l->cap, l->n, sizeof(*l->items));
    l->items[l->n++] = item;
}

// --- metadata ---

static void on_metadata(void *arg, const struct metrics_metadata *m)
{
    struct scrape_ingest *in = arg;
    scrape_metadata_set(in->metadata, m);
}

// After a change, all lines are parsed again once, and families that they do not contain are
// removed.
static void metadata_scraped(struct scrape_ingest *in)
{
    bool changed = metrics_reader_metadata_changed(in->reader);
    if (in->metadata_sweeping) {
        in->metadata_sweeping = false;
        scrape_metadata_sweep(in->metadata);
        return;
    }
    if (changed && !in->metadata_sweep_in)
        in->metadata_sweep_in = KEEP_METADATA;
    if (in->metadata_sweep_in && --in->metadata_sweep_in == 0) {
        in->metadata_sweeping = true;
        metrics_reader_forget_metadata(in->reader);
        scrape_metadata_begin_sweep(in->metadata);
    }
}

// --- life ---

struct scrape_ingest *scrape_ingest_new(struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        const struct metrics_label *target_labels, size_t n)
{
    struct scrape_ingest *in = gs_alloc(sizeof(*in));
    in->db = db;
    in->cfg = cfg;
    in->target.items = gs_alloc_array(n ? n : 1, sizeof(*in->target.items));
    in->target.n = n;
    for (size_t i = 0; i < n; i++) {
        struct gs_slice name = target_labels[i].name, value = target_labels[i].value;
        in->target.items[i].name =
            gs_slice_make(gs_arena_strndup(&in->arena, name.data, name.len), name.len);
        in->target.items[i].value =
            gs_slice_make(gs_arena_strndup(&in->arena, value.data, value.len), value.len);
    }
    in->group = tsdb_group_new(db);
    in->reader = metrics_reader_new();
    in->metadata = scrape_metadata_new(tsdb_texts(db));
    metrics_reader_on_metadata(in->reader, on_metadata, in);
    return in;
}

void scrape_ingest_read_signals(struct scrape_ingest *in, struct signals_page *page)
{
    in->signals = page;
}

void scrape_ingest_free(struct scrape_ingest *in)
{
    if (!in)
        return;
    tsdb_group_free(in->group);
    metrics_reader_free(in->reader);
    scrape_metadata_free(in->metadata);
    engine_config_labels_finish(&in->builder);
    gs_arena_finish(&in->arena);
    free(in->target.items);
    free(in->lines.items);
    scrape_timestamped_set_finish(&in->timed);
    free(in);
}

static void forget_lines(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++)
        l->items[i].kind = LINE_NEW;
}

static void forget_free_slots(struct lines *l, const struct tsdb_group *g)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].kind == LINE_SLOT && tsdb_group_slot_is_free(g, l->items[i].at))
            l->items[i].kind = LINE_NEW;
}

// Series have left the store. Called before their slots can be assigned to other series.
static void check_slots(struct scrape_ingest *in)
{
    if (tsdb_group_epoch(in->group) == in->epoch)
        return;
    forget_free_slots(&in->lines, in->group);
    if (in->ingestion)
        forget_free_slots(&in->ingestion->fresh, in->group);
    in->reports_cached = false;
    in->epoch = tsdb_group_epoch(in->group);
}

// Forgets the numbers of series with timestamps that may belong to other series now.
static void check_numbers(struct scrape_ingest *in)
{
    if (!in->has_timed)
        return;
    uint64_t from = in->changes, end = tsdb_changes_end(in->db);
    bool kept = tsdb_changes_kept(in->db, from);
    struct tsdb_refs changed = {0};
    in->changes = end;
    if (from == end)
        return;
    if (kept)
        tsdb_changes_read(in->db, from, &changed);
    for (size_t i = 0; i < in->lines.n; i++) {
        struct line *l = &in->lines.items[i];
        if (l->kind == LINE_TIMED && (!kept || tsdb_refs_has(changed.items, changed.len, l->at)))
            l->kind = LINE_NEW;
    }
    tsdb_refs_finish(&changed);
}

static struct gs_error *begin(struct scrape_ingest *in, int64_t t_ms)
{
    struct gs_error *err = tsdb_group_begin(in->group, t_ms);
    if (!err)
        check_slots(in);
    return err;
}

void scrape_ingest_reconfigure(struct scrape_ingest *in,
                               const struct engine_config_scrape_config *cfg)
{
    in->cfg = cfg;
    if (!cfg->track_staleness) // otherwise the next scrape would end all of them
        scrape_timestamped_set_finish(&in->timed);
    forget_lines(&in->lines);
}

// --- the table of lines, for scrapes that are not like the last one ---

static struct line *line_at(struct ingestion *p, uint32_t i)
{
    struct lines *old = &p->in->lines;
    return i < old->n ? &old->items[i] : &p->fresh.items[i - old->n];
}

static void table_put(struct ingestion *p, uint32_t i)
{
    size_t mask = p->table_cap - 1, at = line_at(p, i)->hash & mask;
    while (p->table[at])
        at = (at + 1) & mask;
    p->table[at] = i + 1;
}

static void table_build(struct ingestion *p, size_t n)
{
    free(p->table);
    p->table_cap = 64;
    while (p->table_cap < n * 2)
        p->table_cap *= 2;
    p->table = gs_alloc_array(p->table_cap, sizeof(*p->table));
    for (size_t i = 0; i < p->in->lines.n + p->fresh.n; i++)
        table_put(p, (uint32_t)i);
}

// Returns the index, or UINT32_MAX if the line is not cached.
static uint32_t table_find(struct ingestion *p, const struct metrics_line *l)
{
    size_t mask = p->table_cap - 1;
    for (size_t at = l->hash & mask; p->table[at]; at = (at + 1) & mask) {
        const struct line *known = line_at(p, p->table[at] - 1);
        if (known->hash == l->hash && known->len == l->identity.len)
            return p->table[at] - 1;
    }
    return UINT32_MAX;
}

static void start_differing(struct ingestion *p)
{
    p->differs = true;
    for (size_t i = 0; i < p->pos; i++)
        push_line(&p->fresh, p->in->lines.items[i]);
    table_build(p, p->in->lines.n * 2);
}

// --- one line ---

static bool over_limit(const struct ingestion *p)
{
    return p->in->cfg->sample_limit && p->post >= p->in->cfg->sample_limit;
}

// The series may have had timestamps before.
static void saw_untimed(struct ingestion *p, const struct engine_config_label_builder *b)
{
    tsdb_ref ref;
    GS_AUTO_ERROR struct gs_error *err = tsdb_series_get(p->in->db, b->items, b->len, &ref);
    if (!err)
        scrape_timestamped_mark_seen(&p->timed, p->in->db, ref);
}

// Finds the series in the store. *k is unchanged if the store is full. A series over a limit of
// the store costs only itself. Limits that the configuration sets for the target fail the scrape,
// as in Prometheus.
static struct gs_error *find_series(struct ingestion *p, const struct metrics_line *l, bool timed,
                                    struct line *k)
{
    struct scrape_ingest *in = p->in;
    const struct engine_config_label_builder *b = &in->builder;
    GS_AUTO_ERROR struct gs_error *err = timed
                                             ? tsdb_series_get(in->db, b->items, b->len, &k->at)
                                             : tsdb_group_slot(in->group, b->items, b->len, &k->at);
    if (!err) {
        k->kind = timed ? LINE_TIMED : LINE_SLOT;
    } else if (gs_error_code(err) == GS_ELIMIT) {
        p->full = true;
    } else if (gs_error_code(err) == GS_EINVAL) {
        k->kind = LINE_DROPPED;
        scrape_refused_add(&p->refused, 1, l->identity, gs_error_message(err));
    } else {
        return GS_TAKE(err);
    }
    return NULL;
}

// Parses the labels, relabels them and finds the series in the store.
static struct gs_error *resolve_line(struct ingestion *p, const struct metrics_line *l, bool timed,
                                     struct line *k)
{
    struct scrape_ingest *in = p->in;
    const struct metrics_label *labels;
    size_t n;
    struct gs_error *err = metrics_reader_labels(in->reader, l, &labels, &n);
    if (err && gs_error_code(err) == GS_ELIMIT) {
        k->kind = LINE_DROPPED;
        scrape_refused_add(&p->refused, 1, l->identity, gs_error_message(err));
        gs_error_free(err);
        return NULL;
    }
    if (err) { // the line has no sample
        p->scraped--;
        return err;
    }
    struct engine_config_label_builder *b = &in->builder;
    scrape_sample_labels_merge(&in->target, in->cfg->honor_labels, labels, n, b);
    if (!engine_config_relabel(&in->cfg->metric_relabel, b) || !b->len) {
        k->kind = LINE_DROPPED;
        return NULL;
    }
    err = scrape_sample_labels_check(in->cfg, b);
    if (err || over_limit(p))
        return err;
    err = find_series(p, l, timed, k);
    if (err)
        return err;
    if (k->kind == LINE_TIMED && !in->has_timed) {
        in->has_timed = true;
        in->changes = tsdb_changes_end(in->db);
    }
    if (k->kind == LINE_SLOT && in->timed.n)
        saw_untimed(p, b);
    return NULL;
}

static void add_timed(struct ingestion *p, const struct metrics_line *l, const struct line *k,
                      bool is_new)
{
    if (l->timestamp_ms > p->t_ms + MAX_AHEAD_MS) {
        p->in->counts.out_of_order++;
        return;
    }
    scrape_timestamped_add(
        &p->timed, &(struct scrape_timestamped_sample){
                       .ref = k->at, .is_new = is_new, .t_ms = l->timestamp_ms, .value = l->value});
    if (l->exemplar.len && p->wants_exemplars)
        scrape_exemplars_add(&p->exemplars, &(struct scrape_exemplar){.ref = k->at,
                                                                      .timed = p->timed.n,
                                                                      .t_ms = l->timestamp_ms,
                                                                      .text = l->exemplar});
}

static void add_untimed(struct ingestion *p, const struct metrics_line *l, const struct line *k)
{
    if (!tsdb_group_put(p->in->group, k->at, l->value)) {
        p->in->counts.duplicates++;
        return;
    }
    p->put++;
    if (l->exemplar.len && p->wants_exemplars)
        scrape_exemplars_add(&p->exemplars,
                             &(struct scrape_exemplar){.ref = tsdb_group_ref(p->in->group, k->at),
                                                       .t_ms = p->t_ms,
                                                       .text = l->exemplar});
}

static struct gs_error *ingest_sample(struct ingestion *p, const struct metrics_line *l,
                                      struct line *k, bool unknown)
{
    bool timed = l->has_timestamp && p->in->cfg->honor_timestamps;
    bool fits = k->kind == (timed ? LINE_TIMED : LINE_SLOT) || k->kind == LINE_DROPPED;
    p->scraped++;
    if (p->in->signals)
        signals_page_line(p->in->signals, p->in->reader, l, k->kind == LINE_NEW);
    if (!fits) {
        struct gs_error *err = resolve_line(p, l, timed, k);
        if (err)
            return err;
    }
    if (k->kind == LINE_DROPPED)
        return NULL;
    bool over = over_limit(p);
    p->limit = p->limit || over;
    p->post++;
    if (over || k->kind == LINE_NEW)
        return NULL;
    p->added += unknown;
    if (timed)
        add_timed(p, l, k, unknown);
    else
        add_untimed(p, l, k);
    return NULL;
}

static struct gs_error *take_other(struct ingestion *p, const struct metrics_line *l)
{
    struct lines *old = &p->in->lines;
    if (!p->differs)
        start_differing(p);
    uint32_t found = table_find(p, l);
    struct line k = {.hash = l->hash, .len = (uint32_t)l->identity.len};
    if (found != UINT32_MAX)
        k = *line_at(p, found);
    if (found < old->n)
        p->pos = found + 1;
    struct gs_error *err = ingest_sample(p, l, &k, found == UINT32_MAX);
    if (err)
        return err;
    push_line(&p->fresh, k);
    if (found != UINT32_MAX)
        *line_at(p, found) = k;
    else if ((old->n + p->fresh.n) * 2 > p->table_cap)
        table_build(p, (old->n + p->fresh.n) * 2);
    else
        table_put(p, (uint32_t)(old->n + p->fresh.n - 1));
    return NULL;
}

static struct gs_error *ingest_line(struct ingestion *p, const struct metrics_line *l)
{
    struct lines *old = &p->in->lines;
    struct line *k = p->pos < old->n ? &old->items[p->pos] : NULL;
    if (!k || k->hash != l->hash || k->len != l->identity.len)
        return take_other(p, l);
    p->pos++;
    struct gs_error *err = ingest_sample(p, l, k, false);
    if (!err && p->differs)
        push_line(&p->fresh, *k);
    return err;
}

// After a pause, series numbers are still valid: series with values in this scrape are not dropped,
// and the numbers of others are reserved. Slots of the group may have become free.
static bool ingest_remaining(void *arg)
{
    struct scrape_ingest *in = arg;
    if (!in->go_on(in->go_on_arg))
        return false;
    in->ingestion->paused = true;
    check_slots(in);
    return true;
}

void scrape_ingest_on_pause(struct scrape_ingest *in, bool (*go_on)(void *arg), void *arg)
{
    in->go_on = go_on;
    in->go_on_arg = arg;
    metrics_reader_on_long_run(in->reader, go_on ? ingest_remaining : NULL, in);
}

static struct gs_error *read_body(struct ingestion *p, struct gs_slice body,
                                  enum metrics_format format)
{
    static const struct metrics_limits limits = {
        .max_line = MAX_LINE,
        .skip_over_limits = true,
        .max_labels = MAX_LABELS,
        .max_samples = MAX_SAMPLES,
    };
    struct gs_slice first_long;
    struct scrape_ingest *in = p->in;
    metrics_reader_start(in->reader, body, format, &limits);
    for (;;) {
        struct metrics_line l;
        bool more;
        if (p->pos < in->lines.n)
            metrics_reader_expect(in->reader, in->lines.items[p->pos].hash,
                                  in->lines.items[p->pos].len);
        struct gs_error *err = metrics_reader_next(in->reader, &l, &more);
        if (!err && !more)
            break;
        if (!err)
            err = ingest_line(p, &l);
        if (!err && in->go_on && p->scraped % PAUSE_LINES == 0 && !ingest_remaining(in))
            err = gs_error_new(GS_ECONFLICT, "line %zu: stopped", l.number);
        if (err)
            return err;
    }
    p->whole = true;
    size_t n_long = metrics_reader_skipped(in->reader, &first_long);
    if (n_long)
        scrape_refused_add(&p->refused, n_long, first_long, "the line is longer than 1 MiB");
    if (p->limit)
        return gs_error_new(GS_ELIMIT, "sample limit exceeded");
    // A partial scrape must not end the series that it lacks.
    if (p->full)
        return gs_error_new(GS_ELIMIT, "series limit of the store exceeded");
    metadata_scraped(in);
    return NULL;
}

// --- a scrape ---

// Finds the series about the scrape (such as up). They are the last of the scrape: a series of the
// target with the same name and labels has precedence, as in Prometheus.
static void find_reports(struct scrape_ingest *in)
{
    in->reports_cached = true;
    for (int i = 0; i < N_REPORTS; i++) {
        struct metrics_label name = {GS_SLICE("__name__"), gs_slice_of(report_names[i])};
        scrape_sample_labels_merge(&in->target, false, &name, 1, &in->builder);
        struct gs_error *err = tsdb_group_slot_always(in->group, in->builder.items, in->builder.len,
                                                      &in->report_slots[i]);
        in->reports_cached = in->reports_cached && !err;
        gs_error_free(err); // too many labels
    }
}

static void put_reports(struct scrape_ingest *in, const double values[N_REPORTS])
{
    if (!in->reports_cached)
        find_reports(in);
    for (int i = 0; in->reports_cached && i < N_REPORTS; i++)
        if (!tsdb_group_put(in->group, in->report_slots[i], values[i]))
            in->counts.duplicates++;
}

static void commit(struct scrape_ingest *in, int64_t t_ms, double up, double duration_s,
                   size_t expected)
{
    const double values[N_REPORTS] = {
        [REPORT_UP] = up,
        [REPORT_DURATION] = duration_s,
        [REPORT_SCRAPED] = (double)in->counts.scraped,
        [REPORT_POST] = (double)in->counts.post_relabeling,
        [REPORT_ADDED] = (double)in->counts.series_added,
    };
    size_t added, fresh;
    put_reports(in, values);
    tsdb_group_commit(in->group, &added, &fresh);
    if (added < expected)
        in->counts.out_of_order += expected - added;
}

static void keep_lines(struct ingestion *p)
{
    struct scrape_ingest *in = p->in;
    if (p->differs) {
        free(in->lines.items);
        in->lines = p->fresh;
        in->lines.cap = in->lines.n + 1; // no line is added to it
        in->lines.items =
            gs_realloc_array(in->lines.items, in->lines.cap, sizeof(*in->lines.items));
        p->fresh = (struct lines){0};
    } else {
        in->lines.n = p->pos; // lines at the end have disappeared
    }
    in->counts.known = in->lines.n;
}

static struct gs_error *format_of(const struct engine_config_scrape_config *cfg,
                                  const char *content_type, enum metrics_format *ret)
{
    struct gs_error *err = metrics_format_of(content_type, ret);
    if (!err)
        return NULL;
    if (cfg->fallback == ENGINE_CONFIG_FALLBACK_NONE)
        return gs_error_wrap(err, "unsupported Content-Type, and no fallback_scrape_protocol for "
                                  "the target");
    gs_error_free(err);
    *ret = cfg->fallback == ENGINE_CONFIG_FALLBACK_TEXT ? METRICS_TEXT : METRICS_OPENMETRICS;
    return NULL;
}

static struct gs_error *scrape(struct ingestion *p, struct gs_slice body, const char *content_type)
{
    enum metrics_format format;
    struct gs_error *err = format_of(p->in->cfg, content_type, &format);
    if (err || !body.len)
        return err;
    err = read_body(p, body, format);
    if (p->whole) // also over a limit: an equal next scrape then counts no new series
        keep_lines(p);
    return err;
}

static void ingestion_finish(struct ingestion *p)
{
    free(p->fresh.items);
    free(p->table);
    scrape_timestamped_scrape_finish(&p->timed);
    scrape_exemplars_finish(&p->exemplars);
}

// Most scrapes have no new lines and need no memory for labels. There are many targets.
static void release_scratch(struct scrape_ingest *in)
{
    engine_config_labels_finish(&in->builder);
    metrics_reader_trim(in->reader);
}

int64_t scrape_ingest_time(const struct scrape_ingest *in, int64_t now_ms)
{
    int64_t last_ms = tsdb_group_last_ms(in->group);
    return now_ms > last_ms ? now_ms : last_ms + 1;
}

static struct gs_error *scrape_and_commit(struct ingestion *p, struct gs_slice body,
                                          const char *content_type, double duration_s)
{
    struct scrape_ingest *in = p->in;
    int64_t t_ms = p->t_ms;
    if (!in->reports_cached) // before the target's series use the remaining capacity
        find_reports(in);
    struct gs_error *err = scrape(p, body, content_type);
    if (err && gs_error_code(err) == GS_ECONFLICT) {
        tsdb_group_rollback(in->group);
        return err;
    }
    in->counts.scraped = p->scraped;
    in->counts.post_relabeling = p->post;
    in->counts.series_added = p->added;
    if (err) {
        in->counts.limit_failures += gs_error_code(err) == GS_ELIMIT;
        tsdb_group_rollback(in->group);
        GS_AUTO_ERROR struct gs_error *again = begin(in, t_ms);
        if (!again)
            commit(in, t_ms, 0, duration_s, 0);
        scrape_timestamped_end_missing(&in->timed, NULL, in->db, t_ms);
    } else {
        commit(in, t_ms, 1, duration_s, p->put);
        scrape_timestamped_append(&p->timed, in->db, in->cfg->track_staleness, &in->counts);
        scrape_timestamped_end_missing(&in->timed, &p->timed, in->db, t_ms);
        scrape_exemplars_append(&p->exemplars, &p->timed, in->reader, in->db, &in->counts,
                                in->go_on ? ingest_remaining : NULL, in);
    }
    return err;
}

struct gs_error *scrape_ingest_text(struct scrape_ingest *in, struct gs_slice body,
                                    const char *content_type, int64_t t_ms, double duration_s)
{
    struct gs_error *err = begin(in, t_ms);
    if (err)
        return err;
    check_numbers(in);
    struct ingestion p = {
        .in = in, .t_ms = t_ms, .wants_exemplars = tsdb_exemplars_max(in->db) > 0};
    struct tsdb_isolation hold;
    if (in->go_on)
        tsdb_isolation_begin(in->db, &hold);
    in->ingestion = &p;
    err = scrape_and_commit(&p, body, content_type, duration_s);
    in->ingestion = NULL;
    if (in->has_timed && !p.paused) // all changes since its start are births of its own series
        in->changes = tsdb_changes_end(in->db);
    if (in->go_on)
        tsdb_isolation_end(in->db, &hold);
    in->counts.series_refused += p.refused.n;
    scrape_refused_finish(&p.refused, &in->target, &in->refused_logged_ns);
    ingestion_finish(&p);
    release_scratch(in);
    return err;
}

void scrape_ingest_failed(struct scrape_ingest *in, int64_t t_ms, double duration_s)
{
    GS_AUTO_ERROR struct gs_error *err = begin(in, t_ms);
    if (err)
        return;
    in->counts.scraped = in->counts.post_relabeling = in->counts.series_added = 0;
    commit(in, t_ms, 0, duration_s, 0);
    scrape_timestamped_end_missing(&in->timed, NULL, in->db, t_ms);
    release_scratch(in);
}

void scrape_ingest_end(struct scrape_ingest *in, int64_t t_ms)
{
    // In the same millisecond as a scrape, the marker would not be newer than the samples.
    t_ms = scrape_ingest_time(in, t_ms);
    GS_AUTO_ERROR struct gs_error *err = begin(in, t_ms);
    if (err)
        return;
    size_t added, fresh;
    tsdb_group_commit(in->group, &added, &fresh);
    scrape_timestamped_end_missing(&in->timed, NULL, in->db, t_ms);
}

void scrape_ingest_counts(const struct scrape_ingest *in, struct scrape_ingest_counts *ret)
{
    *ret = in->counts;
}

const struct scrape_metadata *scrape_ingest_metadata(const struct scrape_ingest *in)
{
    return in->metadata;
}
