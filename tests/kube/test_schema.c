// SPDX-License-Identifier: Apache-2.0
#include "kube/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static json_t *json(const char *text)
{
    json_t *j = NULL;
    struct gs_error *err = codec_json_parse(gs_slice_of(text), true, &j);
    if (err)
        fail_msg("%s: %s", text, gs_error_message(err));
    return j;
}

static void expect(const char *api_version, const char *kind, const char *obj_text,
                   const char *unknown, const char *type_errors)
{
    const struct kube_type *t = kube_schema_find(api_version, kind);
    assert_non_null(t);
    CODEC_AUTO_JSON json_t *obj = json(obj_text);
    CODEC_AUTO_JSON json_t *u = json_array();
    CODEC_AUTO_JSON json_t *e = json_array();
    kube_schema_check(t, obj, true, u, e);
    GS_AUTO_BUF struct gs_buf ut = {0};
    GS_AUTO_BUF struct gs_buf et = {0};
    codec_json_dump(u, &ut);
    codec_json_dump(e, &et);
    assert_string_equal(ut.data, unknown);
    assert_string_equal(et.data, type_errors);

    json_array_clear(u);
    kube_schema_check(t, obj, false, u, e);
    if (json_array_size(u))
        fail_msg("%s: unknown fields were not dropped", obj_text);
}

static void test_good_objects(void **state)
{
    expect(
        "apps/v1", "Deployment",
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\","
        "\"labels\":{\"a\":\"b\"},\"creationTimestamp\":null,\"annotations\":null},"
        "\"spec\":{\"replicas\":1,\"selector\":{\"matchLabels\":{\"a\":\"b\"}},\"strategy\":"
        "{\"rollingUpdate\":{\"maxSurge\":\"25%\",\"maxUnavailable\":1}},\"template\":{\"spec\":"
        "{\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{\"limits\":"
        "{\"nvidia.com/gpu\":1,\"cpu\":0.5,\"memory\":\"1Gi\"}},\"ports\":[{\"containerPort\":80}],"
        "\"env\":[{\"name\":\"N\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"a.b\"}}}],"
        "\"readinessProbe\":{\"httpGet\":{\"path\":\"/\",\"port\":\"http\"}}}],"
        "\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}},\"status\":{}}",
        "[]", "[]");
    expect("v1", "Secret", "{\"data\":{\"a\":\"QQ==\"},\"stringData\":{\"b\":\"x\"}}", "[]", "[]");
    expect("v1", "Event",
           "{\"involvedObject\":{\"kind\":\"Pod\"},\"firstTimestamp\":"
           "\"2026-01-01T00:00:00Z\",\"eventTime\":\"2026-01-01T00:00:00.000001Z\"}",
           "[]", "[]");
    expect("autoscaling/v2", "HorizontalPodAutoscaler",
           "{\"spec\":{\"scaleTargetRef\":{\"kind\":\"Deployment\",\"name\":\"d\",\"apiVersion\":"
           "\"apps/v1\"},\"maxReplicas\":3,\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":"
           "{\"name\":\"m\",\"selector\":{\"matchLabels\":{\"a\":\"b\"}}},\"target\":{\"type\":"
           "\"AverageValue\",\"averageValue\":20}}}],\"behavior\":{\"scaleUp\":{\"policies\":"
           "[{\"type\":\"Pods\",\"value\":4,\"periodSeconds\":15}],\"tolerance\":\"0.1\"}}}}",
           "[]", "[]");
    expect("autoscaling/v2beta1", "HorizontalPodAutoscaler",
           "{\"spec\":{\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"m\","
           "\"targetAverageValue\":\"20\"}}]}}",
           "[]", "[]");
}

static void test_unknown_fields(void **state)
{
    expect("apps/v1", "Deployment",
           "{\"foo\":1,\"spec\":{\"foo\":{\"bar\":1},\"Replicas\":2,\"template\":{\"spec\":"
           "{\"containers\":[{\"name\":\"c\"},{\"nmae\":\"d\",\"env\":[{\"nam\":\"x\"}]}]}}}}",
           "[\"unknown field \\\"foo\\\"\",\"unknown field \\\"spec.foo\\\"\","
           "\"unknown field \\\"spec.Replicas\\\"\","
           "\"unknown field \\\"spec.template.spec.containers[1].nmae\\\"\","
           "\"unknown field \\\"spec.template.spec.containers[1].env[0].nam\\\"\"]",
           "[]");
    // v2 names are not v2beta1's.
    expect("autoscaling/v2beta1", "HorizontalPodAutoscaler",
           "{\"spec\":{\"metrics\":[{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"m\"}}}],"
           "\"behavior\":{}}}",
           "[\"unknown field \\\"spec.metrics[0].pods.metric\\\"\","
           "\"unknown field \\\"spec.behavior\\\"\"]",
           "[]");
}

