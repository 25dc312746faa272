{{/* Whether the exporter has a ServiceMonitor. */}}
{{- define "gpuscale.exporterMonitor" -}}
{{- $enabled := toString (include "gpuscale.part" (list . "exporter") | fromYaml).serviceMonitor.enabled -}}
{{- if eq $enabled "auto" -}}{{- $enabled = toString (not .Values.engine.enabled) -}}{{- end -}}
{{- if and .Values.exporter.enabled (eq $enabled "true") (include "gpuscale.hasMonitoring" .) -}}true{{- end -}}
{{- end -}}

{{/* The jobs of an engine. Arguments: the root and the settings of the engine. */}}
{{- define "gpuscale.scrapeConfigs" -}}
{{- $engine := index . 1 -}}
{{- $web := include "gpuscale.compat.web" (index . 0) | fromYaml -}}
# honor_labels keeps the labels pod, namespace and container of the pods that use the GPUs.
- job_name: gpuscale-exporter
  scrape_interval: {{ $engine.scrapeInterval }}
  honor_labels: true
  {{- if $web.tls }}
  scheme: https
  tls_config: {insecure_skip_verify: true}
  {{- end }}
  {{- if $web.auth }}
  basic_auth: {username: {{ $web.username | quote }}, password_file: /etc/gpuscale-exporter-web/password}
  {{- end }}
  kubernetes_sd_configs: [{role: endpointslice}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_service_label_app_kubernetes_io_name], regex: gpuscale-exporter, action: keep}
  - {source_labels: [__meta_kubernetes_pod_node_name], target_label: NodeName}
{{- if $engine.kubelet.enabled }}
# CPU and memory of containers and nodes, for kubectl top. Kubelets with self-signed certificates
# need tls_config: {insecure_skip_verify: true}.
- job_name: kubelet
  scrape_interval: 5s
  scheme: https
  metrics_path: /metrics/resource
  honor_labels: true
  tls_config: {{ if $engine.kubelet.insecureSkipVerify }}{insecure_skip_verify: true}{{ else }}{ca_file: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}{{ end }}
  authorization: {credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token}
  kubernetes_sd_configs: [{role: node}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_node_name], target_label: node}
{{- end }}
{{- with $engine.extraScrapeConfigs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The jobs for gpuscale itself. Arguments: the root and the settings of the adapter. */}}
{{- define "gpuscale.ownScrapeConfigs" -}}
{{- $root := index . 0 -}}
# gpuscale itself.
- job_name: gpuscale-engine
  static_configs: [{targets: ["localhost:9090"]}]
{{- if $root.Values.adapter.enabled }}
# The adapter's certificate changes with its CA. The token goes to pods of this namespace only.
- job_name: gpuscale-adapter
  scheme: https
  tls_config: {insecure_skip_verify: true}
  authorization: {credentials_file: /var/run/secrets/kubernetes.io/serviceaccount/token}
  kubernetes_sd_configs: [{role: endpointslice, namespaces: {names: [{{ $root.Release.Namespace }}]}}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_service_name], regex: {{ include "gpuscale.fullname" $root }}-adapter, action: keep}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
{{- end }}
{{ include "gpuscale.partsScrapeConfig" $root }}
{{- end -}}

{{/* The job for the parts whose series autoscalers read, beside others. Argument: the root. */}}
{{- define "gpuscale.partsScrapeConfig" -}}
# The decisions of the autoscaler have the namespace of the object, the activator's metrics that of the Service.
- job_name: gpuscale
  scrape_interval: {{ .Values.engine.scrapeInterval }}
  honor_labels: true
  kubernetes_sd_configs: [{role: pod, namespaces: {names: [{{ .Release.Namespace }}]}}]
  relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], regex: gpuscale-(hpa|activator|expander|node-provider), action: keep}
  - {source_labels: [__meta_kubernetes_pod_container_port_name], regex: metrics, action: keep}
  # A request that waits at an activator wakes a workload: KEDA and autoscalers learn of it after the next scrape.
  - {source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], regex: gpuscale-activator, target_label: __scrape_interval__, replacement: 250ms}
  - {source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], regex: gpuscale-activator, target_label: __scrape_timeout__, replacement: 250ms}
  - {source_labels: [__meta_kubernetes_pod_label_app_kubernetes_io_name], target_label: job}
  - {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
{{- end -}}
