// SPDX-License-Identifier: Apache-2.0
// The pods of a simulated service as the autoscaler sees them: objects now, and signals that are
// older by the delay of the scenario. The signals are those that gpuscale reads from real engines.
#include "replay/service_private.h"

#include "base/mem.h"
#include "base/slice.h"
#include "inference/slo_view.h"
#include "replay/scenario_private.h"
#include "slo/memory.h"

#include <assert.h>
#include <math.h>

#define T0_MS        REPLAY_T0_MS
#define NS_PER_MS    INT64_C(1000000)
#define MAX_PODS     (4 * REPLAY_SERVICE_MAX_REPLICAS)
#define FEW_SAMPLES  20     // fewer latencies give no percentile, as in engine/signals
#define P90_OF_SIGMA 1.2816 // of a normal distribution

#define N_HISTOGRAMS SLO_OTHER // of engines, by enum slo_latency

// The signals of a pod, read once.
struct sample {
    uint32_t id, starts;
    struct slo_pod pod; // its signals
    double busy_s, utilization, ttft_p90_s, itl_p90_s;
    double *cumulative[N_HISTOGRAMS], sum[N_HISTOGRAMS];
};

struct samples {
    struct sample items[MAX_PODS];
    size_t n;
    int64_t at_ns;
};

struct replay_service_view {
    const struct replay_scenario *s;
    struct slo_memory *memory;
    struct samples now, before;
    const double *bounds[N_HISTOGRAMS]; // with infinity, the same for all pods
    double *owned[N_HISTOGRAMS];
    size_t n_bounds[N_HISTOGRAMS];
    struct replay_service_counts all[N_HISTOGRAMS];
    double utilization, rate;
    uint64_t arrived;
    struct replay_curve_piece *series, *replicas; // of each metric
    struct inference_pod pods[MAX_PODS];
    struct hpa_pod hpa_pods[MAX_PODS];
    struct slo_pod slo_pods[MAX_PODS];
    int64_t *requests; // of the pods: 1 of each resource
    struct hpa_sample **values;
    struct hpa_metric_observation *metrics;
    struct hpa_observation obs;
    struct hpa_extra extra;
    struct slo_decision decision;
};

// --- histograms ---

double replay_service_quantile(const struct replay_service_counts *c, double q)
{
    double total = 0, below = 0;
    for (size_t i = 0; i <= c->n; i++)
        total += c->counts[i];
    for (size_t i = 0; i < c->n && total > 0; i++) {
        double from = i ? c->bounds[i - 1] : 0;
        if (below + c->counts[i] >= q * total && c->counts[i] > 0)
            return from + (c->bounds[i] - from) * (q * total - below) / c->counts[i];
        below += c->counts[i];
    }
    return total > 0 ? c->bounds[c->n - 1] : NAN;
}

// The buckets of the first pod that serves are those of all.
static void take_bounds(struct replay_service_view *v, const struct inference_stats *stats)
{
    for (size_t h = 0; h < N_HISTOGRAMS; h++) {
        const struct inference_distribution *d = &stats->histograms[inference_slo_histogram(h)];
        v->n_bounds[h] = d->n;
        v->owned[h] = gs_alloc_array(d->n + 1, sizeof(double));
        for (size_t i = 0; i < d->n; i++)
            v->owned[h][i] = d->bounds[i];
        v->owned[h][d->n] = INFINITY;
        v->bounds[h] = v->owned[h];
        v->all[h] = (struct replay_service_counts){v->bounds[h],
                                                   gs_alloc_array(d->n + 1, sizeof(double)), d->n};
    }
}

// Adds what is new since the sample before to the sum of the run; returns the percentile of it.
static double add_new(struct replay_service_view *v, size_t h, const struct sample *now,
                      const struct sample *before)
{
    size_t n = v->n_bounds[h];
    const double *counts = now->cumulative[h], *old = before ? before->cumulative[h] : NULL;
    GS_AUTO_FREE double *fresh = gs_alloc_array(n + 1, sizeof(double));
    double total = 0;
    assert(counts);
    for (size_t i = 0; i <= n; i++) {
        double count = counts[i] - (i ? counts[i - 1] : 0);
        if (old)
            count -= old[i] - (i ? old[i - 1] : 0);
        fresh[i] = fmax(count, 0);
        v->all[h].counts[i] += fresh[i];
        total += fresh[i];
    }
    const struct replay_service_counts c = {v->bounds[h], fresh, n};
    return total >= FEW_SAMPLES ? replay_service_quantile(&c, 0.9) : NAN;
}

