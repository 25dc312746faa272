// SPDX-License-Identifier: Apache-2.0
// Operators on two vectors with cached series that have at most one match. The matches and the
// labels of the results are cached, so only arithmetic on columns remains.
#include "promql/grouping.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/label_cache.h"

#define NONE UINT32_MAX

struct pair {
    uint32_t many, one; // series
};

struct build {
    struct promql_eval *ev;
    const struct promql_node *n;
    const struct promql_matrix *many, *one;
    struct promql_key_rule rule, include;
    struct promql_keys many_keys, one_keys;
    // the results
    struct pair *items;
    uint32_t *numbers; // in the table of results
    size_t n_items;
    struct promql_label_table *results;
};

// *ret_simple: no series has more than one match.
static struct gs_error *find_pairs(struct build *b, bool *ret_simple)
{
    uint32_t *one_of;
    bool *taken;
    bool one_to_one = b->n->u.binary.card == PROMQL_ONE_TO_ONE;
    struct gs_error *err = promql_eval_alloc(b->ev, b->one_keys.n_ids, sizeof(*one_of), &one_of);
    *ret_simple = false;
    if (!err)
        err = promql_eval_alloc(b->ev, b->one_keys.n_ids, sizeof(*taken), &taken);
    if (!err)
        err = promql_eval_alloc(b->ev, b->many->n, sizeof(*b->items), &b->items);
    if (err)
        return err;
    memset(one_of, 0xff, b->one_keys.n_ids * sizeof(*one_of));
    for (size_t i = 0; i < b->one->n; i++) {
        uint32_t *at = &one_of[b->one_keys.ids[i]];
        if (*at != NONE)
            return NULL;
        *at = (uint32_t)i;
    }
    for (size_t i = 0; i < b->many->n; i++) {
        uint32_t id = b->many_keys.ids[i];
        if (one_of[id] == NONE)
            continue;
        if (one_to_one && taken[id])
            return NULL;
        taken[id] = true;
        b->items[b->n_items++] = (struct pair){(uint32_t)i, one_of[id]};
    }
    *ret_simple = true;
    return NULL;
}

static struct promql_label_table *table_of_results(const struct build *b)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    gs_buf_add_char(&key, 'P');
    gs_buf_add_char(&key, (char)('0' + b->n->u.binary.card));
    gs_buf_add_char(&key, promql_keeps_result_name(b->n) ? 'c' : 'a');
    promql_eval_rule_key(b->ev, &b->rule, &key);
    gs_buf_add_char(&key, '/');
    promql_eval_rule_key(b->ev, &b->include, &key);
    return promql_label_table(b->ev->view, &key);
}

// The label set of a result depends on the many-side series, and on the included labels of its
// match. Two memos of the many side have the number of these labels for which the result is known,
// and the result.
static struct gs_error *number_pairs(struct build *b, bool *ret_done)
{
    struct promql_eval *ev = b->ev;
    struct promql_label_table *included = NULL;
    uint32_t *in_one = NULL;
    *ret_done = false;
    b->results = table_of_results(b);
    struct gs_error *err = promql_eval_alloc(ev, b->n_items, sizeof(*b->numbers), &b->numbers);
    if (!err && b->include.n) {
        err = promql_eval_alloc(ev, b->one->n, sizeof(*in_one), &in_one);
        if (!err)
            err = promql_eval_numbers(ev, &b->include, b->one, in_one, &included);
    }
    if (err || !b->results || (b->include.n && !included))
        return err;
    if (included)
        promql_label_table_used(ev->view, included, b->one->n);
    uint64_t which = included ? included->number : 0;
    struct promql_label_memo *of = promql_label_memo(
        ev, b->many->set->table, (const uint64_t[2]){b->results->number, which + 1});
    struct promql_label_memo *with =
        included ? promql_label_memo(ev, b->many->set->table,
                                     (const uint64_t[2]){which, b->results->number})
                 : of;
    for (size_t i = 0; of && with && i < b->n_items; i++) {
        const struct pair *p = &b->items[i];
        uint32_t element = b->many->set->elements[p->many];
        uint32_t *at = promql_label_memo_at(ev->view, of, element), unused = 0;
        uint32_t *known = included ? promql_label_memo_at(ev->view, with, element) : &unused;
        uint32_t wanted = included ? in_one[p->one] + 1 : 0;
        if (!at || !known)
            return NULL;
        if (!*at || *known != wanted) {
            struct tsdb_labels l;
            err = promql_eval_result_labels(ev, b->n, &b->rule, b->include.names,
                                            b->many->series[p->many].labels,
                                            b->one->series[p->one].labels, &l);
            if (err)
                return err;
            *at = promql_label_number(ev->view, b->results, l) + 1;
            *known = wanted;
        }
        if (!*at)
            return NULL;
        b->numbers[i] = *at - 1;
    }
    *ret_done = of && with;
    return NULL;
}

