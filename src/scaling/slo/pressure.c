// SPDX-License-Identifier: Apache-2.0
// The measured percentile over its target. It proposes more only if the target was certainly missed
// in three of the last five slots since the number of ready replicas changed, never more than twice
// the ready replicas, and nothing if more replicas do not help.
#include "slo/slo_private.h"

#include <stdio.h>

#define USELESS_LOAD     0.6   // of the load of the first step, before it is judged
#define USELESS_PRESSURE 1.1   // of an idle replica
#define FALLS            0.95  // times that of the first slot: the last step takes effect
#define FALL_S           300.0 // in which it has to be below 1 at that rate

#define SAME_QUEUE    0.05 // of the requests of that time: the queue neither drains nor grows
#define SAME_REQUESTS 2

enum { SETTLE_MS = 60000 };

// --- one slot ---

static double slot_pressure(const struct slo_figures *f, const struct slo_slot *s, bool *ret_over,
                            enum slo_latency *ret_worst)
{
    double worst = NAN;
    *ret_over = false;
    for (int t = 0; t < SLO_LATENCIES; t++) {
        if (!slo_has_target(f->policy, f->obs->role, (enum slo_latency)t) ||
            !isfinite(s->quantile[t]))
            continue;
        double ratio = s->quantile[t] / f->policy->seconds[t];
        *ret_over |= s->surely[t];
        if (!(ratio <= worst)) {
            worst = ratio;
            *ret_worst = (enum slo_latency)t;
        }
    }
    return worst;
}

struct slots {
    size_t n, over;
    double mean;   // of those over
    double newest; // NAN: none
    bool newest_over;
    double oldest;  // since the number of ready replicas changed
    double seconds; // between both
    enum slo_latency worst;
};

// From when on slots show what the ready replicas can do. A backlog that is not reported needs some
// time to drain.
static int64_t settled_ms(const struct slo_figures *f)
{
    const struct slo_state *st = f->state;
    return st->ready_ms + (f->has_waiting || st->ready_ms == st->first_ms ? 0 : SETTLE_MS);
}

static struct slots read_slots(const struct slo_figures *f)
{
    struct slots r = {.newest = NAN};
    int64_t newest_ms = 0;
    for (size_t i = 0; i < f->state->n_slots && r.n < SLO_M; i++) {
        const struct slo_slot *s = slo_slot_back(f->state, i);
        enum slo_latency worst = SLO_TTFT;
        bool over;
        double ratio = slot_pressure(f, s, &over, &worst);
        if (f->now_ms - s->end_ms > SLO_RECENT_MS)
            break;
        if (isnan(ratio))
            continue;
        if (isnan(r.newest)) {
            r.newest = ratio;
            newest_ms = s->end_ms;
            r.newest_over = over;
            r.worst = worst;
        }
        if (s->start_ms < settled_ms(f))
            break;
        r.n++;
        r.oldest = ratio;
        r.seconds = (double)(newest_ms - s->end_ms) / 1000;
        r.over += over;
        r.mean += over ? ratio : 0;
    }
    r.mean = r.over ? r.mean / (double)r.over : NAN;
    return r;
}

static bool falls(const struct slots *r)
{
    return r->newest < FALLS * r->oldest &&
           (r->newest - 1) * r->seconds < FALL_S * (r->oldest - r->newest);
}

// --- what the queue says before its requests have a latency ---

// Requests that wait now will wait as long as the service needs for them (Little's law).
static double queue_pressure(const struct slo_figures *f)
{
    double target = f->policy->seconds[SLO_TTFT] > 0    ? f->policy->seconds[SLO_TTFT]
                    : f->policy->seconds[SLO_QUEUE] > 0 ? f->policy->seconds[SLO_QUEUE]
                                                        : f->policy->seconds[SLO_E2E];
    const struct slo_state *st = f->state;
    double done = 0, seconds = 0;
    for (size_t i = 0; i < st->n_slots && seconds < SLO_FAST_S; i++) {
        done += slo_slot_back(st, i)->requests;
        seconds += slo_slot_back(st, i)->seconds;
    }
    if (!(target > 0) || !f->has_waiting || !(done > 0) || f->unit == SLO_NO_UNIT ||
        f->backlog <= 0)
        return NAN;
    return f->waiting * seconds / done / target;
}

// How long until the queue is empty at the rate of the last slots. INFINITY: it grows.
static double drain_seconds(const struct slo_figures *f)
{
    const struct slo_state *st = f->state;
    size_t back = st->n_slots < SLO_K ? st->n_slots : SLO_K;
    if (back < 2)
        return INFINITY;
    const struct slo_slot *a = slo_slot_back(st, back - 1), *b = slo_slot_back(st, 0);
    double fall = (a->waiting - b->waiting) / ((double)(b->end_ms - a->end_ms) / 1000);
    return f->backlog <= 0 ? 0 : fall > 0 ? f->waiting / fall : INFINITY;
}

static double mean_waiting(const struct slo_state *st, size_t from, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += slo_slot_back(st, from + i)->waiting;
    return sum / (double)n;
}

