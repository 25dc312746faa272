// SPDX-License-Identifier: Apache-2.0
// The memory of newest chunks: on the heap, or in blocks of neighbouring series.
#include "tsdb/chunk.h"

#include "base/assert.h"
#include "base/mem.h"

static size_t size_of(size_t cap)
{
    return sizeof(struct tsdb_head_chunk) + cap;
}

// Rounds up to whole steps, and to the usable size of the allocation.
static size_t heap_capacity(size_t step, size_t len)
{
    size_t bytes = size_of((len / step + 1) * step);
    return (bytes + 7) / 16 * 16 + 8 - sizeof(struct tsdb_head_chunk);
}

static size_t capacity(const struct tsdb_chunk_heap *heap, size_t step, size_t len)
{
    return heap->room ? (len + 7) / 8 * 8 : heap_capacity(step, len);
}

static void *take_room(struct tsdb_head_room *room, size_t bytes)
{
    void *at = room->bytes + room->used;
    gs_assert(bytes <= sizeof(room->bytes) - room->used);
    room->used += bytes;
    return memset(at, 0, bytes);
}

static bool is_in_room(const struct tsdb_head_room *room, const struct tsdb_head_chunk *b)
{
    const uint8_t *at = (const uint8_t *)b;
    return at >= room->bytes && at < room->bytes + room->used;
}

static struct tsdb_head_chunk *make(size_t cap, struct tsdb_chunk_heap *heap)
{
    struct tsdb_head_chunk *b =
        heap->room ? take_room(heap->room, size_of(cap)) : gs_alloc(size_of(cap));
    b->in_block = heap->room != NULL;
    b->cap = cap & 0x7ff;
    heap->bytes += (ptrdiff_t)size_of(cap);
    return b;
}

struct tsdb_head_chunk *tsdb_head_new(size_t step, struct tsdb_chunk_heap *heap)
{
    // In a room, tsdb_head_reserve() follows.
    struct tsdb_head_chunk *b = make(heap->room ? 0 : heap_capacity(step, 0), heap);
    b->step = step & 0xff;
    return b;
}

void tsdb_head_free(struct tsdb_head_chunk *b, struct tsdb_chunk_heap *heap)
{
    heap->bytes -= (ptrdiff_t)size_of(b->cap);
    if (!b->in_block)
        free(b);
}

static struct tsdb_head_chunk *move(struct tsdb_head_chunk *b, size_t cap,
                                    struct tsdb_chunk_heap *heap)
{
    struct tsdb_head_chunk *to = make(cap, heap);
    memcpy(to, b, size_of(b->len));
    to->in_block = heap->room != NULL;
    to->cap = cap & 0x7ff;
    tsdb_head_free(b, heap);
    return to;
}

struct tsdb_head_chunk *tsdb_head_reserve(struct tsdb_head_chunk *b, size_t len,
                                          struct tsdb_chunk_heap *heap)
{
    return len <= b->cap ? b : move(b, capacity(heap, b->step, len), heap);
}

// --- blocks ---

void tsdb_heads_take(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    if (s->open && !is_in_room(heap->room, s->open))
        s->open = move(s->open, capacity(heap, s->open->step, s->open->len), heap);
}

void *tsdb_heads_block(const struct tsdb_head_room *room)
{
    void *block = gs_alloc(room->used);
    return memcpy(block, room->bytes, room->used);
}

void tsdb_heads_follow(struct tsdb_chunks *s, const struct tsdb_head_room *room, void *block)
{
    if (s->open && is_in_room(room, s->open))
        s->open = (void *)((uint8_t *)block + ((const uint8_t *)s->open - room->bytes));
}

void tsdb_heads_leave(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap)
{
    gs_assert(!heap->room);
    if (s->open && s->open->in_block)
        s->open = move(s->open, capacity(heap, s->open->step, s->open->len), heap);
}
