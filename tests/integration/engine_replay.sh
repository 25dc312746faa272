#!/bin/sh
# Starts an engine with a large log. While it reads the log, it must listen, be healthy but not
# ready, and stop on SIGTERM. In the end it must have all samples.
. "$(dirname "$0")/engine_lib.sh"

start replay "$dir/data" || fail "the engine does not start"
sleep 3 # some samples
at=$(date +%s.%N)
wait_for "there are samples" settled "$at"
known=$(ask 'sum(count_over_time(up[1h]))' "$at")
written "$dir/data" || fail "the log is not written"
kill_engine replay

# Copies of a segment: their samples exist already, but must be read.
segment=$(ls "$dir"/data/wal/wal-* | head -n 1)
size=$(stat -c %s "$segment")
copies=$((300000000 / size + 1))
i=1
while [ "$i" -le "$copies" ]; do
    ln "$segment" "$dir/data/wal/wal-$(printf '%08d' $((i + 1000)))"
    i=$((i + 1))
done

# begin LOG: starts the engine that reads the log. Sets engine and url.
begin() {
    "$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 \
        --storage.path="$dir/data" >"$dir/$1.log" 2>&1 &
    engine=$!
    echo "$engine" >"$dir/replay.pid"
    wait_for "the engine listens" grep -q 'listening on' "$dir/$1.log"
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/$1.log" | head -n 1)
}
code() { curl -sS -D "$dir/head" -o "$dir/body" -w '%{http_code}' "$url$1"; }

begin first
[ "$(code /-/ready)" = 503 ] || fail "it is ready immediately: $(cat "$dir/body")"
grep -q 'Service Unavailable: replaying the write-ahead log, [0-9]* % of [0-9]* MiB' "$dir/body" ||
    fail "/-/ready says $(cat "$dir/body")"
grep -qi '^X-Prometheus-Stopping: false' "$dir/head" || fail "a header of /-/ready is missing: $(cat "$dir/head")"
[ "$(code /-/healthy)" = 200 ] || fail "/-/healthy says $(cat "$dir/body")"
[ "$(code '/api/v1/query?query=up')" = 503 ] || fail "a query is answered: $(cat "$dir/body")"
kill -TERM "$engine"
wait "$engine" || fail "the engine ended with exit code $? while it read the log"
grep -q 'is ready' "$dir/first.log" && fail "it read the whole log before it ended"

begin second
wait_for "the log is read" grep -q 'is ready' "$dir/second.log"
[ "$(code /-/ready)" = 200 ] || fail "/-/ready says $(cat "$dir/body")"
found=$(ask 'sum(count_over_time(up[1h]))' "$at")
[ "$known" = "$found" ] || fail "$known samples before, $found after it"
kill -TERM "$engine"
wait "$engine" || fail "the engine ended with exit code $?"
rm "$dir/replay.pid"
echo "ok: the engine responds while it reads a log of $((size * copies / 1000000)) MB"
