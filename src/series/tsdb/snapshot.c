// SPDX-License-Identifier: Apache-2.0
// Saves chunks to files in steps between other work. A save writes sealed chunks and maps them
// afterwards, which frees their memory; a snapshot also writes open chunks, and makes the
// write-ahead log before it unnecessary.
// States: resting -> writing (series by series; new samples continue) -> mapping, after the fsync
// -> resting. A failure leaves the log and the chunks in memory as they are.
#include "tsdb/wal.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "tsdb/tsdb_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_LOG_BYTES ((uint64_t)128 << 20)
#define DEFAULT_EVERY_MS  INT64_C(300000)
// Even with few samples, so that the size of the log is bounded.
#define AT_LEAST_MS   INT64_C(3600000)
#define SERIES_A_STEP ((size_t)30000) // about 20 ms
#define BUFFER_BYTES  ((size_t)1 << 20)
#define REST_EVERY_MS INT64_C(10000)
// Chunks are saved if they use more than a megabyte and more than an eighth of the bytes of all
// samples.
#define SAVE_BYTES ((ptrdiff_t)1 << 20)
#define SAVE_PART  8
#define RETRY_MS   INT64_C(10000) // after a failed save

struct tsdb_snapshots {
    char *dir;
    int64_t retention_ms, every_ms;
    uint64_t log_bytes, max_bytes;
    struct tsdb_wal_files files;
    // state of the current save
    enum { RESTING, WRITING, MAPPING } state;
    bool whole; // a snapshot: contains open chunks, too, and allows deleting the log before it
    bool failed;
    bool failure_logged; // the failure has been logged
    // The last snapshot failed: write all chunks, because open chunks that it marked as written are
    // not.
    bool all;
    int64_t oldest_ms; // older samples are dropped during the save
    int fd;
    struct gs_buf buffer;
    uint64_t round;   // number of this save, stored in the groups that it has flushed
    tsdb_ref at;      // next series
    uint64_t next_id; // of labels and time columns in the file
    // First log segment after the snapshot; older ones are deleted when the file is durable.
    unsigned log_from;
    struct tsdb_file_sync *sync; // fsync of the file in progress
    int64_t began_ms, rested_ms;
    int64_t whole_ms;     // start of the last snapshot
    uint64_t whole_bytes; // bytes of the log at that time
    // Ids of labels and time columns that were assigned in this step. Their addresses may be reused
    // in the next one.
    struct gs_hmap *labels, *times;
};

struct tsdb_snapshots *tsdb_snapshots_open(const struct tsdb_snapshot_config *cfg)
{
    struct tsdb_snapshots *s = gs_alloc(sizeof(*s));
    s->dir = gs_strdup(cfg->dir);
    s->retention_ms = cfg->retention_ms;
    s->every_ms = cfg->every_ms ? cfg->every_ms : DEFAULT_EVERY_MS;
    s->log_bytes = cfg->log_bytes ? cfg->log_bytes : DEFAULT_LOG_BYTES;
    s->max_bytes = cfg->max_bytes;
    s->fd = -1;
    s->labels = gs_hmap_new(NULL);
    s->times = gs_hmap_new(NULL);
    // tsdb_wal_open() has reported a directory that cannot be read.
    gs_error_free(tsdb_wal_files_list(&s->files, cfg->dir, "blocks-"));
    return s;
}

void tsdb_snapshots_add_retention(struct tsdb_snapshots *s, int64_t ms)
{
    s->retention_ms += ms;
}

void tsdb_snapshots_close(struct tsdb_snapshots *s)
{
    if (!s)
        return;
    gs_closep(&s->fd); // an incomplete file: its contents are used, and the log has the rest
    if (s->sync)
        tsdb_file_sync_end(s->sync); // the log is kept and is read together with the file
    gs_buf_finish(&s->buffer);
    gs_hmap_free(s->labels);
    gs_hmap_free(s->times);
    tsdb_wal_files_finish(&s->files);
    free(s->dir);
    free(s);
}

