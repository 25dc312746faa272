#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# DCGM as a source of `gpuscale exporter`, with the simulated libdcgm and its host engine: profiling
# metrics of a T4 beside an H100, and each way in which the engine or the library fails.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need curl

library=$build/src/simulation/nvmlsim/nvml/libdcgm.so.4
[ -e "$library" ] || skip "the simulated libdcgm is not built"
export GPUSCALE_SIM="/gpuscale-it-dcgm-$$" GPUSCALE_NVML_LIBRARY="$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so"
segment=$GPUSCALE_SIM
sim() { "$gpuscale" sim "$@" >"$dir/sim.log" 2>&1 || fail "sim $*"; }
sim create 1xTesla-T4,1xH100-80GB

"$gpuscale" sim hostengine serve --listen 127.0.0.1:0 >"$dir/engine.log" 2>&1 &
engine=$!
pids="$pids $engine"
wait_for "the host engine listens" grep -q '127.0.0.1:[0-9]' "$dir/engine.log"
address=$(grep -o '127\.0\.0\.1:[1-9][0-9]*' "$dir/engine.log" | head -n 1)

# start_exporter NAME FLAG…: sets url_NAME and pid_NAME.
start_exporter() {
    name=$1
    shift
    "$gpuscale" exporter --address 127.0.0.1:0 --collect-interval 200 "$@" >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
    eval "pid_$name=$!"
    wait_for "the exporter $name listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/$name.log"
    eval "url_$name=$(sed -n 's#.*\(http://127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/$name.log" | head -n 1)"
}
page() { eval "curl -sSf \"\$url_$1/metrics\"" >"$dir/page.$1"; }
# has NAME GPU: the page has a profiling value of this GPU.
has() { page "$1" && grep -q "^DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"$2\"" "$dir/page.$1"; }
lacks() { page "$1" && ! grep -q "^DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"$2\"" "$dir/page.$1" && grep -q '^DCGM_FI_DEV_GPU_TEMP{gpu="0"' "$dir/page.$1"; }
# reports NAME LINE: the page has a line that begins so.
reports() { page "$1" && grep -q "^gpuscale_exporter_$2" "$dir/page.$1"; }
index_says() { eval "curl -sSf \"\$url_$1/\"" | grep -q "$2"; }

# --- nothing without need ---
start_exporter off --dcgm=off
wait_for "an H100 has profiling metrics from NVML" has off 1
lacks off 0 || fail "off: a T4 has profiling metrics"
! grep -q 'libdcgm\|dcgmsim' "/proc/$pid_off/maps" || fail "off: libdcgm is loaded"
[ "$(pgrep -c -P "$pid_off")" = 0 ] || fail "off: there is a child"
! grep -q 'gpuscale_exporter_dcgm\|source="dcgm"' "$dir/page.off" || fail "off: metrics of DCGM"
kill "$pid_off"
printf 'DCGM_FI_DEV_GPU_TEMP, gauge, t\n' >"$dir/plain.csv"
start_exporter plain --dcgm=embedded --dcgm-library="$library" -f "$dir/plain.csv"
wait_for "metrics of NVML" lacks plain 0
! grep -q 'libdcgm\|dcgmsim' "/proc/$pid_plain/maps" || fail "no need: libdcgm is loaded"
[ "$(pgrep -c -P "$pid_plain")" = 0 ] || fail "no need: there is a child"
kill "$pid_plain"

# --- an engine ---
start_exporter wire -r "$address"
wait_for "profiling metrics of the T4 through the socket" has wire 0
has wire 1 || fail "the H100 lost its own"
reports wire 'dcgm_info{version="[0-9.]*",mode="wire",simulated="true"} 1' || fail "dcgm_info"
reports wire 'source_up{source="dcgm"} 1' || fail "source_up"
start_exporter reader --dcgm="$address" --dcgm-library="$library"
wait_for "a second exporter of the same engine has them, too" has reader 0
reports reader 'dcgm_info{version="[0-9.]*",mode="library",simulated="true"} 1' || fail "dcgm_info"
! grep -q 'libdcgm\|dcgmsim' "/proc/$pid_reader/maps" || fail "libdcgm is in the exporter"
has wire 0 || fail "the first exporter lost them"

# Before Hopper one process of a machine has the counters.
start_exporter embedded --dcgm=embedded --dcgm-library="$library"
wait_for "the reason why an embedded engine has no counters" reports embedded 'dcgm_profiling_up 0'
lacks embedded 0 || fail "embedded: two owners"
wait_for "the reason is on the page" index_says embedded 'another process owns the profiling counters'
kill "$pid_embedded"

# --- failures of the engine ---
for state in stop:start pause:resume; do
    sim hostengine "${state%:*}"
    for name in wire reader; do
        wait_for "hostengine ${state%:*}: no profiling metrics in $name" lacks $name 0
        has $name 1 || fail "the H100 lost its own"
    done
    sim hostengine "${state#*:}"
    for name in wire reader; do
        wait_for "hostengine ${state#*:}: profiling metrics in $name" has $name 0
    done
done
sim hostengine restart
for name in wire reader; do
    wait_for "hostengine restart: $name connects again" reports $name 'dcgm_restarts_total{reason="connection"} [1-9]'
    wait_for "hostengine restart: profiling metrics in $name" has $name 0
done
kill -STOP "$engine"
wait_for "an engine that does not answer: no old values" lacks wire 0
kill -CONT "$engine"
wait_for "it answers again" has wire 0

# --- dead counters ---
"$gpuscale" sim load --gpu 0 --util 90 >"$dir/load.log" 2>&1 &
pids="$pids $!"
sim dead-counters 0 on
for name in wire reader; do
    wait_for "dead counters are no zeros in $name" lacks $name 0
    reports $name 'dcgm_dead_counters_total [1-9]' || fail "dcgm_dead_counters_total"
done
sim dead-counters 0 off
wait_for "the counters count again" has wire 0

# --- failures of the library; the engine uses the same functions ---
kill "$pid_wire" "$engine"
sim hostengine start
wait_for "profiling metrics in reader" has reader 0
sim crash dcgmEntitiesGetLatestValues
wait_for "a crash of the library" reports reader 'dcgm_restarts_total{reason="crash"} [1-9]'
kill -0 "$pid_reader" || fail "the exporter ended"
sim clear
wait_for "profiling metrics after a crash" has reader 0

# --- an address where nothing is ---
start_exporter dead -r 127.0.0.1:1
# NVML computes them from two samples.
wait_for "a dead address: the H100 has its own metrics" has dead 1
lacks dead 0 || fail "a dead address: the T4 has metrics that only DCGM has"
wait_for "a dead address: source_up" reports dead 'source_up{source="dcgm"} 0'

# --- MIG before Hopper ---
kill "$pid_reader" "$pid_dead"
export GPUSCALE_SIM="/gpuscale-it-dcgm-mig-$$"
printf 'gpus:\n- model: A100-SXM4-80GB\n  mig: [1g.10gb, 3g.40gb]\n' >"$dir/mig.yaml"
sim create "$dir/mig.yaml"
start_exporter mig --dcgm=embedded --dcgm-library="$library"
mig_values() { page mig && [ "$(grep -c '^DCGM_FI_PROF_GR_ENGINE_ACTIVE{.*GPU_I_ID=' "$dir/page.mig")" = 2 ]; }
wait_for "profiling metrics of the MIG devices of an A100" mig_values
kill "$pid_mig"
sim delete
