{{/*
Values of other charts: prometheus-adapter, dcgm-exporter and ack-alibaba-cloud-metrics-adapter. docs/helm-values.md has the effect
of each key. The keys are at the top level, as in the values file of one such chart, or below the name of the chart, as in the
values of an umbrella chart.

gpuscale.compat.PART is YAML with settings of that part; they override those in values.yaml.
*/}}

{{/* The values of other charts by part, as YAML: adapter, exporter, other (keys of neither, or of both). */}}
{{- define "gpuscale.compat.peers" -}}
{{- $own := list "image" "imagePullSecrets" "nameOverride" "fullnameOverride" "global" "commonLabels" "platform" "simulate" "exporter"
    "engine" "adapter" "hpa" "activator" "expander" "nodeProvider" "priorityClasses" "networkPolicies" "alerts" "serviceMonitors" "dashboards" "namespace" -}}
{{- $ofAdapter := list "prometheus" "rules" "externalRules" "resourceRules" "logLevel" "metricsRelistInterval" "listenPort" "certManager"
    "tls" "replicas" "extraArguments" "extraVolumes" "psp" "rbac" "customAnnotations" "customLabels" "podDisruptionBudget"
    "deploymentAnnotations" "env" "strategy" "dnsConfig" "topologySpreadConstraints" "extraContainers" "startupProbe"
    "automountServiceAccountToken" "revisionHistoryLimit" "apiService" "extraManifests" -}}
{{- $ofExporter := list "arguments" "extraEnv" "serviceMonitor" "kubernetes" "customMetrics" "extraHostVolumes" "extraConfigMapVolumes"
    "tlsServerConfig" "basicAuth" "runtimeClassName" "rollingUpdate" "kubeletPath" "mapPodsMetrics" "hostPID" "config" "kubernetesDRA"
    "debugDump" "networkPolicy" "initContainers" "daemonSetAnnotations" -}}
{{- $ofBoth := list "resources" "nodeSelector" "tolerations" "affinity" "priorityClassName" "podAnnotations" "podLabels"
    "podSecurityContext" "securityContext" "service" "serviceAccount" "hostNetwork" "extraVolumeMounts" "livenessProbe"
    "readinessProbe" "namespaceOverride" "dnsPolicy" -}}
{{- $adapter := dict -}}
{{- $exporter := dict -}}
{{- $both := dict -}}
{{- $other := dict -}}
{{- range $key, $value := .Values -}}
  {{- if or (has $key $own) (kindIs "invalid" $value) -}}
  {{- else if and (eq $key "prometheus") (kindIs "map" $value) (hasKey $value "prometheusSpec") -}}
    {{- $_ := set $other $key $value -}}
  {{- else if or (has $key $ofAdapter) (and (eq $key "hostNetwork") (kindIs "map" $value)) -}}
    {{- $_ := set $adapter $key $value -}}
  {{- else if or (has $key $ofExporter) (eq $key "hostNetwork") -}}
    {{- $_ := set $exporter $key $value -}}
  {{- else if has $key $ofBoth -}}
    {{- $_ := set $both $key $value -}}
  {{- else if has $key (list "prometheus-adapter" "dcgm-exporter" "AlibabaCloudMetricsAdapter") -}}
  {{- else if $value -}}
    {{- $_ := set $other $key $value -}}
  {{- end -}}
{{- end -}}
{{- $repository := toString .Values.image.repository -}}
{{- $isAdapter := or (gt (len $adapter) 0) (contains "prometheus-adapter" $repository) -}}
{{- $isExporter := or (gt (len $exporter) 0) (contains "dcgm-exporter" $repository) -}}
{{- if and $isAdapter $isExporter $both -}}
  {{- fail (printf "The values have keys of prometheus-adapter's chart (%s) and of dcgm-exporter's chart (%s). These keys exist in both charts: %s. Put the values of each chart below its name: \"prometheus-adapter:\" and \"dcgm-exporter:\"." (keys $adapter | sortAlpha | join ", " | default "image") (keys $exporter | sortAlpha | join ", " | default "image") (keys $both | sortAlpha | join ", ")) -}}
{{- else if $isAdapter -}}
  {{- $adapter = merge $adapter $both -}}
{{- else if $isExporter -}}
  {{- $exporter = merge $exporter $both -}}
{{- else -}}
  {{- $other = merge $other $both -}}
{{- end -}}
{{- range $name := list "prometheus-adapter" "AlibabaCloudMetricsAdapter" -}}
  {{- with index $.Values $name -}}{{- $adapter = merge (deepCopy .) $adapter -}}{{- end -}}
{{- end -}}
{{- with index .Values "dcgm-exporter" -}}{{- $exporter = merge (deepCopy .) $exporter -}}{{- end -}}
{{- dict "adapter" $adapter "exporter" $exporter "other" $other | toYaml -}}
{{- end -}}

