#!/bin/sh
# A disk that fills up under an engine: memory goes on, it is told, and the log goes on when there is
# room again. The disk is a small tmpfs in a namespace of its own.
if [ -z "${GPUSCALE_IN_NAMESPACE:-}" ]; then
    unshare -rm true 2>/dev/null || { echo "skipped: no rights to mount a small disk"; exit 77; }
    exec env GPUSCALE_IN_NAMESPACE=1 unshare -rm "$0"
fi
. "$(dirname "$0")/engine_lib.sh"

mkdir "$dir/disk"
mount -t tmpfs -o size=3m gpuscale-full "$dir/disk"
start full "$dir/disk/data" || fail "the engine does not start"
metric() { curl -sS "$url/metrics" | sed -n "s/^$1 //p"; }
is() { [ "$(metric "$1")" = "$2" ]; }
wait_for 20 "the log works" is gpuscale_tsdb_wal_failing 0
head -c 10000000 /dev/zero >"$dir/disk/ballast" 2>/dev/null || true # until it is full
wait_for 30 "the full disk is told" is gpuscale_tsdb_wal_failing 1
sleep 1
[ "$(ask 'min(up{instance!="127.0.0.1:1"})' "$(date +%s)")" = 1 ] || fail "the engine does not go on from memory"
rm "$dir/disk/ballast"
wait_for 30 "there is room again" is gpuscale_tsdb_wal_failing 0
sleep 1.5
at=$(date +%s.%N)
sleep 0.5
known=$(ask 'sum(count_over_time(up[1s]))' "$at")
[ "$known" -gt 10 ] || fail "only $known samples in a second"
sleep 1.5
kill_engine full
start full "$dir/disk/data" || fail "the engine does not start again"
found=$(ask 'sum(count_over_time(up[1s]))' "$at")
[ "$known" = "$found" ] || fail "after there was room: $known samples before the kill, $found after it"
kill -TERM "$engine"
wait "$engine" || fail "the engine ended with exit code $?"
umount "$dir/disk"
echo "ok: what came when there was room is there after kill -9"