// --- samples ---

static const struct sample *find_sample(const struct samples *s, uint32_t id)
{
    size_t low = 0, high = s->n; // in the order of their creation
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (s->items[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->n && s->items[low].id == id ? &s->items[low] : NULL;
}

static void finish_samples(struct samples *s)
{
    for (size_t i = 0; i < s->n; i++)
        for (size_t h = 0; h < N_HISTOGRAMS; h++)
            free(s->items[i].cumulative[h]);
    s->n = 0;
}

static void read_histograms(const struct replay_service_view *v, const struct inference_stats *in,
                            struct sample *ret)
{
    for (size_t h = 0; h < N_HISTOGRAMS; h++) {
        const struct inference_distribution *d = &in->histograms[inference_slo_histogram(h)];
        ret->cumulative[h] = gs_alloc_array(v->n_bounds[h] + 1, sizeof(double));
        inference_slo_counts(d, ret->cumulative[h]);
        ret->sum[h] = d->sum;
    }
}

static void add_sample(struct replay_service_view *v, const struct inference_pod *p)
{
    struct sample *now = &v->now.items[v->now.n++];
    const struct sample *before = find_sample(&v->before, p->id);
    double seconds = (double)(v->now.at_ns - v->before.at_ns) / 1e9;
    *now = (struct sample){.id = p->id, .starts = p->starts};
    if (!v->bounds[0])
        take_bounds(v, p->stats);
    read_histograms(v, p->stats, now);
    inference_slo_signals(p, &v->s->service->engine, &now->pod);
    now->busy_s = p->stats->busy_s;
    if (before && before->starts != p->starts)
        before = NULL; // its counters began again
    now->ttft_p90_s = add_new(v, SLO_TTFT, now, before);
    now->itl_p90_s = add_new(v, SLO_ITL, now, before);
    if (seconds > 0)
        now->utilization = fmin(100, 100 * (now->busy_s - (before ? before->busy_s : 0)) / seconds);
}

void replay_service_sample(struct replay_service_view *v, const struct inference_fleet *f)
{
    size_t n = inference_fleet_pods(f, v->pods, MAX_PODS), serving = 0;
    struct inference_fleet_figures all = inference_fleet_figures(f);
    finish_samples(&v->before);
    v->before = v->now;
    v->now.n = 0;
    v->now.at_ns = inference_fleet_now(f);
    v->utilization = 0;
    for (size_t i = 0; i < n; i++) {
        if (!v->pods[i].stats)
            continue;
        add_sample(v, &v->pods[i]);
        v->utilization += v->now.items[v->now.n - 1].utilization;
        serving++;
    }
    double seconds = (double)(v->now.at_ns - v->before.at_ns) / 1e9;
    v->utilization = serving ? v->utilization / (double)serving : 0;
    v->rate = seconds > 0 ? (double)(all.arrived - v->arrived) / seconds : 0;
    v->arrived = all.arrived;
}

double replay_service_utilization(const struct replay_service_view *v)
{
    return v->utilization;
}

double replay_service_rate(const struct replay_service_view *v)
{
    return v->rate;
}

const struct replay_service_counts *replay_service_latencies(const struct replay_service_view *v,
                                                             enum inference_histogram h)
{
    return &v->all[h == INFERENCE_TTFT ? SLO_TTFT : SLO_ITL];
}

// --- the latency target ---

static struct slo_histogram histogram_of(const struct replay_service_view *v,
                                         const struct sample *in, size_t h)
{
    return (struct slo_histogram){.bounds = v->bounds[h],
                                  .counts = in->cumulative[h],
                                  .n = v->n_bounds[h] + 1,
                                  .sum = in->sum[h],
                                  .has_sum = true};
}

static void view_slo_pod(const struct replay_service_view *v, const struct inference_pod *p,
                         int64_t now_ms, double start_s, struct slo_pod *ret)
{
    const struct sample *in = find_sample(&v->now, p->id);
    inference_slo_phase(p, T0_MS, now_ms, start_s, ret);
    if (!in || ret->phase != SLO_POD_READY || in->starts != p->starts)
        return;
    ret->sampled_ms = T0_MS + v->now.at_ns / NS_PER_MS;
    memcpy(ret->v, in->pod.v, sizeof(ret->v));
    ret->has = in->pod.has;
    slo_pod_set(ret, SLO_UTILIZATION, in->utilization / 100);
    for (size_t h = 0; h < N_HISTOGRAMS; h++)
        ret->latency[h] = histogram_of(v, in, h);
}

static void decide_target(struct replay_service_view *v, size_t n, int32_t replicas, int64_t now_ms)
{
    const struct replay_service *service = v->s->service;
    double start_s = (double)v->s->startup_ms / 1000 * exp(P90_OF_SIGMA * service->start_spread);
    size_t n_pods = 0;
    for (size_t i = 0; i < n; i++)
        if (v->pods[i].phase != INFERENCE_POD_DRAINING)
            view_slo_pod(v, &v->pods[i], now_ms, start_s, &v->slo_pods[n_pods++]);
    struct slo_observation obs = {.pods = v->slo_pods,
                                  .n_pods = n_pods,
                                  .replicas = replicas,
                                  .min = v->s->spec.min_replicas,
                                  .max = v->s->spec.max_replicas,
                                  .scrape_ms = v->s->sync_ms,
                                  .start_seconds = start_s};
    slo_memory_decide(v->memory, &service->policy, &obs, now_ms, false, &v->decision);
    v->extra = (struct hpa_extra){.replicas = v->decision.proposal,
                                  .applied = !service->policy.shadow,
                                  .held = v->decision.hold,
                                  .name = HPA_LATENCY_NAME,
                                  .explanation = v->decision.explanation};
    v->obs.extra = &v->extra;
}

// --- the metrics of the autoscaler ---

static bool is_of_pods(const struct hpa_metric_spec *m)
{
    return m->type != HPA_METRIC_OBJECT && m->type != HPA_METRIC_EXTERNAL;
}

// Of one pod, or NAN: it has none.
static double value_of(const struct replay_service_view *v, const struct sample *in,
                       enum replay_source source)
{
    switch (source) {
    case REPLAY_UTILIZATION:
        return in->utilization;
    case REPLAY_LOAD:
        return v->now.n ? v->rate / (double)v->now.n : 0;
    case REPLAY_QUEUE:
        return in->pod.v[SLO_WAITING];
    case REPLAY_RUNNING:
        return in->pod.v[SLO_RUNNING];
    case REPLAY_KV:
        return in->pod.v[SLO_KV_USED_RATIO];
    case REPLAY_TTFT:
        return in->ttft_p90_s;
    case REPLAY_ITL:
        return in->itl_p90_s;
    case REPLAY_SERIES:
        break;
    }
    return NAN;
}

// Of all pods: sums of requests; of ratios and latencies the largest.
static double total_of(const struct replay_service_view *v, enum replay_source source)
{
    double sum = 0, top = NAN;
    if (source == REPLAY_LOAD)
        return v->rate;
    if (source == REPLAY_UTILIZATION)
        return v->utilization;
    for (size_t i = 0; i < v->now.n; i++) {
        double one = value_of(v, &v->now.items[i], source);
        top = fmax(top, one); // of which NAN is neither
        sum += isnan(one) ? 0 : one;
    }
    return source == REPLAY_QUEUE || source == REPLAY_RUNNING ? sum : top;
}

static int64_t milli(double value)
{
    return value > 9e15 ? INT64_C(9000000000000000000) : (int64_t)(value * 1000);
}

static double recorded_value(struct replay_service_view *v, size_t i, bool of_pods)
{
    const struct replay_metric *m = &v->s->metrics[i];
    int64_t t_ms = v->now.at_ns / NS_PER_MS;
    double value = replay_curve_at(&m->series, t_ms, &v->series[i]);
    if (m->series_replicas.n && of_pods)
        value *=
            replay_curve_at(&m->series_replicas, t_ms, &v->replicas[i]) / fmax((double)v->now.n, 1);
    return value;
}

static void view_metric(struct replay_service_view *v, size_t i, size_t n)
{
    const struct hpa_metric_spec *spec = &v->s->spec.metrics[i];
    enum replay_source source = v->s->metrics[i].source;
    bool of_pods = is_of_pods(spec), resource = of_pods && spec->type != HPA_METRIC_PODS;
    double series = source == REPLAY_SERIES ? recorded_value(v, i, of_pods) : NAN;
    int64_t at_ms = T0_MS + v->now.at_ns / NS_PER_MS;
    struct hpa_sample *out = v->values[i];
    size_t n_out = 0;
    double total = of_pods ? NAN : source == REPLAY_SERIES ? series : total_of(v, source);
    if (!isnan(total))
        out[n_out++] = (struct hpa_sample){.value = milli(total), .timestamp_ms = at_ms};
    for (size_t k = 0; of_pods && k < n; k++) {
        const struct sample *in = find_sample(&v->now, v->pods[k].id);
        double value = !in ? NAN : source == REPLAY_SERIES ? series : value_of(v, in, source);
        if (!isnan(value) && v->pods[k].phase == INFERENCE_POD_READY)
            out[n_out++] = (struct hpa_sample){.pod = v->pods[k].name,
                                               .value = milli(resource ? value / 100 : value),
                                               .timestamp_ms = at_ms};
    }
    v->metrics[i] = (struct hpa_metric_observation){.samples = out, .n_samples = n_out};
    if (!n_out)
        v->metrics[i].error = "no metrics returned from the simulated metrics API";
}

// --- the observation ---

static void view_pod(const struct replay_service_view *v, const struct inference_pod *p,
                     struct hpa_pod *ret)
{
    bool ready = p->phase == INFERENCE_POD_READY;
    int64_t created_ms = T0_MS + p->created_ns / NS_PER_MS;
    *ret = (struct hpa_pod){
        .name = p->name,
        .phase = p->phase == INFERENCE_POD_UNSCHEDULABLE ? HPA_POD_PENDING : HPA_POD_RUNNING,
        .ready = ready ? HPA_CONDITION_TRUE : HPA_CONDITION_FALSE,
        .ready_transition_ms = ready ? T0_MS + p->since_ns / NS_PER_MS : created_ms,
        .has_start_time = p->phase != INFERENCE_POD_UNSCHEDULABLE,
        .start_time_ms = created_ms,
        .requests_milli = v->requests,
        .deleting = p->phase == INFERENCE_POD_DRAINING,
    };
}

const struct hpa_observation *replay_service_observe(struct replay_service_view *v,
                                                     const struct inference_fleet *f,
                                                     bool no_metrics)
{
    size_t n = inference_fleet_pods(f, v->pods, MAX_PODS);
    int32_t replicas = (int32_t)inference_fleet_replicas(f);
    for (size_t i = 0; i < n; i++)
        view_pod(v, &v->pods[i], &v->hpa_pods[i]);
    v->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = replicas,
                                      .status_replicas = replicas,
                                      .selector = "app=replay",
                                      .pods = v->hpa_pods,
                                      .n_pods = n,
                                      .metrics = v->metrics};
    for (size_t i = 0; i < v->s->spec.n_metrics; i++)
        view_metric(v, i, n);
    for (size_t i = 0; i < v->s->spec.n_metrics && no_metrics; i++)
        v->metrics[i] =
            (struct hpa_metric_observation){.error = "the simulated metrics API is unavailable"};
    if (v->s->service->has_policy && !no_metrics)
        decide_target(v, n, replicas, T0_MS + inference_fleet_now(f) / NS_PER_MS);
    return &v->obs;
}

// --- life ---

struct replay_service_view *replay_service_view_new(const struct replay_scenario *s)
{
    size_t n = s->spec.n_metrics;
    struct replay_service_view *v = gs_alloc(sizeof(*v));
    v->s = s;
    v->memory = slo_memory_new();
    v->series = gs_alloc_array(n + 1, sizeof(*v->series));
    v->replicas = gs_alloc_array(n + 1, sizeof(*v->replicas));
    v->metrics = gs_alloc_array(n + 1, sizeof(*v->metrics));
    v->values = gs_alloc_array(n + 1, sizeof(*v->values));
    v->requests = gs_alloc_array(n + 1, sizeof(*v->requests));
    for (size_t i = 0; i < n; i++) {
        v->values[i] = gs_alloc_array(MAX_PODS, sizeof(**v->values));
        v->requests[i] = 1000; // 1, so that usage is the utilization
    }
    return v;
}

void replay_service_view_free(struct replay_service_view *v)
{
    if (!v)
        return;
    finish_samples(&v->now);
    finish_samples(&v->before);
    for (size_t h = 0; h < N_HISTOGRAMS; h++) {
        free(v->owned[h]);
        free(v->all[h].counts);
    }
    for (size_t i = 0; i < v->s->spec.n_metrics; i++)
        free(v->values[i]);
    free(v->values);
    free(v->metrics);
    free(v->requests);
    free(v->series);
    free(v->replicas);
    slo_memory_free(v->memory);
    free(v);
}
