// SPDX-License-Identifier: Apache-2.0
// Reads segments into a store. Invalid records are skipped and counted.
#include "tsdb/wal.h"

#include "base/arena.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "tsdb/chunk.h"
#include "tsdb/tsdb_private.h"

#define MAX_LABELS ((size_t)1024)
#define NO_SLOT    UINT32_MAX

struct labels {
    struct metrics_label *items;
    size_t n;
};

// A group of the log and the group of the store that receives its rows.
struct group {
    struct tsdb_group *group;
    tsdb_ref *refs;  // series of the log by slot of the log
    uint32_t *slots; // slots of the store by slot of the log
    size_t n;
};

struct tsdb_recovery {
    struct tsdb *db;
    int64_t oldest_ms;
    struct tsdb_wal_recovery *stats;
    struct gs_arena arena;  // labels of the segment's series
    struct gs_hmap *series; // ref of the log -> struct labels (in the arena)
    struct gs_hmap *groups; // number of the log -> struct group
    uint64_t run;
    int64_t newest_ms; // time of the newest row in the segment
};

static void group_free(void *p)
{
    struct group *g = p;
    tsdb_group_free(g->group);
    free(g->refs);
    free(g->slots);
    free(g);
}

static struct gs_slice key_of_number(const uint64_t *number)
{
    return gs_slice_make(number, sizeof(*number));
}

static bool read_series(struct tsdb_recovery *r, struct tsdb_wal_cursor *c)
{
    uint64_t ref = tsdb_wal_get_varint(c), n = tsdb_wal_get_varint(c);
    if (c->bad || n > MAX_LABELS)
        return false;
    struct labels *l = gs_arena_alloc(&r->arena, sizeof(*l));
    l->items = gs_arena_alloc(&r->arena, (n + 1) * sizeof(*l->items));
    for (; l->n < n; l->n++) {
        struct gs_slice name = tsdb_wal_get_text(c), value = tsdb_wal_get_text(c);
        if (c->bad)
            return false;
        l->items[l->n].name =
            gs_slice_make(gs_arena_strndup(&r->arena, name.data, name.len), name.len);
        l->items[l->n].value =
            gs_slice_make(gs_arena_strndup(&r->arena, value.data, value.len), value.len);
    }
    gs_hmap_put(r->series, key_of_number(&ref), l);
    return true;
}

static bool read_slots(struct tsdb_recovery *r, struct tsdb_wal_cursor *c)
{
    uint64_t number = tsdb_wal_get_varint(c), n = tsdb_wal_get_varint(c);
    if (c->bad || n > (size_t)(c->end - c->at)) // a ref has at least one byte
        return false;
    struct group *g = gs_hmap_get(r->groups, key_of_number(&number));
    if (!g) {
        g = gs_alloc(sizeof(*g));
        g->group = tsdb_group_new(r->db);
        gs_hmap_put(r->groups, key_of_number(&number), g);
    }
    free(g->refs);
    free(g->slots);
    g->n = n;
    g->refs = gs_alloc_array(n, sizeof(*g->refs));
    g->slots = gs_alloc_array(n, sizeof(*g->slots));
    for (size_t i = 0; i < n; i++) {
        uint64_t ref = tsdb_wal_get_varint(c);
        g->refs[i] = (tsdb_ref)ref;
        const struct labels *l = gs_hmap_get(r->series, key_of_number(&ref));
        struct gs_error *err =
            l ? tsdb_group_slot(g->group, l->items, l->n, &g->slots[i])
              : gs_error_new(GS_ENOTFOUND, "the record of its labels is missing");
        if (err)
            g->slots[i] = NO_SLOT;
        gs_error_free(err);
    }
    return !c->bad;
}

static bool read_pass(struct tsdb_recovery *r, struct tsdb_wal_cursor *c)
{
    uint64_t number = tsdb_wal_get_varint(c);
    int64_t t = tsdb_wal_get_signed(c);
    uint64_t n = tsdb_wal_get_varint(c);
    struct group *g = gs_hmap_get(r->groups, key_of_number(&number));
    if (c->bad || !g || n != g->n || !tsdb_wal_time_is_sane(t))
        return false;
    if (t > r->newest_ms)
        r->newest_ms = t;
    if (t < r->oldest_ms)
        return true;
    struct gs_error *err = tsdb_group_begin(g->group, t);
    if (err) { // older than a row of another segment
        gs_error_free(err);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        double v = tsdb_wal_get_value(c);
        if (g->slots[i] != NO_SLOT && !tsdb_is_absent(v) && !c->bad)
            tsdb_group_put(g->group, g->slots[i], v);
    }
    if (c->bad) {
        tsdb_group_rollback(g->group);
        return false;
    }
    size_t added, fresh;
    tsdb_group_commit(g->group, &added, &fresh);
    r->stats->samples += added;
    return true;
}

