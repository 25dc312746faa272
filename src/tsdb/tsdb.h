// SPDX-License-Identifier: Apache-2.0
// Series store: append samples, select series by matchers, read windows. One thread owns it. All is
// in memory; with a storage_path samples that have been in a snapshot for a moment are read from
// its file, mapped. Samples of a series are in time order; out-of-order and duplicate rules are
// Prometheus'.
//
// Series that are appended together (one scrape target, one rule group) form a group that shares
// one time column: see tsdb_group. Everything else goes through tsdb_append.
#pragma once

#include "base/error.h"
#include "metrics/labels.h"
#include "tsdb/matcher.h"
#include "tsdb/symbols.h"

#include <stdint.h>
#include <sys/queue.h>

struct tsdb;

struct tsdb_config {
    int64_t retention_ms; // 0: 2 h
    size_t max_series;    // 0: 2,000,000
    size_t max_bytes;     // of samples, index and symbols; 0: none. Passing it evicts the oldest
    const char *storage_path; // NULL: memory only
    uint64_t snapshot_bytes;  // a snapshot each time the log has grown by this; 0: 128 MiB
    // Called some 50 times a second while tsdb_open() reads what is there: so many bytes of all.
    // False: tsdb_open() is to end with GS_EUNAVAIL. NULL: none.
    bool (*on_recovery)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};

// Memory only, cannot fail.
struct tsdb *tsdb_new(const struct tsdb_config *cfg);
// With storage_path: recovers what is there (torn or corrupt records cost themselves and a warning
// in the log, never the start), then logs every append. GS_EIO when the path cannot be used at all.
struct gs_error *tsdb_open(const struct tsdb_config *cfg, struct tsdb **ret);
void tsdb_free(struct tsdb *db); // a clean stop: flushes the log

// --- values ---

double tsdb_stale_marker(void); // Prometheus' staleness NaN
int tsdb_is_stale(double v);

struct tsdb_point {
    int64_t t_ms;
    double value;
};

// --- append ---

typedef uint32_t tsdb_ref; // a series. Valid until tsdb_generation() changes
#define TSDB_NO_REF UINT32_MAX

// Finds or makes the series. Labels in any order, with __name__; empty values are dropped.
// GS_ELIMIT at the series limit.
struct gs_error *tsdb_series_get(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                 tsdb_ref *ret);
// Older than the newest sample: GS_ECONFLICT; same time and same value: NULL and no effect, other
// value: GS_EEXIST. A stale marker on a series without samples, or already ended, has no effect.
struct gs_error *tsdb_append(struct tsdb *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value);
struct gs_error *tsdb_append_ref(struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value);

// A group's series get slots 0, 1, 2 … . A pass: begin(t), put(slot, value) for those that have a
// sample, commit. Slots that had a sample in the last committed pass and have none in this one end
// with a stale marker at t. A series belongs to at most one group; taking it into another moves it.
struct tsdb_group;
struct tsdb_group *tsdb_group_new(struct tsdb *db);
// Ends nothing: callers that remove a target end its series with an empty pass first. Samples stay.
void tsdb_group_free(struct tsdb_group *g);
// The series' slot, made when it is new. Before begin or within a pass.
struct gs_error *tsdb_group_slot(struct tsdb_group *g, const struct metrics_label *labels, size_t n,
                                 uint32_t *ret_slot);
// The same for a series about the group itself (up of a target), of which there are a few: the
// limit of series does not hold for it.
struct gs_error *tsdb_group_slot_always(struct tsdb_group *g, const struct metrics_label *labels,
                                        size_t n, uint32_t *ret_slot);
// GS_ECONFLICT when t_ms is not newer than the group's last pass.
struct gs_error *tsdb_group_begin(struct tsdb_group *g, int64_t t_ms);
// Of the last pass; INT64_MIN before the first.
int64_t tsdb_group_last_ms(const struct tsdb_group *g);
// n samples of a pass that could not begin are counted as out of order.
void tsdb_group_count_rejected(struct tsdb_group *g, size_t n);
// The hot path: a store into a column. The first value of a slot in a pass stays; a second put
// returns false (duplicate sample).
bool tsdb_group_put(struct tsdb_group *g, uint32_t slot, double value);
// As if begin had not been called.
void tsdb_group_rollback(struct tsdb_group *g);
// ret_added: samples stored without stale markers; ret_new: series that had no samples before
void tsdb_group_commit(struct tsdb_group *g, size_t *ret_added, size_t *ret_new);
// A slot that was not used for some passes may be handed to another series by tsdb_gc; then this
// number changes and slots kept by the caller must be asked for again.
uint64_t tsdb_group_epoch(const struct tsdb_group *g);
// How many samples were refused so far because their series had another one at that time, or a
// newer one: who commits a pass looks whether it grows.
uint64_t tsdb_rejected_samples(const struct tsdb *db);

// --- select and read ---

const struct tsdb_symbols *tsdb_symbols(const struct tsdb *db);
struct tsdb_symbols *tsdb_symbols_mut(struct tsdb *db); // for who interns names of its own
struct tsdb_labels tsdb_series_labels(const struct tsdb *db, tsdb_ref ref);
// The text of a label of a series; empty when absent.
struct gs_slice tsdb_series_label(const struct tsdb *db, tsdb_ref ref, const char *name);
// Changes whenever a series is added, removed, or gets its first sample.
uint64_t tsdb_generation(const struct tsdb *db);

