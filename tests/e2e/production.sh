# Applies deploy/ unchanged, on real kubelets with RBAC; to be sourced.

kubectl apply -f "$deploy/namespace.yaml" >/dev/null
kubectl apply -f "$deploy/engine.yaml" -f "$deploy/adapter.yaml" -f "$deploy/adapter-apiservices.yaml" \
    -f "$deploy/adapter-apiservice-resource.yaml" -f "$deploy/hpa.yaml" -f "$deploy/exporter-rbac.yaml" >/dev/null
apply_exporter
for object in daemonset/gpuscale-exporter deployment/gpuscale-engine deployment/gpuscale-adapter deployment/gpuscale-hpa; do
    kubectl -n monitoring rollout status $object --timeout=300s >/dev/null || fail "$object does not roll out: $(kubectl -n monitoring get pods -o wide; tail -n 5 "$dir"/containers/*)"
done
services="v1beta1.custom.metrics.k8s.io v1beta2.custom.metrics.k8s.io v1beta1.metrics.k8s.io"
available() {
    for s in $services; do kubectl wait --for=condition=Available "apiservice/$s" --timeout=1s || return 1; done
}
wait_for "the APIServices are Available" available
kubectl get apiservices -o json | jq -e '[.items[] | select(.spec.insecureSkipTLSVerify)] | length == 0' >/dev/null || fail "an APIService skips the verification of TLS"
ok "deploy/ as in production: all pods are Ready by their probes, all APIServices Available, TLS verified"

# With the bundle of another CA, the API server does not trust the adapter until it updates its
# bundle.
ca_of_secret() { kubectl -n monitoring get secret gpuscale-adapter-tls -o jsonpath='{.data.ca\.crt}' | base64 -d; }
bundle_of() { kubectl get apiservice "$1" -o jsonpath='{.spec.caBundle}' | base64 -d; }
trusted() { # all APIServices have the Secret's CA
    for s in $services; do bundle_of "$s" | grep -qF "$(ca_of_secret | sed -n 2p)" || return 1; done
}
trusted || fail "an APIService has another caBundle"
kubectl patch apiservice v1beta2.custom.metrics.k8s.io --type=merge -p "{\"spec\":{\"caBundle\":\"$(base64 -w0 <"$dir/front-proxy-ca.crt")\"}}" >/dev/null
wait_for "a foreign caBundle is replaced" trusted
wait_for "the APIServices are Available with it" available
ok "a foreign caBundle is replaced by the adapter's own"

# The certificate expires: a new one is created without an interruption.
ca ending-ca
cert ending ending-ca "/CN=gpuscale-adapter" "DNS:gpuscale-adapter.monitoring.svc"
kubectl -n monitoring patch secret gpuscale-adapter-tls --type=merge -p "{\"data\":{\"ca.crt\":\"$(base64 -w0 <"$dir/ending-ca.crt")\",\"tls.crt\":\"$(base64 -w0 <"$dir/ending.crt")\",\"tls.key\":\"$(base64 -w0 <"$dir/ending.key")\"}}" >/dev/null
renewed() {
    kubectl get --raw "$api" >/dev/null 2>"$dir/renewing" || fail "while the certificate is renewed: $(cat "$dir/renewing")"
    ! ca_of_secret | cmp -s - "$dir/ending-ca.crt" && trusted && shown_certificate
}
shown_certificate() { # by all replicas
    for ip in $(kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuscale-adapter -o jsonpath='{.items[*].status.podIP}'); do
        [ "$(openssl s_client -connect "$ip:6443" </dev/null 2>/dev/null | openssl x509 -noout -fingerprint)" = \
            "$(kubectl -n monitoring get secret gpuscale-adapter-tls -o jsonpath='{.data.tls\.crt}' | base64 -d | openssl x509 -noout -fingerprint)" ] || return 1
    done
}
wait_for "a certificate that is about to expire is renewed" renewed
wait_for "the APIServices are Available with the new certificate" available
restarts=$(kubectl -n monitoring get pods -o json | jq '[.items[].status.containerStatuses[].restartCount] | add')
[ "$restarts" = 0 ] || fail "$restarts restarts"
ok "a certificate that is about to expire is renewed by the adapter, without a failed request or a restart"

# The kubelet reports the owners of GPUs, with its own device manager and socket.
engine=http://$(kubectl -n monitoring get service gpuscale-engine -o jsonpath='{.spec.clusterIP}'):9090
value() { curl -sf "$engine/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1] // "none"'; }
is() { [ "$(value "$1")" = "$2" ]; }
load bert-intent-detection 20
kubectl apply -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null || fail "the guide's Deployment does not roll out"
pod=$(kubectl get pods -l app=bert-intent-detection -o jsonpath='{.items[0].metadata.name}')
wait_for "the engine has the pod's GPU" is "DCGM_FI_DEV_GPU_UTIL{namespace=\"default\",pod=\"$pod\",container=\"bert-container\"}" 20
wait_for "the engine scrapes the replicas of the adapter" is 'sum(up{job="gpuscale-adapter"})' 2
wait_for "the engine scrapes the replicas of the autoscaler" is 'sum(up{job="gpuscale-hpa"})' 2
is 'count(ALERTS{alertstate="firing"})' none || fail "alerts: $(curl -s "$engine/api/v1/alerts")"
is 'count(DCGM_FI_DEV_GPU_UTIL)' 16 || fail "GPUs: $(value 'count(DCGM_FI_DEV_GPU_UTIL)')"
is 'count(DCGM_FI_DEV_GPU_UTIL{pod!=""})' 1 || fail "GPUs with a pod: $(value 'count(DCGM_FI_DEV_GPU_UTIL{pod!=""})')"
ok "the exporter names the pod of each GPU by the kubelets' PodResources sockets"

# Without rules: the average of the pods of a Deployment and of a Service.
for path in deployments.apps/bert-intent-detection services/bert-intent-detection-svc "pods/$pod"; do
    wait_for "$path without a rule" reads "namespaces/default/$path/DCGM_FI_DEV_GPU_UTIL" 20
done
ok "GPU metrics of a Deployment, a Service and a pod without a rule"

top_nodes() {
    kubectl top nodes >"$dir/top-nodes"
    [ "$(grep -Ec '^gpu-[01] +[0-9]+m +[0-9]+% +[0-9]+Mi +[0-9]+%' "$dir/top-nodes")" = 2 ]
}
top_pods() {
    kubectl top pods -A --containers >"$dir/top-pods"
    grep -Eq '^monitoring +gpuscale-engine-[^ ]+ +engine +[0-9]+m +[1-9][0-9]*Mi' "$dir/top-pods" &&
        grep -Eq '^default +bert-intent-detection' "$dir/top-pods"
}
wait_for "kubectl top nodes" top_nodes
wait_for "kubectl top pods" top_pods
ok "kubectl top nodes and pods, by what the kubelets' /metrics/resource says"

# A rolling update under requests: one replica always responds.
kubectl -n monitoring rollout restart deployment/gpuscale-adapter >/dev/null
asked=0
kubectl -n monitoring rollout status deployment/gpuscale-adapter --timeout=300s >/dev/null 2>&1 &
rollout=$!
pids="$rollout $pids"
while kill -0 $rollout 2>/dev/null; do
    kubectl get --raw "$api/namespaces/default/pods/$pod/DCGM_FI_DEV_GPU_UTIL" >/dev/null 2>"$dir/rolling" || fail "while the adapter is replaced: $(cat "$dir/rolling")"
    asked=$((asked + 1))
done
wait $rollout || fail "the adapter's update does not end"
ok "a rolling update of the adapter: $asked requests meanwhile, none failed"
