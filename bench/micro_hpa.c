// SPDX-License-Identifier: Apache-2.0
// Decisions of many autoscalers in turn, each with its own history, changing values and windows
// that limit the result.
#include "micro.h"

#include "base/file.h"
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "replay/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DECISIONS_BAR 200000.0 // of ten pods
#define PERIOD_BAR    5.0      // percent of a core, of ten thousand with a hundred pods each
#define WEEKS_BAR_S   10.0     // of a thousand autoscalers, on one core

// Five minutes of the autoscalers' time: both windows are full.
enum { WARM_UP_PASSES = 20, SCALERS = 500, MANY_SCALERS = 10000, MAX_PODS = 100, PERIOD_S = 15 };

static const char manifest[] =
    "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\","
    "\"metadata\":{\"name\":\"intent-api\",\"namespace\":\"default\",\"uid\":\"1\"},"
    "\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\","
    "\"name\":\"intent-api\"},\"minReplicas\":1,\"maxReplicas\":200,\"metrics\":[{\"type\":"
    "\"Pods\",\"pods\":{\"metric\":{\"name\":\"DCGM_CUSTOM_PROCESS_SM_UTIL\"},\"target\":{"
    "\"type\":\"AverageValue\",\"averageValue\":\"20\"}}}],\"behavior\":{\"scaleUp\":{"
    "\"stabilizationWindowSeconds\":60},\"scaleDown\":{\"stabilizationWindowSeconds\":300}}}}";

struct scalers {
    struct hpa_spec spec;
    struct hpa_history **histories;
    size_t n;
    struct hpa_pod pods[MAX_PODS];
    struct hpa_sample samples[MAX_PODS];
    char names[MAX_PODS][48];
    struct hpa_metric_observation metric;
    struct hpa_observation obs;
    struct hpa_config cfg;
    int64_t now_ms;
    size_t next, rescales;
};

static void make_pods(struct scalers *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(s->names[i], sizeof(s->names[i]), "intent-api-6d5f9c7b8-%04zu", i);
        s->pods[i] = (struct hpa_pod){.name = s->names[i],
                                      .phase = HPA_POD_RUNNING,
                                      .ready = HPA_CONDITION_TRUE,
                                      .ready_transition_ms = s->now_ms - 3500000,
                                      .has_start_time = true,
                                      .start_time_ms = s->now_ms - 3600000};
        s->samples[i].pod = s->names[i];
    }
    s->metric = (struct hpa_metric_observation){.samples = s->samples, .n_samples = n};
    s->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = (int32_t)n,
                                      .status_replicas = (int32_t)n,
                                      .selector = "app=intent-api",
                                      .pods = s->pods,
                                      .n_pods = n,
                                      .metrics = &s->metric};
}

static void decide(void *arg)
{
    struct scalers *s = arg;
    if (s->next == s->n) {
        s->next = 0;
        s->now_ms += PERIOD_S * 1000;
    }
    // Between idle and twice the target, slowly, so that both windows and the tolerance matter.
    double wave = 20 + 20 * sin((double)s->now_ms / 200000 + (double)s->next);
    for (size_t i = 0; i < s->obs.n_pods; i++) {
        s->samples[i].value = (int64_t)(wave * 1000) + (int64_t)i;
        s->samples[i].timestamp_ms = s->now_ms;
    }
    struct hpa_decision d = {0};
    hpa_decide(&s->spec, &s->obs, &s->cfg, s->histories[s->next], s->now_ms, &d);
    if (d.outcome != HPA_OUTCOME_COMPUTED)
        bench_fail("a decision was not computed: %s", d.reason ? d.reason : "");
    if (d.rescale) {
        hpa_history_scaled(s->histories[s->next], &s->spec, d.current, d.desired, s->now_ms);
        s->rescales++;
    }
    hpa_decision_finish(&d);
    s->next++;
}

// --- simulated weeks ---

