#!/bin/sh
# The real Cluster Autoscaler with gpuscale expander and gpuscale node-provider, on a real control plane with real kubelets: a GPU
# metric adds replicas, their pods are Pending, the expander chooses a pool, the node provider starts kubelets, the pods run, the
# load ends, and the nodes are drained and removed. CLUSTER_AUTOSCALER is the path of its program. It is not a Go module, and
# this project does not build it. Exit code 3: skipped.
[ -x "${CLUSTER_AUTOSCALER:-}" ] || { echo "e2e: skipped: the Cluster Autoscaler: CLUSTER_AUTOSCALER is not the path of a program"; exit 3; }
. "$(dirname "$0")/inside.sh"
. "$(dirname "$0")/cluster.sh"
. "$source/tests/e2e/nodes.sh"
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }

start_network
start_control_plane
start_proxy
start_kubelet cpu-0 1 ""
ok "control plane, and a kubelet without GPUs"

# --- pools from zero: machines with one GPU, and with four GPUs and fewer cores ---
mkdir "$dir/machines" "$dir/state"
echo 2 >"$dir/machines/next"
echo 16 >"$dir/machines/cpus-t4-1"
echo 8 >"$dir/machines/cpus-t4-4"
cat >"$dir/machine.env" <<END
source='$source' bin='$bin' gpuscale='$gpuscale' dir='$dir' kube='$kube'
END
cat >"$dir/pools.yaml" <<END
commands:
  create: ['$source/tests/e2e/machine.sh']
  delete: ['$source/tests/e2e/machine.sh']
  list: ['$source/tests/e2e/machine.sh']
  timeout: 1m
  env: {MACHINE_ENV: '$dir/machine.env'}
pools:
- name: t4-1
  max: 6
  machine: {cpu: 16, memory: 64Gi, gpus: 1, model: Tesla T4}
  taints: ["nvidia.com/gpu=present:NoSchedule"]
  price: 0.53
  startup: 20s
- name: t4-4
  max: 2
  machine: {cpu: 8, memory: 64Gi, gpus: 4, model: Tesla T4}
  taints: ["nvidia.com/gpu=present:NoSchedule"]
  price: 1.80
  startup: 20s
END
# The expander has the pools without the commands.
sed '1,/^pools:/{/^pools:/!d}' "$dir/pools.yaml" >"$dir/expander-pools.yaml"
start provider "$gpuscale" node-provider --pools="$dir/pools.yaml" --state-dir="$dir/state" --address=127.0.0.1:8086 \
    --generate-certificates="$dir/provider-certificates" --tls-name=127.0.0.1 --kubeconfig="$dir/admin.kubeconfig" --list-interval=5s \
    --web.listen-address=127.0.0.1:9411
wait_for "the node provider is ready" curl -sf http://127.0.0.1:9411/readyz
start_expander() { # FLAG…
    start expander "$gpuscale" expander --policy=packing --pools="$dir/expander-pools.yaml" --grpc-listen-address=127.0.0.1:7443 \
        --web.listen-address=127.0.0.1:9412 --cert-dir="$dir/expander-certificates" --kubeconfig="$dir/admin.kubeconfig" "$@"
    wait_for "the expander is ready" curl -sf http://127.0.0.1:9412/readyz
}
start_expander

start_autoscaler() { # EXPANDER FLAG…
    start autoscaler "$CLUSTER_AUTOSCALER" --cloud-provider=externalgrpc --cloud-config="$dir/provider-certificates/cloud-config.yaml" \
        --kubeconfig="$dir/admin.kubeconfig" --leader-elect=false --address=127.0.0.1:8085 --scan-interval=2s --scale-down-unneeded-time=6s \
        --scale-down-delay-after-add=4s --scale-down-delay-after-delete=0s --scale-down-delay-after-failure=5s --unremovable-node-recheck-timeout=2s --max-node-provision-time=2m \
        --skip-nodes-with-system-pods=false --skip-nodes-with-local-storage=false --v=2 --expander="$@"
}
nodes_are() { # POOL NUMBER: nodes with their GPUs
    [ "$(kubectl get nodes -l "gpuscale.dev/pool=$1" -o json | jq '[.items[] | select(.status.allocatable["nvidia.com/gpu"] // "0" | tonumber > 0)] | length')" = "$2" ] &&
        [ "$(kubectl get nodes -l "gpuscale.dev/pool=$1" -o name | wc -l)" = "$2" ]
}
machines_are() { [ "$(find "$dir/machines/$1" -name pid 2>/dev/null | wc -l)" = "$2" ]; }
events_of() { kubectl get events --field-selector "involvedObject.name=$1,reason=$2" -o jsonpath='{.items[*].message}'; }
gpu_pod() { # NAME GPUS
    kubectl create -f - >/dev/null <<END
apiVersion: v1
kind: Pod
metadata:
  name: $1
  labels: {app: $1}
  annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "true"}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, resources: {requests: {cpu: "2"}, limits: {nvidia.com/gpu: $2}}}]}