uint64_t tsdb_snapshots_bytes(const struct tsdb_snapshots *s)
{
    return s->files.bytes;
}

void tsdb_snapshots_recover(struct tsdb_snapshots *s, struct tsdb *db, int64_t now_ms,
                            struct tsdb_wal_recovery *stats)
{
    tsdb_wal_files_drop_empty(&s->files);
    for (size_t i = 0; i < s->files.n; i++) {
        struct tsdb_wal_file *file = &s->files.items[i];
        uint64_t corrupt = stats->corrupt;
        if (db->recovery.stopped)
            break;
        if (tsdb_wal_files_keep(&s->files, i)) {
            file->newest_ms = tsdb_snapshot_load(db, file->kept, now_ms - s->retention_ms, stats);
            stats->bytes += file->kept.len;
        } else {
            stats->corrupt++;
            file->newest_ms = now_ms; // deleted together with other files of this age
        }
        tsdb_wal_files_note_damage(&s->files, i, corrupt, stats);
        // Otherwise all files would be resident at the same time.
        tsdb_wal_files_rest_one(&s->files, i);
    }
    ptrdiff_t samples = 0;
    for (size_t i = 0; i < db->n_series; i++)
        tsdb_chunks_resume(&db->series[i].samples, &samples, &db->heap);
    db->samples_held += (uint64_t)samples; // 0 or negative
    tsdb_wal_files_rest(&s->files);
    // The program may have been killed before fsync.
    tsdb_wal_files_sync_last(&s->files);
    s->began_ms = s->whole_ms = now_ms;
}

// --- writing ---

static void write_buffer(struct tsdb_snapshots *s)
{
    if (!tsdb_wal_files_write(&s->files, s->fd, gs_buf_slice(&s->buffer)))
        s->failed = true;
    gs_buf_clear(&s->buffer);
}

// Returns true on the first use of the key.
static bool put_id(struct tsdb_snapshots *s, struct gs_hmap *ids, const void *key, size_t len)
{
    struct gs_slice k = gs_slice_make(key, len);
    uintptr_t id = (uintptr_t)gs_hmap_get(ids, k);
    bool first = !id;
    if (first) {
        id = ++s->next_id;
        gs_hmap_put(ids, k, (void *)id);
    }
    tsdb_wal_put_varint(&s->buffer, (uint64_t)id << 1 | first);
    return first;
}

static void put_label(struct tsdb_snapshots *s, const struct tsdb *db, struct tsdb_pair pair)
{
    if (!put_id(s, s->labels, &pair, sizeof(pair)))
        return;
    tsdb_wal_put_text(&s->buffer, tsdb_symbol_text(db->symbols, pair.name));
    tsdb_wal_put_text(&s->buffer, tsdb_symbol_text(db->symbols, pair.value));
}

static void put_times(struct tsdb_snapshots *s, const struct tsdb_timestamps *t)
{
    int64_t scratch[TSDB_TIMESTAMPS_MAX], step = 0;
    if (!put_id(s, s->times, &t, sizeof(t)))
        return;
    const int64_t *at = tsdb_timestamps_read(t, scratch);
    tsdb_wal_put_varint(&s->buffer, t->n);
    tsdb_wal_put_signed(&s->buffer, at[0]);
    for (size_t i = 1; i < t->n; i++) {
        tsdb_wal_put_signed(&s->buffer, at[i] - at[i - 1] - step);
        step = at[i] - at[i - 1];
    }
}

// Returns the offset of the chunk's data in the file. A chunk whose offset is too large counts as
// not written.
static uint32_t put_chunk(struct tsdb_snapshots *s, const struct tsdb_chunk *b)
{
    put_times(s, b->times);
    tsdb_wal_put_varint(&s->buffer, b->first);
    tsdb_wal_put_varint(&s->buffer, b->n);
    tsdb_wal_put_varint(&s->buffer, b->samples);
    tsdb_wal_put_text(&s->buffer, gs_slice_make(b->data, b->len));
    uint64_t at = s->files.items[s->files.n - 1].bytes + s->buffer.len - b->len;
    return at < TSDB_CHUNK_SAVED ? (uint32_t)at : TSDB_CHUNK_UNSAVED;
}

