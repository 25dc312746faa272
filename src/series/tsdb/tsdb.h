// SPDX-License-Identifier: Apache-2.0
// Series store: appends samples, selects series by matchers, reads windows. One thread owns it.
// Samples are in memory; with a storage_path, samples of written snapshots are read from the mapped
// files. The samples of a series are in time order, with Prometheus' rules for out-of-order and
// duplicate samples.
//
// Series that are appended together (one scrape target, one rule group) form a group with a shared
// time column: see tsdb_group. Other series are appended with tsdb_append.
#pragma once

#include "base/error.h"
#include "metrics/labels.h"
#include "tsdb/labels.h"
#include "tsdb/matcher.h"

#include <stdint.h>
#include <sys/queue.h>

struct tsdb;

struct tsdb_config {
    int64_t retention_ms; // 0: 2 h
    size_t max_series;    // 0: 2,000,000
    // of samples, index and symbols; 0: no limit. The oldest data is evicted above it
    size_t max_bytes;
    const char *storage_path; // NULL: memory only
    // of the files of complete chunks, which the log is not part of; 0: no limit. The oldest
    // samples are deleted above it, when the next file is written
    uint64_t max_file_bytes;
    uint64_t snapshot_bytes; // log growth after which a snapshot is written; 0: 128 MiB
    // Called about 50 times per second while tsdb_open() reads the files, with the bytes read and
    // the total. False: tsdb_open() ends with GS_EUNAVAIL. NULL: no progress reports.
    bool (*on_recovery)(void *arg, uint64_t done, uint64_t total);
    void *arg;
};

// A store without files. Cannot fail.
struct tsdb *tsdb_new(const struct tsdb_config *cfg);
// With a storage_path: recovers the stored samples, then logs every append. Incomplete or corrupt
// records are skipped with a warning and do not prevent the start. GS_EIO: the path cannot be used.
struct gs_error *tsdb_open(const struct tsdb_config *cfg, struct tsdb **ret);
void tsdb_free(struct tsdb *db); // flushes the log

// --- values ---

double tsdb_stale_marker(void); // Prometheus' staleness NaN
int tsdb_is_stale(double v);

struct tsdb_point {
    int64_t t_ms;
    double value;
};

// --- append ---

typedef uint32_t tsdb_ref; // a series; valid until tsdb_generation() changes
#define TSDB_NO_REF UINT32_MAX

// Limits of one series, with its metric name.
#define TSDB_MAX_LABELS      256
#define TSDB_MAX_LABEL_BYTES ((size_t)64 << 10) // names and values

// Finds or creates the series. Labels are in any order and include __name__; empty values are
// ignored. GS_EINVAL: this series exceeds a limit of one series. GS_ELIMIT: the store is full
// (series, label texts).
struct gs_error *tsdb_series_get(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                 tsdb_ref *ret);
// GS_ECONFLICT: older than the newest sample. GS_EEXIST: same time, other value. No effect: same
// time and value, and a stale marker for a series that has no samples or has ended.
struct gs_error *tsdb_append(struct tsdb *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value);
struct gs_error *tsdb_append_ref(struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value);

// The series of a group have slots 0, 1, 2 … . One set of samples with a common time is appended by
// begin(t), put(slot, value) for each sample, and commit. If a slot has no sample but had one in
// the previous commit, its series ends with a stale marker at t. A series belongs to at most one
// group; adding it to another moves it.
struct tsdb_group;
struct tsdb_group *tsdb_group_new(struct tsdb *db);
// Does not end series: if a target is removed, commit an empty set first. Samples are kept.
void tsdb_group_free(struct tsdb_group *g);
// Returns the slot of the series; creates it if it is new. Call it before begin, or between begin
// and commit.
struct gs_error *tsdb_group_slot(struct tsdb_group *g, const struct metrics_label *labels, size_t n,
                                 uint32_t *ret_slot);
// The same for the few series about the group itself (up of a target). The series limit does not
// apply.
struct gs_error *tsdb_group_slot_always(struct tsdb_group *g, const struct metrics_label *labels,
                                        size_t n, uint32_t *ret_slot);
