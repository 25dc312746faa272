// SPDX-License-Identifier: Apache-2.0
// Evaluates the tree: every node once, for all steps.
#include "promql/eval_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "promql/grouping.h"
#include "promql/label_cache.h"
#include "promql/selectors.h"
#include "promql/statistics.h"

#include <math.h>

// The part of the memory of a query that texts of its labels may take. The table of the texts has
// them a second time, outside of the arena.
enum { OWN_TEXTS = 8 };

// --- what nodes need ---

const struct promql_steps *promql_eval_steps(const struct promql_eval *ev)
{
    return &ev->steps;
}

struct promql_annotations *promql_eval_annotations(struct promql_eval *ev)
{
    return &ev->notes;
}

struct gs_error *promql_eval_alloc(struct promql_eval *ev, size_t n, size_t size, void *ret_ptr)
{
    size_t bytes;
    void *p =
        __builtin_mul_overflow(n ? n : 1, size, &bytes) ? NULL : gs_arena_alloc(&ev->arena, bytes);
    if (!p)
        return gs_error_new(GS_ELIMIT, "query needs more than its limit of %zu bytes of memory",
                            ev->cfg.max_bytes);
    memcpy(ret_ptr, &p, sizeof(p));
    return NULL;
}

static struct gs_error *pause_query(struct promql_eval *ev)
{
    struct promql_engine *e = ev->engine;
    if (!e->pause(e->pause_arg))
        return gs_error_new(GS_EUNAVAIL, "query was canceled in expression evaluation");
    ev->turn_ns = gs_mono_ns() + gs_turn_ns();
    return NULL;
}

struct gs_error *promql_eval_work(struct promql_eval *ev, size_t values)
{
    ev->work += values;
    // The clock is read once for each 16,384 values.
    if ((ev->work - values) >> 14 == ev->work >> 14)
        return NULL;
    return promql_eval_check_time(ev);
}

struct gs_error *promql_eval_check_time(struct promql_eval *ev)
{
    int64_t now_ns = gs_mono_ns();
    if (now_ns > ev->deadline_ns)
        return gs_error_new(GS_ETIMEOUT, "query timed out in expression evaluation");
    return now_ns >= ev->turn_ns ? pause_query(ev) : NULL;
}

struct gs_error *promql_eval_count(struct promql_eval *ev, size_t samples)
{
    ev->samples += samples;
    if (ev->samples > ev->cfg.max_samples)
        return gs_error_new(GS_ELIMIT, "query processing would load too many samples into memory "
                                       "in query execution");
    return promql_eval_work(ev, samples);
}

struct gs_error *promql_eval_column(struct promql_eval *ev, double **ret)
{
    double *v, absent = promql_absent_value();
    struct gs_error *err = promql_eval_alloc(ev, ev->steps.n, sizeof(*v), &v);
    if (err)
        return err;
    // promql_eval_alloc() sets it by memcpy(), which the analyzer does not follow.
    for (size_t i = 0; i < ev->steps.n; i++)
        v[i] = absent; // NOLINT(clang-analyzer-core.NullDereference)
    *ret = v;          // NOLINT(clang-analyzer-core.uninitialized.Assign)
    return NULL;
}

struct gs_error *promql_eval_columns(struct promql_eval *ev, size_t n, double **ret)
{
    size_t total;
    double *v, absent = promql_absent_value();
    if (__builtin_mul_overflow(n, ev->steps.n, &total))
        total = SIZE_MAX;
    struct gs_error *err = promql_eval_alloc(ev, total, sizeof(*v), &v);
    if (err)
        return err;
    for (size_t i = 0; i < total; i++)
        v[i] = absent;
    *ret = v;
    return NULL;
}

struct gs_error *promql_eval_matrix(struct promql_eval *ev, struct promql_matrix *m, size_t n)
{
    *m = (struct promql_matrix){.n_steps = ev->steps.n, .cap = n};
    return promql_eval_alloc(ev, n, sizeof(*m->series), &m->series);
}

struct gs_error *promql_eval_add_series(struct promql_eval *ev, struct promql_matrix *m,
                                        struct tsdb_labels labels, struct promql_series **ret)
{
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 8;
        struct promql_series *grown;
        struct gs_error *err = promql_eval_alloc(ev, cap, sizeof(*grown), &grown);
        if (err)
            return err;
        if (m->n)
            memcpy(grown, m->series, m->n * sizeof(*grown));
        m->series = grown;
        m->cap = cap;
    }
    struct promql_series *s = &m->series[m->n];
    struct gs_error *err = promql_eval_column(ev, &s->v);
    if (err)
        return err;
    s->labels = labels;
    s->drop_name = false;
    m->set = NULL;
    m->n_steps = ev->steps.n;
    m->n++;
    *ret = s;
    return NULL;
}

