// SPDX-License-Identifier: Apache-2.0
// Internals of the evaluator and the functions.
#pragma once

#include "base/hmap.h"
#include "base/num.h"
#include "promql/functions.h"
#include "promql/promql.h"

#include <sys/queue.h>

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

// --- functions ---
// The functions in the table, by file.

typedef bool promql_rollup_fn(const struct promql_window *w, double *ret);
// rollup_counter.c
promql_rollup_fn promql_rollup_rate, promql_rollup_increase, promql_rollup_delta,
    promql_rollup_irate, promql_rollup_idelta, promql_rollup_deriv, promql_rollup_predict_linear,
    promql_rollup_changes, promql_rollup_resets;
// Notes that the name of the metric is not that of a counter.
void promql_note_counter(const struct promql_window *w);
struct gs_slice promql_window_metric(const struct promql_window *w); // the series' name
// Computes rate or increase of a window from the increase that was counted in it.
bool promql_counter_rate(const struct promql_window *w, double counted, bool per_second,
                         double *ret);
// rollup_over_time.c
promql_rollup_fn promql_rollup_avg, promql_rollup_sum, promql_rollup_min, promql_rollup_max,
    promql_rollup_count, promql_rollup_last, promql_rollup_first, promql_rollup_present,
    promql_rollup_stddev, promql_rollup_stdvar, promql_rollup_quantile, promql_rollup_mad,
    promql_rollup_integral, promql_rollup_double_exponential_smoothing, promql_rollup_time_of_first,
    promql_rollup_time_of_last, promql_rollup_time_of_max, promql_rollup_time_of_min;

typedef double promql_map_fn(double v, const double *args, size_t n_args);
// functions_math.c
promql_map_fn promql_map_abs, promql_map_ceil, promql_map_floor, promql_map_exp, promql_map_ln,
    promql_map_log2, promql_map_log10, promql_map_sqrt, promql_map_sgn, promql_map_sin,
    promql_map_cos, promql_map_tan, promql_map_asin, promql_map_acos, promql_map_atan,
    promql_map_sinh, promql_map_cosh, promql_map_tanh, promql_map_asinh, promql_map_acosh,
    promql_map_atanh, promql_map_deg, promql_map_rad, promql_map_round, promql_map_clamp,
    promql_map_clamp_min, promql_map_clamp_max;
// functions_time.c
promql_map_fn promql_map_minute, promql_map_hour, promql_map_day_of_week, promql_map_day_of_month,
    promql_map_day_of_year, promql_map_days_in_month, promql_map_month, promql_map_year;

typedef struct gs_error *promql_special_fn(struct promql_eval *ev, const struct promql_node *call,
                                           struct promql_matrix *ret);
// functions_misc.c
promql_special_fn promql_special_time, promql_special_pi, promql_special_scalar,
    promql_special_vector, promql_special_absent, promql_special_absent_over_time,
    promql_special_timestamp, promql_special_sort, promql_special_sort_desc, promql_special_none,
    promql_special_query_start, promql_special_query_end, promql_special_query_range,
    promql_special_query_step, promql_special_max_of, promql_special_min_of;
// info.c
promql_special_fn promql_special_info;
// functions_label.c
promql_special_fn promql_special_label_replace, promql_special_label_join,
    promql_special_sort_by_label, promql_special_sort_by_label_desc;
// functions_histogram.c
promql_special_fn promql_special_histogram_quantile, promql_special_histogram_quantiles,
    promql_special_histogram_fraction;

// Neumaier's compensated addition, in the same order as Prometheus.
static inline void promql_kahan_add(double inc, double *sum, double *c)
{
    double t = *sum + inc;
    if (__builtin_isinf(t))
        *c = 0;
    else if (__builtin_fabs(*sum) >= __builtin_fabs(inc))
        *c += (*sum - t) + inc;
    else
        *c += (inc - t) + *sum;
    *sum = t;
}

