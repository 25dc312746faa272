#!/bin/sh
# The guide of ACK on a pool that starts empty: the first replica brings the first node, load brings replicas and nodes, and
# both go after the load.
. "$(dirname "$0")/lib.sh"
need kubectl hey curl

start_up --gpus none --pool 'v100=0..4x1,model=Tesla V100-SXM2-16GB,startup=500ms,price=2.48' --scan-interval 500ms \
    --scale-down-unneeded-time 3s --scale-down-delay-after-add 0s --node-delete-delay-after-taint 0s \
    --adapter-config "$source/examples/guides/ack/adapter-rules.yaml" \
    --image "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert-intent-detection:*=$intent_api_command" \
    --horizontal-pod-autoscaler-downscale-stabilization 5s
nodes_are() { [ "$(kubectl get nodes -l gpuscale.dev/pool=v100 -o name | wc -l)" = "$1" ]; }
nodes_above() { [ "$(kubectl get nodes -l gpuscale.dev/pool=v100 -o name | wc -l)" -gt "$1" ]; }
nodes_are 0 || fail "the pool is not empty"

kubectl create -f "$source/examples/guides/ack/bert-intent-detection.yaml" >/dev/null
wait_for "the first replica has a node" pods_ready bert-intent-detection 1
kubectl get events | grep -q 'TriggeredScaleUp.*\[{v100 0->1 (max: 4)}\]' || fail "the first replica did not trigger the scale-up"
kubectl create -f "$source/examples/guides/ack/hpa-v2.yaml" >/dev/null
url=http://$(service_address bert-intent-detection-svc)
wait_for "the service responds" curl -sf "$url/predict?query=Music"
hey -z 120s -c 100 "$url/predict?query=music" >"$dir/hey" 2>&1 &
load=$!
pids="$pids $load"
wait_for "replicas are added" replicas_above bert-intent-detection 1
wait_for "nodes are added for them" nodes_above 1
ready_above() { [ "$(kubectl get deployment "$1" -o 'jsonpath={.status.readyReplicas}')" -gt "$2" ]; }
wait_for "they are ready" ready_above bert-intent-detection 1
hpa=$(kubectl get hpa -o jsonpath='{.items[0].metadata.name}')
"$gpuscale" explain hpa -n default "$hpa" | grep -q '^Start of a new node of pool v100: p90 ' ||
    fail "explain hpa has no start-up time of nodes"
# With other settings: in the terminal, over HTTP, and on the recorded history.
prometheus=$(engine_url)
"$gpuscale" explain hpa "$hpa" --what-if max=1 | grep -q '^Result: 1 replica: ' || fail "explain hpa ignores --what-if max=1"
curl -sf "$prometheus/api/v1/gpuscale/explain?namespace=default&name=$hpa&max=1" | grep -q '"desired":1,' || fail "the explanation over HTTP ignores max=1"
history() {
    "$gpuscale" explain hpa "$hpa" --what-if max=1 --history 1m --source "$prometheus" --horizontal-pod-autoscaler-sync-period 1s \
        >"$dir/history" 2>"$dir/history.log" && grep -q '^With max 1 you would have used .* hours less and ' "$dir/history"
}
wait_for "the history says what fewer replicas would have saved" history
kill "$load"
wait_for "one replica is left after the load" replicas_are bert-intent-detection 1
wait_for "one node is left" nodes_are 1
kubectl delete -f "$source/examples/guides/ack/hpa-v2.yaml" -f "$source/examples/guides/ack/bert-intent-detection.yaml" >/dev/null
wait_for "the pool is empty again" nodes_are 0
stop_up
wait_for "nothing is left" nothing_left
