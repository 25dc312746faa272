#!/bin/sh
# Tests the output of gpuscale up: one line for each cause why pods do not run, the port of the
# Prometheus API if its default port is in use, and the status block in windows whose size changes
# (with tmux).
. "$(dirname "$0")/lib.sh"
need kubectl curl python3 jq

# Occupies the default port, unless another server already uses it.
(cd "$dir" && exec python3 -m http.server 9090 --bind 127.0.0.1) >"$dir/stranger.log" 2>&1 &
echo $! >"$dir/stranger.pid"
wait_for "port 9090 is taken" curl -sS --max-time 60 -o "$dir/answer" http://127.0.0.1:9090/

start_up --prometheus-port=-1 --gpus 2xTesla-T4
url=$(engine_url)
port=${url##*:}
[ "$url" = "http://127.0.0.1:$port" ] && [ "$port" != 9090 ] || fail "the URL of the engine is \"$url\""
grep -q '^  export PATH=.*/bin.*:$PATH$' "$dir/up.log" || fail "the log does not contain the PATH for gpuscale and nvidia-smi"
grep -q "port 9090 is in use by another program: the Prometheus API is on port $port" "$dir/up.log" || fail "the log does not report that port 9090 is in use"
scraped() { [ "$(GPUSCALE_URL=$url "$gpuscale" query -o csv 'count(DCGM_FI_DEV_GPU_UTIL)' | tail -n 1 | cut -d , -f 2)" = 2 ]; }
wait_for "gpuscale query uses the server of GPUSCALE_URL" scraped
(unset KUBECONFIG GPUSCALE_URL PROMETHEUS_URL && ! "$gpuscale" query up) 2>"$dir/err" || fail "a query is sent to another program's server"
grep -q 'server http://localhost:9090 (the default; set --url, or KUBECONFIG or GPUSCALE_URL' "$dir/err" || fail "the error does not name the server: $(cat "$dir/err")"
echo "ok: errors name the server"

unset GPUSCALE_URL PROMETHEUS_URL
answers() { [ "$("$gpuscale" query -o csv 'count(DCGM_FI_DEV_GPU_UTIL)' | tail -n 1 | cut -d , -f 2)" = 2 ]; }
answers || fail "gpuscale query does not find the engine by KUBECONFIG alone"
"$gpuscale" top --once -o json | jq -e '.gpus | length == 2' >/dev/null || fail "gpuscale top does not find the engine by KUBECONFIG alone: $("$gpuscale" top --once)"
"$gpuscale" report >"$dir/report" || fail "gpuscale report does not find the engine by KUBECONFIG alone"
kubectl config set-context --current --namespace=default >/dev/null
answers || fail "kubectl removes the engine from the kubeconfig"
echo "ok: KUBECONFIG alone is enough for query, top and report"

printed="$(sed -n 's/^  export PATH=\(.*\):$PATH$/\1/p' "$dir/up.log")"
two="0, Tesla T4
1, Tesla T4"
[ "$(eval "PATH=$printed:\$PATH nvidia-smi --query-gpu=index,name --format=csv,noheader" 2>"$dir/err")" = "$two" ] || fail "nvidia-smi of the printed PATH does not print the simulated GPUs"
grep -q SIMULATED "$dir/err" || fail "nvidia-smi does not say that the GPUs are simulated"
[ "$(KUBECONFIG=$dir/data/kubeconfig "$gpuscale" smi --query-gpu=index,name --format=csv,noheader 2>/dev/null)" = "$two" ] || fail "gpuscale smi does not print the simulated GPUs of the cluster that KUBECONFIG names"
[ "$(env -u KUBECONFIG HOME="$dir/none" "$gpuscale" smi -L 2>/dev/null | grep -c T4)" = 0 ] || fail "gpuscale smi prints the GPUs of another folder's gpuscale up"
echo "ok: nvidia-smi and gpuscale smi print the simulated GPUs of the cluster"

deployment() { # NAME CONTAINER-FIELDS
    printf -- '---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: %s}}\n' "$1" "$1"
    printf '  template:\n    metadata: {labels: {app: %s}}\n    spec: {containers: [{name: c, %s}]}\n' "$1" "$2"
}
{
    deployment noimage "image: 'my-api:v1'"
    deployment crash "image: x, command: [sh, -c, 'echo loading; echo no weights >&2; exit 3']"
    deployment noexec 'image: x, command: [there-is-no-such-program]'
    deployment toobig 'image: x, command: [sleep, "1000"], resources: {limits: {nvidia.com/gpu: 3}}'
    deployment noconfig 'image: x, command: [sleep, "1000"], envFrom: [{configMapRef: {name: settings}}]'
    deployment unready 'image: x, command: [sleep, "1000"], readinessProbe: {periodSeconds: 1, httpGet: {path: /healthz, port: 8080}}'
    deployment fine 'image: x, command: [sleep, "1000"]'
} >"$dir/broken.yaml"
kubectl apply -f "$dir/broken.yaml"

logged() { grep -qF -- "$1" "$dir/up.log"; }
for line in \
    "pods: noimage: ImagePullBackOff: no command is configured for image \"my-api:v1\" (what to do: start gpuscale up with --image 'my-api:v1=COMMAND')" \
    'pods: crash: CrashLoopBackOff: exit code 3' \
    'last log line: no weights (what to do: kubectl logs crash-' \
    'pods: noexec: CrashLoopBackOff: cannot start: exec: "there-is-no-such-program": executable file not found in $PATH' \
    'pods: toobig: Unschedulable: it requests 3 nvidia.com/gpu, and the largest node has ' \
    'pods: noconfig: CreateContainerConfigError: configmap "settings" not found (what to do: create it' \
    'pods: unready: Unhealthy: Readiness probe failed: '; do
    wait_for "the log has \"$line\"" logged "$line"
done
restarted() { [ "$(kubectl get pods -l app=crash -o 'jsonpath={.items[0].status.containerStatuses[0].restartCount}')" -ge 2 ]; }
wait_for "the container is restarted again" restarted
for name in noimage crash noexec toobig noconfig unready; do
    n=$(grep -c " pods: $name: " "$dir/up.log")
    [ "$n" = 1 ] || fail "$n lines about $name"
done
! grep -q ' pods: fine' "$dir/up.log" || fail "a running pod is reported as a problem"
echo "ok: each cause is logged once"
stop_up

if ! command -v tmux >/dev/null 2>&1; then
    echo "ok: without windows, tmux is not installed"
    exit 0
fi

# The objects still exist, so the block is higher than the small windows.
tmux_() { tmux -S "$dir/tmux" -f /dev/null "$@"; }
shown() { tmux_ capture-pane -p -t up; }
has() { shown | grep -qF -- "$1"; }
also_stop_tmux() {
    with=$?
    set +e
    tmux_ send-keys -t up C-c
    soon ended
    tmux_ kill-server
    (exit "$with")
    finish
}
ended() { has "ENDED"; }
trap also_stop_tmux EXIT
tmux_ new-session -d -s up -x 80 -y 24 \
    "LC_ALL=C.UTF-8 '$gpuscale' up --data-dir '$dir/data' --api-port 0 --exporter-port 0 --prometheus-port 0 --gpus 2xTesla-T4; echo ENDED; sleep 100000"

# Checks the window: one block, no row wider than the window, and all parts.
window_is() { # WIDTH HEIGHT PART…
    width=$1 height=$2
    shift 2
    tmux_ resize-window -t up -x "$width" -y "$height"
    for part in '── gpuscale up [SIMULATED GP' "$@"; do
        wait_for "$width x $height has \"$part\"" has "$part"
    done
    before=$(copies)
    again=$(($(date +%s) + 4))
    while [ "$(date +%s)" -lt "$again" ]; do sleep 0.5; done # it is drawn again each second
    [ "$(copies)" = "$before" ] || fail "$width x $height: $(copies) copies of the block, before $before"
    shown >"$dir/screen"
    [ "$(grep -c '── gpuscale up' "$dir/screen")" = 1 ] || { cat "$dir/screen"; fail "$width x $height: not one block"; }
    echo "ok: $width x $height"
}
copies() { tmux_ capture-pane -p -t up -S -5000 | grep -c '── gpuscale up'; }
window_is 80 24 '  ! noimage: ImagePullBackOff: no command is configured for image "my-api:v1"' "→ start gpuscale up with --image 'my-api:v1=COMMAND'" 'Pods: '
window_is 60 20 '  ! noimage: ' '  ! unready: ' '…' 'Pods: '
window_is 40 10 '  ! noimage: no command is configured …' 'more reasons' 'Pods: '
window_is 30 6 'reasons'
