// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "cmd/up/decisions.h"

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
    struct up_decisions *all = up_decisions_new();
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
    assert_false(up_decisions_all_at_min(all));
    const struct up_decision *r = up_decisions_record(all, &spec, &d);
    assert_string_equal(r->key, "ml/gpu");
    assert_string_equal(r->target, "Deployment/api");
    assert_string_equal(r->reading, "46500m/20");
    assert_string_equal(r->why, "average 46.5 of 2 pods; limited to 4");
    assert_int_equal(r->min, 1);
    assert_false(up_decisions_all_at_min(all));
    d.current = d.desired = 1;
    up_decisions_record(all, &spec, &d);
    assert_int_equal(up_decisions_len(all), 1);
    assert_true(up_decisions_all_at_min(all));
    up_decisions_free(all);
}

static void test_no_metric_is_unknown_and_not_zero(void **state)
{
    struct up_decisions *all = up_decisions_new();
    struct hpa_metric_result failed = {.explanation = (char *)"no metrics returned"};
    struct hpa_decision d = {
        .current = 3, .desired = 3, .proposal = -1, .metrics = &failed, .n_metrics = 1};
    const struct up_decision *r = up_decisions_record(all, &spec, &d);
    assert_string_equal(r->reading, "<unknown>");
    assert_string_equal(r->why, "no metrics returned");
    up_decisions_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_decision_in_words),
                                       cmocka_unit_test(test_no_metric_is_unknown_and_not_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
