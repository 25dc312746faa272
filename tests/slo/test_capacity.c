// SPDX-License-Identifier: Apache-2.0
// Placeholders for replicas to come: the annotations, and the number.
#include "slo/capacity.h"
#include "unit.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

#define MINUTE INT64_C(60000)

// --- annotations ---

static json_t *autoscaler(const char *kind, const char *max, const char *slo)
{
    return json_pack("{s:{s:{s:s*, s:s*, s:s*}}}", "metadata", "annotations",
                     SLO_CAPACITY_ANNOTATION, kind, SLO_CAPACITY_MAX_ANNOTATION, max,
                     SLO_ANNOTATION, slo);
}

static void assert_wrong(const char *kind, const char *max, const char *slo, const char *text)
{
    struct slo_capacity_policy p = {.kind = SLO_CAPACITY_PODS};
    CODEC_AUTO_JSON json_t *hpa = autoscaler(kind, max, slo);
    assert_error(slo_capacity_policy_of(hpa, &p), GS_EINVAL, text);
    assert_int_equal(p.kind, SLO_CAPACITY_NONE);
}

static void test_nothing_happens_without_the_annotation(void **state)
{
    struct slo_capacity_policy p = {.kind = SLO_CAPACITY_PODS};
    CODEC_AUTO_JSON json_t *hpa = autoscaler(NULL, NULL, "ttft=1s");
    (void)state;
    assert_ok(slo_capacity_policy_of(hpa, &p));
    assert_int_equal(p.kind, SLO_CAPACITY_NONE);
}

static void test_annotations(void **state)
{
    struct slo_capacity_policy p;
    CODEC_AUTO_JSON json_t *buffer = autoscaler("buffer", NULL, "ttft=1s");
    CODEC_AUTO_JSON json_t *pods = autoscaler("pods", "3", "ttft=1s");
    (void)state;
    assert_ok(slo_capacity_policy_of(buffer, &p));
    assert_true(p.kind == SLO_CAPACITY_BUFFER && p.max == 1);
    assert_ok(slo_capacity_policy_of(pods, &p));
    assert_true(p.kind == SLO_CAPACITY_PODS && p.max == 3);
    assert_wrong("yes", NULL, "ttft=1s", "want buffer or pods");
    assert_wrong("pods", "0", "ttft=1s", "want a number from 1 to 100");
    assert_wrong("pods", "101", "ttft=1s", "want a number from 1 to 100");
    assert_wrong("pods", "2x", "ttft=1s", "want a number from 1 to 100");
    assert_wrong("pods", NULL, NULL, "needs gpuscale.dev/slo");
    assert_wrong(NULL, "2", "ttft=1s", "no effect without gpuscale.dev/capacity");
}

// --- the number ---

// A service of 100 requests/s, for which the decider wants this many replicas.
struct service {
    struct slo_decision d;
    struct slo_capacity_input in;
    struct slo_capacity_policy policy;
    struct slo_capacity_state state;
};

static void set_need(struct service *s, double replicas, int32_t ready)
{
    s->d.bounds[0] = (struct slo_bound){.name = "throughput", .value = replicas};
    s->d.credit.ready = ready;
    s->in.replicas = ready;
}

static void begin(struct service *s)
{
    *s = (struct service){.policy = {.kind = SLO_CAPACITY_PODS, .max = 4}};
    s->d.n_bounds = 1;
    s->d.demand = 100;
    s->in = (struct slo_capacity_input){
        .decision = &s->d, .growth = 1, .rise = 0, .horizon_ms = 3 * MINUTE, .max = 20};
    set_need(s, 3.5, 4);
}

static struct slo_capacity after(struct service *s, int64_t minutes)
{
    struct slo_capacity c;
    slo_capacity_decide(&s->policy, &s->in, &s->state, 1000 * MINUTE + minutes * MINUTE, &c);
    return c;
}

static void test_a_steady_demand_needs_no_placeholder(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    struct slo_capacity c = after(&s, 0);
    assert_true(c.placeholders == 0 && c.forecast == 4 && c.present == 4);
}

static void test_the_rise_of_nine_of_ten_minutes_is_held(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 50; // 3.5 replicas for 100, 5.25 for 150
    struct slo_capacity c = after(&s, 0);
    assert_true(c.placeholders == 2 && c.forecast == 6);
    assert_non_null(strstr(c.text, "2 placeholders: 6 replicas may be needed in 3 min, 4 are "
                                   "ready, starting or ordered"));
}

static void test_a_forecast_that_is_in_the_bound_counts_once(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.growth = 1.5; // the 3.5 replicas are for 150
    s.in.rise = 50;
    assert_int_equal(after(&s, 0).placeholders, 0);
    s.in.rise = 100; // 200: 4.67
    s.in.replicas = s.d.credit.ready = 4;
    assert_int_equal(after(&s, 1).placeholders, 1);
}

