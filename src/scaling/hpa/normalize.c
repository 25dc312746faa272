// SPDX-License-Identifier: Apache-2.0
// Limits the metrics' proposal to the count that is written: stabilization windows, rate limits,
// minReplicas and maxReplicas. With spec.behavior and without.
#include "hpa/hpa_private.h"
#include "hpa/whatif.h"

#define MIN_UP_LIMIT                                                                               \
    4 // without behavior, one evaluation scales up to this number, or to twice the current one

enum limit { IN_RANGE, TOO_FEW, TOO_MANY, UP_LIMIT, DOWN_LIMIT };
static const struct {
    const char *reason, *message;
} limits[] = {
    [IN_RANGE] = {"DesiredWithinRange", "the desired count is within the acceptable range"},
    [TOO_FEW] = {"TooFewReplicas",
                 "the desired replica count is less than the minimum replica count"},
    [TOO_MANY] = {"TooManyReplicas",
                  "the desired replica count is more than the maximum replica count"},
    [UP_LIMIT] = {"ScaleUpLimit",
                  "the desired replica count is increasing faster than the maximum scale rate"},
    [DOWN_LIMIT] = {"ScaleDownLimit",
                    "the desired replica count is decreasing faster than the maximum scale rate"},
};

static void set_stable(struct hpa_evaluation *p, bool changed, bool up)
{
    const char *reason = "ReadyForNewScale", *message = "recommended size matches current size";
    if (changed && up) {
        reason = "ScaleUpStabilized";
        message = "recent recommendations were lower than current one, applying the lowest recent "
                  "recommendation";
    } else if (changed) {
        reason = "ScaleDownStabilized";
        message = "recent recommendations were higher than current one, applying the highest "
                  "recent recommendation";
    }
    hpa_set_fixed_condition(p->out, HPA_ABLE_TO_SCALE, "True", reason, message);
}

static void set_limited(struct hpa_evaluation *p, bool limited, enum limit why)
{
    hpa_set_fixed_condition(p->out, HPA_SCALING_LIMITED, limited ? "True" : "False",
                            limits[why].reason, limits[why].message);
}

static void explain_window(struct hpa_evaluation *p, int32_t held, const char *which,
                           int64_t window_ms)
{
    if (p->cfg->terse && held == p->out->current)
        return;
    hpa_explain(p, "held at %d: %s recommendation of the last %lld s", held, which,
                (long long)(window_ms / 1000));
}

static int32_t plain_up_limit(int32_t current)
{
    int32_t limit = hpa_sat32(2 * (int64_t)current);
    return limit < MIN_UP_LIMIT ? MIN_UP_LIMIT : limit;
}

// The window of kube-controller-manager also keeps earlier proposals that no sync could reach. With
// credit, they must not order what was credited.
static int32_t without_old_orders(const struct hpa_evaluation *p, int32_t proposal, int32_t stable)
{
    int32_t current = p->out->current;
    if (!p->spec->credit || !p->obs->coming || stable <= current)
        return stable;
    return proposal > current ? proposal : current;
}

int32_t hpa_normalize(struct hpa_evaluation *p, int32_t proposal)
{
    int64_t window_ms = p->cfg->downscale_window_ms;
    int32_t stable = hpa_history_stabilize(p->history, proposal, window_ms, p->now_ms);
    stable = without_old_orders(p, proposal, stable);
    set_stable(p, stable != proposal, false);
    if (stable != proposal)
        explain_window(p, stable, "highest", window_ms);

    int32_t current = p->out->current, max = p->spec->max_replicas;
    int32_t up_limit = plain_up_limit(current);
    int32_t bound = max > up_limit ? up_limit : max;
    enum limit why = IN_RANGE;
    int32_t count = stable;
    if (stable < p->min_replicas) {
        count = p->min_replicas;
        why = TOO_FEW;
        hpa_explain(p, "raised to minReplicas %d", count);
    } else if (stable > bound) {
        count = bound;
        why = max > up_limit ? UP_LIMIT : TOO_MANY;
        if (why == UP_LIMIT)
            hpa_explain(p, "limited to %d: at most double (or %d) in one sync", count,
                        MIN_UP_LIMIT);
        else
            hpa_explain(p, "limited to maxReplicas %d", count);
    }
    set_limited(p, count != stable, why);
    return count;
}

// --- with behavior ---
static int32_t stabilize(struct hpa_evaluation *p, int32_t proposal)
{
    const struct hpa_rules *up = &p->spec->up, *down = &p->spec->down;
    int64_t up_ms = up->window_seconds < 0 ? 0 : (int64_t)up->window_seconds * 1000;
    int64_t down_ms = down->window_seconds < 0 ? p->cfg->downscale_window_ms
                                               : (int64_t)down->window_seconds * 1000;
    int32_t lowest, highest;
    hpa_history_bounds(p->history, proposal, up_ms, down_ms, p->now_ms, &lowest, &highest);
    int32_t stable = p->out->current;
    if (stable < lowest)
        stable = lowest;
    if (stable > highest)
        stable = highest;
    bool going_up = proposal >= p->out->current;
    if (!hpa_since(p->cfg->release, HPA_SINCE_BOTH_WINDOWS))
        stable = going_up ? lowest : highest;
    set_stable(p, stable != proposal, going_up);
    if (stable != proposal && going_up)
        explain_window(p, stable, "lowest", up_ms);
    else if (stable != proposal)
        explain_window(p, stable, "highest", down_ms);
    return stable;
}