static void put_series(struct tsdb_snapshots *s, struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_chunks *samples = &db->series[ref].samples;
    struct tsdb_labels labels = tsdb_series_labels(db, ref);
    bool open = s->whole && samples->open && (samples->open->dirty || s->all);
    size_t from = samples->n_sealed, until = samples->n_sealed + open;
    while (from && !tsdb_chunk_is_saved(&samples->sealed[from - 1]))
        from--;
    if (from == until)
        return;
    size_t start = tsdb_wal_record_begin(&s->buffer, TSDB_WAL_CHUNKS);
    tsdb_wal_put_varint(&s->buffer, tsdb_labels_len(labels));
    for (size_t i = 0; i < tsdb_labels_len(labels); i++)
        put_label(s, db, tsdb_labels_at(labels, i));
    tsdb_wal_put_varint(&s->buffer, until - from);
    for (size_t i = from; i < until; i++) {
        struct tsdb_chunk b = tsdb_chunks_at(samples, i);
        uint32_t place = put_chunk(s, &b);
        if (i < samples->n_sealed)
            samples->sealed[i].place = place;
        else
            samples->open->dirty = false;
    }
    tsdb_wal_record_end(&s->buffer, start);
    tsdb_wal_files_newest(&s->files, tsdb_chunks_last_ms(samples));
    if (s->buffer.len >= BUFFER_BYTES)
        write_buffer(s);
}

// Over the limit of the files, the samples of the oldest files are evicted.
static int64_t oldest_kept(const struct tsdb_snapshots *s, struct tsdb *db, int64_t now_ms)
{
    int64_t retained = now_ms - s->retention_ms;
    int64_t fits = s->max_bytes ? tsdb_wal_files_oldest_for(&s->files, s->max_bytes) : INT64_MIN;
    if (fits <= retained)
        return retained;
    if (fits > db->evicted_until_ms)
        db->evicted_until_ms = fits;
    return fits;
}

static void begin_save(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w, bool whole,
                       int64_t now_ms)
{
    s->state = WRITING;
    s->whole = whole;
    s->oldest_ms = oldest_kept(s, db, now_ms);
    s->at = 0;
    s->next_id = 0;
    s->began_ms = now_ms;
    if (whole) {
        s->round = ++db->flush_round;
        s->whole_ms = now_ms;
        s->whole_bytes = tsdb_wal_written(w);
        s->log_from = tsdb_wal_rotate(w);
    }
    s->fd = tsdb_wal_files_create(&s->files, gs_slice_of(TSDB_WAL_BLOCKS_MAGIC));
    s->failed = s->fd < 0;
}

// Ends a save after the last series. No series has samples before oldest_ms any more.
static void end_save(struct tsdb_snapshots *s)
{
    tsdb_wal_files_drop_older(&s->files, s->oldest_ms);
    tsdb_wal_files_rest(&s->files);
    s->state = RESTING;
}

static void settled(struct tsdb_snapshots *s, struct tsdb_wal *w, bool ok)
{
    s->failed = !ok;
    if (s->whole)
        s->all = !ok;
    s->at = 0;
    if (!ok) {
        if (!s->failure_logged)
            gs_warn(
                "tsdb",
                "%s: cannot write a snapshot: %s. The samples stay in memory and in the log, and "
                "writing is retried",
                s->dir, strerror(s->files.error ? s->files.error : EIO));
        s->failure_logged = true;
        tsdb_wal_files_drop_last(&s->files);
        end_save(s);
        return;
    }
    if (s->failure_logged)
        gs_info("tsdb", "%s: snapshots are written again", s->dir);
    s->failure_logged = false;
    if (s->whole)
        tsdb_wal_drop_before(w, s->log_from);
    (void)tsdb_wal_files_keep(&s->files, s->files.n - 1); // on failure, the chunks remain in memory
    s->state = MAPPING;
}

