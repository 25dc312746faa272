// SPDX-License-Identifier: Apache-2.0
// Selectors and what is made of ranges. Windows and the look-back are left-open: a sample exactly
// at their start is out.
#include "promql/cache.h"

int64_t promql_shifted(const struct promql_eval *ev, const struct promql_shift *s, int64_t t_ms)
{
    switch (s->at) {
    case PROMQL_AT_TIME:
        t_ms = s->at_ms;
        break;
    case PROMQL_AT_START:
        t_ms = ev->query_start_ms;
        break;
    case PROMQL_AT_END:
        t_ms = ev->query_end_ms;
        break;
    case PROMQL_AT_NONE:
        break;
    }
    return t_ms - s->offset_ms;
}

struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *n, int64_t mint,
                                  int64_t maxt, struct tsdb_refs *ret)
{
    return tsdb_find(ev->engine->db, n->u.selector.matchers, n->u.selector.n_matchers, mint, maxt,
                     ev->engine->cfg.max_samples, ret);
}

// --- the series of a selector ---

struct known { // all that match, whenever they had samples
    tsdb_ref *refs;
    struct tsdb_labels *labels;
    size_t n;
    uint64_t all;      // the number of this list
    uint64_t some;     // of the last other list of those that had a value; 0: none yet
    uint32_t *of_some; // its members, n_some
    size_t n_some;
    struct promql_entry *entry; // NULL: of this query alone
};

static void selector_key(const struct promql_node *n, struct gs_buf *key)
{
    gs_buf_add_char(key, 'S');
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        size_t head[3] = {(size_t)m->op, m->name.len, m->value.len};
        gs_buf_add(key, head, sizeof(head));
        gs_buf_add_slice(key, m->name);
        gs_buf_add_slice(key, m->value);
    }
}

static struct gs_error *list_series(struct promql_eval *ev, const struct tsdb_refs *refs,
                                    struct known **ret)
{
    struct known *k;
    struct gs_error *err = promql_eval_alloc(ev, 1, sizeof(*k), &k);
    if (!err)
        err = promql_eval_alloc(ev, refs->len, sizeof(*k->refs), &k->refs);
    if (!err)
        err = promql_eval_alloc(ev, refs->len, sizeof(*k->labels), &k->labels);
    if (err)
        return err;
    k->n = refs->len;
    for (size_t i = 0; i < k->n; i++) {
        k->refs[i] = refs->items[i];
        k->labels[i] = tsdb_series_labels(ev->engine->db, refs->items[i]);
    }
    *ret = k;
    return NULL;
}

static struct known *keep_series(struct promql_eval *ev, const struct gs_buf *key, struct known *k)
{
    struct promql_entry *e = promql_entry_new(ev->engine->cache);
    if (!e)
        return k;
    struct known *kept = promql_entry_copy(e, k, 1, sizeof(*k));
    tsdb_ref *refs = promql_entry_copy(e, k->refs, k->n, sizeof(*k->refs));
    struct tsdb_labels *labels = promql_entry_copy_labels(e, k->labels, sizeof(*k->labels), k->n);
    uint32_t *of_some = gs_arena_alloc(&e->arena, (k->n + 1) * sizeof(*of_some));
    if (!kept || !refs || !labels || !of_some) {
        promql_entry_free(e);
        return k;
    }
    *kept = (struct known){.refs = refs,
                           .labels = labels,
                           .n = k->n,
                           .all = promql_cache_number(ev->engine->cache),
                           .of_some = of_some,
                           .entry = e};
    promql_cache_put(ev->engine->cache, key, e, kept);
    return kept;
}

static struct gs_error *series_of(struct promql_eval *ev, const struct promql_node *n,
                                  struct known **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    selector_key(n, &key);
    *ret = promql_cache_get(ev->engine->cache, &key);
    if (*ret)
        return NULL;
    struct tsdb_refs refs = {0};
    struct gs_error *err = promql_eval_find(ev, n, INT64_MIN, INT64_MAX, &refs);
    if (!err)
        err = list_series(ev, &refs, ret);
    tsdb_refs_finish(&refs);
    if (!err)
        *ret = keep_series(ev, &key, *ret);
    return err;
}

// The number of the list of those members that have a value; 0 when nothing is kept.
static uint64_t number_of(struct promql_eval *ev, struct known *k, const uint32_t *members,
                          size_t n)
{
    if (!k->entry || n == k->n)
        return k->all;
    if (!k->some || k->n_some != n || memcmp(k->of_some, members, n * sizeof(*members)) != 0) {
        k->some = promql_cache_number(ev->engine->cache);
        k->n_some = n;
        if (n)
            memcpy(k->of_some, members, n * sizeof(*members));
    }
    return k->some;
}

