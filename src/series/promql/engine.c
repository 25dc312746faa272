// SPDX-License-Identifier: Apache-2.0
// The public query functions: limits, evaluation and result.
#include "promql/eval_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "promql/label_cache.h"
#include "promql/selectors.h"
#include "promql/statistics.h"

#define DEFAULT_LOOKBACK_MS INT64_C(300000)
#define DEFAULT_STEP_MS     INT64_C(60000)
#define DEFAULT_MAX_SAMPLES ((size_t)50000000)
#define DEFAULT_MAX_BYTES   ((size_t)512 << 20)
#define DEFAULT_TIMEOUT_MS  INT64_C(120000)
#define DEFAULT_MAX_POINTS  ((size_t)11000)
#define MAX_SPARE           ((size_t)64 << 20)

struct promql_engine *promql_engine_new(struct tsdb *db, const struct promql_config *cfg)
{
    struct promql_engine *e = gs_alloc(sizeof(*e));
    e->db = db;
    e->cache = promql_cache_new(cfg ? cfg->cache_bytes : 0);
    if (cfg)
        e->cfg = *cfg;
    struct promql_config *c = &e->cfg;
    c->lookback_ms = c->lookback_ms ? c->lookback_ms : DEFAULT_LOOKBACK_MS;
    c->default_step_ms = c->default_step_ms ? c->default_step_ms : DEFAULT_STEP_MS;
    c->max_samples = c->max_samples ? c->max_samples : DEFAULT_MAX_SAMPLES;
    c->max_bytes = c->max_bytes ? c->max_bytes : DEFAULT_MAX_BYTES;
    c->timeout_ms = c->timeout_ms ? c->timeout_ms : DEFAULT_TIMEOUT_MS;
    c->max_points = c->max_points ? c->max_points : DEFAULT_MAX_POINTS;
    e->usual_timeout_ms = c->timeout_ms;
    e->usual_lookback_ms = c->lookback_ms;
    return e;
}

void promql_engine_set_default_step(struct promql_engine *e, int64_t ms)
{
    e->cfg.default_step_ms = ms > 0 ? ms : DEFAULT_STEP_MS;
}

void promql_engine_set_limits(struct promql_engine *e, int64_t timeout_ms, int64_t lookback_ms)
{
    e->cfg.timeout_ms = timeout_ms > 0 ? timeout_ms : e->usual_timeout_ms;
    e->cfg.lookback_ms = lookback_ms > 0 ? lookback_ms : e->usual_lookback_ms;
}

void promql_engine_set_statistics(struct promql_engine *e, bool wanted)
{
    e->statistics = wanted;
}

void promql_engine_set_pause(struct promql_engine *e, bool (*pause)(void *arg), void *arg)
{
    e->pause = pause;
    e->pause_arg = arg;
}

struct promql_pause promql_engine_swap_pause(struct promql_engine *e, struct promql_pause p)
{
    struct promql_pause before = {e->pause, e->pause_arg};
    promql_engine_set_pause(e, p.fn, p.arg);
    return before;
}

void promql_engine_set_substitute(struct promql_engine *e,
                                  struct promql_expr *(*fn)(void *arg, const struct promql_expr *x),
                                  void *arg)
{
    e->substitute = fn;
    e->substitute_arg = arg;
}

void promql_engine_free(struct promql_engine *e)
{
    if (!e)
        return;
    gs_arena_finish(&e->spare);
    promql_cache_free(e->cache);
    free(e);
}

// --- memory of queries ---

static struct gs_arena take_arena(struct promql_engine *e)
{
    struct gs_arena a = e->spare;
    e->spare = (struct gs_arena){0};
    e->has_spare = false;
    a.limit = e->cfg.max_bytes;
    return a;
}

static void give_arena_back(struct promql_engine *e, struct gs_arena *a)
{
    if (e->has_spare || a->used > MAX_SPARE) {
        gs_arena_finish(a);
        return;
    }
    gs_arena_recycle(a);
    e->spare = *a;
    e->has_spare = true;
}

void promql_engine_trim(struct promql_engine *e)
{
    gs_arena_finish(&e->spare);
    e->has_spare = false;
}

static struct promql_eval *eval_new(struct promql_engine *e, const struct promql_expr *x,
                                    struct promql_steps steps, int64_t end_ms,
                                    const struct promql_config *cfg)
{
    struct promql_eval *ev = gs_alloc(sizeof(*ev));
    ev->engine = e;
    ev->cfg = *cfg;
    tsdb_isolation_begin(e->db, &ev->hold);
    ev->view = promql_cache_hold(e->cache, e->db);
    ev->arena = take_arena(e);
    ev->steps = steps;
    ev->query_start_ms = steps.start_ms;
    ev->query_end_ms = end_ms;
    ev->substitute = e->substitute ? e->substitute(e->substitute_arg, x) : NULL;
    ev->notes.text = promql_expr_text(ev->substitute ? ev->substitute : x);
    ev->own_symbols = gs_hmap_new(NULL);
    ev->metadata[0] = tsdb_symbol_find(tsdb_symbols(e->db), GS_SLICE("__type__"));
    ev->metadata[1] = tsdb_symbol_find(tsdb_symbols(e->db), GS_SLICE("__unit__"));
    int64_t now_ns = gs_mono_ns();
    ev->deadline_ns = now_ns + cfg->timeout_ms * GS_NS_PER_MS;
    ev->turn_ns = e->pause ? now_ns + gs_turn_ns() : INT64_MAX;
    return ev;
}

