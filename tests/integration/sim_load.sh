#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples of programs that put load on simulated GPUs for milliseconds, alone and in a pod.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl cc python3

cc -o "$dir/work" "$source/examples/sim-load/work.c" || fail "the example in C"
start_up --gpus 1xTesla-T4 --image "c:*='$dir/work'" --image "python:*=python3 '$source/examples/sim-load/work.py'"
for name in c python; do
    kubectl apply -f - >/dev/null <<END || fail "kubectl apply"
apiVersion: v1
kind: Pod
metadata: {name: $name}
spec: {restartPolicy: Never, containers: [{name: c, image: '$name:1', resources: {limits: {nvidia.com/gpu: 1}}}]}
END
    done_is() { [ "$(kubectl get pod "$name" -o jsonpath='{.status.phase}')" = Succeeded ]; }
    wait_for "the example in $name has run" done_is
    kubectl logs "$name" | grep -qx 'job 2 is done' || fail "the log of $name"
done
stop_up
