// SPDX-License-Identifier: Apache-2.0
// The decision: the maximum of the bounds, less replicas only if the survivors hold, and no change
// on samples that are old or after restarts.
#include "slo/slo_private.h"

#include <stdio.h>
#include <string.h>

#define REPLACED 0.25 // of the replicas, that are replaced because they do not serve

// --- holding ---

static bool hold(const struct slo_out *o, const struct slo_observation *obs)
{
    o->d->hold = true;
    o->d->proposal = obs->replicas;
    return true;
}

static bool hold_on_pods(const struct slo_figures *f, const struct slo_out *o)
{
    int32_t ready = f->ready + f->blind + f->idle;
    char *text = o->d->hold_text;
    if (ready == 0)
        slo_line(o, text, "no pod is ready");
    else if (2 * f->blind >= ready && f->blind_age_ms < 0)
        slo_line(o, text, "%d of %d ready pods have no sample (%s)", f->blind, ready,
                 f->blind_name);
    else if (2 * f->blind >= ready)
        slo_line(o, text, "%d of %d ready pods have no fresh sample; that of %s is %.0f s old",
                 f->blind, ready, f->blind_name, (double)f->blind_age_ms / 1000);
    else if (2 * f->restarted >= ready)
        slo_line(o, text, "the engines of %d of %d ready pods have restarted (%s)", f->restarted,
                 ready, f->restarted_name);
    else if (f->ready == 0)
        slo_line(o, text, "all ready pods sleep or make no progress");
    else
        return false;
    return hold(o, f->obs);
}

static bool hold_on_values(const struct slo_figures *f, const struct slo_out *o)
{
    const struct slo_observation *obs = f->obs;
    if (obs->replicas <= 0)
        slo_line(o, o->d->hold_text, "the target has no replicas");
    else if (f->unit == SLO_NO_UNIT && !f->has_waiting && !f->has_running && !f->has_kv &&
             !f->has_utilization)
        slo_line(o, o->d->hold_text, "no signal and no latency of the policy is reported");
    else
        return false;
    return hold(o, obs);
}

// --- from the bounds to a number ---

static int32_t most_of_bounds(struct slo_decision *d)
{
    int32_t most = -1;
    d->decider = -1;
    for (size_t i = 0; i < d->n_bounds; i++) {
        if (d->bounds[i].proposal <= most)
            continue;
        most = d->bounds[i].proposal;
        d->decider = (int32_t)i;
    }
    return most;
}

// Pods that sleep, hang or do not start in time are replaced, a quarter of the need at most: if all
// starts fail, more of them do not help.
static int32_t replaced(const struct slo_figures *f, int32_t need)
{
    int32_t most = (int32_t)ceil(REPLACED * need), out = f->idle + f->late;
    return out < most ? out : most;
}

static void keep_ratio(const struct slo_figures *f, const struct slo_out *o)
{
    const struct slo_policy *p = f->policy;
    struct slo_decision *d = o->d;
    if (!(p->ratio_max > 0))
        return;
    if (!f->obs->has_peer) {
        struct slo_bound *b = slo_add_bound(o, "ratio", NAN);
        slo_line(o, b->text, "the replicas of %s are unknown", p->peer);
        return;
    }
    double low = ceil(p->ratio_min * f->obs->peer_replicas - 1e-9),
           high = fmax(floor(p->ratio_max * f->obs->peer_replicas + 1e-9), 1);
    struct slo_bound *b = slo_add_bound(o, "ratio", low);
    slo_line(o, b->text, "%.0f to %.0f for %d replicas of %s", fmax(low, 1), high,
             f->obs->peer_replicas, p->peer);
    if (b->proposal > d->proposal || d->proposal > high) {
        d->proposal = b->proposal > d->proposal ? b->proposal : (int32_t)high;
        d->decider = (int32_t)d->n_bounds - 1;
    }
}

// An increase soon after a decrease undoes it: the survivors did not hold, or the demand swings.
static void remember(const struct slo_figures *f, int32_t proposal)
{
    struct slo_state *st = f->state;
    int32_t replicas = f->obs->replicas;
    if (replicas < st->last_replicas) {
        st->decrease_ms = f->now_ms;
        st->decrease_load = f->work / replicas;
    }
    st->last_replicas = replicas;
    if (proposal <= replicas || !st->decrease_ms || f->now_ms - st->decrease_ms > SLO_UNDO_MS)
        return;
    st->undone_load = st->decrease_load;
    st->undone_ms = f->now_ms;
    st->decrease_ms = 0;
}

static void choose(const struct slo_figures *f, const struct slo_out *o)
{
    struct slo_decision *d = o->d;
    int32_t need = most_of_bounds(d), replicas = f->obs->replicas;
    d->proposal = replicas;
    if (need > f->ready)
        need += replaced(f, need);
    if (need > replicas)
        d->proposal = need;
    else if (need < replicas && replicas > 1)
        d->proposal = slo_guard(f, need > 1 ? need : 1, o);
    remember(f, d->proposal);
    keep_ratio(f, o);
}

// --- texts ---

// Seconds until the first of the starting pods is expected; -1: unknown.
static double first_expected(const struct slo_figures *f)
{
    double first = -1;
    for (size_t i = 0; i < f->obs->n_pods && i < SLO_MAX_PODS; i++) {
        const struct slo_pod *p = &f->obs->pods[i];
        double left = fmax((double)(p->expected_ms - f->now_ms) / 1000, 0);
        if (p->phase == SLO_POD_STARTING && p->expected_ms > 0 && (first < 0 || left < first))
            first = left;
    }
    return first;
}

