// SPDX-License-Identifier: Apache-2.0
// gpuscale's own policy: slo_decide() on the signals of the engines and the forecast of the demand,
// applied by hpa_decide() with the default behavior of an autoscaler. Start-up times are learned
// from the pods of the run.
#include "latency.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "inference/slo_view.h"
#include "slo/capacity.h"
#include "slo/memory.h"
#include "startup/startup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define T0_MS INT64_C(1800000000000)

enum { MAX_PODS = 1024, MAX_STARTS = 64 };

struct engine_histogram {
    double bounds[SLO_MAX_BUCKETS], counts[SLO_MAX_BUCKETS];
};

struct slo_scaler {
    struct latency_scaler *scaler;
    struct slo_policy policy;
    struct slo_memory *memory;
    struct inference_parameters engine;
    struct slo_pod pods[MAX_PODS];
    struct engine_histogram (*histograms)[SLO_LATENCIES]; // of each pod
    char names[MAX_PODS][16];
    size_t n_pods;
    uint32_t seen; // the newest pod whose start has ended
    double starts_s[MAX_STARTS];
    size_t n_starts;
    struct slo_capacity_policy capacity;
    struct slo_capacity_state placeholders;
};

// --- another hour of the same trace ---

#define OTHER_SEEDS 100000

static struct {
    bool runs;       // its state is wanted at its end
    json_t *memory;  // of its end
    double duration; // s
    double starts_s[MAX_STARTS];
    size_t n_starts;
} other;

static void keep_other(const struct slo_scaler *s)
{
    other.memory = slo_memory_json(s->memory, true, T0_MS + (int64_t)(other.duration * 1000));
    memcpy(other.starts_s, s->starts_s, sizeof(s->starts_s));
    other.n_starts = s->n_starts;
}

static void run_other(const struct latency_policy *p, const struct latency_case *c, double setting)
{
    struct latency_result unused = {0};
    struct latency_case o;
    bool log = latency_log;
    latency_log = false;
    latency_case_open(&o, c->trace, c->start_s, c->duration_s, c->seed + OTHER_SEEDS);
    other.runs = true;
    other.duration = c->duration_s;
    latency_run(&o, p, setting, &unused);
    other.runs = false;
    latency_case_close(&o);
    latency_log = log;
}

static void begin_with_other(struct slo_scaler *s)
{
    int64_t passed_ms = (int64_t)(other.duration * 1000);
    bench_check(slo_memory_restore(s->memory, other.memory, T0_MS + passed_ms));
    slo_memory_shift(s->memory, -passed_ms, T0_MS);
    memcpy(s->starts_s, other.starts_s, sizeof(s->starts_s));
    s->n_starts = other.n_starts;
    json_decref(GS_TAKE(other.memory));
}

// --- life ---

#define PERCENT 95.0

static void *slo_begin(const struct latency_policy *p, const struct latency_case *c, double setting)
{
    bool ahead = p == &latency_ahead;
    double percent = ahead ? PERCENT : setting;
    // Rises of the demand are known after an hour.
    if ((latency_learned || ahead) && !other.runs)
        run_other(p, c, setting);
    struct slo_scaler *s = gs_alloc(sizeof(*s));
    GS_AUTO_FREE char *metric =
        gs_format(LATENCY_EXTERNAL, SLO_METRIC_DESIRED, "AverageValue", "averageValue", 1000);
    GS_AUTO_FREE char *policy = gs_format("ttft=%dms,itl=%dms,p=%g", (int)(LATENCY_TTFT_S * 1000),
                                          (int)(LATENCY_TPOT_S * 1000), percent);
    s->scaler = latency_scaler_new(metric, true);
    bench_check(slo_policy_parse(policy, &s->policy));
    s->memory = slo_memory_new();
    s->engine = latency_engine();
    if (ahead)
        s->capacity =
            (struct slo_capacity_policy){.kind = SLO_CAPACITY_PODS, .max = (int32_t)setting};
    s->histograms = gs_alloc_array(MAX_PODS, sizeof(*s->histograms));
    if (other.memory)
        begin_with_other(s);
    return s;
}

