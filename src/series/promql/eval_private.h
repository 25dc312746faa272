// SPDX-License-Identifier: Apache-2.0
// The state of an evaluation and the services of the evaluator. All memory of a query is in its
// arena, and each allocation and each batch of values is counted against the query's limits.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/hmap.h"
#include "base/num.h"
#include "promql/functions.h"
#include "promql/promql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- what functions use ---
// Services of the evaluator for functions that evaluate the whole call.

// Steps: start_ms + i * step_ms for i in 0..n_steps.
struct promql_steps {
    int64_t start_ms, step_ms;
    size_t n;
};

const struct promql_steps *promql_eval_steps(const struct promql_eval *ev);
struct promql_annotations *promql_eval_annotations(struct promql_eval *ev);
// Evaluates an argument of type vector or scalar over all steps.
struct gs_error *promql_eval_node(struct promql_eval *ev, const struct promql_node *n,
                                  struct promql_matrix *ret);
// Allocates zeroed memory from the query's arena. GS_ELIMIT: the query's memory is used up.
struct gs_error *promql_eval_alloc(struct promql_eval *ev, size_t n, size_t size, void *ret_ptr);
// Whether a series has a value at this step.
bool promql_eval_has_value_at(const struct promql_matrix *m, size_t step);
// Appends a series to m with all steps absent.
struct gs_error *promql_eval_add_series(struct promql_eval *ev, struct promql_matrix *m,
                                        struct tsdb_labels labels, struct promql_series **ret);
// Returns the symbol of a string. Equal strings have equal symbols within the query.
struct gs_error *promql_eval_intern(struct promql_eval *ev, struct gs_slice text, uint32_t *ret);
struct gs_slice promql_eval_text(const struct promql_eval *ev, uint32_t symbol);
// The set of these pairs, which have neither __name__ nor empty values, and a metric name.
struct gs_error *promql_eval_labels(const struct promql_eval *ev, const struct tsdb_pair *pairs,
                                    size_t n, uint32_t metric, struct tsdb_labels *ret);
// Copies the set and sets one label (value TSDB_SYMBOL_EMPTY: removes it). The copy is sorted.
struct gs_error *promql_eval_with_label(struct promql_eval *ev, struct tsdb_labels from,
                                        uint32_t name, uint32_t value, struct tsdb_labels *ret);
// Warns about a sort function in a range query, whose results are ordered by labels.
void promql_annotate_ranged_sort(struct promql_eval *ev, const struct promql_node *call);
// A range function over call's range argument, with call's scalar arguments.
struct gs_error *promql_eval_rollup(struct promql_eval *ev, const struct promql_function *fn,
                                    const struct promql_node *call, struct promql_matrix *ret);
// As promql_eval_node of an instant selector, with the time of each sample in seconds as its value.
struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret);
// Removes the metric names, then merges series with equal labels as promql_eval_merge_equal.
struct gs_error *promql_eval_drop_names(struct promql_eval *ev, struct promql_matrix *m);
// Removes the names that are still there because of PROMQL_DELAYED_NAMES.
struct gs_error *promql_eval_drop_delayed(struct promql_eval *ev, struct promql_matrix *m);

// --- state of an evaluation ---

#define PROMQL_OWN_SYMBOL UINT32_C(0x80000000) // a symbol of the query: this bit and an index

struct promql_annotations {
    char **warnings, **infos;
    size_t n_warnings, n_infos, warnings_cap, infos_cap;
    struct gs_slice text; // of the expression, for line and column
    const void *last_what;
    uint32_t last_pos;
};
void promql_annotations_finish(struct promql_annotations *n);

struct promql_engine {
    struct tsdb *db;
    struct promql_config cfg;
    // as configured; cfg has those of the current query
    int64_t usual_timeout_ms, usual_lookback_ms;
    struct gs_arena spare; // empty arena of the last query: new memory costs more than most queries
    bool has_spare;
    struct promql_cache *cache;
    bool (*pause)(void *arg); // NULL: queries run without pauses
    void *pause_arg;
    bool statistics;                                                           // of the next query
    struct promql_expr *(*substitute)(void *arg, const struct promql_expr *x); // NULL: none
    void *substitute_arg;
};

