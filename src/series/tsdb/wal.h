// SPDX-License-Identifier: Apache-2.0
// The store on the disk: the write-ahead log with its files and records, recovery, and the
// snapshots that keep it short.
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

// fsync() of a written file and its directory on a separate thread, because a slow disk takes
// seconds and the loop must not wait for it. The thread uses only the two descriptors.

struct tsdb_file_sync;

// Syncs now. Closes fd, a file in dir. False: the file may not be on the disk.
bool tsdb_file_sync_now(int fd, const char *dir);

// Syncs in the background. Closes fd, a file in dir. NULL: no thread could be started, so the file
// was synced now (*ret_ok).
struct tsdb_file_sync *tsdb_file_sync_start(int fd, const char *dir, bool *ret_ok);
// whether tsdb_file_sync_end() returns without waiting
bool tsdb_file_sync_done(const struct tsdb_file_sync *s);
// Waits for the end and frees s. False: the file may not be on the disk.
bool tsdb_file_sync_end(struct tsdb_file_sync *s);

// --- files ---

// Numbered files of a directory ("wal-00000012"): listing, mapping, appending, deleting old files.

struct tsdb_wal_file {
    unsigned number;
    uint64_t bytes;
    int64_t newest_ms;    // of its newest sample; INT64_MIN: none
    struct gs_slice kept; // mapped while it is listed; empty: not mapped
};

struct tsdb_wal_files {
    char *dir, *prefix;
    struct tsdb_wal_file *items; // ascending numbers; the last one is written
    size_t n, cap;
    unsigned next_number;
    uint64_t bytes; // of all
    int error;      // errno of the last failed write or creation; 0: the last one succeeded
};

// Existing files have newest_ms INT64_MAX until their content is read.
struct gs_error *tsdb_wal_files_list(struct tsdb_wal_files *f, const char *dir, const char *prefix);
void tsdb_wal_files_finish(struct tsdb_wal_files *f);
// Maps a file until tsdb_wal_files_unmap; also an empty one. False: it cannot be read.
bool tsdb_wal_files_map(struct tsdb_wal_files *f, size_t i, struct gs_slice *ret);
void tsdb_wal_files_unmap(struct gs_slice bytes);
// Maps a file while it is listed. False: it cannot be read.
bool tsdb_wal_files_keep(struct tsdb_wal_files *f, size_t i);
// Removes the pages of mapped files from memory until they are read again.
void tsdb_wal_files_rest_one(const struct tsdb_wal_files *f, size_t i);
void tsdb_wal_files_rest(const struct tsdb_wal_files *f);
// Syncs the last file to the disk.
void tsdb_wal_files_sync_last(const struct tsdb_wal_files *f);
// Creates a file after the last one, with its header. Returns the descriptor, or -1 on failure (the
// file is listed anyway, with 0 bytes).
int tsdb_wal_files_create(struct tsdb_wal_files *f, struct gs_slice header);
// Appends to the last file. False: not everything was written.
bool tsdb_wal_files_write(struct tsdb_wal_files *f, int fd, struct gs_slice bytes);
void tsdb_wal_files_newest(struct tsdb_wal_files *f,
                           int64_t t_ms); // the last file has a sample of t_ms
// Deletes files from the first on while all of their samples are older than oldest_ms, except for
// the last file.
void tsdb_wal_files_drop_older(struct tsdb_wal_files *f, int64_t oldest_ms);
// The time before which all samples must go so that tsdb_wal_files_drop_older() leaves max_bytes or
// less, except for the last file. INT64_MIN: they are no more.
int64_t tsdb_wal_files_oldest_for(const struct tsdb_wal_files *f, uint64_t max_bytes);
void tsdb_wal_files_drop_before(struct tsdb_wal_files *f, unsigned number);
void tsdb_wal_files_drop_last(struct tsdb_wal_files *f);
// Before the first use: deletes files of 0 bytes and logs the loss. A header is written when a file
// is created, so a full disk, a power failure or another program has emptied them.
void tsdb_wal_files_drop_empty(struct tsdb_wal_files *f);

// --- records ---

// The records of the log and their content.

#define TSDB_WAL_SEGMENT_MAGIC "gswal03\n"
#define TSDB_WAL_BLOCKS_MAGIC  "gsblk05\n"
#define TSDB_WAL_BLOCKS_BEFORE "gsblk04\n" // without packed codes; read, not written
// magic and run (u64): within a run, groups continue across segments
#define TSDB_WAL_HEADER_SIZE  ((size_t)16)
#define TSDB_WAL_RECORD_MAGIC UINT32_C(0x32525347) // "GSR2"
#define TSDB_WAL_RECORD_HEAD  ((size_t)13)
#define TSDB_WAL_MAX_RECORD   ((size_t)64 << 20)

