// SPDX-License-Identifier: Apache-2.0
// Properties that hold for every input, checked with a seeded generator. A failure prints the seed;
// HPA_SEED=N runs only this seed.
#include "base/mem.h"
#include "codec/json.h"
#include "hpa/convert.h"
#include "hpa/hpa.h"
#include "hpa/whatif.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEEDS    3000
#define MAX_PODS 40
#define T0_MS    INT64_C(1700000000000)

// SplitMix64: the same numbers everywhere.
static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(next(state) % (uint64_t)(high - low + 1));
}

struct world {
    uint64_t seed, rng;
    struct hpa_spec spec;
    struct hpa_config cfg;
    struct hpa_history *history;
    struct hpa_pod pods[MAX_PODS];
    int64_t requests[MAX_PODS];
    char names[MAX_PODS][12];
    struct hpa_sample samples[MAX_PODS];
    struct hpa_metric_observation metric;
    struct hpa_observation obs;
};

static const char *const metric_forms[] = {
    "{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"m\"},\"target\":{\"type\":"
    "\"AverageValue\","
    "\"averageValue\":\"20\"}}}",
    "{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\","
    "\"averageUtilization\":50}}}",
    "{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"target\":{\"type\":"
    "\"AverageValue\","
    "\"averageValue\":\"20\"}}}",
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"m\"},\"target\":{\"type\":"
    "\"Value\","
    "\"value\":\"20\"}}}",
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"m\"},\"target\":{\"type\":"
    "\"AverageValue\",\"averageValue\":\"20\"}}}",
    "{\"type\":\"Object\",\"object\":{\"describedObject\":{\"kind\":\"Service\",\"name\":\"a\","
    "\"apiVersion\":\"v1\"},\"metric\":{\"name\":\"m\"},\"target\":{\"type\":\"Value\",\"value\":"
    "\"20\"}}}",
};

static json_t *random_rules(uint64_t *rng, bool up)
{
    static const char *const selects[] = {"Max", "Min", "Disabled"};
    json_t *rules = json_object(), *policies = json_array();
    if (up || between(rng, 0, 1))
        codec_json_set_int(rules, "stabilizationWindowSeconds", between(rng, 0, 120));
    codec_json_set_str(rules, "selectPolicy", selects[between(rng, 0, 9) ? between(rng, 0, 1) : 2]);
    for (int64_t n = between(rng, 1, 3); n > 0; n--) {
        json_t *p = json_object();
        bool percent = between(rng, 0, 1);
        codec_json_set_str(p, "type", percent ? "Percent" : "Pods");
        codec_json_set_int(p, "value", between(rng, 1, percent ? 200 : 10));
        codec_json_set_int(p, "periodSeconds", between(rng, 1, 120));
        json_array_append_new(policies, p);
    }
    json_object_set_new(rules, "policies", policies);
    return rules;
}

static void world_init(struct world *w, uint64_t seed, int form, bool behavior)
{
    *w = (struct world){.seed = seed, .rng = seed};
    uint64_t *rng = &w->rng;
    int64_t min = between(rng, 1, 5);
    CODEC_AUTO_JSON json_t *object =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:{s:s, s:s, s:s}, s:I, s:I, s:[o]}}",
                  "apiVersion", "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata",
                  "name", "a", "namespace", "b", "uid", "c", "spec", "scaleTargetRef", "apiVersion",
                  "apps/v1", "kind", "Deployment", "name", "a", "minReplicas", (json_int_t)min,
                  "maxReplicas", (json_int_t)(min + between(rng, 0, 30)), "metrics",
                  json_loads(metric_forms[form], 0, NULL));
    if (behavior) {
        codec_json_set(object, random_rules(rng, true), "spec", "behavior", "scaleUp", NULL);
        codec_json_set(object, random_rules(rng, false), "spec", "behavior", "scaleDown", NULL);
    }
    hpa_default(object);
    assert_null(hpa_spec_parse(object, &w->spec));
    w->cfg = hpa_config_default();
    w->cfg.downscale_window_ms = between(rng, 0, 120) * 1000;
    w->history = hpa_history_new();
    for (size_t i = 0; i < MAX_PODS; i++)
        snprintf(w->names[i], sizeof(w->names[i]), "pod-%zu", i);
}

