// SPDX-License-Identifier: Apache-2.0
// Samples of one series, compressed as they are appended. Private to the room.
//
//   block    values of passes in a row of one column of times. The first of them has a value. Each
//            value as decimal.h has it; a number with as many places as the last one is its
//            change. Form 7: its upper five bits are 0 for the stale marker, 1 to 15 for so many
//            times the last value again, 16 to 30 for 1 to 15 passes without a sample.
//
// A constant gauge takes a fraction of a byte a sample, a counter or percentage one to two, and
// the times are shared.
#pragma once

#include "tsdb/times.h"
#include "tsdb/tsdb.h"

#define STREAM_RUN 8 // passes that are appended at once, at most

struct block {
    struct times *times;
    double last_value;
    int64_t last_number;
    uint16_t len, cap;                         // bytes
    uint8_t first, n;                          // passes of the column
    uint8_t samples : 7;                       // how many of them have one
    uint8_t dirty : 1;                         // longer than what a snapshot has of it
    uint8_t last_places : 4, last_repeats : 4; // the last byte says so many repeats; 0: another
    uint8_t data[];
};

struct stream {
    struct block *open;    // NULL: no sample
    struct block **sealed; // the oldest first
    uint32_t n_sealed, cap;
};

// "No sample in this pass", where there is a row for each pass.
double stream_absent(void);
bool stream_is_absent(double v);

static inline bool stream_empty(const struct stream *s)
{
    return !s->open;
}
// Not of empty ones.
int64_t stream_first_ms(const struct stream *s);
int64_t stream_last_ms(const struct stream *s);

// Values of n passes, from pass `at` of the column on; behind all that the stream holds. Adds to
// *bytes what the stream takes more.
void stream_put(struct stream *s, struct times *times, size_t at, const double *values, size_t n,
                ptrdiff_t *bytes);
// One sample with a time of its own, newer than all that the stream holds.
void stream_append(struct stream *s, int64_t t_ms, double value, ptrdiff_t *bytes);
// Drops blocks whose samples are all older. *ret_samples: how many went.
void stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples, ptrdiff_t *bytes);
// All of it; what it took goes off *bytes.
void stream_clear(struct stream *s, ptrdiff_t *bytes);
// A block that was written once; it replaces those that begin at its first sample or later. False:
// it is not one, or overlaps another.
bool stream_load(struct stream *s, struct times *times, size_t first, size_t n,
                 struct gs_slice data, ptrdiff_t *samples, ptrdiff_t *bytes);
size_t stream_blocks(const struct stream *s);
struct block *stream_block(const struct stream *s, size_t i); // the oldest is 0
// Appends samples with mint <= t <= maxt to ret.
void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret);
// The newest sample at or before t_ms; false: none.
bool stream_at(const struct stream *s, int64_t t_ms, struct tsdb_point *ret);
// For who appends samples elsewhere.
void samples_push(struct tsdb_samples *s, int64_t t_ms, double value);
