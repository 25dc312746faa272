#!/bin/sh
# Checks of files: all problems of an object with their position, what was read, and the programs of files that are not
# checked. No check says SUCCESS about what it has not read.
. "$(dirname "$0")/lib.sh"
cd "$dir"

check() { # CODE KIND FILE…: of gpuscale check, its output in out
    want=$1
    shift
    code=0
    "$gpuscale" check "$@" >out 2>&1 || code=$?
    [ $code = "$want" ] || { cat out; fail "check $*: exit code $code, not $want"; }
    [ "$want" = 0 ] || ! grep -q SUCCESS out || { cat out; fail "check $*: SUCCESS in spite of exit code $code"; }
}
shows() { grep -Fq -- "$1" out || { cat out; fail "not printed: $1"; }; }

# --- unknown fields of objects ---
cat >monitor.yaml <<'END'
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: dcgm, namespace: gpu-operator}
spec:
  selector: {matchLabels: {app: nvidia-dcgm-exporter}}
  endpoints:
  - port: gpu-metrics
    honor_labels: true
    scrape_interval: 5s
    honorTimestamps: "no"
    relabelings:
    - {action: replace, source_labels: [__meta_kubernetes_pod_node_name], target_label: instance}
    - {action: labeldrop, Regex: pod}
END
check 1 config monitor.yaml
shows 'monitor.yaml:8:19: ServiceMonitor dcgm: spec.endpoints[0]: unknown field "honor_labels", did you mean "honorLabels"?'
shows 'monitor.yaml:9:22: ServiceMonitor dcgm: spec.endpoints[0]: unknown field "scrape_interval", did you mean "interval"?'
shows 'monitor.yaml:10:22: ServiceMonitor dcgm: spec.endpoints[0].honorTimestamps must be true or false'
shows 'unknown field "source_labels", did you mean "sourceLabels"?'
shows 'unknown field "target_label", did you mean "targetLabel"?'
shows 'spec.endpoints[0].relabelings[1]: unknown field "Regex", did you mean "regex"?'
printf 'apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: a}\n' >no-spec.yaml
check 1 config no-spec.yaml
shows 'no-spec.yaml:1: ServiceMonitor a: spec.selector is missing'
shows 'ServiceMonitor a: spec.endpoints is missing'
cat >look-ahead.yaml <<'END'
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: a}
spec:
  selector: {}
  podMetricsEndpoints:
  - port: x
    metricRelabelings: [{sourceLabels: [__name__], regex: 'DCGM_(?!FI).*', action: drop}]
END
check 1 config look-ahead.yaml
shows 'look-ahead.yaml:8:59: PodMonitor a: error parsing regexp: invalid or unsupported Perl syntax: `(?!`'
cat >rule.yaml <<'END'
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: strict}
spec: {groups: [{name: g, rules: [{record: a:b, expression: up}, {alert: A, expr: 'up ==', fro: 5m}]}]}
END
check 1 config rule.yaml
shows 'rule.yaml:4:61: PrometheusRule strict: spec.groups[0].rules[0]: unknown field "expression", did you mean "expr"?'
shows 'unknown field "fro", did you mean "for"?'
shows 'rule 2 (A): could not parse expression'
check 1 rules rule.yaml
shows 'field expression not found in a rule, did you mean "expr"?'
echo "ok: unknown fields of monitors and rules"

