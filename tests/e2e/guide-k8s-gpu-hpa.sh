# Runs the k8s-gpu-hpa guide: exporter with 1.x names, scrape job, PrometheusRule with a join on pod
# labels, and the adapter's default rules. To be sourced after production.sh.

kubectl -n monitoring delete daemonset gpuscale-exporter --ignore-not-found >/dev/null
apply_guide k8s-gpu-hpa/dcgm-exporter.yaml k8s-gpu-hpa/cuda-test-deployment.yaml k8s-gpu-hpa/cuda-test-prometheusrule.yaml
load cuda-test 4
# The guide's additional scrape job, added to those of the engine.
{
    kubectl -n monitoring get configmap gpuscale-engine -o jsonpath='{.data.prometheus\.yml}'
    sed -n '/- job_name/,$s/^    //p' "$guides/k8s-gpu-hpa/kube-prometheus-stack-values.yaml"
} >"$dir/prometheus.yml"
kubectl -n monitoring create configmap gpuscale-engine --from-file="$dir/prometheus.yml" --dry-run=client -o yaml |
    kubectl -n monitoring apply -f - >/dev/null
printf 'rules: {default: true}\n' >"$dir/default-rules.yaml"
adapter_config "$dir/default-rules.yaml"
kubectl rollout status daemonset/dcgm-exporter --timeout=300s >/dev/null || fail "the guide's exporter does not roll out"
kubectl rollout status deployment/cuda-test --timeout=300s >/dev/null || fail "the guide's Deployment does not roll out"
pod=$(kubectl get pods -l app=cuda-test -o jsonpath='{.items[0].metadata.name}')
wait_for "the exporter's 1.x names by the guide's scrape job" is "dcgm_gpu_utilization{pod=\"$pod\"}" 4
wait_for "the recording rule" is 'cuda_test_gpu_avg{namespace="default",deployment="cuda-test"}' 4
grepped() { kubectl get --raw "$api" | jq -r '.resources[].name' | grep -x deployments.apps/cuda_test_gpu_avg; }
wait_for "the metric is listed" grepped
wait_for "the Deployment's average is 4" reads namespaces/default/deployments.apps/cuda-test/cuda_test_gpu_avg 4
ok "k8s-gpu-hpa: the average of a Deployment by the guide's recording rule and the default rules"

kubectl apply -f "$guides/k8s-gpu-hpa/cuda-test-hpa.yaml" >/dev/null 2>"$dir/refused" && fail "today's API server takes v2beta1"
apply_guide --convert k8s-gpu-hpa/cuda-test-hpa.yaml
found() { [ "$(kubectl get hpa cuda-test -o json | jq -r '.status.conditions[]? | select(.type == "ScalingActive") | .reason')" = ValidMetricFound ]; }
wait_for "the cluster's controller finds the metric" found
has_replicas cuda-test 1 || fail "it scales below its target"
load cuda-test 12
wait_for "3 replicas under load" has_replicas cuda-test 3
load cuda-test 1
wait_for "back to 1 replica" has_replicas cuda-test 1
ok "k8s-gpu-hpa: PrometheusRule, default rules, converted HPA on a Deployment: 1 to 3 to 1"
kubectl delete hpa cuda-test >/dev/null
kubectl delete -f "$guides/k8s-gpu-hpa/dcgm-exporter.yaml" -f "$guides/k8s-gpu-hpa/cuda-test-deployment.yaml" \
    -f "$guides/k8s-gpu-hpa/cuda-test-prometheusrule.yaml" >/dev/null
