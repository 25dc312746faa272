#!/bin/sh
# Compares prometheus-adapter and gpuscale adapter with the same rules, the same Prometheus and the
# same Kubernetes API (that of `gpuscale up`): responses to the same requests must be equal. `make
# peers` builds prometheus-adapter.
set -eu
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
here=$source/tests/differential/adapter
program=$build/tests/differential/adapter-differential
need prometheus promtool kubectl curl awk
real=$("$source/tests/differential/prometheus_adapter.sh" --no-build) || skip "no prometheus-adapter has been built (make peers)"

pids=
stop_all() {
    for p in $pids; do kill -TERM "$p" 2>/dev/null || true; done
    for p in $pids; do wait "$p" 2>/dev/null || true; done
    pids=
}
trap 'code=$?; stop_all; (exit $code); finish' EXIT

# Series of the last half hour and the next two hours, so that all queries during the test have the
# same result.
now=$(date +%s)
awk -v now="$now" '/^#/ || !NF { next }
    { for (t = now - 1800; t <= now + 7200; t += 15) {
        v = $2
        if (NF > 2) v = sprintf("%.6f", $2 + $3 * (t - now + 1800))
        printf "%s %s %d\n", $1, v, t } }
    END { print "# EOF" }' "$here/series.txt" >"$dir/data.om"
promtool tsdb create-blocks-from openmetrics "$dir/data.om" "$dir/tsdb" >"$dir/blocks.log" 2>&1 ||
    { tail "$dir/blocks.log"; fail "series"; }
printf 'global: {}\n' >"$dir/prometheus.yml"
prometheus_port=$(shuf -i 20000-29999 -n 1)
prometheus --config.file="$dir/prometheus.yml" --web.listen-address="127.0.0.1:$prometheus_port" --log.level=error \
    --storage.tsdb.path="$dir/tsdb" --storage.tsdb.retention.time=100y >"$dir/prometheus.log" 2>&1 &
prometheus_pid=$!

"$gpuscale" up --data-dir="$dir/data" --api-port=0 --exporter-port=0 --node-name=up-node --gpus=1xA100-SXM4-80GB \
    >"$dir/up.log" 2>&1 &
up_pid=$!
trap 'code=$?; stop_all; kill -TERM $prometheus_pid 2>/dev/null; (exit $code); finish' EXIT
wait_for "Kubernetes API" kubectl get namespaces
wait_for "Prometheus" curl -sf "http://127.0.0.1:$prometheus_port/-/ready"
kubectl apply -f "$here/objects.yaml" >"$dir/apply.log" || { cat "$dir/apply.log"; fail "objects"; }
awk '/certificate-authority-data:/ { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/ca.pem"

# start NAME COMMAND…: sets port.
start() {
    name=$1
    shift
    port=$(shuf -i 20000-29999 -n 1)
    "$@" --config="$dir/rules.yaml" --prometheus-url="http://127.0.0.1:$prometheus_port" --secure-port="$port" \
        --bind-address=127.0.0.1 --cert-dir="$dir/cert-$name" --lister-kubeconfig="$KUBECONFIG" \
        --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
        --authentication-skip-lookup --client-ca-file="$dir/ca.pem" --metrics-relist-interval=2s --metrics-max-age=10m \
        >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
}

listed() {
    [ "$(curl -sk --cert "$dir/cert.pem" --key "$dir/key.pem" "https://127.0.0.1:$1/apis/custom.metrics.k8s.io/v1beta1" |
        grep -c singularName)" -gt 0 ]
}

awk '/client-certificate-data:/ { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/cert.pem"
awk '/client-key-data:/ { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/key.pem"

# compare NAME RULES: RULES in the format of the adapter.
compare() {
    echo "== $1"
    cp "$2" "$dir/rules.yaml"
    start real "$real"
    real_port=$port
    start ours "$gpuscale" adapter --gpu-metrics=false --pod-series=false
    our_port=$port
    wait_for "prometheus-adapter's list" listed "$real_port"
    wait_for "our list" listed "$our_port"
    "$program" "$KUBECONFIG" "https://127.0.0.1:$real_port" "https://127.0.0.1:$our_port" "$here/requests.txt" \
        "$here/differences.txt" || { tail -n 20 "$dir/ours.log"; fail "$1"; }
    stop_all
}

compare "sample configuration" "$here/sample.yaml"
"$program" defaults >"$dir/defaults.yaml"
for pod in web-0 web-1; do
    kubectl patch pod -n ml $pod --subresource=status --type=merge -p '{"status":{"phase":"Running"}}' >"$dir/patch.log"
done
kubectl apply -f - >"$dir/node.log" <<'EOF'
apiVersion: v1
kind: Node
metadata: {name: gpu-node-1}
EOF
compare "resource metrics" "$here/resource.yaml"
compare "default rules of the chart" "$dir/defaults.yaml"
# The manifests of the guides, and the guides' own files if they are available.
for guides in "$source/examples/guides" "$source/../shared/walkthroughs"; do
    [ -d "$guides" ] || continue
    compare "$guides/ack" "$guides/ack/adapter-rules.yaml"
    awk '/^  custom:/ { on = 1; print "rules:"; next } on { sub(/^  /, ""); print }' "$guides/eks/prometheus-adapter-values.yaml" \
        >"$dir/eks.yaml"
    compare "$guides/eks" "$dir/eks.yaml"
done
echo "ok: the same answers"
