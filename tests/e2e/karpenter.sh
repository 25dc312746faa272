# Karpenter follows gpuscale hpa: a GPU metric adds replicas, their pods are Pending, Karpenter creates NodeClaims and nodes, the
# pods run, the load ends, and the nodes are removed. Karpenter is the real one with its kwok provider, which creates Node
# objects instead of machines. Here a hollow kubelet runs each of them: it registers, reports GPUs, and runs pods without
# containers. Also applies the objects of deploy/ for Karpenter and the Cluster Autoscaler to the API server.
# To be sourced after the control plane was started.
karpenter=$("$source/tests/e2e/karpenter-build.sh") || { say "skipped: Karpenter is not available"; return 0; }

# --- the objects of deploy/ ---
kubectl apply -f "$karpenter/crds" -f "$karpenter/crds-aws/karpenter.k8s.aws_ec2nodeclasses.yaml" -f "$source/tests/e2e/autoscaler-crds.yaml" >/dev/null
kubectl wait --for=condition=Established crd --all --timeout=300s >/dev/null || fail "the CRDs of Karpenter are not established"
wait_for "the resources of Karpenter" kubectl get nodepools,nodeclaims,ec2nodeclasses,capacitybuffers,provisioningrequests
for file in eks/karpenter-nodepools cluster-autoscaler/priority-expander cluster-autoscaler/capacity-buffer cluster-autoscaler/provisioning-request; do
    kubectl apply --dry-run=server --validate=strict -f "$source/deploy/$file.yaml" >"$dir/applied" 2>&1 || fail "deploy/$file.yaml is refused: $(cat "$dir/applied")"
    ! grep -i warning "$dir/applied" || fail "deploy/$file.yaml: a warning"
done
ok "the API server accepts the NodePools, EC2NodeClass, CapacityBuffer, ProvisioningRequest and priorities of deploy/"

# --- a NodePool for each number of GPUs, with taints per size ---
pool() { # GPUS
    cat <<END
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu-$1}
spec:
  template:
    metadata: {labels: {gpuscale.dev/pool: gpu-$1}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: gpu}
      taints:
      - {key: nvidia.com/gpu, value: present, effect: NoSchedule}
$([ "$1" = 1 ] || echo "      - {key: gpuscale.dev/pool-gpus, value: \"$1\", effect: NoSchedule}")
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [gpu-$1]}]
  limits: {nvidia.com/gpu: 8}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1s, budgets: [{nodes: 100%}]}
