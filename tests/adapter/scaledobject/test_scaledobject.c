// SPDX-License-Identifier: Apache-2.0
// ScaledObjects of objects.yaml and public.yaml: what is converted and what is reported, the way
// back, and equal decisions of the converted autoscaler and of the one that KEDA would create, for
// the same samples.
#include "adapter/scaledobject/sequences.h"

static json_t *objects;

static int load(void **state)
{
    objects = load_rows();
    return 0;
}

static int unload(void **state)
{
    json_decref(objects);
    return 0;
}

static void check_valid(const json_t *hpa)
{
    struct kube_field_errors wrong = {0};
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(hpa);
    hpa_default(copy);
    hpa_validate(copy, &wrong);
    if (wrong.len)
        fail_msg("%s: %s", kube_name(hpa), wrong.text.data);
    assert_ok(hpa_check_fallback(hpa));
    kube_field_errors_finish(&wrong);
}

// --- what is converted ---

static void test_each_object_is_converted_or_named(void **state)
{
    size_t i;
    const json_t *row;
    json_array_foreach (objects, i, row) {
        const char *want = codec_json_str(row, "want", NULL);
        const json_t *object = json_object_get(row, "object");
        struct scaledobject_result r;
        scaledobject_result_init(&r);
        scaledobject_to_hpa(object, &r);
        if (want && (!r.n_problems || !strstr(r.problems.data, want)))
            fail_msg("%s: want \"%s\", not \"%s\"", kube_name(object), want,
                     r.problems.len ? r.problems.data : "");
        if (!want && r.n_problems)
            fail_msg("%s", r.problems.data);
        assert_int_equal(json_array_size(r.objects), want ? 0 : 1);
        if (want)
            assert_int_equal(json_array_size(r.rules), 0);
        else
            check_valid(json_array_get(r.objects, 0));
        scaledobject_result_finish(&r);
    }
    assert_true(i >= 110);
}

// --- the way back ---

// Texts of numbers and without white space at the end. New reference.
static json_t *normal(const json_t *v)
{
    const char *text = json_string_value(v);
    double number = 0;
    if (json_is_object(v)) {
        const char *key;
        json_t *member, *out = json_object();
        json_object_foreach ((json_t *)v, key, member)
            json_object_set_new(out, key, normal(member));
        return out;
    }
    if (json_is_array(v)) {
        json_t *out = json_array();
        for (size_t i = 0; i < json_array_size(v); i++)
            json_array_append_new(out, normal(json_array_get(v, i)));
        return out;
    }
    if (json_is_number(v))
        return json_real(json_number_value(v));
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_double(gs_slice_of(text), &number) : NULL;
    size_t len = text ? strlen(text) : 0;
    while (len && text[len - 1] == '\n')
        len--;
    return !text ? json_incref((json_t *)v) : err ? json_stringn(text, len) : json_real(number);
}

// Fields whose absence means the same.
static void drop_defaults(json_t *spec)
{
    size_t i;
    json_t *t;
    json_array_foreach (json_object_get(spec, "triggers"), i, t) {
        json_t *m = json_object_get(t, "metadata"),
               *ignore = json_object_get(m, "ignoreNullValues");
        if (gs_streq(json_string_value(ignore), "true"))
            json_object_del(m, "ignoreNullValues");
        if (json_number_value(json_object_get(m, "activationThreshold")) == 0)
            json_object_del(m, "activationThreshold");
        if (json_object_get(m, "type")) { // of a resource, before metricType
            json_object_set(t, "metricType", json_object_get(m, "type"));
            json_object_del(m, "type");
        }
    }
}

// What the result has in addition to the object.
static void drop_additions(const json_t *object, json_t *spec)
{
    const json_t *in = json_object_get(object, "spec");
    size_t i;
    json_t *t;
    json_array_foreach (json_object_get(spec, "triggers"), i, t)
        if (gs_streq(json_string_value(json_object_get(t, "metricType")), "AverageValue") &&
            !gs_streq(json_string_value(json_object_get(t, "type")), "cpu") &&
            !gs_streq(json_string_value(json_object_get(t, "type")), "memory"))
            json_object_del(t, "metricType");
    if (!codec_json_get(in, "advanced", "horizontalPodAutoscalerConfig", "name", NULL))
        codec_json_del(spec, "advanced", "horizontalPodAutoscalerConfig", "name", NULL);
    if (!json_object_size(codec_json_get(spec, "advanced", "horizontalPodAutoscalerConfig", NULL)))
        codec_json_del(spec, "advanced", "horizontalPodAutoscalerConfig", NULL);
    if (!json_object_size(json_object_get(spec, "advanced")))
        json_object_del(spec, "advanced");
}

