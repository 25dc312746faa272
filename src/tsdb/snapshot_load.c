// SPDX-License-Identifier: Apache-2.0
// Reads a file of blocks. What makes no sense costs its record and is counted.
#include "tsdb/snapshot.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "tsdb/store.h"
#include "tsdb/wal_codec.h"

#define MAX_LABELS ((size_t)256)

struct loader {
    struct tsdb *db;
    int64_t oldest_ms, newest_ms;
    struct wal_recovery *stats;
    struct gs_hmap *texts; // number -> struct gs_slice, in the file
    struct gs_hmap *times; // number -> struct times, one reference
};

static void unref_times(void *p)
{
    times_unref(p);
}

// False: what follows in the record cannot be understood.
static bool get_text(struct loader *l, struct wal_cursor *c, struct gs_slice *ret)
{
    uint64_t word = wal_get_varint(c), id = word >> 1;
    struct gs_slice key = gs_slice_make(&id, sizeof(id));
    struct gs_slice *known = gs_hmap_get(l->texts, key);
    if (word & 1) {
        struct gs_slice text = wal_get_text(c);
        if (c->bad)
            return false;
        if (!known) {
            known = gs_alloc(sizeof(*known));
            gs_hmap_put(l->texts, key, known);
        }
        *known = text;
    }
    if (!known || c->bad)
        return false;
    *ret = *known;
    return true;
}

static struct times *new_times(struct wal_cursor *c)
{
    uint64_t n = wal_get_varint(c);
    int64_t t = wal_get_signed(c), step = 0;
    if (c->bad || !n || n > TIMES_MAX || !wal_time_is_sane(t))
        return NULL;
    struct times *times = times_push(times_new(n), t);
    for (uint64_t i = 1; i < n; i++) {
        bool wraps = __builtin_add_overflow(step, wal_get_signed(c), &step) ||
                     __builtin_add_overflow(t, step, &t);
        if (c->bad || wraps || step <= 0 || !wal_time_is_sane(t)) {
            times_unref(times);
            return NULL;
        }
        times = times_push(times, t);
    }
    return times;
}

static struct times *get_times(struct loader *l, struct wal_cursor *c)
{
    uint64_t word = wal_get_varint(c), id = word >> 1;
    struct gs_slice key = gs_slice_make(&id, sizeof(id));
    if (!(word & 1))
        return gs_hmap_get(l->times, key);
    struct times *t = new_times(c);
    if (!t)
        return NULL;
    l->db->heap.bytes += (ptrdiff_t)times_bytes(t);
    struct times *old = gs_hmap_remove(l->times, key);
    l->db->heap.bytes -= (ptrdiff_t)times_unref(old);
    gs_hmap_put(l->times, key, t);
    return t;
}

static bool load_block(struct loader *l, struct wal_cursor *c, struct series *s)
{
    struct times *t = get_times(l, c);
    uint64_t first = t ? wal_get_varint(c) : 0, n = t ? wal_get_varint(c) : 0;
    struct gs_slice data = t ? wal_get_text(c) : GS_SLICE("");
    if (!t || c->bad || !n || first >= t->n || n > t->n - first)
        return false;
    if (t->at[first + n - 1] < l->oldest_ms)
        return true;
    ptrdiff_t samples = 0;
    bool fresh = !s->samples.n_sealed;
    if (!stream_load(&s->samples, t, first, n, data, &samples, &l->db->heap))
        return false;
    l->db->samples_held += (uint64_t)samples;
    l->db->generation += fresh;
    l->stats->samples += (uint64_t)samples;
    if (t->at[first + n - 1] > l->newest_ms)
        l->newest_ms = t->at[first + n - 1];
    return true;
}

static bool load_history(struct loader *l, struct wal_cursor *c)
{
    struct metrics_label labels[MAX_LABELS];
    uint64_t n = wal_get_varint(c);
    if (c->bad || n > MAX_LABELS)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!get_text(l, c, &labels[i].name) || !get_text(l, c, &labels[i].value))
            return false;
    tsdb_ref ref;
    struct gs_error *err = tsdb_series_get(l->db, labels, n, &ref);
    if (err) { // the limit of series is lower than it was
        gs_error_free(err);
        return false;
    }
    uint64_t blocks = wal_get_varint(c);
    for (uint64_t i = 0; i < blocks; i++)
        if (c->bad || !load_block(l, c, &l->db->series[ref]))
            return false;
    return !c->bad;
}

int64_t snapshot_load(struct tsdb *db, struct gs_slice file, int64_t oldest_ms,
                      struct wal_recovery *stats)
{
    struct loader l = {.db = db, .oldest_ms = oldest_ms, .newest_ms = INT64_MIN, .stats = stats};
    if (file.len < 8 || memcmp(file.data, WAL_BLOCKS_MAGIC, 8) != 0) {
        stats->corrupt += file.len > 0;
        return INT64_MIN;
    }
    l.texts = gs_hmap_new(free);
    l.times = gs_hmap_new(unref_times);
    size_t pos = 8, at = 0;
    struct wal_record record;
    bool skipped, more;
    do {
        more = wal_next_record(file, &pos, &record, &skipped);
        stats->corrupt += skipped;
        if (more && (record.type != WAL_HISTORY || !load_history(&l, &record.payload)))
            stats->corrupt++;
        stats->records += more;
    } while (more);
    void *t;
    while (gs_hmap_next(l.times, &at, NULL, &t))
        if (((struct times *)t)->refs == 1) // nothing came to use it
            db->heap.bytes -= (ptrdiff_t)times_bytes(t);
    gs_hmap_free(l.texts);
    gs_hmap_free(l.times);
    if (l.newest_ms > db->newest_ms)
        db->newest_ms = l.newest_ms;
    return l.newest_ms;
}
