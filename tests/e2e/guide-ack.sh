# Runs the ACK guide: adapter rules, Deployment and v2 HPA. To be sourced after production.sh.

adapter_config "$guides/ack/adapter-rules.yaml"
# The part of the list that the guide shows.
shown='["nodes/DCGM_CUSTOM_PROCESS_SM_UTIL", "pods/DCGM_CUSTOM_PROCESS_SM_UTIL", "namespaces/DCGM_CUSTOM_PROCESS_SM_UTIL",
    "pods/DCGM_CUSTOM_PROCESS_GPU_MEM_USED_RATIO", "nodes/DCGM_FI_DEV_GPU_UTIL", "nodes/DCGM_FI_DEV_FB_USED", "pods/DCGM_CUSTOM_PROCESS_MEM_USED"]'
listed() {
    kubectl get --raw "$api" | jq -e --argjson shown "$shown" '
        ($shown - [.resources[].name]) == [] and
        (.resources[] | select(.name == "pods/DCGM_CUSTOM_PROCESS_SM_UTIL")) ==
            {name: "pods/DCGM_CUSTOM_PROCESS_SM_UTIL", singularName: "", namespaced: true, kind: "MetricValueList", verbs: ["get"]} and
        (.resources[] | select(.name == "nodes/DCGM_CUSTOM_PROCESS_SM_UTIL")) ==
            {name: "nodes/DCGM_CUSTOM_PROCESS_SM_UTIL", singularName: "", namespaced: false, kind: "MetricValueList", verbs: ["get"]} and
        (.resources[] | select(.name == "namespaces/DCGM_CUSTOM_PROCESS_SM_UTIL") | .namespaced) == false'
}
wait_for "the guide's metrics are listed as it shows them" listed
apply_guide ack/bert-intent-detection.yaml
pods=namespaces/default/pods/%2A/DCGM_CUSTOM_PROCESS_SM_UTIL
wait_for "the pod's 20 %" reads "$pods" 20
kubectl get --raw "$api/$pods" | jq -e '.kind == "MetricValueList" and .apiVersion == "custom.metrics.k8s.io/v1beta1" and
    (.items[0] | keys == ["describedObject", "metricName", "selector", "timestamp", "value"]) and
    (.items[0].describedObject | .kind == "Pod" and .namespace == "default" and .apiVersion == "/v1")' >/dev/null ||
    fail "the shape: $(kubectl get --raw "$api/$pods")"
for path in "nodes/gpu-0/DCGM_FI_DEV_GPU_UTIL" "nodes/gpu-1/DCGM_FI_DEV_FB_USED" "namespaces/default/metrics/DCGM_CUSTOM_PROCESS_SM_UTIL"; do
    kubectl get --raw "$api/$path" | jq -e '.items | length == 1' >/dev/null || fail "$path: $(kubectl get --raw "$api/$path" 2>&1)"
done
# An ordinary user: the adapter authorizes requests with the cluster.
kubeconfig nobody "/CN=nobody"
if KUBECONFIG="$dir/nobody.kubeconfig" kubectl get --raw "$api/$pods" >/dev/null 2>"$dir/denied"; then
    fail "a user without permission reads metrics"
fi
grep -q forbidden "$dir/denied" || fail "a denied request says: $(cat "$dir/denied")"
kubectl create rolebinding nobody-views --clusterrole=view --user=nobody >/dev/null
may() { KUBECONFIG="$dir/nobody.kubeconfig" kubectl get --raw "$api/$pods"; }
wait_for "a user with permission to view the namespace reads its metrics" may
ok "ack: kubectl get --raw as shown; only for users with permission to view the namespace"

apply_guide ack/hpa-v2.yaml
"$gpuscale" convert -f "$guides/ack/hpa-v2beta1.yaml" | kubectl apply --dry-run=server -o json -f - |
    jq -e '.spec.metrics[0].pods == {metric: {name: "DCGM_CUSTOM_PROCESS_SM_UTIL"}, target: {type: "AverageValue", averageValue: "20"}}' >/dev/null ||
    fail "the guide's v2beta1 HPA, converted: $("$gpuscale" convert -f "$guides/ack/hpa-v2beta1.yaml")"
start shadow "$gpuscale" hpa --kubeconfig="$dir/admin.kubeconfig" --namespace=default -o json --web.listen-address= \
    --horizontal-pod-autoscaler-sync-period=2s --horizontal-pod-autoscaler-downscale-stabilization=20s
shadow_says() { [ "$(grep '^{' "$dir/shadow.log" | tail -n 1 | jq -r .desired)" = "$1" ]; }
active() { [ "$(kubectl get hpa gpu-hpa -o json | jq -r '.status.conditions[]? | select(.type == "ScalingActive") | .reason')" = ValidMetricFound ]; }
wait_for "the cluster's controller finds the metric" active
has_replicas bert-intent-detection 1 || fail "it scales at its target"
load bert-intent-detection 90
wait_for "5 replicas at 90 % of a GPU over a target of 20 %" has_replicas bert-intent-detection 5
settled() { kubectl get hpa gpu-hpa -o json | jq -e '.status | .currentReplicas == 5 and .desiredReplicas == 5 and .currentMetrics[0].pods.current.averageValue == "18"'; }
wait_for "five pods at 18 %" settled
kubectl get hpa gpu-hpa | awk 'NR == 2 { exit $3 == "18/20" && $4 == 1 && $5 == 10 && $6 == 5 ? 0 : 1 }' || fail "kubectl get hpa: $(kubectl get hpa gpu-hpa)"
wait_for "the shadow agrees on 5" shadow_says 5
load bert-intent-detection 5
wait_for "back to 1 replica" has_replicas bert-intent-detection 1
wait_for "the shadow agrees on 1" shadow_says 1
stop shadow
ok "ack: the cluster's controller scales 1 to 5 to 1 by our exporter, engine and adapter; our own in its shadow agrees"
kubectl delete -f "$guides/ack/hpa-v2.yaml" -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
