// SPDX-License-Identifier: Apache-2.0
// Life cycle of a store: opening, recovery, maintenance, statistics.
#include "tsdb/tsdb_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"

#define DEFAULT_RETENTION_MS INT64_C(7200000)
#define DEFAULT_MAX_SERIES   ((size_t)2000000)
// The number of series that one call of tsdb_gc() visits, so that it takes a few milliseconds. More
// if memory is over its limit.
#define GC_SERIES_A_CALL    ((size_t)50000)
#define EVICT_SERIES_A_CALL ((size_t)250000)
#define WARN_EVERY_MS       INT64_C(60000)
#define RECOVERY_REPORT_NS  (20 * GS_NS_PER_MS)

struct tsdb *tsdb_new(const struct tsdb_config *cfg)
{
    struct tsdb *db = gs_alloc(sizeof(*db));
    if (cfg)
        db->cfg = *cfg;
    if (!db->cfg.retention_ms)
        db->cfg.retention_ms = DEFAULT_RETENTION_MS;
    if (!db->cfg.max_series)
        db->cfg.max_series = DEFAULT_MAX_SERIES;
    gs_thread_owner_bind(&db->owner);
    db->symbols = tsdb_symbols_new();
    db->texts = tsdb_symbols_new();
    db->first_free = TSDB_NO_REF;
    db->newest_ms = db->evicted_until_ms = INT64_MIN;
    db->warned_ms = -WARN_EVERY_MS;
    TAILQ_INIT(&db->groups);
    TAILQ_INIT(&db->holds);
    tsdb_index_init(db);
    return db;
}

void tsdb_free(struct tsdb *db)
{
    if (!db)
        return;
    tsdb_snapshots_close(db->snapshots);
    tsdb_wal_close(db->wal);
    tsdb_index_finish(db);
    tsdb_series_table_finish(db);
    tsdb_regions_finish(&db->heap.regions);
    tsdb_exemplars_finish(db);
    tsdb_symbols_free(db->symbols);
    tsdb_symbols_free(db->texts);
    free(db);
}

bool tsdb_recovery_continues(struct tsdb *db, uint64_t bytes)
{
    int64_t now = gs_mono_ns();
    db->recovery.done += bytes;
    if (!db->cfg.on_recovery || db->recovery.stopped ||
        now - db->recovery.logged_ns < RECOVERY_REPORT_NS)
        return !db->recovery.stopped;
    db->recovery.stopped = !db->cfg.on_recovery(db->cfg.arg, db->recovery.done, db->recovery.total);
    db->recovery.logged_ns = gs_mono_ns();
    return !db->recovery.stopped;
}

struct gs_error *tsdb_open(const struct tsdb_config *cfg, struct tsdb **ret)
{
    struct tsdb *db = tsdb_new(cfg);
    db->cfg.storage_path = NULL;
    if (!cfg || !cfg->storage_path) {
        *ret = db;
        return NULL;
    }
    GS_AUTO_FREE char *dir = gs_format("%s/wal", cfg->storage_path);
    struct tsdb_wal *wal;
    struct gs_error *err = tsdb_wal_open(
        &(struct tsdb_wal_config){.dir = dir, .retention_ms = db->cfg.retention_ms}, &wal);
    if (err) {
        tsdb_free(db);
        return err;
    }
    struct tsdb_snapshots *snapshots =
        tsdb_snapshots_open(&(struct tsdb_snapshot_config){.dir = dir,
                                                           .retention_ms = db->cfg.retention_ms,
                                                           .log_bytes = cfg->snapshot_bytes,
                                                           .max_bytes = cfg->max_file_bytes});
    db->recovery.total = tsdb_snapshots_bytes(snapshots) + tsdb_wal_bytes(wal);
    tsdb_snapshots_recover(snapshots, db, gs_unix_ms(), &db->recovered);
    tsdb_wal_recover(wal, db, gs_unix_ms(), &db->recovered);
    if (db->recovery.stopped) {
        tsdb_snapshots_close(snapshots);
        tsdb_wal_close(wal);
        tsdb_free(db);
        return gs_error_new(GS_EUNAVAIL, "%s: stopped while the write-ahead log was read", dir);
    }
    db->snapshots = snapshots;
    db->wal = wal;
    if (db->recovered.corrupt)
        gs_warn("tsdb",
                "%s: %llu records in %llu files are incomplete or corrupt; their samples are lost. "
                "The first of these files is %s",
                dir, (unsigned long long)db->recovered.corrupt,
                (unsigned long long)db->recovered.damaged, db->recovered.first_damaged);
    *ret = db;
    return NULL;
}

