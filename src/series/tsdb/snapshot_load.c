// SPDX-License-Identifier: Apache-2.0
// Reads a file of chunks. Invalid records are skipped and counted.
#include "tsdb/wal.h"

#include "base/mem.h"
#include "tsdb/tsdb_private.h"

struct numbered {               // a label or time column; its id is the index in an array
    struct metrics_label label; // points into the file
    struct tsdb_pair pair;      // references one symbol each
    bool is_label;
    struct tsdb_timestamps *times; // holds a reference
};

struct loader {
    struct tsdb *db;
    int64_t oldest_ms, newest_ms;
    struct gs_slice file;
    struct tsdb_wal_recovery *stats;
    struct numbered *items;
    size_t n, cap;
    tsdb_ref next; // the series after that of the last record
};

static void free_numbered(struct loader *l, struct numbered *item)
{
    if (item->is_label) {
        tsdb_symbol_unref(l->db->symbols, item->pair.name);
        tsdb_symbol_unref(l->db->symbols, item->pair.value);
    }
    l->db->heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(item->times);
    *item = (struct numbered){0};
}

// *ret_first: the definition follows. NULL: invalid id.
static struct numbered *get_numbered(struct loader *l, struct tsdb_wal_cursor *c, bool *ret_first)
{
    uint64_t word = tsdb_wal_get_varint(c), id = word >> 1;
    *ret_first = word & 1;
    // Ids are consecutive, and each definition has at least two bytes.
    if (c->bad || id > (size_t)(c->at - (const uint8_t *)l->file.data) / 2)
        return NULL;
    while (l->n <= id) {
        gs_grow(&l->items, &l->cap, l->n, sizeof(*l->items));
        l->n++;
    }
    if (*ret_first)
        free_numbered(l, &l->items[id]);
    return &l->items[id];
}

// NULL: the rest of the record cannot be parsed.
static const struct numbered *get_label(struct loader *l, struct tsdb_wal_cursor *c)
{
    bool first;
    struct numbered *item = get_numbered(l, c, &first);
    if (item && first) {
        struct gs_slice name = tsdb_wal_get_text(c), value = tsdb_wal_get_text(c);
        if (c->bad)
            return NULL;
        item->label = (struct metrics_label){name, value};
        item->pair = (struct tsdb_pair){tsdb_symbol_intern(l->db->symbols, name),
                                        tsdb_symbol_intern(l->db->symbols, value)};
        item->is_label = true;
    }
    return item && item->is_label ? item : NULL;
}

static struct tsdb_timestamps *new_times(struct tsdb_wal_cursor *c)
{
    uint64_t n = tsdb_wal_get_varint(c);
    int64_t t = tsdb_wal_get_signed(c), step = 0;
    if (c->bad || !n || n > TSDB_TIMESTAMPS_MAX || !tsdb_wal_time_is_sane(t))
        return NULL;
    struct tsdb_timestamps *times = tsdb_timestamps_append(tsdb_timestamps_new(n), t);
    for (uint64_t i = 1; i < n; i++) {
        bool wraps = __builtin_add_overflow(step, tsdb_wal_get_signed(c), &step) ||
                     __builtin_add_overflow(t, step, &t);
        if (c->bad || wraps || step <= 0 || !tsdb_wal_time_is_sane(t)) {
            tsdb_timestamps_unref(times);
            return NULL;
        }
        times = tsdb_timestamps_append(times, t);
    }
    return times;
}

static struct tsdb_timestamps *get_times(struct loader *l, struct tsdb_wal_cursor *c)
{
    bool first;
    struct numbered *item = get_numbered(l, c, &first);
    if (item && first) {
        item->times = new_times(c);
        l->db->heap.bytes += item->times ? (ptrdiff_t)tsdb_timestamps_bytes(item->times) : 0;
    }
    return item ? item->times : NULL;
}

static bool get_chunk(struct loader *l, struct tsdb_wal_cursor *c, struct tsdb_saved_chunk *ret)
{
    ret->times = get_times(l, c);
    if (!ret->times)
        return false;
    ret->first = tsdb_wal_get_varint(c);
    ret->n = tsdb_wal_get_varint(c);
    ret->samples = tsdb_wal_get_varint(c);
    ret->data = tsdb_wal_get_text(c);
    ret->room = (size_t)(l->file.data + l->file.len - ret->data.data);
    return !c->bad && ret->n && ret->first < ret->times->n && ret->n <= ret->times->n - ret->first;
}

