// SPDX-License-Identifier: Apache-2.0
// Classic histograms: series with the label le, cumulative counts.
#include "promql/eval_private.h"
#include "promql/function_table.h"
#include "promql/grouping.h"
#include "promql/parser_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>
#include <time.h>

#define SMALL_DELTA 1e-12 // relative; a smaller difference of counts is a rounding error

struct bucket {
    double upper, count;
};

static int compare_buckets(const void *a, const void *b)
{
    const struct bucket *x = a, *y = b;
    return (x->upper > y->upper) - (x->upper < y->upper);
}

static size_t coalesce(struct bucket *b, size_t n)
{
    size_t kept = 0;
    for (size_t i = 1; i < n; i++) {
        if (b[i].upper == b[kept].upper)
            b[kept].count += b[i].count;
        else
            b[++kept] = b[i];
    }
    return kept + 1;
}

static bool nearly_equal(double a, double b)
{
    if (a == b)
        return true;
    double sum = fabs(a) + fabs(b), diff = fabs(a - b);
    if (a == 0 || b == 0 || sum < 2.2250738585072014e-308)
        return diff < SMALL_DELTA * 2.2250738585072014e-308;
    return diff / fmin(sum, 1.7976931348623157e308) < SMALL_DELTA;
}

// Corrections of counts that were lower by more than a rounding error.
struct forced {
    size_t samples;
    double low, high; // bounds of the buckets
    double most;      // largest difference
    int64_t first_ms, last_ms;
};

// Makes counts monotonic. Returns true if it added to `forced`.
static bool make_monotonic(struct bucket *b, size_t n, struct forced *ret)
{
    bool forced = false;
    double prev = b[0].count;
    for (size_t i = 1; i < n; i++) {
        double count = b[i].count;
        bool same = count == prev || nearly_equal(prev, count);
        if (!same && !(count < prev)) {
            prev = count;
            continue;
        }
        if (!same) {
            forced = true;
            ret->low = fmin(ret->low, b[i].upper);
            ret->high = fmax(ret->high, b[i].upper);
            ret->most = fmax(ret->most, prev - count);
        }
        b[i].count = prev;
    }
    return forced;
}

static double bucket_quantile(double q, struct bucket *b, size_t n, struct forced *ret_forced)
{
    if (isnan(q))
        return (double)NAN;
    if (q < 0)
        return -(double)INFINITY;
    if (q > 1)
        return (double)INFINITY;
    qsort(b, n, sizeof(*b), compare_buckets);
    if (!(isinf(b[n - 1].upper) && b[n - 1].upper > 0))
        return (double)NAN;
    n = coalesce(b, n);
    ret_forced->samples += make_monotonic(b, n, ret_forced);
    double observations = b[n - 1].count;
    if (n < 2 || observations == 0)
        return (double)NAN;
    double rank = q * observations;
    size_t at = 0, end = n - 1; // binary search, also if counts are NaN
    while (at < end) {
        size_t middle = (at + end) / 2;
        if (b[middle].count >= rank)
            end = middle;
        else
            at = middle + 1;
    }
    if (at == n - 1)
        return b[n - 2].upper;
    if (at == 0 && b[0].upper <= 0)
        return b[0].upper;
    double start = at ? b[at - 1].upper : 0, below = at ? b[at - 1].count : 0;
    return start + (b[at].upper - start) * ((rank - below) / (b[at].count - below));
}

// Observations in a bucket without a lower bound are not interpolated, as in the last bucket.
static double interpolate(double rank, double start, const struct bucket *b, double v)
{
    if (isinf(start))
        return b->count;
    return rank + (b->count - rank) * (v - start) / (b->upper - start);
}

static double bucket_fraction(double lower, double upper, struct bucket *b, size_t n)
{
    qsort(b, n, sizeof(*b), compare_buckets);
    if (!(isinf(b[n - 1].upper) && b[n - 1].upper > 0))
        return (double)NAN;
    n = coalesce(b, n);
    double count = b[n - 1].count;
    if (count == 0 || isnan(lower) || isnan(upper))
        return (double)NAN;
    if (lower >= upper)
        return 0;
    double rank = 0, low_rank = count, high_rank = count;
    // If the first bound is positive, so are the observations.
    double start = b[0].upper <= 0 ? -(double)INFINITY : 0;
    bool low_set = false, high_set = false;
    for (size_t i = 0; i < n && !(low_set && high_set); i++) {
        if (!low_set && (start >= lower || b[i].upper > lower)) {
            low_rank = start >= lower ? rank : interpolate(rank, start, &b[i], lower);
            low_set = true;
        }
        if (!high_set && (start >= upper || b[i].upper > upper)) {
            high_rank = start >= upper ? rank : interpolate(rank, start, &b[i], upper);
            high_set = true;
        }
        rank = b[i].count;
        start = b[i].upper;
    }
    low_rank = low_rank > count ? count : low_rank;
    high_rank = high_rank > count ? count : high_rank;
    return (high_rank - low_rank) / count;
}

// --- over a vector ---

struct histograms {
    struct promql_eval *ev;
    struct promql_matrix input; // only series with a valid le
    double *bounds;             // le of each
    struct promql_keys keys;    // one for each histogram
    struct bucket *buckets;
};

