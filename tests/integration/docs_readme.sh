#!/bin/sh
# Runs the commands of "Five minutes" in README as printed, except for the two exports that
# `gpuscale up` prints, and the URL of the Service.
. "$(dirname "$0")/lib.sh"
need kubectl curl hey

# The commands of a ```console block of the section.
commands() {
    awk -v want="$1" '
        /^## / { on = $0 == "## Five minutes" }
        on && /^```console$/ { block++; next }
        /^```$/ { next }
        on && block == want && /^\$ / { print substr($0, 3) }' "$source/README.md"
}
commands 1 >"$dir/first"
commands 2 >"$dir/second"
commands 3 >"$dir/third"

# A clone in which `make build` was run.
mkdir "$dir/clone"
ln -s "$build" "$dir/clone/build"
ln -s "$source/examples" "$dir/clone/examples"
cd "$dir/clone"
export GPUSCALE_DATA_DIR="$dir/data" NODE_NAME=devbox NO_COLOR=1

while IFS= read -r command; do
    case $command in
    'make build') continue ;;
    'gpuscale up '*)
        eval "exec ${command}" >"$dir/up.log" 2>&1 &
        up_pid=$!
        ;;
    *) eval "$command" ;;
    esac
    echo "ok: $command"
done <"$dir/first"
[ -n "$up_pid" ] || fail "README does not start gpuscale up"
wait_for "gpuscale up is ready" grep -q '^Ready: node devbox, 4 GPUs, API https://127.0.0.1:.* \[SIMULATED GPUs\]$' "$dir/up.log"
sed -n 's/^ *\(export [A-Z_]*=.*\)$/\1/p' "$dir/up.log" >"$dir/exports"
[ "$(wc -l <"$dir/exports")" = 2 ] || fail "gpuscale up did not print its two exports"
. "$dir/exports"

scaled() { grep -qE 'Deployment/intent-api +.* [2-8] +[0-9]+s$' "$dir/watched"; }
hey_pid=
while IFS= read -r command <&3; do
    case $command in
    url=*)
        wait_for "the Service's URL" grep -q '^Service: http' "$dir/up.log"
        url=$(sed -n 's/^Service: //p' "$dir/up.log" | tail -n 1)
        ;;
    'hey '*'&')
        eval "${command%&}" &
        hey_pid=$!
        pids="$pids $hey_pid"
        ;;
    'kubectl get hpa -w')
        $command >"$dir/watched" &
        watch_pid=$!
        pids="$pids $watch_pid"
        wait_for "more replicas" scaled
        kill "$watch_pid"
        ;;
    'curl '*)
        wait_for "the service answers" sh -c "$(echo "$command" | sed "s#\$url#$url#") | grep -qx PlayMusic"
        ;;
    'gpuscale query '*)
        wait_for "a value for each of several pods" sh -c "[ \"\$($command | grep -c '^intent-api-')\" -gt 1 ]"
        ;;
    *) eval "$command" || fail "$command" ;;
    esac
    echo "ok: $command"
done 3<"$dir/second"
[ -n "$hey_pid" ] && kill "$hey_pid"
[ "$(wc -l <"$dir/second")" -ge 7 ] || fail "README's second block was not found"

# At zero, and awake again. The first answer is that of the request that wakes it.
grep -qx 'kubectl apply -f examples/demo/zero.yaml' "$dir/third" || fail "README's third block was not found"
while IFS= read -r command; do
    eval "$command" >"$dir/answer" || fail "$command"
    echo "ok: $command"
done <"$dir/third"
[ "$(cat "$dir/answer")" = PlayMusic ] || fail "the service at zero answers $(cat "$dir/answer")"
segment=$(tr '\0' '\n' <"/proc/$(pgrep -f "exporter .*$dir" | head -n 1)/environ" | sed -n 's/^GPUSCALE_SIM=//p')
stop_up
wait_for "nothing is left" nothing_left
