// SPDX-License-Identifier: Apache-2.0
// Internal types and functions of the store, shared by its files.
#pragma once

#include "base/assert.h"
#include "tsdb/chunk.h"
#include "tsdb/tsdb.h"
#include "tsdb/wal.h"

#include <sys/queue.h>

// A series has at most one group whose rows contain its newest samples. A series that two groups
// use (two targets expose it) is loose: it belongs to neither, and its samples are appended one by
// one.
struct tsdb_series {
    struct tsdb_label_set *set; // NULL: this number is free
    uint32_t metric;            // its name
    // created while a reader isolates its reads; its first sample may not be there yet
    uint32_t unsettled : 1;
    // has ended, and a reader must learn of its next sample. Then its slot, if it has one, is not
    // live.
    uint32_t set_aside : 1;
    uint32_t shared_by : 30;    // groups in which it is loose; TSDB_SERIES_DEAD
    struct tsdb_group *group;   // NULL: none
    struct tsdb_chunks samples; // their slot: in the group; of a free number: the next free number
};

#define TSDB_SERIES_DEAD ((UINT32_C(1) << 30) - 1) // dropped, but an isolated reader still uses it

#define TSDB_GROUP_ROWS TSDB_CHUNK_RUN // TSDB_TIMESTAMPS_MAX is a multiple

// The last TSDB_GROUP_ROWS commits as rows of values. Commit i of the time column is in row i %
// TSDB_GROUP_ROWS. When all rows are full, they are moved to the chunks of the series.
struct tsdb_group {
    struct tsdb *db;
    TAILQ_ENTRY(tsdb_group) all;
    uint64_t flushed_round; // round of the snapshot that flushed it last
    tsdb_ref *refs;         // by slot; TSDB_NO_REF: the slot is free
    bool *loose;
    double *rows[TSDB_GROUP_ROWS]; // tsdb_absent(): no sample
    void **blocks;                 // newest chunks of TSDB_HEADS slots each; NULL: on the heap
    size_t n, refs_cap, loose_cap, rows_cap[TSDB_GROUP_ROWS], blocks_cap;
    uint32_t *free_slots; // the first n_reusable may be assigned
    size_t n_free, n_reusable, free_cap, n_loose;
    struct tsdb_timestamps *times; // NULL: no commit yet
    size_t column;                 // length of a time column: a multiple of TSDB_GROUP_ROWS
    double *row;                   // the current row, between begin and commit
    size_t held;                   // number of the newest rows that are not in chunks yet
    bool whole;                    // the last row has a value in each slot, and no series is loose
    int64_t t_ms, last_ms;         // of the current row, of the last one
    int64_t floor_ms;              // the newest sample that its series had when they were added
    uint64_t map_version, epoch;
    uint32_t wal_number;
};

struct tsdb_postings { // series with a label pair
    uint8_t *bytes;    // ascending numbers
    uint32_t n_bytes, cap;
    uint32_t len;   // series, with late ones
    tsdb_ref last;  // in bytes
    tsdb_ref *late; // numbers below `last`, in any order, that are not in bytes yet
    uint32_t n_late;
    uint32_t going; // used by tsdb_index_remove_all()
};

struct tsdb_label_set { // of series that differ only in their metric names
    uint32_t refs;
    uint32_t hash;      // of the pairs
    uint16_t n, before; // as in struct tsdb_labels
    struct tsdb_pair pairs[];
};

struct tsdb_label_sets {
    struct tsdb_label_set **slots;
    size_t cap, n, bytes; // bytes: of the sets
};

struct tsdb_isolation_events { // births or deaths of series; ascending serials
    struct tsdb_isolation_event {
        tsdb_ref ref;
        uint64_t serial;
    } * items;
    size_t n, cap;
};

struct tsdb {
    struct gs_thread_owner owner; // thread that created the store: nothing in it is locked
    struct tsdb_config cfg;
    struct tsdb_symbols *symbols;
    struct tsdb_symbols *texts;
    struct tsdb_label_sets label_sets;
    struct tsdb_series *series;
    size_t n_series, series_cap, n_live;
    tsdb_ref first_free;
    uint32_t *by_hash; // ref + 1, 0: empty; open addressing
    size_t by_hash_cap;
    struct gs_hmap *postings; // struct tsdb_pair -> struct postings
    struct gs_hmap *names;    // label name symbol -> struct gs_hmap of value symbols -> itself
    uint64_t generation;
    tsdb_ref *changed; // a ring of the newest changes; NULL: not recorded
    uint64_t n_changes, names_gone;
    int64_t newest_ms, evicted_until_ms;
    int64_t warned_ms; // time of the last eviction warning
    tsdb_ref gc_at;
    size_t evict_left;    // series that the current eviction has not visited yet
    struct tsdb_wal *wal; // NULL: memory only
    struct tsdb_snapshots *snapshots;
    TAILQ_HEAD(, tsdb_group) groups;
    TAILQ_HEAD(, tsdb_isolation) holds;
    struct tsdb_isolation_events births, deaths; // since the oldest hold began
    uint64_t serial;                             // the newest serial
    uint64_t flush_round, groups_made;
    struct tsdb_wal_recovery recovered;
    struct {
        uint64_t done, total; // bytes
        int64_t logged_ns;
        bool stopped;
    } recovery;
    uint64_t appended, out_of_order, duplicates, refused, evicted, cut;
    int64_t grace_ms;                 // part of cfg.retention_ms
    struct tsdb_chunk_heap heap;      // of all series; its bytes count rows of groups too
    uint64_t samples_held;            // appended and not dropped
    struct tsdb_exemplars *exemplars; // NULL: none were ever stored
};

enum tsdb_answer { TSDB_ANSWER_UNKNOWN, TSDB_ANSWER_NO, TSDB_ANSWER_YES };

