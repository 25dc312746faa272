# GPU nodes in advance: gpuscale hpa with the permissions of deploy/ makes placeholder pods from the forecast of a restored state,
# follows the demand, gives their place to a replica, and removes them with the annotation; then a CapacityBuffer, which the API
# removes with the autoscaler.

kubectl create namespace ahead >/dev/null
kubectl apply -f - >/dev/null <<END2
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: ahead}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: chat
  namespace: ahead
  annotations: {gpuscale.dev/autoscaler: "true", gpuscale.dev/slo: ttft=1s, gpuscale.dev/capacity: pods, gpuscale.dev/capacity-max: "3"}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}
  maxReplicas: 8
  metrics: [{type: External, external: {metric: {name: gpuscale_desired_replicas}, target: {type: AverageValue, averageValue: "1"}}}]
END2
stop controller-manager
start_controller_manager "--controllers=*,-horizontal-pod-autoscaler-controller"
# The roles of deploy/, for a user with no other permission.
kubeconfig ahead "/CN=ahead"
kubectl apply -f "$source/deploy/hpa-capacity.yaml" >/dev/null
kubectl create -f "$source/deploy/hpa.yaml" --dry-run=client -o json | jq -c 'select(.kind == "ClusterRole")' | kubectl apply -f - >/dev/null
kubectl create clusterrolebinding ahead --clusterrole=gpuscale-hpa --user=ahead >/dev/null
kubectl create clusterrolebinding ahead-capacity --clusterrole=gpuscale-hpa-capacity --user=ahead >/dev/null

mkdir "$dir/ahead"
: >"$dir/ahead/signals"
ahead_port=$(free_port) ahead_engine_port=$(free_port)
start ahead-page python3 -m http.server --bind 127.0.0.1 --directory "$dir/ahead" "$ahead_port"
echo "{global: {scrape_interval: 1s}, scrape_configs: [{job_name: signals, metrics_path: /signals, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$ahead_port']}]}]}" >"$dir/ahead.yml"
start ahead-engine "$gpuscale" engine --config.file="$dir/ahead.yml" --web.listen-address="127.0.0.1:$ahead_engine_port"
ahead_requests=$dir/ahead-requests
echo 12 >"$ahead_requests"
ahead_signals() {
    while :; do
        kubectl -n ahead get pods -l app=chat -o json 2>/dev/null | jq -r --argjson load "$(cat "$ahead_requests")" '
            [.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null) | .metadata.name] as $pods
            | $pods[] | "{namespace=\"ahead\",pod=\"\(.)\",model=\"m\",engine=\"vllm\"}" as $labels
            | ($load / ($pods | length)) as $share
            | "gpuscale_inference_running\($labels) \($share)\ngpuscale_inference_waiting\($labels) 0\ngpuscale_inference_kv_used_ratio\($labels) \([$share / 20, 1] | min)\ngpuscale_inference_kv_capacity_tokens\($labels) 100000"' >"$dir/ahead/next" || continue
        mv "$dir/ahead/next" "$dir/ahead/signals"
        sleep 1
    done
}
ahead_signals >"$dir/ahead-signals.log" 2>&1 &
pids="$! $pids"

# A day in which the requests rise by 40 every ten minutes.
jq -cn '(now | floor) as $now | ($now / 60 | floor) as $minute | {version: 1, services: {"ahead/chat": {savedMs: ($now * 1000), learned: [], unit: "requests",
    forecast: {minute: $minute, open: 12, ahead: 2, minutes: [range(1440) | if . % 10 < 5 then 4 else 44 end]}}}}' | gzip >"$dir/ahead.state"
start ahead "$gpuscale" hpa --mode=control --kubeconfig="$dir/ahead.kubeconfig" --leader-elect=false --namespace=ahead --state-file="$dir/ahead.state" \
    --url="http://127.0.0.1:$ahead_engine_port" --web.listen-address="127.0.0.1:${ahead_hpa_port:=$(free_port)}" --horizontal-pod-autoscaler-sync-period=2s
placeholders() { # RESOURCE
    kubectl -n ahead get "$1" chat-capacity -o jsonpath='{.spec.replicas}' 2>/dev/null
}
placeholders_are() { [ "$(placeholders "$1")" = "$2" ]; }
ahead_runs() { [ "$(kubectl -n ahead get deployment "$1" -o jsonpath='{.status.readyReplicas}')" = "$2" ]; }
# 12 requests need 0.75 replicas, and 52 need 3.25.
wait_for "three placeholders run beside one replica" ahead_runs chat-capacity 3
ahead_runs chat 1 || fail "the replicas have changed"
[ "$(kubectl -n ahead get pods -l gpuscale.dev/capacity-of=chat -o json | jq -c '[.items[].spec | [.priority, .containers[0].resources.requests["nvidia.com/gpu"]]] | unique')" = '[[-10,"1"]]' ] ||
    fail "the placeholders have no low priority, or no GPU"
