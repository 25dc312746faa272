// SPDX-License-Identifier: Apache-2.0
// limitk and limit_ratio: a sample of the series of each group.
#include "promql/grouping.h"

#include "base/mem.h"
#include "promql/eval_private.h"

#include <math.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void add_text(struct gs_buf *out, struct gs_slice s)
{
    unsigned char size[4] = {255, (unsigned char)s.len, (unsigned char)(s.len >> 8),
                             (unsigned char)(s.len >> 16)};
    if (s.len < 255)
        gs_buf_add_char(out, (char)s.len);
    else
        gs_buf_add(out, size, sizeof(size));
    gs_buf_add_slice(out, s);
}

// The place of a label set in [0, 1]: its hash in Prometheus, so both select the same series.
static double place_of(const struct promql_eval *ev, struct tsdb_labels l)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct tsdb_pair pair = tsdb_labels_at(l, i);
        add_text(&text, promql_eval_text(ev, pair.name));
        add_text(&text, promql_eval_text(ev, pair.value));
    }
    return (double)XXH64(text.data ? text.data : "", text.len, 0) / 18446744073709551615.0;
}

static bool is_kept(double ratio, double place)
{
    return ratio >= 0 ? place < ratio : place >= 1 + ratio;
}

static struct gs_error *check_ratios(struct promql_eval *ev, const struct promql_node *n,
                                     const double *ratio, bool *ret_some)
{
    char text[GS_DOUBLE_SIZE];
    double low = ratio[0], high = ratio[0];
    bool nan = false;
    for (size_t i = 0; i < ev->steps.n; i++) {
        nan = nan || isnan(ratio[i]);
        low = ratio[i] < low ? ratio[i] : low;
        high = ratio[i] > high ? ratio[i] : high;
    }
    *ret_some = nan || low != 0 || high != 0;
    if (nan)
        return gs_error_new(GS_ECONFLICT, "Ratio value is NaN");
    uint32_t at = n->u.aggregate.param->start;
    if (high > 1)
        promql_annotate_warning(&ev->notes, at,
                                "ratio value should be between -1 and 1, got %s, capping to 1",
                                promql_format_g(high, text));
    if (low < -1)
        promql_annotate_warning(&ev->notes, at,
                                "ratio value should be between -1 and 1, got %s, capping to -1",
                                promql_format_g(low, text));
    return NULL;
}

static struct gs_error *limit_ratio(struct promql_eval *ev, const struct promql_node *n,
                                    const struct promql_grouping *g, const double *ratio)
{
    bool some = false;
    struct gs_error *err = check_ratios(ev, n, ratio, &some);
    for (size_t s = 0; s < g->input.n && !err; s++) {
        double place = some ? place_of(ev, g->input.series[s].labels) : 0;
        for (size_t i = 0; i < ev->steps.n; i++)
            if (ratio[i] == 0 || !is_kept(ratio[i], place))
                g->input.series[s].v[i] = promql_absent_value();
        err = promql_eval_work(ev, ev->steps.n);
    }
    return err;
}

static struct gs_error *limitk(struct promql_eval *ev, const struct promql_grouping *g,
                               const double *k)
{
    size_t *taken;
    bool some = false;
    struct gs_error *err = promql_eval_check_limits(k, ev->steps.n, &some);
    if (!err)
        err = promql_eval_alloc(ev, g->keys.n_ids, sizeof(*taken), &taken);
    for (size_t i = 0; i < ev->steps.n && !err; i++) {
        memset(taken, 0, g->keys.n_ids * sizeof(*taken));
        for (size_t s = 0; s < g->input.n; s++) {
            double *v = &g->input.series[s].v[i];
            size_t *of_group = &taken[g->keys.ids[s]];
            if (promql_absent(*v))
                continue;
            if (some && k[i] >= 1 && (double)*of_group < floor(k[i]))
                (*of_group)++;
            else
                *v = promql_absent_value();
        }
        err = promql_eval_work(ev, g->input.n);
    }
    return err;
}

struct gs_error *promql_eval_limit(struct promql_eval *ev, const struct promql_node *n,
                                   const struct promql_grouping *g, const double *param,
                                   struct promql_matrix *ret)
{
    struct gs_error *err =
        n->u.aggregate.op == PROMQL_LIMITK ? limitk(ev, g, param) : limit_ratio(ev, n, g, param);
    *ret = g->input;
    ret->set = 0;
    promql_eval_compact(ret);
    return err;
}
