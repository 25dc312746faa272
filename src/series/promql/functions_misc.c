// SPDX-License-Identifier: Apache-2.0
// Functions of a whole vector: absent, scalar, vector, sort, timestamp.
#include "promql/function_table.h"

#include "promql/eval_private.h"

#include <math.h>

static const struct tsdb_labels no_labels = {0};

static size_t n_steps(const struct promql_eval *ev)
{
    return promql_eval_steps(ev)->n;
}

static struct gs_error *one_series(struct promql_eval *ev, struct promql_matrix *ret,
                                   double **ret_v)
{
    struct promql_series *s;
    ret->n_steps = n_steps(ev);
    struct gs_error *err = promql_eval_add_series(ev, ret, no_labels, &s);
    if (err)
        return err;
    *ret_v = s->v;
    return NULL;
}

struct gs_error *promql_special_time(struct promql_eval *ev, const struct promql_node *call,
                                     struct promql_matrix *ret)
{
    (void)call;
    double *v;
    struct gs_error *err = one_series(ev, ret, &v);
    const struct promql_steps *steps = promql_eval_steps(ev);
    for (size_t i = 0; !err && i < steps->n; i++)
        v[i] = (double)(steps->start_ms + (int64_t)i * steps->step_ms) / 1000;
    return err;
}

struct gs_error *promql_special_pi(struct promql_eval *ev, const struct promql_node *call,
                                   struct promql_matrix *ret)
{
    (void)call;
    double *v;
    struct gs_error *err = one_series(ev, ret, &v);
    for (size_t i = 0; !err && i < n_steps(ev); i++)
        v[i] = M_PI;
    return err;
}

static struct gs_error *constant(struct promql_eval *ev, double value, struct promql_matrix *ret)
{
    double *v;
    struct gs_error *err = one_series(ev, ret, &v);
    for (size_t i = 0; !err && i < n_steps(ev); i++)
        v[i] = value;
    return err;
}

struct gs_error *promql_special_query_start(struct promql_eval *ev, const struct promql_node *call,
                                            struct promql_matrix *ret)
{
    (void)call;
    return constant(ev, (double)ev->query_start_ms / 1000, ret);
}

struct gs_error *promql_special_query_end(struct promql_eval *ev, const struct promql_node *call,
                                          struct promql_matrix *ret)
{
    (void)call;
    return constant(ev, (double)ev->query_end_ms / 1000, ret);
}

struct gs_error *promql_special_query_range(struct promql_eval *ev, const struct promql_node *call,
                                            struct promql_matrix *ret)
{
    (void)call;
    return constant(ev, (double)(ev->query_end_ms - ev->query_start_ms) / 1000, ret);
}

struct gs_error *promql_special_query_step(struct promql_eval *ev, const struct promql_node *call,
                                           struct promql_matrix *ret)
{
    (void)call;
    bool range = ev->query_end_ms != ev->query_start_ms;
    return constant(ev, range ? (double)ev->query_step_ms / 1000 : 0, ret);
}

static struct gs_error *smaller_of(struct promql_eval *ev, const struct promql_node *call,
                                   double sign, struct promql_matrix *ret)
{
    struct promql_matrix a = {0}, b = {0};
    double *v;
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &a);
    if (!err)
        err = promql_eval_node(ev, call->u.call.args[1], &b);
    if (!err)
        err = one_series(ev, ret, &v);
    for (size_t i = 0; !err && i < n_steps(ev); i++)
        v[i] = sign * promql_smaller(sign * a.series[0].v[i], sign * b.series[0].v[i]);
    return err;
}

struct gs_error *promql_special_max_of(struct promql_eval *ev, const struct promql_node *call,
                                       struct promql_matrix *ret)
{
    return smaller_of(ev, call, -1, ret);
}

struct gs_error *promql_special_min_of(struct promql_eval *ev, const struct promql_node *call,
                                       struct promql_matrix *ret)
{
    return smaller_of(ev, call, 1, ret);
}

struct gs_error *promql_special_none(struct promql_eval *ev, const struct promql_node *call,
                                     struct promql_matrix *ret)
{
    // The arguments are evaluated for their errors.
    ret->n_steps = n_steps(ev);
    struct promql_matrix ignored = {0};
    return promql_eval_node(ev, call->u.call.args[0], &ignored);
}

struct gs_error *promql_special_scalar(struct promql_eval *ev, const struct promql_node *call,
                                       struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    double *v;
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &m);
    if (!err)
        err = one_series(ev, ret, &v);
    for (size_t i = 0; !err && i < n_steps(ev); i++) {
        size_t found = 0;
        for (size_t k = 0; k < m.n; k++) {
            if (promql_absent(m.series[k].v[i]))
                continue;
            v[i] = m.series[k].v[i];
            found++;
        }
        if (found != 1)
            v[i] = (double)NAN;
    }
    return err;
}

struct gs_error *promql_special_vector(struct promql_eval *ev, const struct promql_node *call,
                                       struct promql_matrix *ret)
{
    return promql_eval_node(ev, call->u.call.args[0], ret);
}

// --- absent ---

static const struct promql_node *unwrap_argument(const struct promql_node *n)
{
    while (n->kind == PROMQL_PAREN)
        n = n->u.unary.expr;
    return n;
}

