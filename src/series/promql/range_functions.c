// SPDX-License-Identifier: Apache-2.0
// Range functions: windows that slide over the samples of a selector or subquery. Windows are
// left-open: a sample exactly at the start is excluded.
#include "promql/selectors.h"

#include "promql/eval_private.h"
#include "promql/function_table.h"
#include "promql/label_cache.h"
#include "promql/sliding_window.h"
#include "promql/statistics.h"
#include "promql/sums.h"

#include <math.h>

#define SLIDE_FROM 4 // minimum number of steps in a window for the sliding version

struct rollup {
    const struct promql_function *fn;
    const struct promql_shift *shift;
    int64_t range_ms;
    int64_t before_ms, after_ms; // read around the range: anchored, smoothed
    double *args[PROMQL_MAX_ARGS];
    size_t n_args;
    uint32_t arg_start, scalar_start;
    struct promql_slider slider;
    double *columns; // for the next series
    size_t n_columns;
};

// Slides the window over the samples. *ret_any: a step has a value.
static struct gs_error *slide(struct promql_eval *ev, struct rollup *r, uint32_t name,
                              struct tsdb_labels labels, const struct tsdb_samples *s, double *v,
                              bool *ret_any)
{
    struct promql_window w = {.notes = &ev->notes,
                              .arg_start = r->arg_start,
                              .ev = ev,
                              .name = name,
                              .labels = labels,
                              .n_args = r->n_args,
                              .scalar_start = r->scalar_start};
    double args[PROMQL_MAX_ARGS];
    size_t from = 0, until = 0;
    bool sliding = r->fn->sliding && ev->steps.n > 1 && !r->before_ms &&
                   r->range_ms / SLIDE_FROM >= ev->steps.step_ms;
    *ret_any = false;
    w.args = args;
    struct gs_error *err = sliding ? promql_slider_begin(&r->slider, ev, s->v, s->n) : NULL;
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        w.eval_ms = promql_step_time(&ev->steps, i);
        w.end_ms = promql_shifted(ev, r->shift, w.eval_ms);
        w.start_ms = w.end_ms - r->range_ms;
        if (s->n && s->t[s->n - 1] <= w.end_ms + r->after_ms)
            until = s->n; // the last step, mostly
        while (until < s->n && s->t[until] <= w.end_ms + r->after_ms)
            until++;
        while (from < until && s->t[from] <= w.start_ms - r->before_ms)
            from++;
        if (from == until)
            continue;
        w.t = s->t + from;
        w.v = s->v + from;
        w.n = until - from;
        for (size_t a = 0; a < r->n_args; a++)
            args[a] = r->args[a][i];
        double value;
        err = promql_eval_work(ev, sliding ? 1 : w.n);
        if (err || !(r->before_ms ? promql_extended_value(r->fn, &w, r->after_ms > 0, &value)
                     : sliding    ? r->fn->sliding(&r->slider, &w, &value)
                                  : r->fn->rollup(&w, &value)))
            continue;
        v[i] = value;
        *ret_any = true;
    }
    return err;
}

struct gs_slice promql_window_metric(const struct promql_window *w)
{
    return promql_eval_text(
        w->ev, w->name != TSDB_NO_SYMBOL ? w->name : tsdb_labels_get(w->labels, TSDB_SYMBOL_NAME));
}

// The marker is a NaN. Mostly there is none, so samples are checked without a branch for each.
static bool has_nan(const double *v, size_t n)
{
    promql_two_bits any[2] = {0};
    bool rest = false;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        promql_two a, b;
        memcpy(&a, v + i, sizeof(a));
        memcpy(&b, v + i + 2, sizeof(b));
        any[0] |= a != a;
        any[1] |= b != b;
    }
    for (; i < n; i++)
        rest |= isnan(v[i]);
    any[0] |= any[1];
    return any[0][0] || any[0][1] || rest;
}

void promql_drop_stale(struct tsdb_samples *s)
{
    size_t kept = 0;
    if (!has_nan(s->v, s->n))
        return;
    while (kept < s->n && !promql_absent(s->v[kept]))
        kept++;
    for (size_t i = kept; i < s->n; i++) {
        if (promql_absent(s->v[i]))
            continue;
        s->t[kept] = s->t[i];
        s->v[kept++] = s->v[i];
    }
    s->n = kept;
}