static bool load_chunk(struct loader *l, struct tsdb_wal_cursor *c, struct tsdb_series *s)
{
    struct tsdb_saved_chunk b;
    if (!get_chunk(l, c, &b))
        return false;
    int64_t last_ms = b.times->at[b.first + b.n - 1];
    if (last_ms < l->oldest_ms)
        return true;
    ptrdiff_t samples = 0;
    bool fresh = !s->samples.n_sealed;
    if (!tsdb_chunks_load(&s->samples, &b, &samples, &l->db->heap))
        return false;
    l->db->samples_held += (uint64_t)samples;
    l->db->generation += fresh;
    l->stats->samples += (uint64_t)samples;
    if (last_ms > l->newest_ms)
        l->newest_ms = last_ms;
    return true;
}

static bool is_next(const struct loader *l, struct tsdb_labels labels)
{
    return l->next < l->db->n_series && l->db->series[l->next].set &&
           tsdb_labels_equal(tsdb_series_labels(l->db, l->next), labels);
}

// All files but the first contain existing series, usually in the order of their numbers. Returns
// false if there are no labels, or if the series limit is lower than before and has been reached.
static bool get_series(struct loader *l, struct tsdb_wal_cursor *c, tsdb_ref *ret)
{
    struct metrics_label labels[TSDB_MAX_LABELS];
    struct tsdb_pair pairs[TSDB_MAX_LABELS];
    struct tsdb_labels found = {.pairs = pairs};
    uint64_t n = tsdb_wal_get_varint(c);
    if (c->bad || n > TSDB_MAX_LABELS)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct numbered *item = get_label(l, c);
        if (!item)
            return false;
        labels[i] = item->label;
        if (item->pair.name == TSDB_SYMBOL_NAME)
            found.metric = item->pair.value;
        else
            pairs[found.n++] = item->pair;
    }
    *ret = l->next;
    if (!is_next(l, found) && !tsdb_series_find(l->db, found, ret)) {
        GS_AUTO_ERROR struct gs_error *err = tsdb_series_get(l->db, labels, n, ret);
        if (err)
            return false;
    }
    l->next = *ret + 1;
    return true;
}

static bool load_history(struct loader *l, struct tsdb_wal_cursor *c)
{
    tsdb_ref ref;
    if (!get_series(l, c, &ref))
        return false;
    uint64_t chunks = tsdb_wal_get_varint(c);
    for (uint64_t i = 0; i < chunks; i++)
        if (c->bad || !load_chunk(l, c, &l->db->series[ref]))
            return false;
    return !c->bad;
}

int64_t tsdb_snapshot_load(struct tsdb *db, struct gs_slice file, int64_t oldest_ms,
                           struct tsdb_wal_recovery *stats)
{
    struct loader l = {
        .db = db, .oldest_ms = oldest_ms, .newest_ms = INT64_MIN, .file = file, .stats = stats};
    if (file.len < 8 || (memcmp(file.data, TSDB_WAL_BLOCKS_MAGIC, 8) != 0 &&
                         memcmp(file.data, TSDB_WAL_BLOCKS_BEFORE, 8) != 0)) {
        stats->corrupt += file.len > 0;
        return INT64_MIN;
    }
    size_t pos = 8, reported = 0;
    struct tsdb_wal_record record;
    bool skipped, more;
    do {
        if (pos - reported >= TSDB_RECOVERY_STEP) {
            if (!tsdb_recovery_continues(db, pos - reported))
                break;
            reported = pos;
        }
        more = tsdb_wal_next_record(file, &pos, &record, &skipped);
        stats->corrupt += skipped;
        if (more && (record.type != TSDB_WAL_CHUNKS || !load_history(&l, &record.payload)))
            stats->corrupt++;
        stats->records += more;
    } while (more);
    (void)tsdb_recovery_continues(db, file.len - reported);
    for (size_t i = 0; i < l.n; i++)
        free_numbered(&l, &l.items[i]);
    free(l.items);
    if (l.newest_ms > db->newest_ms)
        db->newest_ms = l.newest_ms;
    return l.newest_ms;
}
