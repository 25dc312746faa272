#!/bin/sh
# The configurations of docs/beyond-one-machine.md with the real programs: an engine sends to Prometheus, Thanos, VictoriaMetrics and
# vmagent. Each must have each sample, also after an outage of AWAY seconds, and the staleness markers. With LONG=1, the receivers
# also hang for this time, and the age of the adapter's values is measured.
. "$(dirname "$0")/lib.sh"
need curl jq python3
cd "$source"
. "$source/tests/integration/docs_lib.sh"
extract docs/beyond-one-machine.md
away=${AWAY:-6}
peers=$source/tests/differential
thanos=$("$peers/go_programs.sh" thanos --no-build 2>/dev/null) || thanos=
victoria=$("$peers/go_programs.sh" victoriametrics --no-build 2>/dev/null) || victoria=
[ "$thanos$victoria" ] || skip "neither Thanos nor VictoriaMetrics has been built (make peers)"
prometheus=$(GPUSCALE_PROMETHEUS3_COMMANDS=prometheus "$peers/prometheus3.sh" --no-build 2>/dev/null) || prometheus=
[ "$prometheus" ] || command -v prometheus >/dev/null || skip "prometheus is not installed"
PATH=$prometheus:$thanos:$victoria:$PATH
receivers=prometheus
[ ! "$thanos" ] || receivers="$receivers thanos"
[ ! "$victoria" ] || receivers="$receivers victoriametrics vmagent"

# --- programs: each address of the page is a port of this machine ---

for address in exporter:9400 engine:9090 prometheus:9090 thanos-receive:19291 thanos-receive:10901 thanos-receive:10902 thanos-sidecar:10901 thanos-sidecar:10902 \
    thanos-query:10901 thanos-query:10902 victoria-metrics:8428 vmagent:8429; do
    echo "s/$address/127.0.0.1:$(free_port)/g"
