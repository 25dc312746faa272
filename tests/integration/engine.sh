#!/bin/sh
# Tests gpuscale engine as a program: it scrapes the simulated exporter and itself, and is queried
# by curl, promtool and a real Prometheus. Responses must have the form of that Prometheus.
. "$(dirname "$0")/lib.sh"
need curl jq promtool prometheus

own_gpus engine
"$gpuscale" exporter --simulate 2xTesla-T4 --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for "the simulated exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
exporter=$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)

# config [SELF]: writes the configuration. SELF adds the engine's own address as a target.
config() {
    cat <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s, external_labels: {site: lab}}
rule_files: ["$dir/rules/*.yml"]
scrape_configs:
- job_name: gpus
  static_configs:
  - targets: ["$exporter"]
    labels: {rack: r1}
  metric_relabel_configs:
  - {source_labels: [__name__], regex: 'DCGM_FI_DEV_PCIE_REPLAY_COUNTER', action: drop}
Y
    [ $# = 0 ] || printf -- '- job_name: engine\n  static_configs: [{targets: ["%s"]}]\n' "$1"
}
mkdir "$dir/rules"
cat >"$dir/rules/gpu.yml" <<'Y'
groups:
- name: gpus
  rules:
  - {record: 'gpu:util:avg', expr: 'avg by (gpu) (DCGM_FI_DEV_GPU_UTIL)', labels: {kind: recorded}}
  - {alert: AlwaysOn, expr: 'count(DCGM_FI_DEV_GPU_UTIL) > 0', labels: {severity: none}, annotations: {summary: '{{ $value }} GPUs'}}
Y
config >"$dir/prometheus.yml"

# Uses the flags of an existing unit file.
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 --web.enable-lifecycle \
    --storage.tsdb.path="$dir/data" --storage.tsdb.retention.time=15d --storage.tsdb.wal-compression \
    --web.console.templates=/etc/prometheus/consoles >"$dir/engine.log" 2>&1 &
