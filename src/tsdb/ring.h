// SPDX-License-Identifier: Apache-2.0
// In-memory series store: append samples, select by matchers, read a window. One thread owns it.
// First form: a ring of samples per series within the retention window and a series limit; the
// interface is what later forms (postings, compressed chunks, WAL) keep.
#pragma once

#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

struct ring;
struct ring_series;

struct ring_config {
    int64_t retention_ms; // 0: 10 minutes
    size_t max_series;    // 0: 100000
};

struct ring *ring_new(const struct ring_config *cfg);
void ring_free(struct ring *db);

// A sample not newer than the series' last one is dropped (GS_ECONFLICT). A value may be
// RING_STALE (Prometheus' staleness NaN): the series ends there.
struct gs_error *ring_append(struct ring *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value);
// The same for a set that the caller has already made; takes a reference of its own when it keeps
// it.
struct gs_error *ring_append_set(struct ring *db, struct metrics_labels *set, int64_t t_ms,
                                 double value);
double ring_stale_marker(void);
int ring_is_stale(double v);

enum ring_match { RING_EQ, RING_NEQ };
struct ring_matcher {
    const char *name;
    enum ring_match op;
    const char *value; // "" matches absent labels
};

struct ring_point {
    int64_t t_ms;
    double value;
};

// For each series matching all matchers whose newest sample at or before t_ms is not stale and not
// older than lookback_ms: calls fn with it. fn returns false to stop.
void ring_select(const struct ring *db, const struct ring_matcher *m, size_t n_m, int64_t t_ms,
                 int64_t lookback_ms,
                 int (*fn)(void *arg, const struct metrics_labels *labels, struct ring_point p),
                 void *arg);
size_t ring_series_count(const struct ring *db);
void ring_gc(struct ring *db, int64_t now_ms); // drops series without samples in the window