bool slo_queue_persists(const struct slo_figures *f)
{
    const struct slo_state *st = f->state;
    if (f->backlog <= 0 || f->starting > 0 || st->n_slots < 2 * SLO_M ||
        slo_slot_back(st, 2 * SLO_M - 1)->start_ms < st->ready_ms)
        return false;
    double before = mean_waiting(st, SLO_M, SLO_M), now = mean_waiting(st, 0, SLO_M);
    double seconds =
        (double)(slo_slot_back(st, 0)->end_ms - slo_slot_back(st, SLO_M)->end_ms) / 1000;
    return before > f->ready &&
           fabs(now - before) < fmax(SAME_QUEUE * f->requests * seconds, SAME_REQUESTS);
}

// --- whether it helps ---

// The pressure of an idle replica, from a line through 1 / pressure at the load of the first step
// and at that of now. 0: the loads do not differ enough.
static double idle_pressure(const struct slo_figures *f, double pressure)
{
    const struct slo_state *st = f->state;
    if (!(f->load < USELESS_LOAD * st->step_load))
        return 0;
    double slope = (1 / pressure - 1 / st->step_pressure) / (st->step_load - f->load);
    double inverse = 1 / pressure + fmax(slope, 0) * f->load;
    return 1 / inverse;
}

static bool is_useless(const struct slo_figures *f, double pressure)
{
    struct slo_state *st = f->state;
    if (!(pressure > 1) || isnan(f->load)) {
        if (pressure <= 1)
            st->step_load = st->step_pressure = 0;
        return false;
    }
    if (!(st->step_load > 0) || f->load > st->step_load) {
        st->step_load = f->load;
        st->step_pressure = pressure;
    }
    return idle_pressure(f, pressure) > USELESS_PRESSURE && f->backlog <= 0;
}

// --- the bound ---

static void explain_quiet(const struct slo_figures *f, const struct slots *r, double value,
                          const struct slo_out *o, struct slo_bound *b)
{
    if (isnan(r->newest))
        slo_line(o, b->text, "fewer than %.0f requests in five minutes give no percentile",
                 SLO_FEW_SAMPLES);
    else
        slo_line(o, b->text, "%s of the last slots: %zu of %zu over the target, %d of %d count%s",
                 slo_latency_name(f->policy, r->worst), r->over, r->n, SLO_K, SLO_M,
                 value < f->ready ? "; fewer replicas may hold it" : "");
}

static double step_of(const struct slo_figures *f, double pressure)
{
    return fmax(1, ceil(f->ready * (fmin(pressure, SLO_STEP_MAX) - 1)));
}

static void set_pressure(const struct slo_figures *f, const struct slots *r, double queue,
                         const struct slo_out *o)
{
    struct slo_decision *d = o->d;
    d->pressure = fmax(r->newest, queue); // of a NAN, the other
    if (isnan(d->pressure))
        slo_line(o, d->pressure_text, "unknown");
    else if (queue > r->newest || isnan(r->newest))
        slo_line(o, d->pressure_text, "%.0f requests wait: the last one %.2g times its target",
                 f->waiting, queue);
    else
        slo_line(o, d->pressure_text, "P%d of %s is %.2g times its target", f->policy->percent,
                 slo_latency_name(f->policy, r->worst), r->newest);
}

void slo_bound_pressure(const struct slo_figures *f, double limit, const struct slo_out *o)
{
    struct slots r = read_slots(f);
    double queue = queue_pressure(f), pressure = fmax(r.mean, queue);
    bool queued = queue > 1 && f->now_ms - f->state->ready_ms >= SLO_FAST_S * 1000;
    set_pressure(f, &r, queue, o);
    bool useless = is_useless(f, o->d->pressure);
    struct slo_bound *b;
    if ((r.over < SLO_K || !r.newest_over || falls(&r)) && !queued) {
        // How many fewer are enough decides the guard.
        double value = isnan(r.newest) ? NAN : r.newest < 1 ? 1 : (double)f->ready;
        b = slo_add_bound(o, "pressure", value);
        explain_quiet(f, &r, value, o, b);
        return;
    }
    double soon = fmax(f->obs->start_seconds, SLO_DRAIN_S);
    double n = f->ready + step_of(f, pressure);
    if (useless || (queue > 1 && drain_seconds(f) < soon)) {
        b = slo_add_bound(o, "pressure", NAN);
        if (useless)
            slo_line(o, b->text,
                     "more replicas do not help: at %.2g of the former load it is %.2g, idle %.2g",
                     f->load / f->state->step_load, o->d->pressure,
                     idle_pressure(f, o->d->pressure));
        else
            slo_line(o, b->text, "the queue drains before a new replica is ready");
        return;
    }
    double capped = fmin(n, fmax((1 + SLO_BACKLOG_CAP) * limit, f->ready));
    b = slo_add_bound(o, "pressure", isnan(limit) ? n : capped);
    const char *more = !isnan(limit) && capped < n ? "; the throughput allows no more" : "";
    if (queued)
        slo_line(o, b->text, "the last of %.0f waiting requests waits %.2g times its target%s",
                 f->waiting, queue, more);
    else
        slo_line(o, b->text, "%.2g times the target in %zu of %zu slots with %d ready replica%s%s",
                 pressure, r.over, r.n, f->ready, SLO_PLURAL(f->ready), more);
}
