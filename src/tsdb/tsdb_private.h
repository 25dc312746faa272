// SPDX-License-Identifier: Apache-2.0
// The store's insides, between the files of the room.
#pragma once

#include "base/assert.h"
#include "tsdb/chunk.h"
#include "tsdb/tsdb.h"
#include "tsdb/wal.h"

#include <sys/queue.h>

// A series has at most one group whose rows hold its newest samples. One that two groups claim (two
// targets expose it) is loose: it belongs to neither, and their samples for it are appended one by
// one.
struct tsdb_series {
    struct tsdb_pair *pairs; // NULL: this number is free
    uint32_t n_pairs : 31;
    uint32_t unsettled : 1;   // came while the store is held: its first sample may be on its way
    uint32_t hash;            // of the pairs
    struct tsdb_group *group; // NULL: none
    uint32_t slot;            // in the group; of a free number the next one
    uint32_t shared_by;       // groups in which it is loose; TSDB_SERIES_DEAD
    struct tsdb_chunks samples;
};

#define TSDB_SERIES_DEAD UINT32_MAX // dropped, though somebody holds the series

#define TSDB_GROUP_ROWS TSDB_CHUNK_RUN // TSDB_TIMESTAMPS_MAX is a multiple

// The last TSDB_GROUP_ROWS passes as rows of values: pass i of the column of times is in row
// i % TSDB_GROUP_ROWS. They go into the chunks of the series when all rows are full.
struct tsdb_group {
    struct tsdb *db;
    TAILQ_ENTRY(tsdb_group) all;
    uint64_t flushed_round; // of a snapshot
    tsdb_ref *refs;         // by slot; TSDB_NO_REF: the slot is free
    bool *loose;
    double *rows[TSDB_GROUP_ROWS]; // tsdb_absent(): no sample
    size_t n, refs_cap, loose_cap, rows_cap[TSDB_GROUP_ROWS];
    uint32_t *free_slots;
    size_t n_free, free_cap, n_loose;
    struct tsdb_timestamps *times; // NULL: no pass yet
    size_t column;                 // passes of a column of times: a multiple of TSDB_GROUP_ROWS
    double *row;                   // of the pass under way
    size_t held;                   // the last passes, not in chunks yet
    bool whole;                    // the last pass has a value of each slot, and none is loose
    int64_t t_ms, last_ms;         // of the pass under way, of the last one
    int64_t floor_ms;              // the newest sample that series brought with them
    uint64_t map_version, epoch;
    uint32_t wal_number;
};

struct tsdb_postings { // series with a label pair, ascending but for the tail
    tsdb_ref *refs;
    uint32_t len, cap;
    uint32_t tail;  // series at the end that are not sorted yet; none after tsdb_index_find()
    uint32_t going; // of tsdb_index_remove_all()
};

struct tsdb_isolation_events { // births or deaths of series; ascending serials
    struct tsdb_isolation_event {
        tsdb_ref ref;
        uint64_t serial;
    } * items;
    size_t n, cap;
};

struct tsdb {
    struct gs_thread_owner owner; // that made the store: nothing in it is locked
    struct tsdb_config cfg;
    struct tsdb_symbols *symbols;
    struct tsdb_series *series;
    size_t n_series, series_cap, n_live;
    tsdb_ref first_free;
    uint32_t *by_hash; // ref + 1, 0: empty; open addressing
    size_t by_hash_cap;
    struct gs_hmap *postings; // struct tsdb_pair -> struct postings
    struct gs_hmap *names;    // label name symbol -> struct gs_hmap of value symbols -> itself
    uint64_t generation;
    int64_t newest_ms, evicted_until_ms;
    int64_t told_ms; // of the last warning of evictions
    tsdb_ref gc_at;
    size_t evict_left;    // series that the eviction under way has not visited yet
    struct tsdb_wal *wal; // NULL: memory only
    struct tsdb_snapshots *snapshots;
    TAILQ_HEAD(, tsdb_group) groups;
    TAILQ_HEAD(, tsdb_isolation) holds;
    struct tsdb_isolation_events births, deaths; // since the oldest hold began
    uint64_t serial;                             // of the last of them
    uint64_t flush_round, groups_made;
    struct tsdb_wal_recovery recovered;
    struct {
        uint64_t done, total; // bytes
        int64_t told_ns;
        bool stopped;
    } recovery;
    uint64_t appended, out_of_order, duplicates, refused, evicted, cut;
    int64_t grace_ms;            // part of cfg.retention_ms
    struct tsdb_chunk_heap heap; // of all series; its bytes count rows of groups too
    size_t bytes_labels;
    uint64_t samples_held; // appended and not dropped
};