"$gpuscale" explain hpa chat -n ahead --kubeconfig="$dir/admin.kubeconfig" --controller="http://127.0.0.1:$ahead_hpa_port" >"$dir/explained" || fail "explain: $(cat "$dir/explained")"
grep -q 'capacity in advance (pods): 3 placeholders: 4 replicas may be needed' "$dir/explained" || fail "explain does not show the placeholders: $(cat "$dir/explained")"
echo 4 >"$ahead_requests"
wait_for "two placeholders at less load" placeholders_are deployment 2
# The node has 8 GPUs. A replica takes the place of a placeholder.
kubectl -n ahead apply -f - >/dev/null <<END2
apiVersion: apps/v1
kind: Deployment
metadata: {name: others}
spec:
  replicas: 5
  selector: {matchLabels: {app: others}}
  template:
    metadata: {labels: {app: others}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]}
END2
wait_for "the node is full" ahead_runs others 5
wait_for "two placeholders run" ahead_runs chat-capacity 2
echo 24 >"$ahead_requests"
wait_for "a second replica runs in the place of a placeholder" ahead_runs chat 2
kubectl -n ahead get events -o json | jq -e '[.items[] | select(.reason == "Preempted" and (.involvedObject.name | startswith("chat-capacity-")))] | length > 0' >/dev/null || fail "no placeholder was preempted"
kubectl -n ahead annotate hpa chat gpuscale.dev/capacity- gpuscale.dev/capacity-max- >/dev/null
gone() { ! kubectl -n ahead get "$1" chat-capacity >/dev/null 2>&1; }
wait_for "the placeholders are removed with the annotation" gone deployment
ok "placeholder pods of the forecast are created, follow the demand, give their GPU to a replica, and are removed with the annotation"

kubectl get crd capacitybuffers.autoscaling.x-k8s.io >/dev/null 2>&1 || kubectl apply -f "$source/tests/e2e/capacity-buffer-crd.yaml" >/dev/null
wait_for "CapacityBuffers are served" kubectl -n ahead get capacitybuffers
echo 4 >"$ahead_requests"
kubectl -n ahead annotate hpa chat gpuscale.dev/capacity=buffer gpuscale.dev/capacity-max=3 >/dev/null
wait_for "a CapacityBuffer for one more replica" placeholders_are capacitybuffer 1
[ "$(kubectl -n ahead get podtemplate chat-capacity -o jsonpath='{.template.spec.containers[0].resources.requests.nvidia\.com/gpu}')" = 1 ] || fail "the template of the buffer requests no GPU"
# Objects whose annotation was removed while the controller was away.
stop ahead
kubectl -n ahead annotate hpa chat gpuscale.dev/capacity- gpuscale.dev/capacity-max- >/dev/null
start_ahead_again() {
    start ahead "$gpuscale" hpa --mode=control --kubeconfig="$dir/ahead.kubeconfig" --leader-elect=false --namespace=ahead --state-file="$dir/ahead.state" \
        --url="http://127.0.0.1:$ahead_engine_port" --web.listen-address="127.0.0.1:$ahead_hpa_port" --horizontal-pod-autoscaler-sync-period=2s
}
start_ahead_again
wait_for "the buffer of the earlier process is removed" gone capacitybuffer
wait_for "and its template" gone podtemplate
kubectl -n ahead annotate hpa chat gpuscale.dev/capacity=buffer gpuscale.dev/capacity-max=3 >/dev/null
wait_for "a CapacityBuffer again" placeholders_are capacitybuffer 1
kubectl -n ahead delete hpa chat >/dev/null
wait_for "the API removes the buffer with the autoscaler" gone capacitybuffer
wait_for "the API removes its template with the autoscaler" gone podtemplate
ok "a CapacityBuffer of the forecast is created, and removed with the annotation and with the autoscaler"

for name in ahead ahead-engine ahead-page; do stop $name; done
kubectl delete clusterrolebinding ahead ahead-capacity >/dev/null
kubectl delete -f "$source/deploy/hpa-capacity.yaml" >/dev/null
kubectl delete clusterrole gpuscale-hpa >/dev/null
kubectl delete namespace ahead --wait=false >/dev/null
stop controller-manager
start_controller_manager