// The column for the next series, of at most `left` more. It is used if the series has a value.
static struct gs_error *next_column(struct promql_eval *ev, struct rollup *r, size_t left,
                                    double **ret)
{
    struct gs_error *err = NULL;
    if (!r->n_columns) {
        size_t n = ev->steps.n < 512 ? 1024 / ev->steps.n : 1;
        r->n_columns = n < left ? n : left;
        err = promql_eval_columns(ev, r->n_columns, &r->columns);
    }
    *ret = r->columns;
    return err;
}

static void take_column(struct promql_eval *ev, struct rollup *r)
{
    r->columns += ev->steps.n;
    r->n_columns--;
}

static struct gs_error *over_selector(struct promql_eval *ev, struct rollup *r,
                                      const struct promql_node *n, struct promql_matrix *ret)
{
    int64_t first =
        promql_shifted(ev, r->shift, ev->steps.start_ms) - r->range_ms - r->before_ms + 1;
    int64_t last =
        promql_shifted(ev, r->shift, promql_step_time(&ev->steps, ev->steps.n - 1)) + r->after_ms;
    struct tsdb_samples *s = &ev->scratch;
    struct promql_cached_series *k;
    uint32_t *members = NULL;
    struct gs_error *err = promql_cached_series_select(ev, n, first, &k);
    if (!err)
        err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    if (!err)
        promql_stats_series(ev, k->n);
    for (size_t i = 0; i < k->n && !err; i++) {
        double *v;
        bool any;
        tsdb_read_ahead(ev->engine->db, k->refs, i, k->n, first);
        tsdb_read(ev->engine->db, k->refs[i], first, last, s);
        promql_drop_stale(s);
        if (!s->n)
            continue;
        err = next_column(ev, r, k->n - i, &v);
        if (!err)
            err = promql_eval_count(ev, s->n);
        promql_stats_windows(ev, r->shift, r->range_ms + r->before_ms, r->after_ms, s);
        if (!err)
            err = slide(ev, r, k->name, k->labels[i], s, v, &any);
        if (!err && any) {
            members[ret->n] = k->refs[i];
            ret->series[ret->n++] = (struct promql_series){k->labels[i], v, false};
            take_column(ev, r);
        }
    }
    return err ? err : promql_eval_set(ev, NULL, members, ret);
}

// The grid of a subquery: multiples of its step that cover all windows.
static struct promql_steps subquery_steps(const struct promql_eval *ev, const struct promql_node *n)
{
    int64_t step = n->u.subquery.step_ms ? n->u.subquery.step_ms : ev->cfg.default_step_ms;
    const struct promql_shift *shift = &n->u.subquery.shift;
    int64_t low = promql_shifted(ev, shift, ev->steps.start_ms) - n->u.subquery.range_ms;
    int64_t high = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    int64_t start = step * (low / step);
    if (start <= low)
        start += step;
    return (struct promql_steps){start, step,
                                 start > high ? 0 : (size_t)((high - start) / step) + 1};
}

static struct gs_error *inner_of(struct promql_eval *ev, const struct promql_node *n,
                                 struct promql_steps inner, struct promql_matrix *ret)
{
    struct promql_steps outer = ev->steps;
    struct promql_statistics *stats = ev->stats, inner_stats = {0};
    if (!inner.n)
        return NULL;
    struct gs_error *err = promql_eval_count(ev, inner.n);
    if (err)
        return err;
    ev->steps = inner;
    if (stats)
        err = promql_stats_begin(ev, &inner_stats);
    if (!err)
        err = promql_eval_node(ev, n->u.subquery.expr, ret);
    ev->steps = outer;
    ev->stats = stats;
    if (stats && !err)
        promql_stats_add_subquery(ev, &inner_stats, &inner, &n->u.subquery.shift,
                                  n->u.subquery.range_ms);
    return err;
}

