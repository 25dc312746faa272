#!/bin/sh
# remote_write in both versions: samples, exemplars and metadata arrive at another engine and, where
# it has been built, at a Prometheus 3. What is sent is compared with that of Prometheus.
. "$(dirname "$0")/lib.sh"
need curl jq python3

port=$(free_port)
python3 -B "$source/tests/differential/remote_write.py" "$port" >"$dir/peer.log" 2>&1 &
pids="$pids $!"
peer=http://127.0.0.1:$port
wait_for "the target is ready" curl -sSf "$peer/metrics"
printf 'scrape_configs: []\n' >"$dir/receiver.yml"
# start_engine NAME FLAGS…: sets $url.
start_engine() {
    name=$1
    shift
    "$gpuscale" engine --config.file="$dir/$name.yml" --web.listen-address=127.0.0.1:0 --enable-feature=exemplar-storage "$@" >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
    wait_for "the $name is ready" grep -q 'is ready' "$dir/$name.log"
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/$name.log")
}
start_engine receiver --web.enable-remote-write-receiver
receiver=$url
cache=$(GPUSCALE_PROMETHEUS3_VERSION=v3.16.0 "$source/tests/differential/prometheus3.sh" --no-build 2>/dev/null) || cache=
# start_prometheus NAME FLAGS…: sets $prometheus.
start_prometheus() {
    name=$1
    shift
    prometheus=http://127.0.0.1:$(free_port)
    "$cache/prometheus" --config.file="$dir/$name.yml" --web.listen-address="${prometheus#http://}" --storage.tsdb.path="$dir/$name" \
        --enable-feature=exemplar-storage,metadata-wal-records "$@" >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
    wait_for "$name is ready" curl -sSf "$prometheus/-/ready"
}
prometheus=
if [ "$cache" ]; then
    cp "$dir/receiver.yml" "$dir/prometheus.yml"
    start_prometheus prometheus --web.enable-remote-write-receiver
fi

# remote NAME URL SITE MESSAGE
remote() {
    cat <<Y
- name: $1
  url: $2
  protobuf_message: $4
  send_exemplars: true
  metadata_config: {send: false}
  queue_config: {batch_send_deadline: 500ms, max_samples_per_send: 10}
  write_relabel_configs: [{target_label: site, replacement: $3}]
Y
}
v1=prometheus.WriteRequest
v2=io.prometheus.write.v2.Request
# config NAME
config() {
    printf 'global: {scrape_interval: 1s}\nscrape_configs:\n- {job_name: t, static_configs: [{targets: ["127.0.0.1:%s"]}]}\nremote_write:\n' "$port"
    remote v1 "$peer/write/$1-v1" "$1" $v1
    remote v2 "$peer/write/$1-v2" "$1" $v2
}
{
    config sender
    remote engine1 "$receiver/api/v1/write" v1 $v1
    remote engine2 "$receiver/api/v1/write" v2 $v2
    [ ! "$prometheus" ] || remote prometheus1 "$prometheus/api/v1/write" v1 $v1
    [ ! "$prometheus" ] || remote prometheus2 "$prometheus/api/v1/write" v2 $v2
} >"$dir/sender.yml"
"$gpuscale" check config "$dir/sender.yml" >"$dir/check" 2>&1 || fail "check config"
! grep -i warn "$dir/check" || fail "check config warns"
start_engine sender
sender=$url

# has URL QUERY; exemplars URL SITE
has() { curl -sS -G "$1/api/v1/query" --data-urlencode "query=$2" | jq -e '.data.result | length > 0' >/dev/null; }
exemplars() {
    curl -sS -G "$1/api/v1/query_exemplars" --data-urlencode "query={site=\"$2\"}" -d "start=$(($(date +%s) - 3600))" -d "end=$(($(date +%s) + 60))" |
        jq -c '[.data[] | [.seriesLabels.__name__, (.exemplars[0] | .labels, .value)]] | sort'
}
want='[["latency_seconds_bucket",{"trace_id":"def"},"0.05"],["requests_total",{"span_id":"1","trace_id":"abc"},"0.5"]]'
arrived() { has "$1" "count_over_time(queue{site=\"$2\"}[1m]) >= 3" && [ "$(exemplars "$1" "$2")" = "$want" ]; }
for site in v1 v2; do
    for to in $receiver $prometheus; do
        wait_for "samples and exemplars of $site at $to" arrived "$to" $site
    done