// tsdb.c
// Reports bytes of the log that were read. False: the recovery must end.
#define TSDB_RECOVERY_STEP ((size_t)64 << 10) // bytes between two checks of the time
bool tsdb_recovery_continues(struct tsdb *db, uint64_t bytes);
// series.c
// Like tsdb_series_get(); always: also at the series limit.
struct gs_error *tsdb_series_intern(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                    bool always, tsdb_ref *ret);
bool tsdb_series_find(const struct tsdb *db, struct tsdb_labels labels, tsdb_ref *ret);
void tsdb_series_table_finish(struct tsdb *db);
void tsdb_series_drop_all(struct tsdb *db, const tsdb_ref *refs, size_t n); // ascending
void tsdb_series_free(struct tsdb *db, tsdb_ref ref); // its number and symbols are free afterwards
// label_sets.c
// Finds or creates the set of these labels, which are without __name__. Takes the references of the
// pairs to their symbols. The caller gets a reference to the set.
struct tsdb_label_set *tsdb_label_set_take(struct tsdb *db, const struct tsdb_pair *pairs,
                                           size_t n);
// NULL: no series has these labels.
const struct tsdb_label_set *tsdb_label_set_find(const struct tsdb *db,
                                                 const struct tsdb_pair *pairs, size_t n);
void tsdb_label_set_unref(struct tsdb *db, struct tsdb_label_set *set);
size_t tsdb_label_sets_bytes(const struct tsdb_label_sets *t);
void tsdb_label_sets_finish(struct tsdb_label_sets *t);
// exemplars.c
void tsdb_exemplars_finish(struct tsdb *db);
// changes.c
void tsdb_changes_record(struct tsdb *db, tsdb_ref ref);   // was added or dropped
void tsdb_changes_returned(struct tsdb *db, tsdb_ref ref); // may have a sample after its end
void tsdb_changes_forget(struct tsdb *db);                 // readers must search again
// isolation.c
void tsdb_isolation_series_added(struct tsdb *db, tsdb_ref ref);
// frees it now or when the last isolated reader is released
void tsdb_isolation_series_dropped(struct tsdb *db, tsdb_ref ref);
// index.c
void tsdb_index_init(struct tsdb *db);
void tsdb_index_add(struct tsdb *db, tsdb_ref ref);
// refs ascend. Visits each affected list once, for any number of series.
void tsdb_index_remove_all(struct tsdb *db, const tsdb_ref *refs, size_t n);
void tsdb_index_finish(struct tsdb *db);
// Adds the series with the rarest label of an equality matcher. False: there is no such matcher.
bool tsdb_index_equal(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                      struct tsdb_refs *ret);
// The values of a label name, as symbols. Caller frees.
uint32_t *tsdb_index_values(const struct tsdb *db, uint32_t name, size_t *ret_n);
size_t tsdb_index_bytes(const struct tsdb *db);
// postings.c
void tsdb_postings_add(struct tsdb_postings *list, tsdb_ref ref); // is not in the list
// refs ascend; those that are not in the list are ignored.
void tsdb_postings_remove(struct tsdb_postings *list, const tsdb_ref *refs, size_t n);
void tsdb_postings_read(struct tsdb_postings *list, struct tsdb_refs *ret); // adds them, ascending
size_t tsdb_postings_bytes(const struct tsdb_postings *list);
void tsdb_postings_finish(struct tsdb_postings *list);
// group.c
// The rows of the last commit; NULL: none.
const double *tsdb_group_last_row(const struct tsdb_group *g);
// Releases spare slots. Most groups keep their size, once the first scrapes are done.
void tsdb_group_release_slots(struct tsdb_group *g);
// Drops the commits after t_ms of a flushed group.
void tsdb_group_restart(struct tsdb_group *g, int64_t t_ms);
// Appends the samples of a series that are only in rows to ret.
void tsdb_group_read(const struct tsdb_group *g, uint32_t slot, int64_t mint, int64_t maxt,
                     struct tsdb_samples *ret);
// The newest of these at or before t_ms.
bool tsdb_group_at(const struct tsdb_group *g, uint32_t slot, int64_t t_ms, struct tsdb_point *ret);
// The times of the first (if ret is not NULL) and last of these. False: none.
bool tsdb_group_span(const struct tsdb_group *g, uint32_t slot, bool want_first, int64_t *ret_first,
                     int64_t *ret_last);
// the last row has a value of the slot that is not a stale marker
bool tsdb_group_slot_live(const struct tsdb_group *g, uint32_t slot);
// no row has a sample of the slot
bool tsdb_group_slot_idle(const struct tsdb_group *g, uint32_t slot);
void tsdb_group_slot_free(struct tsdb_group *g, uint32_t slot);
// Makes the series loose, because it gets samples from elsewhere.
void tsdb_group_detach(struct tsdb_group *g, uint32_t slot);
// group_flush.c
void tsdb_group_flush(struct tsdb_group *g);                     // moves all rows into chunks
void tsdb_group_flush_slot(struct tsdb_group *g, uint32_t slot); // those of one slot
// The series keep their samples, which no longer are in the group's memory.
void tsdb_group_free_blocks(struct tsdb_group *g);
// samples.c
// The times of the first and last sample of the series. False: none.
bool tsdb_series_span(const struct tsdb_series *s, int64_t *ret_first, int64_t *ret_last);
// Appends a sample to a series without a group, by the rules of tsdb_append_ref, without logging.
// *ret: appended.
struct gs_error *tsdb_series_append(struct tsdb *db, struct tsdb_series *s, int64_t t_ms,
                                    double value, bool *ret);
// Drops chunks that are older than the retention at t_ms.
void tsdb_series_expire(struct tsdb *db, struct tsdb_series *s, int64_t oldest_ms);
