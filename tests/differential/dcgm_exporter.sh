#!/bin/sh
# NVIDIA's dcgm-exporter and gpuscale exporter on the same simulated GPUs at the same time: their
# pages are compared line by line, without and with --kubernetes. GPUSCALE_PEER_DCGM_EXPORTER is the
# path of the peer, which is built outside of this project (docs/compatibility/dcgm-exporter.md).
# Usage: dcgm_exporter.sh [NAME]…   only these cases, such as t4 or entities
only=$*
. "$(dirname "$0")/../integration/lib.sh"
need curl python3 kubectl
peer=${GPUSCALE_PEER_DCGM_EXPORTER:-}
[ -n "$peer" ] || skip "GPUSCALE_PEER_DCGM_EXPORTER does not name a dcgm-exporter"
[ -x "$peer" ] || fail "GPUSCALE_PEER_DCGM_EXPORTER: $peer is not a program"
libraries=$build/src/simulation/nvmlsim/nvml
counters=$build/src/cmd/default-counters.csv
compare=$(dirname "$0")/dcgm_exporter.py
export NODE_NAME=node
# Both programs read profiling values through an engine of their own. As the host engine they may
# share the counters.
export GPUSCALE_SIM_DCGM_HOSTENGINE=1
embedded="--dcgm embedded --dcgm-library $libraries/libdcgm.so.4"
dcgm=$embedded

has_profiling() { curl -sSf "$1" | grep -q '^DCGM_FI_PROF_DRAM_ACTIVE'; }

# take_pages NAME: reads both pages, one right after the other.
take_pages() {
    curl -sSf "$theirs" >"$dir/$1.peer" & page=$!
    curl -sSf "$ours" >"$dir/$1.ours"
    wait "$page"
}
same() {
    take_pages "$case"
    python3 "$compare" "$dir/$case.peer" "$dir/$case.ours" >"$dir/diff"
}

# compare_exporters NAME [FLAG]...: starts both with these flags, and compares their pages.
compare_exporters() {
    case=$1
    shift
    port=$(free_port)
    theirs=http://127.0.0.1:$port/metrics
    LD_LIBRARY_PATH=$libraries "$peer" --disable-startup-validate -f "$counters" -c 1000 -a "127.0.0.1:$port" "$@" >"$dir/$case-peer.log" 2>&1 &
    both=$!
    port=$(free_port)
    ours=http://127.0.0.1:$port/metrics
    # shellcheck disable=SC2086 # these are words
    "$gpuscale" exporter --nvml-library "$libraries/libnvidia-ml.so.1" $dcgm \
        --hostname-label Hostname -f "$counters" -c 1000 -a "127.0.0.1:$port" "$@" >"$dir/$case-ours.log" 2>&1 &
    both="$both $!"
    pids="$pids $both"
    wait_for "$case: the peer has profiling values" has_profiling "$theirs"
    wait_for "$case: gpuscale has profiling values" has_profiling "$ours"
    wait_same "$case: the pages differ"
    echo "ok: $case: $(head -n 1 "$dir/diff")"
    for pid in $both; do kill -TERM "$pid" && wait "$pid" || true; done
    pids=${pids% $both}
}

# Both read from a host engine: the peer through the simulated libdcgm, gpuscale by the socket protocol.
compare_with_engine() {
    "$gpuscale" sim hostengine serve --listen 127.0.0.1:5555 >"$dir/engine.log" 2>&1 &
    engine=$!
    pids="$pids $engine"
    wait_for "the host engine listens" grep -q 5555 "$dir/engine.log"
    dcgm=
    compare_exporters "$@" -r 127.0.0.1:5555
    dcgm=$embedded
    kill -TERM "$engine" && wait "$engine" || fail "the host engine ended with $?"
    pids=${pids% $engine}
}

# compare_model NAME GPUS: on one machine of gpuscale up, whose own exporter leaves the profiling
# counters alone.
compare_model() {
    case " $only " in "  " | *" $1 "*) ;; *) return 0 ;; esac
    name=$1
    printf 'gpus:\n%s\n' "$2" >"$dir/gpus.yaml"
    grep -v '^DCGM_FI_PROF_' "$counters" >"$dir/plain.csv"
    start_up --gpus "$dir/gpus.yaml" --collectors "$dir/plain.csv" -f "$dir/pod.yaml"
    wait_for "$name: the pod works" works
    export GPUSCALE_SIM="$segment"
    sleep 2 # NOT a limit: load must have lasted for a sample
    compare_exporters "$name"
    set -- -k --pod-resources-kubelet-socket "$dir/data/pod-resources/kubelet.sock"
    compare_exporters "$name-kubernetes" "$@"
    [ "$name" != a10 ] || compare_with_engine "$name-engine" "$@"
    unset GPUSCALE_SIM
    stop_up
    up_pid=
    rm -rf "$dir/data"
}
works() { kubectl logs deploy/work 2>/dev/null | grep -q works; }

cat >"$dir/pod.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: work}
spec:
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: load
        image: any
        command: [sh, -c, 'echo works; exec gpuscale sim load --util=40 --sm-share=0.5 --memory=2Gi']
        resources: {limits: {nvidia.com/gpu: 1}}
Y

compare_model t4 '- {model: Tesla-T4}'
compare_model v100 '- {model: Tesla-V100-SXM2-16GB}'
compare_model a10 '- {model: A10, count: 2}'
compare_model a100 '- {model: A100-SXM4-80GB}'
compare_model a100-mig '- {model: A100-SXM4-80GB, mig: [3g.40gb, 1g.10gb]}'
compare_model l4 '- {model: L4}'
compare_model h100 '- {model: H100-80GB-HBM3}'

# NVSwitches, NVLinks and CPUs. One switch: the peer calls all of them nvswitch0.
cat >"$dir/entities.csv" <<'C'
DCGM_FI_DRIVER_VERSION, label, Driver Version
DCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).
DCGM_FI_PROF_DRAM_ACTIVE, gauge, Ratio of cycles the device memory interface is active.
DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, Temperature of a switch.
DCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS, counter, Fatal errors of a link.
DCGM_FI_DEV_NVLINK_PPCNT_PLR_RCV_CODES, counter, Received codes of a link.
DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, Utilization of a core.
DCGM_FI_DEV_CPU_TEMP_CURRENT, gauge, Temperature of a CPU.
C
counters=$dir/entities.csv
compare_model entities '- {model: H100-80GB-HBM3, count: 2}
switches: 1
cpus: {count: 2, cores: 4}'
