#!/bin/sh
# Runs the examples of the pages about the metrics engine, queries, rules and ScaledObjects, with an engine and two
# simulated GPUs.
. "$(dirname "$0")/lib.sh"
need curl
with_ports() { sed "s/127\.0\.0\.1:9400/127.0.0.1:$exporter_port/g; s/127\.0\.0\.1:9090/127.0.0.1:$engine_port/g"; }
cd "$source"
. "$source/tests/integration/docs_lib.sh"
for page in docs/engine.md docs/query.md docs/rules.md docs/scaledobjects.md; do extract "$page"; done

exporter_pid= background=
docs_finish() {
    code=$?
    trap - EXIT INT TERM
    for pid in $exporter_pid $background; do kill -TERM "$pid" 2>/dev/null || true; done
    for pid in $exporter_pid $background; do wait "$pid" 2>/dev/null || true; done
    [ "$code" = 0 ] || [ ! -f "$dir/background" ] || cat "$dir/background"
    rm -rf "$dir" "$also_remove"
    exit "$code"
}
trap docs_finish EXIT

PATH=$(dirname "$gpuscale"):$PATH
export PATH NO_COLOR=1
own_gpus docs
gpuscale exporter --simulate 2xTesla-T4 --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
exporter_pid=$!
wait_for "the simulated exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
exporter_port=$(sed -n 's#.*http://127.0.0.1:\([0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)
engine_port=$(free_port)
export GPUSCALE_URL=http://127.0.0.1:$engine_port

for file in "$dir"/files/*; do
    with_ports <"$file" >"$dir/file"
    mv "$dir/file" "$file"
done
cd "$dir/files"
n=0
for text in "$dir"/blocks/*.text; do
    run_block "${text%.text}"
    n=$((n + 1))
done
[ "$n" -ge 5 ] || fail "only $n blocks have a test comment"
echo "$n blocks"
