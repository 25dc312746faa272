// SPDX-License-Identifier: Apache-2.0
#include "recognize/recognize.h"

#include "base/mem.h"
#include "unit.h"

static void expect(const char *text, enum recognize_own own, const char *what)
{
    struct recognize_result r = recognize_text(gs_slice_of(text));
    if (!what) {
        assert_null(r.text);
        return;
    }
    if (!r.text || !strstr(r.text, what) || (own && !(r.own & own)) || (!own && r.own))
        fail_msg("%s: %s (%d)", text, r.text ? r.text : "not recognized", (int)r.own);
    free(r.text);
}

static void test_files_of_other_programs_are_named(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"driver: {enabled: false}\ntoolkit: {enabled: true}\n", "NVIDIA GPU operator"},
        {"dcgmExporter: {serviceMonitor: {enabled: true}}\n", "NVIDIA GPU operator"},
        {"route: {receiver: a}\nreceivers: [{name: a}]\n", "Alertmanager"},
        {"services: {a: {image: b}}\n", "Docker Compose"},
        {"{\"panels\": [], \"schemaVersion\": 39}", "Grafana dashboard"},
        {"apiVersion: 1\ndatasources: [{name: a, type: prometheus}]\n", "provisioning of Grafana"},
        {"# comment\nDCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization\n", "counters file"},
        {"version: v1\nsharing: {timeSlicing: {resources: []}}\n", "NVIDIA device plugin"},
        {"version: v1\nmig-configs: {all-disabled: []}\n", "MIG manager"},
        {"rule_files: [a]\ntests: [{input_series: []}]\n", "unit tests of rules"},
        {"server: {retention: 1d}\n", "Helm values of the chart prometheus"},
        {"receivers: {otlp: {}}\nexporters: {debug: {}}\n", "OpenTelemetry Collector"},
        {"- targets: [a]\n", "list of targets"},
        {"resources: [a.yaml]\n", "kustomization"},
        {"resources: {limits: {cpu: 1}}\nimage: {repository: a}\n", "Helm values"},
        {"apiVersion: karpenter.sh/v1\nkind: NodePool\n", "Karpenter"},
        {"apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n", "HorizontalPodAutoscaler"},
        {"apiVersion: monitoring.googleapis.com/v1\nkind: PodMonitoring\n",
         "Google Cloud Managed Service"},
        {"apiVersion: monitoring.coreos.com/v1\nkind: Probe\n", "Prometheus operator"},
        {"apiVersion: v1\nkind: Service\n", "a Service object of v1"},
        {"apiVersion: v1\nkind: ConfigMap\ndata:\n  a: x\n  b.yml: |\n    route: {}\n    "
         "receivers: "
         "[]\n",
         "a ConfigMap object of v1 with a configuration of Alertmanager in b.yml (read by "
         "alertmanager --config.file)"},
        {"# only a comment\n", "empty"},
        {"", "empty"},
        {"---\n", "empty"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        expect(cases[i].text, RECOGNIZE_OTHER, cases[i].what);
    (void)state;
}

static void test_own_files_are_recognized(void **state)
{
    expect("scrape_configs: []\n", RECOGNIZE_CONFIG, "Prometheus configuration");
    expect("groups: [{name: a, rules: []}]\n", RECOGNIZE_RULES, "rule file");
    expect("rules: [{seriesQuery: a}]\n", RECOGNIZE_ADAPTER, "prometheus-adapter");
    expect("rules: {custom: []}\n", RECOGNIZE_ADAPTER, "Helm values of prometheus-adapter");
    expect("prometheus: {prometheusSpec: {}}\n", RECOGNIZE_STACK_VALUES, "kube-prometheus-stack");
    expect("basic_auth_users: {a: b}\n", RECOGNIZE_WEB_CONFIG, "web configuration");
    expect("# HELP a b\na 1\n", RECOGNIZE_EXPOSITION, "text format");
    expect("a_total{b=\"c\"} 1e3\n", RECOGNIZE_EXPOSITION, "text format");
    expect("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitorList\nitems:\n"
           "- {apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor}\n",
           RECOGNIZE_MONITORS, "ServiceMonitor");
    expect("a: [1\n", RECOGNIZE_OTHER, NULL);
    expect("foo: bar\n", RECOGNIZE_OTHER, NULL);
    (void)state;
}

static void test_only_foreign_files_have_a_text(void **state)
{
    GS_AUTO_FREE char *text = recognize_foreign(GS_SLICE("services: {a: {image: b}}"),
                                                RECOGNIZE_CONFIG, "prometheus.yml");
    assert_string_equal(text, "this looks like a Docker Compose file (read by docker compose up); "
                              "expected prometheus.yml");
    GS_AUTO_FREE char *empty =
        recognize_foreign(GS_SLICE("\n"), RECOGNIZE_CONFIG, "prometheus.yml");
    assert_string_equal(empty, "the file is empty; expected prometheus.yml");
    assert_null(recognize_foreign(GS_SLICE("scrape_configs: []"), RECOGNIZE_CONFIG, "it"));
    assert_null(recognize_foreign(GS_SLICE("foo: bar"), RECOGNIZE_CONFIG, "it"));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_of_other_programs_are_named),
        cmocka_unit_test(test_own_files_are_recognized),
        cmocka_unit_test(test_only_foreign_files_have_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