static void eval_free(struct promql_eval *ev)
{
    if (!ev)
        return;
    gs_hmap_free(ev->own_symbols);
    free(ev->own_texts);
    promql_annotations_finish(&ev->notes);
    tsdb_samples_finish(&ev->scratch);
    promql_cache_release(ev->view);
    tsdb_isolation_end(ev->engine->db, &ev->hold);
    give_arena_back(ev->engine, &ev->arena);
    promql_expr_free(ev->substitute);
    free(ev);
}

static const struct promql_node *unwrap_parens(const struct promql_node *n)
{
    while (n->kind == PROMQL_PAREN)
        n = n->u.unary.expr;
    return n;
}

// --- raw samples: an instant query of a range ---

// With the values at the borders of the range.
static struct gs_error *extend_samples(struct promql_eval *ev, struct promql_window w,
                                       bool smoothed, struct promql_raw *ret)
{
    int64_t *t;
    double *v;
    promql_drop_stale(&ev->scratch);
    w.t = ev->scratch.t;
    w.v = ev->scratch.v;
    w.n = ev->scratch.n;
    struct gs_error *err = promql_eval_alloc(ev, w.n + 2, sizeof(*t), &t);
    if (!err)
        err = promql_eval_alloc(ev, w.n + 2, sizeof(*v), &v);
    if (err)
        return err;
    *ret = (struct promql_raw){.t = t, .v = v, .n = promql_extend_samples(&w, smoothed, t, v)};
    return promql_eval_count(ev, ret->n);
}

static struct gs_error *copy_samples(struct promql_eval *ev, struct promql_raw *ret)
{
    const struct tsdb_samples *s = &ev->scratch;
    int64_t *t;
    double *v;
    struct gs_error *err = promql_eval_alloc(ev, s->n, sizeof(*t), &t);
    if (!err)
        err = promql_eval_alloc(ev, s->n, sizeof(*v), &v);
    if (err)
        return err;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (promql_absent(s->v[i]))
            continue;
        t[n] = s->t[i];
        v[n++] = s->v[i];
    }
    *ret = (struct promql_raw){.t = t, .v = v, .n = n};
    return promql_eval_count(ev, n);
}

static struct gs_error *raw_selector(struct promql_eval *ev, const struct promql_node *n,
                                     struct promql_result *ret)
{
    int64_t before_ms = promql_extension_before(ev, n);
    struct promql_window w = {.end_ms =
                                  promql_shifted(ev, &n->u.selector.shift, ev->steps.start_ms)};
    w.start_ms = w.end_ms - n->u.selector.range_ms;
    int64_t start = w.start_ms - before_ms + 1, end = w.end_ms + promql_extension_after(ev, n);
    struct tsdb_refs refs = {0};
    struct gs_error *err = promql_eval_find(ev, n, start, end, &refs);
    if (!err)
        err = promql_eval_alloc(ev, refs.len, sizeof(*ret->raw), &ret->raw);
    promql_stats_series(ev, refs.len);
    for (size_t i = 0; i < refs.len && !err; i++) {
        tsdb_read(ev->engine->db, refs.items[i], start, end, &ev->scratch);
        struct promql_raw *r = &ret->raw[ret->n_raw];
        if (before_ms)
            err = extend_samples(ev, w, n->u.selector.extension == PROMQL_SMOOTHED, r);
        else
            err = copy_samples(ev, r);
        if (!err)
            promql_stats_samples(ev, r->n);
        r->labels = tsdb_series_labels(ev->engine->db, refs.items[i]);
        ret->n_raw += !err && r->n > 0;
    }
    tsdb_refs_finish(&refs);
    return err;
}

static struct gs_error *raw_subquery(struct promql_eval *ev, const struct promql_node *n,
                                     struct promql_result *ret)
{
    struct promql_matrix m = {0};
    struct promql_steps inner;
    struct gs_error *err = promql_eval_subquery(ev, n, &inner, &m);
    if (!err)
        err = promql_eval_drop_delayed(ev, &m);
    if (!err)
        err = promql_eval_alloc(ev, m.n, sizeof(*ret->raw), &ret->raw);
    for (size_t i = 0; i < m.n && !err; i++) {
        int64_t *t;
        double *v;
        size_t points = 0;
        err = promql_eval_alloc(ev, inner.n, sizeof(*t), &t);
        if (!err)
            err = promql_eval_alloc(ev, inner.n, sizeof(*v), &v);
        for (size_t k = 0; k < inner.n && !err; k++) {
            if (promql_absent(m.series[i].v[k]))
                continue;
            t[points] = promql_step_time(&inner, k);
            v[points++] = m.series[i].v[k];
        }
        if (points)
            ret->raw[ret->n_raw++] = (struct promql_raw){m.series[i].labels, t, v, points};
    }
    return err;
}

