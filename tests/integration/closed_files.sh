#!/bin/sh
# Programs that start with closed standard files: no number of such a file is given to another file,
# nothing ends by a signal, and results that could not be written are an error.
. "$(dirname "$0")/lib.sh"
need curl jq

own_gpus closed
cat >"$dir/prometheus.yml" <<EOF
scrape_configs: [{job_name: self, scrape_interval: 1s, static_configs: [{targets: ['127.0.0.1:9390']}]}]
EOF
cat >"$dir/hpa.yaml" <<EOF
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: h}
spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d}, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}
EOF
cd "$dir"

# In a subshell, which the command replaces. closing FILES COMMAND…: the command with these files closed.
closing() {
    case $1 in *0*) exec <&- ;; esac
    case $1 in *1*) exec >&- ;; esac
    case $1 in *2*) exec 2>&- ;; esac
    shift
    exec "$@"
}
with() { # sets $code
    code=0
    (closing "$@") || code=$?
}

# --- servers: each works with all combinations, and ends in order ---

# serve FILES URL COMMAND…: until the URL answers, then SIGTERM.
serve() {
    files=$1 url=$2
    shift 2
    (closing "$files" "$@") >"$dir/out.log" 2>&1 &
    server=$!
    pids="$pids $server"
    wait_for "$2 without files $files answers" curl -ksSf -o "$dir/answer" "$url"
    for fd in 0 1 2; do
        case $files in
        *$fd*) [ "$(readlink "/proc/$server/fd/$fd")" = /dev/null ] || fail "$2 without files $files: $fd is $(readlink "/proc/$server/fd/$fd")" ;;
        esac
    done
    kill -TERM "$server"
    wait "$server" || fail "$2 without files $files ended with $?"
}
for files in 0 1 2 012; do
    serve $files http://127.0.0.1:9390/-/ready "$gpuscale" engine --config.file prometheus.yml --web.listen-address 127.0.0.1:9390
    serve $files http://127.0.0.1:9391/metrics "$gpuscale" exporter --simulate 1xTesla-T4 --address 127.0.0.1:9391
    serve $files https://127.0.0.1:9392/healthz "$gpuscale" up --gpus none --data-dir "$dir/data" --api-port 9392 --exporter-port 0 --prometheus-port 0
done

# --- every command ends by itself, not by a signal ---

commands=$("$gpuscale" help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
[ "$(echo "$commands" | wc -w)" -gt 15 ] || fail "the list of commands is not read: $commands"
for command in $commands; do
    for files in 0 1 2 01 02 12 012; do
        with $files "$gpuscale" "$command" --no-such-flag >"$dir/out.log" 2>&1
        [ "$code" = 2 ] || fail "$command with a wrong flag, without files $files: $code"
        with $files "$gpuscale" "$command" --help >"$dir/out.log" 2>&1
        case $files in
        *1*) [ "$code" = 1 ] || fail "$command --help without files $files: $code" ;;
        *) [ "$code" = 0 ] || fail "$command --help without files $files: $code" ;;
        esac
    done
done

# --- results that could not be written ---

"$gpuscale" engine --config.file prometheus.yml --web.listen-address 127.0.0.1:9390 >"$dir/engine.log" 2>&1 &
pids="$pids $!"
wait_for "the engine scrapes itself" sh -c 'curl -sSfG http://127.0.0.1:9390/api/v1/query -d query=up | grep -q self'
results() {
    while read -r line; do
        eval "with 0 $line" >"$dir/out" 2>"$dir/err" || true
        [ "$code" = 0 ] || fail "$line without file 0: $code: $(cat "$dir/err")"
        [ -s "$dir/out" ] || fail "$line prints nothing"
        eval "with 1 $line" 2>"$dir/err" || true
        [ "$code" != 0 ] && [ "$code" -lt 128 ] || fail "$line without stdout: $code"
        grep -q 'could not write all output to stdout' "$dir/err" || fail "$line without stdout says: $(cat "$dir/err")"
        eval "with 12 $line" || true
        [ "$code" != 0 ] && [ "$code" -lt 128 ] || fail "$line without stdout and stderr: $code"
    done
}
"$gpuscale" sim create 1xTesla-T4 >"$dir/out.log"
export GPUSCALE_NVML_LIBRARY=$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so
unset KUBECONFIG # it names the engine of a gpuscale up that has ended
results <<EOF
"$gpuscale" version
"$gpuscale" query --url http://127.0.0.1:9390 up
"$gpuscale" query --url http://127.0.0.1:9390 -o json up
"$gpuscale" report --url http://127.0.0.1:9390
"$gpuscale" check config prometheus.yml
"$gpuscale" convert -f hpa.yaml --output-version v1
"$gpuscale" completion bash
"$gpuscale" sim list
"$gpuscale" smi
"$gpuscale" top --once
EOF

# Input from a closed file is an error, not an empty text.
with 0 "$gpuscale" convert -f - >"$dir/out" 2>&1
[ "$code" != 0 ] && [ "$code" -lt 128 ] || fail "convert of a closed file: $code: $(cat "$dir/out")"