static void test_type_errors(void **state)
{
    static const struct {
        const char *api_version, *kind, *obj, *error;
    } cases[] = {
        {"apps/v1", "Deployment", "{\"spec\":{\"replicas\":\"3\"}}",
         "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type "
         "int32"},
        {"apps/v1", "Deployment", "{\"spec\":{\"replicas\":1.5}}",
         "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of "
         "type int32"},
        {"apps/v1", "Deployment", "{\"spec\":{\"replicas\":3000000000}}",
         "json: cannot unmarshal number 3000000000 into Go struct field "
         "DeploymentSpec.spec.replicas of type int32"},
        {"apps/v1", "Deployment", "{\"spec\":[]}",
         "json: cannot unmarshal array into Go struct field Deployment.spec of type "
         "v1.DeploymentSpec"},
        {"v1", "Pod", "{\"spec\":{\"containers\":{}}}",
         "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type "
         "[]v1.Container"},
        {"v1", "Pod", "{\"spec\":{\"containers\":[{\"image\":1}]}}",
         "json: cannot unmarshal number into Go struct field Container.spec.containers.image of "
         "type string"},
        {"v1", "Pod", "{\"spec\":{\"containers\":[{\"command\":[true]}]}}",
         "json: cannot unmarshal bool into Go struct field Container.spec.containers.command of "
         "type string"},
        {"v1", "Pod", "{\"metadata\":{\"labels\":{\"a\":1}}}",
         "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type "
         "string"},
        {"v1", "Pod", "{\"metadata\":{\"labels\":[]}}",
         "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type "
         "map[string]string"},
        {"v1", "Pod", "{\"spec\":{\"hostNetwork\":\"yes\"}}",
         "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type "
         "bool"},
        {"v1", "Pod", "{\"spec\":{\"terminationGracePeriodSeconds\":0.5}}",
         "json: cannot unmarshal number 0.5 into Go struct field "
         "PodSpec.spec.terminationGracePeriodSeconds of type int64"},
        {"v1", "Pod",
         "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"abc\"}}}]}}",
         "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
        {"v1", "Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":true}}}]}}",
         "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
        {"v1", "Service", "{\"spec\":{\"ports\":[{\"targetPort\":1.5}]}}",
         "json: cannot unmarshal number 1.5 into Go struct field "
         "ServicePort.spec.ports.targetPort of type int32"},
        {"v1", "Secret", "{\"data\":{\"a\":\"Q!\"}}", "illegal base64 data at input byte 1"},
        {"v1", "Pod", "{\"metadata\":{\"creationTimestamp\":\"now\"}}",
         "parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\" as \"2006\""},
        {"v1", "Pod", "{\"kind\":[]}",
         "json: cannot unmarshal array into Go struct field Pod.kind of type string"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        CODEC_AUTO_JSON json_t *list = json_array();
        json_array_append_new(list, json_string(cases[i].error));
        GS_AUTO_BUF struct gs_buf text = {0};
        codec_json_dump(list, &text);
        expect(cases[i].api_version, cases[i].kind, cases[i].obj, "[]", text.data);
    }
}

static void test_nulls_are_dropped(void **state)
{
    CODEC_AUTO_JSON json_t *obj = json("{\"metadata\":{\"creationTimestamp\":null,\"labels\":{}},"
                                       "\"spec\":null}");
    CODEC_AUTO_JSON json_t *problems = json_array();
    kube_schema_check(kube_schema_find("v1", "Pod"), obj, true, problems, problems);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(obj, &text);
    assert_string_equal(text.data, "{\"metadata\":{\"labels\":{}}}");
    assert_int_equal(json_array_size(problems), 0);
}

static void test_not_an_object(void **state)
{
    CODEC_AUTO_JSON json_t *list = json_array();
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *errors = json_array();
    kube_schema_check(kube_schema_find("v1", "Pod"), list, true, unknown, errors);
    assert_string_equal(json_string_value(json_array_get(errors, 0)),
                        "json: cannot unmarshal array into Go value of type v1.Pod");
}

static void test_problems_are_bounded(void **state)
{
    CODEC_AUTO_JSON json_t *obj = json_object();
    for (int i = 0; i < 1000; i++) {
        char key[20];
        snprintf(key, sizeof(key), "x%d", i);
        json_object_set_new(obj, key, json_true());
    }
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *errors = json_array();
    kube_schema_check(kube_schema_find("v1", "Pod"), obj, true, unknown, errors);
    assert_int_equal(json_array_size(unknown), KUBE_SCHEMA_MAX_PROBLEMS);
    assert_int_equal(json_object_size(obj), 0);
}

