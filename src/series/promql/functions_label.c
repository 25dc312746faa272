// SPDX-License-Identifier: Apache-2.0
// Functions that change labels or sort by them.
#include "promql/eval_private.h"
#include "promql/function_table.h"
#include "promql/parser_private.h"

#include "base/mem.h"
#include "codec/encoding.h"

#include <ctype.h>

enum { WORK_OF_LABELS = 64 }; // making a label set takes as long as reading so many values

static struct gs_slice string_arg(const struct promql_node *call, size_t i)
{
    const struct promql_node *n = call->u.call.args[i];
    while (n->kind == PROMQL_PAREN)
        n = n->u.unary.expr;
    return n->u.string;
}

static struct gs_slice label_of(const struct promql_eval *ev, struct tsdb_labels l,
                                struct gs_slice name)
{
    if (gs_slice_eq_str(name, "__name__"))
        return promql_eval_text(ev, l.metric);
    for (size_t i = 0; i < l.n; i++)
        if (gs_slice_eq(promql_eval_text(ev, l.pairs[i].name), name))
            return promql_eval_text(ev, l.pairs[i].value);
    return GS_SLICE("");
}

static struct gs_error *set_label(struct promql_eval *ev, struct promql_series *s,
                                  struct gs_slice name, struct gs_slice value)
{
    uint32_t n, v = TSDB_SYMBOL_EMPTY;
    if (gs_slice_eq_str(name, "__name__"))
        s->drop_name = false; // the new name stays
    struct gs_error *err = promql_eval_intern(ev, name, &n);
    if (!err && value.len)
        err = promql_eval_intern(ev, value, &v);
    return err ? err : promql_eval_with_label(ev, s->labels, n, v, &s->labels);
}

static struct gs_error *value_too_long(const char *function)
{
    return gs_error_new(GS_ELIMIT, "%s() makes a label value of more than %zu bytes", function,
                        METRICS_MAX_MADE_VALUE);
}

static struct gs_error *check_name(struct gs_slice name, const char *what, const char *function)
{
    if (name.len && codec_utf8_valid_prefix(name) == name.len)
        return NULL;
    return gs_error_new(GS_ECONFLICT, "invalid %s label name in %s(): " GS_SLICE_FMT, what,
                        function, GS_SLICE_ARG(name));
}

static struct gs_error *replace_in(struct promql_eval *ev, struct promql_matrix *m,
                                   const struct promql_node *call, const struct tsdb_regex *regex)
{
    struct gs_slice dst = string_arg(call, 1), replacement = string_arg(call, 2);
    GS_AUTO_BUF struct gs_buf value = {0};
    for (size_t i = 0; i < m->n; i++) {
        gs_buf_clear(&value);
        struct gs_slice src = label_of(ev, m->series[i].labels, string_arg(call, 3));
        value.limit = src.len > METRICS_MAX_MADE_VALUE ? src.len : METRICS_MAX_MADE_VALUE;
        if (!tsdb_regex_expand(regex, src, replacement, &value))
            continue;
        struct gs_error *err = value.overflow
                                   ? value_too_long("label_replace")
                                   : set_label(ev, &m->series[i], dst, gs_buf_slice(&value));
        if (!err)
            err = promql_eval_work(ev, WORK_OF_LABELS + src.len + value.len);
        if (err)
            return err;
    }
    return promql_eval_merge_equal(ev, m, NULL);
}

struct gs_error *promql_special_label_replace(struct promql_eval *ev,
                                              const struct promql_node *call,
                                              struct promql_matrix *ret)
{
    struct gs_slice pattern = string_arg(call, 4);
    struct tsdb_regex *regex;
    struct gs_error *err = tsdb_regex_new(pattern, &regex);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_ECONFLICT,
                            "invalid regular expression in label_replace(): " GS_SLICE_FMT,
                            GS_SLICE_ARG(pattern));
    }
    struct promql_matrix m = {0};
    err = check_name(string_arg(call, 1), "destination", "label_replace");
    if (!err)
        err = promql_eval_node(ev, call->u.call.args[0], &m);
    if (!err)
        err = replace_in(ev, &m, call, regex);
    tsdb_regex_free(regex);
    if (!err)
        *ret = m;
    return err;
}

