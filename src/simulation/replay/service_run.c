// SPDX-License-Identifier: Apache-2.0
// Runs an inference service through time: at each sync, its pods are observed with the delay of the
// scenario, slo_decide() and hpa_decide() decide, and the replicas change.
#include "replay/service_private.h"

#include "base/mem.h"
#include "replay/scenario_private.h"
#include "replay/simulated_cluster.h"

#include <assert.h>
#include <math.h>

#define T0_MS     REPLAY_T0_MS
#define NS_PER_MS INT64_C(1000000)

struct service_run {
    const struct replay_scenario *s;
    struct inference_fleet *fleet;
    struct replay_service_view *view;
    struct hpa_history *history;
    struct replay_result result;
    size_t next_event;
    int64_t t_ms, last_ms;
    double replica_ms, queue_ms; // integrals
    double ttft_p90_s;           // of the last row
};

static struct inference_fleet *make_fleet(const struct replay_scenario *s,
                                          const struct inference_arrival *arrivals, size_t n)
{
    const struct replay_service *v = s->service;
    const struct inference_fleet_setup setup = {
        .engine = v->engine,
        .router = v->router,
        .replicas = (uint32_t)s->replicas,
        .start_s = (double)s->startup_ms / 1000,
        .start_spread = v->start_spread,
        .failed_starts = v->failed_starts,
        .ttft_s = v->has_goal ? v->goal_policy.seconds[SLO_TTFT] : 0,
        .tpot_s = v->has_goal ? v->goal_policy.seconds[SLO_ITL] : 0,
        .seed = v->seed,
    };
    return inference_fleet_new(&setup, arrivals, n);
}

static void apply_events(struct service_run *run)
{
    const struct replay_scenario *s = run->s;
    for (; run->next_event < s->n_events && s->events[run->next_event].at_ms <= run->t_ms;
         run->next_event++) {
        const struct replay_event *e = &s->events[run->next_event];
        for (size_t i = 0; i < e->lose && i < REPLAY_SERVICE_MAX_REPLICAS; i++)
            inference_fleet_crash(run->fleet, 0);
        if (e->scale >= 0)
            inference_fleet_scale(run->fleet, (uint32_t)e->scale);
    }
}

// Up to this time, with the events in between.
static void advance(struct service_run *run, int64_t until_ms)
{
    const struct replay_scenario *s = run->s;
    while (run->next_event < s->n_events && s->events[run->next_event].at_ms < until_ms) {
        run->t_ms = s->events[run->next_event].at_ms;
        inference_fleet_advance(run->fleet, run->t_ms * NS_PER_MS);
        apply_events(run);
    }
    run->t_ms = until_ms;
    inference_fleet_advance(run->fleet, until_ms * NS_PER_MS);
}

static void record(struct service_run *run, const struct inference_fleet_moment *m,
                   const struct hpa_decision *d)
{
    struct replay_summary *sum = &run->result.summary;
    double ms = (double)(run->t_ms - run->last_ms);
    run->last_ms = run->t_ms;
    run->replica_ms += m->replicas * ms;
    run->queue_ms += m->waiting * ms;
    sum->queue_max = fmax(sum->queue_max, m->waiting);
    sum->over_level_s += m->waiting > 0 ? ms / 1000 : 0;
    sum->min_replicas = d->desired < sum->min_replicas ? d->desired : sum->min_replicas;
    if (!run->result.rows)
        return;
    if (!isnan(m->ttft_p90_s))
        run->ttft_p90_s = m->ttft_p90_s;
    run->result.rows[run->result.n++] = (struct replay_row){
        .t_ms = run->t_ms,
        .load = replay_service_rate(run->view),
        .utilization = replay_service_utilization(run->view),
        .queue = m->waiting,
        .desired = d->desired,
        .running = (int32_t)(m->ready + m->starting),
        .ready = (int32_t)m->ready,
        .ttft_p90_s = run->ttft_p90_s,
        .why = d->rescale ? replay_decision_reason(d) : NULL,
    };
}

