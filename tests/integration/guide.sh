#!/bin/sh
# Runs the ACK guide on one machine with its manifests (examples/guides/ack), curl, hey and kubectl:
# replicas must follow the GPU utilization up, and back to one, with the HPA as autoscaling/v2 and
# as v2beta1. Flags shorten the windows. If the guide's own files are available, they are applied,
# too, and must not change anything.
. "$(dirname "$0")/lib.sh"
need kubectl hey curl jq
files=$source/examples/guides/ack
deployment=bert-intent-detection
metric=DCGM_CUSTOM_PROCESS_SM_UTIL

start_up --gpus 8xTesla-V100-SXM2-16GB \
    --image "registry.cn-hangzhou.aliyuncs.com/ai-samples/bert-intent-detection:1.0.1=$intent_api_command" \
    --horizontal-pod-autoscaler-sync-period 1s \
    --horizontal-pod-autoscaler-downscale-stabilization 4s

kubectl create -f "$files/bert-intent-detection.yaml"
apply_original ack/bert-intent-detection.yaml
wait_for "one pod is ready" pods_ready $deployment 1
has_address() { [ -n "$(service_address $deployment-svc)" ]; }
wait_for "the service has an address" has_address
url=http://$(service_address $deployment-svc)
# The guide's Deployment has no readiness probe: its pod is ready before it listens.
wait_for "curl $url/predict?query=Music" sh -c "[ \"\$(curl -sS '$url/predict?query=Music')\" = PlayMusic ]"

pod_value() {
    kubectl get --raw "/apis/custom.metrics.k8s.io/$1/namespaces/default/pods/%2A/$metric?labelSelector=app%3D$deployment" |
        jq -re '.items[0].value' | grep . # jq accepts an empty reply
}
wait_for "the pod's GPU utilisation is served" pod_value v1beta1
wait_for "in v1beta2 as well" pod_value v1beta2
kubectl get --raw /apis/custom.metrics.k8s.io/v1beta1 | jq -e ".resources[] | select(.name == \"pods/$metric\")" >/dev/null ||
    fail "discovery does not list pods/$metric"

# Each logged decision "average A of N pods (target 20)" must propose ceil(N x A / 20), unless it is
# within the tolerance.
check_formula() {
    sed -n 's/.*average \([0-9.]*\) of \([0-9]*\) pods* (target 20).*outside.*: \([0-9]*\) replicas.*/\1 \2 \3/p' "$dir/up.log" >"$dir/decisions"
    [ -s "$dir/decisions" ] || fail "no decision was printed"
    awk '{ want = $1 * $2 / 20; up = int(want); if (up < want - 1e-9) up++
           if (up != $3) { print "average " $1 " of " $2 " pods gave " $3 ", not " up; bad = 1 } }
         END { exit bad }' "$dir/decisions" || fail "ceil(current x value / 20) does not hold"
}

for hpa in hpa-v2 hpa-v2beta1; do
    echo "== $hpa.yaml"
    kubectl create -f "$files/$hpa.yaml"
    apply_original ack/$hpa.yaml
    wait_for "the autoscaler reads the metric" sh -c "kubectl get hpa gpu-hpa | grep -q ' 0/20 '"
    hey -n 10000 -c 200 "$url/predict?query=music" >"$dir/hey.log" 2>&1 &
    hey_pid=$!
    wait_for "scaled out" replicas_above $deployment 2
    wait_for "more than one pod serves" sh -c "[ \$(kubectl get deployment $deployment -o 'jsonpath={.status.readyReplicas}') -gt 1 ]"
    wait $hey_pid || fail "hey"
    grep -q '\[200\]' "$dir/hey.log" || fail "hey got no answer"
    wait_for "scaled in to one" replicas_are $deployment 1
    wait_for "one pod is left" sh -c "[ \$(kubectl get pods --no-headers | wc -l) = 1 ]"
    kubectl describe hpa gpu-hpa >"$dir/describe"
    grep -q "\"$metric\" on pods" "$dir/describe" || fail "kubectl describe hpa does not show the metric"
    grep -q 'SuccessfulRescale.*pods metric '$metric' above target' "$dir/describe" || fail "no event of the scale-out"
    grep -q 'SuccessfulRescale.*All metrics below target' "$dir/describe" || fail "no event of the scale-in"
    check_formula
    kubectl delete hpa gpu-hpa
done
stop_up
nothing_left || fail "processes remain"