static void test_replicas_that_are_ordered_or_start_take_the_place_at_once(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 50;
    assert_int_equal(after(&s, 0).placeholders, 2);
    s.in.replicas = 5;
    assert_int_equal(after(&s, 1).placeholders, 1);
    s.d.credit.starting = 1;
    s.d.credit.unschedulable = 1;
    assert_int_equal(after(&s, 2).placeholders, 0);
}

static void test_the_number_rises_once_in_ten_minutes(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 20; // 4.2
    assert_int_equal(after(&s, 0).placeholders, 1);
    s.in.rise = 50;
    struct slo_capacity c = after(&s, 9);
    assert_int_equal(c.placeholders, 1);
    assert_non_null(strstr(c.text, "more after a pause of ten minutes"));
    assert_int_equal(after(&s, 10).placeholders, 2);
}

static void test_bounds(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 1000;
    assert_int_equal(after(&s, 0).placeholders, 4); // of the annotation
    assert_non_null(strstr(after(&s, 1).text, "capacity-max limits them"));
    s.in.max = 6; // of the autoscaler
    assert_int_equal(after(&s, 2).placeholders, 2);
    s.in.limited = true;
    assert_int_equal(after(&s, 3).placeholders, 0);
}

static void test_what_is_unknown_changes_nothing(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 50;
    assert_int_equal(after(&s, 0).placeholders, 2);
    s.in.rise = NAN;
    struct slo_capacity c = after(&s, 20);
    assert_true(c.placeholders == 2 && c.forecast == -1);
    assert_non_null(strstr(c.text, "no change, because fewer than 60 minutes"));
    s.in.rise = 200;
    s.d.hold = true;
    snprintf(s.d.hold_text, sizeof(s.d.hold_text), "samples are old");
    c = after(&s, 40);
    assert_true(c.placeholders == 2 && c.forecast == -1);
    assert_non_null(strstr(c.text, "samples are old"));
    s.in.max = 5; // also without a forecast, no more than the autoscaler could order
    assert_int_equal(after(&s, 41).placeholders, 1);
}

static void test_a_service_that_nobody_uses_loses_its_placeholders(void **state)
{
    struct service s;
    (void)state;
    begin(&s);
    s.in.rise = 50;
    assert_int_equal(after(&s, 0).placeholders, 2);
    s.d.demand = 0;
    set_need(&s, 0, 1);
    assert_int_equal(after(&s, 1).placeholders, 2);
    s.in.rise = 0; // a day later
    struct slo_capacity c = after(&s, 1440);
    assert_true(c.placeholders == 0 && c.forecast == 0);
}

static uint64_t below(uint64_t *state, uint64_t n)
{
    return gs_seeded_next(state) % n;
}

static void test_never_more_than_the_forecast_less_what_is_there(void **state)
{
    uint64_t r = 11;
    (void)state;
    for (int i = 0; i < 100000; i++) {
        struct service s;
        begin(&s);
        s.policy.max = 1 + (int32_t)below(&r, 10);
        s.state.placeholders = (int32_t)below(&r, 12);
        s.in.max = 1 + (int32_t)below(&r, 12);
        s.in.growth = 1 + (double)below(&r, 300) / 100;
        s.in.rise = (double)below(&r, 500);
        s.d.demand = (double)below(&r, 300);
        set_need(&s, (double)below(&r, 1000) / 100, (int32_t)below(&r, 12));
        s.d.credit.starting = (int32_t)below(&r, 4);
        struct slo_capacity c = after(&s, 0);
        int32_t there = s.d.credit.ready + s.d.credit.starting;
        assert_in_range(c.placeholders, 0, s.policy.max);
        assert_true(c.placeholders == 0 || c.placeholders + there <= s.in.max);
        assert_true(c.forecast < 0 || c.placeholders == 0 || c.placeholders <= c.forecast - there);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_happens_without_the_annotation),
        cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_a_steady_demand_needs_no_placeholder),
        cmocka_unit_test(test_the_rise_of_nine_of_ten_minutes_is_held),
        cmocka_unit_test(test_a_forecast_that_is_in_the_bound_counts_once),
        cmocka_unit_test(test_replicas_that_are_ordered_or_start_take_the_place_at_once),
        cmocka_unit_test(test_the_number_rises_once_in_ten_minutes),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_what_is_unknown_changes_nothing),
        cmocka_unit_test(test_a_service_that_nobody_uses_loses_its_placeholders),
        cmocka_unit_test(test_never_more_than_the_forecast_less_what_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
