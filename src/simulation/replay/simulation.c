// SPDX-License-Identifier: Apache-2.0
// Runs a workload through time: at each sync, the cluster is observed with its delay, hpa_decide()
// decides, and the replicas change. It is the same function that the controller uses.
#include "base/mem.h"
#include "replay/scenario_private.h"
#include "replay/simulated_cluster.h"
#include "startup/startup.h"

#include <math.h>

#define T0_MS REPLAY_T0_MS

// The observation of an evaluation. Its memory is reused by the next one.
struct replay_view {
    size_t room;         // capacity in pods
    size_t version;      // of the cluster at the last update of the pods
    struct view_curves { // pieces of the recorded curves
        struct replay_curve_piece series, replicas;
    } * curves;
    struct hpa_pod *pods;
    int64_t *requests;           // of pod i and metric m
    struct hpa_sample **samples; // of each metric
    struct hpa_metric_observation *metrics;
    struct hpa_sample *load; // of the down check: the utilization of each pod
    struct hpa_metric_observation loads[HPA_MAX_LOADS];
    struct startup_coming coming;
    struct hpa_observation obs;
};

static int64_t milli(double v)
{
    return v > 9e15 || isnan(v) ? INT64_C(9000000000000000000) : (int64_t)(v * 1000);
}

static void view_pods(struct replay_cluster *cluster, struct replay_view *v)
{
    size_t m = cluster->s->spec.n_metrics;
    replay_cluster_count(cluster);
    v->obs.pods = v->pods;
    v->obs.n_pods = cluster->n_pods;
    if (v->version == cluster->version)
        return;
    v->version = cluster->version;
    for (size_t i = 0; i < cluster->n_pods; i++) {
        const struct replay_pod *p = &cluster->pods[i];
        bool started = p->started_ms != INT64_MAX, ready = p->ready_ms <= cluster->t_ms;
        for (size_t k = 0; k < m; k++)
            v->requests[i * m + k] = 1000; // a request of 1, so that usage is the utilization
        v->pods[i] = (struct hpa_pod){
            .name = p->name,
            .phase = started ? HPA_POD_RUNNING : HPA_POD_PENDING,
            .ready = ready ? HPA_CONDITION_TRUE : HPA_CONDITION_FALSE,
            .ready_transition_ms = T0_MS + (ready ? p->ready_ms : p->created_ms),
            .has_start_time = started,
            .start_time_ms = T0_MS + (started ? p->started_ms : 0),
            .requests_milli = &v->requests[i * m],
        };
    }
}

static bool is_of_pods(const struct hpa_metric_spec *m)
{
    return m->type == HPA_METRIC_PODS || m->type == HPA_METRIC_RESOURCE ||
           m->type == HPA_METRIC_CONTAINER_RESOURCE;
}

// The value of one pod (its share of load and queue), or of all pods.
static double observed_value(struct replay_cluster *cluster, const struct replay_metric *m,
                             bool of_pod, struct view_curves *at)
{
    const struct replay_moment *seen = replay_cluster_observed(cluster);
    double share = of_pod ? fmax(seen->ready, 1) : 1;
    switch (m->source) {
    case REPLAY_UTILIZATION:
        return seen->utilization;
    case REPLAY_LOAD:
        return seen->load / share;
    case REPLAY_QUEUE:
        return seen->queue / share;
    case REPLAY_SERIES:
        break;
    }
    int64_t t = cluster->t_ms - cluster->s->delay_ms;
    double v = replay_curve_at(&m->series, t > 0 ? t : 0, &at->series);
    // The recorded total, divided by the current number of replicas.
    if (m->series_replicas.n && of_pod)
        v = v * replay_curve_at(&m->series_replicas, t > 0 ? t : 0, &at->replicas) /
            fmax(replay_cluster_count(cluster)->ready, 1);
    return v;
}

