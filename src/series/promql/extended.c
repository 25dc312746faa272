// SPDX-License-Identifier: Apache-2.0
// The modifiers `anchored` and `smoothed`: values at the borders of a range. They are taken from
// the last sample before a border, or interpolated between the samples around it.
// https://prometheus.io/docs/prometheus/latest/querying/basics/#extended-range-selectors
#include "promql/selectors.h"

#include "promql/eval_private.h"
#include "promql/function_table.h"
#include "promql/statistics.h"

#include <stdlib.h>

int64_t promql_extension_before(const struct promql_eval *ev, const struct promql_node *selector)
{
    return selector->u.selector.extension == PROMQL_PLAIN ? 0 : ev->cfg.lookback_ms;
}

int64_t promql_extension_after(const struct promql_eval *ev, const struct promql_node *selector)
{
    return selector->u.selector.extension == PROMQL_SMOOTHED ? ev->cfg.lookback_ms : 0;
}

struct gs_error *promql_check_extension(const struct promql_function *fn,
                                        const struct promql_node *selector)
{
    static const char *const functions[] = {"delta", "increase", "rate", "changes", "resets"};
    switch (selector->u.selector.extension) {
    case PROMQL_ANCHORED:
        if (gs_is_one_of(fn->name, functions, 5))
            return NULL;
        return gs_error_new(GS_ECONFLICT,
                            "anchored modifier can only be used with: changes, delta, increase, "
                            "rate, resets - not with %s",
                            fn->name);
    case PROMQL_SMOOTHED:
        if (gs_is_one_of(fn->name, functions, 3))
            return NULL;
        return gs_error_new(GS_ECONFLICT,
                            "smoothed modifier can only be used with: delta, increase, rate - not "
                            "with %s",
                            fn->name);
    default:
        return NULL;
    }
}

struct border { // samples at or around the borders, by index
    size_t first, last;
};

// The first of n samples after a time, or at it; n: none.
static size_t first_after(const struct promql_window *w, size_t n, int64_t t_ms, bool at)
{
    size_t i = 0;
    while (i < n && (at ? w->t[i] < t_ms : w->t[i] <= t_ms))
        i++;
    return i;
}

// Returns false if no sample is in the range.
static bool find_borders(const struct promql_window *w, bool smoothed, struct border *ret)
{
    if (!w->n)
        return false;
    size_t last = w->n - 1, first = first_after(w, last, w->start_ms, false);
    ret->first = first ? first - 1 : 0;
    ret->last = smoothed ? first_after(w, last, w->end_ms, true) : last;
    return w->t[ret->last] > w->start_ms;
}

static double interpolate(const struct promql_window *w, size_t i, int64_t t_ms, bool counter)
{
    double low = w->v[i], high = w->v[i + 1];
    if (counter && high < low)
        low = 0;
    return low + (high - low) * (double)(t_ms - w->t[i]) / (double)(w->t[i + 1] - w->t[i]);
}

static double left_of(const struct promql_window *w, size_t first, bool smoothed, bool counter)
{
    if (w->t[first] >= w->start_ms || !smoothed)
        return w->v[first];
    return interpolate(w, first, w->start_ms, counter);
}

static double right_of(const struct promql_window *w, size_t last, bool smoothed, bool counter)
{
    if (w->t[last] <= w->end_ms || !last)
        return w->v[last];
    return smoothed ? interpolate(w, last - 1, w->end_ms, counter) : w->v[last - 1];
}

// The samples strictly between the borders: from b.first to before *ret_end.
static size_t inner_samples(const struct promql_window *w, struct border b, size_t *ret_end)
{
    size_t first = b.first, end = b.last + 1;
    if (w->t[first] <= w->start_ms)
        first++;
    if (w->t[b.last] >= w->end_ms)
        end--;
    *ret_end = end > first ? end : first;
    return first;
}

static double resets_between(const struct promql_window *w, struct border b, double left,
                             double right)
{
    size_t end, i = inner_samples(w, b, &end);
    double correction = 0, before = left;
    for (; i < end; i++) {
        correction += w->v[i] < before ? before : 0;
        before = w->v[i];
    }
    return correction + (right < before ? before : 0);
}