struct tsdb_refs {
    tsdb_ref *items;
    size_t len, cap;
};
void tsdb_refs_finish(struct tsdb_refs *r);

// Series that match all matchers and have samples overlapping mint..maxt (inclusive). Ascending
// refs. n_m 0: all series. GS_ELIMIT when more than max_series (0: none) match.
struct gs_error *tsdb_find(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                           int64_t mint, int64_t maxt, size_t max_series, struct tsdb_refs *ret);

// Who reads in parts, while others append in between, holds the series: numbers, label sets and
// symbols of those that are there stay what they are until the release. A series that is dropped
// meanwhile has no samples, and tsdb_find gives it no more; those that have come since the hold
// began are taken out of refs (ascending) by the filter.
struct tsdb_isolation { // private
    uint64_t since;
    TAILQ_ENTRY(tsdb_isolation) all;
};
void tsdb_isolation_begin(struct tsdb *db, struct tsdb_isolation *h);
void tsdb_isolation_end(struct tsdb *db, struct tsdb_isolation *h);
void tsdb_isolation_filter(const struct tsdb *db, const struct tsdb_isolation *h,
                           struct tsdb_refs *refs);

// The newest sample of each series with oldest < t <= t_ms; its value into ret_v[i], its time into
// ret_t[i] (ret_t may be NULL). None, or a stale marker: the stale marker
// (the time is then the marker's, 0 for none). The hot path of instant
// queries: answers from the last-value columns when t_ms is not before the newest sample.
void tsdb_latest(const struct tsdb *db, const tsdb_ref *refs, size_t n, int64_t t_ms,
                 int64_t oldest, double *ret_v, int64_t *ret_t);

// The newest sample of each series that matches all matchers, unless it is a stale marker or not
// newer than oldest. fn returns false to stop.
void tsdb_each_latest(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m, int64_t t_ms,
                      int64_t oldest, bool (*fn)(void *arg, tsdb_ref ref, struct tsdb_point p),
                      void *arg);

struct tsdb_samples {
    int64_t *t;
    double *v;
    size_t n, cap; // grown as needed; keep one and use it again
};
void tsdb_samples_finish(struct tsdb_samples *s);
// Samples with mint <= t <= maxt, stale markers included, in time order. Replaces *ret's content.
void tsdb_read(const struct tsdb *db, tsdb_ref ref, int64_t mint, int64_t maxt,
               struct tsdb_samples *ret);

// For who reads n series one behind the other, before it reads refs[i]: what comes next is fetched
// from memory meanwhile.
void tsdb_read_ahead(const struct tsdb *db, const tsdb_ref *refs, size_t i, size_t n);

// Distinct values of a label over series matching (n_m 0: all) in mint..maxt, or distinct label
// names (name empty). fn in unspecified order.
struct gs_error *tsdb_label_values(const struct tsdb *db, struct gs_slice name,
                                   const struct tsdb_matcher *m, size_t n_m, int64_t mint,
                                   int64_t maxt, void (*fn)(void *arg, struct gs_slice value),
                                   void *arg);

// --- upkeep ---

// Drops samples older than the retention, series without samples, symbols nobody uses; evicts when
// over max_bytes. Call each few seconds; bounded work a call.
void tsdb_gc(struct tsdb *db, int64_t now_ms);
// Drops all samples after t_ms: the clock was set back, and nothing could be appended until it is
// there again. Returns how many went.
uint64_t tsdb_delete_after(struct tsdb *db, int64_t t_ms);
// Keeps samples for longer than the retention by this time: the clock may be ahead.
void tsdb_set_grace(struct tsdb *db, int64_t ms);
// Writes what is buffered in the log to the operating system; call each second.
void tsdb_sync(struct tsdb *db);

struct tsdb_stats {
    size_t series, chunks, symbols, label_pairs;
    uint64_t samples_appended, out_of_order, duplicates, series_refused, evicted_samples;
    uint64_t cut_samples; // by tsdb_delete_after()
    size_t bytes, bytes_samples, bytes_index, bytes_symbols;
    int64_t min_t_ms, max_t_ms; // of the samples held; INT64_MAX, INT64_MIN when empty
    bool wal_on, wal_failing;   // failing: the disk does not take writes, memory only for now
    uint64_t wal_bytes, wal_errors, wal_corrupt_records;
    uint64_t blocks_bytes; // of tsdb_wal_bytes: files of chunks, which samples are read from
};
void tsdb_stats(const struct tsdb *db, struct tsdb_stats *ret);
// errno of what the disk refuses now: a write or fsync of the log; 0: nothing.
int tsdb_disk_error(const struct tsdb *db);
int64_t tsdb_newest_ms(const struct tsdb *db); // of all samples; INT64_MIN: none
size_t tsdb_series_count(const struct tsdb *db);
// The series names and label names with the most series, for /api/v1/status/tsdb: fn per metric
// name with its number of series.
void tsdb_count_by_label(const struct tsdb *db, struct gs_slice label,
                         void (*fn)(void *arg, struct gs_slice value, size_t series), void *arg);
