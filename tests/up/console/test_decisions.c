// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "up/console/console.h"

static struct hpa_metric_spec metric = {.has_average_value = true, .average_value = 20000};
static struct hpa_spec spec = {.ns = "ml",
                               .name = "gpu",
                               .target_kind = "Deployment",
                               .target_name = "api",
                               .max_replicas = 8,
                               .metrics = &metric,
                               .n_metrics = 1};

static void test_a_decision_in_words(void **state)
{
    struct console_decisions *all = console_decisions_new();
    struct hpa_metric_result result = {.ok = true,
                                       .has_average_value = true,
                                       .average_value = 46500,
                                       .proposal = 5,
                                       .explanation = (char *)"average 46.5 of 2 pods"};
    struct hpa_decision d = {.current = 2,
                             .desired = 4,
                             .proposal = 5,
                             .metrics = &result,
                             .n_metrics = 1,
                             .explanation = (char *)"limited to 4"};
    assert_false(console_decisions_all_at_min(all));
    const struct console_decision *r = console_decisions_record(all, &spec, &d);
    assert_string_equal(r->key, "ml/gpu");
    assert_string_equal(r->target, "Deployment/api");
    assert_string_equal(r->reading, "46.5/20");
    assert_string_equal(r->why, "average 46.5 of 2 pods; limited to 4");
    assert_int_equal(r->min, 1);
    assert_false(console_decisions_all_at_min(all));
    d.current = d.desired = 1;
    console_decisions_record(all, &spec, &d);
    assert_int_equal(console_decisions_len(all), 1);
    assert_true(console_decisions_all_at_min(all));
    console_decisions_free(all);
}

// Of a latency target, while the metrics need fewer replicas.
static void test_a_decision_by_an_annotation(void **state)
{
    struct console_decisions *all = console_decisions_new();
    struct hpa_metric_result result = {.ok = true,
                                       .has_average_value = true,
                                       .average_value = 46500,
                                       .proposal = 2,
                                       .explanation = (char *)"average 46.5 of 2 pods"};
    struct hpa_decision d = {.current = 2,
                             .desired = 4,
                             .proposal = 5,
                             .extra = (char *)"5 by demand",
                             .metrics = &result,
                             .n_metrics = 1,
                             .explanation = (char *)"limited to 4"};
    const struct console_decision *r = console_decisions_record(all, &spec, &d);
    assert_string_equal(r->why, "5 by demand; limited to 4");
    console_decisions_free(all);
}

static void test_no_metric_is_unknown_and_not_zero(void **state)
{
    struct console_decisions *all = console_decisions_new();
    struct hpa_metric_result failed = {.explanation = (char *)"no metrics returned"};
    struct hpa_decision d = {
        .current = 3, .desired = 3, .proposal = -1, .metrics = &failed, .n_metrics = 1};
    const struct console_decision *r = console_decisions_record(all, &spec, &d);
    assert_string_equal(r->reading, "<unknown>");
    assert_string_equal(r->why, "no metrics returned");
    console_decisions_free(all);
}

static void assert_reading(int64_t value, int64_t target, const char *want)
{
    struct hpa_metric_spec m = {.has_average_value = true, .average_value = target};
    struct hpa_spec s = {.ns = "ml",
                         .name = "gpu",
                         .target_kind = "Deployment",
                         .target_name = "api",
                         .metrics = &m,
                         .n_metrics = 1};
    struct hpa_metric_result result = {
        .ok = true, .has_average_value = true, .average_value = value};
    struct hpa_decision d = {.metrics = &result, .n_metrics = 1};
    struct console_decisions *all = console_decisions_new();
    assert_string_equal(console_decisions_record(all, &s, &d)->reading, want);
    console_decisions_free(all);
}

static void test_readings_are_decimal_numbers_and_short(void **state)
{
    assert_reading(17250, 20000, "17.25/20");
    assert_reading(17256, 20000, "17.26/20");
    assert_reading(0, 500, "0/0.5");
    assert_reading(1, 500, "0.001/0.5");
    assert_reading(100000, 90000, "100/90");
    assert_reading(99999000, 2500000000, "99999/2.5M");
    // Amounts of memory.
    assert_reading(INT64_C(9663676416000), INT64_C(8589934592000), "9Gi/8Gi");
    assert_reading(INT64_C(700000000000), INT64_C(536870912000), "667.57Mi/512Mi");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_decision_in_words),
        cmocka_unit_test(test_a_decision_by_an_annotation),
        cmocka_unit_test(test_readings_are_decimal_numbers_and_short),
        cmocka_unit_test(test_no_metric_is_unknown_and_not_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
