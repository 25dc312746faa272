// SPDX-License-Identifier: Apache-2.0
// Names the program that reads a file, by the keys of the file. It makes errors useful: who gives
// Helm values to a command that reads rules is shown what the file is and where it belongs.
#include "recognize/recognize.h"

#include "base/mem.h"
#include "codec/yaml.h"

#include <ctype.h>

#define MAX_KEYS     10
#define MAX_EXAMINED ((size_t)16 << 20)

// A kind of file without apiVersion and kind. Rows are tried in order, so the specific ones come
// first.
struct form {
    const char *what, *reader;
    enum recognize_own own;
    size_t min;                 // how many of the keys it must have
    const char *keys[MAX_KEYS]; // "a.b": b inside a; "[]" is the first item of a list
};

static const struct form forms[] = {
    {"Helm values of kube-prometheus-stack",
     "helm install prometheus-community/kube-prometheus-stack, gpuscale check config",
     RECOGNIZE_STACK_VALUES,
     1,
     {"prometheus.prometheusSpec", "prometheus.additionalServiceMonitors",
      "prometheus.additionalPodMonitors", "alertmanager.alertmanagerSpec", "alertmanager.config",
      "additionalPrometheusRulesMap", "additionalPrometheusRules", "prometheusOperator",
      "kube-prometheus-stack", "defaultRules"}},
    {"Helm values of the NVIDIA GPU operator",
     "helm install nvidia/gpu-operator",
     RECOGNIZE_OTHER,
     1,
     {"dcgmExporter", "migManager", "vgpuManager", "sandboxDevicePlugin", "gpuFeatureDiscovery",
      "ccManager", "vfioManager", "nodeStatusExporter"}},
    {"Helm values of the NVIDIA GPU operator",
     "helm install nvidia/gpu-operator",
     RECOGNIZE_OTHER,
     2,
     {"driver", "toolkit", "devicePlugin", "dcgm", "gfd", "mig", "validator", "nfd", "gds",
      "operator"}},
    {"a rule file of prometheus-adapter",
     "prometheus-adapter --config, gpuscale check adapter",
     RECOGNIZE_ADAPTER,
     1,
     {"rules.[].seriesQuery", "rules.[].metricsQuery", "externalRules", "resourceRules"}},
    {"Helm values of prometheus-adapter",
     "helm install prometheus-community/prometheus-adapter, gpuscale check adapter",
     RECOGNIZE_ADAPTER,
     1,
     {"rules.default", "rules.custom", "rules.external", "rules.resource", "rules.existing",
      "metricsRelistInterval", "prometheus-adapter", "prometheus.url", "prometheus.adapter"}},
    {"unit tests of rules",
     "gpuscale test rules",
     RECOGNIZE_OTHER,
     1,
     {"tests.[].input_series", "tests.[].alert_rule_test", "tests.[].promql_expr_test"}},
    {"a configuration of Alertmanager",
     "alertmanager --config.file",
     RECOGNIZE_OTHER,
     2,
     {"route", "receivers", "inhibit_rules", "templates"}},
    {"Helm values of the chart prometheus",
     "helm install prometheus-community/prometheus",
     RECOGNIZE_OTHER,
     1,
     {"serverFiles", "extraScrapeConfigs", "server.persistentVolume", "server.extraFlags",
      "server.retention", "server.global", "kube-state-metrics.enabled",
      "prometheus-node-exporter.enabled", "prometheus-pushgateway"}},
    {"a configuration of the OpenTelemetry Collector",
     "otelcol --config",
     RECOGNIZE_OTHER,
     2,
     {"receivers", "exporters", "processors", "service.pipelines"}},
    {"a Prometheus configuration",
     "gpuscale check config, prometheus --config.file",
     RECOGNIZE_CONFIG,
     1,
     {"scrape_configs", "rule_files", "alerting", "remote_write", "remote_read",
      "scrape_config_files", "global.scrape_interval", "global.evaluation_interval",
      "global.external_labels", "otlp"}},
    {"a rule file",
     "gpuscale check rules, rule_files of prometheus.yml",
     RECOGNIZE_RULES,
     1,
     {"groups.[].rules", "groups.[].name"}},
    {"a Docker Compose file",
     "docker compose up",
     RECOGNIZE_OTHER,
     1,
     {"services.*.image", "services.*.build"}},
    {"a Grafana dashboard",
     "Grafana, Dashboards, Import",
     RECOGNIZE_OTHER,
     2,
     {"panels", "schemaVersion", "templating", "dashboard.panels", "dashboard.schemaVersion",
      "__inputs"}},
    {"provisioning of Grafana",
     "/etc/grafana/provisioning",
     RECOGNIZE_OTHER,
     1,
     {"datasources.[].type", "providers.[].type"}},
    {"Helm values of dcgm-exporter",
     "helm install gpu-helm-charts/dcgm-exporter",
     RECOGNIZE_OTHER,
     2,
     {"serviceMonitor", "arguments", "extraEnv", "customMetrics", "kubeletPath", "extraHostVolumes",
      "tlsServerConfig", "runtimeClassName"}},
    {"a configuration of the NVIDIA device plugin",
     "nvidia-device-plugin --config-file",
     RECOGNIZE_OTHER,
     1,
     {"sharing.timeSlicing", "sharing.mps", "flags.migStrategy", "flags.plugin"}},
    {"Helm values of the NVIDIA device plugin",
     "helm install nvdp/nvidia-device-plugin",
     RECOGNIZE_OTHER,
     1,
     {"deviceListStrategy", "deviceIDStrategy", "nvidiaDriverRoot", "failOnInitError", "config.map",
      "migStrategy"}},
    {"a configuration of the MIG manager",
     "nvidia-mig-parted",
     RECOGNIZE_OTHER,
     1,
     {"mig-configs"}},
    {"a web configuration",
     "gpuscale check web-config, --web.config.file",
     RECOGNIZE_WEB_CONFIG,
     1,
     {"tls_server_config", "basic_auth_users", "http_server_config"}},
    {"a list of targets", "file_sd_configs of prometheus.yml", RECOGNIZE_OTHER, 1, {"[].targets"}},
    {"a configuration of the blackbox exporter",
     "blackbox_exporter --config.file",
     RECOGNIZE_OTHER,
     1,
     {"modules.*.prober"}},
    {"a configuration of Promtail",
     "promtail --config.file",
     RECOGNIZE_OTHER,
     2,
     {"clients", "positions"}},
    {"a kubeconfig", "kubectl --kubeconfig", RECOGNIZE_OTHER, 2, {"clusters", "contexts", "users"}},
    {"the description of a Helm chart",
     "Chart.yaml, helm",
     RECOGNIZE_OTHER,
     3,
     {"apiVersion", "name", "version", "appVersion", "dependencies"}},
    {"a kustomization",
     "kubectl apply -k",
     RECOGNIZE_OTHER,
     1,
     {"resources.[]", "patches.[]", "configMapGenerator.[]", "secretGenerator.[]",
      "patchesStrategicMerge.[]"}},
    {"Helm values",
     "helm install",
     RECOGNIZE_OTHER,
     1,
     {"image.repository", "serviceAccount.create", "replicaCount", "fullnameOverride"}},
    {"a workflow of GitHub Actions", "GitHub", RECOGNIZE_OTHER, 1, {"jobs.*.steps"}},
};

