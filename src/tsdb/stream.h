// SPDX-License-Identifier: Apache-2.0
// Samples of one series, compressed as they are appended. Private to the room.
//
//   block    values of passes in a row of one column of times. The first of them has a value.
//            One that is a decimal number (decimal.h) is its change from the number before, as a
//            zigzag:
//              0xxxxxxx        below 112; 112 to 126: 1 to 15 times the last value again
//              10xxxxxx        14 bits, the low six in it, a byte follows
//              110xxxxx        21 bits, 2 bytes follow
//              1110xxxx        28 bits, 3
//              11110xxx        35 bits, 4
//              0xf8            64 bits, 8
//              0xf9 p          from here on numbers have p places; the number before is 0
//              0xfa            no decimal number: the 8 bytes of the double
//              0xfb            the stale marker
//              0xfc n          n passes without a sample
//            A block begins with no places, and 0 before the first number.
//
// A constant gauge takes a fraction of a byte a sample, a percentage one, a counter two to three,
// and the times are shared. Blocks that no value goes into any more, nearly all of the history, are
// read from the files of snapshots once they are there: the heap then has the 24 bytes of a struct
// sealed of each.
#pragma once

#include "tsdb/decimal.h"
#include "tsdb/slab.h"
#include "tsdb/times.h"
#include "tsdb/tsdb.h"

#define TSDB_STREAM_RUN TSDB_DECIMAL_RUN // passes that are appended at once, at most

#define TSDB_STREAM_MIN_STEP 12u // bytes
#define TSDB_BLOCK_MAX_BYTES (TSDB_TIMES_MAX * TSDB_DECIMAL_MAX_BYTES)

struct tsdb_block { // that takes more values
    struct tsdb_times *times;
    double last_value;
    int64_t last_number;
    uint32_t len : 11, cap : 11;                // bytes
    uint32_t step : 8;                          // bytes that it grows by
    uint32_t first : 7, n : 7;                  // passes of the column
    uint32_t samples : 7;                       // how many of them have one
    uint32_t dirty : 1;                         // longer than what a snapshot has of it
    uint32_t last_places : 4, last_repeats : 4; // the last byte says so many repeats; 0: another
    uint8_t data[];
};

struct tsdb_sealed { // a block that is complete
    struct tsdb_times *times;
    const uint8_t *data; // in a slab, of TSDB_SEALED_MAPPED in a file
    uint32_t place;      // SEALED_…; others: where the data are in the file being written
    uint32_t len : 11, first : 7, n : 7, samples : 7;
};

#define TSDB_SEALED_NEW    UINT32_C(0)      // no file has it
#define TSDB_SEALED_KEPT   (UINT32_MAX - 1) // a file has it, and a slab too
#define TSDB_SEALED_MAPPED UINT32_MAX

struct tsdb_stream_heap {     // what the streams of a store share
    ptrdiff_t bytes, unsaved; // that they take; of it complete blocks that no file has
    struct tsdb_slabs slabs;
};

struct tsdb_stream {
    struct tsdb_block *open;    // NULL: no sample
    struct tsdb_sealed *sealed; // the oldest first
    uint32_t n_sealed, cap;
};

// "No sample in this pass", where there is a row for each pass: a NaN as the stale marker is one,
// no number and no text gives these bits.
#define TSDB_STREAM_ABSENT_BITS UINT64_C(0x7ff0000000000003)
static inline double tsdb_stream_absent(void)
{
    return tsdb_decimal_of_bits(TSDB_STREAM_ABSENT_BITS);
}
static inline bool tsdb_stream_is_absent(double v)
{
    return tsdb_decimal_bits(v) == TSDB_STREAM_ABSENT_BITS;
}
// Prometheus' staleness NaN: a quiet NaN with this payload. tsdb_is_stale() for hot paths.
#define TSDB_STREAM_STALE_BITS UINT64_C(0x7ff0000000000002)
static inline bool tsdb_stream_is_stale(double v)
{
    return tsdb_decimal_bits(v) == TSDB_STREAM_STALE_BITS;
}

static inline bool tsdb_stream_empty(const struct tsdb_stream *s)
{
    return !s->open;
}
// Not of empty ones.
int64_t tsdb_stream_first_ms(const struct tsdb_stream *s);
int64_t tsdb_stream_last_ms(const struct tsdb_stream *s);

