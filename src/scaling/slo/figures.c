// SPDX-License-Identifier: Apache-2.0
// Counts of pods by what they can contribute, sums of their gauges, and the demand. A pod without a
// fresh sample counts for nothing here; the decision knows that it is there.
#include "slo/slo_private.h"

#include "base/num.h"

#include <stdlib.h>
#include <string.h>

#define MIN_MIX       5.0 // requests, before their mean work is used
#define PATIENCE      0.5 // of the target: requests that wait less are no backlog
#define LEAST_OF_RATE 0.5
#define MAX_START_S   600.0 // for which a backlog is foreseen
#define FUTURE_MS     5000
#define FALLBACK_S    1.0

enum { GAUGE_SLOTS = 2 };

// --- pods ---

static int64_t stale_ms(const struct slo_observation *obs)
{
    return 3 * (obs->scrape_ms > 0 ? obs->scrape_ms : SLO_DEFAULT_SCRAPE_MS);
}

static bool is_fresh(const struct slo_figures *f, const struct slo_pod *p)
{
    return p->sampled_ms > 0 && f->now_ms - p->sampled_ms <= stale_ms(f->obs) &&
           p->sampled_ms - f->now_ms <= FUTURE_MS;
}

static bool is_new(const struct slo_figures *f, const struct slo_pod *p)
{
    return p->sampled_ms == 0 && p->since_ms > 0 && f->now_ms - p->since_ms <= stale_ms(f->obs);
}

static void add_gauge(const struct slo_pod *p, enum slo_signal s, bool *ret_has, double *ret_sum)
{
    if (!slo_pod_has(p, s) || !isfinite(p->v[s]) || p->v[s] < 0)
        return;
    *ret_has = true;
    *ret_sum += p->v[s];
}

static void add_gauges(struct slo_figures *f, const struct slo_pod *p, size_t *n_capacity)
{
    bool has = false;
    double kv = 0;
    add_gauge(p, SLO_WAITING, &f->has_waiting, &f->waiting);
    add_gauge(p, SLO_RUNNING, &f->has_running, &f->running);
    add_gauge(p, SLO_UTILIZATION, &f->has_utilization, &f->utilization);
    add_gauge(p, SLO_KV_USED_RATIO, &f->has_kv, &kv);
    f->kv += fmin(kv, 1);
    f->kv_max = fmax(f->kv_max, fmin(kv, 1));
    add_gauge(p, SLO_KV_CAPACITY_TOKENS, &has, &f->capacity);
    f->has_capacity |= has;
    *n_capacity += has;
}

static void add_blind(struct slo_figures *f, const struct slo_pod *p)
{
    f->blind++;
    if (f->blind_name)
        return;
    f->blind_name = p->name;
    f->blind_age_ms = p->sampled_ms > 0 ? f->now_ms - p->sampled_ms : -1;
}

static bool is_idle(const struct slo_figures *f, const struct slo_pod *p, const struct slo_track *t)
{
    return (slo_pod_has(p, SLO_SLEEPING) && p->v[SLO_SLEEPING] > 0) ||
           (t && t->moved_ms && p->sampled_ms - t->moved_ms > SLO_STUCK_MS &&
            f->now_ms - t->moved_ms > stale_ms(f->obs));
}

static void add_ready(struct slo_figures *f, const struct slo_pod *p, size_t *n_capacity)
{
    const struct slo_track *t = gs_hmap_get_str(f->state->tracks, p->name);
    if (t && t->restart_ms && f->now_ms - t->restart_ms < SLO_RESTART_MS) {
        f->restarted++;
        f->restarted_name = p->name;
    }
    if (is_new(f, p)) {
        f->ready++;
    } else if (!is_fresh(f, p)) {
        add_blind(f, p);
    } else if (is_idle(f, p, t)) {
        f->idle++;
    } else {
        f->ready++;
        f->fresh++;
        if (slo_pod_unit(p) > f->unit || f->unit == SLO_NO_UNIT)
            f->unit = slo_pod_unit(p);
        add_gauges(f, p, n_capacity);
    }
}

static void count_pods(struct slo_figures *f)
{
    size_t n_capacity = 0;
    for (size_t i = 0; i < f->obs->n_pods && i < SLO_MAX_PODS; i++) {
        const struct slo_pod *p = &f->obs->pods[i];
        f->starting += p->phase == SLO_POD_STARTING;
        f->late += p->phase == SLO_POD_LATE;
        f->unschedulable += p->phase == SLO_POD_UNSCHEDULABLE;
        if (p->phase == SLO_POD_READY)
            add_ready(f, p, &n_capacity);
    }
    if (n_capacity)
        f->capacity /= (double)n_capacity;
}

// A service whose pods have no signals, but that has a queue.
static void use_queue(struct slo_figures *f)
{
    const struct slo_observation *obs = f->obs;
    bool fresh = obs->has_queue && isfinite(obs->queue) && obs->queue >= 0 &&
                 f->now_ms - obs->queue_sampled_ms <= stale_ms(obs);
    if (!obs->has_queue)
        return;
    if (fresh) {
        f->has_waiting = true;
        f->waiting += obs->queue;
    }
    bool sampled = false;
    for (size_t i = 0; i < obs->n_pods && i < SLO_MAX_PODS; i++)
        sampled |= obs->pods[i].sampled_ms > 0;
    if (!sampled && fresh) {
        f->ready += f->blind;
        f->blind = 0;
    }
}

