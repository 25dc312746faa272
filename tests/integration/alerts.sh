#!/bin/sh
# Runs the engine and Debian's Prometheus with the same rules and targets, each with its own
# Alertmanager. Both Alertmanagers must have the same alerts, resolved alerts must disappear from
# both, and pending alerts must keep their time over a restart of the engine.
. "$(dirname "$0")/lib.sh"
need curl jq prometheus prometheus-alertmanager

# --- an Alertmanager for each ---

printf 'route: {receiver: none}\nreceivers: [{name: none}]\n' >"$dir/am.yml"
# start_am NAME PORT
start_am() {
    prometheus-alertmanager --config.file="$dir/am.yml" --storage.path="$dir/am-$1" --web.listen-address="127.0.0.1:$2" \
        --cluster.listen-address= --log.level=error >"$dir/am-$1.log" 2>&1 &
    pids="$pids $!"
    wait_for "the Alertmanager of the $1 is ready" curl -sSf "http://127.0.0.1:$2/-/ready"
}
am_engine=$(free_port)
start_am engine "$am_engine"
am_prometheus=$(free_port)
start_am prometheus "$am_prometheus"

# --- targets that do not answer, rules about them ---

# gpus N…: writes the list of targets.
gpus() {
    for gpu in "$@"; do printf '{"targets": ["127.0.0.1:1"], "labels": {"gpu": "%s"}},' "$gpu"; done | sed 's/^/[/; s/,$/]/' >"$dir/new"
    mv "$dir/new" "$dir/gpus.json"
}
gpus 0 1 2
cat >"$dir/rules.yml" <<'Y'
groups:
- name: gpus
  rules:
  - {record: 'gpu:down', expr: 'up == bool 0'}
  - alert: Down
    expr: gpu:down == 1
    for: 2s
    labels: {severity: page, which: 'gpu-{{ $labels.gpu }}'}
    annotations:
      summary: '{{ $labels.job }}/{{ $labels.gpu }} is down ({{ $value | printf "%.2f" }}) at {{ $externalLabels.site }}'
      humanized: '{{ humanize 123456.789 }} {{ humanizeDuration 3661 }} {{ humanizePercentage 0.256 }}'
  - {alert: Several, expr: 'count by (job) (up == 0) > 1', annotations: {n: '{{ with query "count(up)" }}{{ . | first | value }}{{ end }}'}}
  - {alert: Quiet, expr: 'vector(1)', labels: {severity: none}}
  - {alert: Never, expr: 'up > 5'}
  - {alert: KeepsFiring, expr: 'up{gpu="2"} == 0', keep_firing_for: 1h}
- name: patient
  rules:
  - {alert: Patient, expr: 'sum by (job) (up) == 0', for: 1h}
Y
# config ALERTMANAGER
config() {
    cat <<Y
global: {scrape_interval: 1s, evaluation_interval: 1s, external_labels: {site: lab, replica: a}}
rule_files: ["$dir/rules.yml"]
alerting:
  alert_relabel_configs:
  - {regex: replica, action: labeldrop}
  - {source_labels: [severity], regex: none, action: drop}
  alertmanagers:
  - file_sd_configs: [{files: ["$dir/$1.json"]}]
scrape_configs:
- job_name: gpus
  file_sd_configs: [{files: ["$dir/gpus.json"]}]
  relabel_configs: [{source_labels: [gpu], target_label: instance}]
Y
}
config am-engine >"$dir/engine.yml"
config am-prometheus >"$dir/prometheus.yml"
printf '[{"targets": ["127.0.0.1:%s"]}]\n' "$am_engine" >"$dir/am-engine.json"
printf '[{"targets": ["127.0.0.1:%s"]}]\n' "$am_prometheus" >"$dir/am-prometheus.json"
# Debian's Prometheus does not support keep_firing_for. Its rule has no such field, and the alert is
# not compared.
sed 's/, keep_firing_for: 1h//' "$dir/rules.yml" >"$dir/rules-prometheus.yml"
sed -i 's#rules.yml#rules-prometheus.yml#' "$dir/prometheus.yml"

# Links of alerts must be equal.
external=http://metrics.example:9090
start_engine() {
    "$gpuscale" engine --config.file="$dir/engine.yml" --web.listen-address="127.0.0.1:$engine_port" --storage.path="$dir/engine" \
        --web.external-url="$external" >"$dir/engine.log" 2>&1 &
    engine_pid=$!
    pids="$pids $engine_pid"
    wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
}
engine_port=$(free_port)
start_engine
engine=http://127.0.0.1:$engine_port
port=$(free_port)
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address="127.0.0.1:$port" \
    --web.external-url="$external" --web.route-prefix=/ >"$dir/prometheus.log" 2>&1 &
pids="$pids $!"

# --- the same alerts ---

# alerts PORT: the alerts of an Alertmanager, one per line.
alerts() {
    curl -sS "http://127.0.0.1:$1/api/v2/alerts" |
        jq -cS '.[] | select(.labels.alertname != "KeepsFiring") | {labels, annotations, generatorURL, state: .status.state}' | sort
}
count_is() { [ "$(alerts "$1" | wc -l)" = "$2" ]; }
wait_for "the engine's alerts are there" count_is "$am_engine" 4
wait_for "Prometheus' alerts are there" count_is "$am_prometheus" 4
# Values in annotations can come from different evaluations. Alerts are sent again after a minute.
same_alerts() {
    alerts "$am_engine" >"$dir/got"
    alerts "$am_prometheus" >"$dir/want"
    diff "$dir/want" "$dir/got"
}
wait_for "both Alertmanagers show the same alerts" same_alerts
grep -q '"which":"gpu-1"' "$dir/got" || fail "no expanded label"
grep -q 'gpus/1 is down (1.00) at lab' "$dir/got" || fail "no expanded annotation"
! grep -qE '"replica"|Quiet' "$dir/got" || fail "alert_relabel_configs"
echo "ok: both Alertmanagers show the same $(wc -l <"$dir/got") alerts"

# --- resolved alerts ---

gpus 0 1
# Alerts without updates expire after four minutes. Before that, only a notification about the end
# resolves them.
wait_for "the end of one reaches the engine's Alertmanager" count_is "$am_engine" 3
wait_for "and Prometheus'" count_is "$am_prometheus" 3
wait_for "both Alertmanagers show the same alerts after the end of one" same_alerts
curl -sS "http://127.0.0.1:$am_engine/api/v2/alerts" | jq -e 'any(.[]; .labels.alertname == "KeepsFiring")' >/dev/null || fail "keep_firing_for"
echo "ok: resolved alerts, keep_firing_for"

# --- a restart ---

# since: the Unix time since which the patient alert is pending. Empty if it is not pending.
since() {
    curl -sS "$engine/api/v1/alerts" | jq -r '.data.alerts[] | select(.labels.alertname == "Patient" and .state == "pending")
        | .activeAt | sub("\\.[0-9]+"; "") | fromdate'
}
before=$(since)
[ -n "$before" ] || fail "the patient alert is not pending"
while [ "$(date +%s)" -lt "$((before + 12))" ]; do sleep 0.5; done
down=$(date +%s)
kill -TERM "$engine_pid"
wait "$engine_pid" || fail "the engine ended with exit code $?"
start_engine
# As in Prometheus, the outage does not count.
restored() {
    now=$(since)
    [ -n "$now" ] && [ "$now" -ge "$before" ] && [ "$now" -lt "$down" ]
}
wait_for "the time that an alert has been pending outlives a restart" restored
wait_for "the alerts stay" count_is "$am_engine" 3