// The readers of objects, by the end of their API group.
static const struct {
    const char *group, *kind; // kind NULL: each
    const char *reader;
    enum recognize_own own;
} objects[] = {
    {"monitoring.coreos.com", "ServiceMonitor", "gpuscale check config", RECOGNIZE_MONITORS},
    {"monitoring.coreos.com", "PodMonitor", "gpuscale check config", RECOGNIZE_MONITORS},
    {"monitoring.coreos.com", "PrometheusRule", "gpuscale check rules",
     RECOGNIZE_RULES | RECOGNIZE_MONITORS},
    {"monitoring.coreos.com", NULL, "the Prometheus operator", RECOGNIZE_OTHER},
    {"monitoring.googleapis.com", NULL, "Google Cloud Managed Service for Prometheus",
     RECOGNIZE_OTHER},
    {"azmonitoring.coreos.com", NULL, "Azure Monitor managed service for Prometheus",
     RECOGNIZE_OTHER},
    {"victoriametrics.com", NULL, "the VictoriaMetrics operator", RECOGNIZE_OTHER},
    {"autoscaling", "HorizontalPodAutoscaler", "kubectl apply, gpuscale explain hpa",
     RECOGNIZE_OTHER},
    {"autoscaling.k8s.io", NULL, "the Vertical Pod Autoscaler or the Cluster Autoscaler",
     RECOGNIZE_OTHER},
    {"keda.sh", NULL, "KEDA", RECOGNIZE_OTHER},
    {"karpenter.sh", NULL, "Karpenter", RECOGNIZE_OTHER},
    {"karpenter.k8s.aws", NULL, "Karpenter", RECOGNIZE_OTHER},
    {"nvidia.com", NULL, "the NVIDIA GPU operator", RECOGNIZE_OTHER},
    {"eksctl.io", NULL, "eksctl", RECOGNIZE_OTHER},
    {"kustomize.config.k8s.io", NULL, "kubectl apply -k", RECOGNIZE_OTHER},
    {"kind.x-k8s.io", NULL, "kind create cluster", RECOGNIZE_OTHER},
    {"kubeadm.k8s.io", NULL, "kubeadm", RECOGNIZE_OTHER},
    {"argoproj.io", NULL, "Argo", RECOGNIZE_OTHER},
    {"kubescheduler.config.k8s.io", NULL, "kube-scheduler --config", RECOGNIZE_OTHER},
    {"audit.k8s.io", NULL, "kube-apiserver --audit-policy-file", RECOGNIZE_OTHER},
    {"opentelemetry.io", NULL, "the OpenTelemetry operator", RECOGNIZE_OTHER},
};