{{/*
The image: values of other charts name their own images. A tag in the form of theirs is your own if the repository is yours and
there are no values of other charts.
*/}}
{{- define "gpuscale.compat.foreignImage" -}}
{{- $repository := toString .Values.image.repository -}}
{{- if regexMatch "(prometheus-adapter|dcgm-exporter|metrics-adapter)[^/]*$" $repository -}}true
{{- else if regexMatch "^(v[0-9]|[0-9.]+-[0-9.]+-)" (toString .Values.image.tag) -}}
  {{- $peers := include "gpuscale.compat.peers" . | fromYaml -}}
  {{- if or $peers.adapter $peers.exporter (eq $repository "ghcr.io/gpuscale/gpuscale") -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpuscale.compat.image" -}}
{{- $image := dict -}}
{{- if include "gpuscale.compat.foreignImage" . -}}
  {{- $_ := set $image "tag" "" -}}
  {{- $_ := set $image "digest" "" -}}
  {{- if regexMatch "(prometheus-adapter|dcgm-exporter|metrics-adapter)[^/]*$" (toString .Values.image.repository) -}}
    {{- $_ := set $image "repository" "ghcr.io/gpuscale/gpuscale" -}}
  {{- end -}}
{{- end -}}
{{- $image | toYaml -}}
{{- end -}}

{{/* Settings with the same meaning in both charts. Argument: the values of the other chart. */}}
{{- define "gpuscale.compat.common" -}}
{{- $peer := . -}}
{{- $settings := dict -}}
{{- range $theirs, $ours := dict "nodeSelector" "nodeSelector" "tolerations" "tolerations" "affinity" "affinity" "priorityClassName"
    "priorityClassName" "podAnnotations" "podAnnotations" "podLabels" "extraPodLabels" "podSecurityContext" "podSecurityContext"
    "extraVolumeMounts" "extraVolumeMounts" -}}
  {{- with index $peer $theirs -}}{{- $_ := set $settings $ours . -}}{{- end -}}
{{- end -}}
{{- with $peer.resources -}}
  {{- $_ := set $settings "resources" (dict "requests" .requests "limits" .limits) -}}
{{- end -}}
{{- with $peer.service -}}
  {{- $_ := set $settings "service" (pick . "type" "port" "nodePort" "annotations") -}}
{{- end -}}
{{- with $peer.serviceAccount -}}
  {{- $account := dict -}}
  {{- with .annotations -}}{{- $_ := set $account "annotations" . -}}{{- end -}}
  {{- if and (eq (toString .create) "false") .name -}}{{- $_ := set $account "name" .name -}}{{- end -}}
  {{- $_ := set $settings "serviceAccount" $account -}}
{{- end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{- define "gpuscale.compat.adapter" -}}
{{- $peer := (include "gpuscale.compat.peers" . | fromYaml).adapter -}}
{{- $settings := dict -}}
{{- if $peer -}}
{{- $settings = include "gpuscale.compat.common" $peer | fromYaml -}}
{{- $arguments := list -}}
{{- $prometheus := $peer.prometheus | default dict -}}
{{- $ack := and (kindIs "map" $prometheus) (hasKey $prometheus "adapter") -}}
{{- if $prometheus -}}
  {{- $port := toString ($prometheus.port | default (ternary "" "9090" $ack)) -}}
  {{- if and (hasKey $prometheus "port") (not $prometheus.port) -}}{{- $port = "" -}}{{- end -}}
  {{- $url := tpl (toString ($prometheus.url | default (ternary "" "http://prometheus.default.svc" $ack))) . -}}
  {{- if $url -}}
    {{- $_ := set $settings "prometheusUrl" (printf "%s%s%s" $url (ternary (printf ":%s" $port) "" (ne $port "")) ($prometheus.path | default "")) -}}
  {{- end -}}
  {{- $headers := $prometheus.prometheusHeader | default list -}}
  {{- if kindIs "map" $headers -}}{{- $headers = list $headers -}}{{- end -}}
  {{- range $headers -}}
    {{- range $name, $value := . -}}{{- $arguments = append $arguments (printf "--prometheus-header=%s=%s" $name (toString $value)) -}}{{- end -}}
  {{- end -}}
{{- end -}}
{{- $rules := $peer.rules -}}
{{- if $ack -}}{{- $rules = dig "rules" dict ($prometheus.adapter | default dict) -}}{{- end -}}
{{- if kindIs "map" $rules -}}
  {{- $_ := set $settings "rules" (omit $rules "existing") -}}
  {{- with $rules.existing -}}{{- $_ := set $settings "existingConfigMap" . -}}{{- end -}}
  {{- $_ := set $settings "apiServices" (dict "external" (gt (len ($rules.external | default list)) 0) "resource" (gt (len ($rules.resource | default dict)) 0)) -}}
  {{- $_ := set $settings "resourceRules" nil -}}
{{- else if $rules -}}
  {{- $_ := set $settings "rules" $rules -}}
{{- end -}}
{{- with $peer.externalRules -}}{{- $_ := set $settings "externalRules" . -}}{{- end -}}
{{- with $peer.resourceRules -}}{{- $_ := set $settings "resourceRules" . -}}{{- end -}}
{{- with $peer.metricsRelistInterval | default $prometheus.metricsRelistInterval -}}{{- $_ := set $settings "relistInterval" . -}}{{- end -}}
{{- with $peer.logLevel | default $prometheus.logLevel -}}{{- $arguments = append $arguments (printf "--v=%d" (int .)) -}}{{- end -}}
{{- with $peer.extraArguments -}}{{- $arguments = concat $arguments . -}}{{- end -}}
{{- with $arguments -}}{{- $_ := set $settings "args" . -}}{{- end -}}
{{- range $theirs, $ours := dict "listenPort" "securePort" "replicas" "replicas" "env" "env" "extraVolumes" "extraVolumes" "securityContext"
    "securityContext" -}}
  {{- with index $peer $theirs -}}{{- $_ := set $settings $ours . -}}{{- end -}}
{{- end -}}
{{- if dig "enabled" false ($peer.hostNetwork | default dict) -}}{{- $_ := set $settings "hostNetwork" true -}}{{- end -}}
{{- with $peer.customAnnotations -}}{{- $_ := set $settings "podAnnotations" (merge (deepCopy ($settings.podAnnotations | default dict)) .) -}}{{- end -}}
{{- with $peer.customLabels -}}{{- $_ := set $settings "extraPodLabels" (merge (deepCopy ($settings.extraPodLabels | default dict)) .) -}}{{- end -}}
{{- if dig "enabled" false ($peer.podDisruptionBudget | default dict) -}}
  {{- $budget := dict "enabled" true -}}
  {{- with $peer.podDisruptionBudget.minAvailable -}}{{- $_ := set $budget "minAvailable" . -}}{{- end -}}
  {{- $_ := set $settings "podDisruptionBudget" $budget -}}
{{- end -}}
{{- if dig "enabled" false ($peer.certManager | default dict) -}}
  {{- $manager := dict "enabled" true -}}
  {{- with $peer.certManager.certDuration -}}{{- $_ := set $manager "duration" . -}}{{- end -}}
  {{- $_ := set $settings "certificates" (dict "certManager" $manager) -}}
{{- else if dig "enable" false ($peer.tls | default dict) -}}
  {{- $_ := set $settings "certificates" (dict "existingSecret" (printf "%s-adapter-serving" (include "gpuscale.fullname" .)) "caBundle" $peer.tls.ca) -}}
{{- end -}}
{{- end -}}
{{- if or .Values.adapter.engine.enabled (not .Values.engine.enabled) -}}
  {{- $volumes := $settings.extraVolumes | default .Values.adapter.extraVolumes -}}
  {{- $mounts := $settings.extraVolumeMounts | default .Values.adapter.extraVolumeMounts -}}
  {{- $settings = merge (include "gpuscale.compat.scraper" (list . (dict "extraVolumes" $volumes "extraVolumeMounts" $mounts)) | fromYaml) $settings -}}
{{- end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{/* The arguments of dcgm-exporter without the counters file. */}}
{{- define "gpuscale.compat.withoutCounters" -}}
{{- $skip := false -}}
{{- $arguments := list -}}
{{- range . -}}
  {{- if $skip -}}{{- $skip = false -}}
  {{- else if or (eq (toString .) "-f") (eq (toString .) "--collectors") -}}{{- $skip = true -}}
  {{- else if not (regexMatch "^(-f|--collectors)=" (toString .)) -}}{{- $arguments = append $arguments (toString .) -}}
  {{- end -}}
{{- end -}}
{{- $arguments | toYaml -}}
{{- end -}}

{{/*
TLS and basic authentication of the exporter (tlsServerConfig, basicAuth), as YAML; empty: neither.
  secret        the Secret with web-config.yaml, and username and password of the first user
  certificates  an existing Secret with the certificate
  tls, auth     whether there is TLS and authentication
  username      of the first user
*/}}
{{- define "gpuscale.compat.web" -}}
{{- $peer := (include "gpuscale.compat.peers" . | fromYaml).exporter -}}
{{- $tls := $peer.tlsServerConfig | default dict -}}
{{- $users := dig "users" dict ($peer.basicAuth | default dict) | default dict -}}
{{- $web := dict -}}
{{- if or $tls.enabled $users -}}
  {{- $web = dict "secret" (printf "%s-exporter-web" (include "gpuscale.fullname" .)) "tls" ($tls.enabled | default false) "auth" (gt (len $users) 0) -}}
  {{- if and $tls.enabled $tls.existingSecret -}}{{- $_ := set $web "certificates" $tls.existingSecret -}}{{- end -}}
  {{- with $users -}}{{- $_ := set $web "username" (first (keys . | sortAlpha)) -}}{{- end -}}
{{- end -}}
{{- $web | toYaml -}}
{{- end -}}

{{/* What a part needs to scrape exporters with authentication, added to its volumes. Arguments: the root, its values. */}}
{{- define "gpuscale.compat.scraper" -}}
{{- $web := include "gpuscale.compat.web" (index . 0) | fromYaml -}}
{{- $settings := dict -}}
{{- if $web.auth -}}
  {{- $volume := dict "name" "exporter-password" "secret" (dict "secretName" $web.secret "items" (list (dict "key" "password" "path" "password"))) -}}
  {{- $_ := set $settings "extraVolumes" (append (index . 1).extraVolumes $volume) -}}
  {{- $_ := set $settings "extraVolumeMounts" (append (index . 1).extraVolumeMounts (dict "name" "exporter-password" "mountPath" "/etc/gpuscale-exporter-web" "readOnly" true)) -}}
{{- end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{- define "gpuscale.compat.exporter" -}}
{{- $peer := (include "gpuscale.compat.peers" . | fromYaml).exporter -}}
{{- $settings := dict -}}
{{- if $peer -}}
{{- $settings = include "gpuscale.compat.common" $peer | fromYaml -}}
{{- $arguments := list -}}
{{- range $peer.arguments -}}{{- $arguments = append $arguments (toString .) -}}{{- end -}}
{{- with $peer.customMetrics -}}
  {{- $_ := set $settings "counters" . -}}
  {{- $arguments = include "gpuscale.compat.withoutCounters" $arguments | fromYamlArray -}}
{{- end -}}
{{- range $i, $argument := $arguments -}}
  {{- $map := "" -}}
  {{- if regexMatch "^(-m|--configmap-data)=" $argument -}}{{- $map = regexReplaceAll "^[^=]*=" $argument "" -}}
  {{- else if and (has $argument (list "-m" "--configmap-data")) (lt (add1 $i) (len $arguments)) -}}{{- $map = index $arguments (add1 $i) -}}
  {{- end -}}
  {{- if and (contains ":" $map) (ne $map "none") -}}
    {{- $_ := set $settings "rbac" (dict "create" true "configMap" (last (splitList ":" $map))) -}}
  {{- end -}}
{{- end -}}
{{- $kubernetes := $peer.kubernetes | default dict -}}
{{- if $kubernetes.enablePodLabels -}}{{- $_ := set $settings "podLabels" true -}}{{- end -}}
{{- if $kubernetes.enablePodUID -}}{{- $_ := set $settings "podUID" true -}}{{- end -}}
{{- with $kubernetes.podLabelAllowlistRegex -}}
  {{- $arguments = append $arguments (printf "--kubernetes-pod-label-allowlist-regex=%s" (join "," .)) -}}
{{- end -}}
{{- if dig "enabled" false ($peer.kubernetesDRA | default dict) -}}{{- $_ := set $settings "dra" true -}}{{- end -}}
{{- with $arguments -}}{{- $_ := set $settings "args" . -}}{{- end -}}
{{- $environment := $peer.extraEnv | default list -}}
{{- $config := $peer.config | default dict -}}
{{- $configPath := $config.mountPath | default "/etc/dcgm-exporter/config.yaml" -}}
{{- if $config.enabled -}}
  {{- $environment = append $environment (dict "name" "DCGM_EXPORTER_CONFIG_FILE" "value" $configPath) -}}
{{- end -}}
{{- with $environment -}}{{- $_ := set $settings "env" . -}}{{- end -}}
{{- range $theirs, $ours := dict "runtimeClassName" "runtimeClassName" "hostNetwork" "hostNetwork" "kubeletPath" "podResources" -}}
  {{- with index $peer $theirs -}}{{- $_ := set $settings $ours . -}}{{- end -}}
{{- end -}}
{{- with $peer.initContainers -}}{{- $_ := set $settings "extraInitContainers" . -}}{{- end -}}
{{- with $peer.rollingUpdate -}}{{- with .maxUnavailable -}}{{- $_ := set $settings "maxUnavailable" . -}}{{- end -}}{{- end -}}
{{- $monitor := $peer.serviceMonitor -}}
{{- if kindIs "map" $monitor -}}
  {{- $_ := set $settings "serviceMonitor" (pick $monitor "enabled" "interval" "scrapeTimeout" "relabelings" "metricRelabelings") -}}
  {{- $_ := set $settings.serviceMonitor "honorLabels" ($monitor.honorLabels | default false) -}}
  {{- with $monitor.additionalLabels -}}{{- $_ := set $settings.serviceMonitor "labels" . -}}{{- end -}}
{{- end -}}
{{- /* NVIDIA's chart makes the ConfigMap exporter-metrics-config-map itself, from customMetrics or the default list. */ -}}
{{- $volumes := list -}}
{{- $dropped := list -}}
{{- range $peer.extraHostVolumes -}}
  {{- $volumes = append $volumes (dict "name" .name "hostPath" (dict "path" .hostPath)) -}}
{{- end -}}
{{- range $peer.extraConfigMapVolumes -}}
  {{- if eq (dig "configMap" "name" "" .) "exporter-metrics-config-map" -}}{{- $dropped = append $dropped .name -}}
  {{- else -}}{{- $volumes = append $volumes . -}}{{- end -}}
{{- end -}}
{{- $mounts := list -}}
{{- range $peer.extraVolumeMounts -}}
  {{- if not (has .name $dropped) -}}{{- $mounts = append $mounts . -}}{{- end -}}
{{- end -}}
{{- $web := include "gpuscale.compat.web" . | fromYaml -}}
{{- if $web -}}
  {{- $_ := set $settings "web" $web -}}
  {{- $arguments = append $arguments "--web-config-file=/etc/gpuscale-exporter-web/web-config.yaml" -}}
  {{- $_ := set $settings "args" $arguments -}}
  {{- $volumes = append $volumes (dict "name" "web" "secret" (dict "secretName" $web.secret)) -}}
  {{- $mounts = append $mounts (dict "name" "web" "mountPath" "/etc/gpuscale-exporter-web" "readOnly" true) -}}
  {{- with $web.certificates -}}
    {{- $volumes = append $volumes (dict "name" "web-tls" "secret" (dict "secretName" .)) -}}
    {{- $mounts = append $mounts (dict "name" "web-tls" "mountPath" "/etc/gpuscale-exporter-tls" "readOnly" true) -}}
  {{- end -}}
{{- end -}}
{{- if $config.enabled -}}
  {{- $name := printf "%s-exporter-config" (include "gpuscale.fullname" .) -}}
  {{- $volumes = append $volumes (dict "name" "dcgm-exporter-config" "configMap" (dict "name" ($config.name | default $name))) -}}
  {{- $mounts = append $mounts (dict "name" "dcgm-exporter-config" "mountPath" $configPath "subPath" ($config.key | default "config.yaml") "readOnly" true) -}}
{{- end -}}
{{- $_ := set $settings "extraVolumes" $volumes -}}
{{- $_ := set $settings "extraVolumeMounts" $mounts -}}
{{- end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{- define "gpuscale.compat.engine" -}}
{{- include "gpuscale.compat.scraper" (list . .Values.engine) -}}
{{- end -}}
{{- define "gpuscale.compat.hpa" -}}{}{{- end -}}
{{- define "gpuscale.compat.activator" -}}{}{{- end -}}
{{- define "gpuscale.compat.expander" -}}{}{{- end -}}
{{- define "gpuscale.compat.nodeProvider" -}}{}{{- end -}}
