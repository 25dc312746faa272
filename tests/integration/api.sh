#!/bin/sh
# Sends usual and unusual requests to the HTTP APIs of the engine and of a Prometheus 3 with the
# same samples and rules. The responses to each request in api_requests.txt must have the same
# status, type and body.
. "$(dirname "$0")/pages_lib.sh"

# Samples have timestamps, so that both servers store the same ones.
now=$(date +%s)
base=$((now - now % 60 - 120))
page data "$text" <<P
# HELP requests_total Requests, "all" of them.
# TYPE requests_total counter
requests_total{code="200",path="/a"} 10 ${base}000
requests_total{code="500",path="/a"} 1.5 ${base}000
requests_total{code="200",path="/b\\\\c\"d\\n"} 7e300 ${base}000
# TYPE size_bytes histogram
size_bytes_bucket{le="1"} 1 ${base}000
size_bytes_bucket{le="10"} 3 ${base}000
size_bytes_bucket{le="+Inf"} 4 ${base}000
size_bytes_sum 30 ${base}000
size_bytes_count 4 ${base}000
# HELP weird Values.
# TYPE weird gauge
weird{v="nan"} NaN ${base}000
weird{v="inf"} +Inf ${base}000
weird{v="small"} 1e-9 ${base}000
weird{v="größe"} -0 ${base}000
# TYPE "gpu.util" gauge
# UNIT "gpu.util" ratio
{"gpu.util","pod.name"="a"} 0.25 ${base}000
P
page second "$text" <<P
# HELP requests_total Another text.
# TYPE requests_total counter
requests_total{code="200",path="/a"} 20 $((base + 30))000
# TYPE only_second gauge
only_second 1 $((base + 30))000
P
# Groups are evaluated at an offset within their interval. With an interval of years, they are not
# evaluated during the test.
cat >"$dir/rules.yml" <<'R'
groups:
- name: first
  interval: 5y
  labels: {team: a}
  rules:
  - {record: 'a:sum', expr: 'sum(requests_total)', labels: {kind: x}}
  - {alert: Never, expr: 'requests_total < 0', for: 5m, keep_firing_for: 1m, labels: {severity: page}, annotations: {summary: 'none {{ $value }}'}}
- name: second
  limit: 5
  interval: 10y
  query_offset: 1m
  rules:
  - {alert: 'Never too', expr: 'vector(1) > 2'}
- {name: third, interval: 1d, rules: []}
R
sed 's/first/other/; s/second/last/; s/third/zlast/; s/Never/Other/' "$dir/rules.yml" >"$dir/more.yml"
cat >"$dir/prometheus.yml" <<Y
global: {scrape_interval: 1s, evaluation_interval: 1h, external_labels: {site: lab}}
rule_files: [rules.yml, more.yml]
scrape_configs:
- {job_name: data, metrics_path: /data, static_configs: [{targets: ["$pages"], labels: {rack: r1}}]}
- {job_name: second, metrics_path: /second, params: {a: ['b c']}, static_configs: [{targets: ["$pages"]}]}
- {job_name: down, metrics_path: /missing, static_configs: [{targets: ["$pages"]}]}
- job_name: dropped
  static_configs: [{targets: ["h:1", "h:2"], labels: {x: y}}]
  relabel_configs: [{action: drop, regex: '(.*)'}]
- {job_name: empty}
- job_name: steps
  relabel_configs:
  - {source_labels: [a, c], separator: '-', regex: '(.*)-(.*)', target_label: e, replacement: \$2}
  - {source_labels: [a], modulus: 8, target_label: shard, action: hashmod}
  - {regex: 'c', action: labeldrop}
  - {source_labels: [a], regex: drop, action: drop}
  - {source_labels: [e], target_label: big, action: uppercase}
Y
start_both "$cache/prometheus"
seen() {
    [ "$(curl -sS -G "$1/api/v1/query" --data-urlencode 'query=sum(requests_total{job!=""})' -d "time=$((base + 31))" | jq -r '.data.result[0].value[1]')" = 7e+300 ] &&
        curl -sS "$1/api/v1/query?query=only_second&time=$((base + 31))" | jq -e '.data.result | length == 1' &&
        curl -sS "$1/api/v1/targets" | jq -e '[.data.activeTargets[].health] | sort == ["down", "up", "up"]'
}
wait_for "the engine has the samples" seen "$ours"
wait_for "Prometheus has the samples" seen "$theirs"

# Removes times of evaluations and scrapes, and numbers about the server itself.
masked() {
    sed -E 's/(hand-side of the operation: )\[.*\];many/\1[];many/
        s/"(lastScrape|lastEvaluation|startTime|CWD|serverTime|lastConfigTime)":"[^"]*"/"\1":"T"/g
        s/"(lastScrapeDuration|evaluationTime)":[-+.e0-9]+/"\1":0/g
        s/"groupNextToken":"[^"]+"/"groupNextToken":"N"/g
        s/("(evalTotalTime|resultSortTime|queryPreparationTime|innerEvalTime|execQueueTime|execTotalTime)":)[-+.e0-9]+/\10/g'
}
# ask URL REQUEST OUT: writes status, type and body.
ask() {
    method=${2%% *} rest=${2#* }
    path=${rest%% *} form=
    [ "$path" = "$rest" ] || form=${rest#* }
    type=application/x-www-form-urlencoded
    curl -sS -g --max-time 120 -X "$method" ${form:+-H "Content-Type: $type" --data-raw "$form"} -o "$dir/body" -w '%{http_code} %{content_type}\n' "$1$path" >"$3"
    # Series are in the order of the store, also in /federate. Keys of objects are in the order of
    # the program.
    masked <"$dir/body" | { jq -cS 'del(.. | objects | .anchored, .smoothed, .offsetExpr, .rangeExpr, .fillValues, .samplesRead, .seriesTouched) | if .data.resultType? == "vector" then .data.result |= sort_by(.metric) elif (.data | type) == "array" and (.data[0] | type) == "object" then .data |= sort else . end' 2>/dev/null || masked <"$dir/body" | LC_ALL=C sort; } >>"$3"
}
total=0 wrong=0
while read -r request; do
    case $request in '' | '#'*) continue ;; esac
    request=$(echo "$request" | sed -e "s/@B+\([0-9]*\)/$base+\1/g" -e "s/@B/$base/g" | perl -pe 's/(\d{10})\+(\d+)/$1+$2/ge')
    total=$((total + 1))
    for try in 1 2 3 4 5; do # a scrape may come between the two
        ask "$theirs" "$request" "$dir/want"
        ask "$ours" "$request" "$dir/got"
        ! cmp -s "$dir/want" "$dir/got" || continue 2
        sleep 0.5
    done
    wrong=$((wrong + 1))
    printf '%s\n  Prometheus: %s\n  gpuscale:   %s\n' "$request" "$(head -c 1500 "$dir/want" | tr '\n' ' ')" "$(head -c 1500 "$dir/got" | tr '\n' ' ')"
done <"$source/tests/integration/api_requests.txt"
[ "$total" -gt 100 ] || fail "only $total requests"
[ "$wrong" = 0 ] || fail "$wrong of $total responses differ"
echo "ok: $total responses are the same"
