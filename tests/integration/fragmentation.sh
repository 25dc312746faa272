#!/bin/sh
# The fragmentation timeline of the GKE guide: a node with four GPUs is idle, a pod for one GPU arrives, then one for four.
# Without a measure the small pod splits the large node. Early cordon gives it a small node. Taints per size do the same
# with tolerations. Consolidation moves a small pod off a large node.
. "$(dirname "$0")/lib.sh"
need kubectl jq

# pod NAME GPUS [TOLERATED SIZE]
pod() {
    tolerations=
    [ -z "${3:-}" ] || tolerations="tolerations: [{key: size, value: '$3'}]"
    kubectl create -f - >/dev/null <<Y
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: $1}
spec:
  replicas: 1
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec:
      terminationGracePeriodSeconds: 1
      $tolerations
      containers:
      - {name: c, image: any, command: [sleep, "1000"], resources: {limits: {nvidia.com/gpu: $2}}}
Y
}
pool_of() { kubectl get node "$(kubectl get pods -l "app=$1" -o 'jsonpath={.items[0].spec.nodeName}')" -o 'jsonpath={.metadata.labels.gpuscale\.dev/pool}' 2>/dev/null; }
runs_on() { [ "$(pool_of "$1")" = "$2" ]; }
nodes_of() { kubectl get nodes -l "gpuscale.dev/pool=$1" -o name | wc -l; }
large_node() { kubectl get nodes -l gpuscale.dev/pool=t4-4 -o 'jsonpath={.items[0].metadata.name}'; }
cordoned() { [ "$(kubectl get nodes -l gpuscale.dev/pool=t4-4 -o 'jsonpath={.items[0].spec.unschedulable}')" = "$1" ]; }

# start EXTRA POOL KEYS OF THE SMALL AND THE LARGE POOL, flags
start() {
    small=$1 large=$2
    shift 2
    start_up --gpus none --pool "t4-1=0..8x1,model=Tesla T4,startup=500ms,price=0.35$small" \
        --pool "t4-4=1..8x4,model=Tesla T4,startup=500ms,price=1.40$large" --scan-interval 500ms \
        --scale-down-delay-after-add 0s --node-delete-delay-after-taint 0s "$@"
}
end() {
    kubectl delete replicasets --all >/dev/null
    stop_up
    rm -rf "$dir/data"
}

# Nothing is done: the small pod splits the large node, and the large pod needs another one.
start '' ''
pod small 1
wait_for "the small pod splits the large node" runs_on small t4-4
pod large 4
wait_for "the large pod needs a second node" runs_on large t4-4
[ "$(nodes_of t4-4)" = 2 ] || fail "there are $(nodes_of t4-4) large nodes"
end

# Early cordon: the small pod gets a small node, and the large pod the idle one.
start '' '' --early-cordon
wait_for "the idle node is cordoned" cordoned true
kubectl get events --field-selector reason=EarlyCordon | grep -q 'all 4 GPUs are idle, a pod with 1 GPU would split them' || fail "no event EarlyCordon"
pod small 1
pod large 4 # waits until the small pod has its node: the scheduler takes the older pod first
wait_for "the small pod gets a small node" runs_on small t4-1
wait_for "the large pod gets the idle node" runs_on large t4-4
cordoned '' || fail "the node in use is cordoned"
[ "$(nodes_of t4-4)" = 1 ] || fail "there are $(nodes_of t4-4) large nodes"
end

# Taints per size, as the guide proposes them.
start ',taint=size=1:NoSchedule' ',taint=size=4:NoSchedule'
pod small 1 1
wait_for "the small pod gets a node of its size" runs_on small t4-1
pod large 4 4
wait_for "the large pod gets the idle node of its size" runs_on large t4-4
[ "$(nodes_of t4-4)" = 1 ] || fail "there are $(nodes_of t4-4) large nodes"
end

# Consolidation: a small pod on a large node moves to a new small node, and the large one becomes idle.
start '' '' --consolidation --scale-down-unneeded-time 2s
first=$(large_node)
pod small 1
wait_for "the small pod splits the large node again" runs_on small t4-4
pod other 4
wait_for "another large node is there" runs_on other t4-4
wait_for "the small pod moves to a small node" runs_on small t4-1
gone() { ! kubectl get node "$first" >/dev/null 2>&1; }
wait_for "the large node is removed" gone
kubectl get events | grep -q 'Consolidation.*its pods fit on a new node of pool t4-1 with 1 GPU for 0.35 instead of 1.40 USD an hour' || fail "no event Consolidation"
stop_up
