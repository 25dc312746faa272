// SPDX-License-Identifier: Apache-2.0
// Fewer replicas only if the survivors hold the target: their KV caches, their load and their
// latencies are calculated for the smaller number, and have to stay below the limits with a
// distance. Otherwise the number of replicas stays.
#include "slo/slo_private.h"

#include <stdio.h>

#define QUEUE_QUIET_MS 300000 // without a queue, if nothing but the queue is reported
#define OBSERVED_MS    120000 // before that, nothing shrinks
#define LIGHT_KV       0.3    // share of the KV caches
#define LIGHT_LATENCY  0.6    // of the targets
#define UNSEEN_LOAD    1.3    // of the highest load with a measurement
#define SEEN_LOAD      1.1    // of the highest load with a measurement, if no limit is known

// Each check returns true if n replicas hold, and writes the line that says why or why not.

static bool holds_kv(const struct slo_figures *f, double n, const struct slo_out *o)
{
    if (!f->has_kv)
        return true;
    double more = slo_predict_occupancy(f, n, true);
    double share = more * f->kv / n, fullest = more * f->kv_max * f->ready / n;
    if (share <= SLO_KV_SUPPLY * (1 + SLO_SENSITIVITY) / 2 && fullest <= SLO_KV_FULL)
        return true;
    slo_line(o, o->d->guard.text,
             "with %g replica%s KV caches would be %.0f %% full, the fullest "
             "%.0f %%",
             n, SLO_PLURAL(n), 100 * share, 100 * fullest);
    return false;
}

static bool holds_slots(const struct slo_figures *f, double n, const struct slo_out *o)
{
    double slots = f->slots;
    double each = f->running / n * slo_predict_occupancy(f, n, false);
    if (isnan(slots) || !f->has_running || each <= SLO_SURVIVOR_LOAD * SLO_LOAD_LIMIT * slots)
        return true;
    slo_line(o, o->d->guard.text, "with %g replica%s each would run %.3g requests of %.3g", n,
             SLO_PLURAL(n), each, slots);
    return false;
}

static double highest_seen(const struct slo_figures *f)
{
    double highest = NAN;
    for (int t = 0; t < SLO_LATENCIES; t++)
        highest = fmin(highest, f->seen[t]); // of a NAN, the other
    return highest;
}

// One replica less may go further. The last but one doubles the load, so what remains has to be far
// from all limits.
static bool is_one_less(const struct slo_figures *f, double n)
{
    if (n < f->obs->replicas - 1)
        return false;
    if (n >= 2)
        return true;
    if (f->kv / n > LIGHT_KV)
        return false;
    for (int t = 0; t < SLO_LATENCIES; t++)
        if (f->latency[t] * f->ready / n > LIGHT_LATENCY * f->policy->seconds[t])
            return false;
    return true;
}

// Loads that are far from all that were measured are approached in steps.
static bool holds_unknown_load(const struct slo_figures *f, double n, const struct slo_out *o)
{
    double highest = highest_seen(f);
    if (isnan(highest) || isnan(f->work) || f->work / n <= UNSEEN_LOAD * highest ||
        is_one_less(f, n))
        return true;
    slo_line(o, o->d->guard.text,
             "with %g replica%s each would have %.2g times the load that was measured", n,
             SLO_PLURAL(n), f->work / n / highest);
    return false;
}

static bool holds_what_was_undone(const struct slo_figures *f, double n, const struct slo_out *o)
{
    const struct slo_state *st = f->state;
    if (!st->undone_ms || f->now_ms - st->undone_ms > SLO_REMEMBER_MS || isnan(f->work) ||
        f->work / n <= SLO_SURVIVOR_LOAD * st->undone_load)
        return true;
    slo_line(o, o->d->guard.text,
             "with %g replica%s each would be at %.0f %% of the load at which a decrease had to be "
             "undone",
             n, SLO_PLURAL(n), 100 * f->work / n / st->undone_load);
    return false;
}

static bool holds_load(const struct slo_figures *f, double n, const struct slo_out *o)
{
    double capacity = f->carries;
    if (isnan(capacity) || isnan(f->work) || f->work / n <= SLO_SURVIVOR_LOAD * capacity)
        return true;
    slo_line(o, o->d->guard.text, "with %g replica%s each would be at %.0f %% of what it carries",
             n, SLO_PLURAL(n), 100 * f->work / n / capacity);
    return false;
}

static bool holds_backlog(const struct slo_figures *f, const struct slo_out *o)
{
    if (f->backlog <= 0)
        return true;
    slo_line(o, o->d->guard.text, "%.0f requests wait", f->waiting);
    return false;
}

static bool holds_utilization(const struct slo_figures *f, double n, const struct slo_out *o)
{
    if (!f->has_utilization || f->has_kv || f->unit == SLO_BY_TOKENS ||
        f->utilization / n <= SLO_UTILIZATION_OK)
        return true;
    slo_line(o, o->d->guard.text, "with %g replica%s each would be at %.0f %%", n, SLO_PLURAL(n),
             100 * f->utilization / n);
    return false;
}

