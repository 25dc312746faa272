// SPDX-License-Identifier: Apache-2.0
// info(): adds labels of info series, such as target_info, with the same instance and job.
// https://prometheus.io/docs/prometheus/latest/querying/functions/#info
#include "promql/function_table.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/grouping.h"
#include "promql/selectors.h"

#define NONE UINT32_MAX

struct enrichment {
    struct promql_eval *ev;
    struct promql_matrix base, info; // values of info: the times of its samples
    const struct tsdb_matcher *data; // matchers of labels, without __name__
    size_t n_data;
    struct promql_keys base_keys, info_keys; // of instance and job
    uint32_t *next;                          // the next info series with the same key
    uint32_t *head;                          // the first info series of each key
    uint32_t *match;                         // of a step: the matching info series, up to NONE
    uint32_t *last_match;                    // of the step before
    const bool *ignored;                     // base series that are info series
};

static bool is_positive(const struct tsdb_matcher *m)
{
    return m->op == TSDB_EQ || m->op == TSDB_RE;
}

static bool is_name(const struct tsdb_matcher *m)
{
    return gs_slice_eq_str(m->name, "__name__");
}

// The reference time of the selectors below n. Without a common one it is the evaluation time.
struct reference {
    struct promql_shift shift;
    bool found, differs;
};

static void add_reference(const struct promql_eval *ev, const struct promql_shift *s,
                          const struct promql_shift *outer, struct reference *r)
{
    struct promql_shift found = {.offset_ms = s->offset_ms};
    const struct promql_shift *at = s->at != PROMQL_AT_NONE ? s : outer;
    if (s->at == PROMQL_AT_NONE && outer)
        found.offset_ms += outer->offset_ms;
    if (at && at->at != PROMQL_AT_NONE) {
        struct promql_shift only = *at;
        only.offset_ms = 0;
        found.at = PROMQL_AT_TIME;
        found.at_ms = promql_shifted(ev, &only, 0) - found.offset_ms;
        found.offset_ms = 0;
    }
    bool same = found.at == r->shift.at && found.at_ms == r->shift.at_ms &&
                found.offset_ms == r->shift.offset_ms;
    r->differs = r->differs || (r->found && !same);
    if (!r->found)
        r->shift = found;
    r->found = true;
}

// Returns whether a selector is below n. A vector without one uses the evaluation time.
static bool find_reference(const struct promql_eval *ev, const struct promql_node *n,
                           const struct promql_shift *outer, struct reference *r)
{
    if (!n || (n->type != PROMQL_VECTOR && n->type != PROMQL_MATRIX))
        return false;
    bool any = false;
    struct promql_shift sum;
    switch (n->kind) {
    case PROMQL_SELECTOR:
        add_reference(ev, &n->u.selector.shift, outer, r);
        return true;
    case PROMQL_SUBQUERY:
        sum = n->u.subquery.shift;
        if (outer && sum.at == PROMQL_AT_NONE) {
            sum = *outer;
            sum.offset_ms += n->u.subquery.shift.offset_ms;
        }
        any = find_reference(ev, n->u.subquery.expr, &sum, r);
        break;
    case PROMQL_PAREN:
    case PROMQL_UNARY:
        any = find_reference(ev, n->u.unary.expr, outer, r);
        break;
    case PROMQL_BINARY:
        any = find_reference(ev, n->u.binary.lhs, outer, r);
        any = find_reference(ev, n->u.binary.rhs, outer, r) || any;
        break;
    case PROMQL_AGGREGATE:
        any = find_reference(ev, n->u.aggregate.expr, outer, r);
        break;
    case PROMQL_CALL:
        for (size_t i = 0; i < n->u.call.n_args; i++) {
            bool selects = i == 0 || n->u.call.fn->special != promql_special_info;
            any = (selects && find_reference(ev, n->u.call.args[i], outer, r)) || any;
        }
        break;
    default:
        break;
    }
    r->differs = r->differs || !any;
    return any;
}

// The matchers that select info series: those of the second argument, with a default for the name.
static struct gs_error *info_matchers(struct promql_eval *ev, const struct promql_node *labels,
                                      const struct tsdb_regex *info_names, struct promql_node *ret)
{
    size_t n_given = labels ? labels->u.selector.n_matchers : 0, n = 0;
    struct tsdb_matcher *m;
    bool named = false, positive = false;
    struct gs_error *err = promql_eval_alloc(ev, n_given + 1, sizeof(*m), &m);
    for (size_t i = 0; i < n_given && !err; i++) {
        m[n++] = labels->u.selector.matchers[i];
        named = named || is_name(&m[i]);
        positive = positive || (is_name(&m[i]) && is_positive(&m[i]));
    }
    if (err)
        return err;
    if (!named)
        m[n++] =
            (struct tsdb_matcher){GS_SLICE("__name__"), GS_SLICE("target_info"), TSDB_EQ, NULL};
    else if (!positive)
        m[n++] = (struct tsdb_matcher){GS_SLICE("__name__"), GS_SLICE(".+_info"), TSDB_RE,
                                       (struct tsdb_regex *)info_names};
    ret->u.selector.matchers = m;
    ret->u.selector.n_matchers = n;
    return NULL;
}

