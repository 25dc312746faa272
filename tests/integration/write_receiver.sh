#!/bin/sh
# The engine receives remote writes: of another engine, which must have the same samples, and, where
# it has been built, of a Prometheus 3 with remote write 2.0 and of promtool. That Prometheus also reads with remote read.
. "$(dirname "$0")/lib.sh"
need curl jq python3

printf 'scrape_configs: []\n' | tee "$dir/otlp.yml" >"$dir/receiver.yml"
# start_engine NAME FLAGS…: sets $url.
start_engine() {
    name=$1
    shift
    "$gpuscale" engine --config.file="$dir/$name.yml" --web.listen-address=127.0.0.1:0 "$@" >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
    wait_for "the $name is ready" grep -q 'is ready' "$dir/$name.log"
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/$name.log")
}
start_engine receiver --web.enable-remote-write-receiver --web.enable-otlp-receiver
receiver=$url
cat >"$dir/sender.yml" <<Y
global: {scrape_interval: 500ms, external_labels: {site: lab}}
scrape_configs:
- {job_name: receiver, static_configs: [{targets: ["${receiver#http://}"]}]}
remote_write:
- url: $receiver/api/v1/write
  queue_config: {batch_send_deadline: 500ms, min_backoff: 100ms, max_backoff: 1s}
Y
start_engine sender --storage.remote.flush-deadline=1s
sender=$url

# values URL TIME: the samples of some series in the minute before TIME.
values() {
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query={__name__=~"up|scrape_.*|prometheus_build_info"}[1m]' -d "time=$2" |
        jq -cS '.data.result[] | .metric |= del(.site)' | sort
}
same() {
    values "$sender" "$now" >"$dir/want"
    values "$receiver" "$now" >"$dir/got"
    [ "$(jq -s 'map(.values | length) | add // 0' "$dir/want")" -ge 20 ] && diff "$dir/want" "$dir/got" >"$dir/diff"
}
some() { now=$(date +%s) && [ "$(values "$sender" "$now" | wc -l)" -ge 5 ]; }
wait_for "the sender has samples" some
sleep 3
now=$(date +%s)
wait_same "the receiver lacks samples of the sender"
echo "ok: the receiver has the samples of the sender"
curl -sS "$receiver/metrics" >"$dir/metrics"
grep -q '^gpuscale_remote_write_received_refused_samples_total 0$' "$dir/metrics" || fail "samples were refused"

status() { curl -sS -o "$dir/reply" -w '%{http_code}' "$@"; }
[ "$(status -X POST "$sender/api/v1/write")" = 404 ] || fail "the receiver of the sender is not disabled"
grep -q 'needs to be enabled with --web.enable-remote-write-receiver' "$dir/reply" || fail "404 without the flag"
[ "$(status -H 'Content-Type: application/json' -d '{}' "$receiver/api/v1/write")" = 415 ] || fail "another type"
[ "$(status -H 'Content-Type: application/x-protobuf' -d 'nonsense' "$receiver/api/v1/write")" = 400 ] || fail "a body that is not compressed"
head -c 11000000 /dev/zero >"$dir/large"
[ "$(status -H 'Content-Type: application/x-protobuf' --data-binary "@$dir/large" "$receiver/api/v1/write")" = 413 ] || fail "a large body"
[ "$(status -X POST "$sender/api/v1/otlp/v1/metrics")" = 404 ] || fail "the OTLP receiver of the sender is not disabled"
printf '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"queue.length","gauge":{"dataPoints":[{"timeUnixNano":"%s000000000","asInt":"3"}]}}]}]}]}' \
    "$(date +%s)" >"$dir/otlp.json"
