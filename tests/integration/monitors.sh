#!/bin/sh
# ServiceMonitor and PodMonitor objects: `gpuscale up` and `gpuscale engine --kubeconfig
# --kube-monitors` scrape what they select, and follow changes and errors.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq

engine_pid=
with_code() { return "$1"; }
monitors_finish() {
    with=$?
    set +e
    [ -z "$engine_pid" ] || kill -TERM "$engine_pid" 2>/dev/null
    with_code "$with"
    finish
}
trap monitors_finish EXIT

start_up --gpus 4xTesla-T4 --image "intent:1=$intent_api_command"
own=http://$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\).*#\1#p' "$dir/up.log" | while read -r at; do
    ! curl -sS --max-time 60 "http://$at/api/v1/status/buildinfo" 2>/dev/null | grep -q '"success"' || { echo "$at" && break; }
done)
[ "$own" != http:// ] || fail "gpuscale up does not print the URL of its Prometheus API"

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: intent}
spec:
  replicas: 2
  selector: {matchLabels: {app: intent}}
  template:
    metadata: {labels: {app: intent, team: ml}}
    spec:
      containers:
      - {name: api, image: 'intent:1', ports: [{name: web, containerPort: 80}], resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: v1
kind: Service
metadata: {name: intent, labels: {app: intent, tier: front}}
spec: {selector: {app: intent}, ports: [{name: http, port: 80}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: intent}
spec:
  jobLabel: tier
  selector: {matchLabels: {app: intent}}
  podTargetLabels: [team]
  endpoints:
  - port: http
    interval: 1s
    relabelings: [{targetLabel: via, replacement: service}]
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: intent}
spec:
  selector: {matchExpressions: [{key: app, operator: In, values: [intent, other]}]}
  podMetricsEndpoints: [{port: web, interval: 1s}]
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: wrong}
spec: {selector: {}, endpoints: [{port: http, interval: soon}]}
Y

# With the flag and over TLS, as for an engine outside of the cluster.
printf 'global: {scrape_interval: 1s}\n' >"$dir/prometheus.yml"
"$gpuscale" engine --config.file="$dir/prometheus.yml" --kubeconfig "$KUBECONFIG" --kube-monitors --web.listen-address=127.0.0.1:0 \
    >"$dir/engine.log" 2>&1 &
engine_pid=$!
wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
beside=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")

# count URL SELECTOR VALUE
count_is() {
    [ "$(curl -sS -G "$1/api/v1/query" --data-urlencode "query=count($2)" | jq -r '.data.result[0].value[1] // "0"')" = "$3" ]
}
service='up{job="front",namespace="default",service="intent",endpoint="http",container="api",team="ml",via="service",pod=~"intent-.+"} == 1'
pod='up{job="default/intent",namespace="default",endpoint="web",container="api",pod=~"intent-.+"} == 1'
for url in "$own" "$beside"; do
    wait_for "$url scrapes two pods by the ServiceMonitor" count_is "$url" "$service" 2
    wait_for "and by the PodMonitor" count_is "$url" "$pod" 2
    curl -sS "$url/api/v1/targets?state=active" | jq -e '[.data.activeTargets[].scrapePool] | index("serviceMonitor/default/intent/0") and index("podMonitor/default/intent/0")' \
        >/dev/null || fail "the names of the jobs"
done
wait_for "the invalid monitor is reported" grep -q 'serviceMonitor/default/wrong: no jobs: .*"soon"' "$dir/engine.log"

kubectl scale deployment intent --replicas=3
kubectl delete podmonitor intent
for url in "$own" "$beside"; do
    wait_for "$url follows the pods" count_is "$url" "$service" 3
    wait_for "the PodMonitor's targets end with it" count_is "$url" "$pod" 0
done
kubectl patch servicemonitor wrong --type merge -p '{"spec":{"selector":{"matchLabels":{"app":"intent"}},"endpoints":[{"port":"http","interval":"1s"}]}}'
for url in "$own" "$beside"; do
    wait_for "the fixed monitor works" count_is "$url" 'up{job="intent"} == 1' 3
done

kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
engine_pid=
stop_up