static bool matches_names(const struct promql_node *selector, struct gs_slice name)
{
    for (size_t i = 0; i < selector->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &selector->u.selector.matchers[i];
        if (is_name(m) && !tsdb_matcher_matches(m, name))
            return false;
    }
    return true;
}

// Label sets without instance and job have no info series.
static bool is_identified(struct tsdb_labels l, const struct promql_key_rule *rule)
{
    for (size_t i = 0; i < rule->n; i++)
        if (tsdb_labels_get(l, rule->names[i]) != TSDB_SYMBOL_EMPTY)
            return true;
    return false;
}

static struct gs_error *match_series(struct enrichment *e)
{
    static const struct gs_slice identifying[] = {{"instance", 8}, {"job", 3}};
    struct promql_key_rule rule = {.n = 2, .on = true};
    struct promql_eval *ev = e->ev;
    struct gs_error *err =
        promql_eval_names(ev, (struct promql_names){identifying, 2}, &rule.names);
    if (!err)
        err = promql_eval_keys(ev, &rule, &e->base, &e->info, &e->base_keys, &e->info_keys);
    if (!err)
        err = promql_eval_alloc(ev, e->base_keys.n_ids + 1, sizeof(*e->head), &e->head);
    if (!err)
        err = promql_eval_alloc(ev, e->info.n, sizeof(*e->next), &e->next);
    if (!err)
        err = promql_eval_alloc(ev, e->info.n + 1, sizeof(*e->match), &e->match);
    if (!err)
        err = promql_eval_alloc(ev, e->info.n + 1, sizeof(*e->last_match), &e->last_match);
    if (err)
        return err;
    memset(e->head, 0xff, (e->base_keys.n_ids + 1) * sizeof(*e->head));
    for (size_t i = e->info.n; i-- > 0;) {
        uint32_t *head = &e->head[e->info_keys.ids[i]];
        if (!is_identified(e->info.series[i].labels, &rule))
            continue;
        e->next[i] = *head;
        *head = (uint32_t)i;
    }
    return NULL;
}

static struct gs_error *duplicate(const struct enrichment *e, uint32_t a, uint32_t b, double time)
{
    GS_AUTO_BUF struct gs_buf first = {0}, second = {0};
    promql_eval_print_labels(e->ev, e->info.series[a].labels, &first);
    promql_eval_print_labels(e->ev, e->info.series[b].labels, &second);
    long long ms = (long long)(time * 1000 + 0.5);
    return gs_error_new(GS_ECONFLICT,
                        "found duplicate series for info metric: existing %s @ %lld, new %s @ %lld",
                        first.data, ms, second.data, ms);
}

static uint32_t name_of(const struct enrichment *e, uint32_t info)
{
    return tsdb_labels_get(e->info.series[info].labels, TSDB_SYMBOL_NAME);
}

// The info series of a base series at a step, the newest one of each name, in e->match.
static struct gs_error *find_matches(struct enrichment *e, size_t base, size_t step)
{
    size_t n = 0;
    for (uint32_t i = e->head[e->base_keys.ids[base]]; i != NONE; i = e->next[i]) {
        double t = e->info.series[i].v[step];
        size_t k = 0;
        struct gs_error *err = promql_eval_work(e->ev, n + 1);
        if (err)
            return err;
        if (promql_absent(t))
            continue;
        while (k < n && name_of(e, e->match[k]) != name_of(e, i))
            k++;
        double other = k < n ? e->info.series[e->match[k]].v[step] : 0;
        if (k < n && other == t)
            return duplicate(e, e->match[k], i, t);
        if (k == n)
            n++;
        else if (other > t)
            continue;
        e->match[k] = i;
    }
    e->match[n] = NONE;
    return NULL;
}

static bool is_wanted(const struct enrichment *e, struct gs_slice name)
{
    for (size_t i = 0; i < e->n_data; i++)
        if (gs_slice_eq(e->data[i].name, name))
            return true;
    return e->n_data == 0;
}

static struct gs_error *add_labels(const struct enrichment *e, struct tsdb_labels base,
                                   struct tsdb_labels *ret)
{
    *ret = base;
    for (const uint32_t *m = e->match; *m != NONE; m++) {
        struct tsdb_labels info = e->info.series[*m].labels;
        for (size_t i = 0; i < info.n; i++) { // without its name
            uint32_t name = info.pairs[i].name, value = info.pairs[i].value;
            struct gs_slice text = promql_eval_text(e->ev, name);
            if (promql_is_metadata(e->ev, name) || !is_wanted(e, text) ||
                tsdb_labels_get(base, name) != TSDB_SYMBOL_EMPTY)
                continue;
            uint32_t before = tsdb_labels_get(*ret, name);
            if (before != TSDB_SYMBOL_EMPTY && before != value)
                return gs_error_new(GS_ECONFLICT, "conflicting label: " GS_SLICE_FMT,
                                    GS_SLICE_ARG(text));
            struct gs_error *err = promql_eval_with_label(e->ev, *ret, name, value, ret);
            if (err)
                return err;
        }
    }
    return NULL;
}