static void explain_credit(const struct slo_figures *f, const struct slo_out *o)
{
    struct slo_decision *d = o->d;
    double first = first_expected(f);
    char when[48] = "";
    d->credit.ready = f->ready;
    d->credit.starting = f->starting;
    d->credit.late = f->late;
    d->credit.unschedulable = f->unschedulable;
    if (o->terse || (!f->starting && !f->late && !f->unschedulable))
        return;
    if (first >= 0)
        snprintf(when, sizeof(when), ", the first is expected in %.0f s", first);
    slo_line(o, d->credit.text, "counted: %d ready and %d starting%s%s; %d late, %d unschedulable",
             f->ready, f->starting, when,
             d->proposal <= f->obs->replicas ? ": no more are needed" : "", f->late,
             f->unschedulable);
}

static void explain(const struct slo_figures *f, const struct slo_out *o)
{
    struct slo_decision *d = o->d;
    const char *name = d->decider >= 0 ? d->bounds[d->decider].name : "no bound";
    int32_t now = f->obs->replicas;
    if (o->terse)
        return;
    if (d->hold)
        slo_line(o, d->explanation, "stays at %d: %.200s", now, d->hold_text);
    else if (d->proposal == now && d->guard.checked && !d->guard.holds)
        slo_line(o, d->explanation, "stays at %d: %.200s", now, d->guard.text);
    else if (d->proposal == now && f->starting > 0)
        slo_line(o, d->explanation, "stays at %d, of which %d start%s", now, f->starting,
                 f->starting == 1 ? "s" : "");
    else if (d->proposal == now)
        slo_line(o, d->explanation, "stays at %d by %s", now, name);
    else if (d->proposal < now)
        slo_line(o, d->explanation, "%d, less than %d: %.160s", d->proposal, now,
                 d->guard.text[0] ? d->guard.text : name);
    else
        slo_line(o, d->explanation, "%d by %s: %.200s", d->proposal, name,
                 d->decider >= 0 ? d->bounds[d->decider].text : "");
}

enum { BY_TOKENS, BY_REQUESTS, OF_REQUESTS };
static const char *const demand_units[] = {"tokens/s", "requests/s", "requests"};

const char *slo_demand_unit(const char *text)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(demand_units); i++)
        if (gs_streq(demand_units[i], text))
            return demand_units[i];
    return NULL;
}

static void set_demand(const struct slo_figures *f, struct slo_decision *d)
{
    d->demand = isfinite(f->work) ? f->work : f->has_running ? f->running + f->waiting : NAN;
    d->demand_unit = demand_units[!isfinite(f->work)         ? OF_REQUESTS
                                  : f->unit == SLO_BY_TOKENS ? BY_TOKENS
                                                             : BY_REQUESTS];
}

// --- the queue of a service whose throughput is unknown ---

static void follow_queue(const struct slo_figures *f)
{
    struct slo_state *st = f->state;
    double seconds = (double)(f->now_ms - st->queue_ms) / 1000;
    if (!f->has_waiting)
        return;
    if (!st->queue_ms) {
        st->queue_ms = st->queue_busy_ms = f->now_ms;
        st->queue_last = f->waiting;
    } else if (seconds >= SLO_SLOT_MS / 1000.0) {
        double growth = (f->waiting - st->queue_last) / seconds;
        st->queue_growth += (growth - st->queue_growth) * fmin(seconds / SLO_FAST_S, 1);
        st->queue_last = f->waiting;
        st->queue_ms = f->now_ms;
    }
    if (f->waiting > 0)
        st->queue_busy_ms = f->now_ms;
}

// --- the decision ---

static void clear(struct slo_decision *d)
{
    d->proposal = 0;
    d->hold = false;
    d->n_bounds = 0;
    d->decider = -1;
    d->pressure = d->demand = NAN;
    d->hold_text[0] = d->pressure_text[0] = d->credit.text[0] = '\0';
    d->guard.text[0] = d->explanation[0] = '\0';
    d->guard.checked = d->guard.holds = false;
    memset(&d->credit, 0, sizeof(d->credit.ready) * 4);
    d->demand_unit = demand_units[OF_REQUESTS];
}

static void add_bounds(const struct slo_figures *f, const struct slo_out *o)
{
    double limit = slo_bound_throughput(f, o);
    if (slo_queue_persists(f))
        limit = NAN;
    slo_bound_demand(f, limit, o);
    slo_bound_latency(f, limit, o);
    slo_bound_pressure(f, limit, o);
    slo_bound_queue(f, o);
    slo_bound_utilization(f, o);
}

void slo_decide(const struct slo_policy *policy, const struct slo_observation *obs,
                struct slo_state *state, int64_t now_ms, bool terse, struct slo_decision *ret)
{
    struct slo_learned *l = slo_learned_of(state, obs->identity, now_ms);
    const struct slo_out o = {ret, terse};
    struct slo_figures f;
    clear(ret);
    bool forward = slo_window_add(state, policy, obs, l, now_ms);
    slo_figures_of(policy, obs, state, l, now_ms, &f);
    follow_queue(&f);
    set_demand(&f, ret);
    if (!forward) {
        slo_line(&o, ret->hold_text, "the clock was set back");
        hold(&o, obs);
    } else if (!hold_on_pods(&f, &o) && !hold_on_values(&f, &o)) {
        add_bounds(&f, &o);
        choose(&f, &o);
    }
    if (ret->hold && ret->proposal < 1)
        ret->proposal = obs->replicas == 0 && f.waiting > 0 ? 1 : obs->replicas;
    explain_credit(&f, &o);
    explain(&f, &o);
}
