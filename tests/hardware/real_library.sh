#!/bin/sh
# Tests the libnvidia-ml.so.1 of Debian's non-free archive without a driver: all functions that
# gpuscale calls are looked up, and the exporter must report what is missing. The package is
# unpacked into a temporary directory and is neither installed nor kept.
set -eu
build=${GPUSCALE_BUILD_ROOT:?}
dir=$(mktemp -d /tmp/gpuscale-nvml-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM

fail() {
    echo "FAILED: $*"
    exit 1
}
skip() {
    echo "skipped: $*"
    exit 77
}

for tool in apt-get dpkg-deb; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
[ ! -e /proc/driver/nvidia/version ] || skip "an NVIDIA driver is loaded here"
[ -f /usr/share/keyrings/debian-archive-keyring.gpg ] || skip "this is not Debian: there is no archive keyring"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ -n "$release" ] || skip "the release of this Debian is unknown"

# A private apt configuration, which reads no other sources and changes nothing on the system.
mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $release non-free" >"$dir/sources.list"
apt() {
    timeout 120 apt-get -o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$dir/lists" \
        -o Dir::Cache="$dir/cache" -o APT::Sandbox::User= -o Acquire::Retries=0 "$@"
}
apt update >"$dir/apt.log" 2>&1 || skip "Debian's non-free archive cannot be reached: $(tail -n 1 "$dir/apt.log")"
(cd "$dir" && apt download libnvidia-ml1) >"$dir/apt.log" 2>&1 ||
    skip "libnvidia-ml1 cannot be fetched: $(tail -n 1 "$dir/apt.log")"
dpkg-deb -x "$dir"/libnvidia-ml1_*.deb "$dir/root"
library=$(find "$dir/root" -name 'libnvidia-ml.so.1' | head -n 1)
[ -n "$library" ] || fail "the package has no libnvidia-ml.so.1"
version=$(basename "$dir"/libnvidia-ml1_*.deb | cut -d _ -f 2)
branch=${version%%.*}
echo "ok: libnvidia-ml1 $version of $release/non-free"

# As root, the library would create /dev/nvidiactl permanently.
without_nodes() {
    if [ "$(id -u)" = 0 ]; then setpriv --bounding-set=-mknod --inh-caps=-mknod "$@"; else "$@"; fi
}
nodes=$(ls /dev | grep -c '^nvidia' || true)
without_nodes "$build/tests/hardware/nvml-symbols" "$library" >"$dir/symbols" || fail "the library is not loaded"
cat "$dir/symbols"

# Newer functions, with the first driver branch that has them. Other missing functions are errors in
# a name.
later='nvmlDeviceGetGpuFabricInfoV 545
nvmlDeviceGetSramEccErrorStatus 550
nvmlDeviceGetProcessesUtilizationInfo 550
nvmlDeviceGetTemperatureV 570
nvmlDeviceGetMarginTemperature 570
nvmlDeviceGetUnrepairableMemoryFlag_v1 590'
# Drivers from 535.98 on in R535 do not export the _v3 lists. The _v2 lists are used.
lists='nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3'
grep '^absent' "$dir/symbols" | while read -r _ name rest; do
    first=$(echo "$later" | awk -v n="$name" '$1 == n {print $2}')
    if [ -n "$first" ]; then
        [ "$branch" -lt "$first" ] || fail "$name is absent in R$branch; it was expected since R$first"
    else
        case " $lists " in *" $name "*) ;; *) fail "no R$branch exports $name${rest:+ or $rest}" ;; esac
    fi
done
echo "ok: $(grep -c '^present' "$dir/symbols") calls are exported, $(grep -c '^absent' "$dir/symbols") are of other drivers"

grep -qE '^nvmlInit_v2 returns (9 DRIVER_NOT_LOADED|12 LIBRARY_NOT_FOUND)$' "$dir/symbols" ||
    fail "without a driver: $(tail -n 1 "$dir/symbols")"
echo "ok: $(tail -n 1 "$dir/symbols")"

# A machine with a GPU and without a loaded driver.
mkdir -p "$dir/sys/bus/pci/devices/0000:01:00.0"
echo 0x10de >"$dir/sys/bus/pci/devices/0000:01:00.0/vendor"
echo 0x030200 >"$dir/sys/bus/pci/devices/0000:01:00.0/class"
status=0
without_nodes timeout 60 "$build/src/cmd/gpuscale" exporter --address 127.0.0.1:0 --nvml-library "$library" --host-sys "$dir/sys" \
    2>"$dir/exporter.log" || status=$?
[ "$status" = 1 ] || fail "the exporter ends with $status: $(cat "$dir/exporter.log")"
grep -q 'nvmlInit_v2 failed: DRIVER_NOT_LOADED (9)' "$dir/exporter.log" || fail "the exporter says: $(cat "$dir/exporter.log")"
echo "ok: the exporter ends and says why: $(tail -n 1 "$dir/exporter.log")"
[ "$(ls /dev | grep -c '^nvidia' || true)" = "$nodes" ] || fail "a device node of NVIDIA was left in /dev"
