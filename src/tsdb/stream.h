// SPDX-License-Identifier: Apache-2.0
// Samples of one series, compressed as they are appended. Private to the room.
//
//   block    up to 120 samples as bytes. The first sample: time, value. Each further one: a varint
//            of (change of the time step, zigzag) * 2 + (the value is the last one), then the value
//            when it is another.
//   value    a decimal number n / 10^places, places 0 to 5, when that is exact to the bit: the low
//            three bits of its first byte are the places, the rest and the bytes behind it the
//            zigzag of n, or of its change when the last value had the same places. Else its eight
//            bytes; the stale marker takes one.
//
// A constant gauge takes a byte a sample, a counter or percentage two to three.
#pragma once

#include "tsdb/tsdb.h"

struct block {
    int64_t first_ms, last_ms;
    uint16_t n, len, cap; // samples, bytes
    uint8_t data[];
};

struct stream {
    struct block **blocks; // the oldest first; the last one is open
    uint32_t n_blocks, cap;
    int64_t last_ms, last_step; // of the newest sample
    double last_value;
    int64_t last_number; // of the last decimal value of the open block
    uint8_t last_places;
};

static inline bool stream_empty(const struct stream *s)
{
    return s->n_blocks == 0;
}
int64_t stream_first_ms(const struct stream *s); // not of an empty one
// t_ms is newer than last_ms. Returns how many bytes the stream takes more.
size_t stream_append(struct stream *s, int64_t t_ms, double value);
// Drops blocks whose samples are all older. Returns the bytes that are free; *ret_samples: dropped.
size_t stream_drop(struct stream *s, int64_t oldest_ms, uint64_t *ret_samples);
size_t stream_bytes(const struct stream *s);
void stream_finish(struct stream *s);
// Samples with mint <= t <= maxt, replacing ret's.
void stream_read(const struct stream *s, int64_t mint, int64_t maxt, struct tsdb_samples *ret);
// The newest sample at or before t_ms; false: none.
bool stream_at(const struct stream *s, int64_t t_ms, struct tsdb_point *ret);