tsdb_ref tsdb_group_ref(const struct tsdb_group *g, uint32_t slot); // the series of a slot
// GS_ECONFLICT: t_ms is not newer than the last commit of the group.
struct gs_error *tsdb_group_begin(struct tsdb_group *g, int64_t t_ms);
// The time of the last commit; INT64_MIN: none.
int64_t tsdb_group_last_ms(const struct tsdb_group *g);
// Counts n samples as out of order, if begin has failed.
void tsdb_group_count_rejected(struct tsdb_group *g, size_t n);
// The hot path: writes to a column. The first value of a slot is used; a second one returns false
// (duplicate sample).
bool tsdb_group_put(struct tsdb_group *g, uint32_t slot, double value);
// Reverts begin.
void tsdb_group_rollback(struct tsdb_group *g);
// ret_added: stored samples without stale markers. ret_new: series without earlier samples.
void tsdb_group_commit(struct tsdb_group *g, size_t *ret_added, size_t *ret_new);
// tsdb_gc frees slots that were not used for some time. This number then changes, and
// tsdb_group_slot() may assign these slots to other series after the next begin. A caller that
// keeps slots looks right after begin which of them are free.
uint64_t tsdb_group_epoch(const struct tsdb_group *g);
bool tsdb_group_slot_is_free(const struct tsdb_group *g, uint32_t slot);
// Samples refused so far because their series has a sample of the same or a newer time. Compare it
// before and after a commit.
uint64_t tsdb_rejected_samples(const struct tsdb *db);

// --- select and read ---

const struct tsdb_symbols *tsdb_symbols(const struct tsdb *db);
// A table for texts that are not in labels and that many sources have, such as help texts.
struct tsdb_symbols *tsdb_texts(struct tsdb *db);
// Empty: the series was dropped, and its number is free.
struct tsdb_labels tsdb_series_labels(const struct tsdb *db, tsdb_ref ref);
// The value of a label of a series; empty if absent.
struct gs_slice tsdb_series_label(const struct tsdb *db, tsdb_ref ref, const char *name);
// Changes when a series is added, removed, or gets its first sample.
uint64_t tsdb_generation(const struct tsdb *db);

struct tsdb_refs {
    tsdb_ref *items;
    size_t len, cap;
};
void tsdb_refs_finish(struct tsdb_refs *r);
void tsdb_refs_sort(tsdb_ref *refs, size_t n);
bool tsdb_refs_has(const tsdb_ref *refs, size_t n, tsdb_ref ref); // refs ascend

// Finds series that match all matchers and have samples within mint..maxt (inclusive). Refs are in
// ascending order. n_m 0: all series. GS_ELIMIT: more than max_series match (0: no limit).
struct gs_error *tsdb_find(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                           int64_t mint, int64_t maxt, size_t max_series, struct tsdb_refs *ret);

// The same at any time, and those that have no sample yet.
struct gs_error *tsdb_find_any(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                               size_t max_series, struct tsdb_refs *ret);
struct tsdb_isolation { // private
    uint64_t since;
    TAILQ_ENTRY(tsdb_isolation) all;
};

// A search is one step. Slow regular expressions are therefore evaluated before it, with pauses.
// go_on is called after every few values; if it returns false, the collection ends with
// GS_EUNAVAIL. The reads of the store are isolated until tsdb_answers_finish(), which is called in
// any case. among: the series that will be searched; NULL: all.
struct tsdb_answers {
    const struct tsdb_matcher *matchers; // for the search: those given, with the answers
    struct tsdb *db;                     // private, as all that follows; NULL: nothing is slow
    struct tsdb_matcher *own;
    size_t n;
    struct tsdb_isolation hold;
};
struct gs_error *tsdb_answers_collect(struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                                      const struct tsdb_refs *among, bool (*go_on)(void *arg),
                                      void *arg, struct tsdb_answers *ret);
void tsdb_answers_finish(struct tsdb_answers *a);
bool tsdb_matchers_can_be_slow(const struct tsdb_matcher *m, size_t n); // need a collection

// Removes the series that do not match all matchers, or were dropped, from refs.
void tsdb_filter(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                 struct tsdb_refs *refs);

// Readers that keep lists of series follow the births and deaths of series, and the returns of
// series that they set aside. Each has a place, one after another. A number that appears was born,
// died, or both, and may now be another series.
uint64_t tsdb_changes_end(struct tsdb *db); // the place of the next change
// False: changes from this place on are forgotten (the newest 32,768 are kept), or were not yet
// recorded: the first call of tsdb_changes_end() begins with it.
bool tsdb_changes_kept(const struct tsdb *db, uint64_t from);
tsdb_ref tsdb_change_at(const struct tsdb *db, uint64_t place);
// Those from this place on, which are kept: ascending, each number once.
void tsdb_changes_read(struct tsdb *db, uint64_t from, struct tsdb_refs *ret);
// Whether the newest sample of the series is a stale marker that is not after until_ms. *ret_ms:
// its time. If the series gets a sample after it, this is a change.
bool tsdb_series_set_aside(struct tsdb *db, tsdb_ref ref, int64_t until_ms, int64_t *ret_ms);
// Changes when no series uses some label name any more. While it stays the same, a symbol that was
// the name of a label has its text; symbols of values can get another text when no series uses
// them.
uint64_t tsdb_names_gone(const struct tsdb *db);

