// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"
#include "metrics/labels.h"
#include "tsdb/tsdb.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- fsync in the background ---

// fsync() of a written file and of its folder on a thread of its own: a slow disk takes seconds,
// and the loop must not wait for it. The thread sees nothing but two descriptors.

struct tsdb_file_sync;

// Takes fd, a file in dir, and does it at once. False: the file may not be on the disk.
bool tsdb_file_sync_now(int fd, const char *dir);

// Takes fd, a file in dir. NULL: what it could not do in the background it has done (*ret_ok).
struct tsdb_file_sync *tsdb_file_sync_start(int fd, const char *dir, bool *ret_ok);
bool tsdb_file_sync_done(const struct tsdb_file_sync *s); // tsdb_file_sync_end() will not wait
// Waits for the end and frees it. False: the file may not be on the disk.
bool tsdb_file_sync_end(struct tsdb_file_sync *s);

// --- files ---

// Numbered files of a folder ("wal-00000012"): listing, mapping, appending, deleting what is old.
//

struct tsdb_wal_file {
    unsigned number;
    uint64_t bytes;
    int64_t newest_ms;    // of its samples; INT64_MIN: none
    struct gs_slice kept; // mapped as long as it is listed; empty: not
};

struct tsdb_wal_files {
    char *dir, *prefix;
    struct tsdb_wal_file *items; // ascending numbers; the last one is the one that is written
    size_t n, cap;
    unsigned next_number;
    uint64_t bytes; // of all
    int error;      // errno of the last write or new file that failed; 0: the last one worked
};

// Files that are there already have newest_ms INT64_MAX until who reads them knows better.
struct gs_error *tsdb_wal_files_list(struct tsdb_wal_files *f, const char *dir, const char *prefix);
void tsdb_wal_files_finish(struct tsdb_wal_files *f);
// All bytes of a file, until tsdb_wal_files_unmap; empty ones too. False: it cannot be read.
bool tsdb_wal_files_map(struct tsdb_wal_files *f, size_t i, struct gs_slice *ret);
void tsdb_wal_files_unmap(struct gs_slice bytes);
// Maps a file for as long as it is listed. False: it cannot be read.
bool tsdb_wal_files_keep(struct tsdb_wal_files *f, size_t i);
// The bytes of kept files are not resident until somebody reads them again.
void tsdb_wal_files_rest_one(const struct tsdb_wal_files *f, size_t i);
void tsdb_wal_files_rest(const struct tsdb_wal_files *f);
// All that the last one has is on the disk itself when this returns, as far as the disk does that.
void tsdb_wal_files_sync_last(const struct tsdb_wal_files *f);
// A new one behind the last; the descriptor, -1 when it cannot be made (it is listed anyhow).
int tsdb_wal_files_create(struct tsdb_wal_files *f);
// Appends to the last one. False: not all of it could be written.
bool tsdb_wal_files_write(struct tsdb_wal_files *f, int fd, struct gs_slice bytes);
void tsdb_wal_files_newest(struct tsdb_wal_files *f,
                           int64_t t_ms); // the last one has a sample of t_ms
// Those before the last one whose samples are all older than oldest_ms, from the front on.
void tsdb_wal_files_drop_older(struct tsdb_wal_files *f, int64_t oldest_ms);
void tsdb_wal_files_drop_before(struct tsdb_wal_files *f, unsigned number);
void tsdb_wal_files_drop_last(struct tsdb_wal_files *f);

// --- records ---

// Bytes of the log: records and what is in them.

#define TSDB_WAL_SEGMENT_MAGIC "gswal03\n"
#define TSDB_WAL_BLOCKS_MAGIC  "gsblk04\n"
#define TSDB_WAL_HEADER_SIZE   ((size_t)16) // magic, run (u64): passes of one run continue each other
#define TSDB_WAL_RECORD_MAGIC  UINT32_C(0x32525347) // "GSR2"
#define TSDB_WAL_RECORD_HEAD   ((size_t)13)
#define TSDB_WAL_MAX_RECORD    ((size_t)64 << 20)

