# Tests the adapter as an aggregated API server. The cluster's HPA controller uses it to scale the
# Deployment of the ACK guide from 1 to 5 replicas and back. feed.sh simulates the GPUs.

. "$source/tests/e2e/feed.sh"
apply_guide ack/bert-intent-detection.yaml
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null || fail "the guide's Deployment does not roll out"
api=/apis/custom.metrics.k8s.io/v1beta1
listed() { kubectl get --raw "$api" | jq -e '.resources[] | select(.name == "pods/DCGM_CUSTOM_PROCESS_SM_UTIL")'; }
wait_for "the guide's metric is listed" listed
values() { kubectl get --raw "$api/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL"; }
reads_20() { values | jq -e '.items | length == 1 and .[0].value == "20"'; }
wait_for "kubectl get --raw reads the pod's 20 %" reads_20
# The same for an ordinary user: the adapter authorizes requests with the cluster.
kubeconfig nobody "/CN=nobody"
if KUBECONFIG="$dir/nobody.kubeconfig" kubectl get --raw "$api/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL" >/dev/null 2>"$dir/denied"; then
    fail "a user without permission reads metrics"
fi
grep -q 'forbidden' "$dir/denied" || fail "a denied request says: $(cat "$dir/denied")"
curl -sk "https://127.0.0.1:$adapter_port$api" | jq -e '.code == 403' >/dev/null || fail "an anonymous request past the front proxy is not refused"
ok "the guide's kubectl get --raw; others are refused"

apply_guide ack/hpa-v2.yaml
start shadow "$gpuscale" hpa --kubeconfig="$dir/admin.kubeconfig" --namespace=default -o json --web.listen-address= \
    --horizontal-pod-autoscaler-sync-period=2s --horizontal-pod-autoscaler-downscale-stabilization=20s
replicas() { kubectl get deployment bert-intent-detection -o jsonpath='{.spec.replicas}'; }
has_replicas() { [ "$(replicas)" = "$1" ]; }
active() { [ "$(kubectl get hpa gpu-hpa -o json | jq -r '.status.conditions[]? | select(.type == "ScalingActive") | .reason')" = ValidMetricFound ]; }
wait_for "the cluster's controller finds the metric" active
has_replicas 1 || fail "it scales at its target: $(replicas)"
echo 90 >"$feed_load"
wait_for "5 replicas at a load of 90 % over a target of 20 %" has_replicas 5
settled() { kubectl get hpa gpu-hpa -o json | jq -e '.status | .currentReplicas == 5 and .desiredReplicas == 5 and (.currentMetrics[0].pods.current.averageValue == "18")'; }
wait_for "five pods at 18 %" settled
shadow_says() { [ "$(grep '^{' "$dir/shadow.log" | tail -n 1 | jq -r .desired)" = "$1" ]; }
wait_for "the shadow agrees on 5" shadow_says 5
echo 5 >"$feed_load"
wait_for "back to 1 replica" has_replicas 1
wait_for "the shadow agrees on 1" shadow_says 1
ok "the cluster's controller scales the ack guide's Deployment 1 to 5 to 1 by the adapter; ours in its shadow agrees"

# Without permissions, the error names the missing one.
kubectl delete clusterrole gpuscale-adapter >/dev/null
denied_list() { ! kubectl get --raw "$api/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL?labelSelector=app%3Dbert-intent-detection" >/dev/null 2>"$dir/denied" && grep -qi 'list' "$dir/denied"; }
wait_for "without the right to list pods a request fails with the reason: $(cat "$dir/denied")" denied_list
ok "without the right to list pods: $(tail -n 1 "$dir/denied")"
kubectl create clusterrole gpuscale-adapter --verb=get,list,watch --resource=pods,services,nodes,namespaces,deployments.apps,replicasets.apps,statefulsets.apps,daemonsets.apps,jobs.batch >/dev/null

# The EKS guide: Helm values as rules, an Object metric of a Service, autoscalers of a removed API
# version.
stop adapter
cat >"$dir/feed-eks.jq" <<'EOF'
[.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] as $pods
| $pods[] | "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-\(.metadata.uid)\",exported_namespace=\"default\",exported_container=\"vision-api\",exported_pod=\"\(.metadata.name)\"} \([$load / ($pods | length), 100] | min)"
EOF
echo 40 >"$feed_load"
(while :; do
    kubectl get pods -l app=vision-api -o json 2>/dev/null | jq -r --argjson load "$(cat "$feed_load")" -f "$dir/feed-eks.jq" >"$dir/feed/next-eks" && mv "$dir/feed/next-eks" "$dir/feed/eks"
    sleep 1
done) >"$dir/feed-eks.log" 2>&1 &
pids="$! $pids"
kubectl delete -f "$guides/ack/hpa-v2.yaml" -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
cat >"$dir/metrics.yml" <<EOF
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
- {job_name: gpu, metrics_path: /eks, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$feed_port']}]}
EOF
kill -HUP "$pid_metrics"
start adapter "$gpuscale" adapter --config="$guides/eks/prometheus-adapter-values.yaml" --prometheus-url="http://127.0.0.1:$metrics_port" \
    --metrics-relist-interval=2s --secure-port="$adapter_port" --bind-address=127.0.0.1 \
    --lister-kubeconfig="$dir/adapter.kubeconfig" --authentication-kubeconfig="$dir/adapter.kubeconfig" \
    --authorization-kubeconfig="$dir/adapter.kubeconfig" --tls-cert-file="$dir/adapter-serving.crt" \
    --tls-private-key-file="$dir/adapter-serving.key"
kubectl apply -f "$guides/eks/vision-api.yaml" >/dev/null 2>"$dir/refused" && fail "today's API server takes v2beta2"
grep -q 'autoscaling/v2beta2' "$dir/refused" || fail "the guide's file is refused for another reason: $(cat "$dir/refused")"
apply_guide --convert eks/vision-api.yaml
vision() { [ "$(kubectl get deployment vision-api -o jsonpath='{.spec.replicas}')" = "$1" ]; }
service_value() { kubectl get --raw "$api/namespaces/default/services/vision-api/DCGM_FI_DEV_GPU_UTIL_AVG" | jq -e '.items[0].value == "20"'; }
wait_for "the Service's average is 20" service_value
vision 2 || fail "the eks guide's Deployment scales at its target"
echo 400 >"$feed_load" # 100 % each until there are twenty
more() { [ "$(kubectl get deployment vision-api -o jsonpath='{.spec.replicas}')" -gt 5 ]; }
wait_for "more replicas under load" more
echo 8 >"$feed_load"
wait_for "back to 2 replicas" vision 2
ok "the eks guide: Helm values, gpuscale convert, an Object metric of a Service; 2 to more than 5 to 2"

