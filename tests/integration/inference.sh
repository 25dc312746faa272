#!/bin/sh
# Pods with an inference engine under gpuscale up: they are recognized by their page, have one family of signals, and are served
# as custom metrics without a rule. Pages are those of tests/data/inference.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq python3

cp "$source/tests/data/inference/vllm-0.33.0.txt" "$dir/page.txt"
cat >"$dir/serve.py" <<'PY'
import http.server, os, sys
class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = 404, b""
        if self.path == os.environ.get("PAGE_PATH", "/metrics"):
            status = 401 if os.environ.get("TOKEN") else 200
            with open(sys.argv[1], "rb") as f:
                body = f.read()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], int(os.environ.get("PORT", "8000"))), Pages).serve_forever()
PY
start_up --gpus 3xTesla-T4
url=$(engine_url)

# pod NAME LIMITS ANNOTATIONS ENVIRONMENT
pod() {
    kubectl apply -f - <<Y
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $1}, annotations: {$3}}
spec:
  containers:
  - name: engine
    image: python:3.12
    command: [python3, $dir/serve.py, $dir/page.txt]
    ports: [{name: http, containerPort: 8000}]
    env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}$4]
    resources: {limits: {$2}}
Y
}
gpu='nvidia.com/gpu: 1'
pod llm "$gpu" '' ''
pod other '' 'gpuscale.dev/inference: "vllm:8000/v1/metrics"' ', {name: PAGE_PATH, value: /v1/metrics}'
pod locked "$gpu" '' ', {name: TOKEN, value: "1"}'
pod unwanted "$gpu" 'gpuscale.dev/inference: "false"' ''

value_is() {
    [ "$(curl -sS -G "$url/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result | if length == 1 then .[0].value[1] else "\(length) series" end')" = "$2" ]
}
for name in llm other; do
    own="namespace=\"default\",pod=\"$name\",model=\"Qwen/Qwen3-8B\",engine=\"vllm\""
    wait_for "the engine of the pod $name is recognized" value_is "gpuscale_inference_waiting{$own}" 5
    value_is "gpuscale_inference_kv_used_ratio{$own}" 0.375 || fail "the KV cache of $name"
    value_is "gpuscale_inference_rejections_total{$own}" 6 || fail "the rejections of $name"
    value_is "count(gpuscale_inference_ttft_seconds_bucket{$own})" 23 || fail "the buckets of $name"
    value_is "gpuscale_inference_ttft_p90_seconds{$own}" "0 series" || fail "a percentile without samples"
done
own='job="gpuscale-inference",pod="llm"'
value_is "count({$own,__name__=~\"vllm:num_requests_.*\"})" 4 || fail "series that the table reads are not stored"
value_is "count({$own,__name__=~\"vllm:(request_prefill_time|prefix_cache)_.*\"})" "0 series" || fail "other series of the page are stored"
value_is 'count(gpuscale_inference_waiting)' 2 || fail "the unwanted pod is scraped"

reason_is() { curl -sS "$url/api/v1/gpuscale/inference" | jq -e --arg pod "$1" --arg text "$2" '.data.pods[] | select(.pod == $pod) | .reason | contains($text)'; }
wait_for "the page that needs a token has a reason" reason_is locked 'needs a token (status 401)'

# A step of the queue.
sed 's/^\(vllm:num_requests_waiting_by_reason{.*capacity.*}\) .*/\1 42/' "$dir/page.txt" >"$dir/page.new"
mv "$dir/page.new" "$dir/page.txt"
metric_is() { [ "$(kubectl get --raw "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/$1" | jq -r '.items[0].value')" = "$2" ]; }
wait_for "a step of the queue is a custom metric" metric_is pods/llm/gpuscale_inference_waiting 42
wait_for "the KV cache is one, too" metric_is pods/llm/gpuscale_inference_kv_used_ratio 375m

# A job that scrapes the pod takes over; the family goes on.
kubectl apply -f - <<'Y'
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: llm}
spec: {selector: {matchLabels: {app: llm}}, podMetricsEndpoints: [{port: http, interval: 1s}]}
Y
one_target() { curl -sS "$url/api/v1/targets?state=active" | jq -e '[.data.activeTargets[] | select(.labels.pod == "llm" and .labels.job != "gpuscale-exporter") | .labels.job] == ["default/llm"]'; }
wait_for "the pod is scraped once" one_target
wait_for "its signals are those of the other job" value_is 'gpuscale_inference_waiting{pod="llm"}' 42
kubectl delete podmonitor llm
wait_for "without the other job the pod is scraped again" value_is 'up{job="gpuscale-inference",pod="llm"}' 1
kubectl delete pod llm --grace-period=0 --force
wait_for "the signals end with the pod" value_is 'count(gpuscale_inference_waiting{pod="llm"})' "0 series"

stop_up
