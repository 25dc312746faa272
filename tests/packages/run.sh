#!/bin/bash
# Builds the Debian packages in clean systems, one for each release of Debian, and uses them as an administrator does:
# install, upgrade, services under systemd (booted in a container), sockets, removal, purge.
# Usage: tests/packages/run.sh [--hold] [--packages DIR] [RELEASE…]    releases: bookworm trixie
#   --hold          leaves each booted system, with the packages installed, until Enter is pressed
#   --packages DIR  uses the packages in DIR/RELEASE, and puts them there if this folder does not exist
# Needs root, debootstrap, systemd-nspawn and the Debian archive. The clean systems are kept in ~/.cache/gpuscale/debian.
set -eu
cd "$(dirname "$0")/../.."
source=$PWD
hold= kept=
while [ $# != 0 ]; do
    case $1 in
    --hold) hold=yes ;;
    --packages) kept=$(realpath -m "$2") && shift ;;
    -*) sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
    *) break ;;
    esac
    shift
done
[ $# != 0 ] || set -- bookworm trixie
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/debian
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

skip() { echo "skipped: $*" && exit 77; }
[ "$(id -u)" = 0 ] || skip "clean systems are created by root"
# Containers and mounts end with this script, even if it is killed: its namespaces end with it.
if [ -z "${GPUSCALE_OWN_NAMESPACES:-}" ]; then
    export GPUSCALE_OWN_NAMESPACES=yes
    setpriv --pdeathsig=KILL unshare --mount --propagation=private --pid --mount-proc --fork --kill-child \
        "$source/tests/packages/run.sh" ${hold:+--hold} ${kept:+--packages "$kept"} "$@" &
    pid=$!
    trap 'kill -TERM $(cat "/proc/$pid/task/$pid/children")' INT TERM # unshare ignores them
    code=0
    wait "$pid" || code=$?
    while kill -0 "$pid" 2>/dev/null; do wait "$pid" || code=$?; done
    exit "$code"
fi
for program in debootstrap systemd-nspawn dpkg-deb unshare setpriv; do
    command -v "$program" >/dev/null 2>&1 || skip "$program is missing (apt install debootstrap systemd-container)"
done
host=${mirror#*//} && host=${host%%/*}
timeout 20 bash -c "exec 3<>/dev/tcp/$host/80" 2>/dev/null || skip "$host cannot be reached"

scratch=$(mktemp -d)
containers= mounts=
finish() {
    code=$?
    trap - EXIT INT TERM
    for pid in $containers; do kill -KILL "$pid" 2>/dev/null || true; done
    for pid in $containers; do wait "$pid" 2>/dev/null || true; done
    # shellcheck disable=SC2086 # each mount is a word
    for mount in $mounts; do umount "$mount" 2>/dev/null || umount -l "$mount"; done
    rm -rf --one-file-system "$scratch"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM
passed=0 release=
ok() { echo "ok: $release: $*" && passed=$((passed + 1)); }
fail() {
    echo "FAILED: $release: $*"
    [ ! -s "$scratch/output" ] || tail -n 60 "$scratch/output"
    echo "$passed passed, 1 failed"
    exit 1
}
# quiet COMMAND…: its output is printed if it fails.
quiet() { "$@" >"$scratch/output" 2>&1 </dev/null || fail "$*"; }

nspawn=(systemd-nspawn --quiet --register=no --keep-unit --resolv-conf=replace-host)
# in_root ROOT COMMAND…: with the network of this machine, without booting.
in_root() { local root=$1 && shift && "${nspawn[@]}" --pipe --directory "$root" --setenv=DEBIAN_FRONTEND=noninteractive --setenv=LC_ALL=C.UTF-8 -- "$@"; }

# base NAME RELEASE COMMAND: creates a clean system in the cache, unless it is there.
base() {
    local root=$cache/$1
    [ ! -e "$root" ] || return 0
    echo "creating $root"
    rm -rf --one-file-system "$root.new"
    mkdir -p "$cache"
    quiet debootstrap --variant=minbase --include=systemd-sysv,dbus,man-db,bash-completion,curl,procps,tmux "$2" "$root.new" "$mirror"
    quiet in_root "$root.new" sh -c "apt-get update && $3 && apt-get clean"
    mv "$root.new" "$root"
}
# layer NAME DIR: mounts a copy of the clean system.
layer() {
    mkdir -p "$2" "$2.upper" "$2.work"
    mount -t overlay overlay -o "lowerdir=$cache/$1,upperdir=$2.upper,workdir=$2.work" "$2" || skip "overlay file systems are not available"
    mounts="$2 $mounts"
    quiet in_root "$2" apt-get update
}

# boot ROOT: starts systemd in a container with its own network, which has the loopback interface only.
leader=
boot() {
    "${nspawn[@]}" --directory "$1" --machine "gpuscale-$release-$$" --private-network --boot >"$scratch/$release.console" 2>&1 </dev/null &
    local pid=$!
    containers="$containers $pid"
    for _ in $(seq 300); do
        leader=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null | tr -d ' ')
        case $(inside systemctl is-system-running 2>/dev/null) in
        running | degraded) return 0 ;;
        esac
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    tail -n 20 "$scratch/$release.console"
    skip "systemd does not boot in a container here"
}
halt_container() {
    inside systemctl poweroff >/dev/null 2>&1 || true
    # shellcheck disable=SC2086 # each is a word
    wait $containers 2>/dev/null || true
    containers=
}
inside() {
    [ -n "$leader" ] || return 1
    nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=screen LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
wait_for() {
    local what=$1
    shift
    for _ in $(seq 300); do
        if "$@"; then return; fi
        sleep 0.2
    done
    inside journalctl --no-pager -n 60 -u 'gpuscale-*' || true
    fail "not in time: $what"
}
main_pid() { inside systemctl show -p MainPID --value "gpuscale-$1"; }
metrics() { inside curl -fs http://127.0.0.1:9400/metrics | grep -q '^DCGM_FI_DEV_GPU_TEMP.*Tesla T4'; }
scraped() { inside gpuscale query 'count(DCGM_FI_DEV_GPU_TEMP)' 2>/dev/null | grep -qw 2; }
# What removal and purge must restore: files, users and groups.
state() {
    inside sh -c 'cd / && find . -xdev \( -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/apt \
        -o -path ./var/tmp -o -path ./tmp -o -path ./run -o -path ./root -o -path ./packages -o -path ./proc -o -path ./sys -o -path ./dev \) -prune -o -print |
        grep -v "__pycache__\|^./etc/ld.so.cache\|^./var/lib/systemd/\(random-seed\|timers\|catalog\|timesync\|linger\)" | sort; cat /etc/passwd /etc/group'
}

# build ROOT: builds the packages as an ordinary user, and copies them to $packages.
build() {
    mkdir "$1/build"
    git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 sh -c '
        for file in "$@"; do [ ! -e "$file" ] || printf "%s\0" "$file"; done' x |
        tar --create --null --files-from=- | tar --extract --no-same-owner --directory "$1/build"
    quiet in_root "$1" sh -c 'useradd --create-home builder && chown -R builder: /build'
    quiet in_root "$1" sh -c 'cd /build && tools/install-deps build deb'
    quiet in_root "$1" runuser -u builder -- /build/tools/deb /build/packages
    ! grep '^E:' "$scratch/output" || fail "errors of lintian"
    grep '^W:' "$scratch/output" || true
    mv "$1/build/packages" "$packages"
    [ -z "$kept" ] || { mkdir -p "$kept" && cp -r "$packages" "$kept/$release"; }
    ok "the packages build as an ordinary user, lintian has no errors"
}

# older FROM TO: the same packages with a lower version.
older() {
    local deb
    mkdir "$2"
    for deb in "$1"/*.deb; do
        rm -rf "$scratch/repack"
        dpkg-deb -R "$deb" "$scratch/repack"
        sed -i "s/$(tools/version)-[0-9]*~/0.0.9-1~/g" "$scratch/repack/DEBIAN/control"
        dpkg-deb --root-owner-group -b "$scratch/repack" "$2" >/dev/null
    done
}

# nvidia FILE: a package with the name and the configuration file of NVIDIA's exporter.
nvidia() {
    mkdir -p "$scratch/nvidia/DEBIAN" "$scratch/nvidia/etc/dcgm-exporter"
    echo 'DCGM_FI_DEV_GPU_TEMP, gauge, Temperature of the administrator.' >"$scratch/nvidia/etc/dcgm-exporter/default-counters.csv"
    echo /etc/dcgm-exporter/default-counters.csv >"$scratch/nvidia/DEBIAN/conffiles"
    printf '%s\n' 'Package: datacenter-gpu-manager-exporter' 'Version: 4.0-1' 'Architecture: all' 'Maintainer: none <none@example.com>' \
        'Description: stands for the exporter of NVIDIA' >"$scratch/nvidia/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$scratch/nvidia" "$1" >/dev/null
    rm -rf "$scratch/nvidia"
}

use() {
    local root=$1 service before after
    rm -f "$packages"/*dbgsym*
    older "$packages" "$root/packages/old"
    cp -r "$packages" "$root/packages/new"
    # gpuscale-cluster replaces gpuscale, so it is not installed with the others.
    rm "$root"/packages/old/gpuscale-cluster_*.deb
    mkdir "$root/packages/cluster"
    mv "$root"/packages/new/gpuscale-cluster_*.deb "$root/packages/cluster"
    nvidia "$root/packages/datacenter-gpu-manager-exporter.deb"
    # The container has no network: what the packages depend on is fetched before.
    quiet in_root "$root" sh -c 'apt-get install -y --download-only /packages/new/*.deb'
    boot "$root"
    ok "$(inside systemctl --version | head -n 1) boots in a container"
    state >"$scratch/before"

    # --- installation ---
    quiet inside sh -c 'apt-get install -y --no-install-recommends /packages/old/*.deb'
    inside dpkg --audit >"$scratch/output"
    [ ! -s "$scratch/output" ] || fail "dpkg --audit"
    quiet inside sh -c 'dpkg --verify gpuscale gpuscale-exporter'
    inside env MANWIDTH=80 man gpuscale-exporter 2>/dev/null | grep -q '^ *gpuscale exporter .FLAGS.' || fail "man gpuscale-exporter"
    for service in exporter engine; do
        [ "$(inside systemctl is-enabled gpuscale-$service)" = enabled ] || fail "gpuscale-$service is not enabled"
    done
    for service in adapter hpa expander node-provider exporter.socket; do
        [ "$(inside systemctl is-enabled "gpuscale-$service" || true)" = disabled ] || fail "gpuscale-$service is not disabled"
    done
    # Without a driver the exporter waits.
    answers() { inside curl -fs http://127.0.0.1:9400/metrics >/dev/null; }
    wait_for "the exporter answers without a driver" answers
    ok "installation: $(inside dpkg-query -W -f '${Package} ' 'gpuscale*')"

    # --- upgrade ---
    inside sed -i 's/^#GPUSCALE_FLAGS=/GPUSCALE_FLAGS=/' /etc/default/gpuscale-exporter
    quiet inside systemctl restart gpuscale-exporter
    wait_for "metrics of simulated GPUs" metrics
    wait_for "the engine has scraped the exporter" scraped
    ok "the engine scrapes the exporter: $(inside gpuscale query 'max(DCGM_FI_DEV_GPU_TEMP)' | tail -n 1 | tr -d ' ') C"
    # The expander is not enabled.
    quiet inside systemctl start gpuscale-expander
    before="$(main_pid exporter) $(main_pid expander)"
    quiet inside sh -c 'apt-get install -y --no-install-recommends /packages/new/*.deb'
    for service in exporter expander; do
        after=$(main_pid $service)
        [ "${after:-0}" != 0 ] && ! echo "$before" | grep -qw "$after" || fail "the upgrade has not restarted the $service"
    done
    [ "$(main_pid hpa)" = 0 ] || fail "the upgrade has started a service that did not run"
    wait_for "metrics after the upgrade, with the flags of before" metrics
    samples=$(inside gpuscale query 'max(count_over_time(DCGM_FI_DEV_GPU_TEMP[10m]))' | tail -n 1 | tr -d ' ')
    ok "upgrade from 0.0.9: services restarted, configuration and samples kept ($samples of each GPU)"

    # --- services ---
    quiet inside env AUTOPKGTEST_TMP=/tmp sh -c 'exec /packages/tests/exporter'
    quiet inside sh /packages/tests/services
    inside systemctl --no-pager --lines=3 status gpuscale-exporter >"$scratch/status" 2>/dev/null
    grep -q 'Active: active (running)' "$scratch/status" || fail "systemctl status"
    inside journalctl --no-pager -o cat -u gpuscale-exporter | grep -q '^info *exporter: http://.*:9400/metrics' || fail "no line of the exporter in the journal"
    inside journalctl --no-pager -o cat -p warning -u gpuscale-exporter | grep -q '^warn *exporter: waiting for the driver' || fail "no warning of the exporter in the journal"
    ok "services: started again after kill -9, reloaded, and not started without their files, with the reason"
    for service in exporter engine adapter expander hpa node-provider; do
        inside systemd-analyze security --no-pager "gpuscale-$service.service" 2>/dev/null | sed -n "s/.*Overall exposure level for \(.*\): \([0-9.]*\).*/\1 \2/p"
    done >"$scratch/exposure"
    awk '$2 == "" || $2 >= 2.5 { bad = 1 } END { exit bad || NR != 6 }' "$scratch/exposure" || { cat "$scratch/exposure" && fail "systemd-analyze security"; }
    ok "systemd-analyze security: $(sed 's/gpuscale-\(.*\)\.service/\1/' "$scratch/exposure" | tr '\n' ' ')"

    # --- socket ---
    inside sh -c 'echo DCGM_EXPORTER_SYSTEMD_SOCKET=true >>/etc/default/gpuscale-exporter'
    quiet inside sh -c 'systemctl stop gpuscale-exporter && systemctl enable --now gpuscale-exporter.socket'
    wait_for "metrics from the socket of systemd" metrics
    [ "$(main_pid exporter)" != 0 ] || fail "the socket has not started the exporter"
    quiet inside sh -c 'apt-get install -y --reinstall /packages/new/gpuscale-exporter_*.deb'
    [ "$(inside systemctl is-active gpuscale-exporter.socket)" = active ] || fail "the socket is closed after an upgrade"
    wait_for "metrics from the socket after an upgrade" metrics
    quiet inside systemctl disable --now gpuscale-exporter.socket
    ok "socket activation"
    [ -z "$hold" ] || hold

    # --- removal ---
    quiet inside sh -c 'systemctl stop gpuscale-exporter && systemctl start gpuscale-exporter.socket gpuscale-expander'
    quiet inside sh -c 'apt-get remove -y "gpuscale*"'
    [ -z "$(inside pgrep -x gpuscale || true)" ] || fail "processes after the removal"
    [ "$(inside systemctl is-active gpuscale-exporter.socket || true)" = inactive ] || fail "the socket listens after the removal"
    inside test -s /etc/default/gpuscale-exporter || fail "the removal has deleted the configuration"
    inside sh -c '[ -e /var/lib/private/gpuscale-engine ]' || fail "the removal has deleted the samples"
    quiet inside sh -c 'apt-get purge -y --auto-remove "gpuscale*"'
    quiet inside systemctl daemon-reload
    state >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >"$scratch/output" || fail "purge leaves something behind"
    ok "removal keeps configuration and samples; purge leaves no file, user or group"

    # --- in place of NVIDIA's package ---
    quiet inside apt-get install -y /packages/datacenter-gpu-manager-exporter.deb
    quiet inside sh -c 'apt-get install -y --no-install-recommends /packages/new/gpuscale_*.deb /packages/new/gpuscale-exporter_*.deb /packages/new/gpuscale-simulator_*.deb'
    inside dpkg-query -W -f '${db:Status-Abbrev}' datacenter-gpu-manager-exporter | grep -q '^rc' || fail "NVIDIA's package is still installed"
    inside sh -c 'echo GPUSCALE_FLAGS=--simulate=2xTesla-T4 >>/etc/default/gpuscale-exporter && systemctl restart gpuscale-exporter'
    wait_for "metrics" metrics
    inside curl -fs http://127.0.0.1:9400/metrics | grep -q 'Temperature of the administrator' || fail "the counters file of the previous exporter is not used"
    ok "replaces datacenter-gpu-manager-exporter and uses its counters file"

    # --- the program for clusters in place of the complete one ---
    is_installed() { [ "$(inside dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = 'ii ' ]; }
    quiet inside sh -c 'apt-get install -y --no-install-recommends /packages/cluster/gpuscale-cluster_*.deb'
    ! is_installed gpuscale || fail "gpuscale is still installed beside gpuscale-cluster"
    is_installed gpuscale-exporter || fail "gpuscale-cluster has removed the exporter"
    inside gpuscale up >"$scratch/output" 2>&1 && fail "gpuscale-cluster runs gpuscale up"
    grep -q 'the Debian package gpuscale' "$scratch/output" || fail "the error of gpuscale up"
    inside env MANWIDTH=80 man gpuscale-exporter 2>/dev/null | grep -q '^ *gpuscale exporter .FLAGS.' || fail "man gpuscale-exporter of gpuscale-cluster"
    ! inside man -w gpuscale-up >/dev/null 2>&1 || fail "gpuscale-cluster has the manual page of gpuscale up"
    inside sh -c 'sed -i /^GPUSCALE_FLAGS=/d /etc/default/gpuscale-exporter && systemctl restart gpuscale-exporter'
    wait_for "the exporter of gpuscale-cluster answers without a driver" answers
    quiet inside sh -c 'apt-get install -y --no-install-recommends /packages/new/gpuscale_*.deb'
    ! is_installed gpuscale-cluster || fail "gpuscale-cluster is still installed beside gpuscale"
    ok "gpuscale-cluster replaces gpuscale, runs its services, and is replaced by it"
    halt_container
}
hold() {
    echo "$release runs: nsenter --target $leader --mount --uts --ipc --net --pid --cgroup -- bash -l"
    read -r _ </dev/tty || true
}

for release in "$@"; do
    packages=$scratch/packages-$release
    base "$release" "$release" true
    if [ "$kept" ] && [ -e "$kept/$release" ]; then
        cp -r "$kept/$release" "$packages"
    else
        base "$release-build" "$release" "apt-get install -y --no-install-recommends git build-essential"
        layer "$release-build" "$scratch/$release-build"
        build "$scratch/$release-build"
    fi
    layer "$release" "$scratch/$release-use"
    mkdir -p "$scratch/$release-use/packages"
    cp -r "$source/debian/tests" "$scratch/$release-use/packages/tests"
    use "$scratch/$release-use"
done
echo "$passed passed, 0 failed"
