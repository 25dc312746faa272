# Runs the EKS guide: the manifests of its exporter with gpuscale in the image, its ServiceMonitor,
# PrometheusRule, Helm values as rules, and Object metric of a Service. To be sourced after
# production.sh.

kubectl -n monitoring delete daemonset gpuscale-exporter --ignore-not-found >/dev/null # as if it had never been
apply_guide eks/dcgm-exporter.yaml eks/prometheus-alert-rule.yaml
load vision-api 40
adapter_config "$guides/eks/prometheus-adapter-values.yaml"
kubectl apply -f "$guides/eks/vision-api.yaml" >/dev/null 2>"$dir/refused" && fail "today's API server takes v2beta2"
grep -q 'autoscaling/v2beta2' "$dir/refused" || fail "the guide's file is refused for another reason: $(cat "$dir/refused")"
apply_guide --convert eks/vision-api.yaml
kubectl rollout status daemonset/dcgm-exporter --timeout=300s >/dev/null || fail "the guide's exporter does not roll out"
kubectl rollout status deployment/vision-api --timeout=300s >/dev/null || fail "the guide's Deployment does not roll out"

# The names of default rules and of the guide's rules, for which the guide searches.
names() {
    kubectl get --raw "$api" | jq -e '
        (["services/DCGM_FI_DEV_GPU_UTIL", "namespaces/DCGM_FI_DEV_GPU_UTIL", "jobs.batch/DCGM_FI_DEV_GPU_UTIL", "pods/DCGM_FI_DEV_GPU_UTIL",
          "services/DCGM_FI_DEV_GPU_UTIL_AVG", "services/DCGM_FI_DEV_GPU_UTIL_MIN", "services/DCGM_FI_DEV_GPU_UTIL_MAX"] - [.resources[].name]) == []'
}
wait_for "the guide's metrics are listed" names
wait_for "the Service's average is 20" reads namespaces/default/services/vision-api/DCGM_FI_DEV_GPU_UTIL_AVG 20
shape='.kind == "MetricValueList" and .apiVersion == "custom.metrics.k8s.io/v1beta1" and
    all(.items[]; keys == ["describedObject", "metricName", "selector", "timestamp", "value"] and .selector == null)'
exporters() { # one item for each, once both were scraped
    kubectl get --raw "$api/namespaces/default/pods/*/DCGM_FI_DEV_GPU_UTIL" | jq -e "$shape"' and
        ([.items[].describedObject | .kind + .namespace + .apiVersion] | unique) == ["Poddefault/v1"] and
        ([.items[] | select(.describedObject.name | startswith("dcgm-exporter-"))] | length) == 2'
}
wait_for "pods/* has the guide's shape" exporters
kubectl get --raw "$api/namespaces/default/pods/*/DCGM_FI_DEV_GPU_UTIL_AVG" | jq -e "$shape" >/dev/null ||
    fail "pods/* AVG: $(kubectl get --raw "$api/namespaces/default/pods/*/DCGM_FI_DEV_GPU_UTIL_AVG" 2>&1)"
kubectl get --raw "$api/namespaces/default/services/dcgm-exporter/DCGM_FI_DEV_GPU_UTIL" | jq -e "$shape"' and
    .items[0].describedObject == {kind: "Service", namespace: "default", name: "dcgm-exporter", apiVersion: "/v1"}' >/dev/null ||
    fail "services/dcgm-exporter: $(kubectl get --raw "$api/namespaces/default/services/dcgm-exporter/DCGM_FI_DEV_GPU_UTIL" 2>&1)"
# The query groups by exported_container, and no container has the name of the exporter's Service.
# The last request of the guide, and its HPA on that Service, therefore find nothing. The error
# reports the reason.
kubectl get --raw "$api/namespaces/default/services/dcgm-exporter/DCGM_FI_DEV_GPU_UTIL_AVG" >/dev/null 2>"$dir/denied" && fail "an average of no container"
grep -q 'could not find the metric DCGM_FI_DEV_GPU_UTIL_AVG for services dcgm-exporter' "$dir/denied" || fail "services/dcgm-exporter AVG: $(cat "$dir/denied")"
ok "eks: kubectl get --raw as shown, by our exporter in the guide's DaemonSet and its ServiceMonitor"

rules() { curl -sf "$engine/api/v1/rules" | jq -e '[.data.groups[] | select(.name == "gpu_scaling") | .rules[] | select(.health == "ok") | .name] == ["vision-api_scaling"]'; }
wait_for "the guide's one valid alert is evaluated" rules
has_replicas vision-api 2 || fail "it scales at its target"
load vision-api 160 # 80 % each
grown() { [ "$(kubectl get deployment vision-api -o jsonpath='{.spec.replicas}')" -ge 8 ]; }
wait_for "8 replicas or more under load" grown
load vision-api 8
wait_for "back to 2 replicas" has_replicas vision-api 2
ok "eks: Helm values, gpuscale convert, an Object metric of a Service: 2 to 8 and more to 2"
"$gpuscale" convert -f "$guides/eks/vision-api.yaml" | kubectl delete -f - >/dev/null
kubectl delete -f "$guides/eks/dcgm-exporter.yaml" -f "$guides/eks/prometheus-alert-rule.yaml" >/dev/null
