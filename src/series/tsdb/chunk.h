// SPDX-License-Identifier: Apache-2.0
// How samples lie in memory and in files: decimal numbers, timestamps, chunks of one series, and
// the blocks and regions that hold their bytes.
#pragma once

#include "tsdb/tsdb.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// --- decimal numbers ---

// Doubles as bytes, for chunks and for the log.
//
// A value is stored as the decimal number n / 10^places, places 0 to 6 (C prints six), if that is
// exact to the bit: the low three bits of its first byte are the places, the next four begin the
// zigzag of n, and the highest bit says that bytes with seven bits each follow. Otherwise it is
// TSDB_DECIMAL_RAW and the eight bytes of the double. Other bytes whose low bits are
// TSDB_DECIMAL_OTHER are free for the caller's own codes, such as the stale marker.

enum {
    TSDB_DECIMAL_MAX_PLACES = 6,
    TSDB_DECIMAL_OTHER = 7,
    TSDB_DECIMAL_RAW = 0xff,
    TSDB_DECIMAL_MAX_BYTES = 11,
    TSDB_DECIMAL_RUN = 8,
};

static const double tsdb_decimal_powers[TSDB_DECIMAL_MAX_PLACES + 1] = {1,     10,     100,    1000,
                                                                        10000, 100000, 1000000};

static inline uint64_t tsdb_decimal_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static inline double tsdb_decimal_of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline uint64_t tsdb_decimal_zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ -(uint64_t)(v < 0);
}

