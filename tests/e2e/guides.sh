#!/bin/sh
# The manifests of deploy/ as in production, and the three guides on them: the cluster's own
# autoscaler scales their Deployments by the load of simulated GPUs. Runs inside namespaces of its own
# (network, mounts, pids), so that pods have addresses and folders and nothing stays behind.
if [ -z "${GPUSCALE_E2E_INSIDE:-}" ]; then
    export GPUSCALE_E2E_INSIDE=1
    [ "$(id -u)" = 0 ] || as_root="--map-root-user --map-auto"
    # shellcheck disable=SC2086
    if ! unshare ${as_root:-} -nmpf --mount-proc true 2>/dev/null; then
        echo "e2e: skipped: the guides: no namespaces of one's own may be made here (unshare -nmpf)"
        exit 3
    fi
    # shellcheck disable=SC2086
    exec unshare ${as_root:-} -nmpf --kill-child --mount-proc --propagation private "$0" "$@"
fi
. "$(dirname "$0")/cluster.sh"
. "$source/tests/e2e/nodes.sh"
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }
guides=$source/../shared/walkthroughs
[ -d "$guides" ] || guides=/work/shared/walkthroughs
deploy=$source/deploy

start_network
start_control_plane
start_proxy
start_kubelet gpu-0 1 8xTesla-T4
start_kubelet gpu-1 2 8xTesla-T4
ok "control plane, two kubelets with 8 simulated GPUs each"
[ -z "${HOLD:-}" ] || { echo "export KUBECONFIG=$KUBECONFIG dir=$dir"; while :; do sleep 1; done; }
