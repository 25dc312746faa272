#!/bin/sh
# The file of examples/load for Taurus, for a few seconds: its requests reach the example service.
. "$(dirname "$0")/lib.sh"
need kubectl curl bzt ab
start_up --gpus 4xTesla-T4 -f "$source/examples/guides/eks/vision-api.yaml"
wait_for "the pods are ready" pods_ready vision-api 2
host=$(kubectl get service vision-api -o 'jsonpath={.spec.clusterIP}')
wait_for "the service responds" curl -sf "http://$host:8000/ping"
cd "$dir"
bzt -o settings.check-updates=false -o modules.console.disable=true -o settings.artifacts-dir="$dir/bzt" -o execution.0.hold-for=5s \
    -o settings.env.HOST="$host" -o settings.env.PORT=8000 "$source/examples/load/vision-api-bzt.yaml" >"$dir/bzt.log" 2>&1 || fail "bzt"
grep -qE 'Samples count: [1-9][0-9]*, 0.00% failures' "$dir/bzt.log" || fail "bzt has no successful requests"
stop_up
echo "ok: bzt"