struct rate_limit {
    int32_t count;
    const struct hpa_policy *policy; // NULL: none decided
};

static int32_t policy_limit(const struct hpa_evaluation *p, const struct hpa_policy *policy,
                            bool up)
{
    struct hpa_rates rates = hpa_history_rates(p->history, policy->period_seconds, p->now_ms);
    if (!hpa_since(p->cfg->release, HPA_SINCE_BOTH_EVENTS))
        *(up ? &rates.removed : &rates.added) = 0;
    int32_t start = hpa_sat32((int64_t)p->out->current - rates.added + rates.removed);
    if (!policy->percent)
        return hpa_sat32((int64_t)start + (up ? policy->value : -(int64_t)policy->value));
    double share = (double)policy->value / 100;
    // Round up when scaling up: otherwise a small percentage never adds a replica.
    return up ? hpa_ceil32((double)start * (1 + share)) : hpa_trunc32((double)start * (1 - share));
}

static struct rate_limit rate_limit(const struct hpa_evaluation *p, const struct hpa_rules *rules,
                                    bool up)
{
    struct rate_limit limit = {p->out->current, NULL};
    if (rules->select == HPA_SELECT_DISABLED)
        return limit;
    // "Max" means the largest change. When scaling down, this is the smallest count.
    bool want_largest = (rules->select == HPA_SELECT_MAX) == up;
    for (size_t i = 0; i < rules->n_policies; i++) {
        int32_t n = policy_limit(p, &rules->policies[i], up);
        if (!limit.policy || (want_largest ? n > limit.count : n < limit.count))
            limit = (struct rate_limit){n, &rules->policies[i]};
    }
    // Changes within the period are not reverted.
    if (up ? limit.count < p->out->current : limit.count > p->out->current)
        limit.count = p->out->current;
    return limit;
}

static void explain_rate(struct hpa_evaluation *p, const struct rate_limit *limit, bool up)
{
    if (!limit->policy)
        hpa_explain(p, "held at %d: scaling %s is disabled", limit->count, up ? "up" : "down");
    else
        hpa_explain(p, "limited to %d by policy %d%s per %d s", limit->count, limit->policy->value,
                    limit->policy->percent      ? " %"
                    : limit->policy->value == 1 ? " pod"
                                                : " pods",
                    limit->policy->period_seconds);
}

static int32_t bounded_up(struct hpa_evaluation *p, int32_t stable, enum limit *ret_why)
{
    struct rate_limit limit = rate_limit(p, &p->spec->up, true);
    bool by_rate = p->spec->max_replicas > limit.count;
    int32_t bound = by_rate ? limit.count : p->spec->max_replicas;
    if (stable <= bound)
        return stable;
    *ret_why = by_rate ? UP_LIMIT : TOO_MANY;
    if (by_rate)
        explain_rate(p, &limit, true);
    else
        hpa_explain(p, "limited to maxReplicas %d", bound);
    return bound;
}

static int32_t bounded_down(struct hpa_evaluation *p, int32_t stable, enum limit *ret_why)
{
    struct rate_limit limit = rate_limit(p, &p->spec->down, false);
    bool by_rate = p->min_replicas < limit.count;
    int32_t bound = by_rate ? limit.count : p->min_replicas;
    if (stable >= bound)
        return stable;
    *ret_why = by_rate ? DOWN_LIMIT : TOO_FEW;
    if (by_rate)
        explain_rate(p, &limit, false);
    else
        hpa_explain(p, "raised to minReplicas %d", bound);
    return bound;
}

int32_t hpa_normalize_behavior(struct hpa_evaluation *p, int32_t proposal)
{
    int32_t stable = stabilize(p, proposal), count = stable;
    enum limit why = IN_RANGE;
    if (stable > p->out->current)
        count = bounded_up(p, stable, &why);
    else if (stable < p->out->current)
        count = bounded_down(p, stable, &why);
    set_limited(p, count != stable, why);
    return count;
}

struct hpa_reach hpa_reach_now(const struct hpa_history *history, const struct hpa_spec *spec,
                               const struct hpa_observation *obs, const struct hpa_config *cfg,
                               int64_t now_ms)
{
    struct hpa_history *copy = history ? hpa_history_copy(history) : hpa_history_new();
    struct hpa_decision d = {.current = obs->spec_replicas};
    const struct hpa_evaluation p = {
        .spec = spec, .obs = obs, .cfg = cfg, .history = copy, .now_ms = now_ms, .out = &d};
    struct hpa_reach reach = {plain_up_limit(d.current), 0};
    if (spec->has_behavior)
        reach = (struct hpa_reach){rate_limit(&p, &spec->up, true).count,
                                   rate_limit(&p, &spec->down, false).count};
    hpa_history_free(copy);
    return reach;
}
