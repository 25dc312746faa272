// SPDX-License-Identifier: Apache-2.0
// Moves the rows of a group to the chunks of its series.
#include "tsdb/tsdb_private.h"

#include <assert.h>
#include <stdlib.h>

void tsdb_group_flush_slot(struct tsdb_group *g, uint32_t slot)
{
    double values[TSDB_GROUP_ROWS];
    if (!g->held)
        return;
    assert(g->times); // rows are buffered after push_time() only
    size_t first = g->times->n - g->held;
    for (size_t i = 0; i < g->held; i++)
        values[i] = g->rows[(first + i) % TSDB_GROUP_ROWS][slot];
    tsdb_chunks_put(&g->db->series[g->refs[slot]].samples, g->times, first, values, g->held,
                    &g->db->heap);
}

// If no other group uses a loose series any more, the group owns it again. Called when no rows are
// buffered.
static void reattach(struct tsdb_group *g, uint32_t slot)
{
    struct tsdb_series *s = &g->db->series[g->refs[slot]];
    int64_t first, last;
    if (s->shared_by > 1)
        return;
    s->shared_by = 0;
    s->group = g;
    s->samples.slot = slot;
    g->loose[slot] = false;
    g->n_loose--;
    tsdb_changes_returned(g->db, g->refs[slot]); // the slot may be live
    if (tsdb_series_span(s, &first, &last) && last > g->floor_ms)
        g->floor_ms = last;
}

// The processor cannot predict the addresses of series, chunks and their ends, so each is
// prefetched some steps ahead. The distances were measured with 100,000 series.
enum { SERIES_AHEAD = 24, BLOCK_AHEAD = 12, END_AHEAD = 6 };

// Always inlined: GCC removes calls of functions that only prefetch, because they have no effect.
#define FETCH __attribute__((always_inline)) static inline void

static inline const struct tsdb_chunks *stream_of(const struct tsdb_group *g, size_t i)
{
    return i < g->n && g->refs[i] != TSDB_NO_REF ? &g->db->series[g->refs[i]].samples : NULL;
}

FETCH tsdb_prefetch_series(const struct tsdb_group *g, size_t i)
{
    const struct tsdb_chunks *s = stream_of(g, i);
    if (s)
        __builtin_prefetch(s);
}

FETCH tsdb_prefetch_chunk(const struct tsdb_group *g, size_t i)
{
    const struct tsdb_chunks *s = stream_of(g, i);
    if (s)
        tsdb_chunks_prefetch(s);
}

FETCH tsdb_prefetch_end(const struct tsdb_group *g, size_t i)
{
    const struct tsdb_chunks *s = stream_of(g, i);
    if (s)
        tsdb_chunks_prefetch_end(s);
}

FETCH tsdb_prefetch_first(const struct tsdb_group *g)
{
    for (size_t i = 0; i < SERIES_AHEAD; i++)
        tsdb_prefetch_series(g, i);
    for (size_t i = 0; i < BLOCK_AHEAD; i++)
        tsdb_prefetch_chunk(g, i);
}

FETCH tsdb_prefetch_next(const struct tsdb_group *g, size_t i)
{
    if (i % 8 == 0 && i + 16 < g->n)
        for (size_t k = 0; k < TSDB_GROUP_ROWS; k++)
            __builtin_prefetch(&g->rows[k][i + 16]);
    tsdb_prefetch_series(g, i + SERIES_AHEAD);
    tsdb_prefetch_chunk(g, i + BLOCK_AHEAD);
    tsdb_prefetch_end(g, i + END_AHEAD);
}

// NULL: the slot is free, or its series is loose.
static struct tsdb_chunks *own_samples(const struct tsdb_group *g, size_t slot)
{
    bool own = g->refs[slot] != TSDB_NO_REF && !g->loose[slot];
    return own ? &g->db->series[g->refs[slot]].samples : NULL;
}

// Makes a block of the newest chunks of these slots, some of which are in the room.
static void make_block(struct tsdb_group *g, size_t from, size_t until)
{
    struct tsdb_chunk_heap *heap = &g->db->heap;
    void **block = &g->blocks[from / TSDB_HEADS], *old = *block;
    for (size_t i = from; i < until; i++)
        if (own_samples(g, i))
            tsdb_heads_take(own_samples(g, i), heap);
    *block = tsdb_heads_block(heap->room);
    for (size_t i = from; i < until; i++)
        if (own_samples(g, i))
            tsdb_heads_follow(own_samples(g, i), heap->room, *block);
    free(old);
}

static void flush_slots(struct tsdb_group *g, size_t from, size_t until)
{
    struct tsdb *db = g->db;
    bool full = g->times && g->times->n == g->column; // once per chunk is sufficient
    struct tsdb_head_room room;
    room.used = 0;
    db->heap.room = &room;
    for (size_t i = from; i < until; i++) {
        tsdb_prefetch_next(g, i);
        if (!own_samples(g, i))
            continue;
        tsdb_group_flush_slot(g, (uint32_t)i);
        if (full)
            tsdb_series_expire(db, &db->series[g->refs[i]], g->last_ms - db->cfg.retention_ms);
    }
    if (room.used)
        make_block(g, from, until);
    db->heap.room = NULL;
}

void tsdb_group_free_blocks(struct tsdb_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (own_samples(g, i))
            tsdb_heads_leave(own_samples(g, i), &g->db->heap);
    for (size_t i = 0; i < g->blocks_cap; i++)
        free(g->blocks[i]);
    free(g->blocks);
}

void tsdb_group_flush(struct tsdb_group *g)
{
    tsdb_prefetch_first(g);
    for (size_t i = 0; i < g->n; i += TSDB_HEADS)
        flush_slots(g, i, i + TSDB_HEADS < g->n ? i + TSDB_HEADS : g->n);
    g->held = 0;
    for (size_t i = 0; g->n_loose && i < g->n; i++)
        if (g->loose[i])
            reattach(g, (uint32_t)i);
    if (g->whole)
        tsdb_group_release_slots(g);
}