static void replay_world_finish(struct world *w)
{
    hpa_spec_finish(&w->spec);
    hpa_history_free(w->history);
}

// n ready pods, each with `value`. Metrics that are not of pods have the sum.
static void observe_steady(struct world *w, int32_t replicas, int64_t milli)
{
    size_t n = replicas < MAX_PODS ? (size_t)replicas : MAX_PODS;
    bool of_pods = w->spec.metrics[0].type == HPA_METRIC_PODS ||
                   w->spec.metrics[0].type == HPA_METRIC_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        w->requests[i] = 40000;
        w->pods[i] = (struct hpa_pod){.name = w->names[i],
                                      .phase = HPA_POD_RUNNING,
                                      .ready = HPA_CONDITION_TRUE,
                                      .has_start_time = true,
                                      .start_time_ms = T0_MS - 86400000,
                                      .ready_transition_ms = T0_MS - 86300000,
                                      .requests_milli = &w->requests[i]};
        w->samples[i] = (struct hpa_sample){
            .pod = of_pods ? w->names[i] : NULL, .value = milli, .timestamp_ms = T0_MS};
    }
    w->metric = (struct hpa_metric_observation){w->samples, of_pods ? n : 1, NULL};
    w->obs = (struct hpa_observation){.scale_found = true,
                                      .spec_replicas = replicas,
                                      .status_replicas = replicas,
                                      .selector = "a=b",
                                      .pods = w->pods,
                                      .n_pods = n,
                                      .metrics = &w->metric};
}

// Like observe_steady(), with some pods pending, terminating, unready or without a sample.
static void observe_random(struct world *w, int32_t replicas)
{
    uint64_t *rng = &w->rng;
    observe_steady(w, replicas, between(rng, 0, 100000));
    size_t kept = 0;
    for (size_t i = 0; i < w->obs.n_pods; i++) {
        struct hpa_pod *pod = &w->pods[i];
        if (!between(rng, 0, 4))
            pod->phase = (enum hpa_pod_phase)between(rng, 0, 4);
        if (!between(rng, 0, 4))
            pod->ready = (enum hpa_condition_status)between(rng, 0, 3);
        pod->deleting = !between(rng, 0, 9);
        if (!between(rng, 0, 9))
            pod->start_time_ms = T0_MS - between(rng, 0, 400000);
        w->samples[i].value = between(rng, 0, 100000);
        if (between(rng, 0, 9))
            w->samples[kept++] = w->samples[i];
    }
    if (w->metric.n_samples > 1)
        w->metric.n_samples = kept;
    if (!between(rng, 0, 19))
        w->metric.error = "not today";
}

static int32_t decide(struct world *w, int64_t now_ms, struct hpa_decision *d)
{
    hpa_decide(&w->spec, &w->obs, &w->cfg, w->history, now_ms, d);
    if (d->rescale)
        hpa_history_scaled(w->history, &w->spec, d->current, d->desired, now_ms);
    return d->desired;
}

// Runs `fn` for every seed, metric form, and with and without behavior.
static void for_all(void (*fn)(struct world *w))
{
    const char *only = getenv("HPA_SEED");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, last = only ? first : SEEDS;
    for (uint64_t seed = first; seed <= last; seed++) {
        struct world *w = gs_alloc(sizeof(*w));
        world_init(w, seed, (int)(seed % GS_ARRAY_LEN(metric_forms)), seed / 6 % 2);
        fn(w);
        replay_world_finish(w);
        free(w);
    }
}

#define SEED_FMT "seed %llu, min %d, max %d, behavior %d, metric type %d: "
#define SEED_ARGS(w)                                                                               \
    (unsigned long long)(w)->seed, (w)->spec.min_replicas, (w)->spec.max_replicas,                 \
        (w)->spec.has_behavior, (int)(w)->spec.metrics[0].type

