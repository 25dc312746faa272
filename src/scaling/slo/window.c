// SPDX-License-Identifier: Apache-2.0
// Increments of counters and histograms between two samples of a pod, added up over the pods. The
// first sample of a pod and the first one after a restart have no increment. A sample counts once,
// however often it is observed.
#include "slo/slo_private.h"

#include "base/mem.h"

#include <string.h>

enum { GAP_MS = 120000 }; // of samples without an increment

// --- tracks ---

static void free_track(void *arg)
{
    struct slo_track *t = arg;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        free(t->counts[l]);
    free(t);
}

static struct slo_track *track_of(struct slo_state *st, const struct slo_pod *pod)
{
    struct slo_track *t = gs_hmap_get_str(st->tracks, pod->name);
    if (!t) {
        t = gs_alloc(sizeof(*t));
        t->waiting_min = INFINITY;
        gs_hmap_put_str(st->tracks, pod->name, t);
    }
    t->seen = st->observation;
    return t;
}

static bool remove_one_gone(struct slo_state *st)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(st->tracks, &pos, &key, &value)) {
        struct slo_track *t = value;
        if (t->seen == st->observation)
            continue;
        gs_hmap_remove(st->tracks, key);
        free_track(t);
        return true;
    }
    return false;
}

// --- histograms ---

static size_t buckets_of(const struct slo_histogram *h)
{
    return h->n < SLO_MAX_BUCKETS ? h->n : SLO_MAX_BUCKETS;
}

// Of a histogram without a target only the number of values is kept.
static double last_count(const struct slo_track *t, size_t l)
{
    return t->counts[l][t->n[l] - 1];
}

static bool histogram_restarted(const struct slo_track *t, const struct slo_pod *p)
{
    for (size_t l = 0; l < SLO_LATENCIES; l++) {
        size_t n = buckets_of(&p->latency[l]);
        if (n && t->n[l] && p->latency[l].counts[n - 1] < last_count(t, l))
            return true;
    }
    return false;
}

static void keep_histogram(struct slo_track *t, const struct slo_histogram *h, size_t l,
                           bool has_target)
{
    size_t n = buckets_of(h), kept = has_target || !n ? n : 1;
    if (kept != t->n[l]) {
        free(t->counts[l]);
        t->counts[l] = kept ? gs_alloc_array(kept, sizeof(double)) : NULL;
        t->n[l] = kept;
    }
    if (kept)
        memcpy(t->counts[l], h->counts + n - kept, kept * sizeof(double));
    t->sum[l] = h->sum;
}

// A bucket of other bounds goes to the first one that contains it.
static void add_bucket(struct slo_counts *c, double bound, double count, size_t *at)
{
    while (*at + 1 < c->n && c->bounds[*at] < bound)
        (*at)++;
    c->counts[*at] += count;
    c->total += count;
}

static void take_bounds(struct slo_counts *c, const struct slo_histogram *h)
{
    c->n = buckets_of(h);
    memcpy(c->bounds, h->bounds, c->n * sizeof(double));
    memset(c->counts, 0, sizeof(c->counts));
}

static void add_histogram(struct slo_counts *c, const struct slo_track *t,
                          const struct slo_histogram *h, size_t l)
{
    size_t n = buckets_of(h), at = 0;
    double before = 0;
    if (!n || n != t->n[l])
        return;
    if (h->counts[n - 1] <= t->counts[l][n - 1])
        return;
    if (!(c->total > 0))
        take_bounds(c, h);
    for (size_t i = 0; i < n; i++) {
        double now = h->counts[i] - t->counts[l][i];
        if (!(now > before))
            continue;
        add_bucket(c, h->bounds[i], now - before, &at);
        before = now;
    }
}

static double count_increment(const struct slo_track *t, const struct slo_pod *p, size_t l)
{
    size_t n = buckets_of(&p->latency[l]);
    return n && t->n[l] ? p->latency[l].counts[n - 1] - last_count(t, l) : 0;
}

// --- counters ---