// --- instant selectors ---

static struct gs_error *latest(struct promql_eval *ev, struct known *k, int64_t t_ms, bool times,
                               struct promql_matrix *ret)
{
    double *v;
    uint32_t *members;
    int64_t *t = NULL;
    struct gs_error *err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*v), &v);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    if (!err && times)
        err = promql_eval_alloc(ev, k->n, sizeof(*t), &t);
    if (err)
        return err;
    tsdb_latest(ev->engine->db, k->refs, k->n, t_ms, t_ms - ev->engine->cfg.lookback_ms, v, t);
    for (size_t i = 0; i < k->n; i++) {
        if (promql_absent(v[i]))
            continue;
        if (times)
            v[i] = (double)t[i] / 1000;
        members[ret->n] = (uint32_t)i;
        ret->series[ret->n++] = (struct promql_series){k->labels[i], &v[i]};
    }
    ret->set = number_of(ev, k, members, ret->n);
    return promql_eval_count(ev, ret->n);
}

// One series' values at all steps; false: it has none.
static bool fill_steps(struct promql_eval *ev, const struct promql_shift *shift, bool times,
                       double *v)
{
    const struct tsdb_samples *s = &ev->scratch;
    bool any = false;
    for (size_t i = 0, at = 0; i < ev->steps.n; i++) {
        int64_t t = promql_shifted(ev, shift, promql_step_time(&ev->steps, i));
        while (at < s->n && s->t[at] <= t)
            at++;
        if (!at || s->t[at - 1] <= t - ev->engine->cfg.lookback_ms || promql_absent(s->v[at - 1]))
            continue;
        v[i] = times ? (double)s->t[at - 1] / 1000 : s->v[at - 1];
        any = true;
    }
    return any;
}

static struct gs_error *columns(struct promql_eval *ev, const struct promql_node *n,
                                struct known *k, int64_t mint, int64_t maxt, bool times,
                                struct promql_matrix *ret)
{
    uint32_t *members;
    struct gs_error *err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    double *v = NULL;
    for (size_t i = 0; i < k->n && !err; i++) {
        tsdb_read(ev->engine->db, k->refs[i], mint, maxt, &ev->scratch);
        if (!ev->scratch.n)
            continue;
        if (!v)
            err = promql_eval_column(ev, &v);
        if (!err && fill_steps(ev, &n->u.selector.shift, times, v)) {
            members[ret->n] = (uint32_t)i;
            ret->series[ret->n++] = (struct promql_series){k->labels[i], v};
            v = NULL;
        }
        if (!err)
            err = promql_eval_count(ev, ev->steps.n);
    }
    if (!err)
        ret->set = number_of(ev, k, members, ret->n);
    return err;
}

struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret)
{
    const struct promql_shift *shift = &n->u.selector.shift;
    int64_t last = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    int64_t first = promql_shifted(ev, shift, ev->steps.start_ms) - ev->engine->cfg.lookback_ms + 1;
    struct known *k;
    struct gs_error *err = series_of(ev, n, &k);
    if (err)
        return err;
    return ev->steps.n == 1 ? latest(ev, k, last, times, ret)
                            : columns(ev, n, k, first, last, times, ret);
}

struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret)
{
    return promql_eval_selector(ev, selector, true, ret);
}

// --- ranges ---

struct rollup {
    const struct promql_function *fn;
    const struct promql_shift *shift;
    int64_t range_ms;
    double *args[PROMQL_MAX_ARGS];
    size_t n_args;
    uint32_t arg_start;
};

// Slides the window over the samples. False: no step has a value.
static bool slide(struct promql_eval *ev, const struct rollup *r, struct gs_slice metric,
                  const int64_t *t, const double *samples, size_t n, double *v)
{
    struct promql_window w = {.notes = &ev->notes, .metric = metric, .arg_start = r->arg_start};
    double args[PROMQL_MAX_ARGS];
    size_t from = 0, until = 0;
    bool any = false;
    w.args = args;
    for (size_t i = 0; i < ev->steps.n; i++) {
        w.eval_ms = promql_step_time(&ev->steps, i);
        w.end_ms = promql_shifted(ev, r->shift, w.eval_ms);
        w.start_ms = w.end_ms - r->range_ms;
        while (until < n && t[until] <= w.end_ms)
            until++;
        while (from < until && t[from] <= w.start_ms)
            from++;
        if (from == until)
            continue;
        w.t = t + from;
        w.v = samples + from;
        w.n = until - from;
        for (size_t a = 0; a < r->n_args; a++)
            args[a] = r->args[a][i];
        double value;
        if (!r->fn->rollup(&w, &value))
            continue;
        v[i] = value;
        any = true;
    }
    return any;
}

