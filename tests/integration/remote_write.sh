#!/bin/sh
# remote_write to Debian's Prometheus: it must have the samples of the engine, also after an outage
# of the receiver, a reload, and the shutdown of the engine.
. "$(dirname "$0")/lib.sh"
need curl jq prometheus
away=${AWAY:-15} # seconds

port=$(free_port)
peer=http://127.0.0.1:$port
printf 'scrape_configs: []\n' >"$dir/prometheus.yml"
start_prometheus() {
    prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address="127.0.0.1:$port" \
        --web.enable-remote-write-receiver >"$dir/prometheus.log" 2>&1 &
    prometheus_pid=$!
    pids="$pids $prometheus_pid"
    wait_for "Prometheus is ready" curl -sSf "$peer/-/ready"
}
start_prometheus

at=127.0.0.1:$(free_port)
url=http://$at
# config BATCH_DEADLINE
config() {
    cat <<Y
global: {scrape_interval: 500ms, external_labels: {site: lab}}
scrape_configs:
- job_name: engine
  static_configs: [{targets: ["$at"]}]
remote_write:
- url: $peer/api/v1/write
  queue_config: {batch_send_deadline: $1, min_backoff: 100ms, max_backoff: 1s}
  write_relabel_configs:
  - {source_labels: [__name__], regex: 'gpuscale_.*|http_.*', action: drop}
Y
}
start_engine() {
    "$gpuscale" engine --config.file="$dir/engine.yml" --web.listen-address="$at" --web.enable-lifecycle \
        --config.auto-reload=false >"$dir/engine.log" 2>&1 &
    engine_pid=$!
    pids="$pids $engine_pid"
    wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
}
config 1s >"$dir/engine.yml"
start_engine

# samples URL TIME: time and value of some series in the two minutes before TIME, without the
# external label.
samples() {
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query={__name__=~"up|scrape_duration_seconds|prometheus_build_info|prometheus_remote_storage_.*"}[2m]' \
        -d "time=$2" | jq -cS '.data.result[] | .metric |= del(.site)' | sort
}
peer_has() { curl -sS -G "$peer/api/v1/query" --data-urlencode "query=$1" | jq -e '.data.result | length > 0'; }
wait_for "samples arrive" peer_has 'up{site="lab"}'
kill -TERM "$prometheus_pid"
wait "$prometheus_pid" || true
sleep "$((away / 2))"
config 2s >"$dir/engine.yml"
curl -sSf -X POST "$url/-/reload" || fail "reload"
sleep "$((away - away / 2))"
many() { [ "$(samples "$url" "$(date +%s)" | jq -s 'map(.values | length) | max')" -gt "$away" ]; }
wait_for "there is something to lose" many
start_prometheus
now=$(date +%s)
same() {
    samples "$url" "$now" >"$dir/want"
    samples "$peer" "$now" >"$dir/got"
    [ "$(wc -l <"$dir/want")" -gt 5 ] && cmp -s "$dir/want" "$dir/got"
}
wait_for "Prometheus has every sample of the time that it was away, and of a reload in that time" same

# --- shutdown ---

kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
config 1h >"$dir/engine.yml"
start_engine
started=$(($(date +%s) + 1)) # no sample of the one before is that new
# since_start URL: the samples from the start time until now.
since_start() { samples "$1" "$now" | jq -c --argjson from "$started" '.values |= map(select(.[0] >= $from))'; }
some() { now=$(date +%s) && since_start "$url" | jq -es 'map(.values | length) | max >= 4'; }
wait_for "there are samples to send" some
scraped_again() { [ "$(curl -sS -G "$url/api/v1/query" --data-urlencode "query=count(timestamp(up) > $now)" | jq -r '.data.result[0].value[1]')" = 1 ]; }
wait_for "all until now are there" scraped_again
since_start "$url" >"$dir/want"
! samples "$peer" "$now" | jq -es --argjson from "$started" 'any(.[]; any(.values[]; .[0] >= $from))' >/dev/null ||
    fail "samples were sent before the shutdown"
kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
since_start "$peer" >"$dir/got"
diff "$dir/want" "$dir/got" >/dev/null || { diff "$dir/want" "$dir/got" | cut -c1-600 | head -n 40; fail "the shutdown lost samples"; }
echo "ok: the shutdown sends the remaining samples"

# --- a receiver that stays unavailable ---

start_engine
has_samples() { curl -sS "$url/api/v1/query?query=up" | jq -e '.data.result | length > 0'; }
wait_for "there is something to send" has_samples
kill -TERM "$prometheus_pid"
wait "$prometheus_pid" || true
kill -TERM "$engine_pid"
sleep 1
kill -0 "$engine_pid" || fail "the shutdown does not wait for the receiver"
kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
echo "ok: a second SIGTERM ends the engine immediately"
start_limited() {
    begun=$(date +%s)
    "$gpuscale" engine --config.file="$dir/engine.yml" --web.listen-address="$at" --storage.remote.flush-deadline=2s >"$dir/engine.log" 2>&1 &
    engine_pid=$!
    pids="$pids $engine_pid"
    wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
}
start_limited
wait_for "there is something to send again" has_samples
kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
grep -q 'the flush deadline has passed: 1 remote write receivers lack samples' "$dir/engine.log" || fail "no word about what is lost"
echo "ok: the shutdown waits for a limited time"