bool promql_eval_has_value_at(const struct promql_matrix *m, size_t step)
{
    for (size_t s = 0; s < m->n; s++)
        if (!promql_absent(m->series[s].v[step]))
            return true;
    return false;
}

void promql_eval_compact(struct promql_matrix *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->n; i++) {
        bool any = false;
        for (size_t k = 0; k < m->n_steps && !any; k++)
            any = !promql_absent(m->series[i].v[k]);
        if (any)
            m->series[kept++] = m->series[i];
    }
    if (kept != m->n)
        m->set = NULL;
    m->n = kept;
}

// --- symbols and label sets ---

struct gs_error *promql_eval_intern(struct promql_eval *ev, struct gs_slice text, uint32_t *ret)
{
    // The query's own symbols first: the store may have added the string during a pause.
    size_t known = (size_t)(uintptr_t)gs_hmap_get(ev->own_symbols, text);
    if (known) {
        *ret = PROMQL_OWN_SYMBOL | (uint32_t)(known - 1);
        return NULL;
    }
    uint32_t symbol = tsdb_symbol_find(tsdb_symbols(ev->engine->db), text);
    if (symbol != TSDB_NO_SYMBOL) {
        *ret = symbol;
        return NULL;
    }
    const char *copy = gs_arena_strndup(&ev->arena, text.data, text.len);
    if (!copy)
        return gs_error_new(GS_ELIMIT, "query needs more than its limit of %zu bytes of memory",
                            ev->cfg.max_bytes);
    if (text.len > ev->cfg.max_bytes / OWN_TEXTS - ev->own_bytes)
        return gs_error_new(GS_ELIMIT, "query creates more than its limit of %zu bytes of labels",
                            ev->cfg.max_bytes / OWN_TEXTS);
    ev->own_bytes += text.len;
    gs_grow(&ev->own_texts, &ev->own_cap, ev->n_own, sizeof(*ev->own_texts));
    ev->own_texts[ev->n_own++] = gs_slice_make(copy, text.len);
    gs_hmap_put(ev->own_symbols, text, (void *)(uintptr_t)ev->n_own);
    *ret = PROMQL_OWN_SYMBOL | (uint32_t)(ev->n_own - 1);
    if (gs_slice_eq_str(text, "__type__"))
        ev->metadata[0] = *ret;
    if (gs_slice_eq_str(text, "__unit__"))
        ev->metadata[1] = *ret;
    return NULL;
}

struct gs_slice promql_eval_text(const struct promql_eval *ev, uint32_t symbol)
{
    if (symbol & PROMQL_OWN_SYMBOL)
        return ev->own_texts[symbol & ~PROMQL_OWN_SYMBOL];
    return tsdb_symbol_text(tsdb_symbols(ev->engine->db), symbol);
}

struct gs_error *promql_eval_labels(const struct promql_eval *ev, const struct tsdb_pair *pairs,
                                    size_t n, uint32_t metric, struct tsdb_labels *ret)
{
    if (n > TSDB_LABELS_MAX_PAIRS)
        return gs_error_new(GS_ELIMIT, "a label set of the query has more than %d labels",
                            TSDB_LABELS_MAX_PAIRS);
    *ret = (struct tsdb_labels){.pairs = pairs, .metric = metric, .n = (uint16_t)n};
    while (metric != TSDB_SYMBOL_EMPTY && ret->before < n &&
           gs_slice_compare(promql_eval_text(ev, pairs[ret->before].name), GS_SLICE("__name__")) <
               0)
        ret->before++;
    return NULL;
}

struct gs_error *promql_eval_with_label(struct promql_eval *ev, struct tsdb_labels from,
                                        uint32_t name, uint32_t value, struct tsdb_labels *ret)
{
    if (name == TSDB_SYMBOL_NAME)
        return promql_eval_labels(ev, from.pairs, from.n, value, ret);
    struct tsdb_pair *pairs;
    struct gs_error *err = promql_eval_alloc(ev, (size_t)from.n + 1, sizeof(*pairs), &pairs);
    if (err)
        return err;
    struct gs_slice text = promql_eval_text(ev, name);
    size_t n = 0;
    bool put = value == TSDB_SYMBOL_EMPTY;
    for (size_t i = 0; i < from.n; i++) {
        if (from.pairs[i].name == name)
            continue;
        if (!put && gs_slice_compare(promql_eval_text(ev, from.pairs[i].name), text) > 0) {
            pairs[n++] = (struct tsdb_pair){name, value};
            put = true;
        }
        pairs[n++] = from.pairs[i];
    }
    if (!put)
        pairs[n++] = (struct tsdb_pair){name, value};
    return promql_eval_labels(ev, pairs, n, from.metric, ret);
}