static void evaluate(struct service_run *run)
{
    const struct replay_scenario *s = run->s;
    bool no_metrics = replay_metrics_are_away(s, run->t_ms);
    const struct hpa_observation *obs = replay_service_observe(run->view, run->fleet, no_metrics);
    struct inference_fleet_moment m;
    struct hpa_decision d;
    inference_fleet_take_moment(run->fleet, &m);
    hpa_decide(&s->spec, obs, &s->controller, run->history, T0_MS + run->t_ms, &d);
    record(run, &m, &d);
    run->result.summary.evaluations++;
    run->result.summary.over_target_s +=
        replay_is_over_target(s, &d) ? (double)s->sync_ms / 1000 : 0;
    if (d.rescale) {
        hpa_history_scaled(run->history, &s->spec, d.current, d.desired, T0_MS + run->t_ms);
        inference_fleet_scale(run->fleet, (uint32_t)d.desired);
    }
    hpa_decision_finish(&d);
}

static double quantile(const struct service_run *run, enum inference_histogram h, double q)
{
    const struct replay_service_counts *c = replay_service_latencies(run->view, h);
    double v = c->counts ? replay_service_quantile(c, q) : NAN;
    return isnan(v) ? 0 : v;
}

static void summarize(struct service_run *run)
{
    const struct replay_scenario *s = run->s;
    const struct inference_fleet_figures f = inference_fleet_figures(run->fleet);
    struct replay_summary *u = &run->result.summary;
    u->of_service = true;
    u->gpu_hours = f.pod_hours * (double)s->gpus_per_replica;
    u->price = s->price * u->gpu_hours;
    u->offered = u->requests = (double)f.arrived;
    u->served = u->finished = (double)f.finished;
    u->unserved = (double)(f.arrived - f.finished);
    u->within = (double)f.within;
    u->within_percent = f.arrived ? 100 * u->within / u->requests : 0;
    u->ttft_p50_s = quantile(run, INFERENCE_TTFT, 0.5);
    u->ttft_p90_s = quantile(run, INFERENCE_TTFT, 0.9);
    u->ttft_p99_s = quantile(run, INFERENCE_TTFT, 0.99);
    u->itl_p90_s = quantile(run, INFERENCE_ITL, 0.9);
    u->ups = f.ups;
    u->downs = f.downs;
    u->reversals = f.reversals;
    u->max_replicas = (int32_t)f.peak;
    u->mean_replicas = run->replica_ms / (double)s->duration_ms;
    u->wait_s = u->served > 0 ? run->queue_ms / 1000 / u->served : 0;
}

struct replay_result replay_service_run(const struct replay_scenario *s, bool rows)
{
    struct inference_arrival *arrivals = NULL;
    size_t n = 0;
    struct service_run run = {.s = s, .history = hpa_history_new()};
    // replay_service_prepare() has checked the number.
    GS_AUTO_ERROR struct gs_error *err = replay_service_arrivals(s, &arrivals, &n);
    run.fleet = make_fleet(s, arrivals, err ? 0 : n);
    run.view = replay_service_view_new(s);
    run.result.summary.min_replicas = s->replicas;
    if (rows)
        run.result.rows =
            gs_alloc_array((size_t)(s->duration_ms / s->sync_ms) + 2, sizeof(*run.result.rows));
    for (int64_t t_ms = s->sync_ms; t_ms <= s->duration_ms; t_ms += s->sync_ms) {
        advance(&run, t_ms - s->delay_ms);
        replay_service_sample(run.view, run.fleet);
        advance(&run, t_ms);
        evaluate(&run);
    }
    advance(&run, s->duration_ms);
    replay_service_sample(run.view, run.fleet);
    summarize(&run);
    replay_service_view_free(run.view);
    inference_fleet_free(run.fleet);
    hpa_history_free(run.history);
    free(arrivals);
    return run.result;
}
