#!/bin/sh
# Tests gpuscale on a real Kubernetes control plane (etcd, kube-apiserver with RBAC, the cluster's
# controllers, hollow GPU nodes), which build.sh builds once. Exit code 3: it is not available.
# Usage: run.sh [PART…]: engine, scheduler, karpenter, zero, budgets, keda, changes, adapter, hpa, latency, capacity, custom_resources, migration; default: all but adapter and
# migration.
. "$(dirname "$0")/cluster.sh"
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }

start_control_plane
start_node gpu-0 8
ok "control plane and a node with 8 GPUs"

for part in ${*:-engine scheduler karpenter zero budgets keda changes hpa latency capacity custom_resources}; do
    say "part: $part"
    . "$source/tests/e2e/$part.sh"
done
echo "$passed passed, 0 failed"
