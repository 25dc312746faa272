// SPDX-License-Identifier: Apache-2.0
// Bytes of the log: records and what is in them. Private to the room.
#pragma once

#include "base/buf.h"
#include "metrics/labels.h"

#include <stdbool.h>
#include <stdint.h>

#define TSDB_WAL_SEGMENT_MAGIC "gswal03\n"
#define TSDB_WAL_BLOCKS_MAGIC  "gsblk04\n"
#define TSDB_WAL_HEADER_SIZE   ((size_t)16) // magic, run (u64): passes of one run continue each other
#define TSDB_WAL_RECORD_MAGIC  UINT32_C(0x32525347) // "GSR2"
#define TSDB_WAL_RECORD_HEAD   ((size_t)13)
#define TSDB_WAL_MAX_RECORD    ((size_t)64 << 20)

enum tsdb_wal_type {
    TSDB_WAL_SERIES = 1,  // ref, count, then name and value of each label
    TSDB_WAL_SLOTS = 2,   // group, count, refs
    TSDB_WAL_PASS = 3,    // group, time, count, values
    TSDB_WAL_SAMPLE = 4,  // ref, time, value
    TSDB_WAL_HISTORY = 5, // of a file of blocks: see snapshot.h
    TSDB_WAL_CUT = 6,     // time: samples after it that come before in the log do not count
};

// Appends a record around a payload that add() has written: begin returns where it starts.
size_t tsdb_wal_record_begin(struct gs_buf *out, enum tsdb_wal_type type);
void tsdb_wal_record_end(struct gs_buf *out, size_t start);

void tsdb_wal_put_varint(struct gs_buf *out, uint64_t v);
void tsdb_wal_put_signed(struct gs_buf *out, int64_t v);
void tsdb_wal_put_text(struct gs_buf *out, struct gs_slice s);
// Any time that a clock shows, some 30,000 years around 1970: sums with what a file says cannot
// overflow.
#define TSDB_WAL_TIME_MAX (INT64_C(1) << 50)
static inline bool tsdb_wal_time_is_sane(int64_t t_ms)
{
    return t_ms >= -TSDB_WAL_TIME_MAX && t_ms <= TSDB_WAL_TIME_MAX;
}
// A double in 1 to 9 bytes: a decimal number with up to six places when that is exact, else its
// bits. The stale marker and tsdb_stream_absent() take one byte.
void tsdb_wal_put_value(struct gs_buf *out, double v);
void tsdb_wal_put_values(struct gs_buf *out, const double *v, size_t n); // of a pass

struct tsdb_wal_cursor { // reads a payload; bad is set by the first read past its end
    const uint8_t *at, *end;
    bool bad;
};
uint64_t tsdb_wal_get_varint(struct tsdb_wal_cursor *c);
int64_t tsdb_wal_get_signed(struct tsdb_wal_cursor *c);
struct gs_slice tsdb_wal_get_text(struct tsdb_wal_cursor *c);
double tsdb_wal_get_value(struct tsdb_wal_cursor *c);

struct tsdb_wal_record {
    enum tsdb_wal_type type;
    struct tsdb_wal_cursor payload;
};
// The next sound record at or behind *pos; moves *pos behind it. *ret_skipped: bytes had to be
// passed over. False: none is left (then *ret_skipped tells of a torn tail).
bool tsdb_wal_next_record(struct gs_slice segment, size_t *pos, struct tsdb_wal_record *ret,
                          bool *ret_skipped);
