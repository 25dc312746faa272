#!/bin/sh
# `gpuscale doctor` on `gpuscale up`: no findings while all is well; then faults are injected one after the other, each must be named
# first, and its end must end the finding. The matrix of all faults is tests/doctor/faults.yaml.
. "$(dirname "$0")/lib.sh"
need kubectl jq curl python3

"$gpuscale" doctor --kubeconfig "$dir/none" >"$dir/none.txt" && fail "success without a cluster" || [ $? = 2 ] || fail "exit code without a cluster"
grep -q 'Nothing was examined' "$dir/none.txt" || fail "the report without a cluster"

# This machine: simulated GPUs and an exporter.
own_gpus doctor
export GPUSCALE_NVML_LIBRARY="$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so"
node() { "$gpuscale" doctor --this-node -o json >"$dir/report.json"; }
node_is() { node || true; [ "$(jq -r '.findings[0].check // .result' "$dir/report.json")" = "$1" ]; }
"$gpuscale" sim create 2xTesla-T4 >/dev/null
"$gpuscale" exporter --address 127.0.0.1:9400 >"$dir/exporter.log" 2>&1 &
echo $! >"$dir/exporter.pid"
wait_for "no findings on this machine" node_is healthy
"$gpuscale" sim lose 1
wait_for "a lost GPU is a finding" node_is gpu-lost
"$gpuscale" sim restore 1
"$gpuscale" sim fail nvmlInit_v2 --code DRIVER_NOT_LOADED
wait_for "an unloaded driver is a finding" node_is driver-not-loaded
"$gpuscale" sim clear
wait_for "no findings after that" node_is healthy
kill -TERM "$(cat "$dir/exporter.pid")" && wait "$(cat "$dir/exporter.pid")" || true
rm "$dir/exporter.pid"
"$gpuscale" sim delete >/dev/null
unset GPUSCALE_SIM GPUSCALE_NVML_LIBRARY

# A cluster in which little can be read: that is no finding, but it is reported.
port=$(free_port)
python3 "$source/tests/integration/doctor_server.py" "$port" &
echo $! >"$dir/server.pid"
cat >"$dir/reader" <<Y
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:$port"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
Y
wait_for "the API responds" curl -sSf "http://127.0.0.1:$port/api/v1/nodes"
"$gpuscale" doctor --kubeconfig "$dir/reader" -o json >"$dir/report.json" || fail "findings: $(cat "$dir/report.json")"
# The exporter is on the second page.
jq -e '.result == "healthy" and ([.notExamined[].what] | contains(["services", "deployments", "events"]) and (contains(["pods"]) or contains(["daemonsets"]) | not))' \
    "$dir/report.json" >/dev/null || fail "not examined: $(cat "$dir/report.json")"
echo "ok: lists in pages, forbidden lists and wrong responses"

start_up --gpus 4xA100-SXM4-80GB --image "intent-api:*=$intent_api_command" --horizontal-pod-autoscaler-sync-period 1s \
    --filename "$source/examples/demo/intent-api.yaml"
doctor() { "$gpuscale" doctor -o json >"$dir/report.json"; }
first() { doctor || true; jq -r '.findings[0].check // "none"' "$dir/report.json"; }
first_is() { [ "$(first)" = "$1" ]; }
healthy() { doctor && jq -e '.result == "healthy"' "$dir/report.json"; }
wait_for "the pod is ready" pods_ready intent-api 1
wait_for "no findings" healthy
jq -e '.examined | length == 2' "$dir/report.json" >/dev/null || fail "the cluster and Prometheus are examined: $(cat "$dir/report.json")"

# fault CHECK APPLY UNDO: shell commands that inject the fault and remove it.
fault() {
    sh -ec "$2" >"$dir/fault.log" 2>&1 || fail "$1: $(cat "$dir/fault.log")"
    soon first_is "$1" || fail "$1 is not first: $(cat "$dir/report.json")"
    jq -e '.findings[0] | .what and .evidence and .why and .fix and .subject' "$dir/report.json" >/dev/null || fail "$1: an incomplete finding"
    echo "ok: $1: $(jq -r '.findings[0].what' "$dir/report.json")"
    sh -ec "$3" >"$dir/fault.log" 2>&1 || fail "$1: $(cat "$dir/fault.log")"
    soon healthy || fail "$1 does not end: $(cat "$dir/report.json")"
}
# hpa PATH VALUE: sets a field of the autoscaler.
hpa="kubectl patch hpa intent-api --type=json -p"
set_hpa() { echo "$hpa '[{\"op\":\"replace\",\"path\":\"/spec/$1\",\"value\":$2}]'"; }
export dir

