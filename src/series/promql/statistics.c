// SPDX-License-Identifier: Apache-2.0
// Which samples a query uses, counted as in Prometheus 3.16 and only on request. Selectors count at
// the steps of the current evaluation; a subquery counts at its own steps first.
#include "promql/statistics.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/selectors.h"

struct gs_error *promql_stats_begin(struct promql_eval *ev, struct promql_statistics *s)
{
    struct gs_error *err = promql_eval_alloc(ev, ev->steps.n, sizeof(*s->used_at), &s->used_at);
    if (!err)
        err = promql_eval_alloc(ev, ev->steps.n, sizeof(*s->read_at), &s->read_at);
    if (!err)
        ev->stats = s;
    return err;
}

static void count_at(struct promql_statistics *s, size_t step, uint64_t used, uint64_t read)
{
    s->used += used;
    s->used_at[step] += used;
    s->read += read;
    s->read_at[step] += read;
}

void promql_stats_series(struct promql_eval *ev, size_t n)
{
    if (ev->stats)
        ev->stats->series += n;
}

void promql_stats_values(struct promql_eval *ev, const double *v, bool fixed)
{
    for (size_t i = 0; ev->stats && i < ev->steps.n; i++)
        if (!promql_absent(v[i]))
            count_at(ev->stats, i, 1, !fixed || i == 0);
}

void promql_stats_samples(struct promql_eval *ev, size_t n)
{
    if (ev->stats)
        count_at(ev->stats, 0, n, n);
}

void promql_stats_windows(struct promql_eval *ev, const struct promql_shift *shift, int64_t back_ms,
                          int64_t ahead_ms, const struct tsdb_samples *s)
{
    size_t from = 0, until = 0;
    for (size_t i = 0; ev->stats && i < ev->steps.n; i++) {
        int64_t t = promql_shifted(ev, shift, promql_step_time(&ev->steps, i));
        size_t known = until; // the samples before it have been read
        while (until < s->n && s->t[until] <= t + ahead_ms)
            until++;
        while (from < until && s->t[from] <= t - back_ms)
            from++;
        count_at(ev->stats, i, until - from, until - (known > from ? known : from));
    }
}

void promql_stats_repeat(struct promql_eval *ev, uint64_t used)
{
    for (size_t i = 1; ev->stats && i < ev->steps.n; i++)
        count_at(ev->stats, i, ev->stats->used_at[0] - used, 0);
}

// --- subqueries ---

// The number of steps until a time.
static size_t steps_until(const struct promql_steps *s, int64_t t_ms)
{
    size_t n = t_ms < s->start_ms ? 0 : (size_t)((t_ms - s->start_ms) / s->step_ms) + 1;
    return n < s->n ? n : s->n;
}

static uint64_t sum_between(const uint64_t *sums, size_t from, size_t until)
{
    return from < until ? sums[until - 1] - (from ? sums[from - 1] : 0) : 0;
}

void promql_stats_add_subquery(struct promql_eval *ev, struct promql_statistics *inner,
                               const struct promql_steps *steps, const struct promql_shift *shift,
                               int64_t range_ms)
{
    size_t read = 0; // the steps before it have been read
    ev->stats->series += inner->series;
    for (size_t i = 1; i < steps->n; i++) {
        inner->used_at[i] += inner->used_at[i - 1];
        inner->read_at[i] += inner->read_at[i - 1];
    }
    for (size_t i = 0; i < ev->steps.n; i++) {
        int64_t end = promql_shifted(ev, shift, promql_step_time(&ev->steps, i));
        size_t from = steps_until(steps, end - range_ms), until = steps_until(steps, end);
        count_at(ev->stats, i, sum_between(inner->used_at, from, until),
                 sum_between(inner->read_at, from > read ? from : read, until));
        read = until;
    }
}
