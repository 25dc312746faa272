// SPDX-License-Identifier: Apache-2.0
// The write-ahead log: records of scrapes and samples in segments. A segment defines the labels
// that it uses, so that it can be read without the older ones. What is not flushed is lost in a
// crash, at most about a second.
#include "tsdb/wal.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "tsdb/tsdb_private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#define DEFAULT_SEGMENT_BYTES ((size_t)64 << 20)
#define DEFAULT_SEGMENT_MS    INT64_C(600000)
#define BUFFER_BYTES          ((size_t)1 << 20)

struct written_group { // what the open segment contains about a group
    uint64_t map_version;
    bool known;
};

struct tsdb_wal {
    char *dir;
    int64_t retention_ms;
    size_t segment_bytes;
    int64_t segment_ms;
    int lock_fd, fd; // fd: -1 without an open segment
    uint64_t run;
    struct tsdb_wal_files segments; // the last one is open if fd is
    bool unsynced;                  // fsync of the last complete segment failed
    struct tsdb_file_sync *sync;    // fsync of the previous segment in progress
    int64_t opened_ms;
    uint64_t written; // number of samples; bytes since the start
    uint64_t defined; // bytes of label and slot records in the open segment
    struct gs_buf buffer;
    uint64_t *seen; // one bit per ref: the open segment has its labels
    size_t seen_words;
    struct written_group *groups;
    size_t n_groups, groups_cap;
    struct tsdb_wal_status status;
};

