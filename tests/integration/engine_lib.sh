# For tests of a stored engine: a simulated exporter that an engine scrapes five times a second, as
# four jobs with rules. Sources lib.sh.
. "$(dirname "$0")/lib.sh"
need curl jq

export GPUSCALE_SIM=/gpuscale-engine-$$
also_remove=/dev/shm$GPUSCALE_SIM
"$gpuscale" exporter --simulate 8xA100-SXM4-80GB --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for 20 "the simulated exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
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

# start NAME DIR: the engine with this log and storage; sets engine and url.
start() {
    : >"$dir/$1.log" # not the last life's, which was ready
    "$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 --storage.path="$2" \
        >>"$dir/$1.log" 2>&1 &
    engine=$!
    echo "$engine" >"$dir/$1.pid"
    deadline=$(($(date +%s) + 60))
    until grep -q 'is ready' "$dir/$1.log"; do
        if [ "$(date +%s)" -ge "$deadline" ] || ! kill -0 "$engine"; then
            echo "$1 does not start"
            return 1
        fi
        sleep 0.05
    done
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/$1.log" | head -n 1)
}
# kill_engine NAME: with signal 9.
kill_engine() {
    kill -9 "$engine"
    wait "$engine" 2>/dev/null || true
    rm "$dir/$1.pid"
}
# ask QUERY TIME
ask() { curl -sS "$url/api/v1/query" --data-urlencode "query=$1" --data-urlencode "time=$2" | jq -r '.data.result[].value[1]'; }
