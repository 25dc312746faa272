#!/bin/sh
# Runs all end-to-end tests on two clusters in parallel, because each of them mostly waits. Exit
# code 3: no control plane is available. If the namespaces for the guides cannot be created,
# adapter.sh runs instead and tests a part of them.
here=$(dirname "$0")
passed=0 failed=0 guides=
logs=$(mktemp -d)
trap '[ -z "$guides" ] || kill "$guides" 2>/dev/null; wait; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
# Builds the programs for both before the start. run.sh reports what is missing.
"$here/build.sh" >/dev/null || exec "$here/run.sh"

count() { # LOG STATUS: adds up its last line
    n=$(sed -n 's/^\([0-9]*\) passed, 0 failed$/\1/p' "$1")
    [ "$2" != 0 ] || passed=$((passed + ${n:-0}))
    [ "$2" = 0 ] || [ "$2" = 3 ] || failed=$((failed + 1))
}
run() { # PART…: shown as it goes
    { "$here/run.sh" "$@"; echo $? >"$logs/status"; } 2>&1 | tee "$logs/run"
    count "$logs/run" "$(cat "$logs/status")"
}
second_cluster() { # one after the other
    child=
    trap 'kill "$child" 2>/dev/null; exit 130' TERM
    for part in guides helm_install; do
        "$here/$part.sh" >"$logs/$part" 2>&1 &
        child=$!
        status=0
        wait "$child" || status=$?
        echo "$status" >"$logs/$part.status"
    done
}
second_cluster &
guides=$!
run engine scheduler karpenter hpa custom_resources
wait "$guides"
guides=
for part in guides helm_install; do
    status=$(cat "$logs/$part.status")
    cat "$logs/$part"
    count "$logs/$part" "$status"
    [ $part$status != guides3 ] || run adapter
done
# The Cluster Autoscaler, if CLUSTER_AUTOSCALER is the path of its program.
"$here/autoscaler.sh" >"$logs/autoscaler" 2>&1
status=$?
cat "$logs/autoscaler"
count "$logs/autoscaler" "$status"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