static struct gs_error *lock_dir(struct tsdb_wal *w)
{
    GS_AUTO_FREE char *path = gs_format("%s/lock", w->dir);
    w->lock_fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (w->lock_fd < 0)
        return gs_error_errno(errno, "%s", path);
    if (flock(w->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? gs_error_new(GS_EEXIST, "%s: another process uses this storage path", w->dir)
                   : gs_error_errno(errno, "%s", path);
    return NULL;
}

static void end_sync(struct tsdb_wal *w)
{
    w->unsynced = !tsdb_file_sync_end(GS_TAKE(w->sync));
    w->status.errors += w->unsynced;
}

// A complete segment is synced in the background. If the fsync of the previous one is still in
// progress, the kernel decides when to write it.
static void seal_segment(struct tsdb_wal *w)
{
    bool ok;
    if (w->sync && tsdb_file_sync_done(w->sync))
        end_sync(w);
    if (w->fd >= 0 && !w->sync)
        w->sync = tsdb_file_sync_start(w->fd, w->dir, &ok);
    else
        gs_closep(&w->fd);
    w->fd = -1;
}

struct gs_error *tsdb_wal_open(const struct tsdb_wal_config *cfg, struct tsdb_wal **ret)
{
    struct tsdb_wal *w = gs_alloc(sizeof(*w));
    w->dir = gs_strdup(cfg->dir);
    w->retention_ms = cfg->retention_ms;
    w->segment_bytes = cfg->segment_bytes ? cfg->segment_bytes : DEFAULT_SEGMENT_BYTES;
    w->segment_ms = cfg->segment_ms ? cfg->segment_ms : DEFAULT_SEGMENT_MS;
    w->lock_fd = w->fd = -1;
    const int64_t seed[2] = {gs_unix_us(), gs_mono_ns()};
    w->run = gs_hash(seed, sizeof(seed));
    struct gs_error *err = gs_mkdir_p(w->dir, 0755);
    if (!err)
        err = lock_dir(w);
    if (!err)
        err = tsdb_wal_files_list(&w->segments, w->dir, "wal-");
    if (err) {
        tsdb_wal_close(w);
        return gs_error_wrap(err, "write-ahead log");
    }
    *ret = w;
    return NULL;
}

void tsdb_wal_close(struct tsdb_wal *w)
{
    if (!w)
        return;
    if (w->buffer.len)
        tsdb_wal_flush(w, gs_unix_ms());
    for (int i = 0; i < 2; i++) { // a clean shutdown is durable
        if (w->sync)
            end_sync(w);
        seal_segment(w);
    }
    gs_closep(&w->lock_fd);
    gs_buf_finish(&w->buffer);
    tsdb_wal_files_finish(&w->segments);
    free(w->seen);
    free(w->groups);
    free(w->dir);
    free(w);
}

// --- recovery ---

void tsdb_wal_recover(struct tsdb_wal *w, struct tsdb *db, int64_t now_ms,
                      struct tsdb_wal_recovery *ret)
{
    tsdb_wal_files_drop_empty(&w->segments);
    struct tsdb_recovery *r = tsdb_wal_recovery_new(db, now_ms - w->retention_ms, ret);
    for (size_t i = 0; i < w->segments.n; i++) {
        struct gs_slice bytes;
        if (db->recovery.stopped)
            break;
        uint64_t corrupt = ret->corrupt;
        if (tsdb_wal_files_map(&w->segments, i, &bytes)) {
            w->segments.items[i].newest_ms = tsdb_wal_recovery_segment(r, bytes);
            tsdb_wal_files_unmap(bytes);
        } else {
            ret->corrupt++;
        }
        tsdb_wal_files_note_damage(&w->segments, i, corrupt, ret);
    }
    tsdb_wal_recovery_free(r);
}

// --- segments ---

static void forget_segment(struct tsdb_wal *w)
{
    w->defined = 0;
    seal_segment(w);
    if (w->seen)
        memset(w->seen, 0, w->seen_words * sizeof(*w->seen));
    for (size_t i = 0; i < w->n_groups; i++)
        w->groups[i].known = false;
}

static void start_segment(struct tsdb_wal *w, int64_t now_ms)
{
    forget_segment(w);
    w->opened_ms = now_ms;
    char header[TSDB_WAL_HEADER_SIZE] = TSDB_WAL_SEGMENT_MAGIC;
    memcpy(header + 8, &w->run, sizeof(w->run));
    w->fd = tsdb_wal_files_create(&w->segments, gs_slice_make(header, sizeof(header)));
    tsdb_wal_files_drop_older(&w->segments, now_ms - w->retention_ms);
}

static void write_buffer(struct tsdb_wal *w)
{
    if (!w->buffer.len)
        return;
    bool ok = tsdb_wal_files_write(&w->segments, w->fd, gs_buf_slice(&w->buffer));
    w->status.failing = !ok;
    if (w->buffer.cap > 4 * BUFFER_BYTES) // the labels of a large group
        gs_buf_finish(&w->buffer);
    gs_buf_clear(&w->buffer);
    if (ok)
        return;
    // The segment may end with a torn record. A new segment defines all series again.
    w->status.errors++;
    forget_segment(w);
    if (w->segments.items[w->segments.n - 1].bytes <= TSDB_WAL_HEADER_SIZE)
        // The disk may be full: do not create a file without records every second.
        tsdb_wal_files_drop_last(&w->segments);
}

void tsdb_wal_flush(struct tsdb_wal *w, int64_t now_ms)
{
    write_buffer(w);
    // Definitions do not count: with many series, the next segment would have to repeat them.
    if (w->fd >= 0 &&
        (w->segments.items[w->segments.n - 1].bytes >= w->segment_bytes + w->defined ||
         now_ms - w->opened_ms >= w->segment_ms || now_ms < w->opened_ms))
        forget_segment(w);
}

unsigned tsdb_wal_rotate(struct tsdb_wal *w)
{
    write_buffer(w);
    forget_segment(w);
    return w->segments.next_number;
}

void tsdb_wal_drop_before(struct tsdb_wal *w, unsigned number)
{
    tsdb_wal_files_drop_before(&w->segments, number);
}

uint64_t tsdb_wal_bytes(const struct tsdb_wal *w)
{
    return w->segments.bytes;
}

uint64_t tsdb_wal_written(const struct tsdb_wal *w)
{
    return w->written;
}

void tsdb_wal_status(const struct tsdb_wal *w, struct tsdb_wal_status *ret)
{
    *ret = w->status;
    ret->bytes = w->segments.bytes;
    ret->error = w->status.failing && w->segments.error ? w->segments.error
                 : w->status.failing || w->unsynced     ? EIO
                                                        : 0;
}

// --- writing ---

static void prepare_segment(struct tsdb_wal *w, int64_t t_ms)
{
    if (w->fd < 0)
        start_segment(w, gs_unix_ms());
    tsdb_wal_files_newest(&w->segments, t_ms);
}

static void finish_record(struct tsdb_wal *w, size_t start)
{
    tsdb_wal_record_end(&w->buffer, start);
    w->written += w->buffer.len - start;
    if (w->buffer.len >= BUFFER_BYTES)
        write_buffer(w);
}

static bool mark_seen(struct tsdb_wal *w, tsdb_ref ref)
{
    size_t word = ref / 64;
    uint64_t bit = UINT64_C(1) << (ref % 64);
    if (word >= w->seen_words) {
        size_t words = word + word / 2 + 64;
        w->seen = gs_realloc_array(w->seen, words, sizeof(*w->seen));
        memset(w->seen + w->seen_words, 0, (words - w->seen_words) * sizeof(*w->seen));
        w->seen_words = words;
    }
    bool seen = w->seen[word] & bit;
    w->seen[word] |= bit;
    return seen;
}

static void put_series(struct tsdb_wal *w, const struct tsdb *db, tsdb_ref ref)
{
    if (mark_seen(w, ref))
        return;
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    size_t start = tsdb_wal_record_begin(&w->buffer, TSDB_WAL_SERIES);
    tsdb_wal_put_varint(&w->buffer, ref);
    tsdb_wal_put_varint(&w->buffer, tsdb_labels_len(l));
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label label = tsdb_labels_text_at(tsdb_symbols(db), l, i);
        tsdb_wal_put_text(&w->buffer, label.name);
        tsdb_wal_put_text(&w->buffer, label.value);
    }
    tsdb_wal_record_end(&w->buffer, start);
    w->defined += w->buffer.len - start;
}

uint32_t tsdb_wal_group_new(struct tsdb_wal *w)
{
    gs_grow(&w->groups, &w->groups_cap, w->n_groups, sizeof(*w->groups));
    w->groups[w->n_groups] = (struct written_group){0};
    return (uint32_t)w->n_groups++;
}

static void put_slots(struct tsdb_wal *w, const struct tsdb *db, uint32_t group,
                      const tsdb_ref *refs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (refs[i] != TSDB_NO_REF)
            put_series(w, db, refs[i]);
    size_t start = tsdb_wal_record_begin(&w->buffer, TSDB_WAL_SLOTS);
    tsdb_wal_put_varint(&w->buffer, group);
    tsdb_wal_put_varint(&w->buffer, n);
    for (size_t i = 0; i < n; i++)
        tsdb_wal_put_varint(&w->buffer, refs[i]);
    tsdb_wal_record_end(&w->buffer, start);
    w->defined += w->buffer.len - start;
}

void tsdb_wal_pass(struct tsdb_wal *w, const struct tsdb *db, uint32_t group, uint64_t map_version,
                   const tsdb_ref *refs, const double *values, size_t n, int64_t t_ms)
{
    prepare_segment(w, t_ms);
    struct written_group *g = &w->groups[group];
    if (!g->known || g->map_version != map_version)
        put_slots(w, db, group, refs, n);
    *g = (struct written_group){map_version, true};
    size_t start = tsdb_wal_record_begin(&w->buffer, TSDB_WAL_PASS);
    tsdb_wal_put_varint(&w->buffer, group);
    tsdb_wal_put_signed(&w->buffer, t_ms);
    tsdb_wal_put_varint(&w->buffer, n);
    tsdb_wal_put_values(&w->buffer, values, n);
    finish_record(w, start);
}

void tsdb_wal_sample(struct tsdb_wal *w, const struct tsdb *db, tsdb_ref ref, int64_t t_ms,
                     double value)
{
    prepare_segment(w, t_ms);
    put_series(w, db, ref);
    size_t start = tsdb_wal_record_begin(&w->buffer, TSDB_WAL_SAMPLE);
    tsdb_wal_put_varint(&w->buffer, ref);
    tsdb_wal_put_signed(&w->buffer, t_ms);
    tsdb_wal_put_value(&w->buffer, value);
    finish_record(w, start);
}

void tsdb_wal_put_delete_after(struct tsdb_wal *w, int64_t t_ms)
{
    if (w->fd < 0)
        start_segment(w, gs_unix_ms());
    size_t start = tsdb_wal_record_begin(&w->buffer, TSDB_WAL_DELETE_AFTER);
    tsdb_wal_put_signed(&w->buffer, t_ms);
    finish_record(w, start);
}

void tsdb_wal_add_retention(struct tsdb_wal *w, int64_t ms)
{
    w->retention_ms += ms;
}

void tsdb_wal_series_gone(struct tsdb_wal *w, tsdb_ref ref)
{
    if (ref / 64 < w->seen_words)
        w->seen[ref / 64] &= ~(UINT64_C(1) << (ref % 64));
}
