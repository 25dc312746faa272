#!/bin/sh
# Runs the hardware test on simulated GPUs, with a simulated nvidia-smi and CUDA driver: it must
# pass if both sides agree, detect a side that is wrong, and exit with 77 without a GPU.
set -eu
build=${GPUSCALE_BUILD_ROOT:?} source=${GPUSCALE_SOURCE_ROOT:?}
here=$source/tests/hardware
for tool in python3 jq kubectl; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
dir=$(mktemp -d /tmp/gpuscale-hardware-test-XXXXXX)
export GPUSCALE=$build/src/cmd/gpuscale GPUSCALE_SIM=/gpuscale-hardware-test-$$
finish() {
    code=$?
    trap - EXIT
    "$GPUSCALE" sim delete >/dev/null 2>&1 || true
    rm -rf "$dir"
    exit $code
}
trap finish EXIT
trap 'exit 1' INT TERM
fail() {
    echo "FAILED: $*"
    exit 1
}

(cd "$here" && python3 test_fields.py) || fail "unit tests of the comparison"

# run NAME STATUS [flags]: with $path as PATH. Output is in $dir/NAME.log, the report in $dir/NAME.
run() {
    name=$1 want=$2
    shift 2
    # On a slow machine, the load may not keep the simulated GPU busy, so the test is repeated if
    # the status is wrong.
    for try in 1 2 3 4; do
        status=0
        env PATH="$path" "$here/run" "$@" "$build" "$dir/$name" >"$dir/$name.log" 2>&1 || status=$?
        cat "$dir/$name.log"
        [ "$status" != "$want" ] || return 0
        echo "attempt $try: exit status $status instead of $want"
    done
    fail "$name: exit status $status instead of $want"
}

# Without a GPU. The path contains only an interpreter, because nvidia-smi may be installed here.
mkdir "$dir/bin"
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$dir/bin/python3"
path=$dir/bin
run nothing 77
path=$here/simulated:$PATH
grep -q '^No NVIDIA GPU to test on: nvidia-smi is not installed' "$dir/nothing.log" || fail "no word about the missing GPU"
[ ! -e "$dir/nothing" ] || fail "a report about nothing"

export CUDA_DRIVER_LIBRARY="$build/tests/hardware/libsimcuda.so"
export GPUSCALE_NVML_LIBRARY="$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so"
# The table of fields is read by columns, so the longest name must not move them.
"$GPUSCALE" exporter --simulate 1xH100-80GB-HBM3 --list-fields >"$dir/list" 2>/dev/null
awk 'NR == 1 {at = index($0, "SUPPORTED"); next} $1 ~ /^[0-9]+$/ && $2 !~ /_EXP_/ && !/only DCGM/ && substr($0, at - 1, 2) !~ /^ [^ ]$/ {print; bad = 1}
    END {exit bad}' "$dir/list" || fail "columns of --list-fields"
export HARDWARE_UP_FLAGS=--gpus=1xH100-80GB-HBM3 # its own GPUs, which its pods see
"$GPUSCALE" sim create 2xH100-80GB-HBM3 >/dev/null

run good 0
jq -e '.facts.simulated and .counts.failed == 0' "$dir/good/report.json" >/dev/null || fail "good: the report's counts"
grep -q '^# Hardware test (SIMULATED GPUs: no hardware)' "$dir/good/report.md" || fail "the report does not say that it is simulated"
# passed STAGE CHECK…: these checks ran and passed.
passed() {
    stage=$1
    shift
    for name in "$@"; do
        jq -e --arg s "$stage" --arg n "$name" '[.stages[$s].checks[] | select(.name == $n and .status == "passed")] | length == 1' \
            "$dir/good/report.json" >/dev/null || fail "good: $stage: no passed check \"$name\""
    done
}
passed idle 'DCGM_FI_DEV_UUID of GPU 0' 'DCGM_FI_DEV_FB_USED of GPU 1' 'DCGM_FI_DEV_GPU_TEMP of GPU 0' \
    'DCGM_FI_DEV_POWER_USAGE of GPU 1' 'DCGM_FI_DEV_MINOR_NUMBER of GPU 1' 'DCGM_FI_DEV_PCI_BUSID of GPU 0'
