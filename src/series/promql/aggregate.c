// SPDX-License-Identifier: Apache-2.0
// Aggregations with one value per group: sum, avg, count …, quantile. topk, bottomk and
// count_values are in aggregate_select.c.
#include "promql/grouping.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/label_cache.h"
#include "promql/sums.h"

#include <math.h>
#include <stdio.h>

struct cell {    // of a group at a step
    double v, c; // sum, extreme or variance; its compensation
    double mean;
    size_t count;
    bool incremental; // avg: the sum would have overflowed
};

static void add_avg(struct cell *a, double v)
{
    if (!a->incremental) {
        double next = a->v, next_c = a->c;
        promql_kahan_add(v, &next, &next_c);
        if (!isinf(next)) {
            a->v = next;
            a->c = next_c;
            return;
        }
        a->incremental = true;
        a->mean = a->v / (double)(a->count - 1);
        a->c /= (double)(a->count - 1);
    }
    double q = (double)(a->count - 1) / (double)a->count;
    a->mean *= q;
    a->c *= q;
    promql_kahan_add(v / (double)a->count, &a->mean, &a->c);
}

static void accumulate_value(enum promql_agg op, struct cell *a, double v)
{
    bool first = a->count++ == 0;
    double delta;
    switch (op) {
    case PROMQL_SUM:
        if (first)
            a->v = v;
        else
            promql_kahan_add(v, &a->v, &a->c);
        break;
    case PROMQL_AVG:
        if (first)
            a->v = v;
        else
            add_avg(a, v);
        break;
    case PROMQL_MIN:
        if (first || a->v > v || isnan(a->v))
            a->v = v;
        break;
    case PROMQL_MAX:
        if (first || a->v < v || isnan(a->v))
            a->v = v;
        break;
    case PROMQL_STDDEV:
    case PROMQL_STDVAR:
        if (first) {
            a->mean = v;
            a->v = isfinite(v) ? 0 : (double)NAN;
            break;
        }
        delta = v - a->mean;
        a->mean += delta / (double)a->count;
        a->v += delta * (v - a->mean);
        break;
    default:
        break;
    }
}

static double finish_value(enum promql_agg op, const struct cell *a)
{
    double n = (double)a->count;
    switch (op) {
    case PROMQL_SUM:
        return a->v + a->c;
    case PROMQL_AVG:
        return a->incremental ? a->mean + a->c : a->v / n + a->c / n;
    case PROMQL_COUNT:
        return n;
    case PROMQL_GROUP:
        return 1;
    case PROMQL_STDVAR:
        return a->v / n;
    case PROMQL_STDDEV:
        return sqrt(a->v / n);
    default:
        return a->v;
    }
}

static struct gs_error *plain(struct promql_eval *ev, const struct promql_grouping *g,
                              enum promql_agg op, struct promql_matrix *ret)
{
    struct cell *cells;
    size_t n_steps = ev->steps.n;
    struct gs_error *err = promql_eval_alloc(ev, g->keys.n_ids * n_steps, sizeof(*cells), &cells);
    if (err)
        return err;
    for (size_t s = 0; s < g->input.n && !err; s++) {
        struct cell *row = cells + g->keys.ids[s] * n_steps;
        const double *v = g->input.series[s].v;
        for (size_t i = 0; i < n_steps; i++)
            if (!promql_absent(v[i]))
                accumulate_value(op, &row[i], v[i]);
        err = promql_eval_work(ev, n_steps);
    }
    if (err)
        return err;
    for (size_t k = 0; k < ret->n; k++)
        for (size_t i = 0; i < n_steps; i++)
            if (cells[k * n_steps + i].count)
                ret->series[k].v[i] = finish_value(op, &cells[k * n_steps + i]);
    return NULL;
}

// One of each kind: not a number, the largest above 1, the smallest below 0.
static void note_quantiles(struct promql_eval *ev, const struct promql_node *n, const double *q)
{
    double low = q[0], high = q[0];
    bool nan = false;
    for (size_t i = 0; i < ev->steps.n; i++) {
        nan = nan || isnan(q[i]);
        low = q[i] < low ? q[i] : low;
        high = q[i] > high ? q[i] : high;
    }
    if (nan) {
        promql_annotate_quantile(&ev->notes, n->u.aggregate.param->start, (double)NAN);
        return;
    }
    if (high > 1)
        promql_annotate_quantile(&ev->notes, n->u.aggregate.param->start, high);
    if (low < 0)
        promql_annotate_quantile(&ev->notes, n->u.aggregate.param->start, low);
}

