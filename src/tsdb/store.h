// SPDX-License-Identifier: Apache-2.0
// The store's insides, between the files of the room.
#pragma once

#include "tsdb/stream.h"
#include "tsdb/tsdb.h"
#include "tsdb/wal.h"

struct tsdb_group;

struct series {
    struct tsdb_pair *pairs; // NULL: this number is free
    uint32_t n_pairs;
    uint32_t hash;            // of the pairs
    struct tsdb_group *group; // NULL: none
    uint32_t slot;
    uint32_t next_free;
    struct stream samples;
};

struct postings { // series with a label pair, ascending
    tsdb_ref *refs;
    uint32_t len, cap;
};

struct tsdb {
    struct tsdb_config cfg;
    struct tsdb_symbols *symbols;
    struct series *series;
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
    struct wal *wal; // NULL: memory only
    struct wal_recovery recovered;
    uint64_t appended, out_of_order, duplicates, refused, evicted;
    size_t bytes_samples, bytes_labels;
    uint64_t samples_held; // appended and not dropped
};

// series.c
void series_table_finish(struct tsdb *db);
void series_drop(struct tsdb *db, tsdb_ref ref);
// index.c
void index_init(struct tsdb *db);
void index_add(struct tsdb *db, tsdb_ref ref);
void index_remove(struct tsdb *db, tsdb_ref ref);
void index_finish(struct tsdb *db);
size_t index_bytes(const struct tsdb *db);
const struct postings *index_find(const struct tsdb *db, uint32_t name, uint32_t value);
// samples.c
// Without any rule but the order; drops what is past the retention.
void series_push(struct tsdb *db, struct series *s, int64_t t_ms, double value);