// The written count is within the limits for every observation, and equal inputs give equal
// results.
static void check_limits(struct world *w)
{
    int32_t replicas = (int32_t)between(&w->rng, 1, 45);
    int64_t now_ms = T0_MS;
    for (int pass = 0; pass < 25; pass++) {
        observe_random(w, replicas);
        struct hpa_decision d;
        decide(w, now_ms, &d);
        if (d.rescale && (d.desired < w->spec.min_replicas || d.desired > w->spec.max_replicas))
            fail_msg(SEED_FMT "%d -> %d", SEED_ARGS(w), d.current, d.desired);
        if (d.outcome == HPA_OUTCOME_NO_COUNT && d.rescale)
            fail_msg(SEED_FMT "scaled without a count", SEED_ARGS(w));
        assert_non_null(d.explanation);
        assert_true(d.n_conditions > 0);
        replicas = d.desired;
        hpa_decision_finish(&d);
        now_ms += between(&w->rng, 1, 30000);
    }
}

static void test_never_outside_the_limits(void **state)
{
    for_all(check_limits);
}

static int32_t proposal_for(struct world *w, int32_t replicas, int64_t milli)
{
    struct hpa_decision d;
    struct hpa_history *kept = w->history;
    w->history = hpa_history_new();
    observe_steady(w, replicas, milli);
    hpa_decide(&w->spec, &w->obs, &w->cfg, w->history, T0_MS, &d);
    int32_t proposal = d.proposal;
    hpa_decision_finish(&d);
    hpa_history_free(w->history);
    w->history = kept;
    return proposal;
}

// A higher value never proposes fewer replicas.
static void check_monotone(struct world *w)
{
    int32_t replicas = (int32_t)between(&w->rng, w->spec.min_replicas, w->spec.max_replicas);
    int64_t a = between(&w->rng, 0, 80000), b = a + between(&w->rng, 0, 40000);
    int32_t low = proposal_for(w, replicas, a), high = proposal_for(w, replicas, b);
    if (low > high)
        fail_msg(SEED_FMT "%lld gives %d, %lld gives %d", SEED_ARGS(w), (long long)a, low,
                 (long long)b, high);
}

static void test_monotone_in_the_metric(void **state)
{
    for_all(check_monotone);
}

// On target, the count never changes.
static void check_idempotent(struct world *w)
{
    int32_t replicas = (int32_t)between(&w->rng, w->spec.min_replicas, w->spec.max_replicas);
    bool shared = w->spec.metrics[0].type == HPA_METRIC_EXTERNAL &&
                  w->spec.metrics[0].target == HPA_TARGET_AVERAGE_VALUE;
    int64_t now_ms = T0_MS;
    for (int pass = 0; pass < 30; pass++) {
        observe_steady(w, replicas, 20000 * (shared ? replicas : 1));
        struct hpa_decision d;
        decide(w, now_ms, &d);
        if (d.rescale || d.desired != replicas || d.proposal != replicas)
            fail_msg(SEED_FMT "%d on target became %d", SEED_ARGS(w), replicas, d.desired);
        hpa_decision_finish(&d);
        now_ms += 15000;
    }
}

static void test_idempotent_at_steady_state(void **state)
{
    for_all(check_idempotent);
}

// After a peak, nothing is scaled down before the end of the window.
static void check_window(struct world *w)
{
    int64_t window_ms = w->cfg.downscale_window_ms;
    if (w->spec.has_behavior && w->spec.down.window_seconds >= 0)
        window_ms = w->spec.down.window_seconds * INT64_C(1000);
    int32_t replicas = (int32_t)between(&w->rng, w->spec.min_replicas, w->spec.max_replicas);
    bool shared = w->spec.metrics[0].type == HPA_METRIC_EXTERNAL &&
                  w->spec.metrics[0].target == HPA_TARGET_AVERAGE_VALUE;
    struct hpa_decision d;
    observe_steady(w, replicas, 20000 * (shared ? replicas : 1));
    decide(w, T0_MS, &d);
    hpa_decision_finish(&d);
    int64_t now_ms = T0_MS + between(&w->rng, 1, 15000);
    while (now_ms < T0_MS + window_ms) {
        observe_steady(w, replicas, 0);
        if (decide(w, now_ms, &d) < replicas)
            fail_msg(SEED_FMT "%d -> %d after %lld ms of a window of %lld", SEED_ARGS(w), replicas,
                     d.desired, (long long)(now_ms - T0_MS), (long long)window_ms);
        hpa_decision_finish(&d);
        now_ms += between(&w->rng, 1, 15000);
    }
}

