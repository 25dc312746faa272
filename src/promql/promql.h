// SPDX-License-Identifier: Apache-2.0
// Queries over a store, evaluated as Prometheus 3 does (ranges and look-back left-open), without
// native histograms and experimental functions. Runs on the thread that owns the store.
#pragma once

#include "promql/ast.h"
#include "promql/functions.h"

struct promql_engine;

struct promql_config {
    int64_t lookback_ms;     // 0: 5 min
    int64_t default_step_ms; // of subqueries without one; 0: 60 s (the global evaluation interval)
    size_t max_samples;      // read or held by one query; 0: 50,000,000
    size_t max_bytes;        // of one query; 0: 512 MiB
    int64_t timeout_ms;      // 0: 2 min
    size_t max_points;       // steps of a range query; 0: 11,000
};

struct promql_engine *promql_engine_new(struct tsdb *db, const struct promql_config *cfg);
void promql_engine_free(struct promql_engine *e);
void promql_engine_set_default_step(struct promql_engine *e, int64_t ms); // of subqueries
// For the next query, in place of the configuration's (0: the configuration's): what the HTTP API's
// parameters timeout and lookback_delta ask for.
void promql_engine_set_limits(struct promql_engine *e, int64_t timeout_ms, int64_t lookback_ms);

// Queries that take longer than a few milliseconds call pause now and then: others may use the
// engine and the store until it returns, true to go on, false to end the query with GS_EUNAVAIL.
// Samples that arrive meanwhile may be seen, series that come are not. Not while a result is read.
// NULL: queries run through.
void promql_engine_set_pause(struct promql_engine *e, bool (*pause)(void *arg), void *arg);
// The same for a while, for who runs queries of its own: puts back what it returns.
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

// Results, to be read before the store changes. Series without any value are gone; absent steps are
// PROMQL_ABSENT.
//  instant scalar/vector: matrix has one step. instant of a range vector (`m[5m]`): `raw` has the
//  samples of each series. range query: always MATRIX.
struct promql_raw {
    struct tsdb_labels labels;
    const int64_t *t;
    const double *v;
    size_t n;
};
struct promql_result {
    enum promql_result_type type;
    int64_t start_ms, step_ms; // of the columns
    struct promql_matrix matrix;
    struct promql_raw *raw;
    size_t n_raw;
    bool is_raw;
    struct gs_slice string;
    const char *const *warnings, *const *infos;
    size_t n_warnings, n_infos;
    size_t samples;               // read, for statistics
    struct promql_engine *engine; // private: whose symbols
    void *own;                    // private: what _finish frees
};

// Errors: GS_EINVAL the query is wrong (bad_data), GS_ELIMIT over a limit, GS_ETIMEOUT, else
// execution (many-to-many and the like: GS_ECONFLICT), with Prometheus' texts.
struct gs_error *promql_instant(struct promql_engine *e, const struct promql_expr *x, int64_t t_ms,
                                struct promql_result *ret);
struct gs_error *promql_range(struct promql_engine *e, const struct promql_expr *x,
                              int64_t start_ms, int64_t end_ms, int64_t step_ms,
                              struct promql_result *ret);
void promql_result_finish(struct promql_result *r);
struct gs_slice promql_text(const struct promql_result *r, uint32_t symbol);
// The value of a label, empty when absent.
struct gs_slice promql_label(const struct promql_result *r, struct tsdb_labels l, const char *name);