done >"$dir/addresses.sed"
# at ADDRESS
at() { echo "$1" | sed -f "$dir/addresses.sed"; }
for file in "$dir"/files/*; do
    sed -f "$dir/addresses.sed" "$file" >"$dir/file"
    mv "$dir/file" "$file"
done

# begin NAME PATTERN FLAGS…: starts the command of the page that begins with PATTERN, with these additional flags.
begin() {
    name=$1 command=$(cat "$dir"/files/*.sh | grep "^$2" | sed "s#=data#=$dir/data-$name#g; s#=server.yml#=$dir/server.yml#")
    shift 2
    [ "$command" ] || fail "the page has no command for $name"
    eval "exec $command \"\$@\"" >>"$dir/$name.log" 2>&1 &
    echo $! >"$dir/$name.pid"
}
# end NAME [SIGNAL]
end() {
    kill "-${2:-TERM}" "$(cat "$dir/$1.pid")"
    wait "$(cat "$dir/$1.pid")" || true
    rm "$dir/$1.pid"
}
start_prometheus() { begin prometheus prometheus --web.listen-address="$(at prometheus:9090)" --storage.tsdb.path="$dir/data-prometheus" --log.level=warn; }
start_thanos() {
    begin thanos 'thanos receive' --http-address="$(at thanos-receive:10902)" --grpc-address="$(at thanos-receive:10901)" \
        --remote-write.address="$(at thanos-receive:19291)" --log.level=warn
}
start_thanos_query() { begin thanos_query 'thanos query' --http-address="$(at thanos-query:10902)" --grpc-address="$(at thanos-query:10901)" --log.level=warn "$@"; }
start_victoriametrics() { begin victoriametrics victoria-metrics -httpListenAddr="$(at victoria-metrics:8428)" -loggerLevel=WARN; }
start_vmagent() {
    begin vmagent vmagent -httpListenAddr="$(at vmagent:8429)" -loggerLevel=WARN -remoteWrite.label=via=vmagent \
        -remoteWrite.tmpDataPath="$dir/data-vmagent"
}
start_engine() {
    "$gpuscale" engine --config.file="$dir/engine.yml" --web.listen-address="$(at engine:9090)" >>"$dir/engine.log" 2>&1 &
    echo $! >"$dir/engine.pid"
}
start_exporter() {
    "$gpuscale" exporter --simulate 2xA100-SXM4-80GB --address "$(at exporter:9400)" >>"$dir/exporter.log" 2>&1 &
    echo $! >"$dir/exporter.pid"
}
# url RECEIVER: where its samples are queried.
url() {
    case $1 in
    prometheus) echo "http://$(at prometheus:9090)" ;;
    thanos) echo "http://$(at thanos-query:10902)" ;;
    *) echo "http://$(at victoria-metrics:8428)" ;;
    esac
}
# series RECEIVER: what selects the series that it got.
series() { case $1 in vmagent) echo '{job="gpu",via="vmagent"}' ;; victoriametrics) echo '{job="gpu",via=""}' ;; *) echo '{job="gpu"}' ;; esac }
# value URL QUERY [TIME]
value() { curl -sS -G "$1/api/v1/query" --data-urlencode "query=$2" -d "time=${3:-$(date +%s.%N)}" | jq -r '.data.result[0].value[1] // empty'; }

printf 'global: {}\n' >"$dir/server.yml"
{
    cat "$dir/files/engine.yml"
    echo 'remote_write:'
    for r in $receivers; do grep -v '^remote_write:' "$dir/files/$r.yml"; done
} >"$dir/engine.yml"
for file in "$dir"/files/*.yml "$dir/engine.yml"; do
    "$gpuscale" check config "$file" >"$dir/check.txt" 2>&1 && ! grep -i warn "$dir/check.txt" || { cat "$dir/check.txt"; fail "check config $file"; }
done
own_gpus beyond
start_exporter
for r in $receivers; do "start_$r"; done
[ ! "$thanos" ] || start_thanos_query
start_engine
engine_url=http://$(at engine:9090)

# --- every sample, also of the time of an outage ---

arrived() { [ -n "$(value "$(url "$1")" "count($(series "$1"))")" ]; }
for r in $receivers; do wait_for "samples arrive at $r" arrived "$r"; done
from=$(date +%s)
up_at() { value "$engine_url" "max(timestamp(up{job=\"gpu\"}) >= $1)"; }
# compare RECEIVER FROM TO
compare() {
    python3 -B "$source/tests/integration/compare_samples.py" "$engine_url" "$(url "$1")" "$2" "$3" '{job="gpu"}' "$(series "$1")" >"$dir/diff" 2>&1
}
# all_equal WHAT: each receiver has the samples from the start until now.
all_equal() {
    to=$(date +%s)
    later() { [ -n "$(up_at "$((to + 1))")" ]; }
    wait_for "the engine has newer samples" later
    for r in $receivers; do
        same() { compare "$r" "$from" "$to"; }
        wait_same "$r has the samples of the engine $1"
        echo "ok: $r $1: $(head -n 1 "$dir/diff")"
    done
}
sleep 3
all_equal "at first"
for r in $receivers; do end "$r"; done
sleep "$away"
for r in $receivers; do "start_$r"; done
all_equal "after an outage of $away s"
if [ "${LONG:-}" ]; then
    for r in $receivers; do kill -STOP "$(cat "$dir/$r.pid")"; done
    sleep "$away"
    for r in $receivers; do kill -CONT "$(cat "$dir/$r.pid")"; done
    all_equal "after it hung for $away s"
fi

# --- staleness: the series end with the scrape that fails ---

end exporter
# The times of the last scrape that succeeded and the first one that failed.
scrapes() {
    curl -sS -G "$engine_url/api/v1/query" --data-urlencode 'query=up{job="gpu"}[5m]' |
        jq -er '.data.result[0].values | [(map(select(.[1] == "1")) | last), (map(select(.[1] == "0")) | first) | .[0] // error] | @tsv' >"$dir/scrapes"
}
wait_for "a scrape fails" scrapes
read -r good bad <"$dir/scrapes"
for r in $receivers; do
    labels=$(series "$r" | tr -d '{}')
    has_failed() { [ "$(value "$(url "$r")" "up{$labels}" "$bad")" = 0 ]; }
    wait_for "$r has the failed scrape" has_failed
    [ -z "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$bad")" ] || fail "$r has a value of an exporter that is gone"
    [ "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$good")" = 2 ] || fail "$r lacks the values before"
done
echo "ok: the series end with the scrape that fails"