static struct gs_slice name_of(const struct promql_eval *ev, struct tsdb_labels l)
{
    return promql_eval_text(ev, tsdb_labels_get(l, TSDB_SYMBOL_NAME));
}

static void drop_stale(struct tsdb_samples *s)
{
    size_t kept = 0;
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

static struct gs_error *over_selector(struct promql_eval *ev, const struct rollup *r,
                                      const struct promql_node *n, struct promql_matrix *ret)
{
    int64_t first = promql_shifted(ev, r->shift, ev->steps.start_ms) - r->range_ms + 1;
    int64_t last = promql_shifted(ev, r->shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    struct known *k;
    uint32_t *members;
    struct gs_error *err = series_of(ev, n, &k);
    if (!err)
        err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    double *v = NULL;
    for (size_t i = 0; i < k->n && !err; i++) {
        struct tsdb_labels l = k->labels[i];
        tsdb_read(ev->engine->db, k->refs[i], first, last, &ev->scratch);
        drop_stale(&ev->scratch);
        if (!ev->scratch.n)
            continue;
        if (!v)
            err = promql_eval_column(ev, &v);
        if (!err)
            err = promql_eval_count(ev, ev->scratch.n);
        if (!err && slide(ev, r, name_of(ev, l), ev->scratch.t, ev->scratch.v, ev->scratch.n, v)) {
            members[ret->n] = (uint32_t)i;
            ret->series[ret->n++] = (struct promql_series){l, v};
            v = NULL;
        }
    }
    if (!err)
        ret->set = number_of(ev, k, members, ret->n);
    return err;
}

// The grid of a subquery: multiples of its step, over all that its windows need.
static struct promql_steps subquery_steps(const struct promql_eval *ev, const struct promql_node *n)
{
    int64_t step = n->u.subquery.step_ms ? n->u.subquery.step_ms : ev->engine->cfg.default_step_ms;
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
    if (!inner.n)
        return NULL;
    struct gs_error *err = promql_eval_count(ev, inner.n);
    if (err)
        return err;
    ev->steps = inner;
    err = promql_eval_node(ev, n->u.subquery.expr, ret);
    ev->steps = outer;
    return err;
}

struct gs_error *promql_eval_subquery(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_steps *ret_steps, struct promql_matrix *ret)
{
    *ret_steps = subquery_steps(ev, n);
    return inner_of(ev, n, *ret_steps, ret);
}

static struct gs_error *over_subquery(struct promql_eval *ev, const struct rollup *r,
                                      const struct promql_node *n, struct promql_matrix *ret)
{
    struct promql_steps inner;
    struct promql_matrix m = {0};
    int64_t *t;
    double *samples, *v = NULL;
    struct gs_error *err = promql_eval_subquery(ev, n, &inner, &m);
    if (!err)
        err = promql_eval_matrix(ev, ret, m.n);
    if (!err)
        err = promql_eval_alloc(ev, inner.n, sizeof(*t), &t);
    if (!err)
        err = promql_eval_alloc(ev, inner.n, sizeof(*samples), &samples);
    for (size_t i = 0; i < m.n && !err; i++) {
        size_t points = 0;
        for (size_t k = 0; k < inner.n; k++) {
            if (promql_absent(m.series[i].v[k]))
                continue;
            t[points] = promql_step_time(&inner, k);
            samples[points++] = m.series[i].v[k];
        }
        if (!v)
            err = promql_eval_column(ev, &v);
        if (!err)
            err = promql_eval_count(ev, points);
        if (!err && slide(ev, r, name_of(ev, m.series[i].labels), t, samples, points, v)) {
            ret->series[ret->n++] = (struct promql_series){m.series[i].labels, v};
            v = NULL;
        }
    }
    return err;
}

struct gs_error *promql_eval_rollup(struct promql_eval *ev, const struct promql_function *fn,
                                    const struct promql_node *call, struct promql_matrix *ret)
{
    struct rollup r = {.fn = fn};
    const struct promql_node *range = NULL;
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
        r.args[r.n_args++] = m.series[0].v;
    }
    r.arg_start = range->start;
    while (range->kind == PROMQL_PAREN)
        range = range->u.unary.expr;
    bool selector = range->kind == PROMQL_SELECTOR;
    r.shift = selector ? &range->u.selector.shift : &range->u.subquery.shift;
    r.range_ms = selector ? range->u.selector.range_ms : range->u.subquery.range_ms;
    return selector ? over_selector(ev, &r, range, ret) : over_subquery(ev, &r, range, ret);
}
