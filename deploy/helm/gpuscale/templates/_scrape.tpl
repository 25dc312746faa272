{{/* The jobs of an engine. Arguments: the root and the settings of the engine. */}}
{{- define "gpuscale.scrapeConfigs" -}}
{{- $engine := index . 1 -}}
# honor_labels keeps the labels pod, namespace and container of the pods that use the GPUs.
- job_name: gpuscale-exporter
  scrape_interval: {{ $engine.scrapeInterval }}
  honor_labels: true
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