// Every merge key must be a member of the items it merges.
static void check_type(const struct kube_type *t, int depth)
{
    assert_in_range(depth, 0, 30);
    for (const struct kube_field *f = t->fields; f->name; f++) {
        if (f->merge_key && *f->merge_key) {
            assert_int_equal(f->kind, KUBE_F_LIST);
            assert_non_null(f->type);
            if (!kube_schema_field(f->type, f->merge_key))
                fail_msg("%s.%s: no member %s", t->name, f->name, f->merge_key);
        }
        if (f->type)
            check_type(f->type, depth + 1);
    }
}

static void test_tables_are_sound(void **state)
{
    const char *api_version, *kind;
    const struct kube_type *t;
    size_t i = 0;
    for (; (t = kube_schema_nth(i, &api_version, &kind)); i++) {
        assert_ptr_equal(kube_schema_find(api_version, kind), t);
        assert_non_null(kube_schema_field(t, "apiVersion"));
        assert_non_null(kube_schema_field(t, "kind"));
        assert_non_null(kube_schema_field(t, "metadata"));
        check_type(t, 0);
    }
    assert_true(i > 20);
    assert_null(kube_schema_find("v1", "Deployment"));
    assert_null(kube_schema_find("monitoring.coreos.com/v1", "Prometheus"));
    assert_null(kube_schema_find(NULL, NULL));
}

static void test_unknown_fields_of_monitors_and_rules(void **state)
{
    expect("monitoring.coreos.com/v1", "ServiceMonitor",
           "{\"spec\":{\"selector\":{},\"endpoints\":[{\"port\":\"x\",\"honor_labels\":true,"
           "\"params\":{\"a\":[\"b\"]},\"relabelings\":[{\"target_label\":\"x\"}]}]}}",
           "[\"unknown field \\\"spec.endpoints[0].honor_labels\\\"\","
           "\"unknown field \\\"spec.endpoints[0].relabelings[0].target_label\\\"\"]",
           "[]");
    expect("monitoring.coreos.com/v1", "PodMonitor",
           "{\"spec\":{\"podMetricsEndpoints\":[{\"portNumber\":80,\"bearerTokenFile\":\"/x\"}],"
           "\"endpoints\":[]}}",
           "[\"unknown field \\\"spec.podMetricsEndpoints[0].bearerTokenFile\\\"\","
           "\"unknown field \\\"spec.endpoints\\\"\"]",
           "[]");
    expect("monitoring.coreos.com/v1", "PrometheusRule",
           "{\"spec\":{\"groups\":[{\"name\":\"g\",\"rules\":[{\"record\":\"a:b\","
           "\"expression\":\"up\"},{\"record\":\"a:c\",\"expr\":1}]}]}}",
           "[\"unknown field \\\"spec.groups[0].rules[0].expression\\\"\"]", "[]");
    (void)state;
}

static void test_merge_keys(void **state)
{
    const struct kube_type *pod = kube_schema_find("v1", "Pod");
    const struct kube_type *spec = kube_schema_field(pod, "spec")->type;
    const struct kube_type *container = kube_schema_field(spec, "containers")->type;
    assert_string_equal(kube_schema_field(spec, "containers")->merge_key, "name");
    assert_string_equal(kube_schema_field(spec, "volumes")->merge_key, "name");
    assert_string_equal(kube_schema_field(spec, "imagePullSecrets")->merge_key, "name");
    assert_string_equal(kube_schema_field(spec, "hostAliases")->merge_key, "ip");
    assert_null(kube_schema_field(spec, "tolerations")->merge_key);
    assert_string_equal(kube_schema_field(container, "ports")->merge_key, "containerPort");
    assert_string_equal(kube_schema_field(container, "env")->merge_key, "name");
    assert_string_equal(kube_schema_field(container, "volumeMounts")->merge_key, "mountPath");
    const struct kube_type *service = kube_schema_find("v1", "Service");
    assert_string_equal(
        kube_schema_field(kube_schema_field(service, "spec")->type, "ports")->merge_key, "port");
    const struct kube_type *meta = kube_schema_field(pod, "metadata")->type;
    assert_string_equal(kube_schema_field(meta, "finalizers")->merge_key, "");
    assert_string_equal(kube_schema_field(meta, "ownerReferences")->merge_key, "uid");
    const struct kube_type *hpa = kube_schema_find("autoscaling/v2", "HorizontalPodAutoscaler");
    assert_null(kube_schema_field(kube_schema_field(hpa, "spec")->type, "metrics")->merge_key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_objects),
        cmocka_unit_test(test_unknown_fields),
        cmocka_unit_test(test_type_errors),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_nulls_are_dropped),
        cmocka_unit_test(test_problems_are_bounded),
        cmocka_unit_test(test_tables_are_sound),
        cmocka_unit_test(test_unknown_fields_of_monitors_and_rules),
        cmocka_unit_test(test_merge_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