// *ret_simple: no two results have the same labels.
static struct gs_error *check_results(const struct build *b, bool *ret_simple)
{
    bool *seen;
    struct gs_error *err = promql_eval_alloc(b->ev, b->results->n, sizeof(*seen), &seen);
    *ret_simple = !err;
    for (size_t i = 0; *ret_simple && i < b->n_items; i++) {
        *ret_simple = !seen[b->numbers[i]];
        seen[b->numbers[i]] = true;
    }
    promql_label_table_used(b->ev->view, b->results, b->n_items);
    return err;
}

static struct gs_error *pairs_of(struct build *b, bool *ret_simple)
{
    struct gs_error *err =
        promql_eval_keys(b->ev, &b->rule, b->many, b->one, &b->many_keys, &b->one_keys);
    if (!err)
        err = find_pairs(b, ret_simple);
    if (!err && *ret_simple)
        err = number_pairs(b, ret_simple);
    if (!err && *ret_simple)
        err = check_results(b, ret_simple);
    return err;
}

static void apply_operator(const struct promql_node *n, const double *l, const double *r,
                           size_t n_steps, double *out)
{
    for (size_t i = 0; i < n_steps; i++) {
        bool keep;
        if (promql_absent(l[i]) || promql_absent(r[i]))
            continue;
        double v = promql_apply(n->u.binary.op, l[i], r[i], &keep);
        if (n->u.binary.return_bool)
            out[i] = keep;
        else if (keep)
            out[i] = v;
    }
}

struct gs_error *promql_eval_cached_vectors(struct promql_eval *ev, const struct promql_node *n,
                                            const struct promql_matrix *lhs,
                                            const struct promql_matrix *rhs, bool *ret_done,
                                            struct promql_matrix *ret)
{
    *ret_done = false;
    if (!lhs->set || !rhs->set)
        return NULL;
    bool swapped = n->u.binary.card == PROMQL_ONE_TO_MANY;
    struct build b = {.ev = ev, .n = n, .many = swapped ? rhs : lhs, .one = swapped ? lhs : rhs};
    b.rule = (struct promql_key_rule){.n = n->u.binary.labels.n, .on = n->u.binary.on};
    b.include = (struct promql_key_rule){.n = n->u.binary.include.n, .on = true};
    bool simple = false;
    double *v;
    struct gs_error *err = promql_eval_names(ev, n->u.binary.labels, &b.rule.names);
    if (!err)
        err = promql_eval_names(ev, n->u.binary.include, &b.include.names);
    if (!err)
        err = pairs_of(&b, &simple);
    if (err || !simple)
        return err;
    *ret_done = true;
    err = promql_eval_matrix(ev, ret, b.n_items);
    if (!err)
        err = promql_eval_columns(ev, b.n_items, &v);
    if (err)
        return err;
    for (size_t i = 0; i < b.n_items; i++, v += ev->steps.n) {
        const double *many = b.many->series[b.items[i].many].v;
        const double *one = b.one->series[b.items[i].one].v;
        apply_operator(n, swapped ? one : many, swapped ? many : one, ev->steps.n, v);
        ret->series[ret->n++] =
            (struct promql_series){b.results->labels[b.numbers[i]], v, n->u.binary.return_bool};
    }
    err = promql_eval_set(ev, b.results, b.numbers, ret);
    promql_eval_compact(ret);
    return err ? err : promql_eval_count(ev, ret->n * ev->steps.n);
}