static double increment(const struct slo_track *t, const struct slo_pod *p, enum slo_signal s)
{
    return slo_pod_has(p, s) && (t->has & (1U << s)) ? p->v[s] - t->v[s] : 0;
}

static bool restarted(const struct slo_track *t, const struct slo_pod *p)
{
    for (int s = SLO_PROMPT_TOKENS; s < SLO_SIGNALS; s++)
        if (increment(t, p, (enum slo_signal)s) < 0)
            return true;
    return histogram_restarted(t, p);
}

// From the counter, otherwise from the histogram that counts each request.
static double request_increment(const struct slo_track *t, const struct slo_pod *p)
{
    static const enum slo_latency order[] = {SLO_TTFT, SLO_E2E, SLO_OTHER, SLO_QUEUE};
    if (slo_pod_has(p, SLO_REQUESTS))
        return increment(t, p, SLO_REQUESTS);
    for (size_t i = 0; i < GS_ARRAY_LEN(order); i++)
        if (p->latency[order[i]].n)
            return count_increment(t, p, order[i]);
    return 0;
}

enum slo_unit slo_pod_unit(const struct slo_pod *p)
{
    if (slo_pod_has(p, SLO_PROMPT_TOKENS) && slo_pod_has(p, SLO_GENERATION_TOKENS))
        return SLO_BY_TOKENS;
    bool counts = slo_pod_has(p, SLO_REQUESTS) || p->latency[SLO_TTFT].n || p->latency[SLO_E2E].n ||
                  p->latency[SLO_OTHER].n || p->latency[SLO_QUEUE].n;
    return counts ? SLO_BY_REQUESTS : SLO_NO_UNIT;
}

static double mean_of(const struct slo_track *t, const struct slo_pod *p, enum slo_signal s)
{
    if (!slo_pod_has(p, s))
        return 0;
    return (t->has & (1U << s)) ? (t->v[s] + p->v[s]) / 2 : p->v[s];
}

static void add_to_track(struct slo_track *t, const struct slo_pod *p, double seconds,
                         double requests)
{
    t->seconds += seconds;
    t->prompt += increment(t, p, SLO_PROMPT_TOKENS);
    t->generated += increment(t, p, SLO_GENERATION_TOKENS);
    t->requests += requests;
    t->running_s += seconds * mean_of(t, p, SLO_RUNNING);
    t->waiting_s += seconds * mean_of(t, p, SLO_WAITING);
    t->waiting_min = fmin(t->waiting_min, slo_pod_has(p, SLO_WAITING) ? p->v[SLO_WAITING] : 0);
    t->running_max = fmax(t->running_max, slo_pod_has(p, SLO_RUNNING) ? p->v[SLO_RUNNING] : 0);
    if (p->latency[SLO_ITL].has_sum) {
        t->itl_n += count_increment(t, p, SLO_ITL);
        t->itl_sum += p->latency[SLO_ITL].sum - t->sum[SLO_ITL];
    }
}

static void add_increments(struct slo_state *st, const struct slo_policy *policy,
                           struct slo_track *t, const struct slo_pod *p)
{
    double seconds = (double)(p->sampled_ms - t->sampled_ms) / 1000;
    double requests = request_increment(t, p);
    struct slo_slot *s = &st->open;
    s->pod_seconds += seconds;
    s->prompt += increment(t, p, SLO_PROMPT_TOKENS);
    s->generated += increment(t, p, SLO_GENERATION_TOKENS);
    s->requests += requests;
    s->arrivals += requests + increment(t, p, SLO_REJECTIONS);
    if (t->slot != st->slot)
        st->contributors++;
    t->slot = st->slot;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        if (policy->seconds[l] > 0)
            add_histogram(&st->counts[l], t, &p->latency[l], l);
    add_to_track(t, p, seconds, requests);
}

