// SPDX-License-Identifier: Apache-2.0
// Chunks in mapped files.
#include "tsdb/chunk.h"

#include "base/mem.h"

// Decodes a whole chunk of a file in order to check it. Returns false if it is invalid.
static bool decode(const struct tsdb_chunk *b, double values[TSDB_TIMESTAMPS_MAX],
                   struct tsdb_chunk_position *ret)
{
    // A value has at most TSDB_DECIMAL_MAX_BYTES, so decoding does not read beyond the zeros after
    // the data.
    uint8_t padded[TSDB_CHUNK_MAX_BYTES + TSDB_DECIMAL_MAX_BYTES + 1] = {0};
    memcpy(padded, b->data, b->len);
    tsdb_chunk_decode(padded, b->len, 0, b->n, values, ret);
    return ret->at == padded + b->len && !ret->pending && !tsdb_is_absent(values[0]) &&
           !tsdb_is_absent(values[b->n - 1]);
}

// Removes the chunks from first_ms on, which the new chunk replaces. Returns false if the new chunk
// would overlap another one.
static bool make_place(struct tsdb_chunks *s, int64_t first_ms, ptrdiff_t *samples,
                       struct tsdb_chunk_heap *heap)
{
    while (s->n_sealed && tsdb_chunk_first_ms(&s->sealed[s->n_sealed - 1]) >= first_ms) {
        struct tsdb_chunk last = tsdb_chunks_take_sealed(s, heap);
        *samples -= last.samples;
        tsdb_chunk_free(&last, heap);
    }
    return !s->n_sealed || tsdb_chunk_last_ms(&s->sealed[s->n_sealed - 1]) < first_ms;
}

// Decoding reads at most TSDB_CHUNK_MAX_BYTES, whatever the bytes are. If the file has this many
// bytes after the chunk, the checksum of the record is sufficient, and the start of the program
// does not decode the history.
static bool is_chunk(const struct tsdb_saved_chunk *b, const struct tsdb_chunk *sealed)
{
    double values[TSDB_TIMESTAMPS_MAX];
    struct tsdb_chunk_position end;
    return b->room >= TSDB_CHUNK_MAX_BYTES || decode(sealed, values, &end);
}

bool tsdb_chunks_load(struct tsdb_chunks *s, const struct tsdb_saved_chunk *b, ptrdiff_t *samples,
                      struct tsdb_chunk_heap *heap)
{
    if (!b->n || b->n > TSDB_TIMESTAMPS_MAX || !b->samples || b->samples > b->n ||
        b->data.len > TSDB_CHUNK_MAX_BYTES || b->first > TSDB_TIMESTAMPS_MAX - b->n)
        return false;
    struct tsdb_chunk sealed = {.times = b->times,
                                .data = (const uint8_t *)b->data.data,
                                .place = TSDB_CHUNK_MAPPED,
                                .len = b->data.len & 0x7ff,
                                .first = b->first & 0x7f,
                                .n = b->n & 0x7f,
                                .samples = b->samples & 0x7f};
    if (!is_chunk(b, &sealed) || !make_place(s, tsdb_chunk_first_ms(&sealed), samples, heap))
        return false;
    tsdb_timestamps_ref(b->times);
    tsdb_chunks_add_sealed(s, &sealed, heap);
    *samples += sealed.samples;
    return true;
}

static struct tsdb_head_chunk *reopen(const struct tsdb_chunk *last)
{
    double values[TSDB_TIMESTAMPS_MAX];
    struct tsdb_chunk_position end;
    if (!decode(last, values, &end))
        return NULL;
    struct tsdb_head_chunk *b = gs_alloc(sizeof(*b) + last->len);
    b->times = last->times;
    b->first = last->first;
    b->n = last->n;
    b->samples = last->samples;
    b->len = b->cap = last->len;
    b->step = TSDB_CHUNK_MIN_STEP;
    b->last_value = values[b->n - 1];
    b->last_places = end.places & 0xf;
    b->last_decimal = tsdb_decimal_number(b->last_value, end.places) == end.number;
    memcpy(b->data, last->data, b->len);
    return b;
}

void tsdb_chunks_resume(struct tsdb_chunks *s, ptrdiff_t *samples, struct tsdb_chunk_heap *heap)
{
    while (s->n_sealed && !s->open) {
        struct tsdb_chunk last = tsdb_chunks_take_sealed(s, heap);
        s->open = reopen(&last);
        if (s->open) {
            heap->bytes += (ptrdiff_t)(sizeof(*s->open) + s->open->len);
        } else {
            *samples -= last.samples;
            tsdb_chunk_free(&last, heap);
        }
    }
}

// Checks that the file has the bytes of each chunk before its memory is freed.
void tsdb_chunks_map(struct tsdb_chunks *s, struct gs_slice file, struct tsdb_chunk_heap *heap)
{
    for (size_t i = s->n_sealed; i > 0 && !tsdb_chunk_is_saved(&s->sealed[i - 1]); i--) {
        struct tsdb_chunk *b = &s->sealed[i - 1];
        if (b->place == TSDB_CHUNK_UNSAVED) // appended after the snapshot
            continue;
        uint32_t place = b->place;
        b->place = TSDB_CHUNK_SAVED;
        heap->unsaved -= b->len;
        if (place > file.len || b->len > file.len - place ||
            memcmp(b->data, file.data + place, b->len) != 0)
            continue;
        tsdb_regions_drop(&heap->regions, b->data, b->len);
        b->data = (const uint8_t *)file.data + place;
        b->place = TSDB_CHUNK_MAPPED;
        heap->bytes -= b->len;
    }
}
