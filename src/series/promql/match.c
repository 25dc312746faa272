// SPDX-License-Identifier: Apache-2.0
// Operators on two vectors: matching of series and the labels of results.
#include "promql/grouping.h"

#include "base/mem.h"
#include "promql/eval_private.h"

#include <math.h>

#define NONE UINT32_MAX

static struct gs_error *rule_of(struct promql_eval *ev, const struct promql_node *n,
                                struct promql_key_rule *ret)
{
    *ret = (struct promql_key_rule){.n = n->u.binary.labels.n, .on = n->u.binary.on};
    return promql_eval_names(ev, n->u.binary.labels, &ret->names);
}

// --- and, or, unless ---

// present[id]: a series of m with this id has a value at the step.
static void mark_present(const struct promql_matrix *m, const struct promql_keys *k, size_t step,
                         bool *present)
{
    memset(present, 0, k->n_ids * sizeof(*present));
    for (size_t s = 0; s < m->n; s++)
        if (!promql_absent(m->series[s].v[step]))
            present[k->ids[s]] = true;
}

// Keeps the values at the step whose id is (not) present.
static void filter(struct promql_matrix *m, const struct promql_keys *k, size_t step,
                   const bool *present, bool wanted)
{
    for (size_t s = 0; s < m->n; s++)
        if (present[k->ids[s]] != wanted)
            m->series[s].v[step] = promql_absent_value();
}

static struct gs_error *both(struct promql_eval *ev, const struct promql_matrix *a,
                             const struct promql_matrix *b, struct promql_matrix *ret)
{
    struct gs_error *err = promql_eval_matrix(ev, ret, a->n + b->n);
    if (err)
        return err;
    for (size_t i = 0; i < a->n; i++)
        ret->series[ret->n++] = a->series[i];
    for (size_t i = 0; i < b->n; i++)
        ret->series[ret->n++] = b->series[i];
    return NULL;
}

struct gs_error *promql_eval_sets(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_matrix *lhs, const struct promql_matrix *rhs,
                                  struct promql_matrix *ret)
{
    struct promql_key_rule rule;
    struct promql_keys left = {0}, right = {0};
    bool *present = NULL;
    struct promql_matrix a = *lhs, b = *rhs;
    struct gs_error *err = rule_of(ev, n, &rule);
    if (!err)
        err = promql_eval_keys(ev, &rule, lhs, rhs, &left, &right);
    if (!err)
        err = promql_eval_alloc(ev, left.n_ids + 1, sizeof(*present), &present);
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        err = promql_eval_work(ev, lhs->n + rhs->n);
        if (err)
            break;
        bool is_or = n->u.binary.op == PROMQL_OR;
        mark_present(is_or ? &a : &b, is_or ? &left : &right, i, present);
        filter(is_or ? &b : &a, is_or ? &right : &left, i, present, n->u.binary.op == PROMQL_AND);
    }
    if (!err && n->u.binary.op == PROMQL_OR) {
        promql_eval_compact(&b);
        err = both(ev, &a, &b, ret);
        return err ? err : promql_eval_merge_equal(ev, ret, NULL);
    }
    promql_eval_compact(&a);
    *ret = a;
    return err;
}

// --- arithmetic and comparison ---

struct match {
    struct promql_eval *ev;
    const struct promql_node *n;
    const struct promql_matrix *many, *one;
    bool swapped; // the one side is the left one
    struct promql_key_rule rule;
    const uint32_t *include;
    struct promql_keys many_keys, one_keys;
    uint32_t *current;        // of each id: the one-side series at this step, NONE
    uint32_t *matched;        // of each id: the last step + 1 with a match
    bool fill_many, fill_one; // values for series without a partner on that side
    double many_value, one_value;
    uint32_t *of_one; // of each one-side series without a partner: the result series
    struct {
        uint32_t one, result; // of each many-side series: the last match and the result series
    } * last;
};

