#!/bin/sh
# Limits of scrapes: the engine and Debian's Prometheus scrape the same exporter with the same
# limits, and must have the same series about scrapes.
. "$(dirname "$0")/lib.sh"
need curl jq prometheus

own_gpus limits
"$gpuscale" exporter --simulate 2xTesla-T4 --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for "the simulated exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
exporter=$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)
lines() { curl -sSf "http://$exporter/metrics" | grep -vc '^#'; }
wait_for "it has metrics" lines
count=$(lines)

# job NAME SETTINGS…: one setting per line.
job() {
    printf -- '- job_name: %s\n  static_configs: [{targets: ["%s"]}]\n' "$1" "$exporter"
    shift
    for setting in "$@"; do printf '  %s\n' "$setting"; done
}
{
    echo 'global: {scrape_interval: 1s}'
    echo 'scrape_configs:'
    job plain
    job enough "sample_limit: $count" 'label_limit: 64' 'label_name_length_limit: 200' 'label_value_length_limit: 2000' 'body_size_limit: 10MB'
    job samples "sample_limit: $((count - 1))"
    job one_sample 'sample_limit: 1'
    job dropped 'sample_limit: 5' 'metric_relabel_configs: [{source_labels: [__name__], regex: DCGM_FI_DEV_GPU_UTIL, action: keep}]'
    job labels 'label_limit: 4'
    job name_length 'label_name_length_limit: 5'
    job value_length 'label_value_length_limit: 10'
    job body 'body_size_limit: 100B'
    job wrong_path 'metrics_path: /nothing'
    printf -- '- job_name: targets\n  target_limit: 1\n  static_configs: [{targets: ["%s", "127.0.0.1:1"]}]\n' "$exporter"
    printf -- '- job_name: enough_targets\n  target_limit: 2\n  static_configs: [{targets: ["%s", "127.0.0.1:1"]}]\n' "$exporter"
} >"$dir/prometheus.yml"

start_both prometheus

# about URL: series about scrapes, and the number of series of each job.
about() {
    for query in '{__name__=~"up|scrape_samples_scraped|scrape_samples_post_metric_relabeling|scrape_series_added"}' \
        'count by (job) ({__name__=~"DCGM_.*"})'; do
        curl -sS -G "$1/api/v1/query" --data-urlencode "query=$query" | jq -cS '.data.result[] | [.metric, .value[1]]'
    done | sort
}
same() {
    about "$theirs" >"$dir/want"
    about "$ours" >"$dir/got"
    diff "$dir/want" "$dir/got" >"$dir/diff" && [ "$(grep -c '"up"' "$dir/want")" = 14 ]
}
wait_same "the series about the scrapes differ"
echo "ok: $(wc -l <"$dir/got") values about scrapes under limits are the same"
jq -es 'any(.[]; .[0].job == "samples" and .[0].__name__ == "up" and .[1] == "0")' "$dir/got" >/dev/null || fail "the limit of samples was not reached"

# errors URL: the last error of each target, except for connection errors and names of HTTP status
# codes.
errors() {
    curl -sS "$1/api/v1/targets" | jq -cS '.data.activeTargets[] | [.scrapePool, .health, .lastError]' | grep -v '127.0.0.1:1' |
        sed 's/404 Not Found/404/' | sort
}
same() {
    errors "$theirs" >"$dir/want"
    errors "$ours" >"$dir/got"
    diff "$dir/want" "$dir/got" >"$dir/diff"
}
wait_same "the targets' errors differ"
echo "ok: the errors of the targets are the same"