static bool bound_of(const struct promql_eval *ev, struct tsdb_labels l, uint32_t le, double *ret)
{
    struct gs_slice text = promql_eval_text(ev, tsdb_labels_get(l, le));
    struct gs_error *err = gs_parse_double(text, ret);
    gs_error_free(err);
    return !err && !isnan(*ret);
}

static void note_bad_bound(struct promql_eval *ev, const struct promql_node *arg,
                           struct tsdb_labels l, uint32_t le)
{
    struct gs_slice bound = promql_eval_text(ev, tsdb_labels_get(l, le));
    GS_AUTO_BUF struct gs_buf quoted = {0};
    promql_quote(&quoted, bound);
    struct gs_slice name = promql_eval_text(ev, tsdb_labels_get(l, TSDB_SYMBOL_NAME));
    if (name.len && (promql_features() & PROMQL_DELAYED_NAMES)) {
        gs_buf_add_str(&quoted, " for metric name ");
        promql_quote(&quoted, name);
    }
    promql_annotate_warning(promql_eval_annotations(ev), arg->start,
                            "bucket label \"le\" is missing or has a malformed value of %s",
                            quoted.data);
}

static struct gs_error *collect_buckets(struct histograms *h, const struct promql_node *arg)
{
    struct promql_matrix m = {0};
    uint32_t le = TSDB_NO_SYMBOL;
    struct gs_error *err = promql_eval_node(h->ev, arg, &m);
    if (!err)
        err = promql_eval_intern(h->ev, GS_SLICE("le"), &le);
    if (!err)
        err = promql_eval_alloc(h->ev, m.n, sizeof(*h->bounds), &h->bounds);
    if (!err)
        err = promql_eval_alloc(h->ev, m.n, sizeof(*h->buckets), &h->buckets);
    if (err)
        return err;
    h->input = m;
    h->input.n = 0;
    for (size_t i = 0; i < m.n && !err; i++) {
        if (!bound_of(h->ev, m.series[i].labels, le, &h->bounds[h->input.n])) {
            note_bad_bound(h->ev, arg, m.series[i].labels, le);
            continue;
        }
        struct promql_series s = m.series[i];
        err = promql_eval_with_label(h->ev, s.labels, le, TSDB_SYMBOL_EMPTY, &s.labels);
        h->input.series[h->input.n++] = s;
    }
    return err ? err : promql_eval_whole_keys(h->ev, &h->input, &h->keys);
}

// The buckets of a histogram at a step.
static size_t gather(const struct histograms *h, uint32_t id, size_t step)
{
    size_t n = 0;
    for (size_t s = h->keys.first[id]; s < h->input.n; s++)
        if (h->keys.ids[s] == id && !promql_absent(h->input.series[s].v[step]))
            h->buckets[n++] = (struct bucket){h->bounds[s], h->input.series[s].v[step]};
    return n;
}

static struct gs_error *result_of(struct histograms *h, uint32_t id, struct promql_matrix *ret,
                                  double **ret_v)
{
    struct promql_series *s;
    struct tsdb_labels l = h->input.series[h->keys.first[id]].labels;
    struct gs_error *err = promql_eval_add_series(h->ev, ret, l, &s);
    if (!err)
        *ret_v = s->v;
    return err;
}

static const char *time_text(int64_t ms, char *text, size_t size)
{
    time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts))
        snprintf(text, size, "%lld", (long long)seconds);
    return text;
}

static void note_forced(const struct histograms *h, const struct promql_node *arg,
                        const struct forced *f)
{
    char low[GS_DOUBLE_SIZE], high[GS_DOUBLE_SIZE], first[64], last[64];
    promql_annotate_info(promql_eval_annotations(h->ev), arg->start,
                         "input to histogram_quantile needed to be fixed for monotonicity (see "
                         "https://prometheus.io/docs/prometheus/latest/querying/functions/"
                         "#histogram_quantile), from buckets %s to %s, with a max diff of %.2g, "
                         "over %zu samples from %s to %s",
                         promql_format_g(f->low, low), promql_format_g(f->high, high), f->most,
                         f->samples, time_text(f->first_ms, first, sizeof(first)),
                         time_text(f->last_ms, last, sizeof(last)));
}

static void extend(struct forced *f, int64_t t_ms)
{
    if (f->samples == 1 || t_ms < f->first_ms)
        f->first_ms = t_ms;
    if (f->samples == 1 || t_ms > f->last_ms)
        f->last_ms = t_ms;
}

static void check_quantiles(struct promql_eval *ev, const struct promql_node *arg, const double *q)
{
    for (size_t i = 0; i < ev->steps.n; i++)
        if (!(q[i] >= 0 && q[i] <= 1))
            promql_annotate_quantile(&ev->notes, arg->start, q[i]);
}