static struct gs_error *duplicate_on_one_side(const struct match *m, uint32_t a, uint32_t b)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct tsdb_labels group;
    struct gs_error *err =
        promql_eval_key_labels(m->ev, &m->rule, m->one->series[a].labels, &group);
    if (err)
        return err;
    gs_buf_add_str(&text, "found duplicate series for the match group ");
    promql_eval_print_labels(m->ev, group, &text);
    gs_buf_addf(&text, " on the %s hand-side of the operation: [", m->swapped ? "left" : "right");
    GS_AUTO_BUF struct gs_buf first = {0}, second = {0};
    promql_eval_print_labels(m->ev, m->one->series[a].labels, &first);
    promql_eval_print_labels(m->ev, m->one->series[b].labels, &second);
    bool swap = strcmp(first.data, second.data) > 0;
    gs_buf_addf(&text, "%s, %s", swap ? second.data : first.data, swap ? first.data : second.data);
    gs_buf_add_str(&text, "];many-to-many matching not allowed: matching labels must be unique on "
                          "one side");
    return gs_error_new(GS_ECONFLICT, "%s", text.data);
}

// Finds the one-side series of each id at this step. *ret_any: there is at least one.
static struct gs_error *place_one_side(struct match *m, size_t step, bool *ret_any)
{
    memset(m->current, 0xff, m->one_keys.n_ids * sizeof(*m->current));
    *ret_any = false;
    for (size_t s = 0; s < m->one->n; s++) {
        if (promql_absent(m->one->series[s].v[step]))
            continue;
        uint32_t *at = &m->current[m->one_keys.ids[s]];
        if (*at != NONE)
            return duplicate_on_one_side(m, (uint32_t)s, *at);
        *at = (uint32_t)s;
        *ret_any = true;
    }
    return NULL;
}

bool promql_keeps_result_name(const struct promql_node *n)
{
    return promql_op_is_comparison(n->u.binary.op) &&
           (!n->u.binary.return_bool || (promql_features() & PROMQL_DELAYED_NAMES));
}

struct gs_error *promql_eval_result_labels(struct promql_eval *ev, const struct promql_node *n,
                                           const struct promql_key_rule *rule,
                                           const uint32_t *include, struct tsdb_labels many,
                                           struct tsdb_labels one, struct tsdb_labels *ret)
{
    bool one_to_one = n->u.binary.card == PROMQL_ONE_TO_ONE;
    struct tsdb_labels l = many;
    struct gs_error *err = NULL;
    if (!promql_keeps_result_name(n))
        err = promql_eval_without_name(ev, l, &l);
    if (!err && one_to_one && rule->on)
        err = promql_eval_key_labels(ev, rule, l, &l);
    for (size_t i = 0; i < rule->n && one_to_one && !rule->on && !err; i++)
        if (tsdb_labels_get(l, rule->names[i]) != TSDB_SYMBOL_EMPTY)
            err = promql_eval_with_label(ev, l, rule->names[i], TSDB_SYMBOL_EMPTY, &l);
    for (size_t i = 0; i < n->u.binary.include.n && !one_to_one && !err; i++)
        err = promql_eval_with_label(ev, l, include[i], tsdb_labels_get(one, include[i]), &l);
    *ret = l;
    return err;
}

// NONE: a fill value, which has the labels that are matched.
static struct gs_error *result_labels(const struct match *m, uint32_t many, uint32_t one,
                                      struct tsdb_labels *ret)
{
    struct tsdb_labels of_many = {0}, of_one = {0};
    struct gs_error *err = NULL;
    if (many != NONE)
        of_many = m->many->series[many].labels;
    if (one != NONE)
        of_one = m->one->series[one].labels;
    if (many == NONE)
        err = promql_eval_key_labels(m->ev, &m->rule, of_one, &of_many);
    else if (one == NONE)
        err = promql_eval_key_labels(m->ev, &m->rule, of_many, &of_one);
    return err ? err
               : promql_eval_result_labels(m->ev, m->n, &m->rule, m->include, of_many, of_one, ret);
}

