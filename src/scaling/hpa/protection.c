// SPDX-License-Identifier: Apache-2.0
// Two protections that an object switches on by an annotation: credit for pods that are coming, and
// a check before scaling down that the remaining pods can take the load. Without the annotations,
// decisions are those of kube-controller-manager.
#include "hpa/hpa_private.h"

#include "base/num.h"
#include "base/slice.h"
#include "kube/object.h"
#include "startup/credit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- annotations ---

static struct gs_error *read_switch(const json_t *object, const char *name, bool *ret)
{
    const char *text = kube_annotation(object, name);
    bool on = gs_streq(text, "true");
    if (text && !on && !gs_streq(text, "false"))
        return gs_error_new(GS_EINVAL, "annotation %s: \"%s\": want \"true\" or \"false\"", name,
                            text);
    *ret = on;
    return NULL;
}

struct gs_error *hpa_check_protection(const json_t *object)
{
    bool on;
    struct gs_error *err = read_switch(object, HPA_CREDIT_ANNOTATION, &on);
    return err ? err : read_switch(object, HPA_DOWN_CHECK_ANNOTATION, &on);
}

void hpa_read_protection(const json_t *object, struct hpa_spec *ret)
{
    gs_error_free(read_switch(object, HPA_CREDIT_ANNOTATION, &ret->credit));
    gs_error_free(read_switch(object, HPA_DOWN_CHECK_ANNOTATION, &ret->down_check));
}

// --- credit ---

// Metrics of waiting work can grow without limit. Those of resources cannot: their calculation
// counts pods without a value as idle.
static bool can_wait(const struct hpa_observation *obs, const struct hpa_metric_spec *m)
{
    if (hpa_has_extra_value(obs, m))
        return false;
    return m->type == HPA_METRIC_PODS || m->type == HPA_METRIC_OBJECT ||
           m->type == HPA_METRIC_EXTERNAL;
}

// What the metric measured, of all pods together.
static double total_of(const struct hpa_metric_spec *m, const struct hpa_metric_result *res,
                       const struct hpa_calculation *calc)
{
    if (res->has_value)
        return (double)res->value / 1000;
    if (m->type == HPA_METRIC_PODS)
        return (double)res->average_value / 1000 * (double)res->n_ready;
    return (double)calc->total / 1000;
}

void hpa_apply_credit(struct hpa_evaluation *p, size_t metric, struct hpa_metric_result *res,
                      const struct hpa_calculation *calc)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[metric];
    const struct startup_coming *coming = p->obs->coming;
    struct startup_credit credit;
    if (!p->spec->credit || !coming || !can_wait(p->obs, m) || p->obs->spec_replicas == 0)
        return;
    struct startup_trend *t = hpa_history_trend(p->history, p->spec->n_metrics, metric);
    startup_trend_add(t, total_of(m, res, calc), p->now_ms);
    startup_credit_apply(t, coming, p->obs->spec_replicas, res->proposal, &credit);
    if (credit.text)
        hpa_explain(p, "%s: %s", m->name, credit.text);
    free(credit.text);
    res->proposal = credit.proposal;
}

// --- before scaling down ---

// One load of the remaining pods, and the most that one of them may have.
struct load {
    const char *name, *unit;
    double total, most; // in the same unit
};

static double limit_of(const struct hpa_evaluation *p, double target)
{
    return target * (1 - p->tolerance.up);
}

// False: the metric has no value.
static bool load_of(const struct hpa_evaluation *p, size_t i, struct load *ret)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[i];
    const struct hpa_metric_result *res = &p->out->metrics[i];
    double pods = (double)res->n_ready;
    *ret = (struct load){.name = m->name, .unit = ""};
    if (!res->ok || hpa_has_extra_value(p->obs, m))
        return false;
    if (res->has_utilization) {
        ret->unit = " %";
        ret->total = res->utilization * pods;
        ret->most = limit_of(p, m->utilization);
    } else if (res->has_value) {
        size_t ready = 0;
        gs_error_free(hpa_ready_pods(p->obs, &ready));
        ret->total = (double)res->value / 1000 * (double)ready;
        ret->most = limit_of(p, (double)m->value / 1000);
    } else {
        bool outside = m->type == HPA_METRIC_OBJECT || m->type == HPA_METRIC_EXTERNAL;
        pods = outside ? p->obs->status_replicas : pods;
        ret->total = (double)res->average_value / 1000 * pods;
        ret->most = limit_of(p, (double)m->average_value / 1000);
    }
    return true;
}

// Keeps the load that needs the most pods.
static void consider(const struct load *l, int32_t *needed, struct load *decisive)
{
    if (!(l->most > 0) || !(l->total > 0))
        return;
    int32_t n = hpa_ceil32(l->total / l->most - 1e-9);
    if (n <= *needed)
        return;
    *needed = n;
    *decisive = *l;
}

static void explain_down(struct hpa_evaluation *p, const struct load *l, int32_t kept)
{
    int32_t n = kept - 1;
    if (n < 1)
        hpa_explain(p, "%s is %.3g%s: one replica remains", l->name, l->total, l->unit);
    else
        hpa_explain(p, "at %d replica%s each would be at %.3g%s (%s, at most %.3g%s): %s %d", n,
                    n == 1 ? "" : "s", l->total / n, l->unit, l->name, l->most, l->unit,
                    kept == p->out->current ? "stays at" : "only down to", kept);
}

int32_t hpa_check_down(struct hpa_evaluation *p, int32_t proposal)
{
    int32_t least = proposal > p->min_replicas ? proposal : p->min_replicas;
    int32_t needed = least, current = p->out->current;
    struct load l, decisive = {0};
    if (!p->spec->down_check || least >= current)
        return proposal;
    for (size_t i = 0; i < p->out->n_metrics; i++)
        if (load_of(p, i, &l))
            consider(&l, &needed, &decisive);
    for (size_t i = 0; i < p->obs->n_loads; i++) {
        const struct hpa_load *o = &p->obs->loads[i];
        l = (struct load){o->name, o->unit, o->total, o->most};
        consider(&l, &needed, &decisive);
    }
    if (needed == least)
        return proposal;
    needed = needed < current ? needed : current;
    explain_down(p, &decisive, needed);
    return needed;
}
