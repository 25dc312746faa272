{{/* Whether each replica of the adapter has its own engine. Arguments: the root and the settings of the adapter. */}}
{{- define "gpuscale.adapterEngine" -}}
{{- $root := index . 0 -}}
{{- $adapter := index . 1 -}}
{{- if and (not $adapter.prometheusUrl) (or $adapter.engine.enabled (not $root.Values.engine.enabled)) }}true{{ end -}}
{{- end -}}

{{/* The groups of the adapter: lines of GROUP VERSION VERSIONPRIORITY. Arguments: the root and the settings of the adapter. */}}
{{- define "gpuscale.apiServices" -}}
{{- $adapter := index . 1 -}}
{{- $external := eq (toString $adapter.apiServices.external) "true" -}}
{{- if eq (toString $adapter.apiServices.external) "auto" -}}
{{- $external = not (empty $adapter.externalRules) -}}
{{- end -}}
{{- if $adapter.apiServices.custom }}
custom.metrics.k8s.io v1beta1 100
custom.metrics.k8s.io v1beta2 200
{{- end }}
{{- if $external }}
external.metrics.k8s.io v1beta1 100
{{- end }}
{{- if $adapter.apiServices.resource }}
metrics.k8s.io v1beta1 100
{{- end }}
{{- end -}}

{{/* An APIService. Arguments: the root, the settings of the adapter, group, version, priority. */}}
{{- define "gpuscale.apiService" -}}
{{- $root := index . 0 -}}
{{- $adapter := index . 1 -}}
{{- $name := printf "%s-adapter" (include "gpuscale.fullname" $root) -}}
{{- $certificates := $adapter.certificates -}}
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: {{ index . 3 }}.{{ index . 2 }}
  labels:
    {{- include "gpuscale.labels" (list $root "adapter") | nindent 4 }}
  {{- if $certificates.certManager.enabled }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/{{ $name }}
  {{- end }}
spec:
  group: {{ index . 2 }}
  version: {{ index . 3 }}
  groupPriorityMinimum: 100
  versionPriority: {{ index . 4 }}
  service: {name: {{ $name }}, namespace: {{ $root.Release.Namespace }}, port: {{ int $adapter.service.port }}}
  {{- if and $certificates.existingSecret $certificates.caBundle }}
  caBundle: {{ $certificates.caBundle | b64enc }}
  {{- end }}
{{- end -}}

{{/* The rules of the adapter: a configuration of prometheus-adapter. Argument: the settings of the adapter. */}}
{{- define "gpuscale.adapterConfig" -}}
{{- $empty := true -}}
{{- range $key := list "rules" "externalRules" "resourceRules" -}}
{{- with index $ $key -}}
{{- $empty = false }}
{{ dict $key . | toYaml }}
{{- end -}}
{{- end -}}
{{- if $empty }}
rules: []
{{- end }}
{{- if and (eq (toString $.apiServices.external) "true") (empty $.externalRules) }}
# The group is served before the first decision of an autoscaler is.
externalRules: []
{{- end -}}
{{- end -}}
