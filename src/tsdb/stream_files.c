// SPDX-License-Identifier: Apache-2.0
// Blocks of a stream that are in files.
#include "tsdb/stream.h"

#include "base/mem.h"
#include "tsdb/block_read.h"

// Decodes all of a block that a file has: what a reader will meet. False: it is not one.
static bool decode(const struct tsdb_sealed *b, double values[TSDB_TIMES_MAX],
                   struct tsdb_block_place *ret)
{
    // A value takes at most TSDB_DECIMAL_MAX_BYTES: reading stays within the zeros behind the data.
    uint8_t padded[TSDB_BLOCK_MAX_BYTES + TSDB_DECIMAL_MAX_BYTES + 1] = {0};
    memcpy(padded, b->data, b->len);
    tsdb_block_read(padded, 0, b->n, values, ret);
    return ret->at == padded + b->len && !ret->pending && !tsdb_stream_is_absent(values[0]) &&
           !tsdb_stream_is_absent(values[b->n - 1]);
}

// Takes away the blocks that the one from first_ms on, and those behind it, replace. False: it
// would overlap another.
static bool make_place(struct tsdb_stream *s, int64_t first_ms, ptrdiff_t *samples,
                       struct tsdb_stream_heap *heap)
{
    while (s->n_sealed && tsdb_block_first_ms(&s->sealed[s->n_sealed - 1]) >= first_ms) {
        struct tsdb_sealed *last = &s->sealed[--s->n_sealed];
        *samples -= last->samples;
        tsdb_sealed_free(last, heap);
    }
    return !s->n_sealed || tsdb_block_last_ms(&s->sealed[s->n_sealed - 1]) < first_ms;
}

// Whatever its bytes are, reading a block stays within TSDB_BLOCK_MAX_BYTES. Where so many are
// there the checksum of its record alone vouches for them, and a start does not decode the history.
static bool is_block(const struct tsdb_saved_block *b, const struct tsdb_sealed *sealed)
{
    double values[TSDB_TIMES_MAX];
    struct tsdb_block_place end;
    return b->room >= TSDB_BLOCK_MAX_BYTES || decode(sealed, values, &end);
}

bool tsdb_stream_load(struct tsdb_stream *s, const struct tsdb_saved_block *b, ptrdiff_t *samples,
                      struct tsdb_stream_heap *heap)
{
    if (!b->n || b->n > TSDB_TIMES_MAX || !b->samples || b->samples > b->n ||
        b->data.len > TSDB_BLOCK_MAX_BYTES || b->first > TSDB_TIMES_MAX - b->n)
        return false;
    struct tsdb_sealed sealed = {.times = b->times,
                                 .data = (const uint8_t *)b->data.data,
                                 .place = TSDB_SEALED_MAPPED,
                                 .len = b->data.len & 0x7ff,
                                 .first = b->first & 0x7f,
                                 .n = b->n & 0x7f,
                                 .samples = b->samples & 0x7f};
    if (!is_block(b, &sealed) || !make_place(s, tsdb_block_first_ms(&sealed), samples, heap))
        return false;
    tsdb_times_ref(b->times);
    tsdb_stream_seal(s, &sealed, heap);
    *samples += sealed.samples;
    return true;
}

static struct tsdb_block *reopen(const struct tsdb_sealed *last)
{
    double values[TSDB_TIMES_MAX];
    struct tsdb_block_place end;
    if (!decode(last, values, &end))
        return NULL;
    struct tsdb_block *b = gs_alloc(sizeof(*b) + last->len);
    b->times = last->times;
    b->first = last->first;
    b->n = last->n;
    b->samples = last->samples;
    b->len = b->cap = last->len;
    b->step = TSDB_STREAM_MIN_STEP;
    b->last_value = values[b->n - 1];
    b->last_number = end.number;
    b->last_places = end.places & 0xf;
    memcpy(b->data, last->data, b->len);
    return b;
}

void tsdb_stream_resume(struct tsdb_stream *s, ptrdiff_t *samples, struct tsdb_stream_heap *heap)
{
    while (s->n_sealed && !s->open) {
        struct tsdb_sealed *last = &s->sealed[--s->n_sealed];
        s->open = reopen(last);
        if (s->open) {
            heap->bytes += (ptrdiff_t)(sizeof(*s->open) + s->open->len);
        } else {
            *samples -= last->samples;
            tsdb_sealed_free(last, heap);
        }
    }
}

// That the file has the bytes at their place is looked at before the heap's are gone.
void tsdb_stream_map(struct tsdb_stream *s, struct gs_slice file, struct tsdb_stream_heap *heap)
{
    for (size_t i = s->n_sealed; i > 0 && !tsdb_stream_is_saved(&s->sealed[i - 1]); i--) {
        struct tsdb_sealed *b = &s->sealed[i - 1];
        if (b->place == TSDB_SEALED_NEW) // came behind the snapshot
            continue;
        uint32_t place = b->place;
        b->place = TSDB_SEALED_KEPT;
        heap->unsaved -= b->len;
        if (place > file.len || b->len > file.len - place ||
            memcmp(b->data, file.data + place, b->len) != 0)
            continue;
        tsdb_slabs_drop(&heap->slabs, b->data, b->len);
        b->data = (const uint8_t *)file.data + place;
        b->place = TSDB_SEALED_MAPPED;
        heap->bytes -= b->len;
    }
}
