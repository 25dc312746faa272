#!/bin/sh
# A machine is a process on this host, for tests of the node provider and of autoscaler settings.
#
#   MACHINES          directory of the machines (default: /tmp/gpuscale-machines)
#   MACHINE_COMMAND   what a machine runs (default: sleep infinity), for example a kubelet:
#                     kubelet --hostname-override="$GPUSCALE_NAME" --provider-id="$GPUSCALE_PROVIDER_ID"
#                     --node-labels="$GPUSCALE_LABELS" --register-with-taints="$GPUSCALE_TAINTS" ...
#
# The process holds a lock while it runs. A second create with the same name finds the lock and does
# nothing.
set -eu
dir=${MACHINES:-/tmp/gpuscale-machines}/$GPUSCALE_POOL
machine=$dir/$GPUSCALE_NAME

case $GPUSCALE_ACTION in
create)
    mkdir -p "$machine"
    exec 9>"$machine/lock"
    flock -n 9 || exit 0
    # shellcheck disable=SC2016
    setsid sh -c 'echo $$ >"$0/pid"; eval "exec ${MACHINE_COMMAND:-sleep infinity}"' "$machine" \
        >"$machine/log" 2>&1 </dev/null &
    ;;
delete)
    [ -d "$machine" ] || exit 0
    if ! flock -n "$machine/lock" true; then
        kill -TERM "-$(cat "$machine/pid")"
        flock -w "${STOP_SECONDS:-30}" "$machine/lock" true ||
            kill -KILL "-$(cat "$machine/pid")"
        flock -w 5 "$machine/lock" true
    fi
    rm -r "$machine"
    ;;
list)
    for lock in "$dir"/*/lock; do
        if [ -e "$lock" ] && ! flock -n "$lock" true; then
            name=${lock%/lock}
            echo "${name##*/} running"
        fi
    done
    ;;
esac
