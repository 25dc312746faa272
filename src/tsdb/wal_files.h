// SPDX-License-Identifier: Apache-2.0
// Numbered files of a folder ("wal-00000012"): listing, mapping, appending, deleting what is old.
// Private to the room.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
