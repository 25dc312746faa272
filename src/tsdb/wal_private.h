// SPDX-License-Identifier: Apache-2.0
// Between the files of the log, and for its fuzz target.
#pragma once

#include "tsdb/wal.h"

struct recovery;
struct recovery *wal_recovery_new(struct tsdb *db, int64_t oldest_ms, struct wal_recovery *stats);
// Reads a segment's bytes. Returns the time of its newest sample, INT64_MIN without any.
int64_t wal_recovery_segment(struct recovery *r, struct gs_slice segment);
void wal_recovery_free(struct recovery *r);
