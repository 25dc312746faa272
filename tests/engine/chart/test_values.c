// SPDX-License-Identifier: Apache-2.0
#include "engine/chart/chart.h"

#include "unit.h"

static struct chart_values added(const char *text)
{
    struct chart_values v = {0};
    bool found = false;
    assert_ok(chart_values_add(gs_slice_of(text), "values.yaml", &v, &found));
    assert_true(found);
    return v;
}

static void refused(const char *text, const char *part)
{
    struct chart_values v = {0};
    bool found = false;
    struct gs_error *err = chart_values_add(gs_slice_of(text), "values.yaml", &v, &found);
    assert_non_null(err);
    if (!strstr(gs_error_message(err), part))
        fail_msg("\"%s\" lacks \"%s\"", gs_error_message(err), part);
    gs_error_free(err);
    chart_values_finish(&v);
}

#define SPEC "prometheus:\n  prometheusSpec:\n"

static void test_scrape_configs_and_intervals_become_a_configuration(void **state)
{
    struct chart_values v = added(SPEC "    scrapeInterval: 5s\n    externalLabels: {a: b}\n"
                                       "    additionalScrapeConfigs:\n    - job_name: gpu-metrics\n"
                                       "      static_configs: [{targets: ['x:1']}]\n");
    assert_string_equal(codec_json_str(v.config, "global", "scrape_interval", NULL), "5s");
    assert_string_equal(codec_json_str(v.config, "global", "external_labels", "a", NULL), "b");
    const json_t *job = json_array_get(json_object_get(v.config, "scrape_configs"), 0);
    assert_string_equal(codec_json_str(job, "job_name", NULL), "gpu-metrics");
    assert_int_equal(v.n_notes, 0);
    chart_values_finish(&v);
    v = added("kube-prometheus-stack:\n  prometheus:\n    prometheusSpec:\n"
              "      additionalScrapeConfigs: |\n        - job_name: text\n");
    job = json_array_get(json_object_get(v.config, "scrape_configs"), 0);
    assert_string_equal(codec_json_str(job, "job_name", NULL), "text");
    chart_values_finish(&v);
}

static void test_selectors_of_later_files_win(void **state)
{
    bool found = false;
    struct chart_values v = added(SPEC "    serviceMonitorSelector: {matchLabels: {a: b}}\n"
                                       "    ruleSelector: {}\n");
    assert_string_equal(v.selectors[CHART_SERVICE_MONITORS], "a=b");
    assert_null(v.selectors[CHART_RULES]);
    assert_ok(
        chart_values_add(GS_SLICE(SPEC "    serviceMonitorSelector:\n      matchExpressions:\n"
                                       "      - {key: team, operator: In, values: [x, y]}\n"),
                         "more.yaml", &v, &found));
    assert_string_equal(v.selectors[CHART_SERVICE_MONITORS], "team in (x,y)");
    chart_values_finish(&v);
}

static void test_alertmanagers_are_combined(void **state)
{
    struct chart_values v =
        added(SPEC "    alertingEndpoints:\n    - {name: am, namespace: monitoring, port: web, "
                   "pathPrefix: /x}\n    additionalAlertManagerConfigs:\n"
                   "    - static_configs: [{targets: ['am:9093']}]\n");
    const json_t *list = codec_json_get(v.config, "alerting", "alertmanagers", NULL);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(codec_json_str(json_array_get(list, 0), "path_prefix", NULL), "/x");
    chart_values_finish(&v);
}

static void test_rules_and_monitors_become_objects(void **state)
{
    struct chart_values v =
        added("additionalPrometheusRules:\n- name: one\n  additionalLabels: {team: x}\n"
              "  groups: [{name: g, rules: [{record: a, expr: b, labels: {n: '1'}}]}]\n"
              "additionalPrometheusRulesMap:\n  two: {groups: []}\n"
              "prometheus:\n  additionalServiceMonitors:\n  - name: mon\n    selector: {}\n"
              "    endpoints: [{port: metrics}]\n");
    assert_int_equal(json_array_size(v.objects), 3);
    const json_t *rule = json_array_get(v.objects, 0), *monitor = json_array_get(v.objects, 2);
    assert_string_equal(codec_json_str(rule, "metadata", "name", NULL),
                        "kube-prometheus-stack-one");
    assert_string_equal(codec_json_str(rule, "metadata", "labels", "team", NULL), "x");
    assert_string_equal(codec_json_str(rule, "metadata", "labels", "release", NULL),
                        "kube-prometheus-stack");
    assert_string_equal(codec_json_str(monitor, "kind", NULL), "ServiceMonitor");
    assert_null(codec_json_get(monitor, "spec", "name", NULL));
    chart_values_finish(&v);
}