// rate, increase, delta
static bool difference(const struct promql_window *w, bool smoothed, bool counter, double *ret)
{
    struct border b;
    if (!find_borders(w, smoothed, &b) || (smoothed && w->t[b.first] > w->end_ms))
        return false;
    double left = left_of(w, b.first, smoothed, counter);
    double right = right_of(w, b.last, smoothed, counter);
    *ret = right - left + (counter ? resets_between(w, b, left, right) : 0);
    return true;
}

bool promql_extended_value(const struct promql_function *fn, const struct promql_window *w,
                           bool smoothed, double *ret)
{
    if (fn->rollup == promql_rollup_delta)
        return difference(w, smoothed, false, ret);
    bool rate = fn->rollup == promql_rollup_rate;
    if (rate || fn->rollup == promql_rollup_increase) {
        if (!difference(w, smoothed, true, ret))
            return false;
        if (rate)
            *ret /= (double)(w->end_ms - w->start_ms) / 1000;
        promql_note_counter(w);
        return true;
    }
    // changes, resets: from the last sample before the range on
    size_t after = first_after(w, w->n, w->start_ms, false);
    if (after == w->n)
        return false;
    struct promql_window from = *w;
    size_t skip = after ? after - 1 : 0;
    from.t += skip;
    from.v += skip;
    from.n -= skip;
    return fn->rollup(&from, ret);
}

size_t promql_extend_samples(const struct promql_window *w, bool smoothed, int64_t *t, double *v)
{
    struct border b;
    if (!find_borders(w, smoothed, &b))
        return 0;
    size_t n = 1, end;
    t[0] = w->start_ms;
    v[0] = left_of(w, b.first, smoothed, false);
    for (size_t i = inner_samples(w, b, &end); i < end; i++, n++) {
        t[n] = w->t[i];
        v[n] = w->v[i];
    }
    t[n] = w->end_ms;
    v[n] = right_of(w, b.last, smoothed, false);
    return n + 1;
}

// --- smoothed instants ---

// Samples without staleness markers. Returns false if no step has a value.
static bool smooth_steps(const struct promql_eval *ev, const struct promql_node *n, double *v)
{
    const struct tsdb_samples *s = &ev->scratch;
    bool any = false;
    for (size_t i = 0, at = 0; i < ev->steps.n; i++) {
        int64_t t = promql_shifted(ev, &n->u.selector.shift, promql_step_time(&ev->steps, i));
        while (at < s->n && s->t[at] < t) // `at`: the first sample at or after t
            at++;
        bool before = at && s->t[at - 1] > t - ev->cfg.lookback_ms;
        bool after = at < s->n && s->t[at] <= t + ev->cfg.lookback_ms;
        const struct promql_window w = {.t = s->t, .v = s->v, .n = s->n};
        if (after && s->t[at] == t)
            v[i] = s->v[at];
        else if (before)
            v[i] = after ? interpolate(&w, at - 1, t, false) : s->v[at - 1];
        else
            continue;
        any = true;
    }
    return any;
}

struct gs_error *promql_eval_smoothed(struct promql_eval *ev, const struct promql_node *n,
                                      struct promql_cached_series *k, struct promql_matrix *ret)
{
    const struct promql_shift *shift = &n->u.selector.shift;
    int64_t first = promql_shifted(ev, shift, ev->steps.start_ms) - ev->cfg.lookback_ms + 1;
    int64_t last = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1)) +
                   ev->cfg.lookback_ms;
    struct gs_error *err = promql_eval_matrix(ev, ret, k->n);
    double *v = NULL;
    for (size_t i = 0; i < k->n && !err; i++) {
        tsdb_read(ev->engine->db, k->refs[i], first, last, &ev->scratch);
        promql_drop_stale(&ev->scratch);
        if (!v)
            err = promql_eval_column(ev, &v);
        if (!err && smooth_steps(ev, n, v)) {
            promql_stats_values(ev, v, shift->at != PROMQL_AT_NONE);
            ret->series[ret->n++] = (struct promql_series){k->labels[i], v, false};
            v = NULL;
        }
        if (!err)
            err = promql_eval_count(ev, ev->steps.n);
    }
    return err;
}