[ "$(status -H 'Content-Type: application/json' -d "@$dir/otlp.json" "$receiver/api/v1/otlp/v1/metrics")" = 200 ] || fail "OTLP"
[ "$(cat "$dir/reply")" = '{}' ] || fail "the response of OTLP"
curl -sS "$receiver/api/v1/query?query=queue_length" | jq -e '.data.result[0].value[1] == "3"' >/dev/null || fail "the metric of OTLP"
echo "ok: other requests are refused, OTLP is received"
start_up --gpus none --web.enable-otlp-receiver
up_url=$(engine_url)
[ "$(status -H 'Content-Type: application/json' -d "@$dir/otlp.json" "$up_url/api/v1/otlp/v1/metrics")" = 200 ] || fail "OTLP to gpuscale up"
curl -sS "$up_url/api/v1/query?query=queue_length" | jq -e '.data.result[0].value[1] == "3"' >/dev/null || fail "the metric that gpuscale up received"
[ "$(status -X POST "$up_url/api/v1/write")" = 404 ] || fail "the remote write receiver of gpuscale up is not disabled"
stop_up
echo "ok: gpuscale up receives OTLP"

cache=$(GPUSCALE_PROMETHEUS3_VERSION=v3.16.0 "$source/tests/differential/prometheus3.sh" --no-build 2>/dev/null) ||
    { echo "no Prometheus 3.16 has been built (make peers)"; exit 0; }
start_engine otlp --web.enable-otlp-receiver --enable-feature=exemplar-storage
port=$(free_port)
"$cache/prometheus" --config.file="$dir/otlp.yml" --web.listen-address="127.0.0.1:$port" --web.enable-otlp-receiver --enable-feature=exemplar-storage \
    --storage.tsdb.path="$dir/otlp" >"$dir/prometheus-otlp.log" 2>&1 &
pids="$pids $!"
wait_for "Prometheus is ready" curl -fsS "http://127.0.0.1:$port/-/ready"
python3 -B "$source/tests/differential/otlp.py" "http://127.0.0.1:$port" "$url" || fail "OTLP differs from Prometheus"
printf '# TYPE queued gauge\nqueued{queue="a"} 7\n' >"$dir/queued.txt"
"$cache/promtool" push metrics --label job=pushed "$receiver" "$dir/queued.txt" >"$dir/promtool.log" 2>&1 ||
    fail "promtool push metrics"
has() { curl -sS -G "$receiver/api/v1/query" --data-urlencode "query=$1" | jq -e '.data.result | length > 0'; }
has 'queued{job="pushed",queue="a"} == 7' >/dev/null || fail "the sample of promtool is absent"
echo "ok: promtool push metrics"
cat >"$dir/prometheus.yml" <<Y
global: {scrape_interval: 1s, external_labels: {site: second}}
scrape_configs:
- {job_name: receiver, static_configs: [{targets: ["${receiver#http://}"]}]}
remote_write:
- url: $receiver/api/v1/write
  protobuf_message: io.prometheus.write.v2.Request
  metadata_config: {send: false}
  queue_config: {batch_send_deadline: 1s}
remote_read:
- {url: "$receiver/api/v1/read", read_recent: true, filter_external_labels: false}
Y
prometheus=http://127.0.0.1:$(free_port)
"$cache/prometheus" --config.file="$dir/prometheus.yml" --web.listen-address="${prometheus#http://}" \
    --storage.tsdb.path="$dir/prometheus" >"$dir/prometheus.log" 2>&1 &
pids="$pids $!"
wait_for "Prometheus pushes with remote write 2.0" has 'count_over_time(up{site="second"}[1m]) >= 3'
wait_for "Prometheus is ready" curl -fsS "$prometheus/-/ready"
# lab URL: the samples of the first sender, which the second Prometheus has only by remote read.
lab() {
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query={site="lab",__name__=~"up|scrape_.*"}[1m] @ '"$now" | jq -cS '.data.result[]' | sort
}
lab "$receiver" >"$dir/want"
[ "$(jq -s 'map(.values | length) | add // 0' "$dir/want")" -ge 20 ] || fail "the receiver has too few samples"
lab "$prometheus" >"$dir/got"
diff "$dir/want" "$dir/got" || fail "Prometheus reads other samples with remote read"
echo "ok: Prometheus 3.16 reads with remote read"
! grep -E 'level=(ERROR|WARN).*remote' "$dir/prometheus.log" || fail "Prometheus reports errors"
