// SPDX-License-Identifier: Apache-2.0
// What a service keeps over a restart of the controller, and when its forecast begins again.
#include "base/mem.h"
#include "slo/memory.h"
#include "unit.h"

#include <math.h>

#define BEGIN_MS INT64_C(1700000000000)
#define MINUTE   INT64_C(60000)

struct service {
    struct slo_policy policy;
    struct slo_memory *memory;
    struct slo_decision decision;
    int64_t now_ms;
    double generated;
    bool has_tokens;
};

static int set_up(void **state)
{
    struct service *s = gs_alloc(sizeof(*s));
    assert_ok(slo_policy_parse("ttft=1s", &s->policy));
    s->memory = slo_memory_new();
    s->now_ms = BEGIN_MS;
    s->has_tokens = true;
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct service *s = *state;
    slo_memory_free(s->memory);
    free(s);
    return 0;
}

// A decision after so many seconds. One replica generates 100 tokens a second.
static void decide(struct service *s, int seconds)
{
    s->now_ms += seconds * 1000;
    s->generated += 100.0 * seconds;
    struct slo_pod pod = {.name = "llm-0",
                          .phase = SLO_POD_READY,
                          .since_ms = BEGIN_MS - MINUTE,
                          .sampled_ms = s->now_ms,
                          .n_series = 1};
    slo_pod_set(&pod, SLO_RUNNING, 4);
    slo_pod_set(&pod, SLO_WAITING, 0);
    if (s->has_tokens) {
        slo_pod_set(&pod, SLO_PROMPT_TOKENS, 1);
        slo_pod_set(&pod, SLO_GENERATION_TOKENS, s->generated);
    }
    struct slo_observation obs = {
        .pods = &pod, .n_pods = 1, .replicas = 1, .min = 1, .max = 9, .scrape_ms = 5000};
    slo_memory_decide(s->memory, &s->policy, &obs, s->now_ms, true, &s->decision);
}

static void run(struct service *s, int minutes)
{
    for (int i = 0; i < minutes * 12; i++)
        decide(s, 5);
}

static void assert_forecast(const struct service *s, const char *unit, size_t least)
{
    CODEC_AUTO_JSON json_t *json = slo_memory_json(s->memory, true, s->now_ms);
    size_t n = json_array_size(codec_json_get(json, "forecast", "minutes", NULL));
    assert_string_equal(codec_json_str(json, "unit", NULL), unit);
    if (n < least)
        fail_msg("%zu minutes are known, want %zu", n, least);
}

static void restart(struct service *s)
{
    CODEC_AUTO_JSON json_t *saved = slo_memory_json(s->memory, true, s->now_ms);
    slo_memory_free(s->memory);
    s->memory = slo_memory_new();
    assert_ok(slo_memory_restore(s->memory, saved, s->now_ms));
}

// Rates are known from the second decision on: the demand of the first one is in requests.
static void test_the_first_decision_after_a_restart_keeps_the_forecast(void **state)
{
    struct service *s = *state;
    run(s, 30);
    assert_forecast(s, "tokens/s", 29);
    restart(s);
    decide(s, 5);
    assert_string_equal(s->decision.demand_unit, "requests");
    assert_forecast(s, "tokens/s", 29);
    run(s, 5);
    assert_forecast(s, "tokens/s", 34);
}

// A rise in tokens/s that is added to a demand in requests would be hundreds of replicas.
static void test_a_rise_in_another_unit_is_unknown(void **state)
{
    struct service *s = *state;
    run(s, 70);
    assert_false(isnan(slo_memory_rise(s->memory, &s->decision)));
    restart(s);
    decide(s, 5);
    assert_string_equal(s->decision.demand_unit, "requests");
    assert_true(isnan(slo_memory_rise(s->memory, &s->decision)));
    run(s, 1);
    assert_string_equal(s->decision.demand_unit, "tokens/s");
    assert_false(isnan(slo_memory_rise(s->memory, &s->decision)));
}

static void test_another_unit_that_lasts_begins_another_forecast(void **state)
{
    struct service *s = *state;
    run(s, 30);
    s->has_tokens = false;
    run(s, 10);
    assert_forecast(s, "tokens/s", 29);
    run(s, 20);
    assert_forecast(s, "requests", 1);
}

static void test_a_late_restore_is_merged(void **state)
{
    struct service *s = *state;
    run(s, 30);
    CODEC_AUTO_JSON json_t *saved = slo_memory_json(s->memory, true, s->now_ms);
    slo_memory_free(s->memory);
    s->memory = slo_memory_new(); // what was saved could not be read
    run(s, 10);
    assert_ok(slo_memory_restore(s->memory, saved, s->now_ms));
    assert_forecast(s, "tokens/s", 39);
    CODEC_AUTO_JSON json_t *none = json_object();
    assert_error(slo_memory_restore(s->memory, none, s->now_ms), GS_EINVAL, "learned");
    assert_forecast(s, "tokens/s", 39);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_decision_after_a_restart_keeps_the_forecast),
        TEST(test_a_rise_in_another_unit_is_unknown),
        TEST(test_another_unit_that_lasts_begins_another_forecast),
        TEST(test_a_late_restore_is_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