done
curl -sS "$sender/metrics" >"$dir/metrics"
! grep -E '^prometheus_remote_storage_[a-z]*_(failed|retried)_total' "$dir/metrics" | grep -v ' 0$' || fail "the sender lacks what it has sent"
! grep 'remote_write:' "$dir/sender.log" || fail "the sender reports problems"
curl -sS "$receiver/metrics" | grep -q '^gpuscale_remote_write_received_refused_samples_total 0$' || fail "samples were refused"
echo "ok: samples and exemplars arrive in both versions"

# What is sent in version 2.0: series of the target by name, with metadata.
sent() { curl -sS "$peer/received/$1" | jq -S '.series | with_entries(.key |= (fromjson | del(.site) | tojson)) | with_entries(select(.key | test("scrape_|\"up\"") | not))'; }
sent sender-v2 >"$dir/sent"
jq -e 'to_entries | map(select(.value.metadata)) | length == 11' "$dir/sent" >/dev/null || { cat "$dir/sent"; fail "metadata of the series"; }
jq -e 'map(select(.metadata == ["counter", "Requests.\nWith \"quotes\".", ""])) | length == 2' "$dir/sent" >/dev/null || fail "metadata of the counter"
curl -sS "$peer/received/sender-v2" | jq -e '.requests == [["application/x-protobuf;proto=io.prometheus.write.v2.Request", "snappy", "2.0.0"]]' >/dev/null || fail "headers of 2.0"
curl -sS "$peer/received/sender-v1" | jq -e '.requests == [["application/x-protobuf", "snappy", "0.1.0"]]' >/dev/null || fail "headers of 1.0"
echo "ok: metadata is sent in version 2.0"

# Prometheus 2.42 reads an empty message of 2.0 and answers 204.
if prometheus --version 2>/dev/null | grep -q 'version 2\.4'; then
    old=http://127.0.0.1:$(free_port)
    prometheus --config.file="$dir/receiver.yml" --web.listen-address="${old#http://}" --storage.tsdb.path="$dir/old" \
        --web.enable-remote-write-receiver >"$dir/old.log" 2>&1 &
    pids="$pids $!"
    wait_for "the old Prometheus is ready" curl -sSf "$old/-/ready"
    {
        printf 'global: {scrape_interval: 1s}\nscrape_configs:\n- {job_name: t, static_configs: [{targets: ["127.0.0.1:%s"]}]}\nremote_write:\n' "$port"
        remote old "$old/api/v1/write" old $v2
        remote none "$old/nothing" none $v2
    } >"$dir/fallback.yml"
    start_engine fallback
    wait_for "samples in 1.0" has "$old" 'count_over_time(queue{site="old"}[1m]) >= 3'
    sleep 3
    curl -sS "$url/metrics" >"$dir/metrics"
    lacks() { ! grep -E "$1" "$dir/metrics"; }
    lacks '^prometheus_remote_storage_samples_failed_total\{remote_name="old".* [1-9]' || fail "samples are lost"
    ! lacks '^gpuscale_remote_write_protocol_info\{remote_name="old".*,version="1.0"\} 1$' || fail "the version in use"
    ! lacks '^gpuscale_remote_write_refused_samples_total\{reason="not_found",remote_name="none".* [1-9]' || fail "the reason"
    [ "$(grep -c 'does not support remote write 2.0' "$dir/fallback.log")" = 1 ] || fail "the log of the fallback"
    [ "$(grep -c 'status 404, ' "$dir/fallback.log")" = 1 ] || fail "the log of refused samples"
    echo "ok: samples are sent with 1.0 to a receiver without 2.0"
fi

[ "$cache" ] || { echo "no Prometheus 3.16 has been built (make peers)"; exit 0; }
config other >"$dir/other.yml"
start_prometheus other
for version in v1 v2; do
    same() {
        sent sender-$version >"$dir/sent"
        sent other-$version >"$dir/want"
        [ "$(jq length "$dir/want")" = 12 ] && diff "$dir/want" "$dir/sent" >"$dir/diff"
    }
    wait_same "$version differs from Prometheus"
    curl -sS "$peer/received/sender-$version" | jq -c .requests >"$dir/sent"
    curl -sS "$peer/received/other-$version" | jq -c .requests >"$dir/want"
    diff "$dir/want" "$dir/sent" || fail "headers of $version differ from those of Prometheus"
done
echo "ok: Prometheus sends the same series, exemplars and metadata"
