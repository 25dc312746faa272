#!/bin/sh
# Every duration of a configuration with 0, negative, very short and very long values: it is refused with a text that
# names it, or the program works and its other work goes on.
. "$(dirname "$0")/lib.sh"
need curl jq

cd "$dir"
mkdir -p rules

# The durations of prometheus.yml and rule files, with V for the value.
cat >options <<'EOF'
scrape_interval|global: {scrape_interval: V}
scrape_timeout|global: {scrape_interval: 10s, scrape_timeout: V}
evaluation_interval|global: {evaluation_interval: V}
rule_query_offset|global: {rule_query_offset: V}
scrape_interval|scrape_configs: [{job_name: x, scrape_interval: V}]
scrape_timeout|scrape_configs: [{job_name: x, scrape_interval: 10s, scrape_timeout: V}]
refresh_interval|scrape_configs: [{job_name: x, file_sd_configs: [{files: [none.json], refresh_interval: V}]}]
refresh_interval|scrape_configs: [{job_name: x, http_sd_configs: [{url: 'http://127.0.0.1:1/', refresh_interval: V}]}]
refresh_interval|scrape_configs: [{job_name: x, dns_sd_configs: [{names: [localhost], type: A, port: 1, refresh_interval: V}]}]
timeout|alerting: {alertmanagers: [{timeout: V, static_configs: [{targets: ['127.0.0.1:1']}]}]}
remote_timeout|remote_write: [{url: 'http://127.0.0.1:1/', remote_timeout: V}]
batch_send_deadline|remote_write: [{url: 'http://127.0.0.1:1/', queue_config: {batch_send_deadline: V}}]
min_backoff|remote_write: [{url: 'http://127.0.0.1:1/', queue_config: {min_backoff: V, max_backoff: V}}]
max_backoff|remote_write: [{url: 'http://127.0.0.1:1/', queue_config: {min_backoff: 0s, max_backoff: V}}]
sample_age_limit|remote_write: [{url: 'http://127.0.0.1:1/', queue_config: {sample_age_limit: V}}]
send_interval|remote_write: [{url: 'http://127.0.0.1:1/', metadata_config: {send_interval: V}}]
remote_timeout|remote_read: [{url: 'http://127.0.0.1:1/', remote_timeout: V}]
out_of_order_time_window|storage: {tsdb: {out_of_order_time_window: V}}
EOF
cat >rule_options <<'EOF'
interval|groups: [{name: g, interval: V, rules: [{record: a, expr: '1'}]}]
query_offset|groups: [{name: g, query_offset: V, rules: [{record: a, expr: '1'}]}]
for|groups: [{name: g, rules: [{alert: A, expr: '1', for: V}]}]
keep_firing_for|groups: [{name: g, rules: [{alert: A, expr: '1', keep_firing_for: V}]}]
EOF
for value in 0s 0 1ms 100y -1s 1ns 1000y ''; do
    while IFS='|' read -r name text; do
        echo "$text" | sed "s/\bV\b/$value/g" >prometheus.yml
        code=0
        "$gpuscale" check config prometheus.yml >out.txt 2>&1 || code=$?
        case $value in
        -1s | 1ns | 1000y) [ "$code" != 0 ] || fail "$name: $value is accepted: $text" ;;
        esac
        [ "$code" -lt 128 ] || fail "$name: $value: check config ended with $code: $text"
        [ "$code" = 0 ] || grep -qi "duration\|$(echo "$name" | tr _ .)" out.txt || fail "$name: $value: the error does not name it: $(cat out.txt)"
    done <options
    while IFS='|' read -r name text; do
        echo "$text" | sed "s/\bV\b/$value/g" >rules.yml
        code=0
        "$gpuscale" check rules rules.yml >out.txt 2>&1 || code=$?
        case $value in
        -1s | 1ns | 1000y) [ "$code" != 0 ] || fail "$name: $value is accepted: $text" ;;
        esac
        [ "$code" -lt 128 ] || fail "$name: $value: check rules ended with $code: $text"
    done <rule_options
done

# The accepted ones: the engine scrapes itself meanwhile.
works() { curl -sSfG http://127.0.0.1:9390/api/v1/query --data-urlencode "query=$1" | jq -e '.data.result[0].value[1] | tonumber > 0' >/dev/null; }
for value in 0s 1ms 100y; do
    n=0
    while IFS='|' read -r name text; do
        case $text in global:* | storage:* | remote_read:*) continue ;; esac
        n=$((n + 1))
        {
            echo "$text" | sed "s/\bV\b/$value/g" | grep -v '^scrape_configs' || true
            printf 'rule_files: [rules/*.yml]\nscrape_configs:\n'
            echo "- {job_name: self, scrape_interval: 200ms, static_configs: [{targets: ['127.0.0.1:9390']}]}"
            echo "$text" | sed -n "s/\bV\b/$value/g; s/^scrape_configs: \[\(.*\)\]$/- \1/p"
        } >"engine.yml"
        "$gpuscale" check config engine.yml >out.txt 2>&1 || continue
        "$gpuscale" engine --config.file engine.yml --storage.remote.flush-deadline 0s --web.listen-address 127.0.0.1:9390 >"$dir/engine.log" 2>&1 &
        engine=$!
        pids="$pids $engine"
        wait_for "scrapes go on with $name $value" works 'count_over_time(up{job="self"}[1h]) > 3'
        kill -TERM "$engine"
        wait "$engine" || fail "the engine with $name $value ended with $?"
    done <options
    [ "$n" -gt 10 ] || fail "the options are not read"
    while IFS='|' read -r name text; do
        echo "$text" | sed "s/\bV\b/$value/g" >rules/r.yml
        "$gpuscale" check rules rules/r.yml >out.txt 2>&1 || continue
        echo "{rule_files: ['rules/*.yml'], global: {evaluation_interval: 200ms}, scrape_configs: [{job_name: self, scrape_interval: 200ms, static_configs: [{targets: ['127.0.0.1:9390']}]}]}" >engine.yml
        "$gpuscale" engine --config.file engine.yml --storage.remote.flush-deadline 0s --web.listen-address 127.0.0.1:9390 >"$dir/engine.log" 2>&1 &
        engine=$!
        pids="$pids $engine"
        wait_for "scrapes go on with the rule's $name $value" works 'count_over_time(up{job="self"}[1h]) > 3'
        kill -TERM "$engine"
        wait "$engine" || fail "the engine with the rule's $name $value ended with $?"
    done <rule_options
    rm -f rules/r.yml
done

# --- flags: each refuses what is negative and what cannot be added to a time ---

n=0
for command in $("$gpuscale" help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
    for flag in $("$gpuscale" "$command" --help | sed -n 's/^  --\([a-z.-]*\)=DURATION.*/\1/p'); do
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
