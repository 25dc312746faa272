#!/bin/sh
# Loads the same samples into a real Prometheus and into src/series/promql, runs the same queries, and
# compares the results. The peers are Debian's Prometheus and, if prometheus3.sh has built it,
# version 3.16. Version 3 is also compared at times of samples (its ranges exclude their start), with
# queries marked "3: ", in query statistics, and in error texts and formatting. GPUSCALE_PROMETHEUS3 selects another
# version 3. DIFFERENTIAL_SEED and DIFFERENTIAL_COUNT select random queries.
set -eu
build=${GPUSCALE_BUILD_ROOT:?} source=${GPUSCALE_SOURCE_ROOT:?}
here=$source/tests/differential
program=$build/tests/differential/differential
for tool in prometheus promtool curl; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-differential-XXXXXX")
pid=
finish() {
    code=$?
    trap - EXIT INT TERM
    [ -z "$pid" ] || { kill -TERM "$pid" && wait "$pid"; } 2>/dev/null || true
    rm -rf "$dir"
    exit "$code"
}
trap finish EXIT
trap 'exit 1' INT TERM

"$program" data >"$dir/data.om"
promtool tsdb create-blocks-from openmetrics "$dir/data.om" "$dir/blocks" >"$dir/blocks.log" 2>&1 ||
    { tail "$dir/blocks.log"; exit 1; }
printf 'global: {}\n' >"$dir/prometheus.yml"

# start PROGRAM [FLAG…]: sets port.
start() {
    peer=$1
    shift
    rm -rf "$dir/tsdb"
    cp -r "$dir/blocks" "$dir/tsdb"
    for attempt in 1 2 3; do
        port=$(shuf -i 20000-29999 -n 1)
        "$peer" --config.file="$dir/prometheus.yml" --web.listen-address="127.0.0.1:$port" --log.level=error \
            --storage.tsdb.path="$dir/tsdb" --storage.tsdb.retention.time=100y "$@" >"$dir/log" 2>&1 &
        pid=$!
        end=$(($(date +%s) + 180))
        while [ "$(date +%s)" -lt "$end" ]; do
            [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/-/ready")" != 200 ] || return 0
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.2
        done
        kill -TERM "$pid" 2>/dev/null || true
    done
    cat "$dir/log"
    exit 1
}

seed=${DIFFERENTIAL_SEED:-1}
count=${DIFFERENTIAL_COUNT:-500}
failed=0
start prometheus
"$program" queries "$port" "$here/queries.txt" || failed=1
"$program" random "$port" "$seed" "$count" || failed=1
three=${GPUSCALE_PROMETHEUS3:-}
[ -n "$three" ] || ! cache=$(GPUSCALE_PROMETHEUS3_COMMANDS=prometheus "$here/prometheus3.sh" --no-build) ||
    three=$cache/prometheus
if [ -n "$three" ]; then
    echo "and against $("$three" --version 2>&1 | head -n 1)"
    kill -TERM "$pid" && wait "$pid" || true
    start "$three" --enable-feature=promql-per-step-stats
    "$program" queries "$port" "$here/queries.txt" 3 || failed=1
    "$program" random "$port" "$seed" "$count" 3 || failed=1
    "$program" format "$port" "$here/format.txt" 3 || failed=1
    "$program" format "$port" "$here/wrong.txt" 3 || failed=1
fi
exit $failed
