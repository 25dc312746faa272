// SPDX-License-Identifier: Apache-2.0
// Operators on two vectors with cached series that have at most one match. The matches and the
// labels of the results are cached, so only arithmetic on columns remains.
#include "promql/eval_private.h"

#include "base/mem.h"

#define NONE UINT32_MAX

struct pair {
    uint32_t many, one; // series
};
struct pairs {
    bool simple; // false: matches must be found at each step
    struct pair *items;
    struct tsdb_labels *labels; // of the results
    size_t n;
    uint64_t set;
};

struct build {
    struct promql_eval *ev;
    const struct promql_node *n;
    const struct promql_matrix *many, *one;
    struct promql_key_rule rule;
    const uint32_t *include;
    struct promql_keys many_keys, one_keys;
};

static void pairs_key(const struct build *b, struct gs_buf *key)
{
    uint64_t sets[2] = {b->many->set, b->one->set};
    bool compares = b->n->u.binary.op >= PROMQL_EQL && b->n->u.binary.op <= PROMQL_GTE;
    gs_buf_add_char(key, 'P');
    gs_buf_add(key, sets, sizeof(sets));
    gs_buf_add_char(key, (char)('0' + b->n->u.binary.card));
    gs_buf_add_char(key, compares && !b->n->u.binary.return_bool ? 'c' : 'a');
    promql_eval_rule_key(&b->rule, key);
    gs_buf_add_char(key, '/');
    const struct promql_key_rule include = {.names = b->include, .n = b->n->u.binary.include.n};
    promql_eval_rule_key(&include, key);
}

// Returns false if a series has more than one match.
static struct gs_error *find_pairs(struct build *b, struct pairs *ret)
{
    uint32_t *one_of;
    bool *taken;
    bool one_to_one = b->n->u.binary.card == PROMQL_ONE_TO_ONE;
    struct gs_error *err = promql_eval_alloc(b->ev, b->one_keys.n_ids, sizeof(*one_of), &one_of);
    if (!err)
        err = promql_eval_alloc(b->ev, b->one_keys.n_ids, sizeof(*taken), &taken);
    if (!err)
        err = promql_eval_alloc(b->ev, b->many->n, sizeof(*ret->items), &ret->items);
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
        ret->items[ret->n++] = (struct pair){(uint32_t)i, one_of[id]};
    }
    ret->simple = true;
    return NULL;
}

static struct gs_error *label_pairs(struct build *b, struct pairs *p)
{
    struct promql_matrix m;
    struct promql_keys whole = {0};
    struct gs_error *err = promql_eval_matrix(b->ev, &m, p->n);
    if (!err)
        err = promql_eval_alloc(b->ev, p->n, sizeof(*p->labels), &p->labels);
    for (size_t i = 0; i < p->n && !err; i++) {
        err = promql_eval_result_labels(b->ev, b->n, &b->rule, b->include,
                                        b->many->series[p->items[i].many].labels,
                                        b->one->series[p->items[i].one].labels, &p->labels[i]);
        m.series[m.n++].labels = p->labels[i];
    }
    if (!err)
        err = promql_eval_whole_keys(b->ev, &m, &whole);
    if (!err)
        p->simple = whole.n_ids == p->n;
    return err;
}

static const struct pairs *keep_pairs(const struct build *b, const struct gs_buf *key,
                                      struct pairs *p)
{
    struct promql_entry *e = promql_entry_new(b->ev->view);
    if (!e)
        return p;
    struct pairs *kept = promql_entry_copy(e, p, 1, sizeof(*p));
    if (kept && p->simple) {
        kept->items = promql_entry_copy(e, p->items, p->n, sizeof(*p->items));
        kept->labels = promql_entry_copy_labels(e, p->labels, sizeof(*p->labels), p->n);
        kept->set = promql_cache_number(b->ev->engine->cache);
    }
    if (!kept || (p->simple && (!kept->items || !kept->labels))) {
        promql_entry_free(e);
        return p;
    }
    promql_cache_put(b->ev->view, key, e, kept);
    return kept;
}

static struct gs_error *pairs_of(struct build *b, const struct pairs **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    pairs_key(b, &key);
    *ret = promql_cache_get(b->ev->view, &key);
    if (*ret)
        return NULL;
    struct pairs *p;
    struct gs_error *err = promql_eval_alloc(b->ev, 1, sizeof(*p), &p);
    if (!err)
        err = promql_eval_keys(b->ev, &b->rule, b->many, b->one, &b->many_keys, &b->one_keys);
    if (!err)
        err = find_pairs(b, p);
    if (!err && p->simple)
        err = label_pairs(b, p);
    if (!err)
        *ret = keep_pairs(b, &key, p);
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
    const struct pairs *p = NULL;
    double *v;
    struct gs_error *err = promql_eval_names(ev, n->u.binary.labels, &b.rule.names);
    if (!err)
        err = promql_eval_names(ev, n->u.binary.include, &b.include);
    if (!err)
        err = pairs_of(&b, &p);
    if (err || !p->simple)
        return err;
    *ret_done = true;
    err = promql_eval_matrix(ev, ret, p->n);
    if (!err)
        err = promql_eval_columns(ev, p->n, &v);
    if (err)
        return err;
    for (size_t i = 0; i < p->n; i++, v += ev->steps.n) {
        const double *many = b.many->series[p->items[i].many].v;
        const double *one = b.one->series[p->items[i].one].v;
        apply_operator(n, swapped ? one : many, swapped ? many : one, ev->steps.n, v);
        ret->series[ret->n++] = (struct promql_series){p->labels[i], v};
    }
    ret->set = p->set;
    promql_eval_compact(ret);
    return promql_eval_count(ev, ret->n * ev->steps.n);
}
