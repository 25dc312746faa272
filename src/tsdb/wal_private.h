// SPDX-License-Identifier: Apache-2.0
// Between the files of the log, and for its fuzz target.
#pragma once

#include "tsdb/wal.h"

struct tsdb_recovery;
struct tsdb_recovery *tsdb_wal_recovery_new(struct tsdb *db, int64_t oldest_ms,
                                            struct tsdb_wal_recovery *stats);
// Reads a segment's bytes. Returns the time of its newest sample, INT64_MIN without any.
int64_t tsdb_wal_recovery_segment(struct tsdb_recovery *r, struct gs_slice segment);
void tsdb_wal_recovery_free(struct tsdb_recovery *r);