# --- what was read ---
cat >good.yaml <<'END'
apiVersion: v1
kind: List
items:
- {apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: a}, spec: {selector: {}, endpoints: [{port: x}]}}
- {apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: b}, spec: {selector: {}, endpoints: [{port: x}]}}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: r}
spec: {groups: [{name: g, rules: [{record: a:b, expr: up}, {record: a:c, expr: 1}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: s}
END
check 0 config good.yaml
shows 'SUCCESS: good.yaml is valid: 2 ServiceMonitors, 1 PrometheusRule, 2 rules'
shows 'WARNING: good.yaml: 1 other object is not checked, such as a Service object of v1'
echo 'groups: [{name: g, rules: [{record: a:b, expr: up}]}]' >rules.yml
printf 'rule_files: [rules.yml]\nscrape_configs: [{job_name: a}, {job_name: b}]\n' >prometheus.yml
check 0 config prometheus.yml
shows '2 scrape configs, 1 rule file'
cat >never.yml <<'END'
scrape_configs:
- job_name: a
  static_configs: [{targets: ["127.0.0.1:1"]}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
END
check 0 config never.yml
shows 'never.yml:5:5: the rule never matches: __meta_kubernetes_pod_name exists only with kubernetes_sd_configs'
check 1 config --strict never.yml
echo "ok: what was read"

# --- autoscalers ---
cat >slo.yaml <<'END'
apiVersion: v1
kind: Service
metadata: {name: chat}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: ml, annotations: {gpuscale.dev/slo: "ttft=1s"}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 20
  metrics:
  - {type: External, external: {metric: {name: gpuscale_desired_replicas, selector: {matchLabels: {horizontalpodautoscaler: chat}}}, target: {type: AverageValue, averageValue: "1"}}}
END
check 0 hpa slo.yaml
shows 'HorizontalPodAutoscaler ml/chat: warning: kube-controller-manager keeps the replicas'
shows 'slo.yaml: 1 autoscaler, 1 warning'
check 1 hpa --strict slo.yaml
sed 's/ttft=1s/ttft=1s,tpot=5ms/; s/maxReplicas: 20/maxReplicas: 0/' slo.yaml >wrong-slo.yaml
check 1 hpa wrong-slo.yaml slo.yaml
shows 'unknown key "tpot"'
shows 'spec.maxReplicas: Invalid value: 0'
shows 'slo.yaml: 1 autoscaler, 1 warning'
sed 's/HorizontalPodAutoscaler/ConfigMap/' slo.yaml >no-hpa.yaml
check 1 hpa no-hpa.yaml
shows 'no-hpa.yaml: no HorizontalPodAutoscaler'
echo "ok: autoscalers"

# --- files of other programs ---
foreign() { # TEXT PROGRAM: no check accepts the file, and each names the program
    printf '%s\n' "$1" >foreign.yaml
    for kind in config rules adapter metrics web-config; do
        check 1 $kind foreign.yaml
        shows "$2"
    done
}
foreign 'driver: {enabled: false}
dcgmExporter: {enabled: true}' 'Helm values of the NVIDIA GPU operator'
foreign '{apiVersion: monitoring.googleapis.com/v1, kind: PodMonitoring, metadata: {name: a}}' \
    'a PodMonitoring object of monitoring.googleapis.com/v1 (read by Google Cloud Managed Service for Prometheus)'
foreign '{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}}' 'a HorizontalPodAutoscaler object'
foreign 'services: {a: {image: b}}' 'a Docker Compose file'
foreign 'route: {receiver: a}
receivers: [{name: a}]' 'a configuration of Alertmanager'
foreign '{"panels": [], "schemaVersion": 39}' 'a Grafana dashboard'
foreign 'DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization' 'a counters file of dcgm-exporter'
foreign '' 'the file is empty'
sed 's/ServiceMonitor/ServiceMonitr/' monitor.yaml >misspelt.yaml
check 1 config misspelt.yaml
shows 'misspelt.yaml:1: ServiceMonitr dcgm: unknown kind, did you mean "ServiceMonitor"?'
sed 's#coreos.com/v1#coreos.com/v1beta1#' monitor.yaml >version.yaml
check 1 config version.yaml
shows 'apiVersion monitoring.coreos.com/v1beta1 is not read, expected monitoring.coreos.com/v1'
check 1 rules prometheus.yml
shows 'this looks like a Prometheus configuration'
echo 'groups: []' >none.yml
check 1 rules none.yml
shows 'the file has no rules'
echo "ok: files of other programs"

# --- values of kube-prometheus-stack ---
cat >values.yaml <<'END'
prometheus:
  additionalScrapeConfigs: [{job_name: ec2}]
  prometheusSpec:
    serviceMonitorSelectorNilUsesHelmValues: "false"
  additionalServiceMonitors:
  - {name: a, selector: {}, endpoints: [{port: x, honor_labels: true}]}
additionalPrometheusRulesMap:
  gpu:
    groups:
    - name: gpu
      rules:
      - {alert: Bad, expr: 'avg_over_time(DCGM_FI_DEV_GPU_UTIL[5m) > 90'}
END
check 1 config values.yaml
shows 'values.yaml:2:28: prometheus.additionalScrapeConfigs has no effect: the chart reads it as prometheus.prometheusSpec.additionalScrapeConfigs'
shows 'values.yaml:4:46: serviceMonitorSelectorNilUsesHelmValues is the text "false", which the chart reads as true'
shows 'values.yaml:6:65: ServiceMonitor a: spec.endpoints[0]: unknown field "honor_labels", did you mean "honorLabels"?'
shows 'values.yaml:12:28: group "gpu", rule 1 (Bad): could not parse expression'
sed -e '2d' -e 's/"false"/false/' -e 's/honor_labels/honorLabels/' -e 's/\[5m)/[5m])/' values.yaml >fine.yaml
check 0 config fine.yaml
shows 'valid values of kube-prometheus-stack: 1 ServiceMonitor, 1 PrometheusRule, 1 rule'
echo 'grafana: {enabled: true, prometheus: {}}
defaultRules: {create: true}' >nothing.yaml
check 1 config nothing.yaml
shows 'no scrape configs, monitors, rules or settings of Prometheus'
echo 'custom: [{seriesQuery: a}]' >list.yaml
check 1 adapter list.yaml
shows 'list.yaml:1:9: custom has no effect: the chart reads it as rules.custom'
printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}\ndata: {prometheus.yml: "scrape_configs: []"}\n' >map.yaml
check 1 config map.yaml
shows 'a ConfigMap object of v1 with a Prometheus configuration in prometheus.yml'
echo "ok: values of charts"