static const char week[] =
    "name: week\n"
    "hpa:\n"
    "  apiVersion: autoscaling/v2\n"
    "  kind: HorizontalPodAutoscaler\n"
    "  metadata: {name: intent-api}\n"
    "  spec:\n"
    "    maxReplicas: 20\n"
    "    metrics: [{type: Pods, pods: {metric: {name: u}, target: {type: AverageValue, "
    "averageValue: 60}}}]\n"
    "duration: 168h\n"
    "workload:\n"
    "  capacity: 50\n"
    "  load: [[0s, 20], [6h, 20], [12h, 400], [18h, 300], [24h, 20]]\n"
    "  repeat: 24h\n"
    "metrics: {u: utilization}\n";

static void run_week(void *arg)
{
    struct replay_summary sum;
    replay_summarize(arg, &sum);
    if (sum.evaluations != 7 * 24 * 240 || !sum.ups)
        bench_fail("the simulated week has %zu evaluations", sum.evaluations);
}

static void measure_weeks(double seconds)
{
    GS_AUTO_FREE char *path = gs_format("%s/week.yaml", bench_dir());
    struct replay_scenario *s = NULL;
    bench_check(gs_file_write_atomic(path, 0600, gs_slice_of(week)));
    bench_check(replay_scenario_load(path, &s));
    double all = 1000 * micro_time(seconds, run_week, s);
    char figure[80];
    snprintf(figure, sizeof(figure), "%.1f s, %.2f µs per evaluation", all,
             all * 1e6 / (1000 * 40320.0));
    micro_row("autoscaler: a simulated week of 1,000 HPAs, every 15 s", figure, "10 s",
              all <= WEEKS_BAR_S);
    replay_scenario_free(s);
}

static struct scalers *scalers_new(size_t n, size_t n_pods, json_t **ret_object)
{
    struct scalers *s = gs_alloc(sizeof(*s));
    s->cfg = hpa_config_default();
    s->now_ms = 1700000000000;
    s->n = n;
    s->histories = gs_alloc_array(n, sizeof(*s->histories));
    bench_check(codec_json_parse(gs_slice_of(manifest), true, ret_object));
    hpa_default(*ret_object);
    bench_check(hpa_spec_parse(*ret_object, &s->spec));
    for (size_t i = 0; i < n; i++)
        s->histories[i] = hpa_history_new();
    make_pods(s, n_pods);
    for (size_t i = 0; i < WARM_UP_PASSES * n; i++)
        decide(s);
    return s;
}

static void scalers_free(struct scalers *s, json_t *object)
{
    if (!s->rescales)
        bench_fail("no decision of the benchmark scaled anything");
    for (size_t i = 0; i < s->n; i++)
        hpa_history_free(s->histories[i]);
    hpa_spec_finish(&s->spec);
    json_decref(object);
    free(s->histories);
    free(s);
}

static void measure(double seconds, size_t n_pods)
{
    json_t *object = NULL;
    struct scalers *s = scalers_new(SCALERS, n_pods, &object);
    double per_second = 1 / micro_time(seconds, decide, s);
    char what[80], figure[80];
    snprintf(what, sizeof(what), "autoscaler: decisions, %d HPAs of %zu pods", SCALERS, n_pods);
    snprintf(figure, sizeof(figure), "%.0f a second, %.1f µs each", per_second, 1e6 / per_second);
    micro_row(what, figure, n_pods == 10 ? "200,000" : NULL, per_second >= DECISIONS_BAR);
    scalers_free(s, object);
}

static void decide_all(void *arg)
{
    struct scalers *s = arg;
    for (size_t i = 0; i < s->n; i++)
        decide(s);
}

static void measure_period(double seconds)
{
    json_t *object = NULL;
    struct scalers *s = scalers_new(MANY_SCALERS, MAX_PODS, &object);
    double all = micro_time(seconds, decide_all, s), share = 100 * all / PERIOD_S;
    char figure[80];
    snprintf(figure, sizeof(figure), "%.0f ms, %.2f %% of a core", all * 1000, share);
    micro_row("autoscaler: decisions, 10,000 HPAs of 100 pods each 15 s", figure, "5 %",
              share <= PERIOD_BAR);
    scalers_free(s, object);
}

void micro_hpa(double seconds)
{
    measure(seconds, 10);
    measure(seconds, MAX_PODS);
    measure_period(seconds);
    measure_weeks(seconds);
}
