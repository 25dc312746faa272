# Applies gpuscale_desired_replicas with the cluster's own HPA controller. First a script sets the number, to find out which
# targets and tolerances apply it exactly. Then `gpuscale hpa` in shadow mode decides about a latency target, the engine scrapes
# its page, and the adapter serves the number without rules.

kubectl create namespace llm >/dev/null
kubectl get namespace monitoring >/dev/null 2>&1 || kubectl create namespace monitoring >/dev/null
kubectl -n llm create deployment chat --image=any --replicas=1 >/dev/null
mkdir "$dir/latency"
: >"$dir/latency/decision"
: >"$dir/latency/signals"
page_port=$(free_port) numbers_port=$(free_port) serving_port=$(free_port) decisions_port=$(free_port)
start pages python3 -m http.server --bind 127.0.0.1 --directory "$dir/latency" "$page_port"
cat >"$dir/latency.yml" <<EOF
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
- {job_name: decision, metrics_path: /decision, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$page_port']}]}
- {job_name: signals, metrics_path: /signals, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$page_port']}]}
- {job_name: hpa, honor_labels: true, static_configs: [{targets: ['127.0.0.1:$decisions_port']}]}
EOF
start numbers "$gpuscale" engine --config.file="$dir/latency.yml" --web.listen-address="127.0.0.1:$numbers_port"
kubeconfig decider "/O=system:masters/CN=decider"
cert serving ca "/CN=serving" "DNS:serving.monitoring.svc,DNS:localhost"
# An APIService needs its group before the first decision, and the empty list serves it.
printf 'rules: []\nexternalRules: []\n' >"$dir/no-rules.yaml"
start serving "$gpuscale" adapter --config="$dir/no-rules.yaml" --prometheus-url="http://127.0.0.1:$numbers_port" \
    --metrics-relist-interval=1s --secure-port="$serving_port" --bind-address=127.0.0.1 \
    --lister-kubeconfig="$dir/decider.kubeconfig" --authentication-kubeconfig="$dir/decider.kubeconfig" \
    --authorization-kubeconfig="$dir/decider.kubeconfig" --tls-cert-file="$dir/serving.crt" --tls-private-key-file="$dir/serving.key"
serve_groups monitoring serving "$serving_port" custom.metrics.k8s.io/v1beta1 external.metrics.k8s.io/v1beta1

chat() { kubectl -n llm get hpa chat -o json; }
runs() { [ "$(kubectl -n llm get deployment chat -o jsonpath='{.status.readyReplicas}')" = "$1" ]; }
decide() { # NUMBER
    echo "gpuscale_desired_replicas{namespace=\"llm\",horizontalpodautoscaler=\"chat\",deployment=\"chat\"} $1" >"$dir/latency/next" && mv "$dir/latency/next" "$dir/latency/decision"
}
applies() { # NUMBER…
    for number in "$@"; do
        decide "$number"
        wait_for "$number replicas" runs "$number"
    done
}
# The number was read, and the replicas stay as they were.
keeps() { # NUMBER REPLICAS
    decide "$1"
    shows() { chat | jq -e --arg v "$2" '.status.currentMetrics[0] | (.external // .object).current.averageValue == $v'; }
    wait_for "the controller reads $1" shows "$1" "$(((($1 * 1000) + $2 - 1) / $2))m"
    sleep 5
    runs "$2" || fail "$1 is applied inside the tolerance"
}
external='{type: External, external: {metric: {name: gpuscale_desired_replicas, selector: {matchLabels: {horizontalpodautoscaler: chat}}}, target: {type: AverageValue, averageValue: "1"}}}'
object() { echo "{type: Object, object: {describedObject: {apiVersion: $1, kind: $2, name: chat}, metric: {name: gpuscale_desired_replicas}, target: {type: AverageValue, averageValue: \"1\"}}}"; }
autoscaler() { # METRIC TOLERANCE
    kubectl apply -f - >/dev/null <<EOF
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: llm, annotations: {gpuscale.dev/slo: "ttft=1s,itl=50ms,p=90"}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  minReplicas: 1
  maxReplicas: 40
  metrics: [$1]
  behavior:
    scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 100, periodSeconds: 1}]$2}
    scaleDown: {stabilizationWindowSeconds: 0, policies: [{type: Pods, value: 100, periodSeconds: 1}]$2}
EOF
}

decide 1
autoscaler "$external" ""
applies 2 3 4 5 6 7 8 9 10 12 15 11 9 8 7 6 5 4 3 2 1 12
keeps 13 12
keeps 11 12
ok "an external metric with averageValue 1 and the tolerance 0.1 applies each number below 11 and each change of more than a tenth; 12 to 13 and to 11 are not applied"

