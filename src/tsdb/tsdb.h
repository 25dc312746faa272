// SPDX-License-Identifier: Apache-2.0
// In-memory series store: append samples, select by matchers, read a window. One thread owns it.
// First form: a ring of samples per series within the retention window and a series limit; the
// interface is what later forms (postings, compressed chunks, WAL) keep.
#pragma once

#include "base/error.h"
#include "metrics/labels.h"

#include <stdint.h>

struct tsdb;
struct tsdb_series;

struct tsdb_config {
    int64_t retention_ms; // 0: 10 minutes
    size_t max_series;    // 0: 100000
};

struct tsdb *tsdb_new(const struct tsdb_config *cfg);
void tsdb_free(struct tsdb *db);

// A sample not newer than the series' last one is dropped (GS_ECONFLICT). A value may be
// TSDB_STALE (Prometheus' staleness NaN): the series ends there.
struct gs_error *tsdb_append(struct tsdb *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value);
// The same for a set that the caller has already made; takes a reference of its own when it keeps
// it.
struct gs_error *tsdb_append_set(struct tsdb *db, struct metrics_labels *set, int64_t t_ms,
                                 double value);
double tsdb_stale_marker(void);
int tsdb_is_stale(double v);

enum tsdb_match { TSDB_EQ, TSDB_NEQ };
struct tsdb_matcher {
    const char *name;
    enum tsdb_match op;
    const char *value; // "" matches absent labels
};

struct tsdb_point {
    int64_t t_ms;
    double value;
};

// For each series matching all matchers whose newest sample at or before t_ms is not stale and not
// older than lookback_ms: calls fn with it. fn returns false to stop.
void tsdb_select(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m, int64_t t_ms,
                 int64_t lookback_ms,
                 int (*fn)(void *arg, const struct metrics_labels *labels, struct tsdb_point p),
                 void *arg);
size_t tsdb_series_count(const struct tsdb *db);
void tsdb_gc(struct tsdb *db, int64_t now_ms); // drops series without samples in the window
