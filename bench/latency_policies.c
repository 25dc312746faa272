// SPDX-License-Identifier: Apache-2.0
// A pool of a constant size, an oracle that knows the requests, and HorizontalPodAutoscalers by
// hpa_decide(), which is tested to be equal to kube-controller-manager.
#include "latency.h"

#include "base/mem.h"
#include "bench.h"
#include "codec/json.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"

#include <math.h>

const struct latency_policy latency_static = {.name = "static pool", .period_s = 3600};

// --- the oracle ---

enum { ORACLE_WINDOW_S = 20 };

static void *oracle_begin(const struct latency_policy *p, const struct latency_case *c,
                          double setting)
{
    size_t n = (size_t)c->duration_s + 1;
    double *loads = gs_alloc_array(n, sizeof(*loads));
    (void)p, (void)setting;
    for (size_t i = 0; i < n; i++)
        loads[i] =
            latency_work(c, (double)i - ORACLE_WINDOW_S / 2.0, (double)i + ORACLE_WINDOW_S / 2.0) /
            ORACLE_WINDOW_S / c->capacity;
    return loads;
}

// What the busiest window until a pod that is ordered now has served for a window needs.
static uint32_t oracle_decide(void *state, const struct latency_view *v)
{
    const double *loads = state;
    double most = 0, until = fmin(v->t_s + v->c->start_s * 1.2 + ORACLE_WINDOW_S,
                                  v->c->duration_s - ORACLE_WINDOW_S);
    for (size_t t = (size_t)v->t_s; (double)t <= until; t++)
        most = fmax(most, loads[t]);
    if (most == 0)
        return v->replicas;
    double leak = 1 + v->c->trace->leak_per_hour * v->t_s / 3600;
    return (uint32_t)ceil(most * leak + (v->c->trace->faults ? 1 : 0));
}

const struct latency_policy latency_oracle = {
    .name = "oracle", .period_s = 5, .begin = oracle_begin, .decide = oracle_decide, .end = free};

// --- an oracle of the present ---

// Knows what an engine can do and all requests that have come, but not those that will: what a
// policy without a forecast can reach. Replicas stay for a stabilization window; the setting is how
// many it has, in percent of the need.
struct present {
    double share;
    double needs[300 / 5]; // of the last decisions
    size_t n;
};

static void *present_begin(const struct latency_policy *p, const struct latency_case *c,
                           double setting)
{
    struct present *s = gs_alloc(sizeof(*s));
    (void)p, (void)c;
    s->share = setting / 100;
    return s;
}

static uint32_t present_decide(void *state, const struct latency_view *v)
{
    struct present *s = state;
    double window = fmin(ORACLE_WINDOW_S, v->t_s), most = 0;
    double need = latency_work(v->c, v->t_s - window, v->t_s) / window / v->c->capacity;
    double leak = 1 + v->c->trace->leak_per_hour * v->t_s / 3600;
    s->needs[s->n++ % GS_ARRAY_LEN(s->needs)] =
        ceil(need * leak * s->share + (v->c->trace->faults ? 1 : 0));
    for (size_t i = 0; i < s->n && i < GS_ARRAY_LEN(s->needs); i++)
        most = fmax(most, s->needs[i]);
    return (uint32_t)most;
}

const struct latency_policy latency_present = {.name = "oracle of the present",
                                               .period_s = 5,
                                               .begin = present_begin,
                                               .decide = present_decide,
                                               .end = free,
                                               .settings = {100, 115, 130, 150},
                                               .unit = "percent"};

// --- HorizontalPodAutoscalers on external metrics ---

struct latency_scaler {
    json_t *object;
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    struct hpa_pod pods[1024];
};

static const char manifest[] =
    "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\","
    "\"metadata\":{\"name\":\"llm\",\"namespace\":\"ml\",\"uid\":\"1\"},"
    "\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":"
    "\"llm\"},\"minReplicas\":1,\"maxReplicas\":%d,\"metrics\":[%s]}}";

int64_t latency_window_s = -1;

// How long replicas stay without a need, of gpuscale's autoscaler.
static void set_window(json_t *object)
{
    if (latency_window_s >= 0)
        codec_json_set(object, json_integer(latency_window_s), "spec", "behavior", "scaleDown",
                       "stabilizationWindowSeconds", NULL);
}

