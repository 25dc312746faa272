#!/bin/sh
# Every duration of a configuration with 0, negative, very short and very long values: it is refused with a text that
# names it, or the program works and its other work goes on.
. "$(dirname "$0")/lib.sh"
need curl jq

cd "$dir"
mkdir -p rules

# The durations of prometheus.yml, with V for the value: the section, and its entry.
cat >options <<'EOF'
scrape_interval|global|{scrape_interval: V}
scrape_timeout|global|{scrape_interval: 10s, scrape_timeout: V}
evaluation_interval|global|{evaluation_interval: V}
rule_query_offset|global|{rule_query_offset: V}
scrape_interval|scrape_configs|{job_name: N, scrape_interval: V, static_configs: [{targets: ['127.0.0.1:1']}]}
scrape_timeout|scrape_configs|{job_name: N, scrape_interval: 10s, scrape_timeout: V, static_configs: [{targets: ['127.0.0.1:1']}]}
refresh_interval|scrape_configs|{job_name: N, file_sd_configs: [{files: [none.json], refresh_interval: V}]}
refresh_interval|scrape_configs|{job_name: N, http_sd_configs: [{url: 'http://127.0.0.1:1/', refresh_interval: V}]}
refresh_interval|scrape_configs|{job_name: N, dns_sd_configs: [{names: [localhost], type: A, port: 1, refresh_interval: V}]}
timeout|alertmanagers|{timeout: V, static_configs: [{targets: ['127.0.0.1:1']}]}
remote_timeout|remote_write|{name: N, url: 'http://127.0.0.1:1/', remote_timeout: V}
batch_send_deadline|remote_write|{name: N, url: 'http://127.0.0.1:1/', queue_config: {batch_send_deadline: V}}
min_backoff|remote_write|{name: N, url: 'http://127.0.0.1:1/', queue_config: {min_backoff: V, max_backoff: V}}
max_backoff|remote_write|{name: N, url: 'http://127.0.0.1:1/', queue_config: {min_backoff: 0s, max_backoff: V}}
sample_age_limit|remote_write|{name: N, url: 'http://127.0.0.1:1/', queue_config: {sample_age_limit: V}}
send_interval|remote_write|{name: N, url: 'http://127.0.0.1:1/', metadata_config: {send_interval: V}}
remote_timeout|remote_read|{url: 'http://127.0.0.1:1/', remote_timeout: V}
out_of_order_time_window|storage|{tsdb: {out_of_order_time_window: V}}
EOF
cat >rule_options <<'EOF'
interval|{name: N, interval: V, rules: [{record: a, expr: '1'}]}
query_offset|{name: N, query_offset: V, rules: [{record: a, expr: '1'}]}
for|{name: N, rules: [{alert: A, expr: '1', for: V}]}
keep_firing_for|{name: N, rules: [{alert: A, expr: '1', keep_firing_for: V}]}
EOF

# with VALUE ITEM NUMBER: the entry with this value and a name of its own.
with() { echo "$2" | sed "s/\bV\b/$1/g; s/\bN\b/n$3/g"; }
# refused_if_impossible VALUE NAME CODE: the text of the last check is in out.txt.
refused_if_impossible() {
    case $1 in
    -1s | 1ns | 1000y | 290y) [ "$3" != 0 ] || fail "$2: $1 is accepted" ;;
    esac
    [ "$3" -lt 124 ] || fail "$2: $1: the check ended with $3"
    [ "$3" = 0 ] || grep -qi "duration\|$(echo "$2" | tr _ .)" out.txt || fail "$2: $1: the error does not name it: $(cat out.txt)"
}
section() {
    case $1 in
    global | storage) echo "$1: $2" ;;
    alertmanagers) echo "alerting: {alertmanagers: [$2]}" ;;
    *) echo "$1: [$2]" ;;
    esac
}

# Entries that are accepted with a value go into entries.VALUE and rules.VALUE.
for value in 0s 0 1ms 100y -1s 1ns 290y 1000y ''; do
    n=0
    : >"entries.$value"
    : >"rules.$value"
    while IFS='|' read -r name section item; do
        n=$((n + 1)) code=0
        item=$(with "$value" "$item" "$n")
        section "$section" "$item" >prometheus.yml
        "$gpuscale" check config prometheus.yml >out.txt 2>&1 || code=$?
        refused_if_impossible "$value" "$name" "$code"
        [ "$code" != 0 ] || echo "$section|$item" >>"entries.$value"
    done <options
    while IFS='|' read -r name item; do
        n=$((n + 1)) code=0
        item=$(with "$value" "$item" "$n")
        echo "groups: [$item]" >rules.yml
        "$gpuscale" check rules rules.yml >out.txt 2>&1 || code=$?
        refused_if_impossible "$value" "$name" "$code"
        [ "$code" != 0 ] || echo "- $item" >>"rules.$value"
    done <rule_options