// Computes the same sum and compensation for n values if nothing overflows (otherwise *sum is not
// finite). The rounding error of an addition is exactly one number, so Knuth's branch-free form
// gives the same result.
static inline void promql_fast_sum(const double *v, size_t n, double *sum, double *c)
{
    double s = *sum, error = *c;
    for (size_t i = 0; i < n; i++) {
        double t = s + v[i], part = t - s;
        error += (s - (t - part)) + (v[i] - part);
        s = t;
    }
    *sum = s;
    *c = error;
}

// Two values for one instruction, and the result of comparing them: all bits, or none.
typedef double promql_two __attribute__((vector_size(16)));
typedef int64_t promql_two_bits __attribute__((vector_size(16)));

// The sum of whole numbers if no partial sum can be rounded, in any order. promql_fast_sum() then
// has the same sum and no compensation, but needs one addition after another. Returns false for
// other values.
bool promql_whole_sum(const double *v, size_t n, double *ret);

// Returns the q-quantile of n values with linear interpolation; NaN if n is 0. Sorts the values in
// place.
double promql_quantile(double q, double *values, size_t n);

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
    bool statistics; // of the next query
};

struct promql_eval {
    struct promql_engine *engine;
    struct promql_config cfg; // as of the start of the query
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

// statistics.c: counts what selectors use, if statistics are wanted.
// Begins to count at the steps of the current evaluation.
struct gs_error *promql_stats_begin(struct promql_eval *ev, struct promql_statistics *s);
void promql_stats_series(struct promql_eval *ev, size_t n);
void promql_stats_samples(struct promql_eval *ev, size_t n); // of a query without steps
// A value for each step; absent ones do not count. fixed: all steps use the same sample.
void promql_stats_values(struct promql_eval *ev, const double *v, bool fixed);
// The samples of a window for each step: after t - back_ms, until t + ahead_ms.
void promql_stats_windows(struct promql_eval *ev, const struct promql_shift *shift, int64_t back_ms,
                          int64_t ahead_ms, const struct tsdb_samples *s);
// Counts for the other steps what the first one has used since its count was `used`.
void promql_stats_repeat(struct promql_eval *ev, uint64_t used);
// What the windows of the current steps use of a subquery with its own steps. Overwrites inner.
void promql_stats_add_subquery(struct promql_eval *ev, struct promql_statistics *inner,
                               const struct promql_steps *steps, const struct promql_shift *shift,
                               int64_t range_ms);

// parse_duration.c: replaces *n by a copy in which duration expressions have their values.
struct gs_error *promql_eval_durations(struct promql_eval *ev, const struct promql_node **n);
// The smaller number as Go's math.Min: -Inf wins over NaN, NaN over the others.
double promql_smaller(double a, double b);
// extended.c: anchored and smoothed. How much a selector reads before and after its range.
int64_t promql_extension_before(const struct promql_eval *ev, const struct promql_node *selector);
int64_t promql_extension_after(const struct promql_eval *ev, const struct promql_node *selector);
// Fails if the function cannot be used with the modifier of the selector.
struct gs_error *promql_check_extension(const struct promql_function *fn,
                                        const struct promql_node *selector);
// The value of a range function. w has the samples around the range from start_ms to end_ms, too.
bool promql_extended_value(const struct promql_function *fn, const struct promql_window *w,
                           bool smoothed, double *ret);
// The samples of the range with its borders. t and v have room for w->n + 2. Returns their number.
size_t promql_extend_samples(const struct promql_window *w, bool smoothed, int64_t *t, double *v);
struct promql_cached_series;
struct gs_error *promql_eval_smoothed(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_cached_series *k, struct promql_matrix *ret);
void promql_drop_stale(struct tsdb_samples *s); // range_functions.c
// selected_series.c
struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *selector,
                                  int64_t mint, int64_t maxt, struct tsdb_refs *ret);
// selector.c
struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret);
// Returns the time of a step after @ and offset.
int64_t promql_shifted(const struct promql_eval *ev, const struct promql_shift *s, int64_t t_ms);
// Evaluates the inner expression of a subquery on its grid.
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
// The fast path for cached series on both sides with at most one match each. *ret_done is false if
// this is not the case.
struct gs_error *promql_eval_cached_vectors(struct promql_eval *ev, const struct promql_node *n,
                                            const struct promql_matrix *lhs,
                                            const struct promql_matrix *rhs, bool *ret_done,
                                            struct promql_matrix *ret);
