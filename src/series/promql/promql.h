// SPDX-License-Identifier: Apache-2.0
// Queries over a store, evaluated as in Prometheus 3 (ranges and look-back are left-open), without
// native histograms. All functions run on the thread that owns the store.
#pragma once

#include "promql/ast.h"
#include "promql/functions.h"

struct promql_engine;

struct promql_config {
    int64_t lookback_ms; // 0: 5 min
    // step of subqueries that set none; 0: 60 s (the global evaluation interval)
    int64_t default_step_ms;
    size_t max_samples; // loaded or held by one query; 0: 50,000,000
    size_t max_bytes;   // of one query; 0: 512 MiB
    int64_t timeout_ms; // 0: 2 min
    size_t max_points;  // steps of a range query; 0: 11,000
    size_t cache_bytes; // for series, groups and matches between queries; 0: 96 MB; 1: none
};

struct promql_engine *promql_engine_new(struct tsdb *db, const struct promql_config *cfg);
void promql_engine_free(struct promql_engine *e);
// Frees the memory that is kept for the next query.
void promql_engine_trim(struct promql_engine *e);
void promql_engine_set_default_step(struct promql_engine *e, int64_t ms); // of subqueries
// fn is called when a query begins. It returns an expression of the same type that is evaluated in
// place of the query, and that the engine frees, or NULL. Positions in annotations are those of
// this expression. fn NULL: queries are evaluated as they are written.
void promql_engine_set_substitute(struct promql_engine *e,
                                  struct promql_expr *(*fn)(void *arg, const struct promql_expr *x),
                                  void *arg);
// Sets the limits of the next query, from the parameters timeout and lookback_delta of the HTTP
// API. 0: as configured.
void promql_engine_set_limits(struct promql_engine *e, int64_t timeout_ms, int64_t lookback_ms);

// Whether the next query has statistics. They cost time for each sample.
void promql_engine_set_statistics(struct promql_engine *e, bool wanted);

// Queries that take longer than a few milliseconds call pause regularly. Others may use the engine
// and the store until it returns: true continues the query, false ends it with GS_EUNAVAIL. A query
// can read samples that arrive in between, but no new series. pause is not called while a result is
// read. NULL: queries run without pauses.
void promql_engine_set_pause(struct promql_engine *e, bool (*pause)(void *arg), void *arg);
// Sets another pause function temporarily. Returns the previous one, which the caller restores.
struct promql_pause {
    bool (*fn)(void *arg);
    void *arg;
};
struct promql_pause promql_engine_swap_pause(struct promql_engine *e, struct promql_pause p);

enum promql_result_type {
    PROMQL_RESULT_SCALAR,
    PROMQL_RESULT_VECTOR,
    PROMQL_RESULT_MATRIX,
    PROMQL_RESULT_STRING
};

// Results must be read before the store changes. Series without any value are left out; steps
// without a value are PROMQL_ABSENT. instant scalar/vector: matrix has one step. instant of a range
// vector (`m[5m]`): `raw` has the samples of each series. range query: always MATRIX.
struct promql_raw {
    struct tsdb_labels labels;
    const int64_t *t;
    const double *v;
    size_t n;
};
// How many samples the selectors of a query use, as in Prometheus 3.16.
struct promql_statistics {
    uint64_t used;               // by each step; a sample that two steps use counts twice
    uint64_t read;               // a sample that two steps use counts once
    uint64_t series;             // that selectors have read
    uint64_t *used_at, *read_at; // the first two, by step of the result
};
struct promql_result {
    enum promql_result_type type;
    int64_t start_ms, step_ms; // of the columns
    size_t n_steps;
    struct promql_matrix matrix;
    struct promql_raw *raw;
    size_t n_raw;
    bool is_raw;
    struct gs_slice string;
    const char *const *warnings, *const *infos;
    size_t n_warnings, n_infos;
    size_t samples;                             // loaded; compared with max_samples
    const struct promql_statistics *statistics; // NULL: not wanted
    struct promql_engine *engine;               // private: owner of the symbols
    void *own;                                  // private: freed by promql_result_finish
};

// Errors have Prometheus' wording. GS_EINVAL: the query is wrong (bad_data). GS_ELIMIT: a limit was
// exceeded. GS_ETIMEOUT: timeout. Other codes: the execution failed, such as GS_ECONFLICT for
// many-to-many matching.
struct gs_error *promql_instant(struct promql_engine *e, const struct promql_expr *x, int64_t t_ms,
                                struct promql_result *ret);
struct gs_error *promql_range(struct promql_engine *e, const struct promql_expr *x,
                              int64_t start_ms, int64_t end_ms, int64_t step_ms,
                              struct promql_result *ret);
void promql_result_finish(struct promql_result *r);
struct gs_slice promql_text(const struct promql_result *r, uint32_t symbol);
// The label i of a set of the result, in the order of the names. i < tsdb_labels_len().
struct metrics_label promql_label_at(const struct promql_result *r, struct tsdb_labels l, size_t i);