static json_t *expected_spec(const json_t *object)
{
    json_t *spec = normal(json_object_get(object, "spec"));
    json_t *target = json_object_get(spec, "scaleTargetRef");
    CODEC_AUTO_JSON json_t *defaults =
        json_pack("{s:s, s:s}", "apiVersion", "apps/v1", "kind", "Deployment");
    CODEC_AUTO_JSON json_t *counts =
        json_pack("{s:f, s:f}", "minReplicaCount", 0.0, "maxReplicaCount", 100.0);
    json_object_update_missing(target, defaults);
    json_object_update_missing(spec, counts);
    drop_defaults(spec);
    drop_additions(object, spec);
    return spec;
}

static void check_back(const json_t *object)
{
    struct scaledobject_result there, back;
    scaledobject_result_init(&there);
    scaledobject_result_init(&back);
    scaledobject_to_hpa(object, &there);
    struct adapter_config *rules = load_rules(there.rules);
    const struct scaledobject_sources sources = {.rules = rules, .server = "http://default:9090"};
    scaledobject_from_hpa(json_array_get(there.objects, 0), &sources, &back);
    if (back.n_problems)
        fail_msg("%s", back.problems.data);
    CODEC_AUTO_JSON json_t *spec = normal(json_object_get(json_array_get(back.objects, 0), "spec"));
    CODEC_AUTO_JSON json_t *want = expected_spec(object);
    size_t i;
    json_t *t;
    json_array_foreach (json_object_get(want, "triggers"), i, t) // one has no address
        if (gs_streq(json_string_value(json_object_get(t, "type")), "prometheus") &&
            !codec_json_get(t, "metadata", "serverAddress", NULL))
            codec_json_set(t, json_string("http://default:9090"), "metadata", "serverAddress",
                           NULL);
    drop_defaults(spec);
    drop_additions(object, spec);
    GS_AUTO_FREE char *got_text = json_dumps(spec, JSON_SORT_KEYS);
    GS_AUTO_FREE char *want_text = json_dumps(want, JSON_SORT_KEYS);
    assert_string_equal(got_text, want_text);
    adapter_config_free(rules);
    scaledobject_result_finish(&there);
    scaledobject_result_finish(&back);
}

static void test_the_way_back_restores_each_field(void **state)
{
    size_t i;
    const json_t *row;
    json_array_foreach (objects, i, row)
        if (!json_object_get(row, "want"))
            check_back(json_object_get(row, "object"));
}

// --- decisions ---

// The autoscaler of KEDA: at least one replica, and the threshold in thousandths.
static json_t *keda_hpa(const json_t *object, const struct run *run)
{
    const json_t *spec = json_object_get(object, "spec");
    int64_t min = codec_json_int(spec, 0, "minReplicaCount", NULL);
    json_t *metrics = json_array();
    for (size_t i = 0; i < run->n; i++) {
        const struct trigger *t = &run->triggers[i];
        char text[KUBE_QUANTITY_SIZE];
        kube_quantity_format_milli(llround(t->threshold * 1000), text);
        json_array_append_new(metrics, json_pack("{s:s, s:{s:{s:o}, s:{s:s, s:s}}}", "type",
                                                 "External", "external", "metric", "name",
                                                 codec_json_strf("s%zu-prometheus", i), "target",
                                                 "type", t->by_value ? "Value" : "AverageValue",
                                                 t->by_value ? "value" : "averageValue", text));
    }
    json_t *hpa = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:{s:I, s:I, s:o, s:{s:s, s:s, s:s}}}", "apiVersion",
        "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "name", "keda-hpa",
        "namespace", "shop", "spec", "minReplicas", (json_int_t)(min > 0 ? min : 1), "maxReplicas",
        (json_int_t)codec_json_int(spec, 100, "maxReplicaCount", NULL), "metrics", metrics,
        "scaleTargetRef", "apiVersion", "apps/v1", "kind", "Deployment", "name", "x");
    json_t *behavior =
        codec_json_get(spec, "advanced", "horizontalPodAutoscalerConfig", "behavior", NULL);
    if (behavior)
        codec_json_set(hpa, json_incref(behavior), "spec", "behavior", NULL);
    return hpa;
}

static void test_decisions_are_equal_for_1000_sequences(void **state)
{
    size_t done = 0;
    for (size_t i = 0; done < SEQUENCES; i = (i + 1) % json_array_size(objects)) {
        const json_t *row = json_array_get(objects, i);
        struct run run = {.seed = done + 1};
        if (json_object_get(row, "want"))
            continue;
        CODEC_AUTO_JSON json_t *object = json_deep_copy(json_object_get(row, "object"));
        if (!read_triggers(object, &run))
            continue;
        CODEC_AUTO_JSON json_t *theirs = keda_hpa(object, &run);
        start(object, theirs, &run);
        run_sequence(&run);
        stop(&run);
        done++;
    }
}

