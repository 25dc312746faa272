// SPDX-License-Identifier: Apache-2.0
// Slots of the window: when one is long enough, its percentiles are calculated, the demand is
// checked for a change of its level, and the load with its latencies is learned.
#include "slo/slo_private.h"

#include <string.h>

#define CHANGE_SIGMAS  3.0
#define MAX_DISPERSION 10.0
#define MIX_DECAY      0.97 // of the length of requests, per slot
#define CORRECTION_S   300.0

// --- percentiles of a slot ---

static void close_latency(struct slo_state *st, const struct slo_policy *p, struct slo_slot *s,
                          size_t l, int64_t now_ms)
{
    struct slo_counts *c = &st->counts[l];
    double low, high;
    s->quantile[l] = s->within[l] = NAN;
    if (!(p->seconds[l] > 0) || c->total < SLO_FEW_SAMPLES) {
        // Samples of a slow service are collected over several slots.
        if (now_ms - c->start_ms > SLO_RECENT_MS || !(p->seconds[l] > 0))
            slo_counts_clear(c, now_ms);
        return;
    }
    slo_share_range(c, p->seconds[l], &low, &high);
    s->quantile[l] = slo_quantile(c, p->percent / 100.0);
    s->within[l] = slo_share_within(c, p->seconds[l]);
    s->surely[l] = high < p->percent / 100.0;
    s->samples[l] = c->total;
    slo_counts_clear(c, now_ms);
}

// --- the level of the demand ---

struct level {
    double count, seconds;
};

static struct level level_between(const struct slo_state *st, int64_t from_ms, int64_t to_ms)
{
    struct level v = {0};
    for (size_t i = 0; i < st->n_slots; i++) {
        const struct slo_slot *s = slo_slot_back(st, i);
        if (s->start_ms < from_ms || s->end_ms > to_ms)
            continue;
        v.count += s->arrivals;
        v.seconds += s->seconds;
    }
    return v;
}

static void measure_dispersion(struct slo_state *st, int64_t to_ms)
{
    struct level all = level_between(st, st->change_ms, to_ms);
    double rate = all.seconds > 0 ? all.count / all.seconds : 0, sum = 0, n = 0;
    for (size_t i = 0; i < st->n_slots; i++) {
        const struct slo_slot *s = slo_slot_back(st, i);
        double mean = rate * s->seconds;
        if (s->start_ms < st->change_ms || s->end_ms > to_ms || !(mean > 0))
            continue;
        sum += (s->arrivals - mean) * (s->arrivals - mean) / mean;
        n++;
    }
    if (n >= 4)
        st->dispersion = fmin(fmax(sum / (n - 1), 1), MAX_DISPERSION);
}

// A count of the last seconds that chance does not explain begins a new level. This keeps the mean
// of a constant demand quiet and follows a burst at once.
static void find_change(struct slo_state *st)
{
    int64_t end = slo_slot_back(st, 0)->end_ms, fast_ms = end;
    double seconds = 0;
    for (size_t i = 0; i < st->n_slots && seconds < SLO_FAST_S; i++) {
        seconds += slo_slot_back(st, i)->seconds;
        fast_ms = slo_slot_back(st, i)->start_ms;
    }
    struct level fast = level_between(st, fast_ms, end),
                 slow = level_between(st, st->change_ms, fast_ms);
    if (seconds < SLO_FAST_S || slow.seconds < SLO_FAST_S)
        return;
    measure_dispersion(st, fast_ms);
    double expected = slow.count / slow.seconds * fast.seconds;
    double sigma = sqrt(fmax(expected, 1) * st->dispersion * (1 + fast.seconds / slow.seconds));
    if (fabs(fast.count - expected) > CHANGE_SIGMAS * sigma)
        st->change_ms = fast_ms;
}

// --- what a slot teaches ---

static double slot_work(const struct slo_slot *s, const struct slo_weights *w, enum slo_unit unit)
{
    return unit == SLO_BY_TOKENS ? w->prompt * s->prompt + w->generated * s->generated
                                 : s->requests;
}

static bool is_queued(const struct slo_slot *s)
{
    return s->waiting > 0.5 * s->ready;
}

static void learn_mix(struct slo_state *st, const struct slo_slot *s)
{
    st->sum_requests = st->sum_requests * MIX_DECAY + s->requests;
    st->sum_prompt = st->sum_prompt * MIX_DECAY + s->prompt;
    st->sum_generated = st->sum_generated * MIX_DECAY + s->generated;
}

static void learn_correction(struct slo_state *st, const struct slo_figures *f,
                             const struct slo_slot *s, size_t l)
{
    double predicted = slo_predict(f, (enum slo_latency)l, s->ready, false);
    if (!isfinite(s->quantile[l]) || !(s->quantile[l] > 0) || !isfinite(predicted) ||
        !(predicted > 0) || s->ready == 0)
        return;
    double weight = fmin(s->seconds, SLO_SLOT_MAX_S);
    st->correction_s[l] = fmin(st->correction_s[l] + weight, CORRECTION_S);
    st->correction[l] +=
        (log(s->quantile[l] / predicted) - st->correction[l]) * weight / st->correction_s[l];
}