static struct gs_error *without_metadata(struct promql_eval *ev, struct tsdb_labels l,
                                         struct tsdb_labels *ret)
{
    struct tsdb_pair *pairs;
    struct gs_error *err = promql_eval_alloc(ev, l.n, sizeof(*pairs), &pairs);
    if (err)
        return err;
    size_t n = 0;
    for (size_t i = 0; i < l.n; i++)
        if (!promql_is_metadata(ev, l.pairs[i].name))
            pairs[n++] = l.pairs[i];
    return promql_eval_labels(ev, pairs, n, TSDB_SYMBOL_EMPTY, ret);
}

struct gs_error *promql_eval_without_name(struct promql_eval *ev, struct tsdb_labels l,
                                          struct tsdb_labels *ret)
{
    if (ev->metadata[0] != TSDB_NO_SYMBOL || ev->metadata[1] != TSDB_NO_SYMBOL)
        return without_metadata(ev, l, ret);
    *ret = tsdb_labels_without_metric(l);
    return NULL;
}

void promql_eval_print_labels(const struct promql_eval *ev, struct tsdb_labels l,
                              struct gs_buf *out)
{
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct tsdb_pair pair = tsdb_labels_at(l, i);
        gs_buf_addf(out, "%s" GS_SLICE_FMT "=\"", i ? ", " : "",
                    GS_SLICE_ARG(promql_eval_text(ev, pair.name)));
        struct gs_slice v = promql_eval_text(ev, pair.value);
        for (size_t k = 0; k < v.len; k++) {
            if (v.data[k] == '"' || v.data[k] == '\\')
                gs_buf_add_char(out, '\\');
            if (v.data[k] == '\n')
                gs_buf_add_str(out, "\\n");
            else
                gs_buf_add_char(out, v.data[k]);
        }
        gs_buf_add_char(out, '"');
    }
    gs_buf_add_char(out, '}');
}

// --- equal label sets ---

static struct gs_error *merge_into(struct promql_series *into, const struct promql_series *s,
                                   size_t n_steps, const char *conflict)
{
    for (size_t i = 0; i < n_steps; i++) {
        if (promql_absent(s->v[i]))
            continue;
        if (!promql_absent(into->v[i]))
            return gs_error_new(GS_ECONFLICT, "%s",
                                conflict ? conflict
                                         : "vector cannot contain metrics with the same labelset");
        into->v[i] = s->v[i];
    }
    return NULL;
}

struct gs_error *promql_eval_merge_equal(struct promql_eval *ev, struct promql_matrix *m,
                                         const char *conflict)
{
    size_t cap = 16;
    while (cap < m->n * 2)
        cap *= 2;
    uint32_t *table; // series + 1
    struct gs_error *err = promql_eval_alloc(ev, cap, sizeof(*table), &table);
    size_t kept = 0;
    for (size_t i = 0; i < m->n && !err; i++) {
        struct tsdb_labels l = m->series[i].labels;
        size_t at = tsdb_labels_hash(l) & (cap - 1);
        while (table[at] && !tsdb_labels_equal(m->series[table[at] - 1].labels, l))
            at = (at + 1) & (cap - 1);
        if (table[at]) {
            err = merge_into(&m->series[table[at] - 1], &m->series[i], m->n_steps, conflict);
            continue;
        }
        m->series[kept] = m->series[i];
        table[at] = (uint32_t)++kept;
    }
    if (kept != m->n)
        m->set = NULL;
    m->n = kept;
    return err;
}

// *ret_done: the label sets without names are cached, and all differ.
static struct gs_error *drop_cached_names(struct promql_eval *ev, struct promql_matrix *m,
                                          bool *ret_done)
{
    const struct promql_key_rule rule = {0}; // ignoring ()
    struct promql_label_table *t = NULL;
    uint32_t *numbers = NULL;
    bool *seen;
    struct gs_error *err = promql_eval_alloc(ev, m->n, sizeof(*numbers), &numbers);
    *ret_done = false;
    if (!err)
        err = promql_eval_numbers(ev, &rule, m, numbers, &t);
    if (err || !t)
        return err;
    promql_label_table_used(ev->view, t, m->n);
    err = promql_eval_alloc(ev, t->n, sizeof(*seen), &seen);
    if (err)
        return err;
    for (size_t i = 0; i < m->n; i++) {
        if (seen[numbers[i]])
            return NULL;
        seen[numbers[i]] = true;
    }
    for (size_t i = 0; i < m->n; i++)
        m->series[i].labels = t->labels[numbers[i]];
    *ret_done = true;
    return promql_eval_set(ev, t, numbers, m);
}

