#!/bin/sh
# A control plane to try things on by hand: prints how to reach it and stays until it is interrupted.
. "$(dirname "$0")/cluster.sh"
start_control_plane
start_node gpu-0 8
echo "export KUBECONFIG=$dir/admin.kubeconfig dir=$dir kube=$kube"
while :; do sleep 1; done