// Returns the value of "a op b". *ret_keep: the comparison holds (true for other operators).
double promql_apply(enum promql_op op, double a, double b, bool *ret_keep);
struct gs_error *promql_eval_aggregate(struct promql_eval *ev, const struct promql_node *n,
                                       struct promql_matrix *ret);

// Prints label values and literals: the shortest form of the 'f' format of Go's strconv.
void promql_format_f(struct gs_buf *out, double v);
// Prints numbers in messages, as Go's %g. Returns text.
char *promql_format_g(double v, char text[GS_DOUBLE_SIZE]);

// --- keys: which of some label sets are equal in some of their labels ---

struct promql_key_rule {
    const uint32_t *names; // symbols; TSDB_NO_SYMBOL: a name that no series has
    size_t n;
    bool on;        // only these labels; otherwise all except these and the metric name
    bool with_name; // the metric name is also part of the key
};
struct promql_keys {
    uint32_t *ids; // for each series: 0, 1, 2 … in the order of the first series
    size_t n_ids;
    uint32_t *first; // for each id: its first series
    // for each id: the number of its label set in the table; NULL: not cached
    const struct promql_label_table *table;
    const uint32_t *numbers;
};
struct gs_error *promql_eval_names(struct promql_eval *ev, struct promql_names names,
                                   const uint32_t **ret);
// Numbers the keys of both matrices together (b may be NULL). ret_a and ret_b get the ids of their
// series.
struct gs_error *promql_eval_keys(struct promql_eval *ev, const struct promql_key_rule *rule,
                                  const struct promql_matrix *a, const struct promql_matrix *b,
                                  struct promql_keys *ret_a, struct promql_keys *ret_b);
// Whether the results of two vectors have the metric name, if only until the end of the query.
bool promql_keeps_result_name(const struct promql_node *n);
// Returns the labels of the result of two matched series.
struct gs_error *promql_eval_result_labels(struct promql_eval *ev, const struct promql_node *n,
                                           const struct promql_key_rule *rule,
                                           const uint32_t *include, struct tsdb_labels many,
                                           struct tsdb_labels one, struct tsdb_labels *ret);
// Numbers whole label sets, including the metric name.
struct gs_error *promql_eval_whole_keys(struct promql_eval *ev, const struct promql_matrix *m,
                                        struct promql_keys *ret);
// Returns the labels that are part of the key.
struct gs_error *promql_eval_key_labels(struct promql_eval *ev, const struct promql_key_rule *rule,
                                        struct tsdb_labels from, struct tsdb_labels *ret);

// --- cache of label sets ---
// What depends only on label sets (the series of a selector, groups, matches of a join) is cached
// across queries. Births and deaths of series change it by as much as they concern:
// - A selector has a list of series, which is changed by the series that came and went. Series that
//   ended are apart, so that a query only visits those that ended within its window.
// - A label table numbers the label sets that a rule makes (by, without, on, ignoring, dropping of
//   names, results of a join). They are symbols, and it does not matter whether series have them.
// - A memo has the number of each series, or of each label set of another table, in a table. It
//   forgets a series whose number in the store was given to another one.
// The bytes of all entries together are limited. The least recently used ones make room. A query
// holds the entries that it uses until it ends, also if they are replaced meanwhile.

struct promql_cache;
struct promql_cache *promql_cache_new(size_t max_bytes); // 0: 96 MB
void promql_cache_free(struct promql_cache *c);
// The cache as one query uses it, from its start until its result is finished.
struct promql_cache_view;
struct promql_cache_view *promql_cache_hold(struct promql_cache *c, struct tsdb *db);
void promql_cache_release(struct promql_cache_view *v);
// False: a label name vanished since the query started. It cannot use the cache any more.
bool promql_cache_usable(const struct promql_cache_view *v);
uint64_t promql_cache_changes(const struct promql_cache_view *v); // of series, before the query
uint64_t promql_cache_number(struct promql_cache_view *v);        // a new one, not 0

