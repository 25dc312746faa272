#!/bin/sh
# Fills the disk of an engine: samples are kept in memory, a warning is logged, and writing resumes
# when there is space again. The disk is a small tmpfs in its own mount namespace.
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
wait_for "a metric reports the full disk" is gpuscale_tsdb_wal_failing 1
logged() { [ "$(grep -c "$1" "$dir/full.log")" = 1 ]; }
wait_for "the log has it" logged 'error engine: .*the write-ahead log cannot be written: No space left on device'
full=$(date +%s.%N)
goes_on() { settled "$full" && [ "$(ask 'min(up{instance!="127.0.0.1:1"})' "$(date +%s.%N)")" = 1 ]; }
wait_for "the engine continues with samples in memory" goes_on
rm "$dir/disk/ballast"
wait_for "there is room again" is gpuscale_tsdb_wal_failing 0
wait_for "the log has that too" logged 'warn  engine: .*the write-ahead log is written again after'
from=$(($(date +%s) + 1))
# samples TIME: the number of samples since the disk has had space again.
samples() { ask "sum(count_over_time(up[$((${1%.*} - from))s]))" "$1"; }
enough() { [ "$(samples "$(date +%s.%N)")" -gt 10 ]; }
wait_for "there are later samples" enough
at=$(date +%s.%N)
wait_for "all of them are there" settled "$at"
known=$(samples "$at")
written "$dir/disk/data" || fail "the log is not written"
kill_engine full
start full "$dir/disk/data" || fail "the engine does not start again"
found=$(samples "$at")
[ "$known" = "$found" ] || fail "with space on the disk: $known samples before the kill, $found after it"
kill -TERM "$engine"
wait "$engine" || fail "the engine ended with exit code $?"
umount "$dir/disk"
echo "ok: samples since there was space are present after SIGKILL"
