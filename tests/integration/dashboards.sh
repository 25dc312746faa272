#!/bin/sh
# Each query of the chart's dashboards returns data for a pod with a simulated GPU and its autoscaler.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl jq curl
start_up --gpus 2xTesla-T4
url=$(sed -n 's/^ *export GPUSCALE_URL=//p' "$dir/up.log")
kubectl apply -f - >"$dir/apply.log" <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: app, image: app, command: [sleep, infinity], resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: app}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}
  maxReplicas: 2
  metrics:
  - type: Pods
    pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: "50"}}
END
has_data() { curl -sf "$url/api/v1/query" --data-urlencode "query=$1" | jq -e '.data.result | length > 0'; }
for dashboard in "$source"/deploy/helm/gpuscale/files/dashboards/*.json; do
    name=$(basename "$dashboard" .json)
    # Variables as Grafana replaces them for "All".
    jq -r '(.panels[].targets[].expr), (.templating.list[] | .definition // empty | capture("^label_values\\((?<series>.*), [a-z]+\\)$").series)' \
        "$dashboard" | sed -E 's/\$(node|gpu|namespace|hpa)/.*/g' >"$dir/$name.queries"
    [ -s "$dir/$name.queries" ] || fail "$name has no query"
    ! grep -F '$' "$dir/$name.queries" || fail "$name has an unknown variable"
    while read -r query; do soon has_data "$query" || fail "$name: no data: $query"; done <"$dir/$name.queries"
    echo "ok: $name: $(wc -l <"$dir/$name.queries") queries return data"
done
