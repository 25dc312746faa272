{{/*
Values that release 0.1.0 does not have, as in values.yaml. `helm upgrade --reuse-values` takes the values of the installed chart
instead of those of this one, so each template with objects adds them first.
*/}}
{{- define "gpuscale.newValues" -}}
exporter:
  metricNames: ""
  dcgm:
    hostEngine: ""
engine:
  kubeInference: true
  kubeAnnotations: true
adapter:
  podSeries:
    enabled: true
    limit: 10000
    window: 2m
  keda:
    enabled: false
    port: 9413
    existingSecret: ""
    clientCertificates: false
    namespace: keda
hpa:
  budgets:
    otherControllers: false
activator:
  enabled: false
  replicas: 2
  args: []
  env: []
  namespace: ""
  ports: 20000-20999
  serviceAccount:
    name: ""
    annotations: {}
  resources:
    requests: {cpu: 20m, memory: 32Mi}
    limits: {memory: 256Mi}
  nodeSelector: {}
  tolerations: []
  affinity: {}
  priorityClassName: ""
  podAnnotations: {}
  extraPodLabels: {}
  securityContext: {}
  podSecurityContext: {}
  extraVolumes: []
  extraVolumeMounts: []
  podDisruptionBudget:
    enabled: true
    minAvailable: 1
{{- end -}}

{{/* Arguments: values, and those that are added where a key is missing. Of `resources`, a missing key is a removed one. */}}
{{- define "gpuscale.addValues" -}}
{{- $values := index . 0 -}}
{{- range $key, $value := index . 1 -}}
  {{- if not (hasKey $values $key) -}}
    {{- $_ := set $values $key $value -}}
  {{- else if and (kindIs "map" $value) (kindIs "map" (index $values $key)) (ne $key "resources") -}}
    {{- include "gpuscale.addValues" (list (index $values $key) $value) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpuscale.values" -}}
{{- include "gpuscale.addValues" (list .Values (include "gpuscale.newValues" . | fromYaml)) -}}
{{- end -}}
