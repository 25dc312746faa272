// SPDX-License-Identifier: Apache-2.0
// One evaluation of an HPA: from the scale that was read to the number of replicas to write.
#include "hpa/hpa_private.h"

#include "base/assert.h"
#include "base/num.h"
#include "base/slice.h"

#include <string.h>

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
        .release = HPA_RELEASE_NEWEST,
    };
}

struct gs_error *hpa_config_follow(struct hpa_config *cfg, const char *release)
{
    int64_t minor = 0;
    const char *text = gs_starts(release, "v") ? release + 1 : release;
    text = gs_starts(text, "1.") ? text + 2 : text;
    size_t len = strcspn(text, "."); // the patch level is ignored
    struct gs_error *err =
        gs_parse_i64((struct gs_slice){text, len}, HPA_RELEASE_OLDEST, HPA_RELEASE_NEWEST, &minor);
    if (err) {
        gs_error_free(err);
        return gs_error_new(GS_EINVAL, "release \"%s\": want 1.%d to 1.%d", release,
                            HPA_RELEASE_OLDEST, HPA_RELEASE_NEWEST);
    }
    cfg->release = (int)minor;
    cfg->scale_to_zero = hpa_since(cfg->release, HPA_SINCE_ZERO_GATE);
    return NULL;
}

static bool has_outside_metric(const struct hpa_spec *spec)
{
    for (size_t i = 0; i < spec->n_metrics; i++)
        if (spec->metrics[i].type == HPA_METRIC_OBJECT ||
            spec->metrics[i].type == HPA_METRIC_EXTERNAL)
            return true;
    return false;
}

// Zero replicas pause the HPA, unless the HPA itself scaled to zero.
static bool computes_from_zero(const struct hpa_evaluation *p)
{
    if (!hpa_since(p->cfg->release, HPA_SINCE_SCALED_TO_ZERO))
        return p->min_replicas == 0;
    return p->cfg->scale_to_zero && p->obs->scaled_to_zero &&
           (p->min_replicas != 0 || has_outside_metric(p->spec));
}

static void no_scale(struct hpa_evaluation *p)
{
    const char *why = p->obs->scale_error ? p->obs->scale_error : "no scale was given";
    p->out->outcome = HPA_OUTCOME_NO_SCALE;
    hpa_add_event(p->out, true, "FailedGetScale", why);
    hpa_set_decision_condition(
        p->out, HPA_ABLE_TO_SCALE, "False", "FailedGetScale",
        "the HPA controller was unable to get the target's current scale: %s", why);
    hpa_explain(p, "no scaling: the target's scale could not be read: %s", why);
}

static void disabled(struct hpa_evaluation *p)
{
    struct hpa_decision *d = p->out;
    d->outcome = HPA_OUTCOME_DISABLED;
    d->drop_scaled_to_zero = hpa_since(p->cfg->release, HPA_SINCE_SCALED_TO_ZERO) &&
                             !p->cfg->scale_to_zero && p->obs->has_scaled_to_zero;
    hpa_set_fixed_condition(d, HPA_SCALING_ACTIVE, "False", "ScalingDisabled",
                            "scaling is disabled since the replica count of the target is zero");
    hpa_explain(p, "paused: the target was set to zero replicas");
}

static void correct(struct hpa_evaluation *p, int32_t to, const char *reason)
{
    p->out->outcome = HPA_OUTCOME_OUT_OF_LIMITS;
    p->out->desired = to;
    p->out->reason = reason;
    hpa_explain(p, "%d replicas are %s %d: corrected without evaluating the metrics",
                p->out->current, reason == ABOVE_MAX ? "above maxReplicas" : "below minReplicas",
                to);
}

// A defect of kube-controller-manager that is kept (kubernetes#138505): inside the tolerance, an
// average over the replicas keeps the replicas of the target's status, and pods that exist only
// during a rolling update become wanted ones.
static char *existing_text(const struct hpa_decision *d)
{
    return gs_format("the metric is inside the tolerance, but the target has %d replicas%s, and "
                     "the controller keeps these instead of the %d that are set",
                     d->proposal, d->proposal > d->current ? ", as during a rolling update" : "",
                     d->current);
}

static void follow_metrics(struct hpa_evaluation *p)
{
    struct hpa_decision *d = p->out;
    int32_t proposal;
    const char *name;
    if (!hpa_compute_metrics(p, &proposal, &name)) {
        d->outcome = HPA_OUTCOME_NO_COUNT;
        return;
    }
    d->outcome = HPA_OUTCOME_COMPUTED;
    d->proposal = proposal = hpa_check_down(p, proposal);
    if (d->keeps_existing) {
        GS_AUTO_FREE char *text = existing_text(d);
        hpa_explain(p, "%s", text);
    }
    if (proposal > d->current) {
        d->reason = d->own_reason =
            d->extra ? gs_strdup(d->extra) : gs_format("%s above target", name);
    } else if (proposal < d->current) {
        d->reason = "All metrics below target";
    }
    d->desired =
        p->spec->has_behavior ? hpa_normalize_behavior(p, proposal) : hpa_normalize(p, proposal);
    // Only from zero: other counts below the minimum were corrected before.
    if (d->desired < p->min_replicas && p->min_replicas != 0) {
        d->desired = p->min_replicas;
        hpa_explain(p, "raised to minReplicas %d", d->desired);
        if (!*d->reason)
            d->reason = BELOW_MIN;
    }
    d->desired = hpa_hold_zero(p, d->desired);
    gs_assert(d->desired >= 0);
    gs_assert_debug(d->desired <= p->spec->max_replicas || d->desired <= p->min_replicas);
}

