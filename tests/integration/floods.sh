#!/bin/sh
# Floods of connections: the exporter, the engine, the adapter, the API of `gpuscale up` and the
# autoscaler must respond on their health path while clients are silent, slow, or disconnect within
# a request, and must not keep dead sockets.
. "$(dirname "$0")/lib.sh"
need curl python3
here=$(dirname "$0")
start_up --gpus 1xTesla-T4
api=$(sed -n 's#.*https://127.0.0.1:\([0-9]*\).*#\1#p' "$KUBECONFIG" | head -n 1)

# port_in LOG PATTERN: the port after the pattern.
port_in() { sed -n "s#.*$2:\([0-9]*\).*#\1#p" "$dir/$1.log" | head -n 1; }
has_port() { [ -n "$(port_in "$1" "$2")" ]; }

export GPUSCALE_SIM=/gpuscale-floods-$$
also_remove=/dev/shm$GPUSCALE_SIM
"$gpuscale" exporter --simulate 2xTesla-T4 --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
printf 'global: {}\n' >"$dir/prometheus.yml"
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 >"$dir/engine.log" 2>&1 &
pids="$pids $!"
"$gpuscale" hpa --kubeconfig="$KUBECONFIG" --web.listen-address=127.0.0.1:0 >"$dir/hpa.log" 2>&1 &
pids="$pids $!"
wait_for "the exporter listens" has_port exporter 'http://127.0.0.1'
wait_for "the engine listens" has_port engine 'listening on http://127.0.0.1'
wait_for "the autoscaler listens" has_port hpa 'http://127.0.0.1'
printf 'rules: []\n' >"$dir/rules.yaml"
"$gpuscale" adapter --config="$dir/rules.yaml" --prometheus-url="http://127.0.0.1:$(port_in engine 'listening on http://127.0.0.1')" \
    --secure-port=0 --bind-address=127.0.0.1 --cert-dir="$dir/cert" --max-connections=256 --lister-kubeconfig="$KUBECONFIG" \
    --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" >"$dir/adapter.log" 2>&1 &
pids="$pids $!"
wait_for "the adapter listens" has_port adapter 'listening on https://127.0.0.1'

flood() { python3 "$here/floods.py" "$@" || fail "$1"; }
flood exporter "$(port_in exporter 'http://127.0.0.1')" /health
flood engine "$(port_in engine 'listening on http://127.0.0.1')" /-/healthy
flood autoscaler "$(port_in hpa 'http://127.0.0.1')" /healthz
flood adapter "$(port_in adapter 'listening on https://127.0.0.1')" /livez tls
flood "API of up" "$api" /livez tls
scaling_works