struct gs_error *promql_eval_subquery(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_steps *ret_steps, struct promql_matrix *ret)
{
    *ret_steps = subquery_steps(ev, n);
    return inner_of(ev, n, *ret_steps, ret);
}

static struct gs_error *over_subquery(struct promql_eval *ev, struct rollup *r,
                                      const struct promql_node *n, struct promql_matrix *ret)
{
    struct promql_steps inner;
    struct promql_matrix m = {0};
    struct tsdb_samples points = {0};
    struct gs_error *err = promql_eval_subquery(ev, n, &inner, &m);
    if (!err)
        err = promql_eval_matrix(ev, ret, m.n);
    if (!err)
        err = promql_eval_alloc(ev, inner.n, sizeof(*points.t), &points.t);
    if (!err)
        err = promql_eval_alloc(ev, inner.n, sizeof(*points.v), &points.v);
    for (size_t i = 0; i < m.n && !err; i++) {
        double *v;
        bool any;
        points.n = 0;
        for (size_t k = 0; k < inner.n; k++) {
            if (promql_absent(m.series[i].v[k]))
                continue;
            points.t[points.n] = promql_step_time(&inner, k);
            points.v[points.n++] = m.series[i].v[k];
        }
        err = next_column(ev, r, m.n - i, &v);
        if (!err)
            err = promql_eval_count(ev, points.n);
        if (!err)
            err = slide(ev, r, TSDB_NO_SYMBOL, m.series[i].labels, &points, v, &any);
        if (!err && any) {
            ret->series[ret->n++] =
                (struct promql_series){m.series[i].labels, v, m.series[i].drop_name};
            take_column(ev, r);
        }
    }
    return err;
}

static struct gs_error *check_factors(const struct promql_eval *ev,
                                      const struct promql_function *fn, const struct rollup *r)
{
    static const char *const names[] = {"smoothing", "trend"}, *const letters[] = {"sf", "tf"};
    if (fn->rollup != promql_rollup_double_exponential_smoothing)
        return NULL;
    for (size_t a = 0; a < r->n_args; a++)
        for (size_t i = 0; i < ev->steps.n; i++)
            if (r->args[a][i] <= 0 || r->args[a][i] >= 1)
                return gs_error_new(GS_ECONFLICT,
                                    "invalid %s factor. Expected: 0 < %s < 1, got: %f", names[a],
                                    letters[a], r->args[a][i]);
    return NULL;
}

struct gs_error *promql_eval_rollup(struct promql_eval *ev, const struct promql_function *fn,
                                    const struct promql_node *call, struct promql_matrix *ret)
{
    struct rollup r = {.fn = fn};
    const struct promql_node *range = call->u.call.args[0];
    for (size_t i = 0; i < call->u.call.n_args; i++) {
        const struct promql_node *arg = call->u.call.args[i];
        if (arg->type == PROMQL_MATRIX) {
            range = arg;
            continue;
        }
        struct promql_matrix m = {0};
        struct gs_error *err = promql_eval_node(ev, arg, &m);
        if (err)
            return err;
        if (!r.n_args)
            r.scalar_start = arg->start;
        r.args[r.n_args++] = m.series[0].v;
    }
    struct gs_error *wrong = check_factors(ev, fn, &r);
    if (wrong)
        return wrong;
    const struct promql_node *first = call->u.call.args[0];
    bool first_is_range = first == range;
    while (range->kind == PROMQL_PAREN)
        range = range->u.unary.expr;
    bool selector = range->kind == PROMQL_SELECTOR;
    // Prometheus does not keep the position of a subquery.
    r.arg_start = first_is_range && !selector ? 0 : first->start;
    r.shift = selector ? &range->u.selector.shift : &range->u.subquery.shift;
    r.range_ms = selector ? range->u.selector.range_ms : range->u.subquery.range_ms;
    if (!selector)
        return over_subquery(ev, &r, range, ret);
    r.before_ms = promql_extension_before(ev, range);
    r.after_ms = promql_extension_after(ev, range);
    struct gs_error *err = promql_check_extension(fn, range);
    return err ? err : over_selector(ev, &r, range, ret);
}