// --- rules of others, and what has no trigger ---

static json_t *hpa_with(json_t *metric)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s, s:s, s:s}, s:i, s:[o]}}", "apiVersion",
                     "autoscaling/v2", "kind", "HorizontalPodAutoscaler", "metadata", "name", "web",
                     "namespace", "shop", "spec", "scaleTargetRef", "apiVersion", "apps/v1", "kind",
                     "Deployment", "name", "web", "maxReplicas", 9, "metrics", metric);
}

static void test_rules_with_templates_become_queries(void **state)
{
    static const char text[] =
        "externalRules:\n"
        "- seriesQuery: 'queue_length{namespace!=\"\"}'\n"
        "  resources: {overrides: {namespace: {resource: namespace}}}\n"
        "  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n";
    struct scaledobject_result r;
    struct adapter_config *rules = NULL;
    CODEC_AUTO_JSON json_t *hpa = hpa_with(
        json_pack("{s:s, s:{s:{s:s, s:{s:{s:s}}}, s:{s:s, s:s}}}", "type", "External", "external",
                  "metric", "name", "queue_length", "selector", "matchLabels", "queue", "jobs",
                  "target", "type", "AverageValue", "averageValue", "1500m"));
    scaledobject_result_init(&r);
    assert_ok(adapter_config_parse(GS_SLICE(text), "rules", &rules));
    struct scaledobject_sources sources = {.rules = rules};
    scaledobject_from_hpa(hpa, &sources, &r);
    assert_non_null(strstr(r.problems.data, "set --server"));
    sources.server = "http://p:9090";
    scaledobject_from_hpa(hpa, &sources, &r);
    const json_t *trigger =
        json_array_get(codec_json_get(json_array_get(r.objects, 0), "spec", "triggers", NULL), 0);
    assert_string_equal(codec_json_str(trigger, "metadata", "query", NULL),
                        "sum(queue_length{namespace=\"shop\",queue=\"jobs\"}) by (namespace)");
    assert_string_equal(codec_json_str(trigger, "metadata", "threshold", NULL), "1.5");
    assert_string_equal(codec_json_str(trigger, "metadata", "ignoreNullValues", NULL), "false");
    adapter_config_free(rules);
    scaledobject_result_finish(&r);
}

// Of KEDA, all triggers have the same fallback, after a number of failures in reads each 15 s.
static void test_the_fallback_of_an_autoscaler(void **state)
{
    static const struct {
        const char *annotation;
        int64_t failures; // 0: a problem
    } rows[] = {
        {"{queue: {replicas: 4}}", 12},
        {"{queue: {replicas: 4, failureDurationSeconds: 600}}", 40},
        {"{queue: {replicas: 4}, other: {replicas: 4}}", 12},
        {"{queue: {replicas: 4}, other: {replicas: 5}}", 0},
        {"[", 0},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct scaledobject_result r;
        CODEC_AUTO_JSON json_t *hpa = hpa_with(
            json_pack("{s:s, s:{s:s, s:{s:s, s:i}}}", "type", "Resource", "resource", "name", "cpu",
                      "target", "type", "Utilization", "averageUtilization", 50));
        codec_json_set(hpa, json_string(rows[i].annotation), "metadata", "annotations",
                       HPA_FALLBACK_ANNOTATION, NULL);
        scaledobject_result_init(&r);
        const struct scaledobject_sources sources = {0};
        scaledobject_from_hpa(hpa, &sources, &r);
        const json_t *fallback =
            codec_json_get(json_array_get(r.objects, 0), "spec", "fallback", NULL);
        assert_int_equal(r.n_problems, rows[i].failures ? 0 : 1);
        assert_int_equal(codec_json_int(fallback, 0, "failureThreshold", NULL), rows[i].failures);
        assert_int_equal(codec_json_int(fallback, 0, "replicas", NULL), rows[i].failures ? 4 : 0);
        scaledobject_result_finish(&r);
    }
}

static struct scaledobject_result convert_yaml(const char *yaml)
{
    struct codec_yaml_docs in = {0};
    struct scaledobject_result r;
    scaledobject_result_init(&r);
    assert_ok(codec_yaml_parse(gs_slice_of(yaml), "test", &in));
    for (size_t i = 0; i < in.len; i++)
        scaledobject_to_hpa(in.items[i].value, &r);
    codec_yaml_docs_finish(&in);
    return r;
}

#define PROMETHEUS                                                                                 \
    "spec: {scaleTargetRef: {name: a}, minReplicaCount: 1, triggers: [{type: prometheus, "         \
    "metadata: {serverAddress: 'http://p', query: q, threshold: '5'}}]"