// --- demand ---

// Requests that run, and what they keep, change with each step of an engine: the mean of now and of
// the last slots is used.
static void smooth(struct slo_figures *f)
{
    size_t n = 0;
    double running = f->running, kv = f->kv;
    for (; n < GAUGE_SLOTS && n < f->state->n_slots; n++) {
        const struct slo_slot *s = slo_slot_back(f->state, n);
        if (f->now_ms - s->end_ms > SLO_RESTART_MS || !s->steady)
            break;
        running += s->running;
        kv += s->kv;
    }
    f->running = running / (double)(n + 1);
    f->kv = kv / (double)(n + 1);
}

static double shortest_wait(const struct slo_policy *p)
{
    static const enum slo_latency order[] = {SLO_TTFT, SLO_QUEUE, SLO_E2E, SLO_OTHER};
    for (size_t i = 0; i < GS_ARRAY_LEN(order); i++)
        if (p->seconds[order[i]] > 0)
            return p->seconds[order[i]];
    return FALLBACK_S;
}

static void find_demand(struct slo_figures *f)
{
    const struct slo_state *st = f->state;
    struct slo_weights w = slo_weights_of(f->learned, f->obs->role);
    double done = NAN;
    f->requests = f->work = f->request_work = f->load = NAN;
    if (f->unit == SLO_NO_UNIT)
        return;
    done = slo_work_rate(st, &w, f->unit);
    if (st->sum_requests >= MIN_MIX) {
        f->requests = slo_request_rate(st);
        f->request_work =
            f->unit == SLO_BY_REQUESTS
                ? 1
                : (w.prompt * st->sum_prompt + w.generated * st->sum_generated) / st->sum_requests;
    }
    f->work = isfinite(f->requests) ? f->requests * f->request_work : done;
    if (f->ready > 0)
        f->load = f->work / f->ready;
}

static void find_backlog(struct slo_figures *f)
{
    double patient = isfinite(f->requests) ? f->requests * PATIENCE * shortest_wait(f->policy) : 0;
    f->backlog = fmax(f->waiting - fmax(patient, f->ready), 0);
}

// What the replicas cannot process until a new one is ready waits then, too.
static void find_coming(struct slo_figures *f)
{
    double start = f->obs->start_seconds > 0 ? f->obs->start_seconds : SLO_DRAIN_S;
    double carries = isnan(f->rate) ? f->carries : f->rate, excess = f->work - f->ready * carries;
    f->coming = f->backlog;
    if (f->backlog > 0 && excess > 0 && f->request_work > 0)
        f->coming += excess / f->request_work * fmin(start, MAX_START_S);
}

// --- latencies ---

static double recent_latency(const struct slo_figures *f, size_t l)
{
    double v[SLO_M] = {0};
    size_t n = 0;
    for (size_t i = 0; i < f->state->n_slots && n < SLO_M; i++) {
        const struct slo_slot *s = slo_slot_back(f->state, i);
        if (f->now_ms - s->end_ms > SLO_RECENT_MS)
            break;
        if (isfinite(s->quantile[l]))
            v[n++] = s->quantile[l];
    }
    qsort(v, n, sizeof(*v), gs_compare_doubles);
    return n ? v[n / 2] : NAN;
}

// --- what was learned ---

static void find_learned(struct slo_figures *f)
{
    double limit = NAN;
    f->rate = slo_learned_rate(f->learned);
    f->slots = slo_learned_slots(f->learned);
    f->kv_fit = slo_curve_occupancy(f->learned, true);
    f->running_fit = slo_curve_occupancy(f->learned, false);
    for (int t = 0; t < SLO_LATENCIES; t++) {
        f->limit[t] = f->seen[t] = NAN;
        if (!slo_has_target(f->policy, f->obs->role, (enum slo_latency)t))
            continue;
        f->fit[t] = slo_curve_fit(f->learned, (enum slo_latency)t);
        f->limit[t] = slo_curve_limit(f->learned, f->policy, (enum slo_latency)t, &f->seen[t]);
        limit = fmin(limit, f->limit[t]); // of a NAN, the other
    }
    // Misses at less than half of what a replica processes come from bursts and long requests, and
    // more replicas change little.
    if (!isnan(f->rate) && !isnan(limit))
        limit = fmax(limit, LEAST_OF_RATE * f->rate);
    f->carries = fmin(f->rate * SLO_LOAD_LIMIT, limit);
}

void slo_figures_of(const struct slo_policy *p, const struct slo_observation *obs,
                    struct slo_state *st, struct slo_learned *l, int64_t now_ms,
                    struct slo_figures *ret)
{
    struct slo_figures f = {.policy = p, .obs = obs, .state = st, .learned = l, .now_ms = now_ms};
    count_pods(&f);
    use_queue(&f);
    if (!f.blind)
        smooth(&f);
    find_demand(&f);
    find_backlog(&f);
    find_learned(&f);
    find_coming(&f);
    f.growth = isfinite(obs->growth) && obs->growth > 1 ? obs->growth : 1;
    for (size_t i = 0; i < SLO_LATENCIES; i++)
        f.latency[i] =
            slo_has_target(p, obs->role, (enum slo_latency)i) ? recent_latency(&f, i) : NAN;
    *ret = f;
}