enum tsdb_wal_type {
    TSDB_WAL_SERIES = 1,       // ref, count, then name and value of each label
    TSDB_WAL_SLOTS = 2,        // group, count, refs
    TSDB_WAL_PASS = 3,         // group, time, count, values
    TSDB_WAL_SAMPLE = 4,       // ref, time, value
    TSDB_WAL_CHUNKS = 5,       // of a file of chunks: see snapshot.h
    TSDB_WAL_DELETE_AFTER = 6, // time: samples after it that come before in the log do not count
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
// bits. The stale marker and tsdb_absent() take one byte.
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

// --- log ---

// The write-ahead log of the store: what was appended, in segments of a folder.
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
// tsdb_absent(). map_version changes whenever refs does.
void tsdb_wal_pass(struct tsdb_wal *w, const struct tsdb *db, uint32_t group, uint64_t map_version,
                   const tsdb_ref *refs, const double *values, size_t n, int64_t t_ms);
void tsdb_wal_sample(struct tsdb_wal *w, const struct tsdb *db, tsdb_ref ref, int64_t t_ms,
                     double value);
// Samples after t_ms do not count from here on.
void tsdb_wal_put_delete_after(struct tsdb_wal *w, int64_t t_ms);
void tsdb_wal_add_retention(struct tsdb_wal *w, int64_t ms);
// The number may mean another series from now on.
void tsdb_wal_series_gone(struct tsdb_wal *w, tsdb_ref ref);
void tsdb_wal_flush(struct tsdb_wal *w, int64_t now_ms);
// What comes is in segments of this number and higher.
unsigned tsdb_wal_rotate(struct tsdb_wal *w);
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

// --- recovery ---

// Between the files of the log, and for its fuzz target.

struct tsdb_recovery;
struct tsdb_recovery *tsdb_wal_recovery_new(struct tsdb *db, int64_t oldest_ms,
                                            struct tsdb_wal_recovery *stats);
// Reads a segment's bytes. Returns the time of its newest sample, INT64_MIN without any.
int64_t tsdb_wal_recovery_segment(struct tsdb_recovery *r, struct gs_slice segment);
void tsdb_wal_recovery_free(struct tsdb_recovery *r);

// --- snapshots ---

// Blocks of samples in files beside the log, so that the log stays short: a restart reads chunks as
// they are and replays minutes instead of the whole retention, and the disk holds compressed
// samples.
//
//   file      blocks-00000007: "gsblk04\n", then records as in the log. It has the blocks that are
//             new or longer since the file before. A chunk takes the place of all earlier
//             ones that begin at its first sample or later.
//   HISTORY   a series and its chunks. Labels and columns of times are numbered at their first use
//             in the file: number * 2 + 1 and the thing itself, later number * 2.
//
// Between two snapshots files are written that have complete chunks alone, whenever these have come
// to a part of the memory that the store takes: the log stays, as it has the samples after them.
//
// A snapshot begins with a cut of the log and goes on for some seconds, a part at each step, while
// samples come in: what came before the cut is in chunks when it ends. Then the file is written to
// the disk itself (fsync, on a thread), and when it is there the log before the cut is deleted, and
// the store reads the chunks from the file, which is mapped, instead of from the heap. A file is
// unmapped and deleted when a snapshot has gone over all series and dropped what is older than the
// retention, and all that the file has is.

struct tsdb_snapshots;

struct tsdb_snapshot_config {
    const char *dir; // there, and nobody else's
    int64_t retention_ms;
    uint64_t log_bytes; // a snapshot each time the log has grown by so much; 0: 128 MiB
    int64_t every_ms;   // … or after this long, by an eighth of that; 0: 5 min
};

struct tsdb_snapshots *tsdb_snapshots_open(const struct tsdb_snapshot_config *cfg);
void tsdb_snapshots_add_retention(struct tsdb_snapshots *s, int64_t ms);
void tsdb_snapshots_close(struct tsdb_snapshots *s);
// Before tsdb_wal_recover: the chunks of all files into db, the empty one of a start.
void tsdb_snapshots_recover(struct tsdb_snapshots *s, struct tsdb *db, int64_t now_ms,
                            struct tsdb_wal_recovery *stats);
// Call each second. Begins a snapshot when it is time, or does a bounded part of one; while its
// file is on its way to the disk nothing.
void tsdb_snapshots_step(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w,
                         int64_t now_ms);
uint64_t tsdb_snapshots_bytes(const struct tsdb_snapshots *s);

// One file's bytes, which must stay as long as db, into db: chunks alone, tsdb_chunks_resume()
// follows. Returns the time of its newest sample, INT64_MIN without any.
int64_t tsdb_snapshot_load(struct tsdb *db, struct gs_slice file, int64_t oldest_ms,
                           struct tsdb_wal_recovery *stats);
