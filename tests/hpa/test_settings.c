// SPDX-License-Identifier: Apache-2.0
// An autoscaler with other settings.
#include "base/mem.h"
#include "hpa/convert.h"
#include "hpa/whatif.h"
#include "unit.h"

#define METRIC(name, target)                                                                       \
    "{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"" name "\"},\"target\":{"                 \
    "\"type\":\"AverageValue\",\"averageValue\":\"" target "\"}}}"
#define CPU                                                                                        \
    "{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"target\":{\"type\":\"Utilization\","  \
    "\"averageUtilization\":80}}}"

struct bench {
    struct hpa_spec spec;
    struct hpa_config cfg;
};

static void parse(struct bench *b, const char *metrics, const char *more)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"apiVersion\":\"autoscaling/v2\",\"kind\":\"HorizontalPodAutoscaler\",\"metadata\":{"
        "\"namespace\":\"shop\",\"name\":\"web\"},\"spec\":{\"scaleTargetRef\":{\"apiVersion\":"
        "\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},\"maxReplicas\":10,\"metrics\":[%s]"
        "%s}}",
        metrics, more);
    CODEC_AUTO_JSON json_t *object = json_loads(text, 0, NULL);
    hpa_default(object);
    hpa_spec_finish(&b->spec);
    assert_null(hpa_spec_parse(object, &b->spec));
    b->cfg = hpa_config_default();
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    hpa_spec_finish(&b->spec);
    free(b);
    return 0;
}

static int set_up(void **state)
{
    *state = gs_alloc(sizeof(struct bench));
    return 0;
}

static void change(const struct bench *b, const char *name, const char *value, struct hpa_spec *ret,
                   struct hpa_config *ret_cfg)
{
    struct gs_error *err =
        hpa_spec_with(&b->spec, &(struct hpa_setting){name, value}, 1, &b->cfg, ret, ret_cfg);
    if (err)
        fail_msg("%s=%s: %s", name, value, gs_error_message(err));
}

static void assert_refused(const struct bench *b, const char *name, const char *value,
                           const char *part)
{
    struct hpa_spec changed = {0};
    struct hpa_config cfg;
    GS_AUTO_ERROR struct gs_error *err =
        hpa_spec_with(&b->spec, &(struct hpa_setting){name, value}, 1, &b->cfg, &changed, &cfg);
    if (!err)
        fail_msg("%s=%s is accepted", name, value);
    if (!strstr(gs_error_message(err), part))
        fail_msg("no \"%s\" in: %s", part, gs_error_message(err));
}

static void test_each_setting_changes_a_copy(void **state)
{
    struct bench *b = *state;
    const struct hpa_setting all[] = {
        {"target", "1500m"}, {"min", "2"}, {"max", "20"}, {"tolerance", "0.25"}};
    struct hpa_spec changed = {0};
    struct hpa_config cfg;
    parse(b, METRIC("gpu_util", "20"), "");
    assert_null(hpa_spec_with(&b->spec, all, 4, &b->cfg, &changed, &cfg));
    assert_int_equal(changed.metrics[0].average_value, 1500);
    assert_int_equal(changed.min_replicas, 2);
    assert_int_equal(changed.max_replicas, 20);
    assert_true(cfg.tolerance == 0.25);
    assert_int_equal(b->spec.metrics[0].average_value, 20000);
    assert_int_equal(b->spec.max_replicas, 10);
    assert_true(b->cfg.tolerance == 0.1);
    hpa_spec_finish(&changed);
}

static void test_a_metric_is_found_by_name_or_position(void **state)
{
    struct bench *b = *state;
    struct hpa_spec changed = {0};
    struct hpa_config cfg;
    parse(b, METRIC("a", "20") "," CPU, "");
    change(b, "target.cpu", "60", &changed, &cfg);
    assert_int_equal(changed.metrics[1].utilization, 60);
    assert_int_equal(changed.metrics[0].average_value, 20000);
    hpa_spec_finish(&changed);
    change(b, "target.1", "3", &changed, &cfg);
    assert_int_equal(changed.metrics[0].average_value, 3000);
    hpa_spec_finish(&changed);
    assert_refused(b, "target", "60", "2 metrics");
    assert_refused(b, "target.3", "60", "no metric \"3\"");
    assert_refused(b, "target.0", "60", "no metric \"0\"");
    assert_refused(b, "target.b", "60", "no metric \"b\"");
    parse(b, METRIC("a", "20") "," METRIC("a", "30"), "");
    assert_refused(b, "target.a", "60", "several metrics");
    change(b, "target.2", "60", &changed, &cfg);
    assert_int_equal(changed.metrics[1].average_value, 60000);
    hpa_spec_finish(&changed);
}

static void test_the_tolerance_replaces_that_of_the_object(void **state)
{
    struct bench *b = *state;
    struct hpa_spec changed = {0};
    struct hpa_config cfg;
    parse(b, METRIC("a", "20"), ",\"behavior\":{\"scaleUp\":{\"tolerance\":\"50m\"}}");
    assert_true(b->spec.up.has_tolerance);
    change(b, "tolerance", "0.2", &changed, &cfg);
    assert_false(changed.up.has_tolerance);
    assert_true(cfg.tolerance == 0.2);
    hpa_spec_finish(&changed);
}

static void test_wrong_values_are_refused(void **state)
{
    struct bench *b = *state;
    parse(b, CPU, "");
    assert_refused(b, "target", "0", "not between 1");
    assert_refused(b, "target", "1.5", "1.5");
    assert_refused(b, "target", "99999999999999999999", "99999999999999999999");
    assert_refused(b, "target", "", "target=");
    assert_refused(b, "min", "11", "must be greater than or equal to `minReplicas`");
    assert_refused(b, "max", "0", "must be set and greater than 0");
    assert_refused(b, "max", "-1", "-1");
    assert_refused(b, "tolerance", "Inf", "want 0 to 100");
    assert_refused(b, "tolerance", "-0.1", "want 0 to 100");
    assert_refused(b, "replicas", "1", "unknown setting \"replicas\"");
    parse(b, METRIC("a", "20"), "");
    assert_refused(b, "target", "-1", "more than 0");
    assert_refused(b, "target", "20 GPUs", "quantities must match");
    assert_false(hpa_setting_exists("target."));
    assert_true(hpa_setting_exists("target.a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_setting_changes_a_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_metric_is_found_by_name_or_position, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_tolerance_replaces_that_of_the_object, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_values_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