static inline int64_t tsdb_decimal_unzigzag(uint64_t z)
{
    return (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

// All values as numbers with these places. False: one of them is not exact, or is too large.
bool tsdb_decimal_run(const double v[TSDB_DECIMAL_RUN], unsigned places,
                      int64_t ret[TSDB_DECIMAL_RUN]);
// -1: not a decimal number. hint: places to try first, those of a similar value.
int tsdb_decimal_places(double v, unsigned hint, int64_t *ret_n);
// The number of a value that is one with these places. 0: it is too large.
int64_t tsdb_decimal_number(double v, unsigned places);
int tsdb_decimal_fewest_places(double v, unsigned hint,
                               int64_t *ret_n); // whole numbers before the hint
// Both return how many of at most TSDB_DECIMAL_MAX_BYTES bytes they wrote.
size_t tsdb_decimal_put(uint8_t *out, unsigned places, int64_t n);
size_t tsdb_decimal_put_raw(uint8_t *out, double v);
size_t tsdb_decimal_put_varint(uint8_t *out, uint64_t v);

// --- timestamps ---

// A column of up to TSDB_TIMESTAMPS_MAX timestamps, shared by the chunks of all series that were
// appended together.
//
// A column that only one series uses is packed when it is full: the change of the time step as a
// varint, which takes a byte a sample for regular scrapes.

#define TSDB_TIMESTAMPS_MAX 120

struct tsdb_timestamps {
    uint32_t refs;
    uint16_t n, cap;
    uint16_t packed; // bytes; 0: `at` holds the times
    int64_t first_ms, last_ms;
    int64_t at[];
};

struct tsdb_timestamps *tsdb_timestamps_new(size_t cap); // one reference, for the caller
struct tsdb_timestamps *tsdb_timestamps_ref(struct tsdb_timestamps *t);
// Returns the number of bytes freed: 0 while others hold a reference.
size_t tsdb_timestamps_unref(struct tsdb_timestamps *t);
// t_ms must be newer than last_ms, n below TSDB_TIMESTAMPS_MAX. A column at its cap is reallocated
// and must not be shared.
struct tsdb_timestamps *tsdb_timestamps_append(struct tsdb_timestamps *t, int64_t t_ms);
struct tsdb_timestamps *tsdb_timestamps_pack(struct tsdb_timestamps *t); // must not be shared
size_t tsdb_timestamps_bytes(const struct tsdb_timestamps *t);
// All timestamps; scratch receives them if they are packed.
const int64_t *tsdb_timestamps_read(const struct tsdb_timestamps *t,
                                    int64_t scratch[TSDB_TIMESTAMPS_MAX]);

// --- regions ---

// Memory for the bytes of complete chunks, one after another in regions of 1 MiB. Chunks are
// created in time order and freed in about that order, so whole regions become empty and are
// returned to the operating system. On the heap, the holes between the chunks that stay would take
// more memory than the chunks.

struct tsdb_regions { // zeros: empty
    struct tsdb_region *open;
};

// A copy of the data, 1 to 65535 bytes, until tsdb_regions_drop() with the same length.
const uint8_t *tsdb_regions_put(struct tsdb_regions *s, const uint8_t *data, size_t len);
void tsdb_regions_drop(struct tsdb_regions *s, const uint8_t *data, size_t len);
void tsdb_regions_finish(struct tsdb_regions *s); // all data was dropped before

// --- chunks ---

// The samples of one series, compressed as they are appended.
//
//   chunk    values of consecutive passes of one column of timestamps. The first pass has a value.
//            A decimal number (see above) is stored as the zigzag of its change from the number
//            before:
//              0xxxxxxx        below 112; 112 to 126: the last value 1 to 15 times again
//              10xxxxxx        14 bits, the low six in it, a byte follows
//              110xxxxx        21 bits, 2 bytes follow
//              1110xxxx        28 bits, 3
//              11110xxx        35 bits, 4
//              0xf8            64 bits, 8
//              0xf9 p          the following numbers have p places; the number before is 0
//              0xfa            not a decimal number: the 8 bytes of the double
//              0xfb            the stale marker
//              0xfc n          n passes without a sample
//              0xfd s b v      the numbers of eight passes, packed: the difference of each from a
//              base 0xfe s b v      the changes of eight passes, packed in the same way
//            In the packed codes, the low six bits of s are the bits of a difference, and the high
//            two select the bytes of b: 0, 1, 3 or 8. b is the zigzag of the base less the number
//            before (0xfd), or of the base (0xfe); without bytes, the base is 0. v has the
//            differences, the first one in the lowest bits of the first byte. They are decoded
//            without a dependency of one on the length of another, which is several times faster.
//            At the start of a chunk, places and the number before are 0.
//
// A constant gauge takes a fraction of a byte a sample, a percentage one, a counter two to three;
// the timestamps are shared. Complete chunks, which are nearly all of the history, are read from
// the mapped files of snapshots as soon as these exist: the heap then has only the 24 bytes of a
// struct tsdb_chunk for each.

#define TSDB_CHUNK_RUN TSDB_DECIMAL_RUN // maximum number of passes appended at once

#define TSDB_CHUNK_MIN_STEP  12u // bytes
#define TSDB_CHUNK_MAX_BYTES (TSDB_TIMESTAMPS_MAX * TSDB_DECIMAL_MAX_BYTES)

struct tsdb_head_chunk { // the newest chunk, to which values are appended
    struct tsdb_timestamps *times;
    double last_value;
    uint32_t len : 11, cap : 11;                // bytes
    uint32_t step : 8;                          // bytes that it grows by
    uint32_t first : 7, n : 7;                  // range in the time column
    uint32_t samples : 7;                       // how many of them have a sample
    uint32_t dirty : 1;                         // has samples that the snapshot lacks
    uint32_t in_block : 1;                      // not an allocation of its own
    uint32_t last_places : 4, last_repeats : 4; // the last byte encodes this many repeats; 0: none
    uint32_t last_decimal : 1; // the last number is that of last_value; else it is not known
    uint8_t data[];
};

struct tsdb_chunk { // complete
    struct tsdb_timestamps *times;
    const uint8_t *data; // in a region; with TSDB_CHUNK_MAPPED in a file
    uint32_t place;      // TSDB_CHUNK_…; else the offset of the data in the file being written
    uint32_t len : 11, first : 7, n : 7, samples : 7;
};

#define TSDB_CHUNK_UNSAVED UINT32_C(0)      // in no file
#define TSDB_CHUNK_SAVED   (UINT32_MAX - 1) // in a file and in a region
#define TSDB_CHUNK_MAPPED  UINT32_MAX

struct tsdb_chunk_heap {      // shared by all series of a store
    ptrdiff_t bytes, unsaved; // of all chunks; of complete chunks in no file
    struct tsdb_regions regions;
    struct tsdb_head_room *room; // newest chunks are made and grow there; NULL: on the heap
};

struct tsdb_chunks {              // of one series
    struct tsdb_head_chunk *open; // NULL: no sample
    struct tsdb_chunk *sealed;    // the oldest first
    uint32_t n_sealed;
    uint32_t slot; // of the series in its group: not used by chunks, but would be padding elsewhere
};

// The memory of a newest chunk, on the heap or in the room.
struct tsdb_head_chunk *tsdb_head_new(size_t step, struct tsdb_chunk_heap *heap);
// For len bytes of data. It may move.
struct tsdb_head_chunk *tsdb_head_reserve(struct tsdb_head_chunk *b, size_t len,
                                          struct tsdb_chunk_heap *heap);
void tsdb_head_free(struct tsdb_head_chunk *b, struct tsdb_chunk_heap *heap);

// "No sample in this pass", in rows that have a value for each pass: a NaN with a payload, like the
// stale marker. No parser and no computation produces these bits.
#define TSDB_ABSENT_BITS UINT64_C(0x7ff0000000000003)
static inline double tsdb_absent(void)
{
    return tsdb_decimal_of_bits(TSDB_ABSENT_BITS);
}
static inline bool tsdb_is_absent(double v)
{
    return tsdb_decimal_bits(v) == TSDB_ABSENT_BITS;
}
// Prometheus' staleness NaN: a quiet NaN with this payload. tsdb_is_stale() for hot paths.
#define TSDB_STALE_BITS UINT64_C(0x7ff0000000000002)
static inline bool tsdb_is_stale_inline(double v)
{
    return tsdb_decimal_bits(v) == TSDB_STALE_BITS;
}

static inline bool tsdb_chunks_empty(const struct tsdb_chunks *s)
{
    return !s->open;
}
// Must not be empty.
int64_t tsdb_chunks_first_ms(const struct tsdb_chunks *s);
int64_t tsdb_chunks_last_ms(const struct tsdb_chunks *s);

// Prefetches what tsdb_chunks_put() accesses.
static inline void tsdb_chunks_prefetch(const struct tsdb_chunks *s)
{
    __builtin_prefetch(s->open, 1);
}
static inline void tsdb_chunks_prefetch_end(const struct tsdb_chunks *s)
{
    if (s->open)
        __builtin_prefetch(s->open->data + s->open->len, 1);
}
// Appends n values, from row `at` of the time column on. They are newer than all samples.
void tsdb_chunks_put(struct tsdb_chunks *s, struct tsdb_timestamps *times, size_t at,
                     const double *values, size_t n, struct tsdb_chunk_heap *heap);
// Appends one sample with a timestamp of its own, newer than all samples.
void tsdb_chunks_append(struct tsdb_chunks *s, int64_t t_ms, double value,
                        struct tsdb_chunk_heap *heap);
// Drops chunks whose samples are all older. Adds the number of samples to *ret_samples.
void tsdb_chunks_drop(struct tsdb_chunks *s, int64_t oldest_ms, uint64_t *ret_samples,
                      struct tsdb_chunk_heap *heap);
// Drops samples after t_ms. Adds their number to *ret_samples.
void tsdb_chunks_delete_after(struct tsdb_chunks *s, int64_t t_ms, uint64_t *ret_samples,
                              struct tsdb_chunk_heap *heap);
// Drops all chunks.
void tsdb_chunks_clear(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap);
struct tsdb_chunk tsdb_chunks_at(const struct tsdb_chunks *s,
                                 size_t i); // the oldest is 0; includes the head chunk
// Appends samples with mint <= t <= maxt to ret.
void tsdb_chunks_read(const struct tsdb_chunks *s, int64_t mint, int64_t maxt,
                      struct tsdb_samples *ret);
// The newest sample at or before t_ms; false: none.
bool tsdb_chunks_find(const struct tsdb_chunks *s, int64_t t_ms, struct tsdb_point *ret);
void tsdb_samples_reserve(struct tsdb_samples *s, size_t more); // room for this many more

static inline int64_t tsdb_chunk_first_ms(const struct tsdb_chunk *b)
{
    return b->times->packed ? b->times->first_ms : b->times->at[b->first]; // packed: its own
}
static inline int64_t tsdb_chunk_last_ms(const struct tsdb_chunk *b)
{
    return b->times->packed ? b->times->last_ms : b->times->at[b->first + b->n - 1u];
}

// --- chunks in files ---

struct tsdb_saved_chunk { // read from a file
    struct tsdb_timestamps *times;
    uint64_t first, n, samples;
    struct gs_slice data; // stays valid as long as the chunk
    size_t room;          // readable bytes from data on
};

// Adds a chunk of a file; it replaces those that begin at its first sample or later. False: it is
// invalid or overlaps another. Until tsdb_chunks_resume(), only chunks may be added and nothing may
// be read. *samples is changed by the number of samples added less those replaced.
bool tsdb_chunks_load(struct tsdb_chunks *s, const struct tsdb_saved_chunk *b, ptrdiff_t *samples,
                      struct tsdb_chunk_heap *heap);
// All chunks are loaded: makes the newest one the head chunk. Invalid newest chunks are dropped and
// their samples subtracted from *samples.
void tsdb_chunks_resume(struct tsdb_chunks *s, ptrdiff_t *samples, struct tsdb_chunk_heap *heap);
// Chunks that were written to this file are read from it from now on. Empty slice: the file cannot
// be mapped, and they stay in regions.
void tsdb_chunks_map(struct tsdb_chunks *s, struct gs_slice file, struct tsdb_chunk_heap *heap);
static inline bool tsdb_chunk_is_saved(const struct tsdb_chunk *b)
{
    return b->place == TSDB_CHUNK_SAVED || b->place == TSDB_CHUNK_MAPPED;
}
void tsdb_chunk_free(struct tsdb_chunk *b, struct tsdb_chunk_heap *heap);
void tsdb_chunks_add_sealed(struct tsdb_chunks *s, const struct tsdb_chunk *b,
                            struct tsdb_chunk_heap *heap);
// Removes the newest complete chunk from the list, and returns it.
struct tsdb_chunk tsdb_chunks_take_sealed(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap);

// --- newest chunks in blocks ---

// The newest chunks of neighbouring series of a group lie in one block, one after another. On the
// heap, each would have spare capacity, and a query that reads one metric of many targets would
// access a page of memory for each series.
//
// Chunks grow in a room, which is then copied to a block of its size. A block stays valid until
// another one was made from its chunks, or these have left it.

#define TSDB_HEADS 32 // maximum number of series in a block

struct tsdb_head_room {
    size_t used; // bytes
    // a chunk, and the header of a new one before it has bytes
    alignas(struct tsdb_head_chunk)
        uint8_t bytes[TSDB_HEADS * (2 * sizeof(struct tsdb_head_chunk) + TSDB_CHUNK_MAX_BYTES +
                                    TSDB_DECIMAL_MAX_BYTES)];
};

// Moves the newest chunk of a series to the heap's room, if it has one and is not there.
void tsdb_heads_take(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap);
void *tsdb_heads_block(const struct tsdb_head_room *room); // a copy; free() it
// The newest chunk of the series, if it is in the room, is in the block from now on.
void tsdb_heads_follow(struct tsdb_chunks *s, const struct tsdb_head_room *room, void *block);
// Moves the newest chunk of the series from a block to the heap.
void tsdb_heads_leave(struct tsdb_chunks *s, struct tsdb_chunk_heap *heap);

// --- decoding ---

// A hot path of range functions.

enum { // first bytes of a value
    TSDB_CHUNK_REPEATS = 112,
    TSDB_CHUNK_WIDE = 0xf8,
    TSDB_CHUNK_PLACES,
    TSDB_CHUNK_RAW,
    TSDB_CHUNK_STALE,
    TSDB_CHUNK_ABSENT,
    TSDB_CHUNK_NUMBERS, // packed
    TSDB_CHUNK_CHANGES,
};

#define TSDB_CHUNK_MAX_WIDTH 56u // bits of a packed difference, so that eight bytes contain it

// The bytes of a base, by the high bits of the second byte of a packed code.
static const uint8_t tsdb_chunk_base_bytes[4] = {0, 1, 3, 8};

// The position after reading.
struct tsdb_chunk_position {
    const uint8_t *at;
    int64_t number; // the last one
    unsigned places;
    size_t pending; // remaining repeats or absent values
};

// Decodes the passes from <= i < until into ret; tsdb_absent() for passes without a sample. A valid
// chunk is read up to its length. Of a damaged one, up to TSDB_DECIMAL_MAX_BYTES are read for each
// pass. ret_place may be NULL.
void tsdb_chunk_decode(const uint8_t *data, size_t len, size_t from, size_t until, double *ret,
                       struct tsdb_chunk_position *ret_place);

// --- encoding ---

// A hot path of appending.

// Maximum output of one call, including the bytes after it that are overwritten.
#define TSDB_CHUNK_RUN_BYTES (TSDB_CHUNK_RUN * (TSDB_DECIMAL_MAX_BYTES + 2) + 2 + 8)

// Encodes 1 to TSDB_CHUNK_RUN passes after `gap` passes without a sample; the first and the last
// value are not absent. Returns the number of bytes in out. Updates the state of the chunk; the
// caller adds the bytes and their length. If the chunk ended in a repeat count, the caller has
// removed that byte before (last_repeats stays), because the count may grow.
size_t tsdb_chunk_encode(struct tsdb_head_chunk *b, size_t gap, const double *values, size_t n,
                         uint8_t out[TSDB_CHUNK_RUN_BYTES]);