done
[ "$(wc -l <entries.0s)" -gt 8 ] && [ "$(wc -l <entries.100y)" -gt 8 ] || fail "the options are not read"

# One engine has all accepted entries of a value. It scrapes itself meanwhile.
works() { curl -sSfG "$url/api/v1/query" --data-urlencode "query=$1" | jq -e '.data.result[0].value[1] | tonumber > 0' >/dev/null; }
entries() { sed -n "s/^$2|\(.*\)/- \1/p" "entries.$1"; }
# runs VALUE: until it has scraped and evaluated rules. Then it ends in order.
runs() {
    {
        echo 'rule_files: [rules/*.yml]'
        echo 'global: {evaluation_interval: 200ms}'
        echo 'scrape_configs:'
        echo "- {job_name: self, scrape_interval: 200ms, file_sd_configs: [{files: [self.json], refresh_interval: 1s}]}"
        entries "$1" scrape_configs
        echo 'alerting:' && echo '  alertmanagers:' && entries "$1" alertmanagers | sed 's/^/  /'
        echo 'remote_write:' && entries "$1" remote_write
    } >engine.yml
    {
        echo 'groups:'
        echo "- {name: own, rules: [{record: own, expr: 'vector(1)'}]}"
        cat "rules.$1"
    } >rules/r.yml
    : >"$dir/engine.log"
    echo '[]' >self.json
    "$gpuscale" engine --config.file engine.yml --storage.remote.flush-deadline 0s --web.listen-address 127.0.0.1:0 >"$dir/engine.log" 2>&1 &
    engine=$!
    pids="$pids $engine"
    # By the log of this engine: only then it handles signals, whoever answers on a port.
    wait_for "the engine with $1 is ready" grep -q 'is ready' "$dir/engine.log"
    url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")
    echo "[{\"targets\": [\"${url#http://}\"]}]" >self.json
    wait_for "scrapes go on with $1" works 'count_over_time(up{job="self"}[1h]) > 3'
    wait_for "rules go on with $1" works 'count_over_time(own[1h]) > 3'
    kill -TERM "$engine"
    wait "$engine" || fail "the engine with $1 ended with $?"
}
for value in 0s 1ms 100y; do runs "$value"; done

# --- flags: each refuses what is negative and what cannot be added to a time ---

n=0
for command in $("$gpuscale" help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    for flag in $("$gpuscale" "$command" --help-all | sed -n 's/^  --\([a-z.-]*\)=DURATION.*/\1/p'); do
        [ "$command $flag" != "query step" ] || continue # read with the other parameters of a query
        n=$((n + 1))
        for value in -1s 1000y 880000h; do
            code=0
            timeout 60 "$gpuscale" "$command" "--$flag=$value" >out.txt 2>&1 </dev/null || code=$?
            ! grep -q 'accepted without effect' out.txt || continue
            [ "$code" = 2 ] && grep -q -- "--$flag" out.txt || fail "$command --$flag=$value: $code: $(cat out.txt)"
        done
    done
done
[ "$n" -gt 30 ] || fail "the flags are not read: $n"
for flag in 'up --horizontal-pod-autoscaler-sync-period' 'hpa --horizontal-pod-autoscaler-sync-period' 'up --scan-interval' 'adapter --metrics-relist-interval' \
    'exporter --pod-resources-interval' 'exporter --driver-timeout' 'engine --query.timeout' 'engine --query.lookback-delta' 'engine --config.auto-reload-interval' \
    'engine --storage.tsdb.retention.time' 'top --interval' 'top --timeout'; do
    for value in 0s 1ns; do
        code=0
        # shellcheck disable=SC2086
        timeout 60 "$gpuscale" $flag=$value >out.txt 2>&1 </dev/null || code=$?
        [ "$code" = 2 ] && grep -q 'at least\|want' out.txt || fail "$flag=$value: $code: $(cat out.txt)"
    done
done
