# Removes the exporter's permissions one by one; to be sourced by permissions.sh. They are needed
# only for flags that its DaemonSet does not set. ResourceSlices are requested only if pods have
# claims.

# SUFFIX ARGUMENT…: starts a copy of the DaemonSet for nodes without a RuntimeClass, with the account
# of exporter-rbac.yaml and more arguments.
exporter_copy() {
    name=gpuscale-exporter-$1
    shift
    kubectl create --dry-run=client -o json -n monitoring -f "$deploy/exporter-daemonset.yaml" | jq -c --arg name "$name" --arg arguments "$*" '
        select(.kind == "DaemonSet") | .metadata.name = $name |
        .spec.selector.matchLabels["app.kubernetes.io/name"] = $name | .spec.template.metadata.labels["app.kubernetes.io/name"] = $name |
        .spec.template.spec.serviceAccountName = "gpuscale-exporter" | .spec.template.spec.automountServiceAccountToken = true |
        .spec.template.spec.containers[0].args += ($arguments | split(" "))' | kubectl apply -f - >/dev/null
}
kubectl delete clusterrolebinding gpuscale-exporter >/dev/null
kubectl -n monitoring delete rolebinding gpuscale-exporter >/dev/null
exporter_copy no-pods --kubernetes-enable-pod-labels --kubernetes-enable-pod-uid
exporter_copy no-map --configmap-data=monitoring:exporter-metrics-config-map
kubectl -n monitoring create configmap exporter-metrics-config-map --from-literal=metrics='DCGM_FI_DEV_GPU_UTIL, gauge, by the ConfigMap' >/dev/null
load bert-intent-detection 20
kubectl apply -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null
where=$(kubectl get pods -l app=bert-intent-detection -o jsonpath='{.items[0].spec.nodeName}')
page() { curl -sf "http://$(kubectl -n monitoring get pods -l "app.kubernetes.io/name=gpuscale-exporter-$1" --field-selector="spec.nodeName=$where" -o jsonpath='{.items[0].status.podIP}'):9400/metrics"; }
has() { page "$1" | grep -Eq "$2"; }
wait_for "exporter without pods says so" has no-pods '^gpuscale_exporter_pods_missing\{reason="api_no_permission"\} 1'
wait_for "it names the pod all the same" has no-pods '^DCGM_FI_DEV_GPU_UTIL\{.*pod="bert-intent-detection-'
has no-pods 'pod_uid="' && fail "the exporter without pods knows their UIDs"
logged exporter no-pods 'pods is forbidden' || fail "the exporter without pods says: $(log_of exporter no-pods)"
wait_for "exporter without its ConfigMap says so in a metric" has no-map '^gpuscale_exporter_source_up\{source="configmap"\} 0'
wait_for "exporter without its ConfigMap says so" logged exporter no-map 'exporter-metrics-config-map" is forbidden'
kubectl apply -f "$deploy/exporter-rbac.yaml" >/dev/null
wait_for "exporter with pods again: UIDs" has no-pods '^DCGM_FI_DEV_GPU_UTIL\{.*pod_uid="'
wait_for "exporter with pods again: nothing is missing" has no-pods '^gpuscale_exporter_pods_missing\{reason="api_no_permission"\} 0'
wait_for "exporter with its ConfigMap" has no-map '^# HELP DCGM_FI_DEV_GPU_UTIL by the ConfigMap'
restarts=$(kubectl -n monitoring get pods -l 'app.kubernetes.io/name in (gpuscale-exporter-no-pods, gpuscale-exporter-no-map)' -o json | jq '[.items[].status.containerStatuses[].restartCount] | add')
[ "$restarts" = 0 ] || fail "an exporter without its rights was restarted"
kubectl -n monitoring delete daemonset gpuscale-exporter-no-pods gpuscale-exporter-no-map --wait=false >/dev/null
ok "the exporter without its rights: page and log name them; given back, pods have their UIDs, the ConfigMap its families"