static bool same_metadata(const struct promql_eval *ev, struct tsdb_labels a, struct tsdb_labels b)
{
    const uint32_t names[] = {TSDB_SYMBOL_NAME, ev->metadata[0], ev->metadata[1]};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (names[i] != TSDB_NO_SYMBOL &&
            tsdb_labels_get(a, names[i]) != tsdb_labels_get(b, names[i]))
            return false;
    return true;
}

struct gs_error *promql_eval_drop_names(struct promql_eval *ev, struct promql_matrix *m)
{
    bool done = false;
    if (promql_features() & PROMQL_DELAYED_NAMES) {
        for (size_t i = 0; i < m->n; i++)
            m->series[i].drop_name = true;
        return NULL;
    }
    struct gs_error *err = m->set ? drop_cached_names(ev, m, &done) : NULL;
    if (err || done)
        return err;
    m->set = NULL;
    bool same = true; // sets that differ, but not in the name, differ without it
    struct tsdb_labels first = m->n ? m->series[0].labels : (struct tsdb_labels){0};
    for (size_t i = 0; i < m->n; i++) {
        struct promql_series *s = &m->series[i];
        same = same && same_metadata(ev, s->labels, first);
        err = promql_eval_without_name(ev, s->labels, &s->labels);
        if (err)
            return err;
    }
    return same ? NULL : promql_eval_merge_equal(ev, m, NULL);
}

struct gs_error *promql_eval_drop_delayed(struct promql_eval *ev, struct promql_matrix *m)
{
    bool any = false;
    for (size_t i = 0; i < m->n && (promql_features() & PROMQL_DELAYED_NAMES); i++) {
        struct promql_series *s = &m->series[i];
        if (!s->drop_name)
            continue;
        any = true;
        struct gs_error *err = promql_eval_without_name(ev, s->labels, &s->labels);
        if (err)
            return err;
    }
    if (!any)
        return NULL;
    m->set = NULL;
    return promql_eval_merge_equal(ev, m, NULL);
}

// --- calls ---

static struct gs_error *scalar_args(struct promql_eval *ev, const struct promql_node *call,
                                    double **ret_columns, size_t *ret_n)
{
    size_t n = 0;
    for (size_t i = 0; i < call->u.call.n_args; i++) {
        if (call->u.call.args[i]->type != PROMQL_SCALAR)
            continue;
        struct promql_matrix m = {0};
        struct gs_error *err = promql_eval_node(ev, call->u.call.args[i], &m);
        if (err)
            return err;
        ret_columns[n++] =
            m.series[0].v; // NOLINT(clang-analyzer-core.NullDereference): a scalar has one
    }
    *ret_n = n;
    return NULL;
}

// A copy of the columns, because the argument's may be the store's or another node's.
static struct gs_error *map_columns(struct promql_eval *ev, const struct promql_function *fn,
                                    double *const *columns, size_t n_args, struct promql_matrix *m)
{
    for (size_t s = 0; s < m->n; s++) {
        for (size_t i = 0; i < m->n_steps; i++) {
            double args[PROMQL_MAX_ARGS];
            for (size_t a = 0; a < n_args; a++)
                args[a] = columns[a][i];
            double *v = &m->series[s].v[i];
            if (!promql_absent(*v))
                *v = fn->map(*v, args, n_args);
        }
    }
    return promql_eval_drop_names(ev, m);
}

static struct gs_error *time_vector(struct promql_eval *ev, struct promql_matrix *m)
{
    struct promql_series *s;
    struct gs_error *err = promql_eval_add_series(ev, m, (struct tsdb_labels){0}, &s);
    for (size_t i = 0; !err && i < ev->steps.n; i++) {
        int64_t whole_s = promql_step_time(&ev->steps, i) / 1000;
        s->v[i] = (double)whole_s;
    }
    return err;
}

static struct gs_error *eval_map(struct promql_eval *ev, const struct promql_node *n,
                                 struct promql_matrix *ret)
{
    double *columns[PROMQL_MAX_ARGS];
    size_t n_args;
    struct promql_matrix m = {0};
    struct gs_error *err = scalar_args(ev, n, columns, &n_args);
    if (!err)
        err = n->u.call.n_args ? promql_eval_dispatch(ev, n->u.call.args[0], &m)
                               : time_vector(ev, &m);
    if (!err)
        err = map_columns(ev, n->u.call.fn, columns, n_args, &m);
    *ret = m;
    return err;
}

