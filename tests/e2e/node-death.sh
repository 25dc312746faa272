# A node fails with one of the adapter's replicas, in the highly available form of deploy/. Measures
# how long the metrics of the remaining pods are unavailable. This is the last part, because the
# node does not return.

on_two_nodes() { # of the running replicas
    [ "$(kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuscale-adapter -o json |
        jq '[.items[] | select(.metadata.deletionTimestamp == null and .status.phase == "Running") | .spec.nodeName] | [length, (unique | length)] == [2, 2]')" = true ]
}
kubectl apply -f "$deploy/adapter-ha.yaml" >/dev/null
kubectl -n monitoring rollout status deployment/gpuscale-adapter --timeout=300s >/dev/null || fail "the highly available adapter does not roll out: $(tail -n 20 "$dir"/containers/*adapter*)"
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null || fail "the Deployment with the requested metrics"
for i in 1 2 3; do
    kubectl -n monitoring rollout restart deployment/gpuscale-adapter >/dev/null
    kubectl -n monitoring rollout status deployment/gpuscale-adapter --timeout=300s >/dev/null || fail "rolling update $i"
    wait_for "both replicas run on different nodes after rolling update $i" on_two_nodes
done
ok "after each of three rolling updates the replicas are on different nodes"

# The default of Kubernetes (50 s). The other parts use longer times.
stop controller-manager
start_controller_manager --node-monitor-grace-period=50s
load bert-intent-detection 20
pod=$(kubectl get pods -l app=bert-intent-detection -o jsonpath='{.items[0].metadata.name}')
path=namespaces/default/pods/$pod/DCGM_FI_DEV_GPU_UTIL
answers() { kubectl get --raw "$api/$path" --request-timeout=5s >/dev/null 2>&1; }
wait_for "the metric before" answers
if [ "$(kubectl get pod "$pod" -o jsonpath='{.spec.nodeName}')" = gpu-0 ]; then victim=gpu-1 number=2; else victim=gpu-0 number=1; fi

kill_node $victim $number
died=$(date +%s.%N)
since() { echo "$(date +%s.%N) $died" | awk '{ printf "%.1f", $1 - $2 }'; }
wait_for "metrics after the death of a node" answers
first=$(since)
# Available again: 40 successful responses in a row.
failed=0 row=0 steady=$first
until=$(($(date +%s) + patience))
while [ $row -lt 40 ]; do
    [ "$(date +%s)" -lt $until ] || fail "requests go on failing after the death of a node"
    if answers; then
        [ $row != 0 ] || steady=$(since)
        row=$((row + 1))
        sleep 0.5
    else
        row=0 failed=$((failed + 1))
    fi
done
ok "$victim died: the first answer after $first s, all of them from $steady s on ($failed requests failed in between)"
replaced() {
    kubectl -n monitoring get pods -o json | jq -e --arg dead "$victim" '[.items[] | select(.metadata.deletionTimestamp == null and .spec.nodeName != $dead and
        (.metadata.labels["app.kubernetes.io/name"] | IN("gpuscale-adapter", "gpuscale-engine"))) | select(any(.status.conditions[]; .type == "Ready" and .status == "True"))] | length == 3'
}
wait_for "the adapter and the engine are replaced on the other node" replaced
ok "all of the adapter's and the engine's pods run on the node that is left after $(since) s"