static void slo_end(void *state)
{
    struct slo_scaler *s = state;
    if (other.runs)
        keep_other(s);
    latency_scaler_end(s->scaler);
    slo_memory_free(s->memory);
    free(s->histograms);
    free(s);
}

// --- start-up times ---

static void learn_starts(struct slo_scaler *s, const struct latency_view *v)
{
    for (size_t i = 0; i < v->n_pods; i++) {
        const struct inference_pod *p = &v->pods[i];
        if (p->phase != INFERENCE_POD_READY || p->id <= s->seen || p->starts > 1)
            continue;
        s->seen = p->id;
        if (p->created_ns > 0)
            s->starts_s[s->n_starts++ % MAX_STARTS] = (double)(p->since_ns - p->created_ns) / 1e9;
    }
}

static double expected_start(struct slo_scaler *s)
{
    struct bench_series sorted = {0};
    for (size_t i = 0; i < s->n_starts && i < MAX_STARTS; i++)
        bench_add(&sorted, s->starts_s[i]);
    double p90 = s->n_starts ? bench_percentile(&sorted, 90) : (double)STARTUP_DEFAULT_MS / 1000;
    bench_series_finish(&sorted);
    return p90;
}

// --- signals ---

static struct slo_histogram read_histogram(const struct inference_distribution *d,
                                           struct engine_histogram *memory)
{
    for (size_t i = 0; i <= d->n; i++)
        memory->bounds[i] = i < d->n ? d->bounds[i] : INFINITY;
    inference_slo_counts(d, memory->counts);
    return (struct slo_histogram){.bounds = memory->bounds,
                                  .counts = memory->counts,
                                  .n = d->n + 1,
                                  .sum = d->sum,
                                  .has_sum = true};
}

static void read_signals(const struct slo_scaler *s, const struct inference_pod *p,
                         struct engine_histogram *memory, struct slo_pod *ret)
{
    for (size_t l = 0; l < SLO_OTHER; l++)
        ret->latency[l] =
            read_histogram(&p->stats->histograms[inference_slo_histogram(l)], &memory[l]);
    inference_slo_signals(p, &s->engine, ret);
}

static size_t read_pods(struct slo_scaler *s, const struct latency_view *v, int64_t now_ms,
                        double start_s)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_pods && n < MAX_PODS; i++) {
        const struct inference_pod *p = &v->pods[i];
        if (p->phase == INFERENCE_POD_DRAINING)
            continue;
        struct slo_pod *to = &s->pods[n];
        inference_slo_phase(p, T0_MS, now_ms, start_s, to);
        if (to->phase == SLO_POD_READY && p->stats) {
            to->sampled_ms = now_ms;
            read_signals(s, p, s->histograms[n], to);
        }
        n++;
    }
    return n;
}

static void log_decision(const struct latency_view *v, const struct slo_decision *d, uint32_t n)
{
    static uint32_t last;
    if (n == v->replicas && n == last)
        return;
    last = n;
    printf("%5.0f s: %u -> %u, ready %u, waiting %.0f, running %.0f, pressure %.2f: %s%s\n", v->t_s,
           v->replicas, n, v->ready, v->waiting, v->running, d->pressure,
           d->hold ? d->hold_text : d->explanation,
           d->guard.checked && !d->guard.holds ? d->guard.text : "");
}

// --- old values ---

enum { STALE_EVERY_S = 120, STALE_FOR_S = 60, SCRAPE_S = 5 };

static bool is_stale(const struct latency_view *v)
{
    return v->c->stale && v->t_s >= STALE_EVERY_S && fmod(v->t_s, STALE_EVERY_S) < STALE_FOR_S;
}

// Values are old after three scrapes.
static void count_stale(const struct latency_view *v, uint32_t n)
{
    double since = fmod(v->t_s, STALE_EVERY_S);
    latency_n_stale += since == 0;
    latency_stale_ups += since > 3 * SCRAPE_S && n > v->replicas;
}

// --- the decision ---

