// SPDX-License-Identifier: Apache-2.0
// The explanation of a decision: one line per metric, and one line for what limited the result.
#include "hpa/hpa_private.h"

#include "base/num.h"
#include "base/slice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void hpa_explain(struct hpa_evaluation *p, const char *fmt, ...)
{
    if (p->explanation.len)
        gs_buf_add_str(&p->explanation, "; ");
    va_list ap;
    va_start(ap, fmt);
    gs_buf_vaddf(&p->explanation, fmt, ap);
    va_end(ap);
}

// At most `decimals` decimals, without trailing zeros.
static void add_rounded(struct gs_buf *out, double v, int decimals)
{
    char text[64];
    if (!isfinite(v)) {
        gs_buf_add_str(out, isnan(v) ? "undefined" : "infinite");
        return;
    }
    int n = snprintf(text, sizeof(text), "%.*f", decimals, v);
    if (n < 0 || (size_t)n >= sizeof(text)) {
        gs_buf_add_str(out, gs_format_double(v, text));
        return;
    }
    if (strchr(text, '.'))
        while (text[n - 1] == '0')
            n--;
    if (text[n - 1] == '.')
        n--;
    gs_buf_add(out, text, (size_t)n);
}

static void add_milli(struct gs_buf *out, int64_t milli)
{
    add_rounded(out, (double)milli / 1000.0, 3);
}

static void add_tolerance(struct gs_buf *out, struct hpa_tolerance t)
{
    if (t.up == t.down) {
        gs_buf_add_str(out, "±");
        add_rounded(out, t.up * 100, 2);
    } else {
        gs_buf_add_str(out, "-");
        add_rounded(out, t.down * 100, 2);
        gs_buf_add_str(out, "/+");
        add_rounded(out, t.up * 100, 2);
    }
    gs_buf_add_str(out, " %");
}

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void add_skipped_pods(struct gs_buf *out, const struct hpa_metric_result *res)
{
    const struct {
        size_t n;
        const char *what;
    } groups[] = {{res->n_unready, "unready"},
                  {res->n_missing, "without a sample"},
                  {res->n_ignored, "ending"}};
    const char *separator = " (";
    for (size_t i = 0; i < GS_ARRAY_LEN(groups); i++) {
        if (!groups[i].n)
            continue;
        gs_buf_addf(out, "%s%zu %s", separator, groups[i].n, groups[i].what);
        separator = ", ";
    }
    if (*separator == ',')
        gs_buf_add_char(out, ')');
}

// "total 12 without a replica, so there is no average (target 4)"
static void add_total(struct gs_buf *out, const struct hpa_metric_spec *m,
                      const struct hpa_calculation *calc)
{
    gs_buf_add_str(out, "total ");
    add_milli(out, calc->total);
    gs_buf_add_str(out, " without a replica, so there is no average (target ");
    add_milli(out, m->average_value);
    gs_buf_add_char(out, ')');
}

// "average 46 of 2 pods (target 20)"
static void add_observed(struct gs_buf *out, const struct hpa_metric_spec *m,
                         const struct hpa_metric_result *res, const struct hpa_calculation *calc)
{
    if (res->has_utilization) {
        gs_buf_addf(out, "%d %% of requests over %zu pod%s", res->utilization, res->n_ready,
                    plural(res->n_ready));
        add_skipped_pods(out, res);
        gs_buf_addf(out, " (target %d %%)", m->utilization);
    } else if (res->has_value) {
        gs_buf_add_str(out, "value ");
        add_milli(out, res->value);
        gs_buf_add_str(out, " (target ");
        add_milli(out, m->value);
        gs_buf_add_char(out, ')');
    } else {
        bool pods = m->type != HPA_METRIC_OBJECT && m->type != HPA_METRIC_EXTERNAL;
        size_t n = pods ? res->n_ready : calc->multiplier;
        gs_buf_add_str(out, "average ");
        add_milli(out, res->average_value);
        gs_buf_addf(out, " of %zu %s%s", n, pods ? "pod" : "replica", plural(n));
        add_skipped_pods(out, res);
        gs_buf_add_str(out, " (target ");
        add_milli(out, m->average_value);
        gs_buf_add_char(out, ')');
    }
    gs_buf_add_str(out, ", ratio ");
    add_rounded(out, res->ratio, 3);
}

static void add_step(struct gs_buf *out, const struct hpa_evaluation *p,
                     const struct hpa_calculation *calc)
{
    bool filled = calc->step == HPA_STEP_FILLED_WITHIN || calc->step == HPA_STEP_FILLED ||
                  calc->step == HPA_STEP_TURNED;
    if (filled) {
        gs_buf_add_str(out, ", with assumed values for pods without one ");
        add_rounded(out, calc->filled_ratio, 3);
    }
    if (calc->step == HPA_STEP_TURNED) {
        gs_buf_add_str(out, ", which would reverse the direction");
        return;
    }
    if (p->obs->spec_replicas == 0 && calc->step == HPA_STEP_RATIO) {
        gs_buf_add_str(out, ", from zero");
        return;
    }
    bool within = calc->step == HPA_STEP_WITHIN || calc->step == HPA_STEP_FILLED_WITHIN;
    gs_buf_add_str(out, within ? ", inside " : ", outside ");
    add_tolerance(out, p->tolerance);
}

char *hpa_explain_metric(const struct hpa_evaluation *p, size_t metric,
                         const struct hpa_metric_result *res, const struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[metric];
    struct gs_buf out = {0};
    if (hpa_has_extra_value(p->obs, m))
        return hpa_explain_extra(p, res);
    gs_buf_addf(&out, "%s: ", m->name);
    if (!res->has_value && hpa_lacks_replicas(m, p->obs)) {
        add_total(&out, m, calc);
    } else {
        add_observed(&out, m, res, calc);
        add_step(&out, p, calc);
    }
    gs_buf_addf(&out, ": %d replica%s", res->proposal, res->proposal == 1 ? "" : "s");
    return gs_buf_take(&out);
}