static struct gs_error *add_result(struct match *m, uint32_t many, uint32_t one,
                                   struct promql_matrix *ret)
{
    struct tsdb_labels labels;
    struct promql_series *s;
    struct gs_error *err = result_labels(m, many, one, &labels);
    if (!err)
        err = promql_eval_add_series(m->ev, ret, labels, &s);
    if (!err)
        s->drop_name = m->n->u.binary.return_bool;
    return err;
}

// Returns the result series of a match.
static struct gs_error *result_series(struct match *m, uint32_t many, uint32_t one,
                                      struct promql_matrix *ret, double **ret_v)
{
    bool depends = m->n->u.binary.include.n > 0;
    if (many == NONE) {
        struct gs_error *err = m->of_one[one] == NONE ? add_result(m, many, one, ret) : NULL;
        if (err)
            return err;
        if (m->of_one[one] == NONE)
            m->of_one[one] = (uint32_t)(ret->n - 1);
        *ret_v = ret->series[m->of_one[one]].v;
        return NULL;
    }
    if (m->last[many].result == NONE || (depends && m->last[many].one != one)) {
        struct gs_error *err = add_result(m, many, one, ret);
        if (err)
            return err;
        m->last[many].one = one;
        m->last[many].result = (uint32_t)(ret->n - 1);
    }
    *ret_v = ret->series[m->last[many].result].v;
    return NULL;
}

// A comparison is false: the match counts when results with equal labels are searched, and is then
// removed.
#define FILTERED_BITS (PROMQL_ABSENT_BITS + 1)