// A reader that reads in several steps, while others append in between, isolates its reads:
// numbers, label sets and symbols of the existing series stay unchanged until the release. A series
// that is dropped meanwhile has no samples and is no longer found by tsdb_find. The filter removes
// series that were created since from refs (ascending).
void tsdb_isolation_begin(struct tsdb *db, struct tsdb_isolation *h);
void tsdb_isolation_end(struct tsdb *db, struct tsdb_isolation *h);
void tsdb_isolation_filter(const struct tsdb *db, const struct tsdb_isolation *h,
                           struct tsdb_refs *refs);

// The newest sample of each series with oldest < t <= t_ms: value in ret_v[i], time in ret_t[i]
// (ret_t may be NULL). Without a sample, or after the end of the series, the value is the stale
// marker (with its time, or 0). The hot path of instant queries: uses the last-value columns if
// t_ms is not before the newest sample.
void tsdb_latest(const struct tsdb *db, const tsdb_ref *refs, size_t n, int64_t t_ms,
                 int64_t oldest, double *ret_v, int64_t *ret_t);

// Calls fn with the newest sample of each matching series, except for stale markers and samples
// that are not newer than oldest. fn returns false to stop.
void tsdb_each_latest(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m, int64_t t_ms,
                      int64_t oldest, bool (*fn)(void *arg, tsdb_ref ref, struct tsdb_point p),
                      void *arg);

struct tsdb_samples {
    int64_t *t;
    double *v;
    size_t n, cap; // grown as needed; reuse it
};
void tsdb_samples_finish(struct tsdb_samples *s);
// Samples with mint <= t <= maxt, including stale markers, in time order. Replaces the content of
// *ret.
void tsdb_read(const struct tsdb *db, tsdb_ref ref, int64_t mint, int64_t maxt,
               struct tsdb_samples *ret);

// For reading the samples from mint on of n series in a row: call it before reading refs[i] to
// prefetch the next ones.
void tsdb_read_ahead(const struct tsdb *db, const tsdb_ref *refs, size_t i, size_t n, int64_t mint);

// Distinct values of a label (name empty: distinct label names) of the matching series (n_m 0: all)
// within mint..maxt. fn is called in no particular order.
struct gs_error *tsdb_label_values(const struct tsdb *db, struct gs_slice name,
                                   const struct tsdb_matcher *m, size_t n_m, int64_t mint,
                                   int64_t maxt, void (*fn)(void *arg, struct gs_slice value),
                                   void *arg);

// --- upkeep ---

// Drops samples older than the retention, series without samples and unused symbols, and evicts
// samples above max_bytes. Call it every few seconds; each call does a limited amount of work.
void tsdb_gc(struct tsdb *db, int64_t now_ms);
// Drops all samples after t_ms and returns their number. Needed when the clock was set back,
// because appends would fail until it reaches the old time.
uint64_t tsdb_delete_after(struct tsdb *db, int64_t t_ms);
// Extends the retention by this time, because the clock may be ahead.
void tsdb_set_grace(struct tsdb *db, int64_t ms);
// Writes the buffered log to the operating system. Call it every second.
void tsdb_sync(struct tsdb *db);

struct tsdb_stats {
    size_t series, chunks, symbols, label_pairs;
    uint64_t samples_appended, out_of_order, duplicates, series_refused, evicted_samples;
    uint64_t cut_samples; // by tsdb_delete_after()
    size_t bytes, bytes_samples, bytes_index, bytes_symbols;
    int64_t min_t_ms, max_t_ms; // of the samples held; INT64_MAX, INT64_MIN when empty
    // failing: the disk refuses writes, so that new samples are only in memory
    bool wal_on, wal_failing;
    uint64_t wal_bytes, wal_errors, wal_corrupt_records;
    uint64_t blocks_bytes; // part of tsdb_wal_bytes: files of chunks that samples are read from
};
void tsdb_stats(const struct tsdb *db, struct tsdb_stats *ret);
// errno of the last write or fsync of the log; 0: it succeeded.
int tsdb_disk_error(const struct tsdb *db);
int64_t tsdb_newest_ms(const struct tsdb *db); // of all samples; INT64_MIN: none
size_t tsdb_series_count(const struct tsdb *db);
// The metric names and label names with the most series, for /api/v1/status/tsdb. fn is called per
// metric name with its number of series.
void tsdb_count_by_label(const struct tsdb *db, struct gs_slice label,
                         void (*fn)(void *arg, struct gs_slice value, size_t series), void *arg);