// --- latencies ---

// The latency that n replicas would have. Without a curve it is taken to grow with the load.
static double expected(const struct slo_figures *f, enum slo_latency t, double n, double *ret_own)
{
    double predicted = slo_predict(f, t, n, true);
    *ret_own = 0;
    if (!isnan(predicted)) {
        *ret_own = slo_fit_latency(&f->fit[t], 0);
        return fmax(predicted, f->latency[t]); // of a NAN, the other
    }
    return f->latency[t] * f->ready / n;
}

// Whether this load was measured, and the target held at it.
static bool was_seen(const struct slo_figures *f, enum slo_latency t, double n)
{
    return isnan(f->limit[t]) && f->work / n <= SEEN_LOAD * f->seen[t];
}

static bool holds_latency(const struct slo_figures *f, enum slo_latency t, double n,
                          const struct slo_out *o)
{
    double own, target = f->policy->seconds[t], latency = expected(f, t, n, &own);
    if (isnan(latency))
        return true;
    // What an idle replica needs cannot be saved.
    double limit = own < target ? own + SLO_SENSITIVITY * (target - own) : target;
    if (latency <= limit)
        return true;
    slo_line(o, o->d->guard.text, "with %g replica%s P%d of %s would be %.3g s of %.3g s", n,
             SLO_PLURAL(n), f->policy->percent, slo_latency_name(f->policy, t), latency, target);
    return false;
}

// A service with too few requests for a percentile shrinks only if something else limits it.
static bool knows_enough(const struct slo_figures *f, double n, const struct slo_out *o)
{
    bool no_load = (f->has_running && f->running + f->waiting < 0.5) ||
                   (isfinite(f->requests) && f->requests <= 0);
    for (int t = 0; t < SLO_LATENCIES; t++)
        if (slo_has_target(f->policy, f->obs->role, (enum slo_latency)t) &&
            (isfinite(f->latency[t]) || was_seen(f, (enum slo_latency)t, n)))
            return true;
    if (no_load || !isnan(f->carries) || f->has_kv || f->has_utilization)
        return true;
    if (f->unit == SLO_NO_UNIT && f->has_waiting &&
        f->now_ms - f->state->queue_busy_ms > QUEUE_QUIET_MS &&
        f->now_ms - f->state->ready_ms > QUEUE_QUIET_MS && n >= f->ready - 1)
        return true;
    slo_line(o, o->d->guard.text, "%s",
             f->unit == SLO_NO_UNIT && f->has_waiting
                 ? "the queue has to be empty for five minutes for each replica less"
                 : "too few requests to know what fewer replicas would do");
    return false;
}

static bool holds(const struct slo_figures *f, double n, const struct slo_out *o)
{
    if (!holds_backlog(f, o) || !holds_kv(f, n, o) || !holds_slots(f, n, o) ||
        !holds_load(f, n, o) || !holds_what_was_undone(f, n, o) || !holds_unknown_load(f, n, o) ||
        !holds_utilization(f, n, o) || !knows_enough(f, n, o))
        return false;
    for (int t = 0; t < SLO_LATENCIES; t++)
        if (slo_has_target(f->policy, f->obs->role, (enum slo_latency)t) &&
            !holds_latency(f, (enum slo_latency)t, n, o))
            return false;
    return true;
}

// --- what forbids any decrease ---

static bool may_shrink(const struct slo_figures *f, const struct slo_out *o)
{
    if (f->blind > 0)
        slo_line(o, o->d->guard.text, "%d of %d ready pods have no fresh sample (%s)", f->blind,
                 f->blind + f->ready + f->idle, f->blind_name);
    else if (f->restarted > 0)
        slo_line(o, o->d->guard.text, "the engine of %s has just restarted", f->restarted_name);
    else if (f->now_ms - f->state->first_ms < OBSERVED_MS)
        slo_line(o, o->d->guard.text, "observed for less than two minutes");
    else
        return true;
    return false;
}

int32_t slo_guard(const struct slo_figures *f, int32_t lowest, const struct slo_out *o)
{
    struct slo_decision *d = o->d;
    int32_t replicas = f->obs->replicas, low = lowest, high = replicas;
    const struct slo_out quiet = {d, true};
    d->guard.checked = true;
    if (!may_shrink(f, o) || !holds(f, replicas - 1, o))
        return replicas;
    d->guard.holds = true;
    // All checks become easier with more replicas, so the smallest number is found by halving.
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (holds(f, middle, &quiet))
            high = middle;
        else
            low = middle + 1;
    }
    slo_line(o, d->guard.text, "%d replica%s would hold the target", low, SLO_PLURAL(low));
    return low;
}