// Labels of the selector's equality matchers, except labels that are matched twice.
static bool is_result_label(const struct promql_node *selector, size_t i)
{
    const struct tsdb_matcher *m = selector->u.selector.matchers;
    static const char *const metadata[] = {"__name__", "__type__", "__unit__"};
    if (m[i].op != TSDB_EQ || !m[i].value.len)
        return false;
    for (size_t k = 0; k < GS_ARRAY_LEN(metadata); k++)
        if (gs_slice_eq_str(m[i].name, metadata[k]))
            return false;
    for (size_t k = 0; k < selector->u.selector.n_matchers; k++)
        if (k != i && gs_slice_eq(m[k].name, m[i].name))
            return false;
    return true;
}

static struct gs_error *absent_labels(struct promql_eval *ev, const struct promql_node *arg,
                                      struct tsdb_labels *ret)
{
    *ret = no_labels;
    for (size_t i = 0; arg->kind == PROMQL_SELECTOR && i < arg->u.selector.n_matchers; i++) {
        if (!is_result_label(arg, i))
            continue;
        const struct tsdb_matcher *m = &arg->u.selector.matchers[i];
        uint32_t name, value;
        struct gs_error *err = promql_eval_intern(ev, m->name, &name);
        if (!err)
            err = promql_eval_intern(ev, m->value, &value);
        if (!err)
            err = promql_eval_with_label(ev, *ret, name, value, ret);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *absent_of(struct promql_eval *ev, const struct promql_node *arg,
                                  const struct promql_matrix *m, struct promql_matrix *ret)
{
    struct tsdb_labels labels;
    struct promql_series *s;
    ret->n_steps = n_steps(ev);
    struct gs_error *err = absent_labels(ev, arg, &labels);
    if (!err)
        err = promql_eval_add_series(ev, ret, labels, &s);
    for (size_t i = 0; !err && i < n_steps(ev); i++) {
        bool any = false;
        for (size_t k = 0; k < m->n && !any; k++)
            any = !promql_absent(m->series[k].v[i]);
        if (!any)
            s->v[i] = 1;
    }
    return err;
}

struct gs_error *promql_special_absent(struct promql_eval *ev, const struct promql_node *call,
                                       struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &m);
    return err ? err : absent_of(ev, unwrap_argument(call->u.call.args[0]), &m, ret);
}

struct gs_error *promql_special_absent_over_time(struct promql_eval *ev,
                                                 const struct promql_node *call,
                                                 struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    struct gs_error *err =
        promql_eval_rollup(ev, promql_function_find(GS_SLICE("present_over_time")), call, &m);
    return err ? err : absent_of(ev, unwrap_argument(call->u.call.args[0]), &m, ret);
}

// --- timestamp ---

struct gs_error *promql_special_timestamp(struct promql_eval *ev, const struct promql_node *call,
                                          struct promql_matrix *ret)
{
    const struct promql_node *arg = unwrap_argument(call->u.call.args[0]);
    const struct promql_steps *steps = promql_eval_steps(ev);
    bool selector = arg->kind == PROMQL_SELECTOR;
    struct promql_matrix m = {0};
    struct gs_error *err =
        selector ? promql_eval_sample_times(ev, arg, &m) : promql_eval_node(ev, arg, &m);
    for (size_t k = 0; !err && !selector && k < m.n; k++)
        for (size_t i = 0; i < steps->n; i++)
            if (!promql_absent(m.series[k].v[i]))
                m.series[k].v[i] = (double)(steps->start_ms + (int64_t)i * steps->step_ms) / 1000;
    if (!err)
        err = promql_eval_drop_names(ev, &m);
    *ret = m;
    return err;
}

// --- sort ---

// By the value of the first step (the order matters in instant queries only); NaN last.
static bool before(const struct promql_series *a, const struct promql_series *b, bool descending)
{
    double x = a->v[0], y = b->v[0];
    if (isnan(x) || isnan(y))
        return isnan(y) && !isnan(x);
    return descending ? x > y : x < y;
}

static void merge_sort(struct promql_series *s, struct promql_series *scratch, size_t n,
                       bool descending)
{
    if (n < 2)
        return;
    size_t half = n / 2, left = 0, right = half, out = 0;
    merge_sort(s, scratch, half, descending);
    merge_sort(s + half, scratch, n - half, descending);
    while (left < half && right < n)
        scratch[out++] = before(&s[right], &s[left], descending) ? s[right++] : s[left++];
    while (left < half)
        scratch[out++] = s[left++];
    memcpy(s, scratch, out * sizeof(*s)); // the rest on the right is sorted
}

static struct gs_error *sort_series(struct promql_eval *ev, const struct promql_node *call,
                                    bool descending, struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    struct promql_series *scratch;
    promql_annotate_ranged_sort(ev, call);
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &m);
    if (!err)
        err = promql_eval_alloc(ev, m.n, sizeof(*scratch), &scratch);
    if (err)
        return err;
    if (m.n_steps)
        merge_sort(m.series, scratch, m.n, descending);
    *ret = m;
    return NULL;
}

struct gs_error *promql_special_sort(struct promql_eval *ev, const struct promql_node *call,
                                     struct promql_matrix *ret)
{
    return sort_series(ev, call, false, ret);
}

struct gs_error *promql_special_sort_desc(struct promql_eval *ev, const struct promql_node *call,
                                          struct promql_matrix *ret)
{
    return sort_series(ev, call, true, ret);
}
