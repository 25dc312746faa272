{{/* The beginning of the names of all objects. */}}
{{- define "gpuscale.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
The settings of a part, with those that the keys of the charts prometheus-adapter and dcgm-exporter stand for.
Arguments: the root and the name of the part.
*/}}
{{- define "gpuscale.part" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $compat := include (printf "gpuscale.compat.%s" $part) $root | fromYaml -}}
{{- $settings := mergeOverwrite (deepCopy (index $root.Values $part)) $compat -}}
{{- /* Parts of these from different charts do not fit together: a request of one may exceed a limit of the other. */ -}}
{{- range $key := list "resources" "resourceRules" -}}
  {{- if hasKey $compat $key -}}{{- $_ := set $settings $key (index $compat $key) -}}{{- end -}}
{{- end -}}
{{- $settings | toYaml -}}
{{- end -}}

{{- define "gpuscale.selectorLabels" -}}
app.kubernetes.io/name: gpuscale-{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{/* Labels of an object. Arguments: the root and the name of the part. */}}
{{- define "gpuscale.labels" -}}
{{- $root := index . 0 -}}
{{ include "gpuscale.selectorLabels" . }}
app.kubernetes.io/part-of: gpuscale
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of a pod. Arguments: the root, the name of the part, its settings. */}}
{{- define "gpuscale.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "gpuscale.selectorLabels" . }}
{{- with merge dict ((index . 2).extraPodLabels | default dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image of all parts: the program for clusters. */}}
{{- define "gpuscale.image" -}}
{{- $image := mergeOverwrite (deepCopy .Values.image) (include "gpuscale.compat.image" . | fromYaml) -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/*
The exporter's image. Simulated GPUs are in the image with the complete program, whose tag ends in -full. A digest is used as it is:
it has no tag.
*/}}
{{- define "gpuscale.exporterImage" -}}
{{- $image := include "gpuscale.image" . -}}
{{- if and .Values.simulate (not (contains "@" $image)) (not (hasSuffix "-full" $image)) -}}
{{- $image = printf "%s-full" $image -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{- define "gpuscale.pullPolicy" -}}
{{- (mergeOverwrite (deepCopy .Values.image) (include "gpuscale.compat.image" . | fromYaml)).pullPolicy -}}
{{- end -}}

{{/* Arguments: the root, the name of the part, its settings. */}}
{{- define "gpuscale.serviceAccountName" -}}
{{- (index . 2).serviceAccount.name | default (printf "%s-%s" (include "gpuscale.fullname" (index . 0)) (index . 1)) -}}
{{- end -}}

{{- define "gpuscale.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $settings := index . 2 -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "gpuscale.fullname" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "gpuscale.labels" . | nindent 4 }}
  {{- with $settings.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The subjects of a binding. */}}
{{- define "gpuscale.subjects" -}}
subjects:
- {kind: ServiceAccount, name: {{ include "gpuscale.serviceAccountName" . }}, namespace: {{ (index . 0).Release.Namespace }}}
{{- end -}}

{{/* A PriorityClass for the part, unless it uses another one. */}}
{{- define "gpuscale.ownPriorityClass" -}}
{{- if and (index . 0).Values.priorityClasses.create (not (index . 2).priorityClassName) }}true{{ end -}}
{{- end -}}

{{- define "gpuscale.priorityClass" -}}
{{- $root := index . 0 -}}
# Scheduled before other pods and not preempted by them, because nothing scales without it.
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: {{ include "gpuscale.fullname" $root }}-{{ index . 1 }}
  labels:
    {{- include "gpuscale.labels" . | nindent 4 }}
value: {{ int $root.Values.priorityClasses.value }}
description: The path that autoscaling depends on.
{{- end -}}

{{- define "gpuscale.disruptionBudget" -}}
{{- $root := index . 0 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "gpuscale.fullname" $root }}-{{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "gpuscale.labels" . | nindent 4 }}
spec:
  minAvailable: {{ (index . 2).podDisruptionBudget.minAvailable }}
  selector:
    matchLabels:
      {{- include "gpuscale.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* The beginning of a pod's spec: account, priority, placement. */}}
{{- define "gpuscale.podSpec" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $settings := index . 2 -}}
serviceAccountName: {{ include "gpuscale.serviceAccountName" . }}
{{- if $settings.priorityClassName }}
priorityClassName: {{ $settings.priorityClassName }}
{{- else if $root.Values.priorityClasses.create }}
priorityClassName: {{ include "gpuscale.fullname" $root }}-{{ $part }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- with $settings.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
# A pod on a failed node is replaced after 10 s instead of 5 minutes.
tolerations:
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 10}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 10}
{{- with $settings.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "gpuscale.spread" -}}
# Replicas run on different nodes. Only pods of the same revision count. Otherwise a rolling update
# could place both new pods on the same node.
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "gpuscale.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* The security context of a container: without any privilege, and what the settings add. */}}
{{- define "gpuscale.securityContext" -}}
{{- $own := (index . 2).securityContext -}}
{{- if $own -}}
{{- $context := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true
    "capabilities" (dict "drop" (list "ALL")) "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- mergeOverwrite $context (deepCopy $own) | toYaml -}}
{{- else -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- end -}}

{{- define "gpuscale.resources" -}}
{{- range $kind := list "requests" "limits" }}
{{- with index ($.resources | default dict) $kind }}
{{ $kind }}: { {{- $first := true }}{{ range $name, $value := . }}{{ if not $first }}, {{ end }}{{ $first = false }}{{ $name }}: {{ $value }}{{ end -}} }
{{- end }}
{{- end }}
{{- end -}}

{{/* The type, ports and annotations of a Service. Arguments: settings of the service, lines of further ports. */}}
{{- define "gpuscale.servicePort" -}}
{name: {{ .name }}, port: {{ int .service.port }}, targetPort: {{ .name }}{{ if and .service.nodePort (ne .service.type "ClusterIP") }}, nodePort: {{ int .service.nodePort }}{{ end }}}
{{- end -}}

{{/* Whether the cluster has the kinds of the Prometheus operator. */}}
{{- define "gpuscale.hasMonitoring" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}true{{ end -}}
{{- end -}}

{{/* The groups of alerts about the parts that are installed. */}}
{{- define "gpuscale.alerts" -}}
{{- $groups := list -}}
{{- range (.Files.Get "files/alerts.yml" | fromYaml).groups -}}
{{- if not (or (and (eq .name "gpuscale-exporter") (not $.Values.exporter.enabled)) (and (eq .name "gpuscale-adapter") (not $.Values.adapter.enabled))) -}}
{{- $groups = append $groups . -}}
{{- end -}}
{{- end -}}
{{- dict "groups" $groups | toYaml -}}
{{- end -}}
