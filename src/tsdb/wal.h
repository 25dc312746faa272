// SPDX-License-Identifier: Apache-2.0
// The write-ahead log of the store: what was appended, in segments of a folder. Private to the
// room; the owner of the store calls it.
//
//   segment   wal-00000012: header, then records. A segment is complete in itself: a series' labels
//             and a group's slots are written again at their first use in each segment, so a
//             segment is dropped by deleting its file once all of its samples are past the
//             retention.
//   record    "GSR2", length (u32), the low half of XXH3 of type and payload (u32), type (u8),
//             payload. Little endian. A reader that meets a torn or corrupt record looks for the
//             next mark: the loss is that record and what it defines until the end of its segment.
//
// Writes are buffered and handed to the operating system by tsdb_wal_flush() (each second) or when
// 1 MiB is full: killing the process costs what was not flushed. Full segments are written to the
// disk itself (fsync, on a thread); losing power costs what the operating system has not written of
// the last one. When the disk takes no more, records are dropped and counted; the next flush that
// works starts a new segment.
#pragma once

#include "tsdb/tsdb.h"

struct tsdb_wal;

struct tsdb_wal_config {
    const char *dir;      // made when missing; locked against a second process
    int64_t retention_ms; // segments whose samples are all older go
    size_t segment_bytes; // of samples; a new segment behind this; 0: 64 MiB
    int64_t segment_ms;   // … and after this long; 0: 10 min
};

// GS_EIO, GS_EPERM: the folder cannot be used; GS_EEXIST: another process holds it.
struct gs_error *tsdb_wal_open(const struct tsdb_wal_config *cfg, struct tsdb_wal **ret);
void tsdb_wal_close(struct tsdb_wal *w); // flushes

struct tsdb_wal_recovery {
    uint64_t segments, records, samples, bytes;
    uint64_t corrupt; // places where records were torn, corrupt or made no sense
};
// Before the first write: appends to db what the segments hold and is not older than the retention.
void tsdb_wal_recover(struct tsdb_wal *w, struct tsdb *db, int64_t now_ms,
                      struct tsdb_wal_recovery *ret);

// --- writing. db gives the labels of series that the segment does not know yet ---

uint32_t tsdb_wal_group_new(struct tsdb_wal *w);
// One pass of a group. refs[i] is the series of slot i, values[i] its value, the stale marker, or
// tsdb_stream_absent(). map_version changes whenever refs does.
void tsdb_wal_pass(struct tsdb_wal *w, const struct tsdb *db, uint32_t group, uint64_t map_version,
                   const tsdb_ref *refs, const double *values, size_t n, int64_t t_ms);
void tsdb_wal_sample(struct tsdb_wal *w, const struct tsdb *db, tsdb_ref ref, int64_t t_ms,
                     double value);
// Samples after t_ms do not count from here on.
void tsdb_wal_put_cut(struct tsdb_wal *w, int64_t t_ms);
void tsdb_wal_add_retention(struct tsdb_wal *w, int64_t ms);
// The number may mean another series from now on.
void tsdb_wal_series_gone(struct tsdb_wal *w, tsdb_ref ref);
void tsdb_wal_flush(struct tsdb_wal *w, int64_t now_ms);
// What comes is in segments of this number and higher.
unsigned tsdb_wal_cut(struct tsdb_wal *w);
void tsdb_wal_drop_before(struct tsdb_wal *w, unsigned number);
uint64_t tsdb_wal_bytes(const struct tsdb_wal *w);   // of all segments
uint64_t tsdb_wal_written(const struct tsdb_wal *w); // bytes of samples since the start

struct tsdb_wal_status {
    bool failing;
    uint64_t bytes; // of all segments
    uint64_t errors;
    int error; // errno of what the disk refuses now; 0: nothing
};
void tsdb_wal_status(const struct tsdb_wal *w, struct tsdb_wal_status *ret);