// --- documents ---

static const json_t *any_member(const json_t *value, const char *rest);

static const json_t *at_path(const json_t *value, const char *path)
{
    struct gs_slice rest = gs_slice_of(path);
    while (rest.data && value) {
        struct gs_slice name = gs_slice_cut(&rest, '.');
        if (gs_slice_eq_str(name, "[]"))
            value = json_array_get(value, 0);
        else if (gs_slice_eq_str(name, "*"))
            return any_member(value, rest.data);
        else
            value = json_object_getn(value, name.data, name.len);
    }
    return value;
}

// "*": a member of any name.
static const json_t *any_member(const json_t *value, const char *rest)
{
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        const json_t *found = at_path(member, rest);
        if (found)
            return found;
    }
    return NULL;
}

static bool has_form(const json_t *doc, const struct form *f)
{
    size_t n = 0;
    for (size_t i = 0; i < MAX_KEYS && f->keys[i]; i++)
        n += at_path(doc, f->keys[i]) != NULL;
    return n >= f->min;
}

static struct recognize_result recognize_at(struct gs_slice text, bool outer);

// What an entry of a ConfigMap is. NULL: none is recognized.
static char *entry_of_config_map(const json_t *doc)
{
    const char *key;
    json_t *entry;
    json_object_foreach (json_object_get(doc, "data"), key, entry) {
        const char *text = json_string_value(entry);
        struct recognize_result found = {RECOGNIZE_OTHER, NULL};
        if (text && *text)
            found = recognize_at(gs_slice_of(text), false);
        GS_AUTO_FREE char *what = found.text;
        const char *reader = what ? strstr(what, " (read by ") : NULL;
        if (reader)
            return gs_format("a ConfigMap object of v1 with %.*s in %s%s", (int)(reader - what),
                             what, key, reader);
    }
    return NULL;
}

static struct recognize_result recognize_object(const char *api_version, const char *kind)
{
    const char *slash = strchr(api_version, '/');
    struct gs_slice group = gs_slice_make(api_version, slash ? (size_t)(slash - api_version) : 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(objects); i++) {
        bool same = gs_slice_ends(group, objects[i].group) &&
                    (group.len == strlen(objects[i].group) ||
                     group.data[group.len - strlen(objects[i].group) - 1] == '.');
        if (same && (!objects[i].kind || gs_streq(kind, objects[i].kind)))
            return (struct recognize_result){
                objects[i].own,
                gs_format("a %s object of %s (read by %s)", kind, api_version, objects[i].reader)};
    }
    return (struct recognize_result){
        RECOGNIZE_OTHER, gs_format("a %s object of %s (read by kubectl apply)", kind, api_version)};
}