END
}
ready_pod() { kubectl wait --for=condition=Ready "pod/$1" --timeout=1s; }

# --- without the expander: the machine with the fewest unused cores, whose other GPUs are stranded ---
start_autoscaler least-waste
gpu_pod small-1 1
wait_for "a pod with one GPU runs" ready_pod small-1
nodes_are t4-4 1 && nodes_are t4-1 0 || fail "least-waste did not choose the machine with 4 GPUs: $(kubectl get nodes)"
ok "with least-waste, a pod for one GPU gets a machine with four: $(events_of small-1 TriggeredScaleUp)"
kubectl delete pod small-1 >/dev/null
wait_for "the node is removed" nodes_are t4-4 0
wait_for "its machine is deleted" machines_are t4-4 0
ok "the node is removed when it is unneeded, with its machine"

# --- with the expander ---
stop autoscaler
start_with_expander() { # FLAG…
    start_autoscaler grpc,least-waste --grpc-expander-url=127.0.0.1:7443 --grpc-expander-cert="$dir/expander-certificates/ca.crt" "$@"
}
start_with_expander
gpu_pod large 4
wait_for "a pod for four GPUs runs" ready_pod large
gpu_pod small-2 1
wait_for "both pods run" ready_pod small-2
nodes_are t4-1 1 && nodes_are t4-4 1 || fail "the expander: $(kubectl get nodes -L gpuscale.dev/pool); $(tail -n 3 "$dir/expander.log")"
curl -sf 'http://127.0.0.1:9412/api/v1/decisions' >"$dir/decisions.json" || fail "the decisions of the expander"
ok "with gpuscale expander, the pod for one GPU gets a machine with one: $(events_of small-2 TriggeredScaleUp)"

# --- early cordon: an idle machine with four GPUs is kept for a pod that needs them ---
stop autoscaler
stop expander
start_expander --early-cordon
start_with_expander --scale-down-enabled=false --new-pod-scale-up-delay=5s
large_is() { [ "$(kubectl get nodes -l gpuscale.dev/pool=t4-4 -o jsonpath='{.items[0].spec.unschedulable}')" = "$1" ]; }
kubectl delete pod large >/dev/null
wait_for "the idle node is cordoned" large_is true
gpu_pod small-3 1
wait_for "a second pod with one GPU runs" ready_pod small-3
nodes_are t4-1 2 && nodes_are t4-4 1 || fail "early cordon: $(kubectl get nodes -L gpuscale.dev/pool)"
gpu_pod large-2 4
wait_for "the pod for four GPUs runs" ready_pod large-2
nodes_are t4-1 2 && nodes_are t4-4 1 || fail "the cordoned node was not used: $(kubectl get nodes -L gpuscale.dev/pool)"
kubectl get events -o json | jq -e '[.items[] | select(.reason == "EarlyCordonEnded" and .message == "pod default/large-2 needs it")] | length > 0' >/dev/null ||
    fail "the events: $(kubectl get events)"
ok "with --early-cordon, a pod for one GPU does not split an idle node with four: $(events_of small-3 TriggeredScaleUp)"
stop autoscaler
stop expander
start_expander
start_with_expander
kubectl delete pod small-2 small-3 large-2 >/dev/null

# --- an HPA on a GPU metric ---
guides=$source/examples/guides
. "$source/tests/e2e/feed.sh"
apply_guide ack/bert-intent-detection.yaml
apply_guide ack/hpa-v2.yaml
running_are() { [ "$(kubectl get pods -l app=bert-intent-detection -o json | jq '[.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] | length')" = "$1" ]; }
wait_for "the first pod runs" running_are 1
echo 90 >"$feed_load"
wait_for "5 pods at a load of 90 % over a target of 20 %" running_are 5
ok "a GPU metric: the HPA adds replicas, the expander chooses, the node provider starts kubelets: $(kubectl get nodes -o name | wc -l) nodes"
echo 5 >"$feed_load"
wait_for "back to 1 pod" running_are 1
wait_for "one node with GPUs" sh -c '[ "$(kubectl get nodes -l gpuscale.dev/pool -o name | wc -l)" = 1 ]'
remaining() { [ "$(find "$dir/machines" -name pid | wc -l)" = 1 ]; }
wait_for "one machine" remaining
running_are 1 || fail "pods after the load: $(kubectl get pods -o wide)"
kubectl -n kube-system get configmap cluster-autoscaler-status -o jsonpath='{.data.status}' | grep -q 'autoscalerStatus: Running' || fail "the status of the autoscaler"
ok "the load ends: nodes are drained and removed, their machines deleted"
echo "$passed passed, 0 failed"
