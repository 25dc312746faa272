#!/bin/sh
# Tests pools of simulated machines in gpuscale up: machines come for waiting pods and go when they
# are unneeded, their exporters are scraped while they exist, and a restart doubles nothing.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq

start_pools() {
    start_up --gpus none --pool 't4=1..3x1,model=Tesla T4,startup=500ms,price=0.35' \
        --scan-interval 500ms --scale-down-unneeded-time 1s --scale-down-delay-after-add 1s
    segment=$(tr '\0' '\n' <"/proc/$(pgrep -f "exporter .*$dir" | head -n 1)/environ" | sed -n 's/^GPUSCALE_SIM=//p')
    [ -n "$segment" ] || fail "the machine has no exporter"
    prometheus=$(engine_url)
}
nodes() { kubectl get nodes -l gpuscale.dev/pool=t4 -o 'jsonpath={.items[*].metadata.name}'; }
count() { nodes | wc -w; }
# The nodes with current samples of GPUs.
scraped() {
    curl -sS -G "$prometheus/api/v1/query" --data-urlencode 'query=count by (NodeName) (DCGM_FI_DEV_GPU_UTIL)' |
        jq -r '[.data.result[].metric.NodeName] | sort | join(" ")'
}

start_pools
first=$(nodes)
[ "$(count)" = 1 ] || fail "the minimum of the pool does not exist: $first"
kubectl describe node "$first" >"$dir/node"
for line in 'Tesla-T4' 'nvidia.com/gpu: *1$' 'ProviderID: *gpuscale://t4/' 'InternalIP: *127\.98\.' 'Ready *True'; do
    grep -q "$line" "$dir/node" || { cat "$dir/node"; fail "kubectl describe node lacks \"$line\""; }
done
scraped_are() { [ "$(scraped)" = "$1" ]; }
wait_for "the exporter of the machine is scraped" scraped_are "$first"

# Two pods need two machines. Each sees the GPU of its own machine.
cat >"$dir/pods.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpus}
spec:
  replicas: 2
  selector: {matchLabels: {app: gpus}}
  template:
    metadata: {labels: {app: gpus}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: any
        command: [sh, -c, 'nvidia-smi -L && exec sleep 1000']
        resources: {limits: {nvidia.com/gpu: 1}}
Y
kubectl apply -f "$dir/pods.yaml"
kubectl rollout status deployment gpus --timeout=120s >/dev/null
[ "$(count)" = 2 ] || fail "two pods run on $(nodes)"
kubectl get events | grep -q 'TriggeredScaleUp.*pod triggered scale-up: \[{t4 1->2 (max: 3)}\]' || fail "no event TriggeredScaleUp"
both=$(nodes | tr ' ' '\n' | sort | tr '\n' ' ' | sed 's/ $//')
wait_for "both exporters are scraped" scraped_are "$both"
distinct() { [ "$(for pod in $(kubectl get pods -l app=gpus -o name); do kubectl logs "$pod"; done | grep -o 'GPU-[0-9a-f-]*' | sort -u | wc -l)" = 2 ]; }
wait_for "each pod has the GPU of its machine" distinct

# The view of the nodes, and a pod that no pool can take.
"$gpuscale" nodes -o json >"$dir/view"
jq -e '.pools[] | select(.name == "t4") | .nodes == 2 and .max == 3 and .gpus.used == 2 and .startup.samples > 0' "$dir/view" >/dev/null ||
    { cat "$dir/view"; fail "gpuscale nodes"; }
jq -e '[.nodes[] | select(.pool == "t4") | .price] == ["0.35", "0.35"]' "$dir/view" >/dev/null || fail "prices of $(cat "$dir/view")"
kubectl run huge --image any --overrides '{"spec":{"containers":[{"name":"c","image":"any","resources":{"limits":{"nvidia.com/gpu":2}}}]}}' >/dev/null
refused() { "$gpuscale" explain pod huge | grep -q "Coming: nothing. cluster-autoscaler at .*pod didn't trigger scale-up: 1 Insufficient nvidia.com/gpu"; }
wait_for "explain pod states why no machine comes" refused
kubectl delete pod huge >/dev/null
learned() { curl -sS -G "$prometheus/api/v1/query" --data-urlencode 'query=gpuscale_pool_startup_seconds_count{pool="t4",phase="total"} > 0' | jq -e '.data.result | length == 1'; }
wait_for "the start-up time is a series" learned

# An unneeded machine is removed, and so are its series.
kubectl delete -f "$dir/pods.yaml" >/dev/null
one_left() { [ "$(count)" = 1 ]; }
wait_for "the unneeded machine is removed" one_left
wait_for "its series end" scraped_are "$(nodes)"
[ "$(find "$dir/data/nodes" -mindepth 1 -maxdepth 1 | wc -l)" = 1 ] || fail "folders are left: $(ls "$dir/data/nodes")"

# After a crash, the nodes of the last run are removed.
former=$(nodes)
kill -9 "$up_pid"
wait "$up_pid" || true
start_pools
replaced() { [ "$(count)" = 1 ] && [ "$(nodes)" != "$former" ]; }
wait_for "the nodes of the last run are replaced" replaced
stop_up
left=$(find /dev/shm -maxdepth 1 -name "$(echo "${segment#/}" | sed 's/-[a-z0-9]*$//')*")
[ -z "$left" ] || fail "simulated GPUs are left: $left"
