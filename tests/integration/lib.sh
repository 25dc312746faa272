# Functions of the integration tests: they start `gpuscale up` in a temporary directory, wait for
# conditions and clean up. Needs GPUSCALE_BUILD_ROOT and GPUSCALE_SOURCE_ROOT. A test sources this
# file, and calls fail on a failure. Exit code 77: skipped.
set -eu

build=${GPUSCALE_BUILD_ROOT:?} source=${GPUSCALE_SOURCE_ROOT:?}
gpuscale=$build/src/cmd/gpuscale
intent_api=$build/examples/intent-api/intent-api
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-it-XXXXXX")
# --image takes a command line, in which the path is one word.
intent_api_command="'$(printf '%s\n' "$intent_api" | sed "s/'/'\\\\''/g")'"
up_pid= also_remove= segment=
# kubectl has a cache in the home directory. Programs that tests build once are in the user's cache.
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$HOME/.cache}" GOPATH="${GOPATH:-$HOME/go}"
export GOENV="${GOENV:-${XDG_CONFIG_HOME:-$HOME/.config}/go/env}" HOME="$dir/home"
# Temporary files of peers are removed with those of the test.
export TMPDIR="$dir/tmp"
mkdir "$HOME" "$TMPDIR"
export KUBECONFIG=$dir/data/kubeconfig
unset GPUSCALE_SIM XDG_DATA_HOME XDG_CONFIG_HOME KUBECACHEDIR 2>/dev/null || true

# Programs that a test starts itself have their pids in $pids or in $dir/*.pid.
pids=
stop_all() {
    pids="$pids $(cat "$dir"/*.pid 2>/dev/null || true)"
    for pid in $pids; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
}

finish() {
    code=$?
    trap - EXIT INT TERM
    if [ -n "$up_pid" ] && kill -0 "$up_pid" 2>/dev/null; then
        kill -TERM "$up_pid" 2>/dev/null || true
        wait "$up_pid" 2>/dev/null || true
    fi
    stop_all
    if [ "$code" != 0 ] && [ "$code" != 77 ]; then
        for log in "$dir"/*.log; do
            [ ! -f "$log" ] || { echo "--- $log:" && tail -n 60 "$log"; }
        done
    fi
    chmod -R u+rwX "$dir"
    rm -rf "$dir" ${also_remove:+"$also_remove"} ${segment:+"/dev/shm$segment"}
    exit "$code"
}
trap finish EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*"
    exit 1
}

skip() {
    echo "skipped: $*"
    exit 77
}

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
    done
}
need pgrep

# The time limit of all waits, in seconds. It is much longer than needed, also on a slow machine,
# but shorter than the four minutes after which an alert without updates expires.
patience=180

# soon COMMAND…: repeats the command until it succeeds. Fails at the time limit, or when gpuscale up
# ends.
soon() {
    deadline=$(($(date +%s) + patience))
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$deadline" ] || return 1
        [ -z "$up_pid" ] || kill -0 "$up_pid" 2>/dev/null || return 1
        sleep 0.2
    done
}

# The Prometheus API of the last gpuscale up.
engine_url() { sed -n 's/^Ready:.*Prometheus API \(http[^ ]*\).*/\1/p' "$dir/up.log" | tail -n 1; }

# wait_for DESCRIPTION COMMAND…
wait_for() {
    what=$1
    shift
    soon "$@" || fail "not reached: $what"
    echo "ok: $what"
}

# wait_same FAILURE: waits until `same` finds no difference. Otherwise prints $dir/diff.
wait_same() { soon same || { cut -c1-400 "$dir/diff"; fail "$1"; }; }

free_port() {
    while :; do
        port=$(shuf -i 20000-29999 -n 1)
        curl -s -o /dev/null --max-time 1 "http://127.0.0.1:$port/" || [ $? != 7 ] || break
    done
    echo "$port"
}

# start_both PROMETHEUS FLAG...: starts the engine and this Prometheus with $dir/prometheus.yml and
# these flags. Sets ours and theirs.
start_both() {
    prometheus=$1
    shift
    : >"$dir/engine.log" # the lines of an earlier one must not be read
    "$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 "$@" >"$dir/engine.log" 2>&1 &
    both=$!
    wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
    ours=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")
    port=$(free_port)
    theirs=http://127.0.0.1:$port
    "$prometheus" --config.file="$dir/prometheus.yml" --web.listen-address="127.0.0.1:$port" --storage.tsdb.path="$dir/data" "$@" >"$dir/prometheus.log" 2>&1 &
    both="$both $!"
    pids="$pids $both"
    wait_for "Prometheus is ready" curl -sSf "$theirs/-/ready"
}
stop_both() {
    pids=${pids% $both}
    for pid in $both; do kill -TERM "$pid" && wait "$pid" || true; done
}

# own_gpus NAME: simulated GPUs that this test creates; they are removed at its end.
own_gpus() {
    export GPUSCALE_SIM="/gpuscale-$1-$$"
    also_remove=/dev/shm$GPUSCALE_SIM
    [ -z "${GPUSCALE_TEST_TRACES:-}" ] || echo "$also_remove" >>"$GPUSCALE_TEST_TRACES"
}

# start_up [flags]: starts gpuscale up in the background, and returns when its API responds.
start_up() {
    : >"$dir/up.log" # the lines of an earlier one must not be read
    "$gpuscale" up --data-dir "$dir/data" --api-port 0 --exporter-port 0 --prometheus-port 0 "$@" >"$dir/up.log" 2>&1 &
    up_pid=$!
    wait_for "gpuscale up is ready" grep -q '^Ready:' "$dir/up.log"
    # Without GPUs of its own, the first node has no exporter.
    case " $* " in *" --gpus none "*) return 0 ;; esac
    # The simulated GPUs of this run: the environment of its pods and its exporter contains the
    # name.
    segment=$(tr '\0' '\n' <"/proc/$(pgrep -f "exporter .*$dir" | head -n 1)/environ" | sed -n 's/^GPUSCALE_SIM=//p')
    [ -n "$segment" ] || fail "the exporter has no simulated GPUs"
    # If this test is killed, tools/one-test removes them.
    [ -z "${GPUSCALE_TEST_TRACES:-}" ] || echo "/dev/shm$segment" >>"$GPUSCALE_TEST_TRACES"
}