const struct tsdb_symbols *tsdb_symbols(const struct tsdb *db)
{
    return db->symbols;
}

struct tsdb_symbols *tsdb_texts(struct tsdb *db)
{
    return db->texts;
}

uint64_t tsdb_generation(const struct tsdb *db)
{
    return db->generation;
}

uint64_t tsdb_rejected_samples(const struct tsdb *db)
{
    return db->duplicates + db->out_of_order;
}

int tsdb_disk_error(const struct tsdb *db)
{
    struct tsdb_wal_status status = {0};
    if (db->wal)
        tsdb_wal_status(db->wal, &status);
    return status.error;
}

int64_t tsdb_newest_ms(const struct tsdb *db)
{
    return db->newest_ms;
}

size_t tsdb_series_count(const struct tsdb *db)
{
    return db->n_live;
}

// Groups with rows drop old samples of their series themselves.
static void collect_series(struct tsdb *db, tsdb_ref ref, int64_t oldest_ms, bool evicting,
                           struct tsdb_refs *dropped)
{
    struct tsdb_series *s = &db->series[ref];
    if (evicting || !s->group || s->group->last_ms < oldest_ms)
        tsdb_series_expire(db, s, oldest_ms);
    if (tsdb_chunks_empty(&s->samples) && !s->shared_by && !s->unsettled &&
        (!s->group || tsdb_group_slot_idle(s->group, s->samples.slot))) {
        gs_grow(&dropped->items, &dropped->cap, dropped->len, sizeof(*dropped->items));
        dropped->items[dropped->len++] = ref;
    }
}

static void find_oldest(const struct tsdb *db, int64_t *ret_min)
{
    int64_t first, last;
    *ret_min = INT64_MAX;
    for (size_t i = 0; i < db->n_series; i++)
        if (tsdb_series_span(&db->series[i], &first, &last) && first < *ret_min)
            *ret_min = first;
}

static size_t bytes_of_symbols(const struct tsdb *db)
{
    return tsdb_symbols_bytes(db->symbols) + tsdb_symbols_bytes(db->texts);
}

static size_t bytes_of_series(const struct tsdb *db)
{
    return db->series_cap * sizeof(*db->series) + tsdb_label_sets_bytes(&db->label_sets);
}

static size_t bytes_held(const struct tsdb *db)
{
    return (size_t)db->heap.bytes + tsdb_index_bytes(db) + bytes_of_series(db) +
           bytes_of_symbols(db);
}

// Over the byte limit, the oldest eighth of the time range is dropped. It takes several calls to
// visit all series. Returns the time before which samples are dropped.
static int64_t update_eviction(struct tsdb *db, int64_t oldest_ms, int64_t now_ms)
{
    size_t bytes = db->cfg.max_bytes && !db->evict_left ? bytes_held(db) : 0;
    if (bytes > db->cfg.max_bytes) {
        int64_t min_ms;
        find_oldest(db, &min_ms);
        if (min_ms < db->newest_ms)
            db->evicted_until_ms = min_ms + (db->newest_ms - min_ms) / 8 + 1;
        db->evict_left = db->n_series;
        if (now_ms - db->warned_ms >= WARN_EVERY_MS)
            gs_warn("tsdb",
                    "%zu MiB exceed the limit of %zu MiB: samples are dropped before their "
                    "retention ends",
                    bytes >> 20, db->cfg.max_bytes >> 20);
        if (now_ms - db->warned_ms >= WARN_EVERY_MS)
            db->warned_ms = now_ms;
    }
    return oldest_ms > db->evicted_until_ms ? oldest_ms : db->evicted_until_ms;
}

static void drop_collected(struct tsdb *db, struct tsdb_refs *dropped)
{
    tsdb_series_drop_all(db, dropped->items, dropped->len);
    dropped->len = 0;
}