static double filtered_out(void)
{
    uint64_t bits = FILTERED_BITS;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

// A stored NaN may have these bits.
static double without_filtered_bits(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits == FILTERED_BITS ? (double)NAN : v;
}

static void remove_filtered(struct promql_matrix *m)
{
    for (size_t s = 0; s < m->n; s++) {
        for (size_t i = 0; i < m->n_steps; i++) {
            uint64_t bits;
            memcpy(&bits, &m->series[s].v[i], sizeof(bits));
            if (bits == FILTERED_BITS)
                m->series[s].v[i] = promql_absent_value();
        }
    }
    promql_eval_compact(m);
}

// One match. NONE: the fill value of that side.
static struct gs_error *apply_match(struct match *m, uint32_t many, uint32_t one, size_t step,
                                    struct promql_matrix *ret)
{
    double a = many == NONE ? m->many_value : m->many->series[many].v[step];
    double b = one == NONE ? m->one_value : m->one->series[one].v[step], *v;
    uint32_t id = many == NONE ? m->one_keys.ids[one] : m->many_keys.ids[many];
    bool keep, one_to_one = m->n->u.binary.card == PROMQL_ONE_TO_ONE;
    double r = promql_apply(m->n->u.binary.op, m->swapped ? b : a, m->swapped ? a : b, &keep);
    if (one_to_one && m->matched[id] == step + 1)
        return gs_error_new(GS_ECONFLICT, "multiple matches for labels: many-to-one matching must "
                                          "be explicit (group_left/group_right)");
    m->matched[id] = (uint32_t)step + 1;
    if (m->n->u.binary.return_bool)
        r = keep;
    else if (!keep && one_to_one)
        return NULL;
    else if (!keep)
        r = filtered_out();
    else
        r = without_filtered_bits(r);
    struct gs_error *err = result_series(m, many, one, ret, &v);
    if (!err)
        v[step] = r;
    return err;
}

static struct gs_error *match_step(struct match *m, size_t step, struct promql_matrix *ret)
{
    struct gs_error *err = NULL;
    for (size_t s = 0; s < m->many->n && !err; s++) {
        uint32_t one = m->current[m->many_keys.ids[s]];
        if (!promql_absent(m->many->series[s].v[step]) && (one != NONE || m->fill_one))
            err = apply_match(m, (uint32_t)s, one, step, ret);
    }
    for (size_t s = 0; m->fill_many && s < m->one->n && !err; s++)
        if (!promql_absent(m->one->series[s].v[step]) && m->matched[m->one_keys.ids[s]] != step + 1)
            err = apply_match(m, NONE, (uint32_t)s, step, ret);
    return err;
}

static struct gs_error *match_init(struct match *m, const struct promql_matrix *lhs,
                                   const struct promql_matrix *rhs)
{
    m->swapped = m->n->u.binary.card == PROMQL_ONE_TO_MANY;
    m->many = m->swapped ? rhs : lhs;
    m->one = m->swapped ? lhs : rhs;
    m->fill_many = m->swapped ? m->n->u.binary.has_fill_right : m->n->u.binary.has_fill_left;
    m->fill_one = m->swapped ? m->n->u.binary.has_fill_left : m->n->u.binary.has_fill_right;
    m->many_value = m->swapped ? m->n->u.binary.fill_right : m->n->u.binary.fill_left;
    m->one_value = m->swapped ? m->n->u.binary.fill_left : m->n->u.binary.fill_right;
    struct gs_error *err = rule_of(m->ev, m->n, &m->rule);
    if (!err)
        err = promql_eval_names(m->ev, m->n->u.binary.include, &m->include);
    if (!err)
        err = promql_eval_keys(m->ev, &m->rule, m->many, m->one, &m->many_keys, &m->one_keys);
    if (!err)
        err = promql_eval_alloc(m->ev, m->one_keys.n_ids, sizeof(*m->current), &m->current);
    if (!err)
        err = promql_eval_alloc(m->ev, m->one_keys.n_ids, sizeof(*m->matched), &m->matched);
    if (!err)
        err = promql_eval_alloc(m->ev, m->many->n, sizeof(*m->last), &m->last);
    if (!err)
        err = promql_eval_alloc(m->ev, m->one->n, sizeof(*m->of_one), &m->of_one);
    for (size_t i = 0; !err && i < m->one->n; i++)
        m->of_one[i] = NONE;
    for (size_t i = 0; !err && i < m->many->n; i++)
        m->last[i].one = m->last[i].result = NONE;
    return err;
}

struct gs_error *promql_eval_vectors(struct promql_eval *ev, const struct promql_node *n,
                                     const struct promql_matrix *lhs,
                                     const struct promql_matrix *rhs, struct promql_matrix *ret)
{
    ret->n_steps = ev->steps.n;
    bool fills = n->u.binary.has_fill_left || n->u.binary.has_fill_right;
    if ((!lhs->n && !rhs->n) || (!fills && (!lhs->n || !rhs->n)))
        return NULL;
    bool done = false;
    struct gs_error *known = fills ? NULL : promql_eval_cached_vectors(ev, n, lhs, rhs, &done, ret);
    if (known || done)
        return known;
    struct match m = {.ev = ev, .n = n};
    struct gs_error *err = match_init(&m, lhs, rhs);
    if (!err)
        err = promql_eval_matrix(ev, ret, m.many->n);
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        err = promql_eval_work(ev, lhs->n + rhs->n);
        if (err)
            break;
        bool any;
        if (!fills && !promql_eval_has_value_at(m.many, i))
            continue;
        err = place_one_side(&m, i, &any);
        if (!err && (any || m.fill_one))
            err = match_step(&m, i, ret);
    }
    if (!err)
        err = promql_eval_count(ev, ret->n * ev->steps.n);
    if (!err)
        err = promql_eval_merge_equal(ev, ret,
                                      n->u.binary.card == PROMQL_ONE_TO_ONE
                                          ? NULL
                                          : "multiple matches for labels: grouping labels must "
                                            "ensure unique matches");
    if (!err && n->u.binary.card != PROMQL_ONE_TO_ONE)
        remove_filtered(ret);
    return err;
}
