# Removes the permissions of gpuscale hpa one by one; to be sourced by permissions.sh. The cluster's
# autoscaler is off, and deploy/hpa.yaml scales. Each copy has its own namespace with an autoscaler.

stop controller-manager
start_controller_manager "--controllers=*,-horizontal-pod-autoscaler-controller"
# NAMESPACE METRIC
with_load() {
    kubectl create namespace "$1" >/dev/null
    load "$1" 100
    kubectl apply -f - >/dev/null <<EOF
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $1}
spec:
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec: {containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: $1, annotations: {gpuscale.dev/autoscaler: "true"}}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, minReplicas: 1, maxReplicas: 2, metrics: [$2]}
EOF
}
by_gpu='{type: Pods, pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: 50}}}'
by_memory='{type: Resource, resource: {name: memory, target: {type: AverageValue, averageValue: 1}}}'
by_queue='{type: External, external: {metric: {name: queue}, target: {type: Value, value: 1}}}'
with_load by-hpa "$by_gpu"
scaled() { [ "$(kubectl -n "$1" get deployment web -o jsonpath='{.spec.replicas}')" = "$2" ]; }
wait_for "deploy/hpa.yaml scales a Deployment" scaled by-hpa 2
kubectl -n by-hpa get events -o json | jq -e '[.items[] | select(.reason == "SuccessfulRescale")] | length > 0' >/dev/null || fail "no event of the scaling"
kubectl delete namespace by-hpa --wait=false >/dev/null
ok "deploy/hpa.yaml: two replicas, one leads and scales"
kubectl -n monitoring scale deployment gpuscale-hpa --replicas=0 >/dev/null # it scales in all namespaces
kubectl -n monitoring wait --for=delete pod -l app.kubernetes.io/name=gpuscale-hpa --timeout=300s >/dev/null

for right in $(rights hpa | cut -d' ' -f1); do
    case $right in
    metrics-k8s-io-pods) metric=$by_memory ;;
    external-metrics-k8s-io-all) metric=$by_queue ;;
    *) metric=$by_gpu ;;
    esac
    # Kinds whose scale is not requested here.
    case $right in apps-replicasets-scale | apps-statefulsets-scale) ;; *) with_load "gpuscale-hpa-no-$right" "$metric" ;; esac
done
take_away hpa
# Budgets are those of all namespaces. Without a namespace, only a copy that writes nothing does not disturb the others.
copy hpa no-budgets /configmaps | jq -c 'if .kind == "Deployment" then
    .spec.template.spec.containers[0].args |= [.[] | select(test("^--(namespace|state-config-map)=") | not) | sub("^--mode=control$"; "--mode=shadow")] else . end' | kubectl apply -f - >/dev/null
condition() { kubectl -n "gpuscale-hpa-no-$1" get hpa web -o json | jq -r --arg type "$2" '.status.conditions[]? | select(.type == $type) | .reason + " " + .message'; }
says() { condition "$1" "$2" | grep -q "$3"; }
wait_for "hpa without pods: the log says so" logged hpa no-pods 'pods cannot be read: .* is forbidden'
wait_for "hpa without horizontalpodautoscalers: the log says so" logged hpa no-autoscaling-horizontalpodautoscalers 'horizontalpodautoscalers cannot be read: .* is forbidden'
wait_for "hpa without budgets: the log says so" logged hpa no-budgets 'the ConfigMap gpuscale-budgets cannot be read: .* is forbidden'
wait_for "hpa without events: the log says so" logged hpa no-events 'events cannot be written: .* is forbidden'
wait_for "hpa without leases: the log says so" logged hpa no-coordination-k8s-io-leases 'lease monitoring/gpuscale-hpa-no-coordination-k8s-io-leases: .* is forbidden'
wait_for "hpa without ConfigMaps: the log says so" logged hpa no-configmaps 'ConfigMap monitoring/gpuscale-hpa-no-configmaps-learned: what was learned cannot be read: .* is forbidden'
wait_for "hpa without scale: AbleToScale says so" says apps-deployments-scale AbleToScale '^FailedGetScale .* is forbidden: .* cannot get resource "deployments/scale"'
wait_for "hpa without custom metrics: ScalingActive says so" says custom-metrics-k8s-io-all ScalingActive '^FailedGetPodsMetric .* is forbidden: .* in API group "custom.metrics.k8s.io"'
wait_for "hpa without external metrics: ScalingActive says so" says external-metrics-k8s-io-all ScalingActive '^FailedGetExternalMetric .*external.metrics.k8s.io'
wait_for "hpa without resource metrics: ScalingActive says so" says metrics-k8s-io-pods ScalingActive '^FailedGetResourceMetric .* is forbidden: .* in API group "metrics.k8s.io"'
without_status() {
    scaled gpuscale-hpa-no-autoscaling-horizontalpodautoscalers-status 2 &&
        kubectl -n gpuscale-hpa-no-autoscaling-horizontalpodautoscalers-status get events -o json | jq -e '[.items[] | select(.reason == "FailedUpdateStatus" and (.message | test("is forbidden")))] | length > 0'
}
wait_for "hpa without horizontalpodautoscalers/status: it scales, and an event reports that it cannot write the status" without_status
wait_for "hpa without events: it scales" scaled gpuscale-hpa-no-events 2
wait_for "hpa without ConfigMaps: it scales" scaled gpuscale-hpa-no-configmaps 2
for right in pods autoscaling-horizontalpodautoscalers coordination-k8s-io-leases apps-deployments-scale custom-metrics-k8s-io-all metrics-k8s-io-pods; do
    scaled "gpuscale-hpa-no-$right" 1 || fail "hpa without $right scales"
done
none_restarted hpa
n=$(rights hpa | wc -l)
give_back hpa
for right in pods autoscaling-horizontalpodautoscalers coordination-k8s-io-leases apps-deployments-scale custom-metrics-k8s-io-all metrics-k8s-io-pods; do
    wait_for "hpa with $right again: it scales" scaled "gpuscale-hpa-no-$right" 2
done
wait_for "hpa with horizontalpodautoscalers/status again" says autoscaling-horizontalpodautoscalers-status ScalingActive ValidMetricFound
none_restarted hpa
ok "gpuscale hpa without each of its $n rights: condition, event or log names it; given back, it scales"
