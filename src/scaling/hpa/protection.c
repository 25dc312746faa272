// SPDX-License-Identifier: Apache-2.0
// Protections that an object switches on by an annotation: credit for pods that are coming, a check
// before scaling down that the remaining pods can take the load, and one before zero. Without the
// annotations, decisions are those of kube-controller-manager.
#include "hpa/hpa_private.h"
#include "hpa/zero.h"

#include "base/num.h"
#include "base/slice.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "startup/credit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_METRIC_NAME 200

// --- annotations ---

static struct gs_error *read_credit(const json_t *object, bool *ret)
{
    const char *text = kube_annotation(object, HPA_CREDIT_ANNOTATION);
    bool on = gs_streq(text, "true");
    if (text && !on && !gs_streq(text, "false"))
        return gs_error_new(GS_EINVAL,
                            "annotation " HPA_CREDIT_ANNOTATION ": \"%s\": want \"true\" or "
                            "\"false\"",
                            text);
    *ret = on;
    return NULL;
}

static struct gs_error *wrong_check(const char *part, const char *why)
{
    return gs_error_new(GS_EINVAL,
                        "annotation " HPA_DOWN_CHECK_ANNOTATION ": \"%s\": %s (want \"true\", "
                        "\"false\", or METRIC=LIMIT,… with at most %d metrics)",
                        part, why, HPA_MAX_LOADS);
}

static bool is_metric_name(const char *name)
{
    const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
    const char *p = name + strspn(name, letters);
    while (*p && (strchr(letters, *p) || (*p >= '0' && *p <= '9')))
        p++;
    return *name && p > name && !*p && strchr(letters, *name) && strlen(name) <= MAX_METRIC_NAME;
}

// part: "METRIC=LIMIT", of which the name remains. The spec borrows it.
static struct gs_error *read_load(char *part, struct hpa_metric_spec *ret)
{
    char *limit = strchr(part, '=');
    int64_t milli = 0;
    if (!limit)
        return wrong_check(part, "no limit");
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(limit + 1), &milli);
    if (err || milli <= 0)
        return wrong_check(part, "the limit is not a positive quantity");
    *limit = '\0';
    if (!is_metric_name(part))
        return wrong_check(part, "not the name of a metric");
    *ret = (struct hpa_metric_spec){
        .type = HPA_METRIC_PODS,
        .type_text = "Pods",
        .name = part,
        .target = HPA_TARGET_AVERAGE_VALUE,
        .has_average_value = true,
        .average_value = milli,
    };
    return NULL;
}

// loads borrow from *ret_names, which the caller frees, also after an error.
static struct gs_error *read_down_check(const json_t *object, bool *ret_on,
                                        struct hpa_metric_spec loads[HPA_MAX_LOADS], size_t *ret_n,
                                        char **ret_names)
{
    const char *text = kube_annotation(object, HPA_DOWN_CHECK_ANNOTATION);
    bool on = gs_streq(text, "true");
    size_t n = 0;
    *ret_names = NULL;
    *ret_n = 0;
    *ret_on = on;
    if (!text || on || gs_streq(text, "false"))
        return NULL;
    char *rest = *ret_names = gs_strdup(text), *part;
    while ((part = strsep(&rest, ","))) {
        struct gs_error *err = n < HPA_MAX_LOADS ? read_load(part, &loads[n++])
                                                 : wrong_check(text, "too many metrics");
        if (err)
            return err;
    }
    *ret_on = true;
    *ret_n = n;
    return NULL;
}

struct gs_error *hpa_check_protection(const json_t *object)
{
    bool on;
    size_t n;
    GS_AUTO_FREE char *names = NULL;
    struct hpa_metric_spec loads[HPA_MAX_LOADS];
    int64_t after_ms;
    struct gs_error *err = hpa_zero_after(object, &after_ms);
    if (!err)
        err = read_credit(object, &on);
    return err ? err : read_down_check(object, &on, loads, &n, &names);
}

void hpa_read_protection(const json_t *object, struct hpa_spec *ret)
{
    struct hpa_metric_spec loads[HPA_MAX_LOADS];
    size_t n;
    struct gs_error *wrong = hpa_zero_after(object, &ret->zero_after_ms);
    ret->zero_after_wrong = wrong != NULL;
    gs_error_free(wrong);
    gs_error_free(read_credit(object, &ret->credit));
    gs_error_free(read_down_check(object, &ret->down_check, loads, &n, &ret->load_names));
    if (!n)
        return;
    ret->metrics = gs_realloc_array(ret->metrics, ret->n_metrics + n, sizeof(*ret->metrics));
    memcpy(&ret->metrics[ret->n_metrics], loads, n * sizeof(*loads));
    ret->n_loads = n;
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
    if (!p->spec->credit || !coming || res->fallback || !can_wait(p->obs, m) ||
        p->obs->spec_replicas == 0)
        return;
    struct startup_trend *t = hpa_history_trend(p->history, p->spec->n_metrics, metric);
    startup_trend_add(t, total_of(m, res, calc), p->now_ms);
    startup_credit_apply(t, coming, p->obs->spec_replicas, res->proposal, &credit);
    // The explanation of the metric has its own proposal.
    if (credit.text && !res->explanation)
        res->explanation = hpa_explain_metric(p, metric, res, calc);
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
    if (!res->ok || res->fallback || hpa_has_extra_value(p->obs, m))
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

// The values of the pods that have one; the others count like them. False: nothing is known.
static bool load_beside(struct hpa_evaluation *p, size_t i, struct load *ret)
{
    const struct hpa_metric_spec *m = &p->spec->metrics[p->spec->n_metrics + i];
    const struct hpa_metric_observation *o = p->obs->loads ? &p->obs->loads[i] : NULL;
    size_t ready = 0;
    double sum = 0;
    *ret = (struct load){.name = m->name, .unit = "", .most = (double)m->average_value / 1000};
    if (!o || o->error || !o->n_samples) {
        hpa_explain(p, "no scaling down: %s: %s", m->name,
                    o && o->error ? o->error : "no pod has a value");
        return false;
    }
    for (size_t k = 0; k < o->n_samples; k++)
        sum += (double)o->samples[k].value / 1000;
    gs_error_free(hpa_ready_pods(p->obs, &ready));
    double n = (double)o->n_samples;
    ret->total = (double)ready > n ? sum / n * (double)ready : sum;
    return true;
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
    for (size_t i = 0; i < p->spec->n_loads; i++) {
        if (!load_beside(p, i, &l))
            return current;
        consider(&l, &needed, &decisive);
    }
    if (needed == least)
        return proposal;
    needed = needed < current ? needed : current;
    explain_down(p, &decisive, needed);
    return needed;
}
