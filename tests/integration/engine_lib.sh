# For tests of a stored engine: a simulated exporter that an engine scrapes five times a second, as
# four jobs with rules. Sources lib.sh.
. "$(dirname "$0")/lib.sh"
need curl jq

own_gpus engine
"$gpuscale" exporter --simulate 8xA100-SXM4-80GB --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for "the simulated exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
exporter=$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)

cat >"$dir/rules.yml" <<'Y'
groups:
- name: load
  interval: 200ms
  rules:
  - {record: 'gpu:util:avg', expr: 'avg by (gpu) (DCGM_FI_DEV_GPU_UTIL)'}
  - {alert: Up, expr: 'up == 1', for: 1s}
Y
{
    printf 'global: {scrape_interval: 200ms}\nrule_files: ["%s/rules.yml"]\nscrape_configs:\n' "$dir"
    for i in 1 2 3 4; do
        printf -- '- job_name: job%s\n  static_configs: [{targets: ["%s", "127.0.0.1:1"]}]\n' "$i" "$exporter"
    done
} >"$dir/prometheus.yml"

# is_ready NAME: the engine is ready or has ended.
is_ready() { grep -q 'is ready' "$dir/$1.log" || ! kill -0 "$engine"; }
# start NAME DIR: starts an engine with this log and storage. Sets engine and url.
start() {
    : >"$dir/$1.log" # not the last life's, which was ready
    "$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 --storage.path="$2" \
        >>"$dir/$1.log" 2>&1 &
    engine=$!
    echo "$engine" >"$dir/$1.pid"
    soon is_ready "$1" && kill -0 "$engine" || { echo "$1 does not start"; return 1; }
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/$1.log" | head -n 1)
}
# kill_engine NAME: sends SIGKILL.
kill_engine() {
    kill -9 "$engine"
    wait "$engine" 2>/dev/null || true
    rm "$dir/$1.pid"
}
# ask QUERY TIME
ask() { curl -sS "$url/api/v1/query" --data-urlencode "query=$1" --data-urlencode "time=$2" | jq -r '.data.result[].value[1]'; }
# settled TIME: all targets and rules have samples newer than TIME, so older samples are complete.
settled() {
    [ "$(ask "count(timestamp(up) > $1)" "$(date +%s.%N)")" = 8 ] &&
        [ "$(ask "count(timestamp({__name__=\"gpu:util:avg\"}) > $1)" "$(date +%s.%N)")" = 8 ]
}
# newest_log DIR: its name and size.
newest_log() { stat -c '%n %s' "$1"/wal/wal-* | tail -n 1; }
log_has_grown() { [ "$(newest_log "$1")" != "$2" ]; }
# written DIR: waits until all present samples are in the log. The log is written once a second.
written() { soon log_has_grown "$1" "$(newest_log "$1")"; }