static void test_no_scale_down_before_its_window(void **state)
{
    for_all(check_window);
}

// Rate limits: within a policy's period, no more is added than the most permissive policy allows.
static void check_rates(struct world *w)
{
    if (!w->spec.has_behavior || w->spec.n_metrics != 1)
        return;
    int32_t replicas = w->spec.min_replicas;
    int64_t now_ms = T0_MS;
    int32_t start = replicas;
    for (int pass = 0; pass < 20; pass++) {
        observe_steady(w, replicas, INT64_C(100000000));
        struct hpa_decision d;
        int32_t fresh = decide(w, now_ms, &d);
        hpa_decision_finish(&d);
        int64_t most = 0;
        for (size_t i = 0; i < w->spec.up.n_policies; i++) {
            const struct hpa_policy *p = &w->spec.up.policies[i];
            // All evaluations are within the shortest period, so they have the same start.
            int64_t allowed = p->percent ? ((int64_t)start * (100 + p->value) + 99) / 100 + 1
                                         : (int64_t)start + p->value;
            most = allowed > most ? allowed : most;
        }
        if (w->spec.up.select != HPA_SELECT_DISABLED && fresh > most)
            fail_msg(SEED_FMT "%d from %d, at most %lld", SEED_ARGS(w), fresh, start,
                     (long long)most);
        if (w->spec.up.select == HPA_SELECT_DISABLED && fresh != start)
            fail_msg(SEED_FMT "disabled, yet %d from %d", SEED_ARGS(w), fresh, start);
        replicas = fresh;
        now_ms += 40;
    }
}

static void test_rates_are_kept(void **state)
{
    for_all(check_rates);
}

// Times are shifted when the clock is set: the window lasts as long as before.
static void test_clock_set_back_and_forth(void **state)
{
    for (int64_t step = -7200000; step <= 7200000; step += 14400000) {
        struct world *w = gs_alloc(sizeof(*w));
        world_init(w, 7, 4, false);
        w->cfg.downscale_window_ms = 60000;
        int32_t replicas = w->spec.max_replicas;
        struct hpa_decision d;
        observe_steady(w, replicas, 20000 * (int64_t)replicas);
        decide(w, T0_MS, &d);
        hpa_decision_finish(&d);
        hpa_history_shift(w->history, step);
        observe_steady(w, replicas, 0);
        assert_int_equal(decide(w, T0_MS + step + 30000, &d), replicas);
        hpa_decision_finish(&d);
        assert_int_equal(decide(w, T0_MS + step + 61000, &d), w->spec.min_replicas);
        hpa_decision_finish(&d);
        replay_world_finish(w);
        free(w);
    }
}

// --- what-if ---

// Sets every sample to the reported number.
static void show(struct world *w, const struct hpa_metric_result *at)
{
    for (size_t i = 0; i < w->metric.n_samples; i++)
        w->samples[i].value = at->has_utilization ? 400 * (int64_t)at->utilization
                              : at->has_value     ? at->value
                              : w->samples[i].pod ? at->average_value
                                                  : at->average_value * w->obs.status_replicas;
}

static void check_threshold(struct world *w, const struct hpa_history *history,
                            const struct hpa_threshold *turn, int32_t base)
{
    struct hpa_decision d;
    struct hpa_sample kept[MAX_PODS];
    if (!turn->found)
        return;
    memcpy(kept, w->samples, sizeof(kept));
    show(w, &turn->at);
    hpa_decide_with(history, &w->spec, &w->obs, &w->cfg, T0_MS, &d);
    if (d.desired != turn->desired || turn->desired == base)
        fail_msg(SEED_FMT "said %d instead of %d, it is %d", SEED_ARGS(w), turn->desired, base,
                 d.desired);
    hpa_decision_finish(&d);
    memcpy(w->samples, kept, sizeof(kept));
}

