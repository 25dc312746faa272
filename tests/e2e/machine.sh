#!/bin/sh
# The commands of gpuscale node-provider in tests/e2e/autoscaler.sh: a machine is a real kubelet (tests/e2e/node) with simulated
# GPUs on this host. The environment is in $MACHINE_ENV: source, bin, gpuscale, dir, kube.
set -eu
. "$MACHINE_ENV"
. "$source/tests/e2e/certificates.sh"
. "$source/tests/e2e/nodes.sh"
machines=$dir/machines/$GPUSCALE_POOL
machine=$machines/${GPUSCALE_NAME:-}

case $GPUSCALE_ACTION in
create)
    mkdir -p "$machine"
    exec 8>"$dir/machines/lock"
    flock 8
    [ ! -f "$machine/number" ] || exit 0 # it exists
    number=$(cat "$dir/machines/next")
    echo $((number + 1)) >"$dir/machines/next"
    echo "$number" >"$machine/number"
    exec 8>&-
    (
        run_kubelet "$GPUSCALE_NAME" "$number" "${GPUSCALE_GPUS}xTesla-T4" --provider-id="$GPUSCALE_PROVIDER_ID" \
            --node-labels="$GPUSCALE_LABELS" --register-with-taints="$GPUSCALE_TAINTS" --cpus="$(cat "$dir/machines/cpus-$GPUSCALE_POOL")"
    ) </dev/null >"$dir/node-$GPUSCALE_NAME.log" 2>&1 &
    echo $! >"$machine/pid"
    ;;
delete)
    [ -d "$machine" ] || exit 0
    pid=$(cat "$machine/pid" 2>/dev/null || true)
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    while [ "$pid" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.2; done
    "$gpuscale" sim delete --name="/gpuscale-$GPUSCALE_NAME" >&2 || true
    ip addr del "10.244.0.1$(cat "$machine/number")/16" dev pods0 2>/dev/null || true
    rm -r "$machine"
    ;;
list)
    for pid in "$machines"/*/pid; do
        [ ! -f "$pid" ] || ! kill -0 "$(cat "$pid")" 2>/dev/null || basename "$(dirname "$pid")"
    done
    ;;
esac