stop_up() {
    kill -TERM "$up_pid"
    wait "$up_pid" || fail "gpuscale up ended with exit code $?"
    up_pid=
}

# Succeeds if no process of this run exists: none has its directory or its GPUs in its environment.
nothing_left() {
    ! pgrep -f "$dir" >/dev/null && ! grep -zqsx "GPUSCALE_SIM=${segment:-none}" /proc/[0-9]*/environ
}

replicas() { kubectl get deployment "$1" -o 'jsonpath={.spec.replicas}'; }
replicas_are() { [ "$(replicas "$1")" = "$2" ]; }
replicas_above() { [ "$(replicas "$1")" -gt "$2" ]; }
pods_ready() { [ "$(kubectl get deployment "$1" -o 'jsonpath={.status.readyReplicas}')" = "$2" ]; }
service_address() {
    moved=$(kubectl get service "$1" -o 'jsonpath={.metadata.annotations.gpuscale\.dev/address}')
    [ -n "$moved" ] || moved=$(kubectl get service "$1" -o 'jsonpath={.status.loadBalancer.ingress[0].ip}')
    echo "$moved"
}
# scaling_works: does scaling still work? Load on a GPU must add replicas, and its end must remove them. The metric needs
# the exporter, the state of objects, a rule, the adapter and the autoscaler. The pods need no GPU. For the end of tests
# of faults; takes a few seconds.
scaling_works() {
    "$gpuscale" sim load --name "$segment" --gpu 0 --util 100 >"$dir/load.txt" 2>&1 &
    scaling_load=$!
    pids="$pids $scaling_load"
    cat >"$dir/scaling.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaling-works}
spec:
  selector: {matchLabels: {app: scaling-works}}
  template:
    metadata: {labels: {app: scaling-works}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: any, command: [sleep, infinity]}]
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: scaling-works}
spec:
  groups:
  - name: scaling-works
    interval: 1s
    rules:
    - record: DCGM_FI_SCALING_WORKS
      expr: max(DCGM_FI_DEV_GPU_UTIL) * max(kube_deployment_labels{deployment="scaling-works"})
      labels: {namespace: default, pod: all}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaling-works}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaling-works}
  minReplicas: 1
  maxReplicas: 3
  metrics:
  - type: Object
    object:
      describedObject: {apiVersion: v1, kind: Namespace, name: default}
      metric: {name: DCGM_FI_SCALING_WORKS}
      target: {type: Value, value: "30"}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
Y
    kubectl apply -f "$dir/scaling.yaml" >"$dir/scaling.txt" 2>&1 || fail "scaling: $(cat "$dir/scaling.txt")"
    wait_for "scaling: load adds replicas" pods_ready scaling-works 3
    kill "$scaling_load"
    wait "$scaling_load" 2>/dev/null || true
    wait_for "scaling: its end removes them" replicas_are scaling-works 1
}
# specification FILE: the specs of its objects without fields that controllers set.
specification() {
    kubectl get -f "$1" -o json | jq -cS '[.items // [.] | .[] | [.kind, (.spec | del(.replicas, .nodeName, .clusterIP, .clusterIPs, .ports[]?.nodePort))]] | sort'
}
# apply_original NAME: applies the guide's own file beside the project, if it is there. The objects of examples/guides/NAME
# must not change by it.
apply_original() {
    original=$source/../shared/walkthroughs/$1 ours=$source/examples/guides/$1
    [ -f "$original" ] || return 0
    before=$(specification "$ours")
    kubectl apply -f "$original" >"$dir/apply.log" 2>&1 || fail "$original is refused: $(cat "$dir/apply.log")"
    [ "$before" = "$(specification "$ours")" ] || fail "$original differs from $ours"
    echo "ok: the guide's own $1 makes the same objects"
}