struct gs_error *promql_special_label_join(struct promql_eval *ev, const struct promql_node *call,
                                           struct promql_matrix *ret)
{
    struct gs_slice dst = string_arg(call, 1), separator = string_arg(call, 2);
    struct gs_error *err = check_name(dst, "destination", "label_join");
    for (size_t i = 3; i < call->u.call.n_args && !err; i++)
        err = check_name(string_arg(call, i), "source", "label_join");
    struct promql_matrix m = {0};
    if (!err)
        err = promql_eval_node(ev, call->u.call.args[0], &m);
    GS_AUTO_BUF struct gs_buf value = {.limit = METRICS_MAX_MADE_VALUE};
    for (size_t i = 0; i < m.n && !err; i++) {
        gs_buf_clear(&value);
        for (size_t k = 3; k < call->u.call.n_args; k++) {
            if (k > 3)
                gs_buf_add_slice(&value, separator);
            gs_buf_add_slice(&value, label_of(ev, m.series[i].labels, string_arg(call, k)));
        }
        err = value.overflow ? value_too_long("label_join")
                             : set_label(ev, &m.series[i], dst, gs_buf_slice(&value));
        if (!err)
            err = promql_eval_work(ev, WORK_OF_LABELS + value.len);
    }
    if (!err)
        err = promql_eval_merge_equal(ev, &m, NULL);
    if (!err)
        *ret = m;
    return err;
}

// --- sort_by_label ---

// Natural order: runs of digits are compared as numbers, the rest by byte. "gpu2" is before
// "gpu10".
static int compare_naturally(struct gs_slice a, struct gs_slice b)
{
    size_t i = 0, k = 0;
    while (i < a.len && k < b.len) {
        if (!isdigit((unsigned char)a.data[i]) || !isdigit((unsigned char)b.data[k])) {
            if (a.data[i] != b.data[k])
                return (unsigned char)a.data[i] < (unsigned char)b.data[k] ? -1 : 1;
            i++, k++;
            continue;
        }
        while (i < a.len && a.data[i] == '0')
            i++;
        while (k < b.len && b.data[k] == '0')
            k++;
        size_t x = i, y = k;
        while (x < a.len && isdigit((unsigned char)a.data[x]))
            x++;
        while (y < b.len && isdigit((unsigned char)b.data[y]))
            y++;
        if (x - i != y - k)
            return x - i < y - k ? -1 : 1;
        int order = memcmp(a.data + i, b.data + k, x - i);
        if (order)
            return order;
        i = x, k = y;
    }
    return (a.len - i > b.len - k) - (a.len - i < b.len - k);
}

struct order {
    struct promql_eval *ev;
    const struct promql_node *call;
};

static int compare_sets(const struct promql_eval *ev, struct tsdb_labels a, struct tsdb_labels b)
{
    size_t n_a = tsdb_labels_len(a), n_b = tsdb_labels_len(b);
    for (size_t i = 0; i < n_a && i < n_b; i++) {
        struct tsdb_pair x = tsdb_labels_at(a, i), y = tsdb_labels_at(b, i);
        int order = gs_slice_compare(promql_eval_text(ev, x.name), promql_eval_text(ev, y.name));
        if (!order)
            order = gs_slice_compare(promql_eval_text(ev, x.value), promql_eval_text(ev, y.value));
        if (order)
            return order;
    }
    return (n_a > n_b) - (n_a < n_b);
}

static int compare_series(const void *a, const void *b, void *arg)
{
    const struct order *o = arg;
    const struct promql_series *x = a, *y = b;
    for (size_t i = 1; i < o->call->u.call.n_args; i++) {
        struct gs_slice name = string_arg(o->call, i);
        int order =
            compare_naturally(label_of(o->ev, x->labels, name), label_of(o->ev, y->labels, name));
        if (order)
            return order;
    }
    return compare_sets(o->ev, x->labels, y->labels);
}

static int compare_series_desc(const void *a, const void *b, void *arg)
{
    return compare_series(b, a, arg);
}

static struct gs_error *sort_by_label(struct promql_eval *ev, const struct promql_node *call,
                                      int (*compare)(const void *, const void *, void *),
                                      struct promql_matrix *ret)
{
    struct promql_matrix m = {0};
    promql_annotate_ranged_sort(ev, call);
    struct gs_error *err = promql_eval_node(ev, call->u.call.args[0], &m);
    if (err)
        return err;
    struct order o = {ev, call};
    if (m.n)
        qsort_r(m.series, m.n, sizeof(*m.series), compare, &o);
    *ret = m;
    return NULL;
}

struct gs_error *promql_special_sort_by_label(struct promql_eval *ev,
                                              const struct promql_node *call,
                                              struct promql_matrix *ret)
{
    return sort_by_label(ev, call, compare_series, ret);
}

struct gs_error *promql_special_sort_by_label_desc(struct promql_eval *ev,
                                                   const struct promql_node *call,
                                                   struct promql_matrix *ret)
{
    return sort_by_label(ev, call, compare_series_desc, ret);
}