static void end_snapshot(struct tsdb_snapshots *s, struct tsdb_wal *w)
{
    bool ok = false;
    write_buffer(s);
    if (!s->failed)
        s->sync = tsdb_file_sync_start(s->fd, s->dir, &ok);
    else
        gs_closep(&s->fd);
    s->fd = -1;
    if (!s->sync)
        settled(s, w, ok);
}

// Moves the buffered rows of groups into chunks. Returns the number of their series.
static size_t settle_groups(struct tsdb_snapshots *s, struct tsdb *db)
{
    size_t n = 0;
    struct tsdb_group *g;
    TAILQ_FOREACH (g, &db->groups, all) {
        if (g->flushed_round == s->round)
            continue;
        if (n >= SERIES_A_STEP)
            break;
        g->flushed_round = s->round;
        tsdb_group_flush(g);
        n += g->n + 1;
    }
    return n;
}

// Saves the next series. After a write error, it only drops old samples.
static void write_some(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w)
{
    gs_hmap_clear(s->labels);
    gs_hmap_clear(s->times);
    size_t n = s->whole && !s->failed ? settle_groups(s, db) : 0;
    for (; n < SERIES_A_STEP && s->at < db->n_series; n++, s->at++) {
        struct tsdb_series *series = &db->series[s->at];
        if (!series->set)
            continue;
        tsdb_series_expire(db, series, s->oldest_ms);
        if (!s->failed)
            put_series(s, db, (tsdb_ref)s->at);
    }
    if (n < SERIES_A_STEP)
        end_snapshot(s, w);
}

static void map_some(struct tsdb_snapshots *s, struct tsdb *db)
{
    struct gs_slice file = s->files.items[s->files.n - 1].kept;
    for (size_t n = 0; n < SERIES_A_STEP && s->at < db->n_series; n++, s->at++)
        tsdb_chunks_map(&db->series[s->at].samples, file, &db->heap);
    tsdb_wal_files_rest_one(&s->files, s->files.n - 1);
    if (s->at >= db->n_series)
        end_save(s);
}

// A snapshot writes open chunks again, so it is not worthwhile for a log that is read quickly.
static bool snapshot_is_due(const struct tsdb_snapshots *s, const struct tsdb_wal *w,
                            int64_t now_ms)
{
    uint64_t grown = tsdb_wal_written(w) - s->whole_bytes;
    int64_t since = now_ms - s->whole_ms;
    return grown >= s->log_bytes || (grown >= s->log_bytes / 8 && since >= s->every_ms) ||
           since >= AT_LEAST_MS || since < 0;
}

static bool save_is_due(const struct tsdb_snapshots *s, const struct tsdb *db, int64_t now_ms)
{
    return db->heap.unsaved >= SAVE_BYTES && db->heap.unsaved >= db->heap.bytes / SAVE_PART &&
           (!s->failed || now_ms - s->began_ms >= RETRY_MS);
}

void tsdb_snapshots_step(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w,
                         int64_t now_ms)
{
    if (now_ms - s->rested_ms >= REST_EVERY_MS || now_ms < s->rested_ms) {
        tsdb_wal_files_rest(&s->files);
        s->rested_ms = now_ms;
    }
    if (s->state == RESTING) {
        bool whole = snapshot_is_due(s, w, now_ms);
        if (!whole && !save_is_due(s, db, now_ms))
            return;
        begin_save(s, db, w, whole, now_ms);
    }
    if (s->state == MAPPING)
        map_some(s, db);
    else if (!s->sync)
        write_some(s, db, w);
    else if (tsdb_file_sync_done(s->sync))
        settled(s, w, tsdb_file_sync_end(GS_TAKE(s->sync)));
}
