#!/bin/sh
# Starts a control plane for experiments, prints how to connect, and runs until it is interrupted.
. "$(dirname "$0")/cluster.sh"
start_control_plane
start_node gpu-0 8
echo "export KUBECONFIG=$dir/admin.kubeconfig dir=$dir kube=$kube"
while :; do sleep 1; done
