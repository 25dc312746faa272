// SPDX-License-Identifier: Apache-2.0
// Bytes of the log: records and what is in them. Private to the room.
#pragma once

#include "base/buf.h"
#include "metrics/labels.h"

#include <stdbool.h>
#include <stdint.h>

#define WAL_SEGMENT_MAGIC "gswal03\n"
#define WAL_BLOCKS_MAGIC  "gsblk04\n"
#define WAL_HEADER_SIZE   ((size_t)16) // magic, run (u64): passes of one run continue each other
#define WAL_RECORD_MAGIC  UINT32_C(0x32525347) // "GSR2"
#define WAL_RECORD_HEAD   ((size_t)13)
#define WAL_MAX_RECORD    ((size_t)64 << 20)

enum wal_type {
    WAL_SERIES = 1,  // ref, count, then name and value of each label
    WAL_SLOTS = 2,   // group, count, refs
    WAL_PASS = 3,    // group, time, count, values
    WAL_SAMPLE = 4,  // ref, time, value
    WAL_HISTORY = 5, // of a file of blocks: see snapshot.h
    WAL_CUT = 6,     // time: samples after it that come before in the log do not count
};

// Appends a record around a payload that add() has written: begin returns where it starts.
size_t wal_record_begin(struct gs_buf *out, enum wal_type type);
void wal_record_end(struct gs_buf *out, size_t start);

void wal_put_varint(struct gs_buf *out, uint64_t v);
void wal_put_signed(struct gs_buf *out, int64_t v);
void wal_put_text(struct gs_buf *out, struct gs_slice s);
// Any time that a clock shows, some 30,000 years around 1970: sums with what a file says cannot
// overflow.
#define WAL_TIME_MAX (INT64_C(1) << 50)
static inline bool wal_time_is_sane(int64_t t_ms)
{
    return t_ms >= -WAL_TIME_MAX && t_ms <= WAL_TIME_MAX;
}
// A double in 1 to 9 bytes: a decimal number with up to six places when that is exact, else its
// bits. The stale marker and stream_absent() take one byte.
void wal_put_value(struct gs_buf *out, double v);
void wal_put_values(struct gs_buf *out, const double *v, size_t n); // of a pass

struct wal_cursor { // reads a payload; bad is set by the first read past its end
    const uint8_t *at, *end;
    bool bad;
};
uint64_t wal_get_varint(struct wal_cursor *c);
int64_t wal_get_signed(struct wal_cursor *c);
struct gs_slice wal_get_text(struct wal_cursor *c);
double wal_get_value(struct wal_cursor *c);

struct wal_record {
    enum wal_type type;
    struct wal_cursor payload;
};
// The next sound record at or behind *pos; moves *pos behind it. *ret_skipped: bytes had to be
// passed over. False: none is left (then *ret_skipped tells of a torn tail).
bool wal_next_record(struct gs_slice segment, size_t *pos, struct wal_record *ret,
                     bool *ret_skipped);
