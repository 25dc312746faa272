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
// Writes are buffered and handed to the operating system by wal_flush() (each second) or when 1 MiB
// is full: killing the process costs what was not flushed. Full segments are written to the disk
// itself (fsync, on a thread); losing power costs what the operating system has not written of the
// last one. When the disk takes no more, records are dropped and counted; the next flush that works
// starts a new segment.
#pragma once

#include "tsdb/tsdb.h"

struct wal;

struct wal_config {
    const char *dir;      // made when missing; locked against a second process
    int64_t retention_ms; // segments whose samples are all older go
    size_t segment_bytes; // of samples; a new segment behind this; 0: 64 MiB
    int64_t segment_ms;   // … and after this long; 0: 10 min
};

// GS_EIO, GS_EPERM: the folder cannot be used; GS_EEXIST: another process holds it.
struct gs_error *wal_open(const struct wal_config *cfg, struct wal **ret);
void wal_close(struct wal *w); // flushes

struct wal_recovery {
    uint64_t segments, records, samples, bytes;
    uint64_t corrupt; // places where records were torn, corrupt or made no sense
};
// Before the first write: appends to db what the segments hold and is not older than the retention.
void wal_recover(struct wal *w, struct tsdb *db, int64_t now_ms, struct wal_recovery *ret);

// --- writing. db gives the labels of series that the segment does not know yet ---

uint32_t wal_group_new(struct wal *w);
// One pass of a group. refs[i] is the series of slot i, values[i] its value, the stale marker, or
// stream_absent(). map_version changes whenever refs does.
void wal_pass(struct wal *w, const struct tsdb *db, uint32_t group, uint64_t map_version,
              const tsdb_ref *refs, const double *values, size_t n, int64_t t_ms);
void wal_sample(struct wal *w, const struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value);
// Samples after t_ms do not count from here on.
void wal_put_cut(struct wal *w, int64_t t_ms);
void wal_add_retention(struct wal *w, int64_t ms);
// The number may mean another series from now on.
void wal_series_gone(struct wal *w, tsdb_ref ref);
void wal_flush(struct wal *w, int64_t now_ms);
// What comes is in segments of this number and higher.
unsigned wal_cut(struct wal *w);
void wal_drop_before(struct wal *w, unsigned number);
uint64_t wal_bytes(const struct wal *w);   // of all segments
uint64_t wal_written(const struct wal *w); // bytes of samples since the start

struct wal_status {
    bool failing;
    uint64_t bytes; // of all segments
    uint64_t errors;
    int error; // errno of what the disk refuses now; 0: nothing
};
void wal_status(const struct wal *w, struct wal_status *ret);