---
END
}
machine() { # GPUS PRICE: of the size that hollow kubelets report
    echo "{\"name\": \"gpu-$1\", \"architecture\": \"amd64\", \"operatingSystems\": [\"linux\"],
        \"resources\": {\"cpu\": \"1\", \"memory\": \"3840Mi\", \"ephemeral-storage\": \"20Gi\", \"nvidia.com/gpu\": \"$1\"},
        \"offerings\": [{\"Price\": $2, \"Available\": true, \"Requirements\": [
            {\"key\": \"karpenter.sh/capacity-type\", \"operator\": \"In\", \"values\": [\"on-demand\"]},
            {\"key\": \"topology.kubernetes.io/zone\", \"operator\": \"In\", \"values\": [\"zone-a\"]}]}]}"
}
echo "[$(machine 1 2.48), $(machine 4 9.92)]" >"$dir/instance-types.json"
{ pool 1 && pool 4 && echo '{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: gpu}}'; } | kubectl apply -f - >/dev/null ||
    fail "the NodePools are refused"
METRICS_PORT=$(free_port) HEALTH_PROBE_PORT=$(free_port)
export METRICS_PORT HEALTH_PROBE_PORT INSTANCE_TYPES_FILE_PATH="$dir/instance-types.json" DISABLE_LEADER_ELECTION=true FEATURE_GATES=CapacityBuffer=true
start karpenter "$karpenter/karpenter-kwok"
unset METRICS_PORT HEALTH_PROBE_PORT INSTANCE_TYPES_FILE_PATH DISABLE_LEADER_ELECTION FEATURE_GATES

# A hollow kubelet for each Node of Karpenter, until Karpenter removes it. The names of these nodes are too long for a certificate.
kubelets=
follow_nodes() {
    kubectl get nodes -l kwok.x-k8s.io/node=fake -o json | jq -r '.items[] | "\(.metadata.name) \(.status.capacity["nvidia.com/gpu"] // 0)"' >"$dir/karpenter-nodes" || return 1
    while read -r node gpus <&3; do
        case " $kubelets " in *" $node "*) continue ;; esac
        kubelets="$kubelets $node"
        start "node-$node" env TMPDIR="$dir" "$bin/kubemark" --morph=kubelet --use-host-image-service=false --name="$node" --kubeconfig="$dir/admin.kubeconfig" \
            --extended-resources="nvidia.com/gpu=$gpus" --kubelet-port="$(free_port)" --kubelet-read-only-port="$(free_port)"
    done 3<"$dir/karpenter-nodes"
    for node in $kubelets; do
        grep -q "^$node " "$dir/karpenter-nodes" && continue
        stop "node-$node"
        kubelets=$(echo " $kubelets " | sed "s/ $node / /; s/^ *//; s/ *$//")
    done
}
ready_nodes_are() { # POOL NUMBER
    follow_nodes
    [ "$(kubectl get nodeclaims -l "karpenter.sh/nodepool=$1" -o json | jq '[.items[] | select(.metadata.deletionTimestamp == null) |
        select(any(.status.conditions[]?; .type == "Initialized" and .status == "True"))] | length')" = "$2" ] &&
        [ "$(kubectl get nodes -l "karpenter.sh/nodepool=$1" -o name | wc -l)" = "$2" ]
}
running_are() { # NUMBER
    follow_nodes
    [ "$(kubectl get pods -l app=bert-intent-detection -o json | jq '[.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] | length')" = "$1" ]
}

# --- the load of the ACK guide, by gpuscale hpa ---
kubectl cordon gpu-0 >/dev/null
stop controller-manager
start_controller_manager --controllers='*,-horizontal-pod-autoscaler-controller'
. "$source/tests/e2e/feed.sh"
apply_guide ack/bert-intent-detection.yaml
wait_for "Karpenter creates a node for the first pod" ready_nodes_are gpu-1 1
wait_for "the first pod runs" running_are 1
kubectl get events -o json | jq -e 'any(.items[]; .reason == "Nominated" and (.involvedObject.name | startswith("bert-")))' >/dev/null ||
    fail "no event Nominated of Karpenter"
apply_guide ack/hpa-v2.yaml
start hpa "$gpuscale" hpa --kubeconfig="$dir/admin.kubeconfig" --mode=control --namespace=default --all --leader-elect=false --web.listen-address= \
    --horizontal-pod-autoscaler-sync-period=2s --horizontal-pod-autoscaler-downscale-stabilization=10s
echo 90 >"$feed_load"
wait_for "5 pods at a load of 90 % over a target of 20 %" running_are 5
wait_for "5 nodes" ready_nodes_are gpu-1 5
ok "a GPU metric: gpuscale hpa adds replicas, Karpenter NodeClaims and nodes, 1 to 5"

# A pod for 4 GPUs tolerates the taint of its size. The pods for one GPU above do not, so none is on its node. A Deployment
# replaces the pod if it is bound before the kubelet reports its GPUs, because the kubelet then refuses it for good.
kubectl apply -f - >/dev/null <<'END'
apiVersion: apps/v1
kind: Deployment
metadata: {name: large}
spec:
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec:
      tolerations:
      - {key: nvidia.com/gpu, operator: Exists}
      - {key: gpuscale.dev/pool-gpus, value: "4", effect: NoSchedule}
      containers: [{name: large, image: any, resources: {limits: {nvidia.com/gpu: 4}}}]
END
wait_for "a node with 4 GPUs" ready_nodes_are gpu-4 1
# A pod that is replaced can be available for a moment before.
large_runs() {
    follow_nodes && kubectl wait --for=condition=Available deployment/large --timeout=1s &&
        kubectl get pods -l app=large --field-selector status.phase=Running -o jsonpath='{.items[*].spec.nodeName}' >"$dir/large-node" &&
        [ -s "$dir/large-node" ]
}
wait_for "the pod for 4 GPUs runs" large_runs
large_node=$(cut -d ' ' -f 1 "$dir/large-node")
kubectl get pods -A --field-selector "spec.nodeName=$large_node,status.phase=Running" -o name >"$dir/large-pods"
if [ "$(wc -l <"$dir/large-pods")" != 1 ] || ! grep -q '^pod/large-' "$dir/large-pods"; then
    fail "pods on the large node: $(cat "$dir/large-pods")"
fi
kubectl delete deployment large --wait=false >/dev/null
ok "taints per size: only the pod for 4 GPUs uses the node with 4"

echo 5 >"$feed_load"
wait_for "back to 1 node" ready_nodes_are gpu-1 1
wait_for "the large node is removed" ready_nodes_are gpu-4 0
running_are 1 || fail "pods after the load: $(kubectl get pods -o wide)"
ok "the load ends: replicas 5 to 1, and Karpenter removes the nodes"

# Warm capacity: a node without pods.
kubectl apply -f "$source/deploy/cluster-autoscaler/capacity-buffer.yaml" >/dev/null
wait_for "a warm node" ready_nodes_are gpu-1 2
kubectl delete -f "$source/deploy/cluster-autoscaler/capacity-buffer.yaml" >/dev/null
wait_for "the warm node is removed" ready_nodes_are gpu-1 1
ok "a CapacityBuffer keeps a node with a free GPU"

kubectl delete -f "$guides/ack/hpa-v2.yaml" -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
wait_for "no node of Karpenter" ready_nodes_are gpu-1 0
kubectl uncordon gpu-0 >/dev/null
for name in hpa karpenter adapter metrics feeder controller-manager; do stop $name; done
kubectl delete apiservice v1beta1.custom.metrics.k8s.io >/dev/null
start_controller_manager
