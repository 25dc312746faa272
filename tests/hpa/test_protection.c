// SPDX-License-Identifier: Apache-2.0
// The annotations of credit and of the down check: what they mean, and errors that name the
// mistake. Their decisions are cases in cases/credit.yaml and cases/down-check.yaml.
#include "unit.h"

#include "base/mem.h"
#include "hpa/hpa.h"

static json_t *object_with(const char *name, const char *text)
{
    json_t *o = json_pack("{s:{s:s, s:s}, s:{s:i, s:[]}}", "metadata", "namespace", "shop", "name",
                          "web", "spec", "maxReplicas", 3, "metrics");
    if (name)
        codec_json_set(o, json_string(text), "metadata", "annotations", name, NULL);
    return o;
}

static void check_wrong(const char *name, const char *text, const char *why)
{
    struct hpa_spec spec;
    CODEC_AUTO_JSON json_t *o = object_with(name, text);
    assert_error(hpa_check_protection(o), GS_EINVAL, why);
    assert_error(hpa_check_protection(o), GS_EINVAL, name);
    // The object is evaluated without it.
    assert_ok(hpa_spec_parse(o, &spec));
    assert_false(spec.credit || spec.down_check);
    assert_int_equal(spec.n_loads, 0);
    hpa_spec_finish(&spec);
}

static void test_wrong_annotations_are_named_and_have_no_effect(void **state)
{
    check_wrong(HPA_CREDIT_ANNOTATION, "yes", "want \"true\" or \"false\"");
    check_wrong(HPA_CREDIT_ANNOTATION, "", "want \"true\" or \"false\"");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "True", "no limit");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "", "no limit");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=", "not a positive quantity");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=0", "not a positive quantity");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=-5", "not a positive quantity");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=90%", "not a positive quantity");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "=90", "not the name of a metric");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "9gpu=90", "not the name of a metric");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "../gpu=90", "not the name of a metric");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=90, cpu=5", "not the name of a metric");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "gpu=90,", "no limit");
    check_wrong(HPA_DOWN_CHECK_ANNOTATION, "a=1,b=1,c=1,d=1,e=1", "too many metrics");
}

static void test_annotations_switch_the_protections_on(void **state)
{
    static const struct {
        const char *name, *text;
        bool credit, down_check;
    } rows[] = {
        {NULL, NULL, false, false},
        {HPA_CREDIT_ANNOTATION, "true", true, false},
        {HPA_CREDIT_ANNOTATION, "false", false, false},
        {HPA_DOWN_CHECK_ANNOTATION, "true", false, true},
        {HPA_DOWN_CHECK_ANNOTATION, "false", false, false},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct hpa_spec spec;
        CODEC_AUTO_JSON json_t *o = object_with(rows[i].name, rows[i].text);
        assert_ok(hpa_check_protection(o));
        assert_ok(hpa_spec_parse(o, &spec));
        assert_int_equal(spec.credit, rows[i].credit);
        assert_int_equal(spec.down_check, rows[i].down_check);
        hpa_spec_finish(&spec);
    }
}

static void test_loads_of_the_down_check_are_metrics_after_those_of_the_spec(void **state)
{
    struct hpa_spec spec;
    CODEC_AUTO_JSON json_t *o =
        object_with(HPA_DOWN_CHECK_ANNOTATION, "DCGM_FI_DEV_GPU_UTIL=90,job:queue=1500m");
    assert_ok(hpa_check_protection(o));
    assert_ok(hpa_spec_parse(o, &spec));
    assert_true(spec.down_check);
    assert_int_equal(spec.n_metrics, 0);
    assert_int_equal(spec.n_loads, 2);
    assert_string_equal(spec.metrics[0].name, "DCGM_FI_DEV_GPU_UTIL");
    assert_int_equal(spec.metrics[0].average_value, 90000);
    assert_string_equal(spec.metrics[1].name, "job:queue");
    assert_int_equal(spec.metrics[1].average_value, 1500);
    assert_int_equal(spec.metrics[1].type, HPA_METRIC_PODS);
    hpa_spec_finish(&spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_annotations_are_named_and_have_no_effect),
        cmocka_unit_test(test_annotations_switch_the_protections_on),
        cmocka_unit_test(test_loads_of_the_down_check_are_metrics_after_those_of_the_spec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
