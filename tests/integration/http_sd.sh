#!/bin/sh
# http_sd_configs: the engine and a Prometheus 3 must create the same targets from the same lists,
# keep them on the same failures, and report the same errors in configurations.
. "$(dirname "$0")/pages_lib.sh"

printf 'global: {scrape_interval: 5m}\nscrape_configs:\n' >"$dir/prometheus.yml"
json=application/json
# job NAME TYPE [SETTINGS]: adds a job with a list. The body is read from stdin.
job() {
    page "$1" "$2"
    printf -- '- {job_name: %s, http_sd_configs: [{url: "http://%s/%s?x=%%20y", refresh_interval: 1s%s}]}\n' \
        "$1" "$pages" "$1" "${3:+, $3}" >>"$dir/prometheus.yml"
}
# Valid and invalid lists.
echo '[{"targets":["a:1","b"],"labels":{"x":"1","__meta_y":"z","__meta_url":"lie"}},{"targets":["c:1"]}]' | job plain "$json"
echo '[{"targets":["a:1"]}]' | job charset 'Application/JSON; charset="UTF-8"'
echo '[{"targets":["a:1"]}]' | job latin 'application/json; charset=latin1'
echo '[{"targets":["a:1"]}]' | job text text/plain
echo '[{"targets":["a:1"]},null]' | job null_group "$json"
echo 'null' | job null_list "$json"
echo '{"targets":["a:1"]}' | job no_list "$json"
echo '[{"targets":["a:1"],"more":1}]' | job unknown_field "$json"
echo '[{"targets":["a:1"],"labels":{"n":5}}]' | job number "$json"
echo '[{"targets":[1]}]' | job number_target "$json"
echo '[{"targets":["a:1"],"labels":{"":"x"}}]' | job empty_name "$json"
echo '[{"targets":["a:1"],"labels":{"ü.x":"y"}}]' | job utf8_name "$json"
echo '[{"labels":{"a":"b"}},{},{"targets":null,"labels":null},{"targets":["d:1","d:1"]}]' | job gaps "$json"
echo '[{"targets":["a:1"]}] []' | job two_documents "$json"
printf -- '- {job_name: none, http_sd_configs: [{url: "http://%s/there_is_none"}], static_configs: [{targets: [s]}]}\n' "$pages" >>"$dir/prometheus.yml"
echo '[{"targets":["a:1"]}]' | page both "$json"
printf -- '- {job_name: both, http_sd_configs: [{url: "http://%s/both"}, {url: "http://%s/plain"}], relabel_configs: [{source_labels: [__meta_url], target_label: from}, {source_labels: [__address__], regex: c.*, action: drop}]}\n' "$pages" "$pages" >>"$dir/prometheus.yml"
start_both "$cache/prometheus"

# about URL: without the refreshes of gaps, which Prometheus no longer counts after a reload has changed its discovery
about() {
    curl -sS "$1/api/v1/targets" >"$dir/targets"
    jq -cS '.data.activeTargets[] | [.scrapePool, .scrapeUrl, .labels, .discoveredLabels]' "$dir/targets" | sort
    jq -cS '.data.droppedTargets[], .data.droppedTargetCounts' "$dir/targets" | sort
    curl -sS "$1/metrics" | sed -n '/^prometheus_sd_discovered_targets.*scrape/p; /^prometheus_sd_http_failures_total/s/ .*//p; /^prometheus_sd_refresh_.*http/s/ [^ ]*$//p' | grep -v 'quantile\|refresh.*"gaps"' | sort
}
compare 'lists at the start' 'job":"plain"'
for j in latin text null_group no_list unknown_field number number_target empty_name two_documents; do
    ! grep -q "\"job\":\"$j\"" "$dir/got" || fail "the list of $j is taken"
done

# One list shrinks and then becomes invalid. Its last targets are kept while another list changes.
echo '[{"targets":["e:1"]}]' | page plain "$json"
compare 'a shorter list' 'instance":"e:1"'
echo 'broken' | page plain "$json"
echo '[{"targets":["m:1"],"labels":{"mark":"one"}}]' | page charset "$json"
compare 'a broken list' 'mark":"one"'
grep -q 'instance":"e:1"' "$dir/got" || fail "a broken list took its targets away"
rm "$dir/pages/plain"
echo '[{"targets":["m:1"],"labels":{"mark":"two"}}]' | page charset "$json"
compare 'no list' 'mark":"two"'
grep -q 'instance":"e:1"' "$dir/got" || fail "a server's error took its targets away"
echo '[]' | page plain "$json"
wait_for "an empty list is taken" sh -c "! curl -sS $ours/api/v1/targets | grep -q e:1"
failures() { curl -sS "$1/metrics" | awk '/^prometheus_sd_http_failures_total/ { print $2 }'; }
[ "$(failures "$ours")" -gt 8 ] || fail "failures are not counted"
grep -qx "$json" "$dir/accept/plain" || fail "JSON is not requested"

# A reload with another list: common targets are kept, others are removed.
sed -i "s#http://$pages/gaps#http://$pages/utf8_name#" "$dir/prometheus.yml"
kill -HUP $both
compare 'another list after a reload' '"job":"gaps","ü.x"'

# Both programs must accept the configuration, or reject it with the same error.
U='url: "http://h/x"'
for s in "$U" '' 'url: ""' 'url: /x' 'url: "ftp://h/"' 'url: "HTTPS://h"' 'url: "http:///x"' 'url: "http://h:x/"' 'url: h' 'url: "http:x"' 'url: null' \
    "$U, refresh_interval: 5s" "$U, refresh_interval: 5" "$U, refresh_interval: ''" "$U, port: 1" "$U, basic_auth: {username: a, password: b}" \
    "$U, basic_auth: {username: a, password: b}, bearer_token: c" "$U, authorization: {type: basic}" "$U, authorization: {credentials: x}" \
    "$U, bearer_token: a, bearer_token_file: b" "$U, proxy_url: 'http://p'" "$U, no_proxy: a" "$U, tls_config: {insecure_skip_verify: true}" \
    "$U, tls_config: {ca: x, ca_file: y}" "$U, follow_redirects: false, enable_http2: false" "$U, http_headers: {X-A: {values: [b]}}" \
    "$U, http_headers: {Host: {values: [b]}}" "$U, proxy_url: 'http://p', no_proxy: a"; do
    config "scrape_configs: [{job_name: a, http_sd_configs: [{$s}]}]"
    config "alerting: {alertmanagers: [{http_sd_configs: [{$s}]}]}"
done
for s in '[]' null '[null]' '{}' 'x' "{$U}"; do
    config "scrape_configs: [{job_name: a, http_sd_configs: $s}]"
done
echo "ok: $checked configurations are accepted or rejected by both"
