// SPDX-License-Identifier: Apache-2.0
#include "kube/status.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(json_t *status, const char *text)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_json_dump(status, &out);
    assert_string_equal(out.data, text);
    json_decref(status);
}

static void test_bodies(void **state)
{
    expect(kube_status_not_found("pods", "x"),
           "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
           "\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\","
           "\"details\":{\"name\":\"x\",\"kind\":\"pods\"},\"code\":404}");
    expect(
        kube_status_already_exists("deployments.apps", "x"),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
        "\"message\":\"deployments.apps \\\"x\\\" already exists\",\"reason\":\"AlreadyExists\","
        "\"details\":{\"name\":\"x\",\"group\":\"apps\",\"kind\":\"deployments\"},\"code\":409}");
    expect(kube_status_conflict("deployments.apps", "x", NULL),
           "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
           "\"message\":\"Operation cannot be fulfilled on deployments.apps \\\"x\\\": the object "
           "has been modified; please apply your changes to the latest version and try again\","
           "\"reason\":\"Conflict\",\"details\":{\"name\":\"x\",\"group\":\"apps\","
           "\"kind\":\"deployments\"},\"code\":409}");
    expect(kube_status_gone("too old resource version: 1 (7)"),
           "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
           "\"message\":\"too old resource version: 1 (7)\",\"reason\":\"Expired\",\"code\":410}");
}

static const char *message(const json_t *status)
{
    return json_string_value(json_object_get(status, "message"));
}

static void test_invalid(void **state)
{
    struct kube_field_errors e = {0};
    kube_field_error(&e, "FieldValueInvalid", "spec.maxReplicas", "1",
                     "must be greater than or equal to `%s`", "minReplicas");
    CODEC_AUTO_JSON json_t *one =
        kube_status_invalid("HorizontalPodAutoscaler.autoscaling", "x", &e);
    assert_string_equal(message(one),
                        "HorizontalPodAutoscaler.autoscaling \"x\" is invalid: spec.maxReplicas: "
                        "Invalid value: 1: must be greater than or equal to `minReplicas`");
    GS_AUTO_BUF struct gs_buf details = {0};
    codec_json_dump(json_object_get(one, "details"), &details);
    assert_string_equal(
        details.data,
        "{\"name\":\"x\",\"group\":\"autoscaling\",\"kind\":\"HorizontalPodAutoscaler\",\"causes\":"
        "["
        "{\"reason\":\"FieldValueInvalid\",\"message\":\"Invalid value: 1: must be greater than or "
        "equal to `minReplicas`\",\"field\":\"spec.maxReplicas\"}]}");

    kube_field_error(&e, "FieldValueRequired", "spec.scaleTargetRef.name", NULL, "%s", "");
    kube_field_error(&e, "FieldValueNotSupported", "spec.type", "\"X\"",
                     "supported values: \"A\", \"B\"");
    kube_field_error(&e, "FieldValueRequired", "spec.scaleTargetRef.name", NULL, "%s", "");
    CODEC_AUTO_JSON json_t *all =
        kube_status_invalid("HorizontalPodAutoscaler.autoscaling", "x", &e);
    assert_string_equal(message(all),
                        "HorizontalPodAutoscaler.autoscaling \"x\" is invalid: [spec.maxReplicas: "
                        "Invalid value: 1: must be greater than or equal to `minReplicas`, "
                        "spec.scaleTargetRef.name: Required value, spec.type: Unsupported value: "
                        "\"X\": supported values: \"A\", \"B\"]");
    assert_int_equal(e.len, 4);
    kube_field_errors_finish(&e);
    assert_int_equal(e.len, 0);

    kube_field_error(&e, "FieldValueForbidden", "spec", "ignored", "not now");
    CODEC_AUTO_JSON json_t *core = kube_status_invalid("Pod", "p", &e);
    assert_string_equal(message(core), "Pod \"p\" is invalid: spec: Forbidden: not now");
    kube_field_errors_finish(&e);
}

static void test_a_hundred_thousand_errors_are_bounded(void **state)
{
    struct kube_field_errors e = {0};
    for (int i = 0; i < 100000; i++) {
        GS_AUTO_FREE char *field = gs_format("metadata.labels[%d]", i);
        kube_field_error(&e, "FieldValueInvalid", field, NULL, "bad");
    }
    assert_int_equal(e.len, 100000);
    assert_int_equal(json_array_size(e.causes), KUBE_MAX_FIELD_ERRORS);
    kube_field_errors_finish(&e);
}

// 100 errors that each repeat a large value made a reply a hundred times as large as the request.
static void test_errors_about_large_values_are_bounded(void **state)
{
    struct kube_field_errors e = {0};
    GS_AUTO_FREE char *large = gs_format("\"%040000d\"", 0);
    for (int i = 0; i < 50; i++) {
        GS_AUTO_FREE char *field = gs_format("spec.list[%d]", i);
        kube_field_error(&e, "FieldValueInvalid", i % 2 ? "spec.same" : field, large, "bad");
    }
    assert_true(kube_field_errors_full(&e));
    assert_int_equal(e.len, 50);
    assert_int_equal(json_array_size(e.causes), 2);
    assert_true(e.text.len < 100000);
    kube_field_errors_finish(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_a_hundred_thousand_errors_are_bounded),
        cmocka_unit_test(test_errors_about_large_values_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
