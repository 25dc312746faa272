{{/*
What the platform means for the exporter:
  runtimeClassName  a RuntimeClass that provides the driver's library and the device files
  privileged        without such a class: the device files
  driverRoot        without such a class: the folder of the host with the library
  driverMount       where it is mounted
  expressions       of node affinity
  tolerations       besides nvidia.com/gpu
*/}}
{{- define "gpuscale.platform" -}}
{{- $platform := .Values.platform -}}
{{- if eq $platform "operator" -}}
runtimeClassName: nvidia
privileged: false
driverRoot: ""
driverMount: /host
expressions:
- {key: nvidia.com/gpu.present, operator: In, values: ["true"]}
tolerations: []
{{- else if eq $platform "eks" -}}
# Fargate runs no DaemonSets. EKS sets no label on GPU nodes by itself.
runtimeClassName: ""
privileged: true
driverRoot: /
driverMount: /host
expressions:
- {key: eks.amazonaws.com/compute-type, operator: NotIn, values: [fargate]}
tolerations: []
{{- else if eq $platform "gke" -}}
# The driver of GKE's installer, without the rest of the host.
runtimeClassName: ""
privileged: true
driverRoot: /home/kubernetes/bin/nvidia
driverMount: /usr/local/nvidia
expressions:
- {key: cloud.google.com/gke-accelerator, operator: Exists}
tolerations: []
{{- else if eq $platform "ack" -}}
runtimeClassName: ""
privileged: true
driverRoot: /
driverMount: /host
expressions:
- {key: aliyun.accelerator/nvidia_name, operator: Exists}
tolerations: []
{{- else if eq $platform "aks" -}}
runtimeClassName: ""
privileged: true
driverRoot: /
driverMount: /host
expressions:
- {key: kubernetes.azure.com/accelerator, operator: In, values: [nvidia]}
tolerations:
- {key: sku, operator: Equal, value: gpu, effect: NoSchedule}
{{- else if eq $platform "k3s" -}}
# k3s has a RuntimeClass nvidia, which fails on nodes without NVIDIA's runtime. The driver of the host works on all nodes.
runtimeClassName: ""
privileged: true
driverRoot: /
driverMount: /host
expressions: []
tolerations: []
{{- else -}}
runtimeClassName: ""
privileged: true
driverRoot: /
driverMount: /host
expressions: []
tolerations: []
{{- end -}}
{{- end -}}

{{/* The platform, with the exporter's settings that override it, and what follows from it. Arguments: the root and these settings. */}}
{{- define "gpuscale.driver" -}}
{{- $root := index . 0 -}}
{{- $exporter := index . 1 -}}
{{- $driver := include "gpuscale.platform" $root | fromYaml -}}
{{- if ne (toString $exporter.runtimeClassName) "auto" -}}
  {{- $driver = set $driver "runtimeClassName" ($exporter.runtimeClassName | default "") -}}
  {{- if $driver.runtimeClassName -}}
    {{- $driver = mergeOverwrite $driver (dict "privileged" false "driverRoot" "") -}}
  {{- else if not $driver.driverRoot -}}
    {{- /* The platform relied on its class. The root of the host has the driver of the GPU operator, too. */ -}}
    {{- $driver = mergeOverwrite $driver (dict "privileged" true "driverRoot" "/") -}}
  {{- end -}}
{{- end -}}
{{- if ne (toString $exporter.privileged) "auto" -}}
  {{- $driver = set $driver "privileged" (eq (toString $exporter.privileged) "true") -}}
{{- end -}}
{{- if ne (toString $exporter.driverRoot) "auto" -}}
  {{- $driver = set $driver "driverRoot" ($exporter.driverRoot | default "") -}}
{{- end -}}
{{- if $root.Values.simulate -}}
  {{- $driver = mergeOverwrite $driver (dict "runtimeClassName" "" "privileged" false "driverRoot" "") -}}
{{- end -}}
{{- $driver | toYaml -}}
{{- end -}}

{{/* Whether the exporter reads the API server. Arguments: the root and the settings of the exporter. */}}
{{- define "gpuscale.exporterReads" -}}
{{- $exporter := index . 1 -}}
{{- if or $exporter.rbac.create $exporter.podLabels $exporter.podUID $exporter.dra (eq (index . 0).Values.platform "ack") }}true{{ end -}}
{{- end -}}

{{/* How the kubelet probes an exporter. Arguments: its settings and the path. A probe has no password. */}}
{{- define "gpuscale.exporterProbe" -}}
{{- $web := (index . 0).web | default dict -}}
{{- if $web.auth -}}
tcpSocket: {port: metrics}
{{- else -}}
httpGet: {path: {{ index . 1 }}, port: metrics{{ if $web.tls }}, scheme: HTTPS{{ end }}}
{{- end -}}
{{- end -}}