static bool read_sample(struct tsdb_recovery *r, struct tsdb_wal_cursor *c)
{
    uint64_t ref = tsdb_wal_get_varint(c);
    int64_t t = tsdb_wal_get_signed(c);
    double v = tsdb_wal_get_value(c);
    const struct labels *l = gs_hmap_get(r->series, key_of_number(&ref));
    if (c->bad || !l || !tsdb_wal_time_is_sane(t))
        return false;
    if (t > r->newest_ms)
        r->newest_ms = t;
    if (t < r->oldest_ms)
        return true;
    struct gs_error *err = tsdb_append(r->db, l->items, l->n, t, v);
    r->stats->samples += !err;
    gs_error_free(err);
    return true;
}

static bool read_cut(struct tsdb_recovery *r, struct tsdb_wal_cursor *c)
{
    int64_t t = tsdb_wal_get_signed(c);
    if (c->bad || !tsdb_wal_time_is_sane(t))
        return false;
    r->stats->samples -= tsdb_delete_after(r->db, t);
    return true;
}

static bool read_record(struct tsdb_recovery *r, struct tsdb_wal_record *record)
{
    switch (record->type) {
    case TSDB_WAL_SERIES:
        return read_series(r, &record->payload);
    case TSDB_WAL_SLOTS:
        return read_slots(r, &record->payload);
    case TSDB_WAL_PASS:
        return read_pass(r, &record->payload);
    case TSDB_WAL_SAMPLE:
        return read_sample(r, &record->payload);
    case TSDB_WAL_DELETE_AFTER:
        return read_cut(r, &record->payload);
    case TSDB_WAL_CHUNKS: // does not occur in the log
        break;
    }
    return false;
}

// Definitions are valid until the end of the segment. Groups of the store continue through all
// segments of one run of the program.
static void start_segment(struct tsdb_recovery *r, uint64_t run)
{
    gs_hmap_clear(r->series);
    gs_arena_clear(&r->arena);
    if (run != r->run)
        gs_hmap_clear(r->groups);
    r->run = run;
    r->newest_ms = INT64_MIN;
}

static void read_segment(struct tsdb_recovery *r, struct gs_slice segment)
{
    if (segment.len < TSDB_WAL_HEADER_SIZE ||
        memcmp(segment.data, TSDB_WAL_SEGMENT_MAGIC, 8) != 0) {
        r->stats->corrupt += segment.len > 0;
        return;
    }
    uint64_t run;
    memcpy(&run, segment.data + 8, sizeof(run));
    start_segment(r, run);
    size_t pos = TSDB_WAL_HEADER_SIZE, reported = 0;
    struct tsdb_wal_record record;
    bool skipped, more;
    do {
        if (pos - reported >= TSDB_RECOVERY_STEP) {
            if (!tsdb_recovery_continues(r->db, pos - reported))
                return;
            reported = pos;
        }
        more = tsdb_wal_next_record(segment, &pos, &record, &skipped);
        r->stats->corrupt += skipped;
        if (more && !read_record(r, &record))
            r->stats->corrupt++;
        r->stats->records += more;
    } while (more);
    (void)tsdb_recovery_continues(r->db, segment.len - reported);
}

struct tsdb_recovery *tsdb_wal_recovery_new(struct tsdb *db, int64_t oldest_ms,
                                            struct tsdb_wal_recovery *stats)
{
    struct tsdb_recovery *r = gs_alloc(sizeof(*r));
    r->db = db;
    r->oldest_ms = oldest_ms;
    r->stats = stats;
    r->series = gs_hmap_new(NULL);
    r->groups = gs_hmap_new(group_free);
    return r;
}

int64_t tsdb_wal_recovery_segment(struct tsdb_recovery *r, struct gs_slice segment)
{
    r->newest_ms = INT64_MIN;
    r->stats->segments++;
    r->stats->bytes += segment.len;
    read_segment(r, segment);
    return r->newest_ms;
}

void tsdb_wal_recovery_free(struct tsdb_recovery *r)
{
    gs_hmap_free(r->series);
    gs_hmap_free(r->groups);
    gs_arena_finish(&r->arena);
    free(r);
}