// --- results ---

static void take_notes(struct promql_eval *ev, struct promql_result *r)
{
    r->warnings = (const char *const *)ev->notes.warnings;
    r->infos = (const char *const *)ev->notes.infos;
    r->n_warnings = ev->notes.n_warnings;
    r->n_infos = ev->notes.n_infos;
    r->samples = ev->samples;
    r->statistics = ev->stats;
}

static struct gs_error *evaluate_query(struct promql_eval *ev, const struct promql_node *root,
                                       bool range, struct promql_result *r)
{
    struct gs_error *err = promql_eval_durations(ev, &root);
    if (err)
        return err;
    const struct promql_node *n = unwrap_parens(root);
    switch (root->type) {
    case PROMQL_STRING:
        r->type = PROMQL_RESULT_STRING;
        r->string = n->u.string;
        return NULL;
    case PROMQL_MATRIX:
        r->type = PROMQL_RESULT_MATRIX;
        r->is_raw = true;
        return n->kind == PROMQL_SUBQUERY ? raw_subquery(ev, n, r) : raw_selector(ev, n, r);
    case PROMQL_SCALAR:
        r->type = range ? PROMQL_RESULT_MATRIX : PROMQL_RESULT_SCALAR;
        break;
    default:
        r->type = range ? PROMQL_RESULT_MATRIX : PROMQL_RESULT_VECTOR;
        break;
    }
    err = promql_eval_node(ev, root, &r->matrix);
    r->matrix.n_steps = ev->steps.n;
    if (!err)
        err = promql_eval_drop_delayed(ev, &r->matrix);
    if (!err)
        promql_eval_compact(&r->matrix);
    return err;
}

static struct gs_error *run_query(struct promql_engine *e, const struct promql_expr *x,
                                  struct promql_steps steps, int64_t end_ms, bool range,
                                  struct promql_result *ret)
{
    const struct promql_config cfg = e->cfg;
    bool statistics = e->statistics;
    promql_engine_set_limits(e, 0, 0); // other queries can start during a pause
    promql_engine_set_statistics(e, false);
    struct promql_eval *ev = eval_new(e, x, steps, end_ms, &cfg);
    ev->query_step_ms = range ? steps.step_ms : 0;
    struct promql_result r = {.engine = e,
                              .own = ev,
                              .start_ms = steps.start_ms,
                              .step_ms = steps.step_ms,
                              .n_steps = steps.n};
    struct promql_statistics *stats = NULL;
    struct gs_error *err = statistics ? promql_eval_alloc(ev, 1, sizeof(*stats), &stats) : NULL;
    if (stats)
        err = promql_stats_begin(ev, stats);
    if (!err)
        err = evaluate_query(ev, promql_expr_root(ev->substitute ? ev->substitute : x), range, &r);
    if (err) {
        eval_free(ev);
        return err;
    }
    take_notes(ev, &r);
    *ret = r;
    return NULL;
}

struct gs_error *promql_instant(struct promql_engine *e, const struct promql_expr *x, int64_t t_ms,
                                struct promql_result *ret)
{
    return run_query(e, x, (struct promql_steps){t_ms, 1, 1}, t_ms, false, ret);
}

struct gs_error *promql_range(struct promql_engine *e, const struct promql_expr *x,
                              int64_t start_ms, int64_t end_ms, int64_t step_ms,
                              struct promql_result *ret)
{
    enum promql_type type = promql_expr_root(x)->type;
    if (type != PROMQL_VECTOR && type != PROMQL_SCALAR)
        return gs_error_new(GS_EINVAL,
                            "invalid expression type \"%s\" for range query, must be Scalar or "
                            "instant Vector",
                            promql_type_name(type));
    if (step_ms <= 0)
        return gs_error_new(GS_EINVAL, "zero or negative query resolution step widths are not "
                                       "accepted. Try a positive integer");
    int64_t span;
    if (end_ms < start_ms || __builtin_sub_overflow(end_ms, start_ms, &span))
        return gs_error_new(GS_EINVAL, "end timestamp must not be before start time");
    if ((uint64_t)(span / step_ms) > e->cfg.max_points)
        return gs_error_new(GS_EINVAL,
                            "exceeded maximum resolution of 11,000 points per timeseries. Try "
                            "decreasing the query resolution (?step=XX)");
    return run_query(e, x, (struct promql_steps){start_ms, step_ms, (size_t)(span / step_ms) + 1},
                     end_ms, true, ret);
}

void promql_result_finish(struct promql_result *r)
{
    eval_free(r->own);
    *r = (struct promql_result){0};
}

struct gs_slice promql_text(const struct promql_result *r, uint32_t symbol)
{
    return promql_eval_text(r->own, symbol);
}

struct metrics_label promql_label_at(const struct promql_result *r, struct tsdb_labels l, size_t i)
{
    struct tsdb_pair pair = tsdb_labels_at(l, i);
    return (struct metrics_label){promql_text(r, pair.name), promql_text(r, pair.value)};
}
