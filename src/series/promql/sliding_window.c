// SPDX-License-Identifier: Apache-2.0
// Rollups for which a window follows from the previous one, so that a range query costs one step
// per sample instead of one per sample and window. Sums are compensated (their rounding error is
// kept beside them). Values for which the order of additions matters fall back to the plain
// function.
// The sum is two parts: from the window's start to a border (sums from each sample to the border
// are stored) and from the border to the end, which grows.
#include "promql/sliding_window.h"

#include "promql/eval_private.h"
#include "promql/function_table.h"

#include <math.h>

struct gs_error *promql_slider_begin(struct promql_slider *s, struct promql_eval *ev,
                                     const double *v, size_t n)
{
    struct gs_error *err = NULL;
    if (n > s->cap) {
        s->cap = n > s->cap * 2 ? n : s->cap * 2;
        err = promql_eval_alloc(ev, s->cap, sizeof(*s->sums), &s->sums);
        if (!err)
            err = promql_eval_alloc(ev, s->cap, sizeof(*s->errors), &s->errors);
        if (!err)
            err = promql_eval_alloc(ev, s->cap, sizeof(*s->places), &s->places);
    }
    s->v = v;
    s->from = s->until = s->border = s->n_wild = s->head = s->tail = 0;
    s->sum = s->error = 0;
    return err;
}

struct span {
    size_t from, until;
};

static struct span span_of(const struct promql_slider *s, const struct promql_window *w)
{
    size_t from = (size_t)(w->v - s->v);
    return (struct span){from, from + w->n};
}

// --- sums ---

// Sums of such values cannot overflow, in any order.
static bool is_tame(double v)
{
    return fabs(v) < 1e290;
}

static void add_to_window(double v, double *sum, double *error)
{
    double t = *sum + v, part = t - *sum;
    *error += (*sum - (t - part)) + (v - part);
    *sum = t;
}

// The border moves to the end of the window.
static void move_border(struct promql_slider *s, size_t from)
{
    double sum = 0, error = 0;
    for (size_t i = s->until; i-- > from;) {
        if (is_tame(s->v[i]))
            add_to_window(s->v[i], &sum, &error);
        s->sums[i] = sum;
        s->errors[i] = error;
    }
    s->border = s->until;
    s->sum = s->error = 0;
}

static void move_sums(struct promql_slider *s, struct span to)
{
    for (; s->until < to.until; s->until++) {
        if (is_tame(s->v[s->until]))
            add_to_window(s->v[s->until], &s->sum, &s->error);
        else
            s->n_wild++;
    }
    for (; s->from < to.from; s->from++)
        s->n_wild -= !is_tame(s->v[s->from]);
    if (s->from >= s->border)
        move_border(s, s->from);
}

// Returns false if the order of the samples matters.
static bool sum_of(struct promql_slider *s, const struct promql_window *w, double *ret_sum,
                   double *ret_error)
{
    struct span to = span_of(s, w);
    move_sums(s, to);
    double sum = s->sum, error = s->error;
    if (to.from < s->border) {
        add_to_window(s->sums[to.from], &sum, &error);
        error += s->errors[to.from];
    }
    *ret_sum = sum;
    *ret_error = error;
    return !s->n_wild;
}

bool promql_slide_sum(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    double sum, error;
    if (!sum_of(s, w, &sum, &error))
        return promql_rollup_sum(w, ret);
    *ret = sum + error;
    return true;
}

bool promql_slide_avg(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    double sum, error, n = (double)w->n;
    if (!sum_of(s, w, &sum, &error))
        return promql_rollup_avg(w, ret);
    *ret = sum / n + error / n;
    return true;
}

// --- extremes ---

// Indexes of samples that no later sample exceeds; the first of equal ones. NaN is ignored.
static void move_extreme(struct promql_slider *s, struct span to, bool max)
{
    for (; s->until < to.until; s->until++) {
        double v = s->v[s->until];
        if (isnan(v))
            continue;
        while (s->tail > s->head &&
               (max ? s->v[s->places[s->tail - 1]] < v : s->v[s->places[s->tail - 1]] > v))
            s->tail--;
        s->places[s->tail++] = s->until;
    }
    while (s->head < s->tail && s->places[s->head] < to.from)
        s->head++;
}

static bool extreme(struct promql_slider *s, const struct promql_window *w, bool max, double *ret)
{
    move_extreme(s, span_of(s, w), max);
    *ret = s->head < s->tail ? s->v[s->places[s->head]] : w->v[w->n - 1];
    return true;
}

bool promql_slide_min(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    return extreme(s, w, false, ret);
}

bool promql_slide_max(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    return extreme(s, w, true, ret);
}

// --- from one sample to the next ---

// Indexes of samples that differ from their predecessor in the window.
static void move_steps(struct promql_slider *s, struct span to,
                       bool (*differs)(double before, double v))
{
    for (; s->until < to.until; s->until++)
        if (s->until && differs(s->v[s->until - 1], s->v[s->until]))
            s->places[s->tail++] = s->until;
    while (s->head < s->tail && s->places[s->head] <= to.from)
        s->head++;
}

static bool falls(double before, double v)
{
    return v < before;
}

static bool changes(double before, double v)
{
    return v != before && !(isnan(v) && isnan(before));
}

bool promql_slide_changes(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    move_steps(s, span_of(s, w), changes);
    *ret = (double)(s->tail - s->head);
    return true;
}

bool promql_slide_resets(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    move_steps(s, span_of(s, w), falls);
    *ret = (double)(s->tail - s->head);
    return true;
}

static double sliding_increase(struct promql_slider *s, const struct promql_window *w)
{
    move_steps(s, span_of(s, w), falls);
    double sum = w->v[w->n - 1] - w->v[0];
    for (size_t i = s->head; i < s->tail; i++)
        sum += s->v[s->places[i] - 1];
    return sum;
}

bool promql_slide_rate(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    return promql_counter_rate(w, sliding_increase(s, w), true, ret);
}

bool promql_slide_increase(struct promql_slider *s, const struct promql_window *w, double *ret)
{
    return promql_counter_rate(w, sliding_increase(s, w), false, ret);
}