static void view_metric(struct replay_cluster *cluster, size_t i, struct replay_view *v)
{
    const struct hpa_metric_spec *spec = &cluster->s->spec.metrics[i];
    const struct replay_metric *m = &cluster->s->metrics[i];
    bool of_pods = is_of_pods(spec), resource = of_pods && spec->type != HPA_METRIC_PODS;
    struct hpa_sample *samples = v->samples[i];
    double value = observed_value(cluster, m, of_pods, &v->curves[i]);
    size_t n = 0;
    // The usage of a resource in percent of a request of 1.
    int64_t shown = resource ? milli(value / 100) : milli(value);
    int64_t seen_ms = cluster->t_ms - cluster->s->delay_ms;
    if (!of_pods)
        samples[n++] = (struct hpa_sample){.value = shown, .timestamp_ms = T0_MS + seen_ms};
    for (size_t k = 0; of_pods && k < cluster->n_pods; k++)
        if (cluster->pods[k].ready_ms <= seen_ms)
            samples[n++] = (struct hpa_sample){
                .pod = cluster->pods[k].name, .value = shown, .timestamp_ms = T0_MS + seen_ms};
    v->metrics[i] = (struct hpa_metric_observation){.samples = samples, .n_samples = n};
    if (!n)
        v->metrics[i].error = "no metrics returned from the simulated metrics API";
}

// All loads of the down check are the utilization.
static void view_loads(struct replay_cluster *cluster, struct replay_view *v)
{
    const struct replay_moment *seen = replay_cluster_observed(cluster);
    int64_t seen_ms = cluster->t_ms - cluster->s->delay_ms;
    size_t n = 0;
    for (size_t k = 0; k < cluster->n_pods; k++)
        if (cluster->pods[k].ready_ms <= seen_ms)
            v->load[n++] = (struct hpa_sample){.pod = cluster->pods[k].name,
                                               .value = milli(seen->utilization),
                                               .timestamp_ms = T0_MS + seen_ms};
    for (size_t i = 0; i < cluster->s->spec.n_loads; i++)
        v->loads[i] = (struct hpa_metric_observation){.samples = v->load, .n_samples = n};
    v->obs.loads = v->loads;
}

// A pod that waits for a node counts as starting until it is late.
static struct startup_progress progress_of(const struct replay_cluster *cluster,
                                           const struct replay_pod *p)
{
    const struct replay_scenario *s = cluster->s;
    bool placed = p->started_ms != INT64_MAX;
    int64_t takes = s->startup_ms + (placed ? 0 : s->provision_ms);
    int64_t expected = placed ? p->ready_ms : p->created_ms + takes;
    struct startup_progress out = {.created_ms = T0_MS + p->created_ms};
    if (p->ready_ms <= cluster->t_ms) {
        out.state = STARTUP_READY;
        out.ready_ms = T0_MS + p->ready_ms;
    } else {
        out.state = expected + takes / 4 < cluster->t_ms ? STARTUP_LATE : STARTUP_STARTING;
        out.expected_ms = T0_MS + expected;
    }
    return out;
}

static void view_coming(struct replay_cluster *cluster, struct replay_view *v)
{
    int64_t now_ms = T0_MS + cluster->t_ms;
    v->coming = (struct startup_coming){.start_ms = cluster->s->startup_ms};
    for (size_t i = 0; i < cluster->n_pods; i++) {
        const struct startup_progress p = progress_of(cluster, &cluster->pods[i]);
        startup_coming_add(&v->coming, &p, now_ms);
    }
    v->obs.coming = &v->coming;
}

static void view_reserve(const struct replay_cluster *cluster, struct replay_view *v)
{
    size_t n = cluster->s->spec.n_metrics;
    if (cluster->n_pods < v->room)
        return;
    v->version = 0;
    v->room = 2 * cluster->n_pods + 16;
    v->pods = gs_realloc_array(v->pods, v->room, sizeof(*v->pods));
    v->requests = gs_realloc_array(v->requests, v->room * n + 1, sizeof(*v->requests));
    for (size_t i = 0; i < n; i++)
        v->samples[i] = gs_realloc_array(v->samples[i], v->room, sizeof(**v->samples));
    v->load = gs_realloc_array(v->load, v->room, sizeof(*v->load));
}