static void test_values_without_effect_are_named(void **state)
{
    struct chart_values v = added("alertmanager: {alertmanagerSpec: {}}\n" SPEC
                                  "    remoteWrite: [{url: x}]\n    replicas: 2\n"
                                  "    serviceMonitorSelectors: {}\n");
    assert_int_equal(v.n_notes, 2);
    assert_true(v.alertmanager);
    assert_string_equal(v.notes[0], "values.yaml:4:18: remoteWrite has no effect here");
    assert_string_equal(v.notes[1], "values.yaml:6:30: unknown value serviceMonitorSelectors; did "
                                    "you mean \"serviceMonitorSelector\"?");
    chart_values_finish(&v);
    v = added("alertmanager: {enabled: false}\n" SPEC "    ruleSelectorNilUsesHelmValues: true\n"
              "    podMonitorSelector: {matchLabels: {a: b}}\n"
              "    podMonitorSelectorNilUsesHelmValues: true\n");
    assert_false(v.alertmanager);
    assert_int_equal(v.n_notes, 1);
    assert_non_null(strstr(v.notes[0], "ruleSelectorNilUsesHelmValues: true"));
    chart_values_finish(&v);
}

static void test_wrong_values_have_their_position(void **state)
{
    refused(SPEC "    additionalScrapeConfigs:\n    - job_nam: x\n", "values.yaml:4:");
    refused(SPEC "    additionalScrapeConfigs: {}x\n", "values.yaml:3:");
    refused(SPEC "    additionalScrapeConfigs: '{{ x }}'\n", "template of Helm");
    refused(SPEC "    additionalScrapeConfigs: {a: b}\n", "must be a list");
    refused(SPEC "    scrapeInterval: soon\n", "values.yaml:3:");
    refused(SPEC "    ruleSelector: {matchLabels: {'a b': c}}\n", "ruleSelector");
    refused("additionalPrometheusRules: [{name: x}]\n", "values.yaml:1:");
    refused(SPEC "    alertingEndpoints: [{name: x}]\n", "needs name and port");
}

