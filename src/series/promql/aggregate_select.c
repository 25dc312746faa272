// SPDX-License-Identifier: Apache-2.0
// topk and bottomk, which select series, and count_values, whose groups come from the values.
#include "promql/eval_private.h"
#include "promql/grouping.h"
#include "promql/parser_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"

#include <math.h>

// --- topk, bottomk ---

struct heap { // of series; the first to be removed is on top
    uint32_t *items;
    size_t len;
};

struct choice {
    const struct promql_matrix *m;
    size_t step;
    bool bottom;
};

static double topk_value(const struct choice *c, uint32_t series)
{
    return c->m->series[series].v[c->step];
}

// a goes before b: the smaller one for topk, the larger for bottomk; NaN before everything.
static bool goes_first(const struct choice *c, uint32_t a, uint32_t b)
{
    double x = topk_value(c, a), y = topk_value(c, b);
    if (isnan(x))
        return true;
    return c->bottom ? x > y : x < y;
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

static void sink(const struct choice *c, struct heap *h, size_t at)
{
    for (;;) {
        size_t left = 2 * at + 1, first = left;
        if (left >= h->len)
            return;
        if (left + 1 < h->len && goes_first(c, h->items[left + 1], h->items[left]))
            first = left + 1;
        if (!goes_first(c, h->items[first], h->items[at]))
            return;
        swap(&h->items[first], &h->items[at]);
        at = first;
    }
}

static void push_heap(const struct choice *c, struct heap *h, uint32_t series)
{
    size_t at = h->len++;
    h->items[at] = series;
    while (at && goes_first(c, h->items[at], h->items[(at - 1) / 2])) {
        swap(&h->items[at], &h->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static void offer(const struct choice *c, struct heap *h, size_t k, uint32_t series)
{
    if (h->len < k) {
        push_heap(c, h, series);
        return;
    }
    double top = topk_value(c, h->items[0]), v = topk_value(c, series);
    bool better = c->bottom ? top > v : top < v;
    if (!better && !(isnan(top) && !isnan(v)))
        return;
    h->items[0] = series;
    sink(c, h, 0);
}

static struct gs_error *heaps_of(struct promql_eval *ev, const struct promql_grouping *g,
                                 struct heap **ret)
{
    struct heap *heaps;
    uint32_t *items;
    struct gs_error *err = promql_eval_alloc(ev, g->keys.n_ids, sizeof(*heaps), &heaps);
    if (!err)
        err = promql_eval_alloc(ev, g->input.n, sizeof(*items), &items);
    if (err)
        return err;
    for (size_t s = 0; s < g->input.n; s++)
        heaps[g->keys.ids[s]].len++;
    for (size_t k = 0; k < g->keys.n_ids; k++) {
        heaps[k].items = items;
        items += heaps[k].len;
        heaps[k].len = 0;
    }
    *ret = heaps;
    return NULL;
}

static size_t limit_of(double k, size_t n)
{
    return k < 1 ? 0 : k > (double)n ? n : (size_t)k;
}

struct gs_error *promql_eval_check_limits(const double *k, size_t n_steps, bool *ret_some)
{
    char text[GS_DOUBLE_SIZE];
    double low = k[0], high = k[0];
    bool nan = false;
    for (size_t i = 0; i < n_steps; i++) {
        nan = nan || isnan(k[i]);
        low = k[i] < low ? k[i] : low;
        high = k[i] > high ? k[i] : high;
    }
    *ret_some = nan || !(high < 1);
    if (!*ret_some)
        return NULL;
    if (nan)
        return gs_error_new(GS_ECONFLICT, "Parameter value is NaN");
    if (low <= -9223372036854775808.0)
        return gs_error_new(GS_ECONFLICT, "Scalar value %s underflows int64",
                            promql_format_g(low, text));
    if (high >= 9223372036854775807.0)
        return gs_error_new(GS_ECONFLICT, "Scalar value %s overflows int64",
                            promql_format_g(high, text));
    return NULL;
}

// Best first: what an instant query shows.
static struct gs_error *heap_in_order(struct promql_eval *ev, const struct promql_grouping *g,
                                      const struct choice *c, struct heap *heaps,
                                      struct promql_matrix *ret)
{
    struct gs_error *err = promql_eval_matrix(ev, ret, g->input.n);
    for (size_t k = 0; k < g->keys.n_ids && !err; k++) {
        size_t n = heaps[k].len;
        while (heaps[k].len) {
            ret->series[ret->n + heaps[k].len - 1] = g->input.series[heaps[k].items[0]];
            heaps[k].items[0] = heaps[k].items[--heaps[k].len];
            sink(c, &heaps[k], 0);
        }
        ret->n += n;
    }
    return err;
}

struct gs_error *promql_eval_topk(struct promql_eval *ev, const struct promql_node *n,
                                  const struct promql_grouping *g, const double *k,
                                  struct promql_matrix *ret)
{
    struct heap *heaps = NULL;
    bool *kept;
    struct choice c = {&g->input, 0, n->u.aggregate.op == PROMQL_BOTTOMK};
    bool some = false;
    struct gs_error *err = promql_eval_check_limits(k, ev->steps.n, &some);
    if (!err)
        err = heaps_of(ev, g, &heaps);
    if (!err)
        err = promql_eval_alloc(ev, g->input.n, sizeof(*kept), &kept);
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        size_t limit = 0;
        c.step = i;
        err = promql_eval_work(ev, g->input.n);
        if (some)
            limit = limit_of(k[i], g->input.n);
        for (size_t id = 0; id < g->keys.n_ids; id++)
            heaps[id].len = 0;
        for (size_t s = 0; s < g->input.n && limit && !err; s++)
            if (!promql_absent(g->input.series[s].v[i]))
                offer(&c, &heaps[g->keys.ids[s]], limit, (uint32_t)s);
        if (ev->steps.n == 1)
            break;
        memset(kept, 0, g->input.n * sizeof(*kept));
        for (size_t id = 0; id < g->keys.n_ids; id++)
            for (size_t h = 0; h < heaps[id].len; h++)
                kept[heaps[id].items[h]] = true;
        for (size_t s = 0; s < g->input.n; s++)
            if (!kept[s])
                g->input.series[s].v[i] = promql_absent_value();
    }
    if (err)
        return err;
    if (ev->steps.n == 1)
        return heap_in_order(ev, g, &c, heaps, ret);
    *ret = g->input;
    promql_eval_compact(ret);
    return NULL;
}

// --- count_values ---

void promql_format_f(struct gs_buf *out, double v)
{
    char text[GS_DOUBLE_SIZE];
    gs_format_double(v, text);
    const char *e = strchr(text, 'e');
    if (!e) {
        gs_buf_add_str(out, text);
        return;
    }
    // d.ddde±xx to plain digits.
    char digits[GS_DOUBLE_SIZE];
    size_t n = 0, point = 0;
    const char *at = text + (*text == '-');
    for (const char *c = at; c < e; c++)
        if (*c != '.')
            digits[n++] = *c;
    point = strchr(text, '.') ? (size_t)(strchr(text, '.') - at) : n;
    long exponent = strtol(e + 1, NULL, 10), whole = (long)point + exponent;
    if (*text == '-')
        gs_buf_add_char(out, '-');
    if (whole <= 0)
        gs_buf_add_str(out, "0.");
    for (long i = whole; i < 0; i++)
        gs_buf_add_char(out, '0');
    for (size_t i = 0; i < n; i++) {
        if (whole > 0 && (long)i == whole)
            gs_buf_add_char(out, '.');
        gs_buf_add_char(out, digits[i]);
    }
    for (long i = (long)n; i < whole; i++)
        gs_buf_add_char(out, '0');
}

// One series for each input series and distinct value of it, with the value as a label: the
// aggregation is then a count by the grouping and that label.
static struct gs_error *labelled(struct promql_eval *ev, const struct promql_matrix *input,
                                 uint32_t label, struct promql_matrix *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t s = 0; s < input->n; s++) {
        size_t first = ret->n;
        struct gs_error *late = promql_eval_work(ev, input->n_steps);
        if (late)
            return late;
        for (size_t i = 0; i < input->n_steps; i++) {
            double v = input->series[s].v[i];
            uint32_t value;
            if (promql_absent(v))
                continue;
            gs_buf_clear(&text);
            promql_format_f(&text, v);
            struct gs_error *err = promql_eval_intern(ev, gs_buf_slice(&text), &value);
            if (err)
                return err;
            size_t at = first;
            while (at < ret->n && tsdb_labels_get(ret->series[at].labels, label) != value)
                at++;
            late = promql_eval_work(ev, at - first);
            if (late)
                return late;
            if (at == ret->n) {
                struct tsdb_labels l;
                struct promql_series *made;
                err = promql_eval_with_label(ev, input->series[s].labels, label, value, &l);
                if (!err)
                    err = promql_eval_add_series(ev, ret, l, &made);
                if (err)
                    return err;
            }
            ret->series[at].v[i] = 1;
        }
    }
    return promql_eval_count(ev, ret->n * ev->steps.n);
}

struct gs_error *promql_eval_count_values(struct promql_eval *ev, const struct promql_node *n,
                                          const struct promql_matrix *input,
                                          struct promql_matrix *ret)
{
    const struct promql_node *param = n->u.aggregate.param;
    while (param->kind == PROMQL_PAREN)
        param = param->u.unary.expr;
    struct promql_matrix values = {.n_steps = ev->steps.n};
    uint32_t label;
    struct gs_slice name = param->u.string;
    if (!name.len || codec_utf8_valid_prefix(name) != name.len) {
        GS_AUTO_BUF struct gs_buf quoted = {0};
        promql_quote(&quoted, name);
        return gs_error_new(GS_ECONFLICT, "invalid label name %s", quoted.data);
    }
    struct gs_error *err = promql_eval_intern(ev, param->u.string, &label);
    if (!err)
        err = labelled(ev, input, label, &values);
    // The label is part of the grouping; with `without`, it is removed if it is listed.
    struct promql_node grouped = *n;
    struct gs_slice *names = NULL;
    const struct promql_names *from = &n->u.aggregate.grouping;
    if (!err)
        err = promql_eval_alloc(ev, from->n + 1, sizeof(*names), &names);
    if (err)
        return err;
    size_t n_names = 0;
    for (size_t i = 0; i < from->n; i++)
        if (n->u.aggregate.without || !gs_slice_eq(from->items[i], param->u.string))
            names[n_names++] = from->items[i];
    if (!n->u.aggregate.without)
        names[n_names++] = param->u.string;
    grouped.u.aggregate.grouping = (struct promql_names){names, n_names};
    grouped.u.aggregate.op = PROMQL_COUNT;
    return promql_eval_aggregate_matrix(ev, &grouped, &values, ret);
}