passed 'under load' 'DCGM_FI_DEV_GPU_UTIL of GPU 0' 'utilisation under full load' 'memory of the load' 'energy counter against power'
passed 'performance counters (GPM)' 'DCGM_FI_PROF_GR_ENGINE_ACTIVE under load' 'DCGM_FI_PROF_GR_ENGINE_ACTIVE when idle'
passed processes 'memory of the busy process' 'the busier process has more' 'the idle process has 0' 'together at most 100 %'
passed 'memory limits' 'memory of the GPU as in NVML'
passed 'cost of NVML calls' 'calls are counted' 'no call fails'
passed 'cost of the exporter' 'CPU of the exporter' 'memory of the exporter'
passed 'gpuscale up' 'the autoscaler reads the GPU'"'"'s utilisation' "the pod's GPU is attributed to it"
echo "ok: both sides agree"

# One side is wrong: one column, one failing call, and a missing load.
WRONG_COLUMN=temperature.gpu run wrong 1 --only idle
failed=$(jq -r '[.stages[].checks[] | select(.status == "failed") | .name] | join(", ")' "$dir/wrong/report.json")
[ "$failed" = 'DCGM_FI_DEV_GPU_TEMP of GPU 0, DCGM_FI_DEV_GPU_TEMP of GPU 1' ] || fail "wrong temperature: failed are $failed"
"$GPUSCALE" sim fail nvmlDeviceGetPowerUsage --gpu=1 --code=UNKNOWN
run broken 1 --only idle --only 'cost of NVML calls'
failed=$(jq -r '[.stages[].checks[] | select(.status == "failed") | .name] | join(", ")' "$dir/broken/report.json")
[ "$failed" = 'DCGM_FI_DEV_POWER_USAGE of GPU 1, no call fails' ] || fail "failing call: failed are $failed"
"$GPUSCALE" sim clear
# A host engine of GPUs whose profiling metrics NVML does not have.
machine=$GPUSCALE_SIM
export GPUSCALE_SIM=$machine-dcgm
"$GPUSCALE" sim create 1xTesla-T4 >/dev/null
"$GPUSCALE" sim hostengine serve --listen=127.0.0.1:5555 >"$dir/engine.log" 2>&1 &
engine=$!
for wait in 1 2 3 4 5 6 7 8 9 10; do grep -q 5555 "$dir/engine.log" || sleep 1; done
HARDWARE_DCGM_LIBRARY=$build/src/simulation/nvmlsim/nvml/libdcgm.so.4 run dcgm 0 --only DCGM
for name in 'the host engine is read' 'profiling metrics' 'activity under load' 'through libdcgm'; do
    jq -e --arg n "$name" '[.stages.DCGM.checks[] | select(.name == $n and .status == "passed")] | length == 1' "$dir/dcgm/report.json" >/dev/null ||
        fail "dcgm: no passed check \"$name\""
done
kill "$engine"
"$GPUSCALE" sim delete >/dev/null
GPUSCALE_SIM=$machine

CUDA_DRIVER_LIBRARY=/nonexistent run noload 0 --only processes
jq -e '.counts == {passed: 0, failed: 0, skipped: 1}' "$dir/noload/report.json" >/dev/null || fail "without CUDA: $(cat "$dir/noload.log")"
GPUSCALE_NVML_LIBRARY=/nonexistent run nolibrary 1 --only idle
jq -e '.counts.failed == 1' "$dir/nolibrary/report.json" >/dev/null || fail "no report without NVML: $(cat "$dir/nolibrary.log")"
echo "ok: differences are found"