// Each of them would read the query of the other.
static void test_two_objects_have_no_rule_of_the_same_name(void **state)
{
    struct scaledobject_result r = convert_yaml(
        "kind: ScaledObject\nmetadata: {name: prod-api, namespace: ml}\n" PROMETHEUS
        "}\n---\nkind: ScaledObject\nmetadata: {name: api, namespace: ml-prod}\n" PROMETHEUS "}\n");
    assert_int_equal(r.n_problems, 1);
    assert_int_equal(json_array_size(r.objects), 1);
    assert_int_equal(json_array_size(r.rules), 1);
    assert_non_null(strstr(r.problems.data, "ml-prod/api: spec.triggers[0]: another object"));
    scaledobject_result_finish(&r);
}

static void test_the_scaler_and_the_conversion_read_external_alike(void **state)
{
    struct scaledobject_result r = convert_yaml(
        "kind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: a}, "
        "minReplicaCount: 1, triggers: [{type: external, metadata: {scalerAddress: 's:1', signal: "
        "queue, threshold: '5', external: 'True'}}]}");
    assert_string_equal(codec_json_str(json_array_get(codec_json_get(json_array_get(r.objects, 0),
                                                                     "spec", "metrics", NULL),
                                                      0),
                                       "type", NULL),
                        "External");
    scaledobject_result_finish(&r);
}

// A fallback that was changed or removed after the conversion stays so on the way back.
static void test_a_changed_fallback_is_not_restored(void **state)
{
    static const struct {
        const char *annotation; // NULL: none
        int64_t failures, replicas;
    } rows[] = {{"{default-a-s0-prometheus: {failureDurationSeconds: 180, replicas: 5}}", 3, 5},
                {"{default-a-s0-prometheus: {failureDurationSeconds: 180, replicas: 9}}", 12, 9},
                {NULL, 0, 0}};
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct scaledobject_result back,
            r = convert_yaml("kind: ScaledObject\nmetadata: {name: a}\n" PROMETHEUS
                             ", fallback: {failureThreshold: 3, replicas: 5}}");
        json_t *hpa = json_array_get(r.objects, 0);
        json_t *annotations = codec_json_get(hpa, "metadata", "annotations", NULL);
        json_object_del(annotations, HPA_FALLBACK_ANNOTATION);
        codec_json_set_str(annotations, HPA_FALLBACK_ANNOTATION, rows[i].annotation);
        struct adapter_config *rules = load_rules(r.rules);
        const struct scaledobject_sources sources = {.rules = rules};
        scaledobject_result_init(&back);
        scaledobject_from_hpa(hpa, &sources, &back);
        assert_int_equal(back.n_problems, 0);
        const json_t *fallback =
            codec_json_get(json_array_get(back.objects, 0), "spec", "fallback", NULL);
        assert_int_equal(codec_json_int(fallback, 0, "failureThreshold", NULL), rows[i].failures);
        assert_int_equal(codec_json_int(fallback, 0, "replicas", NULL), rows[i].replicas);
        adapter_config_free(rules);
        scaledobject_result_finish(&back);
        scaledobject_result_finish(&r);
    }
}

static void test_metrics_without_a_trigger_are_named(void **state)
{
    static const struct {
        const char *metric, *why;
    } rows[] = {
        {"{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"x\"}}}", "no rule of this"},
        {"{\"type\":\"Object\",\"object\":{\"metric\":{\"name\":\"x\"}}}", "set --scaler"},
        {"{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"x\"}}}", "type Pods has no trigger"},
        {"{\"type\":\"Resource\",\"resource\":{\"name\":\"nvidia.com/gpu\"}}", "cpu and memory"},
        {"{}", "has no trigger"},
        {"7", "has no trigger"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct scaledobject_result r;
        CODEC_AUTO_JSON json_t *hpa = hpa_with(json_loads(rows[i].metric, JSON_DECODE_ANY, NULL));
        scaledobject_result_init(&r);
        const struct scaledobject_sources sources = {.server = "http://p:9090"};
        scaledobject_from_hpa(hpa, &sources, &r);
        assert_int_equal(json_array_size(r.objects), 0);
        if (!strstr(r.problems.data, rows[i].why))
            fail_msg("want \"%s\", not \"%s\"", rows[i].why, r.problems.data);
        scaledobject_result_finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_object_is_converted_or_named),
        cmocka_unit_test(test_the_way_back_restores_each_field),
        cmocka_unit_test(test_decisions_are_equal_for_1000_sequences),
        cmocka_unit_test(test_rules_with_templates_become_queries),
        cmocka_unit_test(test_the_fallback_of_an_autoscaler),
        cmocka_unit_test(test_two_objects_have_no_rule_of_the_same_name),
        cmocka_unit_test(test_the_scaler_and_the_conversion_read_external_alike),
        cmocka_unit_test(test_a_changed_fallback_is_not_restored),
        cmocka_unit_test(test_metrics_without_a_trigger_are_named),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
