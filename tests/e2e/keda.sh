# KEDA's operator and metrics API server, built from their Go module, with gpuscale keda-scaler over mutual TLS: a push wakes a
# Deployment at zero, KEDA's autoscaler reads the value, an absent value changes nothing, and an idle queue ends at zero.
# To be sourced after the control plane was started.
keda=$("$source/tests/e2e/keda-build.sh" --no-build) || { say "skipped: keda: KEDA is not built (make peers)"; return 0; }

# --- the page of an activator, and the scaler ---
page_port=$(free_port) scaler_port=$(free_port) scaler_web=$(free_port)
mkdir "$dir/page"
waiting() { # NUMBER; without one, the series is absent
    printf '# TYPE gpuscale_activator_waiting gauge\n%s' "${1:+gpuscale_activator_waiting{namespace=\"keda-test\",service=\"api\"\} $1
}" >"$dir/page/new"
    mv "$dir/page/new" "$dir/page/metrics"
}
waiting 0
start keda-page python3 -m http.server --bind 127.0.0.1 --directory "$dir/page" "$page_port"
cat >"$dir/keda.yml" <<END
scrape_configs:
- job_name: activator
  scrape_interval: 1s
  honor_labels: true
  fallback_scrape_protocol: PrometheusText0.0.4
  static_configs: [{targets: ['127.0.0.1:$page_port']}]
END
cert keda-scaler ca "/CN=keda-scaler" "IP:127.0.0.1"
start_scaler() {
    start keda-scaler "$gpuscale" keda-scaler --engine-config="$dir/keda.yml" --kubeconfig="$dir/admin.kubeconfig" \
        --grpc-listen-address="127.0.0.1:$scaler_port" --web.listen-address="127.0.0.1:$scaler_web" \
        --tls-cert-file="$dir/keda-scaler.crt" --tls-private-key-file="$dir/keda-scaler.key" --client-ca-file="$dir/ca.crt"
    wait_for "the scaler is ready" curl -fs "http://127.0.0.1:$scaler_web/readyz"
}
start_scaler

# --- KEDA ---
operator_port=$(free_port) metrics_port=$(free_port)
cert keda ca "/CN=keda" "DNS:localhost,IP:127.0.0.1,DNS:keda-metrics-apiserver.keda.svc"
mkdir "$dir/keda-certs"
cp "$dir/ca.crt" "$dir/keda-certs/ca.crt"
cp "$dir/keda.crt" "$dir/keda-certs/tls.crt"
cp "$dir/keda.key" "$dir/keda-certs/tls.key"
kubectl apply --server-side -f "$keda/crds" >/dev/null
wait_for "the CRDs of KEDA are established" \
    kubectl wait --for=condition=Established crd/scaledobjects.keda.sh crd/triggerauthentications.keda.sh --timeout=10s
kubectl create namespace keda >/dev/null
export WATCH_NAMESPACE= POD_NAMESPACE=keda KEDA_CLUSTER_OBJECT_NAMESPACE=keda
start keda-operator "$keda/operator" --metrics-bind-address=0 --health-probe-bind-address="127.0.0.1:$(free_port)" \
    --metrics-service-bind-address="127.0.0.1:$operator_port" --cert-dir="$dir/keda-certs"
start keda-adapter "$keda/adapter" --secure-port="$metrics_port" --bind-address=127.0.0.1 --port="$(free_port)" --client-ca-file="$dir/ca.crt" \
    --tls-cert-file="$dir/keda.crt" --tls-private-key-file="$dir/keda.key" --cert-dir="$dir/keda-certs" --metrics-service-address="localhost:$operator_port" \
    --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG"
