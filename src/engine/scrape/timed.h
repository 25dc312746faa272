// SPDX-License-Identifier: Apache-2.0
// Samples with timestamps of their own. They stay outside of the target's group, so their series do
// not end by themselves: with track_timestamps_staleness those end that are not seen any more.
// Private to the room.
#pragma once

#include "engine/scrape/ingest.h"

struct scrape_timed_series {
    tsdb_ref ref;
    uint64_t id; // of its labels: a number may become another series'
};

// Ascending, each once, when it is of a scrape that has ended.
struct scrape_timed_set {
    struct scrape_timed_series *items;
    size_t n, cap;
};
void scrape_timed_set_finish(struct scrape_timed_set *s);

struct scrape_timed_sample {
    tsdb_ref ref;
    bool is_new; // the series, to the target
    int64_t t_ms;
    double value;
};

// Of a scrape under way.
struct scrape_timed_pass {
    struct scrape_timed_sample *samples;
    size_t n, cap;
    struct scrape_timed_set seen;
};
void scrape_timed_pass_finish(struct scrape_timed_pass *p);

void scrape_timed_add(struct scrape_timed_pass *p, const struct scrape_timed_sample *s);
// A series that goes on without timestamps: no marker is to end it.
void scrape_timed_saw(struct scrape_timed_pass *p, const struct tsdb *db, tsdb_ref ref);
// Into the store; what it refuses is counted. track: the series that have got one are seen.
void scrape_timed_append(struct scrape_timed_pass *p, struct tsdb *db, bool track,
                         struct scrape_ingest_counts *counts);
// Series of the scrape before that this one (NULL: none) has not seen end with a marker at t_ms;
// the set becomes this one's.
void scrape_timed_end_gone(struct scrape_timed_set *before, struct scrape_timed_pass *p,
                           struct tsdb *db, int64_t t_ms);
