# gpuscale hpa evaluates when a value arrives: the adapter, with an engine in its process, reports the change on a stream that
# the API server passes on. The sync period is longer than the test.

adapter_port=$(free_port) feed_port=$(free_port)
kubectl get namespace monitoring >/dev/null 2>&1 || kubectl create namespace monitoring >/dev/null
kubectl create namespace changes >/dev/null
mkdir "$dir/changes"
set_load() {
    for pod in 0 1 2; do echo "load{namespace=\"changes\",pod=\"web-$pod\"} $1"; done >"$dir/changes/next"
    mv "$dir/changes/next" "$dir/changes/metrics"
}
set_load 20
start changes-feeder python3 -m http.server --bind 127.0.0.1 --directory "$dir/changes" "$feed_port"
cat >"$dir/changes.yml" <<END
scrape_configs:
- {job_name: load, scrape_interval: 1s, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$feed_port']}]}
END
cert changes-serving ca "/CN=gpuscale-adapter" "DNS:gpuscale-adapter.monitoring.svc,DNS:localhost"
start changes-adapter "$gpuscale" adapter --engine-config="$dir/changes.yml" --secure-port="$adapter_port" --bind-address=127.0.0.1 \
    --lister-kubeconfig="$dir/admin.kubeconfig" --authentication-kubeconfig="$dir/admin.kubeconfig" \
    --authorization-kubeconfig="$dir/admin.kubeconfig" --tls-cert-file="$dir/changes-serving.crt" --tls-private-key-file="$dir/changes-serving.key"
serve_groups monitoring gpuscale-adapter "$adapter_port" custom.metrics.k8s.io/v1beta1
kubectl apply -f - >/dev/null <<END
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: changes}
spec:
  serviceName: web
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: any}]}
END
changes=/apis/custom.metrics.k8s.io/v1beta1
has_load() { kubectl get --raw "$changes/namespaces/changes/pods/*/load?labelSelector=app%3Dweb" | jq -e '.items | length == 1'; }
wait_for "the load of web-0 is served" has_load

kubectl apply -f "$source/deploy/hpa.yaml" >/dev/null || fail "deploy/hpa.yaml is refused"
cat >"$dir/changes-hpa.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: $kube, certificate-authority: $dir/ca.crt}}]
users: [{name: me, user: {token: $(kubectl -n monitoring create token gpuscale-hpa)}}]
contexts: [{name: e2e, context: {cluster: e2e, user: me}}]
current-context: e2e
END
start changes-hpa "$gpuscale" hpa --kubeconfig="$dir/changes-hpa.kubeconfig" --namespace=changes --mode=control --all --leader-elect=false \
    --web.listen-address= --horizontal-pod-autoscaler-sync-period=30m
follows() { curl -sk --cert "$dir/admin.crt" --key "$dir/admin.key" "https://127.0.0.1:$adapter_port/metrics" | grep -q '^gpuscale_adapter_change_streams 1$'; }
wait_for "gpuscale hpa follows changes through the API server, with the permissions of deploy/hpa.yaml" follows
# The cluster's controller would scale it, too.
stop controller-manager
start_controller_manager "--controllers=*,-horizontal-pod-autoscaler-controller"
kubectl apply -f - >/dev/null <<END
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: changes}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Pods, pods: {metric: {name: load}, target: {type: AverageValue, averageValue: 40}}}]
END
evaluated() { [ "$(kubectl -n changes get hpa web -o json | jq -r '.status.currentMetrics[0].pods.current.averageValue')" = 20 ]; }
wait_for "the first evaluation" evaluated

# Values that cannot change the decision cause no request.
reads() { grep -c '"requestURI":"[^"]*\(/web/scale\|/load?\).*"username":"system:serviceaccount:monitoring:gpuscale-hpa"' "$dir/audit.log" || true; }
logged() { [ "$(reads)" -ge 2 ]; }
wait_for "the audit log has the scale and the metric of the first evaluation" logged
before=$(reads)
for load in 30 10 35 20 12 33 20; do
    set_load $load
    sleep 1.2
done
after=$(reads)
[ "$before" = "$after" ] || fail "values below the target cause requests: $before before, $after after"
ok "values below the target are reported to gpuscale hpa and cause no request ($after so far)"

set_load 90
at_3() { [ "$(kubectl -n changes get statefulset web -o jsonpath='{.spec.replicas}')" = 3 ]; }
wait_for "three replicas long before the next period" at_3
rescale() { [ "$(reads)" -gt "$after" ]; }
wait_for "the audit log has the second evaluation" rescale
ok "a value above the target is read when it arrives: $(($(reads) - after)) requests for scale and metric"
stop changes-hpa
stop changes-adapter
stop changes-feeder
kubectl delete apiservice v1beta1.custom.metrics.k8s.io >/dev/null
kubectl delete namespace changes --wait=false >/dev/null
stop controller-manager
start_controller_manager