static void view_update(struct replay_cluster *cluster, int32_t replicas, struct replay_view *v)
{
    v->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = replicas,
                                      .status_replicas = (int32_t)cluster->n_pods,
                                      .selector = "app=replay",
                                      .metrics = v->metrics};
    view_reserve(cluster, v);
    view_pods(cluster, v);
    for (size_t i = 0; i < cluster->s->spec.n_metrics; i++)
        view_metric(cluster, i, v);
    if (cluster->s->spec.n_loads)
        view_loads(cluster, v);
    if (cluster->s->spec.credit)
        view_coming(cluster, v);
}

static void view_start(size_t n_metrics, struct replay_view *v)
{
    *v = (struct replay_view){.samples = gs_alloc_array(n_metrics + 1, sizeof(*v->samples)),
                              .metrics = gs_alloc_array(n_metrics + 1, sizeof(*v->metrics)),
                              .curves = gs_alloc_array(n_metrics + 1, sizeof(*v->curves))};
}

static void view_finish(struct replay_view *v, size_t n_metrics)
{
    for (size_t i = 0; i < n_metrics; i++)
        free(v->samples[i]);
    free(v->samples);
    free(v->load);
    free(v->metrics);
    free(v->curves);
    free(v->pods);
    free(v->requests);
}

static char *reason_of(const struct hpa_decision *d)
{
    const char *metric = "";
    for (size_t i = 0; i < d->n_metrics; i++)
        if (d->metrics[i].ok && d->metrics[i].proposal == d->proposal)
            metric = d->metrics[i].explanation;
    bool both = *metric && d->explanation && *d->explanation;
    return gs_format("%s%s%s", *metric ? metric : d->reason, both ? "; " : "",
                     both ? d->explanation : "");
}

static void record_row(struct replay_cluster *cluster, const struct hpa_decision *d,
                       struct replay_result *r)
{
    const struct replay_moment *now = replay_cluster_now(cluster);
    const struct replay_counts *c = replay_cluster_count(cluster);
    r->rows[r->n++] = (struct replay_row){
        .t_ms = cluster->t_ms,
        .load = now->load,
        .utilization = now->utilization,
        .queue = now->queue,
        .desired = d->desired,
        .running = c->running,
        .ready = c->ready,
        .nodes = c->nodes_ready,
        .why = d->rescale ? reason_of(d) : NULL,
    };
}

static bool metrics_are_away(const struct replay_scenario *s, int64_t t_ms)
{
    for (size_t i = 0; i < s->n_events; i++)
        if (s->events[i].no_metrics && t_ms >= s->events[i].at_ms &&
            t_ms - s->events[i].at_ms < s->events[i].for_ms)
            return true;
    return false;
}

static bool is_over_target(const struct replay_scenario *s, const struct hpa_decision *d)
{
    double tolerance = s->spec.up.has_tolerance ? s->spec.up.tolerance : s->controller.tolerance;
    for (size_t i = 0; i < d->n_metrics; i++)
        if (d->metrics[i].ok && d->metrics[i].ratio > 1 + tolerance)
            return true;
    return false;
}

static void evaluate(struct replay_cluster *cluster, struct hpa_history *history,
                     struct replay_view *v, int32_t *replicas, struct replay_result *r)
{
    const struct replay_scenario *s = cluster->s;
    struct hpa_decision d;
    view_update(cluster, *replicas, v);
    for (size_t i = 0; i < s->spec.n_metrics && metrics_are_away(s, cluster->t_ms); i++)
        v->metrics[i] =
            (struct hpa_metric_observation){.error = "the simulated metrics API is unavailable"};
    hpa_decide(&s->spec, &v->obs, &s->controller, history, T0_MS + cluster->t_ms, &d);
    if (r->rows)
        record_row(cluster, &d, r);
    cluster->sum.evaluations++;
    cluster->sum.over_target_s += is_over_target(s, &d) ? (double)s->sync_ms / 1000 : 0;
    if (d.rescale) {
        hpa_history_scaled(history, &s->spec, d.current, d.desired, T0_MS + cluster->t_ms);
        cluster->sum.ups += d.desired > d.current;
        cluster->sum.downs += d.desired < d.current;
        *replicas = d.desired;
        replay_cluster_scale(cluster, d.desired);
    }
    hpa_decision_finish(&d);
}