static size_t turns_checked;

static void check_turns(struct world *w)
{
    struct hpa_threshold below, above;
    struct hpa_decision d;
    observe_random(w, (int32_t)between(&w->rng, 1, 30));
    // Half of them with the history of a controller that scaled before.
    for (int i = 0; i < 4; i++) {
        hpa_decide(&w->spec, &w->obs, &w->cfg, w->history, T0_MS - 60000 + 10000 * i, &d);
        if (d.rescale)
            hpa_history_scaled(w->history, &w->spec, d.current, d.desired,
                               T0_MS - 60000 + 10000 * i);
        hpa_decision_finish(&d);
    }
    const struct hpa_history *history = w->seed % 2 ? w->history : NULL;
    hpa_decide_with(history, &w->spec, &w->obs, &w->cfg, T0_MS, &d);
    int32_t base = d.desired;
    hpa_decision_finish(&d);
    hpa_find_thresholds(history, &w->spec, &w->obs, &w->cfg, 0, T0_MS, &below, &above);
    check_threshold(w, history, &below, base);
    check_threshold(w, history, &above, base);
    turns_checked += below.found + above.found;
}

static void test_what_is_said_to_change_it_does(void **state)
{
    (void)state;
    for_all(check_turns);
    if (!getenv("HPA_SEED"))
        assert_true(turns_checked > SEEDS / 3);
}

// A history that is written as JSON and read again is the same.
static void check_memory(struct world *w)
{
    struct hpa_history *read = NULL;
    for (int i = 0; i < 12; i++) {
        struct hpa_decision d, same;
        int64_t now_ms = T0_MS + 15000 * i;
        CODEC_AUTO_JSON json_t *data = hpa_history_json(w->history, now_ms);
        assert_null(hpa_history_from_json(data, now_ms, &read));
        observe_random(w, (int32_t)between(&w->rng, 1, 30));
        hpa_decide(&w->spec, &w->obs, &w->cfg, read, now_ms, &same);
        decide(w, now_ms, &d);
        if (d.desired != same.desired)
            fail_msg(SEED_FMT "%d, with the memory as data %d", SEED_ARGS(w), d.desired,
                     same.desired);
        hpa_history_free(read);
        hpa_decision_finish(&d);
        hpa_decision_finish(&same);
    }
}

static void test_a_memory_as_data_is_the_same(void **state)
{
    static const char *const wrong[] = {
        "{}",
        "{\"recommendations\":[],\"scaleUps\":[]}",
        "{\"recommendations\":[{\"replicas\":-1,\"ageMs\":0}],\"scaleUps\":[],\"scaleDowns\":[]}",
        "{\"recommendations\":[{\"replicas\":1}],\"scaleUps\":[],\"scaleDowns\":[]}",
        "{\"recommendations\":[{\"replicas\":1,\"ageMs\":9223372036854775807}],\"scaleUps\":[],"
        "\"scaleDowns\":[]}",
    };
    (void)state;
    for_all(check_memory);
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        CODEC_AUTO_JSON json_t *in = json_loads(wrong[i], 0, NULL);
        struct hpa_history *h = NULL;
        struct gs_error *err = hpa_history_from_json(in, T0_MS, &h);
        assert_non_null(err);
        assert_null(h);
        gs_error_free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_said_to_change_it_does),
        cmocka_unit_test(test_a_memory_as_data_is_the_same),
        cmocka_unit_test(test_never_outside_the_limits),
        cmocka_unit_test(test_monotone_in_the_metric),
        cmocka_unit_test(test_idempotent_at_steady_state),
        cmocka_unit_test(test_no_scale_down_before_its_window),
        cmocka_unit_test(test_rates_are_kept),
        cmocka_unit_test(test_clock_set_back_and_forth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