static struct gs_error *eval_rollup(struct promql_eval *ev, const struct promql_node *n,
                                    struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    struct gs_error *err = promql_eval_rollup(ev, n->u.call.fn, n, &m);
    if (!err && !n->u.call.fn->keep_name)
        err = promql_eval_drop_names(ev, &m);
    *ret = m;
    return err;
}

static struct gs_error *eval_call(struct promql_eval *ev, const struct promql_node *n,
                                  struct promql_matrix *ret)
{
    switch (n->u.call.fn->kind) {
    case PROMQL_FN_ROLLUP:
        return eval_rollup(ev, n, ret);
    case PROMQL_FN_MAP:
    case PROMQL_FN_TIME:
        return eval_map(ev, n, ret);
    case PROMQL_FN_SPECIAL:
        break;
    }
    return n->u.call.fn->special(ev, n, ret);
}

// --- nodes ---

static struct gs_error *eval_number(struct promql_eval *ev, double v, struct promql_matrix *ret)
{
    struct promql_series *s;
    struct gs_error *err = promql_eval_add_series(ev, ret, (struct tsdb_labels){0}, &s);
    for (size_t i = 0; !err && i < ev->steps.n; i++)
        s->v[i] = v;
    return err;
}

static struct gs_error *eval_unary(struct promql_eval *ev, const struct promql_node *n,
                                   struct promql_matrix *ret)
{
    struct gs_error *err = promql_eval_dispatch(ev, n->u.unary.expr, ret);
    if (err || !n->u.unary.negative)
        return err;
    for (size_t s = 0; s < ret->n; s++)
        for (size_t i = 0; i < ret->n_steps; i++)
            if (!promql_absent(ret->series[s].v[i]))
                ret->series[s].v[i] = -ret->series[s].v[i];
    return promql_eval_drop_names(ev, ret);
}

static struct gs_error *eval_varying(struct promql_eval *ev, const struct promql_node *n,
                                     struct promql_matrix *ret)
{
    ret->n_steps = ev->steps.n;
    switch (n->kind) {
    case PROMQL_NUMBER:
        return eval_number(ev, n->u.number, ret);
    case PROMQL_SELECTOR:
        return promql_eval_selector(ev, n, false, ret);
    case PROMQL_PAREN:
        return promql_eval_dispatch(ev, n->u.unary.expr, ret);
    case PROMQL_UNARY:
        return eval_unary(ev, n, ret);
    case PROMQL_BINARY:
        return promql_eval_binary(ev, n, ret);
    case PROMQL_AGGREGATE:
        return promql_eval_aggregate(ev, n, ret);
    case PROMQL_CALL:
        return eval_call(ev, n, ret);
    case PROMQL_STRING_LITERAL:
    case PROMQL_SUBQUERY:
        break;
    }
    return gs_error_new(GS_EINTERNAL, "a %s where a vector or scalar belongs",
                        promql_type_name(n->type));
}

struct gs_error *promql_eval_broadcast(struct promql_eval *ev, struct promql_matrix *m)
{
    for (size_t s = 0; s < m->n; s++) {
        double v = m->series[s].v[0];
        struct gs_error *err = promql_eval_column(ev, &m->series[s].v);
        if (err)
            return err;
        for (size_t i = 0; i < ev->steps.n; i++)
            m->series[s].v[i] = v;
    }
    m->n_steps = ev->steps.n;
    return promql_eval_count(ev, m->n * ev->steps.n);
}

struct gs_error *promql_eval_node(struct promql_eval *ev, const struct promql_node *n,
                                  struct promql_matrix *ret)
{
    struct gs_error *err = promql_eval_dispatch(ev, n, ret);
    ret->set = NULL; // callers may change them
    return err;
}

struct gs_error *promql_eval_dispatch(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_matrix *ret)
{
    bool once = n->step_invariant && ev->steps.n > 1 && n->kind != PROMQL_NUMBER;
    if (!once)
        return eval_varying(ev, n, ret);
    struct promql_steps steps = ev->steps;
    uint64_t used = ev->stats ? ev->stats->used_at[0] : 0;
    ev->steps.n = 1;
    struct gs_error *err = eval_varying(ev, n, ret);
    ev->steps = steps;
    promql_stats_repeat(ev, used);
    return err ? err : promql_eval_broadcast(ev, ret);
}