// For debug builds: checks the number of series, and that groups and series refer to each other.
static bool is_consistent(const struct tsdb *db)
{
    size_t live = 0;
    const struct tsdb_group *g;
    for (size_t i = 0; i < db->n_series; i++)
        live += db->series[i].set && db->series[i].shared_by != TSDB_SERIES_DEAD;
    bool ok = live == db->n_live;
    TAILQ_FOREACH (g, &db->groups, all) {
        size_t loose = 0;
        for (uint32_t i = 0; i < g->n && ok; i++) {
            if (g->refs[i] == TSDB_NO_REF)
                continue;
            const struct tsdb_series *s = &db->series[g->refs[i]];
            loose += g->loose[i];
            ok = s->set && (g->loose[i] ? s->shared_by > 0 : s->group == g && s->samples.slot == i);
        }
        ok = ok && loose == g->n_loose;
    }
    return ok;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

void tsdb_gc(struct tsdb *db, int64_t now_ms)
{
    gs_thread_owner_assert(&db->owner);
    int64_t retained = now_ms - db->cfg.retention_ms;
    int64_t oldest = update_eviction(db, retained, now_ms);
    bool evicting = oldest > retained;
    uint64_t held = db->samples_held;
    size_t n = min_size(db->n_series, db->evict_left ? EVICT_SERIES_A_CALL : GC_SERIES_A_CALL);
    db->evict_left -= min_size(db->evict_left, n);
    struct tsdb_refs dropped = {0};
    for (size_t i = 0; i < n; i++) {
        if (db->gc_at >= db->n_series) {
            db->gc_at = 0;
            drop_collected(db, &dropped); // all numbers up to here are ascending
        }
        if (db->series[db->gc_at].set)
            collect_series(db, db->gc_at, oldest, evicting, &dropped);
        db->gc_at++;
    }
    drop_collected(db, &dropped);
    tsdb_refs_finish(&dropped);
    if (evicting)
        db->evicted += held - db->samples_held;
    gs_assert_debug(is_consistent(db));
}

void tsdb_set_grace(struct tsdb *db, int64_t ms)
{
    int64_t more = ms - db->grace_ms;
    db->grace_ms = ms;
    db->cfg.retention_ms += more;
    if (!db->wal)
        return;
    tsdb_wal_add_retention(db->wal, more);
    tsdb_snapshots_add_retention(db->snapshots, more);
}

uint64_t tsdb_delete_after(struct tsdb *db, int64_t t_ms)
{
    gs_thread_owner_assert(&db->owner);
    uint64_t cut = 0;
    struct tsdb_group *g;
    if (db->newest_ms <= t_ms)
        return 0;
    TAILQ_FOREACH (g, &db->groups, all)
        tsdb_group_flush(g);
    for (size_t i = 0; i < db->n_series; i++)
        if (db->series[i].set && db->series[i].shared_by != TSDB_SERIES_DEAD)
            tsdb_chunks_delete_after(&db->series[i].samples, t_ms, &cut, &db->heap);
    TAILQ_FOREACH (g, &db->groups, all)
        tsdb_group_restart(g, t_ms);
    db->newest_ms = t_ms;
    if (db->evicted_until_ms > t_ms)
        db->evicted_until_ms = t_ms;
    db->generation++;
    tsdb_changes_forget(db); // ends were cut, too
    db->samples_held -= cut;
    db->cut += cut;
    if (db->wal)
        tsdb_wal_put_delete_after(db->wal, t_ms);
    return cut;
}

void tsdb_sync(struct tsdb *db)
{
    gs_thread_owner_assert(&db->owner);
    if (!db->wal)
        return;
    tsdb_wal_flush(db->wal, gs_unix_ms());
    tsdb_snapshots_step(db->snapshots, db, db->wal, gs_unix_ms());
}

void tsdb_stats(const struct tsdb *db, struct tsdb_stats *ret)
{
    *ret = (struct tsdb_stats){
        .series = db->n_live,
        .chunks = db->n_live,
        .symbols = tsdb_symbols_len(db->symbols),
        .label_pairs = gs_hmap_len(db->postings),
        .samples_appended = db->appended,
        .out_of_order = db->out_of_order,
        .duplicates = db->duplicates,
        .series_refused = db->refused,
        .evicted_samples = db->evicted,
        .cut_samples = db->cut,
        .bytes_samples = (size_t)db->heap.bytes,
        .bytes_index = tsdb_index_bytes(db) + bytes_of_series(db),
        .bytes_symbols = bytes_of_symbols(db),
        .max_t_ms = db->newest_ms,
        .wal_corrupt_records = db->recovered.corrupt,
    };
    find_oldest(db, &ret->min_t_ms);
    ret->bytes = bytes_held(db);
    if (!db->wal)
        return;
    struct tsdb_wal_status status;
    tsdb_wal_status(db->wal, &status);
    ret->wal_on = true;
    ret->wal_failing = status.failing;
    ret->blocks_bytes = tsdb_snapshots_bytes(db->snapshots);
    ret->wal_bytes = status.bytes + ret->blocks_bytes;
    ret->wal_errors = status.errors;
}
