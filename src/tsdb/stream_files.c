// SPDX-License-Identifier: Apache-2.0
// Blocks of a stream that are in files.
#include "tsdb/stream.h"

#include "base/mem.h"
#include "tsdb/block_read.h"

// Decodes all of a block that a file has: what a reader will meet. False: it is not one.
static bool decode(const struct sealed *b, double values[TIMES_MAX], struct block_place *ret)
{
    // A value takes at most DECIMAL_MAX_BYTES: reading stays within the zeros behind the data.
    uint8_t padded[BLOCK_MAX_BYTES + DECIMAL_MAX_BYTES + 1] = {0};
    memcpy(padded, b->data, b->len);
    block_read(padded, 0, b->n, values, ret);
    return ret->at == padded + b->len && !ret->pending && !stream_is_absent(values[0]) &&
           !stream_is_absent(values[b->n - 1]);
}

// Takes away the blocks that the one from first_ms on, and those behind it, replace. False: it
// would overlap another.
static bool make_place(struct stream *s, int64_t first_ms, ptrdiff_t *samples,
                       struct stream_heap *heap)
{
    while (s->n_sealed && block_first_ms(&s->sealed[s->n_sealed - 1]) >= first_ms) {
        struct sealed *last = &s->sealed[--s->n_sealed];
        *samples -= last->samples;
        sealed_free(last, heap);
    }
    return !s->n_sealed || block_last_ms(&s->sealed[s->n_sealed - 1]) < first_ms;
}

// Whatever its bytes are, reading a block stays within BLOCK_MAX_BYTES. Where so many are there the
// checksum of its record alone vouches for them, and a start does not decode the history.
static bool is_block(const struct saved_block *b, const struct sealed *sealed)
{
    double values[TIMES_MAX];
    struct block_place end;
    return b->room >= BLOCK_MAX_BYTES || decode(sealed, values, &end);
}

bool stream_load(struct stream *s, const struct saved_block *b, ptrdiff_t *samples,
                 struct stream_heap *heap)
{
    if (!b->n || b->n > TIMES_MAX || !b->samples || b->samples > b->n ||
        b->data.len > BLOCK_MAX_BYTES || b->first > TIMES_MAX - b->n)
        return false;
    struct sealed sealed = {.times = b->times,
                            .data = (const uint8_t *)b->data.data,
                            .place = SEALED_MAPPED,
                            .len = b->data.len & 0x7ff,
                            .first = b->first & 0x7f,
                            .n = b->n & 0x7f,
                            .samples = b->samples & 0x7f};
    if (!is_block(b, &sealed) || !make_place(s, block_first_ms(&sealed), samples, heap))
        return false;
    times_ref(b->times);
    stream_seal(s, &sealed, heap);
    *samples += sealed.samples;
    return true;
}

static struct block *reopen(const struct sealed *last)
{
    double values[TIMES_MAX];
    struct block_place end;
    if (!decode(last, values, &end))
        return NULL;
    struct block *b = gs_alloc(sizeof(*b) + last->len);
    b->times = last->times;
    b->first = last->first;
    b->n = last->n;
    b->samples = last->samples;
    b->len = b->cap = last->len;
    b->step = STREAM_MIN_STEP;
    b->last_value = values[b->n - 1];
    b->last_number = end.number;
    b->last_places = end.places & 0xf;
    memcpy(b->data, last->data, b->len);
    return b;
}

void stream_resume(struct stream *s, ptrdiff_t *samples, struct stream_heap *heap)
{
    while (s->n_sealed && !s->open) {
        struct sealed *last = &s->sealed[--s->n_sealed];
        s->open = reopen(last);
        if (s->open) {
            heap->bytes += (ptrdiff_t)(sizeof(*s->open) + s->open->len);
        } else {
            *samples -= last->samples;
            sealed_free(last, heap);
        }
    }
}

// That the file has the bytes at their place is looked at before the heap's are gone.
void stream_map(struct stream *s, struct gs_slice file, struct stream_heap *heap)
{
    for (size_t i = s->n_sealed; i > 0 && !stream_is_saved(&s->sealed[i - 1]); i--) {
        struct sealed *b = &s->sealed[i - 1];
        if (b->place == SEALED_NEW) // came behind the snapshot
            continue;
        uint32_t place = b->place;
        b->place = SEALED_KEPT;
        heap->unsaved -= b->len;
        if (place > file.len || b->len > file.len - place ||
            memcmp(b->data, file.data + place, b->len) != 0)
            continue;
        slabs_drop(&heap->slabs, b->data, b->len);
        b->data = (const uint8_t *)file.data + place;
        b->place = SEALED_MAPPED;
        heap->bytes -= b->len;
    }
}