// outer: entries of ConfigMaps are examined. They are not examined inside of another ConfigMap.
static struct recognize_result document_at(const json_t *doc, bool outer)
{
    const char *api_version = codec_json_str(doc, "apiVersion", NULL);
    const char *kind = codec_json_str(doc, "kind", NULL);
    const json_t *items = json_object_get(doc, "items");
    if (kind && gs_ends(kind, "List") && json_array_size(items))
        return document_at(json_array_get(items, 0), outer);
    char *entry = outer && gs_streq(kind, "ConfigMap") ? entry_of_config_map(doc) : NULL;
    if (entry)
        return (struct recognize_result){RECOGNIZE_OTHER, entry};
    if (api_version && kind && !gs_streq(kind, "Config"))
        return recognize_object(api_version, kind);
    for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++)
        if (has_form(doc, &forms[i]))
            return (struct recognize_result){
                forms[i].own, gs_format("%s (read by %s)", forms[i].what, forms[i].reader)};
    return (struct recognize_result){RECOGNIZE_OTHER, NULL};
}

struct recognize_result recognize_document(const json_t *doc)
{
    return document_at(doc, true);
}

// --- texts that are not YAML ---

static bool is_metric_name(struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.data[i]) && s.data[i] != '_' && s.data[i] != ':')
            return false;
    return s.len > 0 && s.data[s.len - 1] != ':'; // a key of YAML ends with it
}

// "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %)."
static bool is_counter_row(struct gs_slice line)
{
    struct gs_slice name = gs_slice_trim(gs_slice_cut(&line, ','));
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&line, ','));
    return is_metric_name(name) &&
           (gs_slice_eq_str(type, "gauge") || gs_slice_eq_str(type, "counter") ||
            gs_slice_eq_str(type, "label"));
}

// "name{a="b"} 1" or "name 1"
static bool is_sample(struct gs_slice line)
{
    const char *end = memchr(line.data, '{', line.len);
    if (!end)
        end = memchr(line.data, ' ', line.len);
    if (!end || !is_metric_name(gs_slice_make(line.data, (size_t)(end - line.data))))
        return false;
    char last = line.data[line.len - 1];
    return isdigit((unsigned char)last) || gs_slice_ends(line, "NaN") || gs_slice_ends(line, "Inf");
}

static struct recognize_result recognize_lines(struct gs_slice text)
{
    struct gs_slice rest = text;
    while (rest.data) {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&rest, '\n'));
        bool metadata = gs_slice_starts(line, "# HELP ") || gs_slice_starts(line, "# TYPE ");
        if (!line.len || (*line.data == '#' && !metadata))
            continue;
        if (is_counter_row(line))
            return (struct recognize_result){
                RECOGNIZE_OTHER, gs_strdup("a counters file of dcgm-exporter (read by gpuscale "
                                           "exporter --collectors, dcgm-exporter -f)")};
        if (metadata || is_sample(line))
            return (struct recognize_result){
                RECOGNIZE_EXPOSITION,
                gs_strdup("metrics in the text format (read by gpuscale check metrics)")};
        break;
    }
    return (struct recognize_result){RECOGNIZE_OTHER, NULL};
}

static struct recognize_result recognize_at(struct gs_slice text, bool outer)
{
    struct recognize_result found = {RECOGNIZE_OTHER, NULL};
    struct codec_yaml_docs docs = {0};
    if (text.len > MAX_EXAMINED)
        return found;
    if (!gs_slice_trim(text).len)
        return (struct recognize_result){RECOGNIZE_OTHER, gs_strdup("empty")};
    found = recognize_lines(text);
    GS_AUTO_ERROR struct gs_error *err = found.text ? NULL : codec_yaml_parse(text, "", &docs);
    for (size_t i = 0; !err && i < docs.len && !found.text; i++)
        found = document_at(docs.items[i].value, outer);
    if (!found.text && !err && !docs.len)
        found.text = gs_strdup("empty");
    codec_yaml_docs_finish(&docs);
    return found;
}

struct recognize_result recognize_text(struct gs_slice text)
{
    return recognize_at(text, true);
}

char *recognize_foreign(struct gs_slice text, unsigned own, const char *wanted)
{
    struct recognize_result found = recognize_text(text);
    GS_AUTO_FREE char *what = found.text;
    if (!what || (found.own & own))
        return NULL;
    if (gs_streq(what, "empty"))
        return gs_format("the file is empty; expected %s", wanted);
    return gs_format("this looks like %s; expected %s", what, wanted);
}
