// SPDX-License-Identifier: Apache-2.0
// Placeholders are the difference between the replicas for the demand at the end of the horizon and
// those that are there or ordered. That demand is the larger of the forecast and of what nine of
// ten rises of the last day did not exceed: bursts that no method foresees recur, too.
#include "slo/capacity.h"

#include "base/num.h"
#include "base/slice.h"
#include <math.h>
#include <stdio.h>

#define RAISE_PAUSE_MS (INT64_C(10) * 60 * 1000)

// --- annotations ---

static const char *annotation(const json_t *hpa, const char *name)
{
    return codec_json_str(hpa, "metadata", "annotations", name, NULL);
}

static bool parse_max(const char *text, int32_t *ret)
{
    int64_t n = 1;
    GS_AUTO_ERROR struct gs_error *err =
        text ? gs_parse_i64(gs_slice_of(text), 1, SLO_CAPACITY_MOST, &n) : NULL;
    *ret = (int32_t)n;
    return !err;
}

static struct gs_error *read_policy(const json_t *hpa, struct slo_capacity_policy *ret)
{
    const char *kind = annotation(hpa, SLO_CAPACITY_ANNOTATION);
    const char *max = annotation(hpa, SLO_CAPACITY_MAX_ANNOTATION);
    int32_t n;
    if (!kind)
        return max ? gs_error_new(GS_EINVAL, "annotation " SLO_CAPACITY_MAX_ANNOTATION
                                             " has no effect without " SLO_CAPACITY_ANNOTATION)
                   : NULL;
    if (!gs_streq(kind, "buffer") && !gs_streq(kind, "pods"))
        return gs_error_new(GS_EINVAL,
                            "annotation " SLO_CAPACITY_ANNOTATION ": \"%s\": want "
                            "buffer or pods",
                            kind);
    if (!parse_max(max, &n))
        return gs_error_new(GS_EINVAL,
                            "annotation " SLO_CAPACITY_MAX_ANNOTATION ": \"%s\": want a "
                            "number from 1 to %d",
                            max, SLO_CAPACITY_MOST);
    if (!annotation(hpa, SLO_ANNOTATION))
        return gs_error_new(GS_EINVAL,
                            "annotation " SLO_CAPACITY_ANNOTATION " needs " SLO_ANNOTATION
                            ": only the demand of a latency target is forecast");
    *ret = (struct slo_capacity_policy){
        .kind = gs_streq(kind, "buffer") ? SLO_CAPACITY_BUFFER : SLO_CAPACITY_PODS, .max = n};
    return NULL;
}

struct gs_error *slo_capacity_policy_of(const json_t *hpa, struct slo_capacity_policy *ret)
{
    *ret = (struct slo_capacity_policy){0};
    return read_policy(hpa, ret);
}

// --- the decision ---

static int32_t present_of(const struct slo_capacity_input *in)
{
    const struct slo_decision *d = in->decision;
    int64_t pods =
        (int64_t)d->credit.ready + d->credit.starting + d->credit.late + d->credit.unschedulable;
    return pods > in->replicas ? (int32_t)(pods < INT32_MAX ? pods : INT32_MAX) : in->replicas;
}

// The demand at the end of the horizon, relative to that for which the decider's replicas are. A
// demand of zero that has not risen for a day stays zero.
static double growth_later(const struct slo_capacity_input *in)
{
    double now = in->decision->demand, growth = in->growth > 1 ? in->growth : 1;
    if (now == 0 && in->rise == 0)
        return 1;
    return isfinite(now) && now > 0 ? fmax(now * growth, now + in->rise) / (now * growth)
                                    : (double)NAN;
}

// -1: unknown.
static int32_t replicas_later(const struct slo_capacity_input *in)
{
    const struct slo_decision *d = in->decision;
    double need = d->hold || d->decider < 0 || isnan(in->rise)
                      ? (double)NAN
                      : d->bounds[d->decider].value * growth_later(in);
    if (!isfinite(need))
        return -1;
    return (int32_t)fmin(fmax(ceil(need - 1e-9), 0), in->max);
}

static const char *unknown_because(const struct slo_capacity_input *in)
{
    const struct slo_decision *d = in->decision;
    return d->hold            ? d->hold_text
           : d->decider < 0   ? "no bound has a number of replicas"
           : isnan(in->rise)  ? "fewer than 60 minutes of the demand are known in its unit"
           : !(d->demand > 0) ? "no demand is measured"
                              : "the need is unknown";
}

static void explain(const struct slo_capacity_policy *p, const struct slo_capacity_input *in,
                    int32_t wanted, struct slo_capacity *ret)
{
    long long minutes = (long long)(in->horizon_ms / 60000);
    const char *why = in->limited && ret->placeholders == 0 ? "; something else limits the replicas"
                      : wanted > ret->placeholders && ret->placeholders == p->max
                          ? "; gpuscale.dev/capacity-max limits them"
                      : wanted > ret->placeholders ? "; more after a pause of ten minutes"
                                                   : "";
    if (ret->forecast < 0)
        snprintf(ret->text, sizeof(ret->text), "%d placeholder%s: no change, because %.150s",
                 ret->placeholders, ret->placeholders == 1 ? "" : "s", unknown_because(in));
    else
        snprintf(ret->text, sizeof(ret->text),
                 "%d placeholder%s: %d replica%s may be needed in %lld min, %d %s ready, starting "
                 "or ordered%s",
                 ret->placeholders, ret->placeholders == 1 ? "" : "s", ret->forecast,
                 ret->forecast == 1 ? "" : "s", minutes, ret->present,
                 ret->present == 1 ? "is" : "are", why);
}

void slo_capacity_decide(const struct slo_capacity_policy *policy,
                         const struct slo_capacity_input *in, struct slo_capacity_state *state,
                         int64_t now_ms, struct slo_capacity *ret)
{
    int32_t last = state->placeholders, most = policy->max, wanted = last;
    *ret = (struct slo_capacity){.forecast = replicas_later(in), .present = present_of(in)};
    // Also without a forecast, no more than the autoscaler could order.
    int32_t room = in->limited || in->max < ret->present ? 0 : in->max - ret->present;
    if (ret->forecast >= 0)
        wanted = ret->forecast > ret->present ? ret->forecast - ret->present : 0;
    most = room < most ? room : most;
    int32_t n = wanted < most ? wanted : most;
    bool pauses = state->raised_ms && now_ms >= state->raised_ms &&
                  now_ms - state->raised_ms < RAISE_PAUSE_MS;
    if (n > last && pauses)
        n = last;
    if (n > last)
        state->raised_ms = now_ms;
    state->placeholders = ret->placeholders = n;
    explain(policy, in, wanted, ret);
}

void slo_capacity_stop(struct slo_capacity_state *state, struct slo_capacity *ret)
{
    state->placeholders = 0;
    *ret = (struct slo_capacity){.forecast = -1};
    snprintf(ret->text, sizeof(ret->text), "0 placeholders: the workload has no replicas");
}