struct promql_entry { // begins each object in the cache
    void (*free)(struct promql_entry *e);
    size_t bytes;
    // private
    char *key;
    size_t key_len, n_holds;
    bool cached;
    TAILQ_ENTRY(promql_entry) all;
};
TAILQ_HEAD(promql_entries, promql_entry);
// NULL: not cached. The query holds it.
struct promql_entry *promql_cache_get(struct promql_cache_view *v, const struct gs_buf *key);
// Makes room for a new entry. False: there is none.
bool promql_cache_has_room(struct promql_cache_view *v, size_t bytes);
// Adds or replaces an entry, for which there was room. The cache owns it, the query holds it.
void promql_cache_put(struct promql_cache_view *v, const struct gs_buf *key,
                      struct promql_entry *e);
// Before an entry of the cache gets more bytes. False: there is no room.
bool promql_entry_grow(struct promql_cache_view *v, struct promql_entry *e, size_t bytes);
void promql_cache_retire(struct promql_cache_view *v, struct promql_entry *e); // from the cache

#define PROMQL_NO_NUMBER UINT32_MAX

struct promql_label_table {
    struct promql_entry entry;
    uint64_t number;            // of the table
    struct tsdb_labels *labels; // by number; their pairs stay in place
    size_t n;
    // private
    size_t cap, most_used, n_next;
    uint32_t *hashes, *slots; // slots: number + 1; 0: empty; open addressing
    struct gs_arena arena;
};
// Gets or creates the table; NULL: the cache has no room.
struct promql_label_table *promql_label_table(struct promql_cache_view *v,
                                              const struct gs_buf *key);
// The number of the label set, which is added if it is new. PROMQL_NO_NUMBER: no room.
uint32_t promql_label_number(struct promql_cache_view *v, struct promql_label_table *t,
                             struct tsdb_labels l);
// A query used n of the label sets.
void promql_label_table_used(struct promql_cache_view *v, struct promql_label_table *t, size_t n);

// Small: the series of a metric are few of those of a target, and only their pages exist.
#define PROMQL_MEMO_PAGE 64u

struct promql_label_memo {
    struct promql_entry entry;
    // private
    uint32_t **pages; // of PROMQL_MEMO_PAGE elements
    size_t n_pages;
    uint64_t changes; // of the store that it knows
};
// Gets or creates the memo of a table (NULL: of the series of the store) for a purpose, which one
// or two numbers of tables identify. NULL: the cache has no room. Pausing ends its validity.
struct promql_label_memo *promql_label_memo(struct promql_eval *ev,
                                            const struct promql_label_table *from,
                                            const uint64_t to[2]);
uint32_t *promql_label_memo_page(struct promql_cache_view *v, struct promql_label_memo *m,
                                 size_t page);
// Where a memo has the number + 1 of an element; 0: unknown. NULL: no room.
static inline uint32_t *promql_label_memo_at(struct promql_cache_view *v,
                                             struct promql_label_memo *m, uint32_t element)
{
    size_t page = element / PROMQL_MEMO_PAGE;
    uint32_t *at = page < m->n_pages ? m->pages[page] : NULL;
    if (!at)
        at = promql_label_memo_page(v, m, page);
    return at ? at + element % PROMQL_MEMO_PAGE : NULL;
}

// The series of a matrix are elements of a table or of the store.
struct promql_set {
    const struct promql_label_table *table; // NULL: of the store
    const uint32_t *elements;               // of each series: the number, or tsdb_ref
};
struct gs_error *promql_eval_set(struct promql_eval *ev, const struct promql_label_table *table,
                                 const uint32_t *elements, struct promql_matrix *m);

// grouping_keys.c
// Appends a key that is unique for the rule.
void promql_eval_rule_key(const struct promql_eval *ev, const struct promql_key_rule *rule,
                          struct gs_buf *key);
// Gives the table of the rule, and the numbers of the series of m in it, which has a set. *ret is
// NULL if the cache has no room.
struct gs_error *promql_eval_numbers(struct promql_eval *ev, const struct promql_key_rule *rule,
                                     const struct promql_matrix *m, uint32_t *numbers,
                                     struct promql_label_table **ret);