enum branch { BRANCH_NO_SCALE, BRANCH_DISABLED, BRANCH_ABOVE, BRANCH_BELOW, BRANCH_METRICS };

static enum branch branch_of(const struct hpa_evaluation *p)
{
    int32_t current = p->obs->spec_replicas;
    if (!p->obs->scale_found)
        return BRANCH_NO_SCALE;
    if (current == 0 && !computes_from_zero(p))
        return BRANCH_DISABLED;
    if (current > p->spec->max_replicas)
        return BRANCH_ABOVE;
    if (current != 0 && current < p->min_replicas)
        return BRANCH_BELOW;
    return BRANCH_METRICS;
}

static void decide_desired(struct hpa_evaluation *p)
{
    struct hpa_decision *d = p->out;
    enum branch branch = branch_of(p);
    if (branch == BRANCH_NO_SCALE) {
        no_scale(p);
        return;
    }
    d->current = d->desired = p->obs->spec_replicas;
    hpa_set_fixed_condition(d, HPA_ABLE_TO_SCALE, "True", "SucceededGetScale",
                            "the HPA controller was able to get the target's current scale");
    hpa_history_seed(p->history, d->current, p->now_ms);
    if (branch == BRANCH_DISABLED)
        disabled(p);
    else if (branch == BRANCH_ABOVE)
        correct(p, p->spec->max_replicas, ABOVE_MAX);
    else if (branch == BRANCH_BELOW)
        correct(p, p->min_replicas, BELOW_MIN);
    else
        follow_metrics(p);
    d->rescale = d->desired != d->current;
}

// `kept` is not initialized: it is written before it is read.
static void evaluation_init(struct hpa_evaluation *p, const struct hpa_spec *spec,
                            const struct hpa_observation *obs, const struct hpa_config *cfg)
{
    p->spec = spec;
    p->obs = obs;
    p->cfg = cfg;
    p->history = NULL;
    p->now_ms = 0;
    p->min_replicas = spec->has_min ? spec->min_replicas : 1;
    p->tolerance.down = p->tolerance.up = cfg->tolerance;
    p->tolerance.distance = !hpa_since(cfg->release, HPA_SINCE_INCLUSIVE);
    p->out = NULL;
    p->explanation = (struct gs_buf){0};
    bool own = hpa_since(cfg->release, HPA_SINCE_OWN_TOLERANCE);
    if (own && spec->down.has_tolerance)
        p->tolerance.down = spec->down.tolerance;
    if (own && spec->up.has_tolerance)
        p->tolerance.up = spec->up.tolerance;
}

void hpa_decide(const struct hpa_spec *spec, const struct hpa_observation *obs,
                const struct hpa_config *cfg, struct hpa_history *history, int64_t now_ms,
                struct hpa_decision *ret)
{
    struct hpa_evaluation evaluation;
    *ret = (struct hpa_decision){
        .proposal = -1,
        .decided_ms = now_ms,
        .reason = "",
        .release = cfg->release,
        .terse = cfg->terse,
    };
    evaluation_init(&evaluation, spec, obs, cfg);
    evaluation.history = history;
    evaluation.now_ms = now_ms;
    evaluation.out = ret;
    decide_desired(&evaluation);
    if (cfg->terse && ret->rescale)
        hpa_explain_kept(&evaluation);
    if (!cfg->terse || evaluation.explanation.len)
        ret->explanation = gs_buf_take(&evaluation.explanation);
}

bool hpa_wants_metrics(const struct hpa_spec *spec, const struct hpa_observation *obs,
                       const struct hpa_config *cfg)
{
    struct hpa_evaluation evaluation;
    evaluation_init(&evaluation, spec, obs, cfg);
    return branch_of(&evaluation) == BRANCH_METRICS && obs->selector && *obs->selector &&
           !obs->selector_error &&
           !(obs->ambiguous_with && hpa_since(cfg->release, HPA_SINCE_AMBIGUOUS));
}

static void note_zero(const struct hpa_spec *spec, const struct hpa_config *cfg,
                      struct hpa_decision *d)
{
    if (!hpa_since(cfg->release, HPA_SINCE_SCALED_TO_ZERO))
        return;
    if (!cfg->scale_to_zero) {
        d->drop_scaled_to_zero = true;
        return;
    }
    bool to_zero = d->current > 0 && d->desired == 0 && spec->has_min && spec->min_replicas == 0 &&
                   has_outside_metric(spec);
    hpa_set_fixed_condition(d, HPA_SCALED_TO_ZERO, to_zero ? "True" : "False",
                            to_zero ? "ScaledToZero" : "NotScaledToZero",
                            to_zero ? "the HPA controller scaled the workload to zero"
                                    : "the HPA controller did not scale the workload to zero");
}

void hpa_decision_written(const struct hpa_spec *spec, const struct hpa_config *cfg,
                          const char *error, struct hpa_decision *d)
{
    GS_AUTO_FREE char *size = gs_format("New size: %d; reason: %s", d->desired, d->reason);
    if (error) {
        GS_AUTO_FREE char *message = gs_format("%s; error: %s", size, error);
        d->write = HPA_WRITE_FAILED;
        hpa_add_event(d, true, "FailedRescale", message);
        hpa_set_decision_condition(d, HPA_ABLE_TO_SCALE, "False", "FailedUpdateScale",
                                   "the HPA controller was unable to update the target scale: %s",
                                   error);
        return;
    }
    d->write = HPA_WRITE_DONE;
    hpa_set_decision_condition(d, HPA_ABLE_TO_SCALE, "True", "SucceededRescale",
                               "the HPA controller was able to update the target scale to %d",
                               d->desired);
    hpa_add_event(d, false, "SuccessfulRescale", size);
    note_zero(spec, cfg, d);
}
