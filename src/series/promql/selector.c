// SPDX-License-Identifier: Apache-2.0
// Selectors: the newest sample of each series at each step. The look-back is left-open: a sample
// exactly at its start is excluded.
#include "promql/selectors.h"

#include "promql/eval_private.h"
#include "promql/label_cache.h"
#include "promql/statistics.h"

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
        members[ret->n] = k->refs[i];
        ret->series[ret->n++] = (struct promql_series){k->labels[i], &v[i], false};
    }
    err = promql_eval_set(ev, NULL, members, ret);
    return err ? err : promql_eval_count(ev, ret->n);
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
    uint32_t *members = NULL;
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
            promql_stats_values(ev, v, n->u.selector.shift.at != PROMQL_AT_NONE);
            members[ret->n] = k->refs[i];
            ret->series[ret->n++] = (struct promql_series){k->labels[i], v, false};
            v = NULL;
        }
        if (!err)
            err = promql_eval_count(ev, ev->steps.n);
    }
    return err ? err : promql_eval_set(ev, NULL, members, ret);
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
    if (!err && steps.n > 1)
        err = promql_eval_broadcast(ev, ret);
    for (size_t i = 0; i < ret->n && !err; i++)
        promql_stats_values(ev, ret->series[i].v, true);
    return err;
}

struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret)
{
    const struct promql_shift *shift = &n->u.selector.shift;
    int64_t lookback = ev->cfg.lookback_ms;
    int64_t last = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    int64_t begin = promql_shifted(ev, shift, ev->steps.start_ms), first = begin - lookback + 1;
    bool smoothed = n->u.selector.extension == PROMQL_SMOOTHED && !times;
    // A series has no value from its end on, except for `smoothed`, which reads around each step.
    int64_t since = smoothed ? first : begin;
    if (times && shift->at != PROMQL_AT_NONE && shift->offset_ms < 0)
        since = begin + shift->offset_ms; // fixed_times()
    struct promql_cached_series *k;
    struct gs_error *err = promql_cached_series_select(ev, n, since, &k);
    if (err)
        return err;
    promql_stats_series(ev, k->n);
    if (smoothed)
        return promql_eval_smoothed(ev, n, k, ret);
    if (times && shift->at != PROMQL_AT_NONE)
        return fixed_times(ev, k, shift, ret);
    if (ev->steps.n > 1)
        return columns(ev, n, k, first, last, times, ret);
    err = latest(ev, k, last, last - lookback, times, ret);
    if (!err)
        promql_stats_samples(ev, ret->n);
    return err;
}

struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret)
{
    return promql_eval_selector(ev, selector, true, ret);
}