// --- cached selectors ---

// Series that have ended, apart from the others of a list. A series that got samples again, or was
// dropped, stays until the next promql_ended_add().
struct promql_ended {
    struct promql_end {
        int64_t t_ms; // of the stale marker
        tsdb_ref ref;
    } * items; // ascending times
    size_t n;
    uint32_t name;    // common to all; TSDB_NO_SYMBOL: they may differ
    uint64_t changes; // of the store that it knows
};
// Drops the series that changed, and adds n others with a common name, which are sorted for this.
void promql_ended_add(struct promql_ended *x, struct tsdb *db, struct promql_end *more, size_t n,
                      uint32_t name);
// The series that ended after since_ms, ascending.
void promql_ended_after(const struct promql_ended *x, struct tsdb *db, int64_t since_ms,
                        struct tsdb_refs *ret);

struct promql_cached_series {  // all matching series, whenever they had samples
    struct promql_entry entry; // zeros: used by this query only
    tsdb_ref *refs;            // ascending
    struct tsdb_labels *labels;
    size_t n;
    uint32_t name;    // common to all; TSDB_NO_SYMBOL: they may differ
    uint64_t changes; // of the store that it knows
    // private
    struct promql_ended ended;
    int64_t next_look_ms; // newest sample of the store when others may have ended
};

// The matching series, without those that have no value after since_ms because they ended before.
struct gs_error *promql_cached_series_select(struct promql_eval *ev,
                                             const struct promql_node *selector, int64_t since_ms,
                                             struct promql_cached_series **ret);

// --- aggregation ---
// Used by aggregate.c and aggregate_select.c.

struct promql_grouping {
    struct promql_matrix input;
    struct promql_key_rule rule;
    struct promql_keys keys;
};
struct gs_error *promql_eval_grouping(struct promql_eval *ev, const struct promql_node *n,
                                      const struct promql_matrix *input,
                                      struct promql_grouping *ret);
struct gs_error *promql_eval_aggregate_matrix(struct promql_eval *ev, const struct promql_node *n,
                                              const struct promql_matrix *input,
                                              struct promql_matrix *ret);
// Checks the numbers k of all steps. *ret_some: a step selects series.
struct gs_error *promql_eval_check_limits(const double *k, size_t n_steps, bool *ret_some);
// limitk, limit_ratio
struct gs_error *promql_eval_limit(struct promql_eval *ev, const struct promql_node *n,
                                   const struct promql_grouping *g, const double *param,
                                   struct promql_matrix *ret);
struct gs_error *promql_eval_topk(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_grouping *g, const double *k,
                                  struct promql_matrix *ret);
struct gs_error *promql_eval_count_values(struct promql_eval *ev, const struct promql_node *n,
                                          const struct promql_matrix *input,
                                          struct promql_matrix *ret);

// --- sliding windows ---
// Range functions whose windows only move forward. Samples that two windows share are not processed
// again.
// Nothing is ever subtracted from a sum. A window has a border: the sums of the samples before it
// are kept for each possible start, and the samples after it have one sum. The result is therefore
// as exact as one compensated sum, whatever the window contained before.

struct promql_slider {
    const double *v;    // samples of the series
    size_t from, until; // of the last window
    // sums before the border, one for each start, with their compensation
    double *sums, *errors;
    size_t border, cap;
    double sum, error; // from the border to the end
    size_t n_wild;     // samples of the window outside the sums: NaN, infinite or close to overflow
    // indexes of samples that are candidates for the extreme, resets or changes
    size_t *places;
    size_t head, tail;
};

// Starts with another series of n samples. The memory belongs to the query.
struct gs_error *promql_slider_begin(struct promql_slider *s, struct promql_eval *ev,
                                     const double *v, size_t n);

typedef bool promql_sliding_fn(struct promql_slider *s, const struct promql_window *w, double *ret);
promql_sliding_fn promql_slide_sum, promql_slide_avg, promql_slide_min, promql_slide_max,
    promql_slide_rate, promql_slide_increase, promql_slide_changes, promql_slide_resets;