# As a value, the number is multiplied by the pods in each sync.
by_value='{type: External, external: {metric: {name: gpuscale_desired_replicas, selector: {matchLabels: {horizontalpodautoscaler: chat}}}, target: {type: Value, value: "1"}}}'
applies 2
autoscaler "$by_value" ""
runs_away() { [ "$(kubectl -n llm get deployment chat -o jsonpath='{.spec.replicas}')" -gt 8 ]; }
wait_for "more than 8 replicas by the value 2" runs_away
autoscaler "$external" ""
applies 2
ok "with the target value 1, the number 2 gives more than 8 replicas"

case $release in
1.2? | 1.3[0-4]) say "skipped: tolerances of an object: Kubernetes $release has none by default" ;;
*)
    autoscaler "$external" ", tolerance: 0"
    applies 13 12 11 20 21 20 19 1
    autoscaler "$(object autoscaling/v2 HorizontalPodAutoscaler)" ", tolerance: 0"
    applies 11 12 11
    autoscaler "$(object apps/v1 Deployment)" ", tolerance: 0"
    applies 12 13 12
    ok "with the tolerance 0 each number is applied: an external metric, and an object metric of the autoscaler or of its target"
    ;;
esac

# The real decision. Each pod has its share of the requests.
applies 1
tolerance=", tolerance: 0"
case $release in 1.2? | 1.3[0-4]) tolerance= ;; esac
autoscaler "$external" "$tolerance"
: >"$dir/latency/decision"
requests=$dir/latency-requests
echo 4 >"$requests"
signals() {
    while :; do
        kubectl -n llm get pods -o json 2>/dev/null | jq -r --argjson load "$(cat "$requests")" '
            [.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null) | .metadata.name] as $pods
            | $pods[] | "{namespace=\"llm\",pod=\"\(.)\",model=\"m\",engine=\"vllm\"}" as $labels
            | ($load / ($pods | length)) as $share
            | "gpuscale_inference_running\($labels) \([$share, 16] | min)\ngpuscale_inference_waiting\($labels) \([$share - 16, 0] | max)\ngpuscale_inference_kv_used_ratio\($labels) \([$share / 20, 1] | min)\ngpuscale_inference_kv_capacity_tokens\($labels) 100000"' >"$dir/latency/next-signals" || continue
        mv "$dir/latency/next-signals" "$dir/latency/signals"
        sleep 1
    done
}
signals >"$dir/signals.log" 2>&1 &
pids="$! $pids"
start decisions "$gpuscale" hpa --kubeconfig="$dir/admin.kubeconfig" --namespace=llm --url="http://127.0.0.1:$numbers_port" \
    --web.listen-address="127.0.0.1:$decisions_port" --horizontal-pod-autoscaler-sync-period=2s
published() { curl -sf "http://127.0.0.1:$decisions_port/metrics" | sed -n 's/^gpuscale_desired_replicas{.*} //p'; }
# The number changes with the pods, and may have changed again when its replicas run.
record() {
    while :; do
        published >>"$dir/published"
        sleep 0.2
    done
}
record 2>/dev/null &
pids="$! $pids"
applied=
follows() { # MORE THAN: the replicas that run are a number that was published
    applied=$(chat | jq -r '.status.desiredReplicas') && [ "$applied" -gt "$1" ] && grep -qx "$applied" "$dir/published" && runs "$applied"
}
wait_for "gpuscale hpa publishes a decision" test -s "$dir/published"
echo 60 >"$requests"
wait_for "the cluster's controller applies the decision under load" follows 1
first=$applied
echo 400 >"$requests"
wait_for "it applies the next decision" follows "$first"
"$gpuscale" explain hpa chat -n llm --controller="http://127.0.0.1:$decisions_port" >"$dir/explained" || fail "explain: $(cat "$dir/explained")"
grep -q '^Latency target ttft=1s' "$dir/explained" || fail "explain has no latency target: $(cat "$dir/explained")"
kubectl -n llm get events,horizontalpodautoscalers,deployments -o json --show-managed-fields >"$dir/written"
jq -e '[.items[].metadata.managedFields[]?.manager] | length > 0 and all(startswith("gpuscale") | not)' "$dir/written" >/dev/null || fail "the shadow wrote events or objects"
ok "gpuscale hpa in shadow mode decides, and kube-controller-manager applies: 1 to $first to $applied replicas"

stop decisions
stop serving
kubectl delete apiservice v1beta1.custom.metrics.k8s.io v1beta1.external.metrics.k8s.io >/dev/null
kubectl delete namespace llm --wait=false >/dev/null