static bool progressed(const struct slo_track *t, const struct slo_pod *p)
{
    for (int s = SLO_PROMPT_TOKENS; s < SLO_SIGNALS; s++)
        if (s != SLO_REJECTIONS && increment(t, p, (enum slo_signal)s) > 0)
            return true;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        if (count_increment(t, p, l) > 0)
            return true;
    return false;
}

static bool has_requests(const struct slo_pod *p)
{
    return (slo_pod_has(p, SLO_WAITING) && p->v[SLO_WAITING] > 0) ||
           (slo_pod_has(p, SLO_RUNNING) && p->v[SLO_RUNNING] > 0);
}

static void keep(struct slo_track *t, const struct slo_policy *policy, const struct slo_pod *p)
{
    t->has = p->has;
    memcpy(t->v, p->v, sizeof(t->v));
    t->sampled_ms = p->sampled_ms;
    t->n_series = p->n_series;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        keep_histogram(t, &p->latency[l], l, policy->seconds[l] > 0);
}

static void read_pod(struct slo_state *st, const struct slo_policy *policy, struct slo_track *t,
                     const struct slo_pod *p, enum slo_role role, struct slo_learned *l)
{
    if (p->sampled_ms <= t->sampled_ms)
        return;
    bool first = t->sampled_ms == 0, long_gap = p->sampled_ms - t->sampled_ms > GAP_MS;
    bool restart = !first && restarted(t, p);
    if (restart)
        t->restart_ms = p->sampled_ms;
    if (first || restart || !has_requests(p) || progressed(t, p) || slo_pod_unit(p) == SLO_NO_UNIT)
        t->moved_ms = p->sampled_ms;
    // All that a rank has ever counted is no increment when it appears again.
    if (!first && !restart && !long_gap && p->n_series == t->n_series) {
        add_increments(st, policy, t, p);
        if (slo_pod_unit(p) != SLO_NO_UNIT)
            slo_learn_pod(l, t, role, slo_pod_unit(p));
    }
    keep(t, policy, p);
}

// --- the window ---

void slo_window_clear(struct slo_state *st)
{
    st->n_slots = st->next = 0;
    st->last_waiting = NAN;
    memset(&st->open, 0, sizeof(st->open));
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        slo_counts_clear(&st->counts[l], 0);
    gs_hmap_clear(st->tracks);
    st->contributors = 0;
    st->change_ms = st->ready_ms = st->first_ms = st->queue_ms = st->queue_busy_ms = 0;
    st->dispersion = 1;
    st->step_load = st->step_pressure = 0;
    st->decrease_ms = st->undone_ms = 0;
    for (size_t l = 0; l < SLO_LATENCIES; l++)
        st->correction[l] = st->correction_s[l] = 0;
}

bool slo_window_add(struct slo_state *st, const struct slo_policy *p,
                    const struct slo_observation *obs, struct slo_learned *l, int64_t now_ms)
{
    bool back = now_ms < st->last_ms;
    size_t n = obs->n_pods < SLO_MAX_PODS ? obs->n_pods : SLO_MAX_PODS;
    if (back)
        slo_window_clear(st);
    st->last_ms = now_ms;
    st->observation++;
    for (size_t i = 0; i < n; i++) {
        const struct slo_pod *pod = &obs->pods[i];
        struct slo_track *t = track_of(st, pod);
        // A sample from the future would stop all later ones.
        if (pod->phase == SLO_POD_READY && pod->sampled_ms <= now_ms + SLO_SLOT_MS)
            read_pod(st, p, t, pod, obs->role, l);
    }
    while (gs_hmap_len(st->tracks) > n && remove_one_gone(st))
        ;
    slo_learn_decay(l);
    slo_slot_close(st, p, obs, l, now_ms);
    return !back;
}

// --- the state ---

struct slo_state *slo_state_new(void)
{
    struct slo_state *st = gs_alloc(sizeof(*st));
    st->tracks = gs_hmap_new(free_track);
    slo_window_clear(st);
    return st;
}

void slo_state_free(struct slo_state *st)
{
    if (!st)
        return;
    gs_hmap_free(st->tracks);
    free(st);
}
