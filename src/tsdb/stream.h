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

#define STREAM_RUN DECIMAL_RUN // passes that are appended at once, at most

#define STREAM_MIN_STEP 12u // bytes
#define BLOCK_MAX_BYTES (TIMES_MAX * DECIMAL_MAX_BYTES)

struct block { // that takes more values
    struct times *times;
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

struct sealed { // a block that is complete
    struct times *times;
    const uint8_t *data; // in a slab, of SEALED_MAPPED in a file
    uint32_t place;      // SEALED_…; others: where the data are in the file being written
    uint32_t len : 11, first : 7, n : 7, samples : 7;
};

#define SEALED_NEW    UINT32_C(0)      // no file has it
#define SEALED_KEPT   (UINT32_MAX - 1) // a file has it, and a slab too
#define SEALED_MAPPED UINT32_MAX

struct stream_heap {          // what the streams of a store share
    ptrdiff_t bytes, unsaved; // that they take; of it complete blocks that no file has
    struct slabs slabs;
};

struct stream {
    struct block *open;    // NULL: no sample
    struct sealed *sealed; // the oldest first
    uint32_t n_sealed, cap;
};

// "No sample in this pass", where there is a row for each pass: a NaN as the stale marker is one,
// no number and no text gives these bits.
#define STREAM_ABSENT_BITS UINT64_C(0x7ff0000000000003)
static inline double stream_absent(void)
{
    return decimal_of_bits(STREAM_ABSENT_BITS);
}
static inline bool stream_is_absent(double v)
{
    return decimal_bits(v) == STREAM_ABSENT_BITS;
}
// Prometheus' staleness NaN: a quiet NaN with this payload. tsdb_is_stale() for hot paths.
#define STREAM_STALE_BITS UINT64_C(0x7ff0000000000002)
static inline bool stream_is_stale(double v)
{
    return decimal_bits(v) == STREAM_STALE_BITS;
}

static inline bool stream_empty(const struct stream *s)
{
    return !s->open;
}
// Not of empty ones.
int64_t stream_first_ms(const struct stream *s);
int64_t stream_last_ms(const struct stream *s);

// The blocks that stream_put() will touch, before others are put.
static inline void stream_prefetch(const struct stream *s)
{
    __builtin_prefetch(s->open, 1);
}
static inline void stream_prefetch_end(const struct stream *s)
{
    if (s->open)
        __builtin_prefetch(s->open->data + s->open->len, 1);
}
// Values of n passes, from pass `at` of the column on; behind all that the stream holds.
void stream_put(struct stream *s, struct times *times, size_t at, const double *values, size_t n,
                struct stream_heap *heap);
// One sample with a time of its own, newer than all that the stream holds.
void stream_append(struct stream *s, int64_t t_ms, double value, struct stream_heap *heap);
// Drops blocks whose samples are all older. *ret_samples: how many went.
void stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples,
                 struct stream_heap *heap);
// Drops samples after t_ms. *ret_samples: how many went.
void stream_cut(struct stream *s, int64_t t_ms, uint64_t *ret_samples, struct stream_heap *heap);
// All of it.
void stream_clear(struct stream *s, struct stream_heap *heap);
struct sealed stream_block(const struct stream *s, size_t i); // the oldest is 0; also the open one
// Appends samples with mint <= t <= maxt to ret.
void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret);
// The newest sample at or before t_ms; false: none.
bool stream_at(const struct stream *s, int64_t t_ms, struct tsdb_point *ret);
// For who appends samples elsewhere.
void samples_push(struct tsdb_samples *s, int64_t t_ms, double value);

static inline int64_t block_first_ms(const struct sealed *b)
{
    return b->times->packed ? b->times->first_ms : b->times->at[b->first]; // packed: its own
}
static inline int64_t block_last_ms(const struct sealed *b)
{
    return b->times->packed ? b->times->last_ms : b->times->at[b->first + b->n - 1u];
}

// --- blocks in files (stream_files.c) ---

struct saved_block { // as a file says
    struct times *times;
    uint64_t first, n, samples;
    struct gs_slice data; // stays where it is as long as the stream has the block
    size_t room;          // bytes that can be read from data on
};

// A block that was written once; it replaces those that begin at its first sample or later. False:
// it is not one, or overlaps another. Until stream_resume() the stream takes blocks only, and is
// not read. Samples that it replaces are taken off *samples, its own added.
bool stream_load(struct stream *s, const struct saved_block *b, ptrdiff_t *samples,
                 struct stream_heap *heap);
// All blocks are there: the newest takes values again. Newest ones that are none are dropped, their
// samples taken off *samples.
void stream_resume(struct stream *s, ptrdiff_t *samples, struct stream_heap *heap);
// Blocks with a place in the file, whose bytes these are, are read from there from now on. Empty:
// the file cannot be mapped, they stay in the heap.
void stream_map(struct stream *s, struct gs_slice file, struct stream_heap *heap);
static inline bool stream_is_saved(const struct sealed *b)
{
    return b->place == SEALED_KEPT || b->place == SEALED_MAPPED;
}
void sealed_free(struct sealed *b, struct stream_heap *heap);
void stream_seal(struct stream *s, const struct sealed *b, struct stream_heap *heap);