enum tsdb_wal_type {
    TSDB_WAL_SERIES = 1,       // ref, count, then name and value of each label
    TSDB_WAL_SLOTS = 2,        // group, count, refs
    TSDB_WAL_PASS = 3,         // group, time, count, values
    TSDB_WAL_SAMPLE = 4,       // ref, time, value
    TSDB_WAL_CHUNKS = 5,       // of a file of chunks: see snapshots below
    TSDB_WAL_DELETE_AFTER = 6, // time: later samples of earlier records are deleted
};

// Appends a record around a payload that the caller writes in between. begin returns the start
// position.
size_t tsdb_wal_record_begin(struct gs_buf *out, enum tsdb_wal_type type);
void tsdb_wal_record_end(struct gs_buf *out, size_t start);

void tsdb_wal_put_varint(struct gs_buf *out, uint64_t v);
void tsdb_wal_put_signed(struct gs_buf *out, int64_t v);
void tsdb_wal_put_text(struct gs_buf *out, struct gs_slice s);
// Limit of plausible times, about 30,000 years around 1970, so that sums with times of a file
// cannot overflow.
#define TSDB_WAL_TIME_MAX (INT64_C(1) << 50)
static inline bool tsdb_wal_time_is_sane(int64_t t_ms)
{
    return t_ms >= -TSDB_WAL_TIME_MAX && t_ms <= TSDB_WAL_TIME_MAX;
}
// A double in 1 to 9 bytes: a decimal number with up to six places if that is exact, otherwise its
// bits. The stale marker and tsdb_absent() take one byte.
void tsdb_wal_put_value(struct gs_buf *out, double v);
void tsdb_wal_put_values(struct gs_buf *out, const double *v, size_t n); // of one commit

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
// Reads the next valid record at or after *pos and moves *pos after it. *ret_skipped: bytes were
// skipped. False: no more records (*ret_skipped then indicates an incomplete last record).
bool tsdb_wal_next_record(struct gs_slice segment, size_t *pos, struct tsdb_wal_record *ret,
                          bool *ret_skipped);

// --- log ---

// The write-ahead log of the store: all appends, in segment files of a directory. Internal; the
// owner of the store calls it.
//
//   segment   wal-00000012: header, then records. A segment is complete in itself: a series' labels
//             and a group's slots are written again at their first use in each segment, so a
//             segment is dropped by deleting its file once all of its samples are past the
//             retention.
//   record    "GSR2", length (u32), the low half of XXH3 of type and payload (u32), type (u8),
//             payload. Little endian. A reader that meets a torn or corrupt record looks for the
//             next mark: the loss is that record and what it defines until the end of its segment.
//
// Writes are buffered and passed to the operating system by tsdb_wal_flush() (every second) or when
// 1 MiB is full. If the process is killed, unflushed data is lost. Complete segments are synced to
// the disk in the background; a power failure loses what the operating system has not written of
// the last one. If the disk refuses writes, records are dropped and counted. The next successful
// flush starts a new segment.

struct tsdb_wal;

struct tsdb_wal_config {
    const char *dir;      // created if it does not exist; locked against a second process
    int64_t retention_ms; // segments that only have older samples are deleted
    size_t segment_bytes; // bytes of samples after which a new segment starts; 0: 64 MiB
    int64_t segment_ms;   // … or this time; 0: 10 min
};

// GS_EIO, GS_EPERM: the directory cannot be used. GS_EEXIST: another process uses it.
struct gs_error *tsdb_wal_open(const struct tsdb_wal_config *cfg, struct tsdb_wal **ret);
void tsdb_wal_close(struct tsdb_wal *w); // flushes

struct tsdb_wal_recovery {
    uint64_t segments, records, samples, bytes;
    uint64_t corrupt; // places with incomplete, corrupt or invalid records
    uint64_t damaged; // files with such places
    char first_damaged[32];
};
// After file i was read: notes it if it has added to the corrupt places.
void tsdb_wal_files_note_damage(const struct tsdb_wal_files *f, size_t i, uint64_t corrupt_before,
                                struct tsdb_wal_recovery *stats);
// Call before the first write: appends to db the samples of the segments that are within the
// retention.
void tsdb_wal_recover(struct tsdb_wal *w, struct tsdb *db, int64_t now_ms,
                      struct tsdb_wal_recovery *ret);

// --- writing. db provides the labels of series that the segment does not contain yet ---

