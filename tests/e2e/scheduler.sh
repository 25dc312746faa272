# Runs the scheduler of deploy/scheduler.yaml with its permissions: pods that select it fill the GPU node with the fewest free
# GPUs. To be sourced after the control plane was started.
kubectl apply -f "$source/deploy/scheduler.yaml" >/dev/null || fail "deploy/scheduler.yaml is refused"
start_node gpu-packed 8
cat >"$dir/packing.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: $kube, certificate-authority: $dir/ca.crt}}]
users: [{name: me, user: {token: $(kubectl -n kube-system create token gpu-bin-packing)}}]
contexts: [{name: e2e, context: {cluster: e2e, user: me}}]
current-context: e2e
END
{
    kubectl -n kube-system get configmap gpu-bin-packing -o json | jq -r '.data["scheduler.yaml"]'
    echo "clientConnection: {kubeconfig: $dir/packing.kubeconfig}"
} >"$dir/packing.yaml"
start packing "$bin/kube-scheduler" --config "$dir/packing.yaml" --secure-port=0

gpu_pod() { # NAME GPUS OTHER-FIELDS
    kubectl create -f - >/dev/null <<END
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec: {$3, containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: $2}}}]}
END
}
gpu_pod packed-0 2 "nodeName: gpu-packed"
for i in 1 2 3 4 5 6; do gpu_pod "packed-$i" 1 "schedulerName: gpu-bin-packing"; done
wait_for "pods of the scheduler run" kubectl wait --for=condition=Ready pod/packed-1 pod/packed-2 pod/packed-3 pod/packed-4 pod/packed-5 pod/packed-6 --timeout=1s
on=$(kubectl get pods -o json | jq -r '[.items[] | select(.metadata.name | startswith("packed-")) | .spec.nodeName] | unique | join(" ")')
[ "$on" = gpu-packed ] || fail "pods for 8 GPUs are on $on"
ok "the scheduler of deploy/ fills one node with 8 GPUs before it uses the other"
kubectl delete pods packed-0 packed-1 packed-2 packed-3 packed-4 packed-5 packed-6 --wait=false >/dev/null
kubectl delete -f "$source/deploy/scheduler.yaml" >/dev/null
stop packing
stop node-gpu-packed
kubectl delete node gpu-packed >/dev/null
