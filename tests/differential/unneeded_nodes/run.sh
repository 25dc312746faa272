#!/bin/sh
# Compares the unneeded nodes of random clusters with those of the real Cluster Autoscaler's planner.
# Usage: run.sh PROGRAM [COUNT [FIRST-SEED]]   CLUSTER_AUTOSCALER_SOURCE: a checkout of kubernetes-sigs/cluster-autoscaler in which
# `go build ./pkg/...` works. planner_test.go is copied into it, because the planner has no other interface. Exit code 3: skipped.
set -eu
[ -d "${CLUSTER_AUTOSCALER_SOURCE:-}/pkg/core/scaledown/planner" ] || {
    echo "unneeded nodes: skipped: CLUSTER_AUTOSCALER_SOURCE is not a checkout of the Cluster Autoscaler"
    exit 3
}
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$here/clusters.py" make "${2:-1000}" "${3:-0}" "$dir"
cp "$here/planner_test.go" "$CLUSTER_AUTOSCALER_SOURCE/pkg/core/scaledown/planner/gpuscale_compare_test.go"
(cd "$CLUSTER_AUTOSCALER_SOURCE" && CLUSTERS="$dir/clusters.json" RESULTS="$dir/results.json" go test -count=1 -run '^TestUnneededNodes$' ./pkg/core/scaledown/planner)
"$here/clusters.py" expect "$dir"
"$program" test nodes "$dir/cases.yaml"
