#!/bin/sh
# Archives with images for amd64 and arm64: compiles for arm64, makes the archives, and runs the programs of the complete arm64 image
# with qemu-user. Takes a quarter of an hour the first time.
# Usage: tests/image/arm64.sh [BUILD]
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build}
skipped() {
    echo "skipped: $*"
    exit 77
}
fail() {
    for log in "$dir"/*.log; do [ ! -f "$log" ] || { echo "--- $log:" && tail -n 40 "$log"; }; done
    echo "FAILED: $*"
    exit 1
}
[ "$(dpkg --print-architecture)" = amd64 ] || skipped "this machine is not amd64"
tools/install-deps build image arm64 >/dev/null || skipped "a cross compiler or qemu-user is not installed"
tools/sysroot arm64 >/dev/null || skipped "the packages for arm64 cannot be fetched"
dir=$(mktemp -d) pids=
finish() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$dir" /dev/shm/gpuscale-arm64-$$
}
trap finish EXIT
trap 'exit 130' INT TERM

tools/image --output "$dir" --arch "amd64 arm64" "$build" >"$dir/image.log" 2>&1 || fail "tools/image"
grep -E ' (amd64|arm64): ' "$dir/image.log"
mkdir "$dir/layout" "$dir/root"
tar -C "$dir/layout" -xf "$dir"/*-full-multi.oci.tar
blob() { echo "$dir/layout/blobs/$(echo "$1" | tr : /)"; }
index=$(blob "$(jq -r '.manifests[0].digest' "$dir/layout/index.json")")
[ "$(jq -r '[.manifests[].platform.architecture] | join(" ")' "$index")" = "amd64 arm64" ] || fail "the index of the images"
manifest=$(blob "$(jq -r '.manifests[1].digest' "$index")")
for layer in $(jq -r '.layers[].digest' "$manifest"); do tar -C "$dir/root" --no-same-owner -xzf "$(blob "$layer")"; done
jq -e '[.packages[] | select(.name == "libc6")][0].externalRefs[0].referenceLocator | endswith("?arch=arm64")' "$dir"/*-full-arm64.spdx.json >/dev/null || fail "the bill of materials"

program=$dir/root/usr/bin/gpuscale
readelf -h "$program" | grep -q AArch64 || fail "the program is not for arm64"
run() { qemu-aarch64 -L "$dir/root" "$@"; }
# start NAME ARGUMENTS…: in the background; its output is in NAME.log. The process is qemu's, not that of a shell.
start() {
    log=$dir/$1.log
    shift
    (exec qemu-aarch64 -L "$dir/root" "$program" "$@") >"$log" 2>&1 &
    pids="$pids $!"
}
[ "$(run "$program" --version)" = "gpuscale $(tools/version)" ] || fail "--version"
run "$program" version -o json | grep machine
# wait_for DESCRIPTION COMMAND…
wait_for() {
    what=$1 deadline=$(($(date +%s) + 120))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$deadline" ] || fail "not reached: $what"
        sleep 0.5
    done
    echo "ok: $what"
}
export GPUSCALE_SIM=/gpuscale-arm64-$$
start exporter exporter --simulate=2xH100-80GB-HBM3 --address=127.0.0.1:0
address() { sed -n 's,.*exporter: http://\(127\.0\.0\.1:[0-9]*\)/metrics.*,\1,p' "$dir/exporter.log" | head -n 1; }
metrics() { curl -s "http://$(address)/metrics" | grep -q '^DCGM_FI_DEV_GPU_TEMP.*H100'; }
wait_for "metrics of simulated GPUs on arm64" metrics
printf 'scrape_configs: [{job_name: dcgm, scrape_interval: 1s, static_configs: [{targets: ["%s"]}]}]\n' "$(address)" >"$dir/prometheus.yml"
start engine --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/samples" --web.listen-address=127.0.0.1:0
engine() { sed -n 's,.*listening on \(http://127.0.0.1:[0-9]*\).*,\1,p' "$dir/engine.log" | head -n 1; }
query() { run "$program" promtool query instant "$(engine)" 'avg(DCGM_FI_DEV_POWER_USAGE)' | grep -q '@'; }
wait_for "a query on arm64" query