static int64_t apply_events(struct replay_cluster *cluster, size_t *next, int32_t *replicas)
{
    const struct replay_scenario *s = cluster->s;
    for (; *next < s->n_events && s->events[*next].at_ms <= cluster->t_ms; ++*next) {
        const struct replay_event *e = &s->events[*next];
        if (e->lose)
            replay_cluster_lose(cluster, e->lose);
        if (e->scale >= 0) {
            *replicas = e->scale;
            replay_cluster_scale(cluster, e->scale);
        }
    }
    return *next < s->n_events ? s->events[*next].at_ms : INT64_MAX;
}

static int64_t min_ms(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void replay_workload_start(struct replay_workload_run *w, const struct replay_scenario *s,
                           const struct replay_placer *placer, bool rows)
{
    size_t evaluations = (size_t)(s->duration_ms / s->sync_ms) + 2;
    *w = (struct replay_workload_run){.history = hpa_history_new(),
                                      .view = gs_alloc(sizeof(*w->view)),
                                      .replicas = s->replicas,
                                      .next_sync_ms = s->object ? 0 : INT64_MAX};
    if (rows && s->object)
        w->result.rows = gs_realloc_array(NULL, evaluations, sizeof(*w->result.rows));
    replay_cluster_start(&w->cluster, s, placer);
    view_start(s->spec.n_metrics, w->view);
}

int64_t replay_workload_act(struct replay_workload_run *w)
{
    int64_t event_ms = apply_events(&w->cluster, &w->next_event, &w->replicas);
    if (w->cluster.t_ms >= w->next_sync_ms) {
        evaluate(&w->cluster, w->history, w->view, &w->replicas, &w->result);
        w->next_sync_ms += w->cluster.s->sync_ms;
    }
    return min_ms(event_ms, w->next_sync_ms);
}

void replay_workload_finish(struct replay_workload_run *w)
{
    struct replay_cluster *cluster = &w->cluster;
    const struct replay_scenario *s = cluster->s;
    double seconds = (double)s->duration_ms / 1000;
    cluster->sum.mean_replicas = cluster->replica_seconds / seconds;
    cluster->sum.wait_s =
        cluster->sum.served > 0 ? cluster->queue_seconds / cluster->sum.served : 0;
    cluster->sum.wait_p50_s = replay_waits_quantile(&cluster->waits, 0.5);
    cluster->sum.wait_p99_s = replay_waits_quantile(&cluster->waits, 0.99);
    cluster->sum.unserved = cluster->queue;
    cluster->sum.price = s->node_price > 0  ? s->node_price * cluster->sum.node_hours
                         : s->gpus_per_node ? s->price * cluster->sum.node_gpu_hours
                                            : s->price * cluster->sum.gpu_hours;
    w->result.summary = cluster->sum;
    replay_cluster_finish(cluster);
    view_finish(w->view, s->spec.n_metrics);
    free(w->view);
    hpa_history_free(w->history);
}

// Keeps a row per evaluation if `rows`.
static struct replay_result run_scenario(const struct replay_scenario *s, bool rows)
{
    struct replay_workload_run w;
    replay_workload_start(&w, s, NULL, rows);
    while (w.cluster.t_ms < s->duration_ms) {
        int64_t next_ms = replay_workload_act(&w);
        replay_cluster_run(&w.cluster, min_ms(next_ms, s->duration_ms));
    }
    replay_workload_finish(&w);
    return w.result;
}

void replay_run(const struct replay_scenario *s, struct replay_result *ret)
{
    *ret = run_scenario(s, true);
}

void replay_summarize(const struct replay_scenario *s, struct replay_summary *ret)
{
    *ret = run_scenario(s, false).summary;
}

void replay_result_finish(struct replay_result *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->rows[i].why);
    free(r->rows);
    *r = (struct replay_result){0};
}
