// SPDX-License-Identifier: Apache-2.0
// One target's samples into the store: target labels merged in, series that went away ended with a
// staleness marker. Private to the room.
#pragma once

#include "metrics/parse.h"
#include "tsdb/ring.h"

struct ingest; // what is remembered of a target between scrapes

struct ingest *ingest_new(struct ring *db, const struct metrics_label *target_labels, size_t n,
                          bool honor_labels);
void ingest_free(struct ingest *in); // without marking anything stale

// A scrape that answered: appends all samples of the text at t_ms (or their own timestamps), ends
// the series that are gone. A malformed text appends nothing, ends all series and is the error.
struct gs_error *ingest_text(struct ingest *in, struct gs_slice text, int64_t t_ms,
                             size_t *ret_samples);
// A scrape that failed, or a target that is removed: all its series end.
void ingest_end_all(struct ingest *in, int64_t t_ms);
// A series about the scrape itself ("up").
void ingest_own(struct ingest *in, const char *name, int64_t t_ms, double value);
