// SPDX-License-Identifier: Apache-2.0
// Blocks of samples in files beside the log, so that the log stays short: a restart reads blocks as
// they are and replays minutes instead of the whole retention, and the disk holds compressed
// samples. Private to the room.
//
//   file      blocks-00000007: "gsblk04\n", then records as in the log. It has the blocks that are
//             new or longer since the file before. A block takes the place of all earlier
//             ones that begin at its first sample or later.
//   HISTORY   a series and its blocks. Labels and columns of times are numbered at their first use
//             in the file: number * 2 + 1 and the thing itself, later number * 2.
//
// Between two snapshots files are written that have complete blocks alone, whenever these have come
// to a part of the memory that the store takes: the log stays, as it has the samples after them.
//
// A snapshot begins with a cut of the log and goes on for some seconds, a part at each step, while
// samples come in: what came before the cut is in blocks when it ends. Then the file is written to
// the disk itself (fsync, on a thread), and when it is there the log before the cut is deleted, and
// the store reads the blocks from the file, which is mapped, instead of from the heap. A file is
// unmapped and deleted when a snapshot has gone over all series and dropped what is older than the
// retention, and all that the file has is.
#pragma once

#include "tsdb/wal.h"

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
// Before tsdb_wal_recover: the blocks of all files into db, the empty one of a start.
void tsdb_snapshots_recover(struct tsdb_snapshots *s, struct tsdb *db, int64_t now_ms,
                            struct tsdb_wal_recovery *stats);
// Call each second. Begins a snapshot when it is time, or does a bounded part of one; while its
// file is on its way to the disk nothing.
void tsdb_snapshots_step(struct tsdb_snapshots *s, struct tsdb *db, struct tsdb_wal *w,
                         int64_t now_ms);
uint64_t tsdb_snapshots_bytes(const struct tsdb_snapshots *s);

// One file's bytes, which must stay as long as db, into db: blocks alone, tsdb_stream_resume()
// follows. Returns the time of its newest sample, INT64_MIN without any.
int64_t tsdb_snapshot_load(struct tsdb *db, struct gs_slice file, int64_t oldest_ms,
                           struct tsdb_wal_recovery *stats);