// The blocks that tsdb_stream_put() will touch, before others are put.
static inline void tsdb_stream_prefetch(const struct tsdb_stream *s)
{
    __builtin_prefetch(s->open, 1);
}
static inline void tsdb_stream_prefetch_end(const struct tsdb_stream *s)
{
    if (s->open)
        __builtin_prefetch(s->open->data + s->open->len, 1);
}
// Values of n passes, from pass `at` of the column on; behind all that the stream holds.
void tsdb_stream_put(struct tsdb_stream *s, struct tsdb_times *times, size_t at,
                     const double *values, size_t n, struct tsdb_stream_heap *heap);
// One sample with a time of its own, newer than all that the stream holds.
void tsdb_stream_append(struct tsdb_stream *s, int64_t t_ms, double value,
                        struct tsdb_stream_heap *heap);
// Drops blocks whose samples are all older. *ret_samples: how many went.
void tsdb_stream_drop(struct tsdb_stream *s, int64_t oldest_ms, uint64_t *ret_samples,
                      struct tsdb_stream_heap *heap);
// Drops samples after t_ms. *ret_samples: how many went.
void tsdb_stream_cut(struct tsdb_stream *s, int64_t t_ms, uint64_t *ret_samples,
                     struct tsdb_stream_heap *heap);
// All of it.
void tsdb_stream_clear(struct tsdb_stream *s, struct tsdb_stream_heap *heap);
struct tsdb_sealed tsdb_stream_block(const struct tsdb_stream *s,
                                     size_t i); // the oldest is 0; also the open one
// Appends samples with mint <= t <= maxt to ret.
void tsdb_stream_read(const struct tsdb_stream *s, int64_t mint, int64_t maxt,
                      struct tsdb_samples *ret);
// The newest sample at or before t_ms; false: none.
bool tsdb_stream_at(const struct tsdb_stream *s, int64_t t_ms, struct tsdb_point *ret);
// For who appends samples elsewhere.
void tsdb_samples_push(struct tsdb_samples *s, int64_t t_ms, double value);

static inline int64_t tsdb_block_first_ms(const struct tsdb_sealed *b)
{
    return b->times->packed ? b->times->first_ms : b->times->at[b->first]; // packed: its own
}
static inline int64_t tsdb_block_last_ms(const struct tsdb_sealed *b)
{
    return b->times->packed ? b->times->last_ms : b->times->at[b->first + b->n - 1u];
}

// --- blocks in files (stream_files.c) ---

struct tsdb_saved_block { // as a file says
    struct tsdb_times *times;
    uint64_t first, n, samples;
    struct gs_slice data; // stays where it is as long as the stream has the block
    size_t room;          // bytes that can be read from data on
};

// A block that was written once; it replaces those that begin at its first sample or later. False:
// it is not one, or overlaps another. Until tsdb_stream_resume() the stream takes blocks only, and
// is not read. Samples that it replaces are taken off *samples, its own added.
bool tsdb_stream_load(struct tsdb_stream *s, const struct tsdb_saved_block *b, ptrdiff_t *samples,
                      struct tsdb_stream_heap *heap);
// All blocks are there: the newest takes values again. Newest ones that are none are dropped, their
// samples taken off *samples.
void tsdb_stream_resume(struct tsdb_stream *s, ptrdiff_t *samples, struct tsdb_stream_heap *heap);
// Blocks with a place in the file, whose bytes these are, are read from there from now on. Empty:
// the file cannot be mapped, they stay in the heap.
void tsdb_stream_map(struct tsdb_stream *s, struct gs_slice file, struct tsdb_stream_heap *heap);
static inline bool tsdb_stream_is_saved(const struct tsdb_sealed *b)
{
    return b->place == TSDB_SEALED_KEPT || b->place == TSDB_SEALED_MAPPED;
}
void tsdb_sealed_free(struct tsdb_sealed *b, struct tsdb_stream_heap *heap);
void tsdb_stream_seal(struct tsdb_stream *s, const struct tsdb_sealed *b,
                      struct tsdb_stream_heap *heap);