engine_pid=$!
pids="$pids $engine_pid"
wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
at=$(sed -n 's#.*listening on http://\(127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")
url=http://$at
grep -q -- '--web.console.templates has no effect' "$dir/engine.log" || fail "no warning about a flag without effect"

# --- the file watch ---

config "$at" >"$dir/new" && mv "$dir/new" "$dir/prometheus.yml"
# query EXPRESSION: prints the first value, or nothing if the result is empty.
query() { curl -sS -G "$url/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1] // empty'; }
query_is() { [ "$(query "$1")" = "$2" ]; }
wait_for "both targets are up after the change of the file" query_is 'count(up == 1)' 2
printf 'scrape_configs: [{job_name: x, no_such_key: 1}]\n' >"$dir/prometheus.yml"
wait_for "an invalid file is reported" grep -q 'reload failed, the previous configuration stays active: .*no_such_key' "$dir/engine.log"
query_is 'prometheus_config_last_reload_successful' 0 || wait_for "the metric reports it, too" query_is 'prometheus_config_last_reload_successful' 0
[ "$(curl -s -o "$dir/out" -w '%{http_code}' -X POST "$url/-/reload")" = 500 ] || fail "POST /-/reload of an invalid file does not return 500"
# The file becomes again what it was.
config "$at" >"$dir/new" && mv "$dir/new" "$dir/prometheus.yml"
wait_for "the restored file is loaded" query_is 'prometheus_config_last_reload_successful' 1
[ "$(curl -s -o "$dir/out" -w '%{http_code}' -X POST "$url/-/reload")" = 200 ] || { cat "$dir/out"; fail "POST /-/reload"; }

# --- rules, queries in all forms ---

wait_for "the recording rule has a value" query_is 'count({__name__="gpu:util:avg",kind="recorded"})' 2
wait_for "the alert fires" query_is 'ALERTS{alertname="AlwaysOn",alertstate="firing"}' 1
shows_alert() { curl -sS "$url/api/v1/alerts" | jq -e '.data.alerts[0] | .state == "firing" and .annotations.summary == "2 GPUs"'; }
wait_for "the alert is shown" shows_alert
curl -sS "$url/api/v1/rules?type=record" | jq -e '[.data.groups[].rules[].name] == ["gpu:util:avg"]' >/dev/null || fail "rules"
curl -sS "$url/api/v1/rules?rule_name[]=AlwaysOn&exclude_alerts=true" -g |
    jq -e '.data.groups[0].rules | length == 1 and .[0].alerts == null' >/dev/null || fail "rules, filtered"
query_is 'absent(DCGM_FI_DEV_PCIE_REPLAY_COUNTER)' 1 || fail "metric_relabel_configs"
# A query as Grafana sends it.
range_by_post() {
    now=$(date +%s)
    curl -sS "$url/api/v1/query_range" -H 'Content-Type: application/x-www-form-urlencoded' \
        --data-urlencode 'query=avg by (rack) (DCGM_FI_DEV_GPU_TEMP{rack=~"r1|r2"})' -d "start=$((now - 5)).000&end=$now.5&step=1" |
        jq -e '.data.resultType == "matrix" and .data.result[0].metric == {rack: "r1"} and (.data.result[0].values | length) > 3'
}
wait_for "query_range by POST" range_by_post
curl -sS "$url/api/v1/label/rack/values" --data '' -G | jq -e '.data == ["r1"]' >/dev/null || fail "label values"
curl -sS "$url/api/v1/metadata?metric=DCGM_FI_DEV_GPU_TEMP" | jq -e '.data.DCGM_FI_DEV_GPU_TEMP[0].type == "gauge"' >/dev/null || fail "metadata"
echo "ok: queries, rules, alerts, metadata"

# --- promtool ---

instant() { promtool query instant "$url" 'sum(up)' | grep '=> 2 @'; }
wait_for "promtool query instant" instant
range() { now=$(date +%s) && promtool query range "$url" --start="$((now - 3))" --end="$now" --step=1s 'up{job="gpus"}' | grep '^1 @'; }
wait_for "promtool query range" range
promtool query series "$url" --match='up' | grep -c '__name__="up"' | grep -qx 2 || fail "promtool query series"
promtool query labels "$url" job | grep -qx engine || fail "promtool query labels"
curl -sS "$url/metrics" | promtool check metrics || fail "promtool check metrics"
promtool check config "$dir/prometheus.yml" >/dev/null || fail "the configuration is invalid for Prometheus"
echo "ok: promtool"

# --- a Prometheus with the same configuration, which also federates from the engine ---

port=$(free_port)
peer=http://127.0.0.1:$port
{
    config "$at"
    printf -- '- job_name: federate\n  honor_labels: true\n  metrics_path: /federate\n  params: {"match[]": [up, ALERTS]}\n'
    printf '  static_configs: [{targets: ["%s"]}]\n' "$at"
} >"$dir/peer.yml"
prometheus --config.file="$dir/peer.yml" --web.listen-address="127.0.0.1:$port" --storage.tsdb.path="$dir/peer" \
    >"$dir/prometheus.log" 2>&1 &
pids="$pids $!"
peer_has() { curl -sS -G "$peer/api/v1/query" --data-urlencode "query=$1" | jq -e '.data.result | length > 0' >/dev/null; }
wait_for "Prometheus pulls the engine's series with their external labels" peer_has 'up{job="gpus",site="lab"} == 1'
wait_for "Prometheus has scraped and evaluated by itself" peer_has 'ALERTS{alertname="AlwaysOn",alertstate="firing",site=""}'

# The response has each key of Prometheus' response with the same type. (Prometheus has one more
# job, with parameters.)
shape() {
    curl -sS -g "$1" | jq -c '[paths(type != "object" and type != "array") as $p
        | {p: ($p | map(if type == "number" then 0 else . end)), t: (getpath($p) | type)}] | unique | .[]' | grep -v __param_ | sort
}
same() {
    shape "$peer/api/v1/$path" >"$dir/want"
    shape "$url/api/v1/$path" >"$dir/got"
    comm -23 "$dir/want" "$dir/got" >"$dir/diff"
    [ -s "$dir/want" ] && [ ! -s "$dir/diff" ]
}
for path in 'query?query=up{site=""}' 'query?query=1' 'query?query="x"' 'query?query=up{site=""}[3s]' 'query?query=up{site=""}&stats=all' \
    'query_range?query=up{site=""}&start='$((now - 3))"&end=$((now + 9))&step=1" 'query?query=(' 'query' 'query_range' 'series' 'series?match[]=up{job="gpus",site=""}' \
    'labels' 'label/job/values' 'targets?state=active' 'targets/metadata?metric=DCGM_FI_DEV_GPU_TEMP' 'metadata?metric=DCGM_FI_DEV_GPU_TEMP' \
    'rules' 'alerts' 'status/buildinfo' 'status/runtimeinfo' 'status/config' 'status/tsdb' 'status/walreplay' \
    'format_query?query=sum(up)' 'query_exemplars?query=up'; do
    wait_same "Prometheus' reply has keys that ours has not, or none at all: $path" # both may still be filling up
done
for path in alertmanagers 'targets?state=dropped'; do
    [ "$(curl -sS "$peer/api/v1/$path" | jq -S '.data | keys - ["droppedTargetCounts"]')" = \
        "$(curl -sS "$url/api/v1/$path" | jq -S '.data | keys - ["droppedTargetCounts"]')" ] || fail "keys of $path"
done
echo "ok: all endpoints respond in the format of Prometheus"

# --- history over a restart, drain ---

kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address="$at" --storage.path="$dir/data" >"$dir/engine.log" 2>&1 &
engine_pid=$!
pids="$pids $engine_pid"
wait_for "the engine is ready again" grep -q 'is ready' "$dir/engine.log"
curl -sS -G "$url/api/v1/query" --data-urlencode "query=up{job=\"gpus\"}" -d "time=$now" |
    jq -e '.data.result | length == 1' >/dev/null || fail "samples from before the restart are lost"
echo "ok: samples are kept over a restart"

# --- wrong input ---

refused() {
    text=$1
    shift
    code=0
    timeout "$patience" "$gpuscale" engine "$@" >"$dir/out" 2>&1 || code=$?
    grep -qF -- "$text" "$dir/out" || { cat "$dir/out"; fail "no \"$text\""; }
    [ "$code" = 2 ] || [ "$code" = 1 ] || fail "exit code $code"
    echo "ok: $text"
}
printf 'scrape_configs:\n- job_name: a\n  scrape_intervall: 5s\n' >"$dir/wrong.yml"
refused 'scrape_intervall' --config.file="$dir/wrong.yml" --web.listen-address=127.0.0.1:0
refused 'No such file' --config.file="$dir/none.yml" --web.listen-address=127.0.0.1:0
refused "address already in use" --config.file="$dir/prometheus.yml" --web.listen-address="$at"
refused 'want HOST:PORT' --config.file="$dir/prometheus.yml" --web.listen-address=nowhere
refused 'did you mean --storage.tsdb.retention.time?' --storage.tsdb.retention.tim=1d
refused 'is not a size' --config.file="$dir/prometheus.yml" --storage.tsdb.retention.size=lots
