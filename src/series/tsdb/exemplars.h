// SPDX-License-Identifier: Apache-2.0
// Exemplars: the newest ones of all series, in a ring in memory, with the rules of Prometheus.
// https://prometheus.io/docs/prometheus/latest/feature_flags/#exemplars-storage. Called on the
// thread of the store. They outlive their series and are lost when the process ends.
#pragma once

#include "metrics/labels.h"
#include "tsdb/tsdb.h"

#include <stdint.h>

// Characters of all label names and values of an exemplar together, as in OpenMetrics.
#define TSDB_EXEMPLAR_MAX_CHARS 128

struct tsdb_exemplar {
    const struct metrics_label *labels; // without __name__; borrowed
    size_t n_labels;
    double value;
    int64_t t_ms;
    bool has_t; // false: it was scraped without a time, and t_ms is that of the sample
};

// Sets the number of exemplars that the store keeps; 0, the default, stores none and takes no
// memory. The newest stay. An exemplar may take 2 KiB with the labels of its series, on average:
// the oldest are dropped above that.
void tsdb_exemplars_set_max(struct tsdb *db, size_t max);
size_t tsdb_exemplars_max(const struct tsdb *db);

enum tsdb_exemplar_result {
    TSDB_EXEMPLAR_ADDED,
    TSDB_EXEMPLAR_OFF,          // none are stored
    TSDB_EXEMPLAR_DUPLICATE,    // the newest exemplar of the series is equal
    TSDB_EXEMPLAR_OUT_OF_ORDER, // the newest exemplar of the series is newer
    TSDB_EXEMPLAR_TOO_LONG,     // more than TSDB_EXEMPLAR_MAX_CHARS
    TSDB_EXEMPLAR_NOT_UNIQUE,   // a label name is repeated
};
// Labels are in any order; empty values are ignored. Everything is copied.
enum tsdb_exemplar_result tsdb_exemplars_add(struct tsdb *db, tsdb_ref ref,
                                             const struct tsdb_exemplar *e);

struct tsdb_exemplar_series { // sorted by name; borrowed
    const struct metrics_label *labels;
    size_t n_labels;
};

struct tsdb_exemplar_selector { // all matchers must match
    const struct tsdb_matcher *matchers;
    size_t n;
};
struct tsdb_exemplar_query {
    const struct tsdb_exemplar_selector *selectors;
    size_t n_selectors;
    int64_t mint, maxt; // inclusive
    // is_first: of its series. The arguments are valid until fn returns; fn must not change the
    // store.
    void (*fn)(void *arg, const struct tsdb_exemplar_series *s, const struct tsdb_exemplar *e,
               bool is_first);
    // Called regularly; others may use and change the store meanwhile. Exemplars that are dropped
    // or added then may be missing. False: ends the query. NULL: it runs to its end.
    bool (*go_on)(void *arg);
    void *arg;
};
// Calls fn for the exemplars of the series that match one of the selectors, sorted by the labels of
// the series and, within a series, by time. False: go_on returned false.
bool tsdb_exemplars_query(const struct tsdb *db, const struct tsdb_exemplar_query *q);
// The same without go_on.
void tsdb_exemplars_select(const struct tsdb *db, const struct tsdb_exemplar_selector *selectors,
                           size_t n, int64_t mint, int64_t maxt,
                           void (*fn)(void *arg, const struct tsdb_exemplar_series *s,
                                      const struct tsdb_exemplar *e, bool is_first),
                           void *arg);

// Exemplars are numbered in the order in which they were added.
uint64_t tsdb_exemplars_end(const struct tsdb *db); // the number of the next one
// Reads the first exemplar from *number on and sets *number to that of the next. False: there is
// none. The outputs are valid until the next call for this store.
bool tsdb_exemplars_next(const struct tsdb *db, uint64_t *number,
                         struct tsdb_exemplar_series *ret_s, struct tsdb_exemplar *ret_e);

// The number of the first exemplar of a series from this number on; 0: there is none.
uint64_t tsdb_exemplars_first_of(const struct tsdb *db, tsdb_ref ref, uint64_t from);

struct tsdb_exemplar_stats {
    size_t max, n, series, bytes;
    uint64_t appended, out_of_order;
    int64_t oldest_ms; // time of the exemplar that was added first; 0: none
};
void tsdb_exemplars_stats(const struct tsdb *db, struct tsdb_exemplar_stats *ret);
