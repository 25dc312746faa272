# Metrics of GPUs without GPUs: a script divides a load among the running pods of the ACK guide's Deployment, with the names and
# labels of the guide's exporter. The engine scrapes it, and the adapter serves it as an aggregated API. To be sourced after the
# control plane was started; sets $metrics_port, $feed_port and $adapter_port. The load is in $feed_load.

mkdir "$dir/feed"
feed_load=$dir/feed-load
echo 20 >"$feed_load"
: >"$dir/feed/metrics"
feed() {
    while :; do
        kubectl get pods -l app=bert-intent-detection -o json 2>/dev/null | jq -r --argjson load "$(cat "$feed_load")" '
            [.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] as $pods
            | $pods[] | "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-\(.metadata.uid)\",NodeName=\"\(.spec.nodeName)\",NamespaceName=\"\(.metadata.namespace)\",PodName=\"\(.metadata.name)\"} \([$load / ($pods | length), 100] | min)"' >"$dir/feed/next" || continue
        mv "$dir/feed/next" "$dir/feed/metrics"
        sleep 1
    done
}
feed_port=$(free_port) metrics_port=$(free_port) adapter_port=$(free_port)
start feeder python3 -m http.server --bind 127.0.0.1 --directory "$dir/feed" "$feed_port"
feed >"$dir/feed.log" 2>&1 &
pids="$! $pids"
cat >"$dir/metrics.yml" <<EOF
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
- {job_name: gpu, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$feed_port']}]}
EOF
start metrics "$gpuscale" engine --config.file="$dir/metrics.yml" --web.listen-address="127.0.0.1:$metrics_port"

# Permissions, as a manifest grants them.
kubectl create namespace monitoring >/dev/null
kubeconfig adapter "/CN=gpuscale-adapter"
kubectl create clusterrole gpuscale-adapter --verb=get,list,watch --resource=pods,services,nodes,namespaces,deployments.apps,replicasets.apps,statefulsets.apps,daemonsets.apps,jobs.batch >/dev/null
kubectl create clusterrolebinding gpuscale-adapter --clusterrole=gpuscale-adapter --user=gpuscale-adapter >/dev/null
kubectl create clusterrolebinding gpuscale-adapter-auth --clusterrole=system:auth-delegator --user=gpuscale-adapter >/dev/null
kubectl -n kube-system create rolebinding gpuscale-adapter-auth --role=extension-apiserver-authentication-reader --user=gpuscale-adapter >/dev/null
cert adapter-serving ca "/CN=gpuscale-adapter" "DNS:gpuscale-adapter.monitoring.svc,DNS:localhost"
start adapter "$gpuscale" adapter --config="$guides/ack/adapter-rules.yaml" --prometheus-url="http://127.0.0.1:$metrics_port" \
    --metrics-relist-interval=2s --secure-port="$adapter_port" --bind-address=127.0.0.1 \
    --lister-kubeconfig="$dir/adapter.kubeconfig" --authentication-kubeconfig="$dir/adapter.kubeconfig" \
    --authorization-kubeconfig="$dir/adapter.kubeconfig" --tls-cert-file="$dir/adapter-serving.crt" \
    --tls-private-key-file="$dir/adapter-serving.key" --v=6
serve_groups monitoring gpuscale-adapter "$adapter_port" custom.metrics.k8s.io/v1beta1
wait_for "the APIService is Available" kubectl wait --for=condition=Available apiservice/v1beta1.custom.metrics.k8s.io --timeout=1s
ok "the APIService is Available, its TLS verified"