// Without info series, a base series has a result if its labels could be those of one.
static bool needs_info(const struct enrichment *e)
{
    for (size_t i = 0; i < e->n_data; i++)
        if (!tsdb_matcher_matches(&e->data[i], GS_SLICE("")))
            return true;
    return false;
}

static bool same_matches(const uint32_t *a, const uint32_t *b)
{
    for (; *a == *b; a++, b++)
        if (*a == NONE)
            return true;
    return false;
}

static void swap_matches(struct enrichment *e)
{
    uint32_t *match = e->match;
    e->match = e->last_match;
    e->last_match = match;
}

static struct gs_error *enrich_series(struct enrichment *e, size_t base, struct promql_matrix *ret)
{
    const struct promql_series *s = &e->base.series[base];
    size_t made = SIZE_MAX; // result series of the last step
    struct tsdb_labels last = {0};
    bool needs = needs_info(e);
    struct gs_error *err = promql_eval_work(e->ev, e->base.n_steps);
    for (size_t i = 0; i < e->ev->steps.n && !err; i++) {
        struct tsdb_labels labels = s->labels;
        if (promql_absent(s->v[i]))
            continue;
        if (!e->ignored[base]) {
            err = find_matches(e, base, i);
            if (!err && e->match[0] == NONE && needs)
                continue;
            if (!err && made != SIZE_MAX && same_matches(e->match, e->last_match))
                labels = last;
            else if (!err)
                err = add_labels(e, s->labels, &labels);
            swap_matches(e);
        }
        bool same = made != SIZE_MAX && tsdb_labels_equal(labels, last);
        if (!err && !same) {
            struct promql_series *added;
            err = promql_eval_add_series(e->ev, ret, labels, &added);
            if (!err)
                added->drop_name = s->drop_name;
            made = ret->n - 1;
            last = labels;
        }
        if (!err)
            ret->series[made].v[i] = s->v[i];
    }
    return err;
}

static struct gs_error *enrich(struct enrichment *e, const struct promql_node *selector,
                               struct promql_matrix *ret)
{
    bool *ignored;
    struct gs_error *err = match_series(e);
    if (!err)
        err = promql_eval_alloc(e->ev, e->base.n, sizeof(*ignored), &ignored);
    ret->n_steps = e->ev->steps.n;
    for (size_t i = 0; i < e->base.n && !err; i++)
        ignored[i] = matches_names(
            selector,
            promql_eval_text(e->ev, tsdb_labels_get(e->base.series[i].labels, TSDB_SYMBOL_NAME)));
    if (err)
        return err;
    e->ignored = ignored;
    for (size_t i = 0; i < e->base.n && !err; i++)
        err = enrich_series(e, i, ret);
    return err ? err : promql_eval_merge_equal(e->ev, ret, NULL);
}

static struct gs_error *data_matchers(struct enrichment *e, const struct promql_node *labels)
{
    struct tsdb_matcher *m;
    size_t n_given = labels ? labels->u.selector.n_matchers : 0;
    struct gs_error *err = promql_eval_alloc(e->ev, n_given, sizeof(*m), &m);
    for (size_t i = 0; i < n_given && !err; i++)
        if (!is_name(&labels->u.selector.matchers[i]))
            m[e->n_data++] = labels->u.selector.matchers[i];
    e->data = err ? NULL : m;
    return err;
}

struct gs_error *promql_special_info(struct promql_eval *ev, const struct promql_node *call,
                                     struct promql_matrix *ret)
{
    const struct promql_node *labels = call->u.call.n_args > 1 ? call->u.call.args[1] : NULL;
    struct enrichment e = {.ev = ev};
    struct promql_node selector = {.kind = PROMQL_SELECTOR, .type = PROMQL_VECTOR};
    struct reference r = {0};
    struct tsdb_regex *names = NULL;
    struct gs_error *err = tsdb_regex_new(GS_SLICE(".+_info"), &names);
    find_reference(ev, call->u.call.args[0], NULL, &r);
    if (r.found && !r.differs)
        selector.u.selector.shift = r.shift;
    if (!err)
        err = promql_eval_node(ev, call->u.call.args[0], &e.base);
    if (!err)
        err = info_matchers(ev, labels, names, &selector);
    if (!err)
        err = data_matchers(&e, labels);
    if (!err)
        err = promql_eval_sample_times(ev, &selector, &e.info);
    e.info.set = 0;
    if (!err)
        err = enrich(&e, &selector, ret);
    tsdb_regex_free(names);
    return err;
}
