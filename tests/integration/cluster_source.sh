#!/bin/sh
# The engine of a cluster without a URL: the Service of a gpuscale or a Prometheus, by the labels of
# their charts, through the proxy of the API server. Several that can be meant are an error that lists
# them.
. "$(dirname "$0")/lib.sh"
need kubectl curl
unset GPUSCALE_URL PROMETHEUS_URL 2>/dev/null || true
start_up --gpus 2xTesla-T4
port=$(engine_url | sed 's/.*://')
# The kubeconfig of an ordinary cluster does not name the engine.
sed '/extensions:/,/simulatedGPUs/d' "$KUBECONFIG" >"$dir/plain"
! grep -q engineURL "$dir/plain" || fail "the kubeconfig names the engine"
KUBECONFIG=$dir/plain

# says CODE TEXT COMMAND…
says() {
    want=$1 text=$2 code=0
    shift 2
    "$@" >"$dir/out" 2>&1 || code=$?
    grep -qF -- "$text" "$dir/out" || { cat "$dir/out" && fail "no \"$text\" from: $*"; }
    [ "$code" = "$want" ] || { cat "$dir/out" && fail "exit code $code, not $want, from: $*"; }
    echo "ok: $text"
}
# service NAMESPACE NAME PORT_NAME PORT LABELS [CLUSTER_IP]: in front of the engine of this test.
service() {
    kubectl create namespace "$1" 2>/dev/null || true
    kubectl apply -f - <<Y
apiVersion: v1
kind: Service
metadata: {namespace: $1, name: $2, labels: {$5}}
spec:
  ${6:+clusterIP: $6}
  ports: [{name: $3, port: $4, targetPort: $port}]
---
apiVersion: v1
kind: Endpoints
metadata: {namespace: $1, name: $2}
subsets: [{addresses: [{ip: 127.0.0.1}], ports: [{name: $3, port: $port}]}]
Y
}

says 1 "no Service of gpuscale or Prometheus in the cluster https://127.0.0.1:" "$gpuscale" query 'vector(1)'
# A server at the default address need not be of this cluster.
"$gpuscale" engine --config.file=/dev/null --web.listen-address=127.0.0.1:9090 >"$dir/engine.log" 2>&1 &
pids=$!
wait_for "an engine at the default address" curl -sSf http://127.0.0.1:9090/-/ready
says 0 "source: http://localhost:9090 (the default; no Service of gpuscale or Prometheus in the cluster https://127.0.0.1:" "$gpuscale" query 'vector(1)'
kill "$pids" && wait "$pids" || true
pids=
service default other http 80 "app.kubernetes.io/name: grafana"
says 1 "no Service of gpuscale or Prometheus" "$gpuscale" query 'vector(1)'

# prometheus-community/prometheus
service ml prometheus-server http 80 "app.kubernetes.io/name: prometheus, app.kubernetes.io/component: server"
says 0 "/api/v1/namespaces/ml/services/prometheus-server:80/proxy (of the Service ml/prometheus-server in the cluster)" "$gpuscale" query 'sum(DCGM_FI_DEV_GPU_UTIL)'
says 0 "(of the Service ml/prometheus-server in the cluster)" "$gpuscale" report --since 1h
says 0 "did you mean DCGM_FI_DEV_GPU_UTIL?" "$gpuscale" query DCGM_FI_DEV_GPU_UTL
says 0 "Tesla T4" env GPUSCALE_NVML_LIBRARY=/nonexistent "$gpuscale" top --once
says 0 "(of the Service ml/prometheus-server in the cluster)" env GPUSCALE_NVML_LIBRARY=/nonexistent "$gpuscale" top --once

# kube-prometheus-stack has two Services of one server. Its operator's is headless.
kubectl -n ml delete service prometheus-server
service monitoring kube-prometheus-stack-prometheus http-web 9090 "app: kube-prometheus-stack-prometheus"
service monitoring prometheus-operated http-web 9090 "operated-prometheus: 'true'" None
says 0 "/api/v1/namespaces/monitoring/services/kube-prometheus-stack-prometheus:9090/proxy" "$gpuscale" query 'vector(1)'
kubectl -n monitoring delete service kube-prometheus-stack-prometheus
says 0 "(of the Service monitoring/prometheus-operated in the cluster)" "$gpuscale" query 'vector(1)'

# The API server has the last word.
kubectl -n monitoring delete endpoints prometheus-operated
says 1 'the API server: endpoints "prometheus-operated" not found' "$gpuscale" query 'vector(1)'
service monitoring prometheus-operated http-web 9090 "operated-prometheus: 'true'" None

# Two servers: the user chooses.
service ml prometheus-server http 80 "app.kubernetes.io/name: prometheus"
says 2 "several Services of a Prometheus: ml/prometheus-server, monitoring/prometheus-operated." "$gpuscale" query 'vector(1)'
says 2 "several Services of a Prometheus" "$gpuscale" report --since 1h
says 0 "value" "$gpuscale" query --url "http://127.0.0.1:$port" -o csv 'vector(1)'

# A gpuscale in the cluster is preferred.
service gpuscale gpuscale-engine http 9090 "app.kubernetes.io/name: gpuscale-engine"
says 0 "(of the Service gpuscale/gpuscale-engine in the cluster)" "$gpuscale" query 'vector(1)'

# The extension of the kubeconfig comes before, also for doctor when PROMETHEUS_URL names another one.
says 0 "(of the kubeconfig)" env KUBECONFIG="$dir/data/kubeconfig" "$gpuscale" query 'vector(1)'
env KUBECONFIG="$dir/data/kubeconfig" PROMETHEUS_URL=http://127.0.0.1:1 "$gpuscale" doctor >"$dir/out" 2>&1 || true
grep -q "Prometheus http://127.0.0.1:$port" "$dir/out" || { cat "$dir/out" && fail "doctor ignores the URL of the kubeconfig"; }
stop_up