fault metric-not-served "$(set_hpa metrics/0/pods/metric/name '"DCGM_CUSTOM_PROCESS_SM_UTL"')" \
    "$(set_hpa metrics/0/pods/metric/name '"DCGM_CUSTOM_PROCESS_SM_UTIL"')"
fault scale-target "$(set_hpa scaleTargetRef/name '"intent"')" "$(set_hpa scaleTargetRef/name '"intent-api"')"
fault target-above-ceiling "$(set_hpa metrics/0/pods/target/averageValue '"95"')" "$(set_hpa metrics/0/pods/target/averageValue '"20"')"
fault external-metrics-missing "$hpa '[{\"op\":\"add\",\"path\":\"/spec/metrics/-\",\"value\":{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"q\"},\"target\":{\"type\":\"Value\",\"value\":\"1\"}}}}]'" \
    "$hpa '[{\"op\":\"remove\",\"path\":\"/spec/metrics/1\"}]'"
fault metric-wrong-object "$hpa '[{\"op\":\"add\",\"path\":\"/spec/metrics/-\",\"value\":{\"type\":\"Object\",\"object\":{\"metric\":{\"name\":\"DCGM_CUSTOM_PROCESS_SM_UTIL\"},\"describedObject\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"intent\"},\"target\":{\"type\":\"Value\",\"value\":\"20\"}}}}]'" \
    "$hpa '[{\"op\":\"remove\",\"path\":\"/spec/metrics/1\"}]'"
fault two-hpas "kubectl autoscale deployment intent-api --name=second --max=3 --cpu-percent=80" "kubectl delete hpa second"
fault scaling-disabled "kubectl scale deployment intent-api --replicas=0" "kubectl scale deployment intent-api --replicas=1"
fault pod-image "kubectl set image deployment/intent-api api=absent:1" "kubectl set image deployment/intent-api api=intent-api:1.0"
fault selector-overlap "kubectl run stray --image=intent-api:1.0 --labels=app=intent-api" "kubectl delete pod stray --now"
fault apiservice-service "kubectl create -f - <<Y
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec: {group: external.metrics.k8s.io, version: v1beta1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {namespace: default, name: absent}}
Y" "kubectl delete apiservice v1beta1.external.metrics.k8s.io"
fault exporter-selects-no-node "kubectl create -f - <<Y
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: dcgm-exporter}
spec: {selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, spec: {nodeSelector: {accelerator: nvidia}, containers: [{name: exporter, image: 'nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3'}]}}}
Y" "kubectl delete daemonset dcgm-exporter"
fault monitor-endpoints "kubectl create -f - <<Y
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: dcgm-exporter}
spec: {selector: {matchLabels: {app: d}}, endpoints: [{port: metrics}, {interval: 15s}]}
Y" "kubectl delete servicemonitor dcgm-exporter"
fault adapter-prometheus "kubectl create -f - <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: adapter}
spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: 'registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0', args: ['--prometheus-url=http://prometheus.monitoring.svc:9090']}]}}}
Y" "kubectl delete deployment adapter"
GPUSCALE_SIM=$segment "$gpuscale" sim xid 2 79
soon first_is xid-error || fail "xid-error is not first: $(cat "$dir/report.json")"
echo "ok: xid-error: $(jq -r '.findings[0].what' "$dir/report.json")"
"$gpuscale" doctor >"$dir/report.txt" && fail "exit code with findings" || [ $? = 1 ] || fail "exit code with findings"
grep -q '^1\. \[series\] GPU ' "$dir/report.txt" || fail "$(cat "$dir/report.txt")"
grep -q '^   fix  .*kubectl drain' "$dir/report.txt" || fail "$(cat "$dir/report.txt")"
# --watch: one line for each examination.
"$gpuscale" doctor --watch --interval 1s -o json >"$dir/watch" &
echo $! >"$dir/watch.pid"
twice() { [ "$(wc -l <"$dir/watch")" -ge 2 ]; }
wait_for "two examinations of --watch" twice
[ "$(head -n 2 "$dir/watch" | jq -r .result | sort -u)" = findings ] || fail "--watch: $(cat "$dir/watch")"
stop_up