struct latency_scaler *latency_scaler_new(const char *metrics, bool own)
{
    struct latency_scaler *s = gs_alloc(sizeof(*s));
    GS_AUTO_FREE char *text = gs_format(manifest, LATENCY_MAX_REPLICAS, metrics);
    bench_check(codec_json_parse(gs_slice_of(text), true, &s->object));
    if (own)
        set_window(s->object);
    hpa_default(s->object);
    bench_check(hpa_spec_parse(s->object, &s->spec));
    s->cfg = hpa_config_default();
    s->cfg.terse = true;
    s->history = hpa_history_new();
    return s;
}

void latency_scaler_end(void *state)
{
    struct latency_scaler *s = state;
    hpa_history_free(s->history);
    hpa_spec_finish(&s->spec);
    json_decref(s->object);
    free(s);
}

static size_t view_pods(const struct latency_view *v, int64_t now_ms, struct latency_scaler *s)
{
    size_t n = 0;
    for (size_t i = 0; i < v->n_pods && n < GS_ARRAY_LEN(s->pods); i++) {
        const struct inference_pod *p = &v->pods[i];
        bool ready = p->phase == INFERENCE_POD_READY || p->phase == INFERENCE_POD_DRAINING;
        s->pods[n++] = (struct hpa_pod){
            .name = p->name,
            .phase = p->phase == INFERENCE_POD_UNSCHEDULABLE ? HPA_POD_PENDING : HPA_POD_RUNNING,
            .deleting = p->phase == INFERENCE_POD_DRAINING,
            .ready = ready ? HPA_CONDITION_TRUE : HPA_CONDITION_FALSE,
            .ready_transition_ms = now_ms - (int64_t)(v->t_s * 1000) + p->since_ns / 1000000,
            .has_start_time = true,
            .start_time_ms = now_ms - (int64_t)(v->t_s * 1000) + p->created_ns / 1000000,
        };
    }
    return n;
}

uint32_t latency_scaler_decide(struct latency_scaler *s, const struct latency_view *v,
                               const double *values, const struct hpa_extra *extra)
{
    int64_t now_ms = INT64_C(1800000000000) + (int64_t)(v->t_s * 1000);
    struct hpa_sample samples[2] = {{0}};
    struct hpa_metric_observation metrics[2] = {{0}};
    for (size_t i = 0; values && i < s->spec.n_metrics && i < GS_ARRAY_LEN(metrics); i++) {
        samples[i] =
            (struct hpa_sample){.value = (int64_t)(values[i] * 1000), .timestamp_ms = now_ms};
        metrics[i] = (struct hpa_metric_observation){.samples = &samples[i], .n_samples = 1};
    }
    const struct hpa_observation obs = {.scale_found = true,
                                        .spec_replicas = (int32_t)v->replicas,
                                        .status_replicas = (int32_t)v->replicas,
                                        .selector = "app=llm",
                                        .pods = s->pods,
                                        .n_pods = view_pods(v, now_ms, s),
                                        .metrics = metrics,
                                        .extra = extra};
    struct hpa_decision d = {0};
    hpa_decide(&s->spec, &obs, &s->cfg, s->history, now_ms, &d);
    uint32_t n = d.rescale ? (uint32_t)d.desired : v->replicas;
    if (d.rescale)
        hpa_history_scaled(s->history, &s->spec, d.current, d.desired, now_ms);
    hpa_decision_finish(&d);
    return n;
}

static void *queue_average_begin(const struct latency_policy *p, const struct latency_case *c,
                                 double setting)
{
    GS_AUTO_FREE char *metric = gs_format(LATENCY_EXTERNAL, "waiting", "AverageValue",
                                          "averageValue", (int)(setting * 1000));
    (void)p, (void)c;
    return latency_scaler_new(metric, false);
}

static void *queue_value_begin(const struct latency_policy *p, const struct latency_case *c,
                               double setting)
{
    GS_AUTO_FREE char *metric =
        gs_format(LATENCY_EXTERNAL, "waiting", "Value", "value", (int)(setting * 1000));
    (void)p, (void)c;
    return latency_scaler_new(metric, false);
}

static uint32_t queue_decide(void *state, const struct latency_view *v)
{
    const double values[] = {v->waiting, v->running};
    return latency_scaler_decide(state, v, values, NULL);
}

#define SCALER(begin_)                                                                             \
    .period_s = 15, .begin = (begin_), .decide = queue_decide, .end = latency_scaler_end

const struct latency_policy latency_hpa_average = {.name = "HPA on queue, AverageValue",
                                                   SCALER(queue_average_begin),
                                                   .settings = {1, 16},
                                                   .unit = "waiting"};
const struct latency_policy latency_hpa_value = {
    .name = "HPA on queue, Value", SCALER(queue_value_begin), .settings = {1}, .unit = "waiting"};