static void decide_placeholders(struct slo_scaler *s, const struct slo_decision *d, uint32_t n,
                                int64_t now_ms)
{
    const struct forecast *forecast = slo_memory_forecast(s->memory);
    struct forecast_result r;
    struct slo_capacity unused;
    if (!forecast)
        return;
    forecast_read(forecast, &r);
    const struct slo_capacity_input in = {.decision = d,
                                          .growth = r.growth,
                                          .rise = slo_memory_rise(s->memory, d),
                                          .horizon_ms = r.horizon_ms,
                                          .replicas = (int32_t)n,
                                          .max = LATENCY_MAX_REPLICAS};
    slo_capacity_decide(&s->capacity, &in, &s->placeholders, now_ms, &unused);
}

// For how many seconds a decision stands; t_s: of virtual time.
static void count_causes(const struct latency_view *v, const struct slo_decision *d)
{
    double window = fmin(20, v->t_s), hours = SCRAPE_S / 3600.0, replicas = v->replicas, bound = 0;
    double leak = 1 + v->c->trace->leak_per_hour * v->t_s / 3600;
    double work = latency_work(v->c, v->t_s - window, v->t_s) / window;
    double need = fmin(ceil(work / v->c->capacity * leak), replicas);
    for (size_t i = 0; i < d->n_bounds; i++)
        bound = fmax(bound, d->bounds[i].proposal);
    bound = d->hold ? replicas : fmin(fmax(bound, need), replicas);
    double proposal = fmin(fmax(d->proposal, bound), replicas);
    latency_causes.need += hours * need;
    latency_causes.bound += hours * (bound - need);
    latency_causes.guard += hours * (proposal - bound);
    latency_causes.window += hours * (replicas - proposal);
    latency_causes.starting += hours * v->starting;
    latency_causes.draining += hours * ((double)v->n_pods - v->ready - v->starting);
}

static uint32_t count_placeholders(const void *state)
{
    const struct slo_scaler *s = state;
    return (uint32_t)s->placeholders.placeholders;
}

static uint32_t slo_decide_replicas(void *state, const struct latency_view *v)
{
    struct slo_scaler *s = state;
    int64_t now_ms = T0_MS + (int64_t)(v->t_s * 1000);
    learn_starts(s, v);
    double start_s = expected_start(s);
    if (!is_stale(v))
        s->n_pods = read_pods(s, v, now_ms, start_s);
    struct slo_observation obs = {.pods = s->pods,
                                  .n_pods = s->n_pods,
                                  .replicas = (int32_t)v->replicas,
                                  .min = 1,
                                  .max = LATENCY_MAX_REPLICAS,
                                  .scrape_ms = SCRAPE_S * 1000,
                                  .start_seconds = start_s};
    struct slo_decision d;
    int64_t begun = gs_thread_cpu_ns();
    slo_memory_decide(s->memory, &s->policy, &obs, now_ms, !latency_log, &d);
    latency_decision_ns += gs_thread_cpu_ns() - begun;
    latency_n_decisions++;
    if (!other.runs)
        count_causes(v, &d);
    const struct hpa_extra extra = {.replicas = d.proposal,
                                    .applied = true,
                                    .held = d.hold,
                                    .name = HPA_LATENCY_NAME,
                                    .explanation = ""};
    uint32_t n = latency_scaler_decide(s->scaler, v, NULL, &extra);
    if (s->capacity.kind != SLO_CAPACITY_NONE)
        decide_placeholders(s, &d, n, now_ms);
    if (is_stale(v))
        count_stale(v, n);
    if (latency_log)
        log_decision(v, &d, n);
    return n;
}

struct latency_causes latency_causes;
bool latency_log, latency_learned;
int64_t latency_decision_ns, latency_n_decisions;
int64_t latency_n_stale, latency_stale_ups;

const struct latency_policy latency_gpuscale = {.name = "gpuscale",
                                                .period_s = SCRAPE_S,
                                                .begin = slo_begin,
                                                .decide = slo_decide_replicas,
                                                .end = slo_end,
                                                .settings = {95, 90},
                                                .unit = "percent"};

const struct latency_policy latency_ahead = {.name = "gpuscale, capacity in advance",
                                             .period_s = SCRAPE_S,
                                             .begin = slo_begin,
                                             .decide = slo_decide_replicas,
                                             .end = slo_end,
                                             .placeholders = count_placeholders,
                                             .settings = {1, 2, 4},
                                             .unit = "at most"};
