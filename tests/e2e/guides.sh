#!/bin/sh
# Applies deploy/ as in production, and runs the three guides: the cluster's autoscaler scales their
# Deployments by the load of simulated GPUs. Runs in its own namespaces (network, mounts, pids), so
# that pods have addresses and directories, and nothing remains. PARTS="guide-ack permissions" runs
# only these parts, and COMPONENTS="adapter" selects permissions. HOLD=1 leaves the cluster with
# deploy/ running for experiments.
. "$(dirname "$0")/inside.sh"
. "$(dirname "$0")/cluster.sh"
. "$source/tests/e2e/nodes.sh"
[ -x "$bin/node" ] || { echo "e2e: skipped: ${0##*/}: no kubelets with containers for this Kubernetes"; exit 3; }
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }
deploy=$source/deploy
api=/apis/custom.metrics.k8s.io/v1beta1
load() { echo "$2" >"$dir/load/$1"; } # APP PERCENT, of all its pods together
has_replicas() { [ "$(kubectl get deployment "$1" -o jsonpath='{.spec.replicas}')" = "$2" ]; }
# METRIC-PATH VALUE: the value of its only item.
reads() { [ "$(kubectl get --raw "$api/$1" | jq -r '.items | if length == 1 then .[0].value else empty end')" = "$2" ]; }
adapter_config() { # FILE
    kubectl -n monitoring create configmap gpuscale-adapter --from-file=config.yaml="$1" --dry-run=client -o yaml |
        kubectl -n monitoring apply -f - >/dev/null
}

start_network
start_control_plane
start_proxy
start_kubelet gpu-0 1 8xTesla-T4
start_kubelet gpu-1 2 8xTesla-T4
ok "control plane, two kubelets with 8 simulated GPUs each"

# The node label that the guides require, and the CRDs of the Prometheus operator. The RuntimeClass is the GPU operator's: the
# API server refuses pods with a RuntimeClass that does not exist, and the overlay without privileges gets the driver and the
# device files through it. The exporter of deploy/exporter-daemonset.yaml needs none.
kubectl label nodes --all accelerator=nvidia-gpu >/dev/null
kubectl apply -f "$source/tests/e2e/monitoring-crds.yaml" -f - >/dev/null <<EOF
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
EOF
# The exporter with the least privileges. Containers of these kubelets have no cgroups: a privileged exporter can read that
# processes of pods are not in one, and counts them as the machine's.
apply_exporter() { kubectl kustomize --load-restrictor LoadRestrictionsNone "$deploy/exporter-runtime-class" | kubectl apply -n monitoring -f - >/dev/null; }
. "$source/tests/e2e/production.sh"
if [ -n "${HOLD:-}" ]; then
    echo "export KUBECONFIG=$KUBECONFIG dir=$dir"
    while :; do sleep 1; done
fi
for part in ${PARTS:-guide-ack guide-eks guide-k8s-gpu-hpa embedded permissions node-death}; do
    . "$source/tests/e2e/$part.sh"
done
echo "$passed passed, 0 failed"