static void learn_slot(struct slo_state *st, const struct slo_policy *p,
                       const struct slo_observation *obs, struct slo_learned *l,
                       const struct slo_slot *s, int64_t now_ms)
{
    struct slo_figures f;
    struct slo_weights w = slo_weights_of(l, obs->role);
    learn_mix(st, s);
    slo_figures_of(p, obs, st, l, now_ms, &f);
    if (!s->steady || !(s->pod_seconds > 0) || f.unit == SLO_NO_UNIT)
        return;
    // Latencies of a queue that drains belong to the load that built it up.
    if (st->n_slots > 1 && is_queued(slo_slot_back(st, 1)) &&
        s->waiting < slo_slot_back(st, 1)->waiting)
        return;
    slo_curve_add(l, p, s, slot_work(s, &w, f.unit) / s->pod_seconds, is_queued(s));
    for (size_t t = 0; t < SLO_LATENCIES; t++)
        if (slo_has_target(p, obs->role, (enum slo_latency)t))
            learn_correction(st, &f, s, t);
}

// --- closing ---

static void gauges(const struct slo_observation *obs, struct slo_slot *s, bool *ret_waiting)
{
    for (size_t i = 0; i < obs->n_pods && i < SLO_MAX_PODS; i++) {
        const struct slo_pod *p = &obs->pods[i];
        if (p->phase != SLO_POD_READY)
            continue;
        s->ready++;
        s->waiting += slo_pod_has(p, SLO_WAITING) ? p->v[SLO_WAITING] : 0;
        s->running += slo_pod_has(p, SLO_RUNNING) ? p->v[SLO_RUNNING] : 0;
        s->kv += slo_pod_has(p, SLO_KV_USED_RATIO) ? p->v[SLO_KV_USED_RATIO] : 0;
        *ret_waiting |= slo_pod_has(p, SLO_WAITING);
    }
}

static void push(struct slo_state *st, const struct slo_slot *s)
{
    st->slots[st->next] = *s;
    st->next = (st->next + 1) % SLO_SLOTS;
    if (st->n_slots < SLO_SLOTS)
        st->n_slots++;
}

static void count_ready(struct slo_state *st, const struct slo_observation *obs, int64_t now_ms)
{
    int32_t ready = 0;
    for (size_t i = 0; i < obs->n_pods && i < SLO_MAX_PODS; i++)
        ready += obs->pods[i].phase == SLO_POD_READY;
    if (ready == st->last_ready && st->ready_ms)
        return;
    if (!st->first_ms)
        st->first_ms = now_ms;
    st->open.steady = false;
    st->last_ready = ready;
    st->ready_ms = now_ms;
}

static void open_slot(struct slo_state *st, int64_t now_ms)
{
    memset(&st->open, 0, sizeof(st->open));
    st->open.start_ms = now_ms;
    st->open.steady = true;
    st->contributors = 0;
    st->slot++;
}

void slo_slot_close(struct slo_state *st, const struct slo_policy *p,
                    const struct slo_observation *obs, struct slo_learned *l, int64_t now_ms)
{
    struct slo_slot *s = &st->open;
    bool has_waiting = false;
    if (!s->start_ms)
        open_slot(st, now_ms);
    count_ready(st, obs, now_ms);
    s->seconds = st->contributors ? s->pod_seconds / (double)st->contributors : 0;
    if (s->seconds < SLO_SLOT_MS / 1000.0) {
        if (now_ms - s->start_ms > SLO_RECENT_MS)
            open_slot(st, now_ms); // no samples at all
        return;
    }
    s->end_ms = now_ms;
    gauges(obs, s, &has_waiting);
    if (has_waiting && isfinite(st->last_waiting))
        s->arrivals = fmax(s->arrivals + s->waiting - st->last_waiting, 0);
    st->last_waiting = has_waiting ? s->waiting : NAN;
    for (size_t t = 0; t < SLO_LATENCIES; t++)
        close_latency(st, p, s, t, now_ms);
    push(st, s);
    open_slot(st, now_ms);
    find_change(st);
    learn_slot(st, p, obs, l, slo_slot_back(st, 0), now_ms);
}

// --- rates over the window ---

static int64_t window_start(const struct slo_state *st)
{
    int64_t from = st->last_ms - SLO_WINDOW_S * INT64_C(1000);
    return st->change_ms > from ? st->change_ms : from;
}

double slo_request_rate(const struct slo_state *st)
{
    struct level v = level_between(st, window_start(st), st->last_ms);
    return v.seconds > 0 ? v.count / v.seconds : NAN;
}

double slo_work_rate(const struct slo_state *st, const struct slo_weights *w, enum slo_unit unit)
{
    double work = 0, seconds = 0;
    for (size_t i = 0; i < st->n_slots; i++) {
        const struct slo_slot *s = slo_slot_back(st, i);
        if (s->start_ms < window_start(st))
            break;
        work += slot_work(s, w, unit);
        seconds += s->seconds;
    }
    return seconds > 0 ? work / seconds : NAN;
}