struct promql_eval {
    struct promql_engine *engine;
    struct promql_expr *substitute; // evaluated in place of the query; NULL: none
    struct promql_config cfg;       // as of the start of the query
    struct gs_arena arena;
    struct promql_steps steps;
    int64_t query_start_ms, query_end_ms; // values of @ start() and @ end()
    int64_t query_step_ms;                // value of step(); 0: an instant query
    struct promql_annotations notes;
    struct gs_hmap *own_symbols; // text -> index + 1
    struct gs_slice *own_texts;  // by index; in the arena
    size_t n_own, own_cap;
    size_t own_bytes; // of these texts
    // __type__ and __unit__, which are removed with the metric name. TSDB_NO_SYMBOL: not in use
    uint32_t metadata[2];
    size_t samples, work;
    struct promql_statistics *stats; // of the current steps; NULL: not wanted
    int64_t deadline_ns;
    int64_t turn_ns; // time of the next pause
    struct tsdb_isolation hold;
    struct promql_cache_view *view; // cache of the series as of the start of the query
    struct tsdb_samples scratch;
};

// Whether a label belongs to the metric and not to its results: __name__, __type__, __unit__.
static inline bool promql_is_metadata(const struct promql_eval *ev, uint32_t name)
{
    return name == TSDB_SYMBOL_NAME || name == ev->metadata[0] || name == ev->metadata[1];
}

static inline int64_t promql_step_time(const struct promql_steps *s, size_t i)
{
    return s->start_ms + (int64_t)i * s->step_ms;
}

// As promql_eval_node, and sets `set` of the result if its series are cached.
struct gs_error *promql_eval_dispatch(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_matrix *ret);
// Repeats the single value of each series for all steps.
struct gs_error *promql_eval_broadcast(struct promql_eval *ev, struct promql_matrix *m);
// Counts samples against the limit of samples and checks the timeout.
struct gs_error *promql_eval_count(struct promql_eval *ev, size_t samples);
// Counts processed values and checks the timeout regularly. It can pause the query: samples that
// were read from the store before the call are invalid after it; series, label sets and strings
// stay valid.
struct gs_error *promql_eval_work(struct promql_eval *ev, size_t values);
// The same for work that takes long, independent of the number of values.
struct gs_error *promql_eval_check_time(struct promql_eval *ev);
// Allocates a matrix for n series without columns.
struct gs_error *promql_eval_matrix(struct promql_eval *ev, struct promql_matrix *m, size_t n);
// Allocates a column with all steps absent.
struct gs_error *promql_eval_column(struct promql_eval *ev, double **ret);
// Allocates n columns in one block, with all steps absent.
struct gs_error *promql_eval_columns(struct promql_eval *ev, size_t n, double **ret);
// Removes the series that have no value at any step.
void promql_eval_compact(struct promql_matrix *m);
// Removes __name__, __type__ and __unit__.
struct gs_error *promql_eval_without_name(struct promql_eval *ev, struct tsdb_labels l,
                                          struct tsdb_labels *ret);
// Merges series with equal labels, such as those of a renamed metric. Two values at one step are an
// error with the text `conflict` (NULL: Prometheus' text about equal label sets).
struct gs_error *promql_eval_merge_equal(struct promql_eval *ev, struct promql_matrix *m,
                                         const char *conflict);
// Prints {a="b", c="d"} as Prometheus does.
void promql_eval_print_labels(const struct promql_eval *ev, struct tsdb_labels l,
                              struct gs_buf *out);

// parse_duration.c: replaces *n by a copy in which duration expressions have their values.
struct gs_error *promql_eval_durations(struct promql_eval *ev, const struct promql_node **n);
// The smaller number as Go's math.Min: -Inf wins over NaN, NaN over the others.
double promql_smaller(double a, double b);
// Prints label values and literals: the shortest form of the 'f' format of Go's strconv.
void promql_format_f(struct gs_buf *out, double v);
// Prints numbers in messages, as Go's %g. Returns text.
char *promql_format_g(double v, char text[GS_DOUBLE_SIZE]);
