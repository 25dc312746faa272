// SPDX-License-Identifier: Apache-2.0
// One pass over one HPA, from the scale that was read to the count to write.
#include "hpa/decide_internal.h"

#include "base/slice.h"

static const char BELOW_MIN[] = "Current number of replicas below Spec.MinReplicas";
static const char ABOVE_MAX[] = "Current number of replicas above Spec.MaxReplicas";

struct hpa_config hpa_config_default(void)
{
    return (struct hpa_config){
        .downscale_window_ms = 300000,
        .tolerance = 0.1,
        .cpu_init_period_ms = 300000,
        .readiness_delay_ms = 30000,
        .scale_to_zero = true,
    };
}

static bool has_outside_metric(const struct hpa_spec *spec)
{
    for (size_t i = 0; i < spec->n_metrics; i++)
        if (spec->metrics[i].type == HPA_METRIC_OBJECT ||
            spec->metrics[i].type == HPA_METRIC_EXTERNAL)
            return true;
    return false;
}

// Zero replicas is a pause, unless the HPA itself went there.
static bool computes_from_zero(const struct hpa_pass *p)
{
    return p->cfg->scale_to_zero && p->obs->scaled_to_zero &&
           (p->min_replicas != 0 || has_outside_metric(p->spec));
}

static void set_reason(struct hpa_decision *d, const char *text)
{
    free(d->reason);
    d->reason = gs_strdup(text);
}

static void no_scale(struct hpa_pass *p)
{
    const char *why = p->obs->scale_error ? p->obs->scale_error : "no scale was given";
    p->out->outcome = HPA_OUTCOME_NO_SCALE;
    hpa_add_event(p->out, "FailedGetScale", why);
    hpa_set_decision_condition(
        p->out, "AbleToScale", "False", "FailedGetScale",
        "the HPA controller was unable to get the target's current scale: %s", why);
    hpa_explain(p, "no scaling: the target's scale could not be read: %s", why);
}

static void disabled(struct hpa_pass *p)
{
    struct hpa_decision *d = p->out;
    d->outcome = HPA_OUTCOME_DISABLED;
    d->drop_scaled_to_zero = !p->cfg->scale_to_zero && p->obs->has_scaled_to_zero;
    hpa_set_decision_condition(d, "ScalingActive", "False", "ScalingDisabled",
                               "scaling is disabled since the replica count of the target is zero");
    hpa_explain(p, "paused: the target was set to zero replicas");
}

static void correct(struct hpa_pass *p, int32_t to, const char *reason)
{
    p->out->outcome = HPA_OUTCOME_OUT_OF_LIMITS;
    p->out->desired = to;
    set_reason(p->out, reason);
    hpa_explain(p, "%d replicas are %s %d: corrected without asking the metrics", p->out->current,
                reason == ABOVE_MAX ? "above maxReplicas" : "below minReplicas", to);
}

static void follow_metrics(struct hpa_pass *p)
{
    struct hpa_decision *d = p->out;
    int32_t proposal;
    const char *name;
    if (!hpa_compute_metrics(p, &proposal, &name)) {
        d->outcome = HPA_OUTCOME_NO_COUNT;
        return;
    }
    d->outcome = HPA_OUTCOME_COMPUTED;
    d->proposal = proposal;
    if (proposal > d->current) {
        GS_AUTO_FREE char *reason = gs_format("%s above target", name);
        set_reason(d, reason);
    } else if (proposal < d->current) {
        set_reason(d, "All metrics below target");
    }
    d->desired =
        p->spec->has_behavior ? hpa_normalize_behavior(p, proposal) : hpa_normalize(p, proposal);
    // Only from zero: the other counts below the minimum never get here.
    if (d->desired < p->min_replicas && p->min_replicas != 0) {
        d->desired = p->min_replicas;
        hpa_explain(p, "raised to minReplicas %d", d->desired);
        if (!*d->reason)
            set_reason(d, BELOW_MIN);
    }
}

static void decide(struct hpa_pass *p)
{
    struct hpa_decision *d = p->out;
    if (!p->obs->scale_found) {
        no_scale(p);
        return;
    }
    d->current = d->desired = p->obs->spec_replicas;
    hpa_set_decision_condition(d, "AbleToScale", "True", "SucceededGetScale",
                               "the HPA controller was able to get the target's current scale");
    hpa_history_seed(p->history, d->current, p->now_ms);
    bool from_zero = d->current == 0 && computes_from_zero(p);
    if (d->current == 0 && !from_zero)
        disabled(p);
    else if (d->current > p->spec->max_replicas)
        correct(p, p->spec->max_replicas, ABOVE_MAX);
    else if (d->current < p->min_replicas && !from_zero)
        correct(p, p->min_replicas, BELOW_MIN);
    else
        follow_metrics(p);
    d->rescale = d->desired != d->current;
}

void hpa_decide(const struct hpa_spec *spec, const struct hpa_observation *obs,
                const struct hpa_config *cfg, struct hpa_history *history, int64_t now_ms,
                struct hpa_decision *ret)
{
    *ret = (struct hpa_decision){.proposal = -1, .decided_ms = now_ms, .reason = gs_strdup("")};
    struct hpa_pass pass = {
        .spec = spec,
        .obs = obs,
        .cfg = cfg,
        .history = history,
        .now_ms = now_ms,
        .min_replicas = spec->has_min ? spec->min_replicas : 1,
        .tolerance = {cfg->tolerance, cfg->tolerance},
        .out = ret,
    };
    if (spec->down.has_tolerance)
        pass.tolerance.down = spec->down.tolerance;
    if (spec->up.has_tolerance)
        pass.tolerance.up = spec->up.tolerance;
    decide(&pass);
    ret->explanation = gs_buf_take(&pass.explanation);
}