// tsdb.c
// So many bytes of the log have been read. False: the recovery is to end.
#define TSDB_RECOVERY_STEP ((size_t)64 << 10) // bytes between two looks at the clock
bool tsdb_recovery_continues(struct tsdb *db, uint64_t bytes);
// series.c
// tsdb_series_get(); always: also at the limit of series.
struct gs_error *tsdb_series_intern(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                    bool always, tsdb_ref *ret);
bool tsdb_series_find(const struct tsdb *db, const struct tsdb_pair *pairs, size_t n,
                      tsdb_ref *ret);
void tsdb_series_table_finish(struct tsdb *db);
void tsdb_series_drop_all(struct tsdb *db, const tsdb_ref *refs, size_t n); // ascending
void tsdb_series_free(struct tsdb *db, tsdb_ref ref); // its number and symbols are free behind it
// hold.c
void tsdb_isolation_series_added(struct tsdb *db, tsdb_ref ref);
void tsdb_isolation_series_dropped(struct tsdb *db, tsdb_ref ref); // frees it now or later
// index.c
void tsdb_index_init(struct tsdb *db);
void tsdb_index_add(struct tsdb *db, tsdb_ref ref);
// refs ascend. Costs the length of each list once, however many series leave it.
void tsdb_index_remove_all(struct tsdb *db, const tsdb_ref *refs, size_t n);
void tsdb_index_finish(struct tsdb *db);
size_t tsdb_index_bytes(const struct tsdb *db);
const struct tsdb_postings *tsdb_index_find(const struct tsdb *db, uint32_t name, uint32_t value);
// group.c
// The rows of the last pass; NULL before the first.
const double *tsdb_group_last_row(const struct tsdb_group *g);
void tsdb_group_flush(struct tsdb_group *g); // all rows go into chunks
// A settled group whose passes after t_ms are dropped.
void tsdb_group_restart(struct tsdb_group *g, int64_t t_ms);
// Samples of a series that are in rows alone, appended to ret.
void tsdb_group_read(const struct tsdb_group *g, uint32_t slot, int64_t mint, int64_t maxt,
                     struct tsdb_samples *ret);
// The newest of them at or before t_ms.
bool tsdb_group_at(const struct tsdb_group *g, uint32_t slot, int64_t t_ms, struct tsdb_point *ret);
// The times of the first (when wanted) and last of them; false: none.
bool tsdb_group_span(const struct tsdb_group *g, uint32_t slot, bool want_first, int64_t *ret_first,
                     int64_t *ret_last);
bool tsdb_group_slot_idle(const struct tsdb_group *g, uint32_t slot); // no sample in any row
void tsdb_group_slot_free(struct tsdb_group *g, uint32_t slot);
// The series becomes loose: it is about to get samples from elsewhere.
void tsdb_group_detach(struct tsdb_group *g, uint32_t slot);
// samples.c
// The times of its first and last sample; false: it has none.
bool tsdb_series_span(const struct tsdb_series *s, int64_t *ret_first, int64_t *ret_last);
// A sample of a series without group, by the rules of tsdb_append_ref; not logged. *ret: appended.
struct gs_error *tsdb_series_append(struct tsdb *db, struct tsdb_series *s, int64_t t_ms,
                                    double value, bool *ret);
// Drops chunks that are past the retention at t_ms.
void tsdb_series_expire(struct tsdb *db, struct tsdb_series *s, int64_t oldest_ms);
