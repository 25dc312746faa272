{{/* Keys of other charts that have no effect here, as a YAML list. */}}
{{- define "gpuscale.compat.unused" -}}
{{- $peers := include "gpuscale.compat.peers" . | fromYaml -}}
{{- $adapter := $peers.adapter -}}
{{- $exporter := $peers.exporter -}}
{{- $unused := keys $peers.other -}}
{{- if include "gpuscale.compat.foreignImage" . -}}{{- $unused = append $unused "image" -}}{{- end -}}
{{- range $peer := list $adapter $exporter -}}
  {{- range $key := list "namespaceOverride" "livenessProbe" "readinessProbe" "startupProbe" "dnsPolicy" -}}
    {{- if index $peer $key -}}{{- $unused = append $unused $key -}}{{- end -}}
  {{- end -}}
  {{- if dig "clusterIP" "" ($peer.service | default dict) -}}{{- $unused = append $unused "service.clusterIP" -}}{{- end -}}
  {{- with $peer.serviceAccount -}}
    {{- if and .name (ne (toString .create) "false") -}}{{- $unused = append $unused "serviceAccount.name" -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- range $key := list "deploymentAnnotations" "dnsConfig" "topologySpreadConstraints" "extraContainers" "revisionHistoryLimit" "apiService" -}}
  {{- if index $adapter $key -}}{{- $unused = append $unused $key -}}{{- end -}}
{{- end -}}
{{- if dig "create" false ($adapter.psp | default dict) -}}{{- $unused = append $unused "psp.create" -}}{{- end -}}
{{- if eq (toString (dig "create" true ($adapter.rbac | default dict))) "false" -}}{{- $unused = append $unused "rbac.create" -}}{{- end -}}
{{- if ne (toString (dig "type" "RollingUpdate" ($adapter.strategy | default dict))) "RollingUpdate" -}}{{- $unused = append $unused "strategy" -}}{{- end -}}
{{- if and (dig "enabled" false ($adapter.podDisruptionBudget | default dict)) (not (dig "minAvailable" "" $adapter.podDisruptionBudget)) -}}
  {{- if dig "maxUnavailable" "" $adapter.podDisruptionBudget -}}{{- $unused = append $unused "podDisruptionBudget.maxUnavailable" -}}{{- end -}}
{{- end -}}
{{- range $key := list "securityContext" "mapPodsMetrics" "daemonSetAnnotations" -}}
  {{- if index $exporter $key -}}{{- $unused = append $unused $key -}}{{- end -}}
{{- end -}}
{{- range $key := list "debugDump" "networkPolicy" -}}
  {{- if dig "enabled" false (index $exporter $key | default dict) -}}{{- $unused = append $unused (printf "%s.enabled" $key) -}}{{- end -}}
{{- end -}}
{{- if and (hasKey $exporter "hostPID") (not $exporter.hostPID) -}}{{- $unused = append $unused "hostPID" -}}{{- end -}}
{{- if dig "maxSurge" 0 ($exporter.rollingUpdate | default dict) -}}{{- $unused = append $unused "rollingUpdate.maxSurge" -}}{{- end -}}
{{- $service := $exporter.service | default dict -}}
{{- if eq (toString (dig "enable" true $service)) "false" -}}{{- $unused = append $unused "service.enable" -}}{{- end -}}
{{- if ne (dig "internalTrafficPolicy" "Cluster" $service) "Cluster" -}}{{- $unused = append $unused "service.internalTrafficPolicy" -}}{{- end -}}
{{- if ne (dig "address" "" $service | default (printf ":%d" (int ($service.port | default 9400)))) (printf ":%d" (int ($service.port | default 9400))) -}}{{- $unused = append $unused "service.address" -}}{{- end -}}
{{- if eq (toString (dig "rbac" "create" true ($exporter.kubernetes | default dict))) "false" -}}{{- $unused = append $unused "kubernetes.rbac.create" -}}{{- end -}}
{{- $unused | uniq | sortAlpha | toYaml -}}
{{- end -}}

{{/* What NOTES.txt prints about values of other charts. */}}
{{- define "gpuscale.compat.notes" -}}
{{- $unused := include "gpuscale.compat.unused" . | fromYamlArray -}}
{{- if $unused }}

Values without effect: {{ join ", " $unused }}
docs/helm-values.md describes each key of prometheus-adapter's and dcgm-exporter's charts.
{{- end -}}
{{- end -}}