static void test_values_in_another_branch_are_named_with_their_place(void **state)
{
    static const char *const cases[][2] = {
        {"prometheus: {additionalScrapeConfigs: [], prometheusSpec: {}}",
         "values.yaml:1:39: prometheus.additionalScrapeConfigs has no effect: the chart reads it "
         "as "
         "prometheus.prometheusSpec.additionalScrapeConfigs"},
        {"additionalScrapeConfigs: []", "reads it as prometheus.prometheusSpec.additionalScrape"},
        {"prometheus: {prometheusSpec: {additionalServiceMonitors: []}}",
         "reads it as prometheus.additionalServiceMonitors"},
        {"prometheus: {prometheusSpec: {additionalPrometheusRulesMap: {}}}",
         "reads it as additionalPrometheusRulesMap"},
        {"prometheusOperator: {serviceMonitorSelector: {}}",
         "reads it as prometheus.prometheusSpec.serviceMonitorSelector"},
        {"prometheusSpec: {retention: 1d}", "reads it as prometheus.prometheusSpec"},
        {"kube-prometheus-stack: {prometheus: {externalLabels: {a: b}, prometheusSpec: {}}}",
         "prometheus.externalLabels has no effect"},
        {"prometheus: {prometheusSpec: {ruleSelectorNilUsesHelmValues: \"false\"}}",
         "ruleSelectorNilUsesHelmValues is the text \"false\", which the chart reads as true"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct chart_values v = added(cases[i][0]);
        assert_int_equal(v.n_mistakes, 1);
        if (!strstr(v.mistakes[0], cases[i][1]))
            fail_msg("%s: %s", cases[i][0], v.mistakes[0]);
        chart_values_finish(&v);
    }
    struct chart_values v = added("grafana: {enabled: true, additionalScrapeConfigs: []}\n" SPEC
                                  "    serviceMonitorSelectorNilUsesHelmValues: false\n"
                                  "    externalLabels: {retentionSize: x}\n");
    assert_int_equal(v.n_mistakes, 0);
    chart_values_finish(&v);
    (void)state;
}

static void test_a_prometheus_object_has_the_same_settings(void **state)
{
    struct chart_values v = {0};
    CODEC_AUTO_JSON json_t *spec =
        json_pack("{s:s, s:s, s:[{s:s, s:s, s:s}]}", "evaluationInterval", "20s",
                  "additionalScrapeConfigs", "- job_name: a\n  params: {x: ['{{y}}']}\n",
                  "alertingEndpoints", "name", "am", "namespace", "n", "port", "9093");
    assert_ok(chart_spec_add(spec, "spec", &v));
    assert_string_equal(codec_json_str(v.config, "global", "evaluation_interval", NULL), "20s");
    assert_int_equal(json_array_size(json_object_get(v.config, "scrape_configs")), 1);
    assert_int_equal(json_array_size(codec_json_get(v.config, "alerting", "alertmanagers", NULL)),
                     1);
    json_object_set_new(spec, "additionalScrapeConfigs", json_string("- job_name: [1]\n"));
    assert_error(chart_spec_add(spec, "spec", &v), GS_EINVAL, "expected a text");
    json_object_set_new(spec, "additionalScrapeConfigs", json_string("a: b\n"));
    assert_error(chart_spec_add(spec, "spec", &v), GS_EINVAL, "must be a list");
    chart_values_finish(&v);
}

static void test_other_documents_are_no_values(void **state)
{
    static const char *const others[] = {"", "rules: {custom: []}", "[]", "a: 1",
                                         "apiVersion: v1\nkind: X\nprometheusOperator: {}\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        struct chart_values v = {0};
        bool found = false;
        assert_ok(chart_values_add(gs_slice_of(others[i]), "values.yaml", &v, &found));
        assert_false(found);
        chart_values_finish(&v);
    }
}

static const json_t *named(const json_t *objects, const char *kind, const char *name)
{
    size_t i;
    json_t *object;
    json_array_foreach (objects, i, object)
        if (gs_streq(codec_json_str(object, "kind", NULL), kind) &&
            gs_streq(codec_json_str(object, "metadata", "name", NULL), name))
            return object;
    fail_msg("no %s %s", kind, name);
    return NULL;
}

static void test_services_of_a_release(void **state)
{
    struct chart_values v = added(SPEC "    scrapeInterval: 5s\n");
    json_t *objects = chart_release_objects(&v, "prometheus", 4321, "example/notice");
    named(objects, "Namespace", "prometheus");
    const json_t *s = named(objects, "Service", "kube-prometheus-stack-prometheus");
    const json_t *port = json_array_get(codec_json_get(s, "spec", "ports", NULL), 0);
    assert_string_equal(codec_json_str(s, "metadata", "namespace", NULL), "prometheus");
    assert_string_equal(codec_json_str(s, "metadata", "labels", "app", NULL),
                        "kube-prometheus-stack-prometheus");
    assert_int_equal(codec_json_int(port, 0, "port", NULL), 9090);
    assert_int_equal(codec_json_int(port, 0, "targetPort", NULL), 4321);
    assert_null(codec_json_get(s, "spec", "type", NULL));
    json_t *pod = chart_release_pod(&v, "prometheus", "engine-x", 4321);
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(s, "spec", "selector", NULL), key, value)
        assert_string_equal(codec_json_str(pod, "metadata", "labels", key, NULL),
                            json_string_value(value));
    s = named(objects, "Service", "kube-prometheus-stack-grafana");
    assert_null(codec_json_get(s, "spec", "selector", NULL));
    assert_non_null(strstr(codec_json_str(s, "metadata", "annotations", "example/notice", NULL),
                           "runs no Grafana: add http://127.0.0.1:4321"));
    named(objects, "Service", "kube-prometheus-stack-alertmanager");
    json_decref(pod);
    json_decref(objects);
    chart_values_finish(&v);
}

static void test_names_of_a_release_can_be_set(void **state)
{
    struct chart_values v =
        added("fullnameOverride: mon\nnamespaceOverride: metrics\ngrafana: {enabled: false}\n"
              "prometheus:\n  service: {type: NodePort, nodePort: 30090, port: 80}\n"
              "  prometheusSpec: {}\n");
    json_t *objects = chart_release_objects(&v, "prometheus", 4321, "example/notice");
    assert_int_equal(json_array_size(objects), 3);
    const json_t *s = named(objects, "Service", "mon-prometheus");
    const json_t *port = json_array_get(codec_json_get(s, "spec", "ports", NULL), 0);
    assert_string_equal(codec_json_str(s, "metadata", "namespace", NULL), "metrics");
    assert_string_equal(codec_json_str(s, "spec", "type", NULL), "NodePort");
    assert_int_equal(codec_json_int(port, 0, "nodePort", NULL), 30090);
    assert_int_equal(codec_json_int(port, 0, "port", NULL), 80);
    json_decref(objects);
    chart_values_finish(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_services_of_a_release),
        cmocka_unit_test(test_names_of_a_release_can_be_set),
        cmocka_unit_test(test_scrape_configs_and_intervals_become_a_configuration),
        cmocka_unit_test(test_selectors_of_later_files_win),
        cmocka_unit_test(test_alertmanagers_are_combined),
        cmocka_unit_test(test_rules_and_monitors_become_objects),
        cmocka_unit_test(test_values_without_effect_are_named),
        cmocka_unit_test(test_wrong_values_have_their_position),
        cmocka_unit_test(test_values_in_another_branch_are_named_with_their_place),
        cmocka_unit_test(test_a_prometheus_object_has_the_same_settings),
        cmocka_unit_test(test_other_documents_are_no_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
