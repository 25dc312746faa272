// SPDX-License-Identifier: Apache-2.0
// The state of an evaluation, between the files of the evaluator.
#pragma once

#include "promql/eval.h"
#include "promql/promql.h"

#include "base/hmap.h"

#define PROMQL_TURN_NS    (5 * INT64_C(1000000)) // a query pauses after so long
#define PROMQL_OWN_SYMBOL UINT32_C(0x80000000)   // symbols of the query: this bit and an index

struct promql_notes {
    char **warnings, **infos;
    size_t n_warnings, n_infos, warnings_cap, infos_cap;
    struct gs_slice text; // of the expression, for line and column
    const void *last_what;
    uint32_t last_pos;
};
void promql_notes_finish(struct promql_notes *n);

struct promql_engine {
    struct tsdb *db;
    struct promql_config cfg;
    int64_t usual_timeout_ms, usual_lookback_ms; // of the configuration; cfg has those in force
    struct gs_arena spare; // of the last query, empty: new memory costs more than most queries
    bool has_spare;
    struct promql_cache *cache;
    bool (*pause)(void *arg); // NULL: queries run through
    void *pause_arg;
};

struct promql_eval {
    struct promql_engine *engine;
    struct promql_config cfg; // as it was when the query began
    struct gs_arena arena;
    struct promql_steps steps;
    int64_t query_start_ms, query_end_ms; // what @ start() and @ end() mean
    struct promql_notes notes;
    struct gs_hmap *own_symbols; // text -> index + 1
    struct gs_slice *own_texts;  // by index; in the arena
    size_t n_own, own_cap;
    size_t samples, work;
    int64_t deadline_ns;
    int64_t turn_ns; // when it pauses
    struct tsdb_isolation hold;
    struct promql_cache_view *view; // what is kept of the series as they were when it began
    struct tsdb_samples scratch;
};

static inline int64_t promql_step_time(const struct promql_steps *s, size_t i)
{
    return s->start_ms + (int64_t)i * s->step_ms;
}

// As promql_eval_node, with the result's `set` where its series are known.
struct gs_error *promql_eval_known(struct promql_eval *ev, const struct promql_node *n,
                                   struct promql_matrix *ret);
// The one value of each series for all steps.
struct gs_error *promql_eval_broadcast(struct promql_eval *ev, struct promql_matrix *m);
// Counts samples against the limits of samples and time.
struct gs_error *promql_eval_count(struct promql_eval *ev, size_t samples);
// Counts values that were looked at, against the limit of time. Others may run meanwhile: samples
// that were read of the store are out of date behind it; series, label sets and texts are held.
struct gs_error *promql_eval_work(struct promql_eval *ev, size_t values);
// A matrix with room for n series; their columns are not made.
struct gs_error *promql_eval_matrix(struct promql_eval *ev, struct promql_matrix *m, size_t n);
// A column of all steps, absent.
struct gs_error *promql_eval_column(struct promql_eval *ev, double **ret);
// n columns, absent, in one block.
struct gs_error *promql_eval_columns(struct promql_eval *ev, size_t n, double **ret);
// Without the series that have no value at any step.
void promql_eval_compact(struct promql_matrix *m);
struct gs_error *promql_eval_without_name(struct promql_eval *ev, struct tsdb_labels l,
                                          struct tsdb_labels *ret);
// Series with equal labels become one; two values at one step are an error, with this text (NULL:
// Prometheus' about equal label sets). strict: equal labels are an error.
struct gs_error *promql_eval_merge_equal(struct promql_eval *ev, struct promql_matrix *m,
                                         bool strict, const char *conflict);
// {a="b", c="d"} as Prometheus prints it.
void promql_eval_print_labels(const struct promql_eval *ev, struct tsdb_labels l,
                              struct gs_buf *out);

// selector.c
struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret);
// Time of a step after @ and offset.
int64_t promql_shifted(const struct promql_eval *ev, const struct promql_shift *s, int64_t t_ms);
struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *selector,
                                  int64_t mint, int64_t maxt, struct tsdb_refs *ret);
// The inner expression of a subquery on its grid.
struct gs_error *promql_eval_subquery(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_steps *ret_steps, struct promql_matrix *ret);
// binary.c, aggregate.c
struct gs_error *promql_eval_binary(struct promql_eval *ev, const struct promql_node *n,
                                    struct promql_matrix *ret);
struct gs_error *promql_eval_vectors(struct promql_eval *ev, const struct promql_node *n,
                                     const struct promql_matrix *lhs,
                                     const struct promql_matrix *rhs, struct promql_matrix *ret);
struct gs_error *promql_eval_sets(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_matrix *lhs, const struct promql_matrix *rhs,
                                  struct promql_matrix *ret);
// The fast way, where both sides are known and every series has at most one partner. *ret_done
// false: it is not.
struct gs_error *promql_eval_known_vectors(struct promql_eval *ev, const struct promql_node *n,
                                           const struct promql_matrix *lhs,
                                           const struct promql_matrix *rhs, bool *ret_done,
                                           struct promql_matrix *ret);
// The value of "a op b"; *ret_keep: a comparison holds (others: true).
double promql_apply(enum promql_op op, double a, double b, bool *ret_keep);
struct gs_error *promql_eval_aggregate(struct promql_eval *ev, const struct promql_node *n,
                                       struct promql_matrix *ret);

// Strconv's 'f' format with the fewest digits: what label values and literals are printed with.
void promql_format_f(struct gs_buf *out, double v);

// --- keys: which of some label sets are equal in some of their labels ---

struct promql_key_rule {
    const uint32_t *names; // symbols; TSDB_NO_SYMBOL: a name that nothing has
    size_t n;
    bool on;        // these labels only; else all but these and the metric name
    bool with_name; // … and the metric name too
};
struct promql_keys {
    uint32_t *ids; // of each series: 0, 1, 2 … in the order of their first series
    size_t n_ids;
    uint32_t *first; // of each id: its first series
};
struct gs_error *promql_eval_names(struct promql_eval *ev, struct promql_names names,
                                   const uint32_t **ret);
// Keys of two matrices in one numbering (b may be NULL): ret_a and ret_b have the ids of theirs.
struct gs_error *promql_eval_keys(struct promql_eval *ev, const struct promql_key_rule *rule,
                                  const struct promql_matrix *a, const struct promql_matrix *b,
                                  struct promql_keys *ret_a, struct promql_keys *ret_b);
// The labels of a result of two series.
struct gs_error *promql_eval_result_labels(struct promql_eval *ev, const struct promql_node *n,
                                           const struct promql_key_rule *rule,
                                           const uint32_t *include, struct tsdb_labels many,
                                           struct tsdb_labels one, struct tsdb_labels *ret);
// Keys of whole label sets, with the metric name.
struct gs_error *promql_eval_whole_keys(struct promql_eval *ev, const struct promql_matrix *m,
                                        struct promql_keys *ret);
// The labels that the key is about.
struct gs_error *promql_eval_key_labels(struct promql_eval *ev, const struct promql_key_rule *rule,
                                        struct tsdb_labels from, struct tsdb_labels *ret);