uint32_t tsdb_wal_group_new(struct tsdb_wal *w);
// Writes one commit of a group. refs[i] is the series of slot i; values[i] is its value, the stale
// marker, or tsdb_absent(). map_version changes when refs does.
void tsdb_wal_pass(struct tsdb_wal *w, const struct tsdb *db, uint32_t group, uint64_t map_version,
                   const tsdb_ref *refs, const double *values, size_t n, int64_t t_ms);
void tsdb_wal_sample(struct tsdb_wal *w, const struct tsdb *db, tsdb_ref ref, int64_t t_ms,
                     double value);
// Deletes samples after t_ms that were written before.
void tsdb_wal_put_delete_after(struct tsdb_wal *w, int64_t t_ms);
void tsdb_wal_add_retention(struct tsdb_wal *w, int64_t ms);
// The number may be reused for another series.
void tsdb_wal_series_gone(struct tsdb_wal *w, tsdb_ref ref);
void tsdb_wal_flush(struct tsdb_wal *w, int64_t now_ms);
// Starts a new segment. Later records are in segments of this number and higher.
unsigned tsdb_wal_rotate(struct tsdb_wal *w);
void tsdb_wal_drop_before(struct tsdb_wal *w, unsigned number);
uint64_t tsdb_wal_bytes(const struct tsdb_wal *w);   // of all segments
uint64_t tsdb_wal_written(const struct tsdb_wal *w); // bytes of samples since the start

struct tsdb_wal_status {
    bool failing;
    uint64_t bytes; // of all segments
    uint64_t errors;
    int error; // errno of the current write failure; 0: none
};
void tsdb_wal_status(const struct tsdb_wal *w, struct tsdb_wal_status *ret);

// --- recovery ---

// Used by the files of the log and its fuzz target.

struct tsdb_recovery;
struct tsdb_recovery *tsdb_wal_recovery_new(struct tsdb *db, int64_t oldest_ms,
                                            struct tsdb_wal_recovery *stats);
// Reads the bytes of a segment. Returns the time of its newest sample; INT64_MIN: none.
int64_t tsdb_wal_recovery_segment(struct tsdb_recovery *r, struct gs_slice segment);
void tsdb_wal_recovery_free(struct tsdb_recovery *r);

// --- snapshots ---

// Blocks of samples in files beside the log, so that the log stays short: a restart reads chunks as
// they are and replays minutes instead of the whole retention, and the disk holds compressed
// samples.
//
//   file      blocks-00000007: "gsblk05\n", then records as in the log. It has the blocks that are
//             new or longer since the file before. A chunk takes the place of all earlier
//             ones that begin at its first sample or later.
//   HISTORY   a series and its chunks. Labels and columns of times are numbered at their first use
//             in the file: number * 2 + 1 and the thing itself, later number * 2.
//
// Between snapshots, files with only complete chunks are written when these exceed a fraction of
// the store's memory. The log is kept, because it contains the later samples.
//
// A snapshot starts a new log segment and then takes some seconds, one part per step, while samples
// are appended. At its end, everything before the new segment is in chunks. The file is synced to
// the disk in the background. Then the older segments are deleted, and the store reads the chunks
// from the mapped file instead of the heap. A file is unmapped and deleted when a snapshot has
// visited all series, has dropped samples older than the retention, and the file contains nothing
// else.

struct tsdb_snapshots;

struct tsdb_snapshot_config {
    const char *dir; // exists, and no other process uses it
    int64_t retention_ms;
    uint64_t log_bytes; // log growth after which a snapshot is written; 0: 128 MiB
    int64_t every_ms;   // … or this time, if the log has grown by an eighth of that; 0: 5 min
    uint64_t max_bytes; // of the files; 0: no limit
};

struct tsdb_snapshots *tsdb_snapshots_open(const struct tsdb_snapshot_config *cfg);
void tsdb_snapshots_add_retention(struct tsdb_snapshots *s, int64_t ms);
void tsdb_snapshots_close(struct tsdb_snapshots *s);
// Call before tsdb_wal_recover: loads the chunks of all files into the empty db.
void tsdb_snapshots_recover(struct tsdb_snapshots *s, struct tsdb *db, int64_t now_ms,
                            struct tsdb_wal_recovery *stats);
// Call every second. Starts a snapshot when it is due, or does a limited part of it. Does nothing
// while its file is being synced.
void tsdb_snapshots_step(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w,
                         int64_t now_ms);
uint64_t tsdb_snapshots_bytes(const struct tsdb_snapshots *s);

// Loads the chunks of a file into db. The bytes must exist as long as db. Call tsdb_chunks_resume()
// afterwards. Returns the time of the newest sample; INT64_MIN: none.
int64_t tsdb_snapshot_load(struct tsdb *db, struct gs_slice file, int64_t oldest_ms,
                           struct tsdb_wal_recovery *stats);