static struct gs_error *quantile_of_each(struct histograms *h, const double *q,
                                         struct forced *forced, struct promql_matrix *ret)
{
    struct gs_error *err = NULL;
    for (uint32_t id = 0; id < h->keys.n_ids && !err; id++) {
        double *v;
        err = result_of(h, id, ret, &v);
        for (size_t i = 0; i < h->ev->steps.n && !err; i++) {
            size_t n = gather(h, id, i), before = forced->samples;
            if (!n)
                continue;
            v[i] = bucket_quantile(q[i], h->buckets, n, forced);
            if (forced->samples > before)
                extend(forced, promql_step_time(&h->ev->steps, i));
        }
    }
    return err;
}

struct gs_error *promql_special_histogram_quantile(struct promql_eval *ev,
                                                   const struct promql_node *call,
                                                   struct promql_matrix *ret)
{
    struct histograms h = {.ev = ev};
    struct promql_matrix q = {0};
    struct forced forced = {.low = (double)INFINITY, .high = -(double)INFINITY};
    ret->n_steps = ev->steps.n;
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &q);
    if (!err)
        err = collect_buckets(&h, call->u.call.args[1]);
    if (!err) {
        check_quantiles(ev, call->u.call.args[0], q.series[0].v);
        err = quantile_of_each(&h, q.series[0].v, &forced, ret);
    }
    if (!err && forced.samples)
        note_forced(&h, call->u.call.args[1], &forced);
    return err ? err : promql_eval_drop_names(ev, ret);
}

// As OpenMetrics writes numbers: with a decimal point.
static struct gs_error *quantile_symbol(struct promql_eval *ev, double q, uint32_t *ret)
{
    char text[GS_DOUBLE_SIZE + 2];
    promql_format_g(q, text);
    if (isfinite(q) && !strpbrk(text, ".e"))
        memcpy(text + strlen(text), ".0", sizeof(".0"));
    return promql_eval_intern(ev, gs_slice_of(text), ret);
}

// Moves each value to the series with the quantile at its step as a label.
static struct gs_error *label_quantile(struct promql_eval *ev, const struct promql_matrix *m,
                                       const double *q, uint32_t label, struct promql_matrix *ret)
{
    for (size_t s = 0; s < m->n; s++) {
        struct promql_series *to = NULL;
        for (size_t i = 0; i < ev->steps.n; i++) {
            struct gs_error *err = NULL;
            if (promql_absent(m->series[s].v[i]))
                continue;
            if (!to || q[i] != q[i - 1]) {
                uint32_t value = 0;
                struct tsdb_labels labels = {0};
                err = quantile_symbol(ev, q[i], &value);
                if (!err)
                    err = promql_eval_with_label(ev, m->series[s].labels, label, value, &labels);
                if (!err)
                    err = promql_eval_add_series(ev, ret, labels, &to);
            }
            if (err)
                return err;
            to->v[i] = m->series[s].v[i];
        }
    }
    return NULL;
}

struct gs_error *promql_special_histogram_quantiles(struct promql_eval *ev,
                                                    const struct promql_node *call,
                                                    struct promql_matrix *ret)
{
    struct histograms h = {.ev = ev};
    struct forced forced = {.low = (double)INFINITY, .high = -(double)INFINITY};
    const struct promql_node *name = call->u.call.args[1];
    uint32_t label = 0;
    while (name->kind == PROMQL_PAREN)
        name = name->u.unary.expr;
    ret->n_steps = ev->steps.n;
    struct gs_error *err = collect_buckets(&h, call->u.call.args[0]);
    if (!err)
        err = promql_eval_intern(ev, name->u.string, &label);
    for (size_t a = 2; a < call->u.call.n_args && !err; a++) {
        struct promql_matrix q = {0}, of_q = {.n_steps = ev->steps.n};
        err = promql_eval_node(ev, call->u.call.args[a], &q);
        if (!err) {
            check_quantiles(ev, call->u.call.args[a], q.series[0].v);
            err = quantile_of_each(&h, q.series[0].v, &forced, &of_q);
        }
        if (!err)
            err = label_quantile(ev, &of_q, q.series[0].v, label, ret);
    }
    if (!err && forced.samples)
        note_forced(&h, call->u.call.args[0], &forced);
    if (!err)
        err = promql_eval_drop_names(ev, ret);
    return err ? err : promql_eval_merge_equal(ev, ret, NULL);
}

struct gs_error *promql_special_histogram_fraction(struct promql_eval *ev,
                                                   const struct promql_node *call,
                                                   struct promql_matrix *ret)
{
    struct histograms h = {.ev = ev};
    struct promql_matrix lower = {0}, upper = {0};
    size_t n_steps = promql_eval_steps(ev)->n;
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &lower);
    if (!err)
        err = promql_eval_node(ev, call->u.call.args[1], &upper);
    if (!err)
        err = collect_buckets(&h, call->u.call.args[2]);
    ret->n_steps = n_steps;
    for (uint32_t id = 0; id < h.keys.n_ids && !err; id++) {
        double *v;
        err = result_of(&h, id, ret, &v);
        for (size_t i = 0; i < n_steps && !err; i++) {
            size_t n = gather(&h, id, i);
            if (n)
                v[i] = bucket_fraction(lower.series[0].v[i], upper.series[0].v[i], h.buckets, n);
        }
    }
    return err ? err : promql_eval_drop_names(ev, ret);
}
