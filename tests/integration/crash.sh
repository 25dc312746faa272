#!/bin/sh
# Kills a pod, the exporter and the whole program with SIGKILL. The described state must be
# restored, no process may remain, and the simulated device must not leak memory.
. "$(dirname "$0")/lib.sh"
need kubectl jq

cat >"$dir/app.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: crash-test}
spec:
  replicas: 2
  selector: {matchLabels: {app: crash-test}}
  template:
    metadata: {labels: {app: crash-test}}
    spec:
      containers:
      - name: api
        image: intent-api
        resources: {limits: {nvidia.com/gpu: 1}}
Y
up() { start_up --gpus 2xA100-SXM4-80GB --image "intent-api=$intent_api_command" "$@"; }
up -f "$dir/app.yaml"
wait_for "two pods are ready" pods_ready crash-test 2

restarts() { kubectl get pods -o json | jq -e "[.items[].status.containerStatuses[].restartCount] | add >= $1"; }
samples() {
    kubectl get --raw '/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/%2A/DCGM_CUSTOM_PROCESS_MEM_USED' | jq -es "length == 1 and (.[0].items | length == $1)"
}
wait_for "both pods' GPU memory is served" samples 2

# Prints the processes of this run's pods.
own() {
    for pid in $(pgrep -x intent-api); do
        grep -zqsx "GPUSCALE_SIM=$segment" "/proc/$pid/environ" && echo "$pid"
    done
}
kill -9 "$(own | head -n 1)"
wait_for "the killed container is restarted" restarts 1
wait_for "both are ready again" pods_ready crash-test 2

kill -9 "$(pgrep -f "gpuscale exporter .*$dir")"
wait_for "the exporter is back" samples 2

kill -9 "$up_pid"
wait "$up_pid" 2>/dev/null || true
up_pid=
wait_for "nothing is left running" nothing_left
# Another gpuscale that starts meanwhile deletes simulated GPUs without an owner.
status=$("$gpuscale" sim status -o json --name "$segment" 2>"$dir/status.log" || grep -q 'do not exist' "$dir/status.log") ||
    fail "the simulated GPUs cannot be read: $(cat "$dir/status.log")"
used=$(echo "$status" | jq '[.gpus[]?.memoryUsedBytes] | add // 0')
[ "${used:-0}" = 0 ] || fail "the simulated GPUs still hold $used bytes"

up
wait_for "objects and pods are back" pods_ready crash-test 2
scaling_works
stop_up
nothing_left || fail "processes remain"
[ ! -e "/dev/shm$segment" ] || fail "the segment $segment is left"
