#!/bin/sh
# Runs all end-to-end tests on two clusters in parallel, because each of them mostly waits. A test that fails runs once more
# at the end, alone and on a new cluster, and is reported: a busy machine can be too slow. Exit code 3: no control plane is
# available. If the namespaces for the guides cannot be created, adapter.sh runs instead and tests a part of them.
here=$(dirname "$0")
parts="engine scheduler karpenter zero budgets keda changes hpa latency capacity custom_resources" # on the first cluster
passed=0 failed=0 guides=
logs=$(mktemp -d)
trap '[ -z "$guides" ] || kill "$guides" 2>/dev/null; wait; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM
# Builds the programs for both before the start. run.sh reports what is missing.
"$here/build.sh" >/dev/null || exec "$here/run.sh"

# The functions below take the name of a test: parts, adapter, or a script. Its output is in $logs/NAME, its exit code in
# $logs/NAME.status.
command_of() {
    case $1 in
    parts) echo "run.sh $parts" ;;
    adapter) echo "run.sh adapter" ;;
    *) echo "$1.sh" ;;
    esac
}
show() { # runs it and shows its output
    # shellcheck disable=SC2046
    { "$here"/$(command_of "$1"); echo $? >"$logs/$1.status"; } 2>&1 | tee "$logs/$1"
}
second_cluster() { # one after the other, without output
    child=
    trap 'kill "$child" 2>/dev/null; exit 130' TERM
    for test in guides helm_install proxy; do
        # shellcheck disable=SC2046
        "$here"/$(command_of $test) >"$logs/$test" 2>&1 &
        child=$!
        status=0
        wait "$child" || status=$?
        echo "$status" >"$logs/$test.status"
    done
}
is() { [ "$(cat "$logs/$1.status")" = "$2" ]; } # NAME CODE
count() { passed=$((passed + $(grep -c '^e2e: [0-9:]* ok: ' "$logs/$1"))); }

second_cluster &
guides=$!
show parts
wait "$guides"
guides=
tests="parts guides helm_install proxy"
cat "$logs/guides" "$logs/helm_install" "$logs/proxy"
is guides 3 && show adapter && tests="$tests adapter"
# The Cluster Autoscaler, if CLUSTER_AUTOSCALER is the path of its program.
show autoscaler
for test in $tests autoscaler; do
    count $test
    is $test 0 || is $test 3 && continue
    if [ $test = parts ]; then # the part that failed, and those after it
        part=$(sed -n 's/^e2e: [0-9:]* part: //p' "$logs/parts" | tail -n 1)
        parts=$part${parts#*"$part"}
    fi
    echo "Second attempt: $(command_of $test) ($(sed -n 's/^FAIL: //p' "$logs/$test" | tail -n 1))"
    show $test
    count $test
    is $test 0 || failed=$((failed + 1))
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