unset WATCH_NAMESPACE POD_NAMESPACE KEDA_CLUSTER_OBJECT_NAMESPACE
kubectl create namespace keda-test >/dev/null
kubectl -n keda-test create secret generic scaler --from-file=ca="$dir/ca.crt" --from-file=cert="$dir/keda.crt" --from-file=key="$dir/keda.key" >/dev/null
serve_groups keda keda-metrics-apiserver "$metrics_port" external.metrics.k8s.io/v1beta1
kubectl apply -f - >/dev/null <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: keda-test}
spec:
  replicas: 0
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any}]}
---
apiVersion: keda.sh/v1alpha1
kind: TriggerAuthentication
metadata: {name: scaler, namespace: keda-test}
spec:
  secretTargetRef:
  - {parameter: caCert, name: scaler, key: ca}
  - {parameter: tlsClientCert, name: scaler, key: cert}
  - {parameter: tlsClientKey, name: scaler, key: key}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: api, namespace: keda-test}
spec:
  scaleTargetRef: {name: api}
  minReplicaCount: 0
  maxReplicaCount: 5
  pollingInterval: 3600 # only a push wakes it
  cooldownPeriod: 5
  triggers:
  - type: external-push
    authenticationRef: {name: scaler}
    metadata: {scalerAddress: "127.0.0.1:$scaler_port", enableTLS: "true", signal: gpuscale_activator_waiting, object: service/api, threshold: "8"}
END
replicas() { [ "$(kubectl -n keda-test get deployment api -o 'jsonpath={.spec.replicas}')" = "$1" ]; }
scaled_object() { kubectl -n keda-test get scaledobject api -o "jsonpath={.status.conditions[?(@.type=='$1')].status}"; }
condition_is() { [ "$(scaled_object "$1")" = "$2" ]; }
streams() { [ "$(curl -s "http://127.0.0.1:$scaler_web/metrics" | grep -c '^gpuscale_keda_streams.* 1$')" = 2 ]; }
target() { kubectl -n keda-test get hpa keda-hpa-api -o 'jsonpath={.spec.metrics[0].external.target.averageValue}'; }
wait_for "KEDA takes the ScaledObject" condition_is Ready True
wait_for "KEDA opens both streams over mutual TLS" streams
replicas 0 || fail "an idle queue has started a pod"
wait_for "KEDA makes an autoscaler with the threshold as its target" eval '[ "$(target)" = 8 ]'
ok "KEDA's operator $(basename "$keda" | sed 's/keda-//') uses gpuscale keda-scaler over mutual TLS"

stop keda-scaler
start_scaler
wait_for "KEDA opens the streams again after a restart of the scaler" streams
! grep 'the server is stopping' "$dir/keda-operator.log" || fail "the end of the scaler is an error of KEDA"
ok "KEDA opens the streams again after a restart of the scaler, whose end is not an error"

waiting 20
wait_for "a push wakes the Deployment" eval '! replicas 0'
ok "a push wakes a Deployment at zero"
wait_for "KEDA's autoscaler reads the value: 20 for 8 are 3 replicas" replicas 3
ok "KEDA's autoscaler has the value of the scaler"

# Before the value is absent: KEDA starts again when a ScaledObject changes.
kubectl -n keda-test patch scaledobject api --type=merge -p '{"spec": {"pollingInterval": 1}}' >/dev/null
wait_for "KEDA opens the streams again" streams
waiting
failing() { kubectl -n keda-test get hpa keda-hpa-api -o "jsonpath={.status.conditions[?(@.type=='ScalingActive')].reason}" | grep -q FailedGetExternalMetric; }
wait_for "an absent value is an error of the autoscaler" failing
trigger_error() { [ "$(kubectl -n keda-test get scaledobject api -o "jsonpath={.status.conditions[?(@.type=='Ready')].reason}")" = TriggerError ]; }
wait_for "an absent value is an error of the trigger" trigger_error
grep -q 'code = NotFound.*service keda-test/api' "$dir/keda-operator.log" || fail "the operator's log lacks the reason"
replicas 3 || fail "an absent value has changed the replicas"
ok "an absent value is an error with its reason, and changes nothing"

waiting 0
wait_for "an idle queue ends at zero" replicas 0
ok "KEDA scales to zero after an idle queue"

kubectl -n keda-test delete scaledobject api --timeout=300s >/dev/null
stop keda-adapter
stop keda-operator
stop keda-scaler
stop keda-page
kubectl delete apiservice v1beta1.external.metrics.k8s.io >/dev/null
kubectl delete namespace keda keda-test --wait=false >/dev/null