static struct gs_error *quantile(struct promql_eval *ev, const struct promql_node *n,
                                 const struct promql_grouping *g, const double *q,
                                 struct promql_matrix *ret)
{
    double *values;
    size_t *start, *len;
    struct gs_error *err = promql_eval_alloc(ev, g->input.n, sizeof(*values), &values);
    if (!err)
        err = promql_eval_alloc(ev, g->keys.n_ids + 1, sizeof(*start), &start);
    if (!err)
        err = promql_eval_alloc(ev, g->keys.n_ids, sizeof(*len), &len);
    if (err)
        return err;
    for (size_t s = 0; s < g->input.n; s++)
        start[g->keys.ids[s] + 1]++;
    for (size_t k = 0; k < g->keys.n_ids; k++)
        start[k + 1] += start[k];
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        err = promql_eval_work(ev, g->input.n);
        memset(len, 0, g->keys.n_ids * sizeof(*len));
        for (size_t s = 0; s < g->input.n; s++) {
            uint32_t id = g->keys.ids[s];
            if (!promql_absent(g->input.series[s].v[i]))
                values[start[id] + len[id]++] = g->input.series[s].v[i];
        }
        for (size_t k = 0; k < g->keys.n_ids; k++)
            if (len[k])
                ret->series[k].v[i] = promql_quantile(q[i], values + start[k], len[k]);
    }
    note_quantiles(ev, n, q);
    return err;
}

// The series of the groups, without values.
static struct gs_error *group_series(struct promql_eval *ev, const struct promql_grouping *g,
                                     struct promql_matrix *ret)
{
    double *v;
    const struct promql_label_table *cached = g->keys.table;
    struct gs_error *err = promql_eval_matrix(ev, ret, g->keys.n_ids);
    if (!err)
        err = promql_eval_columns(ev, g->keys.n_ids, &v);
    for (size_t k = 0; k < g->keys.n_ids && !err; k++) {
        struct promql_series *s = &ret->series[ret->n++];
        s->v = v + k * ev->steps.n;
        if (cached)
            s->labels = cached->labels[g->keys.numbers[k]];
        else
            err = promql_eval_key_labels(ev, &g->rule, g->input.series[g->keys.first[k]].labels,
                                         &s->labels);
    }
    for (size_t s = 0; s < g->input.n && !err; s++)
        if (g->input.series[s].drop_name)
            ret->series[g->keys.ids[s]].drop_name = true;
    return err || !cached ? err : promql_eval_set(ev, cached, g->keys.numbers, ret);
}

struct gs_error *promql_eval_grouping(struct promql_eval *ev, const struct promql_node *n,
                                      const struct promql_matrix *input,
                                      struct promql_grouping *ret)
{
    *ret = (struct promql_grouping){.input = *input};
    ret->rule.n = n->u.aggregate.grouping.n;
    ret->rule.on = !n->u.aggregate.without;
    struct gs_error *err = promql_eval_names(ev, n->u.aggregate.grouping, &ret->rule.names);
    return err ? err : promql_eval_keys(ev, &ret->rule, &ret->input, NULL, &ret->keys, NULL);
}

struct gs_error *promql_eval_aggregate_matrix(struct promql_eval *ev, const struct promql_node *n,
                                              const struct promql_matrix *input,
                                              struct promql_matrix *ret)
{
    enum promql_agg op = n->u.aggregate.op;
    struct promql_matrix param = {0};
    struct promql_grouping g;
    struct gs_error *err = promql_eval_grouping(ev, n, input, &g);
    bool limits = op == PROMQL_LIMITK || op == PROMQL_LIMIT_RATIO;
    if (!err && (op == PROMQL_TOPK || op == PROMQL_BOTTOMK || op == PROMQL_QUANTILE || limits))
        err = promql_eval_node(ev, n->u.aggregate.param, &param);
    if (!err && (op == PROMQL_TOPK || op == PROMQL_BOTTOMK))
        return promql_eval_topk(ev, n, &g, param.series[0].v, ret);
    if (!err && limits)
        return promql_eval_limit(ev, n, &g, param.series[0].v, ret);
    if (!err)
        err = group_series(ev, &g, ret);
    if (!err)
        err = op == PROMQL_QUANTILE ? quantile(ev, n, &g, param.series[0].v, ret)
                                    : plain(ev, &g, op, ret);
    if (!err)
        promql_eval_compact(ret);
    return err;
}

struct gs_error *promql_eval_aggregate(struct promql_eval *ev, const struct promql_node *n,
                                       struct promql_matrix *ret)
{
    struct promql_matrix input = {.n_steps = ev->steps.n};
    struct gs_error *err = promql_eval_dispatch(ev, n->u.aggregate.expr, &input);
    if (err)
        return err;
    return n->u.aggregate.op == PROMQL_COUNT_VALUES
               ? promql_eval_count_values(ev, n, &input, ret)
               : promql_eval_aggregate_matrix(ev, n, &input, ret);
}
