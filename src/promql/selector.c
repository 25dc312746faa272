// SPDX-License-Identifier: Apache-2.0
// Selectors: the newest sample of each series at each step. The look-back is left-open: a sample
// exactly at its start is excluded.
#include "promql/eval_private.h"

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
    struct gs_error *err =
        tsdb_find(ev->engine->db, n->u.selector.matchers, n->u.selector.n_matchers, mint, maxt,
                  ev->cfg.max_samples, ret);
    if (!err)
        tsdb_isolation_filter(ev->engine->db, &ev->hold, ret);
    return err;
}

// --- the series of a selector ---

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
                                    struct promql_cached_series **ret)
{
    struct promql_cached_series *k;
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
        uint32_t name = tsdb_labels_get(k->labels[i], TSDB_SYMBOL_NAME);
        k->name = !i || k->name == name ? name : TSDB_NO_SYMBOL;
    }
    *ret = k;
    return NULL;
}

static struct promql_cached_series *keep_series(struct promql_eval *ev, const struct gs_buf *key,
                                                struct promql_cached_series *k)
{
    struct promql_entry *e = promql_entry_new(ev->view);
    if (!e)
        return k;
    struct promql_cached_series *kept = promql_entry_copy(e, k, 1, sizeof(*k));
    tsdb_ref *refs = promql_entry_copy(e, k->refs, k->n, sizeof(*k->refs));
    struct tsdb_labels *labels = promql_entry_copy_labels(e, k->labels, sizeof(*k->labels), k->n);
    uint32_t *of_some = gs_arena_alloc(&e->arena, (k->n + 1) * sizeof(*of_some));
    if (!kept || !refs || !labels || !of_some) {
        promql_entry_free(e);
        return k;
    }
    *kept = (struct promql_cached_series){.refs = refs,
                                          .labels = labels,
                                          .n = k->n,
                                          .name = k->name,
                                          .all = promql_cache_number(ev->engine->cache),
                                          .of_some = of_some,
                                          .entry = e};
    promql_cache_put(ev->view, key, e, kept);
    return kept;
}

struct gs_error *promql_cached_series_select(struct promql_eval *ev, const struct promql_node *n,
                                             struct promql_cached_series **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    selector_key(n, &key);
    *ret = promql_cache_get(ev->view, &key);
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

uint64_t promql_cached_series_number(struct promql_eval *ev, struct promql_cached_series *k,
                                     const uint32_t *members, size_t n)
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

static struct gs_error *latest(struct promql_eval *ev, struct promql_cached_series *k, int64_t t_ms,
                               int64_t oldest, bool times, struct promql_matrix *ret)
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
    tsdb_latest(ev->engine->db, k->refs, k->n, t_ms, oldest, v, t);
    for (size_t i = 0; i < k->n; i++) {
        if (promql_absent(v[i]))
            continue;
        if (times)
            v[i] = (double)t[i] / 1000;
        members[ret->n] = (uint32_t)i;
        ret->series[ret->n++] = (struct promql_series){k->labels[i], &v[i]};
    }
    ret->set = promql_cached_series_number(ev, k, members, ret->n);
    return promql_eval_count(ev, ret->n);
}

// Reads the values of a series at all steps. Returns false if it has none.
static bool fill_steps(struct promql_eval *ev, const struct promql_shift *shift, bool times,
                       double *v)
{
    const struct tsdb_samples *s = &ev->scratch;
    bool any = false;
    for (size_t i = 0, at = 0; i < ev->steps.n; i++) {
        int64_t t = promql_shifted(ev, shift, promql_step_time(&ev->steps, i));
        while (at < s->n && s->t[at] <= t)
            at++;
        if (!at || s->t[at - 1] <= t - ev->cfg.lookback_ms || promql_absent(s->v[at - 1]))
            continue;
        v[i] = times ? (double)s->t[at - 1] / 1000 : s->v[at - 1];
        any = true;
    }
    return any;
}

static struct gs_error *columns(struct promql_eval *ev, const struct promql_node *n,
                                struct promql_cached_series *k, int64_t mint, int64_t maxt,
                                bool times, struct promql_matrix *ret)
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
        ret->set = promql_cached_series_number(ev, k, members, ret->n);
    return err;
}

// As in Prometheus, timestamp() with @ uses the time of @ without the offset, but reads only the
// samples that the offset selects.
static struct gs_error *fixed_times(struct promql_eval *ev, struct promql_cached_series *k,
                                    const struct promql_shift *shift, struct promql_matrix *ret)
{
    struct promql_steps steps = ev->steps;
    int64_t shifted = promql_shifted(ev, shift, 0), at = shifted + shift->offset_ms;
    int64_t oldest = (shifted > at ? shifted : at) - ev->cfg.lookback_ms;
    ev->steps.n = 1;
    struct gs_error *err = latest(ev, k, shifted < at ? shifted : at, oldest, true, ret);
    ev->steps = steps;
    return err || steps.n == 1 ? err : promql_eval_broadcast(ev, ret);
}

struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret)
{
    const struct promql_shift *shift = &n->u.selector.shift;
    int64_t lookback = ev->cfg.lookback_ms;
    int64_t last = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    int64_t first = promql_shifted(ev, shift, ev->steps.start_ms) - lookback + 1;
    struct promql_cached_series *k;
    struct gs_error *err = promql_cached_series_select(ev, n, &k);
    if (err)
        return err;
    if (times && shift->at != PROMQL_AT_NONE)
        return fixed_times(ev, k, shift, ret);
    return ev->steps.n == 1 ? latest(ev, k, last, last - lookback, times, ret)
                            : columns(ev, n, k, first, last, times, ret);
}

struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret)
{
    return promql_eval_selector(ev, selector, true, ret);
}
