#!/bin/sh
# Each query of the chart's dashboards returns data for a pod with a simulated GPU and its autoscaler,
# a pool of machines, an engine of inference, the engine and an adapter.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl jq curl python3
adapter_pid=
trap 'code=$?; [ -z "$adapter_pid" ] || kill "$adapter_pid" 2>/dev/null; (exit $code); finish' EXIT
url=http://127.0.0.1:29390
cat >"$dir/own.yml" <<END
scrape_configs:
- {job_name: gpuscale-engine, static_configs: [{targets: ["127.0.0.1:29390"]}]}
- {job_name: inference, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ["127.0.0.1:29392"]}]}
END
mkdir "$dir/inference"
for name in waiting running kv_used_ratio ttft_p90_seconds itl_p90_seconds generation_tokens_total prompt_tokens_total preemptions_total rejections_total; do
    echo "gpuscale_inference_$name{namespace=\"default\",pod=\"app\",model=\"m\",engine=\"vllm\",role=\"\"} 1"
done >"$dir/inference/metrics"
python3 -m http.server --bind 127.0.0.1 --directory "$dir/inference" 29392 >"$dir/inference.log" 2>&1 &
pids=$!
start_up --gpus 2xTesla-T4 --prometheus-port 29390 --scrape-config "$dir/own.yml" --pool 't4=1..2x1,model=Tesla T4,startup=500ms'
awk '$1 == "client-certificate-data:" { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/client.pem"
awk '$1 == "client-key-data:" { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/client.key"
awk '$1 == "certificate-authority-data:" { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/ca.pem"
"$gpuscale" adapter --prometheus-url="$url" --secure-port=29391 --bind-address=127.0.0.1 --cert-dir="$dir/cert" \
    --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
    --authentication-skip-lookup --client-ca-file="$dir/ca.pem" >"$dir/adapter.log" 2>&1 &
adapter_pid=$!
# The engine reads the file again.
cat >>"$dir/own.yml" <<END
- job_name: gpuscale-adapter
  scheme: https
  tls_config: {insecure_skip_verify: true, cert_file: $dir/client.pem, key_file: $dir/client.key}
  static_configs: [{targets: ["127.0.0.1:29391"]}]
END
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
        "$dashboard" | sed -E 's/\$(node|gpu|namespace|hpa|pool|model)/.*/g' >"$dir/$name.queries"
    [ -s "$dir/$name.queries" ] || fail "$name has no query"
    ! grep -F '$' "$dir/$name.queries" || fail "$name has an unknown variable"
    while read -r query; do soon has_data "$query" || fail "$name: no data: $query"; done <"$dir/$name.queries"
    echo "ok: $name: $(wc -l <"$dir/$name.queries") queries return data"
done
