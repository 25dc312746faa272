#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# NVSwitches, NVLinks, CPUs and cores of a simulated host engine on the page of `gpuscale exporter`,
# through its socket protocol and through libdcgm, and the selection of devices.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need curl

library=$build/src/simulation/nvmlsim/nvml/libdcgm.so.4
export GPUSCALE_SIM="/gpuscale-it-engine-$$" GPUSCALE_NVML_LIBRARY="$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so"
segment=$GPUSCALE_SIM
printf 'gpus:\n- {model: H100-80GB-HBM3, count: 2}\nswitches: 2\ncpus: {count: 2, cores: 4}\n' >"$dir/machine.yaml"
"$gpuscale" sim create "$dir/machine.yaml" >"$dir/sim.log" 2>&1 || fail "sim create: $(cat "$dir/sim.log")"
cat >"$dir/counters.csv" <<'C'
DCGM_FI_DRIVER_VERSION, label, driver
DCGM_FI_DEV_GPU_TEMP, gauge, temperature of a GPU
DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT, gauge, temperature of a switch
DCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS, counter, errors of a link
DCGM_FI_DEV_NVLINK_PPCNT_PLR_RCV_CODES, counter, codes of a link
DCGM_FI_DEV_CPU_UTIL_TOTAL, gauge, utilization of a core
C

"$gpuscale" sim hostengine serve --listen "unix:$dir/engine" >"$dir/engine.log" 2>&1 &
pids="$pids $!"
wait_for "the host engine listens" test -S "$dir/engine"

# take NAME FLAG…: the lines of an exporter with these flags, without those about itself, in $dir/NAME.
take() {
    name=$1
    shift
    "$gpuscale" exporter --address 127.0.0.1:0 --collect-interval 200 --no-hostname -f "$dir/counters.csv" "$@" >"$dir/$name.log" 2>&1 &
    exporter=$!
    pids="$pids $exporter"
    wait_for "the exporter $name listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/$name.log"
    url=$(sed -n 's#.*\(http://127.0.0.1:[0-9]*/metrics\).*#\1#p' "$dir/$name.log" | head -n 1)
    wait_for "$name: values of DCGM" has_values
    curl -sSf "$url" | grep -v '^#\|^gpuscale_\|^DCGM_CUSTOM\|GPU_TEMP' | sort >"$dir/$name"
    curl -sSf "$url" | grep '^# TYPE DCGM_FI' | sort | uniq -d >"$dir/doubled"
    [ ! -s "$dir/doubled" ] || fail "$name: headers occur twice: $(cat "$dir/doubled")"
    kill "$exporter"
}
has_values() { curl -sSf "$url" | grep -q '^DCGM_FI_DEV_CPU_UTIL_TOTAL'; }
lines() { [ "$(grep -c "$2" "$dir/$1")" = "$3" ] || fail "$1: $(grep -c "$2" "$dir/$1") lines with $2 instead of $3"; }

take wire --dcgm="unix:$dir/engine"
driver='DCGM_FI_DRIVER_VERSION="[0-9.]*-simulated"'
grep -q "^DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT{nvswitch=\"nvswitch1\",$driver} [0-9]" "$dir/wire" || fail "no line of a switch"
grep -q "^DCGM_FI_DEV_NVSWITCH_LINK_FATAL_ERRORS{nvlink=\"0\",nvswitch=\"nvswitch0\",$driver} 0" "$dir/wire" || fail "no line of a link of a switch"
grep -q '^DCGM_FI_DEV_NVLINK_PPCNT_PLR_RCV_CODES{nvlink="1",gpu="0",gpu_uuid="GPU-.*model_name="NVIDIA H100' "$dir/wire" || fail "no line of a link of a GPU"
! grep -q 'nvlink="0",gpu=' "$dir/wire" || fail "links of GPUs are numbered from 1"
grep -q "^DCGM_FI_DEV_CPU_UTIL_TOTAL{cpu=\"1\",$driver}" "$dir/wire" || fail "no line of a CPU"
grep -q "^DCGM_FI_DEV_CPU_UTIL_TOTAL{cpucore=\"7\",cpu=\"1\",$driver}" "$dir/wire" || fail "no line of a core"
lines wire 'cpucore=' 8
echo "ok: lines of each kind"

take library --dcgm="unix:$dir/engine" --dcgm-library="$library"
cmp "$dir/wire" "$dir/library" || fail "the page depends on how the engine is read"
echo "ok: the same lines through libdcgm"

take selected --dcgm="unix:$dir/engine" -s g:1 -p g:0+i:2-3 -d g:0
lines selected 'nvswitch="nvswitch0"' 0
lines selected '{nvswitch="nvswitch1"' 1
lines selected 'nvlink=".*nvswitch=' 0
lines selected 'cpucore=' 2
lines selected '{cpu="1"' 0
lines selected 'gpu="1"' 0
echo "ok: --switch-devices, --cpu-devices and --devices select"
"$gpuscale" exporter -s h --dcgm=off >"$dir/wrong" 2>&1 && fail "-s h is accepted"
grep -q 'switch-devices "h": want f' "$dir/wrong" || fail "-s h: $(cat "$dir/wrong")"
