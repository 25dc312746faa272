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
wait_for "the log works" is gpuscale_tsdb_wal_failing 0
head -c 10000000 /dev/zero >"$dir/disk/ballast" 2>/dev/null || true # until it is full
wait_for "the full disk is told" is gpuscale_tsdb_wal_failing 1
logged() { [ "$(grep -c "$1" "$dir/full.log")" = 1 ]; }
wait_for "the log has it" logged 'error engine: .*the write-ahead log cannot be written: No space left on device'
full=$(date +%s.%N)
goes_on() { settled "$full" && [ "$(ask 'min(up{instance!="127.0.0.1:1"})' "$(date +%s.%N)")" = 1 ]; }
wait_for "the engine goes on from memory" goes_on
rm "$dir/disk/ballast"
wait_for "there is room again" is gpuscale_tsdb_wal_failing 0
wait_for "the log has that too" logged 'warn  engine: .*the write-ahead log is written again after'
from=$(($(date +%s) + 1))
# samples TIME: of the time since there is room.
samples() { ask "sum(count_over_time(up[$((${1%.*} - from))s]))" "$1"; }
enough() { [ "$(samples "$(date +%s.%N)")" -gt 10 ]; }
wait_for "there are samples behind that" enough
at=$(date +%s.%N)
wait_for "all of them are there" settled "$at"
known=$(samples "$at")
written "$dir/disk/data" || fail "the log is not written"
kill_engine full
start full "$dir/disk/data" || fail "the engine does not start again"
found=$(samples "$at")
[ "$known" = "$found" ] || fail "after there was room: $known samples before the kill, $found after it"
kill -TERM "$engine"
wait "$engine" || fail "the engine ended with exit code $?"
umount "$dir/disk"
echo "ok: what came when there was room is there after kill -9"
